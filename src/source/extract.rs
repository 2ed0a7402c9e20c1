//! Making a tree of files from a verified tarball: the worker's side.
//!
//! The archive is read once, in order; a second thread hashes what was read, so that the parent can
//! compare; small files are written by further threads. Nothing is ever written through a link:
//! links are made last, when everything else is in place and all of them have been judged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use camino::Utf8Path;
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};
use tar::EntryType;

use super::entry::{self, Names, Node, Select};
use super::tee::{self, Failed, Tee};
pub use super::tree_writer::ExtractError;
use super::tree_writer::{
    Task, clamp, create, io_error, last, make_directory, set_times, times, write_files,
};
use crate::digest::Sha256;

/// Files up to this size are handed to the writing threads; larger ones are written at once.
const SMALL: u64 = 256 << 10;

/// How many files wait for each writing thread at most, which bounds the memory.
const QUEUE: usize = 64;

/// What to unpack, and what it may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::source) struct Job {
    /// The directory that everything must lie below, without a slash.
    pub(in crate::source) prefix: String,
    /// What is wanted.
    pub(in crate::source) select: Select,
    /// Most entries.
    pub(in crate::source) entries: u64,
    /// Most bytes in files.
    pub(in crate::source) bytes: u64,
    /// Threads that write.
    pub(in crate::source) writers: usize,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::source) struct Extracted {
    /// Digest of the whole archive as it was read.
    pub(in crate::source) sha256: Sha256,
    /// Files and links made.
    pub(in crate::source) files: u64,
    /// Bytes in them.
    pub(in crate::source) bytes: u64,
}

/// Unpacks the archive in `input`, from its present position on, into the empty directory `dest`.
pub(in crate::source) fn extract(
    input: File,
    dest: &Utf8Path,
    job: &Job,
) -> Result<Extracted, ExtractError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(dest.as_std_path(), flags, Mode::empty())
        .map_err(|error| io_error("open", dest.as_str(), &error.into()))?;
    let (result, seen) = tee::hash_beside(input, &|_| {}, |source| {
        std::thread::scope(|scope| {
            let mut writers = Vec::new();
            let mut queues = Vec::new();
            for _ in 0..job.writers.max(1) {
                let (queue, tasks) = sync_channel(QUEUE);
                queues.push(queue);
                writers.push(scope.spawn(move || write_files(&tasks)));
            }
            let mut extractor = Extractor::new(Arc::new(root), job, queues);
            let read = extractor.read_archive(source);
            extractor.queues.clear();
            let written: Vec<_> = writers
                .into_iter()
                .map(|writer| {
                    writer
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect();
            // Where a writer failed, that is the cause; the reader only noticed.
            written.into_iter().collect::<Result<(), _>>()?;
            read?;
            extractor.finish()
        })
    });
    let (sha256, _read) = seen.map_err(|failed| match failed {
        Failed::Io(error) => io_error("read", "the archive", &error),
        Failed::Interrupted(_) => ExtractError::Stopped,
    })?;
    let (files, bytes) = result?;
    Ok(Extracted {
        sha256,
        files,
        bytes,
    })
}

struct Extractor<'j> {
    job: &'j Job,
    root: Arc<OwnedFd>,
    queues: Vec<SyncSender<Task>>,
    names: Names,
    /// The directories on the way to the last file, outermost first, open.
    open: Vec<(String, Arc<OwnedFd>)>,
    /// How many directories were made, to spread them over the writers.
    directories: usize,
    /// Symbolic links by name, made last: where they lead, and their times.
    links: BTreeMap<String, (String, u64)>,
    /// Hard links by name, made after all files: which file they name.
    hard_links: BTreeMap<String, String>,
    files: u64,
    bytes: u64,
}

impl<'j> Extractor<'j> {
    fn new(root: Arc<OwnedFd>, job: &'j Job, queues: Vec<SyncSender<Task>>) -> Self {
        Self {
            job,
            root,
            queues,
            names: Names::default(),
            open: Vec::new(),
            directories: 0,
            links: BTreeMap::new(),
            hard_links: BTreeMap::new(),
            files: 0,
            bytes: 0,
        }
    }

    /// Reads the whole archive to the last byte of its file.
    fn read_archive<R: Read>(&mut self, source: &mut Tee<'_, R>) -> Result<(), ExtractError> {
        let damaged = |error: io::Error| ExtractError::Damaged {
            reason: error.to_string(),
        };
        let mut archive = tar::Archive::new(&mut *source);
        let mut count: u64 = 0;
        for entry in archive.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            count += 1;
            if count > self.job.entries {
                return Err(ExtractError::TooMany {
                    limit: self.job.entries,
                });
            }
            self.take(&mut entry)?;
        }
        let mut rest = vec![0; 64 << 10];
        loop {
            match source.read(&mut rest).map_err(damaged)? {
                0 => return Ok(()),
                more if rest[..more].iter().all(|byte| *byte == 0) => {}
                _ => return Err(ExtractError::Trailing),
            }
        }
    }

    fn take<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), ExtractError> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = entry.path_bytes().into_owned();
        let printable = || entry::printable(&name);
        let parts = entry::components(&name).map_err(|problem| ExtractError::Name {
            name: printable(),
            problem,
        })?;
        let (top, parts) = parts.split_first().unwrap_or((&"", &[]));
        if *top != self.job.prefix {
            return Err(ExtractError::OtherTop {
                name: printable(),
                expected: self.job.prefix.clone(),
            });
        }
        let path = parts.join("/");
        let number = |value: io::Result<u64>| {
            value.map_err(|error| ExtractError::Damaged {
                reason: error.to_string(),
            })
        };
        let mode = entry.header().mode().map(u64::from);
        let mode = u32::try_from(number(mode)?).unwrap_or(u32::MAX);
        let mtime = number(entry.header().mtime())?;
        if mode & 0o7000 != 0 && kind != EntryType::Symlink {
            return Err(ExtractError::Privileged {
                name: printable(),
                mode: mode & 0o7777,
            });
        }
        if let Some(above) = self.names.blocked_by(&path) {
            return Err(ExtractError::NoDirectory {
                name: printable(),
                above: above.to_owned(),
            });
        }
        match kind {
            EntryType::Directory => self.directory(&path, mtime),
            EntryType::Regular | EntryType::Continuous => self.file(&path, mode, mtime, entry),
            EntryType::Symlink => self.link(&path, mtime, &target(entry)),
            EntryType::Link => self.hard_link(&path, &target(entry)),
            other => Err(ExtractError::Kind {
                name: printable(),
                kind: kind_text(other),
            }),
        }
    }

    fn directory(&mut self, path: &str, mtime: u64) -> Result<(), ExtractError> {
        let is_made = match self.names.get(path) {
            None => false,
            // Made on the way to something below it, before its own entry.
            Some(Node::Directory {
                mtime: None,
                is_made,
            }) => *is_made,
            Some(_) => return Err(duplicate(path)),
        };
        let node = |is_made| Node::Directory {
            mtime: Some(mtime),
            is_made,
        };
        self.names.put(path, node(is_made));
        if self.job.select == Select::All && !path.is_empty() {
            self.enter(path)?;
            self.names.put(path, node(true));
        }
        Ok(())
    }

    /// The open directory at `path`, made where it is not there yet.
    fn enter(&mut self, path: &str) -> Result<Arc<OwnedFd>, ExtractError> {
        let shared = self
            .open
            .iter()
            .take_while(|(open, _)| {
                path.strip_prefix(open.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .count();
        self.open.truncate(shared);
        let from = self.open.last().map_or(0, |(open, _)| open.len() + 1);
        let ends = path
            .match_indices('/')
            .map(|(slash, _)| slash)
            .chain([path.len()])
            .filter(|end| *end > from && !path.is_empty());
        for end in ends {
            let here = &path[..end];
            let above = self.open.last().map_or(&self.root, |(_, fd)| fd);
            let mtime = match self.names.get(here) {
                Some(Node::Directory { mtime, is_made }) => {
                    if !is_made {
                        make_directory(above, here)?;
                    }
                    *mtime
                }
                None => {
                    make_directory(above, here)?;
                    None
                }
                Some(Node::File { .. } | Node::Link { .. }) => return Err(duplicate(here)),
            };
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
            let fd = rustix::fs::openat(above, last(here), flags, Mode::empty())
                .map_err(|error| io_error("open", here, &error.into()))?;
            self.names.put(
                here,
                Node::Directory {
                    mtime,
                    is_made: true,
                },
            );
            self.directories += 1;
            self.open.push((here.to_owned(), Arc::new(fd)));
        }
        Ok(Arc::clone(
            self.open.last().map_or(&self.root, |(_, fd)| fd),
        ))
    }

    /// The open directory that `path` lies in.
    fn parent(&mut self, path: &str) -> Result<Arc<OwnedFd>, ExtractError> {
        self.enter(path.rsplit_once('/').map_or("", |(parent, _)| parent))
    }

    fn file<R: Read>(
        &mut self,
        path: &str,
        mode: u32,
        mtime: u64,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<(), ExtractError> {
        self.claim(path)?;
        let size = entry.size();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.job.bytes {
            return Err(ExtractError::TooLarge {
                limit: self.job.bytes,
            });
        }
        let is_made = self.job.select.takes(path);
        self.names.put(path, Node::File { is_made });
        if !is_made {
            self.bytes -= size;
            return Ok(());
        }
        self.files += 1;
        let directory = self.parent(path)?;
        let damaged = |reason: String| ExtractError::Damaged { reason };
        if size > SMALL {
            let mut file = create(&directory, path, clamp(mode))?;
            let copied =
                io::copy(entry, &mut file).map_err(|error| io_error("write", path, &error))?;
            if copied != size {
                return Err(damaged(format!("`{path}` is cut off")));
            }
            return set_times(&file, path, mtime);
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        entry
            .read_to_end(&mut content)
            .map_err(|error| damaged(error.to_string()))?;
        if content.len() as u64 != size {
            return Err(damaged(format!("`{path}` is cut off")));
        }
        // All files of a directory go to one writer: two would only wait for each other.
        let queue = &self.queues[self.directories % self.queues.len()];
        let task = Task {
            directory,
            path: path.to_owned(),
            mode: clamp(mode),
            mtime,
            content,
        };
        // A writer that is gone says why itself.
        queue.send(task).map_err(|_| ExtractError::Stopped)
    }

    fn link(&mut self, path: &str, mtime: u64, target: &[u8]) -> Result<(), ExtractError> {
        self.claim(path)?;
        let leaves = || ExtractError::Leaves {
            name: entry::printable(path.as_bytes()),
            target: entry::printable(target),
        };
        let target = std::str::from_utf8(target).map_err(|_| leaves())?;
        if target.is_empty() || target.chars().any(char::is_control) {
            return Err(leaves());
        }
        let node = Node::Link {
            target: target.to_owned(),
        };
        self.names.put(path, node);
        self.links
            .insert(path.to_owned(), (target.to_owned(), mtime));
        Ok(())
    }

    fn hard_link(&mut self, path: &str, target: &[u8]) -> Result<(), ExtractError> {
        self.claim(path)?;
        let refused = || ExtractError::HardLink {
            name: entry::printable(path.as_bytes()),
            target: entry::printable(target),
        };
        let parts = entry::components(target).map_err(|_| refused())?;
        let file = match parts.split_first() {
            Some((top, rest)) if *top == self.job.prefix => rest.join("/"),
            _ => return Err(refused()),
        };
        let is_made = match self.names.get(&file) {
            Some(Node::File { is_made }) => *is_made && self.job.select.takes(path),
            _ => return Err(refused()),
        };
        self.names.put(path, Node::File { is_made });
        if is_made {
            self.hard_links.insert(path.to_owned(), file);
        }
        Ok(())
    }

    /// A file or link may take only a name that is free.
    fn claim(&self, path: &str) -> Result<(), ExtractError> {
        if path.is_empty() || self.names.get(path).is_some() {
            return Err(duplicate(path));
        }
        Ok(())
    }

    /// Once all files are written: judges the links, makes them, and sets the times of directories,
    /// which everything before has changed. Returns how many files were made, and their bytes.
    fn finish(mut self) -> Result<(u64, u64), ExtractError> {
        if self.names.get("").is_none() && self.files == 0 && self.links.is_empty() {
            return Err(ExtractError::Empty {
                expected: self.job.prefix.clone(),
            });
        }
        for (path, (target, _)) in &self.links {
            if !self.names.stays_inside(path, target) {
                return Err(ExtractError::Leaves {
                    name: entry::printable(path.as_bytes()),
                    target: entry::printable(target.as_bytes()),
                });
            }
        }
        for (path, file) in std::mem::take(&mut self.hard_links) {
            let directory = self.parent(&path)?;
            rustix::fs::linkat(&self.root, &file, directory, last(&path), AtFlags::empty())
                .map_err(|error| io_error("link", &path, &error.into()))?;
            self.files += 1;
        }
        for (path, (target, mtime)) in std::mem::take(&mut self.links) {
            if !self.job.select.takes(&path) {
                continue;
            }
            let directory = self.parent(&path)?;
            rustix::fs::symlinkat(&target, &directory, last(&path))
                .map_err(|error| io_error("link", &path, &error.into()))?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(&directory, last(&path), &times(mtime), flags)
                .map_err(|error| io_error("set the time of", &path, &error.into()))?;
            self.files += 1;
        }
        for (path, node) in self.names.iter() {
            if let Node::Directory {
                mtime: Some(mtime),
                is_made,
            } = node
            {
                let name = match path {
                    "" => ".",
                    made if *is_made => made,
                    _ => continue,
                };
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(&self.root, name, &times(*mtime), flags)
                    .map_err(|error| io_error("set the time of", name, &error.into()))?;
            }
        }
        Ok((self.files, self.bytes))
    }
}

fn duplicate(path: &str) -> ExtractError {
    ExtractError::Duplicate {
        name: entry::printable(path.as_bytes()),
    }
}

fn target<R: Read>(entry: &tar::Entry<'_, R>) -> Vec<u8> {
    entry
        .link_name_bytes()
        .map(std::borrow::Cow::into_owned)
        .unwrap_or_default()
}

fn kind_text(kind: EntryType) -> String {
    match kind {
        EntryType::Char => "a character device".to_owned(),
        EntryType::Block => "a block device".to_owned(),
        EntryType::Fifo => "a pipe".to_owned(),
        EntryType::GNUSparse => "a sparse file".to_owned(),
        other => format!("of type {:?}", char::from(other.as_byte())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    /// An archive of so many files of ten bytes, below one directory.
    fn archive(files: u64) -> File {
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        let mut add = |name: &str, kind, content: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            builder.append_data(&mut header, name, content).unwrap();
        };
        add("linux-6.18/", EntryType::Directory, b"");
        for number in 0..files {
            let name = format!("linux-6.18/file-{number}");
            add(&name, EntryType::Regular, b"ten bytes.");
        }
        let mut file = builder.into_inner().unwrap();
        file.rewind().unwrap();
        file
    }

    fn extracted(files: u64, entries: u64, bytes: u64) -> Result<Extracted, ExtractError> {
        let dest = tempfile::tempdir().unwrap();
        let job = Job {
            prefix: "linux-6.18".to_owned(),
            select: Select::All,
            entries,
            bytes,
            writers: 2,
        };
        let path = Utf8Path::new(dest.path().to_str().unwrap());
        extract(archive(files), path, &job)
    }

    #[test]
    fn entries_and_bytes_have_a_limit() {
        let good = extracted(4, 5, 40).unwrap();
        assert_eq!((good.files, good.bytes), (4, 40));
        let many = extracted(4, 4, 40).unwrap_err();
        assert!(matches!(many, ExtractError::TooMany { limit: 4 }), "{many}");
        let large = extracted(4, 5, 39).unwrap_err();
        assert!(
            matches!(large, ExtractError::TooLarge { limit: 39 }),
            "{large}"
        );
    }
}
