//! Decompressing in a sandbox: the side that starts the worker and doubts it.

use std::fs::File;
use std::io::{self, PipeReader, Read, Seek as _, Write as _};
use std::os::fd::OwnedFd;
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

/// Decompresses `input` in a sandbox, and writes what comes of it to `output`, after a look at the
/// free disk space. `paths` are their names: of the input for messages, of the output for measuring
/// the space.
///
/// The worker has a pipe, not the file: what `read` gets to read is exactly what is written, so a
/// verdict on the one holds for the other. `read` runs beside the decoder, which costs no time with
/// a second core; what it leaves unread is written all the same. Its result counts only if
/// decompressing succeeded to the end.
///
/// What the worker reports is not believed: what counts is the verification of the output. On
/// failure the output holds something unusable, and is the caller's to drop.
pub fn decompress_in_sandbox<T>(
    worker: &Worker,
    isolation: &Isolation,
    input: (&File, &Utf8Path),
    output: (&File, &Utf8Path),
    limits: &Limits,
    progress: &dyn Progress,
    read: impl FnOnce(&mut (dyn Read + Send + Sync)) -> T,
) -> Result<(Decompressed, T), DecompressError> {
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
    let (pipe, sent) = io::pipe().map_err(io("open a pipe for", subject))?;
    let job = serde_json::to_string(limits).expect("numbers become JSON");
    let sandbox = worker.sandbox(isolation);
    let command = worker
        .command("decompress", &sandbox)
        .arg(job)
        .stdin_file(stdin)
        .stdout_file(OwnedFd::from(sent).into())
        .deadline(Duration::from_hours(1));
    let name = subject.file_name().unwrap_or(subject.as_str());
    let watch = || {
        progress.event(&Event::Bytes {
            what: format!("decompress {name}"),
            done: output.metadata().map_or(0, |metadata| metadata.len()),
            total: layout.map(|layout| layout.bytes),
        });
    };
    let mut through = Through {
        pipe,
        output,
        written: 0,
        limit: limits.bytes,
        failed: None,
    };
    let (result, through, verdict) = std::thread::scope(|scope| {
        // The command holds our end of the pipe until the worker has ended.
        let running = scope.spawn(move || worker::run_watched("decompress", command, watch));
        let result = read(&mut through);
        through.finish();
        let Through {
            pipe,
            written,
            failed,
            ..
        } = through;
        // Where writing failed, the worker would wait forever for someone to read.
        drop(pipe);
        let verdict = running
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, (written, failed), verdict)
    });
    let (written, failed) = through;
    if let Some(failed) = failed {
        return Err(failed.into_error(subject, output_path, limits.bytes));
    }
    let decompressed: Decompressed = verdict?.map_err(|source| DecompressError::Refused {
        subject: subject.to_owned(),
        source,
    })?;
    if written == decompressed.bytes {
        Ok((decompressed, result))
    } else {
        Err(DecompressError::Disagreement {
            subject: subject.to_owned(),
            found: written,
            reported: decompressed.bytes,
        })
    }
}

/// Reads what the worker sends, and writes it to the output on the way.
struct Through<'f> {
    pipe: PipeReader,
    output: &'f File,
    written: u64,
    limit: u64,
    failed: Option<WriteFailed>,
}

/// Why writing ended early. The worker then fails as well, by its broken pipe; this is the cause.
enum WriteFailed {
    /// The worker sent more than it may, whatever limits it was given.
    TooLarge,
    /// The system's answer.
    Io(io::Error),
}

impl WriteFailed {
    fn into_error(self, subject: &Utf8Path, output: &Utf8Path, limit: u64) -> DecompressError {
        match self {
            Self::TooLarge => DecompressError::Refused {
                subject: subject.to_owned(),
                source: XzError::TooLarge { limit },
            },
            Self::Io(source) => DecompressError::File(FileError::Io {
                action: "write",
                path: output.to_owned(),
                source,
            }),
        }
    }
}

impl Through<'_> {
    /// Writes what nobody read.
    fn finish(&mut self) {
        let mut rest = vec![0; 64 << 10];
        while self.failed.is_none() {
            match self.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.failed = self.failed.take().or(Some(WriteFailed::Io(error))),
            }
        }
    }

    fn fail(&mut self, failed: WriteFailed) -> io::Error {
        self.failed = Some(failed);
        io::Error::other("what was decompressed could not be written")
    }
}

impl Read for Through<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(io::Error::other("writing failed before"));
        }
        let count = self.pipe.read(buffer)?;
        let written = self.written.saturating_add(count as u64);
        if written > self.limit {
            return Err(self.fail(WriteFailed::TooLarge));
        }
        if let Err(error) = self.output.write_all(&buffer[..count]) {
            return Err(self.fail(WriteFailed::Io(error)));
        }
        self.written = written;
        Ok(count)
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
