//! What a package build needs of the host, each with its Debian package and the reason.

use camino::Utf8Path;

use super::root::Root;
use crate::command::Tool;

/// One thing that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// A program on the fixed search path.
    Program(&'static str),
    /// A file that a compiler or a script reads; the first that exists counts.
    File(&'static [&'static str]),
}

impl Thing {
    /// How it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Program(name) => name,
            Self::File(paths) => paths.first().copied().unwrap_or_default(),
        }
    }

    /// Whether the host has it.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => Tool::find(name).is_ok(),
            Self::File(paths) => paths.iter().any(|path| Utf8Path::new(path).exists()),
        }
    }

    /// Whether a build root has it.
    pub fn is_in(&self, root: &Root) -> bool {
        match self {
            Self::Program(name) => ["/usr/bin", "/usr/sbin"]
                .iter()
                .any(|directory| root.has(&format!("{directory}/{name}"))),
            Self::File(paths) => paths.iter().any(|path| root.has(path)),
        }
    }
}

/// When a build needs something of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Always.
    Always,
    /// When this option is on, as it is in Debian's configurations.
    With(&'static str),
    /// When this option is on, as it is in few configurations.
    Rarely(&'static str),
}

/// One thing that a package build needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What must be there.
    pub thing: Thing,
    /// The Debian package that has it.
    pub package: &'static str,
    /// What it does.
    pub why: &'static str,
    /// When.
    pub when: Needed,
}

const fn program(
    name: &'static str,
    package: &'static str,
    why: &'static str,
    when: Needed,
) -> Need {
    Need {
        thing: Thing::Program(name),
        package,
        why,
        when,
    }
}

const fn file(
    paths: &'static [&'static str],
    package: &'static str,
    why: &'static str,
    when: Needed,
) -> Need {
    Need {
        thing: Thing::File(paths),
        package,
        why,
        when,
    }
}

/// What a package build needs. From `Build-Depends` of `scripts/package/mkdebian` (which make
/// passes over with `--no-check-builddeps`), `Documentation/process/changes.rst`, and the rules that
/// options turn on.
pub const NEEDS: [Need; 22] = {
    use Needed::{Always, Rarely, With};
    [
        program("make", "make", "runs the kernel's makefiles", Always),
        program("gcc", "gcc", "compiles the kernel", Always),
        program("ld", "binutils", "links the kernel", Always),
        file(
            &["/usr/include/stdlib.h"],
            "libc6-dev",
            "has the C library's headers, for the build's own programs",
            Always,
        ),
        program("flex", "flex", "generates the Kconfig scanner", Always),
        program("bison", "bison", "generates the Kconfig parser", Always),
        program("bc", "bc", "computes the kernel's time constants", Always),
        program("perl", "perl", "runs scripts of the kernel's build", Always),
        program(
            "cpio",
            "cpio",
            "packs headers and the built-in initramfs",
            Always,
        ),
        program("rsync", "rsync", "installs the kernel's headers", Always),
        program(
            "dpkg-buildpackage",
            "dpkg-dev",
            "makes the packages, under `make bindeb-pkg`",
            Always,
        ),
        program(
            "dh_builddeb",
            "debhelper",
            "makes the packages, under `make bindeb-pkg`",
            Always,
        ),
        program("xz", "xz-utils", "compresses modules and packages", Always),
        program(
            "depmod",
            "kmod",
            "lists what each module depends on",
            With("MODULES"),
        ),
        file(
            &[
                "/usr/include/libelf.h",
                "/usr/include/x86_64-linux-gnu/libelf.h",
            ],
            "libelf-dev",
            "lets objtool and resolve_btfids read object files",
            With("OBJTOOL"),
        ),
        file(
            &["/usr/include/openssl/opensslv.h"],
            "libssl-dev",
            "is what the kernel's certificate programs are compiled against",
            With("SYSTEM_TRUSTED_KEYRING"),
        ),
        program(
            "openssl",
            "openssl",
            "writes the kernel's built-in certificate list",
            With("SYSTEM_TRUSTED_KEYRING"),
        ),
        program(
            "pahole",
            "dwarves",
            "writes BTF; without it DEBUG_INFO_BTF and SCHED_CLASS_EXT vanish silently",
            With("DEBUG_INFO_BTF"),
        ),
        program(
            "python3",
            "python3",
            "checks BTF, type by type",
            With("DEBUG_INFO_BTF"),
        ),
        program("zstd", "zstd", "compresses the kernel", With("KERNEL_ZSTD")),
        program("lz4", "lz4", "compresses the kernel", Rarely("KERNEL_LZ4")),
        program(
            "lzop",
            "lzop",
            "compresses the kernel",
            Rarely("KERNEL_LZO"),
        ),
    ]
};
