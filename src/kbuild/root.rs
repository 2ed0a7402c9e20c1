//! The build root: a directory with exactly the locked packages, in which a kernel is configured
//! and compiled.
//!
//! mmdebstrap makes it, without a network, from a little archive that holds the locked `.deb`s and
//! nothing else; as root in a chroot of its own, otherwise in a user namespace. It is kept under
//! the digest of its packages, and before a build every byte of it is hashed again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::needs::NEEDS;
use super::root_tree;
use crate::command::{Cmd, CommandError, Tool};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::proof::build_root::{PackageLock, RootPackage};
use crate::proof::canonical::CanonicalError;
use crate::sandbox::{Isolation, Sandbox};

/// Code name of the release that the root `debian-12` is of.
pub const CODENAME: &str = "bookworm";

/// What a root has beside what a build needs of a host.
const BESIDE: [&str; 2] = [
    // apt would choose the package that merges /usr afterwards, and perl with it.
    "usr-is-merged",
    // Among the build dependencies of newer kernels, for gendwarfksyms and objtool.
    "libdw-dev",
];

/// What is left out: nothing that a build reads.
const LEFT_OUT: [&str; 6] = ["doc", "man", "info", "locale", "lintian", "bug"];

/// Raised when a root of the same packages is made in another way.
const RECIPE: u32 = 1;

/// What the record in a root's directory says it is.
const SCHEMA: &str = "kiln.build-root/1";

/// The longest that making a root may take: a minute on a quiet machine.
const DEADLINE: Duration = Duration::from_hours(2);

/// Where mmdebstrap keeps the hooks that merge `/usr` before anything is unpacked.
const MERGED_USR: &str = "/usr/share/mmdebstrap/hooks/merged-usr";

/// Names of the packages that a root is asked to have; what they need comes with them.
pub fn packages() -> Vec<&'static str> {
    let mut names: Vec<&str> = NEEDS.iter().map(|need| need.package).collect();
    names.extend(BESIDE);
    names.sort_unstable();
    names.dedup();
    names
}

/// Why there is no build root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Programs cannot be shown another root.
    #[error("a build root needs a sandbox, and none can be had here: {0}")]
    NoSandbox(String),
    /// mmdebstrap, or what prepares for it, failed.
    #[error("the build root could not be made from its {packages} packages; log: {log}")]
    Making {
        /// How many packages.
        packages: usize,
        /// Its log.
        log: Utf8PathBuf,
        /// What happened.
        #[source]
        source: Box<CommandError>,
    },
    /// A tool of the host is missing.
    #[error("no build root can be made here")]
    Tool(#[source] Box<CommandError>),
    /// It has not exactly the locked packages.
    #[error("the new build root is not what the lock says: {}", .0.join(", "))]
    NotTheLock(Vec<String>),
    /// It was changed since it was made.
    #[error(
        "the build root `{path}` was changed since it was made: expected sha256 {expected}, found {found}"
    )]
    Changed {
        /// Its directory.
        path: Utf8PathBuf,
        /// When it was made.
        expected: Sha256,
        /// Now.
        found: Sha256,
    },
    /// The list of packages cannot be digested.
    #[error(transparent)]
    Document(#[from] CanonicalError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for RootError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoSandbox(_) => Exit::MissingTools,
            Self::Making { source, .. } => match source.exit() {
                Exit::Unexpected => Exit::Build,
                other => other,
            },
            Self::Tool(source) => source.exit(),
            Self::NotTheLock(_) | Self::Changed { .. } => Exit::NotVerified,
            Self::Document(error) => error.exit(),
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoSandbox(_) => "root-no-sandbox",
            Self::Making { source, .. } if source.exit() == Exit::Unexpected => "root-failed",
            Self::Making { source, .. } | Self::Tool(source) => source.code(),
            Self::NotTheLock(_) => "root-not-locked",
            Self::Changed { .. } => "root-changed",
            Self::Document(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let doctor = "run `kiln doctor --for root`; `build: {root: host}` in the pipeline does \
                      without, and what it builds is marked";
        match self {
            Self::NoSandbox(_) | Self::Tool(_) => vec![doctor.to_owned()],
            Self::Making { .. } => vec![
                "without root, mmdebstrap needs user namespaces, `newuidmap` and a range for you \
                 in /etc/subuid and /etc/subgid"
                    .to_owned(),
                doctor.to_owned(),
            ],
            Self::NotTheLock(_) => Vec::new(),
            Self::Changed { path, .. } => vec![format!(
                "remove `{path}` and run the same command again: it is made anew from its packages"
            )],
            Self::Document(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// How much of a kept root is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// All of it: what is compiled in it is believed.
    Whole,
    /// That it is there: for an answer that a build asks for again.
    Record,
}

/// A build root that has exactly the locked packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    tree: Utf8PathBuf,
    digest: Sha256,
}

/// What is kept beside the tree, written last.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    schema: String,
    packages: Sha256,
    tree: Sha256,
}

impl Root {
    /// Where the root of these packages is kept, below `roots`.
    pub fn directory(roots: &Utf8Path, lock: &PackageLock) -> Result<Utf8PathBuf, RootError> {
        Ok(roots.join(format!("{}-{RECIPE}", lock.digest()?)))
    }

    /// A root that was made earlier.
    pub fn open(
        directory: &Utf8Path,
        lock: &PackageLock,
        look: Look,
    ) -> Result<Option<Self>, RootError> {
        let Ok(bytes) = files::read(&directory.join("root.json"), 1 << 16) else {
            return Ok(None);
        };
        let record: Record = match serde_json::from_slice(&bytes) {
            Ok(record) => record,
            // Made anew, as if it had never been.
            Err(_) => return Ok(None),
        };
        if record.schema != SCHEMA || record.packages != lock.digest()? {
            return Ok(None);
        }
        let tree = directory.join("tree");
        if look == Look::Whole {
            let found = root_tree::digest(&tree)?;
            if found != record.tree {
                return Err(RootError::Changed {
                    path: directory.to_owned(),
                    expected: record.tree,
                    found,
                });
            }
        }
        Ok(Some(Self {
            tree,
            digest: record.tree,
        }))
    }

    /// Makes the root in `directory`, which has none yet, from the files of its packages, given in
    /// the lock's order and hashed by the caller.
    pub fn make(
        directory: &Utf8Path,
        lock: &PackageLock,
        debs: &[Utf8PathBuf],
        isolation: &Isolation,
    ) -> Result<Self, RootError> {
        if let Some(reason) = isolation.missing_reason() {
            return Err(RootError::NoSandbox(reason.to_owned()));
        }
        let making = Utf8PathBuf::from(format!("{directory}.making"));
        files::remove_dir_all(&making)?;
        files::create_dir_all(&making)?;
        let log = Utf8PathBuf::from(format!("{directory}.log"));
        files::remove_file(&log)?;
        let failed = |source: CommandError| match source {
            CommandError::Missing { .. } => RootError::Tool(Box::new(source)),
            source => RootError::Making {
                packages: lock.packages.len(),
                log: log.clone(),
                source: Box::new(source),
            },
        };
        let archive = Archive::new(lock, debs, isolation).map_err(|error| match error {
            ArchiveError::File(error) => RootError::File(error),
            ArchiveError::Command(error) => failed(error),
        })?;
        let tar = making.join("root.tar");
        mmdebstrap(lock, &archive, &tar, &making)
            .and_then(|cmd| cmd.log(&log).run())
            .map_err(failed)?;
        drop(archive);
        let tree = making.join("tree");
        unpack(&tar, &tree, isolation).map_err(|error| match error {
            ArchiveError::File(error) => RootError::File(error),
            ArchiveError::Command(error) => failed(error),
        })?;
        files::remove_file(&tar)?;
        root_tree::settle(&tree)?;
        let status = files::read_text(&tree.join("var/lib/dpkg/status"), 64 << 20)?;
        let differences = differences(lock, &installed(&status));
        if !differences.is_empty() {
            return Err(RootError::NotTheLock(differences));
        }
        let digest = root_tree::digest(&tree)?;
        let record = Record {
            schema: SCHEMA.to_owned(),
            packages: lock.digest()?,
            tree: digest,
        };
        let bytes = serde_json::to_vec_pretty(&record).expect("texts and digests become JSON");
        files::write(&making.join("root.json"), &bytes)?;
        files::remove_dir_all(directory)?;
        files::rename(&making, directory)?;
        Ok(Self {
            tree: directory.join("tree"),
            digest,
        })
    }

    /// Its directory on the host.
    pub fn path(&self) -> &Utf8Path {
        &self.tree
    }

    /// One digest over all that is in it.
    pub fn digest(&self) -> Sha256 {
        self.digest
    }

    /// Whether something stands at a path in it; links are not followed, since they would lead out
    /// of it.
    pub fn has(&self, path: &str) -> bool {
        self.tree
            .join(path.trim_start_matches('/'))
            .symlink_metadata()
            .is_ok()
    }
}

/// Why the archive was not made, or its product not unpacked.
enum ArchiveError {
    File(FileError),
    Command(CommandError),
}

impl From<FileError> for ArchiveError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<CommandError> for ArchiveError {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

/// A flat archive of the locked packages, where the users that a namespace maps can read it too;
/// removed when dropped.
struct Archive {
    guard: tempfile::TempDir,
}

impl Archive {
    fn new(
        lock: &PackageLock,
        debs: &[Utf8PathBuf],
        isolation: &Isolation,
    ) -> Result<Self, ArchiveError> {
        let io = |source| FileError::Io {
            action: "create a directory in",
            path: "/var/tmp".into(),
            source,
        };
        let guard = tempfile::Builder::new()
            .prefix("kiln-root-")
            .tempdir_in("/var/tmp")
            .map_err(io)?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(guard.path(), open).map_err(io)?;
        let archive = Self { guard };
        let mut names = Vec::new();
        for (package, deb) in lock.packages.iter().zip(debs) {
            let to = archive.path().join(package.file());
            files::copy(deb, &to, Some(&package.sha256))?;
            let readable = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(&to, readable).map_err(io)?;
            names.push(package.file());
        }
        let sandbox = Sandbox::new(isolation).read_only(archive.path(), "/debs");
        let script = "cd /debs && for deb; do dpkg-deb --field \"$deb\" || exit 1; echo; done";
        let controls = Cmd::new(&Tool::find("sh")?)
            .args(["-c", script, "sh"])
            .args(names)
            .sandbox(&sandbox)
            .deadline(Duration::from_mins(20))
            .capture()?;
        let index = index(lock, &String::from_utf8_lossy(&controls));
        let to = archive.path().join("Packages");
        files::write(&to, index.as_bytes())?;
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&to, readable).map_err(io)?;
        Ok(archive)
    }

    fn path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from(self.guard.path().to_string_lossy().into_owned())
    }
}

/// The `Packages` file of an archive: each package's own fields, and where its file is.
fn index(lock: &PackageLock, controls: &str) -> String {
    let mut text = String::new();
    for (control, package) in controls.split("\n\n").zip(&lock.packages) {
        let _never_fails = write!(
            text,
            "{}\nFilename: ./{}\nSize: {}\nSHA256: {}\n\n",
            control.trim(),
            package.file(),
            package.bytes,
            package.sha256
        );
    }
    text
}

fn mmdebstrap(
    lock: &PackageLock,
    archive: &Archive,
    tar: &Utf8Path,
    making: &Utf8Path,
) -> Result<Cmd, CommandError> {
    let root = rustix::process::geteuid().is_root();
    // The users of a namespace reach /var/tmp, and perhaps not the store.
    let (mode, scratch) = if root {
        ("root", making)
    } else {
        ("unshare", Utf8Path::new("/var/tmp"))
    };
    let all: Vec<String> = lock
        .packages
        .iter()
        .map(|package| format!("{}={}", package.name, package.version))
        .collect();
    let left_out = LEFT_OUT.map(|name| format!("--dpkgopt=path-exclude=/usr/share/{name}/*"));
    Ok(Cmd::new(&Tool::find("mmdebstrap")?)
        .arg(format!("--mode={mode}"))
        .args(["--variant=custom", "--format=tar", "--architectures=amd64"])
        .arg(format!("--hook-dir={MERGED_USR}"))
        .arg("--dpkgopt=force-unsafe-io")
        .args(left_out)
        .arg(format!("--include={}", all.join(",")))
        .arg(CODENAME)
        .arg(tar.as_str())
        // Each file is compared with the lock before it is put there, and the index is kiln's.
        .arg(format!("deb [trusted=yes] copy:{} ./", archive.path()))
        .env("TMPDIR", scratch.as_str())
        .env("SOURCE_DATE_EPOCH", "0")
        .deadline(DEADLINE))
}

/// Unpacks the root's tar as the sandbox's user, without devices.
fn unpack(tar: &Utf8Path, tree: &Utf8Path, isolation: &Isolation) -> Result<(), ArchiveError> {
    files::create_dir_all(tree)?;
    isolation.own(tree)?;
    let sandbox = Sandbox::new(isolation).writable(tree, "/root-tree");
    Cmd::new(&Tool::find("tar")?)
        .args(["--extract", "--directory=/root-tree", "--exclude=./dev/*"])
        .args([
            "--no-same-owner",
            "--no-same-permissions",
            "--delay-directory-restore",
        ])
        .stdin_file(files::open(tar)?)
        .sandbox(&sandbox)
        .deadline(Duration::from_mins(30))
        .run()?;
    Ok(())
}

/// Installed packages of a dpkg status file: version and architecture by name; those that are not
/// wholly installed with their state instead.
fn installed(status: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| {
            paragraph
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .unwrap_or_default()
        };
        let name = field("Package");
        if name.is_empty() {
            continue;
        }
        let what = match field("Status") {
            "install ok installed" => format!("{} {}", field("Version"), field("Architecture")),
            other => format!("`{other}`"),
        };
        found.insert(name.to_owned(), what);
    }
    found
}

/// What a root has otherwise than its lock says.
fn differences(lock: &PackageLock, found: &BTreeMap<String, String>) -> Vec<String> {
    let what = |package: &RootPackage| format!("{} {}", package.version, package.architecture);
    let mut differences = Vec::new();
    for package in &lock.packages {
        let (name, expected) = (&package.name, what(package));
        match found.get(name) {
            Some(found) if *found == expected => {}
            Some(found) => differences.push(format!("{name} is {found}: expected {expected}")),
            None => differences.push(format!("{name} is missing")),
        }
    }
    let surplus = found
        .keys()
        .filter(|name| lock.packages.iter().all(|package| package.name != **name));
    differences.extend(surplus.map(|name| format!("{name} is not in the lock")));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> PackageLock {
        let package = |name: &str, version: &str| RootPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: "amd64".to_owned(),
            sha256: Sha256::of(name.as_bytes()),
            bytes: 7,
        };
        PackageLock {
            name: "debian-12".to_owned(),
            packages: vec![package("bc", "1:1.07"), package("make", "4.3")],
        }
    }

    const STATUS: &str = "Package: bc\nStatus: install ok installed\nArchitecture: amd64\n\
        Version: 1:1.07\n\nPackage: make\nStatus: install ok installed\nArchitecture: amd64\n\
        Version: 4.3\n";

    #[test]
    fn a_root_has_the_locked_packages_and_no_others() {
        let check = |status: &str| differences(&lock(), &installed(status));
        assert_eq!(check(STATUS), Vec::<String>::new());
        for (from, to, says) in [
            (
                "Version: 4.3",
                "Version: 4.4",
                "make is 4.4 amd64: expected 4.3 amd64",
            ),
            (
                "Package: make",
                "Package: gmake",
                "make is missing, gmake is not in the lock",
            ),
            (
                "Package: make\nStatus: install ok installed",
                "Package: make\nStatus: install ok half-configured",
                "make is `install ok half-configured`: expected 4.3 amd64",
            ),
        ] {
            assert_eq!(check(&STATUS.replacen(from, to, 1)).join(", "), says);
        }
    }

    #[test]
    fn the_index_names_files_by_the_locks_digests() {
        let text = index(
            &lock(),
            "Package: bc\nVersion: 1:1.07\n\nPackage: make\nVersion: 4.3\n\n",
        );
        let first = text.split("\n\n").next().unwrap();
        assert!(first.starts_with("Package: bc\n"), "{text}");
        assert!(
            first.contains("\nFilename: ./bc_1%3a1.07_amd64.deb\nSize: 7\n"),
            "{text}"
        );
        assert!(text.contains(&format!("\nSHA256: {}\n", Sha256::of(b"make"))));
    }

    #[test]
    fn what_a_build_needs_is_what_a_root_has() {
        let names = packages();
        for name in ["gcc", "make", "dwarves", "debhelper", "libdw-dev", "lzop"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
