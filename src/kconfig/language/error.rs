//! What can be wrong with a tree's Kconfig files, and where.

use super::host::HostError;

/// A file, by its index in the [`Tree`](super::Tree), and a line in it, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index of the file.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
}

/// What stops the reading of a Kconfig file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The tree's own `$(error-if,...)`.
    #[error("{0}")]
    ErrorIf(String),
    /// `$(` without `)`.
    #[error("unterminated reference to `{0}`: missing `)`")]
    Unterminated(String),
    /// A built-in function called with too few or too many arguments.
    #[error("function `{function}` takes {takes} arguments, found {given}")]
    ArgumentCount {
        /// The function.
        function: String,
        /// How many it takes.
        takes: usize,
        /// How many stand there.
        given: usize,
    },
    /// A variable that contains itself.
    #[error("variable `{0}` contains itself")]
    EndlessVariable(String),
    /// An expansion that grows beyond all use.
    #[error("expanded text is too long")]
    TextTooLong,
    /// Variables that call each other more often than any tree needs.
    #[error("the variables of the tree take too many expansions")]
    TooManyExpansions,
    /// Files that are included more often than any tree needs.
    #[error("too many or too long files are included")]
    TooManyFiles,
    /// A line that the grammar has no place for.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What could stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A last line without end.
    #[error("the file's last statement has no line end")]
    NoNewline,
    /// `mainmenu` after another statement.
    #[error("`mainmenu` must be the first statement")]
    LateMainMenu,
    /// A statement that no kernel knows.
    #[error("unknown statement `{0}`")]
    UnknownStatement(String),
    /// An attribute after an entry that does not take it.
    #[error("`{attribute}` is no attribute of {entry}")]
    WrongAttribute {
        /// The attribute.
        attribute: &'static str,
        /// The kind of entry.
        entry: &'static str,
    },
    /// `endif`, `endmenu` or `endchoice` that closes nothing, or the wrong block.
    #[error("`{found}` closes {open}")]
    WrongEnd {
        /// The closing word.
        found: &'static str,
        /// What is open there.
        open: &'static str,
    },
    /// A block that is not closed in its own file.
    #[error("{0} is not closed in this file")]
    NotClosed(&'static str),
    /// `source` of a file that is not there.
    #[error("cannot find file `{0}`")]
    NoFile(String),
    /// A file that includes itself.
    #[error("file `{0}` includes itself")]
    RecursiveInclude(String),
    /// A file that is included a second time, in a tree whose reader refuses that; the second text is
    /// where it was included first.
    #[error("file `{0}` is included again; first at {1}")]
    RepeatedInclude(String, String),
    /// An entry that older readers only warn of.
    #[error("{0}")]
    Refused(String),
    /// Blocks, parentheses or includes nested deeper than any tree needs.
    #[error("nested too deeply")]
    TooDeep,
    /// A choice without prompt.
    #[error("choice must have a prompt")]
    ChoiceWithoutPrompt,
    /// A member of a choice that is not what a member must be.
    #[error("choice member {0}")]
    Member(&'static str),
    /// A transitional symbol with more than a type and a help text.
    #[error("transitional symbol `{0}` can have a type and a help text only")]
    Transitional(String),
    /// More than one `modules` line.
    #[error("`modules` can stand in one entry only, and once")]
    SecondModules,
    /// Bounds of ranges that depend on each other. The kernel's own program takes this, and its
    /// answer then depends on the order of a table inside it; no kernel's tree has it.
    #[error("range bounds depend on each other: {}", .0.join(" -> "))]
    RecursiveBound(Vec<String>),
    /// Symbols that depend on each other.
    #[error("recursive dependency: {}", .0.join(" -> "))]
    RecursiveDependency(Vec<String>),
}

/// Why a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is wrong.
    #[error("{file}:{line}: {problem}")]
    Text {
        /// The file, as the `source` line names it.
        file: String,
        /// The line, from 1.
        line: u32,
        /// What is wrong.
        problem: Problem,
    },
    /// A file or a program could not be had.
    #[error("{file}:{line}: the host could not answer")]
    Host {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u32,
        /// Why.
        #[source]
        source: HostError,
    },
}
