//! kiln builds Linux kernels that a fleet can trust to be boring.

pub mod cli;
pub mod clock;
pub mod command;
pub mod digest;
pub mod dotconfig;
pub mod failure;
pub mod files;
pub mod image;
pub mod interrupt;
pub mod kbuild;
pub mod kconfig;
pub mod kernel;
pub mod pipeline;
pub mod progress;
pub mod proof;
pub mod qemu;
pub mod sandbox;
pub mod source;
pub mod spec;
pub mod store;
pub mod ui;
