//! A fix: lines to paste, and what else they would change.

use serde::Serialize;

use super::explainer::Ground;
use super::search::Goal;
use super::steps::prompts;
use crate::dotconfig::{self, Value};
use crate::kconfig::finding::Rival;
use crate::kconfig::language::{Ask, Model, SymbolId, Tri, Type};
use crate::kconfig::request::Request;

/// What makes a request hold. Every set of lines was tried and suffices; it is not said to be the
/// smallest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Fix {
    /// Lines beside the request's.
    Add {
        /// They, as a fragment has them.
        lines: Vec<String>,
        /// What else they change.
        effects: Effects,
    },
    /// Lines in place of the request's.
    Instead {
        /// They, as a fragment has them.
        lines: Vec<String>,
        /// What else they change.
        effects: Effects,
    },
    /// Lines that would do, but that other requests speak against.
    Conflict {
        /// They, as a fragment has them.
        lines: Vec<String>,
        /// The requests that would not hold.
        with: Vec<Rival>,
    },
    /// None was found.
    None,
}

/// What lines change beside what they name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Effects {
    /// Number of symbols.
    pub changed: usize,
    /// Those of them with a prompt that were on and go off, as far as told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Number of those.
    pub lost_in_all: usize,
}

/// Options that are named among those lost.
const NAMED: usize = 8;

impl Fix {
    /// The same lines in place of the request's.
    #[must_use]
    pub fn instead(self) -> Self {
        match self {
            Self::Add { lines, effects } => Self::Instead { lines, effects },
            other => other,
        }
    }

    /// The lines to write, where a way was found that breaks nothing.
    pub fn lines(&self) -> &[String] {
        match self {
            Self::Add { lines, .. } | Self::Instead { lines, .. } => lines,
            Self::Conflict { .. } | Self::None => &[],
        }
    }

    /// The fix in words, a line each.
    pub fn told(&self) -> Vec<String> {
        let (head, lines, tail) = match self {
            Self::Add { lines, effects } => ("add", lines, effects.told()),
            Self::Instead { lines, effects } => ("write instead", lines, effects.told()),
            Self::Conflict { lines, with } => {
                let with: Vec<String> = with
                    .iter()
                    .map(|rival| format!("CONFIG_{} at {}", rival.symbol, rival.origin))
                    .collect();
                let against = format!("but these requests speak against it: {}", with.join(", "));
                ("would hold with", lines, Some(against))
            }
            Self::None => return vec!["no lines were found that make it hold".to_owned()],
        };
        let head = match lines.len() {
            0 => return tail.into_iter().collect(),
            1 => format!("{head} (tried, it suffices):"),
            _ => format!("{head} (tried, a sufficient set):"),
        };
        let mut told = vec![head];
        told.extend(lines.iter().map(|line| format!("    {line}")));
        told.extend(tail);
        told
    }
}

impl Effects {
    fn told(&self) -> Option<String> {
        let symbols = match self.changed {
            0 => return None,
            1 => "1 other symbol".to_owned(),
            number => format!("{number} other symbols"),
        };
        let mut parts = vec![format!("that changes {symbols} too")];
        if !self.lost.is_empty() {
            parts.push(format!("; lost would be {}", self.lost.join(", ")));
        }
        let more = self.lost_in_all - self.lost.len();
        if more > 0 {
            parts.push(format!(" and {more} more"));
        }
        Some(parts.concat())
    }
}

/// A line as a fragment has it.
pub(super) fn line(model: &Model, ask: &Ask) -> String {
    let symbol = model.tree().symbol(ask.symbol);
    if symbol.kind == Type::Text {
        return format!("CONFIG_{}={}", symbol.name, ask.value);
    }
    dotconfig::line(&symbol.name, &Value::parse(&ask.value))
}

/// A fix by these lines.
pub(super) fn add(model: &mut Model, target: SymbolId, lines: &[Ask]) -> Fix {
    let effects = effects(model, target, lines);
    Fix::Add {
        lines: lines.iter().map(|ask| line(model, ask)).collect(),
        effects,
    }
}

fn effects(model: &mut Model, target: SymbolId, lines: &[Ask]) -> Effects {
    let changes = model.trial(lines);
    let named = |symbol: SymbolId| symbol == target || lines.iter().any(|l| l.symbol == symbol);
    let mut effects = Effects::default();
    for change in changes.iter().filter(|change| !named(change.symbol)) {
        let symbol = model.tree().symbol(change.symbol);
        let on = symbol.kind.is_logic() && model.tri(change.symbol) != Tri::No;
        let off = |line: &Option<String>| {
            line.as_ref()
                .is_none_or(|line| line.ends_with(" is not set"))
        };
        effects.changed += 1;
        let option = symbol.choice.is_none() && prompts(model, symbol).next().is_some();
        if on && off(&change.after) && option {
            effects.lost_in_all += 1;
            if effects.lost.len() < NAMED {
                effects.lost.push(symbol.name.clone());
            }
        }
    }
    effects
}

/// A fix that other requests speak against.
pub(super) fn conflict(model: &mut Model, ground: &Ground<'_>, lines: &[Ask]) -> Fix {
    let goals: Vec<(Goal, &Request)> = ground
        .requests
        .iter()
        .filter_map(|request| {
            let symbol = model.tree().find(&request.symbol)?;
            let wanted = request.wanted.clone();
            Some((Goal { symbol, wanted }, request))
        })
        .collect();
    let before: Vec<bool> = goals.iter().map(|(goal, _)| goal.met(model)).collect();
    let after: Vec<bool> = model.suppose(lines, |model, _| {
        goals.iter().map(|(goal, _)| goal.met(model)).collect()
    });
    let against = |goal: &Goal| {
        let said = lines.iter().find(|line| line.symbol == goal.symbol);
        said.is_some_and(|line| !goal.wanted.accepts(Some(&Value::parse(&line.value))))
    };
    let with = goals
        .iter()
        .zip(before.iter().zip(&after))
        .filter(|((goal, _), (before, after))| (**before && !**after) || against(goal))
        .map(|((_, request), _)| Rival {
            symbol: request.symbol.clone(),
            origin: request.origin.clone(),
        })
        .collect();
    Fix::Conflict {
        lines: lines.iter().map(|ask| line(model, ask)).collect(),
        with,
    }
}
