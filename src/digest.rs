//! Digests and key fingerprints as values that cannot be malformed.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::kernel::serde_as_text;

/// Why a text is not a digest or fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {what}: expected {expected}")]
pub struct DigestError {
    what: &'static str,
    found: String,
    expected: &'static str,
}

/// A SHA-256 digest; written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The first eight hexadecimal digits, enough to recognise a build by eye.
    pub fn short8(&self) -> String {
        self.to_string()[..8].to_owned()
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError {
            what: "SHA-256 digest",
            found: text.to_owned(),
            expected: "64 lower-case hexadecimal digits",
        };
        let digit = |b: u8| match b {
            b'0'..=b'9' => Some(b - b'0'),
            b'a'..=b'f' => Some(b - b'a' + 10),
            _ => None,
        };
        if text.len() != 64 {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let high = digit(pair[0]).ok_or_else(error)?;
            let low = digit(pair[1]).ok_or_else(error)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

serde_as_text!(Sha256);

/// Computes a [`Sha256`] piece by piece; also a writer, so that bytes can be copied into it.
#[derive(Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was added.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The full fingerprint of an OpenPGP certificate: 40 (version 4) or 64 (version 6) hexadecimal
/// digits, kept in upper case. Key ids are never accepted: they can be collided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let good = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if good {
            Ok(Self(text.to_ascii_uppercase()))
        } else {
            Err(DigestError {
                what: "fingerprint",
                found: text.to_owned(),
                expected: "the full 40 (or 64) hexadecimal digits without blanks, not a key id",
            })
        }
    }
}

serde_as_text!(Fingerprint);

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_published_vector() {
        assert_eq!(Sha256::of(b"abc").to_string(), ABC);
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), ABC.parse().unwrap());
    }

    #[test]
    fn malformed_digests_are_refused() {
        for bad in [
            &ABC[1..],
            &ABC.to_uppercase(),
            &format!("{ABC}0"),
            &ABC.replace('b', "g"),
            "",
        ] {
            assert!(bad.parse::<Sha256>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn key_ids_are_no_fingerprints() {
        let full = "647f28654894e3bd457199be38dbbdc86092693e";
        assert_eq!(
            full.parse::<Fingerprint>().unwrap().as_str(),
            full.to_uppercase()
        );
        for bad in [
            "38DBBDC86092693E",
            "0x647F28654894E3BD457199BE38DBBDC86092693E",
            "",
        ] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad:?} was accepted");
        }
    }
}
