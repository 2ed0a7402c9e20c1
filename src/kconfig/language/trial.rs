//! What a few more lines would change, computed from what they touch alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::eval::{Asked, Cell, Model};
use super::expr::SymbolId;
use super::order::Unit;
use super::read::Understood;
use super::tree::ChoiceId;

/// One line more: a symbol and the text behind `=`; `n` stands for "is not set" too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The symbol.
    pub symbol: SymbolId,
    /// The value as a configuration writes it; a string has its quotes.
    pub value: String,
}

/// A symbol whose line differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The symbol.
    pub symbol: SymbolId,
    /// Its line before; nothing where it had none.
    pub before: Option<String>,
    /// Its line after; nothing where it has none.
    pub after: Option<String>,
}

/// What must be put back to undo lines.
#[derive(Debug, Default)]
pub(super) struct Undo {
    asked: Vec<(SymbolId, Option<Asked>, u32)>,
    cells: Vec<(SymbolId, Cell)>,
    chosen: Vec<(ChoiceId, Option<SymbolId>)>,
    latest: u32,
}

impl Undo {
    /// The symbols whose computed state changed.
    pub(super) fn symbols(&self) -> Vec<SymbolId> {
        self.cells.iter().map(|(symbol, _)| *symbol).collect()
    }
}

impl Model {
    /// What the configuration would become with these lines at its end, earlier lines of the same
    /// symbols taken out: every symbol whose line changes, in file order. The configuration stays.
    pub fn trial(&mut self, lines: &[Ask]) -> Vec<Change> {
        self.with(lines, Self::changes)
    }

    /// Answers a question about the configuration with these lines at its end.
    pub(super) fn with<T>(&mut self, lines: &[Ask], ask: impl FnOnce(&Self, &Undo) -> T) -> T {
        let undo = self.apply(lines);
        let answer = ask(self, &undo);
        self.restore(undo);
        answer
    }

    /// Adds lines, and computes again what they touch. A value that the reader would ignore is
    /// ignored.
    pub(super) fn apply(&mut self, lines: &[Ask]) -> Undo {
        let mut undo = Undo::default();
        let mut queue = Queue::default();
        undo.latest = self.latest;
        for line in lines {
            self.latest = self.latest.saturating_add(1);
            let number = self.latest;
            let symbol = line.symbol;
            let asked = match self.understood(symbol, &line.value) {
                Understood::As(asked) => Some(asked),
                Understood::Ignored | Understood::Invalid | Understood::OpenString => None,
            };
            let index = symbol.index();
            undo.asked
                .push((symbol, self.asked[index], self.when[index]));
            self.asked[index] = asked;
            self.when[index] = if asked.is_some() { number } else { 0 };
            queue.add(self.tree.plan.place(Unit::Symbol(symbol)));
            if let Some(choice) = self.tree.symbol(symbol).choice {
                queue.add(self.tree.plan.place(Unit::Choice(choice)));
            }
        }
        while let Some(place) = queue.next() {
            if self.compute(place, &mut undo) {
                for reader in self.tree.plan.readers(place) {
                    queue.add(*reader);
                }
            }
        }
        undo
    }

    /// Computes one unit; whether those that read it must be computed too.
    fn compute(&mut self, place: u32, undo: &mut Undo) -> bool {
        match self.tree.plan.order[place as usize] {
            Unit::Symbol(symbol) => {
                let before = self.cells[symbol.index()];
                let after = self.cell(symbol);
                if before == after {
                    return false;
                }
                undo.cells.push((symbol, before));
                (before.tri, before.text) != (after.tri, after.text)
            }
            Unit::Choice(choice) => {
                let before = self.chosen[choice.index()];
                let after = self.choose(choice);
                if before == after {
                    return false;
                }
                self.chosen[choice.index()] = after;
                undo.chosen.push((choice, before));
                true
            }
        }
    }

    pub(super) fn restore(&mut self, undo: Undo) {
        self.latest = undo.latest;
        for (choice, chosen) in undo.chosen.into_iter().rev() {
            self.chosen[choice.index()] = chosen;
        }
        for (symbol, cell) in undo.cells.into_iter().rev() {
            self.cells[symbol.index()] = cell;
        }
        for (symbol, asked, when) in undo.asked.into_iter().rev() {
            self.asked[symbol.index()] = asked;
            self.when[symbol.index()] = when;
        }
    }

    /// The lines that differ from those before.
    fn changes(&self, undo: &Undo) -> Vec<Change> {
        let mut changes: Vec<Change> = undo
            .cells
            .iter()
            .map(|(symbol, before)| Change {
                symbol: *symbol,
                before: self.line_of(*symbol, *before),
                after: self.line(*symbol),
            })
            .filter(|change| change.before != change.after)
            .collect();
        changes.sort_by_key(|change| self.tree.symbol(change.symbol).nodes.first().copied());
        changes
    }
}

/// The units to compute, those first that others read.
#[derive(Debug, Default)]
struct Queue {
    places: BinaryHeap<Reverse<u32>>,
}

impl Queue {
    fn add(&mut self, place: u32) {
        self.places.push(Reverse(place));
    }

    fn next(&mut self) -> Option<u32> {
        let Reverse(place) = self.places.pop()?;
        while self.places.peek() == Some(&Reverse(place)) {
            self.places.pop();
        }
        Some(place)
    }
}
