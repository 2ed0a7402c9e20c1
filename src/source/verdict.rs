//! What the OpenPGP library's results mean: one signer that counts, or one reason why none does.

use jiff::Timestamp;
use sequoia_openpgp as openpgp;

use openpgp::cert::amalgamation::ValidAmalgamation as _;
use openpgp::cert::amalgamation::key::ValidErasedKeyAmalgamation;
use openpgp::packet::Signature;
use openpgp::packet::key::PublicParts;
use openpgp::parse::stream::{
    MessageLayer, MessageStructure, VerificationError, VerificationHelper, VerificationResult,
};
use openpgp::types::{HashAlgorithm, RevocationStatus, RevocationType};
use openpgp::{Cert, KeyHandle};

use super::armor::ArmorError;
use super::keyring::Keyring;
use super::policy::timestamp;
use crate::digest::Fingerprint;
use crate::failure::{Diagnose, Exit};

/// Who made a signature, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// Primary key of the certificate: the pin.
    pub certificate: Fingerprint,
    /// The key that signed: the primary key or a subkey of it.
    pub key: Fingerprint,
    /// The creation time that the signature states.
    pub made: Timestamp,
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.certificate)?;
        if self.key != self.certificate {
            write!(f, " (subkey {})", self.key)?;
        }
        write!(f, ", made {},", self.made)
    }
}

/// Why a signature does not count. The texts go on from "the signature on X".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not OpenPGP data, or not only.
    #[error("cannot be used")]
    Unreadable(#[source] ArmorError),
    /// The packets are damaged, or of a version that the library does not know.
    #[error("is malformed: {reason}")]
    Malformed {
        /// The library's words.
        reason: String,
    },
    /// OpenPGP data that is something else.
    #[error("is no detached signature: it holds a {found} packet")]
    NotDetached {
        /// The first packet that does not belong.
        found: String,
    },
    /// There is none.
    #[error("is missing: its file holds no signature")]
    Missing,
    /// More than any honest file has.
    #[error("comes with {count} others, expected at most {limit} in all")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// Of a type that says something else than "these bytes".
    #[error("is of type `{found}`, expected one over binary data")]
    Type {
        /// The type.
        found: String,
    },
    /// It does not name its key, or states no time.
    #[error("does not name {missing}")]
    Anonymous {
        /// What is not named.
        missing: &'static str,
    },
    /// Made by someone whose certificate is not pinned.
    #[error("was made by {key}, which is not pinned")]
    Unpinned {
        /// The key as the signature names it.
        key: String,
    },
    /// The one that matters: other bytes were signed.
    #[error("by {by} does not match the data: these are not the bytes that were signed")]
    Digest {
        /// The key that the signature names.
        by: Signer,
    },
    /// The data is hashed with something that can be collided.
    #[error("by {by} uses {hash}, which is not secure for data")]
    WeakHash {
        /// Who made it.
        by: Signer,
        /// The hash.
        hash: String,
    },
    /// The signing key belongs to the certificate by a weak signature only.
    #[error("by {by} does not count: its key is bound with {hash}, which is not secure for that")]
    WeakBinding {
        /// Who made it.
        by: Signer,
        /// The hash.
        hash: String,
    },
    /// The signing key does not belong to the certificate.
    #[error("by {by} does not count: its key is not bound to the certificate: {reason}")]
    Unbound {
        /// Who made it.
        by: Signer,
        /// The library's words.
        reason: String,
    },
    /// Older than its own key.
    #[error("by {by} claims to be older than its key, which was created {created}")]
    BeforeKey {
        /// Who made it.
        by: Signer,
        /// When the key was created.
        created: Timestamp,
    },
    /// Younger than the key's life.
    #[error("by {by} was made after its key expired {expired}")]
    KeyExpired {
        /// Who made it.
        by: Signer,
        /// When the key expired.
        expired: Timestamp,
    },
    /// The key was revoked, and the revocation reaches this signature.
    #[error("by {by} does not count: its key was revoked {at}{}: {reason}", reach(*.hard))]
    Revoked {
        /// Who made it.
        by: Signer,
        /// Whether it ends everything the key ever signed.
        hard: bool,
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// The key is for something else.
    #[error("by {by} does not count: its key is not meant for signing")]
    NotForSigning {
        /// Who made it.
        by: Signer,
    },
    /// The signature itself has an end.
    #[error("by {by} expired {expired}")]
    SignatureExpired {
        /// Who made it.
        by: Signer,
        /// When.
        expired: Timestamp,
    },
    /// The signature states a time that has not come.
    #[error("by {by} is from the future: it is {now} here")]
    FromFuture {
        /// Who made it.
        by: Signer,
        /// This host's time.
        now: Timestamp,
    },
}

fn reach(hard: bool) -> &'static str {
    if hard {
        " (for everything it ever signed)"
    } else {
        ""
    }
}

/// A signature that was refused: on what, and what would have counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signature on `{subject}` {problem}{}", pinned_text(.pinned))]
pub struct Rejection {
    /// Name of what was signed.
    pub subject: String,
    /// The certificates that would have counted.
    pub pinned: Vec<Fingerprint>,
    /// Why it was refused.
    #[source]
    pub problem: Problem,
}

fn pinned_text(pinned: &[Fingerprint]) -> String {
    let list: Vec<&str> = pinned.iter().map(Fingerprint::as_str).collect();
    format!("; pinned: {}", list.join(", "))
}

impl Diagnose for Rejection {
    fn exit(&self) -> Exit {
        Exit::NotVerified
    }

    fn code(&self) -> &'static str {
        match &self.problem {
            Problem::Unreadable(ArmorError::Empty) => "signature-empty",
            Problem::Unreadable(ArmorError::WebPage) => "signature-is-web-page",
            Problem::Unreadable(ArmorError::Truncated) => "signature-truncated",
            Problem::Unreadable(_) | Problem::NotDetached { .. } => "signature-unreadable",
            Problem::Malformed { .. } | Problem::TooMany { .. } | Problem::Type { .. } => {
                "signature-malformed"
            }
            Problem::Missing => "signature-missing",
            Problem::Anonymous { .. } => "signature-anonymous",
            Problem::Unpinned { .. } => "signer-not-pinned",
            Problem::Digest { .. } => "signature-bad",
            Problem::WeakHash { .. } => "signature-weak-hash",
            Problem::WeakBinding { .. } => "key-weak-binding",
            Problem::Unbound { .. } => "key-unbound",
            Problem::BeforeKey { .. } => "key-not-yet-valid",
            Problem::KeyExpired { .. } => "key-expired",
            Problem::Revoked { hard: true, .. } => "key-revoked-hard",
            Problem::Revoked { hard: false, .. } => "key-revoked-soft",
            Problem::NotForSigning { .. } => "key-not-for-signing",
            Problem::SignatureExpired { .. } => "signature-expired",
            Problem::FromFuture { .. } => "signature-from-future",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match &self.problem {
            Problem::Unreadable(
                ArmorError::WebPage | ArmorError::Empty | ArmorError::Truncated,
            ) => {
                "the mirror answered with something else than the signature: fetch again, or name \
                 another mirror in `kiln.yaml`"
            }
            Problem::Unreadable(_)
            | Problem::Malformed { .. }
            | Problem::NotDetached { .. }
            | Problem::Missing
            | Problem::TooMany { .. }
            | Problem::Type { .. }
            | Problem::Anonymous { .. } => {
                "fetch the signature again, or name another mirror in `kiln.yaml`; compare with \
                 the one that kernel.org itself serves"
            }
            Problem::Unpinned { .. } => {
                "find out from a second source whether this person signs releases of this series; \
                 only then add the certificate to `keys/` and its fingerprint to `keys:` of the \
                 pipeline"
            }
            Problem::Digest { .. } => {
                "do not use these bytes: the download is damaged or was tampered with; fetch again \
                 from another mirror, and report it if it stays"
            }
            Problem::WeakHash { .. } => {
                "ask the signer for a signature with SHA-256 or better: there is no switch to \
                 accept this one"
            }
            Problem::WeakBinding { .. } | Problem::Unbound { .. } => {
                "run `kiln keys refresh --wkd` for a newer copy of the certificate, and `kiln keys \
                 lint` to see its state"
            }
            Problem::KeyExpired { .. } => {
                "run `kiln keys refresh --wkd`: the signer may have prolonged the key"
            }
            Problem::Revoked { .. } => {
                "find out from a second source which key signs now; pin that one, and remove this \
                 certificate once no locked release needs it"
            }
            Problem::BeforeKey { .. } | Problem::FromFuture { .. } => {
                "check this host's clock with `date -u`; a signature whose times cannot be true is \
                 not used"
            }
            Problem::NotForSigning { .. } | Problem::SignatureExpired { .. } => {
                "fetch the signature again: the signer must have replaced it"
            }
        };
        vec![hint.to_owned()]
    }
}

/// What all signatures of one file amount to.
#[derive(Debug, Default)]
pub(in crate::source) struct Outcome {
    /// Good ones by pinned certificates.
    good: Vec<Signer>,
    /// Ones that name a pinned certificate and do not count.
    bad: Vec<Problem>,
    /// Ones by others, which say nothing either way.
    foreign: Vec<Problem>,
}

impl Outcome {
    /// At least one good signature by a pinned certificate, and none that names a pinned
    /// certificate and fails. Signatures by others are set aside: they can neither help nor harm,
    /// and are returned as notes.
    pub(in crate::source) fn decide(mut self) -> Result<(Signer, Vec<String>), Problem> {
        // That the bytes are wrong matters more than what is wrong with another signature.
        self.bad
            .sort_by_key(|problem| !matches!(problem, Problem::Digest { .. }));
        if let Some(problem) = self.bad.into_iter().next() {
            return Err(problem);
        }
        let notes = self.foreign.iter().map(Problem::to_string).collect();
        match (
            self.good.into_iter().next(),
            self.foreign.into_iter().next(),
        ) {
            (Some(signer), _) => Ok((signer, notes)),
            (None, Some(problem)) => Err(problem),
            (None, None) => Err(Problem::Missing),
        }
    }
}

/// Gives the library the pinned certificates and nothing else, and keeps its results.
#[derive(Debug)]
pub(in crate::source) struct Helper<'k> {
    keyring: &'k Keyring,
    now: Timestamp,
    /// Set once the library has reached its results; without it nothing was verified.
    pub(in crate::source) outcome: Option<Outcome>,
}

impl<'k> Helper<'k> {
    pub(in crate::source) fn new(keyring: &'k Keyring, now: Timestamp) -> Self {
        Self {
            keyring,
            now,
            outcome: None,
        }
    }
}

impl VerificationHelper for Helper<'_> {
    fn get_certs(&mut self, _ids: &[KeyHandle]) -> openpgp::Result<Vec<Cert>> {
        let pinned = self.keyring.certificates().iter();
        Ok(pinned.map(|pinned| pinned.cert.clone()).collect())
    }

    fn check(&mut self, structure: MessageStructure<'_>) -> openpgp::Result<()> {
        let mut outcome = Outcome::default();
        for layer in structure {
            match layer {
                MessageLayer::SignatureGroup { results } => {
                    for result in results {
                        judge(result, self.now, &mut outcome);
                    }
                }
                MessageLayer::Compression { .. } | MessageLayer::Encryption { .. } => {
                    outcome.bad.push(Problem::NotDetached {
                        found: "compressed or encrypted".to_owned(),
                    });
                }
            }
        }
        self.outcome = Some(outcome);
        Ok(())
    }
}

fn judge(result: VerificationResult<'_>, now: Timestamp, outcome: &mut Outcome) {
    let problem = match result {
        Ok(good) => {
            outcome.good.push(signer(good.sig, &good.ka));
            return;
        }
        Err(VerificationError::MissingKey { sig }) => {
            outcome.foreign.push(unpinned(sig));
            return;
        }
        Err(VerificationError::UnboundKey { sig, cert, error }) => unbound(sig, cert, &error),
        Err(VerificationError::BadKey { sig, ka, error }) => bad_key(sig, &ka, &error),
        Err(VerificationError::BadSignature { sig, ka, error }) => {
            bad_signature(sig, &ka, &error, now)
        }
        Err(other) => Problem::Malformed {
            reason: other.to_string(),
        },
    };
    outcome.bad.push(problem);
}

fn made(signature: &Signature) -> Timestamp {
    signature
        .signature_creation_time()
        .map_or(Timestamp::UNIX_EPOCH, timestamp)
}

fn signer(signature: &Signature, key: &ValidErasedKeyAmalgamation<'_, PublicParts>) -> Signer {
    Signer {
        certificate: fingerprint(&key.cert().fingerprint()),
        key: fingerprint(&key.key().fingerprint()),
        made: made(signature),
    }
}

/// The library's fingerprint as kiln's. The library's are of version 4 or 6: no other version
/// passes its parser as a key.
pub(in crate::source) fn fingerprint(found: &openpgp::Fingerprint) -> Fingerprint {
    found
        .to_hex()
        .parse()
        .expect("a key's fingerprint is 40 or 64 hexadecimal digits")
}

/// The signer as far as a signature names one.
pub(in crate::source) fn unpinned(signature: &Signature) -> Problem {
    match signature.get_issuers().first() {
        None => Problem::Anonymous {
            missing: "the key that made it",
        },
        Some(KeyHandle::Fingerprint(full)) => Problem::Unpinned { key: full.to_hex() },
        Some(KeyHandle::KeyID(id)) => Problem::Unpinned {
            key: format!("the key with id {}", id.to_hex()),
        },
    }
}

fn unbound(signature: &Signature, cert: &Cert, error: &dyn std::fmt::Display) -> Problem {
    let issuers = signature.get_issuers();
    let Some(key) = cert.keys().key_handles(issuers.iter()).next() else {
        return unpinned(signature);
    };
    let by = Signer {
        certificate: fingerprint(&cert.fingerprint()),
        key: fingerprint(&key.key().fingerprint()),
        made: made(signature),
    };
    let created = timestamp(key.key().creation_time());
    if by.made < created {
        return Problem::BeforeKey { by, created };
    }
    let answers = key
        .self_signatures()
        .filter_map(|binding| binding.embedded_signatures().next());
    let user_ids = cert.userids().flat_map(|user| user.self_signatures());
    let direct = cert.primary_key().self_signatures();
    let weak = if by.key == by.certificate {
        user_ids.chain(direct).find(|binding| is_weak(binding))
    } else {
        let bindings = key.self_signatures().chain(answers);
        bindings
            .chain(user_ids)
            .chain(direct)
            .find(|binding| is_weak(binding))
    };
    match weak {
        Some(binding) => Problem::WeakBinding {
            by,
            hash: binding.hash_algo().to_string(),
        },
        None => Problem::Unbound {
            by,
            reason: error.to_string(),
        },
    }
}

/// Whether the stock policy rejects the hash today.
pub(in crate::source) fn is_weak(signature: &Signature) -> bool {
    matches!(
        signature.hash_algo(),
        HashAlgorithm::MD5 | HashAlgorithm::SHA1 | HashAlgorithm::RipeMD
    )
}

/// The library's own error below the context that it wraps around.
fn library_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e openpgp::Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<openpgp::Error>() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

fn bad_key(
    signature: &Signature,
    key: &ValidErasedKeyAmalgamation<'_, PublicParts>,
    error: &impl AsRef<dyn std::error::Error + Send + Sync + 'static>,
) -> Problem {
    let by = signer(signature, key);
    match library_error(error.as_ref()) {
        Some(openpgp::Error::Expired(at)) => {
            return Problem::KeyExpired {
                by,
                expired: timestamp(*at),
            };
        }
        Some(openpgp::Error::NotYetLive(_)) => {
            return Problem::BeforeKey {
                by,
                created: timestamp(key.key().creation_time()),
            };
        }
        _ => {}
    }
    for status in [
        key.valid_cert().revocation_status(),
        key.revocation_status(),
    ] {
        if let RevocationStatus::Revoked(revocations) = status
            && let Some(revocation) = revocations.first()
        {
            return revoked(by, revocation);
        }
    }
    Problem::NotForSigning { by }
}

fn revoked(by: Signer, revocation: &Signature) -> Problem {
    let (hard, reason) = match revocation.reason_for_revocation() {
        // RFC 9580, section 5.2.3.31: without a reason it counts as hard.
        None => (true, "no reason given".to_owned()),
        Some((code, text)) => {
            let words: String = String::from_utf8_lossy(text)
                .chars()
                .take(200)
                .flat_map(char::escape_default)
                .collect();
            let hard = code.revocation_type() == RevocationType::Hard;
            (hard, format!("{code} ({words})"))
        }
    };
    Problem::Revoked {
        by,
        hard,
        at: made(revocation),
        reason,
    }
}

fn bad_signature(
    signature: &Signature,
    key: &ValidErasedKeyAmalgamation<'_, PublicParts>,
    error: &impl AsRef<dyn std::error::Error + Send + Sync + 'static>,
    now: Timestamp,
) -> Problem {
    let by = signer(signature, key);
    match library_error(error.as_ref()) {
        Some(openpgp::Error::Expired(at)) => Problem::SignatureExpired {
            by,
            expired: timestamp(*at),
        },
        Some(openpgp::Error::NotYetLive(_)) => Problem::FromFuture { by, now },
        Some(openpgp::Error::PolicyViolation(..)) if is_weak(signature) => Problem::WeakHash {
            by,
            hash: signature.hash_algo().to_string(),
        },
        Some(openpgp::Error::PolicyViolation(reason, _)) => Problem::Malformed {
            reason: reason.clone(),
        },
        _ => Problem::Digest { by },
    }
}
