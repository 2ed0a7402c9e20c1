//! What of the store and of the runs may go: what no lock names and nothing used for a while.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use jiff::SignedDuration;

use super::build::manifest_in;
use super::run::{self, Past, Status};
use super::session::Session;
use crate::clock;
use crate::digest::Sha256;
use crate::failure::Failure;
use crate::files;
use crate::proof::lock::Lock;
use crate::store::{Contents, Object};

/// Largest lock that is read, in bytes.
const LOCK_LIMIT: u64 = 4 << 20;

/// Objects with what names them.
#[derive(Debug)]
pub struct Inventory {
    /// What lies in the store.
    pub contents: Contents,
    /// What an object is, by the locks and manifests of this workspace: `linux-6.18.40.tar (lts)`.
    pub names: BTreeMap<Sha256, String>,
}

impl Inventory {
    /// What an object is, where this workspace knows.
    pub fn name(&self, object: &Object) -> Option<&str> {
        self.names.get(&object.sha256).map(String::as_str)
    }

    /// Objects that nothing here names and nobody used for `age`.
    pub fn unneeded(&self, age: SignedDuration) -> Vec<Object> {
        let now = clock::now();
        let old = |object: &&Object| now.duration_since(object.used) > age;
        let unnamed = |object: &&Object| self.name(object).is_none();
        self.contents
            .objects
            .iter()
            .filter(unnamed)
            .filter(old)
            .cloned()
            .collect()
    }
}

impl Session<'_> {
    /// The store's objects, and which of them this workspace's locks and manifests name.
    pub fn inventory(&self) -> Result<Inventory, Failure> {
        let mut names = BTreeMap::new();
        for lock in self.known_locks()? {
            let part = lock.configuration.map(|part| {
                let stem = lock.inputs.version.stem();
                (part.sha256, format!("configuration part of {stem}"))
            });
            for (sha256, what) in lock.inputs.objects().into_iter().chain(part) {
                let name = format!("{what} ({})", lock.inputs.line);
                names.entry(sha256).or_insert(name);
            }
        }
        Ok(Inventory {
            contents: self.store.contents()?,
            names,
        })
    }

    /// The locks beside pipelines and in manifests.
    ///
    /// # Errors
    /// A lock that cannot be read: what it names is not known then, and must not be removed.
    fn known_locks(&self) -> Result<Vec<Lock>, Failure> {
        let mut locks = Vec::new();
        let directories = [
            self.locks.clone(),
            self.workspace.dot_kiln().join("quickstart"),
        ];
        for directory in directories.iter().filter(|path| path.is_dir()) {
            for name in files::list(directory)? {
                if name.ends_with(".lock.json") {
                    let path = directory.join(&name);
                    let text = files::read_text(&path, LOCK_LIMIT)?;
                    locks.push(Lock::parse(&self.workspace.shown(&path), &text)?);
                }
            }
        }
        let (past, _unreadable) = run::list(&self.workspace.runs())?;
        locks.extend(
            past.iter()
                .filter_map(|run| manifest_in(&run.directory))
                .map(|(manifest, _envelope)| manifest.lock),
        );
        Ok(locks)
    }

    /// Runs that may go: of each verb and line all but the newest `keep`, never one at work, and
    /// never the newest that ended well.
    pub fn old_runs(&self, keep: usize) -> Result<Vec<Utf8PathBuf>, Failure> {
        let (past, _unreadable) = run::list(&self.workspace.runs())?;
        Ok(old(past, keep))
    }

    /// Takes the directory of a run away.
    pub fn remove_run(&self, directory: &Utf8PathBuf) -> Result<(), Failure> {
        Ok(self.discard(directory)?)
    }
}

/// `past` is in the order of time, oldest first.
fn old(past: Vec<Past>, keep: usize) -> Vec<Utf8PathBuf> {
    let mut groups: BTreeMap<(String, String), Vec<Past>> = BTreeMap::new();
    for run in past {
        let group = (run.record.verb.clone(), run.record.pipeline.clone());
        groups.entry(group).or_default().push(run);
    }
    let mut all = Vec::new();
    for runs in groups.into_values() {
        let newest_good = runs.iter().rposition(|run| run.record.status == Status::Ok);
        let first_kept = runs.len().saturating_sub(keep);
        let goes = |(at, run): &(usize, &Past)| {
            *at < first_kept && Some(*at) != newest_good && run.record.status != Status::Running
        };
        let going = runs.iter().enumerate().filter(goes);
        all.extend(going.map(|(_, run)| run.directory.clone()));
    }
    all
}
