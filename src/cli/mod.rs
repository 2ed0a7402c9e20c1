//! The command line: one file a verb, and the table of verbs that help, man pages, completions and
//! dispatch are made from.

mod app;
mod check;
mod completions;
mod context;
mod doctor;
mod init;
mod man;
mod run;
mod schema;
mod verbs;

pub use app::command;
pub use context::{Context, Format};
pub use run::kiln;
pub use verbs::{Example, NOUNS, VERBS, Verb};
