//! Making files, directories and links below an open directory, and why that can fail.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use super::entry::NameProblem;

/// Why an archive was not unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ExtractError {
    /// A name that no honest archive has.
    #[error("the name `{name}` is refused: {problem}")]
    Name {
        /// The name, escaped.
        name: String,
        /// Why.
        problem: NameProblem,
    },
    /// A second top-level directory.
    #[error("`{name}` lies outside of `{expected}/`")]
    OtherTop {
        /// The name, escaped.
        name: String,
        /// The directory that everything must lie below.
        expected: String,
    },
    /// A device, a pipe, or something stranger.
    #[error("`{name}` is {kind}, expected a file, a directory or a link")]
    Kind {
        /// The name, escaped.
        name: String,
        /// What it is.
        kind: String,
    },
    /// setuid, setgid or sticky.
    #[error("`{name}` has mode {mode:04o}: a source needs no setuid, setgid or sticky bit")]
    Privileged {
        /// The name, escaped.
        name: String,
        /// Its mode.
        mode: u32,
    },
    /// The same name twice.
    #[error("`{name}` occurs twice")]
    Duplicate {
        /// The name, escaped.
        name: String,
    },
    /// Below something that is no directory.
    #[error("`{name}` lies below `{above}`, which is no directory")]
    NoDirectory {
        /// The name, escaped.
        name: String,
        /// What it lies below.
        above: String,
    },
    /// A link out of the tree.
    #[error("the link `{name}` leads out of the source, to `{target}`")]
    Leaves {
        /// The name, escaped.
        name: String,
        /// Where it leads, escaped.
        target: String,
    },
    /// A hard link to something else than a file of this archive.
    #[error("the hard link `{name}` leads to `{target}`, which is no earlier file of the archive")]
    HardLink {
        /// The name, escaped.
        name: String,
        /// Where it leads, escaped.
        target: String,
    },
    /// Too many entries.
    #[error("it has more than {limit} entries")]
    TooMany {
        /// The cap.
        limit: u64,
    },
    /// Too many bytes.
    #[error("its files have more than {limit} bytes")]
    TooLarge {
        /// The cap.
        limit: u64,
    },
    /// Not an archive, or cut off.
    #[error("it is damaged: {reason}")]
    Damaged {
        /// The parser's words.
        reason: String,
    },
    /// Bytes after the end.
    #[error("bytes that are not zero follow its end")]
    Trailing,
    /// Nothing in it.
    #[error("it holds nothing below `{expected}/`")]
    Empty {
        /// The directory that everything must lie below.
        expected: String,
    },
    /// The disk is full.
    #[error("no space is left for `{name}`")]
    NoSpace {
        /// The file that did not fit.
        name: String,
    },
    /// The system refused.
    #[error("failed to {action} `{name}`: {reason}")]
    Io {
        /// What was tried.
        action: String,
        /// On which name.
        name: String,
        /// The system's answer.
        reason: String,
    },
    /// A signal arrived.
    #[error("unpacking was stopped")]
    Stopped,
}

pub(in crate::source) fn io_error(action: &str, name: &str, error: &io::Error) -> ExtractError {
    if error.kind() == io::ErrorKind::StorageFull {
        return ExtractError::NoSpace {
            name: name.to_owned(),
        };
    }
    ExtractError::Io {
        action: action.to_owned(),
        name: name.to_owned(),
        reason: error.to_string(),
    }
}

/// A small file to be written.
pub(in crate::source) struct Task {
    pub(in crate::source) directory: Arc<OwnedFd>,
    pub(in crate::source) path: String,
    pub(in crate::source) mode: Mode,
    pub(in crate::source) mtime: u64,
    pub(in crate::source) content: Vec<u8>,
}

pub(in crate::source) fn write_files(tasks: &Receiver<Task>) -> Result<(), ExtractError> {
    for task in tasks {
        let mut file = create(&task.directory, &task.path, task.mode)?;
        file.write_all(&task.content)
            .map_err(|error| io_error("write", &task.path, &error))?;
        set_times(&file, &task.path, task.mtime)?;
    }
    Ok(())
}

pub(in crate::source) fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Makes a new file; one that is there already, even as a link, is an error.
pub(in crate::source) fn create(
    directory: &OwnedFd,
    path: &str,
    mode: Mode,
) -> Result<File, ExtractError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, last(path), flags, mode)
        .map(File::from)
        .map_err(|error| io_error("create", path, &error.into()))
}

pub(in crate::source) fn times(mtime: u64) -> Timestamps {
    let time = Timespec {
        tv_sec: i64::try_from(mtime).unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

pub(in crate::source) fn set_times(
    file: &File,
    path: &str,
    mtime: u64,
) -> Result<(), ExtractError> {
    rustix::fs::futimens(file, &times(mtime))
        .map_err(|error| io_error("set the time of", path, &error.into()))
}

/// Files are 0644 or 0755, whatever the archive says beyond.
pub(in crate::source) fn clamp(mode: u32) -> Mode {
    let bits = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
    Mode::from_raw_mode(bits)
}

pub(in crate::source) fn make_directory(above: &OwnedFd, path: &str) -> Result<(), ExtractError> {
    rustix::fs::mkdirat(above, last(path), Mode::from_raw_mode(0o755))
        .map_err(|error| io_error("create directory", path, &error.into()))
}
