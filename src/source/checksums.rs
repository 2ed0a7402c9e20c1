//! kernel.org's `sha256sums.asc`: digests of the compressed files, signed by kernel.org's own
//! checksum key.
//!
//! Its use is to know the digest *before* the decompressor runs, so that a poisoned cache cannot
//! reach it. The key that signs it is a machine's and has a role of its own: it can refuse a
//! tarball, never bless one.

use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};

use super::keyring::Keyring;
use super::signature::{SignatureError, SignedText, verify_text};
use super::verdict::Signer;

/// Name of the list in each directory of the archive.
pub const FILE: &str = "sha256sums.asc";

/// Largest list that is read, in bytes. That of `v5.x`, the longest, has about 1 MiB.
pub const LIMIT: u64 = 8 << 20;

/// Why the list gave no digest.
#[derive(Debug, thiserror::Error)]
pub enum ChecksumsError {
    /// Its signature does not count.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A line of another form.
    #[error(
        "`{FILE}`:{line}: expected a SHA-256 digest, two blanks and a file name, found `{found}`"
    )]
    Malformed {
        /// Line of the signed text, from 1.
        line: usize,
        /// The line, shortened.
        found: String,
    },
    /// Two digests for one name.
    #[error("`{FILE}`:{line}: a second, different digest for `{file}`")]
    Ambiguous {
        /// Line of the signed text, from 1.
        line: usize,
        /// The name.
        file: String,
    },
    /// The list is older than the file.
    #[error("`{file}` is not yet listed in `{FILE}`, which was signed {signed}")]
    NotListed {
        /// The name.
        file: String,
        /// When the list was signed.
        signed: jiff::Timestamp,
    },
}

impl Diagnose for ChecksumsError {
    fn exit(&self) -> Exit {
        match self {
            Self::Signature(error) => error.exit(),
            Self::Malformed { .. } | Self::Ambiguous { .. } => Exit::NotVerified,
            Self::NotListed { .. } => Exit::NotPublished,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Signature(error) => error.code(),
            Self::Malformed { .. } => "checksums-malformed",
            Self::Ambiguous { .. } => "checksums-ambiguous",
            Self::NotListed { .. } => "checksums-not-listed",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Signature(error) => error.hints(),
            Self::Malformed { .. } | Self::Ambiguous { .. } => {
                vec![
                    "compare with the list of another mirror, and report it if it stays".to_owned(),
                ]
            }
            Self::NotListed { .. } => vec![
                "wait: the list lags some minutes to hours behind a release".to_owned(),
                "or empty `keys: checksums:` of the pipeline, which skips the list; the \
                 maintainer's signature is checked all the same"
                    .to_owned(),
            ],
        }
    }
}

/// A verified list.
#[derive(Debug)]
pub struct Checksums(SignedText);

impl Checksums {
    /// Verifies the bytes of `sha256sums.asc` with the certificates of the checksums role.
    pub fn verify(bytes: &[u8], keyring: &Keyring) -> Result<Self, ChecksumsError> {
        Ok(Self(verify_text(bytes, FILE, keyring)?))
    }

    /// Who signed it.
    pub fn signer(&self) -> &Signer {
        self.0.signer()
    }

    /// The digest of `file`, whose name must stand there exactly.
    pub fn digest(&self, file: &str) -> Result<Sha256, ChecksumsError> {
        find(self.0.text(), file)?.ok_or_else(|| ChecksumsError::NotListed {
            file: file.to_owned(),
            signed: self.signer().made,
        })
    }
}

/// Looks up `file` in the text of a list. Every line is read, so that one that is malformed or
/// contradicts another is noticed wherever it stands.
fn find(text: &str, file: &str) -> Result<Option<Sha256>, ChecksumsError> {
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let line_number = index + 1;
        let (digest, name) = entry(line).ok_or_else(|| ChecksumsError::Malformed {
            line: line_number,
            found: line
                .chars()
                .take(80)
                .flat_map(char::escape_default)
                .collect(),
        })?;
        if name != file {
            continue;
        }
        if found.is_some_and(|known| known != digest) {
            return Err(ChecksumsError::Ambiguous {
                line: line_number,
                file: file.to_owned(),
            });
        }
        found = Some(digest);
    }
    Ok(found)
}

/// One line as `sha256sum` writes it: digest, a blank, then a blank (text) or `*` (binary), name.
fn entry(line: &str) -> Option<(Sha256, &str)> {
    let (digest, rest) = line.split_once(' ')?;
    let name = rest.strip_prefix([' ', '*'])?;
    let plain = !name.is_empty() && !name.starts_with(' ') && name.trim_end() == name;
    plain
        .then(|| digest.parse().ok())
        .flatten()
        .map(|digest| (digest, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list() -> String {
        let digest = |byte: char| byte.to_string().repeat(64);
        format!(
            "{}  linux-6.18.4.tar.xz\n{}  linux-6.18.40.tar.xz\n{}  not-linux-6.18.40.tar.xz\n\
             {} *linux-6.18.40.tar.gz\n",
            digest('a'),
            digest('b'),
            digest('c'),
            digest('d')
        )
    }

    #[test]
    fn names_match_whole() {
        let found = |file| find(&list(), file).unwrap().map(|digest| digest.short8());
        assert_eq!(found("linux-6.18.40.tar.xz").unwrap(), "bbbbbbbb");
        assert_eq!(found("linux-6.18.4.tar.xz").unwrap(), "aaaaaaaa");
        assert_eq!(found("linux-6.18.40.tar.gz").unwrap(), "dddddddd");
        // A dot is a dot, and a part of a name is no name.
        for absent in [
            "linux-6.18.40xtar.xz",
            "6.18.40.tar.xz",
            "linux-6.18.40.tar",
            "",
        ] {
            assert_eq!(found(absent), None, "{absent}");
        }
    }

    #[test]
    fn malformed_lines_are_errors_wherever_they_stand() {
        for bad in [
            "short  x",
            "nothing",
            &format!("{} x", "a".repeat(64)),
            &format!("{}   x", "a".repeat(64)),
        ] {
            let error = find(&format!("{}{bad}\n", list()), "linux-6.18.4.tar.xz").unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("`sha256sums.asc`:5: expected"),
                "{error}"
            );
            assert_eq!(error.exit(), Exit::NotVerified);
        }
    }

    #[test]
    fn a_name_listed_twice_must_agree() {
        let again = format!("{}{}", list(), list());
        assert!(find(&again, "linux-6.18.4.tar.xz").unwrap().is_some());
        let contradiction = format!("{}{}  linux-6.18.4.tar.xz\n", list(), "f".repeat(64));
        let error = find(&contradiction, "linux-6.18.4.tar.xz").unwrap_err();
        assert_eq!(error.code(), "checksums-ambiguous");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}", file in ".{0,20}") {
            let _found = find(&text, &file);
        }
    }
}
