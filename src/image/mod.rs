//! From checked packages to something that boots: the boot test, and later disk images.

pub mod boot_report;
pub mod boot_test;
pub mod initramfs;
