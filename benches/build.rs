//! kiln's own cost on a build: the smallest real kernel, packaged by plain `make bindeb-pkg` and by
//! kiln, side by side on this machine. The aim is under 3 %. And before it, what `kiln build` takes
//! where nothing changed since the last one, on the tests' made-up kernel: the aim is under 1 s. A
//! real kernel's packages are larger, and each is hashed again: some 0.1 s for 100 MB.
//!
//! ```text
//! cargo bench --profile dev --bench build           the source of Debian's linux-source-6.12
//! cargo bench --profile dev --bench build -- DIR    an unpacked source tree
//! ```
//!
//! Plain, kiln, kiln, plain: a machine that grows slower meanwhile favours neither. What kiln does
//! beside make is the sandbox, resolving once more, comparing, and reading the finished packages.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::allow_attributes,
    reason = "a bench stops by panicking and prints its numbers"
)]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use kiln::command::{Cmd, Tool};
use kiln::dotconfig::DotConfig;
use kiln::kbuild::make::{Kbuild, Setup};
use kiln::kbuild::packages::{self, Request};
use kiln::kconfig::{Evidence, Facts, GuardedConfig, Reading, guard, merge};
use kiln::kernel::Release;
use kiln::progress::Silent;
use kiln::sandbox::Isolation;
use kiln::spec::pipeline::Packages;
use support::made_up::MadeUp;

/// Where Debian's package puts its source.
const SOURCE: &str = "/usr/src/linux-source-6.12.tar.xz";

#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "shared with the tests"
)]
#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    nothing_changed();
    let scratch = tempfile::tempdir().unwrap();
    let dir = Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap();
    let Some(source) = source(&dir) else {
        println!("not run: {SOURCE} is not there and no source tree was named");
        return;
    };
    let jobs = NonZeroU32::try_from(std::thread::available_parallelism().unwrap()).unwrap();
    let version = version(&source);
    let release: Release = format!("{version}-1-bench-00000000").parse().unwrap();

    let plain_1 = plain(&source, &dir.join("plain-1"), &release, jobs);
    let kiln_1 = with_kiln(&source, &dir.join("kiln-1"), &release, jobs);
    let kiln_2 = with_kiln(&source, &dir.join("kiln-2"), &release, jobs);
    let plain_2 = plain(&source, &dir.join("plain-2"), &release, jobs);

    let (plain, kiln) = (plain_1 + plain_2, kiln_1 + kiln_2);
    println!("Linux {version}, tinyconfig with modules off, {jobs} jobs, bindeb-pkg");
    println!("plain make  {plain_1:8.1?} {plain_2:8.1?}");
    println!("kiln        {kiln_1:8.1?} {kiln_2:8.1?}");
    let percent = (kiln.as_secs_f64() / plain.as_secs_f64() - 1.0) * 100.0;
    println!("kiln's own cost: {percent:+.1} % of plain make's wall time");
}

/// `kiln build` five times after the build that made it.
fn nothing_changed() {
    let built = MadeUp::sandboxed().and_then(|made| made.built().map(|_answer| made));
    let Ok(made) = built else {
        println!("not run: no sandbox can be had, or the made-up kernel does not build");
        return;
    };
    let mut took: Vec<Duration> = (0..5)
        .map(|_| {
            let ran = made
                .kiln("build made")
                .run()
                .unwrap_or_else(|_| panic!("not run"));
            assert!(
                ran.stdout.contains("nothing changed since"),
                "{}",
                ran.stderr
            );
            ran.took
        })
        .collect();
    took.sort();
    println!(
        "kiln build, nothing changed: {:.1?} (of five, {:.1?} to {:.1?})",
        took[2], took[0], took[4]
    );
}

/// The source tree that was named, or Debian's, unpacked.
fn source(dir: &Utf8Path) -> Option<Utf8PathBuf> {
    // `cargo bench` passes --bench.
    let named = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    if let Some(named) = named {
        return Some(Utf8PathBuf::from(named).canonicalize_utf8().unwrap());
    }
    if !Utf8Path::new(SOURCE).exists() {
        return None;
    }
    Cmd::new(&Tool::find("tar").unwrap())
        .args(["-C", dir.as_str(), "-xf", SOURCE])
        .run()
        .unwrap();
    Some(dir.join("linux-source-6.12"))
}

fn version(source: &Utf8Path) -> String {
    let makefile = std::fs::read_to_string(source.join("Makefile")).unwrap();
    let value = |name: &str| {
        let lines = makefile.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
        values.next().unwrap().trim().to_owned()
    };
    format!(
        "{}.{}.{}",
        value("VERSION"),
        value("PATCHLEVEL"),
        value("SUBLEVEL")
    )
}

/// What a script does.
fn plain(source: &Utf8Path, dir: &Utf8Path, release: &Release, jobs: NonZeroU32) -> Duration {
    let tree = dir.join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    let started = Instant::now();
    for target in ["tinyconfig", "bindeb-pkg"] {
        Cmd::new(&Tool::find("make").unwrap())
            .args(["-C", source.as_str(), &format!("O={tree}"), "ARCH=x86_64"])
            .args([&format!("-j{jobs}"), target])
            .env("LOCALVERSION", release.local_version())
            .env("KDEB_CHANGELOG_DIST", "unstable")
            .env("KDEB_COMPRESS", "xz")
            .log(dir.join("log"))
            .run()
            .unwrap();
    }
    started.elapsed()
}

/// The same through kiln, from the configuration to the checked packages.
fn with_kiln(source: &Utf8Path, dir: &Utf8Path, release: &Release, jobs: NonZeroU32) -> Duration {
    let isolation = Isolation::probe().unwrap();
    let started = Instant::now();
    let kbuild = Kbuild::new(&Setup {
        source,
        dir,
        isolation: &isolation,
        root: None,
        epoch: Timestamp::UNIX_EPOCH,
        jobs,
        other_time: None,
    })
    .unwrap();
    let tiny = kbuild.target("tinyconfig").unwrap();
    let config = guarded(&tiny.text, release);
    let request = Request {
        config: &config,
        release,
        options: Packages::default(),
    };
    packages::build(&kbuild, &request, &Silent)
        .unwrap()
        .check(&request, &isolation)
        .unwrap();
    started.elapsed()
}

/// A configuration that nothing was asked of. The guard's own time is measured elsewhere.
fn guarded(text: &str, release: &Release) -> GuardedConfig {
    let config = DotConfig::parse(text);
    let merged = merge(&config, &[], &[], release.version.series).unwrap();
    let evidence = Evidence {
        merged: &merged,
        base: &config,
        base_alone: &config,
        resolved: &config,
        remarks: &[],
        base_remarks: &[],
        facts: &Facts::embedded().unwrap(),
        allowed: &[],
        version: release.version,
        today: None,
    };
    let report = guard(&evidence, Reading::Nothing("of no use here".to_owned()));
    report.into_guarded().unwrap()
}
