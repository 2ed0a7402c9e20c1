//! How things are shown: text for people, JSON for machines, progress while work runs.
//!
//! Findings and reports are data; everything here is a function of them. Nothing in this room
//! decides anything.

mod annotate;
mod answer;
pub mod chip;
mod explain;
mod failure;
mod guard;
pub mod progress;
mod style;
mod table;

pub use annotate::{Form, Judged};
pub use answer::{Answer, Text};
pub use explain::Told;
pub use failure::{failure_json, failure_text};
pub use guard::Guarded;
pub(crate) use style::printable;
pub use style::{Style, Tone};
pub use table::Table;
