//! What long work says while it runs: one event type, which the edge turns into a progress bar, a
//! line every ten seconds, or JSON lines.

use serde::Serialize;

/// One thing that happened. Serialised, it is one line of a run's `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// A stage began.
    StageStarted {
        /// Its name, one of the design's words: resolve, fetch, verify, unpack, ...
        stage: &'static str,
        /// What it works on.
        detail: String,
    },
    /// The stage ended well.
    StageDone {
        /// Its name.
        stage: &'static str,
        /// What it found or made, in a few words.
        note: String,
    },
    /// Bytes were moved.
    Bytes {
        /// What is moved.
        what: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all, where known.
        total: Option<u64>,
    },
    /// Things were counted.
    Count {
        /// What is counted.
        what: String,
        /// How many so far.
        done: u64,
        /// How many in all, where known or estimated.
        total: Option<u64>,
    },
    /// Something worth knowing.
    Note(String),
    /// Something that is not as it should be, but does not stop the work.
    Warning(String),
}

/// Takes events. Implementations must not fail: reporting never stops the work.
pub trait Progress: Send + Sync {
    /// Takes one event.
    fn event(&self, event: &Event);
}

impl dyn Progress + '_ {
    /// Says that a stage began.
    pub fn started(&self, stage: &'static str, detail: impl Into<String>) {
        self.event(&Event::StageStarted {
            stage,
            detail: detail.into(),
        });
    }

    /// Says that a stage ended well.
    pub fn done(&self, stage: &'static str, note: impl Into<String>) {
        self.event(&Event::StageDone {
            stage,
            note: note.into(),
        });
    }

    /// Takes a note.
    pub fn note(&self, text: impl Into<String>) {
        self.event(&Event::Note(text.into()));
    }

    /// Takes a warning.
    pub fn warning(&self, text: impl Into<String>) {
        self.event(&Event::Warning(text.into()));
    }
}

/// Drops every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&self, _event: &Event) {}
}
