//! The envelope of every signed document: DSSE (<https://github.com/secure-systems-lab/dsse>).
//!
//! The signature is over the bytes of the payload and its type, so a document cannot be replayed
//! as one of another type. Without a signature it is only a container, and says so.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use super::key::{PublicKey, SIGNATURE_BYTES};
use super::roles::{Holder, Role, Roles, Unfit};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};

/// Most signatures on one document: each costs a check, and no honest one has more.
const MAX_SIGNATURES: usize = 16;

/// A document and the signatures over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Digest of the raw public key.
    pub keyid: Sha256,
    /// The signature, in base64.
    pub sig: String,
}

/// Why an envelope is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// Not an envelope.
    #[error(transparent)]
    Document(#[from] CanonicalError),
    /// Another type of document.
    #[error("`{name}` holds a document of type `{found}`, expected `{expected}`")]
    Type {
        /// The file.
        name: String,
        /// The type expected.
        expected: String,
        /// The type found.
        found: String,
    },
    /// The payload is not base64.
    #[error("the payload of `{name}` is not base64")]
    Encoding {
        /// The file.
        name: String,
        /// Where it stops being base64.
        #[source]
        source: base64::DecodeError,
    },
    /// More signatures than any honest document has.
    #[error("`{name}` has {count} signatures, expected at most {MAX_SIGNATURES}")]
    TooMany {
        /// The file.
        name: String,
        /// How many.
        count: usize,
    },
    /// Nobody signed it.
    #[error("`{name}` is not signed: nobody vouches for it")]
    Unsigned {
        /// The file.
        name: String,
    },
    /// A signature that a known key did not make over these bytes.
    #[error("`{name}` is not what was signed: the signature by key `{holder}` does not match")]
    Bad {
        /// The file.
        name: String,
        /// Whose signature it claims to be.
        holder: String,
    },
    /// Signatures, of which none counts.
    #[error("no signature on `{name}` counts for the role {role}: {}", reasons(.unfit))]
    Unfit {
        /// The file.
        name: String,
        /// The role needed.
        role: Role,
        /// Why each does not.
        unfit: Vec<Unfit>,
    },
}

fn reasons(unfit: &[Unfit]) -> String {
    let reasons: Vec<String> = unfit.iter().map(ToString::to_string).collect();
    reasons.join("; ")
}

impl Diagnose for EnvelopeError {
    fn exit(&self) -> Exit {
        Exit::StatementRejected
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Document(error) => error.code(),
            Self::Type { .. } => "envelope-type",
            Self::Encoding { .. } => "envelope-encoding",
            Self::TooMany { .. } => "envelope-signatures",
            Self::Unsigned { .. } => "unsigned",
            Self::Bad { .. } => "signature-bad",
            Self::Unfit { unfit, .. } => match unfit.as_slice() {
                [first, rest @ ..] if rest.iter().all(|u| u.code() == first.code()) => first.code(),
                _ => "signer-unfit",
            },
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Document(error) => return error.hints(),
            Self::Type { .. } | Self::Encoding { .. } | Self::TooMany { .. } => return Vec::new(),
            Self::Unsigned { .. } => {
                "name a signer under `signers:` in `kiln.yaml` (`kiln keys new` makes a key), then \
                 build again"
            }
            Self::Bad { .. } => {
                "do not use it: it was damaged or tampered with; get it again from where it was made"
            }
            Self::Unfit { unfit, .. }
                if unfit.iter().all(|u| matches!(u, Unfit::Unknown { .. })) =>
            {
                "if keys were rotated since, get the newer `keys/roles.yaml` from those who keep it"
            }
            Self::Unfit { .. } => "have it signed anew with a key that counts",
        };
        vec![hint.to_owned()]
    }
}

/// The payload of a document that was signed by someone who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    payload: Vec<u8>,
    signers: Vec<Holder>,
    unfit: Vec<Unfit>,
}

impl Signed {
    /// The very bytes that were signed.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The keys that signed, and may; at least one. Two of one name are one holder who changes
    /// keys.
    pub fn signers(&self) -> &[Holder] {
        &self.signers
    }

    /// Who signed, and may: each name once.
    pub fn names(&self) -> BTreeSet<String> {
        self.signers.iter().map(|h| h.name.clone()).collect()
    }

    /// The signatures beside that do not count, and why.
    pub fn unfit(&self) -> &[Unfit] {
        &self.unfit
    }
}

/// The payload type of a kind of statement: `manifest` gives `application/vnd.kiln.manifest.v1+json`.
/// Provenance is an in-toto statement, whose type others fixed
/// (<https://github.com/in-toto/attestation/blob/main/spec/v1/envelope.md>).
pub fn payload_type(kind: &str) -> String {
    match kind {
        "provenance" => "application/vnd.in-toto+json".to_owned(),
        kind => format!("application/vnd.kiln.{kind}.v1+json"),
    }
}

impl Envelope {
    /// Wraps canonical bytes without signing them.
    pub fn unsigned(kind: &str, payload: &[u8]) -> Self {
        Self {
            payload_type: payload_type(kind),
            payload: STANDARD.encode(payload),
            signatures: Vec::new(),
        }
    }

    /// The bytes that a signature is over: DSSE's pre-authentication encoding of type and payload.
    pub fn to_sign(&self) -> Result<Vec<u8>, EnvelopeError> {
        Ok(encoding(&self.payload_type, &self.decoded("envelope")?))
    }

    /// Adds a signature that was made over [`Self::to_sign`].
    pub fn add(&mut self, key: &PublicKey, signature: &[u8; SIGNATURE_BYTES]) {
        let keyid = key.id();
        self.signatures.retain(|known| known.keyid != keyid);
        self.signatures.push(Signature {
            keyid,
            sig: STANDARD.encode(signature),
        });
    }

    /// The payload, which must be a `kind` signed by a `role`, judged on `today`.
    ///
    /// One signature that counts is enough. One that names a known key and is not good refuses the
    /// document, whatever the others say.
    pub fn open(
        &self,
        name: &str,
        kind: &str,
        role: Role,
        roles: &Roles,
        today: Date,
    ) -> Result<Signed, EnvelopeError> {
        let payload = self.payload_of(name, kind)?;
        let count = self.signatures.len();
        if count == 0 {
            let name = name.to_owned();
            return Err(EnvelopeError::Unsigned { name });
        }
        if count > MAX_SIGNATURES {
            let name = name.to_owned();
            return Err(EnvelopeError::TooMany { name, count });
        }
        let message = encoding(&self.payload_type, &payload);
        let (mut signers, mut unfit) = (Vec::new(), Vec::new());
        for signature in &self.signatures {
            if let Some(holder) = roles.find(&signature.keyid)
                && !signature.is_good(&holder.key, &message)
            {
                let (name, holder) = (name.to_owned(), holder.name.clone());
                return Err(EnvelopeError::Bad { name, holder });
            }
            match roles.judge(&signature.keyid, role, today) {
                Ok(holder) if signers.contains(holder) => {}
                Ok(holder) => signers.push(holder.clone()),
                Err(why) => unfit.push(why),
            }
        }
        if signers.is_empty() {
            let name = name.to_owned();
            return Err(EnvelopeError::Unfit { name, role, unfit });
        }
        Ok(Signed {
            payload,
            signers,
            unfit,
        })
    }

    /// Whether anybody signed it.
    pub fn is_signed(&self) -> bool {
        !self.signatures.is_empty()
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_pretty("envelope", self)
    }

    /// Reads a file; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, EnvelopeError> {
        Ok(canonical::from_pretty(name, text)?)
    }

    /// The payload, which must be a `kind`. Not verified: an unsigned document proves nothing.
    pub fn payload_of(&self, name: &str, kind: &str) -> Result<Vec<u8>, EnvelopeError> {
        let expected = payload_type(kind);
        if self.payload_type != expected {
            let (name, found) = (name.to_owned(), self.payload_type.clone());
            return Err(EnvelopeError::Type {
                name,
                expected,
                found,
            });
        }
        self.decoded(name)
    }

    fn decoded(&self, name: &str) -> Result<Vec<u8>, EnvelopeError> {
        STANDARD
            .decode(&self.payload)
            .map_err(|source| EnvelopeError::Encoding {
                name: name.to_owned(),
                source,
            })
    }
}

impl Signature {
    fn is_good(&self, key: &PublicKey, message: &[u8]) -> bool {
        let bytes = STANDARD.decode(&self.sig).ok();
        let bytes: Option<[u8; SIGNATURE_BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.is_some_and(|signature| key.verifies(message, &signature))
    }
}

/// DSSE's pre-authentication encoding, version 1.
fn encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::key::PrivateKey;
    use crate::proof::roles::tests::holder;

    #[test]
    fn an_envelope_reads_back_and_is_of_one_type() {
        let envelope = Envelope::unsigned("manifest", b"{}");
        let text = String::from_utf8(envelope.to_bytes().unwrap()).unwrap();
        let read = Envelope::parse("m", &text).unwrap();
        assert_eq!(read.payload_of("m", "manifest").unwrap(), b"{}");
        assert!(!read.is_signed());
        let error = read.payload_of("m", "approval").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected `application/vnd.kiln.approval.v1+json`")
        );
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let good = String::from_utf8(Envelope::unsigned("x", b"{}").to_bytes().unwrap()).unwrap();
        for (from, to) in [
            ("e30=", "e3!="),
            ("signatures", "signature"),
            ("[]", "null"),
        ] {
            let text = good.replace(from, to);
            let result = Envelope::parse("m", &text).and_then(|e| e.payload_of("m", "x"));
            assert!(result.is_err(), "{text}");
        }
    }

    const TODAY: Date = Date::constant(2026, 6, 1);

    fn signed_by(seeds: &[u8]) -> Envelope {
        let mut envelope = Envelope::unsigned("manifest", b"{}");
        let message = envelope.to_sign().unwrap();
        for seed in seeds {
            let key = PrivateKey::from_seed(&[*seed; 32]);
            envelope.add(&key.public(), &key.sign(&message));
        }
        envelope
    }

    fn roles() -> Roles {
        Roles {
            holders: vec![holder(1, Role::Builder), holder(2, Role::Approver)],
        }
    }

    #[test]
    fn the_encoding_is_that_of_the_specification() {
        // The example of DSSE's protocol.md.
        assert_eq!(
            encoding("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn a_signature_counts_for_its_role_only() {
        let open =
            |envelope: &Envelope, role| envelope.open("m", "manifest", role, &roles(), TODAY);
        let signed = open(&signed_by(&[1]), Role::Builder).unwrap();
        assert_eq!(
            (signed.payload(), signed.names()),
            (&b"{}"[..], BTreeSet::from(["key-1".to_owned()]))
        );
        let error = open(&signed_by(&[1]), Role::Approver).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no signature on `m` counts for the role approver: key `key-1` has the role builder, not approver"
        );
        // A stranger and another role neither help nor harm.
        let signed = open(&signed_by(&[9, 2, 1]), Role::Builder).unwrap();
        assert_eq!(signed.unfit().len(), 2);
        assert_eq!(
            open(&signed_by(&[9]), Role::Builder).unwrap_err().code(),
            "signer-unknown"
        );
        assert_eq!(
            open(&signed_by(&[9, 2]), Role::Builder).unwrap_err().code(),
            "signer-unfit"
        );
        assert_eq!(
            open(&signed_by(&[]), Role::Builder).unwrap_err().code(),
            "unsigned"
        );
        let many: Vec<u8> = (1..=17).collect();
        assert_eq!(
            open(&signed_by(&many), Role::Builder).unwrap_err().code(),
            "envelope-signatures"
        );
    }

    #[test]
    fn a_document_of_another_type_is_not_what_was_signed() {
        let mut envelope = signed_by(&[1]);
        envelope.payload_type = payload_type("approval");
        let error = envelope.open("m", "approval", Role::Builder, &roles(), TODAY);
        assert_eq!(error.unwrap_err().code(), "signature-bad");
    }

    #[test]
    fn every_changed_byte_of_a_signed_file_is_noticed() {
        let bytes = signed_by(&[1]).to_bytes().unwrap();
        let open = |text: &str| {
            let envelope = Envelope::parse("m", text)?;
            envelope.open("m", "manifest", Role::Builder, &roles(), TODAY)
        };
        assert!(open(std::str::from_utf8(&bytes).unwrap()).is_ok());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            let Ok(text) = std::str::from_utf8(&bad) else {
                continue;
            };
            // A blank between tokens may become another; nothing that means something.
            assert!(
                bytes[at].is_ascii_whitespace() || open(text).is_err(),
                "byte {at}: {text}"
            );
        }
    }

    proptest::proptest! {
        /// Whatever a file holds, there is an answer; and none that a signature did not cover.
        #[test]
        fn no_text_panics(
            at in 0usize..400,
            cut in 0usize..40,
            put in "[a-zA-Z0-9+/={}\\[\\],:\" \\n]{0,12}",
        ) {
            let good = String::from_utf8(signed_by(&[1, 2]).to_bytes().unwrap()).unwrap();
            let start = at.min(good.len());
            let cut = (start + cut).min(good.len());
            let text = format!("{}{put}{}", &good[..start], &good[cut..]);
            if let Ok(envelope) = Envelope::parse("m", &text)
                && let Ok(signed) = envelope.open("m", "manifest", Role::Builder, &roles(), TODAY)
            {
                proptest::prop_assert_eq!(signed.payload(), b"{}");
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let text = String::from_utf8_lossy(&bytes);
            let _result = Envelope::parse("m", &text);
        }
    }
}
