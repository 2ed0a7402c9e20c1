//! Questions about a resolved configuration: values, what decides them, what more lines would do.

use super::eval::{Asked, Model};
use super::expr::{Relation, SymbolId, Tri};
use super::terms::Term;
use super::tree::{ChoiceId, Default, NodeId, Tree};
use super::trial::Ask;

/// What a piece of a Kconfig file got from the build's environment, its programs and variables,
/// while it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The line of the statement.
    pub place: super::Place,
    /// The reference as it stands there: `$(cc-option,-fno-such-flag)`.
    pub text: String,
    /// What it became.
    pub answer: String,
    /// The last command that was run for it; empty where the environment alone answered.
    pub command: String,
}

impl Model {
    /// The symbol's value as text; of one without entry its name.
    pub fn value(&self, symbol: SymbolId) -> &str {
        self.texts.get(self.text(symbol))
    }

    /// The symbol's value, `n` for numbers and strings.
    pub fn tri(&self, symbol: SymbolId) -> Tri {
        self.cells[symbol.index()].tri
    }

    /// The value of a term.
    pub fn truth(&self, term: &Term) -> Tri {
        match term {
            Term::Symbol(symbol) => self.tri(*symbol),
            Term::Not(symbol) => self.tri(*symbol).negated(),
            Term::Compare(relation, a, b) => self.holds(*relation, *a, *b),
            Term::All(terms) => {
                let values = terms.iter().map(|term| self.truth(term));
                values.min().unwrap_or(Tri::Yes)
            }
            Term::Any(terms) => {
                let values = terms.iter().map(|term| self.truth(term));
                values.max().unwrap_or(Tri::No)
            }
        }
    }

    /// A term with the values of its symbols.
    pub fn shown_term(&self, term: &Term) -> String {
        let mut text = String::new();
        self.show(term, 0, &mut text);
        text
    }

    /// The value asked for, as a configuration writes it; nothing where none is.
    pub fn asked(&self, symbol: SymbolId) -> Option<&str> {
        match self.asked[symbol.index()]? {
            Asked::Logic(value) => Some(value.letter()),
            Asked::Text(text) => Some(self.texts.get(text)),
        }
    }

    /// The member that a choice has chosen.
    pub fn chosen(&self, choice: ChoiceId) -> Option<SymbolId> {
        self.chosen[choice.index()]
    }

    /// The default that counts where nothing is asked.
    pub fn default_in_force(&self, symbol: SymbolId) -> Option<&Default> {
        let mut defaults = self.tree.symbol(symbol).defaults.iter();
        defaults.find(|default| self.expr(default.condition) != Tri::No)
    }

    /// Answers a question about the configuration with these lines at its end, given also which
    /// symbols' values or visibility they change. The configuration stays.
    pub fn suppose<T>(
        &mut self,
        lines: &[Ask],
        question: impl FnOnce(&Self, &[SymbolId]) -> T,
    ) -> T {
        self.with(lines, |model, undo| question(model, &undo.symbols()))
    }

    /// Whether a value can be read for a symbol, alone by its text.
    pub fn is_readable(&mut self, symbol: SymbolId, value: &str) -> bool {
        matches!(
            self.understood(symbol, value),
            super::read::Understood::As(_)
        )
    }
}

impl Tree {
    /// All that programs answered while the files were read, in order.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The probes in the statement on this line.
    pub fn probes_at(&self, place: super::Place) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(move |probe| probe.place == place)
    }

    /// The entries around an entry, the outermost first, itself last.
    pub fn around(&self, node: NodeId) -> Vec<NodeId> {
        let mut list = vec![node];
        let mut at = node;
        while at != NodeId::ROOT {
            at = self.node(at).parent;
            list.push(at);
        }
        list.reverse();
        list
    }

    /// The probes in the lines of an entry, up to the next entry.
    pub fn probes_in(&self, node: NodeId) -> impl Iterator<Item = &Probe> {
        let start = self.node(node).place;
        let next = self.nodes.get(node.index() + 1).map(|next| next.place);
        let end = next.filter(|next| next.file == start.file);
        self.probes.iter().filter(move |probe| {
            probe.place.file == start.file
                && probe.place >= start
                && end.is_none_or(|end| probe.place < end)
        })
    }
}

impl Relation {
    /// The relation that holds where this one does not.
    #[must_use]
    pub fn opposite(self) -> Self {
        self.negated()
    }
}
