//! The part of a source that configuring reads, kept as a directory in the store.
//!
//! Checks of a configuration need 2,800 files of 87,000; to verify the whole tar for them costs
//! seconds each time. So once that part was unpacked from a [`VerifiedTarball`], it stays, and the
//! lock names the digest of its listing: every directory, file and link in it with mode and content.
//!
//! Why that is enough: the process that wrote the lock had verified the tar and took the digest of
//! what it had unpacked from it. The lock is committed and obeyed from then on, for the tar of a
//! Debian source too. Each process walks and hashes the whole part again before it uses a file of
//! it, and uses nothing beside it; so what it uses are files of the very tar that the lock names.
//!
//! What it does not prove: that the signature over the tar still counts today (a key can be revoked
//! since), and anything about the rest of the tar. So nothing is compiled from it, and a build or
//! `--prove` hashes the tar and checks its signature as before.

use super::signature::VerifiedTarball;
use super::unpack::{CONFIGURATION_RULE, Select, SourceTree, UnpackError, unpack};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::progress::Progress;
use crate::proof::lock::{Configuration, Inputs};
use crate::sandbox::{Isolation, Worker};
use crate::store::{Store, StoreError};

/// Why there is no configuration part.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// What the store holds is not what the lock names.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The locked tar has another part than the lock says.
    #[error(
        "the configuration part of the locked tar has the digest {found}, and the lock says \
         {locked}"
    )]
    NotLocked {
        /// Of what was unpacked.
        found: Sha256,
        /// In the lock.
        locked: Sha256,
    },
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for ConfigurationError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unpack(error) => error.exit(),
            Self::Store(error) => error.exit(),
            Self::NotLocked { .. } => Exit::NotVerified,
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unpack(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::NotLocked { .. } => "configuration-not-locked",
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unpack(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::NotLocked { .. } => vec![
                "take the lock back from version control; `kiln resolve` writes it anew".to_owned(),
            ],
            Self::File(error) => error.hints(),
        }
    }
}

/// The part in the store, every byte of it hashed; `None` where it is not there.
///
/// # Errors
/// Where anything in it is not what `locked` names.
pub fn open(
    store: &Store,
    inputs: &Inputs,
    locked: Configuration,
) -> Result<Option<SourceTree>, ConfigurationError> {
    let tree = store.get_tree(&locked.sha256)?;
    Ok(tree.map(|tree| SourceTree::of_part(tree.path, inputs, tree.files)))
}

/// Unpacks the part of a verified tarball into the store. Returns what a lock keeps of it.
pub fn keep(
    tarball: &VerifiedTarball,
    store: &Store,
    worker: &Worker,
    isolation: &Isolation,
    progress: &dyn Progress,
) -> Result<Configuration, ConfigurationError> {
    let staged = store.stage_tree();
    files::remove_dir_all(&staged)?;
    let select = Select::Configuration;
    unpack(tarball, &staged, select, worker, isolation, progress)?;
    let sha256 = store.keep_tree(&staged)?;
    Ok(Configuration {
        rule: CONFIGURATION_RULE,
        sha256,
    })
}
