//! Guests under QEMU: a kernel, its serial ports as files, a deadline.
//!
//! A guest has no network, no default devices and no reboot: it runs until it powers off, resets
//! (which ends it) or the deadline comes. What it prints on its first serial port is kept with the
//! time each line appeared.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::clock;
use crate::command::{Cmd, CommandError, Tool};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::interrupt::Interrupted;

/// The emulator that runs guests.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Longest that the KVM probe may take; it needs a tenth of a second where KVM works.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// Most lines of a console that get a time. A guest in a loop of errors must not fill the memory.
const TIMED_LINES: usize = 100_000;

/// Why a guest could not be run. That a guest does not end is no error here: see [`End`].
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// QEMU is missing, did not start or ended badly.
    #[error("failed to run a guest")]
    Command(#[from] CommandError),
    /// A file of the guest could not be read or written.
    #[error("failed to prepare a guest")]
    File(#[from] FileError),
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for GuestError {
    fn exit(&self) -> Exit {
        match self {
            Self::Command(source) => source.exit(),
            Self::File(source) => source.exit(),
            Self::Interrupted(source) => source.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Command(source) => source.code(),
            Self::File(source) => source.code(),
            Self::Interrupted(source) => source.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Command(source) => source.hints(),
            Self::File(source) => source.hints(),
            Self::Interrupted(source) => source.hints(),
        }
    }
}

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// The host's processor.
    Kvm,
    /// QEMU's translator: slow, and available everywhere.
    Tcg,
}

impl Accel {
    /// QEMU's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Which accelerator to use, and why not the faster one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The accelerator.
    pub accel: Accel,
    /// Why KVM is not used, for the run's record.
    pub reason: Option<String>,
}

/// The processor's model: all that the accelerator can do. Under TCG that includes SMT and a
/// last-level cache for each die, which the AMD models lack there (no topoext).
pub const CPU: &str = "max";

/// Chooses an accelerator by running a guest of six instructions, on the machine and processor that
/// guests get: a `/dev/kvm` may exist and refuse to open, or open and never run anything, or,
/// where KVM is nested, run the oldest processor model and abort on `max`.
///
/// It is no proof: a model may run these instructions and hang in the first ones of a kernel. So a guest that hangs under KVM is worth a second try under TCG.
pub fn probe() -> Result<Probe, GuestError> {
    let tcg = |reason: &str| Probe {
        accel: Accel::Tcg,
        reason: Some(reason.to_owned()),
    };
    let kvm = Utf8Path::new("/dev/kvm");
    if !kvm.exists() {
        return Ok(tcg("this host has no /dev/kvm"));
    }
    let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if rustix::fs::access(kvm.as_std_path(), access).is_err() {
        return Ok(tcg("/dev/kvm is not open to this user"));
    }
    match works(Accel::Kvm) {
        Ok(true) => Ok(Probe {
            accel: Accel::Kvm,
            reason: None,
        }),
        Ok(false) => Ok(tcg("a guest under KVM did not do its work")),
        Err(GuestError::Command(CommandError::Deadline { .. })) => {
            Ok(tcg("a guest under KVM did not end in time"))
        }
        Err(GuestError::Command(CommandError::Failed { .. })) => {
            Ok(tcg("QEMU could not start a guest under KVM"))
        }
        Err(error) => Err(error),
    }
}

/// Runs the probe's guest: firmware whose reset vector counts down from 65535, then writes to the
/// debug-exit port. Whether it came that far.
///
/// # Errors
/// Where QEMU is missing or does not end in time.
pub fn works(accel: Accel) -> Result<bool, GuestError> {
    /// 16 doubled, with the lowest bit set: how the device turns a value into an exit code.
    const EXIT_CODE: i32 = 33;
    /// xor cx,cx; dec cx; jnz -3; mov al,16; out 0xf4,al; hlt.
    const CODE: [u8; 10] = [0x31, 0xc9, 0x49, 0x75, 0xfd, 0xb0, 0x10, 0xe6, 0xf4, 0xf4];
    /// Where a processor starts, as an offset in a firmware of 64 KiB.
    const RESET: usize = 0xfff0;

    let mut firmware = vec![0xf4; 0x1_0000];
    firmware[RESET..RESET + CODE.len()].copy_from_slice(&CODE);
    let directory = tempfile::tempdir().map_err(|source| FileError::Io {
        action: "create",
        path: "a temporary directory".into(),
        source,
    })?;
    let path = Utf8PathBuf::from(directory.path().to_string_lossy().into_owned()).join("firmware");
    files::write(&path, &firmware)?;
    let code = Cmd::new(&Tool::find(PROGRAM)?)
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-machine", &format!("q35,accel={}", accel.as_str())])
        .args(["-cpu", CPU, "-m", "16", "-bios", path.as_str()])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
        .deadline(PROBE_DEADLINE)
        .status()?;
    Ok(code == EXIT_CODE)
}

/// How the processors of a guest are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Smp {
    /// Dies of the one socket; each has its own last-level cache.
    pub dies: u32,
    /// Cores of a die.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
}

impl Smp {
    /// One processor.
    pub const ONE: Self = Self {
        dies: 1,
        cores: 1,
        threads: 1,
    };

    /// Processors in all.
    pub const fn processors(self) -> u32 {
        self.dies * self.cores * self.threads
    }
}

/// A disk of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// The image, in raw format.
    pub path: Utf8PathBuf,
    /// Whether the guest may not write to it.
    pub read_only: bool,
}

/// A guest as a value: what it is made of.
#[derive(Debug, Clone)]
pub struct Guest {
    /// What runs it.
    pub accel: Accel,
    /// The processor's model; [`CPU`] unless there is a reason.
    pub cpu: String,
    /// Its processors.
    pub smp: Smp,
    /// Its memory, in MiB.
    pub memory_mib: u32,
    /// The kernel to start, without firmware.
    pub kernel: Option<Utf8PathBuf>,
    /// The initial file system.
    pub initrd: Option<Utf8PathBuf>,
    /// The kernel's command line.
    pub append: String,
    /// Firmware other than QEMU's own.
    pub firmware: Option<Utf8PathBuf>,
    /// Its disks, `/dev/vda` first.
    pub drives: Vec<Drive>,
    /// Where its serial ports write, `ttyS0` first; each file is replaced. At least one.
    pub serial: Vec<Utf8PathBuf>,
    /// More arguments for QEMU, such as devices.
    pub extra: Vec<String>,
    /// The longest it may run.
    pub deadline: Duration,
}

impl Guest {
    /// A guest that prints to `console` and has one processor, 512 MiB and five minutes.
    pub fn new(accel: Accel, console: impl Into<Utf8PathBuf>) -> Self {
        Self {
            accel,
            cpu: CPU.to_owned(),
            smp: Smp::ONE,
            memory_mib: 512,
            kernel: None,
            initrd: None,
            append: String::new(),
            firmware: None,
            drives: Vec::new(),
            serial: vec![console.into()],
            extra: Vec::new(),
            deadline: Duration::from_mins(5),
        }
    }

    /// Runs it until it powers off, resets or the deadline comes. QEMU's own words go to `log`.
    pub fn run(&self, log: &Utf8Path) -> Result<Finished, GuestError> {
        let qemu = Tool::find(PROGRAM)?;
        for path in &self.serial {
            // Whole and empty before the start, so that an old console is never taken for a new one.
            files::write(path, b"")?;
        }
        let started = clock::monotonic();
        let stop = AtomicBool::new(false);
        let (ran, console) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| follow(self.serial.first(), started, &stop));
            let ran = Cmd::new(&qemu)
                .args(self.args())
                .log(log)
                .deadline(self.deadline)
                .run();
            stop.store(true, Ordering::Release);
            // The reader only reads and counts; if it could panic, so could this thread.
            let console = reader.join().unwrap_or_default();
            (ran, console)
        });
        let end = match ran {
            Ok(_elapsed) => End::Off,
            Err(CommandError::Deadline { limit, .. }) => End::Deadline(limit),
            Err(CommandError::Interrupted(interrupted)) => return Err(interrupted.into()),
            Err(error) => return Err(error.into()),
        };
        Ok(Finished {
            end,
            elapsed: started.elapsed(),
            console,
        })
    }

    /// QEMU's arguments.
    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-nodefaults", "-no-user-config", "-display", "none"]);
        // A panic with `panic=-1` resets: it ends the guest instead of starting it again.
        add(&["-no-reboot", "-nic", "none", "-monitor", "none"]);
        add(&["-machine", &format!("q35,accel={}", self.accel.as_str())]);
        add(&["-cpu", &self.cpu]);
        let Smp {
            dies,
            cores,
            threads,
        } = self.smp;
        let all = self.smp.processors();
        add(&[
            "-smp",
            &format!("{all},sockets=1,dies={dies},cores={cores},threads={threads}"),
        ]);
        add(&["-m", &format!("{}M", self.memory_mib)]);
        if let Some(firmware) = &self.firmware {
            add(&["-bios", firmware.as_str()]);
        }
        if let Some(kernel) = &self.kernel {
            add(&["-kernel", kernel.as_str(), "-append", &self.append]);
        }
        if let Some(initrd) = &self.initrd {
            add(&["-initrd", initrd.as_str()]);
        }
        for (index, path) in self.serial.iter().enumerate() {
            let path = escape(path);
            add(&["-chardev", &format!("file,id=serial{index},path={path}")]);
            add(&[
                "-device",
                &format!("isa-serial,chardev=serial{index},index={index}"),
            ]);
        }
        for (index, drive) in self.drives.iter().enumerate() {
            let (path, read_only) = (
                escape(&drive.path),
                if drive.read_only { "on" } else { "off" },
            );
            add(&[
                "-drive",
                &format!("if=none,id=disk{index},format=raw,readonly={read_only},file={path}"),
                "-device",
                &format!("virtio-blk-pci,drive=disk{index}"),
            ]);
        }
        args.extend(self.extra.iter().cloned());
        args
    }
}

/// A comma in a value is doubled, or QEMU reads what follows as another option.
fn escape(path: &Utf8Path) -> String {
    path.as_str().replace(',', ",,")
}

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It powered off or reset.
    Off,
    /// It still ran when its time was up, and was stopped.
    Deadline(Duration),
}

/// A guest that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// How long it ran.
    pub elapsed: Duration,
    /// What it printed on its first serial port.
    pub console: Vec<ConsoleLine>,
}

impl Finished {
    /// When a text was first printed.
    pub fn first(&self, text: &str) -> Option<Duration> {
        let line = self.console.iter().find(|line| line.text.contains(text))?;
        Some(line.at)
    }
}

/// A line of a console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleLine {
    /// When it was complete, from the start of the guest; 20 ms coarse.
    pub at: Duration,
    /// Its text, without line end.
    pub text: String,
}

/// Reads a growing console until told to stop, then what is left of it.
fn follow(path: Option<&Utf8PathBuf>, started: Instant, stop: &AtomicBool) -> Vec<ConsoleLine> {
    let mut lines = Lines::default();
    let Some(Ok(mut file)) = path.map(|path| files::open(path)) else {
        return Vec::new();
    };
    let mut piece = Vec::new();
    loop {
        // Looked at before reading: what is written before the stop is then read after it.
        let last = stop.load(Ordering::Acquire);
        piece.clear();
        // A failed read is tried again; the whole console stays on disk whatever happens here.
        let _read = file.read_to_end(&mut piece);
        lines.feed(&piece, started.elapsed());
        if last {
            return lines.finish(started.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Cuts a growing text into lines with times.
#[derive(Debug, Default)]
struct Lines {
    done: Vec<ConsoleLine>,
    rest: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], at: Duration) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(at),
                _ => self.rest.push(*byte),
            }
        }
    }

    fn end_line(&mut self, at: Duration) {
        if self.done.len() < TIMED_LINES {
            let text = String::from_utf8_lossy(&self.rest);
            self.done.push(ConsoleLine {
                at,
                text: text.trim_end_matches('\r').to_owned(),
            });
        }
        self.rest.clear();
    }

    fn finish(mut self, at: Duration) -> Vec<ConsoleLine> {
        if !self.rest.is_empty() {
            self.end_line(at);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_the_time_they_were_complete() {
        let at = Duration::from_millis;
        let mut lines = Lines::default();
        lines.feed(b"one\r\ntw", at(1));
        lines.feed(b"o\r\n\r\nla", at(2));
        let text = |at, text: &str| ConsoleLine {
            at,
            text: text.to_owned(),
        };
        assert_eq!(
            lines.finish(at(3)),
            [
                text(at(1), "one"),
                text(at(2), "two"),
                text(at(2), ""),
                text(at(3), "la")
            ]
        );
    }

    #[test]
    fn a_guest_has_no_network_and_ends_on_reset() {
        let mut guest = Guest::new(Accel::Tcg, "/tmp/a,b");
        guest.smp = Smp {
            dies: 2,
            cores: 2,
            threads: 2,
        };
        guest.kernel = Some("/k".into());
        guest.append = "console=ttyS0".to_owned();
        let line = guest.args().join(" ");
        for part in [
            "-nic none",
            "-no-reboot",
            "-smp 8,sockets=1,dies=2,cores=2,threads=2",
            "-machine q35,accel=tcg -cpu max",
            "-kernel /k -append console=ttyS0",
            "path=/tmp/a,,b",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn a_drive_is_writable_only_when_asked() {
        let mut guest = Guest::new(Accel::Tcg, "/tmp/c");
        for read_only in [true, false] {
            guest.drives.push(Drive {
                path: "/d".into(),
                read_only,
            });
        }
        let line = guest.args().join(" ");
        assert!(line.contains("id=disk0,format=raw,readonly=on"), "{line}");
        assert!(line.contains("id=disk1,format=raw,readonly=off"), "{line}");
    }
}
