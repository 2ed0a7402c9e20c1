//! The pinned certificates: exactly the ones a pipeline names, read from the workspace's `keys/`.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use sequoia_openpgp as openpgp;

use openpgp::cert::{Cert, CertParser};
use openpgp::parse::Parse as _;

use super::armor::{self, ArmorError};
use super::policy::PinnedPolicy;
use crate::digest::Fingerprint;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};

/// Largest certificate file that is read, in bytes: exported minimally, one is a few kilobytes;
/// with all of its certifications, some hundred kilobytes.
const LIMIT: u64 = 4 << 20;

/// Why a pinned certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// A pipeline that pins nothing would trust nothing.
    #[error("no certificate is pinned")]
    NoPins,
    /// The file is not there.
    #[error("certificate {pin} is pinned, but `{path}` is missing")]
    Missing {
        /// The pin.
        pin: Fingerprint,
        /// Where it should be.
        path: Utf8PathBuf,
    },
    /// The file is not framed as a certificate.
    #[error("`{path}` is not a certificate")]
    Frame {
        /// The file.
        path: Utf8PathBuf,
        /// What it is instead.
        #[source]
        source: ArmorError,
    },
    /// The packets inside do not form a certificate.
    #[error("`{path}` is not a readable certificate: {}", damage(*.line, .reason))]
    Malformed {
        /// The file.
        path: Utf8PathBuf,
        /// The line that cannot be part of one, from 1; 0 where the text looks right.
        line: u64,
        /// The library's words.
        reason: String,
    },
    /// Several certificates in one file.
    #[error("`{path}` holds {count} certificates, expected one")]
    Several {
        /// The file.
        path: Utf8PathBuf,
        /// How many.
        count: usize,
    },
    /// Private key material does not belong into a workspace.
    #[error("`{path}` holds a secret key, expected a public certificate only")]
    SecretKey {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The file's name and content disagree.
    #[error("`{path}` holds certificate {found}, expected {expected}")]
    OtherFingerprint {
        /// The file.
        path: Utf8PathBuf,
        /// The pin, and the file's name.
        expected: Fingerprint,
        /// The fingerprint of the certificate's primary key.
        found: String,
    },
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

fn damage(line: u64, reason: &str) -> String {
    match line {
        0 => format!("its packets are damaged or cut off ({reason})"),
        line => format!("line {line} is not the base64 text that belongs there ({reason})"),
    }
}

impl KeyringError {
    /// What is wrong with the file itself, for who names the file and the line: the line, from 1,
    /// or 0 for the file as a whole, and the problem. `None` for what is not about its text.
    pub fn in_file(&self) -> Option<(u64, String)> {
        match self {
            Self::Frame { source, .. } => {
                Some((source.line(), format!("not a certificate: {source}")))
            }
            Self::Malformed { line, reason, .. } => Some((
                *line,
                format!("not a readable certificate: {}", damage(*line, reason)),
            )),
            Self::Several { count, .. } => {
                Some((0, format!("expected one certificate, found {count}")))
            }
            Self::SecretKey { .. } => Some((
                0,
                "it holds a secret key, expected a public certificate only".to_owned(),
            )),
            Self::OtherFingerprint {
                expected, found, ..
            } => Some((0, format!("expected certificate {expected}, found {found}"))),
            Self::NoPins | Self::Missing { .. } | Self::File(_) => None,
        }
    }
}

impl Diagnose for KeyringError {
    fn exit(&self) -> Exit {
        match self {
            Self::File(error) => error.exit(),
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoPins => "no-pins",
            Self::Missing { .. } => "certificate-missing",
            Self::Frame { .. } | Self::Malformed { .. } => "certificate-malformed",
            Self::Several { .. } => "certificate-several",
            Self::SecretKey { .. } => "certificate-secret",
            Self::OtherFingerprint { .. } => "certificate-other",
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoPins => vec![
                "name the full fingerprint of at least one certificate under `keys: release:` of \
                 the pipeline"
                    .to_owned(),
            ],
            Self::Missing { pin, path } => vec![format!(
                "export the certificate with `gpg --armor --export-options export-minimal --export \
                 {pin}` into `{path}`, after comparing the fingerprint with a second source"
            )],
            Self::Frame { path, .. } | Self::Malformed { path, .. } => vec![format!(
                "restore `{path}` from version control, or run `kiln keys lint` to see each file"
            )],
            Self::Several { .. } => {
                vec!["keep one file for each certificate, named by its fingerprint".to_owned()]
            }
            Self::SecretKey { path } => vec![format!(
                "remove `{path}` from the workspace and from its history: its key must be \
                 considered known"
            )],
            Self::OtherFingerprint { path, found, .. } => vec![format!(
                "do not rename `{path}` to {found}: find out first who replaced it"
            )],
            Self::File(error) => error.hints(),
        }
    }
}

/// One pinned certificate.
#[derive(Debug, Clone)]
pub(in crate::source) struct Pinned {
    /// The fingerprint of its primary key.
    pub(in crate::source) fingerprint: Fingerprint,
    /// The certificate.
    pub(in crate::source) cert: Cert,
}

/// The certificates whose signatures count for one purpose. Made only from files named and filled
/// by the pinned fingerprints.
#[derive(Debug, Clone)]
pub struct Keyring {
    pinned: Vec<Pinned>,
}

impl Keyring {
    /// Reads `FINGERPRINT.asc` from `directory` for each pin. A pin named twice counts once.
    pub fn load(directory: &Utf8Path, pins: &[Fingerprint]) -> Result<Self, KeyringError> {
        let mut pinned: Vec<Pinned> = Vec::new();
        for pin in pins {
            if !pinned.iter().any(|known| known.fingerprint == *pin) {
                pinned.push(read(&path(directory, pin), pin)?);
            }
        }
        if pinned.is_empty() {
            return Err(KeyringError::NoPins);
        }
        Ok(Self { pinned })
    }

    /// The pinned fingerprints, in the pipeline's order.
    pub fn pins(&self) -> Vec<Fingerprint> {
        self.pinned
            .iter()
            .map(|pinned| pinned.fingerprint.clone())
            .collect()
    }

    pub(in crate::source) fn certificates(&self) -> &[Pinned] {
        &self.pinned
    }

    /// The policy under which these certificates are judged.
    pub(in crate::source) fn policy(&self, at: Timestamp) -> PinnedPolicy {
        PinnedPolicy::new(
            at,
            self.pinned
                .iter()
                .map(|pinned| pinned.cert.fingerprint())
                .collect(),
        )
    }
}

/// The file of a pinned certificate.
pub(in crate::source) fn path(directory: &Utf8Path, pin: &Fingerprint) -> Utf8PathBuf {
    directory.join(format!("{pin}.asc"))
}

/// Reads the file of one pinned certificate.
pub(in crate::source) fn read(path: &Utf8Path, pin: &Fingerprint) -> Result<Pinned, KeyringError> {
    let bytes = match files::read(path, LIMIT) {
        Ok(bytes) => bytes,
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(KeyringError::Missing {
                pin: pin.clone(),
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let mut certificates = parse(path, &bytes)?;
    let count = certificates.len();
    let (Some(cert), 1) = (certificates.pop(), count) else {
        return Err(KeyringError::Several {
            path: path.to_owned(),
            count,
        });
    };
    if cert.is_tsk() {
        return Err(KeyringError::SecretKey {
            path: path.to_owned(),
        });
    }
    if cert.fingerprint().to_hex() != pin.as_str() {
        return Err(KeyringError::OtherFingerprint {
            path: path.to_owned(),
            expected: pin.clone(),
            found: cert.fingerprint().to_hex(),
        });
    }
    Ok(Pinned {
        fingerprint: pin.clone(),
        cert,
    })
}

/// The certificates in a file, at least one.
pub(in crate::source) fn parse(path: &Utf8Path, bytes: &[u8]) -> Result<Vec<Cert>, KeyringError> {
    let blocks = match armor::blocks(bytes, "PGP PUBLIC KEY BLOCK") {
        Err(ArmorError::Kind { found, .. }) if found == "PGP PRIVATE KEY BLOCK" => {
            return Err(KeyringError::SecretKey {
                path: path.to_owned(),
            });
        }
        other => other.map_err(|source| KeyringError::Frame {
            path: path.to_owned(),
            source,
        })?,
    };
    let malformed = |reason: String| KeyringError::Malformed {
        path: path.to_owned(),
        line: armor::foreign_line(bytes).unwrap_or(0),
        reason,
    };
    let mut certificates = Vec::new();
    for block in blocks {
        let parser = CertParser::from_bytes(block).map_err(|error| malformed(error.to_string()))?;
        for cert in parser {
            certificates.push(cert.map_err(|error| malformed(error.to_string()))?);
        }
    }
    if certificates.is_empty() {
        return Err(malformed("no certificate inside".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::test_keys::TestKey;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let guard = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(guard.path().to_str().unwrap());
        (guard, path)
    }

    fn pin(key: &TestKey) -> Fingerprint {
        key.fingerprint().parse().unwrap()
    }

    /// What loading `key`'s pin gives when its file holds `content`.
    fn load(key: &TestKey, content: &[u8]) -> Result<Keyring, KeyringError> {
        let (_guard, directory) = scratch();
        files::write(&path(&directory, &pin(key)), content).unwrap();
        Keyring::load(&directory, &[pin(key)])
    }

    #[test]
    fn a_pinned_certificate() {
        let key = TestKey::new();
        let keyring = load(&key, key.armored_cert().as_bytes()).unwrap();
        assert_eq!(keyring.pins(), [pin(&key)]);
    }

    #[test]
    fn only_what_is_pinned_is_read_and_once() {
        let (_guard, directory) = scratch();
        let (pinned, other) = (TestKey::new(), TestKey::new());
        for key in [&pinned, &other] {
            files::write(&path(&directory, &pin(key)), key.armored_cert().as_bytes()).unwrap();
        }
        let keyring = Keyring::load(&directory, &[pin(&pinned), pin(&pinned)]).unwrap();
        assert_eq!(keyring.pins(), [pin(&pinned)]);
    }

    #[test]
    fn each_bad_file_has_its_own_error() {
        let key = TestKey::new();
        let other = TestKey::new();
        let good = key.armored_cert();
        let code = |content: &str| load(&key, content.as_bytes()).unwrap_err().code();
        assert_eq!(code(&other.armored_cert()), "certificate-other");
        assert_eq!(code(&key.armored_secret()), "certificate-secret");
        assert_eq!(
            code(&format!("{good}\n{}", other.armored_cert())),
            "certificate-several"
        );
        assert_eq!(code(&good[..good.len() - 5]), "certificate-malformed");
        assert_eq!(code(&format!("{good}junk\n")), "certificate-malformed");
        assert_eq!(code("<html>"), "certificate-malformed");
        assert_eq!(code(""), "certificate-malformed");
        let lines: Vec<&str> = good.lines().collect();
        let hollow = [lines[0], "", lines[lines.len() - 1]].join("\n");
        assert_eq!(code(&hollow), "certificate-malformed");
        // Secret packets are noticed whatever the armor calls itself.
        let disguised = key.armored_secret().replace("PRIVATE", "PUBLIC");
        assert_eq!(code(&disguised), "certificate-secret");
    }

    #[test]
    fn a_missing_file_and_an_empty_list_of_pins() {
        let (_guard, directory) = scratch();
        let missing = Keyring::load(&directory, &[pin(&TestKey::new())]).unwrap_err();
        assert_eq!(missing.code(), "certificate-missing");
        assert!(missing.hints()[0].contains("gpg --armor"));
        let none = Keyring::load(&directory, &[]).unwrap_err();
        assert_eq!(none.code(), "no-pins");
    }
}
