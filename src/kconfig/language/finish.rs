//! What follows from the entries as a whole: inherited dependencies, reverse dependencies, members
//! of choices, and the order in which values can be computed.

use std::collections::HashMap;

use super::error::{Place, Problem};
use super::expr::{Expr, ExprId, SymbolId};
use super::order::Plan;
use super::tree::{ChoiceId, Kind, Node, NodeId, Tree};

/// Expressions may be nested this deep, those of the entries around included.
pub(super) const DEEPEST: u32 = 2000;

impl Tree {
    /// Completes a tree whose files have all been read.
    pub(super) fn finish(&mut self) -> Result<(), (Place, Problem)> {
        let mut gate = Gate {
            modules: self.modules.unwrap_or(SymbolId::NO),
            known: HashMap::new(),
        };
        let mut children: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes().skip(1) {
            children[node.parent.index()].push(id);
        }
        self.members();
        self.inherit(&mut gate)?;
        self.properties(&mut gate);
        self.direct();
        // Who selects whom is listed level by level: all entries of a block before those within them.
        let mut blocks = vec![NodeId::ROOT];
        while let Some(block) = blocks.pop() {
            for child in &children[block.index()] {
                self.register(*child);
            }
            blocks.extend(children[block.index()].iter().rev());
        }
        self.plan = Plan::of(self);
        Ok(())
    }

    /// Finds the members of each choice: the entries in it, whatever `if` they stand in.
    fn members(&mut self) {
        for index in 1..self.nodes.len() {
            let Kind::Config(symbol) = self.nodes[index].kind else {
                continue;
            };
            if let Some(choice) = self.choice_around(&self.nodes[index]) {
                let members = &mut self.choices[choice.index()].members;
                if !members.contains(&symbol) {
                    members.push(symbol);
                }
                self.symbols[symbol.index()].choice = Some(choice);
            }
        }
    }

    /// The choice that an entry is a member of.
    pub(super) fn choice_around(&self, node: &Node) -> Option<ChoiceId> {
        let mut around = self.node(node.parent);
        while around.kind == Kind::If {
            around = self.node(around.parent);
        }
        match around.kind {
            Kind::Choice(choice) => Some(choice),
            _ => None,
        }
    }

    /// Gives every entry the dependencies of the entries around it.
    fn inherit(&mut self, gate: &mut Gate) -> Result<(), (Place, Problem)> {
        let mut visible = vec![ExprId::ALWAYS; self.nodes.len()];
        for index in 1..self.nodes.len() {
            let node = &self.nodes[index];
            let (own, parent, visible_if) = (node.own, node.parent, node.visible_if);
            let outer = self.nodes[parent.index()].dependency;
            let own = gate.applied(self, own);
            let visible_if = gate.applied(self, visible_if);
            let dependency = self.exprs.and(outer, own);
            if self.exprs.depth(dependency) > DEEPEST {
                return Err((self.nodes[index].place, Problem::TooDeep));
            }
            self.nodes[index].dependency = dependency;
            visible[index] = self.exprs.and(visible[parent.index()], visible_if);
            let around = visible[parent.index()];
            if let Some(own) = self.nodes[index].prompt.as_ref().map(|p| p.own) {
                let own = gate.applied(self, own);
                let mut condition = self.exprs.and(dependency, own);
                // `visible if` hides what can be asked; a text below stays.
                if matches!(self.nodes[index].kind, Kind::Config(_) | Kind::Choice(_)) {
                    condition = self.exprs.and(condition, around);
                }
                if let Some(prompt) = &mut self.nodes[index].prompt {
                    prompt.condition = condition;
                }
            }
        }
        Ok(())
    }

    /// Gives every property the dependencies of its entry.
    fn properties(&mut self, gate: &mut Gate) {
        for index in 0..self.symbols.len() {
            let mut symbol = std::mem::replace(
                &mut self.symbols[index],
                super::tree::Symbol::new(String::new(), false),
            );
            let mut complete = |node: NodeId, condition: &mut ExprId| {
                let own = gate.applied(self, *condition);
                let dependency = self.nodes[node.index()].dependency;
                *condition = self.exprs.and(dependency, own);
            };
            for default in &mut symbol.defaults {
                complete(default.node, &mut default.condition);
            }
            for range in &mut symbol.ranges {
                complete(range.node, &mut range.condition);
            }
            for select in symbol.selects.iter_mut().chain(&mut symbol.implies) {
                complete(select.node, &mut select.condition);
            }
            self.symbols[index] = symbol;
        }
        for index in 0..self.choices.len() {
            let mut defaults = std::mem::take(&mut self.choices[index].defaults);
            for default in &mut defaults {
                let own = gate.applied(self, default.condition);
                let dependency = self.nodes[default.node.index()].dependency;
                default.condition = self.exprs.and(dependency, own);
            }
            self.choices[index].defaults = defaults;
        }
    }

    /// Finds what each symbol depends on. An entry without dependency adds nothing, and a member of
    /// a choice has none.
    fn direct(&mut self) {
        for index in 1..self.nodes.len() {
            let node = &self.nodes[index];
            let Kind::Config(symbol) = node.kind else {
                continue;
            };
            let dependency = node.dependency;
            if dependency != ExprId::ALWAYS && self.choice_around(node).is_none() {
                self.symbols[symbol.index()].direct.push(dependency);
            }
        }
    }

    /// Tells the symbols that an entry speaks of about it.
    fn register(&mut self, id: NodeId) {
        let node = self.node(id);
        let Kind::Config(symbol) = node.kind else {
            return;
        };
        let of_this = |select: &&super::tree::Select| select.node == id;
        let entry = &self.symbols[symbol.index()];
        let selects: Vec<_> = entry.selects.iter().filter(of_this).copied().collect();
        let implies: Vec<_> = entry.implies.iter().filter(of_this).copied().collect();
        for select in selects {
            // Selecting a member of a choice does nothing.
            if self.symbols[select.target.index()].choice.is_some() {
                continue;
            }
            self.symbols[select.target.index()].selected_by.push(select);
        }
        for imply in implies {
            if self.symbols[imply.target.index()].choice.is_some() {
                continue;
            }
            self.symbols[imply.target.index()].implied_by.push(imply);
        }
    }
}

/// `m` in a condition is `m && MODULES`.
struct Gate {
    modules: SymbolId,
    known: HashMap<ExprId, ExprId>,
}

impl Gate {
    fn applied(&mut self, tree: &mut Tree, id: ExprId) -> ExprId {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let gated = match tree.exprs.get(id) {
            Expr::Symbol(SymbolId::MOD) => {
                let modules = tree.exprs.symbol(self.modules);
                tree.exprs.and(id, modules)
            }
            Expr::Always | Expr::Symbol(_) | Expr::Compare(..) => id,
            Expr::Not(inner) => {
                let inner = self.applied(tree, inner);
                tree.exprs.not(inner)
            }
            Expr::And(a, b) => {
                let (a, b) = (self.applied(tree, a), self.applied(tree, b));
                tree.exprs.and(a, b)
            }
            Expr::Or(a, b) => {
                let (a, b) = (self.applied(tree, a), self.applied(tree, b));
                tree.exprs.or(a, b)
            }
        };
        self.known.insert(id, gated);
        gated
    }
}
