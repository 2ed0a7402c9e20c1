//! What the kernel's own reader finds wrong once all files are read: errors that stop it, and
//! warnings.

use super::dialect::Dialect;
use super::error::{Place, Problem};
use super::expr::{Expr, ExprId, SymbolId};
use super::read::is_value;
use super::tree::{Choice, Kind, NodeId, Tree, Type};
use super::warning::ParseWarning;

impl Tree {
    /// Adds the warnings that need the whole tree, or returns the first thing that stops the reader.
    pub(super) fn check(&mut self, dialect: Dialect) -> Result<(), (Place, Problem)> {
        let mut warnings = Vec::new();
        for (id, node) in self.nodes().skip(1) {
            match node.kind {
                Kind::Config(symbol) => {
                    self.check_entry(id, symbol, &mut warnings);
                    self.check_member(id, symbol, dialect)?;
                    self.check_transitional(symbol)?;
                }
                Kind::Choice(choice) => self.check_choice(self.choice(choice), &mut warnings),
                Kind::Menu | Kind::Comment | Kind::If => {}
            }
        }
        self.warnings.append(&mut warnings);
        Ok(())
    }

    fn check_entry(&self, id: NodeId, symbol: SymbolId, warnings: &mut Vec<ParseWarning>) {
        let known = self.symbol(symbol);
        if known.nodes.first() != Some(&id) {
            return;
        }
        let name = &known.name;
        let mut found: Vec<(NodeId, Place, String)> = Vec::new();
        let mut warn = |node, place, text: String| found.push((node, place, text));
        if known.kind == Type::Unknown {
            let text = "config symbol defined without type";
            warn(id, self.node(id).place, text.to_owned());
        }
        for default in &known.defaults {
            match self.exprs.get(default.value) {
                Expr::Symbol(value) => {
                    if !self.fits(known.kind, value) {
                        warn(
                            default.node,
                            default.place,
                            format!("'{name}': number is invalid"),
                        );
                    }
                }
                _ if known.kind.is_logic() || known.kind == Type::Unknown => {}
                _ => {
                    let text =
                        format!("default for config symbol '{name}' must be a single symbol");
                    warn(default.node, default.place, text);
                }
            }
        }
        for (word, select) in (known.selects.iter().map(|select| ("select", select)))
            .chain(known.implies.iter().map(|imply| ("imply", imply)))
        {
            let target = self.symbol(select.target);
            if !known.kind.is_logic() {
                let text =
                    format!("config symbol '{name}' uses {word}, but is not bool or tristate");
                warn(select.node, select.place, text);
            } else if target.kind != Type::Unknown && !target.kind.is_logic() {
                let target = &target.name;
                warn(
                    select.node,
                    select.place,
                    format!(
                        "'{target}' has wrong type. '{word}' only accept arguments of bool and \
                         tristate type"
                    ),
                );
            }
        }
        for range in &known.ranges {
            let numeric = matches!(known.kind, Type::Int | Type::Hex);
            if !numeric {
                let text = "range is only allowed for int or hex symbols";
                warn(range.node, range.place, text.to_owned());
            }
            let fit = self.fits(known.kind, range.low) && self.fits(known.kind, range.high);
            if known.kind != Type::Text && !(numeric && fit) {
                warn(range.node, range.place, "range is invalid".to_owned());
            }
        }
        // In the order of reading, as each entry's attributes are looked at in turn.
        found.sort_by_key(|(node, place, _)| (*node, *place));
        let found = found.into_iter();
        warnings.extend(found.map(|(_, place, text)| ParseWarning::Entry(place, text)));
    }

    /// Whether a symbol can be a value of an int or hex; what other types take is always right.
    fn fits(&self, kind: Type, value: SymbolId) -> bool {
        let known = self.symbol(value);
        match kind {
            Type::Int | Type::Hex => {
                matches!(known.kind, Type::Int | Type::Hex) || is_value(kind, &known.name)
            }
            _ => true,
        }
    }

    fn check_choice(&self, choice: &Choice, warnings: &mut Vec<ParseWarning>) {
        for default in &choice.defaults {
            if let Expr::Symbol(symbol) = self.exprs.get(default.value)
                && !choice.members.contains(&symbol)
            {
                let name = &self.symbol(symbol).name;
                let text = format!("choice default symbol '{name}' is not contained in the choice");
                warnings.push(ParseWarning::Entry(default.place, text));
            }
        }
    }

    /// A member of a choice is a bool with a prompt in the choice, and without default.
    fn check_member(
        &self,
        id: NodeId,
        symbol: SymbolId,
        dialect: Dialect,
    ) -> Result<(), (Place, Problem)> {
        let node = self.node(id);
        let known = self.symbol(symbol);
        if known.choice.is_none() {
            return Ok(());
        }
        let within = self.choice_around(node) == known.choice;
        // Strict readers look for a second prompt in the choice too.
        let prompted = |other: &NodeId| self.node(*other).prompt.is_some();
        let again =
            dialect.is_strict && known.nodes.iter().find(|other| prompted(other)) != Some(&id);
        match &node.prompt {
            _ if within && known.kind != Type::Bool => {
                return Err((node.place, Problem::Member("must be bool")));
            }
            None if within => {
                return Err((node.place, Problem::Member("must have a prompt")));
            }
            // That of a `menuconfig` is not looked at.
            Some(prompt) if (!within || again) && !node.is_menuconfig => {
                let problem = Problem::Member("has a prompt outside its choice");
                return Err((prompt.place, problem));
            }
            _ => {}
        }
        match known.defaults.first() {
            Some(default) => Err((default.place, Problem::Member("cannot have a default"))),
            None => Ok(()),
        }
    }

    /// A transitional symbol has a type and a help text, and nothing else.
    fn check_transitional(&self, symbol: SymbolId) -> Result<(), (Place, Problem)> {
        let known = self.symbol(symbol);
        let Some(first) = known.nodes.first().filter(|_| known.transitional) else {
            return Ok(());
        };
        let asked = |id: &NodeId| self.node(*id).prompt.is_some();
        let other = !known.defaults.is_empty()
            || !known.ranges.is_empty()
            || !known.selects.is_empty()
            || !known.implies.is_empty()
            || known.nodes.iter().any(asked)
            || known
                .nodes
                .iter()
                .any(|id| self.node(*id).dependency != ExprId::ALWAYS);
        if other {
            return Err((
                self.node(*first).place,
                Problem::Transitional(known.name.clone()),
            ));
        }
        Ok(())
    }
}
