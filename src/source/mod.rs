//! Getting a kernel's source, and proving that it is the one its maintainers released.

pub mod mirror;
pub mod releases;
