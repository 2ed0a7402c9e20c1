//! A tree's Kconfig files as one model: every symbol with its entries, and the menu they stand in.

use std::collections::HashMap;
use std::fmt;

use super::error::Place;
use super::expr::{ExprId, Exprs, SymbolId};
use super::macros::Said;
use super::order::Plan;
use super::view::Probe;
use super::warning::ParseWarning;

/// The type of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// Mentioned but never defined, or defined without a type.
    Unknown,
    /// `bool`.
    Bool,
    /// `tristate`.
    Tristate,
    /// `int`.
    Int,
    /// `hex`.
    Hex,
    /// `string`.
    Text,
}

impl Type {
    /// The keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Bool => "bool",
            Self::Tristate => "tristate",
            Self::Int => "integer",
            Self::Hex => "hex",
            Self::Text => "string",
        }
    }

    /// Whether the values are `n`, `m` and `y`.
    pub fn is_logic(self) -> bool {
        matches!(self, Self::Bool | Self::Tristate)
    }
}

/// An entry of the menu, by its index in the [`Tree`]; entries are numbered in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// The main menu.
    pub const ROOT: Self = Self(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A choice, by its index in the [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChoiceId(pub(super) u32);

impl ChoiceId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `menu`, and the main menu.
    Menu,
    /// `config` or `menuconfig`.
    Config(SymbolId),
    /// `choice`.
    Choice(ChoiceId),
    /// `comment`.
    Comment,
    /// `if`.
    If,
}

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The condition behind its own `if`.
    pub own: ExprId,
    /// All it depends on: its own condition, the entry's dependencies, `visible if` of the menus
    /// around.
    pub condition: ExprId,
    /// Where it stands.
    pub place: Place,
}

/// An entry.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Whether it is written as `menuconfig`.
    pub is_menuconfig: bool,
    /// Where it stands.
    pub place: Place,
    /// The entry around; the main menu is its own.
    pub parent: NodeId,
    /// What its own `depends on` lines say (the condition, for `if`).
    pub own: ExprId,
    /// All it depends on, that of the entries around included.
    pub dependency: ExprId,
    /// `visible if` of a menu.
    pub visible_if: ExprId,
    /// The prompt, or the text of a menu or comment.
    pub prompt: Option<Prompt>,
    /// The help text.
    pub help: Option<String>,
}

/// `default VALUE if CONDITION`.
#[derive(Debug, Clone, Copy)]
pub struct Default {
    /// The value.
    pub value: ExprId,
    /// All it depends on.
    pub condition: ExprId,
    /// The entry it stands in.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
}

/// `range LOW HIGH if CONDITION`.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The least value.
    pub low: SymbolId,
    /// The greatest value.
    pub high: SymbolId,
    /// All it depends on.
    pub condition: ExprId,
    /// The entry it stands in.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
}

/// `select TARGET if CONDITION`, or `imply`.
#[derive(Debug, Clone, Copy)]
pub struct Select {
    /// The symbol whose entry says so.
    pub by: SymbolId,
    /// The symbol that is selected.
    pub target: SymbolId,
    /// All it depends on beside `by`.
    pub condition: ExprId,
    /// The entry it stands in.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
}

/// A symbol.
#[derive(Debug, Clone)]
pub struct Symbol {
    /// The name, or the text of a constant.
    pub name: String,
    /// The type.
    pub kind: Type,
    /// Whether it is a constant, written in quotes (`y`, `m`, `n` always are).
    pub constant: bool,
    /// Its entries in file order.
    pub nodes: Vec<NodeId>,
    /// In file order over all entries.
    pub defaults: Vec<Default>,
    /// In file order over all entries.
    pub ranges: Vec<Range>,
    /// What it selects.
    pub selects: Vec<Select>,
    /// What it implies.
    pub implies: Vec<Select>,
    /// Who selects it, in file order.
    pub selected_by: Vec<Select>,
    /// Who implies it, in file order.
    pub implied_by: Vec<Select>,
    /// What its entries depend on, of which one is enough. An entry without dependency adds nothing
    /// here, so that one entry's dependency counts although another has none; a member of a choice
    /// has nothing here.
    pub direct: Vec<ExprId>,
    /// The choice that it is a member of.
    pub choice: Option<ChoiceId>,
    /// `transitional`: read, but never written.
    pub transitional: bool,
}

impl Symbol {
    pub(super) fn new(name: String, constant: bool) -> Self {
        Self {
            name,
            kind: Type::Unknown,
            constant,
            nodes: Vec::new(),
            defaults: Vec::new(),
            ranges: Vec::new(),
            selects: Vec::new(),
            implies: Vec::new(),
            selected_by: Vec::new(),
            implied_by: Vec::new(),
            direct: Vec::new(),
            choice: None,
            transitional: false,
        }
    }

    /// Whether there is an entry for it.
    pub fn is_defined(&self) -> bool {
        !self.nodes.is_empty()
    }
}

/// A choice.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Its entry.
    pub node: NodeId,
    /// Its members in file order.
    pub members: Vec<SymbolId>,
    /// Its defaults in file order.
    pub defaults: Vec<Default>,
}

/// All that the Kconfig files of a tree say.
#[derive(Clone)]
pub struct Tree {
    pub(super) symbols: Vec<Symbol>,
    pub(super) names: HashMap<String, SymbolId>,
    pub(super) constants: HashMap<String, SymbolId>,
    pub(super) exprs: Exprs,
    pub(super) nodes: Vec<Node>,
    pub(super) choices: Vec<Choice>,
    pub(super) files: Vec<String>,
    /// The symbol that enables modules.
    pub(super) modules: Option<SymbolId>,
    pub(super) title: String,
    pub(super) warnings: Vec<ParseWarning>,
    pub(super) said: Vec<(Place, Said)>,
    pub(super) variables: Vec<(String, Option<String>)>,
    pub(super) plan: Plan,
    pub(super) probes: Vec<Probe>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (symbols, nodes) = (self.symbols.len(), self.nodes.len());
        write!(f, "Tree({symbols} symbols, {nodes} entries)")
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut tree = Self {
            symbols: Vec::new(),
            names: HashMap::new(),
            constants: HashMap::new(),
            exprs: Exprs::default(),
            nodes: Vec::new(),
            choices: Vec::new(),
            files: Vec::new(),
            modules: None,
            title: "Main menu".to_owned(),
            warnings: Vec::new(),
            said: Vec::new(),
            variables: Vec::new(),
            plan: Plan::default(),
            probes: Vec::new(),
        };
        for letter in ["n", "m", "y"] {
            let symbol = tree.constant(letter);
            tree.names.insert(letter.to_owned(), symbol);
            tree.symbols[symbol.index()].kind = Type::Tristate;
        }
        tree
    }

    fn push(&mut self, symbol: Symbol) -> SymbolId {
        let id = SymbolId(u32::try_from(self.symbols.len()).expect("fewer symbols than bytes"));
        self.symbols.push(symbol);
        id
    }

    /// The symbol of a bare word.
    pub(super) fn name(&mut self, name: &str) -> SymbolId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.push(Symbol::new(name.to_owned(), false));
        self.names.insert(name.to_owned(), id);
        id
    }

    /// The symbol of a text in quotes.
    pub(super) fn constant(&mut self, text: &str) -> SymbolId {
        if let Some(id) = self.constants.get(text) {
            return *id;
        }
        let id = self.push(Symbol::new(text.to_owned(), true));
        self.constants.insert(text.to_owned(), id);
        id
    }

    /// The symbol of this name, defined or only mentioned.
    pub fn find(&self, name: &str) -> Option<SymbolId> {
        self.names.get(name).copied()
    }

    /// The symbol.
    pub fn symbol(&self, id: SymbolId) -> &Symbol {
        &self.symbols[id.index()]
    }

    /// All symbols and constants.
    pub fn symbols(&self) -> impl Iterator<Item = (SymbolId, &Symbol)> {
        (0_u32..).map(SymbolId).zip(&self.symbols)
    }

    /// The entry.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All entries in file order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0_u32..).map(NodeId).zip(&self.nodes)
    }

    /// The choice.
    pub fn choice(&self, id: ChoiceId) -> &Choice {
        &self.choices[id.index()]
    }

    /// All choices in file order.
    pub fn choices(&self) -> impl Iterator<Item = (ChoiceId, &Choice)> {
        (0_u32..).map(ChoiceId).zip(&self.choices)
    }

    /// The expressions.
    pub fn exprs(&self) -> &Exprs {
        &self.exprs
    }

    /// A file's name, as the `source` line has it.
    pub fn file(&self, place: Place) -> &str {
        &self.files[place.file as usize]
    }

    /// `FILE:LINE`.
    pub fn shown(&self, place: Place) -> String {
        format!("{}:{}", self.file(place), place.line)
    }

    /// All files in the order they were opened, each as often as it was.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The symbol that enables modules.
    pub fn modules(&self) -> Option<SymbolId> {
        self.modules
    }

    /// Every variable of the environment that the files asked for, in order, with its value then.
    pub fn variables(&self) -> &[(String, Option<String>)] {
        &self.variables
    }

    /// The title of the main menu.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What the kernel's own reader would warn about.
    pub fn warnings(&self) -> &[ParseWarning] {
        &self.warnings
    }

    /// What the tree itself said by `$(info,...)` and `$(warning-if,...)`.
    pub fn said(&self) -> &[(Place, Said)] {
        &self.said
    }
}
