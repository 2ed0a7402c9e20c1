//! Getting a kernel's source, and proving that it is the one its maintainers released.

mod armor;
pub mod checksums;
pub mod configuration;
pub mod debian;
mod decompress;
pub mod entry;
pub mod extract;
pub mod identity;
pub mod kernel_org;
pub mod keyring;
pub mod keys;
pub mod live_patch;
pub mod mirror;
pub mod patch;
pub mod patch_text;
mod policy;
pub mod refresh;
pub mod releases;
pub mod signature;
mod tee;
mod tree_writer;
pub mod unpack;
pub mod verdict;
pub mod worker;
pub mod xz;
mod xz_layout;

#[cfg(test)]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "shared with the integration tests, which use the rest"
)]
#[path = "../../tests/support/keys.rs"]
mod test_keys;
#[cfg(test)]
#[expect(
    dead_code,
    unreachable_pub,
    clippy::needless_pass_by_value,
    reason = "shared with the integration tests, which use the rest"
)]
#[path = "../../tests/support/tar.rs"]
mod test_tar;
#[cfg(test)]
#[expect(
    unreachable_pub,
    reason = "shared with the integration tests, which use the rest"
)]
#[path = "../../tests/support/xz.rs"]
mod test_xz;
