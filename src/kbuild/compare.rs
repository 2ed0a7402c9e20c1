//! Two builds of one package: which files inside differ, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use camino::Utf8Path;
use serde::Serialize;

use super::deb::{Deb, DebError};
use super::difference::{Cause, causes};
use crate::digest::{Hasher, Sha256};
use crate::interrupt;
use crate::sandbox::Isolation;

/// Largest file that is kept to be looked into, in bytes. Of a larger one only its digest is, so it
/// stays unclassified: a kernel with debugging information has several hundred MiB.
const LIMIT: u64 = 1 << 30;

/// What stands before the names of the files that dpkg keeps for itself.
const CONTROL: &str = "control/";

/// Largest header of an `ar` member, and how many a `.deb` has.
const AR_HEADER: usize = 60;
const AR_MEMBERS: usize = 3;

/// A file inside a package that two builds made differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The package.
    pub package: String,
    /// The file inside; `control/` before those that dpkg keeps for itself. Empty for the package as
    /// a whole.
    pub file: String,
    /// Why, as far as the bytes tell.
    pub causes: BTreeSet<Cause>,
    /// What was looked at, in a few words.
    pub detail: String,
}

/// One entry of an archive.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: String,
    kind: u8,
    mode: u32,
    owner: (u64, u64),
    time: u64,
    link: String,
    sha256: Sha256,
    at: u64,
    bytes: u64,
}

/// What differs inside two builds of the package `name`; empty where the files are the same, byte by
/// byte.
pub fn compare(
    name: &str,
    (first, second): (&Utf8Path, &Utf8Path),
    isolation: &Isolation,
) -> Result<Vec<Difference>, DebError> {
    let digest = |path| crate::files::hash(path).map(|(sha256, _bytes)| sha256);
    if digest(first)? == digest(second)? {
        return Ok(Vec::new());
    }
    let (a, b) = (Deb::new(isolation, first), Deb::new(isolation, second));
    let mut found: Vec<Difference> = Vec::new();
    for (prefix, archives) in [
        ("", (a.files()?, b.files()?)),
        (CONTROL, (a.control()?, b.control()?)),
    ] {
        let (mut first, mut second) = archives;
        let (left, right) = (list(&a, &mut first)?, list(&b, &mut second)?);
        let differing: BTreeSet<String> = found.iter().map(|one| one.file.clone()).collect();
        let mut tell = |file: &str, causes: BTreeSet<Cause>, detail: &str| {
            found.push(Difference {
                package: name.to_owned(),
                file: format!("{prefix}{file}"),
                causes,
                detail: detail.to_owned(),
            });
        };
        entries((&left, &right), &mut tell, &mut |left, right| {
            let is_control = prefix == CONTROL;
            let path = &left.path;
            let left = content(&mut first, left).map_err(|source| a.archive(source))?;
            let right = content(&mut second, right).map_err(|source| b.archive(source))?;
            if is_control && follows(path, &left, &right, &differing) {
                return Ok(BTreeSet::new());
            }
            Ok(causes(path, &left, &right))
        })?;
    }
    if found.is_empty() {
        let (cause, detail) = envelope(first, second)?;
        found.push(Difference {
            package: name.to_owned(),
            file: String::new(),
            causes: BTreeSet::from([cause]),
            detail: detail.to_owned(),
        });
    }
    Ok(found)
}

/// Why the contents of two entries differ; nothing where that follows from what was told before.
type Contents<'a> = dyn FnMut(&Entry, &Entry) -> Result<BTreeSet<Cause>, DebError> + 'a;

/// Whether a control file differs only because files of the package do: their digests and sizes stand
/// in it.
fn follows(file: &str, left: &[u8], right: &[u8], differing: &BTreeSet<String>) -> bool {
    let lines = |bytes: &[u8]| -> BTreeSet<String> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().map(str::to_owned).collect()
    };
    let (left, right) = (lines(left), lines(right));
    !differing.is_empty()
        && left.symmetric_difference(&right).all(|line| match file {
            "md5sums" => line
                .split_once("  ")
                .is_some_and(|(_digest, path)| differing.contains(path)),
            "control" => line.starts_with("Installed-Size: "),
            _ => false,
        })
}

/// Compares two lists of entries, and reads the contents of those that differ.
fn entries(
    (left, right): (&[Entry], &[Entry]),
    tell: &mut dyn FnMut(&str, BTreeSet<Cause>, &str),
    contents: &mut Contents<'_>,
) -> Result<(), DebError> {
    let by_path = |entries: &[Entry]| -> BTreeMap<String, usize> {
        let paths = entries.iter().enumerate();
        paths.map(|(at, entry)| (entry.path.clone(), at)).collect()
    };
    let (in_left, in_right) = (by_path(left), by_path(right));
    let only = |cause| BTreeSet::from([cause]);
    for path in in_left.keys().filter(|path| !in_right.contains_key(*path)) {
        tell(path, only(Cause::Unclassified), "only in the first build");
    }
    for path in in_right.keys().filter(|path| !in_left.contains_key(*path)) {
        tell(path, only(Cause::Unclassified), "only in the rebuild");
    }
    for (path, at) in &in_left {
        let Some(other) = in_right.get(path) else {
            continue;
        };
        let (left, right) = (&left[*at], &right[*other]);
        if (left.kind, left.mode, left.owner, &left.link)
            != (right.kind, right.mode, right.owner, &right.link)
        {
            tell(
                path,
                only(Cause::Unclassified),
                "its kind, mode, owner or link",
            );
        }
        if left.time != right.time {
            tell(path, only(Cause::Timestamp), "its time of change");
        }
        if left.sha256 != right.sha256 {
            if left.bytes.max(right.bytes) > LIMIT {
                tell(
                    path,
                    only(Cause::Unclassified),
                    "its content, too large to look into",
                );
                continue;
            }
            let causes = contents(left, right)?;
            if !causes.is_empty() {
                tell(path, causes, "its content");
            }
        }
    }
    let order = |entries: &[Entry], other: &BTreeMap<String, usize>| -> Vec<String> {
        let paths = entries.iter().map(|entry| entry.path.clone());
        paths.filter(|path| other.contains_key(path)).collect()
    };
    if order(left, &in_right) != order(right, &in_left) {
        tell("", only(Cause::FileOrder), "the order of its entries");
    }
    Ok(())
}

/// The entries of an archive, each with the digest of its content.
fn list(deb: &Deb<'_>, archive: &mut File) -> Result<Vec<Entry>, DebError> {
    let io = |source| deb.archive(source);
    let mut found = Vec::new();
    let mut tar = tar::Archive::new(archive);
    for entry in tar.entries().map_err(io)? {
        interrupt::check()?;
        let mut entry = entry.map_err(io)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let link = entry.link_name_bytes().map(|link| text(&link));
        let path = text(&entry.path_bytes());
        let header = entry.header().clone();
        let (at, bytes) = (entry.raw_file_position(), entry.size());
        let sha256 = digest(&mut entry).map_err(io)?;
        found.push(Entry {
            path: path.trim_start_matches("./").to_owned(),
            kind: header.entry_type().as_byte(),
            mode: header.mode().map_err(io)?,
            owner: (header.uid().map_err(io)?, header.gid().map_err(io)?),
            time: header.mtime().map_err(io)?,
            link: link.unwrap_or_default(),
            sha256,
            at,
            bytes,
        });
    }
    Ok(found)
}

fn digest(stream: &mut impl io::Read) -> io::Result<Sha256> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn content(archive: &mut File, entry: &Entry) -> io::Result<Vec<u8>> {
    archive.seek(SeekFrom::Start(entry.at))?;
    let mut bytes = Vec::new();
    archive.take(entry.bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why two packages differ whose files are the same: by what stands around them.
fn envelope(first: &Utf8Path, second: &Utf8Path) -> Result<(Cause, &'static str), DebError> {
    let (a, b) = (
        crate::files::read(first, LIMIT)?,
        crate::files::read(second, LIMIT)?,
    );
    Ok(match (without_times(a), without_times(b)) {
        (Some(a), Some(b)) if a == b => (Cause::Timestamp, "the times of its members"),
        _ => (
            Cause::CompressionThreads,
            "the same files, compressed otherwise",
        ),
    })
}

/// An `ar` archive in which every member has the same time; nothing where it is none. A header is
/// the name (16 bytes), the time (12), owner, group, mode, and at 48 the size in 10 digits; members
/// begin at even places (`man 5 deb`, `man 5 ar`).
fn without_times(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let mut at = b"!<arch>\n".len();
    for _member in 0..AR_MEMBERS {
        let header = bytes.get_mut(at..at.checked_add(AR_HEADER)?)?;
        header[16..28].fill(b' ');
        let size = std::str::from_utf8(&header[48..58]).ok()?;
        let size: usize = size.trim().parse().ok()?;
        at = at.checked_add(AR_HEADER)?.checked_add(size)?;
        at = at.checked_add(at % 2)?;
    }
    Some(bytes)
}
