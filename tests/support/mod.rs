//! What the integration tests share.

pub mod case;
pub mod child;
pub mod dice;
pub mod env;
pub mod fake_kernel;
pub mod grub;
pub mod guest;
pub mod kconfig_tree;
pub mod keys;
pub mod linux;
pub mod machines;
pub mod made_up;
pub mod mirror;
pub mod oracle;
pub mod redact;
pub mod release;
pub mod rust_source;
pub mod suites;
pub mod tar;
pub mod terminal;
pub mod tree;
pub mod xz;

#[allow(unused_imports, reason = "a toolkit")]
pub use case::{Case, Outcome, Stop, fail, skip};
pub use env::{Env, Ran};
