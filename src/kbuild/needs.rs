//! What a package build needs of the host, each with its Debian package and the reason.

/// When a build needs something of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Always.
    Always,
    /// When this option is on.
    With(&'static str),
}

/// One thing that a package build needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The file whose presence shows it.
    pub file: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// What for.
    pub why: &'static str,
    /// When.
    pub when: Needed,
}

const fn need(file: &'static str, package: &'static str, why: &'static str, when: Needed) -> Need {
    Need {
        file,
        package,
        why,
        when,
    }
}

/// What a package build needs. From `Build-Depends` of `scripts/package/mkdebian` (which make
/// passes over with `--no-check-builddeps`) and from the rules that options turn on.
pub const NEEDS: [Need; 22] = {
    use Needed::{Always, With};
    [
        need(
            "/usr/bin/make",
            "make",
            "runs the kernel's makefiles",
            Always,
        ),
        need("/usr/bin/gcc", "gcc", "compiles the kernel", Always),
        need("/usr/bin/ld", "binutils", "links the kernel", Always),
        need(
            "/usr/include/stdlib.h",
            "libc6-dev",
            "compiles the build's own programs",
            Always,
        ),
        need("/usr/bin/flex", "flex", "makes the Kconfig reader", Always),
        need(
            "/usr/bin/bison",
            "bison",
            "makes the Kconfig reader",
            Always,
        ),
        need("/usr/bin/bc", "bc", "computes time constants", Always),
        need("/usr/bin/perl", "perl", "runs scripts of the build", Always),
        need(
            "/usr/bin/cpio",
            "cpio",
            "packs the kernel's headers",
            Always,
        ),
        need(
            "/usr/bin/rsync",
            "rsync",
            "installs the kernel's headers",
            Always,
        ),
        need(
            "/usr/bin/dpkg-buildpackage",
            "dpkg-dev",
            "makes the packages",
            Always,
        ),
        need(
            "/usr/bin/dh_builddeb",
            "debhelper",
            "makes the packages",
            Always,
        ),
        need("/usr/bin/xz", "xz-utils", "compresses the packages", Always),
        need(
            "/usr/sbin/depmod",
            "kmod",
            "lists what each module depends on",
            With("MODULES"),
        ),
        need(
            "/usr/include/libelf.h",
            "libelf-dev",
            "builds objtool",
            With("OBJTOOL"),
        ),
        need(
            "/usr/include/openssl/opensslv.h",
            "libssl-dev",
            "builds the reader of certificates",
            With("SYSTEM_TRUSTED_KEYRING"),
        ),
        need(
            "/usr/bin/openssl",
            "openssl",
            "reads certificates",
            With("SYSTEM_TRUSTED_KEYRING"),
        ),
        need(
            "/usr/bin/pahole",
            "dwarves",
            "writes type information (BTF)",
            With("DEBUG_INFO_BTF"),
        ),
        need(
            "/usr/bin/python3",
            "python3",
            "checks type information (BTF)",
            With("DEBUG_INFO_BTF"),
        ),
        need(
            "/usr/bin/zstd",
            "zstd",
            "compresses the kernel",
            With("KERNEL_ZSTD"),
        ),
        need(
            "/usr/bin/lz4",
            "lz4",
            "compresses the kernel",
            With("KERNEL_LZ4"),
        ),
        need(
            "/usr/bin/lzop",
            "lzop",
            "compresses the kernel",
            With("KERNEL_LZO"),
        ),
    ]
};
