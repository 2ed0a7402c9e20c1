//! Expressions: three values, seven operators, each distinct expression held once.

use std::collections::HashMap;
use std::fmt;

/// The three values of the language, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Tri {
    /// Off.
    #[default]
    No,
    /// A module.
    Mod,
    /// Built in.
    Yes,
}

impl Tri {
    /// `!`: what is missing to `y`.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Mod => Self::Mod,
            Self::Yes => Self::No,
        }
    }

    /// The letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::No => "n",
            Self::Mod => "m",
            Self::Yes => "y",
        }
    }

    /// `y` for `m`: what a bool makes of it.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        if self == Self::Mod { Self::Yes } else { self }
    }
}

impl From<bool> for Tri {
    fn from(truth: bool) -> Self {
        if truth { Self::Yes } else { Self::No }
    }
}

impl fmt::Display for Tri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

/// A symbol, by its index in the [`Tree`](super::Tree): a `config` entry, a name that is only
/// mentioned, or a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub(super) u32);

impl SymbolId {
    /// The constant `n`.
    pub const NO: Self = Self(0);
    /// The constant `m`.
    pub const MOD: Self = Self(1);
    /// The constant `y`.
    pub const YES: Self = Self(2);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An expression, by its index in [`Exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExprId(u32);

impl ExprId {
    /// What stands where nothing was written: no condition.
    pub const ALWAYS: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a comparison compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// The operator as it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// The relation that holds where this one does not.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::Unequal,
            Self::Unequal => Self::Equal,
            Self::Less => Self::AtLeast,
            Self::AtMost => Self::Greater,
            Self::Greater => Self::AtMost,
            Self::AtLeast => Self::Less,
        }
    }

    /// Whether two sides in this order stand in this relation.
    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// One expression; its parts are held in the same [`Exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expr {
    /// No condition was written: `y`.
    Always,
    /// The value of a symbol.
    Symbol(SymbolId),
    /// `!`
    Not(ExprId),
    /// `&&`
    And(ExprId, ExprId),
    /// `||`
    Or(ExprId, ExprId),
    /// Two symbols' values compared.
    Compare(Relation, SymbolId, SymbolId),
}

/// All expressions of a tree. Equal ones are one, so that an index names a meaning and thousands of
/// entries in one `if` share its condition.
#[derive(Clone)]
pub struct Exprs {
    list: Vec<Expr>,
    /// How deep each is nested.
    depth: Vec<u32>,
    known: HashMap<Expr, ExprId>,
}

impl fmt::Debug for Exprs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exprs({})", self.list.len())
    }
}

impl Default for Exprs {
    fn default() -> Self {
        Self {
            list: vec![Expr::Always],
            depth: vec![0],
            known: HashMap::from([(Expr::Always, ExprId::ALWAYS)]),
        }
    }
}

impl Exprs {
    /// The expression.
    pub fn get(&self, id: ExprId) -> Expr {
        self.list[id.index()]
    }

    /// How many distinct expressions there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none but the empty one.
    pub fn is_empty(&self) -> bool {
        self.list.len() <= 1
    }

    /// Holds an expression.
    pub(super) fn add(&mut self, expr: Expr) -> ExprId {
        if let Some(id) = self.known.get(&expr) {
            return *id;
        }
        let count = u32::try_from(self.list.len());
        let id = ExprId(count.expect("fewer expressions than bytes of source"));
        let depth = match expr {
            Expr::Always | Expr::Symbol(_) | Expr::Compare(..) => 0,
            Expr::Not(a) => self.depth(a) + 1,
            Expr::And(a, b) | Expr::Or(a, b) => self.depth(a).max(self.depth(b)) + 1,
        };
        self.list.push(expr);
        self.depth.push(depth);
        self.known.insert(expr, id);
        id
    }

    /// How deep an expression is nested.
    pub(super) fn depth(&self, id: ExprId) -> u32 {
        self.depth[id.index()]
    }

    /// The value of a symbol.
    pub(super) fn symbol(&mut self, symbol: SymbolId) -> ExprId {
        self.add(Expr::Symbol(symbol))
    }

    /// Both; a condition that was not written adds nothing.
    pub(super) fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match (a, b) {
            (ExprId::ALWAYS, one) | (one, ExprId::ALWAYS) => one,
            (a, b) => self.add(Expr::And(a, b)),
        }
    }

    /// Either.
    pub(super) fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.add(Expr::Or(a, b))
    }

    /// Not.
    pub(super) fn not(&mut self, a: ExprId) -> ExprId {
        self.add(Expr::Not(a))
    }

    /// Whether an expression is `n` (or is not), as the kernel's reader writes it for
    /// `depends on A if B`: by comparing each symbol in it with `n`. So `m` counts as on, and a
    /// symbol without entry too, whose text is its name.
    pub(super) fn is_off(&mut self, id: ExprId, off: bool) -> ExprId {
        match self.get(id) {
            Expr::Always if off => self.symbol(SymbolId::NO),
            Expr::Always => self.symbol(SymbolId::YES),
            Expr::Symbol(symbol) => {
                let relation = if off {
                    Relation::Equal
                } else {
                    Relation::Unequal
                };
                self.add(Expr::Compare(relation, symbol, SymbolId::NO))
            }
            Expr::Not(inner) => self.is_off(inner, !off),
            Expr::And(a, b) => {
                let (a, b) = (self.is_off(a, off), self.is_off(b, off));
                if off { self.or(a, b) } else { self.and(a, b) }
            }
            Expr::Or(a, b) => {
                let (a, b) = (self.is_off(a, off), self.is_off(b, off));
                if off { self.and(a, b) } else { self.or(a, b) }
            }
            Expr::Compare(..) if off => self.not(id),
            Expr::Compare(..) => id,
        }
    }

    /// Calls `each` with every symbol that stands in the expression, repeats included.
    pub fn symbols(&self, id: ExprId, each: &mut impl FnMut(SymbolId)) {
        match self.get(id) {
            Expr::Always => {}
            Expr::Symbol(symbol) => each(symbol),
            Expr::Not(inner) => self.symbols(inner, each),
            Expr::And(a, b) | Expr::Or(a, b) => {
                self.symbols(a, each);
                self.symbols(b, each);
            }
            Expr::Compare(_, a, b) => {
                each(a);
                each(b);
            }
        }
    }
}
