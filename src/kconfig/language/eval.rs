//! Values: what every symbol is, given what was asked for.

use std::cmp::Ordering;

use super::expr::{Expr, ExprId, Relation, SymbolId, Tri};
use super::number::{Base, Number};
use super::order::Unit;
use super::texts::{TextId, Texts};
use super::tree::{ChoiceId, Range, Select, Tree, Type};

/// What was asked for a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Logic(Tri),
    Text(TextId),
}

/// A computed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) tri: Tri,
    pub(super) text: TextId,
    /// How far a prompt lets a person set it.
    pub(super) visible: Tri,
    /// Whether the configuration has a line for it.
    pub(super) written: bool,
}

const BLANK: Cell = Cell {
    tri: Tri::No,
    text: TextId::EMPTY,
    visible: Tri::No,
    written: false,
};

/// A tree with a configuration.
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) tree: Tree,
    pub(super) texts: Texts,
    /// By symbol.
    pub(super) asked: Vec<Option<Asked>>,
    /// By symbol: when it was asked for; later is greater, zero is never.
    pub(super) when: Vec<u32>,
    /// When the last line was asked.
    pub(super) latest: u32,
    /// By symbol.
    pub(super) cells: Vec<Cell>,
    /// Whether reading the configuration gave a warning.
    pub(super) warned: bool,
    /// By choice.
    pub(super) chosen: Vec<Option<SymbolId>>,
}

impl Model {
    /// The tree with an empty configuration.
    pub fn new(tree: Tree) -> Self {
        let mut texts = Texts::new();
        let mut cells = vec![BLANK; tree.symbols.len()];
        for (cell, symbol) in cells.iter_mut().zip(&tree.symbols) {
            // A symbol without entry is `n`, and its text is its own name.
            cell.text = texts.add(&symbol.name);
        }
        cells[SymbolId::MOD.index()].tri = Tri::Mod;
        cells[SymbolId::YES.index()].tri = Tri::Yes;
        let mut model = Self {
            asked: vec![None; tree.symbols.len()],
            warned: false,
            latest: 0,
            when: vec![0; tree.symbols.len()],
            chosen: vec![None; tree.choices.len()],
            cells,
            texts,
            tree,
        };
        model.resolve();
        model
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Computes every value.
    pub(super) fn resolve(&mut self) {
        for place in 0..self.tree.plan.order.len() {
            match self.tree.plan.order[place] {
                Unit::Symbol(symbol) => {
                    self.cell(symbol);
                }
                Unit::Choice(choice) => self.chosen[choice.index()] = self.choose(choice),
            }
        }
    }

    /// Computes the value of a symbol from what it reads.
    pub(super) fn cell(&mut self, symbol: SymbolId) -> Cell {
        // What a symbol reads of itself is `n`.
        if self.tree.symbol(symbol).is_defined() {
            self.cells[symbol.index()].tri = Tri::No;
        }
        let cell = self.symbol_cell(symbol);
        self.cells[symbol.index()] = cell;
        cell
    }

    /// The value of an expression.
    pub fn expr(&self, id: ExprId) -> Tri {
        match self.tree.exprs.get(id) {
            Expr::Always => Tri::Yes,
            Expr::Symbol(symbol) => self.cells[symbol.index()].tri,
            Expr::Not(inner) => self.expr(inner).negated(),
            Expr::And(a, b) => match self.expr(a) {
                Tri::No => Tri::No,
                left => left.min(self.expr(b)),
            },
            Expr::Or(a, b) => match self.expr(a) {
                Tri::Yes => Tri::Yes,
                left => left.max(self.expr(b)),
            },
            Expr::Compare(relation, a, b) => self.holds(relation, a, b),
        }
    }

    /// Whether the symbol's values are only `n` and `y`.
    pub fn is_bool(&self, symbol: SymbolId) -> bool {
        match self.tree.symbol(symbol).kind {
            Type::Bool => true,
            Type::Tristate => self
                .tree
                .modules
                .is_none_or(|modules| self.cells[modules.index()].tri == Tri::No),
            _ => false,
        }
    }

    /// The symbol's value as text.
    pub(super) fn text(&self, symbol: SymbolId) -> TextId {
        let cell = &self.cells[symbol.index()];
        if self.tree.symbol(symbol).kind.is_logic() {
            match cell.tri {
                Tri::No => TextId::N,
                Tri::Mod => TextId::M,
                Tri::Yes => TextId::Y,
            }
        } else {
            cell.text
        }
    }

    pub(super) fn holds(&self, relation: Relation, a: SymbolId, b: SymbolId) -> Tri {
        Tri::from(self.compare(relation, a, b))
    }

    fn compare(&self, relation: Relation, a: SymbolId, b: SymbolId) -> bool {
        let is_text = |symbol| self.tree.symbol(symbol).kind == Type::Text;
        let (left, right) = if is_text(a) && is_text(b) {
            (None, None)
        } else {
            (self.number(a), self.number(b))
        };
        let order = match (left, right) {
            // Where one side is hex, a negative other side is a very large number.
            (Some(a), Some(b)) if a.unsigned || b.unsigned => a.bits.cmp(&b.bits),
            (Some(a), Some(b)) => a.bits.cast_signed().cmp(&b.bits.cast_signed()),
            _ => {
                let (a, b) = (self.text(a), self.text(b));
                if a == b {
                    Ordering::Equal
                } else {
                    self.texts
                        .get(a)
                        .as_bytes()
                        .cmp(self.texts.get(b).as_bytes())
                }
            }
        };
        relation.holds(order)
    }

    /// The number that a symbol's value is in a comparison with other than two strings.
    fn number(&self, symbol: SymbolId) -> Option<Number> {
        let text = self.texts.get(self.text(symbol));
        match self.tree.symbol(symbol).kind {
            Type::Bool | Type::Tristate => {
                let value = self.cells[symbol.index()].tri;
                Some(Number {
                    bits: value as u64,
                    unsigned: false,
                })
            }
            Type::Int => Number::whole(text, Base::Ten),
            Type::Hex => Number::whole(text, Base::Sixteen),
            Type::Text | Type::Unknown => Number::whole(text, Base::Any),
        }
    }

    /// How far a prompt lets a person set the symbol.
    pub fn visibility(&self, symbol: SymbolId) -> Tri {
        let nodes = &self.tree.symbol(symbol).nodes;
        let prompts = nodes
            .iter()
            .filter_map(|node| self.tree.node(*node).prompt.as_ref());
        let most = prompts.map(|prompt| self.expr(prompt.condition)).max();
        self.rounded(symbol, most.unwrap_or(Tri::No))
    }

    fn rounded(&self, symbol: SymbolId, value: Tri) -> Tri {
        if self.is_bool(symbol) {
            value.rounded_up()
        } else {
            value
        }
    }

    /// The value that one select demands.
    pub fn demand(&self, select: &Select) -> Tri {
        match self.cells[select.by.index()].tri {
            Tri::No => Tri::No,
            by => by.min(self.expr(select.condition)),
        }
    }

    /// The greatest value that a list of selects demands.
    fn demanded(&self, symbol: SymbolId, list: &[Select]) -> Tri {
        let most = list.iter().map(|select| self.demand(select)).max();
        self.rounded(symbol, most.unwrap_or(Tri::No))
    }

    /// The value that all selects of a symbol demand.
    pub fn selected(&self, id: SymbolId) -> Tri {
        self.demanded(id, &self.tree.symbol(id).selected_by)
    }

    /// What the dependencies of a symbol's entries allow.
    pub fn direct(&self, id: SymbolId) -> Tri {
        let entries = self.tree.symbol(id).direct.iter();
        let most = entries.map(|entry| self.expr(*entry)).max();
        self.rounded(id, most.unwrap_or(Tri::Yes))
    }

    /// Which member of a choice is chosen.
    pub(super) fn choose(&self, id: ChoiceId) -> Option<SymbolId> {
        let choice = self.tree.choice(id);
        let visible = |member: SymbolId| self.visibility(member) != Tri::No;
        let asked = |member: SymbolId| match self.asked[member.index()] {
            Some(Asked::Logic(value)) => Some(value != Tri::No),
            _ => None,
        };
        let members = || choice.members.iter().copied().filter(|m| visible(*m));
        let yes = members().filter(|m| asked(*m) == Some(true));
        if let Some(last) = yes.max_by_key(|m| self.when[m.index()]) {
            return Some(last);
        }
        let default = choice
            .defaults
            .iter()
            .filter(|default| self.expr(default.condition) != Tri::No)
            .filter_map(|default| match self.tree.exprs.get(default.value) {
                Expr::Symbol(symbol) => Some(symbol),
                _ => None,
            })
            .find(|symbol| visible(*symbol));
        if let Some(default) = default
            && asked(default).is_none()
        {
            return Some(default);
        }
        let unset = members().find(|m| asked(*m).is_none());
        unset.or_else(|| members().min_by_key(|m| self.when[m.index()]))
    }

    fn symbol_cell(&self, id: SymbolId) -> Cell {
        let symbol = self.tree.symbol(id);
        if !symbol.is_defined() {
            return self.cells[id.index()];
        }
        let visible = self.visibility(id);
        let mut cell = Cell {
            tri: Tri::No,
            text: TextId::EMPTY,
            visible,
            written: visible != Tri::No,
        };
        match symbol.kind {
            Type::Unknown => {
                return Cell {
                    written: false,
                    ..self.cells[id.index()]
                };
            }
            Type::Bool | Type::Tristate => self.logic(id, &mut cell),
            Type::Int | Type::Hex | Type::Text => self.worded(id, &mut cell),
        }
        if symbol.transitional {
            cell.written = false;
        }
        cell
    }

    fn logic(&self, id: SymbolId, cell: &mut Cell) {
        let symbol = self.tree.symbol(id);
        if let Some(choice) = symbol.choice {
            // Nothing but its choice gives a member a value.
            let chosen = self.chosen[choice.index()] == Some(id);
            cell.tri = Tri::from(chosen && cell.visible != Tri::No);
            return;
        }
        let asked = match self.asked[id.index()] {
            Some(Asked::Logic(value)) => Some(value),
            _ => None,
        };
        let demanded = self.selected(id);
        if let Some(value) = asked
            && symbol.transitional
        {
            cell.tri = value;
        } else if let Some(value) = asked
            && cell.visible != Tri::No
        {
            cell.tri = value.min(cell.visible);
        } else {
            cell.tri = self.default(id);
            cell.written |= cell.tri != Tri::No;
            let implied = self.demanded(id, &symbol.implied_by);
            if implied != Tri::No {
                let direct = self.direct(id);
                cell.tri = cell.tri.max(implied).min(direct);
                cell.written = true;
            }
        }
        cell.written |= demanded != Tri::No;
        cell.tri = cell.tri.max(demanded);
        cell.tri = self.rounded(id, cell.tri);
    }

    fn default(&self, id: SymbolId) -> Tri {
        for default in &self.tree.symbol(id).defaults {
            let condition = self.expr(default.condition);
            if condition != Tri::No {
                return self.expr(default.value).min(condition);
            }
        }
        Tri::No
    }

    fn worded(&self, id: SymbolId, cell: &mut Cell) {
        let symbol = self.tree.symbol(id);
        cell.text = match symbol.kind {
            Type::Int => TextId::ZERO,
            Type::Hex => TextId::HEX_ZERO,
            _ => TextId::EMPTY,
        };
        let asked = match self.asked[id.index()] {
            Some(Asked::Text(text)) if cell.visible != Tri::No || symbol.transitional => Some(text),
            _ => None,
        };
        if let Some(text) = asked {
            cell.text = text;
        } else {
            let mut defaults = symbol.defaults.iter();
            let default = defaults.find(|default| self.expr(default.condition) != Tri::No);
            if let Some(default) = default
                && let Expr::Symbol(value) = self.tree.exprs.get(default.value)
            {
                cell.written = true;
                cell.text = self.default_text(value);
            }
        }
        if let Some(bound) = self.beyond(id, cell.text) {
            cell.text = bound;
        }
    }

    /// The text that a default or a bound gives: of a bool it is always `n`.
    fn default_text(&self, symbol: SymbolId) -> TextId {
        let known = self.tree.symbol(symbol);
        if known.kind.is_logic() && !known.constant {
            TextId::N
        } else {
            self.text(symbol)
        }
    }

    /// The range that counts for a symbol.
    pub fn range(&self, id: SymbolId) -> Option<&Range> {
        let mut ranges = self.tree.symbol(id).ranges.iter();
        ranges.find(|range| self.expr(range.condition) != Tri::No)
    }

    /// The bound that takes the place of a value beyond it.
    fn beyond(&self, id: SymbolId, text: TextId) -> Option<TextId> {
        let base = |kind| match kind {
            Type::Int => Some(Base::Ten),
            Type::Hex => Some(Base::Sixteen),
            _ => None,
        };
        let own = base(self.tree.symbol(id).kind)?;
        let range = self.range(id)?;
        let leading = |text, base| Number::leading(self.texts.get(text), base);
        // A bound that is an int or hex symbol is read as that.
        let bound = |end| {
            let base = base(self.tree.symbol(end).kind).unwrap_or(own);
            leading(self.text(end), base)
        };
        let value = leading(text, own);
        if value < bound(range.low) {
            Some(self.default_text(range.low))
        } else if value > bound(range.high) {
            Some(self.default_text(range.high))
        } else {
            None
        }
    }
}
