//! The files that people write: pipelines, channels, `kiln.yaml`, collateral lists, roles.
//!
//! Each file format is one table of keys ([`shape::Shape`]). The table checks a file, finding every
//! error in it at once and naming the place and the nearest known word; it is also the source of
//! the JSON Schema for editors. Only a file that passed becomes a typed value.

pub mod accept;
#[cfg(test)]
mod bad_input;
pub mod channels;
mod collateral;
mod edit;
mod error;
pub mod gate;
pub mod kinds;
pub mod node;
pub mod patch;
pub mod pipeline;
pub mod roles;
pub mod shape;
mod signers;
pub mod workspace;
pub mod yaml;

pub use crate::failure::nearest;
pub use channels::Channels;
pub use collateral::{Allowed, Collateral, SHAPE as COLLATERAL_SHAPE, matches};
pub use error::{At, Problem, SpecError, SpecErrors};
pub use patch::Patch;
pub use pipeline::{
    Arch, AssertValue, Assertion, Base, Build, CollateralRef, Compress, Config, Keys, Launcher,
    Packages, Pipeline, Root, Source, Trim,
};
pub use signers::Signer;
pub use workspace::{MirrorSettings, Settings};
pub use yaml::{Spanned, from_str};
