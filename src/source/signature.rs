//! The one door: bytes become a [`VerifiedTarball`] here, or not at all.
//!
//! The detached signature covers the *uncompressed* tar. The order is: decompress to a file with
//! every limit and error checked; verify *that file*; unpack *that same file*. The open file, not
//! its name, is what a [`VerifiedTarball`] carries from one step to the next, and the digest of
//! what was verified is compared with what is unpacked. On the first way in, kiln hashes what it
//! writes while it writes it; the decompressor itself cannot touch the file.

use std::fs::File;
use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use sequoia_openpgp as openpgp;

use openpgp::packet::{Signature, Tag};
use openpgp::parse::Parse as _;
use openpgp::parse::stream::{DetachedVerifierBuilder, VerifierBuilder};
use openpgp::serialize::Serialize as _;
use openpgp::types::SignatureType;
use openpgp::{Packet, PacketPile};

use super::armor;
use super::identity::{self, IdentityError, ReadAt};
use super::keyring::Keyring;
use super::policy::system_time;
use super::tee::{self, Failed};
use super::verdict::{Helper, Problem, Rejection, Signer, unpinned};
use crate::clock;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::interrupt::Interrupted;
use crate::kernel::Version;
use crate::progress::{Event, Progress};

/// Largest signature file, in bytes. One signature is about one kilobyte.
pub const MAX_SIGNATURE_BYTES: u64 = 64 << 10;

/// Most signatures on one file. Each different hash among them costs a pass over the data.
const MAX_SIGNATURES: usize = 8;

/// Why bytes did not become a [`VerifiedTarball`].
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The signature does not count.
    #[error(transparent)]
    Rejected(#[from] Box<Rejection>),
    /// Signed well, but another release.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Someone wrote to the file while it was read.
    #[error("`{path}` changed while it was verified: it had {before} bytes, {read} were read")]
    Changed {
        /// The file.
        path: Utf8PathBuf,
        /// Its size before.
        before: u64,
        /// How many bytes were read.
        read: u64,
    },
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for SignatureError {
    fn exit(&self) -> Exit {
        match self {
            Self::Rejected(error) => error.exit(),
            Self::Identity(error) => error.exit(),
            Self::Changed { .. } => Exit::NotVerified,
            Self::File(error) => error.exit(),
            Self::Interrupted(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Rejected(error) => error.code(),
            Self::Identity(error) => error.code(),
            Self::Changed { .. } => "file-changed",
            Self::File(error) => error.code(),
            Self::Interrupted(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Rejected(error) => error.hints(),
            Self::Identity(error) => error.hints(),
            Self::Changed { .. } => {
                vec!["find out which program writes into the store, and stop it".to_owned()]
            }
            Self::File(error) => error.hints(),
            Self::Interrupted(error) => error.hints(),
        }
    }
}

/// Why the bytes of a tarball are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A maintainer's signature over the tar itself.
    Signature {
        /// Who made it, and when.
        signer: Signer,
        /// What was set aside: signatures by certificates that are not pinned.
        notes: Vec<String>,
    },
    /// apt's chain: a signed index that names the digest of the package that held it.
    Apt {
        /// Name of the package.
        package: String,
        /// Its version.
        version: String,
    },
}

/// A kernel tarball, uncompressed, whose bytes are proven. There is no other way to have one than
/// [`verify`] (or apt's chain), and it cannot be read back from disk: a proof holds for the process
/// that made it.
///
/// ```compile_fail
/// fn needs_deserialize<'d, T: serde::Deserialize<'d>>() {}
/// needs_deserialize::<kiln::source::signature::VerifiedTarball>();
/// ```
/// ```compile_fail
/// fn needs_clone<T: Clone>() {}
/// needs_clone::<kiln::source::signature::VerifiedTarball>();
/// ```
#[derive(Debug)]
pub struct VerifiedTarball {
    file: File,
    path: Utf8PathBuf,
    sha256: Sha256,
    bytes: u64,
    version: Version,
    prefix: String,
    made: Timestamp,
    origin: Origin,
}

impl VerifiedTarball {
    /// The verified file itself, open. Its position is nobody's: read by offset.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name it had when it was verified, for messages.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The same proven bytes under the name that they were given since.
    #[must_use]
    pub fn renamed(self, path: impl Into<Utf8PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..self
        }
    }

    /// Digest of the uncompressed tar.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Size of the uncompressed tar.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The release it holds.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The directory that everything in it lies below, without a slash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Why it is believed.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// When its maker vouched for it: the creation time of the signature, or the package's
    /// changelog date. The same for everyone, which makes it the build's `SOURCE_DATE_EPOCH`.
    pub fn made(&self) -> Timestamp {
        self.made
    }

    /// [`Self::made`] in seconds since 1970.
    pub fn source_date_epoch(&self) -> i64 {
        self.made.as_second()
    }

    /// A tarball out of a package that apt verified: `file` must come from that package in this
    /// process. Checks that it holds `version` below `prefix/`.
    pub(in crate::source) fn from_apt(
        mut file: File,
        path: &Utf8Path,
        prefix: &str,
        version: &Version,
        made: Timestamp,
        package: (&str, &str),
    ) -> Result<Self, SignatureError> {
        let (sha256, bytes) = files::hash_open(&mut file, path)?;
        identity::check(&file, subject(path), prefix, version)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            sha256,
            bytes,
            version: *version,
            prefix: prefix.to_owned(),
            made,
            origin: Origin::Apt {
                package: package.0.to_owned(),
                version: package.1.to_owned(),
            },
        })
    }
}

/// A text whose signature was verified, without the armor around it.
#[derive(Debug)]
pub struct SignedText {
    text: String,
    signer: Signer,
}

impl SignedText {
    /// The text that was signed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Who signed it, and when.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }
}

fn subject(path: &Utf8Path) -> &str {
    path.file_name().unwrap_or(path.as_str())
}

/// Verifies the detached `signature` on the uncompressed tar in `file`, and that the tar is
/// `version`.
///
/// At least one signature must be good and made by a pinned certificate, valid when it signed: a
/// key that expired or was retired *later* still counts, one that was compromised never does. A
/// signature that names a pinned certificate and is not good refuses the file, whatever the others
/// say. Signatures by other certificates neither help nor harm; they end up in the notes of
/// [`Origin::Signature`].
///
/// The file is read once, and hashed for the signature and for [`VerifiedTarball::sha256`] at the
/// same time on two threads. `path` is its name, for messages.
pub fn verify(
    file: File,
    path: &Utf8Path,
    signature: &[u8],
    keyring: &Keyring,
    version: &Version,
    progress: &dyn Progress,
) -> Result<VerifiedTarball, SignatureError> {
    let size = size(&file, path)?;
    let named = (path, Some(size));
    let judged = judge(ReadAt::new(&file), named, signature, keyring, progress)?;
    judged.seal(file, path, version)
}

/// Verifies the detached `signature` on all that `source` gives, by the rules of [`verify`]. `named`
/// is the name of the tar, for messages, and its size in bytes, where that is known already.
pub(in crate::source) fn judge(
    source: impl Read + Send + Sync,
    named: (&Utf8Path, Option<u64>),
    signature: &[u8],
    keyring: &Keyring,
    progress: &dyn Progress,
) -> Result<Judged, SignatureError> {
    let reject =
        |problem| -> SignatureError { rejection(subject(named.0), keyring, problem).into() };
    let signatures = parse(signature).map_err(reject)?;
    check_worth_reading(&signatures, keyring).map_err(reject)?;
    read_and_verify(source, named, &signatures, keyring, progress)
}

/// The verdict on some bytes: they were signed. Not yet a tarball.
#[derive(Debug)]
pub(in crate::source) struct Judged {
    signer: Signer,
    notes: Vec<String>,
    sha256: Sha256,
    bytes: u64,
}

impl Judged {
    /// The tarball, where `file` holds what was judged: the caller has read that from the file, or
    /// written it there and nobody else could write to it. Checks that it is `version`. `path` is
    /// its name, for messages. (Should it change later: what is unpacked is hashed again.)
    pub(in crate::source) fn seal(
        self,
        file: File,
        path: &Utf8Path,
        version: &Version,
    ) -> Result<VerifiedTarball, SignatureError> {
        let before = size(&file, path)?;
        if before != self.bytes {
            return Err(SignatureError::Changed {
                path: path.to_owned(),
                before,
                read: self.bytes,
            });
        }
        let prefix = version.stem();
        identity::check(&file, subject(path), &prefix, version)?;
        Ok(VerifiedTarball {
            file,
            path: path.to_owned(),
            sha256: self.sha256,
            bytes: self.bytes,
            version: *version,
            prefix,
            made: self.signer.made,
            origin: Origin::Signature {
                signer: self.signer,
                notes: self.notes,
            },
        })
    }
}

/// Verifies a text with its signature around it, such as `sha256sums.asc`. `subject` is its name,
/// for messages.
pub fn verify_text(
    message: &[u8],
    subject: &str,
    keyring: &Keyring,
) -> Result<SignedText, SignatureError> {
    let now = clock::now();
    let reject = |problem| -> SignatureError { rejection(subject, keyring, problem).into() };
    let malformed = |reason: String| reject(Problem::Malformed { reason });
    armor::check_signed_text(message).map_err(|error| reject(Problem::Unreadable(error)))?;
    let policy = keyring.policy(now);
    let mut verifier = VerifierBuilder::from_bytes(message)
        .and_then(|builder| {
            builder.with_policy(&policy, system_time(now), Helper::new(keyring, now))
        })
        .map_err(|error| malformed(error.to_string()))?;
    let mut text = String::new();
    verifier
        .read_to_string(&mut text)
        .map_err(|error| malformed(error.to_string()))?;
    // The library has judged only once it has reached the end of the message.
    if !verifier.message_processed() {
        return Err(malformed("it has no end".to_owned()));
    }
    let outcome = verifier.into_helper().outcome.unwrap_or_default();
    let (signer, _notes) = outcome.decide().map_err(reject)?;
    Ok(SignedText { text, signer })
}

fn rejection(subject: &str, keyring: &Keyring, problem: Problem) -> Box<Rejection> {
    Box::new(Rejection {
        subject: subject.to_owned(),
        pinned: keyring.pins(),
        problem,
    })
}

/// The signature packets of a detached signature file, which must hold nothing else.
fn parse(bytes: &[u8]) -> Result<Vec<Signature>, Problem> {
    if bytes.len() as u64 > MAX_SIGNATURE_BYTES {
        return Err(Problem::Malformed {
            reason: format!("it has more than {MAX_SIGNATURE_BYTES} bytes"),
        });
    }
    let mut signatures = Vec::new();
    for block in armor::blocks(bytes, "PGP SIGNATURE").map_err(Problem::Unreadable)? {
        let pile = PacketPile::from_bytes(block).map_err(|error| Problem::Malformed {
            reason: error.to_string(),
        })?;
        for packet in pile.into_children() {
            match packet {
                Packet::Signature(signature) => signatures.push(signature),
                Packet::Unknown(unknown) if unknown.tag() == Tag::Signature => {
                    return Err(Problem::Malformed {
                        reason: unknown.error().to_string(),
                    });
                }
                other => {
                    return Err(Problem::NotDetached {
                        found: other.tag().to_string(),
                    });
                }
            }
        }
    }
    match signatures.len() {
        0 => Err(Problem::Missing),
        count if count > MAX_SIGNATURES => Err(Problem::TooMany {
            count: count - 1,
            limit: MAX_SIGNATURES,
        }),
        _ => Ok(signatures),
    }
}

/// Refuses a signature that cannot count whatever it is on: before an archive is fetched for it.
/// `subject` is the name of what it is on, for messages.
pub(in crate::source) fn check_before_reading(
    signature: &[u8],
    subject: &str,
    keyring: &Keyring,
) -> Result<(), SignatureError> {
    parse(signature)
        .and_then(|signatures| check_worth_reading(&signatures, keyring))
        .map_err(|problem| rejection(subject, keyring, problem).into())
}

/// What can be refused before a gigabyte is read for it.
fn check_worth_reading(signatures: &[Signature], keyring: &Keyring) -> Result<(), Problem> {
    let mut foreign = None;
    let mut any_pinned = false;
    for signature in signatures {
        let issuers = signature.get_issuers();
        let is_pinned = !issuers.is_empty()
            && keyring.certificates().iter().any(|pinned| {
                let mut keys = pinned.cert.keys().key_handles(issuers.iter());
                keys.next().is_some()
            });
        if !is_pinned {
            foreign.get_or_insert_with(|| unpinned(signature));
            continue;
        }
        any_pinned = true;
        if signature.typ() != SignatureType::Binary {
            return Err(Problem::Type {
                found: signature.typ().to_string(),
            });
        }
        if signature.signature_creation_time().is_none() {
            return Err(Problem::Anonymous {
                missing: "the time at which it was made",
            });
        }
        if !signature.hash_algo().is_supported() {
            return Err(Problem::Malformed {
                reason: format!("it uses the unknown hash {}", signature.hash_algo()),
            });
        }
    }
    match foreign {
        Some(problem) if !any_pinned => Err(problem),
        _ => Ok(()),
    }
}

/// Reads everything once, through both hashes, and lets the library judge the signatures.
fn read_and_verify(
    source: impl Read + Send + Sync,
    (path, size): (&Utf8Path, Option<u64>),
    signatures: &[Signature],
    keyring: &Keyring,
    progress: &dyn Progress,
) -> Result<Judged, SignatureError> {
    let now = clock::now();
    let subject = subject(path);
    let reject = |problem| -> SignatureError { rejection(subject, keyring, problem).into() };
    let malformed = |reason: String| reject(Problem::Malformed { reason });
    // The very packets that were parsed and checked are what the library verifies.
    let mut packets = Vec::new();
    for signature in signatures {
        Packet::from(signature.clone())
            .serialize(&mut packets)
            .map_err(|error| malformed(error.to_string()))?;
    }
    let policy = keyring.policy(now);
    let mut verifier = DetachedVerifierBuilder::from_bytes(&packets)
        .and_then(|builder| {
            builder.with_policy(&policy, system_time(now), Helper::new(keyring, now))
        })
        .map_err(|error| malformed(error.to_string()))?;
    let watch = |done| {
        progress.event(&Event::Bytes {
            what: format!("verify {subject}"),
            done,
            total: size,
        });
    };
    let (judged, seen) = tee::hash_beside(source, &watch, |source| verifier.verify_reader(source));
    // The library may report success although its source failed late (it takes a short read for
    // the end), so what the source saw comes first.
    let (sha256, bytes) = seen.map_err(|failed| match failed {
        Failed::Io(source) => SignatureError::File(FileError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
        Failed::Interrupted(interrupted) => interrupted.into(),
    })?;
    judged.map_err(|error| malformed(error.to_string()))?;
    if let Some(before) = size.filter(|size| *size != bytes) {
        return Err(SignatureError::Changed {
            path: path.to_owned(),
            before,
            read: bytes,
        });
    }
    let outcome = verifier.into_helper().outcome.unwrap_or_default();
    let (signer, notes) = outcome.decide().map_err(reject)?;
    Ok(Judged {
        signer,
        notes,
        sha256,
        bytes,
    })
}

fn size(file: &File, path: &Utf8Path) -> Result<u64, FileError> {
    file.metadata()
        .map(|metadata| metadata.len())
        .map_err(|source| FileError::Io {
            action: "look at",
            path: path.to_owned(),
            source,
        })
}
