//! Answers about one configuration.

use serde::Serialize;

use super::fix::{self, Fix};
use super::need::{self, Need};
use super::search::{self, Goal, Keep};
use super::steps;
use super::who::{self, Answered, SetBy};
use crate::dotconfig::{DotConfig, Value};
use crate::kconfig::language::{Ask, Model, SymbolId, Tri, Type};
use crate::kconfig::probed::Probed;
use crate::kconfig::request::{Request, Source, Wanted};

/// Where the lines of a configuration come from.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// What is asked, fragments' lines and assertions.
    pub requests: &'a [Request],
    /// The base below them.
    pub base: &'a DotConfig,
}

/// Why a symbol is what it is, and what would make it what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Who gave it its value.
    pub set: SetBy,
    /// The terms that keep its prompt from allowing what was asked, the first failing one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The range that counts, where it has one: `12 25`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Whether no prompt lets a line be heard.
    pub hidden: bool,
    /// What to write.
    pub fix: Fix,
}

impl Answer {
    /// The probes to blame: those that the needs rest on, where no line makes up for them.
    pub fn probes(&self) -> Vec<&Answered> {
        match self.fix {
            Fix::None => self.needs.iter().flat_map(Need::all_probes).collect(),
            _ => Vec::new(),
        }
    }
}

/// Answers questions about one configuration.
#[derive(Debug)]
pub struct Explainer<'m> {
    model: &'m mut Model,
    ground: Ground<'m>,
    keep: Keep,
}

impl<'m> Explainer<'m> {
    /// Answers about a model that has read the base with the fragments' lines over it.
    pub fn new(model: &'m mut Model, ground: Ground<'m>) -> Self {
        let keep = Keep::new(model, ground.requests.iter());
        Self {
            model,
            ground,
            keep,
        }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.model
    }

    pub(super) fn model_mut(&mut self) -> &mut Model {
        self.model
    }

    /// What is asked.
    pub(super) fn requests(&self) -> &'m [Request] {
        self.ground.requests
    }

    /// Why a request that does not hold does not hold; nothing for an unknown symbol.
    pub fn request(&mut self, request: &Request) -> Option<Answer> {
        let id = self.symbol(&request.symbol)?;
        let fix = self.fix(id, request);
        Some(self.answer(id, &request.wanted.value, fix))
    }

    /// Why a symbol does not have a value that nobody asked for, and what would bring it about.
    pub fn wish(&mut self, symbol: &str, value: &Value) -> Option<Answer> {
        let id = self.symbol(symbol)?;
        let fix = self.fix_wish(id, value);
        Some(self.answer(id, value, fix))
    }

    /// Who gave a symbol its value, and what it lacks for `value`; no fix is searched.
    pub fn reason(&self, symbol: &str, value: &Value) -> Option<Answer> {
        let id = self.symbol(symbol)?;
        Some(self.answer(id, value, Fix::None))
    }

    /// Whether the model gives a symbol this value; off has three spellings.
    pub fn agrees(&self, symbol: &str, value: Option<&Value>) -> bool {
        let found = self
            .symbol(symbol)
            .and_then(|id| search::current(self.model, id));
        found.as_ref().unwrap_or(&Value::No) == value.unwrap_or(&Value::No)
    }

    /// The probes of programs that a symbol's value rests on: those that took it away, or all that
    /// it follows from.
    pub(in crate::kconfig) fn probes_behind(
        &self,
        symbol: &str,
        probed: &Probed<'_>,
    ) -> Vec<Answered> {
        let Some(id) = self.symbol(symbol) else {
            return Vec::new();
        };
        let fact = need::fact(self.model, &self.ground, id);
        let mut probes: Vec<Answered> = Vec::new();
        for probe in fact.all_probes() {
            if !probes.contains(probe) {
                probes.push(probe.clone());
            }
        }
        if probes.is_empty() {
            let behind = probed.behind(id).into_iter();
            return behind.map(|p| Answered::new(self.model, p)).collect();
        }
        probes
    }

    fn symbol(&self, name: &str) -> Option<SymbolId> {
        let tree = self.model.tree();
        tree.find(name).filter(|id| tree.symbol(*id).is_defined())
    }

    fn answer(&self, id: SymbolId, wanted: &Value, fix: Fix) -> Answer {
        let model = &*self.model;
        let symbol = model.tree().symbol(id);
        let value = match wanted {
            Value::Yes => Tri::Yes,
            Value::No if !symbol.kind.is_logic() => Tri::No,
            Value::No if model.tri(id) != Tri::No => Tri::No,
            _ => Tri::Mod,
        };
        let asks = |name: Type| matches!(name, Type::Int | Type::Hex);
        let range = model.range(id).filter(|_| asks(symbol.kind));
        Answer {
            set: who::set_by(model, &self.ground, id),
            needs: need::failing(model, &self.ground, id, value),
            range: range.map(|range| {
                let (low, high) = (model.value(range.low), model.value(range.high));
                format!("{low} {high}")
            }),
            hidden: steps::prompts(model, symbol).next().is_some()
                && model.visibility(id) == Tri::No,
            fix,
        }
    }

    /// What makes a request hold whose line is in the configuration already.
    fn fix(&mut self, id: SymbolId, request: &Request) -> Fix {
        let kind = self.model.tree().symbol(id).kind;
        let value = &request.wanted.value;
        let line = value.to_string();
        let of_fragment = request.source == Source::Fragment;
        let readable = self.model.is_readable(id, &line) || (value.is_off() && !kind.is_logic());
        if !readable {
            let Some(value) = retyped(kind, value) else {
                return Fix::None;
            };
            let fix = self.fix_wish(id, &value);
            return if of_fragment { fix.instead() } else { fix };
        }
        let goal = Goal {
            symbol: id,
            wanted: request.wanted.clone(),
        };
        let fix = self.search(&goal, &[], &[]);
        if matches!(fix, Fix::None) {
            for bound in self.bounds(id, &line) {
                let fix = self.fix_wish(id, &bound).instead();
                if !matches!(fix, Fix::None) {
                    return fix;
                }
            }
        }
        if matches!(fix, Fix::None) && kind == Type::Tristate && *value == Value::Yes {
            // `depends on m`: a module is the most that it can be.
            return self.fix_wish(id, &Value::Module).instead();
        }
        let symbol = self.model.tree().symbol(id);
        let promptless = steps::prompts(self.model, symbol).next().is_none();
        if promptless && of_fragment {
            fix.instead()
        } else {
            fix
        }
    }

    /// What brings about a value, its own line included where that counts.
    fn fix_wish(&mut self, id: SymbolId, value: &Value) -> Fix {
        let goal = Goal {
            symbol: id,
            wanted: Wanted::exactly(value.clone()),
        };
        let symbol = self.model.tree().symbol(id);
        let own = Ask {
            symbol: id,
            value: value.to_string(),
        };
        if steps::prompts(self.model, symbol).next().is_none() {
            self.search(&goal, &[], &[])
        } else {
            self.search(
                &goal,
                std::slice::from_ref(&own),
                std::slice::from_ref(&own),
            )
        }
    }

    /// Searches lines after `always`; `told` are those of them that a person must write too.
    fn search(&mut self, goal: &Goal, always: &[Ask], told: &[Ask]) -> Fix {
        let found = search::search(self.model, goal, always, &self.keep);
        if let Some(mut lines) = found.lines {
            lines.extend_from_slice(told);
            return fix::add(self.model, goal.symbol, &lines);
        }
        if !found.hindered {
            return Fix::None;
        }
        // Perhaps only other requests are in the way.
        match search::search(self.model, goal, always, &Keep::default()).lines {
            Some(mut lines) => {
                lines.extend_from_slice(told);
                fix::conflict(self.model, &self.ground, &lines)
            }
            None => Fix::None,
        }
    }

    /// The bounds of the ranges that a number is beyond, the range in force first.
    fn bounds(&self, id: SymbolId, asked: &str) -> Vec<Value> {
        let model = &*self.model;
        let symbol = model.tree().symbol(id);
        let Some(asked) = number(asked) else {
            return Vec::new();
        };
        let in_force = model.range(id).into_iter();
        let mut bounds: Vec<Value> = Vec::new();
        for range in in_force.chain(&symbol.ranges) {
            let (low, high) = (model.value(range.low), model.value(range.high));
            let bound = match (number(low), number(high)) {
                (Some(least), _) if asked < least => low,
                (_, Some(most)) if asked > most => high,
                _ => continue,
            };
            let bound = Value::parse(bound);
            if !bounds.contains(&bound) {
                bounds.push(bound);
            }
        }
        bounds
    }
}

/// A decimal number, or one with `0x`.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The value of another type that says the same, where there is one.
fn retyped(kind: Type, value: &Value) -> Option<Value> {
    Some(match (kind, value) {
        (Type::Bool | Type::Tristate, Value::Int(number)) if number == "0" => Value::No,
        (Type::Bool | Type::Tristate, Value::Int(_)) | (Type::Bool, Value::Module) => Value::Yes,
        (Type::Int, Value::Yes) => Value::Int("1".to_owned()),
        (Type::Hex, Value::Yes) => Value::Hex("0x1".to_owned()),
        (Type::Text, Value::Int(text) | Value::Hex(text) | Value::Loose(text)) => {
            Value::Text(text.clone())
        }
        (Type::Text, Value::Yes | Value::Module) => Value::Text(value.to_string()),
        _ => return None,
    })
}
