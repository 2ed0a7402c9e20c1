//! The configuration file, as the kernel's own writer writes it.

use super::eval::{Cell, Model};
use super::expr::{SymbolId, Tri};
use super::tree::{Kind, NodeId, Type};

impl Model {
    /// The line that a configuration has for a symbol; nothing where it has none.
    pub fn line(&self, symbol: SymbolId) -> Option<String> {
        self.line_of(symbol, self.cells[symbol.index()])
    }

    pub(super) fn line_of(&self, symbol: SymbolId, cell: Cell) -> Option<String> {
        if !cell.written {
            return None;
        }
        let known = self.tree.symbol(symbol);
        let name = &known.name;
        let text = self.texts.get(cell.text);
        Some(match known.kind {
            Type::Unknown => return None,
            Type::Bool | Type::Tristate => match cell.tri {
                Tri::No => format!("# CONFIG_{name} is not set"),
                value => format!("CONFIG_{name}={value}"),
            },
            Type::Int | Type::Hex => format!("CONFIG_{name}={text}"),
            Type::Text => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("CONFIG_{name}=\"{escaped}\"")
            }
        })
    }

    /// The lines of the configuration in their order, without headings.
    pub fn lines(&self) -> Vec<String> {
        let mut done = vec![false; self.tree.symbols.len()];
        let mut lines = Vec::new();
        for (_, node) in self.tree.nodes() {
            if let Kind::Config(symbol) = node.kind
                && !std::mem::replace(&mut done[symbol.index()], true)
            {
                lines.extend(self.line(symbol));
            }
        }
        lines
    }

    /// The whole file, with its headings.
    pub fn file(&self) -> String {
        let mut file = Writer {
            text: String::new(),
            blank: false,
        };
        file.line("#");
        file.line("# Automatically generated file; DO NOT EDIT.");
        file.line(&format!("# {}", self.tree.title));
        file.line("#");
        let mut done = vec![false; self.tree.symbols.len()];
        // The menus that are open and have a heading.
        let mut open: Vec<NodeId> = Vec::new();
        for (id, node) in self.tree.nodes().skip(1) {
            self.close(&mut open, &mut file, |menu| self.is_within(id, menu));
            match node.kind {
                Kind::Config(symbol) => {
                    if !done[symbol.index()]
                        && let Some(line) = self.line(symbol)
                    {
                        done[symbol.index()] = true;
                        if std::mem::take(&mut file.blank) {
                            file.line("");
                        }
                        file.line(&line);
                    }
                }
                Kind::Menu | Kind::Comment if self.is_shown(id) => {
                    let prompt = node.prompt.as_ref().map_or("", |prompt| &prompt.text);
                    file.line("");
                    file.line("#");
                    file.line(&format!("# {prompt}"));
                    file.line("#");
                    file.blank = false;
                    if node.kind == Kind::Menu {
                        open.push(id);
                    }
                }
                Kind::Menu | Kind::Comment | Kind::Choice(_) | Kind::If => {}
            }
        }
        self.close(&mut open, &mut file, |_| false);
        file.text
    }

    /// Writes the ends of the menus that are left.
    fn close(&self, open: &mut Vec<NodeId>, file: &mut Writer, stays: impl Fn(NodeId) -> bool) {
        while let Some(menu) = open.pop_if(|menu| !stays(*menu)) {
            let prompt = self.tree.node(menu).prompt.as_ref();
            let text = prompt.map_or("", |prompt| &prompt.text);
            file.line(&format!("# end of {text}"));
            file.blank = true;
        }
    }

    fn is_within(&self, node: NodeId, menu: NodeId) -> bool {
        let mut at = node;
        while at > menu {
            at = self.tree.node(at).parent;
        }
        at == menu
    }

    /// Whether a menu or comment is shown.
    fn is_shown(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        let asked = node
            .prompt
            .as_ref()
            .map(|prompt| self.expr(prompt.condition));
        asked.is_some_and(|value| value != Tri::No) && self.expr(node.visible_if) != Tri::No
    }
}

struct Writer {
    text: String,
    /// Whether the next symbol's line stands after a blank one.
    blank: bool,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}
