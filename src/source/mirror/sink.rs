//! Where an answer's bytes go: memory for small files, a file that a later run can resume for
//! large ones.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::digest::{Hasher, Sha256};
use crate::files::{self, FileError};
use crate::interrupt;

/// Takes the bytes of one file from one server, in order.
pub(super) trait Sink {
    /// Bytes so far.
    fn offset(&self) -> u64;
    /// The strong `ETag`, or the date, that these bytes had.
    fn validator(&self) -> Option<&str>;
    /// Size of the whole file, where the server told it.
    fn total(&self) -> Option<u64>;
    /// Forgets all bytes; the next ones are of the version that `validator` names.
    fn restart(&mut self, validator: Option<String>, total: Option<u64>) -> Result<(), FileError>;
    /// The next bytes are from another answer than those before.
    fn join(&mut self);
    /// Adds bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<(), FileError>;
}

/// A file kept in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) bytes: Vec<u8>,
    validator: Option<String>,
    total: Option<u64>,
}

impl Sink for Memory {
    fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn validator(&self) -> Option<&str> {
        self.validator.as_deref()
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    fn restart(&mut self, validator: Option<String>, total: Option<u64>) -> Result<(), FileError> {
        self.bytes.clear();
        (self.validator, self.total) = (validator, total);
        Ok(())
    }

    fn join(&mut self) {}

    fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// What is remembered of a partial file between runs. Nothing in it is trusted: a wrong word costs
/// a download, never a verdict.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    url: String,
    validator: Option<String>,
    total: Option<u64>,
}

/// A file on disk, under a name that a later run finds again.
#[derive(Debug)]
pub(super) struct Partial {
    path: Utf8PathBuf,
    file: File,
    hasher: Hasher,
    offset: u64,
    joined: bool,
    about: Remembered,
}

/// Largest description of a partial file.
const ABOUT_LIMIT: u64 = 64 << 10;

fn about_path(path: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{path}.json"))
}

fn io(action: &'static str, path: &Utf8Path) -> impl FnOnce(std::io::Error) -> FileError {
    move |source| FileError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Fails early where `bytes` cannot fit beside `path`.
fn reserve(path: &Utf8Path, bytes: u64) -> Result<(), FileError> {
    let free = files::free_bytes(path)?;
    if free >= bytes {
        return Ok(());
    }
    let why = format!("{bytes} bytes are needed, {free} are free");
    Err(io("make room for", path)(std::io::Error::new(
        std::io::ErrorKind::StorageFull,
        why,
    )))
}

impl Partial {
    /// Opens the partial file at `path`, which may hold the beginning of `url`'s from an earlier
    /// run. What is there is hashed from the disk, not from memory of that run.
    pub(super) fn open(path: &Utf8Path, url: &str) -> Result<Self, FileError> {
        let about = files::read(&about_path(path), ABOUT_LIMIT)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Remembered>(&bytes).ok())
            .filter(|about| about.url == url);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(about.is_none())
            .open(path)
            .map_err(io("open", path))?;
        let hashed = HashedFile::read(&mut file, path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            hasher: hashed.hasher,
            offset: hashed.bytes,
            joined: hashed.bytes > 0,
            about: about.unwrap_or_else(|| Remembered {
                url: url.to_owned(),
                ..Remembered::default()
            }),
        })
    }

    /// Whether the bytes are from more than one answer.
    pub(super) fn joined(&self) -> bool {
        self.joined
    }

    /// Makes the file durable and gives its digest and size.
    pub(super) fn finish(self) -> Result<(Sha256, u64), FileError> {
        self.file.sync_all().map_err(io("sync", &self.path))?;
        Ok((self.hasher.finish(), self.offset))
    }

    /// Removes a partial file and what is remembered of it.
    pub(super) fn remove(path: &Utf8Path) -> Result<(), FileError> {
        files::remove_file(path)?;
        Self::forget(path)
    }

    /// Removes what is remembered of a file that has moved away.
    pub(super) fn forget(path: &Utf8Path) -> Result<(), FileError> {
        files::remove_file(&about_path(path))
    }
}

struct HashedFile {
    hasher: Hasher,
    bytes: u64,
}

impl HashedFile {
    fn read(file: &mut File, path: &Utf8Path) -> Result<Self, FileError> {
        use std::io::Read as _;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 18];
        let mut bytes = 0;
        loop {
            interrupt::check()?;
            let count = file.read(&mut buffer).map_err(io("read", path))?;
            if count == 0 {
                return Ok(Self { hasher, bytes });
            }
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
    }
}

impl Sink for Partial {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn validator(&self) -> Option<&str> {
        self.about.validator.as_deref()
    }

    fn total(&self) -> Option<u64> {
        self.about.total
    }

    fn restart(&mut self, validator: Option<String>, total: Option<u64>) -> Result<(), FileError> {
        self.file.set_len(0).map_err(io("truncate", &self.path))?;
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(io("rewind", &self.path))?;
        self.hasher = Hasher::new();
        self.offset = 0;
        self.joined = false;
        (self.about.validator, self.about.total) = (validator, total);
        if let Some(total) = total {
            reserve(&self.path, total)?;
        }
        // Written before the first byte: bytes without a description are never resumed.
        let about = serde_json::to_vec(&self.about)
            .map_err(|error| io("describe", &self.path)(error.into()))?;
        files::write(&about_path(&self.path), &about)
    }

    fn join(&mut self) {
        self.joined = true;
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file
            .write_all(bytes)
            .map_err(io("write", &self.path))?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(dir.path().to_str().unwrap()).join("part");
        (dir, path)
    }

    #[test]
    fn a_later_run_goes_on_with_the_digest_of_what_is_on_disk() {
        let (_guard, path) = scratch();
        let mut first = Partial::open(&path, "http://m/x").unwrap();
        first.restart(Some("\"v1\"".to_owned()), Some(6)).unwrap();
        first.append(b"abc").unwrap();
        drop(first);
        let mut second = Partial::open(&path, "http://m/x").unwrap();
        assert_eq!((second.offset(), second.total()), (3, Some(6)));
        assert_eq!(second.validator(), Some("\"v1\""));
        second.append(b"def").unwrap();
        assert!(second.joined());
        assert_eq!(second.finish().unwrap(), (Sha256::of(b"abcdef"), 6));
    }

    #[test]
    fn bytes_of_another_address_or_without_description_are_dropped() {
        let (_guard, path) = scratch();
        let mut first = Partial::open(&path, "http://m/x").unwrap();
        first.restart(None, None).unwrap();
        first.append(b"abc").unwrap();
        drop(first);
        assert_eq!(Partial::open(&path, "http://other/x").unwrap().offset(), 0);
        files::write(&path, b"stray").unwrap();
        Partial::forget(&path).unwrap();
        assert_eq!(Partial::open(&path, "http://m/x").unwrap().offset(), 0);
    }

    #[test]
    fn a_restart_forgets_everything() {
        let (_guard, path) = scratch();
        let mut sink = Partial::open(&path, "http://m/x").unwrap();
        sink.append(b"old and longer").unwrap();
        sink.restart(None, None).unwrap();
        sink.append(b"new").unwrap();
        assert!(!sink.joined());
        assert_eq!(sink.finish().unwrap(), (Sha256::of(b"new"), 3));
        assert_eq!(files::read(&path, 99).unwrap(), b"new");
    }
}
