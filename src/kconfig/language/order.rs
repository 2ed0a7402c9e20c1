//! The order in which values can be computed, and who must be computed again when one changes.

use std::collections::HashMap;

use super::error::Problem;
use super::expr::{ExprId, SymbolId};
use super::tree::{ChoiceId, Select, Tree, Type};

/// What is computed at once: a symbol's value, or which member of a choice is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unit {
    Symbol(SymbolId),
    Choice(ChoiceId),
}

/// The plan of all computations of a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// Every unit after all that it reads.
    pub(super) order: Vec<Unit>,
    /// The place of each symbol, then of each choice, in `order`.
    rank: Vec<u32>,
    /// By place: the places of the units that read it.
    readers: Vec<Vec<u32>>,
    symbols: usize,
    /// Units that read each other, if there are any.
    cycle: Vec<Unit>,
    /// Whether they do so only through the bounds of ranges.
    bounds: bool,
}

impl Tree {
    /// Symbols that depend on each other, which no kernel's tree has, and what is wrong with that.
    pub(super) fn cycle(&self) -> Option<(Vec<SymbolId>, Problem)> {
        let symbol = |unit: &Unit| match unit {
            Unit::Symbol(symbol) => Some(*symbol),
            Unit::Choice(_) => None,
        };
        let symbols: Vec<SymbolId> = self.plan.cycle.iter().filter_map(symbol).collect();
        let names = symbols.iter().map(|id| self.symbol(*id).name.clone());
        let problem = if self.plan.bounds {
            Problem::RecursiveBound(names.collect())
        } else {
            Problem::RecursiveDependency(names.collect())
        };
        (!symbols.is_empty()).then_some((symbols, problem))
    }
}

impl Plan {
    pub(super) fn of(tree: &Tree) -> Self {
        let plan = Self::reading(tree, false);
        if plan.cycle.is_empty() || plan.bounds {
            return plan;
        }
        // What stands beside a constant that decides is not read.
        Self::reading(tree, true)
    }

    fn reading(tree: &Tree, shortened: bool) -> Self {
        let symbols = tree.symbols.len();
        let units = symbols + tree.choices.len();
        let mut reads: Vec<Vec<u32>> = Vec::with_capacity(units);
        let mut reader = Reader::new(tree, shortened);
        for (id, _) in tree.symbols() {
            reads.push(reader.symbol(id));
        }
        for (id, _) in tree.choices() {
            reads.push(reader.choice(id));
        }
        // What has no entry is looked at only where something with an entry reads it.
        let start = |unit: usize| unit >= symbols || tree.symbols[unit].is_defined();
        let (mut order, mut cycle) = sorted(&reads, start);
        // A bound is read, but is no dependency; nor is the symbol that enables modules.
        let mut bounds = false;
        if cycle.is_empty() {
            if let Some(modules) = tree.modules {
                for (id, symbol) in tree.symbols() {
                    if symbol.kind == Type::Tristate && id != modules {
                        reads[id.index()].push(modules.0);
                    }
                }
            }
            for (id, symbol) in tree
                .symbols()
                .filter(|(_, symbol)| !symbol.ranges.is_empty())
            {
                let ends = symbol
                    .ranges
                    .iter()
                    .flat_map(|range| [range.low, range.high]);
                let ends = ends.filter(|end| tree.symbol(*end).is_defined());
                reads[id.index()].extend(ends.map(|end| end.0));
            }
            (order, cycle) = sorted(&reads, start);
            bounds = !cycle.is_empty();
        }
        let mut rank = vec![0_u32; units];
        for (place, unit) in (0_u32..).zip(&order) {
            rank[*unit as usize] = place;
        }
        let mut readers = vec![Vec::new(); units];
        for (unit, list) in reads.iter().enumerate() {
            for read in list {
                readers[rank[*read as usize] as usize].push(rank[unit]);
            }
        }
        let unit = |index: u32| {
            let choice = (index as usize).checked_sub(symbols);
            choice.map_or(Unit::Symbol(SymbolId(index)), |choice| {
                Unit::Choice(ChoiceId(u32::try_from(choice).expect("less than `index`")))
            })
        };
        Self {
            order: order.into_iter().map(unit).collect(),
            rank,
            readers,
            symbols,
            cycle: cycle.into_iter().map(unit).collect(),
            bounds,
        }
    }

    /// The place of a unit in the order.
    pub(super) fn place(&self, unit: Unit) -> u32 {
        match unit {
            Unit::Symbol(symbol) => self.rank[symbol.index()],
            Unit::Choice(choice) => self.rank[self.symbols + choice.index()],
        }
    }

    /// The places of the units that read what is computed at `place`.
    pub(super) fn readers(&self, place: u32) -> &[u32] {
        &self.readers[place as usize]
    }
}

/// Sorts units so that each stands after all it reads, and finds some that read each other, if those
/// that are a start reach any.
fn sorted(reads: &[Vec<u32>], start: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
    let mut order = Vec::with_capacity(reads.len());
    let mut cycle = Vec::new();
    let mut seen = vec![false; reads.len()];
    let mut open = vec![false; reads.len()];
    let mut stack: Vec<(u32, usize)> = Vec::new();
    let (starts, others): (Vec<usize>, Vec<usize>) =
        (0..reads.len()).partition(|unit| start(*unit));
    let mut counts = starts.len();
    for unit in starts.into_iter().chain(others) {
        let counted = counts > 0;
        counts = counts.saturating_sub(1);
        if seen[unit] {
            continue;
        }
        seen[unit] = true;
        open[unit] = true;
        stack.push((u32::try_from(unit).expect("indices are 32 bits wide"), 0));
        while let Some((unit, next)) = stack.last_mut() {
            if let Some(read) = reads[*unit as usize].get(*next) {
                *next += 1;
                if !std::mem::replace(&mut seen[*read as usize], true) {
                    open[*read as usize] = true;
                    stack.push((*read, 0));
                } else if counted && open[*read as usize] && cycle.is_empty() {
                    let units = stack.iter().map(|(unit, _)| *unit);
                    cycle = units.skip_while(|unit| unit != read).collect();
                }
            } else {
                open[*unit as usize] = false;
                order.push(*unit);
                stack.pop();
            }
        }
    }
    (order, cycle)
}

/// Collects what a unit reads, each once.
struct Reader<'t> {
    tree: &'t Tree,
    shortened: bool,
    /// The last unit that listed each symbol.
    listed: Vec<u32>,
    unit: u32,
    list: Vec<u32>,
    /// Who selects or implies each member of a choice.
    of_members: HashMap<SymbolId, Vec<Select>>,
}

impl<'t> Reader<'t> {
    fn new(tree: &'t Tree, shortened: bool) -> Self {
        let mut of_members: HashMap<SymbolId, Vec<Select>> = HashMap::new();
        for (_, symbol) in tree.symbols() {
            for select in symbol.selects.iter().chain(&symbol.implies) {
                if tree.symbol(select.target).choice.is_some() {
                    of_members.entry(select.target).or_default().push(*select);
                }
            }
        }
        Self {
            of_members,
            tree,
            shortened,
            listed: vec![u32::MAX; tree.symbols.len()],
            unit: 0,
            list: Vec::new(),
        }
    }

    fn add(&mut self, symbol: SymbolId) {
        let known = &self.tree.symbols[symbol.index()];
        // What is selected but has no entry still counts as depending on who selects it.
        let counts =
            known.is_defined() || !known.selected_by.is_empty() || !known.implied_by.is_empty();
        if counts && self.listed[symbol.index()] != self.unit {
            self.listed[symbol.index()] = self.unit;
            self.list.push(symbol.0);
        }
    }

    fn expr(&mut self, expr: ExprId) {
        let tree = self.tree;
        if self.shortened {
            tree.terms(expr).symbols(&mut |symbol| self.add(symbol));
        } else {
            tree.exprs.symbols(expr, &mut |symbol| self.add(symbol));
        }
    }

    fn visibility(&mut self, symbol: SymbolId) {
        let tree = self.tree;
        for node in &tree.symbol(symbol).nodes {
            if let Some(prompt) = &tree.node(*node).prompt {
                self.expr(prompt.condition);
            }
        }
    }

    fn symbol(&mut self, id: SymbolId) -> Vec<u32> {
        self.parts(id);
        if let Some(choice) = self.tree.symbol(id).choice {
            let unit = self.tree.symbols.len() + choice.index();
            self.list
                .push(u32::try_from(unit).expect("indices are 32 bits wide"));
        }
        self.taken()
    }

    /// All that a symbol depends on but its choice.
    fn parts(&mut self, id: SymbolId) {
        let tree = self.tree;
        let symbol = tree.symbol(id);
        // Selecting a member of a choice does nothing, but makes it depend on who does.
        let of_member = self.of_members.get(&id).cloned().unwrap_or_default();
        let selects = symbol.selected_by.iter().chain(&symbol.implied_by);
        for select in selects.chain(&of_member) {
            self.add(select.by);
            self.expr(select.condition);
        }
        if !symbol.is_defined() {
            return;
        }
        self.visibility(id);
        for entry in &symbol.direct {
            self.expr(*entry);
        }
        for default in &symbol.defaults {
            self.expr(default.condition);
            self.expr(default.value);
        }
        for range in &symbol.ranges {
            self.expr(range.condition);
        }
    }

    fn choice(&mut self, id: ChoiceId) -> Vec<u32> {
        let tree = self.tree;
        let choice = tree.choice(id);
        // What a member depends on, its choice depends on.
        for member in &choice.members {
            self.parts(*member);
        }
        for default in &choice.defaults {
            self.expr(default.condition);
        }
        if let Some(prompt) = &tree.node(choice.node).prompt {
            self.expr(prompt.condition);
        }
        self.taken()
    }

    fn taken(&mut self) -> Vec<u32> {
        self.unit += 1;
        std::mem::take(&mut self.list)
    }
}
