//! Reading with limits, and writing so that a crash leaves the old content or the new, never half.
//!
//! The order is always the same: write beside the final name, fsync, rename, fsync the directory.

mod age;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

pub use age::{modified, size_and_time, touch, touched};

use crate::clock;
use crate::digest::{Hasher, Sha256};
use crate::failure::{Diagnose, Exit};
use crate::interrupt::{self, Interrupted};

/// Why a file could not be read, written or locked.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("failed to {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: Utf8PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Larger than any honest file of its kind.
    #[error("`{path}` is larger than the {limit} bytes a file of its kind may have")]
    TooLarge {
        /// The file.
        path: Utf8PathBuf,
        /// The cap, in bytes.
        limit: u64,
    },
    /// A directory, a pipe, a device.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// What is there instead.
        path: Utf8PathBuf,
    },
    /// A link where a directory of kiln's is, in which it removes what is old.
    #[error(
        "`{path}` is a symbolic link: expected a directory, since old files below it are removed"
    )]
    Link {
        /// The link.
        path: Utf8PathBuf,
    },
    /// Not text.
    #[error("`{path}` is not UTF-8: the first wrong byte is at offset {offset}")]
    NotText {
        /// The file.
        path: Utf8PathBuf,
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// Changed since its digest was taken.
    #[error("`{path}` changed while it was used: expected sha256 {expected}, found {found}")]
    Changed {
        /// The file.
        path: Utf8PathBuf,
        /// Its digest before.
        expected: Sha256,
        /// Its digest now.
        found: Sha256,
    },
    /// Another process holds the lock.
    #[error("`{path}` is locked by {holder}")]
    Locked {
        /// The lock file.
        path: Utf8PathBuf,
        /// Who holds it.
        holder: Holder,
    },
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl FileError {
    fn io(action: &'static str, path: &Utf8Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl Diagnose for FileError {
    fn exit(&self) -> Exit {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::AlreadyExists => Exit::Usage,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Exit::NoSpace,
                _ => Exit::Unexpected,
            },
            Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::NotAFile { .. }
            | Self::Link { .. } => Exit::Usage,
            Self::Changed { .. } => Exit::NotVerified,
            Self::Locked { .. } => Exit::Locked,
            Self::Interrupted(interrupted) => interrupted.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "file-missing",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no-space",
                _ => "file-io",
            },
            Self::TooLarge { .. } => "file-too-large",
            Self::NotText { .. } => "file-not-text",
            Self::NotAFile { .. } => "not-a-file",
            Self::Link { .. } => "link-in-the-way",
            Self::Changed { .. } => "file-changed",
            Self::Locked { .. } => "locked",
            Self::Interrupted(interrupted) => interrupted.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Io { .. } if self.exit() == Exit::NoSpace => {
                vec!["free some space, then run the same command again".to_owned()]
            }
            Self::Locked { path, holder } if holder.pid == 0 => {
                // `kill 0` would end the caller's own process group.
                vec![format!("see which process holds it with `fuser {path}`")]
            }
            Self::Locked { holder, .. } => {
                vec![format!(
                    "wait for process {} to end, or stop it with `kill {}`",
                    holder.pid, holder.pid
                )]
            }
            Self::Interrupted(interrupted) => interrupted.hints(),
            _ => Vec::new(),
        }
    }
}

/// Opens a regular file for reading. Anything else is refused: a pipe would hang for ever, a device
/// would never end.
pub fn open(path: &Utf8Path) -> Result<File, FileError> {
    let file = File::options()
        .read(true)
        // Has no effect on a regular file; opening a pipe must not wait for its writer.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(FileError::io("open", path))?;
    let kind = file.metadata().map_err(FileError::io("look at", path))?;
    if kind.is_file() {
        Ok(file)
    } else {
        Err(FileError::NotAFile {
            path: path.to_owned(),
        })
    }
}

/// Reads a whole file of at most `limit` bytes.
pub fn read(path: &Utf8Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = open(path)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    // With room for all of it at once, a file takes two calls of the system instead of ten.
    let room = usize::try_from(size.min(limit)).unwrap_or(0) + 1;
    let mut bytes = Vec::with_capacity(room);
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(FileError::io("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

/// Reads a whole text of at most `limit` bytes.
pub fn read_text(path: &Utf8Path, limit: u64) -> Result<String, FileError> {
    String::from_utf8(read(path, limit)?).map_err(|error| FileError::NotText {
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })
}

/// The digest and size of a file.
pub fn hash(path: &Utf8Path) -> Result<(Sha256, u64), FileError> {
    hash_open(&mut open(path)?, path)
}

/// The digest and size of what remains to be read of an open file; `path` is for messages.
pub fn hash_open(file: &mut File, path: &Utf8Path) -> Result<(Sha256, u64), FileError> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        interrupt::check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok((hasher.finish(), total)),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                total += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FileError::io("read", path)(error)),
        }
    }
}

/// Creates a directory and its parents.
pub fn create_dir_all(path: &Utf8Path) -> Result<(), FileError> {
    std::fs::create_dir_all(path).map_err(FileError::io("create directory", path))
}

/// Copies a file under its final name whole, or not at all. Where `expected` is given, bytes with
/// another digest are refused.
pub fn copy(from: &Utf8Path, to: &Utf8Path, expected: Option<&Sha256>) -> Result<(), FileError> {
    let mut staged = Staged::beside(to)?;
    io::copy(&mut open(from)?, staged.file()).map_err(FileError::io("copy", from))?;
    if let Some(expected) = expected {
        let (found, _bytes) = hash_open(&mut staged.reopen()?, from)?;
        if found != *expected {
            let (path, expected) = (from.to_owned(), *expected);
            return Err(FileError::Changed {
                path,
                expected,
                found,
            });
        }
    }
    staged.commit(to)
}

/// Removes a directory and all in it; one that is not there is fine.
pub fn remove_dir_all(path: &Utf8Path) -> Result<(), FileError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::io("remove directory", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a file; one that is not there is fine.
pub fn remove_file(path: &Utf8Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Names directly below `directory`, sorted. A name that is not UTF-8 is an error.
pub fn list(directory: &Utf8Path) -> Result<Vec<String>, FileError> {
    let (names, strange) = entries(directory)?;
    match strange.into_iter().next() {
        None => Ok(names),
        Some(name) => Err(FileError::io("list", directory)(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the name `{name}` is not UTF-8"),
        ))),
    }
}

/// Names directly below `directory`, sorted; apart from them those that are not UTF-8, as far as
/// they can be shown.
pub fn entries(directory: &Utf8Path) -> Result<(Vec<String>, Vec<String>), FileError> {
    let (mut names, mut strange) = (Vec::new(), Vec::new());
    let found = std::fs::read_dir(directory).map_err(FileError::io("list", directory))?;
    for entry in found {
        let entry = entry.map_err(FileError::io("list", directory))?;
        match entry.file_name().into_string() {
            Ok(name) => names.push(name),
            Err(name) => strange.push(name.to_string_lossy().into_owned()),
        }
    }
    names.sort();
    strange.sort();
    Ok((names, strange))
}

/// Makes the names in a directory durable.
pub fn sync_dir(path: &Utf8Path) -> Result<(), FileError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(FileError::io("sync directory", path))
}

/// Renames within one file system, then makes both directories durable.
pub fn rename(from: &Utf8Path, to: &Utf8Path) -> Result<(), FileError> {
    #[expect(clippy::disallowed_methods, reason = "this is the durable rename")]
    std::fs::rename(from, to).map_err(FileError::io("rename", from))?;
    sync_dir(parent(to))?;
    if parent(from) != parent(to) {
        sync_dir(parent(from))?;
    }
    Ok(())
}

/// Bytes free for an unprivileged user on the file system of `path`.
pub fn free_bytes(path: &Utf8Path) -> Result<u64, FileError> {
    let stat = rustix::fs::statvfs(path.as_std_path())
        .map_err(|errno| FileError::io("measure the free space of", path)(errno.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn parent(path: &Utf8Path) -> &Utf8Path {
    match path.parent() {
        Some(parent) if !parent.as_str().is_empty() => parent,
        _ => Utf8Path::new("."),
    }
}

/// Writes a file whole, mode 0644.
pub fn write(path: &Utf8Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut staged = Staged::beside(path)?;
    staged
        .file()
        .write_all(bytes)
        .map_err(FileError::io("write", path))?;
    staged.commit(path)
}

/// Writes a file that nobody else may read, mode 0600, whole; one that is there is never replaced.
/// Directories that are missing are made, with mode 0700.
pub fn write_secret(path: &Utf8Path, bytes: &[u8]) -> Result<(), FileError> {
    let directory = parent(path);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(FileError::io("create directory", directory))?;
    let mut file = tempfile::Builder::new()
        .prefix(".kiln-")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)
        .map_err(FileError::io("create a file in", directory))?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .map_err(FileError::io("write", path))?;
    file.persist_noclobber(path)
        .map_err(|error| FileError::io("rename to", path)(error.error))?;
    sync_dir(directory)
}

/// A file being written under a temporary name: it appears under its final name whole, or never.
/// Dropped without [`Staged::commit`], it is removed.
#[derive(Debug)]
pub struct Staged(NamedTempFile);

impl Staged {
    /// A new file in the directory of `final_path`, which is created where missing.
    pub fn beside(final_path: &Utf8Path) -> Result<Self, FileError> {
        let directory = parent(final_path);
        create_dir_all(directory)?;
        Self::within(directory)
    }

    /// A new file in `directory`, which must be on the file system of the final name.
    pub fn within(directory: &Utf8Path) -> Result<Self, FileError> {
        let staged = tempfile::Builder::new()
            .prefix(".kiln-")
            .tempfile_in(directory)
            .map_err(FileError::io("create a file in", directory))?;
        // Said once it is there, since a strict umask would take it away: a sandboxed program, which
        // is another user, could not read it.
        let mode = std::fs::Permissions::from_mode(0o644);
        let set = staged.as_file().set_permissions(mode);
        set.map_err(FileError::io("change the mode of a file in", directory))?;
        Ok(Self(staged))
    }

    /// The open file, for reading and writing.
    pub fn file(&mut self) -> &mut File {
        self.0.as_file_mut()
    }

    /// Its temporary name, for messages and for programs that take a name.
    pub fn path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from(self.0.path().to_string_lossy().into_owned())
    }

    /// A second handle on the same open file, at its start.
    pub fn reopen(&self) -> Result<File, FileError> {
        let path = self.path();
        let mut file = self.0.reopen().map_err(FileError::io("reopen", &path))?;
        file.rewind().map_err(FileError::io("rewind", &path))?;
        Ok(file)
    }

    /// Gives the file its final name, durably; an older file of that name is replaced.
    pub fn commit(self, final_path: &Utf8Path) -> Result<(), FileError> {
        self.0
            .as_file()
            .sync_all()
            .map_err(FileError::io("sync", final_path))?;
        self.0
            .persist(final_path)
            .map_err(|error| FileError::io("rename to", final_path)(error.error))?;
        sync_dir(parent(final_path))
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// What for, such as `build lts`.
    pub purpose: String,
    /// Since when.
    pub since: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            pid,
            purpose,
            since,
        } = self;
        match pid {
            0 => f.write_str("a process that does not say which"),
            _ => write!(f, "process {pid} ({purpose}, since {since})"),
        }
    }
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    UpTo(Duration),
}

/// An exclusive lock between processes, released when dropped or when the process dies.
///
/// The lock file itself stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, calling `on_wait` once with the holder before it starts to wait.
    pub fn acquire(
        path: &Utf8Path,
        purpose: &str,
        wait: Wait,
        on_wait: impl FnOnce(&Holder),
    ) -> Result<Self, FileError> {
        create_dir_all(parent(path))?;
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(FileError::io("open", path))?;
        let deadline = match wait {
            Wait::No => clock::monotonic(),
            Wait::UpTo(longest) => clock::monotonic() + longest,
        };
        let mut on_wait = Some(on_wait);
        while let Err(errno) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if errno != rustix::io::Errno::WOULDBLOCK {
                return Err(FileError::io("lock", path)(errno.into()));
            }
            let holder = Self::holder(path);
            if clock::monotonic() >= deadline {
                return Err(FileError::Locked {
                    path: path.to_owned(),
                    holder,
                });
            }
            if let Some(on_wait) = on_wait.take() {
                on_wait(&holder);
            }
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let holder = Holder {
            pid: std::process::id(),
            purpose: purpose.to_owned(),
            since: clock::now().to_string(),
        };
        let text =
            serde_json::to_vec(&holder).map_err(|e| FileError::io("describe", path)(e.into()))?;
        file.set_len(0).map_err(FileError::io("truncate", path))?;
        file.rewind().map_err(FileError::io("rewind", path))?;
        file.write_all(&text)
            .map_err(FileError::io("write", path))?;
        Ok(Self { _file: file })
    }

    /// What the lock file says; it is written after the lock is taken, so it may be a moment old.
    fn holder(path: &Utf8Path) -> Holder {
        let unknown = || Holder {
            pid: 0,
            purpose: "unknown".to_owned(),
            since: "unknown".to_owned(),
        };
        read(path, 4096)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(dir.path().to_str().unwrap());
        (dir, path)
    }

    #[test]
    fn a_dropped_staged_file_leaves_nothing() {
        let (_guard, dir) = scratch();
        let mut staged = Staged::beside(&dir.join("x")).unwrap();
        staged.file().write_all(b"half").unwrap();
        drop(staged);
        assert_eq!(list(&dir).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_write_replaces_whole() {
        let (_guard, dir) = scratch();
        let path = dir.join("deep/x");
        write(&path, b"long old content").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(read(&path, 100).unwrap(), b"new");
        assert_eq!(list(&dir.join("deep")).unwrap(), ["x"]);
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let (_guard, dir) = scratch();
        let pipe = dir.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe.as_std_path(), 0o600.into()).unwrap();
        for path in [pipe.as_path(), dir.as_path(), Utf8Path::new("/dev/zero")] {
            assert!(
                matches!(read(path, 9), Err(FileError::NotAFile { .. })),
                "{path}"
            );
        }
    }

    #[test]
    fn a_copy_is_the_promised_bytes_or_nothing() {
        let (_guard, dir) = scratch();
        write(&dir.join("from"), b"bytes").unwrap();
        copy(
            &dir.join("from"),
            &dir.join("to"),
            Some(&Sha256::of(b"bytes")),
        )
        .unwrap();
        let error = copy(
            &dir.join("from"),
            &dir.join("no"),
            Some(&Sha256::of(b"other")),
        );
        assert!(matches!(error, Err(FileError::Changed { .. })));
        assert_eq!(list(&dir).unwrap(), ["from", "to"]);
    }

    #[test]
    fn limits_hold_at_the_boundary() {
        let (_guard, dir) = scratch();
        let path = dir.join("x");
        write(&path, b"12345").unwrap();
        assert!(read(&path, 5).is_ok());
        assert!(matches!(
            read(&path, 4),
            Err(FileError::TooLarge { limit: 4, .. })
        ));
    }

    #[test]
    fn text_that_is_not_text_names_the_offset() {
        let (_guard, dir) = scratch();
        let path = dir.join("x");
        write(&path, b"ab\xffcd").unwrap();
        assert!(matches!(
            read_text(&path, 9),
            Err(FileError::NotText { offset: 2, .. })
        ));
    }

    #[test]
    fn the_second_locker_learns_who_holds_it() {
        let (_guard, dir) = scratch();
        let path = dir.join("locks/build");
        let held = Lock::acquire(&path, "build lts", Wait::No, |_| {}).unwrap();
        let mut waited = false;
        let error = Lock::acquire(
            &path,
            "other",
            Wait::UpTo(Duration::from_millis(120)),
            |holder| {
                waited = holder.purpose == "build lts";
            },
        )
        .unwrap_err();
        assert!(waited);
        assert_eq!(error.exit(), Exit::Locked);
        drop(held);
        assert!(Lock::acquire(&path, "other", Wait::No, |_| {}).is_ok());
    }
}
