//! Configuration: fragments, their merge over a base, and the guard that judges what came out.
//!
//! ```text
//! fragment + base -> merge -> (the tree's olddefconfig) -> guard -> GuardedConfig
//! ```
//!
//! Nothing here runs a program. The tree's own `olddefconfig` stays the authority on what a
//! configuration resolves to; this room says what was asked, and judges the answer.

mod answers;
mod change;
mod collateral;
mod costs;
mod derive;
mod directive;
mod drift;
pub mod explain;
mod export;
mod finding;
mod fragment;
mod fragment_line;
mod guard;
mod guarded;
mod intent;
mod judge;
mod known;
mod merge;
mod nearest;
mod probed;
mod request;
mod say;
mod symbols;
mod trimmed;
mod unreproducible;

pub use change::{Changed, Class};
pub use costs::{Cost, Direct, costs};
pub use derive::{Derived, derive};
pub use export::export;
pub use finding::{DefinedAt, Finding, InChoice, Kind, Known, Requested, Rival, Severity, Why};
pub use fragment::{Assignment, Fragment, FragmentError, Problem};
pub use guard::{Basis, Evidence, GuardFailed, GuardReport, Reading, Remark, guard};
pub use guarded::{GuardedConfig, NotGuarded};
pub use intent::{Asked, Difference, Ground, Intent, compare};
/// The Kconfig language, which lies in `language/` as a package of its own.
pub use kconfig_language as language;
pub use known::{EffectRow, Facts, Row, Side, UnreproducibleRow, Verdict, Weight};
pub use merge::{Disagreement, Input, MergeError, Merged, Overridden, merge};
pub use nearest::nearest;
pub use request::{Origin, Request, SERIES_OPERATORS, SeriesRange, Source, Waiver, Wanted, shown};
pub use symbols::{Site, Symbols, Type};
