//! Which OpenPGP signatures count: the library's standard policy, with one exception.
//!
//! Some of the certificates that sign kernel releases carry SHA-1 self-signatures only (made in
//! 2011), and a current policy rejects them. What such a self-signature says (a user id, key flags)
//! is already vouched for by the pinned fingerprint and the committed file, so it needs second
//! pre-image resistance only, which SHA-1 still has. The exception goes no further: a signing
//! subkey, the subkey's answer to the primary key, and data need more, and keep needing it.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use jiff::Timestamp;
use openpgp::cert::amalgamation::key::ValidErasedKeyAmalgamation;
use openpgp::packet::Signature;
use openpgp::packet::key::PublicParts;
use openpgp::policy::{HashAlgoSecurity, Policy, StandardPolicy};
use openpgp::types::{AEADAlgorithm, HashAlgorithm, SignatureType, SymmetricAlgorithm};
use openpgp::{KeyHandle, Packet};

/// The standard policy as of `at`, without exception.
pub(in crate::source) fn stock(at: Timestamp) -> StandardPolicy<'static> {
    StandardPolicy::at(system_time(at))
}

/// A time in the OpenPGP library's type. Times before 1970 do not occur in OpenPGP.
pub(in crate::source) fn system_time(at: Timestamp) -> SystemTime {
    let seconds = u64::try_from(at.as_second()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A time of the OpenPGP library, which counts whole seconds in 32 bits from 1970.
pub(in crate::source) fn timestamp(time: SystemTime) -> Timestamp {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The standard policy, with SHA-1 accepted in self-signatures of pinned primary keys.
#[derive(Debug)]
pub(in crate::source) struct PinnedPolicy {
    stock: StandardPolicy<'static>,
    /// As `stock`, but with SHA-1's second pre-image resistance accepted.
    lenient: StandardPolicy<'static>,
    /// Primary keys of the pinned, committed certificates.
    pinned: Vec<openpgp::Fingerprint>,
}

impl PinnedPolicy {
    /// The policy as of `at` for certificates with these primary keys.
    pub(in crate::source) fn new(at: Timestamp, pinned: Vec<openpgp::Fingerprint>) -> Self {
        let mut lenient = stock(at);
        lenient.accept_hash_property(
            HashAlgorithm::SHA1,
            HashAlgoSecurity::SecondPreImageResistance,
        );
        Self {
            stock: stock(at),
            lenient,
            pinned,
        }
    }

    /// Whether the exception is meant for this signature. Everything not named here is denied: to
    /// return Ok from [`Policy::signature`] *is* to accept.
    fn is_excepted(&self, signature: &Signature, needs: HashAlgoSecurity) -> bool {
        let by_pinned_primary = || {
            let issuers = signature.get_issuers();
            !issuers.is_empty()
                && issuers.iter().all(|issuer| {
                    self.pinned
                        .iter()
                        .any(|pinned| KeyHandle::from(pinned).aliases(issuer))
                })
        };
        signature.hash_algo() == HashAlgorithm::SHA1
            && needs == HashAlgoSecurity::SecondPreImageResistance
            && matches!(
                signature.typ(),
                SignatureType::GenericCertification
                    | SignatureType::PersonaCertification
                    | SignatureType::CasualCertification
                    | SignatureType::PositiveCertification
                    | SignatureType::DirectKey
            )
            && by_pinned_primary()
    }
}

impl Policy for PinnedPolicy {
    fn signature(&self, signature: &Signature, needs: HashAlgoSecurity) -> openpgp::Result<()> {
        if self.is_excepted(signature, needs) {
            self.lenient.signature(signature, needs)
        } else {
            self.stock.signature(signature, needs)
        }
    }

    fn key(&self, key: &ValidErasedKeyAmalgamation<PublicParts>) -> openpgp::Result<()> {
        self.stock.key(key)
    }

    fn symmetric_algorithm(&self, algorithm: SymmetricAlgorithm) -> openpgp::Result<()> {
        self.stock.symmetric_algorithm(algorithm)
    }

    fn aead_algorithm(&self, algorithm: AEADAlgorithm) -> openpgp::Result<()> {
        self.stock.aead_algorithm(algorithm)
    }

    fn packet(&self, packet: &Packet) -> openpgp::Result<()> {
        self.stock.packet(packet)
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::clock;
    use crate::source::keyring;
    use crate::source::test_keys::{Hash, TestKey, Use};

    const GREG: &str = "647F28654894E3BD457199BE38DBBDC86092693E";
    const LINUS: &str = "ABAF11C65A2970B130ABE3C479BE3E4300411886";
    const SASHA: &str = "E27E5D8A3403A2EF66873BBCDEA66FF797772CDC";
    const BEN: &str = "AC2B29BD34A6AFDDB3F68F35E7BFC8EC95861109";

    fn accepted(cert: &openpgp::Cert, policy: &dyn Policy) -> bool {
        let signs = cert
            .keys()
            .with_policy(policy, system_time(clock::now()))
            .for_signing()
            .count();
        signs > 0
    }

    fn pinned(cert: &openpgp::Cert) -> PinnedPolicy {
        PinnedPolicy::new(clock::now(), vec![cert.fingerprint()])
    }

    #[test]
    fn the_real_certificates() {
        let keys = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("keys");
        for (pin, stock_accepts) in [(GREG, false), (LINUS, false), (SASHA, true), (BEN, true)] {
            let pin = pin.parse().unwrap();
            let cert = keyring::read(&keyring::path(&keys, &pin), &pin)
                .unwrap()
                .cert;
            assert_eq!(
                accepted(&cert, &stock(clock::now())),
                stock_accepts,
                "{pin}"
            );
            assert!(accepted(&cert, &pinned(&cert)), "{pin}");
            // The exception belongs to the pinned certificate, not to whoever needs one.
            let other = PinnedPolicy::new(clock::now(), vec![TestKey::new().cert().fingerprint()]);
            assert_eq!(accepted(&cert, &other), stock_accepts, "{pin}");
        }
    }

    #[test]
    fn sha1_self_signatures_of_each_excepted_type() {
        for typ in [
            SignatureType::GenericCertification,
            SignatureType::PersonaCertification,
            SignatureType::CasualCertification,
            SignatureType::PositiveCertification,
            SignatureType::DirectKey,
        ] {
            let key = TestKey::build().self_signature(typ, Hash::SHA1).make();
            assert!(!accepted(key.cert(), &stock(clock::now())), "{typ}");
            assert!(accepted(key.cert(), &pinned(key.cert())), "{typ}");
        }
    }

    #[test]
    fn the_subkey_stays_under_the_stock_rules() {
        for (binding, answer, good) in [
            (Hash::SHA512, Hash::SHA512, true),
            (Hash::SHA1, Hash::SHA512, false),
            (Hash::SHA512, Hash::SHA1, false),
            (Hash::SHA1, Hash::SHA1, false),
        ] {
            for primary in [Hash::SHA512, Hash::SHA1] {
                let key = TestKey::build()
                    .self_signature(SignatureType::PositiveCertification, primary)
                    .signing_subkey(binding, answer)
                    .make();
                let signs = accepted(key.cert(), &pinned(key.cert()));
                assert_eq!(signs, good, "{primary:?} {binding:?} {answer:?}");
            }
        }
    }

    #[test]
    fn data_needs_collision_resistance() {
        let key = TestKey::new();
        let policy = pinned(key.cert());
        for (hash, good) in [
            (Hash::SHA512, true),
            (Hash::SHA256, true),
            (Hash::SHA1, false),
        ] {
            let signature = key.signature(
                &b"data"[..],
                Use {
                    hash,
                    ..Use::default()
                },
            );
            let judged = policy.signature(&signature, HashAlgoSecurity::CollisionResistance);
            assert_eq!(judged.is_ok(), good, "{hash:?}");
        }
        // Even where the library asked for less: the type is not among the excepted.
        let signature = key.signature(
            &b"data"[..],
            Use {
                hash: Hash::SHA1,
                ..Use::default()
            },
        );
        let needs = HashAlgoSecurity::SecondPreImageResistance;
        assert!(policy.signature(&signature, needs).is_err());
    }

    #[test]
    fn no_other_weak_hash_is_excepted() {
        let key = TestKey::build()
            .self_signature(SignatureType::PositiveCertification, Hash::RipeMD)
            .make();
        assert!(!accepted(key.cert(), &pinned(key.cert())));
    }
}
