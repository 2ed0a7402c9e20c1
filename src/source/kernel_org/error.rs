//! Why a release was not acquired, and what to do then.

use crate::digest::{Fingerprint, Sha256};
use crate::failure::{Diagnose, Exit};
use crate::files::FileError;
use crate::interrupt::Interrupted;
use crate::kernel::Version;
use crate::source::checksums::ChecksumsError;
use crate::source::mirror::{FetchError, Tried, told};
use crate::source::releases::ReleasesError;
use crate::source::signature::SignatureError;
use crate::source::xz::DecompressError;
use crate::store::StoreError;

/// Why a release was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Candidates are not archived.
    #[error("{0} is a candidate: kernel.org publishes signed archives of releases only")]
    Candidate(Version),
    /// One certificate with two roles.
    #[error("certificate {0} is pinned both for releases and for checksums")]
    TwoRoles(Fingerprint),
    /// It was there when it was locked.
    #[error(
        "the locked {version} is no longer served: no mirror has `{what}`{}",
        told(tried)
    )]
    NoLongerServed {
        /// The release.
        version: Version,
        /// The file that is gone.
        what: String,
        /// The mirrors.
        tried: Vec<Tried>,
    },
    /// Not what was locked.
    #[error("the tar of {version} has sha256 {found}, but the lock says {expected}")]
    NotLocked {
        /// The release.
        version: Version,
        /// Digest of its tar.
        found: Sha256,
        /// The lock's.
        expected: Sha256,
    },
    /// Fetching.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The list of checksums.
    #[error(transparent)]
    Checksums(#[from] ChecksumsError),
    /// Decompressing.
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    /// The signature, or what it is on.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The list of releases in a directory.
    #[error(transparent)]
    Releases(#[from] ReleasesError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for AcquireError {
    fn exit(&self) -> Exit {
        match self {
            Self::Candidate(_) | Self::NoLongerServed { .. } => Exit::NotPublished,
            Self::TwoRoles(_) => Exit::Usage,
            Self::NotLocked { .. } => Exit::NotVerified,
            Self::Fetch(error) => error.exit(),
            Self::Checksums(error) => error.exit(),
            Self::Decompress(error) => error.exit(),
            Self::Signature(error) => error.exit(),
            Self::Releases(error) => error.exit(),
            Self::Store(error) => error.exit(),
            Self::File(error) => error.exit(),
            Self::Interrupted(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Candidate(_) => "candidate-not-archived",
            Self::TwoRoles(_) => "key-with-two-roles",
            Self::NoLongerServed { .. } => "version-not-served",
            Self::NotLocked { .. } => "source-not-locked",
            Self::Fetch(error) => error.code(),
            Self::Checksums(error) => error.code(),
            Self::Decompress(error) => error.code(),
            Self::Signature(error) => error.code(),
            Self::Releases(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::File(error) => error.code(),
            Self::Interrupted(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Candidate(_) => vec!["set `series:` to one that has a release".to_owned()],
            Self::TwoRoles(_) => vec![
                "remove it from one of `keys: release:` and `keys: checksums:`; the key that signs \
                 checksums must never be able to bless a tarball"
                    .to_owned(),
            ],
            Self::NoLongerServed { .. } => vec![
                "to build the old one all the same, name a mirror in `kiln.yaml` that still has it, \
                 or a `store:` that has its tar"
                    .to_owned(),
            ],
            Self::NotLocked { .. } => vec![
                "a signed release was replaced by another of the same number: find out why before \
                 you accept it"
                    .to_owned(),
            ],
            Self::Fetch(error) => error.hints(),
            Self::Checksums(error) => error.hints(),
            Self::Decompress(error) => error.hints(),
            Self::Signature(error) => error.hints(),
            Self::Releases(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::File(error) => error.hints(),
            Self::Interrupted(error) => error.hints(),
        }
    }
}
