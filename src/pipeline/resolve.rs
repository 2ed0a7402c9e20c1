//! `resolve`: from "the newest release of the series" to a lock, which is written only once all
//! that it names was fetched and verified.

use super::acquire::Acquisition;
use super::locked::{Proven, differences};
use super::part;
use super::session::Session;
use super::workspace::Loaded;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files::{self, Wait};
use crate::kernel::Version;
use crate::proof::lock::{self, Blob, Lock};
use crate::source::mirror::Mirrors;
use crate::source::releases::{Candidates, ReleaseInfo, Releases};
use crate::spec;

/// Largest base config that is read, in bytes.
const BASE_LIMIT: u64 = 4 << 20;

/// What a person may ask of a resolve.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Accept a release older than the lock's.
    pub allow_downgrade: bool,
    /// This release, not the newest one of the series.
    pub version: Option<Version>,
    /// Fetch and verify, and write no lock.
    pub dry_run: bool,
}

/// What a resolve found.
#[derive(Debug)]
pub struct Resolution {
    /// The lock, written unless it was a dry run.
    pub lock: Lock,
    /// The lock before.
    pub previous: Option<Lock>,
    /// What differs from the lock before, in words.
    pub changed: Vec<String>,
    /// The proven source.
    pub source: Acquisition,
    /// Whether kernel.org says that the series has reached its end of life.
    pub end_of_life: bool,
}

/// Why nothing was resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Something offers an older release than the lock has.
    #[error(
        "`{pipeline}` is locked to {locked}, and only {offered} is offered: going backwards may bring fixed bugs back"
    )]
    Downgrade {
        /// The pipeline.
        pipeline: String,
        /// In the lock.
        locked: Version,
        /// What is offered.
        offered: Version,
    },
    /// The pipeline names a version of another series.
    #[error("{version} is not of the series {series} that `{pipeline}` follows")]
    OtherSeries {
        /// The pipeline.
        pipeline: String,
        /// What was asked for.
        version: Version,
        /// What the pipeline follows.
        series: crate::kernel::Series,
    },
    /// The named base config has other bytes.
    #[error(
        "{at}: `{what}` is not the base config that the pipeline names: expected sha256 {expected}, found {found}"
    )]
    Base {
        /// `file:line` in the pipeline.
        at: String,
        /// The file, or the flavour and its package.
        what: String,
        /// In the pipeline.
        expected: Sha256,
        /// Of the file.
        found: Sha256,
    },
}

impl Diagnose for ResolveError {
    fn exit(&self) -> Exit {
        match self {
            Self::Downgrade { .. } => Exit::NotVerified,
            Self::OtherSeries { .. } | Self::Base { .. } => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Downgrade { .. } => "downgrade",
            Self::OtherSeries { .. } => "other-series",
            Self::Base { .. } => "base-digest",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Downgrade { pipeline, offered, .. } => vec![
                "a list of releases that goes backwards may be stale or hostile: compare another mirror".to_owned(),
                format!("to accept {offered}: `kiln resolve {pipeline} --allow-downgrade`"),
            ],
            Self::OtherSeries { .. } => vec!["change `series:` in the pipeline, or ask for another version".to_owned()],
            Self::Base { .. } => vec!["if it was changed on purpose, or the archive has moved on, put its new sha256 into the pipeline".to_owned()],
        }
    }
}

impl Session<'_> {
    /// Resolves a pipeline and writes its lock.
    pub fn resolve(&self, pipeline: &Loaded, options: Options) -> Result<Resolution, Failure> {
        let _exclusive = self.exclusive(
            pipeline.name(),
            &format!("resolve {}", pipeline.name()),
            Wait::UpTo(std::time::Duration::from_mins(10)),
        )?;
        self.resolve_unlocked(pipeline, options)
    }

    /// The same, for a caller that holds the line's lock already.
    pub(super) fn resolve_unlocked(
        &self,
        pipeline: &Loaded,
        options: Options,
    ) -> Result<Resolution, Failure> {
        if self.offline {
            return Err(Failure::usage(
                "`resolve` asks what is offered now, and --offline forbids to ask",
            )
            .hint("leave `--offline` out, or build from the lock that is there"));
        }
        let previous = self.lock_if_any(pipeline)?;
        self.check_inputs(pipeline)?;
        let (offered, end_of_life) = self.offered(pipeline, options)?;
        if let (Some(offered), Some(previous)) = (offered, &previous) {
            refuse_downgrade(pipeline, previous, offered, options)?;
        }
        let source = self.acquire_offered(pipeline, offered.as_ref())?;
        let version = *source.tarball.version();
        check_series(pipeline, version)?;
        if let Some(previous) = &previous {
            refuse_downgrade(pipeline, previous, version, options)?;
        }
        let (base, bytes) = self.base_config(pipeline)?;
        let root = self.offered_root(pipeline)?;
        let proven = Proven {
            version,
            source: source.facts.clone(),
            source_date_epoch: source.tarball.source_date_epoch(),
            base,
            root,
        };
        let mut lock = Lock::new(self.inputs(pipeline, proven)?, previous.as_ref())?;
        if part::locked(&lock).is_none() && !options.dry_run {
            lock.configuration = Some(self.keep_part(&source.tarball)?);
        }
        let changed = previous
            .as_ref()
            .map_or_else(Vec::new, |old| differences(&old.inputs, &lock.inputs));
        if !options.dry_run {
            self.write_lock(pipeline, &lock, bytes.as_deref())?;
        }
        Ok(Resolution {
            lock,
            previous,
            changed,
            source,
            end_of_life,
        })
    }

    /// The release to take, where the source has releases, and whether the series is at its end.
    fn offered(
        &self,
        pipeline: &Loaded,
        options: Options,
    ) -> Result<(Option<Version>, bool), Failure> {
        let progress = self.progress;
        let series = pipeline.spec.series.value;
        if matches!(pipeline.spec.source.value, spec::Source::Debian { .. }) {
            return match options.version {
                None => Ok((None, false)),
                Some(_) => Err(Failure::usage(
                    "--version names a release of kernel.org, and this pipeline's source comes from apt",
                )),
            };
        }
        if let Some(version) = options.version {
            check_series(pipeline, version)?;
            return Ok((Some(version), self.has_ended(pipeline)?));
        }
        progress.started("resolve", format!("the newest release of {series}"));
        let (chosen, address) = self.newest(pipeline)?;
        progress.done("resolve", format!("{} (from {address})", chosen.version));
        Ok((Some(chosen.version), chosen.eol))
    }

    /// The newest release of the series, and the address of the list that says so. That no other
    /// will follow is told.
    fn newest(&self, pipeline: &Loaded) -> Result<(ReleaseInfo, String), Failure> {
        let series = pipeline.spec.series.value;
        let read = |mirrors: &Mirrors| mirrors.releases(self.progress);
        let (text, served) = self.with_mirrors(pipeline, read)?;
        let releases = Releases::parse(&served.address, &text)?;
        let newest = releases.choose(series, Candidates::No)?.clone();
        if newest.eol {
            self.progress.warning(format!(
                "{series} has reached its end of life: {} is its last release, and no fix will follow",
                newest.version
            ));
        }
        Ok((newest, served.address))
    }

    /// Whether the series is at its end, for a version that needs no list to be found: a list that
    /// does not say it is no obstacle.
    fn has_ended(&self, pipeline: &Loaded) -> Result<bool, Failure> {
        match self.newest(pipeline) {
            Ok((newest, _address)) => Ok(newest.eol),
            Err(stopped) if matches!(stopped.exit, Exit::Interrupted | Exit::Terminated) => {
                Err(stopped)
            }
            Err(error) => {
                let series = pipeline.spec.series.value;
                self.progress.note(format!(
                    "whether {series} has reached its end of life is not known: {}",
                    error.message
                ));
                Ok(false)
            }
        }
    }

    /// The base config that the pipeline names: what a lock keeps of it, and its bytes.
    fn base_config(&self, pipeline: &Loaded) -> Result<(lock::Base, Option<Vec<u8>>), Failure> {
        let base = &pipeline.spec.config.base;
        match &base.value {
            spec::Base::Debian {
                package,
                flavour,
                sha256,
            } => {
                self.progress
                    .started("base config", format!("{flavour} of {package} through apt"));
                let found = self.debian().base_config(package, flavour, None)?;
                if let Some(expected) = sha256 {
                    let what = format!("{flavour} of {package}");
                    check_base(pipeline, &what, *expected, Sha256::of(&found.bytes))?;
                }
                self.progress.done(
                    "base config",
                    format!("{} bytes, kept beside the lock", found.bytes.len()),
                );
                Ok((found.facts, Some(found.bytes)))
            }
            spec::Base::File { path, sha256, .. } => {
                let bytes = files::read(&self.workspace.root().join(path), BASE_LIMIT)?;
                let found = Sha256::of(&bytes);
                check_base(pipeline, path.as_str(), *sha256, found)?;
                let config = Blob {
                    sha256: found,
                    bytes: bytes.len() as u64,
                };
                Ok((
                    lock::Base::File {
                        path: path.to_string(),
                        config,
                    },
                    Some(bytes),
                ))
            }
            spec::Base::Target(target) => Ok((
                lock::Base::Target {
                    target: target.clone(),
                },
                None,
            )),
        }
    }
}

/// Compares the base config `what` with the digest that the pipeline names.
fn check_base(
    pipeline: &Loaded,
    what: &str,
    expected: Sha256,
    found: Sha256,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let line = pipeline.spec.config.base.referenced.line();
    Err(ResolveError::Base {
        at: format!("{}:{line}", pipeline.file),
        what: what.to_owned(),
        expected,
        found,
    }
    .into())
}

fn check_series(pipeline: &Loaded, version: Version) -> Result<(), Failure> {
    let series = pipeline.spec.series.value;
    if version.series == series {
        return Ok(());
    }
    Err(ResolveError::OtherSeries {
        pipeline: pipeline.name().to_owned(),
        version,
        series,
    }
    .into())
}

fn refuse_downgrade(
    pipeline: &Loaded,
    previous: &Lock,
    offered: Version,
    options: Options,
) -> Result<(), Failure> {
    let locked = previous.inputs.version;
    // Another series is the pipeline's own decision, not something that was offered.
    if options.allow_downgrade || offered >= locked || locked.series != offered.series {
        return Ok(());
    }
    Err(ResolveError::Downgrade {
        pipeline: pipeline.name().to_owned(),
        locked,
        offered,
    }
    .into())
}
