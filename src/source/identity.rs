//! Whether a kernel tarball is the release it claims to be.
//!
//! A signature says who made the bytes, not under which name they are served today: an old tarball
//! replayed under a new name verifies well. What is *inside* the signed bytes decides: the directory
//! everything lies in, and the version at the top of the `Makefile`. The names of files outside and
//! the comments in a signature's armor prove nothing.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;

use crate::failure::{Diagnose, Exit};
use crate::interrupt::{self, Interrupted};
use crate::kernel::Version;

/// More entries than any kernel tarball has: 6.12 has 92,000.
pub(in crate::source) const MAX_ENTRIES: u64 = 500_000;

/// The version stands in the first ten lines of the `Makefile`.
const MAKEFILE_HEAD: u64 = 16 << 10;

/// Why a tarball is not the expected release.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Not a tar archive, or damaged.
    #[error("`{subject}` is not a readable tar archive")]
    NotATar {
        /// The tarball.
        subject: String,
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// Another directory than the release's.
    #[error("`{subject}` holds `{found}`, expected everything below `{expected}/`")]
    Prefix {
        /// The tarball.
        subject: String,
        /// The directory of the expected release.
        expected: String,
        /// The first entry, escaped.
        found: String,
    },
    /// No `Makefile`, or none with a version.
    #[error("`{subject}` has no {missing}")]
    Incomplete {
        /// The tarball.
        subject: String,
        /// What is missing.
        missing: String,
    },
    /// The right name around the wrong release.
    #[error("`{subject}` is Linux {found}, expected {expected}")]
    OtherVersion {
        /// The tarball.
        subject: String,
        /// The version of the lock.
        expected: String,
        /// The version of the `Makefile`, escaped.
        found: String,
    },
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for IdentityError {
    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(interrupted) => interrupted.exit(),
            _ => Exit::NotVerified,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotATar { .. } => "tar-unreadable",
            Self::Prefix { .. } | Self::OtherVersion { .. } => "wrong-release",
            Self::Incomplete { .. } => "tar-incomplete",
            Self::Interrupted(interrupted) => interrupted.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Interrupted(interrupted) => interrupted.hints(),
            Self::Prefix { .. } | Self::OtherVersion { .. } => vec![
                "do not use this mirror until it is explained: the signature is good, but it \
                 belongs to another release than the one asked for; fetch from another mirror"
                    .to_owned(),
            ],
            _ => vec!["fetch the tarball again, or from another mirror".to_owned()],
        }
    }
}

/// Reads an open file from a place of its own, so that several readers can share one handle.
#[derive(Debug)]
pub(in crate::source) struct ReadAt<'f> {
    file: &'f File,
    offset: u64,
}

impl<'f> ReadAt<'f> {
    /// From the start of the file.
    pub(in crate::source) fn new(file: &'f File) -> Self {
        Self { file, offset: 0 }
    }
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Seek for ReadAt<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let base = match to {
            SeekFrom::Start(offset) => return Ok(*self.set(offset)),
            SeekFrom::Current(by) => self.offset.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        let offset = base.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(*self.set(offset))
    }
}

impl ReadAt<'_> {
    fn set(&mut self, offset: u64) -> &u64 {
        self.offset = offset;
        &self.offset
    }
}

/// Checks that the tar archive in `file` holds the source of `version` below `prefix/`. `subject`
/// is its name, for messages.
pub(in crate::source) fn check(
    file: &File,
    subject: &str,
    prefix: &str,
    version: &Version,
) -> Result<(), IdentityError> {
    let head = makefile(file, subject, prefix)?;
    let field = |name: &str| {
        assignment(&head, name).ok_or_else(|| IdentityError::Incomplete {
            subject: subject.to_owned(),
            missing: format!("`{name} =` at the top of `{prefix}/Makefile`"),
        })
    };
    let found = [
        field("VERSION")?,
        field("PATCHLEVEL")?,
        field("SUBLEVEL")?,
        field("EXTRAVERSION")?,
    ];
    let expected = [
        version.series.major.to_string(),
        version.series.minor.to_string(),
        version.patch.to_string(),
        version.rc.map_or(String::new(), |rc| format!("-rc{rc}")),
    ];
    if found == expected {
        return Ok(());
    }
    let [major, minor, patch, extra] = found;
    Err(IdentityError::OtherVersion {
        subject: subject.to_owned(),
        expected: version.kernelversion(),
        found: escape(&format!("{major}.{minor}.{patch}{extra}")),
    })
}

/// The head of the top `Makefile`. The first entry must lie below the prefix; that all do is checked
/// when they are unpacked.
fn makefile(file: &File, subject: &str, prefix: &str) -> Result<String, IdentityError> {
    let not_a_tar = |source| IdentityError::NotATar {
        subject: subject.to_owned(),
        source,
    };
    let wanted = format!("{prefix}/Makefile");
    let below = format!("{prefix}/");
    let mut archive = tar::Archive::new(ReadAt::new(file));
    let entries = archive.entries_with_seek().map_err(not_a_tar)?;
    for (index, entry) in (0..MAX_ENTRIES).zip(entries) {
        if index % 1024 == 0 {
            interrupt::check()?;
        }
        let mut entry = entry.map_err(not_a_tar)?;
        if entry.header().entry_type().is_pax_global_extensions() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !path.starts_with(&below) && path != prefix {
            return Err(IdentityError::Prefix {
                subject: subject.to_owned(),
                expected: prefix.to_owned(),
                found: escape(&path),
            });
        }
        if path == wanted && entry.header().entry_type().is_file() {
            let mut head = Vec::new();
            let mut limited = (&mut entry).take(MAKEFILE_HEAD);
            limited.read_to_end(&mut head).map_err(not_a_tar)?;
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
    }
    Err(IdentityError::Incomplete {
        subject: subject.to_owned(),
        missing: format!("`{wanted}`"),
    })
}

/// The value of the first `NAME = VALUE` of a makefile.
fn assignment(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start();
        Some(rest.strip_prefix('=')?.trim().to_owned())
    })
}

/// At most 100 characters of a text from inside an archive, safe to print.
pub(in crate::source) fn escape(text: &str) -> String {
    text.chars()
        .take(100)
        .flat_map(char::escape_default)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::test_tar::{Tar, makefile};

    fn check_tar(tar: &Tar, version: &str) -> Result<(), IdentityError> {
        check(
            &tar.file(),
            "x.tar",
            &format!("linux-{version}"),
            &version.parse().unwrap(),
        )
    }

    #[test]
    fn the_expected_release() {
        for (version, text) in [
            ("6.18.40", makefile("6", "18", "40", "")),
            ("6.18", makefile("6", "18", "0", "")),
            ("7.3-rc2", makefile("7", "3", "0", "-rc2")),
        ] {
            let tar = Tar::new()
                .global_header("comment=0123456789abcdef")
                .directory(&format!("linux-{version}/"))
                .file_at(&format!("linux-{version}/COPYING"), b"GPL")
                .file_at(&format!("linux-{version}/Makefile"), text.as_bytes());
            check_tar(&tar, version).unwrap();
        }
    }

    #[test]
    fn an_old_release_under_a_new_name() {
        let old = Tar::new().directory("linux-6.18.39/").file_at(
            "linux-6.18.39/Makefile",
            makefile("6", "18", "39", "").as_bytes(),
        );
        let error = check_tar(&old, "6.18.40").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`x.tar` holds `linux-6.18.39/`, expected everything below `linux-6.18.40/`"
        );
        assert_eq!(error.exit(), Exit::NotVerified);
        for (found, text) in [
            ("6.18.39", makefile("6", "18", "39", "")),
            ("6.17.40", makefile("6", "17", "40", "")),
            ("6.18.40-rc1", makefile("6", "18", "40", "-rc1")),
            (r"6.18.40\u{1b}[2J", makefile("6", "18", "40", "\u{1b}[2J")),
        ] {
            let renamed = Tar::new().file_at("linux-6.18.40/Makefile", text.as_bytes());
            let error = check_tar(&renamed, "6.18.40").unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`x.tar` is Linux {found}, expected 6.18.40")
            );
        }
    }

    #[test]
    fn a_tarball_without_a_version() {
        let hollow = Tar::new().directory("linux-6.18.40/");
        assert_eq!(
            check_tar(&hollow, "6.18.40").unwrap_err().code(),
            "tar-incomplete"
        );
        let silent = Tar::new().file_at("linux-6.18.40/Makefile", b"all:\n");
        assert_eq!(
            check_tar(&silent, "6.18.40").unwrap_err().to_string(),
            "`x.tar` has no `VERSION =` at the top of `linux-6.18.40/Makefile`"
        );
        let deep = Tar::new().file_at("linux-6.18.40/tools/Makefile", b"VERSION = 6\n");
        assert_eq!(
            check_tar(&deep, "6.18.40").unwrap_err().code(),
            "tar-incomplete"
        );
    }

    #[test]
    fn bytes_that_are_no_archive() {
        let noise = Tar::raw(&[0x5a; 2048]);
        assert_eq!(
            check_tar(&noise, "6.18.40").unwrap_err().code(),
            "tar-unreadable"
        );
        let empty = Tar::raw(b"");
        assert_eq!(
            check_tar(&empty, "6.18.40").unwrap_err().code(),
            "tar-incomplete"
        );
    }

    #[test]
    fn the_first_assignment_counts() {
        let text = "# VERSION = 1\nVERSIONS = 2\nVERSION=3\nVERSION = 4\n";
        assert_eq!(assignment(text, "VERSION").unwrap(), "3");
    }
}
