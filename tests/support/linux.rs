//! A real kernel source and its distribution's real configurations, from the host's own archive
//! through apt, fetched and unpacked once for a machine and kept below cargo's target directory.

use std::sync::OnceLock;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::files::{self, Lock, Wait};

use super::case::{Stop, fail, skip};
use super::suites::Suites;

/// The series that the distribution serves.
pub const SERIES: &str = "6.12";

/// How long the other process that fetches the source may take.
const PATIENCE: Duration = Duration::from_mins(30);

/// Where everything of this module lies.
fn cache() -> Utf8PathBuf {
    Utf8PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/linux"))
}

/// The unpacked source tree. Nothing may write to it.
pub fn real_source() -> Result<&'static Utf8Path, Stop> {
    static TREE: OnceLock<Result<Utf8PathBuf, Missing>> = OnceLock::new();
    let tree = TREE.get_or_init(|| {
        let tarball = tarball()?;
        let tree = cache().join(format!("linux-source-{SERIES}"));
        once(&tree, |fresh| unpack(&tarball, fresh))?;
        Ok(tree)
    });
    found(tree)
}

/// The source as the distribution packs it: one `.tar.xz`.
pub fn real_tarball() -> Result<&'static Utf8Path, Stop> {
    static TARBALL: OnceLock<Result<Utf8PathBuf, Missing>> = OnceLock::new();
    found(TARBALL.get_or_init(tarball))
}

/// A configuration of the distribution, such as `amd64_none_amd64`.
pub fn real_config(flavour: &str) -> Result<String, Stop> {
    let package = package(&format!("linux-config-{SERIES}"));
    let package = package.as_ref().map_err(Missing::stop)?;
    decompressed(&package.join(config_name(SERIES, flavour)))
}

/// A series that newer suites of the archive may serve beside [`SERIES`], with its configuration.
pub struct Newer {
    /// The unpacked source tree.
    pub source: Utf8PathBuf,
    /// The distribution's configuration for amd64.
    pub config: String,
}

/// The newer series of the default workspace's canary, where the archive serves it.
pub fn newer() -> Result<Newer, Stop> {
    let series = "7.2";
    let source = package(&format!("linux-source-{series}")).map_err(|missing| missing.stop())?;
    let config = package(&format!("linux-config-{series}")).map_err(|missing| missing.stop())?;
    let tree = cache().join(format!("linux-source-{series}"));
    once(&tree, |fresh| {
        unpack(&source.join(tarball_name(series)), fresh)
    })
    .map_err(|missing| missing.stop())?;
    let config = config.join(config_name(series, "amd64_none_amd64"));
    Ok(Newer {
        source: tree,
        config: decompressed(&config)?,
    })
}

fn tarball_name(series: &str) -> String {
    format!("usr/src/linux-source-{series}.tar.xz")
}

fn config_name(series: &str, flavour: &str) -> String {
    format!("usr/src/linux-config-{series}/config.{flavour}.xz")
}

fn decompressed(path: &Utf8Path) -> Result<String, Stop> {
    let text = Cmd::new(&Tool::find("xz")?)
        .args(["-dc", path.as_str()])
        .capture()?;
    String::from_utf8(text).map_err(|error| fail(format!("{path}: {error}")))
}

fn unpack(tarball: &Utf8Path, into: &Utf8Path) -> Result<(), Missing> {
    let tar = Tool::find("tar")?;
    let arguments = [
        "--strip-components=1",
        "-xf",
        tarball.as_str(),
        "-C",
        into.as_str(),
    ];
    run(Cmd::new(&tar).args(arguments))
}

/// Why there is nothing here.
#[derive(Clone)]
enum Missing {
    /// The host cannot have it: a reason to skip.
    Here(String),
    /// Something went wrong that should not.
    Wrong(String),
}

impl Missing {
    fn stop(&self) -> Stop {
        match self {
            Self::Here(reason) => skip(reason.clone()),
            Self::Wrong(text) => fail(text.clone()),
        }
    }
}

impl<E: std::error::Error> From<E> for Missing {
    fn from(error: E) -> Self {
        Self::Wrong(error.to_string())
    }
}

fn found(result: &'static Result<Utf8PathBuf, Missing>) -> Result<&'static Utf8Path, Stop> {
    match result {
        Ok(path) => Ok(path),
        Err(missing) => Err(missing.stop()),
    }
}

fn tarball() -> Result<Utf8PathBuf, Missing> {
    let package = package(&format!("linux-source-{SERIES}"))?;
    Ok(package.join(tarball_name(SERIES)))
}

/// The unpacked package of that name, as the archive serves it when first asked.
fn package(name: &str) -> Result<Utf8PathBuf, Missing> {
    let dir = cache().join(format!("package-{name}"));
    once(&dir, |fresh| {
        let download = fresh.join("download");
        files::create_dir_all(&download)?;
        fetch(name, &download)?;
        let deb = files::list(&download)?
            .into_iter()
            .find(|file| file.ends_with("deb"))
            .ok_or_else(|| Missing::Wrong(format!("apt-get left no package of {name}")))?;
        let deb = download.join(deb);
        run(Cmd::new(&Tool::find("dpkg-deb")?).args(["-x", deb.as_str(), fresh.as_str()]))?;
        files::remove_dir_all(&download)?;
        Ok(())
    })?;
    Ok(dir)
}

fn fetch(name: &str, into: &Utf8Path) -> Result<(), Missing> {
    let Ok(apt) = Tool::find("apt-get") else {
        return Err(Missing::Here("this host has no apt-get".to_owned()));
    };
    let download = || {
        Cmd::new(&apt)
            .args(["-q", "download", name])
            .cwd(into)
            .run()
    };
    if download().is_ok() {
        return Ok(());
    }
    if !name.ends_with(SERIES) {
        return from_newer_suites(name, into);
    }
    // A fresh machine has no package lists yet, or old ones.
    if let Err(error) = Cmd::new(&apt).args(["-q", "update"]).run() {
        let why = format!("apt-get cannot read its package lists: {error}");
        return Err(Missing::Here(why));
    }
    match download() {
        Ok(_) => Ok(()),
        Err(_) => Err(Missing::Here(format!(
            "this host's archive serves no {name}"
        ))),
    }
}

/// What the archive serves in other suites than the host's own may be gone tomorrow.
fn from_newer_suites(name: &str, into: &Utf8Path) -> Result<(), Missing> {
    let root = cache().join("newer-suites");
    once(&root, |fresh| match Suites::prepare(fresh) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Missing::Here(
            "this host's apt names no archive of its own suite".to_owned(),
        )),
        Err(error) => Err(Missing::Here(format!(
            "the package lists of newer suites cannot be read: {error}"
        ))),
    })?;
    if Suites::open(&root)?.download(name, into) {
        Ok(())
    } else {
        Err(Missing::Here(format!(
            "no suite of this host's archive serves {name}"
        )))
    }
}

/// Makes a directory once: under a lock, beside its final name, renamed when it is whole.
fn once(
    dir: &Utf8Path,
    make: impl FnOnce(&Utf8Path) -> Result<(), Missing>,
) -> Result<(), Missing> {
    let name = dir.file_name().unwrap_or("entry");
    let lock = cache().join(format!("{name}.lock"));
    files::create_dir_all(&cache())?;
    let _lock = Lock::acquire(&lock, "fetching test data", Wait::UpTo(PATIENCE), |_| ())?;
    if dir.is_dir() {
        return Ok(());
    }
    let fresh = cache().join(format!("{name}.new"));
    files::remove_dir_all(&fresh)?;
    files::create_dir_all(&fresh)?;
    make(&fresh)?;
    files::rename(&fresh, dir)?;
    Ok(())
}

fn run(command: Cmd) -> Result<(), Missing> {
    command.run()?;
    Ok(())
}
