//! A `.config` file: ordered lines, each with its position, read the way the kernel's own reader
//! reads them.
//!
//! An option can be off in three spellings: `# CONFIG_X is not set`, `CONFIG_X=n`, or no line at
//! all. Order is kept, because it decides the members of a choice. Nothing here knows types: the
//! kernel's reader takes a value by its first letter (`=mauve` is `m`) and ignores an unquoted
//! string, so a value that is not one of the exact forms is kept as [`Value::Loose`].

mod file;
mod value;

pub use file::{Change, Content, DotConfig, Line, NotText, Problem, ProblemKind};
pub use value::{PREFIX, Value, is_symbol, line};
