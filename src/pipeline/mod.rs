//! Strings the stages together: times them, logs them, and decides nothing about file contents.

pub mod accept;
pub mod acquire;
pub mod answers;
pub mod build;
pub mod check;
pub mod check_config;
pub mod compare;
pub mod configure;
pub mod draft;
pub mod embedded;
pub mod engine;
pub mod explain;
pub mod garbage;
pub mod holders;
pub mod locked;
pub mod needs;
mod part;
mod patches;
pub mod quickstart;
pub mod resolve;
pub mod run;
pub mod session;
pub mod sign;
pub mod statements;
mod trash;
pub mod verify;
pub mod workspace;
