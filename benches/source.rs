//! A kernel's source from a mirror to a verified tree: the script way and kiln, side by side on
//! this machine, on a file of one xz block and on one of many. The aim is 0.6 of the script's wall
//! time or less, and less than 200 MB of memory.
//!
//! ```text
//! cargo bench --profile dev --bench source           the source of Debian's linux-source-6.12
//! cargo bench --profile dev --bench source -- DIR    keeps the prepared files in DIR for the next time
//! ```
//!
//! The script: `curl -o F`, then `xz -cd F | gpgv --keyring K S -`, then `tar -xf F`. Script, kiln,
//! kiln, script: a machine that grows slower meanwhile favours neither. The mirror is on the
//! loopback interface of this machine, so what it costs to serve is in both. Nothing is removed
//! until the end, and for five minutes after it a second run says nothing: ext4 searches long for
//! an inode that was not freed recently.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    reason = "a bench stops by panicking and prints its numbers"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::files;
use kiln::kernel::Version;
use kiln::progress::{Event, Progress, Silent};
use kiln::sandbox::{Isolation, Worker};
use kiln::source::debian::Debian;
use kiln::source::kernel_org::{KernelOrg, archive_path, signature_path};
use kiln::source::keyring::Keyring;
use kiln::source::mirror::{Location, Mirrors};
use kiln::source::unpack::{self, Select};
use kiln::store::Store;

use mirror::{Content, Mirror};

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/keys.rs"]
mod keys;

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/mirror.rs"]
mod mirror;

/// Debian's package of the source.
const PACKAGE: &str = "linux-source-6.12";

fn main() {
    let scratch = tempfile::tempdir().unwrap();
    // `cargo bench` passes --bench.
    let named = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let dir = named.map_or_else(
        || Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap(),
        Utf8PathBuf::from,
    );
    let Some(inputs) = Inputs::prepare(&dir) else {
        println!("not run: apt cannot serve {PACKAGE}");
        return;
    };
    println!("Linux {}, {} bytes as tar", inputs.version, inputs.bytes);
    let work = tempfile::tempdir_in(&inputs.dir).unwrap();
    let place = |name: &str| {
        // What the run before left to be written is not this one's doing.
        rustix::fs::sync();
        Utf8PathBuf::from_path_buf(work.path().join(name)).unwrap()
    };
    for (what, file) in [("one block", &inputs.one), ("many blocks", &inputs.many)] {
        let script_1 = script(&inputs, file, &place(&format!("script 1 {what}")));
        let kiln_1 = with_kiln(&inputs, file, &place(&format!("kiln 1 {what}")));
        let kiln_2 = with_kiln(&inputs, file, &place(&format!("kiln 2 {what}")));
        let script_2 = script(&inputs, file, &place(&format!("script 2 {what}")));
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
            "  ratio   {:.2} of the script's wall time; peak memory {} MB in a worker, {} MB in kiln \
             itself",
            kiln.as_secs_f64() / script.as_secs_f64(),
            kiln_1.memory.max(kiln_2.memory) / 1_000_000,
            peak_memory("/proc/self") / 1_000_000,
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
            repack(dir, &tar)?;
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
fn repack(dir: &Utf8Path, tar: &Utf8Path) -> Option<()> {
    println!("repacking {PACKAGE} (once)");
    let store = Store::open(&dir.join("debian")).unwrap();
    let debian = Debian {
        store: &store,
        worker: &worker(),
        isolation: &Isolation::probe().unwrap(),
        progress: &Silent,
    };
    let source = match debian.source(PACKAGE, None) {
        Ok(source) => source.tarball,
        Err(error) => {
            println!("{error}");
            return None;
        }
    };
    let (version, from) = (source.version().to_string(), source.path().to_owned());
    files::write(&dir.join("version"), version.as_bytes()).unwrap();
    sh(
        dir,
        &format!(
            "rm -rf x && mkdir x && tar -C x -xf {from} && mv x/linux-source-* x/linux-{version} && \
             tar --sort=name --owner=0 --group=0 --numeric-owner -C x -cf {tar} linux-{version} && \
             rm -rf x debian"
        ),
    );
    Some(())
}

fn worker() -> Worker {
    Worker {
        program: env!("CARGO_BIN_EXE_kiln").into(),
    }
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
    /// What the steps consist of, as far as is known.
    parts: Vec<String>,
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
        let parts = if self.parts.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.parts.join(", "))
        };
        format!(
            "{:6.1} s wall = {}{parts}",
            self.total().as_secs_f64(),
            steps.join(" + "),
        )
    }
}

/// A mirror that serves `file` as the release's archive.
fn serve(inputs: &Inputs, file: &Utf8Path) -> Mirror {
    let mirror = Mirror::start().unwrap();
    let signature = Content::bytes(inputs.signature.clone());
    mirror.put(&archive_path(&inputs.version), Content::file(file).unwrap());
    mirror.put(&signature_path(&inputs.version), signature);
    mirror
}

fn script(inputs: &Inputs, file: &Utf8Path, dir: &Utf8Path) -> Run {
    let mirror = serve(inputs, file);
    let mut run = Run::default();
    files::create_dir_all(dir).unwrap();
    let keyring = inputs.dir.join("keyring.gpg");
    let fetch = format!(
        "curl -sSf -o f.tar.xz {0}{1} -o f.sign {0}{2}",
        mirror.url(),
        archive_path(&inputs.version),
        signature_path(&inputs.version)
    );
    run.step("fetch", || sh(dir, &fetch));
    let verify = format!("xz -cd f.tar.xz | gpgv -q --keyring {keyring} f.sign -");
    run.step("verify", || sh(dir, &verify));
    run.step("unpack", || sh(dir, "tar -xf f.tar.xz"));
    run
}

/// When each kind of work was first and last reported.
#[derive(Default)]
struct Clock(Mutex<BTreeMap<String, (Instant, Instant)>>);

impl Progress for Clock {
    fn event(&self, event: &Event) {
        if let Event::Bytes { what, .. } = event {
            let now = Instant::now();
            let mut seen = self.0.lock().unwrap();
            seen.entry(what.clone()).or_insert((now, now)).1 = now;
        }
    }
}

fn with_kiln(inputs: &Inputs, file: &Utf8Path, dir: &Utf8Path) -> Run {
    let mirror = serve(inputs, file);
    let here = Location::parse(&mirror.url(), &inputs.dir).unwrap();
    let mirrors = Mirrors::new(vec![here.clone()], Vec::new(), here);
    let worker = worker();
    let isolation = Isolation::probe().unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    let clock = Clock::default();
    let kernel_org = KernelOrg {
        mirrors: &mirrors,
        release_keys: &inputs.keyring,
        checksum_keys: None,
        store: &store,
        worker: &worker,
        isolation: &isolation,
        progress: &clock,
    };
    let mut run = Run::default();
    let (peak, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                peak.fetch_max(worker_memory(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let acquired = run.step("acquire", || {
            kernel_org.acquire(&inputs.version, None).unwrap()
        });
        let tree = dir.join("tree");
        run.step("unpack", || {
            let all = Select::All;
            unpack::unpack(&acquired.tarball, &tree, all, &worker, &isolation, &Silent).unwrap()
        });
        is_done.store(true, Ordering::Relaxed);
    });
    run.parts = clock
        .0
        .into_inner()
        .unwrap()
        .into_iter()
        .map(|(what, (first, last))| format!("{what} {:.1}", (last - first).as_secs_f64()))
        .collect();
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
            Some(peak_memory(path.to_str()?))
        })
        .max()
        .unwrap_or(0)
}

/// The peak of a process' resident memory so far, in bytes.
fn peak_memory(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
