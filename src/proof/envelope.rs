//! The envelope of every signed document: DSSE (<https://github.com/secure-systems-lab/dsse>).
//!
//! The signature is over the bytes of the payload and its type, so a document cannot be replayed
//! as one of another type. Without a signature it is only a container, and says so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use crate::failure::{Diagnose, Exit};

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
    pub keyid: String,
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
        }
    }
}

/// The payload type of a kind of statement: `manifest` gives `application/vnd.kiln.manifest.v1+json`.
pub fn payload_type(kind: &str) -> String {
    format!("application/vnd.kiln.{kind}.v1+json")
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
        STANDARD
            .decode(&self.payload)
            .map_err(|source| EnvelopeError::Encoding {
                name: name.to_owned(),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
