//! What a host must have for the work, why, and which Debian package brings it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::command::{Cmd, CommandError, Tool, proxies};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kbuild::needs as kbuild;
use crate::kbuild::needs::Thing;

/// Work that a host can be made ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Resolving, verifying, configuring, compiling and packaging.
    Build,
    /// Changing a configuration in menuconfig.
    Edit,
    /// Making the pinned root that a pipeline is built in.
    Root,
    /// Making what a kernel boots into.
    Image,
    /// kiln's own tests and the boot test.
    Test,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Build, Self::Root, Self::Edit, Self::Image, Self::Test];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Edit => "edit",
            Self::Root => "root",
            Self::Image => "image",
            Self::Test => "test",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// What must be there.
    pub thing: Thing,
    /// What it is needed for.
    pub why: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
    /// The work that needs it.
    pub purposes: &'static [Purpose],
}

const fn program(
    name: &'static str,
    package: &'static str,
    purposes: &'static [Purpose],
    why: &'static str,
) -> Need {
    Need {
        thing: Thing::Program(name),
        why,
        package,
        purposes,
    }
}

const fn file(
    paths: &'static [&'static str],
    package: &'static str,
    purposes: &'static [Purpose],
    why: &'static str,
) -> Need {
    Need {
        thing: Thing::File(paths),
        why,
        package,
        purposes,
    }
}

// Tests build a kernel and boot it, so they need whatever the other work needs.
const BUILD: &[Purpose] = &[Purpose::Build, Purpose::Test];
const EDIT: &[Purpose] = &[Purpose::Edit, Purpose::Test];
const ROOT: &[Purpose] = &[Purpose::Root, Purpose::Test];
const IMAGE: &[Purpose] = &[Purpose::Image, Purpose::Test];
const TEST: &[Purpose] = &[Purpose::Test];

/// What kiln needs beside what compiling and packaging a kernel needs.
const OWN: &[Need] = &[
    program(
        "bwrap",
        "bubblewrap",
        BUILD,
        "keeps decompressing, unpacking and compiling away from the rest of the host",
    ),
    program(
        "patch",
        "patch",
        BUILD,
        "applies the patches that a pipeline names",
    ),
    program(
        "setpriv",
        "util-linux",
        BUILD,
        "drops root before untrusted bytes are touched",
    ),
    program(
        "mmdebstrap",
        "mmdebstrap",
        ROOT,
        "makes the root of `build: {root: debian-12}` from its locked packages",
    ),
    program(
        "newuidmap",
        "uidmap",
        ROOT,
        "lets mmdebstrap work for a user that is not root, who also needs a line in /etc/subuid",
    ),
    file(
        &["/usr/include/ncurses.h"],
        "libncurses-dev",
        EDIT,
        "menuconfig, which `kiln config edit` starts, is compiled against it",
    ),
    file(
        &["/bin/busybox"],
        "busybox-static",
        IMAGE,
        "the whole user space of the guest that a built kernel is booted into",
    ),
    program(
        "qemu-system-x86_64",
        "qemu-system-x86",
        TEST,
        "boots what was built",
    ),
    file(
        &["/usr/lib/grub/i386-pc/boot.img"],
        "grub-pc-bin",
        TEST,
        "the boot loader that the boot gate is tested in, on BIOS",
    ),
    file(
        &["/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"],
        "grub-efi-amd64-signed",
        TEST,
        "the boot loader that the boot gate is tested in, on EFI",
    ),
    file(
        &["/usr/share/OVMF/OVMF_CODE_4M.fd"],
        "ovmf",
        TEST,
        "the EFI firmware that the boot gate is tested on",
    ),
    program(
        "grub-mkimage",
        "grub-common",
        TEST,
        "makes the boot loader of the tests' disks",
    ),
    program(
        "mke2fs",
        "e2fsprogs",
        TEST,
        "makes the file systems of the tests' disks",
    ),
    program(
        "strace",
        "strace",
        TEST,
        "kills a verb at any of its system calls",
    ),
    program(
        "mcopy",
        "mtools",
        TEST,
        "fills the FAT file systems of the tests' disks",
    ),
    program(
        "gpgv",
        "gpgv",
        TEST,
        "the other way to verify, which kiln's is compared with",
    ),
    program(
        "curl",
        "curl",
        TEST,
        "the other way to fetch, which kiln's is compared with",
    ),
    program("git", "git", TEST, "lists the files that checks go over"),
    file(
        &["/usr/lib/python3/dist-packages/jsonschema/__init__.py"],
        "python3-jsonschema",
        TEST,
        "judges the schemas that kiln prints",
    ),
    file(
        &["/usr/lib/python3/dist-packages/cryptography/__init__.py"],
        "python3-cryptography",
        TEST,
        "the other way to verify statements, which kiln's is compared with",
    ),
    file(
        &["/usr/lib/python3/dist-packages/yaml/__init__.py"],
        "python3-yaml",
        TEST,
        "reads the files that the schemas are for",
    ),
];

/// Everything that kiln may need of a host: what a build of Debian's configurations needs, and what
/// kiln itself runs.
static NEEDS: LazyLock<Vec<Need>> = LazyLock::new(|| {
    let built = kbuild::NEEDS
        .iter()
        .filter(|need| !matches!(need.when, kbuild::Needed::Rarely(_)))
        .map(|need| Need {
            thing: need.thing,
            why: need.why,
            package: need.package,
            purposes: BUILD,
        });
    built.chain(OWN.iter().copied()).collect()
});

/// The needs for these purposes, in the order of the table.
pub fn of(purposes: &[Purpose]) -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| need.purposes.iter().any(|p| purposes.contains(p)))
        .collect()
}

/// The programs of this host that work of a purpose may run, by name: the path of each and what it
/// says of its version. One that is missing is left out: the work says so where it needs it.
pub fn programs(purpose: Purpose) -> BTreeMap<String, String> {
    // Beside those that someone may have to install: what every Debian has.
    let always = [
        ("apt-get", "apt"),
        ("dpkg-deb", "dpkg"),
        ("dpkg-query", "dpkg"),
        ("tar", "tar"),
    ];
    let named = of(&[purpose])
        .into_iter()
        .filter_map(|need| match need.thing {
            Thing::Program(name) => Some((name, need.package)),
            Thing::File(_) => None,
        });
    let mut found = BTreeMap::new();
    for (name, package) in named.chain(always) {
        if let Ok(tool) = Tool::find(name) {
            let version = tool.version().ok().filter(|version| !version.is_empty());
            let version = version.or_else(|| installed(package)).unwrap_or_default();
            found.insert(name.to_owned(), format!("{} {version}", tool.path()));
        }
    }
    found
}

/// The version of an installed package, for a program that does not say its own.
fn installed(package: &str) -> Option<String> {
    let query = Cmd::new(&Tool::find("dpkg-query").ok()?)
        .args(["--show", "--showformat=${Package} ${Version}", package])
        .deadline(Duration::from_secs(20));
    String::from_utf8(query.capture().ok()?).ok()
}

/// The packages that bring what is missing, sorted.
pub fn packages(missing: &[&Need]) -> Vec<&'static str> {
    let names: BTreeSet<&str> = missing.iter().map(|need| need.package).collect();
    names.into_iter().collect()
}

/// The command that installs packages, for people to run: it works as it stands, so it fetches
/// apt's lists first on a host that has none.
pub fn install_line(packages: &[&str]) -> String {
    let lists = if lists_are_there() {
        ""
    } else {
        "apt-get update && "
    };
    format!(
        "{lists}apt-get install --no-install-recommends --yes {}",
        packages.join(" ")
    )
}

/// Why the missing could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The host has no apt.
    #[error("this host has no apt-get, so kiln cannot install {}", .packages.join(", "))]
    NoApt {
        /// What would have been installed.
        packages: Vec<String>,
    },
    /// Only root may install.
    #[error("installing packages needs root")]
    NotRoot {
        /// What would have been installed.
        packages: Vec<String>,
    },
    /// apt failed.
    #[error("failed to install {}", .packages.join(", "))]
    Apt {
        /// What should have been installed.
        packages: Vec<String>,
        /// Why.
        #[source]
        source: Box<CommandError>,
    },
    /// apt succeeded, and yet something is missing.
    #[error("the packages are installed, and yet these are missing: {}", .things.join(", "))]
    StillMissing {
        /// What.
        things: Vec<String>,
    },
}

impl Diagnose for InstallError {
    fn exit(&self) -> Exit {
        match self {
            Self::Apt { source, .. } if matches!(**source, CommandError::Interrupted(_)) => {
                source.exit()
            }
            _ => Exit::MissingTools,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoApt { .. } => "no-apt",
            Self::NotRoot { .. } => "not-root",
            Self::Apt { .. } => "apt-failed",
            Self::StillMissing { .. } => "tools-missing",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoApt { .. } => vec![
                "install the same programs with this host's own package manager; `kiln doctor` \
                 names each with its reason"
                    .to_owned(),
            ],
            Self::NotRoot { packages } => {
                let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
                vec![format!("as root, run `{}`", install_line(&packages))]
            }
            Self::Apt { .. } => {
                vec!["check the host's package sources with `apt-get update`".to_owned()]
            }
            Self::StillMissing { .. } => Vec::new(),
        }
    }
}

/// Installs packages through the host's own apt. Its output goes to `log`.
///
/// # Errors
/// Fails without apt, without root, and where apt fails.
pub fn install(packages: &[&str], log: &Utf8Path) -> Result<(), InstallError> {
    let owned = || packages.iter().map(|&name| name.to_owned()).collect();
    let Ok(apt) = Tool::find("apt-get") else {
        return Err(InstallError::NoApt { packages: owned() });
    };
    if !rustix::process::geteuid().is_root() {
        return Err(InstallError::NotRoot { packages: owned() });
    }
    let failed = |source| InstallError::Apt {
        packages: owned(),
        source: Box::new(source),
    };
    let command = || {
        Cmd::new(&apt)
            .envs(proxies())
            .env("DEBIAN_FRONTEND", "noninteractive")
            .log(log)
            // apt waits for another apt instead of failing at once.
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .deadline(Duration::from_mins(30))
    };
    if !lists_are_there() {
        command().arg("update").run().map_err(failed)?;
    }
    let install = || {
        command()
            .args(["install", "--no-install-recommends", "--yes"])
            .args(packages.iter().copied())
            .run()
    };
    match install() {
        // Lists that are too old name packages that the archive no longer serves.
        Err(CommandError::Failed { .. }) => {
            command().arg("update").run().map_err(failed)?;
            install().map_err(failed)?;
        }
        other => drop(other.map_err(failed)?),
    }
    Ok(())
}

/// Whether `apt-get update` was ever run here.
fn lists_are_there() -> bool {
    files::list(Utf8Path::new("/var/lib/apt/lists"))
        .is_ok_and(|names| names.iter().any(|name| name.contains("_Packages")))
}

/// What the host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// `PRETTY_NAME` of os-release; empty where unknown.
    pub system: String,
    /// Whether it is Debian or made from it.
    pub debian: bool,
    /// Processors.
    pub processors: usize,
    /// Memory in all, in bytes.
    pub memory: u64,
    /// Free space where the workspace is, in bytes.
    pub free: u64,
}

impl Host {
    /// Looks at this host; `place` is on the file system whose free space counts.
    ///
    /// # Errors
    /// Fails where `place` cannot be looked at.
    pub fn look(place: &Utf8Path) -> Result<Self, FileError> {
        let release = files::read_text(Utf8Path::new("/etc/os-release"), 1 << 16)
            .or_else(|_| files::read_text(Utf8Path::new("/usr/lib/os-release"), 1 << 16))
            .unwrap_or_default();
        let (system, debian) = os_release(&release);
        let memory = files::read_text(Utf8Path::new("/proc/meminfo"), 1 << 16)
            .ok()
            .and_then(|text| total_memory(&text))
            .unwrap_or(0);
        Ok(Self {
            system,
            debian,
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory,
            free: files::free_bytes(&existing(place))?,
        })
    }
}

/// The nearest directory at or above `path` that exists.
fn existing(path: &Utf8Path) -> Utf8PathBuf {
    path.ancestors()
        .find(|path| path.exists())
        .unwrap_or(Utf8Path::new("/"))
        .to_owned()
}

/// Name of the system, and whether it is Debian or made from it (`os-release(5)`).
fn os_release(text: &str) -> (String, bool) {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned()
    };
    let like = value("ID_LIKE");
    let debian = value("ID") == "debian" || like.split_whitespace().any(|id| id == "debian");
    (value("PRETTY_NAME"), debian)
}

/// `MemTotal` in bytes (`proc_meminfo(5)`).
fn total_memory(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_is_said_once_and_whole() {
        let mut names = BTreeSet::new();
        for need in NEEDS.iter() {
            assert!(names.insert(need.thing.name()), "{}", need.thing.name());
            assert!(!need.why.ends_with('.') && need.why.len() > 10);
            assert!(!need.purposes.is_empty());
        }
        assert!(of(&[Purpose::Test]).len() == NEEDS.len());
        assert!(of(&[Purpose::Build]).len() < NEEDS.len());
    }

    #[test]
    fn packages_are_named_once() {
        let missing: Vec<&Need> = NEEDS
            .iter()
            .filter(|need| matches!(need.thing.name(), "perl" | "python3" | "bc"))
            .collect();
        let names = packages(&missing);
        assert_eq!(names, ["bc", "perl", "python3"]);
        assert_eq!(
            install_line(&names),
            "apt-get install --no-install-recommends --yes bc perl python3"
        );
    }

    #[test]
    fn what_is_not_there_is_missing() {
        assert!(Thing::Program("true").is_there());
        assert!(!Thing::Program("no-such-program-here").is_there());
        assert!(Thing::File(&["/no/such/file", "/etc"]).is_there());
        assert!(!Thing::File(&["/no/such/file"]).is_there());
    }

    #[test]
    fn hosts_are_told_apart() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        assert_eq!(
            os_release(debian),
            ("Debian GNU/Linux 12 (bookworm)".to_owned(), true)
        );
        assert!(os_release("ID=mint\nID_LIKE=\"ubuntu debian\"\n").1);
        assert!(!os_release("ID=fedora\n").1);
        assert!(!os_release("ID=debianish\n").1);
        assert_eq!(
            total_memory("MemTotal:       24689044 kB\n"),
            Some(25_281_581_056)
        );
        assert_eq!(total_memory("MemTotal: many\n"), None);
    }
}
