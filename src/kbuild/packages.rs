//! Compiling a guarded configuration into `.deb`s, then judging what is inside them.
//!
//! `bindeb-pkg` resolves the configuration once more, takes names and versions from files and
//! variables, and always makes `linux-libc-dev`. So nothing that goes in proves what comes out: the
//! finished packages are opened and compared with what was guarded and promised.

use std::io::{self, BufReader, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::command::CommandError;
use crate::digest::Sha256;
use crate::dotconfig::DotConfig;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kbuild::compile_log::{self, Cause, Counter};
use crate::kbuild::deb::DebError;
use crate::kbuild::environment::package_version;
use crate::kbuild::estimate::Estimate;
use crate::kbuild::make::{Kbuild, MakeError};
use crate::kconfig::{GuardedConfig, NotGuarded};
use crate::kernel::Release;
use crate::progress::{Event, Progress};
use crate::spec::pipeline::Packages as PackageOptions;

/// Longest that a build may take. Debian's whole configuration needs about 3 hours on two cores.
const DEADLINE: Duration = Duration::from_hours(24);

/// The architecture word of the packages, fixed by `ARCH=x86_64`.
pub(crate) const ARCHITECTURE: &str = "amd64";

/// Why no checked packages came out.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// A make target before compiling failed.
    #[error("the kernel tree could not be prepared for compiling")]
    Make(#[from] MakeError),
    /// A file could not be read or written.
    #[error("failed to keep the build directory")]
    File(#[from] FileError),
    /// The log could not be read.
    #[error("failed to read `{path}`")]
    Log {
        /// The log.
        path: Utf8PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The configuration changed when the package build resolved it, or the one inside the image
    /// package is not the guarded one.
    #[error(transparent)]
    OtherConfig(#[from] NotGuarded),
    /// A program could not be run, or a signal arrived.
    #[error("the package build was stopped")]
    Command(#[source] Box<CommandError>),
    /// Compiling or packaging failed.
    #[error("compiling failed; its first error:\n    {}\n  whole output: {log}", .lines.join("\n    "))]
    Compile {
        /// What kind of error it is.
        cause: Cause,
        /// The first error.
        lines: Vec<String>,
        /// All output.
        log: Utf8PathBuf,
    },
    /// Not the packages that were promised.
    #[error("the package build left {found:?}: expected {expected:?}")]
    Outputs {
        /// Names of `.deb`s.
        found: Vec<String>,
        /// Names of `.deb`s.
        expected: Vec<String>,
    },
    /// The tree generated a key, so no second build can give the same bytes.
    #[error("the build generated a signing key (`{0}`), so no other build can give the same bytes")]
    GeneratedKey(Utf8PathBuf),
    /// A package could not be read.
    #[error(transparent)]
    Deb(#[from] DebError),
    /// Something else in a package is not as promised.
    #[error("{what} of `{package}` is `{found}`: expected `{expected}`")]
    NotAsPromised {
        /// The package.
        package: String,
        /// What was looked at.
        what: &'static str,
        /// What is there.
        found: String,
        /// What was promised.
        expected: String,
    },
    /// A package of an earlier run is not what that run recorded.
    #[error("`{0}` was changed after it was built")]
    Changed(Utf8PathBuf),
}

impl Diagnose for PackagesError {
    fn exit(&self) -> Exit {
        match self {
            Self::Make(source) => source.exit(),
            Self::File(source) => source.exit(),
            Self::Deb(source) => source.exit(),
            Self::OtherConfig(source) => source.exit(),
            Self::Command(source) => source.exit(),
            Self::Compile {
                cause: Cause::Disk | Cause::Memory,
                ..
            } => Exit::NoSpace,
            Self::Compile {
                cause: Cause::MissingProgram,
                ..
            } => Exit::MissingTools,
            Self::Changed(_) => Exit::NotVerified,
            _ => Exit::Build,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Make(source) => source.code(),
            Self::File(source) => source.code(),
            Self::Log { .. } => "file-io",
            Self::Command(source) => source.code(),
            Self::Compile { cause, .. } => match cause {
                Cause::Disk | Cause::Memory => "no-space",
                Cause::MissingProgram => "tool-missing",
                Cause::MissingFile => "compile-missing-file",
                Cause::Refused | Cause::Unknown => "compile-failed",
            },
            Self::Outputs { .. } => "packages-differ",
            Self::GeneratedKey(_) => "generated-key",
            Self::Deb(source) => source.code(),
            Self::OtherConfig(source) => source.code(),
            Self::NotAsPromised { .. } => "package-differs",
            Self::Changed(_) => "package-changed",
        }
    }

    fn hints(&self) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Self::Make(source) => source.hints(),
            Self::File(source) => source.hints(),
            Self::OtherConfig(source) => source.hints(),
            Self::Command(source) => source.hints(),
            Self::Compile { cause, .. } => match cause {
                Cause::Disk => one("free some disk space, then run the same command again"),
                Cause::Memory => {
                    one("run with fewer jobs (`--jobs 1`), or on a machine with more memory")
                }
                Cause::MissingProgram => one("run `kiln doctor --for build --install`"),
                Cause::MissingFile => one(
                    "if it is a key or certificate that the base configuration names, set that \
                     option to \"\" in a fragment",
                ),
                Cause::Refused | Cause::Unknown => Vec::new(),
            },
            Self::GeneratedKey(_) => one("set MODULE_SIG_KEY=\"\" in a fragment"),
            Self::Changed(_) => one("run the build again; the changed packages are not used"),
            _ => Vec::new(),
        }
    }
}

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The configuration.
    pub config: &'a GuardedConfig,
    /// The name of the kernel.
    pub release: &'a Release,
    /// Which packages.
    pub options: PackageOptions,
}

impl Request<'_> {
    /// Names of the packages that must come out, the image first.
    pub(crate) fn names(&self) -> Vec<String> {
        let config = self.config.config();
        names(config, self.release, self.options)
    }
}

fn names(config: &DotConfig, release: &Release, options: PackageOptions) -> Vec<String> {
    let on = |symbol: &str| !config.is_off(symbol);
    let mut names = vec![format!("linux-image-{release}")];
    // `mkdebian` leaves both out where the configuration makes them pointless.
    if options.headers && on("MODULES") {
        names.push(format!("linux-headers-{release}"));
    }
    if options.debug && on("DEBUG_INFO") {
        names.push(format!("linux-image-{release}-dbg"));
    }
    names
}

/// A reason why packages cannot be published although they are what was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Compiled without a sandbox: the host's paths and files were in reach.
    NoSandbox,
    /// Compiled in a tree that already held objects, such as that of a killed build.
    ContinuedTree,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSandbox => "compiled without a sandbox",
            Self::ContinuedTree => "the object tree of a stopped build was continued",
        })
    }
}

/// What the build directory remembers, beside the output and out of reach of the build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    release: Release,
    config: Sha256,
    headers: bool,
    debug: bool,
    fresh: bool,
    /// Empty until the build is finished.
    packages: Vec<Recorded>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    file: String,
    sha256: Sha256,
}

impl State {
    fn path(kbuild: &Kbuild) -> Utf8PathBuf {
        kbuild.dir().join("build.json")
    }

    /// The state that an earlier run left. One that cannot be read counts as that of a killed run.
    fn load(kbuild: &Kbuild) -> Option<Self> {
        let bytes = files::read(&Self::path(kbuild), 1 << 20).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn save(&self, kbuild: &Kbuild) -> Result<(), FileError> {
        let path = Self::path(kbuild);
        let bytes = serde_json::to_vec(self).map_err(|error| FileError::Io {
            action: "describe",
            path: path.clone(),
            source: error.into(),
        })?;
        files::write(&path, &bytes)
    }

    fn is_of(&self, request: &Request<'_>) -> bool {
        self.release == *request.release
            && self.config == request.config.digest()
            && self.headers == request.options.headers
            && self.debug == request.options.debug
    }
}

/// Packages that a build left, not looked into yet.
#[derive(Debug, Clone)]
pub struct Packages {
    files: Vec<Utf8PathBuf>,
    doubts: Vec<Doubt>,
}

/// Compiles and packages.
///
/// The tree of a killed build is continued; the packages then carry [`Doubt::ContinuedTree`].
pub fn build(
    kbuild: &Kbuild,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Packages, PackagesError> {
    let mut state = State {
        release: request.release.clone(),
        config: request.config.digest(),
        headers: request.options.headers,
        debug: request.options.debug,
        fresh: !State::path(kbuild).exists(),
        packages: Vec::new(),
    };
    if !state.fresh {
        progress.event(&Event::Warning(
            "the object tree of an earlier run is continued: the packages cannot be published"
                .to_owned(),
        ));
    }
    // The guarded text must be what the package build's own `olddefconfig` leaves as it is.
    let resolved = kbuild.olddefconfig(request.config.text())?;
    let what = "the object tree, resolved again";
    request.config.check_copy(what, &resolved.text)?;
    kbuild.check_release(request.release, request.options)?;
    clear(kbuild)?;
    state.save(kbuild)?;
    compile(kbuild, request, progress)?;
    let key = kbuild.tree().join("certs/signing_key.pem");
    if key.exists() {
        return Err(PackagesError::GeneratedKey(key));
    }
    let packages = collect(kbuild, request, state.fresh)?;
    for file in &packages.files {
        state.packages.push(Recorded {
            file: file.file_name().unwrap_or_default().to_owned(),
            sha256: files::hash(file)?.0,
        });
    }
    state.save(kbuild)?;
    Ok(packages)
}

/// The packages of an earlier, finished run of the same request, if there are any.
///
/// # Errors
/// Where a package is not the one that the run recorded.
pub fn finished(kbuild: &Kbuild, request: &Request<'_>) -> Result<Option<Packages>, PackagesError> {
    let Some(state) = State::load(kbuild).filter(|state| state.is_of(request)) else {
        return Ok(None);
    };
    if state.packages.is_empty() {
        return Ok(None);
    }
    for recorded in &state.packages {
        let path = kbuild.out().join(&recorded.file);
        if !is_plain(&path) || files::hash(&path)?.0 != recorded.sha256 {
            return Err(PackagesError::Changed(path));
        }
    }
    collect(kbuild, request, state.fresh).map(Some)
}

/// Removes packages that were refused, so that nobody takes them for a result. The object tree
/// stays for whoever looks for the reason; a build that goes on with it is marked.
pub fn discard(kbuild: &Kbuild) -> Result<(), PackagesError> {
    if let Some(mut state) = State::load(kbuild) {
        state.packages.clear();
        state.save(kbuild)?;
    }
    Ok(clear(kbuild)?)
}

/// Removes what an earlier run left beside the tree.
fn clear(kbuild: &Kbuild) -> Result<(), FileError> {
    let out = kbuild.out();
    for name in files::list(&out)? {
        let path = out.join(&name);
        if path != kbuild.tree() {
            files::remove_file(&path)?;
        }
    }
    Ok(())
}

fn compile(
    kbuild: &Kbuild,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<(), PackagesError> {
    let log = kbuild.fresh_log("compile")?;
    let total = Estimate::of(request.config.config()).objects;
    let stop = AtomicBool::new(false);
    let make = kbuild
        .make_for(request.release, request.options, ["bindeb-pkg"])?
        .log(&log)
        .deadline(DEADLINE);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| follow(&log, total, &stop, progress));
        let ran = make.run();
        stop.store(true, Ordering::Release);
        ran
    });
    match ran {
        Ok(_elapsed) => Ok(()),
        Err(CommandError::Failed { .. }) => {
            let first = files::open(&log)
                .map(BufReader::new)
                .map_err(PackagesError::from)
                .and_then(|reader| {
                    compile_log::first_error(reader).map_err(|source| PackagesError::Log {
                        path: log.clone(),
                        source,
                    })
                })?;
            Err(PackagesError::Compile {
                cause: first.cause,
                lines: first.lines,
                log,
            })
        }
        Err(error) => Err(PackagesError::Command(Box::new(error))),
    }
}

/// Reports how many objects the growing log tells of.
fn follow(log: &Utf8Path, total: u64, stop: &AtomicBool, progress: &dyn Progress) {
    let mut counter = Counter::default();
    let mut file = None;
    let mut told = 0;
    let mut piece = Vec::new();
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(200));
        file = file.or_else(|| files::open(log).ok());
        let Some(file) = file.as_mut() else { continue };
        piece.clear();
        // Progress is only for people; a piece that cannot be read now is read the next time.
        let _read = file.take(16 << 20).read_to_end(&mut piece);
        counter.feed(&piece);
        let done = counter.objects();
        if done != told {
            told = done;
            progress.event(&Event::Count {
                what: "objects compiled".to_owned(),
                done,
                // An estimate that turned out too small is not shown as more than all.
                total: (done < total).then_some(total),
            });
        }
    }
}

/// Finds the packages, without the one that is made but never wanted.
fn collect(kbuild: &Kbuild, request: &Request<'_>, fresh: bool) -> Result<Packages, PackagesError> {
    let version = package_version(request.release);
    let file_name = |name: &String| format!("{name}_{version}_{ARCHITECTURE}.deb");
    let expected: Vec<String> = request.names().iter().map(file_name).collect();
    let out = kbuild.out();
    let mut found: Vec<String> = files::list(&out)?
        .into_iter()
        .filter(|name| Utf8Path::new(name).extension() == Some("deb"))
        .collect();
    // Installing it would replace the distribution's headers of the C library.
    for unwanted in found.extract_if(.., |name| name.starts_with("linux-libc-dev_")) {
        files::remove_file(&out.join(unwanted))?;
    }
    let mut wanted = expected.clone();
    wanted.sort();
    if found != wanted || !found.iter().all(|name| is_plain(&out.join(name))) {
        return Err(PackagesError::Outputs { found, expected });
    }
    let mut doubts = Vec::new();
    if !kbuild.is_isolated() {
        doubts.push(Doubt::NoSandbox);
    }
    if !fresh {
        doubts.push(Doubt::ContinuedTree);
    }
    Ok(Packages {
        files: expected.iter().map(|name| out.join(name)).collect(),
        doubts,
    })
}

/// The build runs foreign code: what it left counts only where it is a plain file, since a link
/// could name any file of the host.
fn is_plain(path: &Utf8Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

impl Packages {
    /// Packages that stand in files, the image first.
    pub fn at(files: Vec<Utf8PathBuf>, doubts: Vec<Doubt>) -> Self {
        Self { files, doubts }
    }

    /// The files, the image first.
    pub fn files(&self) -> &[Utf8PathBuf] {
        &self.files
    }

    /// Why they cannot be published; nothing where they can.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        "6.18.40-12-lts-3f2a9c1d".parse().unwrap()
    }

    #[test]
    fn the_packages_follow_options_and_configuration() {
        let full = DotConfig::parse("CONFIG_MODULES=y\nCONFIG_DEBUG_INFO=y\n");
        let none = DotConfig::parse("# CONFIG_MODULES is not set\n");
        let options = PackageOptions {
            headers: true,
            debug: true,
            ..PackageOptions::default()
        };
        assert_eq!(
            names(&full, &release(), options),
            [
                "linux-image-6.18.40-12-lts-3f2a9c1d",
                "linux-headers-6.18.40-12-lts-3f2a9c1d",
                "linux-image-6.18.40-12-lts-3f2a9c1d-dbg",
            ]
        );
        assert_eq!(names(&none, &release(), options).len(), 1);
        let small = PackageOptions {
            headers: false,
            ..PackageOptions::default()
        };
        assert_eq!(names(&full, &release(), small).len(), 1);
    }

    #[test]
    fn a_full_disk_is_not_a_compiler_error() {
        let error = |cause| PackagesError::Compile {
            cause,
            lines: Vec::new(),
            log: "x".into(),
        };
        assert_eq!(error(Cause::Disk).exit(), Exit::NoSpace);
        assert_eq!(error(Cause::Memory).exit(), Exit::NoSpace);
        assert_eq!(error(Cause::Refused).exit(), Exit::Build);
        assert_eq!(error(Cause::MissingProgram).exit(), Exit::MissingTools);
    }
}
