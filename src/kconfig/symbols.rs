//! What a tree's Kconfig files say about a symbol's name: whether it exists, its type, where it
//! stands. Where they could not be read nothing is known, and the guard judges by values alone.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::finding::{DefinedAt, InChoice};
use super::language::{self, Choice, Place, Symbol, SymbolId, Tree};
use super::nearest::nearest;
use crate::dotconfig::Value;

/// A line of a Kconfig file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The file, relative to the tree.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl Site {
    /// A place as the guard names it.
    pub fn new(tree: &Tree, place: Place) -> Self {
        Self {
            file: Arc::from(tree.file(place)),
            line: place.line,
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The type of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type {
    /// `y` or not set.
    Bool,
    /// `y`, `m` or not set.
    Tristate,
    /// A decimal number.
    Int,
    /// A number with `0x`.
    Hex,
    /// A quoted string.
    String,
}

impl Type {
    /// The type that the language's engine gives a symbol; nothing where no entry has one.
    pub fn of(kind: language::Type) -> Option<Self> {
        Some(match kind {
            language::Type::Unknown => return None,
            language::Type::Bool => Self::Bool,
            language::Type::Tristate => Self::Tristate,
            language::Type::Int => Self::Int,
            language::Type::Hex => Self::Hex,
            language::Type::Text => Self::String,
        })
    }

    /// Whether a symbol of this type can have the value.
    pub fn takes(self, value: &Value) -> bool {
        match self {
            Self::Bool => matches!(value, Value::Yes | Value::No),
            Self::Tristate => matches!(value, Value::Yes | Value::Module | Value::No),
            // A number that is off has no line; that is a request like another.
            Self::Int => matches!(value, Value::Int(_) | Value::No),
            // `10` is read as hexadecimal, and kept as written.
            Self::Hex => matches!(value, Value::Hex(_) | Value::Int(_) | Value::No),
            Self::String => matches!(value, Value::Text(_) | Value::No),
        }
    }

    /// What a value of this type looks like.
    pub fn form(self) -> &'static str {
        match self {
            Self::Bool => "`y` or not set",
            Self::Tristate => "`y`, `m` or not set",
            Self::Int => "a decimal number",
            Self::Hex => "a number with `0x`",
            Self::String => "a string in quotes",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Tristate => "tristate",
            Self::Int => "int",
            Self::Hex => "hex",
            Self::String => "string",
        })
    }
}

/// The symbols of a tree, or the lack of them.
#[derive(Debug, Clone, Copy)]
pub struct Symbols<'t> {
    tree: Option<&'t Tree>,
}

impl<'t> Symbols<'t> {
    /// Those of a tree; nothing where its files could not be read.
    pub fn new(tree: Option<&'t Tree>) -> Self {
        Self { tree }
    }

    /// The tree; nothing where its files could not be read.
    pub fn tree(self) -> Option<&'t Tree> {
        self.tree
    }

    /// The symbol of that name, where an entry defines it.
    pub fn get(self, name: &str) -> Option<(SymbolId, &'t Symbol)> {
        let tree = self.tree?;
        let id = tree.find(name)?;
        let symbol = tree.symbol(id);
        (symbol.is_defined() && !symbol.constant).then_some((id, symbol))
    }

    /// Its type.
    pub fn kind(self, name: &str) -> Option<Type> {
        self.get(name).and_then(|(_, symbol)| Type::of(symbol.kind))
    }

    /// Whether the tree is known to give the symbol no prompt, so that no line can set it.
    pub fn is_promptless(self, name: &str) -> bool {
        self.get(name).is_some() && self.prompt(name).is_none()
    }

    /// Its first prompt.
    pub fn prompt(self, name: &str) -> Option<&'t str> {
        let (tree, (_, symbol)) = (self.tree?, self.get(name)?);
        let mut prompts = symbol.nodes.iter();
        prompts.find_map(|node| Some(tree.node(*node).prompt.as_ref()?.text.as_str()))
    }

    /// The first sentence of its help.
    pub fn help(self, name: &str) -> Option<String> {
        let (tree, (_, symbol)) = (self.tree?, self.get(name)?);
        let mut texts = symbol.nodes.iter();
        let help = texts.find_map(|node| tree.node(*node).help.as_deref())?;
        let paragraph = help.split("\n\n").next()?;
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        let text = words.join(" ");
        let end = text.find(". ").map_or(text.len(), |at| at + 1);
        Some(text[..end].to_owned())
    }

    /// The choice that it is a member of.
    pub fn choice(self, name: &str) -> Option<&'t Choice> {
        let (tree, (_, symbol)) = (self.tree?, self.get(name)?);
        symbol.choice.map(|choice| tree.choice(choice))
    }

    /// The members of the choice that it is one of; none where it is in no choice.
    pub fn siblings(self, name: &str) -> impl Iterator<Item = &'t str> + use<'t> {
        let tree = self.tree;
        let choice = self.choice(name).into_iter();
        let members = choice.flat_map(|choice| &choice.members);
        members.filter_map(move |member| Some(tree?.symbol(*member).name.as_str()))
    }

    /// All names that are defined, in no order.
    pub fn names(self) -> impl Iterator<Item = &'t str> + use<'t> {
        let symbols = self.tree.into_iter().flat_map(Tree::symbols);
        let defined = symbols.filter(|(_, symbol)| symbol.is_defined() && !symbol.constant);
        defined.map(|(_, symbol)| symbol.name.as_str())
    }

    /// The defined symbol that an unknown one was most likely meant to be: a slip of the pen, or
    /// the shortest that starts or ends with the whole word (`TIMERLAT` is `TIMERLAT_TRACER`).
    pub fn nearest(self, name: &str) -> Option<&'t str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        nearest(name, names.iter().copied()).or_else(|| {
            let whole = |candidate: &&&str| {
                let (behind, before) = (candidate.strip_prefix(name), candidate.strip_suffix(name));
                name.len() >= 4
                    && (behind.is_some_and(|rest| rest.starts_with('_'))
                        || before.is_some_and(|rest| rest.ends_with('_')))
            };
            names.iter().filter(whole).min_by_key(|c| c.len()).copied()
        })
    }

    /// Where it is defined.
    pub fn defined(self, name: &str) -> Vec<DefinedAt> {
        let (Some(tree), Some((_, symbol))) = (self.tree, self.get(name)) else {
            return Vec::new();
        };
        let nodes = symbol.nodes.iter().map(|node| tree.node(*node));
        nodes
            .map(|node| DefinedAt {
                site: Site::new(tree, node.place),
                prompt: node.prompt.as_ref().map(|prompt| prompt.text.clone()),
            })
            .collect()
    }

    /// The choice, as a finding shows it.
    pub fn in_choice(self, name: &str) -> Option<InChoice> {
        let (tree, choice) = (self.tree?, self.choice(name)?);
        let node = tree.node(choice.node);
        Some(InChoice {
            site: Site::new(tree, node.place),
            prompt: node.prompt.as_ref().map(|prompt| prompt.text.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kconfig::language::Memory;

    #[test]
    fn names_lead_to_what_the_files_say() {
        let text = "config FOO\n\tint \"foo\"\n\thelp\n\t  First\n\t  sentence. Second.\n\
                    config HIDDEN\n\tdef_bool y\n\
                    choice\n\tprompt \"which\"\nconfig ONE\n\tbool \"one\"\n\
                    config TWO_TRACER\n\tbool \"two\"\nendchoice\n";
        let tree = Tree::parse(&Memory::of(text), "Kconfig").unwrap();
        let symbols = Symbols::new(Some(&tree));
        assert_eq!(symbols.kind("FOO"), Some(Type::Int));
        assert_eq!(symbols.prompt("FOO"), Some("foo"));
        assert_eq!(symbols.help("FOO").as_deref(), Some("First sentence."));
        assert_eq!(symbols.defined("FOO")[0].site.to_string(), "Kconfig:1");
        assert!(symbols.is_promptless("HIDDEN") && !symbols.is_promptless("FOO"));
        let members: Vec<&str> = symbols.siblings("ONE").collect();
        assert_eq!(members, ["ONE", "TWO_TRACER"]);
        assert_eq!(symbols.nearest("FO0"), Some("FOO"));
        assert_eq!(symbols.nearest("TWO_"), None);
        assert!(symbols.get("y").is_none() && symbols.get("NOPE").is_none());
        // Of a tree that could not be read nothing is claimed.
        let none = Symbols::new(None);
        assert!(none.tree().is_none() && !none.is_promptless("FOO"));
        assert!(none.nearest("FO0").is_none() && none.defined("FOO").is_empty());
    }
}
