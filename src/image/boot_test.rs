//! Booting the kernel out of a finished image package, and asking it what it is.
//!
//! Everything before judged files; here the bytes that would be published run. The guest has the
//! kernel, an initramfs with busybox and a few of the package's own modules, no disk, no network.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::dotconfig::DotConfig;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::image::boot_report::{BootFailure, Expected, Report, judge};
use crate::image::initramfs::{ArchiveError, Initramfs};
use crate::kernel::Release;
use crate::qemu::{Accel, Finished, Guest, GuestError};

/// What runs as the first process.
const INIT: &str = include_str!("assets/boot-test-init");

/// The program that the first process is made of: Debian's `busybox-static`.
const BUSYBOX: &str = "/bin/busybox";

/// Names of the guest's files.
const KERNEL: &str = "vmlinuz";
const INITRD: &str = "initramfs";

/// Largest kernel image or module that is taken out of a package.
const FILE_LIMIT: u64 = 256 << 20;

/// How many modules are tried.
const MODULES: usize = 4;

/// Where modules that need no device stand, in the order they are tried.
const MODULE_PLACES: [&str; 8] = [
    "kernel/fs/",
    "kernel/lib/",
    "kernel/crypto/",
    "kernel/net/",
    "kernel/drivers/char/",
    "kernel/drivers/net/",
    "kernel/drivers/",
    "kernel/arch/",
];

/// Why a boot test did not end well.
#[derive(Debug, thiserror::Error)]
pub enum BootTestError {
    /// The kernel is not as promised.
    #[error("{failure}\n  console: {console}")]
    Failed {
        /// What is wrong.
        #[source]
        failure: Box<BootFailure>,
        /// All that the guest printed.
        console: Utf8PathBuf,
    },
    /// The guest could not be run.
    #[error("the boot test could not be run")]
    Guest(#[from] GuestError),
    /// A file could not be read or written.
    #[error("the boot test could not be prepared")]
    File(#[from] FileError),
    /// The files of the image package cannot be read.
    #[error("the files of the image package cannot be read")]
    Archive(#[source] io::Error),
    /// The initramfs cannot be made.
    #[error("the initramfs of the boot test cannot be made")]
    Initramfs(#[from] ArchiveError),
    /// The host has no busybox that runs alone.
    #[error("`{BUSYBOX}` {0}: the guest has no libraries, so it needs a static one")]
    Busybox(&'static str),
    /// The package has no kernel.
    #[error("the image package has no /boot/vmlinuz-*")]
    NoKernel,
}

impl Diagnose for BootTestError {
    fn exit(&self) -> Exit {
        match self {
            Self::Failed { .. } | Self::NoKernel | Self::Archive(_) => Exit::BootTest,
            Self::Guest(source) => source.exit(),
            Self::File(source) => source.exit(),
            Self::Initramfs(_) => Exit::Unexpected,
            Self::Busybox(_) => Exit::MissingTools,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Failed { failure, .. } => failure.code(),
            Self::Guest(source) => source.code(),
            Self::File(source) => source.code(),
            Self::Archive(_) => "package-unreadable",
            Self::Initramfs(_) => "initramfs",
            Self::Busybox(_) => "tool-missing",
            Self::NoKernel => "package-no-kernel",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Guest(source) => source.hints(),
            Self::Busybox(_) => vec!["run `apt-get install busybox-static`".to_owned()],
            Self::Failed { failure, .. } => match failure.as_ref() {
                BootFailure::NoConfig => vec![
                    "set CONFIG_IKCONFIG=y and CONFIG_IKCONFIG_PROC=y in a fragment".to_owned(),
                ],
                BootFailure::Died(_) => vec![
                    "set CONFIG_SERIAL_8250_CONSOLE=y, CONFIG_BLK_DEV_INITRD=y and \
                     CONFIG_BINFMT_SCRIPT=y in a fragment: the test needs a serial console and an \
                     initramfs"
                        .to_owned(),
                ],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// How to run a boot test.
#[derive(Debug, Clone)]
pub struct Options {
    /// What runs the guest.
    pub accel: Accel,
    /// The longest it may run.
    pub deadline: Duration,
    /// Words for the kernel's command line, after the test's own.
    pub append: String,
}

impl Options {
    /// The usual ones. Under the translator a kernel needs 5 to 20 s on a quiet machine, so five
    /// minutes are a hang.
    pub fn new(accel: Accel) -> Self {
        Self {
            accel,
            deadline: Duration::from_mins(5),
            append: String::new(),
        }
    }
}

/// A kernel that booted as promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booted {
    /// What ran the guest.
    pub accel: Accel,
    /// What it said.
    pub report: Report,
    /// Lines of the console that warn of something without being a failure.
    pub warnings: Vec<String>,
    /// What happened when, from the start of the guest.
    pub timeline: Vec<(&'static str, Duration)>,
    /// All that it printed.
    pub console: Utf8PathBuf,
}

/// Texts of the console that mark a step, with the step's name.
const STEPS: [(&str, &str); 3] = [
    ("Linux version ", "kernel started"),
    ("Run /init as init process", "init started"),
    ("kiln boot test: end", "report complete"),
];

/// The longest that a guest may run under KVM before TCG has its turn. Where KVM runs kernels, this
/// one is up in seconds; where it does not, the guest hangs without a word.
const KVM_DEADLINE: Duration = Duration::from_mins(1);

/// Boots the kernel of an image package whose files are `archive` (see
/// `CheckedPackages::image_files`), keeping logs and the initramfs in `dir`.
///
/// A guest that hangs or dies under KVM is run once more under TCG, since a host's KVM may be what
/// is broken; that verdict counts, and a warning says so.
pub fn boot(
    archive: &mut File,
    release: &Release,
    config: &DotConfig,
    options: &Options,
    dir: &Utf8Path,
) -> Result<Booted, BootTestError> {
    files::create_dir_all(dir)?;
    let subject = Subject::take(archive)?;
    files::write(&dir.join(KERNEL), &subject.kernel)?;
    let initrd = initramfs(&subject.modules, busybox()?)?;
    files::write(&dir.join(INITRD), &initrd)?;
    let expected = Expected { release, config };
    match run(options, options.accel, expected, dir) {
        Err(BootTestError::Failed { failure, .. })
            if options.accel == Accel::Kvm && failure.may_be_the_hosts() =>
        {
            let mut booted = run(options, Accel::Tcg, expected, dir)?;
            booted.warnings.insert(
                0,
                format!(
                    "under KVM the same guest failed ({failure}); this is the result under TCG"
                ),
            );
            Ok(booted)
        }
        other => other,
    }
}

fn limit(accel: Accel, longest: Duration) -> Duration {
    match accel {
        Accel::Kvm => longest.min(KVM_DEADLINE),
        Accel::Tcg => longest,
    }
}

/// Runs the guest whose files stand in `dir`, and judges it.
fn run(
    options: &Options,
    accel: Accel,
    expected: Expected<'_>,
    dir: &Utf8Path,
) -> Result<Booted, BootTestError> {
    let console = dir.join("console.log");
    let told = dir.join("report.log");
    let mut guest = Guest::new(accel, &console);
    guest.serial.push(told.clone());
    guest.kernel = Some(dir.join(KERNEL));
    guest.initrd = Some(dir.join(INITRD));
    guest.deadline = limit(accel, options.deadline);
    // `panic=-1` resets at once, and a reset ends the guest: a panic costs no waiting.
    guest.append = format!(
        "console=ttyS0,115200 rdinit=/init panic=-1 oops=panic {}",
        options.append
    );
    let finished = guest.run(&dir.join("qemu.log"))?;
    let text = String::from_utf8_lossy(&files::read(&told, 64 << 20)?).into_owned();
    let report = Report::parse(&text);
    if let Err(failure) = judge(&finished, &report, expected) {
        return Err(BootTestError::Failed {
            failure: Box::new(failure),
            console,
        });
    }
    Ok(Booted {
        accel,
        report,
        warnings: warnings(&finished),
        timeline: timeline(&finished),
        console,
    })
}

fn warnings(finished: &Finished) -> Vec<String> {
    let marks = ["WARNING: ", "INFO: task ", "rcu: INFO: "];
    let warns = |text: &str| marks.iter().any(|mark| text.contains(mark));
    let lines = finished.console.iter().filter(|line| warns(&line.text));
    lines.map(|line| line.text.clone()).collect()
}

fn timeline(finished: &Finished) -> Vec<(&'static str, Duration)> {
    let mut steps: Vec<_> = STEPS
        .iter()
        .filter_map(|(mark, step)| Some((*step, finished.first(mark)?)))
        .collect();
    steps.push(("powered off", finished.elapsed));
    steps
}

/// What is taken out of an image package.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    kernel: Vec<u8>,
    /// File names and contents, in the order to load them.
    modules: Vec<(String, Vec<u8>)>,
}

impl Subject {
    /// Two passes: the list of dependencies decides which modules are taken.
    fn take(archive: &mut File) -> Result<Self, BootTestError> {
        let mut kernel = None;
        let mut dependencies = String::new();
        each(archive, |path, entry| {
            if path.starts_with("boot/vmlinuz-") {
                let mut bytes = Vec::new();
                entry.take(FILE_LIMIT).read_to_end(&mut bytes)?;
                kernel = Some(bytes);
            } else if module_path(path) == Some("modules.dep") {
                entry.take(FILE_LIMIT).read_to_string(&mut dependencies)?;
            }
            Ok(())
        })?;
        let chosen = choose(&dependencies);
        let mut found: Vec<(usize, String, Vec<u8>)> = Vec::new();
        each(archive, |path, entry| {
            let place = module_path(path).and_then(|path| chosen.iter().position(|c| c == path));
            if let Some(place) = place {
                let mut bytes = Vec::new();
                entry.take(FILE_LIMIT).read_to_end(&mut bytes)?;
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                found.push((place, name, bytes));
            }
            Ok(())
        })?;
        found.sort();
        Ok(Self {
            kernel: kernel.ok_or(BootTestError::NoKernel)?,
            modules: found
                .into_iter()
                .map(|(_, name, bytes)| (name, bytes))
                .collect(),
        })
    }
}

/// Calls `visit` with the path, without a leading `./`, and content of every entry.
fn each(
    archive: &mut File,
    mut visit: impl FnMut(&str, &mut tar::Entry<'_, &mut File>) -> io::Result<()>,
) -> Result<(), BootTestError> {
    archive.rewind().map_err(BootTestError::Archive)?;
    let mut archive = tar::Archive::new(archive);
    let mut all = || {
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            visit(path.trim_start_matches("./"), &mut entry)?;
        }
        Ok(())
    };
    all().map_err(BootTestError::Archive)
}

/// The path of a file below `/lib/modules/RELEASE/`.
fn module_path(path: &str) -> Option<&str> {
    let below = path
        .trim_start_matches("usr/")
        .strip_prefix("lib/modules/")?;
    Some(below.split_once('/')?.1)
}

/// The modules to try: uncompressed, with no dependencies, and not made to test the kernel (those
/// end with an error on purpose).
fn choose(dependencies: &str) -> Vec<String> {
    let rank = |path: &str| {
        MODULE_PLACES
            .iter()
            .position(|place| path.starts_with(place))
    };
    let mut candidates: Vec<(usize, &str)> = dependencies
        .lines()
        .filter_map(|line| line.strip_suffix(':'))
        .filter(|path| Utf8Path::new(path).extension() == Some("ko"))
        .filter(|path| !["test", "bench"].iter().any(|word| path.contains(word)))
        .filter_map(|path| Some((rank(path)?, path)))
        .collect();
    candidates.sort_unstable();
    candidates
        .into_iter()
        .take(MODULES)
        .map(|(_, path)| path.to_owned())
        .collect()
}

/// The host's busybox.
fn busybox() -> Result<Vec<u8>, BootTestError> {
    let bytes = match files::read(Utf8Path::new(BUSYBOX), 32 << 20) {
        Ok(bytes) => bytes,
        Err(error) if error.exit() == Exit::Usage => {
            return Err(BootTestError::Busybox("is not installed"));
        }
        Err(error) => return Err(error.into()),
    };
    if is_static(&bytes) {
        Ok(bytes)
    } else {
        Err(BootTestError::Busybox("is linked dynamically"))
    }
}

/// Whether a 64-bit ELF program asks for no interpreter (`PT_INTERP`, ELF specification figure 2-2).
fn is_static(bytes: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, size: usize| {
        let bytes = bytes.get(at..at.checked_add(size)?)?;
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        usize::try_from(bytes.iter().rev().fold(0, fold)).ok()
    };
    let kinds = || {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count)
            .map(|index| number(start.checked_add(index * size)?, 4))
            .collect::<Option<Vec<_>>>()
    };
    bytes.starts_with(b"\x7fELF\x02\x01")
        && kinds().is_some_and(|kinds| !kinds.contains(&(PT_INTERP as usize)))
}

/// The first file system of the guest.
fn initramfs(modules: &[(String, Vec<u8>)], busybox: Vec<u8>) -> Result<Vec<u8>, ArchiveError> {
    let mut archive = Initramfs::new();
    archive.file("init", 0o755, INIT.as_bytes().to_vec())?;
    archive.file("bin/busybox", 0o755, busybox)?;
    // Numbers: Documentation/admin-guide/devices.txt. The kernel opens the console before init runs
    // and mounts devtmpfs nowhere by itself in an initramfs.
    archive.character("dev/console", 5, 1)?;
    archive.character("dev/null", 1, 3)?;
    archive.character("dev/ttyS1", 4, 65)?;
    let mut order = String::new();
    for (name, bytes) in modules {
        archive.file(&format!("modules/{name}"), 0o644, bytes.clone())?;
        order.push_str(name);
        order.push('\n');
    }
    archive.file("modules/order", 0o644, order.into_bytes())?;
    Ok(archive.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_under_kvm_does_not_cost_the_whole_time() {
        let (short, long) = (Duration::from_secs(10), Duration::from_mins(5));
        assert_eq!(limit(Accel::Kvm, long), KVM_DEADLINE);
        assert_eq!(limit(Accel::Kvm, short), short);
        assert_eq!(limit(Accel::Tcg, long), long);
    }

    #[test]
    fn modules_without_dependencies_and_devices_come_first() {
        let chosen = choose(
            "kernel/drivers/net/virtio_net.ko: kernel/drivers/net/failover.ko\n\
             kernel/drivers/net/dummy.ko:\n\
             kernel/lib/test_bpf.ko:\n\
             kernel/lib/crc7.ko:\n\
             kernel/fs/fat/fat.ko:\n\
             kernel/fs/fat/vfat.ko: kernel/fs/fat/fat.ko\n\
             kernel/fs/xfs/xfs.ko.xz:\n\
             kernel/sound/soundcore.ko:\n\
             kernel/drivers/watchdog/i6300esb.ko:\n",
        );
        assert_eq!(
            chosen,
            [
                "kernel/fs/fat/fat.ko",
                "kernel/lib/crc7.ko",
                "kernel/drivers/net/dummy.ko",
                "kernel/drivers/watchdog/i6300esb.ko",
            ]
        );
        assert_eq!(choose(""), Vec::<String>::new());
    }

    #[test]
    fn both_places_of_modules_are_known() {
        for path in [
            "lib/modules/6.18/kernel/a.ko",
            "usr/lib/modules/6.18/kernel/a.ko",
        ] {
            assert_eq!(module_path(path), Some("kernel/a.ko"));
        }
        assert_eq!(module_path("boot/vmlinuz-6.18"), None);
    }

    #[test]
    fn kernel_and_modules_are_taken_out_of_a_package() {
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        for (path, bytes) in [
            ("./boot/vmlinuz-1", "kernel"),
            ("./lib/modules/1/kernel/lib/b.ko", "b"),
            ("./lib/modules/1/kernel/fs/a.ko", "a"),
            (
                "./lib/modules/1/modules.dep",
                "kernel/lib/b.ko:\nkernel/fs/a.ko:\n",
            ),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            builder
                .append_data(&mut header, path, bytes.as_bytes())
                .unwrap();
        }
        let mut archive = builder.into_inner().unwrap();
        let subject = Subject::take(&mut archive).unwrap();
        assert_eq!(subject.kernel, b"kernel");
        let names: Vec<&str> = subject
            .modules
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["a.ko", "b.ko"]);
    }

    #[test]
    fn a_package_without_a_kernel_is_told() {
        let mut archive = tar::Builder::new(tempfile::tempfile().unwrap())
            .into_inner()
            .unwrap();
        assert!(matches!(
            Subject::take(&mut archive),
            Err(BootTestError::NoKernel)
        ));
    }

    #[test]
    fn a_dynamic_program_is_not_static() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own));
        assert!(!is_static(b"#!/bin/sh"));
        assert!(!is_static(b"\x7fELF\x02\x01"));
    }

    #[test]
    fn the_initramfs_depends_on_its_contents_alone() {
        let modules = [("a.ko".to_owned(), b"a".to_vec())];
        let bytes = initramfs(&modules, b"busybox".to_vec()).unwrap();
        assert_eq!(bytes, initramfs(&modules, b"busybox".to_vec()).unwrap());
        assert!(bytes.windows(5).any(|window| window == b"a.ko\n"));
    }
}
