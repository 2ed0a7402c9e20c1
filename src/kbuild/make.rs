//! Asking a kernel tree through its own makefiles: configurations, the release text.
//!
//! The tree's `conf` stays the authority on what a configuration resolves to. It ends with 0 when
//! it drops a request, and `KCONFIG_WERROR` changes nothing about that, so its answer is returned
//! as text with the warnings it printed, and judged elsewhere.

use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use crate::command::{Cmd, CommandError, Tool};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kbuild::environment::{Environment, Places, TREE};
use crate::kbuild::other_time;
use crate::kbuild::root::Root;
use crate::kbuild::shim::StandIn;
use crate::kbuild::warnings::{KconfigWarning, warnings};
use crate::kernel::Release;
use crate::sandbox::{Isolation, Sandbox};
use crate::spec::pipeline::Packages as PackageOptions;

/// Name of the output directory below that of the build.
const OUT: &str = "out";

/// Name of the list of modules in the output directory.
const LSMOD: &str = "lsmod";

/// Largest `.config` or log of a configuration target that is read: Debian's have 300 KiB.
const TEXT_LIMIT: u64 = 16 << 20;

/// Longest that a configuration target may take: 3 to 15 s on a quiet machine, minutes on a
/// busy one.
const CONFIG_DEADLINE: Duration = Duration::from_mins(30);

/// Why a make target gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// make, or the sandbox around it, failed.
    #[error("`make {target}` failed in the kernel tree")]
    Command {
        /// The target.
        target: String,
        /// What happened.
        #[source]
        source: Box<CommandError>,
    },
    /// A tool of the host is missing.
    #[error("the kernel's makefiles cannot run here")]
    Tool(#[source] Box<CommandError>),
    /// A file of the build could not be read or written.
    #[error("failed to prepare the build directory, or to read what make left there")]
    File(#[from] FileError),
    /// Not the name of a configuration target.
    #[error("`{0}` is not a configuration target: expected a name like tinyconfig or defconfig")]
    Target(String),
    /// make ended well but left no configuration.
    #[error("`make {target}` left {found} as `{path}`: expected a plain file")]
    NotAFile {
        /// The target.
        target: String,
        /// What stands there.
        found: &'static str,
        /// Where.
        path: Utf8PathBuf,
    },
    /// The tree prints another release than the one that the packages are promised under.
    #[error("the kernel tree calls this build `{found}`: expected `{expected}`")]
    Release {
        /// What `make kernelrelease` printed.
        found: String,
        /// What was promised.
        expected: String,
    },
}

impl Diagnose for MakeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Command { source, .. } => match source.exit() {
                Exit::Unexpected => Exit::Build,
                other => other,
            },
            Self::Tool(source) => source.exit(),
            Self::File(source) => source.exit(),
            Self::Target(_) => Exit::Usage,
            Self::NotAFile { .. } | Self::Release { .. } => Exit::Build,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Command { source, .. } if source.exit() == Exit::Unexpected => "make-failed",
            Self::Command { source, .. } | Self::Tool(source) => source.code(),
            Self::File(source) => source.code(),
            Self::Target(_) => "make-target",
            Self::NotAFile { .. } => "make-no-config",
            Self::Release { .. } => "release-differs",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Command { source, .. } | Self::Tool(source) => source.hints(),
            Self::File(source) => source.hints(),
            Self::Release { .. } => vec![
                "set CONFIG_LOCALVERSION=\"\" and leave CONFIG_LOCALVERSION_AUTO off in a fragment: \
                 the local version is kiln's alone"
                    .to_owned(),
                "remove `localversion*` files from the source directory".to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}

/// What a build needs from the outside.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The kernel source on the host; never written to.
    pub source: &'a Utf8Path,
    /// The directory of this build on the host; created where missing. One build at a time. Logs
    /// stay here, out of reach of what runs inside; the output is the directory `out` below.
    pub dir: &'a Utf8Path,
    /// How foreign code is kept apart.
    pub isolation: &'a Isolation,
    /// The pinned root it is built in; the host's own tools where there is none.
    pub root: Option<&'a Root>,
    /// `SOURCE_DATE_EPOCH`.
    pub epoch: Timestamp,
    /// How many jobs make runs at once.
    pub jobs: NonZeroU32,
    /// The libfaketime of the host, where the build is to see another time than it is.
    pub other_time: Option<&'a Utf8Path>,
}

/// A kernel tree and the place it is built in.
#[derive(Debug, Clone)]
pub struct Kbuild {
    sandbox: Sandbox,
    places: Places,
    dir: Utf8PathBuf,
    environment: Environment,
    /// What make is started through: nothing, or what shows it another time.
    starter: Vec<String>,
    source: Utf8PathBuf,
    jobs: NonZeroU32,
    root: Option<Root>,
}

impl Kbuild {
    /// Prepares the directory of the build.
    pub fn new(setup: &Setup<'_>) -> Result<Self, MakeError> {
        let dir = absolute(setup.dir)?;
        let source = absolute(setup.source)?;
        let out = dir.join(OUT);
        for directory in [out.clone(), out.join(TREE)] {
            files::create_dir_all(&directory)?;
            open_to_all(&directory)?;
            setup.isolation.own(&directory)?;
        }
        let inside = Places::sandboxed();
        let mut sandbox = Sandbox::new(setup.isolation)
            .read_only(&source, &inside.src)
            .writable(&out, &inside.out)
            .read_only(stand_ins(&dir, setup.root)?, &inside.bin);
        if let Some(root) = setup.root {
            sandbox = sandbox.rooted(root.path());
        }
        // `dpkg-checkbuilddeps` and `dpkg-genbuildinfo`, which `bindeb-pkg` runs, fail without it.
        // What is installed goes into the `.buildinfo` only, which is not kept.
        let installed = Utf8Path::new("/var/lib/dpkg/status");
        if setup.root.is_none() && setup.isolation.is_isolated() && installed.exists() {
            sandbox = sandbox.read_only(installed, installed);
        }
        let mut starter = Vec::new();
        if let Some(library) = setup.other_time {
            (sandbox, starter) = other_time::shown(sandbox, library);
        }
        let places = Places {
            src: sandbox.path(&inside.src),
            out: sandbox.path(&inside.out),
            bin: sandbox.path(&inside.bin),
        };
        Ok(Self {
            environment: Environment::new(&places, setup.epoch),
            starter,
            sandbox,
            places,
            dir,
            source,
            jobs: setup.jobs,
            root: setup.root.cloned(),
        })
    }

    /// The directory of this build on the host.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// The source tree on the host.
    pub fn source(&self) -> &Utf8Path {
        &self.source
    }

    /// The source tree as programs of the build find it: `srctree`.
    pub fn source_inside(&self) -> &Utf8Path {
        &self.places.src
    }

    /// Where the packages land, on the host.
    pub fn out(&self) -> Utf8PathBuf {
        self.dir.join(OUT)
    }

    /// The object tree on the host.
    pub fn tree(&self) -> Utf8PathBuf {
        self.out().join(TREE)
    }

    /// The environment that configurations are read in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The pinned root; the host where there is none.
    pub fn root(&self) -> Option<&Root> {
        self.root.as_ref()
    }

    /// Whether the build sees only what it is given.
    pub fn is_isolated(&self) -> bool {
        self.sandbox.is_isolated()
    }

    /// `make TARGETS` with nothing said yet about where its output goes; also the base for a
    /// shell or `menuconfig` in the same surroundings.
    ///
    /// # Errors
    /// Where make is not installed.
    pub fn make<'t>(&self, targets: impl IntoIterator<Item = &'t str>) -> Result<Cmd, MakeError> {
        let make = match self.root {
            Some(_) => Tool::inside("/usr/bin/make"),
            None => Tool::find("make").map_err(|error| MakeError::Tool(Box::new(error)))?,
        };
        let started = match self.starter.split_first() {
            None => Cmd::new(&make),
            Some((first, rest)) => Cmd::new(&Tool::inside(first))
                .args(rest)
                .arg(make.path().as_str()),
        };
        Ok(started
            .args(["-C", self.places.src.as_str()])
            .arg(format!("O={}", self.places.tree()))
            // Named, not left to `uname -m`: with the `x86` that it would give, a 64-bit kernel is
            // a question, and tinyconfig answers it with no.
            .arg("ARCH=x86_64")
            .arg(format!("-j{}", self.jobs))
            .args(targets)
            .envs(self.environment.vars())
            .sandbox(&self.sandbox))
    }

    /// The same, in the environment of the package build.
    pub(crate) fn make_for<'t>(
        &self,
        release: &Release,
        options: PackageOptions,
        targets: impl IntoIterator<Item = &'t str>,
    ) -> Result<Cmd, MakeError> {
        let environment = self.environment.for_packages(release, options);
        Ok(self.make(targets)?.envs(environment.vars()))
    }

    /// A program of the system in the same sandbox and environment, in the object tree.
    pub fn program(&self, tool: &Tool) -> Cmd {
        Cmd::new(tool)
            .envs(self.environment.vars())
            .cwd(self.places.tree())
            .sandbox(&self.sandbox)
    }

    /// The configuration that a target such as `tinyconfig` or `defconfig` writes.
    pub fn target(&self, target: &str) -> Result<Resolved, MakeError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if !target.ends_with("config") || !target.bytes().all(plain) {
            return Err(MakeError::Target(target.to_owned()));
        }
        files::remove_file(&self.dot_config())?;
        self.configure(target)
    }

    /// What is left of `base` without the modules that `lsmod` does not list, by the tree's own
    /// `localmodconfig`.
    pub fn localmodconfig(&self, base: &str, lsmod: &str) -> Result<Resolved, MakeError> {
        // Once through the tree first, so that nothing is left to be asked.
        let settled = self.olddefconfig(base)?;
        files::write(&self.dot_config(), settled.text.as_bytes())?;
        files::write(&self.out().join(LSMOD), lsmod.as_bytes())?;
        let log = self.fresh_log("localmodconfig")?;
        self.make(["localmodconfig"])?
            .arg(format!("LSMOD={}", self.places.out.join(LSMOD)))
            .stdin_bytes("\n".repeat(1000))
            .log(&log)
            .deadline(CONFIG_DEADLINE)
            .run()
            .map_err(failed("localmodconfig"))?;
        Ok(Resolved {
            text: self.left_config("localmodconfig")?,
            warnings: warnings(&files::read_text(&log, TEXT_LIMIT)?),
        })
    }

    /// What the tree makes of a merged configuration. It must name each symbol once: `conf` only
    /// warns about a second line.
    pub fn olddefconfig(&self, merged: &str) -> Result<Resolved, MakeError> {
        files::write(&self.dot_config(), merged.as_bytes())?;
        self.configure("olddefconfig")
    }

    /// The symbols that `merged` does not mention and that would take a default, in the tree's
    /// order, without `CONFIG_`.
    pub fn listnewconfig(&self, merged: &str) -> Result<Vec<String>, MakeError> {
        files::write(&self.dot_config(), merged.as_bytes())?;
        let log = self.fresh_log("listnewconfig")?;
        let output = self
            .make(["-s", "listnewconfig"])?
            .log(log)
            .deadline(CONFIG_DEADLINE)
            .capture()
            .map_err(failed("listnewconfig"))?;
        Ok(new_symbols(&String::from_utf8_lossy(&output)))
    }

    /// What this build would call itself (`uname -r`), and an error if that is not `release`. Asks
    /// the configuration that was resolved last.
    pub fn check_release(
        &self,
        release: &Release,
        options: PackageOptions,
    ) -> Result<(), MakeError> {
        let log = self.fresh_log("kernelrelease")?;
        let output = self
            .make_for(release, options, ["-s", "kernelrelease"])?
            .log(log)
            .deadline(CONFIG_DEADLINE)
            .capture()
            .map_err(failed("kernelrelease"))?;
        same_release(&String::from_utf8_lossy(&output), release)
    }

    /// Runs a configuration target, then reads the configuration that it left.
    fn configure(&self, target: &str) -> Result<Resolved, MakeError> {
        let log = self.fresh_log(target)?;
        self.make([target])?
            .env("KCONFIG_WARN_UNKNOWN_SYMBOLS", "1")
            .log(&log)
            .deadline(CONFIG_DEADLINE)
            .run()
            .map_err(failed(target))?;
        Ok(Resolved {
            text: self.left_config(target)?,
            warnings: warnings(&files::read_text(&log, TEXT_LIMIT)?),
        })
    }

    /// Reads `.config` after a target. The tree runs foreign code, so what it left is read only if
    /// it is a plain file: a link could name any file of the host.
    pub(crate) fn left_config(&self, target: &str) -> Result<String, MakeError> {
        let path = self.dot_config();
        let found = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => None,
            Ok(metadata) if metadata.is_symlink() => Some("a symbolic link"),
            Ok(_) => Some("something else"),
            Err(_) => Some("nothing"),
        };
        match found {
            None => Ok(files::read_text(&path, TEXT_LIMIT)?),
            Some(found) => Err(MakeError::NotAFile {
                target: target.to_owned(),
                found,
                path,
            }),
        }
    }

    pub(crate) fn dot_config(&self) -> Utf8PathBuf {
        self.tree().join(".config")
    }

    /// An empty log named after a step.
    pub(crate) fn fresh_log(&self, step: &str) -> Result<Utf8PathBuf, MakeError> {
        let path = self.dir.join(format!("{step}.log"));
        files::remove_file(&path)?;
        Ok(path)
    }
}

fn failed(target: &str) -> impl FnOnce(CommandError) -> MakeError {
    move |source| MakeError::Command {
        target: target.to_owned(),
        source: Box::new(source),
    }
}

/// Compares what make printed with what was promised.
fn same_release(output: &str, release: &Release) -> Result<(), MakeError> {
    let (found, expected) = (output.trim(), release.to_string());
    if found == expected {
        Ok(())
    } else {
        Err(MakeError::Release {
            found: found.to_owned(),
            expected,
        })
    }
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, FileError> {
    camino::absolute_utf8(path).map_err(|source| FileError::Io {
        action: "find the absolute path of",
        path: path.to_owned(),
        source,
    })
}

/// Mode 0755 whatever the caller's umask: the sandbox enters the directory as root without root's
/// capabilities, before it becomes the directory's owner.
fn open_to_all(path: &Utf8Path) -> Result<(), FileError> {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).map_err(|source| FileError::Io {
        action: "change the mode of",
        path: path.to_owned(),
        source,
    })
}

/// A directory of the stand-ins, for those tools that the root or the host has: one for a missing
/// pahole would make `scripts/pahole-version.sh` believe that there is one.
fn stand_ins(dir: &Utf8Path, root: Option<&Root>) -> Result<Utf8PathBuf, FileError> {
    let bin = dir.join("bin");
    files::remove_dir_all(&bin)?;
    files::create_dir_all(&bin)?;
    open_to_all(&bin)?;
    for tool in StandIn::ALL {
        let is_there = match root {
            Some(root) => root.has(tool.real()),
            None => Utf8Path::new(tool.real()).exists(),
        };
        if is_there {
            let script = bin.join(tool.name());
            files::write(&script, tool.script().as_bytes())?;
            open_to_all(&script)?;
        }
    }
    Ok(bin)
}

/// A configuration as the tree resolved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The whole `.config`.
    pub text: String,
    /// What `conf` said meanwhile.
    pub warnings: Vec<KconfigWarning>,
}

/// Symbols of `CONFIG_X=value` lines.
fn new_symbols(output: &str) -> Vec<String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='))
        .map(|(symbol, _)| symbol.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_symbols_keep_their_order() {
        let output = "CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\nCONFIG_B=n\njunk\n";
        assert_eq!(new_symbols(output), ["MODULE_SIG_KEY", "B"]);
    }

    #[test]
    fn another_release_is_an_error_that_names_both() {
        let release: Release = "6.18.40-12-lts-3f2a9c1d".parse().unwrap();
        assert!(same_release("6.18.40-12-lts-3f2a9c1d\n", &release).is_ok());
        let error = same_release("6.18.40-12-lts-3f2a9c1d+\n", &release).unwrap_err();
        assert!(error.to_string().contains("3f2a9c1d+"), "{error}");
        assert_eq!(error.exit(), Exit::Build);
        assert!(!error.hints().is_empty());
    }
}
