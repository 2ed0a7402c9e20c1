//! Merge and guard on Debian's whole configuration of 11,000 lines, against the full check of the
//! kernel's own `merge_config.sh`, side by side on this machine. The aim is less than 50 ms for
//! what kiln does beside `make`.
//!
//! ```text
//! cargo bench --profile dev --bench kconfig
//! ```
//!
//! Timed for kiln: reading the base, the fragments, both answers of `olddefconfig` and the tables,
//! merging, judging, and the report's digest. Reading the tree's Kconfig files is timed apart: it is
//! done once for a tree. The script merges, runs `make alldefconfig` and compares by itself, so its
//! time without `make` is not to be had; `make olddefconfig` is printed beside it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    clippy::print_stderr,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench stops by panicking and prints its numbers"
)]

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::dotconfig::DotConfig;
use kiln::files;
use kiln::kconfig::{Evidence, Facts, Fragment, Reading, export, guard, merge};
use kiln::kernel::{Series, Version};

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/case.rs"]
mod case;
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/linux.rs"]
mod linux;

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/suites.rs"]
mod suites;

/// How often kiln's part is timed; the median counts.
const ROUNDS: usize = 21;

fn main() {
    let (tree, base) = match (linux::real_source(), linux::real_config("amd64_none_amd64")) {
        (Ok(tree), Ok(base)) => (tree, base),
        (Err(stop), _) | (_, Err(stop)) => {
            println!("{stop:?}");
            return;
        }
    };
    let scratch = tempfile::tempdir().unwrap();
    let dir = Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap();
    let series: Series = linux::SERIES.parse().unwrap();
    let texts = fragment_texts();
    let fragments = parsed(&texts);
    let merged = merge(&DotConfig::parse(&*base), &fragments, &[], series).unwrap();
    let (alone, make) = olddefconfig(tree, &dir.join("alone"), &base);
    let (resolved, _) = olddefconfig(tree, &dir.join("resolved"), merged.text());

    let (report, took) = median(ROUNDS, || {
        let base = DotConfig::parse(&*base);
        let merged = merge(&base, &parsed(&texts), &[], series).unwrap();
        let evidence = Evidence {
            merged: &merged,
            base: &base,
            base_alone: &DotConfig::parse(&*alone),
            resolved: &DotConfig::parse(&*resolved),
            remarks: &[],
            base_remarks: &[],
            facts: &Facts::embedded().unwrap(),
            allowed: &[],
            version: Version {
                series,
                patch: 0,
                rc: None,
            },
            today: None,
        };
        // What the engine adds is measured with the engine.
        let report = guard(
            &evidence,
            Reading::Nothing("values alone are judged here".to_owned()),
        );
        report.digest().unwrap();
        report
    });
    let plain = export(&fragments, series).unwrap();
    let (script, said) = merge_config(tree, &dir, &base, &plain);

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{} lines, {} requests, {} met, {} findings",
        base.lines().count(),
        report.asked,
        report.met,
        report.findings.len()
    );
    println!("merge and guard      {:9.1} ms", ms(took));
    println!("make olddefconfig    {:9.1} ms", ms(make));
    println!(
        "merge_config.sh      {:9.1} ms ({said} values reported)",
        ms(script)
    );
    println!(
        "ratio                {:9.4} of the script's time; with olddefconfig twice {:.2}",
        took.as_secs_f64() / script.as_secs_f64(),
        (took + 2 * make).as_secs_f64() / script.as_secs_f64()
    );
}

/// The fragments of the default workspace's pipelines.
fn fragment_texts() -> Vec<(String, String)> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    ["upstream-build", "latency", "boot-gate"]
        .iter()
        .map(|name| {
            let file = format!("config-fragments/{name}.config");
            let text = files::read_text(&root.join(&file), 1 << 20).unwrap();
            (file, text)
        })
        .collect()
}

fn parsed(texts: &[(String, String)]) -> Vec<Fragment> {
    let parse = |(file, text): &(String, String)| Fragment::parse(file, text).unwrap();
    texts.iter().map(parse).collect()
}

/// The last result and the median time.
fn median<T>(rounds: usize, mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..rounds {
        let start = Instant::now();
        last = Some(work());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (last.unwrap(), times[rounds / 2])
}

/// What the tree makes of a configuration, and how long that takes once its tools are compiled.
fn olddefconfig(tree: &Utf8Path, out: &Utf8Path, text: &str) -> (String, Duration) {
    files::create_dir_all(out).unwrap();
    let path = out.join(".config");
    let make = Tool::find("make").unwrap();
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        files::write(&path, text.as_bytes()).unwrap();
        let start = Instant::now();
        Cmd::new(&make)
            .args(["-s", "-C", tree.as_str(), "ARCH=x86_64", "olddefconfig"])
            .arg(format!("O={out}"))
            .log(out.join("log"))
            .run()
            .unwrap();
        took = start.elapsed();
    }
    (files::read_text(&path, 16 << 20).unwrap(), took)
}

/// The script's whole work, and how many values it reports.
fn merge_config(tree: &Utf8Path, dir: &Utf8Path, base: &str, plain: &str) -> (Duration, usize) {
    let (base_file, fragment) = (dir.join("base.config"), dir.join("plain.config"));
    files::write(&base_file, base.as_bytes()).unwrap();
    files::write(&fragment, plain.as_bytes()).unwrap();
    let out = dir.join("script");
    files::create_dir_all(&out).unwrap();
    let start = Instant::now();
    let said = Cmd::new(&Tool::find("sh").unwrap())
        .arg(tree.join("scripts/kconfig/merge_config.sh").as_str())
        .args(["-O", out.as_str(), base_file.as_str(), fragment.as_str()])
        .env("ARCH", "x86_64")
        .cwd(tree)
        .log(dir.join("script.log"))
        .capture()
        .unwrap();
    let took = start.elapsed();
    let said = String::from_utf8_lossy(&said);
    let reported = said
        .lines()
        .filter(|line| line.starts_with("Value requested for"));
    (took, reported.count())
}
