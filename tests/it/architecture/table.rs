//! The table: rooms and what each may import, proofs, and who may name what.

/// A room of `src/`: a file, or a directory with its files.
pub(super) struct Room {
    pub(super) name: &'static str,
    /// 0 facts, 1 tools, 2 rooms of the node, 3 rooms of the builder, 4 the pipeline, 5 the edge.
    pub(super) level: u8,
    /// The rooms it may import whole.
    pub(super) may: &'static [&'static str],
    /// No file, process, network, environment or clock.
    pub(super) pure: bool,
}

pub(super) const FACTS: &[&str] = &[
    "kernel",
    "digest",
    "cpus",
    "failure",
    "progress",
    "dotconfig",
    "proof",
];
pub(super) const TOOLS: &[&str] = &[
    "files",
    "clock",
    "interrupt",
    "command",
    "sandbox",
    "store",
    "qemu",
    "machine",
];
pub(super) const BUILDER: &[&str] = &["spec", "source", "kconfig", "kbuild", "image"];

/// Every room, lowest first. A room's own files may import one another.
pub(super) const ROOMS: &[Room] = &[
    pure("failure", 0, &[]),
    pure("progress", 0, &[]),
    pure("kernel", 0, &["failure"]),
    pure("digest", 0, &["kernel", "failure"]),
    pure("cpus", 0, &["kernel"]),
    pure("dotconfig", 0, &["kernel", "digest", "failure"]),
    pure("proof", 0, &["kernel", "digest", "failure", "dotconfig"]),
    room("clock", 1, &[]),
    room("interrupt", 1, &["clock"]),
    room("files", 1, &["clock", "interrupt"]),
    room("sandbox", 1, &["files", "clock", "command", "interrupt"]),
    room("command", 1, &["files", "clock", "interrupt", "sandbox"]),
    room("store", 1, &["files", "clock", "interrupt"]),
    room("qemu", 1, &["files", "clock", "command", "interrupt"]),
    room("machine", 1, &["files"]),
    room("boot", 2, &[]),
    pure("node", 2, &[]),
    pure("spec", 3, &[]),
    room("source", 3, &["spec"]),
    room("kconfig", 3, &["spec"]),
    room("kbuild", 3, &["spec"]),
    room("image", 3, &["spec"]),
    room("pipeline", 4, BUILDER),
    room("ui", 5, &["pipeline"]),
    room("cli", 5, &["pipeline", "ui"]),
];

const fn room(name: &'static str, level: u8, may: &'static [&'static str]) -> Room {
    Room {
        name,
        level,
        may,
        pure: false,
    }
}

const fn pure(name: &'static str, level: u8, may: &'static [&'static str]) -> Room {
    Room {
        name,
        level,
        may,
        pure: true,
    }
}

/// What a builder room may take from a room to its left: what that room has proven.
pub(super) const PROVEN: &[(&str, &str, &[&str])] = &[
    ("kconfig", "source", &["SourceTree"]),
    ("kbuild", "source", &["SourceTree", "VerifiedTarball"]),
    ("kbuild", "kconfig", &["GuardedConfig", "NotGuarded"]),
    ("image", "kbuild", &["CheckedPackages"]),
];

/// The types that prove something: they cannot be read back, made from nothing or opened up.
pub(super) const PROOFS: &[(&str, &str)] = &[
    ("source", "VerifiedTarball"),
    ("source", "SourceTree"),
    ("kconfig", "GuardedConfig"),
    ("kbuild", "Packages"),
    ("kbuild", "CheckedPackages"),
];

/// Crates that only these files or directories name.
pub(super) const CRATES: &[(&str, &[&str])] = &[
    ("clap", &["src/cli/"]),
    ("clap_complete", &["src/cli/"]),
    ("clap_mangen", &["src/cli/"]),
    ("duct", &["src/command/"]),
    ("ed25519_dalek", &["src/proof/key.rs"]),
    ("getrandom", &["src/pipeline/holders.rs"]),
    ("indicatif", &["src/ui/"]),
    ("kconfig_language", &["src/kconfig/mod.rs"]),
    ("kiln_dotconfig", &["src/lib.rs"]),
    ("reqwest", &["src/source/mirror.rs", "src/source/mirror/"]),
    (
        "sequoia_openpgp",
        &[
            "src/source/keyring.rs",
            "src/source/policy.rs",
            "src/source/signature.rs",
            "src/source/verdict.rs",
            "src/source/keys.rs",
            "src/source/refresh.rs",
        ],
    ),
    ("serde_yaml", &["src/spec/yaml.rs"]),
    ("sha2", &["src/digest.rs"]),
    ("signal_hook", &["src/interrupt.rs", "src/command/"]),
    (
        "tar",
        &[
            "src/source/identity.rs",
            "src/source/extract.rs",
            "src/source/debian/package.rs",
            "src/image/boot_test.rs",
            "src/kbuild/compare.rs",
            "src/kbuild/deb.rs",
            "src/machine/capture.rs",
        ],
    ),
    ("xz2", &["src/source/xz.rs"]),
];

/// Files over the limit of lines, each with its reason.
pub(super) const LONG_FILES: &[(&str, &str)] = &[
    (
        "tests/it/fetch.rs",
        "every fault of a mirror beside its twin",
    ),
    ("tests/it/unpack.rs", "one table of hostile archives"),
];

/// The most lines a file may have beside its unit tests.
pub(super) const MOST_LINES: usize = 600;

/// Who may start programs, each with its reason.
pub(super) const STARTERS: &[(&str, &str)] = &[("src/command/", "the one runner")];
