//! From a verified tarball to a tree of files, in a sandbox.
//!
//! The worker reads the very file that was verified, by its open handle, and hashes what it reads;
//! the parent compares that with what the signature covered. The tree appears under its final name
//! whole, or not at all.

use std::fs::File;
use std::io::{self, Seek as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

pub use super::entry::{CONFIGURATION_RULE, Select};
use super::extract::{ExtractError, Extracted, Job};
use super::identity::MAX_ENTRIES;
use super::signature::VerifiedTarball;
use super::worker::{self, WorkerError};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kernel::Version;
use crate::progress::{Event, Progress};
use crate::proof::lock::Inputs;
use crate::sandbox::{Isolation, Worker};

/// Most bytes in the files of a source. 6.12 has 1.4 GiB.
const MAX_BYTES: u64 = 8 << 30;

/// What a file costs on disk beyond its bytes, on average: half a block and its inode. For the
/// estimate of free space only.
const FILE_OVERHEAD: u64 = 2304;

/// Where the tree stands inside the sandbox.
const INSIDE: &str = "/kiln/source";

/// Why a tarball was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Something is there already.
    #[error("`{path}` exists already: a source is only unpacked to a new place")]
    Exists {
        /// The destination.
        path: Utf8PathBuf,
    },
    /// The archive breaks a rule.
    #[error("`{tarball}` cannot be unpacked")]
    Refused {
        /// The tarball.
        tarball: Utf8PathBuf,
        /// Which.
        #[source]
        source: ExtractError,
    },
    /// What was unpacked is not what was verified.
    #[error(
        "`{tarball}` changed after it was verified: sha256 was {verified}, and {unpacked} was \
         unpacked"
    )]
    Changed {
        /// The tarball.
        tarball: Utf8PathBuf,
        /// Digest that was verified.
        verified: Sha256,
        /// Digest that the worker read.
        unpacked: Sha256,
    },
    /// There is no room for it.
    #[error("the source needs about {needed} bytes at `{path}`, and {free} are free")]
    NoSpace {
        /// The destination.
        path: Utf8PathBuf,
        /// What it needs.
        needed: u64,
        /// What there is.
        free: u64,
    },
    /// The worker did not come to a verdict.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for UnpackError {
    fn exit(&self) -> Exit {
        match self {
            Self::Exists { .. } => Exit::Usage,
            Self::Refused {
                source: ExtractError::NoSpace { .. },
                ..
            }
            | Self::NoSpace { .. } => Exit::NoSpace,
            Self::Refused {
                source: ExtractError::Io { .. } | ExtractError::Stopped,
                ..
            } => Exit::Unexpected,
            Self::Refused { .. } | Self::Changed { .. } => Exit::NotVerified,
            Self::Worker(error) => error.exit(),
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "source-exists",
            Self::Refused { source, .. } => match source {
                ExtractError::Name { .. } => "tar-name",
                ExtractError::OtherTop { .. } => "tar-other-top",
                ExtractError::Kind { .. } => "tar-kind",
                ExtractError::Privileged { .. } => "tar-privileged",
                ExtractError::Duplicate { .. } => "tar-duplicate",
                ExtractError::NoDirectory { .. } => "tar-below-file",
                ExtractError::Leaves { .. } => "tar-link-leaves",
                ExtractError::HardLink { .. } => "tar-hard-link",
                ExtractError::TooMany { .. } => "tar-too-many",
                ExtractError::TooLarge { .. } => "tar-too-large",
                ExtractError::Damaged { .. } => "tar-damaged",
                ExtractError::Trailing => "tar-trailing",
                ExtractError::Empty { .. } => "tar-empty",
                ExtractError::NoSpace { .. } => "no-space",
                ExtractError::Io { .. } => "tar-io",
                ExtractError::Stopped => "tar-stopped",
            },
            Self::Changed { .. } => "tar-changed",
            Self::NoSpace { .. } => "no-space",
            Self::Worker(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Exists { path } => {
                vec![format!("remove `{path}`, or choose another destination")]
            }
            Self::Changed { .. } => {
                vec!["find out which program writes into the store, and stop it".to_owned()]
            }
            Self::NoSpace { .. }
            | Self::Refused {
                source: ExtractError::NoSpace { .. },
                ..
            } => vec!["free some space, then run the same command again".to_owned()],
            Self::Refused { .. } => vec![
                "do not unpack it by other means: its signature is good, and still it holds what \
                 no kernel source does; report it to whoever signed it"
                    .to_owned(),
            ],
            Self::Worker(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// A kernel's source on disk, unpacked from a [`VerifiedTarball`] in this process, or the part of one
/// whose every byte a lock names ([`configuration`](super::configuration)). It cannot be read back
/// from disk: a tree that someone else left there proves nothing.
///
/// ```compile_fail
/// fn needs_deserialize<'d, T: serde::Deserialize<'d>>() {}
/// needs_deserialize::<kiln::source::unpack::SourceTree>();
/// ```
#[derive(Debug)]
pub struct SourceTree {
    path: Utf8PathBuf,
    version: Version,
    source_date_epoch: i64,
    tar_sha256: Sha256,
    select: Select,
    files: u64,
    patches: Vec<Sha256>,
}

impl SourceTree {
    /// The configuration part at `path`: the caller has hashed every byte of it in this process, and
    /// found what `inputs` were locked with.
    pub(in crate::source) fn of_part(path: Utf8PathBuf, inputs: &Inputs, files: u64) -> Self {
        Self {
            path,
            version: inputs.version,
            source_date_epoch: inputs.source_date_epoch,
            tar_sha256: inputs.source.tar().sha256,
            select: Select::Configuration,
            files,
            patches: Vec::new(),
        }
    }

    /// The directory that holds the top `Makefile`.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The release.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// When its maker vouched for it, in seconds since 1970.
    pub fn source_date_epoch(&self) -> i64 {
        self.source_date_epoch
    }

    /// Digest of the uncompressed tar that it came from.
    pub fn tar_sha256(&self) -> Sha256 {
        self.tar_sha256
    }

    /// Whether it is the whole source: only that can be compiled.
    pub fn is_whole(&self) -> bool {
        self.select == Select::All
    }

    /// How many files and links the tar gave it.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Digests of the patches applied since, in order.
    pub fn patches(&self) -> &[Sha256] {
        &self.patches
    }

    /// What of the source it is.
    pub(in crate::source) fn select(&self) -> Select {
        self.select
    }

    /// Takes note of a patch that was applied.
    pub(in crate::source) fn patched(&mut self, sha256: Sha256) {
        self.patches.push(sha256);
    }
}

/// Unpacks `tarball` to `dest`, which must not exist. Its files belong to the sandbox's user, with
/// mode 0644 or 0755 and the archive's modification times.
///
/// On failure nothing is left at `dest`, nor beside it unless it was interrupted. A tree that an earlier, killed run left half made beside it
/// is removed first, so two unpackings to one place must not run at once; the run's lock sees to
/// that.
pub fn unpack(
    tarball: &VerifiedTarball,
    dest: &Utf8Path,
    select: Select,
    worker: &Worker,
    isolation: &Isolation,
    progress: &dyn Progress,
) -> Result<SourceTree, UnpackError> {
    if dest.symlink_metadata().is_ok() {
        return Err(UnpackError::Exists {
            path: dest.to_owned(),
        });
    }
    let parent = match dest.parent() {
        Some(parent) if !parent.as_str().is_empty() => parent,
        _ => Utf8Path::new("."),
    };
    files::create_dir_all(parent)?;
    if select == Select::All {
        check_room(tarball, parent)?;
    }
    let partial = partial(dest);
    files::remove_dir_all(&partial)?;
    files::create_dir_all(&partial)?;
    let unpacked = isolation
        .own(&partial)
        .map_err(UnpackError::from)
        .and_then(|()| work(tarball, &partial, select, (worker, isolation), progress))
        .and_then(|extracted| {
            files::rename(&partial, dest)?;
            Ok(extracted)
        });
    match unpacked {
        Ok(extracted) => Ok(SourceTree {
            path: dest.to_owned(),
            version: *tarball.version(),
            source_date_epoch: tarball.source_date_epoch(),
            tar_sha256: tarball.sha256(),
            select,
            files: extracted.files,
            patches: Vec::new(),
        }),
        Err(error) => {
            // Whoever stops kiln does not wait for a hundred thousand removals.
            if !matches!(error.exit(), Exit::Interrupted | Exit::Terminated) {
                // What went wrong first is what is reported.
                let _left = files::remove_dir_all(&partial);
            }
            Err(error)
        }
    }
}

/// Where a tree is until it is whole: an unpacking that was interrupted leaves it there.
pub fn partial(dest: &Utf8Path) -> Utf8PathBuf {
    let name = dest.file_name().unwrap_or("source");
    dest.with_file_name(format!(".{name}.partial"))
}

fn check_room(tarball: &VerifiedTarball, parent: &Utf8Path) -> Result<(), UnpackError> {
    // A tar spends 512 bytes on each header and half a block on each end; a file system more.
    let files = tarball.bytes() / (16 << 10);
    let needed = tarball.bytes() + files * FILE_OVERHEAD;
    let free = files::free_bytes(parent)?;
    if free < needed {
        return Err(UnpackError::NoSpace {
            path: parent.to_owned(),
            needed,
            free,
        });
    }
    Ok(())
}

fn work(
    tarball: &VerifiedTarball,
    partial: &Utf8Path,
    select: Select,
    (worker, isolation): (&Worker, &Isolation),
    progress: &dyn Progress,
) -> Result<Extracted, UnpackError> {
    let io = |action| {
        move |source: io::Error| FileError::Io {
            action,
            path: tarball.path().to_owned(),
            source,
        }
    };
    let sandbox = worker.sandbox(isolation).writable(partial, INSIDE);
    let job = Job {
        prefix: tarball.prefix().to_owned(),
        select,
        entries: MAX_ENTRIES,
        bytes: MAX_BYTES,
        writers: std::thread::available_parallelism()
            .map_or(1, std::num::NonZero::get)
            .min(4),
    };
    let job = serde_json::to_string(&job).expect("names and numbers become JSON");
    let mut stdin = tarball.file().try_clone().map_err(io("share"))?;
    stdin.rewind().map_err(io("rewind"))?;
    let position = stdin.try_clone().map_err(io("share"))?;
    let command = worker
        .command("unpack", &sandbox)
        .arg(job)
        .arg(sandbox.path(Utf8Path::new(INSIDE)).as_str())
        .stdin_file(stdin)
        .deadline(Duration::from_hours(1));
    let subject = tarball.path().file_name().unwrap_or("source");
    let verdict = worker::run_watched("unpack", command, || {
        progress.event(&Event::Bytes {
            what: format!("unpack {subject}"),
            done: offset(&position),
            total: Some(tarball.bytes()),
        });
    })?;
    let extracted: Extracted = verdict.map_err(|source| UnpackError::Refused {
        tarball: tarball.path().to_owned(),
        source,
    })?;
    if extracted.sha256 == tarball.sha256() {
        Ok(extracted)
    } else {
        Err(UnpackError::Changed {
            tarball: tarball.path().to_owned(),
            verified: tarball.sha256(),
            unpacked: extracted.sha256,
        })
    }
}

/// How far the worker has read: it shares the position of the handle that it was given.
fn offset(mut file: &File) -> u64 {
    file.stream_position().unwrap_or(0)
}
