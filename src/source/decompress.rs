//! Decompressing in a sandbox: the side that starts the worker and doubts it.

use std::fs::File;
use std::io::Seek as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::worker::{self, WorkerError};
use super::xz::{Decompressed, Limits, XzError};
use super::xz_layout::{self, Layout};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::progress::{Event, Progress};
use crate::sandbox::{Isolation, Worker};

/// Why a file was not decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// The file is not what it should be.
    #[error("`{subject}` cannot be decompressed")]
    Refused {
        /// The file.
        subject: Utf8PathBuf,
        /// Why.
        #[source]
        source: XzError,
    },
    /// The file says itself that it is too large.
    #[error("`{subject}` holds {bytes} bytes, which is more than the {limit} it may")]
    Declared {
        /// The file.
        subject: Utf8PathBuf,
        /// What it says.
        bytes: u64,
        /// The cap.
        limit: u64,
    },
    /// There is no room for it.
    #[error("`{subject}` needs {needed} bytes of disk to decompress, and {free} are free")]
    NoSpace {
        /// The file.
        subject: Utf8PathBuf,
        /// What it needs.
        needed: u64,
        /// What there is.
        free: u64,
    },
    /// The file is not the one the worker says it wrote.
    #[error("`{subject}` was decompressed to {found} bytes, but {reported} were reported")]
    Disagreement {
        /// The file.
        subject: Utf8PathBuf,
        /// Size of the output.
        found: u64,
        /// Size that was reported.
        reported: u64,
    },
    /// The worker did not come to a verdict.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for DecompressError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoSpace { .. }
            | Self::Refused {
                source: XzError::NoSpace { .. },
                ..
            } => Exit::NoSpace,
            Self::Refused {
                source: XzError::Io { .. } | XzError::Stopped,
                ..
            } => Exit::Unexpected,
            Self::Refused { .. } | Self::Declared { .. } | Self::Disagreement { .. } => {
                Exit::NotVerified
            }
            Self::Worker(error) => error.exit(),
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Refused { source, .. } => match source {
                XzError::NotXz { .. } => "xz-foreign",
                XzError::Truncated { .. } => "xz-truncated",
                XzError::Damaged { .. } => "xz-damaged",
                XzError::Padding { .. } => "xz-padding",
                XzError::SecondStream { .. } => "xz-second-stream",
                XzError::Junk { .. } => "xz-junk",
                XzError::TooLarge { .. } => "xz-too-large",
                XzError::Ratio { .. } => "xz-ratio",
                XzError::Memory { .. } => "xz-memory",
                XzError::NoSpace { .. } => "no-space",
                XzError::Io { .. } => "xz-io",
                XzError::Stopped => "xz-stopped",
            },
            Self::Declared { .. } => "xz-too-large",
            Self::NoSpace { .. } => "no-space",
            Self::Disagreement { .. } => "xz-disagreement",
            Self::Worker(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoSpace { .. }
            | Self::Refused {
                source: XzError::NoSpace { .. },
                ..
            } => vec![
                "free some space, or set `KILN_STORE` to a directory on a larger disk".to_owned(),
            ],
            Self::Refused { .. } | Self::Declared { .. } => vec![
                "fetch the file again, or from another mirror in `kiln.yaml`; nothing of it was \
                 kept"
                    .to_owned(),
            ],
            Self::Disagreement { .. } => {
                vec!["find out which program writes into the store, and stop it".to_owned()]
            }
            Self::Worker(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// Decompresses `input` to `output` in a sandbox, after a look at the free disk space. `paths` are
/// their names: of the input for messages, of the output for measuring the space.
///
/// What the worker reports is not believed: what counts is the verification of the output that
/// follows. On failure the output holds something unusable, and is the caller's to drop.
pub fn decompress_in_sandbox(
    worker: &Worker,
    isolation: &Isolation,
    input: (&File, &Utf8Path),
    output: (&File, &Utf8Path),
    limits: &Limits,
    progress: &dyn Progress,
) -> Result<Decompressed, DecompressError> {
    let (input, subject) = input;
    let (output, output_path) = output;
    let io = |action, path: &Utf8Path| {
        let path = path.to_owned();
        move |source| FileError::Io {
            action,
            path,
            source,
        }
    };
    // Unverified as it is, what the file says of itself is good enough to refuse early. A file
    // whose end cannot be read is left to the decoder, which says what is wrong with it.
    let layout = xz_layout::read(input).map_err(io("read", subject))?;
    check_room(subject, layout, output_path, limits)?;
    let mut stdin = input.try_clone().map_err(io("share", subject))?;
    stdin.rewind().map_err(io("rewind", subject))?;
    let stdout = output.try_clone().map_err(io("share", output_path))?;
    let job = serde_json::to_string(limits).expect("numbers become JSON");
    let sandbox = worker.sandbox(isolation);
    let command = worker
        .command("decompress", &sandbox)
        .arg(job)
        .stdin_file(stdin)
        .stdout_file(stdout)
        .deadline(Duration::from_hours(1));
    let name = subject.file_name().unwrap_or(subject.as_str());
    let done = || output.metadata().map_or(0, |metadata| metadata.len());
    let verdict = worker::run_watched("decompress", command, || {
        progress.event(&Event::Bytes {
            what: format!("decompress {name}"),
            done: done(),
            total: layout.map(|layout| layout.bytes),
        });
    })?;
    let decompressed: Decompressed = verdict.map_err(|source| DecompressError::Refused {
        subject: subject.to_owned(),
        source,
    })?;
    if done() == decompressed.bytes {
        Ok(decompressed)
    } else {
        Err(DecompressError::Disagreement {
            subject: subject.to_owned(),
            found: done(),
            reported: decompressed.bytes,
        })
    }
}

fn check_room(
    subject: &Utf8Path,
    layout: Option<Layout>,
    output: &Utf8Path,
    limits: &Limits,
) -> Result<(), DecompressError> {
    let Some(Layout { bytes, .. }) = layout else {
        return Ok(());
    };
    if bytes > limits.bytes {
        return Err(DecompressError::Declared {
            subject: subject.to_owned(),
            bytes,
            limit: limits.bytes,
        });
    }
    let free = files::free_bytes(output.parent().unwrap_or(output))?;
    if free < bytes {
        return Err(DecompressError::NoSpace {
            subject: subject.to_owned(),
            needed: bytes,
            free,
        });
    }
    Ok(())
}
