//! How a kernel gets onto a node and back off again: slots, counted attempts, the gate.

pub mod block;
pub mod checks;
pub mod deadman;
pub mod disk;
pub mod error;
pub mod gate;
pub mod grub;
mod ioctl;
pub mod place;
pub mod preflight;
mod record;
pub mod rehearsal;
pub mod setup;
pub mod stage;
pub mod state;
#[cfg(test)]
mod state_tests;
pub mod units;
