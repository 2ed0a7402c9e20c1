//! What every stage of one command shares: the workspace, the store, the sandbox, the mirrors and
//! the listener.

use std::num::NonZeroU32;

use camino::Utf8PathBuf;

use super::workspace::Workspace;
use crate::failure::Failure;
use crate::files::{Lock, Wait};
use crate::progress::Progress;
use crate::sandbox::{Isolation, Worker};
use crate::source::mirror::Mirrors;
use crate::store::Store;

/// One command at work in a workspace.
pub struct Session<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// Verified objects.
    pub store: Store,
    /// How foreign bytes and foreign code are kept apart.
    pub isolation: Isolation,
    /// This program, in its sandboxed role.
    pub worker: Worker,
    /// Where kernel.org is reached.
    pub mirrors: &'a Mirrors,
    /// Never touch the network: only what is in the store.
    pub offline: bool,
    /// Jobs that make runs at once.
    pub jobs: NonZeroU32,
    /// Where locks are written; the pipelines' own directory but for `quickstart`.
    pub locks: Utf8PathBuf,
    /// What is different on purpose, where an earlier build is made again.
    pub rebuilding: Option<Rebuilding>,
    /// Who listens.
    pub progress: &'a dyn Progress,
}

/// What a rebuild makes different inside the build.
#[derive(Debug, Clone, Default)]
pub struct Rebuilding {
    /// The library that shows it another time.
    pub other_time: Option<Utf8PathBuf>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Session<'_> {
    /// The same session with another listener.
    pub fn listening<'b>(&'b self, progress: &'b dyn Progress) -> Session<'b> {
        Session {
            workspace: self.workspace,
            store: self.store.clone(),
            isolation: self.isolation.clone(),
            worker: self.worker.clone(),
            mirrors: self.mirrors,
            offline: self.offline,
            jobs: self.jobs,
            locks: self.locks.clone(),
            rebuilding: self.rebuilding.clone(),
            progress,
        }
    }

    /// Takes the lock that keeps two runs on one line apart, waiting for a while.
    pub fn exclusive(&self, line: &str, purpose: &str, wait: Wait) -> Result<Lock, Failure> {
        let path = self.workspace.dot_kiln().join("locks").join(line);
        let lock = Lock::acquire(&path, purpose, wait, |holder| {
            let which = match holder.pid {
                0 => format!(", which holds `{path}`"),
                _ => String::new(),
            };
            self.progress.note(format!("waiting for {holder}{which}"));
        })?;
        Ok(lock)
    }
}
