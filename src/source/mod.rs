//! Getting a kernel's source, and proving that it is the one its maintainers released.

mod armor;
pub mod keyring;
pub mod mirror;
mod policy;
pub mod releases;

#[cfg(test)]
#[path = "../../tests/support/keys.rs"]
mod test_keys;
