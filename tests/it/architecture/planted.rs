//! Twins of the rules: planted violations that each must find, and clean lines that it must not.

use super::Rule;
use crate::support::Outcome;
use crate::support::rust_source::Source;

/// Checks that the rule finds each planted line, and nothing in the clean ones.
fn planted(rule: Rule, bad: &[(&str, &str)], good: &[(&str, &str)]) -> Outcome {
    for (file, text) in bad {
        let broken = rule(&Source::new(file, &format!("//! Doc.\n{text}\n")));
        assert!(!broken.is_empty(), "not found in {file}: {text}");
        assert!(broken[0].starts_with(&format!("{file}:")), "{}", broken[0]);
    }
    for (file, text) in good {
        let broken = rule(&Source::new(file, text));
        assert!(broken.is_empty(), "{file}: {text}: {broken:?}");
    }
    Ok(())
}

pub(super) fn rooms() -> Outcome {
    planted(
        super::rooms,
        &[
            ("src/kernel.rs", "use crate::files;"),
            ("src/kernel.rs", "fn f() { crate::store::open() }"),
            ("src/kernel.rs", "use super::command::Cmd;"),
            ("src/kernel.rs", "use crate::digest::Sha256;"),
            ("src/files.rs", "use crate::spec::Pipeline;"),
            (
                "src/source/mirror/mod.rs",
                "use crate::kconfig::GuardedConfig;",
            ),
            (
                "src/kconfig/guard.rs",
                "use crate::source::{SourceTree, Mirror};",
            ),
            ("src/kconfig/guard.rs", "use super::super::source::mirror;"),
            ("src/kconfig/guard.rs", "use crate::source::*;"),
            ("src/image/disk.rs", "use crate::source::SourceTree;"),
            ("src/spec/pipeline.rs", "use crate::files;"),
            ("src/pipeline/build.rs", "use crate::cli::Format;"),
            (
                "src/ui/text.rs",
                "mod inner { fn f() { super::super::super::cli::x::y() } }",
            ),
            (
                "src/kernel.rs",
                "use crate::{failure::Exit, progress::Event};",
            ),
            ("src/stray.rs", "fn f() {}"),
            ("src/kernel.rs", "use crate::nowhere::X;"),
            ("src/kernel.rs", "use crate::*;"),
        ],
        &[
            ("src/kernel.rs", "use crate::failure::Exit;"),
            (
                "src/kconfig/guard.rs",
                "use crate::{files, source::SourceTree, spec::Pipeline};",
            ),
            (
                "src/kconfig/language/lex.rs",
                "use super::parse; use crate::kconfig::merge::Merged;",
            ),
            (
                "src/pipeline/build.rs",
                "use crate::kbuild::make; use crate::store::Store;",
            ),
            (
                "src/cli/build.rs",
                "use crate::{pipeline, ui, spec, files, kernel};",
            ),
            (
                "src/kernel.rs",
                "// use crate::files;\nconst X: &str = \"crate::files::x\";",
            ),
            ("src/lib.rs", "pub mod anything;"),
        ],
    )
}

pub(super) fn facts() -> Outcome {
    planted(
        super::facts,
        &[
            ("src/kernel.rs", "use std::fs;"),
            ("src/kernel.rs", "use std::{fmt, env};"),
            ("src/proof/lock.rs", "fn f() { std::process::exit(1) }"),
            ("src/digest.rs", "use std::time::Duration;"),
            ("src/spec/yaml.rs", "use std::net::TcpStream;"),
            ("src/digest.rs", "use rustix::fs::open;"),
        ],
        &[
            (
                "src/kernel.rs",
                "use std::fmt; use std::collections::BTreeMap;",
            ),
            ("src/kernel.rs", "#[cfg(test)]\nmod tests { use std::fs; }"),
            ("src/files.rs", "use std::fs;"),
        ],
    )
}

pub(super) fn crates() -> Outcome {
    planted(
        super::crates,
        &[
            ("src/spec/pipeline.rs", "use serde_yaml::Error;"),
            (
                "src/source/mirror.rs",
                "fn f() { xz2::read::XzDecoder::new() }",
            ),
            ("src/kbuild/make.rs", "use duct::cmd;"),
            ("src/cli/fetch.rs", "fn f() { reqwest::blocking::get() }"),
            ("src/pipeline/build.rs", "use sequoia_openpgp as openpgp;"),
        ],
        &[
            ("src/spec/yaml.rs", "use serde_yaml::Error;"),
            ("src/command/cmd.rs", "use duct::cmd;"),
            ("src/cli/build.rs", "use clap::Parser;"),
        ],
    )
}

pub(super) fn time() -> Outcome {
    planted(
        super::time,
        &[
            ("src/command/cmd.rs", "fn f() { Instant::now() }"),
            ("src/store.rs", "fn f() { std::time::SystemTime::now() }"),
            ("src/proof/lock.rs", "fn f() { jiff::Timestamp::now() }"),
        ],
        &[
            ("src/clock.rs", "fn f() { Instant::now() }"),
            (
                "src/command/cmd.rs",
                "fn f(at: Instant) { at.elapsed(); crate::clock::monotonic() - at }",
            ),
            (
                "src/command/cmd.rs",
                "#[cfg(test)]\nmod tests { fn f() { Instant::now() } }",
            ),
        ],
    )
}

pub(super) fn final_names() -> Outcome {
    planted(
        super::final_names,
        &[
            ("src/store.rs", "fn f() { file.persist(name) }"),
            (
                "src/kbuild/deb.rs",
                "fn f() { file.persist_noclobber(name) }",
            ),
        ],
        &[
            ("src/files.rs", "fn f() { file.persist(name) }"),
            ("src/store.rs", "fn persist() { staged.commit(name) }"),
        ],
    )
}

pub(super) fn programs() -> Outcome {
    planted(
        super::programs,
        &[
            ("src/qemu.rs", "use std::process::Command;"),
            ("src/qemu.rs", "use std::process::{self, Command};"),
            (
                "src/qemu.rs",
                "use std::process; fn f() { process::Command::new(\"x\") }",
            ),
            ("src/qemu.rs", "use std::process::*;"),
        ],
        &[
            ("src/command/cmd.rs", "use std::process::Command;"),
            (
                "src/cli/mod.rs",
                "use std::process::ExitCode; use clap::Command;",
            ),
        ],
    )
}

pub(super) fn mod_files() -> Outcome {
    planted(
        super::mod_files,
        &[
            ("src/kconfig/mod.rs", "mod a;\npub fn f() {}"),
            ("src/lib.rs", "pub mod a;\npub struct X;"),
            ("src/source/mod.rs", "pub const X: u8 = 1;"),
        ],
        &[
            (
                "src/kconfig/mod.rs",
                "//! fn\nmod a;\npub use a::X;\n#[cfg(test)]\nmod tests;",
            ),
            ("src/kconfig/merge.rs", "fn f() {}"),
        ],
    )
}

pub(super) fn proofs() -> Outcome {
    planted(
        super::proofs,
        &[
            (
                "src/source/tarball.rs",
                "#[derive(Debug, Deserialize)]\npub struct VerifiedTarball {\n}",
            ),
            (
                "src/source/tarball.rs",
                "#[derive(Default)] pub struct SourceTree { x: u8 }",
            ),
            (
                "src/kconfig/guard.rs",
                "pub struct GuardedConfig {\n    pub text: String,\n}",
            ),
            (
                "src/kbuild/check.rs",
                "pub struct CheckedPackages(pub Packages);",
            ),
        ],
        &[
            (
                "src/kconfig/guard.rs",
                "#[derive(Clone)] struct X; #[derive(Debug)]\npub struct GuardedConfig { text: String }\npub fn f() {}",
            ),
            (
                "src/spec/pipeline.rs",
                "#[derive(Deserialize)] pub struct Packages { pub debug: bool }",
            ),
            (
                "src/kbuild/check.rs",
                "#[derive(Debug)] pub struct CheckedPackages(Packages);",
            ),
        ],
    )
}

pub(super) fn binaries() -> Outcome {
    planted(
        super::binaries,
        &[
            ("src/main.rs", "fn main() { kiln::store::open() }"),
            ("src/bin/other.rs", "fn main() { f() } fn f() {}"),
        ],
        &[(
            "src/main.rs",
            "fn main() -> std::process::ExitCode { kiln::cli::kiln() }",
        )],
    )
}
