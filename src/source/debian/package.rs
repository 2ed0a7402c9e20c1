//! Looking into a `.deb`.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use camino::Utf8Path;

use super::DebianError;
use crate::command::{Cmd, Tool};
use crate::files::{self, Staged};
use crate::interrupt;
use crate::sandbox::{Isolation, Sandbox};
use crate::store::Store;

/// The longest that unpacking a package, or a member of one, may take.
const UNPACK: Duration = Duration::from_mins(20);

/// The files of a package: what `dpkg-deb --fsys-tarfile` gives.
pub(super) struct Package {
    /// For messages.
    name: String,
    tar: Staged,
}

/// A file in a package: where its bytes are in the tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Its path, without a leading `./`.
    pub(super) path: String,
    offset: u64,
    bytes: u64,
}

#[cfg(test)]
impl Member {
    /// A member of which only the path matters.
    pub(super) fn at(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            offset: 0,
            bytes: 0,
        }
    }
}

impl Package {
    /// Opens the package in `deb`, which was verified before; it is unpacked in a sandbox all the
    /// same.
    pub(super) fn open(
        deb: &Utf8Path,
        name: &str,
        store: &Store,
        isolation: &Isolation,
    ) -> Result<Self, DebianError> {
        let tar = store.stage()?;
        // As standard input, so that the sandbox's user needs no way to it.
        Cmd::new(&Tool::find("dpkg-deb")?)
            .args(["--fsys-tarfile", "-"])
            .stdin_file(files::open(deb)?)
            .stdout_file(tar.reopen()?)
            .sandbox(&Sandbox::new(isolation))
            .deadline(UNPACK)
            .run()?;
        Ok(Self {
            name: name.to_owned(),
            tar,
        })
    }

    fn unreadable(&self, source: io::Error) -> DebianError {
        DebianError::Unreadable {
            package: self.name.clone(),
            source,
        }
    }

    /// Every regular file in it.
    pub(super) fn members(&self) -> Result<Vec<Member>, DebianError> {
        let unreadable = |error| self.unreadable(error);
        let mut archive = tar::Archive::new(self.tar.reopen()?);
        let mut members = Vec::new();
        for entry in archive.entries_with_seek().map_err(unreadable)? {
            interrupt::check()?;
            let entry = entry.map_err(unreadable)?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            members.push(Member {
                path: path.strip_prefix("./").unwrap_or(&path).to_owned(),
                offset: entry.raw_file_position(),
                bytes: entry.size(),
            });
        }
        Ok(members)
    }

    /// The bytes of a member, of which there may be `cap`.
    pub(super) fn read(&self, member: &Member, cap: u64) -> Result<Vec<u8>, DebianError> {
        let mut bytes = Vec::new();
        self.at(member, cap)?
            .read_to_end(&mut bytes)
            .map_err(|error| self.unreadable(error))?;
        Ok(bytes)
    }

    /// Copies a member of at most `cap` bytes into `to`.
    pub(super) fn copy(&self, member: &Member, cap: u64, to: &mut File) -> Result<(), DebianError> {
        let copied = io::copy(&mut self.at(member, cap)?, to);
        let copied = copied.map_err(|error| self.unreadable(error))?;
        if copied == member.bytes {
            Ok(())
        } else {
            Err(self.unreadable(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    fn at(&self, member: &Member, cap: u64) -> Result<io::Take<File>, DebianError> {
        if member.bytes > cap {
            return Err(DebianError::Content {
                package: self.name.clone(),
                problem: format!(
                    "`{}` has {} bytes, expected at most {cap}",
                    member.path, member.bytes
                ),
            });
        }
        let mut file = self.tar.reopen()?;
        file.seek(SeekFrom::Start(member.offset))
            .map_err(|error| self.unreadable(error))?;
        Ok(file.take(member.bytes))
    }
}

/// Unpacks a gzip file in a sandbox.
pub(super) fn gunzip(bytes: Vec<u8>, isolation: &Isolation) -> Result<Vec<u8>, DebianError> {
    let unpacked = Cmd::new(&Tool::find("gzip")?)
        .args(["--decompress", "--stdout"])
        .stdin_bytes(bytes)
        .sandbox(&Sandbox::new(isolation))
        .deadline(UNPACK)
        .capture()?;
    Ok(unpacked)
}
