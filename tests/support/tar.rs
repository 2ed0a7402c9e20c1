//! Tar archives made by hand, so that a hostile one can say whatever its maker likes.

use std::fs::File;
use std::io::{Seek as _, Write as _};

/// The first lines of a kernel's top makefile.
pub fn makefile(version: &str, patchlevel: &str, sublevel: &str, extra: &str) -> String {
    format!(
        "# SPDX-License-Identifier: GPL-2.0\nVERSION = {version}\nPATCHLEVEL = {patchlevel}\n\
         SUBLEVEL = {sublevel}\nEXTRAVERSION = {extra}\nNAME = Baby Opossum Posse\n"
    )
}

/// Type flags of the ustar format.
pub mod kind {
    /// An ordinary file.
    pub const FILE: u8 = b'0';
    /// A second name of a file in the archive.
    pub const HARD_LINK: u8 = b'1';
    /// A symbolic link.
    pub const SYMLINK: u8 = b'2';
    /// A character device.
    pub const CHARACTER: u8 = b'3';
    /// A block device.
    pub const BLOCK: u8 = b'4';
    /// A directory.
    pub const DIRECTORY: u8 = b'5';
    /// A named pipe.
    pub const FIFO: u8 = b'6';
}

/// An archive being made.
#[derive(Debug, Clone, Default)]
pub struct Tar {
    bytes: Vec<u8>,
    closed: bool,
}

/// One header, every field of which can lie.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Up to 100 bytes; longer ones are written with a GNU long-name entry before.
    pub path: &'a str,
    /// The type flag.
    pub kind: u8,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since 1970.
    pub mtime: u64,
    /// Where a link leads.
    pub link: &'a str,
    /// What a file holds.
    pub content: &'a [u8],
    /// The size field, where it is not the content's length.
    pub size: Option<u64>,
}

impl Default for Entry<'_> {
    fn default() -> Self {
        Self {
            path: "",
            kind: kind::FILE,
            mode: 0o664,
            mtime: 1_700_000_000,
            link: "",
            content: b"",
            size: None,
        }
    }
}

impl Tar {
    /// An archive with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that stand for an archive, as they are.
    pub fn raw(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            closed: true,
        }
    }

    /// A small kernel source of `version` (`6.18.40`) below `linux-VERSION/`.
    pub fn kernel(version: &str) -> Self {
        let prefix = format!("linux-{version}");
        let mut numbers = version.split('.').chain(std::iter::repeat("0"));
        let mut next = || numbers.next().expect("endless");
        let text = makefile(next(), next(), next(), "");
        Self::new()
            .global_header("comment=0123456789012345678901234567890123456789")
            .directory(&format!("{prefix}/"))
            .file_at(&format!("{prefix}/COPYING"), b"GPL-2.0\n")
            .directory(&format!("{prefix}/Documentation/"))
            .file_at(&format!("{prefix}/Documentation/index.rst"), b"Docs\n")
            .file_at(&format!("{prefix}/Kconfig"), b"config X\n\tbool\n")
            .file_at(&format!("{prefix}/Makefile"), text.as_bytes())
            .directory(&format!("{prefix}/kernel/"))
            .file_at(&format!("{prefix}/kernel/fork.c"), b"int fork;\n")
            .directory(&format!("{prefix}/scripts/"))
            .entry(Entry {
                path: &format!("{prefix}/scripts/run.sh"),
                mode: 0o775,
                content: b"#!/bin/sh\n",
                ..Entry::default()
            })
            .entry(Entry {
                path: &format!("{prefix}/scripts/link"),
                kind: kind::SYMLINK,
                link: "../kernel/fork.c",
                ..Entry::default()
            })
    }

    /// Adds a directory.
    pub fn directory(self, path: &str) -> Self {
        self.entry(Entry {
            path,
            kind: kind::DIRECTORY,
            mode: 0o775,
            ..Entry::default()
        })
    }

    /// Adds a file.
    pub fn file_at(self, path: &str, content: &[u8]) -> Self {
        self.entry(Entry {
            path,
            content,
            ..Entry::default()
        })
    }

    /// Adds the header that `git archive` begins with.
    pub fn global_header(self, record: &str) -> Self {
        // A PAX record begins with its own length, the digits included.
        let mut length = record.len() + 2;
        while format!("{length} {record}\n").len() != length {
            length += 1;
        }
        self.entry(Entry {
            path: "pax_global_header",
            kind: b'g',
            content: format!("{length} {record}\n").as_bytes(),
            ..Entry::default()
        })
    }

    /// Adds anything.
    pub fn entry(mut self, entry: Entry<'_>) -> Self {
        if entry.path.len() > 100 {
            let name = [entry.path.as_bytes(), b"\0"].concat();
            self = self.entry(Entry {
                path: "././@LongLink",
                kind: b'L',
                content: &name,
                ..Entry::default()
            });
        }
        let size = entry.size.unwrap_or(entry.content.len() as u64);
        let mut header = [0_u8; 512];
        let mut put = |offset: usize, bytes: &[u8]| {
            header[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &entry.path.as_bytes()[..entry.path.len().min(100)]);
        put(100, format!("{:07o}", entry.mode).as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{size:011o}").as_bytes());
        put(136, format!("{:011o}", entry.mtime).as_bytes());
        put(148, b"        ");
        put(156, &[entry.kind]);
        put(157, &entry.link.as_bytes()[..entry.link.len().min(100)]);
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(entry.content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// The archive with its end mark.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if !self.closed {
            bytes.extend([0; 1024]);
        }
        bytes
    }

    /// The archive as an open file without a name.
    pub fn file(&self) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&self.bytes()).expect("a temporary file");
        file.rewind().expect("a temporary file");
        file
    }
}
