//! `config check`: base and fragments to the guard's answer, without compiling anything.

use camino::{Utf8Path, Utf8PathBuf};

use super::answers::{AnsweredBy, Asked};
use super::build::{Options, PATIENCE, keep_report};
use super::configure::Configured;
use super::session::Session;
use super::workspace::Loaded;
use crate::dotconfig::DotConfig;
use crate::failure::Failure;
use crate::files::{self, Wait};
use crate::kbuild::make::Kbuild;
use crate::kconfig::GuardReport;
use crate::proof::lock::Lock;
use crate::source::unpack::Select;
use crate::spec;

/// Largest list of digests that is read back, in bytes.
const MARKER_LIMIT: u64 = 1 << 20;

/// The guard's answer, and what it was about.
#[derive(Debug)]
pub struct ConfigCheck {
    /// The pipeline.
    pub pipeline: String,
    /// The lock whose source and base were used.
    pub lock: Lock,
    /// The base alone through the same tree: what the request is compared with.
    pub base_alone: DotConfig,
    /// The answer.
    pub report: GuardReport,
    /// Who said what the configuration resolves to.
    pub by: AnsweredBy,
    /// Where report, merged and resolved configuration are kept.
    pub directory: Utf8PathBuf,
}

/// A configuration that was tried, and the lock that keeps others from its directory.
pub(super) struct Trial {
    pub(super) lock: Lock,
    pub(super) configured: Configured,
    pub(super) directory: Utf8PathBuf,
    pub(super) exclusive: files::Lock,
}

impl Session<'_> {
    /// Checks a pipeline's configuration as its files are now, on the locked source and base.
    ///
    /// No lock is written for changed fragments, so that trying a line costs no build number; where
    /// there is no lock at all, one is resolved. With `output`, report and configurations go there.
    pub fn check_config(
        &self,
        pipeline: &Loaded,
        output: Option<&Utf8Path>,
        asked: Asked,
    ) -> Result<ConfigCheck, Failure> {
        let Trial {
            lock,
            configured,
            directory,
            exclusive: _exclusive,
        } = self.trial(pipeline, "config check", asked)?;
        let output = output.unwrap_or(&directory).to_owned();
        files::create_dir_all(&output)?;
        keep_report(&configured, &output)?;
        let Configured {
            base_alone,
            report,
            by,
            ..
        } = configured;
        Ok(ConfigCheck {
            pipeline: pipeline.name().to_owned(),
            lock,
            base_alone,
            report,
            by,
            directory: output,
        })
    }

    /// A pipeline's configuration as its files are now, in a place of its own that nobody else uses
    /// meanwhile.
    pub(super) fn trial(
        &self,
        pipeline: &Loaded,
        verb: &str,
        asked: Asked,
    ) -> Result<Trial, Failure> {
        let lock = self.lock_to_try(pipeline, verb)?;
        self.trial_of(pipeline, lock, verb, asked)
    }

    /// The lock for what is only tried: the committed one, whatever the fragments say by now. Where
    /// there is none it is resolved, with the line's own lock held, as everyone does who writes one.
    fn lock_to_try(&self, pipeline: &Loaded, verb: &str) -> Result<Lock, Failure> {
        if let Some(lock) = self.lock_if_any(pipeline)? {
            // Only to learn that source and base are still those of the pipeline.
            self.carry_over(pipeline, &lock)?;
            return Ok(lock);
        }
        let purpose = format!("{verb} {}", pipeline.name());
        let _exclusive = self.exclusive(pipeline.name(), &purpose, Wait::UpTo(PATIENCE))?;
        self.current_lock(pipeline, Options::default())
    }

    /// The same on the source and base of a given lock.
    pub(super) fn trial_of(
        &self,
        pipeline: &Loaded,
        lock: Lock,
        verb: &str,
        asked: Asked,
    ) -> Result<Trial, Failure> {
        let name = pipeline.name();
        let purpose = format!("{verb} {name}");
        let directory = self
            .workspace
            .dot_kiln()
            .join("work")
            .join(format!("{name}.config"));
        let exclusive = self.exclusive(
            &format!("{name}.config"),
            &purpose,
            Wait::UpTo(std::time::Duration::from_mins(30)),
        )?;
        let select = match pipeline.spec.config.trim {
            spec::Trim::Lsmod(_) => Select::Modules,
            spec::Trim::None | spec::Trim::ModulesOff => Select::Configuration,
        };
        let configured = self.configured(pipeline, &lock, &directory, (select, asked))?;
        Ok(Trial {
            lock,
            configured,
            directory,
            exclusive,
        })
    }

    /// The makefiles of a pipeline's whole source, configured as a build would, apart from builds.
    /// They are this caller's as long as it holds the lock.
    pub fn shell(&self, pipeline: &Loaded) -> Result<(files::Lock, Kbuild), Failure> {
        let name = format!("{}.shell", pipeline.name());
        let exclusive = self.exclusive(&name, &format!("shell {}", pipeline.name()), Wait::No)?;
        let lock = self.lock_to_try(pipeline, "shell")?;
        let directory = self.workspace.dot_kiln().join("work").join(name);
        let configured =
            self.configured(pipeline, &lock, &directory, (Select::All, Asked::Both))?;
        Ok((exclusive, configured.kbuild))
    }

    /// The configuration on the part of the source that it needs: kiln's own reading takes that part
    /// by the lock's word; all else, and a source with patches, is unpacked from what is verified now.
    /// What `conf` was compiled into stays for the next time, as long as the source is the same.
    pub fn configured(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        directory: &Utf8Path,
        (select, asked): (Select, Asked),
    ) -> Result<Configured, Failure> {
        let tar = lock.inputs.source.tar().sha256;
        let patches = pipeline.spec.patches.iter().map(|patch| patch.sha256);
        let sources: Vec<String> = std::iter::once(tar)
            .chain(patches)
            .map(|d| d.to_string())
            .collect();
        let sources = sources.join("\n");
        let marker = directory.join("sources");
        if !files::read_text(&marker, MARKER_LIMIT).is_ok_and(|text| text == sources) {
            self.discard(directory)?;
        }
        self.discard(&directory.join("source"))?;
        files::create_dir_all(directory)?;
        files::write(&marker, sources.as_bytes())?;
        // What the tree itself is to prove is proven on the whole source.
        let plain = pipeline.spec.patches.is_empty() && select == Select::Configuration;
        let part = match asked {
            Asked::Engine if plain => self.part(pipeline, lock)?,
            _ => None,
        };
        let tree = if let Some(tree) = part {
            tree
        } else {
            let source = self.acquire_locked(pipeline, lock)?;
            self.source_tree(pipeline, &source.tarball, &directory.join("source"), select)?
        };
        self.configure(pipeline, lock, &tree, &directory.join("build"), asked)
    }
}
