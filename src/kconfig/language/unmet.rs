//! The warnings about symbols that are selected although what they depend on is not met: the texts
//! and the order of the kernel's own program.

use std::cmp::Reverse;

use super::eval::{Asked, Model};
use super::expr::{Expr, ExprId, SymbolId, Tri};
use super::tree::{ChoiceId, Select, Type};

impl Model {
    /// Warnings about symbols that are selected although what they depend on is not met, in the
    /// order and as often as the kernel's own program prints them. Each begins with an empty line.
    pub fn unmet(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (id, _) in self.tree.symbols() {
            all.extend(self.unmet_of(id).map(|text| (id, text)));
        }
        if all.len() > 1 {
            let order = Visit::order(self);
            all.sort_by_key(|(id, _)| order[id.index()]);
        }
        let mut texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
        if !self.warned && self.is_as_asked() {
            // Where nothing changes, it computes all values twice.
            texts.extend_from_within(..);
        }
        texts
    }

    /// The same with more lines.
    pub fn unmet_with(&mut self, lines: &[super::trial::Ask]) -> Vec<String> {
        self.with(lines, |model, _| model.unmet())
    }

    /// Whether the configuration has exactly the lines it was read from, in whatever order.
    fn is_as_asked(&self) -> bool {
        self.tree.symbols().all(|(id, symbol)| {
            let cell = &self.cells[id.index()];
            match self.asked[id.index()] {
                Some(Asked::Logic(value)) => cell.written && cell.tri == value,
                Some(Asked::Text(text)) => cell.written && cell.text == text,
                None => !symbol.is_defined() || !cell.written,
            }
        })
    }

    fn unmet_of(&self, id: SymbolId) -> Option<String> {
        let symbol = self.tree.symbol(id);
        if !symbol.kind.is_logic() || symbol.choice.is_some() || symbol.selected_by.is_empty() {
            return None;
        }
        let direct = self.direct(id);
        if direct >= self.selected(id) {
            return None;
        }
        let mut text = format!(
            "\nWARNING: unmet direct dependencies detected for {}\n  Depends on [{direct}]: ",
            symbol.name
        );
        for (index, entry) in symbol.direct.iter().enumerate() {
            if index > 0 {
                text.push_str(" || ");
            }
            self.show(&self.tree.terms(*entry), 1, &mut text);
        }
        text.push('\n');
        for value in [Tri::Yes, Tri::Mod] {
            let of_value = |select: &&Select| self.demand(select) == value;
            let mut head = true;
            for select in symbol.selected_by.iter().filter(of_value) {
                if std::mem::take(&mut head) {
                    text.push_str("  Selected by [");
                    text.push_str(value.letter());
                    text.push_str("]:\n");
                }
                text.push_str("  - ");
                self.show_symbol(select.by, &mut text);
                if select.condition != ExprId::ALWAYS {
                    text.push_str(" && ");
                    self.show(&self.tree.terms(select.condition), 2, &mut text);
                }
                text.push('\n');
            }
        }
        Some(text)
    }
}

/// In which order the kernel's own program finishes computing the symbols. It computes one, and
/// before it all that it reads; which it starts with is given by a table of 16,384 places that
/// FNV-1a of the name fills, the name mentioned last first where names meet (found by experiment).
struct Visit<'m> {
    model: &'m Model,
    /// By symbol; zero is not yet.
    order: Vec<u32>,
    started: Vec<bool>,
    next: u32,
}

impl Visit<'_> {
    fn order(model: &Model) -> Vec<u32> {
        let symbols = model.tree.symbols.len();
        let mut visit = Visit {
            model,
            order: vec![0; symbols],
            started: vec![false; symbols],
            next: 0,
        };
        let place = |name: &str| {
            let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
            hash % 16_384
        };
        let mut starts: Vec<(u32, Reverse<SymbolId>)> = Vec::with_capacity(symbols);
        starts.extend(
            model
                .tree
                .symbols()
                .map(|(id, symbol)| (place(&symbol.name), Reverse(id))),
        );
        starts.sort_unstable();
        if let Some(modules) = model.tree.modules {
            visit.symbol(modules);
        }
        for (_, Reverse(id)) in starts {
            visit.symbol(id);
        }
        visit.order
    }

    fn symbol(&mut self, id: SymbolId) {
        let symbol = self.model.tree.symbol(id);
        if symbol.kind == Type::Unknown || std::mem::replace(&mut self.started[id.index()], true) {
            return;
        }
        self.visibility(id);
        for entry in &symbol.direct {
            self.expr(*entry);
        }
        for select in symbol.selected_by.iter().chain(&symbol.implied_by) {
            self.symbol(select.by);
            self.expr(select.condition);
        }
        let asked = self.model.asked[id.index()].is_some();
        let visible = self.model.cells[id.index()].visible != Tri::No;
        if let Some(choice) = symbol.choice {
            self.choice(choice);
        } else if !(asked && visible) {
            for default in &symbol.defaults {
                self.expr(default.condition);
                if self.model.expr(default.condition) != Tri::No {
                    self.expr(default.value);
                    break;
                }
            }
        }
        for range in &symbol.ranges {
            self.expr(range.condition);
            if self.model.expr(range.condition) != Tri::No {
                self.symbol(range.low);
                self.symbol(range.high);
                break;
            }
        }
        self.next += 1;
        self.order[id.index()] = self.next;
    }

    fn visibility(&mut self, id: SymbolId) {
        let tree = &self.model.tree;
        for node in &tree.symbol(id).nodes {
            if let Some(prompt) = &tree.node(*node).prompt {
                self.expr(prompt.condition);
            }
        }
    }

    fn choice(&mut self, id: ChoiceId) {
        let choice = self.model.tree.choice(id);
        for member in &choice.members {
            self.visibility(*member);
        }
        for default in &choice.defaults {
            self.expr(default.condition);
        }
    }

    fn expr(&mut self, id: ExprId) {
        match self.model.tree.exprs.get(id) {
            Expr::Always => {}
            Expr::Symbol(symbol) => self.symbol(symbol),
            Expr::Not(inner) => self.expr(inner),
            Expr::And(a, b) | Expr::Or(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Compare(_, a, b) => {
                self.symbol(a);
                self.symbol(b);
            }
        }
    }
}
