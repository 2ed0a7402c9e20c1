//! The lines behind an entry's first: its type, prompt, dependencies and the rest.

use super::error::{Place, Problem};
use super::expr::{ExprId, Exprs, SymbolId};
use super::finish::DEEPEST;
use super::lex::{Token, unexpected};
use super::line::Line;
use super::macros::Trouble;
use super::parse::Parser;
use super::tree::{Default, Kind, NodeId, Prompt, Range, Select, Type};
use super::warning::ParseWarning;

/// Refuses an expression that is nested deeper than any tree needs.
fn shallow(exprs: &Exprs, id: ExprId) -> Result<(), Problem> {
    if exprs.depth(id) > DEEPEST {
        return Err(Problem::TooDeep);
    }
    Ok(())
}

impl Parser<'_> {
    /// The entry that an attribute belongs to.
    pub(super) fn attribute(
        &self,
        attribute: &'static str,
        takes: impl FnOnce(Kind) -> bool,
    ) -> Result<NodeId, Problem> {
        let Some(node) = self.entry else {
            return Err(Problem::WrongAttribute {
                attribute,
                entry: "nothing",
            });
        };
        if takes(self.tree.node(node).kind) {
            Ok(node)
        } else {
            Err(Problem::WrongAttribute {
                attribute,
                entry: self.block(node),
            })
        }
    }

    /// The symbol whose entry an attribute belongs to.
    fn of_config(&self, attribute: &'static str) -> Result<(NodeId, SymbolId), Problem> {
        let node = self.attribute(attribute, |kind| matches!(kind, Kind::Config(_)))?;
        match self.tree.node(node).kind {
            Kind::Config(symbol) => Ok((node, symbol)),
            _ => Err(Problem::TooDeep),
        }
    }

    pub(super) fn attributes(
        &mut self,
        word: &str,
        line: &mut Line<'_>,
        place: Place,
    ) -> Result<(), Trouble> {
        match word {
            "bool" => self.typed("bool", Type::Bool, line, place)?,
            "tristate" => self.typed("tristate", Type::Tristate, line, place)?,
            "int" => self.typed("int", Type::Int, line, place)?,
            "hex" => self.typed("hex", Type::Hex, line, place)?,
            "string" => self.typed("string", Type::Text, line, place)?,
            "def_bool" => self.typed_default("def_bool", Type::Bool, line, place)?,
            "def_tristate" => self.typed_default("def_tristate", Type::Tristate, line, place)?,
            "prompt" => {
                let node = self.attribute("prompt", |kind| {
                    matches!(kind, Kind::Config(_) | Kind::Choice(_))
                })?;
                self.asked(node, line, place)?;
            }
            "default" => self.default("default", line, place)?,
            "depends" => self.depends(line)?,
            "select" | "imply" => self.select(word == "select", line, place)?,
            "range" => self.range(line, place)?,
            "visible" => self.visible(line)?,
            "modules" => {
                let (_, symbol) = self.of_config("modules")?;
                if self.tree.modules.is_some() {
                    return Err(Problem::SecondModules.into());
                }
                self.tree.modules = Some(symbol);
            }
            "transitional" => {
                let (_, symbol) = self.of_config("transitional")?;
                self.tree.symbols[symbol.index()].transitional = true;
            }
            "optional" => {
                // Older trees only: a choice that may be left open.
                self.attribute("optional", |kind| matches!(kind, Kind::Choice(_)))?;
            }
            word => return Err(Problem::UnknownStatement(word.to_owned()).into()),
        }
        Ok(())
    }

    fn set_type(&mut self, node: NodeId, symbol: SymbolId, kind: Type) {
        let place = self.tree.node(node).place;
        let symbol = &mut self.tree.symbols[symbol.index()];
        if symbol.kind == Type::Unknown {
            symbol.kind = kind;
        } else if symbol.kind != kind {
            let (name, old, new) = (&symbol.name, symbol.kind.keyword(), kind.keyword());
            let text = format!("ignoring type redefinition of '{name}' from '{old}' to '{new}'");
            self.warnings.push(ParseWarning::Entry(place, text));
        }
    }

    fn typed(
        &mut self,
        word: &'static str,
        kind: Type,
        line: &mut Line<'_>,
        place: Place,
    ) -> Result<(), Problem> {
        let is_strict = self.dialect.is_strict;
        let node = self.attribute(word, |kind| {
            matches!(kind, Kind::Config(_)) || (!is_strict && matches!(kind, Kind::Choice(_)))
        })?;
        if !line.is_at_end() {
            self.asked(node, line, place)?;
        }
        // Older trees give a choice a type too; it means nothing.
        if let Kind::Config(symbol) = self.tree.node(node).kind {
            self.set_type(node, symbol, kind);
        }
        Ok(())
    }

    fn typed_default(
        &mut self,
        word: &'static str,
        kind: Type,
        line: &mut Line<'_>,
        place: Place,
    ) -> Result<(), Problem> {
        let (node, symbol) = self.of_config(word)?;
        self.set_type(node, symbol, kind);
        self.default(word, line, place)
    }

    /// `"text" if condition`.
    fn asked(&mut self, node: NodeId, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let text = line.text()?;
        let own = line.optional_if(&mut self.tree)?;
        self.prompt(node, &text, own, place);
        Ok(())
    }

    pub(super) fn prompt(&mut self, node: NodeId, text: &str, own: ExprId, place: Place) {
        let mut own = own;
        if let Some(earlier) = &self.tree.node(node).prompt {
            // The later text is shown; one of both is enough to be asked.
            own = self.tree.exprs.or(earlier.own, own);
            let text = "prompt redefined".to_owned();
            self.warnings.push(ParseWarning::Entry(place, text));
        }
        let text = self.trimmed(text.to_owned(), place);
        self.tree.nodes[node.index()].prompt = Some(Prompt {
            text,
            own,
            condition: own,
            place,
        });
    }

    /// A prompt's text as it is shown.
    pub(super) fn trimmed(&mut self, text: String, place: Place) -> String {
        let trimmed = text.trim_start_matches([' ', '\t']);
        if trimmed.len() == text.len() {
            return text;
        }
        let warning = "leading whitespace ignored".to_owned();
        self.warnings.push(ParseWarning::Entry(place, warning));
        trimmed.to_owned()
    }

    fn default(
        &mut self,
        word: &'static str,
        line: &mut Line<'_>,
        place: Place,
    ) -> Result<(), Problem> {
        let node = self.attribute(word, |kind| {
            matches!(kind, Kind::Config(_) | Kind::Choice(_))
        })?;
        let value = if matches!(self.tree.node(node).kind, Kind::Choice(_)) {
            let symbol = line.symbol(&mut self.tree)?;
            self.tree.exprs.symbol(symbol)
        } else {
            line.expression(&mut self.tree)?
        };
        let condition = line.optional_if(&mut self.tree)?;
        let default = Default {
            value,
            condition,
            node,
            place,
        };
        match self.tree.node(node).kind {
            Kind::Config(symbol) => self.tree.symbols[symbol.index()].defaults.push(default),
            Kind::Choice(choice) => self.tree.choices[choice.index()].defaults.push(default),
            Kind::Menu | Kind::Comment | Kind::If => {}
        }
        Ok(())
    }

    fn depends(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let node = self.attribute("depends on", |kind| kind != Kind::If)?;
        line.word("on")?;
        let wanted = line.expression(&mut self.tree)?;
        let condition = line.optional_if(&mut self.tree)?;
        let exprs = &mut self.tree.exprs;
        let wanted = if condition == ExprId::ALWAYS {
            wanted
        } else {
            let off = exprs.is_off(condition, true);
            exprs.or(wanted, off)
        };
        let entry = &mut self.tree.nodes[node.index()];
        entry.own = exprs.and(entry.own, wanted);
        shallow(exprs, entry.own)
    }

    fn select(&mut self, select: bool, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let (node, by) = self.of_config(if select { "select" } else { "imply" })?;
        let target = match line.next() {
            Some(Token::Word { text, .. }) => self.tree.name(text),
            other => return Err(unexpected("a symbol", other)),
        };
        let condition = line.optional_if(&mut self.tree)?;
        let select_ = Select {
            by,
            target,
            condition,
            node,
            place,
        };
        let symbol = &mut self.tree.symbols[by.index()];
        if select {
            symbol.selects.push(select_);
        } else {
            symbol.implies.push(select_);
        }
        Ok(())
    }

    fn range(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let (node, symbol) = self.of_config("range")?;
        let low = line.symbol(&mut self.tree)?;
        let high = line.symbol(&mut self.tree)?;
        let condition = line.optional_if(&mut self.tree)?;
        self.tree.symbols[symbol.index()].ranges.push(Range {
            low,
            high,
            condition,
            node,
            place,
        });
        Ok(())
    }

    fn visible(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let node = self.attribute("visible if", |kind| kind == Kind::Menu)?;
        let condition = line.optional_if(&mut self.tree)?;
        let entry = &mut self.tree.nodes[node.index()];
        entry.visible_if = self.tree.exprs.and(entry.visible_if, condition);
        shallow(&self.tree.exprs, entry.visible_if)
    }
}
