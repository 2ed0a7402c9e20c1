//! kiln builds Linux kernels that a fleet can trust to be boring.
//!
//! A build is a chain of proofs. Each stage is a function from one proven thing to the next, and
//! only that stage can make the next thing:
//!
//! ```text
//! releases, keys        base config, fragments
//!      |                        |
//!   fetch, verify            merge
//!      |                        |
//! VerifiedTarball -> SourceTree + olddefconfig -> guard -> GuardedConfig
//!                                                              |
//!                      manifest <- CheckedPackages <- check <- Packages
//! ```
//!
//! A proof holds for the process that made it: none of these types can be read back from disk. What
//! comes out of the store is hashed, and its signature checked, again. Checks of a configuration, from
//! which nothing is compiled, hash only the part of the source that configuring reads
//! (`source/configuration.rs` says why that is enough).
//!
//! The folders are rooms, in levels; a room imports only from levels above it in this list:
//!
//! ```text
//! 0  facts     kernel digest cpus failure progress dotconfig proof/
//!                                                                  pure: no file, process, clock
//! 1  tools     files clock interrupt command sandbox store qemu    touch the world, know no kernels
//!              machine/                                         what a machine is, read from /sys
//! 2  node      boot/ node/                                       what runs on a node: slots, the
//!                                                                  boot gate; who owns which core
//! 3  builder   spec/ -> source/ -> kconfig/ -> kbuild/ -> image/   one way, left to right: a room
//!                                                                  takes only proven types from
//!                                                                  those before it
//! 4  pipeline/                                                     strings the stages together
//! 5  ui/ cli/                                                      text, JSON, verbs
//! ```
//!
//! What is decided where: `source` what a signature is worth, `kconfig` what a configuration is
//! worth (it runs no program), `kbuild` how the kernel's own makefiles are run, `image` whether a
//! kernel boots. Facts about kernels are rows in `kconfig/known/*.yaml`, each with its source; code
//! never compares a series. The Kconfig language (`kconfig/language/`) and `dotconfig/` are packages of
//! their own, so that they alone of our code are compiled at full speed everywhere. Every other program is run by `command`,
//! never through a shell, and every untrusted byte is worked on in a `sandbox`. A test
//! (`tests/it/architecture.rs`) holds this table against every `crate::` path of the sources.

pub mod boot;
pub mod cli;
pub mod clock;
pub mod command;
pub mod cpus;
pub mod digest;
pub mod failure;
pub mod files;
pub mod image;
pub mod interrupt;
pub mod kbuild;
pub mod kconfig;
pub mod kernel;
pub mod machine;
pub mod node;
pub mod pipeline;
pub mod progress;
pub mod proof;
pub mod qemu;
pub mod sandbox;
pub mod source;
pub mod spec;
pub mod store;
pub mod ui;

/// Configuration files, which lie in `dotconfig/` as a package of their own.
pub use kiln_dotconfig as dotconfig;
