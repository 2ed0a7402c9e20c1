//! How a kernel gets onto a node and back off again: slots, counted attempts, the gate.

pub mod again;
pub mod block;
pub mod checks;
pub mod deadman;
mod died;
pub mod disk;
pub mod error;
mod expected;
pub mod gate;
pub mod go;
pub mod grub;
pub mod hangs;
pub mod install;
mod ioctl;
pub mod key;
pub mod lint;
pub mod place;
pub mod plan;
pub mod preflight;
mod probation;
mod record;
pub mod rehearsal;
pub mod setup;
pub mod stage;
pub mod state;
#[cfg(test)]
mod state_tests;
pub mod trial;
pub mod units;
