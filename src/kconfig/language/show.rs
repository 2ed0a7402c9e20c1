//! Expressions as text, with the values that the symbols in them have.

use super::eval::Model;
use super::expr::{ExprId, SymbolId};
use super::terms::Term;
use super::tree::Type;

impl Model {
    /// The expression with the current value of each symbol, as the kernel's own warnings show it.
    pub fn shown(&self, id: ExprId) -> String {
        let mut text = String::new();
        self.show(&self.tree.terms(id), 0, &mut text);
        text
    }

    /// Writes a term; `around` is how strongly what is around binds: `||` 1, `&&` 2.
    pub(super) fn show(&self, term: &Term, around: u8, text: &mut String) {
        let (list, sign, strength) = match term {
            Term::Symbol(symbol) => return self.show_symbol(*symbol, text),
            Term::Not(symbol) => {
                text.push('!');
                return self.show_symbol(*symbol, text);
            }
            Term::Compare(relation, a, b) => {
                self.show_symbol(*a, text);
                text.push_str(relation.sign());
                return self.show_symbol(*b, text);
            }
            Term::All(list) => (list, " && ", 2),
            Term::Any(list) => (list, " || ", 1),
        };
        if strength < around {
            text.push('(');
        }
        for (index, term) in list.iter().enumerate() {
            if index > 0 {
                text.push_str(sign);
            }
            self.show(term, strength, text);
        }
        if strength < around {
            text.push(')');
        }
    }

    pub(super) fn show_symbol(&self, symbol: SymbolId, text: &mut String) {
        let known = self.tree.symbol(symbol);
        text.push_str(&known.name);
        if known.kind != Type::Unknown {
            text.push_str(" [=");
            text.push_str(self.texts.get(self.text(symbol)));
            text.push(']');
        }
    }
}
