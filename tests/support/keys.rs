//! OpenPGP certificates and signatures made on the spot: good ones, and each kind of bad one.
//!
//! Keys are ed25519 of version 4, made in microseconds. Times are fixed dates, so that a test means
//! the same on every day it runs.

use std::io::{Read, Write as _};
use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::Packet;
use openpgp::cert::Cert;
use openpgp::crypto::KeyPair;
use openpgp::packet::key::{Key4, PrimaryRole, PublicParts, SecretParts, SubordinateRole};
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Key, Signature, UserID};
use openpgp::serialize::stream::{Message, Signer};
use openpgp::serialize::{Serialize as _, SerializeInto as _};
use openpgp::types::{Curve, KeyFlags, ReasonForRevocation, SignatureType};

/// The hash a signature is made with.
pub use openpgp::types::HashAlgorithm as Hash;

const DAY: u64 = 24 * 60 * 60;

/// Seconds since 1970 of the first of January.
const fn year(year: u64) -> u64 {
    // Leap days between 1970 and the year; right up to 2100.
    ((year - 1970) * 365 + (year - 1969) / 4) * DAY
}

/// When a key is made, unless asked otherwise.
pub const CREATED: u64 = year(2020);

/// When data is signed, unless asked otherwise.
pub const SIGNED: u64 = year(2024);

/// After any day on which these tests will run, and before the 32 bits of OpenPGP times end.
pub const FUTURE: u64 = year(2099);

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// How and when data is signed.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// The hash of the data.
    pub hash: Hash,
    /// The creation time that the signature states, seconds since 1970.
    pub at: u64,
}

impl Default for Use {
    fn default() -> Self {
        Self {
            hash: Hash::SHA512,
            at: SIGNED,
        }
    }
}

/// Why a key was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// Its secret is known to others: nothing it ever signed counts.
    Hard,
    /// It is no longer used: what it signed before still counts.
    Soft,
}

/// A certificate to be made.
#[derive(Debug, Clone)]
pub struct Plan {
    user: String,
    created: u64,
    valid_for: Option<Duration>,
    self_type: SignatureType,
    self_hash: Hash,
    subkey: Option<(Hash, Hash)>,
    revoked: Option<(Revoked, u64)>,
}

impl Plan {
    /// The user id.
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// The creation time of its keys, seconds since 1970.
    pub fn created(mut self, at: u64) -> Self {
        self.created = at;
        self
    }

    /// Lets it expire at this time, seconds since 1970.
    pub fn expires(mut self, at: u64) -> Self {
        self.valid_for = Some(Duration::from_secs(at - self.created));
        self
    }

    /// How the primary key binds its user id, or itself.
    pub fn self_signature(mut self, typ: SignatureType, hash: Hash) -> Self {
        (self.self_type, self.self_hash) = (typ, hash);
        self
    }

    /// Signs with a subkey, bound with the first hash, which answers with the second; the primary
    /// key then only certifies.
    pub fn signing_subkey(mut self, binding: Hash, answer: Hash) -> Self {
        self.subkey = Some((binding, answer));
        self
    }

    /// Revokes the certificate at this time, seconds since 1970.
    pub fn revoked(mut self, how: Revoked, at: u64) -> Self {
        self.revoked = Some((how, at));
        self
    }

    /// Makes it.
    pub fn make(self) -> TestKey {
        self.packets().expect("a test certificate")
    }

    fn packets(self) -> openpgp::Result<TestKey> {
        let created = time(self.created);
        let mut primary: Key4<SecretParts, PrimaryRole> = Key4::generate_ecc(true, Curve::Ed25519)?;
        primary.set_creation_time(created)?;
        let primary: Key<SecretParts, PrimaryRole> = primary.into();
        let mut signer = primary.clone().into_keypair()?;
        let user = UserID::from(self.user.as_str());
        let flags = match self.subkey {
            None => KeyFlags::empty().set_certification().set_signing(),
            Some(_) => KeyFlags::empty().set_certification(),
        };
        let builder = SignatureBuilder::new(self.self_type)
            .set_hash_algo(self.self_hash)
            .set_signature_creation_time(created)?
            .set_key_flags(flags)?
            .set_key_validity_period(self.valid_for)?;
        let mut packets = vec![Packet::from(primary.clone())];
        if self.self_type == SignatureType::DirectKey {
            packets.push(
                builder
                    .sign_direct_key(&mut signer, primary.parts_as_public())?
                    .into(),
            );
        } else {
            let binding =
                builder.sign_userid_binding(&mut signer, primary.parts_as_public(), &user)?;
            packets.extend([user.into(), binding.into()]);
        }
        let mut signing = signer.clone();
        if let Some((binding, answer)) = self.subkey {
            let (parts, pair) = signing_subkey(
                primary.parts_as_public(),
                &mut signer,
                created,
                (binding, answer),
            )?;
            signing = pair;
            packets.extend(parts);
        }
        let mut cert = Cert::from_packets(packets.into_iter())?;
        if let Some((how, at)) = self.revoked {
            let revocation = revocation(primary.parts_as_public(), &mut signer, how, at)?;
            cert = cert.insert_packets([revocation])?.0;
        }
        Ok(TestKey { cert, signing })
    }
}

/// A subkey and its binding with the first hash, which holds its answer with the second.
fn signing_subkey(
    primary: &Key<PublicParts, PrimaryRole>,
    signer: &mut KeyPair,
    created: SystemTime,
    (binding, answer): (Hash, Hash),
) -> openpgp::Result<([Packet; 2], KeyPair)> {
    let mut subkey: Key4<SecretParts, SubordinateRole> = Key4::generate_ecc(true, Curve::Ed25519)?;
    subkey.set_creation_time(created)?;
    let subkey: Key<SecretParts, SubordinateRole> = subkey.into();
    let mut pair = subkey.clone().into_keypair()?;
    let answer = SignatureBuilder::new(SignatureType::PrimaryKeyBinding)
        .set_hash_algo(answer)
        .set_signature_creation_time(created)?
        .sign_primary_key_binding(&mut pair, primary, subkey.parts_as_public())?;
    let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_hash_algo(binding)
        .set_signature_creation_time(created)?
        .set_key_flags(KeyFlags::empty().set_signing())?
        .set_embedded_signature(answer)?
        .sign_subkey_binding(signer, primary, subkey.parts_as_public())?;
    Ok(([subkey.into(), binding.into()], pair))
}

fn revocation(
    primary: &Key<PublicParts, PrimaryRole>,
    signer: &mut KeyPair,
    how: Revoked,
    at: u64,
) -> openpgp::Result<Signature> {
    let reason = match how {
        Revoked::Hard => ReasonForRevocation::KeyCompromised,
        Revoked::Soft => ReasonForRevocation::KeyRetired,
    };
    SignatureBuilder::new(SignatureType::KeyRevocation)
        .set_signature_creation_time(time(at))?
        .set_reason_for_revocation(reason, b"made for a test")?
        .sign_direct_key(signer, primary)
}

/// A certificate with its secrets.
#[derive(Clone)]
pub struct TestKey {
    cert: Cert,
    signing: KeyPair,
}

impl TestKey {
    /// A good one, whose primary key signs.
    pub fn new() -> Self {
        Self::build().make()
    }

    /// Starts to describe another one.
    pub fn build() -> Plan {
        Plan {
            user: "Test Maintainer <maintainer@example.org>".to_owned(),
            created: CREATED,
            valid_for: None,
            self_type: SignatureType::PositiveCertification,
            self_hash: Hash::SHA512,
            subkey: None,
            revoked: None,
        }
    }

    /// The certificate, secrets included.
    pub fn cert(&self) -> &Cert {
        &self.cert
    }

    /// Fingerprint of its primary key: 40 upper-case digits.
    pub fn fingerprint(&self) -> String {
        self.cert.fingerprint().to_hex()
    }

    /// The public certificate, as a file in `keys/` has it.
    pub fn armored_cert(&self) -> String {
        let public = self.cert.clone().strip_secret_key_material();
        String::from_utf8(public.armored().to_vec().expect("armor")).expect("armor is ASCII")
    }

    /// The certificate with its secrets: what must never be in `keys/`.
    pub fn armored_secret(&self) -> String {
        let bytes = self.cert.as_tsk().armored().to_vec().expect("armor");
        String::from_utf8(bytes).expect("armor is ASCII")
    }

    fn certifier(&self) -> openpgp::Result<KeyPair> {
        let primary = self.cert.primary_key().key().clone();
        primary.parts_into_secret()?.into_keypair()
    }

    fn with(&self, packets: Vec<Packet>) -> openpgp::Result<Self> {
        Ok(Self {
            cert: self.cert.clone().insert_packets(packets)?.0,
            signing: self.signing.clone(),
        })
    }

    /// The same certificate with one more self-signature on its user id.
    pub fn certify_again(&self, hash: Hash, at: u64) -> Self {
        let make = || -> openpgp::Result<Self> {
            let user = self
                .cert
                .userids()
                .next()
                .expect("a user id")
                .userid()
                .clone();
            let binding = SignatureBuilder::new(SignatureType::PositiveCertification)
                .set_hash_algo(hash)
                .set_signature_creation_time(time(at))?
                .set_key_flags(KeyFlags::empty().set_certification().set_signing())?
                .sign_userid_binding(&mut self.certifier()?, None, &user)?;
            self.with(vec![user.into(), binding.into()])
        };
        make().expect("a test certificate")
    }

    /// The same certificate with one more subkey, which signs.
    pub fn add_signing_subkey(&self, binding: Hash, answer: Hash) -> Self {
        let make = || -> openpgp::Result<Self> {
            let primary = self.cert.primary_key().key().clone();
            let (packets, _) = signing_subkey(
                primary.parts_as_public(),
                &mut self.certifier()?,
                time(CREATED),
                (binding, answer),
            )?;
            self.with(packets.into())
        };
        make().expect("a test certificate")
    }

    /// The same certificate, revoked.
    pub fn revoke(&self, how: Revoked, at: u64) -> Self {
        let make = || -> openpgp::Result<Self> {
            let primary = self.cert.primary_key().key().clone();
            let revocation =
                revocation(primary.parts_as_public(), &mut self.certifier()?, how, at)?;
            self.with(vec![revocation.into()])
        };
        make().expect("a test certificate")
    }

    /// A detached signature packet.
    pub fn signature(&self, data: impl Read, how: Use) -> Signature {
        let sign = |mut data: Box<dyn Read + '_>| -> openpgp::Result<Signature> {
            let mut signer = self.signing.clone();
            let mut hash = how.hash.context()?.for_signature(4);
            let mut buffer = vec![0; 1 << 20];
            loop {
                match data.read(&mut buffer)? {
                    0 => break,
                    count => hash.update(&buffer[..count]),
                }
            }
            SignatureBuilder::new(SignatureType::Binary)
                .set_hash_algo(how.hash)
                .set_signature_creation_time(time(how.at))?
                .sign_hash(&mut signer, hash)
        };
        sign(Box::new(data)).expect("a test signature")
    }

    /// An armored detached signature of bytes or of an open file.
    pub fn sign_detached(&self, data: impl Read) -> Vec<u8> {
        armor(&[self.signature(data, Use::default())])
    }

    /// An armored detached signature with another hash or time.
    pub fn sign_detached_as(&self, data: impl Read, how: Use) -> Vec<u8> {
        armor(&[self.signature(data, how)])
    }

    /// A text with its signature around it, as `sha256sums.asc` has it.
    pub fn cleartext_sign(&self, text: &str) -> Vec<u8> {
        let sign = || -> openpgp::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let mut signer = Signer::new(Message::new(&mut bytes), self.signing.clone())?
                .cleartext()
                .creation_time(time(SIGNED))
                .build()?;
            signer.write_all(text.as_bytes())?;
            signer.finalize()?;
            Ok(bytes)
        };
        sign().expect("a test signature")
    }
}

/// Signatures in one armored block.
pub fn armor(signatures: &[Signature]) -> Vec<u8> {
    let write = || -> openpgp::Result<Vec<u8>> {
        let mut writer = openpgp::armor::Writer::new(Vec::new(), openpgp::armor::Kind::Signature)?;
        for signature in signatures {
            Packet::from(signature.clone()).serialize(&mut writer)?;
        }
        Ok(writer.finalize()?)
    };
    write().expect("armor")
}
