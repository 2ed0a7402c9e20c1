//! Configuration: fragments, their merge over a base, and the guard that judges what came out.
//!
//! ```text
//! fragment + base -> merge -> (the tree's olddefconfig) -> guard -> GuardedConfig
//! ```
//!
//! Nothing here runs a program. The tree's own `olddefconfig` stays the authority on what a
//! configuration resolves to; this room says what was asked, and judges the answer.

mod directive;
mod fragment;
mod fragment_line;
mod nearest;
mod request;

pub use fragment::{Assignment, Fragment, FragmentError, Problem};
pub use nearest::nearest;
pub use request::{Origin, Request, SERIES_OPERATORS, SeriesRange, Source, Waiver, Wanted, shown};
