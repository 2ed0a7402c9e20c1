//! What a tree's Kconfig files define: enough to tell an unknown symbol from a lost one, and to
//! say where a symbol is defined, of what type it is, whether it has a prompt, and what it needs.
//!
//! This reads text, it does not evaluate: expressions are kept as they are written. What a
//! configuration resolves to is for the tree's own `olddefconfig` to say.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use camino::Utf8Path;
use serde::{Serialize, Serializer};

use super::nearest::nearest;
use super::scan;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};

/// The top file of every tree.
const TOP: &str = "Kconfig";

/// Largest Kconfig file that is read; the kernel's largest has 120 kB.
const SIZE_LIMIT: u64 = 8 << 20;

/// Why a tree's definitions cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionsError {
    /// A file is missing or unreadable.
    #[error("failed to read `{file}`{}", .from.as_ref().map_or_else(String::new, |site| format!(", which {site} names")))]
    Read {
        /// The file, relative to the tree.
        file: String,
        /// The line that names it; nothing for the top file.
        from: Option<Site>,
        /// Why.
        #[source]
        source: Box<FileError>,
    },
    /// Files name each other in a circle, or too deeply.
    #[error("{site} includes `{file}`, which is already being read, or is nested too deeply")]
    Recursion {
        /// The file, relative to the tree.
        file: String,
        /// The line that names it.
        site: Site,
    },
}

impl Diagnose for DefinitionsError {
    fn exit(&self) -> Exit {
        match self {
            Self::Read { source, .. } => source.exit(),
            Self::Recursion { .. } => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        "kconfig-unreadable"
    }
}

/// A line of a Kconfig file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The file, relative to the tree.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
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

/// A text with the condition under which it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conditional {
    /// The prompt, the range (`12 25`), the default, or the selecting symbol.
    pub text: String,
    /// What stands after `if`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Where it stands.
    pub site: Site,
}

/// One place that defines a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Where.
    pub site: Site,
    /// The question a person can answer; a symbol without any cannot be set.
    pub prompt: Option<Conditional>,
    /// What must hold, each as written: `depends on`, and the `if` and `menu` around it.
    pub depends: Vec<String>,
    /// Bounds of a number.
    pub ranges: Vec<Conditional>,
    /// Values that it has of itself.
    pub defaults: Vec<Conditional>,
    /// The choice it is a member of, as an index for [`Definitions::choice`].
    pub choice: Option<usize>,
}

/// A symbol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Its type; nothing where no definition that was read gives one.
    pub kind: Option<Type>,
    /// Its definitions in reading order. Empty for a symbol that is only selected.
    pub definitions: Vec<Definition>,
    /// What selects it.
    pub selected_by: Vec<Conditional>,
    /// What implies it.
    pub implied_by: Vec<Conditional>,
}

impl Symbol {
    /// Whether any definition has a prompt.
    pub fn has_prompt(&self) -> bool {
        self.definitions.iter().any(|d| d.prompt.is_some())
    }

    /// The choice it is a member of.
    pub fn choice(&self) -> Option<usize> {
        self.definitions.iter().find_map(|d| d.choice)
    }
}

/// A set of symbols of which one is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Where.
    pub site: Site,
    /// Its prompt.
    pub prompt: Option<String>,
    /// Its members in order.
    pub members: Vec<String>,
}

/// All definitions of a tree for one architecture.
#[derive(Debug, Default)]
pub struct Definitions {
    pub(super) symbols: HashMap<String, Symbol>,
    pub(super) choices: Vec<Choice>,
}

impl Definitions {
    /// Reads the Kconfig files of the tree, following `source` from the top, for x86.
    pub fn read(tree: &Utf8Path) -> Result<Self, DefinitionsError> {
        scan::scan(TOP, &mut |file| {
            let path = tree.join(file);
            match files::read(&path, SIZE_LIMIT) {
                // Names in other encodings stand in a few help texts.
                Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                Err(_) if !path.exists() => Ok(None),
                Err(source) => Err(Box::new(source)),
            }
        })
    }

    /// Reads Kconfig files by a function that returns a file's text, or nothing where it has none.
    pub fn read_with(
        mut file: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, DefinitionsError> {
        scan::scan(TOP, &mut |name| Ok(file(name)))
    }

    /// The symbol of that name, where a definition exists.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols
            .get(name)
            .filter(|symbol| !symbol.definitions.is_empty())
    }

    /// A choice by the index in [`Definition::choice`].
    pub fn choice(&self, index: usize) -> Option<&Choice> {
        self.choices.get(index)
    }

    /// The names of all symbols that are defined, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let defined = self
            .symbols
            .iter()
            .filter(|(_, s)| !s.definitions.is_empty());
        defined.map(|(name, _)| name.as_str())
    }

    /// Number of symbols that are defined.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Whether nothing is defined.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The defined symbol that an unknown one was most likely meant to be: a slip of the pen, or
    /// the shortest that starts or ends with the whole word (`TIMERLAT` is `TIMERLAT_TRACER`).
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        nearest(name, names.iter().copied()).or_else(|| {
            let whole = |candidate: &&&str| {
                name.len() >= 4
                    && (candidate
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with('_'))
                        || candidate
                            .strip_suffix(name)
                            .is_some_and(|rest| rest.ends_with('_')))
            };
            names.iter().filter(whole).min_by_key(|c| c.len()).copied()
        })
    }
}

/// The symbols that an expression names, in order, each once.
pub fn symbols_in(expression: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '"' || c == '$') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        if rest.starts_with('$') {
            // A macro call, `$(cc-option,-m32)`: no symbol.
            rest = rest.split_once(')').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        if !number && !["y", "m", "n"].contains(&word) && !found.contains(&word) {
            found.push(word);
        }
        rest = after;
    }
    found
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
