//! From checked packages to something that boots: the boot test, and later disk images.

pub mod initramfs;
