//! `build`: every stage from a lock to checked packages and their manifest.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::answers::Asked;
use super::configure::Configured;
use super::needs::{self, Purpose};
use super::resolve;
use super::run::{self, Run};
use super::session::Session;
use super::sign::Signing;
use super::statements::{self, Signed};
use super::workspace::Loaded;
use crate::command::Tool;
use crate::digest::Sha256;
use crate::failure::{Diagnose as _, Exit, Failure};
use crate::files::{self, Wait};
use crate::kbuild::make::Kbuild;
use crate::kbuild::preflight;
use crate::kbuild::{CheckedPackages, packages};
use crate::kconfig::{GuardReport, GuardedConfig};
use crate::proof::envelope::Envelope;
use crate::proof::lock::Lock;
use crate::proof::manifest::{Manifest, Package};
use crate::proof::sbom;
use crate::source::unpack::{Select, SourceTree, partial, unpack};

/// Name of the stage that compiles and packages.
const COMPILE: &str = "compile";

/// How long a second run on the same line waits for the first one.
pub(super) const PATIENCE: Duration = Duration::from_hours(6);

/// Largest manifest that is read, in bytes.
const MANIFEST_LIMIT: u64 = 16 << 20;

/// Programs of the host whose versions decide the bytes of a build.
const TOOLCHAIN: [&str; 5] = ["gcc", "ld", "make", "pahole", "dpkg-deb"];

/// What a person may ask of a build.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Refuse to write a new lock where the workspace's files changed since it was made.
    pub locked: bool,
    /// Build even where the same inputs were built before.
    pub again: bool,
    /// Keep the object tree afterwards.
    pub keep: bool,
    /// Leave the manifest unsigned although signers are configured.
    pub unsigned: bool,
}

/// A finished build.
#[derive(Debug)]
pub struct Built {
    /// Its manifest.
    pub manifest: Manifest,
    /// Directory of the run that made it: packages, manifest, report, resolved config.
    pub directory: Utf8PathBuf,
    /// Whether an earlier run made it from the same inputs.
    pub reused: bool,
    /// Why it may not be published; empty for a clean build in a pinned root.
    pub doubts: Vec<String>,
    /// How long compiling and packaging took, where the run's record says it.
    pub compiled_in: Option<Duration>,
    /// Who signed the manifest and counts today, or why nobody did.
    pub signed: Signed,
}

impl Built {
    /// Where a package is.
    pub fn package(&self, package: &Package) -> Utf8PathBuf {
        self.directory.join("packages").join(&package.file)
    }
}

impl Session<'_> {
    /// Builds a pipeline, or finds that its inputs were built before. `judged` is told the guard's
    /// answer, whatever it is, before anything is compiled.
    pub fn build(
        &self,
        pipeline: &Loaded,
        options: Options,
        judged: &dyn Fn(&GuardReport),
    ) -> Result<Built, Failure> {
        let purpose = format!("build {}", pipeline.name());
        let _exclusive = self.exclusive(pipeline.name(), &purpose, Wait::UpTo(PATIENCE))?;
        // Before anything is compiled: a key that cannot sign is better known now.
        let signing = statements::signing(self, options.unsigned)?;
        let lock = self.current_lock(pipeline, options)?;
        if !options.again
            && let Some(built) = self.built_before(&lock, &signing)?
        {
            return Ok(built);
        }
        let run = Run::begin(
            &self.workspace.runs(),
            "build",
            pipeline.name(),
            self.progress,
        )?;
        run.building(lock.input_digest, &lock.release().to_string())?;
        run.programs(needs::programs(Purpose::Build))?;
        let result =
            self.listening(&run)
                .stages(pipeline, &lock, &run, (options, &signing), judged);
        run.end(&result)?;
        result
    }

    /// The lock to build from: the committed one, one carried over to changed files, or a new one.
    pub(super) fn current_lock(
        &self,
        pipeline: &Loaded,
        options: Options,
    ) -> Result<Lock, Failure> {
        let Some(lock) = self.lock_if_any(pipeline)? else {
            if options.locked {
                return self.lock(pipeline);
            }
            return Ok(self
                .resolve_unlocked(pipeline, resolve::Options::default())?
                .lock);
        };
        let (inputs, changed) = self.carry_over(pipeline, &lock)?;
        if changed.is_empty() {
            return Ok(lock);
        }
        if options.locked {
            let pipeline = pipeline.name().to_owned();
            return Err(super::locked::LockedError::Frozen { pipeline, changed }.into());
        }
        let lock = Lock::new(inputs, Some(&lock))?;
        self.write_lock(pipeline, &lock, None)?;
        self.progress.note(format!(
            "wrote {} anew: {}",
            self.workspace.shown(&self.lock_path(pipeline)),
            changed.join(", ")
        ));
        Ok(lock)
    }

    /// The build of the same inputs with the same toolchain, where its files are still what its
    /// manifest says. The manifest is written last, so a run that has one is whole, however it
    /// ended. Where this build would be signed, that one must be, by a key that counts: what was
    /// read back is never signed.
    fn built_before(&self, lock: &Lock, signing: &Signing) -> Result<Option<Built>, Failure> {
        let (past, _unreadable) = run::list(&self.workspace.runs())?;
        let same = past.into_iter().rev().filter(|past| {
            past.record.verb == "build" && past.record.input_digest == Some(lock.input_digest)
        });
        for past in same {
            let Some((manifest, envelope)) = intact(&past.directory, lock) else {
                continue;
            };
            let signed = statements::signed(self.workspace, &envelope, signing)?;
            if matches!(signed, Signed::Nobody(_)) && !signing.is_empty() {
                self.progress
                    .note("the same inputs were built before, but not signed by a key that counts");
                continue;
            }
            if manifest.toolchain == toolchain(lock)? {
                let compiled_in = past.record.took(COMPILE);
                return Ok(Some(Built {
                    manifest,
                    directory: past.directory,
                    reused: true,
                    doubts: past.record.doubts,
                    compiled_in,
                    signed,
                }));
            }
        }
        Ok(None)
    }

    fn stages(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        run: &Run<'_>,
        (options, signing): (Options, &Signing),
        judged: &dyn Fn(&GuardReport),
    ) -> Result<Built, Failure> {
        if lock.inputs.root.pinned().is_none() {
            run.doubt("build root `host`: the host's own tools, not a pinned root");
        }
        if let Some(doubt) = self.isolation_doubt() {
            run.doubt(doubt);
        }
        let work = self.work_directory(lock)?;
        let source = self.acquire_locked(pipeline, lock)?;
        if let Some(resigned) = &source.resigned {
            run.doubt(format!("{resigned}, and the manifest names the locked one"));
        }
        let tree =
            self.source_tree(pipeline, &source.tarball, &work.join("source"), Select::All)?;
        let directory = work.join("build");
        let made = self
            .configure(pipeline, lock, &tree, &directory, Asked::Both)
            .and_then(|configured| {
                judged(&configured.report);
                self.make(pipeline, lock, &tree, configured, run)
            });
        // What the programs said is wanted most where they failed; that failure goes first.
        let kept = keep_logs(&directory, &run.logs());
        let (guarded, checked) = made?;
        kept?;
        for doubt in checked.doubts() {
            run.doubt(doubt.to_string());
        }
        let manifest = self.finish(pipeline, lock, (&guarded, &checked), run)?;
        let signed = statements::write(self, run, &manifest, signing)?;
        if !options.keep {
            self.discard(&work)?;
        }
        Ok(Built {
            manifest,
            directory: run.directory().to_owned(),
            reused: false,
            doubts: run.doubts(),
            compiled_in: run.took(COMPILE),
            signed,
        })
    }

    /// From the guard's answer to checked packages.
    fn make(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        tree: &SourceTree,
        configured: Configured,
        run: &Run<'_>,
    ) -> Result<(GuardedConfig, CheckedPackages), Failure> {
        keep_report(&configured, run.directory())?;
        let Configured { report, kbuild, .. } = configured;
        let guarded = report.into_guarded()?;
        let (release, options) = (lock.release(), pipeline.spec.packages);
        for target in ["olddefconfig", "bindeb-pkg"] {
            run.runs(kbuild.make_for(&release, options, [target])?.line());
        }
        let checked = self.compile(pipeline, lock, tree, &guarded, &kbuild)?;
        Ok((guarded, checked))
    }

    /// Compiles the guarded configuration into packages, and checks what is inside them.
    fn compile(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        tree: &SourceTree,
        guarded: &GuardedConfig,
        kbuild: &Kbuild,
    ) -> Result<CheckedPackages, Failure> {
        let progress = self.progress;
        let release = lock.release();
        let options = pipeline.spec.packages;
        progress.started("preflight", "what would fail later");
        let estimate = preflight::check(&preflight::Plan {
            config: guarded.config(),
            release: &release,
            source: tree.path(),
            dir: kbuild.dir(),
            jobs: u64::from(self.jobs.get()),
            root: kbuild.root(),
        })?;
        progress.done(
            "preflight",
            format!(
                "about {} objects, {} MiB of disk, {} MiB of memory, {} CPU minutes",
                estimate.objects,
                estimate.disk_bytes >> 20,
                estimate.memory_bytes >> 20,
                estimate.cpu_seconds.div_ceil(60)
            ),
        );
        let request = packages::Request {
            config: guarded,
            release: &release,
            options,
        };
        let checked = self.checked_packages(kbuild, &request);
        if let Err(error) = &checked
            && matches!(error.exit(), Exit::Guard | Exit::Build | Exit::NotVerified)
        {
            packages::discard(kbuild)?;
        }
        Ok(checked?)
    }

    fn checked_packages(
        &self,
        kbuild: &Kbuild,
        request: &packages::Request<'_>,
    ) -> Result<CheckedPackages, packages::PackagesError> {
        let progress = self.progress;
        let packages = if let Some(packages) = packages::finished(kbuild, request)? {
            progress.note("the packages of a stopped build of the same inputs are complete");
            packages
        } else {
            progress.started(COMPILE, request.release.to_string());
            let packages = packages::build(kbuild, request, progress)?;
            progress.done(COMPILE, format!("{} packages", packages.files().len()));
            packages
        };
        progress.started(
            "check packages",
            "the configuration inside the image package",
        );
        let checked = packages.check(request, &self.isolation)?;
        progress.done(
            "check packages",
            format!("sha256 {} in all copies", checked.config()),
        );
        Ok(checked)
    }

    /// Moves the checked packages to the run, with their bill of materials, and makes their manifest.
    fn finish(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        (guarded, checked): (&GuardedConfig, &CheckedPackages),
        run: &Run<'_>,
    ) -> Result<Manifest, Failure> {
        let directory = run.directory().to_owned();
        let mut packages = Vec::new();
        for package in checked.packages() {
            let file = package.file.file_name().unwrap_or_default().to_owned();
            files::copy(
                &package.file,
                &directory.join("packages").join(&file),
                Some(&package.sha256),
            )?;
            packages.push(Package {
                name: package.name.clone(),
                version: package.version.clone(),
                architecture: package.architecture.to_owned(),
                file,
                bytes: package.bytes,
                sha256: package.sha256,
            });
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        let (toolchain, config) = (toolchain(lock)?, guarded.digest());
        let sbom = sbom::document(lock, &packages, &config, &toolchain)?;
        files::write(&directory.join(statements::SBOM), &sbom)?;
        Ok(Manifest {
            release: lock.release(),
            lock: lock.clone(),
            workspace: self.carried(pipeline, lock)?,
            packages,
            config,
            guard_report: guarded.report_digest(),
            sbom: Sha256::of(&sbom),
            toolchain,
            unsigned_modules: checked.modules().signed < checked.modules().count,
            unsigned_image: !checked.secure_boot_signed(),
        })
    }

    /// The directory that this line compiles in. An object tree of the same inputs is continued,
    /// which its packages are marked for; any other is removed.
    fn work_directory(&self, lock: &Lock) -> Result<Utf8PathBuf, Failure> {
        let work = self
            .workspace
            .dot_kiln()
            .join("work")
            .join(lock.inputs.line.as_str());
        let marker = work.join("inputs");
        let digest = lock.input_digest.to_string();
        if !files::read_text(&marker, 100).is_ok_and(|text| text == digest) {
            self.discard(&work)?;
        }
        // Unpacked anew in any case: a tree on disk proves nothing.
        self.discard(&work.join("source"))?;
        files::create_dir_all(&work)?;
        files::write(&marker, digest.as_bytes())?;
        Ok(work)
    }

    /// Unpacks a proven tarball.
    pub(super) fn unpack(
        &self,
        tarball: &crate::source::signature::VerifiedTarball,
        destination: &Utf8Path,
        select: Select,
    ) -> Result<SourceTree, Failure> {
        self.progress.started(
            "unpack",
            format!("{} bytes of {}", tarball.bytes(), tarball.prefix()),
        );
        let tree = unpack(
            tarball,
            destination,
            select,
            &self.worker,
            &self.isolation,
            self.progress,
        );
        if tree.is_err() {
            self.discard(&partial(destination))?;
        }
        let tree = tree?;
        self.progress.done(
            "unpack",
            format!("the bytes that were verified (sha256 {})", tarball.sha256()),
        );
        Ok(tree)
    }
}

/// Name of the resolved configuration in a run's directory.
pub(super) const RESOLVED: &str = "resolved.config";

/// Name of what was asked for it in a run's directory.
pub(super) const INTENT: &str = "intent.json";

/// Name of the manifest in a run's directory.
pub const MANIFEST: &str = "manifest.json";

/// The manifest in a run's directory, if there is one that can be read, and its envelope. Not
/// verified: whoever may write there may have written it.
pub(super) fn manifest_in(directory: &Utf8Path) -> Option<(Manifest, Envelope)> {
    let path = directory.join(MANIFEST);
    let text = files::read_text(&path, MANIFEST_LIMIT).ok()?;
    let envelope = Envelope::parse(path.as_str(), &text).ok()?;
    let payload = envelope.payload_of(path.as_str(), "manifest").ok()?;
    let manifest = Manifest::parse(path.as_str(), &payload).ok()?;
    Some((manifest, envelope))
}

/// The manifest in a run's directory, if it is that of `lock` and every package is what it says.
fn intact(directory: &Utf8Path, lock: &Lock) -> Option<(Manifest, Envelope)> {
    let (manifest, envelope) = manifest_in(directory)?;
    let whole = |package: &Package| {
        files::hash(&directory.join("packages").join(&package.file))
            .is_ok_and(|(sha256, bytes)| (sha256, bytes) == (package.sha256, package.bytes))
    };
    // One that carries nothing cannot be built again from alone, as every manifest now can.
    if manifest.workspace.is_empty() {
        return None;
    }
    // What a lock has learnt of its source since is no other input.
    let same = (manifest.lock.build, &manifest.lock.inputs) == (lock.build, &lock.inputs);
    (same && manifest.packages.iter().all(whole)).then_some((manifest, envelope))
}

/// Versions of the host's programs that decide the bytes; none in a pinned root, whose packages
/// the lock names.
fn toolchain(lock: &Lock) -> Result<BTreeMap<String, String>, Failure> {
    let mut versions = BTreeMap::new();
    if lock.inputs.root.pinned().is_some() {
        return Ok(versions);
    }
    for name in TOOLCHAIN {
        // pahole is only needed for some configurations.
        if let Ok(tool) = Tool::find(name) {
            versions.insert(name.to_owned(), tool.version()?);
        }
    }
    Ok(versions)
}

/// Copies the logs of programs to the run, before the object tree may go.
fn keep_logs(from: &Utf8Path, to: &Utf8Path) -> Result<(), Failure> {
    if !from.is_dir() {
        return Ok(());
    }
    for name in files::list(from)? {
        let path = from.join(&name);
        if path.extension() == Some("log") {
            files::copy(&path, &to.join(name), None)?;
        }
    }
    Ok(())
}

/// Keeps what the guard saw and said, whatever its verdict is.
pub(super) fn keep_report(configured: &Configured, directory: &Utf8Path) -> Result<(), Failure> {
    let report = serde_json::to_vec_pretty(&configured.report).map_err(|error| {
        Failure::unexpected(format!("the guard's report cannot be written: {error}"))
    })?;
    files::write(&directory.join("guard-report.json"), &report)?;
    let intent = serde_json::to_vec(&configured.intent()).map_err(|error| {
        Failure::unexpected(format!("what was asked cannot be written: {error}"))
    })?;
    files::write(&directory.join(INTENT), &intent)?;
    files::write(
        &directory.join(RESOLVED),
        configured.report.config().text().as_bytes(),
    )?;
    files::write(
        &directory.join("merged.config"),
        configured.merged.text().as_bytes(),
    )?;
    Ok(())
}
