//! Reading below `/`, or below the root of a captured tree, which may hold anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;
use crate::failure::{Diagnose, Exit};

/// Largest file that is read, in bytes: `/proc/cpuinfo` takes 2.5 KiB a CPU.
const LIMIT: u64 = 32 << 20;

/// Most names of one directory that are looked at.
const MOST_NAMES: usize = 1 << 16;

/// Why a tree cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The directory cannot be opened.
    #[error("failed to open `{path}`")]
    Open {
        /// The directory.
        path: Utf8PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// There is no machine in it.
    #[error("`{path}` holds no machine: `{missing}` is not there")]
    NoMachine {
        /// The directory.
        path: Utf8PathBuf,
        /// What every machine has.
        missing: &'static str,
    },
}

impl Diagnose for RootError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        "no-machine"
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "give the directory that holds `sys` and `proc`, such as an unpacked capture of \
             `kiln node fingerprint --capture FILE`"
                .to_owned(),
        ]
    }
}

/// A file that is there and could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The file, below the root.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// What was seen at a path; all of it goes into a capture.
#[derive(Debug, Clone)]
pub(super) enum Seen {
    /// A file's bytes, and its permission bits.
    File(Vec<u8>, u32),
    /// The names in a directory.
    Names(Vec<String>),
}

/// The root of a machine's files. It keeps what it has read, and what was wrong with it.
#[derive(Debug)]
pub struct Root {
    directory: File,
    /// A captured tree must not lead to files outside of it; on the machine itself that is nothing.
    resolve: ResolveFlags,
    seen: RefCell<BTreeMap<String, Seen>>,
    faults: RefCell<Vec<Fault>>,
}

impl Root {
    /// The machine whose files are below `path`: `/`, or a captured tree. Symbolic links stay inside.
    ///
    /// # Errors
    /// Fails where the directory cannot be opened.
    pub fn open(path: &Utf8Path) -> Result<Self, RootError> {
        let directory = File::open(path).map_err(|source| RootError::Open {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            directory,
            resolve: if path == "/" {
                ResolveFlags::empty()
            } else {
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS
            },
            seen: RefCell::default(),
            faults: RefCell::default(),
        })
    }

    /// What was wrong with the files that were read so far, in the order of reading.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.borrow().clone()
    }

    pub(super) fn seen(&self) -> BTreeMap<String, Seen> {
        self.seen.borrow().clone()
    }

    /// A file's text without blanks around it; `None` where it is absent. One that is there and cannot
    /// be read, or is not UTF-8, is a fault.
    pub fn text(&self, path: &str) -> Option<String> {
        self.file(path).map(|(text, _)| text)
    }

    /// The same, with whether its owner may write to it.
    pub(super) fn file(&self, path: &str) -> Option<(String, bool)> {
        match self.read(path) {
            Ok(Some((bytes, mode))) => {
                let text = String::from_utf8(bytes.clone());
                let seen = Seen::File(bytes, mode & 0o777);
                self.seen.borrow_mut().insert(path.to_owned(), seen);
                let Ok(text) = text else {
                    self.fault(path, "it is not UTF-8");
                    return None;
                };
                Some((text.trim().to_owned(), mode & 0o200 != 0))
            }
            Ok(None) => None,
            Err(error) => {
                self.fault(path, format!("it cannot be read: {error}"));
                None
            }
        }
    }

    /// A value; `None` where the file is absent. One that does not parse is a fault.
    pub fn value<T: FromStr<Err: std::fmt::Display>>(&self, path: &str) -> Option<T> {
        let text = self.text(path)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(path, format!("found {:?}: {error}", short(&text)));
                None
            }
        }
    }

    /// A set of CPUs, from the list, or where there is none from the mask of older kernels.
    pub fn cpus(&self, list: &str, mask: &str) -> Option<CpuSet> {
        let (path, read) = match self.text(list) {
            Some(text) => (list, text.parse()),
            None => (mask, CpuSet::from_mask(&self.text(mask)?)),
        };
        match read {
            Ok(cpus) => Some(cpus),
            Err(error) => {
                self.fault(path, short(&error.to_string()));
                None
            }
        }
    }

    /// The names in a directory, sorted; empty where it is absent.
    pub fn names(&self, path: &str) -> Vec<String> {
        match self.list(path) {
            Ok(names) => {
                let seen = Seen::Names(names.clone());
                self.seen.borrow_mut().insert(path.to_owned(), seen);
                names
            }
            Err(error) if is_absent(&error) => Vec::new(),
            Err(error) => {
                self.fault(path, format!("it cannot be listed: {error}"));
                Vec::new()
            }
        }
    }

    /// The numbers `N` of the names `PREFIXn` in a directory, ascending: `cpu0`, `cpu1`, `cpu10`.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<u16> {
        let names = self.names(path);
        let number = |name: &String| {
            let digits = name.strip_prefix(prefix)?;
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let mut numbers: Vec<u16> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn fault(&self, path: &str, why: impl Into<String>) {
        self.faults.borrow_mut().push(Fault {
            path: path.to_owned(),
            why: why.into(),
        });
    }

    fn open_at(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat2(
            &self.directory,
            path.trim_start_matches('/'),
            flags,
            Mode::empty(),
            self.resolve,
        )?;
        Ok(File::from(opened))
    }

    fn read(&self, path: &str) -> io::Result<Option<(Vec<u8>, u32)>> {
        let file = match self.open_at(path, OFlags::empty()) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = file.metadata()?;
        if !kind.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LIMIT {
            return Err(io::Error::other(format!("it has more than {LIMIT} bytes")));
        }
        Ok(Some((bytes, kind.permissions().mode())))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let directory = self.open_at(path, OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !matches!(name.as_str(), "." | "..") {
                names.push(name);
            }
            if names.len() > MOST_NAMES {
                return Err(io::Error::other(format!("more than {MOST_NAMES} names")));
            }
        }
        names.sort();
        Ok(names)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The beginning of a text, for a message.
fn short(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
