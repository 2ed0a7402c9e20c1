//! What the language asks of the world: files, programs, the environment.

use std::fmt;

/// The world as a Kconfig file may see it.
///
/// The language itself opens no file and starts no program. Every answer is input to the result, so
/// a host that caches answers must key them by all that they depend on.
pub trait Host {
    /// The text of the file that a `source` line names: `path` as written, tried as it is and then
    /// below the source tree. Nothing where there is none.
    fn read(&self, path: &str) -> Result<Option<String>, HostError>;

    /// The standard output of `command`, run with `/bin/sh -c`; neither its status nor what it says
    /// on standard error counts.
    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError>;

    /// A variable of the environment.
    fn env(&self, name: &str) -> Option<String>;
}

/// The host could not answer; nothing can be said about the tree then.
#[derive(Debug)]
pub struct HostError(pub Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
