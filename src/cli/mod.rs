//! The command line: one file a verb, and the table of verbs that help, man pages, completions and
//! dispatch are made from.

mod accept;
mod again;
mod app;
mod boot;
mod build;
mod check;
mod classify;
mod closed;
mod completions;
mod config;
mod context;
mod diff;
mod doctor;
mod explain;
mod fetch;
mod fragment;
mod gate;
mod holders;
mod init;
mod keys;
mod man;
mod node;
mod node_plan;
mod node_slots;
mod quickstart;
mod reproduce;
mod resolve;
mod run;
mod runs;
mod schema;
mod shell;
mod stage;
mod status_as;
mod store;
mod verbs;
mod verify;
mod work;

pub use app::command;
pub use context::{Context, Format};
pub use run::kiln;
pub use verbs::{Example, NOUNS, VERBS, Verb};
