//! The keys that sign statements: ed25519 (RFC 8032).
//!
//! A public key is written as the base64 of its 32 bytes; its id is the digest of those. A private
//! key is written as PKCS #8 in PEM (RFC 8410, section 7), which `openssl genpkey -algorithm ed25519`
//! makes and `openssl pkey` reads.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::kernel::serde_as_text;

/// What PKCS #8 puts before the 32 bytes of an ed25519 key (RFC 8410, section 7).
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not base64, or not of 32 bytes.
    #[error("a public key is the base64 of 32 bytes, which are 44 letters")]
    Length,
    /// 32 bytes that are no point of the curve, or one with which signatures can be forged.
    #[error("these 32 bytes are no usable ed25519 key")]
    Weak,
    /// Not a private key.
    #[error("a private key is an ed25519 key in PKCS #8, between `{PEM_BEGIN}` and `{PEM_END}`")]
    Private,
}

/// A key that signatures are checked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The digest of the raw key, by which envelopes name it.
    pub fn id(&self) -> Sha256 {
        Sha256::of(self.0.as_bytes())
    }

    /// Whether `signature` is this key's over `message`. Strict: of every message there is one
    /// accepted form, and none for keys of small order.
    pub fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes: [u8; 32] = STANDARD
            .decode(text)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(KeyError::Length)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::Weak)?;
        if key.is_weak() {
            return Err(KeyError::Weak);
        }
        Ok(Self(key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.as_bytes()))
    }
}

serde_as_text!(PublicKey);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A key that signs. Its bytes are never shown, and are wiped from memory with it.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// The key with these secret bytes, which must come from the system's random numbers.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a PEM file.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let body = text
            .trim()
            .strip_prefix(PEM_BEGIN)
            .and_then(|rest| rest.strip_suffix(PEM_END))
            .ok_or(KeyError::Private)?;
        let letters: String = body.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(letters).map_err(|_| KeyError::Private)?;
        let seed = bytes
            .strip_prefix(&PKCS8_HEAD)
            .and_then(|seed| <&[u8; 32]>::try_from(seed).ok())
            .ok_or(KeyError::Private)?;
        Ok(Self::from_seed(seed))
    }

    /// The text of a PEM file.
    pub fn to_pem(&self) -> String {
        let bytes = [&PKCS8_HEAD[..], self.0.as_bytes()].concat();
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(bytes))
    }

    /// The other half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {}", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_of_rfc_8032() {
        // Section 7.1, test 2.
        let seed: [u8; 32] = [
            0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11,
            0x4e, 0x0f, 0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed,
            0x4f, 0xb8, 0xa6, 0xfb,
        ];
        let key = PrivateKey::from_seed(&seed);
        assert_eq!(
            key.public().to_string(),
            "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="
        );
        let signature = key.sign(&[0x72]);
        assert_eq!(signature[..4], [0x92, 0xa0, 0x09, 0xa9]);
        assert!(key.public().verifies(&[0x72], &signature));
        assert!(!key.public().verifies(&[0x73], &signature));
        for at in 0..SIGNATURE_BYTES {
            let mut bad = signature;
            bad[at] ^= 1;
            assert!(!key.public().verifies(&[0x72], &bad), "byte {at}");
        }
    }

    #[test]
    fn keys_read_back_and_their_twins_do_not() {
        let key = PrivateKey::from_seed(&[7; 32]);
        let text = key.public().to_string();
        assert_eq!(text.parse::<PublicKey>().unwrap(), key.public());
        for bad in ["", "AAAA", &text[1..], &format!("{text}=")] {
            assert_eq!(bad.parse::<PublicKey>(), Err(KeyError::Length), "{bad}");
        }
        // The neutral element: everyone can sign with it.
        let neutral = STANDARD.encode([&[1][..], &[0; 31]].concat());
        assert_eq!(neutral.parse::<PublicKey>(), Err(KeyError::Weak));

        let pem = key.to_pem();
        assert_eq!(PrivateKey::from_pem(&pem).unwrap().public(), key.public());
        for bad in [
            pem.replace("PRIVATE", "PUBLIC"),
            pem.replace("MC4C", "MC4D"),
            pem.replacen('\n', "\nA", 1),
            String::new(),
        ] {
            let error = PrivateKey::from_pem(&bad).unwrap_err();
            assert_eq!(error, KeyError::Private, "{bad}");
        }
        assert!(!format!("{key:?}").contains(&STANDARD.encode([7; 32])));
    }
}
