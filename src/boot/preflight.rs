//! Whether a node can count attempts.
//!
//! What is looked at becomes [`Facts`]; the judgement is a function of them.

use std::fmt;
use std::os::unix::fs::FileExt as _;

use camino::Utf8Path;

use super::error::BootError;
use super::grub;
use super::place::Place;
use crate::files;

/// Largest text of `/proc` and `/boot/grub` that is read, in bytes.
const TEXT_LIMIT: u64 = 4 << 20;

/// Something that makes a node, or a kernel, unfit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable word for machines.
    pub code: &'static str,
    /// What is wrong, and why that matters.
    pub what: String,
    /// What to do.
    pub next: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

pub(super) fn finding(
    code: &'static str,
    what: impl Into<String>,
    next: impl Into<String>,
) -> Finding {
    Finding {
        code,
        what: what.into(),
        next: next.into(),
    }
}

/// What the gate's directory lies on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where its file system is mounted.
    pub mounted_at: String,
    /// The kind of file system.
    pub kind: String,
    /// Its mount options, those of the file system itself included.
    pub options: Vec<String>,
    /// What kind of block device holds it.
    pub device: Device,
    /// The first bytes of the file system, where they can be read.
    pub head: Option<Vec<u8>>,
    /// `grub.cfg`; `None` where there is none.
    pub grub_cfg: Option<String>,
    /// Whether a kernel is loaded for kexec, which would start without GRUB.
    pub kexec_loaded: bool,
    /// Whether a hibernated system waits to be resumed.
    pub hibernated: bool,
    /// Bytes free.
    pub free: u64,
}

/// Kinds of block devices, by what GRUB can do with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Device {
    /// A disk, or a partition of one.
    #[default]
    Plain,
    /// A logical volume, an encrypted or a multipath device: GRUB reads it and cannot write.
    Mapper,
    /// Software RAID: GRUB writes one leg only, or none.
    Raid,
    /// None that can be found.
    Unknown,
}

/// What is asked of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To be set up: `grub.cfg` does not run the gate yet.
    SetUp,
    /// To be staged on: so many bytes are needed.
    Stage(u64),
}

/// Everything that speaks against it.
pub fn judge(facts: &Facts, asked: Asked) -> Vec<Finding> {
    let mut found = Vec::new();
    file_system(facts, &mut found);
    match facts.device {
        Device::Plain => {}
        Device::Mapper => found.push(finding(
            "on-mapper",
            "the gate's directory is on a logical volume or another mapped device: GRUB reads it, \
             but cannot count there",
            "put `/boot` on a plain partition",
        )),
        Device::Raid => found.push(finding(
            "on-raid",
            "the gate's directory is on software RAID: GRUB writes one of its legs at most, and the \
             others disagree",
            "put `/boot` on a plain partition",
        )),
        Device::Unknown => found.push(finding(
            "device-unknown",
            "the block device of the gate's directory cannot be found, so nothing is known about it",
            "see with `findmnt --target /boot/grub` what it is on",
        )),
    }
    if facts.kexec_loaded {
        found.push(finding(
            "kexec-loaded",
            "a kernel is loaded for kexec: the next reboot would start it without GRUB, uncounted",
            "unload it with `kexec --unload`, and mask what loads it",
        ));
    }
    if facts.hibernated {
        found.push(finding(
            "hibernated",
            "a hibernated system waits to be resumed: its memory holds this file system as it was, \
             and would write that over what is counted",
            "resume it and shut it down, or discard the image with `mkswap`",
        ));
    }
    if let Asked::Stage(needed) = asked {
        match &facts.grub_cfg {
            Some(text) if grub::runs_the_gate(text) => {}
            Some(_) => found.push(finding(
                "grub-cfg",
                "grub.cfg does not run the gate's text first, or changes its choice at the end",
                "run `update-grub`; if that does not help, see what in `/etc/grub.d` sorts before \
                 `00_0gate` or after `99_gate`",
            )),
            None => found.push(finding(
                "grub-cfg",
                "there is no `/boot/grub/grub.cfg`",
                "run `update-grub`",
            )),
        }
        if facts.free < needed {
            found.push(finding(
                "no-room",
                format!(
                    "the slot needs {needed} bytes, and {} has {} free",
                    facts.mounted_at, facts.free
                ),
                "remove kernels that are no longer used",
            ));
        }
    }
    found
}

fn file_system(facts: &Facts, found: &mut Vec<Finding>) {
    let kind = facts.kind.as_str();
    match kind {
        "ext4" => ext4(facts, found),
        "vfat" => {}
        "btrfs" | "zfs" => found.push(finding(
            "file-system",
            format!("the gate's directory is on {kind}, where GRUB cannot write"),
            "put `/boot` on an ext4 partition of its own",
        )),
        _ => found.push(finding(
            "file-system",
            format!("the gate's directory is on {kind}, where GRUB's counting was never tried"),
            "put `/boot` on an ext4 partition",
        )),
    }
    if facts.options.iter().any(|option| option == "ro") {
        found.push(finding(
            "read-only",
            format!("{} is mounted read-only", facts.mounted_at),
            format!(
                "mount it for writing: `mount -o remount,rw {}`",
                facts.mounted_at
            ),
        ));
    }
}

fn ext4(facts: &Facts, found: &mut Vec<Finding>) {
    let superblock = facts.head.as_deref().and_then(Superblock::read);
    let journals_data = facts.options.iter().any(|option| option == "data=journal")
        || superblock.is_some_and(|known| known.journals_data);
    if journals_data {
        found.push(finding(
            "data-journal",
            "ext4 is mounted with data=journal: what GRUB counts is thrown away when the journal is \
             replayed",
            "mount it with data=ordered (`tune2fs -o ^journal_data` where that is its default)",
        ));
    }
    if superblock.is_some_and(|known| known.inline_data) {
        found.push(finding(
            "inline-data",
            "ext4 has the feature inline_data, with which GRUB cannot read the file system",
            "make the file system anew without `inline_data`",
        ));
    }
    if superblock.is_none() {
        found.push(finding(
            "superblock",
            "the superblock of the gate's file system cannot be read, so its features are unknown",
            "run it as root",
        ));
    }
}

/// What matters of an ext4 superblock (`Documentation/filesystems/ext4/super.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Superblock {
    inline_data: bool,
    journals_data: bool,
}

impl Superblock {
    /// Where it is, counted from the start of the file system.
    const AT: usize = 1024;

    fn read(head: &[u8]) -> Option<Self> {
        let bytes = head.get(Self::AT..)?;
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let magic = word(0x38)? & 0xffff;
        (magic == 0xef53).then_some(())?;
        Some(Self {
            inline_data: word(0x60)? & 0x8000 != 0,
            // EXT4_DEFM_JMODE is two bits; 01 is data=journal.
            journals_data: word(0x100)? & 0x0060 == 0x0020,
        })
    }
}

/// Looks at what the gate's directory lies on, or will lie on.
///
/// # Errors
/// Where the node's files cannot be read.
pub fn look(place: &Place) -> Result<Facts, BootError> {
    let mounts = files::read_text(&place.at("proc/self/mountinfo"), TEXT_LIMIT)?;
    let mount = mount_of(&mounts, "/boot/grub/gate");
    let mut facts = Facts {
        kexec_loaded: first_line(&place.at("sys/kernel/kexec_loaded")) == "1",
        hibernated: is_hibernated(place),
        device: Device::Unknown,
        free: files::free_bytes(&place.at("boot/grub"))
            .or_else(|_| files::free_bytes(&place.at("boot")))?,
        ..Facts::default()
    };
    let grub_cfg = place.grub_cfg();
    if grub_cfg.exists() {
        facts.grub_cfg = Some(files::read_text(&grub_cfg, TEXT_LIMIT)?);
    }
    if let Some(mount) = mount {
        let below = place.at(&format!("sys/dev/block/{}", mount.device));
        facts.device = device(&below);
        facts.head = head(&place.at(&format!("dev/block/{}", mount.device)));
        facts.mounted_at = mount.at;
        facts.kind = mount.kind;
        facts.options = mount.options;
    }
    Ok(facts)
}

/// Whether the device that the kernel would resume from has the signature of an image in its swap
/// header (`SWSUSP_SIG`, `kernel/power/swap.c`).
fn is_hibernated(place: &Place) -> bool {
    const PAGE: u64 = 4096;
    let device = first_line(&place.at("sys/power/resume"));
    if device.is_empty() || device == "0:0" {
        return false;
    }
    let pages = first_line(&place.at("sys/power/resume_offset"));
    let start = pages.parse::<u64>().unwrap_or(0).saturating_mul(PAGE);
    let mut signature = [0; 10];
    std::fs::File::open(place.at(&format!("dev/block/{device}")))
        .and_then(|file| file.read_exact_at(&mut signature, start.saturating_add(PAGE - 10)))
        .is_ok_and(|()| signature == *b"S1SUSPEND\0")
}

fn first_line(path: &Utf8Path) -> String {
    let text = files::read_text(path, TEXT_LIMIT).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn device(below: &Utf8Path) -> Device {
    if below.join("md").exists() {
        Device::Raid
    } else if below.join("dm").exists() {
        Device::Mapper
    } else if !below.exists() {
        Device::Unknown
    } else {
        // A partition of software RAID is a partition of it.
        let is_partition = below.join("partition").exists();
        if is_partition && below.join("../md").exists() {
            Device::Raid
        } else {
            Device::Plain
        }
    }
}

/// The first bytes of a block device, or of a file that stands for one.
fn head(path: &Utf8Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = vec![0; 2048];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    at: String,
    kind: String,
    device: String,
    options: Vec<String>,
}

/// The mount that holds a path (`proc_pid_mountinfo(5)`): the longest, and of those the last.
fn mount_of(mountinfo: &str, path: &str) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let front: Vec<&str> = front.split(' ').collect();
        let back: Vec<&str> = back.split(' ').collect();
        let ([_, _, device, _, at, own, ..], [kind, _, all, ..]) = (&front[..], &back[..]) else {
            return None;
        };
        let options = own.split(',').chain(all.split(','));
        Some(Mount {
            at: (*at).to_owned(),
            kind: (*kind).to_owned(),
            device: (*device).to_owned(),
            options: options.map(str::to_owned).collect(),
        })
    });
    mounts
        .filter(|mount| Utf8Path::new(path).starts_with(&mount.at))
        .max_by_key(|mount| mount.at.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        let mut head = vec![0; 2048];
        head[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        Facts {
            mounted_at: "/boot".to_owned(),
            kind: "ext4".to_owned(),
            options: vec!["rw".to_owned(), "relatime".to_owned()],
            device: Device::Plain,
            head: Some(head),
            grub_cfg: Some(format!(
                "{}{}",
                grub::printed(grub::FIRST),
                grub::printed(grub::LAST)
            )),
            kexec_loaded: false,
            hibernated: false,
            free: 1 << 30,
        }
    }

    fn codes(facts: &Facts, asked: Asked) -> Vec<&'static str> {
        judge(facts, asked).iter().map(|one| one.code).collect()
    }

    #[test]
    fn a_plain_ext4_node_is_fit() {
        assert_eq!(codes(&good(), Asked::Stage(1 << 20)), [""; 0]);
        assert_eq!(codes(&good(), Asked::SetUp), [""; 0]);
    }

    /// Faults 22, 32, 38 and 46, each beside the fit node above.
    #[test]
    fn each_hazard_is_refused_with_its_reason() {
        type Change = fn(&mut Facts);
        let cases: [(&str, Change); 15] = [
            ("data-journal", |f| {
                f.options.push("data=journal".to_owned());
            }),
            ("data-journal", |f| head(f)[0x100] = 0x20),
            ("inline-data", |f| head(f)[0x61] = 0x80),
            ("superblock", |f| f.head = None),
            ("superblock", |f| head(f)[0x38] = 0),
            ("file-system", |f| f.kind = "btrfs".to_owned()),
            ("file-system", |f| f.kind = "xfs".to_owned()),
            ("read-only", |f| f.options.push("ro".to_owned())),
            ("on-mapper", |f| f.device = Device::Mapper),
            ("on-raid", |f| f.device = Device::Raid),
            ("device-unknown", |f| f.device = Device::Unknown),
            ("kexec-loaded", |f| f.kexec_loaded = true),
            ("hibernated", |f| f.hibernated = true),
            ("grub-cfg", |f| f.grub_cfg = None),
            ("no-room", |f| f.free = 9),
        ];
        for (code, change) in cases {
            let mut facts = good();
            change(&mut facts);
            assert_eq!(codes(&facts, Asked::Stage(10)), [code]);
            for finding in judge(&facts, Asked::Stage(10)) {
                assert!(!finding.what.is_empty() && !finding.next.is_empty());
            }
        }
    }

    fn head(facts: &mut Facts) -> &mut [u8] {
        &mut facts.head.as_mut().unwrap()[1024..]
    }

    #[test]
    fn the_mount_is_the_one_that_holds_the_directory() {
        let mounts = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                      30 21 8:2 / /boot rw - ext4 /dev/sda2 rw,data=journal\n\
                      31 30 8:3 / /boot/efi rw - vfat /dev/sda3 rw\n\
                      32 21 8:4 / /boot/grubby rw - xfs /dev/sda4 rw\n";
        let mount = mount_of(mounts, "/boot/grub/gate").unwrap();
        assert_eq!((mount.at.as_str(), mount.device.as_str()), ("/boot", "8:2"));
        assert!(mount.options.contains(&"data=journal".to_owned()));
        assert_eq!(mount_of("", "/boot"), None);
    }

    /// Fault 46: the image of a hibernated system, at the start of its device or in a swap file.
    #[test]
    fn a_hibernated_system_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8PathBuf::from(dir.path().to_str().unwrap());
        let place = Place::new(&root);
        let write = |path: &str, bytes: &[u8]| files::write(&root.join(path), bytes).unwrap();
        assert!(!is_hibernated(&place));
        let mut swap = vec![0; 3 * 4096];
        swap[4086..4096].copy_from_slice(b"S1SUSPEND\0");
        write("dev/block/8:3", &swap);
        write("sys/power/resume", b"0:0\n");
        assert!(!is_hibernated(&place));
        write("sys/power/resume", b"8:3\n");
        assert!(is_hibernated(&place));
        write("sys/power/resume_offset", b"2\n");
        assert!(!is_hibernated(&place));
        swap[4086..].rotate_right(8192);
        swap[4086 + 8192..4096 + 8192].copy_from_slice(b"S1SUSPEND\0");
        write("dev/block/8:3", &swap);
        assert!(is_hibernated(&place));
        write("sys/power/resume_offset", b"0\n");
        swap[4086..4096].copy_from_slice(b"SWAPSPACE2");
        write("dev/block/8:3", &swap);
        assert!(!is_hibernated(&place));
    }
}
