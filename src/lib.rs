//! kiln builds Linux kernels that a fleet can trust to be boring.

pub mod clock;
pub mod digest;
pub mod failure;
pub mod kernel;
pub mod progress;
