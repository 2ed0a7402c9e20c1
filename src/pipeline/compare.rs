//! `config diff`: the configurations of two pipelines, locks or manifests, compared by what they
//! were meant to be.

use camino::{Utf8Path, Utf8PathBuf};

use super::answers::Asked;
use super::build::{INTENT, RESOLVED};
use super::check_config::Trial;
use super::session::Session;
use crate::digest::Sha256;
use crate::dotconfig::DotConfig;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::kconfig::{Difference, Intent, compare};
use crate::proof::envelope::Envelope;
use crate::proof::lock::Lock;
use crate::proof::manifest::Manifest;

/// Largest file that is read, in bytes.
const LIMIT: u64 = 16 << 20;

/// One of the two configurations.
#[derive(Debug)]
pub struct Side {
    /// How it was named.
    pub name: String,
    /// What it was meant to be.
    pub intent: Intent,
    config: DotConfig,
}

/// Two configurations, and where they differ.
#[derive(Debug)]
pub struct Compared {
    /// The first.
    pub from: Side,
    /// The second.
    pub to: Side,
    /// Where they differ.
    pub differences: Vec<Difference>,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The files of today are not those of the lock.
    #[error(
        "`{lock}` cannot be configured again with the files of this workspace: other since then are {}",
        .changed.join(", ")
    )]
    FilesChanged {
        /// The lock.
        lock: String,
        /// What changed.
        changed: Vec<String>,
    },
    /// The configuration of a build is gone or another.
    #[error(
        "`{path}` is not the configuration of the manifest beside it: expected sha256 {expected}, found {found}"
    )]
    OtherConfig {
        /// The file.
        path: Utf8PathBuf,
        /// In the manifest.
        expected: Sha256,
        /// Of the file.
        found: Sha256,
    },
    /// Nothing says what was asked.
    #[error("`{0}` does not say what was asked for this build")]
    NoIntent(Utf8PathBuf),
}

impl Diagnose for CompareError {
    fn exit(&self) -> Exit {
        match self {
            Self::OtherConfig { .. } => Exit::NotVerified,
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::FilesChanged { .. } => "lock-behind",
            Self::OtherConfig { .. } => "config-changed",
            Self::NoIntent(_) => "intent-absent",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::FilesChanged { .. } => vec![
                "check out the commit that the lock is from, and build or compare there; the \
                 manifest of a build can be compared anywhere"
                    .to_owned(),
            ],
            Self::OtherConfig { .. } => vec!["build it again with `kiln build`".to_owned()],
            Self::NoIntent(_) => vec![
                "manifests are compared where they were built: name that of a run (`kiln runs show`)"
                    .to_owned(),
            ],
        }
    }
}

impl Session<'_> {
    /// Compares two configurations; each is a pipeline (name or file), a lock's file or a
    /// manifest's file. Relative paths begin at `start`.
    pub fn compare(&self, start: &Utf8Path, from: &str, to: &str) -> Result<Compared, Failure> {
        let from = self.side(start, from)?;
        let to = self.side(start, to)?;
        let differences = compare((&from.intent, &from.config), (&to.intent, &to.config));
        Ok(Compared {
            from,
            to,
            differences,
        })
    }

    fn side(&self, start: &Utf8Path, name: &str) -> Result<Side, Failure> {
        let path = start.join(name);
        if name.ends_with(".lock.json") {
            self.of_lock(name, &path)
        } else if path.extension() == Some("json") {
            of_manifest(name, &path)
        } else {
            let pipeline = self.workspace.pipeline(name)?;
            Ok(side(
                name,
                self.trial(&pipeline, "config diff", Asked::Engine)?,
            ))
        }
    }

    /// A lock's configuration, made again from its source and base and the files that it names.
    fn of_lock(&self, name: &str, path: &Utf8Path) -> Result<Side, Failure> {
        let lock = Lock::parse(name, &files::read_text(path, LIMIT)?)?;
        let pipeline = self.workspace.pipeline(lock.inputs.line.as_str())?;
        let session = Session {
            // The base's bytes are kept beside the lock.
            locks: path.parent().unwrap_or(path).to_owned(),
            ..self.listening(self.progress)
        };
        let (_inputs, changed) = session.carry_over(&pipeline, &lock)?;
        if !changed.is_empty() {
            let lock = name.to_owned();
            return Err(CompareError::FilesChanged { lock, changed }.into());
        }
        Ok(side(
            name,
            session.trial_of(&pipeline, lock, "config diff", Asked::Engine)?,
        ))
    }
}

fn side(name: &str, trial: Trial) -> Side {
    let configured = trial.configured;
    Side {
        name: name.to_owned(),
        intent: configured.intent(),
        config: configured.report.config().clone(),
    }
}

/// A build's configuration, as its run keeps it beside the manifest.
fn of_manifest(name: &str, path: &Utf8Path) -> Result<Side, Failure> {
    let envelope = Envelope::parse(name, &files::read_text(path, LIMIT)?)?;
    let manifest = Manifest::parse(name, &envelope.payload_of(name, "manifest")?)?;
    let directory = path.parent().unwrap_or(path);
    let kept = directory.join(RESOLVED);
    let text = files::read_text(&kept, LIMIT)?;
    let found = Sha256::of(text.as_bytes());
    if found != manifest.config {
        return Err(CompareError::OtherConfig {
            path: kept,
            expected: manifest.config,
            found,
        }
        .into());
    }
    let kept = directory.join(INTENT);
    let intent = files::read(&kept, LIMIT).ok();
    let intent = intent.as_deref().and_then(Intent::parse);
    Ok(Side {
        name: name.to_owned(),
        intent: intent.ok_or(CompareError::NoIntent(kept))?,
        config: DotConfig::parse(text),
    })
}
