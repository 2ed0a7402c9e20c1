//! The initial file system of a guest: a `newc` archive written so that equal contents give equal
//! bytes.
//!
//! Format: `Documentation/driver-api/early-userspace/buffer-format.rst`. Written here rather than by
//! `cpio`, which takes inode numbers and times from the host's files, and cannot make a device node
//! without being root.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Why an archive cannot hold an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The name has a form that the kernel would not unpack as meant.
    #[error("`{0}` cannot be a name in an initramfs: expected a relative path without `.` or `..`")]
    Name(String),
    /// The format has 32 bits for a size.
    #[error("`{name}` has {bytes} bytes: an initramfs holds files of at most 4 GiB")]
    TooLarge {
        /// The file.
        name: String,
        /// Its size.
        bytes: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Directory,
    File(Vec<u8>),
    Character { major: u32, minor: u32 },
}

/// An archive being put together. Entries are kept by name, so the order of the calls does not
/// matter, and directories come before what they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initramfs {
    entries: BTreeMap<String, (u32, Kind)>,
}

impl Initramfs {
    /// An archive without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory, mode 0755.
    pub fn directory(&mut self, name: &str) -> Result<(), ArchiveError> {
        self.add(name, 0o040_755, Kind::Directory)
    }

    /// Adds a file with the permissions `mode`.
    pub fn file(&mut self, name: &str, mode: u32, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(ArchiveError::TooLarge {
                name: name.to_owned(),
                bytes: bytes.len(),
            });
        }
        self.add(name, 0o100_000 | mode, Kind::File(bytes))
    }

    /// Adds a character device, mode 0600.
    pub fn character(&mut self, name: &str, major: u32, minor: u32) -> Result<(), ArchiveError> {
        self.add(name, 0o020_600, Kind::Character { major, minor })
    }

    /// Adds an entry and the directories above it.
    fn add(&mut self, name: &str, mode: u32, kind: Kind) -> Result<(), ArchiveError> {
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !name.split('/').all(plain) || name == "TRAILER!!!" {
            return Err(ArchiveError::Name(name.to_owned()));
        }
        for (slash, _) in name.match_indices('/') {
            self.entries
                .entry(name[..slash].to_owned())
                .or_insert((0o040_755, Kind::Directory));
        }
        self.entries.insert(name.to_owned(), (mode, kind));
        Ok(())
    }

    /// The archive's bytes: owner 0, time 0, inode numbers in order of the names.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (inode, (name, (mode, kind))) in (1..).zip(&self.entries) {
            let (links, data, device) = match kind {
                Kind::Directory => (2, [].as_slice(), (0, 0)),
                Kind::File(bytes) => (1, bytes.as_slice(), (0, 0)),
                Kind::Character { major, minor } => (1, [].as_slice(), (*major, *minor)),
            };
            entry(&mut archive, name, inode, (*mode, links), device, data);
        }
        entry(&mut archive, "TRAILER!!!", 0, (0, 1), (0, 0), &[]);
        archive
    }
}

/// Writes one entry: a header of 13 numbers, the name, the data, each padded to four bytes.
fn entry(
    archive: &mut Vec<u8>,
    name: &str,
    inode: u32,
    (mode, links): (u32, u32),
    (major, minor): (u32, u32),
    data: &[u8],
) {
    // Both sizes were checked when the entry was added; a name is shorter than its archive.
    let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
    let numbers = [
        inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0,
    ];
    let mut header = String::from("070701");
    for number in numbers {
        // Writing to a String cannot fail.
        let _infallible = write!(header, "{number:08x}");
    }
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(data);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_the_calls_does_not_matter() {
        let mut one = Initramfs::new();
        one.file("bin/busybox", 0o755, b"abc".to_vec()).unwrap();
        one.character("dev/console", 5, 1).unwrap();
        one.directory("proc").unwrap();
        let mut two = Initramfs::new();
        two.directory("proc").unwrap();
        two.character("dev/console", 5, 1).unwrap();
        two.file("bin/busybox", 0o755, b"abc".to_vec()).unwrap();
        assert_eq!(one.to_bytes(), two.to_bytes());
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut archive = Initramfs::new();
        archive.file("a/b", 0o644, b"hello".to_vec()).unwrap();
        let bytes = archive.to_bytes();
        assert!(bytes.starts_with(b"070701"));
        assert_eq!(bytes.len() % 4, 0);
        // The directory first: header of 110, name `a`, padding to 112.
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[14..22], b"000041ed");
        assert_eq!(&bytes[112..118], b"070701");
        assert_eq!(&bytes[112 + 54..112 + 62], b"00000005");
        assert_eq!(&bytes[112 + 110..112 + 114], b"a/b\0");
        let name_end = (112usize + 114).next_multiple_of(4);
        assert_eq!(&bytes[name_end..name_end + 5], b"hello");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }

    #[test]
    fn names_that_leave_the_tree_are_refused() {
        let mut archive = Initramfs::new();
        for name in [
            "",
            "/a",
            "a//b",
            "../a",
            "a/./b",
            "a/",
            "a\0b",
            "TRAILER!!!",
        ] {
            let refused = Err(ArchiveError::Name(name.to_owned()));
            assert_eq!(archive.file(name, 0o644, Vec::new()), refused);
        }
        assert_eq!(archive, Initramfs::new());
    }

    proptest! {
        #[test]
        fn every_archive_is_padded(name in "[a-z]{1,9}(/[a-z]{1,9}){0,3}", data in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut archive = Initramfs::new();
            archive.file(&name, 0o600, data).unwrap();
            prop_assert_eq!(archive.to_bytes().len() % 4, 0);
        }
    }
}
