//! The part of a locked source that configuring reads: what checks of a configuration take instead
//! of the whole source.

use super::locked::check_source;
use super::session::Session;
use super::workspace::Loaded;
use crate::failure::Failure;
use crate::proof::lock::{Configuration, Lock};
use crate::source::configuration::{self, ConfigurationError};
use crate::source::signature::VerifiedTarball;
use crate::source::unpack::{CONFIGURATION_RULE, SourceTree};

/// What a lock says of the part, where it speaks of this kiln's.
pub(super) fn locked(lock: &Lock) -> Option<Configuration> {
    lock.configuration
        .filter(|part| part.rule == CONFIGURATION_RULE)
}

impl Session<'_> {
    /// The part that the lock names, from the store; made from the verified tar where it is not
    /// there. `None` where the lock names none, which is told.
    pub(super) fn part(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
    ) -> Result<Option<SourceTree>, Failure> {
        check_source(pipeline, &lock.inputs)?;
        let Some(locked) = locked(lock) else {
            self.progress.note(format!(
                "the lock names no configuration part as this kiln takes it, so the whole source \
                 is verified each time; `kiln resolve {}` adds it",
                pipeline.name()
            ));
            return Ok(None);
        };
        let progress = self.progress;
        progress.started("source", "the part of the source that configuring reads");
        let tree = if let Some(tree) = configuration::open(&self.store, &lock.inputs, locked)? {
            tree
        } else {
            progress.note("it is not in the store: made from the whole source");
            let source = self.acquire_locked(pipeline, lock)?;
            let found = self.keep_part(&source.tarball)?;
            let absent = || {
                let (found, locked) = (found.sha256, locked.sha256);
                ConfigurationError::NotLocked { found, locked }
            };
            configuration::open(&self.store, &lock.inputs, locked)?.ok_or_else(absent)?
        };
        progress.done(
            "source",
            format!(
                "{} files of {}, the bytes that the lock names (sha256 {})",
                tree.files(),
                lock.inputs.version,
                locked.sha256
            ),
        );
        Ok(Some(tree))
    }

    /// Keeps the part of a verified source for later checks.
    pub(super) fn keep_part(&self, tarball: &VerifiedTarball) -> Result<Configuration, Failure> {
        self.progress.started(
            "keep",
            "the part of the source that configuring reads, for checks",
        );
        let kept = configuration::keep(
            tarball,
            &self.store,
            &self.worker,
            &self.isolation,
            self.progress,
        )?;
        self.progress
            .done("keep", format!("sha256 {}", kept.sha256));
        Ok(kept)
    }
}
