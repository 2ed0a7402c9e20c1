//! A machine with real GRUB on its disk: firmware, GRUB, the gate's files, and kernels that say on
//! the serial port what they were started with (`stub-kernel.S`), then reset.

use std::cell::Cell;
use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::boot::block::{Block, Slot};
use kiln::boot::state::Told;
use kiln::boot::{block, grub};
use kiln::command::{Cmd, Tool};
use kiln::files;
use kiln::qemu;

use super::case::{Made, made_once};
use super::{Env, Stop, fail, skip};

/// Where the one partition of a disk starts, in bytes.
pub const PARTITION: usize = 1 << 20;
/// The size of a disk, in bytes.
const DISK: usize = 16 << 20;

const MODULES: &[&str] = &[
    "biosdisk",
    "part_msdos",
    "ext2",
    "normal",
    "test",
    "true",
    "loadenv",
    "linux",
    "echo",
    "reboot",
    "serial",
    "terminal",
    "configfile",
    "sleep",
    "minicmd",
    "halt",
    "ls",
];

/// What GRUB runs before `grub.cfg`. The prefix is where Debian's is.
const EARLY: &str = "serial --unit=0\nterminal_input serial\nterminal_output serial\n";

/// What every machine is made of.
pub struct Parts {
    /// Boot sector and GRUB's core, as they lie on a disk.
    bios: Vec<u8>,
    /// The kernel, without its label.
    stub: Vec<u8>,
    /// Keeps nothing on disk once made; held for its directory.
    _env: Env,
}

/// The tool, or the reason why the case cannot run.
fn tool(name: &str) -> Result<Tool, Stop> {
    Tool::find(name).map_err(|error| skip(format!("{error}; `kiln doctor --for test` tells more")))
}

fn file(path: &str) -> Result<Vec<u8>, Stop> {
    files::read(Utf8Path::new(path), 64 << 20)
        .map_err(|error| skip(format!("{error}; `kiln doctor --for test` tells more")))
}

/// The parts; the first caller makes them.
pub fn parts() -> Result<&'static Parts, Stop> {
    static PARTS: Made<Parts> = Made::new();
    made_once(&PARTS, make)
}

fn make() -> Result<Parts, Stop> {
    tool(qemu::PROGRAM)?;
    tool("mke2fs")?;
    let env = Env::new()?;
    let mut sector = file("/usr/lib/grub/i386-pc/boot.img")?;
    let early = env.write("early.cfg", EARLY)?;
    let core = env.path("core.img");
    Cmd::new(&tool("grub-mkimage")?)
        .args(["-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub"])
        .args(["-c", early.as_str(), "-o", core.as_str()])
        .args(MODULES.iter().copied())
        .run()?;
    let core = std::fs::read(core)?;
    assert!(sector.len() == 512 && 512 + core.len() < PARTITION);
    // One active partition of type Linux, to the end of the disk; no others.
    sector[446..510].fill(0);
    sector[446] = 0x80;
    sector[450] = 0x83;
    let sectors = |bytes: usize| u32::try_from(bytes / 512).unwrap().to_le_bytes();
    sector[454..458].copy_from_slice(&sectors(PARTITION));
    sector[458..462].copy_from_slice(&sectors(DISK - PARTITION));
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    Ok(Parts {
        bios: [sector, core].concat(),
        stub: stub(&env)?,
        _env: env,
    })
}

/// Assembles the kernel.
fn stub(env: &Env) -> Result<Vec<u8>, Stop> {
    let source = env.write("stub.S", include_str!("stub-kernel.S"))?;
    let (object, image) = (env.path("stub.o"), env.path("stub.bin"));
    Cmd::new(&tool("as")?)
        .args(["--32", "-o", object.as_str(), source.as_str()])
        .run()?;
    Cmd::new(&tool("ld")?)
        .args(["-m", "elf_i386", "-Ttext", "0", "-e", "0"])
        .args(["--oformat", "binary", "-o", image.as_str(), object.as_str()])
        .run()?;
    Ok(std::fs::read(image)?)
}

/// A kernel that calls itself so.
pub fn kernel(label: &str) -> Result<Vec<u8>, Stop> {
    let mut image = parts()?.stub.clone();
    // Its label is the last thing in it.
    let at = image.len() - 32;
    assert!(image[at..].iter().all(|byte| *byte == 0) && label.len() < 32);
    image[at..at + label.len()].copy_from_slice(label.as_bytes());
    Ok(image)
}

/// The sum that a kernel prints of itself, or of its initrd.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| u32::from(*byte)).sum()
}

/// The files of a disk: path below `/boot/grub`, content.
#[derive(Clone, Default)]
pub struct Files(Vec<(String, Vec<u8>)>, Vec<(String, u64)>);

impl Files {
    /// What `kiln boot init` and a staged trial leave: both slots, the state, its mirror and GRUB's
    /// text; `grub.cfg` as `update-grub` makes it of the gate's snippets alone.
    pub fn node(block: &Block) -> Result<Self, Stop> {
        let mut files = Self::default()
            .with("gate/state.env", block.bytes())
            .with("gate/mirror.env", block::mirror(block.good))
            // Thirty seconds between two starts of a node that has no kernel; one is enough here.
            .with("gate/gate.cfg", grub::GATE.replace("sleep 30", "sleep 1"))
            .with(
                "grub.cfg",
                format!(
                    "{}{}",
                    grub::printed(grub::FIRST),
                    grub::printed(grub::LAST)
                ),
            );
        for slot in Slot::BOTH {
            files = files
                .with(
                    &format!("gate/{slot}/vmlinuz"),
                    kernel(&format!("slot-{slot}"))?,
                )
                .with(&format!("gate/{slot}/initrd.img"), initrd(slot))
                .with(
                    &format!("gate/{slot}/entry.cfg"),
                    grub::entry(slot, "root=/dev/vda1 ro").replace("sleep 30", "sleep 1"),
                );
        }
        Ok(files)
    }

    /// What is on a node, below its `/boot/grub`.
    pub fn below(directory: &Utf8Path) -> Result<Self, Stop> {
        let mut files = Self::default();
        for path in super::tree::listing(directory)? {
            if !path.ends_with('/') {
                let mut content = std::fs::read(directory.join(&path))?;
                if path.ends_with("gate.cfg") || path.ends_with("entry.cfg") {
                    let text = String::from_utf8_lossy(&content).replace("sleep 30", "sleep 1");
                    content = text.into_bytes();
                }
                files = files.with(&path, content);
            }
        }
        Ok(files)
    }

    /// The same with one file more, or another content of it.
    pub fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self = self.without(path);
        self.0.push((path.to_owned(), content.as_ref().to_vec()));
        self
    }

    /// The same without a file, or without all files of a directory.
    pub fn without(mut self, path: &str) -> Self {
        let below = format!("{path}/");
        self.0
            .retain(|(known, _)| known != path && !known.starts_with(&below));
        self
    }

    /// The same with a file of so many zeros, which takes no room on the disk.
    pub fn with_hole(mut self, path: &str, bytes: u64) -> Self {
        self = self.without(path);
        self.1.push((path.to_owned(), bytes));
        self
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> String {
        let found = self.0.iter().find(|(known, _)| known == path);
        found.map_or(String::new(), |(_, bytes)| {
            String::from_utf8_lossy(bytes).into_owned()
        })
    }

    fn write(&self, below: &Utf8Path) -> Result<(), Stop> {
        for (path, content) in &self.0 {
            let path = below.join(path);
            std::fs::create_dir_all(path.parent().unwrap())?;
            std::fs::write(path, content)?;
        }
        for (path, bytes) in &self.1 {
            std::fs::File::create(below.join(path))?.set_len(*bytes)?;
        }
        Ok(())
    }
}

/// The initrd of a slot.
pub fn initrd(slot: Slot) -> Vec<u8> {
    format!("initrd of slot {slot}\n").repeat(500).into_bytes()
}

/// Firmware, and the GRUB that it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Firmware {
    /// `SeaBIOS`; GRUB on ext4, made by `grub-mkimage`.
    Bios,
    /// OVMF; Debian's signed GRUB on FAT.
    Efi,
}

/// Makes a disk with GRUB on it, and an ext4 file system with what is in `content`.
pub fn make_disk(content: &Utf8Path, disk: &Utf8Path) -> Result<(), Stop> {
    let mut bytes = parts()?.bios.clone();
    bytes.resize(DISK, 0);
    std::fs::write(disk, bytes)?;
    Cmd::new(&tool("mke2fs")?)
        .args(["-q", "-F", "-t", "ext4", "-d", content.as_str()])
        .args(["-E", &format!("offset={PARTITION}"), disk.as_str()])
        .arg(format!("{}k", (DISK - PARTITION) / 1024))
        .run()?;
    Ok(())
}

/// A disk with its machine.
pub struct Machine {
    env: Env,
    firmware: Firmware,
    disk: Utf8PathBuf,
    read_only: bool,
    boots: Cell<u32>,
}

/// How a start of the machine went.
#[derive(Debug)]
pub enum Ended {
    /// A kernel was started.
    Started(Started),
    /// GRUB waits at its prompt, for ever.
    Prompt,
    /// The machine was reset, and no kernel was started.
    Reset(String),
}

/// What a kernel said of its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its label.
    pub label: String,
    /// Its command line.
    pub line: String,
}

impl Started {
    /// What GRUB told it.
    pub fn told(&self) -> Result<Told, Stop> {
        Told::read(&self.line).map_err(|error| fail(format!("{error}: {}", self.line)))
    }

    /// That as one line: `b trial counted 1`.
    pub fn as_text(&self) -> Result<String, Stop> {
        let told = self.told()?;
        assert_eq!(self.label, format!("slot-{}", told.slot));
        let Told {
            slot,
            role,
            why,
            left,
            ..
        } = told;
        Ok(format!("{slot} {role} {why} {left}"))
    }
}

impl Ended {
    /// The kernel that was started.
    pub fn started(self) -> Result<Started, Stop> {
        match self {
            Self::Started(started) => Ok(started),
            other => Err(fail(format!("no kernel was started: {other:?}"))),
        }
    }

    /// What was told to the kernel, as one line: `b trial counted 1`.
    pub fn told(self) -> Result<String, Stop> {
        self.started()?.as_text()
    }
}

impl Machine {
    /// With BIOS and an ext4 file system.
    pub fn bios(files: &Files) -> Result<Self, Stop> {
        let env = Env::new()?;
        let disk = env.path("disk.img");
        files.write(&env.path("root/boot/grub"))?;
        make_disk(&env.path("root"), &disk)?;
        Ok(Self::new(env, Firmware::Bios, disk))
    }

    /// With a copy of a disk.
    pub fn of_disk(original: &Utf8Path) -> Result<Self, Stop> {
        let env = Env::new()?;
        let disk = env.path("disk.img");
        std::fs::copy(original, &disk)?;
        Ok(Self::new(env, Firmware::Bios, disk))
    }

    /// Where its disk is.
    pub fn path(&self) -> &Utf8Path {
        &self.disk
    }

    /// With EFI and a FAT file system.
    pub fn efi(files: &Files) -> Result<Self, Stop> {
        let signed = file("/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed")?;
        let variables = file("/usr/share/OVMF/OVMF_VARS_4M.fd")?;
        tool(qemu::PROGRAM)?;
        let (format, copy) = (tool("mformat")?, tool("mcopy")?);
        let env = Env::new()?;
        let disk = env.path("disk.img");
        env.write("variables.fd", variables)?;
        // The prefix of Debian's signed image.
        let config = format!(
            "serial --unit=0\nterminal_input serial\nterminal_output serial\n{}",
            files.text("grub.cfg")
        );
        let files = files.clone().with("grub.cfg", config);
        files.write(&env.path("root/EFI/debian"))?;
        env.write("root/EFI/BOOT/BOOTX64.EFI", signed)?;
        std::fs::File::create(&disk)?.set_len(40 << 20)?;
        Cmd::new(&format)
            .args(["-i", disk.as_str(), "-F", "::"])
            .run()?;
        Cmd::new(&copy)
            .args([
                "-i",
                disk.as_str(),
                "-s",
                env.path("root/EFI").as_str(),
                "::",
            ])
            .run()?;
        Ok(Self::new(env, Firmware::Efi, disk))
    }

    fn new(env: Env, firmware: Firmware, disk: Utf8PathBuf) -> Self {
        Self {
            env,
            firmware,
            disk,
            read_only: false,
            boots: Cell::new(0),
        }
    }

    /// The same with a disk that refuses writes.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The bytes of the disk.
    pub fn disk(&self) -> Result<Vec<u8>, Stop> {
        Ok(std::fs::read(&self.disk)?)
    }

    /// The state block on the disk: the one place where eight lines stand in order.
    pub fn block(&self) -> Result<Block, Stop> {
        let disk = self.disk()?;
        let head = b"# GRUB Environment Block\ng_v=1\n";
        let mut blocks = disk
            .chunks(512)
            .enumerate()
            .filter(|(_, sector)| sector.starts_with(head))
            .filter_map(|(at, _)| Block::parse(&disk[at * 512..][..block::SIZE]).ok());
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => Ok(block),
            found => Err(fail(format!("expected one state block: {found:?}"))),
        }
    }

    /// Starts it and waits until a kernel runs, GRUB gives up, or the machine is reset.
    pub fn boot(&self) -> Result<Ended, Stop> {
        self.boot_with(b"")
    }

    /// The same, with these bytes waiting on the serial port.
    pub fn boot_with(&self, typed: &[u8]) -> Result<Ended, Stop> {
        self.watch(typed, |_| false)
    }

    /// The same, but the power goes off as soon as the console is as given.
    pub fn cut_off(&self, when: impl Fn(&str) -> bool) -> Result<Ended, Stop> {
        self.watch(b"", when)
    }

    /// Both.
    pub fn watch(&self, typed: &[u8], cut: impl Fn(&str) -> bool) -> Result<Ended, Stop> {
        self.boots.set(self.boots.get() + 1);
        let mut running = self
            .env
            .program("/usr/bin/qemu-system-x86_64", self.arguments())
            .stdin(typed)
            .deadline(std::time::Duration::from_mins(4))
            .start()?;
        let mut console = String::new();
        running.until("the end of GRUB's work", |running| {
            let over = running.has_ended()?;
            console = running.stdout_so_far()?;
            let is_done = |console: &str| {
                console
                    .split_once("[started ")
                    .is_some_and(|(_, said)| said.contains("]\r\n"))
                    || console.contains("grub> ")
            };
            Ok(over || cut(&console) || is_done(&console))
        })?;
        // Dropped, it is killed: the power goes off.
        drop(running);
        if let Some((_, said)) = console.split_once("[started ") {
            return Self::started(said).map(Ended::Started);
        }
        Ok(if console.contains("grub> ") {
            Ended::Prompt
        } else {
            Ended::Reset(console)
        })
    }

    fn arguments(&self) -> Vec<String> {
        let path = self.env.path("variables.fd");
        let mut arguments: Vec<String> = ["-nodefaults", "-no-user-config", "-display", "none"]
            .into_iter()
            .chain(["-no-reboot", "-nic", "none", "-monitor", "none"])
            .chain(["-machine", "q35,accel=tcg", "-cpu", qemu::CPU])
            .chain(["-serial", "stdio", "-m"])
            .map(str::to_owned)
            .collect();
        match self.firmware {
            Firmware::Bios => arguments.push("64M".to_owned()),
            Firmware::Efi => {
                let code =
                    "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd";
                arguments.extend(["256M", "-drive", code, "-drive"].map(str::to_owned));
                arguments.push(format!("if=pflash,unit=1,format=raw,file={path}"));
            }
        }
        let read_only = if self.read_only { "on" } else { "off" };
        let disk = &self.disk;
        arguments.push("-drive".to_owned());
        arguments.push(format!(
            "if=none,id=disk,format=raw,readonly={read_only},file={disk}"
        ));
        arguments.extend(["-device", "virtio-blk-pci,drive=disk"].map(str::to_owned));
        arguments
    }

    /// Reads what the kernel said, and checks that it and its initrd are whole.
    fn started(said: &str) -> Result<Started, Stop> {
        let wrong = || fail(format!("a kernel said {said:?}"));
        let (said, _) = said.split_once("]\r\n").ok_or_else(wrong)?;
        let (label, rest) = said.split_once(" sum=").ok_or_else(wrong)?;
        let (sums, line) = rest.split_once(" line=").ok_or_else(wrong)?;
        let mut expected = String::new();
        let payload = sum(&kernel(label)?[0x400..]);
        write!(expected, "{payload:08x} initrd=").unwrap();
        if let Some(slot) = label.strip_prefix("slot-").and_then(Slot::from_letter) {
            write!(expected, "{:08x}", sum(&initrd(slot))).unwrap();
        }
        if sums.starts_with(&expected) {
            Ok(Started {
                label: label.to_owned(),
                line: line.to_owned(),
            })
        } else {
            Err(fail(format!(
                "{label} was started, but not whole: {sums}, expected {expected}"
            )))
        }
    }
}
