//! The Kconfig language: what the files of a kernel's tree say, and what a configuration becomes
//! under them.
//!
//! ```text
//! files -> lex (macros) -> parse -> finish -> Tree -> Model: read -> values -> write
//!                                                            trial: what a few more lines change
//! ```
//!
//! Written from the language's own documents (`Documentation/kbuild/kconfig-language.rst` and
//! `kconfig-macro-language.rst` of the kernel) and from what the kernel's own program answers. That
//! program stays the authority: a test asks both the same questions.

mod attributes;
mod check;
mod dialect;
mod error;
mod eval;
mod expr;
mod finish;
mod host;
mod lex;
mod line;
mod macros;
mod memory;
mod number;
mod order;
mod parse;
mod read;
mod show;
mod terms;
mod texts;
mod tree;
mod trial;
mod unmet;
mod view;
mod warning;
mod write;

#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod language_tests;
#[cfg(test)]
mod trap_tests;

pub use error::{ParseError, Place, Problem};
pub use eval::Model;
pub use expr::{Expr, ExprId, Exprs, Relation, SymbolId, Tri};
pub use host::{Host, HostError};
pub use macros::Said;
pub use memory::Memory;
pub use read::ReadWarning;
pub use terms::Term;
pub use tree::{
    Choice, ChoiceId, Default, Kind, Node, NodeId, Prompt, Range, Select, Symbol, Tree, Type,
};
pub use trial::{Ask, Change};
pub use view::Probe;
pub use warning::ParseWarning;
