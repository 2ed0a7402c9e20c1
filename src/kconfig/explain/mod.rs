//! The answer: why a request does not hold, and which lines make it hold.
//!
//! ```text
//! request + model -> set by whom, needs that fail -> steps -> search (trials) -> fix, minimal, tried
//! ```
//!
//! All of it is asked of a [`Model`](super::language::Model) that has read the merged configuration.
//! Nothing is enabled here: a fix is lines that a person may paste.

mod about;
mod blame;
mod explainer;
mod fix;
mod need;
mod search;
mod steps;
mod who;

#[cfg(test)]
mod explain_tests;

pub use about::{About, Changed, Definition, Would};
pub use blame::{Causes, causes};
pub use explainer::{Answer, Explainer, Ground};
pub use fix::{Effects, Fix};
pub use need::{Fact, Need};
pub use who::{Answered, Selector, SetBy};
