//! Strings the stages together: times them, logs them, and decides nothing about file contents.

pub mod check;
pub mod embedded;
pub mod locked;
pub mod needs;
pub mod run;
pub mod session;
pub mod workspace;
