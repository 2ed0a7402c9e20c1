//! All that can be told about one symbol under one configuration.

use serde::Serialize;

use super::explainer::Explainer;
use super::fix::Fix;
use super::need::Need;
use super::who::{Selector, SetBy};
use crate::dotconfig::{self, Value};
use crate::kconfig::finding::{InChoice, Rival};
use crate::kconfig::language::{Ask, Model, NodeId, Select, SymbolId, Tri, Type as Kind};
use crate::kconfig::symbols::{Site, Symbols, Type};

/// A symbol: what it is, what it is now, what decides about it, and what it decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct About {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<Type>,
    /// Its value, as its line has it.
    pub value: String,
    /// Who gave it that.
    pub set: SetBy,
    /// The lines that ask for a value.
    pub asked: Vec<Rival>,
    /// Its definitions.
    pub defined: Vec<Definition>,
    /// The choice that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<InChoice>,
    /// The members of that choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// The help text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The range that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// What it lacks for the value that is asked about.
    pub needs: Vec<Need>,
    /// What selects it, on or off.
    pub selected_by: Vec<Selector>,
    /// What implies it, on or off.
    pub implied_by: Vec<Selector>,
    /// What it selects.
    pub selects: Vec<Selector>,
    /// What it implies.
    pub implies: Vec<Selector>,
    /// What other values would do.
    pub would: Vec<Would>,
}

/// A place that defines the symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Where.
    pub site: Site,
    /// The question a person can answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The menus around it, the outermost first.
    pub menus: Vec<String>,
    /// What it depends on, and its prompt too, with the values now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends: Option<String>,
}

/// What a line would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Would {
    /// The line.
    pub line: String,
    /// Whether it would hold by itself.
    pub holds: bool,
    /// What else would change: in all, and the first of them.
    pub changed: usize,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
    /// What makes it hold where it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// A symbol that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// Its value now.
    pub before: String,
    /// Its value then.
    pub after: String,
}

/// Changes that are listed; the others are counted.
const LISTED: usize = 40;

impl Explainer<'_> {
    /// All about a symbol; `wanted` is a value that is asked about, else those that it could have.
    /// Nothing where the tree does not define it.
    pub fn about(&mut self, name: &str, wanted: Option<&Value>) -> Option<About> {
        let (id, _) = Symbols::new(Some(self.model().tree())).get(name)?;
        let values = match wanted {
            Some(value) => vec![value.clone()],
            None => others(self.model(), id),
        };
        let aim = values.first().cloned().unwrap_or(Value::Yes);
        let answer = self.reason(name, &aim)?;
        let would = values.iter().map(|value| self.would(id, value)).collect();
        let requests = self.requests().iter();
        let asked = requests.filter(|request| request.symbol == name);
        let asked = asked
            .map(|request| Rival {
                symbol: request.line(),
                origin: request.origin.clone(),
            })
            .collect();
        let model = self.model();
        let symbols = Symbols::new(Some(model.tree()));
        let symbol = model.tree().symbol(id);
        let mut helps = symbol.nodes.iter();
        Some(About {
            symbol: name.to_owned(),
            kind: symbols.kind(name),
            value: shown(model, id),
            set: answer.set,
            asked,
            defined: symbol.nodes.iter().map(|n| definition(model, *n)).collect(),
            choice: symbols.in_choice(name),
            members: symbols.siblings(name).map(str::to_owned).collect(),
            help: helps.find_map(|node| model.tree().node(*node).help.clone()),
            range: answer.range,
            needs: answer.needs,
            selected_by: selectors(model, &symbol.selected_by, |select| select.by),
            implied_by: selectors(model, &symbol.implied_by, |select| select.by),
            selects: selectors(model, &symbol.selects, |select| select.target),
            implies: selectors(model, &symbol.implies, |select| select.target),
            would,
        })
    }

    fn would(&mut self, id: SymbolId, value: &Value) -> Would {
        let ask = Ask {
            symbol: id,
            value: value.to_string(),
        };
        let found = self.model_mut().trial(std::slice::from_ref(&ask));
        let model = self.model();
        let tree = model.tree();
        let line = dotconfig::line(&tree.symbol(id).name, value);
        let own = found.iter().find(|change| change.symbol == id);
        let after = own.map_or_else(|| model.line(id), |change| change.after.clone());
        let holds = after.as_ref() == Some(&line) || (after.is_none() && value.is_off());
        let plain = |line: Option<&String>| match line {
            None => "absent".to_owned(),
            Some(line) => match line.split_once('=') {
                Some((_, value)) if line.starts_with("CONFIG_") => value.to_owned(),
                _ => "not set".to_owned(),
            },
        };
        let others = found.iter().filter(|change| change.symbol != id);
        let changes: Vec<Changed> = others
            .map(|change| Changed {
                symbol: tree.symbol(change.symbol).name.clone(),
                before: plain(change.before.as_ref()),
                after: plain(change.after.as_ref()),
            })
            .collect();
        let name = tree.symbol(id).name.clone();
        let fix = if holds {
            None
        } else {
            self.wish(&name, value).map(|answer| answer.fix)
        };
        Would {
            line,
            holds,
            changed: changes.len(),
            changes: changes.into_iter().take(LISTED).collect(),
            fix,
        }
    }
}

/// The values that a symbol could have instead, the most wanted first; none for numbers and strings.
fn others(model: &Model, id: SymbolId) -> Vec<Value> {
    let symbol = model.tree().symbol(id);
    let all: &[Value] = match symbol.kind {
        Kind::Bool if symbol.choice.is_some() => &[Value::Yes],
        Kind::Bool => &[Value::Yes, Value::No],
        Kind::Tristate => &[Value::Yes, Value::Module, Value::No],
        Kind::Unknown | Kind::Int | Kind::Hex | Kind::Text => &[],
    };
    let now = match model.tri(id) {
        Tri::Yes => Value::Yes,
        Tri::Mod => Value::Module,
        Tri::No => Value::No,
    };
    all.iter().filter(|value| **value != now).cloned().collect()
}

fn shown(model: &Model, id: SymbolId) -> String {
    match super::search::current(model, id) {
        None => "absent".to_owned(),
        Some(Value::No) => "not set".to_owned(),
        Some(value) => value.to_string(),
    }
}

fn definition(model: &Model, id: NodeId) -> Definition {
    let tree = model.tree();
    let node = tree.node(id);
    let menus = tree.around(id).into_iter().filter_map(|around| {
        let text = tree.node(around).prompt.as_ref()?.text.clone();
        (around != id && around != NodeId::ROOT).then_some(text)
    });
    let condition = node.prompt.as_ref().map(|prompt| prompt.condition);
    let depends = model.shown(condition.unwrap_or(node.dependency));
    Definition {
        site: Site::new(tree, node.place),
        prompt: node.prompt.as_ref().map(|prompt| prompt.text.clone()),
        menus: menus.collect(),
        depends: Some(depends).filter(|text| text != "y" && !text.starts_with("y [")),
    }
}

/// Each symbol once, as a select names it.
fn selectors(model: &Model, list: &[Select], of: fn(&Select) -> SymbolId) -> Vec<Selector> {
    let tree = model.tree();
    let mut found: Vec<Selector> = Vec::new();
    for select in list {
        let id = of(select);
        let symbol = tree.symbol(id);
        if symbol.is_defined() && !found.iter().any(|known| known.symbol == symbol.name) {
            found.push(Selector {
                symbol: symbol.name.clone(),
                value: model.value(id).to_owned(),
                site: Site::new(tree, select.place),
            });
        }
    }
    found
}
