//! Lines that bring a wish nearer: what a person would try next.
//!
//! Of several things that must all hold, the first that does not is pursued, for the others come
//! later or no solution does; of several of which one is enough, all are. So every set of lines that
//! leads to the wish by way of what its entries name is reached by taking these steps again and
//! again.

use std::collections::HashSet;

use crate::kconfig::language::{
    Ask, Expr, ExprId, Model, Relation, Select, Symbol, SymbolId, Tri, Type,
};

/// What a symbol should become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aim {
    /// At least this.
    AtLeast(SymbolId, Tri),
    /// At most this.
    AtMost(SymbolId, Tri),
    /// This text.
    Text(SymbolId, String),
}

/// Entries that are looked at for one step; beyond that a symbol is mere infrastructure.
const MOST_VISITS: usize = 600;

/// Lines that are tried in place of one step.
const MOST_LINES: usize = 40;

/// The lines of which one is the next step towards the aim, the most direct first. None where the
/// aim is met, and where nothing leads to it.
pub(super) fn steps(model: &Model, aim: &Aim) -> Vec<Ask> {
    let mut steps = Steps {
        model,
        seen: HashSet::new(),
        lines: Vec::new(),
    };
    match aim {
        Aim::AtLeast(symbol, value) => steps.raise(*symbol, *value),
        Aim::AtMost(symbol, value) => steps.lower(*symbol, *value),
        Aim::Text(symbol, text) => steps.become_text(*symbol, text),
    }
    steps.lines
}

struct Steps<'m> {
    model: &'m Model,
    /// What is being pursued already; the way up and the way down are two.
    seen: HashSet<(SymbolId, bool)>,
    lines: Vec<Ask>,
}

impl<'m> Steps<'m> {
    fn symbol(&self, id: SymbolId) -> &'m Symbol {
        self.model.tree().symbol(id)
    }

    fn add(&mut self, symbol: SymbolId, value: impl Into<String>) {
        let line = Ask {
            symbol,
            value: value.into(),
        };
        if self.lines.len() < MOST_LINES && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Whether a symbol is worth a look.
    fn enter(&mut self, symbol: SymbolId, up: bool) -> bool {
        self.seen.len() < MOST_VISITS
            && self.lines.len() < MOST_LINES
            && self.symbol(symbol).is_defined()
            && self.seen.insert((symbol, up))
    }

    fn raise(&mut self, id: SymbolId, value: Tri) {
        let model = self.model;
        if model.tri(id) >= value || !self.enter(id, true) {
            return;
        }
        let symbol = model.tree().symbol(id);
        if !symbol.kind.is_logic() {
            return;
        }
        let value = if model.is_bool(id) || symbol.choice.is_some() {
            value.rounded_up()
        } else {
            value
        };
        let visible = model.visibility(id);
        if visible >= value || (symbol.choice.is_some() && visible != Tri::No) {
            self.add(id, value.letter());
            if value == Tri::Mod && visible == Tri::Yes {
                self.add(id, "y");
            }
        } else {
            // A bool's prompt is there where its condition is `m`.
            let needed = if model.is_bool(id) { Tri::Mod } else { value };
            for condition in prompts(model, symbol) {
                self.raise_expr(condition, needed);
            }
        }
        if symbol.choice.is_none() {
            self.raise_by_others(symbol, value, visible);
        }
    }

    /// What raises a symbol without a line of its own.
    fn raise_by_others(&mut self, symbol: &Symbol, value: Tri, visible: Tri) {
        let model = self.model;
        if visible == Tri::No {
            for default in &symbol.defaults {
                if model.expr(default.condition) < value {
                    self.raise_expr(default.condition, value);
                } else {
                    self.raise_expr(default.value, value);
                    // It is the first that counts.
                    break;
                }
            }
            for imply in &symbol.implied_by {
                self.raise_select(imply, value);
            }
        }
        for select in &symbol.selected_by {
            self.raise_select(select, value);
        }
    }

    fn raise_select(&mut self, select: &Select, value: Tri) {
        if self.model.tri(select.by) < value {
            self.raise(select.by, value);
        } else {
            self.raise_expr(select.condition, value);
        }
    }

    fn lower(&mut self, id: SymbolId, value: Tri) {
        let model = self.model;
        if model.tri(id) <= value || !self.enter(id, false) {
            return;
        }
        let symbol = model.tree().symbol(id);
        let value = if model.is_bool(id) && value == Tri::Mod {
            Tri::No
        } else {
            value
        };
        if let Some(choice) = symbol.choice {
            for member in &model.tree().choice(choice).members {
                if *member != id {
                    self.raise(*member, Tri::Yes);
                }
            }
            for condition in prompts(model, symbol) {
                self.lower_expr(condition, Tri::No);
            }
            return;
        }
        if model.selected(id) > value {
            let demands = |select: &&Select| model.demand(select) > value;
            if let Some(select) = symbol.selected_by.iter().find(demands) {
                self.lower(select.by, value);
                self.lower_expr(select.condition, value);
            }
            return;
        }
        if model.visibility(id) != Tri::No {
            self.add(id, value.letter());
            return;
        }
        if let Some(default) = model.default_in_force(id) {
            self.lower_expr(default.value, value);
            self.lower_expr(default.condition, value);
        }
        for imply in &symbol.implied_by {
            if model.demand(imply) > value {
                self.lower(imply.by, value);
            }
        }
        // Once it can be asked for, its line can say no.
        for condition in prompts(model, symbol) {
            self.raise_expr(condition, Tri::Mod);
        }
    }

    /// The text of a number or string.
    fn become_text(&mut self, id: SymbolId, text: &str) {
        let model = self.model;
        if model.value(id) == text || !self.enter(id, true) {
            return;
        }
        let symbol = model.tree().symbol(id);
        match symbol.kind {
            Type::Int | Type::Hex if model.visibility(id) != Tri::No => {
                if model.asked(id) == Some(text) {
                    self.widen(id);
                } else {
                    self.add(id, text);
                }
            }
            Type::Text if model.visibility(id) != Tri::No => self.add(id, quoted(text)),
            Type::Int | Type::Hex | Type::Text => {
                for condition in prompts(model, symbol) {
                    self.raise_expr(condition, Tri::Mod);
                }
                for default in &symbol.defaults {
                    let Expr::Symbol(value) = model.tree().exprs().get(default.value) else {
                        continue;
                    };
                    if model.value(value) == text {
                        self.raise_expr(default.condition, Tri::Mod);
                    } else if model.expr(default.condition) != Tri::No {
                        self.become_text(value, text);
                        self.lower_expr(default.condition, Tri::No);
                    }
                }
            }
            Type::Unknown | Type::Bool | Type::Tristate => {}
        }
    }

    /// Makes another range count, or another bound of it.
    fn widen(&mut self, id: SymbolId) {
        let model = self.model;
        let Some(in_force) = model.range(id) else {
            return;
        };
        for bound in [in_force.low, in_force.high] {
            for default in &model.tree().symbol(bound).defaults {
                if model.expr(default.condition) == Tri::No {
                    self.raise_expr(default.condition, Tri::Mod);
                }
            }
        }
        for range in &model.tree().symbol(id).ranges {
            if model.expr(range.condition) == Tri::No {
                self.raise_expr(range.condition, Tri::Mod);
            }
        }
        self.lower_expr(in_force.condition, Tri::No);
    }

    fn raise_expr(&mut self, id: ExprId, value: Tri) {
        let model = self.model;
        if model.expr(id) >= value {
            return;
        }
        match model.tree().exprs().get(id) {
            Expr::Always => {}
            Expr::Symbol(symbol) => self.raise(symbol, value),
            Expr::Not(inner) => self.lower_expr(inner, value.negated()),
            Expr::And(a, b) if model.expr(a) >= value => self.raise_expr(b, value),
            Expr::And(a, _) => self.raise_expr(a, value),
            Expr::Or(a, b) => {
                self.raise_expr(a, value);
                self.raise_expr(b, value);
            }
            Expr::Compare(relation, a, b) => self.compare(relation, a, b),
        }
    }

    fn lower_expr(&mut self, id: ExprId, value: Tri) {
        let model = self.model;
        if model.expr(id) <= value {
            return;
        }
        match model.tree().exprs().get(id) {
            Expr::Always => {}
            Expr::Symbol(symbol) => self.lower(symbol, value),
            Expr::Not(inner) => self.raise_expr(inner, value.negated()),
            Expr::And(a, b) => {
                self.lower_expr(a, value);
                self.lower_expr(b, value);
            }
            Expr::Or(a, b) if model.expr(a) <= value => self.lower_expr(b, value),
            Expr::Or(a, _) => self.lower_expr(a, value),
            Expr::Compare(relation, a, b) => self.compare(relation.opposite(), a, b),
        }
    }

    /// Makes a comparison true.
    fn compare(&mut self, relation: Relation, a: SymbolId, b: SymbolId) {
        let (left, right) = (self.symbol(a), self.symbol(b));
        if left.kind.is_logic() && !left.constant {
            self.compare_logic(relation, a, self.model.tri(b));
            if right.kind.is_logic() && !right.constant {
                self.compare_logic(mirrored(relation), b, self.model.tri(a));
            }
            return;
        }
        if right.kind.is_logic() && !right.constant {
            self.compare_logic(mirrored(relation), b, self.model.tri(a));
            return;
        }
        self.compare_text(relation, a, b);
        self.compare_text(mirrored(relation), b, a);
    }

    fn compare_logic(&mut self, relation: Relation, id: SymbolId, value: Tri) {
        let ways = match relation {
            Relation::Equal => vec![(value, true), (value, false)],
            Relation::AtLeast => vec![(value, true)],
            Relation::AtMost => vec![(value, false)],
            Relation::Greater => above(value).map(|v| (v, true)).into_iter().collect(),
            Relation::Less => below(value).map(|v| (v, false)).into_iter().collect(),
            Relation::Unequal => [
                above(value).map(|v| (v, true)),
                below(value).map(|v| (v, false)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        for (value, up) in ways {
            if up {
                self.raise(id, value);
            } else {
                self.lower(id, value);
            }
        }
    }

    /// Gives a number or string the value nearest to what a comparison needs.
    fn compare_text(&mut self, relation: Relation, id: SymbolId, with: SymbolId) {
        if !self.symbol(id).is_defined() {
            return;
        }
        let bound = self.model.value(with).to_owned();
        if relation == Relation::Equal {
            self.become_text(id, &bound);
            return;
        }
        let (hex, number) = match bound.strip_prefix("0x") {
            Some(digits) => (true, i64::from_str_radix(digits, 16)),
            None => (false, bound.parse::<i64>()),
        };
        let Ok(number) = number else {
            return;
        };
        let number = match relation {
            Relation::Equal | Relation::AtLeast | Relation::AtMost => number,
            Relation::Greater | Relation::Unequal => number.saturating_add(1),
            Relation::Less => number.saturating_sub(1),
        };
        let text = if hex {
            format!("{number:#x}")
        } else {
            number.to_string()
        };
        self.become_text(id, &text);
    }
}

/// The conditions of a symbol's prompts.
pub(super) fn prompts<'m>(
    model: &'m Model,
    symbol: &'m Symbol,
) -> impl Iterator<Item = ExprId> + use<'m> {
    let nodes = symbol.nodes.iter();
    nodes.filter_map(|node| {
        let prompt = model.tree().node(*node).prompt.as_ref();
        prompt.map(|prompt| prompt.condition)
    })
}

/// The value of a string as a configuration writes it.
pub(super) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

fn above(value: Tri) -> Option<Tri> {
    match value {
        Tri::No => Some(Tri::Mod),
        Tri::Mod => Some(Tri::Yes),
        Tri::Yes => None,
    }
}

fn below(value: Tri) -> Option<Tri> {
    match value {
        Tri::No => None,
        Tri::Mod => Some(Tri::No),
        Tri::Yes => Some(Tri::Mod),
    }
}

/// The same comparison read from the other side.
fn mirrored(relation: Relation) -> Relation {
    match relation {
        Relation::Equal => Relation::Equal,
        Relation::Unequal => Relation::Unequal,
        Relation::Less => Relation::Greater,
        Relation::AtMost => Relation::AtLeast,
        Relation::Greater => Relation::Less,
        Relation::AtLeast => Relation::AtMost,
    }
}
