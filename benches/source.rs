//! A kernel's source from `.tar.xz` and signature to a verified tree: the script way and kiln, side
//! by side on this machine, on a file of one xz block and on one of many. The aim is 0.6 of the
//! script's wall time or less, and less than 200 MB of memory.
//!
//! ```text
//! cargo bench --bench source                 the source of Debian's linux-source-6.12
//! cargo bench --bench source -- DIR          keeps the prepared files in DIR for the next time
//! ```
//!
//! The script: `xz -cd F | gpgv --keyring K S -`, then `tar -xf F`. Script, kiln, kiln, script: a
//! machine that grows slower meanwhile favours neither.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    reason = "a bench stops by panicking and prints its numbers"
)]

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::files;
use kiln::kernel::Version;
use kiln::progress::Silent;
use kiln::sandbox::{Isolation, Worker};
use kiln::source::keyring::Keyring;
use kiln::source::signature;
use kiln::source::unpack::{self, Select};
use kiln::source::xz::{self, Limits};

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/keys.rs"]
mod keys;

/// Where Debian's package puts its source.
const SOURCE: &str = "/usr/src/linux-source-6.12.tar.xz";

fn main() {
    let scratch = tempfile::tempdir().unwrap();
    // `cargo bench` passes --bench.
    let named = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let dir = named.map_or_else(
        || Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap(),
        Utf8PathBuf::from,
    );
    let Some(inputs) = Inputs::prepare(&dir) else {
        println!("not run: {SOURCE} is not there");
        return;
    };
    println!("Linux {}, {} bytes as tar", inputs.version, inputs.bytes);
    for (what, file) in [("one block", &inputs.one), ("many blocks", &inputs.many)] {
        let script_1 = script(&inputs, file);
        let kiln_1 = with_kiln(&inputs, file);
        let kiln_2 = with_kiln(&inputs, file);
        let script_2 = script(&inputs, file);
        println!("{what}:");
        for (name, steps) in [
            ("script", [&script_1, &script_2]),
            ("kiln", [&kiln_1, &kiln_2]),
        ] {
            for run in steps {
                println!("  {name:7} {}", run.text());
            }
        }
        let script = script_1.total() + script_2.total();
        let kiln = kiln_1.total() + kiln_2.total();
        println!(
            "  ratio   {:.2} of the script's wall time; largest worker {} MB",
            kiln.as_secs_f64() / script.as_secs_f64(),
            kiln_1.memory.max(kiln_2.memory) / 1_000_000,
        );
    }
}

/// A release as kernel.org serves one, signed by a test key.
struct Inputs {
    dir: Utf8PathBuf,
    version: Version,
    bytes: u64,
    one: Utf8PathBuf,
    many: Utf8PathBuf,
    signature: Vec<u8>,
    keyring: Keyring,
}

impl Inputs {
    fn prepare(dir: &Utf8Path) -> Option<Self> {
        files::create_dir_all(dir).unwrap();
        let tar = dir.join("linux.tar");
        let (one, many) = (dir.join("one.tar.xz"), dir.join("many.tar.xz"));
        if !many.exists() {
            if !Utf8Path::new(SOURCE).exists() {
                return None;
            }
            repack(dir, &tar);
            for (file, words) in [
                (&one, "-1 --threads=1"),
                (&many, "-1 --threads=0 --block-size=25165824"),
            ] {
                println!("preparing {file} (once)");
                Cmd::new(&Tool::find("xz").unwrap())
                    .args(["--compress", "--stdout"])
                    .args(words.split(' '))
                    .stdin_file(File::open(&tar).unwrap())
                    .stdout_file(File::create(file).unwrap())
                    .run()
                    .unwrap();
            }
        }
        let key = keys::TestKey::new();
        let signature = key.sign_detached(File::open(&tar).unwrap());
        let certificate = dir.join(format!("{}.asc", key.fingerprint()));
        files::write(&certificate, key.armored_cert().as_bytes()).unwrap();
        files::write(&dir.join("sign"), &signature).unwrap();
        let keyring = Keyring::load(dir, &[key.fingerprint().parse().unwrap()]).unwrap();
        // What gpgv reads: the certificate without armor.
        sh(
            dir,
            &format!("gpg --dearmor < {certificate} > keyring.gpg && rm {certificate}"),
        );
        let version = files::read_text(&dir.join("version"), 100).unwrap();
        Some(Self {
            dir: dir.to_owned(),
            version: version.trim().parse().unwrap(),
            bytes: tar.metadata().unwrap().len(),
            one,
            many,
            signature,
            keyring,
        })
    }
}

/// Debian's source with the directory that a release of kernel.org has.
fn repack(dir: &Utf8Path, tar: &Utf8Path) {
    println!("repacking {SOURCE} (once)");
    sh(
        dir,
        &format!(
            "rm -rf x && mkdir x && tar -C x -xf {SOURCE} && cd x/linux-source-* && \
             v=$(make -s kernelversion) && echo $v > ../../version && cd .. && \
             mv linux-source-* linux-$v && \
             tar --sort=name --owner=0 --group=0 --numeric-owner -cf {tar} linux-$v && \
             cd .. && rm -rf x"
        ),
    );
}

fn sh(dir: &Utf8Path, script: &str) {
    Cmd::new(&Tool::find("bash").unwrap())
        .args(["-e", "-o", "pipefail", "-c", script])
        .cwd(dir)
        .run()
        .unwrap();
}

#[derive(Default)]
struct Run {
    steps: Vec<(&'static str, Duration)>,
    /// Peak of the workers' resident memory, in bytes.
    memory: u64,
}

impl Run {
    fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.steps.push((name, started.elapsed()));
        result
    }

    fn total(&self) -> Duration {
        self.steps.iter().map(|(_, elapsed)| *elapsed).sum()
    }

    fn text(&self) -> String {
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|(name, elapsed)| format!("{name} {:.1}", elapsed.as_secs_f64()))
            .collect();
        format!(
            "{:6.1} s = {}",
            self.total().as_secs_f64(),
            steps.join(" + ")
        )
    }
}

fn script(inputs: &Inputs, file: &Utf8Path) -> Run {
    let mut run = Run::default();
    let verify = format!("xz -cd {file} | gpgv -q --keyring ./keyring.gpg sign -");
    run.step("verify", || sh(&inputs.dir, &verify));
    sh(&inputs.dir, "mkdir script");
    run.step("unpack", || {
        sh(&inputs.dir, &format!("tar -C script -xf {file}"));
    });
    files::remove_dir_all(&inputs.dir.join("script")).unwrap();
    run
}

fn with_kiln(inputs: &Inputs, file: &Utf8Path) -> Run {
    let worker = Worker {
        program: env!("CARGO_BIN_EXE_kiln").into(),
    };
    let isolation = Isolation::probe().unwrap();
    let mut run = Run::default();
    let (peak, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                peak.fetch_max(worker_memory(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let tar = inputs.dir.join("kiln.tar");
        let output = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&tar)
            .unwrap();
        run.step("decompress", || {
            let input = File::open(file).unwrap();
            xz::decompress_in_sandbox(
                &worker,
                &isolation,
                (&input, file),
                (&output, &tar),
                &Limits::kernel(),
                &Silent,
            )
            .unwrap()
        });
        let verified = run.step("verify", || {
            signature::verify(
                output,
                &tar,
                &inputs.signature,
                &inputs.keyring,
                &inputs.version,
                &Silent,
            )
            .unwrap()
        });
        let dest = inputs.dir.join("kiln");
        run.step("unpack", || {
            unpack::unpack(&verified, &dest, Select::All, &worker, &isolation, &Silent).unwrap()
        });
        is_done.store(true, Ordering::Relaxed);
        files::remove_dir_all(&dest).unwrap();
        files::remove_file(&tar).unwrap();
    });
    run.memory = peak.into_inner();
    run
}

/// The largest peak of a running worker, in bytes.
fn worker_memory() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let line = std::fs::read(path.join("cmdline")).ok()?;
            line.starts_with(b"/kiln/kiln\0worker").then_some(())?;
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let peak = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        })
        .max()
        .unwrap_or(0)
        * 1024
}
