//! What a machine is, read from `/sys` and `/proc`: topology, caches, idle states, interrupts, queues.
//!
//! Everything goes through a [`Root`], so that a captured tree gives the same answer as the machine it
//! was captured on. Nothing is decided here, and nothing that stands in those files is believed: what
//! cannot be read or parsed becomes a [`Fault`], and the rest is still told.

mod capture;
mod devices;
mod fingerprint;
mod power;
mod root;
mod topology;

pub use capture::write as write_capture;
pub use devices::{Device, DeviceKind, Interrupt, Movable};
pub use fingerprint::{Fingerprint, Platform};
pub use power::{Frequency, Idle, IdleState};
pub use root::{Fault, Root, RootError};
pub use topology::{CPUS, Domain, Kind, Numbered, Topology};
