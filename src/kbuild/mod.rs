//! From a guarded configuration to checked packages: the kernel's own `make`, in one fixed
//! environment, inside a sandbox.
//!
//! `environment` is the one environment, `make` asks the tree for configurations, `preflight` says
//! what would fail before an hour is spent, `packages` compiles and packages and then judges what
//! is inside the finished `.deb`s. `probe` answers what Kconfig files ask, without make.
//! `compare` looks for what two builds of a package do not share, `difference` says why.
//! `compile_log` reads what make said, `shim` stands in for two tools inside the build, and `root`
//! makes the pinned environment that all of it runs in.

pub mod checked;
pub mod compare;
pub mod compile_log;
pub(crate) mod deb;
pub mod difference;
pub mod environment;
pub mod estimate;
pub mod make;
pub mod needs;
pub mod other_time;
pub mod packages;
pub mod preflight;
pub mod probe;
mod probe_cache;
mod probe_environment;
mod probe_reach;
pub mod root;
mod root_tree;
pub mod shim;
pub mod warnings;

pub use checked::CheckedPackages;
