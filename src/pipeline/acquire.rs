//! `fetch` and `verify`: the source that a pipeline names, proven in this process.

use std::collections::BTreeSet;

use camino::Utf8Path;

use super::locked::{check_facts, check_source};
use super::session::Session;
use super::workspace::Loaded;
use crate::digest::Fingerprint;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::kernel::Version;
use crate::proof::lock::{self, Inputs, Lock};
use crate::sandbox::Isolation;
use crate::source::debian::{Debian, DebianError, LockedSource};
use crate::source::kernel_org::{AcquireError, Acquired, KernelOrg, LockedRelease, archive_path};
use crate::source::keyring::Keyring;
use crate::source::mirror::Mirrors;
use crate::source::signature::VerifiedTarball;
use crate::spec::{self, Spanned};

/// Largest lock that is read, in bytes.
const LOCK_LIMIT: u64 = 4 << 20;

/// A proven source and what a lock keeps of it.
#[derive(Debug)]
pub struct Acquisition {
    /// The proof.
    pub tarball: VerifiedTarball,
    /// What a lock keeps.
    pub facts: lock::Source,
    /// How it was signed anew since it was locked.
    pub resigned: Option<String>,
}

/// The certificates of a pipeline, by role.
struct Keys {
    release: Keyring,
    checksums: Option<Keyring>,
}

impl Session<'_> {
    /// Fetches and proves the source of a lock, and nothing but that source.
    pub fn acquire_locked(&self, pipeline: &Loaded, lock: &Lock) -> Result<Acquisition, Failure> {
        let inputs = &lock.inputs;
        check_source(pipeline, inputs)?;
        let found = match &inputs.source {
            lock::Source::KernelOrg { .. } => {
                let locked = LockedRelease::of(&inputs.source);
                self.kernel_org(pipeline, &inputs.version, |kernel_org| {
                    kernel_org.acquire(&inputs.version, locked)
                })
            }
            lock::Source::Debian { package, .. } => {
                self.refuse_offline(pipeline, &inputs.source)?;
                self.debian_source(pipeline, package, locked_source(inputs))
            }
        }?;
        let made = found.tarball.source_date_epoch();
        check_facts(
            pipeline,
            inputs,
            (&found.facts, made),
            found.resigned.is_some(),
        )?;
        Ok(found)
    }

    /// Fetches and proves what is offered now: `version` of kernel.org, or the package that apt
    /// would install.
    pub fn acquire_offered(
        &self,
        pipeline: &Loaded,
        version: Option<&Version>,
    ) -> Result<Acquisition, Failure> {
        match (&pipeline.spec.source.value, version) {
            (spec::Source::Debian { package }, _) => {
                let known = self.known_debian_source(package)?;
                let locked = known.as_ref().and_then(locked_source);
                self.debian_source(pipeline, package, locked)
            }
            (spec::Source::KernelOrg {} | spec::Source::Dir(_), Some(version)) => {
                let wanted = archive_path(version);
                let known = self.known(|source| {
                    matches!(source, lock::Source::KernelOrg { path, .. } if *path == wanted)
                })?;
                let known = known.as_ref().map(|inputs| &inputs.source);
                self.kernel_org(pipeline, version, |kernel_org| {
                    match known.and_then(LockedRelease::of) {
                        // A new signature is among the differences that a resolve tells.
                        Some(known) => Ok(Acquired {
                            resigned: None,
                            ..kernel_org.acquire_offered(version, known)?
                        }),
                        None => kernel_org.acquire(version, None),
                    }
                })
            }
            (spec::Source::KernelOrg {} | spec::Source::Dir(_), None) => Err(Failure::unexpected(
                "a release of kernel.org was asked for without a version",
            )),
        }
    }

    /// Makes a directory in kernel.org's layout out of a locked release.
    pub fn export(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        directory: &Utf8Path,
    ) -> Result<Vec<camino::Utf8PathBuf>, Failure> {
        check_source(pipeline, &lock.inputs)?;
        let Some(locked) = LockedRelease::of(&lock.inputs.source) else {
            return Err(Failure::usage(format!(
                "`{}` takes its source from apt: only a source in kernel.org's layout can become a mirror",
                pipeline.file
            )));
        };
        let keys = self.keys(pipeline)?;
        self.with_kernel_org(pipeline, &keys, |kernel_org| {
            let acquired = kernel_org.acquire(&lock.inputs.version, Some(locked))?;
            kernel_org.export(&acquired, None, directory)
        })
    }

    /// The mirrors of a pipeline: its directory, or those of the workspace.
    pub fn with_mirrors<T>(&self, pipeline: &Loaded, work: impl FnOnce(&Mirrors) -> T) -> T {
        match &pipeline.spec.source.value {
            spec::Source::Dir(path) => work(&Mirrors::directory(&self.workspace.root().join(path))),
            _ => work(self.mirrors),
        }
    }

    fn kernel_org(
        &self,
        pipeline: &Loaded,
        version: &Version,
        acquire: impl FnOnce(&KernelOrg<'_>) -> Result<Acquired, AcquireError>,
    ) -> Result<Acquisition, Failure> {
        let progress = self.progress;
        progress.started("fetch", format!("{} and its signature", version.stem()));
        let keys = self.keys(pipeline)?;
        let acquired: Acquired = self.with_kernel_org(pipeline, &keys, acquire)?;
        if let Some(resigned) = &acquired.resigned {
            progress.warning(format!(
                "{resigned}; `kiln resolve {}` takes it into the lock",
                pipeline.name()
            ));
        }
        if let lock::Source::KernelOrg {
            signature,
            tar,
            checksums,
            ..
        } = &acquired.facts
        {
            let list = if *checksums {
                "and sha256sums.asc agree"
            } else {
                "(no checksums role is set)"
            };
            progress.done(
                "fetch",
                format!(
                    "signed by {} {list}; tar sha256 {}",
                    signature.signer, tar.sha256
                ),
            );
        }
        Ok(Acquisition {
            tarball: acquired.tarball,
            facts: acquired.facts,
            resigned: acquired.resigned.map(|resigned| resigned.to_string()),
        })
    }

    fn with_kernel_org<T>(
        &self,
        pipeline: &Loaded,
        keys: &Keys,
        work: impl FnOnce(&KernelOrg<'_>) -> Result<T, AcquireError>,
    ) -> Result<T, Failure> {
        let result = self.with_mirrors(pipeline, |mirrors| {
            work(&KernelOrg {
                mirrors,
                release_keys: &keys.release,
                checksum_keys: keys.checksums.as_ref(),
                store: &self.store,
                worker: &self.worker,
                isolation: &self.isolation,
                progress: self.progress,
            })
        });
        result.map_err(|error| {
            let accepts = match &error {
                AcquireError::NoLongerServed { .. } => Some("to lock what is served now"),
                AcquireError::NotLocked { .. } => Some("to accept it, once you know why"),
                _ => None,
            };
            with_resolve(error.into(), pipeline, accepts)
        })
    }

    fn debian_source(
        &self,
        pipeline: &Loaded,
        package: &str,
        locked: Option<LockedSource<'_>>,
    ) -> Result<Acquisition, Failure> {
        self.progress
            .started("fetch", format!("{package} through apt"));
        let stored = locked.is_some_and(|locked| self.store.has(&locked.tar.sha256));
        let found = self.debian().source(package, locked).map_err(|error| {
            let moved_on = matches!(error, DebianError::NotServed { .. });
            let accepts = moved_on.then_some("to lock what is served now");
            with_resolve(error.into(), pipeline, accepts)
        })?;
        if let lock::Source::Debian { version, tar, .. } = &found.facts {
            let proof = if stored {
                "the bytes that the lock names"
            } else {
                "which apt's signed index names"
            };
            let note = format!("{version}, {proof}; tar sha256 {}", tar.sha256);
            self.progress.done("fetch", note);
        }
        Ok(Acquisition {
            tarball: found.tarball,
            facts: found.facts,
            resigned: None,
        })
    }

    /// Inputs of a lock of this workspace whose source is the very package that apt offers now: its
    /// tar is known then, and need not be decompressed to learn its digest.
    fn known_debian_source(&self, package: &str) -> Result<Option<Inputs>, Failure> {
        let offered = self.debian().offered(package)?;
        self.known(|source| {
            matches!(
                source,
                lock::Source::Debian { package: known, version, deb, .. }
                    if known == package && (version, deb) == (&offered.0, &offered.1)
            )
        })
    }

    /// Inputs of a lock of this workspace with such a source.
    fn known(&self, such: impl Fn(&lock::Source) -> bool) -> Result<Option<Inputs>, Failure> {
        if !self.locks.is_dir() {
            return Ok(None);
        }
        for name in files::list(&self.locks)? {
            if !name.ends_with(".lock.json") {
                continue;
            }
            // Another pipeline's lock that cannot be read is not this one's trouble.
            let Ok(text) = files::read_text(&self.locks.join(&name), LOCK_LIMIT) else {
                continue;
            };
            if let Ok(lock) = Lock::parse(&name, &text)
                && such(&lock.inputs.source)
            {
                return Ok(Some(lock.inputs));
            }
        }
        Ok(None)
    }

    /// Debian's packages through this host's apt.
    pub(super) fn debian(&self) -> Debian<'_> {
        Debian {
            store: &self.store,
            worker: &self.worker,
            isolation: &self.isolation,
            progress: self.progress,
        }
    }

    fn keys(&self, pipeline: &Loaded) -> Result<Keys, Failure> {
        let pins = |list: &[Spanned<Fingerprint>]| {
            list.iter()
                .map(|pin| pin.value.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        };
        let directory = self.workspace.keys();
        let spec = &pipeline.spec.keys;
        let checksums = if spec.checksums.is_empty() {
            None
        } else {
            Some(Keyring::load(&directory, &pins(&spec.checksums))?)
        };
        Ok(Keys {
            release: Keyring::load(&directory, &pins(&spec.release))?,
            checksums,
        })
    }

    /// apt may not be asked for a package that is not in the store: mirrors refuse by themselves.
    fn refuse_offline(&self, pipeline: &Loaded, source: &lock::Source) -> Result<(), Failure> {
        if !self.offline || self.store.has(&source.tar().sha256) {
            return Ok(());
        }
        Err(Failure {
            exit: Exit::Network,
            code: "offline",
            ..Failure::usage(format!(
                "the source (tar sha256 {}) is not in the store, and --offline forbids to fetch it",
                source.tar().sha256
            ))
        }
        .hint(format!(
            "run `kiln fetch {}` once with a network, or leave `--offline` out",
            pipeline.name()
        )))
    }

    /// What a run's record says where no sandbox can be had.
    pub fn isolation_doubt(&self) -> Option<String> {
        match &self.isolation {
            Isolation::Bubblewrap { .. } => None,
            Isolation::None { reason, .. } => Some(format!(
                "no sandbox: {}",
                reason.lines().next().unwrap_or_default()
            )),
        }
    }
}

/// A failure that a new lock would end, with the command that makes one.
fn with_resolve(failure: Failure, pipeline: &Loaded, accepts: Option<&str>) -> Failure {
    match accepts {
        Some(purpose) => failure.hint(format!("run `kiln resolve {}` {purpose}", pipeline.name())),
        None => failure,
    }
}

/// What the inputs of a lock say of a Debian source.
fn locked_source(inputs: &Inputs) -> Option<LockedSource<'_>> {
    match &inputs.source {
        lock::Source::Debian {
            version, deb, tar, ..
        } => Some(LockedSource {
            version,
            deb,
            tar,
            made: inputs.source_date_epoch,
        }),
        lock::Source::KernelOrg { .. } => None,
    }
}
