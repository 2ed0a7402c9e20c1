//! Why a program did not do its work.

use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::tool::SEARCH_PATH;
use crate::failure::{Diagnose, Exit};
use crate::interrupt::Interrupted;

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Not installed.
    #[error("`{name}` is not installed (looked in {SEARCH_PATH})")]
    Missing {
        /// The program.
        name: String,
    },
    /// Could not be started, or its output could not be kept.
    #[error("failed to {action} `{program}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The program.
        program: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Ended badly.
    #[error("`{line}` {how} after {elapsed:.1?}{}", tail_text(.tail, .log.as_deref()))]
    Failed {
        /// The command line, for people.
        line: String,
        /// `exited with 2`, `was killed by SIGSEGV`.
        how: String,
        /// The exit code where there is one.
        exit_code: Option<i32>,
        /// How long it ran.
        elapsed: Duration,
        /// Its last lines.
        tail: Vec<String>,
        /// All of its output.
        log: Option<Utf8PathBuf>,
    },
    /// Took longer than it may.
    #[error("`{line}` did not end within {limit:?} and was stopped{}", tail_text(.tail, .log.as_deref()))]
    Deadline {
        /// The command line, for people.
        line: String,
        /// The limit.
        limit: Duration,
        /// Its last lines.
        tail: Vec<String>,
        /// All of its output.
        log: Option<Utf8PathBuf>,
    },
    /// Said more than it may.
    #[error("`{line}` printed more than {limit} bytes and was stopped{}", tail_text(.tail, .log.as_deref()))]
    TooMuch {
        /// The command line, for people.
        line: String,
        /// The most it may print.
        limit: u64,
        /// Its last lines.
        tail: Vec<String>,
        /// All of its output.
        log: Option<Utf8PathBuf>,
    },
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

fn tail_text(tail: &[String], log: Option<&Utf8Path>) -> String {
    let mut text = String::new();
    if !tail.is_empty() {
        text.push_str("; its last lines:\n    ");
        text.push_str(&tail.join("\n    "));
    }
    if let Some(log) = log {
        text.push_str("\n  whole output: ");
        text.push_str(log.as_str());
    }
    text
}

impl Diagnose for CommandError {
    fn exit(&self) -> Exit {
        match self {
            Self::Missing { .. } => Exit::MissingTools,
            Self::Interrupted(interrupted) => interrupted.exit(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Exit::NoSpace,
            _ => Exit::Unexpected,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "tool-missing",
            Self::Io { .. } => "tool-io",
            Self::Failed { .. } => "tool-failed",
            Self::Deadline { .. } => "tool-deadline",
            Self::TooMuch { .. } => "tool-output",
            Self::Interrupted(interrupted) => interrupted.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing { .. } => vec![
                "run `kiln doctor --install` (as root), or `kiln doctor` to see the package"
                    .to_owned(),
            ],
            Self::Interrupted(interrupted) => interrupted.hints(),
            _ => Vec::new(),
        }
    }
}
