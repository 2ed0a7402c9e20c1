//! Expressions as a person writes them: chains of terms without repeats.
//!
//! The dependencies of the entries around an entry are joined with its own, so the same term often
//! stands in an expression several times. The kernel's own program shortens such an expression
//! before it prints it; what is done here was found by printing with it, and changes no value.

use super::expr::{Expr, ExprId, Relation, SymbolId};
use super::tree::{Tree, Type};

/// A term, or a chain of terms.
#[derive(Debug, Clone)]
pub enum Term {
    /// A symbol.
    Symbol(SymbolId),
    /// Its negation.
    Not(SymbolId),
    /// A comparison.
    Compare(Relation, SymbolId, SymbolId),
    /// Terms joined by `&&`, at least two.
    All(Vec<Self>),
    /// Terms joined by `||`, at least two.
    Any(Vec<Self>),
}

impl PartialEq for Term {
    /// Chains are equal whatever the order of their terms.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Symbol(a), Self::Symbol(b)) | (Self::Not(a), Self::Not(b)) => a == b,
            (Self::Compare(..), Self::Compare(..)) => self.compared() == other.compared(),
            (Self::All(a), Self::All(b)) | (Self::Any(a), Self::Any(b)) => {
                a.len() == b.len() && a.iter().all(|term| b.contains(term))
            }
            _ => false,
        }
    }
}

impl Term {
    fn compared(&self) -> Option<(Relation, SymbolId, SymbolId)> {
        match self {
            Self::Compare(relation, a, b) => Some((*relation, *a, *b)),
            _ => None,
        }
    }

    /// Calls `each` with every symbol that stands in the term, repeats included.
    pub fn symbols(&self, each: &mut impl FnMut(SymbolId)) {
        match self {
            Self::Symbol(symbol) | Self::Not(symbol) => each(*symbol),
            Self::Compare(_, a, b) => {
                each(*a);
                each(*b);
            }
            Self::All(list) | Self::Any(list) => {
                for term in list {
                    term.symbols(each);
                }
            }
        }
    }
}

const YES: Term = Term::Symbol(SymbolId::YES);
const NO: Term = Term::Symbol(SymbolId::NO);

impl Tree {
    /// The expression in terms.
    pub fn terms(&self, id: ExprId) -> Term {
        self.term(id, false)
    }

    fn term(&self, id: ExprId, negated: bool) -> Term {
        match self.exprs.get(id) {
            Expr::Always if negated => NO,
            Expr::Always => YES,
            Expr::Symbol(symbol) if negated => Self::negated(symbol),
            Expr::Symbol(symbol) => Term::Symbol(symbol),
            Expr::Not(inner) => self.term(inner, !negated),
            Expr::And(..) | Expr::Or(..) => {
                let all = matches!(self.exprs.get(id), Expr::And(..));
                let mut list = Vec::new();
                self.collect(id, all, negated, &mut list);
                self.chain(all != negated, list)
            }
            Expr::Compare(relation, a, b) => match self.comparison(relation, a, b) {
                Term::Symbol(symbol) if negated => Self::negated(symbol),
                Term::Not(symbol) if negated => Term::Symbol(symbol),
                Term::Compare(relation, a, b) if negated => Term::Compare(relation.negated(), a, b),
                term => term,
            },
        }
    }

    fn negated(symbol: SymbolId) -> Term {
        match symbol {
            SymbolId::YES => NO,
            SymbolId::NO => YES,
            SymbolId::MOD => Term::Symbol(symbol),
            symbol => Term::Not(symbol),
        }
    }

    /// Collects the links of a chain of `&&` (or `||`).
    fn collect(&self, id: ExprId, all: bool, negated: bool, list: &mut Vec<Term>) {
        match self.exprs.get(id) {
            Expr::And(a, b) if all => {
                self.collect(a, all, negated, list);
                self.collect(b, all, negated, list);
            }
            Expr::Or(a, b) if !all => {
                self.collect(a, all, negated, list);
                self.collect(b, all, negated, list);
            }
            _ => list.push(self.term(id, negated)),
        }
    }

    /// A comparison of a bool with a constant is the bool itself.
    fn comparison(&self, relation: Relation, a: SymbolId, b: SymbolId) -> Term {
        if self.symbol(a).kind != Type::Bool {
            return Term::Compare(relation, a, b);
        }
        match (relation, b) {
            (Relation::Equal, SymbolId::YES) | (Relation::Unequal, SymbolId::NO) => Term::Symbol(a),
            (Relation::Equal, SymbolId::NO) => Term::Not(a),
            (Relation::Equal, SymbolId::MOD) => NO,
            (Relation::Unequal, SymbolId::MOD) => YES,
            _ => Term::Compare(relation, a, b),
        }
    }

    /// Joins terms: constants and repeats go, and pairs that say one thing become it.
    fn chain(&self, all: bool, list: Vec<Term>) -> Term {
        let (neutral, absorbing) = if all { (YES, NO) } else { (NO, YES) };
        let mut terms: Vec<Term> = Vec::new();
        for term in list {
            match term {
                Term::All(inner) if all => terms.extend(inner),
                Term::Any(inner) if !all => terms.extend(inner),
                term => terms.push(term),
            }
        }
        while let Some((first, second, joined)) = self.joinable(all, &terms) {
            terms[second] = joined;
            terms.remove(first);
        }
        terms.retain(|term| *term != neutral);
        if terms.contains(&absorbing) {
            return absorbing;
        }
        match terms.len() {
            0 => neutral,
            1 => terms.remove(0),
            _ if all => Term::All(terms),
            _ => Term::Any(terms),
        }
    }

    fn joinable(&self, all: bool, terms: &[Term]) -> Option<(usize, usize, Term)> {
        for (first, a) in terms.iter().enumerate() {
            for (second, b) in terms.iter().enumerate().skip(first + 1) {
                let joined = if a == b {
                    Some(a.clone())
                } else if all {
                    self.both(a, b).or_else(|| self.both(b, a))
                } else {
                    self.either(a, b)
                };
                if let Some(joined) = joined {
                    return Some((first, second, joined));
                }
            }
        }
        None
    }

    /// One term for two joined by `||`.
    fn either(&self, a: &Term, b: &Term) -> Option<Term> {
        match (a, b) {
            (Term::Symbol(a), Term::Not(b)) | (Term::Not(a), Term::Symbol(b))
                if a == b && self.symbol(*a).kind == Type::Bool =>
            {
                Some(YES)
            }
            (Term::Compare(Relation::Equal, a, x), Term::Compare(Relation::Equal, b, y))
                if a == b && self.symbol(*a).kind == Type::Tristate =>
            {
                Some(Term::Compare(Relation::Unequal, *a, third(*x, *y)?))
            }
            _ => None,
        }
    }

    /// One term for two joined by `&&`.
    fn both(&self, a: &Term, b: &Term) -> Option<Term> {
        let of = match (a, b) {
            (Term::Symbol(a) | Term::Compare(_, a, _), Term::Compare(_, b, _)) if a == b => *a,
            _ => return None,
        };
        if self.symbol(of).kind != Type::Tristate {
            return None;
        }
        match (a, b) {
            (Term::Symbol(_), Term::Compare(relation, _, value)) => match (*relation, *value) {
                (Relation::Equal, SymbolId::YES) => Some(b.clone()),
                (Relation::Unequal, SymbolId::NO) => Some(a.clone()),
                (Relation::Unequal, SymbolId::MOD) => {
                    Some(Term::Compare(Relation::Equal, of, SymbolId::YES))
                }
                _ => None,
            },
            (Term::Compare(Relation::Unequal, _, x), Term::Compare(Relation::Unequal, _, y)) => {
                Some(Term::Compare(Relation::Equal, of, third(*x, *y)?))
            }
            (Term::Compare(Relation::Equal, _, x), Term::Compare(Relation::Unequal, _, y)) => {
                if x == y {
                    Some(NO)
                } else {
                    third(*x, *y).map(|_| a.clone())
                }
            }
            _ => None,
        }
    }
}

/// The one of `n`, `m` and `y` that two different ones leave.
fn third(a: SymbolId, b: SymbolId) -> Option<SymbolId> {
    let letters = [SymbolId::NO, SymbolId::MOD, SymbolId::YES];
    if a == b || !letters.contains(&a) || !letters.contains(&b) {
        return None;
    }
    letters
        .into_iter()
        .find(|letter| *letter != a && *letter != b)
}
