//! How every failure ends: an exit code, a stable word for machines, a message, its causes, and
//! what to do next.

use std::error::Error;

/// Exit codes of the program. They are a promise: scripts and CI depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing to do.
    Ok = 0,
    /// An error that should not happen.
    Unexpected = 1,
    /// Wrong usage or an invalid file.
    Usage = 2,
    /// The source, or a stored object, is not what it must be.
    NotVerified = 10,
    /// A configuration assertion failed.
    Guard = 11,
    /// The build failed.
    Build = 12,
    /// Two builds of the same inputs differ.
    NotReproducible = 13,
    /// The built kernel did not boot as promised.
    BootTest = 14,
    /// A channel's policy refused a promotion.
    PromotionRefused = 15,
    /// A node refused a plan, a stage or a preflight.
    NodeRefused = 16,
    /// The boot gate rejected a trial.
    GateRejected = 17,
    /// A measurement is invalid or inconclusive.
    MeasurementInvalid = 18,
    /// A node does not conform to its plan.
    NotConformant = 19,
    /// The host lacks tools.
    MissingTools = 20,
    /// The network, or a server, did not answer as it should.
    Network = 21,
    /// What was asked for is not published yet.
    NotPublished = 22,
    /// Another run holds the lock.
    Locked = 23,
    /// The channel moved meanwhile; try again.
    ChannelMoved = 24,
    /// A statement or ledger was rejected.
    StatementRejected = 25,
    /// Measured worse than the baseline.
    MeasuredWorse = 26,
    /// Not enough disk or memory.
    NoSpace = 27,
    /// Interrupted from the terminal.
    Interrupted = 130,
    /// Asked to terminate.
    Terminated = 143,
}

impl Exit {
    /// Every code, in order, with what it means: the table of the README and of the man page.
    pub const TABLE: [(Self, &'static str); 23] = [
        (Self::Ok, "ok, or nothing to do"),
        (Self::Unexpected, "unexpected error"),
        (Self::Usage, "wrong usage, or an invalid file"),
        (
            Self::NotVerified,
            "source not verified, or a stored object is damaged",
        ),
        (
            Self::Guard,
            "guard failed: the configuration is not what was asked for",
        ),
        (Self::Build, "build failed"),
        (Self::NotReproducible, "not reproducible"),
        (Self::BootTest, "boot test failed"),
        (Self::PromotionRefused, "promotion refused"),
        (Self::NodeRefused, "node refused (plan, stage, preflight)"),
        (Self::GateRejected, "boot gate rejected the trial"),
        (
            Self::MeasurementInvalid,
            "measurement invalid or inconclusive",
        ),
        (Self::NotConformant, "node does not conform to its plan"),
        (Self::MissingTools, "host tools are missing"),
        (Self::Network, "network"),
        (Self::NotPublished, "not yet published"),
        (Self::Locked, "locked by another run"),
        (Self::ChannelMoved, "channel moved, retry"),
        (Self::StatementRejected, "statement or ledger rejected"),
        (Self::MeasuredWorse, "measured worse than the baseline"),
        (Self::NoSpace, "not enough disk or memory"),
        (Self::Interrupted, "interrupted"),
        (Self::Terminated, "terminated"),
    ];

    /// The number that the process exits with.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// What an error knows about itself beside its text.
pub trait Diagnose: Error {
    /// The exit code.
    fn exit(&self) -> Exit;

    /// A stable, kebab-case word for machines.
    fn code(&self) -> &'static str;

    /// What to do next: imperative sentences, with the exact command where there is one.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A failure as the edge of the program reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// A stable word for machines.
    pub code: &'static str,
    /// What failed.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without causes, for errors of the command line itself.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage",
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A failure that should not happen.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Unexpected,
            code: "unexpected",
            ..Self::usage(message)
        }
    }

    /// The same failure with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// The causes of an error, outermost first.
fn causes<E: Error + ?Sized>(error: &E) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    causes
}

/// An error and its causes in one line.
pub fn in_one_line<E: Error + ?Sized>(error: &E) -> String {
    std::iter::once(error.to_string())
        .chain(causes(error))
        .collect::<Vec<String>>()
        .join(": ")
}

/// The candidate that looks most like `word`, if one is near enough to have been meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_ascii_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, candidate)| {
            // About one slip in three letters; a shared beginning counts as meant too.
            let longest = candidate.chars().count().max(word.chars().count());
            *distance * 3 <= longest.max(3)
                || (lower.len() >= 3 && candidate.to_ascii_lowercase().starts_with(&lower))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

impl<E: Diagnose> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            exit: error.exit(),
            code: error.code(),
            message: error.to_string(),
            causes: causes(&error),
            hints: error.hints(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    impl Diagnose for Outer {
        fn exit(&self) -> Exit {
            Exit::Usage
        }

        fn code(&self) -> &'static str {
            "outer"
        }
    }

    #[test]
    fn causes_are_kept_apart_from_the_message() {
        let failure = Failure::from(Outer("x".parse::<u8>().unwrap_err()));
        assert_eq!(failure.message, "outer");
        assert_eq!(failure.causes, ["invalid digit found in string"]);
        let error = Outer("x".parse::<u8>().unwrap_err());
        assert_eq!(in_one_line(&error), "outer: invalid digit found in string");
    }

    #[test]
    fn the_table_is_in_order_and_whole() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.is_sorted());
        assert_eq!(codes.last(), Some(&143));
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["fragments", "assert", "base", "trim"];
        assert_eq!(nearest("fragmnts", known), Some("fragments".to_owned()));
        assert_eq!(nearest("Base", known), Some("base".to_owned()));
        assert_eq!(nearest("frag", known), Some("fragments".to_owned()));
        assert_eq!(nearest("kernel", known), None);
        assert_eq!(nearest("", known), None);
    }
}
