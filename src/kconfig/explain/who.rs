//! Who gave a symbol its value.

use std::fmt;

use serde::Serialize;

use super::explainer::Ground;
use crate::kconfig::language::{Model, Probe, SymbolId, Tri};
use crate::kconfig::request::{Origin, Request, Source};
use crate::kconfig::symbols::Site;

/// Who gave a symbol its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum SetBy {
    /// A fragment's line.
    Line {
        /// Where.
        origin: Origin,
    },
    /// The base config.
    Base {
        /// Its line, from 1.
        line: u32,
    },
    /// Other symbols that are on and select it.
    Select {
        /// They, with the places that say so.
        selectors: Vec<Selector>,
    },
    /// Other symbols that are on and imply it.
    Imply {
        /// They, with the places that say so.
        selectors: Vec<Selector>,
    },
    /// Another member of its choice is on.
    Choice {
        /// That member.
        member: String,
        /// Who asked for that.
        asked: Option<Box<Self>>,
    },
    /// Its choice falls to it: no other member is asked for that can be on.
    LeftOver {
        /// The choice.
        site: Site,
    },
    /// What a program of the build's environment answered.
    Probe(Answered),
    /// A default of the Kconfig files.
    Default {
        /// Where.
        site: Site,
        /// The value, an expression with the current values in it; nothing for a plain constant.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    },
    /// No line counts, and no default does: it has no prompt, or its prompt is hidden.
    Nothing {
        /// A line that asks for something else but is not heard, because the prompt is hidden.
        #[serde(skip_serializing_if = "Option::is_none")]
        unheard: Option<Box<Self>>,
    },
    /// No Kconfig file defines it.
    Undefined,
}

/// A symbol that selects or implies another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selector {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// Its value.
    pub value: String,
    /// The line that selects.
    pub site: Site,
}

/// A probe's question and answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Where it stands.
    pub site: Site,
    /// As it stands there.
    pub probe: String,
    /// The command that was run; none where a variable of the environment is asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What came of it.
    pub answer: String,
}

impl Answered {
    pub(super) fn new(model: &Model, probe: &Probe) -> Self {
        Self {
            site: Site::new(model.tree(), probe.place),
            probe: probe.text.clone(),
            command: bare(&probe.command).to_owned(),
            answer: probe.answer.clone(),
        }
    }
}

/// The command without the frame that the tree's `$(success,...)` puts around it.
fn bare(command: &str) -> &str {
    let framed = command
        .strip_prefix("{ ")
        .and_then(|rest| rest.split_once("; } >/dev/null 2>&1 &&"));
    framed.map_or(command, |(inner, _)| inner)
}

/// Who gave the symbol its value.
pub(super) fn set_by(model: &Model, ground: &Ground<'_>, id: SymbolId) -> SetBy {
    let symbol = model.tree().symbol(id);
    if !symbol.is_defined() {
        return SetBy::Undefined;
    }
    let asked = asked(model, ground, id);
    if let Some(choice) = symbol.choice {
        let chosen = model.chosen(choice);
        return match (chosen, asked) {
            (Some(chosen), _) if chosen != id => SetBy::Choice {
                member: model.tree().symbol(chosen).name.clone(),
                asked: self::asked(model, ground, chosen).map(Box::new),
            },
            (Some(_), Some(asked)) if model.asked(id) == Some("y") => asked,
            (Some(_), _) => SetBy::LeftOver {
                site: Site::new(
                    model.tree(),
                    model.tree().node(model.tree().choice(choice).node).place,
                ),
            },
            (None, _) => SetBy::Nothing { unheard: None },
        };
    }
    let heard = model.visibility(id) != Tri::No && model.asked(id).is_some();
    let selected = model.selected(id);
    let beyond = !heard || model.asked(id) != Some(model.value(id));
    if symbol.kind.is_logic() && selected != Tri::No && selected == model.tri(id) && beyond {
        return SetBy::Select {
            selectors: selectors(model, id, true),
        };
    }
    if heard && let Some(asked) = asked {
        return asked;
    }
    if symbol.kind.is_logic() && model.tri(id) != Tri::No {
        let implying = selectors(model, id, false);
        if !implying.is_empty() {
            return SetBy::Imply {
                selectors: implying,
            };
        }
    }
    default(model, id).unwrap_or_else(|| {
        let hidden = model.asked(id).is_some_and(|value| value != "n");
        let unheard = asked.filter(|_| hidden && model.visibility(id) == Tri::No);
        SetBy::Nothing {
            unheard: unheard.map(Box::new),
        }
    })
}

/// The line that asks for a value of the symbol, whether it is heard or not.
fn asked(model: &Model, ground: &Ground<'_>, id: SymbolId) -> Option<SetBy> {
    let name = &model.tree().symbol(id).name;
    let line = |request: &&Request| request.symbol == *name && request.source == Source::Fragment;
    if let Some(request) = ground.requests.iter().rfind(line) {
        return Some(SetBy::Line {
            origin: request.origin.clone(),
        });
    }
    model.asked(id)?;
    let line = ground.base.line_of(name)?;
    Some(SetBy::Base { line })
}

fn default(model: &Model, id: SymbolId) -> Option<SetBy> {
    let default = model.default_in_force(id)?;
    let tree = model.tree();
    if let Some(probe) = tree.probes_at(default.place).next() {
        return Some(SetBy::Probe(Answered::new(model, probe)));
    }
    let term = tree.terms(default.value);
    let mut named = false;
    term.symbols(&mut |symbol| named |= !tree.symbol(symbol).constant);
    Some(SetBy::Default {
        site: Site::new(tree, default.place),
        value: (named && tree.symbol(id).kind.is_logic()).then(|| model.shown_term(&term)),
    })
}

/// The symbols that are on and select (or imply) this one.
pub(super) fn selectors(model: &Model, id: SymbolId, select: bool) -> Vec<Selector> {
    let tree = model.tree();
    let symbol = tree.symbol(id);
    let list = if select {
        &symbol.selected_by
    } else {
        &symbol.implied_by
    };
    let mut found: Vec<Selector> = Vec::new();
    for select in list.iter().filter(|s| model.demand(s) != Tri::No) {
        let name = &tree.symbol(select.by).name;
        if !found.iter().any(|known| known.symbol == *name) {
            found.push(Selector {
                symbol: name.clone(),
                value: model.value(select.by).to_owned(),
                site: Site::new(tree, select.place),
            });
        }
    }
    found
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { origin } => write!(f, "asked at {origin}"),
            Self::Base { line } => write!(f, "set by the base, line {line}"),
            Self::Select { selectors } => write!(f, "selected by {}", listed(selectors)),
            Self::Imply { selectors } => write!(f, "implied by {}", listed(selectors)),
            Self::Choice { member, asked } => {
                write!(f, "its choice has {member}")?;
                match asked {
                    Some(asked) => write!(f, ", {asked}"),
                    None => Ok(()),
                }
            }
            Self::LeftOver { site } => write!(
                f,
                "the choice at {site} falls to it: no other member is asked for and possible"
            ),
            Self::Probe(answered) => answered.fmt(f),
            Self::Default { site, value } => match value {
                Some(value) => write!(f, "the default at {site}: {value}"),
                None => write!(f, "the default at {site}"),
            },
            Self::Nothing { unheard: None } => f.write_str("nothing turns it on"),
            Self::Nothing {
                unheard: Some(asked),
            } => write!(f, "{asked}, but its prompt is hidden"),
            Self::Undefined => f.write_str("this tree does not define it"),
        }
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = if self.answer.is_empty() {
            "nothing"
        } else {
            &self.answer
        };
        write!(f, "{} at {} answered {answer}", self.probe, self.site)
    }
}

/// How many selectors a text lists.
const LISTED: usize = 4;

fn listed(selectors: &[Selector]) -> String {
    let shown = selectors.iter().take(LISTED);
    let mut texts: Vec<String> = shown
        .map(|s| format!("{} at {}", s.symbol, s.site))
        .collect();
    let more = selectors.len().saturating_sub(LISTED);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}
