//! Newer copies of pinned certificates: what of them is taken, and what never is.
//!
//! A refresh can only say more about a key that is pinned already. It cannot bring a key, and it
//! brings a subkey only when asked to. What it brings is trusted for the signatures inside, not for
//! the way it came: each must verify with the pinned primary key, and have a hash that the stock
//! policy accepts. Revocations are the exception: they are taken whatever their hash, since losing
//! one would make something valid that is not.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use sequoia_openpgp as openpgp;
use serde::Serialize;

use openpgp::packet::Signature;
use openpgp::policy::{HashAlgoSecurity, Policy as _};
use openpgp::serialize::SerializeInto as _;
use openpgp::types::{HashAlgorithm, SignatureType};
use openpgp::{Cert, Packet};

use super::keyring::{self, KeyringError};
use super::policy::{stock, timestamp};
use crate::digest::Fingerprint;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};

/// Web Key Directory addresses of the people whose certificates kiln ships: the ones that
/// kernel.org publishes under (<https://www.kernel.org/category/signatures.html>).
pub const DIRECTORY: &[(&str, &str)] = &[
    (
        "647F28654894E3BD457199BE38DBBDC86092693E",
        "gregkh@kernel.org",
    ),
    (
        "ABAF11C65A2970B130ABE3C479BE3E4300411886",
        "torvalds@kernel.org",
    ),
    (
        "E27E5D8A3403A2EF66873BBCDEA66FF797772CDC",
        "sashal@kernel.org",
    ),
];

/// Why certificates were not refreshed.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// A file of `keys/`, or what was brought, is no certificate.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// Nothing in what was brought is pinned.
    #[error("`{source_name}` holds no pinned certificate: it holds {found}")]
    NothingPinned {
        /// Where it came from.
        source_name: String,
        /// What it holds.
        found: String,
    },
    /// Not an address that a Web Key Directory could have.
    #[error("`{found}` is not a mail address")]
    Address {
        /// The text.
        found: String,
    },
    /// The library refused to put the parts together.
    #[error("certificate {fingerprint} could not be put together: {reason}")]
    Merge {
        /// Which.
        fingerprint: Fingerprint,
        /// The library's words.
        reason: String,
    },
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for RefreshError {
    fn exit(&self) -> Exit {
        match self {
            Self::Keyring(error) => error.exit(),
            Self::NothingPinned { .. } => Exit::NotVerified,
            Self::Address { .. } => Exit::Usage,
            Self::Merge { .. } => Exit::Unexpected,
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Keyring(error) => error.code(),
            Self::NothingPinned { .. } => "refresh-not-pinned",
            Self::Address { .. } => "refresh-address",
            Self::Merge { .. } => "refresh-merge",
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Keyring(error) => error.hints(),
            Self::NothingPinned { .. } => vec![
                "a refresh never adds a key: to pin another one, add its file to `keys/` and its \
                 fingerprint to a pipeline by hand, after comparing it with a second source"
                    .to_owned(),
            ],
            Self::Address { .. } => {
                vec!["give an address such as `gregkh@kernel.org`".to_owned()]
            }
            Self::Merge { .. } => Vec::new(),
            Self::File(error) => error.hints(),
        }
    }
}

/// What else may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subkeys {
    /// New subkeys are refused.
    Refuse,
    /// New subkeys with a strong binding are taken.
    Allow,
}

/// What became of one part of what was brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A newer self-signature on something that was there.
    SelfSignature {
        /// What it binds.
        binds: String,
        /// Its hash.
        hash: String,
        /// When it was made.
        made: String,
    },
    /// A user id with its first self-signature.
    User {
        /// The user id, escaped.
        user: String,
    },
    /// A subkey.
    Subkey {
        /// Its fingerprint.
        fingerprint: String,
    },
    /// A revocation.
    Revocation {
        /// What it revokes.
        of: String,
        /// When it was made.
        made: String,
    },
}

/// What was brought and not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// A self-signature with a hash that the stock policy rejects.
    WeakHash {
        /// What it binds.
        binds: String,
        /// Its hash.
        hash: String,
    },
    /// A subkey that is not there yet.
    NewSubkey {
        /// Its fingerprint.
        fingerprint: String,
    },
    /// A whole certificate that is not pinned.
    OtherCertificate {
        /// Its fingerprint.
        fingerprint: String,
    },
}

/// What a refresh did to one certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refreshed {
    /// The pin.
    pub fingerprint: Fingerprint,
    /// Its file.
    pub path: Utf8PathBuf,
    /// What was taken.
    pub changes: Vec<Change>,
    /// What was not.
    pub refused: Vec<Refused>,
}

/// Merges `brought` (a file's bytes, or a directory's answer; `source_name` says which) into the
/// files of the certificates in `directory` that `pins` names. With `is_dry` nothing is written.
pub fn refresh(
    directory: &Utf8Path,
    pins: &[Fingerprint],
    (source_name, brought): (&str, &[u8]),
    subkeys: Subkeys,
    at: Timestamp,
    is_dry: bool,
) -> Result<Vec<Refreshed>, RefreshError> {
    let incoming = keyring::parse(Utf8Path::new(source_name), brought)?;
    if incoming.iter().any(Cert::is_tsk) {
        return Err(RefreshError::Keyring(KeyringError::SecretKey {
            path: source_name.into(),
        }));
    }
    let mut results = Vec::new();
    let mut others = Vec::new();
    for cert in incoming {
        let found = cert.fingerprint().to_hex();
        let Some(pin) = pins.iter().find(|pin| pin.as_str() == found) else {
            others.push(Refused::OtherCertificate { fingerprint: found });
            continue;
        };
        let path = keyring::path(directory, pin);
        let pinned = keyring::read(&path, pin)?.cert;
        let (merged, changes, refused) =
            merge(&pinned, &cert, subkeys, at).map_err(|error| RefreshError::Merge {
                fingerprint: pin.clone(),
                reason: error.to_string(),
            })?;
        if !changes.is_empty() && !is_dry {
            let armored = merged
                .armored()
                .to_vec()
                .map_err(|error| RefreshError::Merge {
                    fingerprint: pin.clone(),
                    reason: error.to_string(),
                })?;
            files::write(&path, &armored)?;
        }
        results.push(Refreshed {
            fingerprint: pin.clone(),
            path,
            changes,
            refused,
        });
    }
    let Some(first) = results.first_mut() else {
        let found: Vec<String> = others
            .iter()
            .filter_map(|other| match other {
                Refused::OtherCertificate { fingerprint } => Some(fingerprint.clone()),
                _ => None,
            })
            .collect();
        return Err(RefreshError::NothingPinned {
            source_name: source_name.to_owned(),
            found: found.join(", "),
        });
    };
    first.refused.extend(others);
    Ok(results)
}

/// Collects what may be taken from `incoming`, and adds it to `pinned`.
fn merge(
    pinned: &Cert,
    incoming: &Cert,
    subkeys: Subkeys,
    at: Timestamp,
) -> openpgp::Result<(Cert, Vec<Change>, Vec<Refused>)> {
    let mut taken = Taken {
        pinned,
        at,
        packets: Vec::new(),
        changes: Vec::new(),
        refused: Vec::new(),
    };
    taken.primary(incoming);
    taken.users(incoming);
    taken.subkeys(incoming, subkeys);
    let Taken {
        packets,
        changes,
        refused,
        ..
    } = taken;
    let merged = pinned.clone().insert_packets(packets)?.0;
    Ok((merged, changes, refused))
}

struct Taken<'a> {
    pinned: &'a Cert,
    at: Timestamp,
    packets: Vec<Packet>,
    changes: Vec<Change>,
    refused: Vec<Refused>,
}

/// A part of a certificate: the primary key, a user id, a subkey.
struct Part<'a> {
    name: &'a str,
    /// What goes with its signatures; the primary key is there already.
    packet: Option<Packet>,
    /// Its signatures in the pinned file.
    known: &'a [&'a Signature],
}

impl Taken<'_> {
    fn primary(&mut self, incoming: &Cert) {
        let primary = self.pinned.primary_key();
        let key = primary.key();
        let known = primary.self_signatures().chain(primary.self_revocations());
        let known: Vec<&Signature> = known.collect();
        let part = Part {
            name: "the key itself",
            packet: None,
            known: &known,
        };
        let component = incoming.primary_key();
        self.bindings(&part, component.self_signatures(), |signature| {
            signature.verify_direct_key(key, key).is_ok()
        });
        self.revocations(&part, component.self_revocations(), |signature| {
            signature.verify_primary_key_revocation(key, key).is_ok()
        });
    }

    fn users(&mut self, incoming: &Cert) {
        let key = self.pinned.primary_key().key();
        for component in incoming.userids() {
            let user = component.userid();
            let name = String::from_utf8_lossy(user.value()).into_owned();
            let ours = self.pinned.userids().find(|ours| ours.userid() == user);
            let known: Vec<&Signature> = ours
                .iter()
                .flat_map(|ours| ours.self_signatures().chain(ours.self_revocations()))
                .collect();
            let part = Part {
                name: &name,
                packet: Some(user.clone().into()),
                known: &known,
            };
            let is_bound = self.bindings(&part, component.self_signatures(), |signature| {
                signature.verify_userid_binding(key, key, user).is_ok()
            });
            if ours.is_none() {
                // One that nothing strong binds is not taken, and so not revoked either.
                if !is_bound {
                    continue;
                }
                self.changes.push(Change::User {
                    user: name.escape_debug().to_string(),
                });
            }
            self.revocations(&part, component.self_revocations(), |signature| {
                signature.verify_userid_revocation(key, key, user).is_ok()
            });
        }
    }

    fn subkeys(&mut self, incoming: &Cert, allowed: Subkeys) {
        let key = self.pinned.primary_key().key();
        for component in incoming.keys().subkeys() {
            let subkey = component.key();
            let name = subkey.fingerprint().to_hex();
            let mut pinned = self.pinned.keys().subkeys();
            let ours = pinned.find(|ours| ours.key().fingerprint() == subkey.fingerprint());
            if ours.is_none() && allowed == Subkeys::Refuse {
                self.refused.push(Refused::NewSubkey { fingerprint: name });
                continue;
            }
            let known: Vec<&Signature> = ours
                .iter()
                .flat_map(|ours| ours.self_signatures().chain(ours.self_revocations()))
                .collect();
            let part = Part {
                name: &name,
                packet: Some(subkey.clone().into()),
                known: &known,
            };
            let is_bound = self.bindings(&part, component.self_signatures(), |signature| {
                signature.verify_subkey_binding(key, key, subkey).is_ok()
            });
            if ours.is_none() {
                if !is_bound {
                    continue;
                }
                self.changes.push(Change::Subkey {
                    fingerprint: name.clone(),
                });
            }
            self.revocations(&part, component.self_revocations(), |signature| {
                signature.verify_subkey_revocation(key, key, subkey).is_ok()
            });
        }
    }

    /// Takes the new self-signatures of a part that are `ours`; whether there was one.
    fn bindings<'s>(
        &mut self,
        part: &Part<'_>,
        signatures: impl Iterator<Item = &'s Signature>,
        ours: impl Fn(&Signature) -> bool,
    ) -> bool {
        let before = self.packets.len();
        for signature in signatures {
            if ours(signature) && is_new(signature, part.known) {
                self.take_binding(part.name, signature, part.packet.clone());
            }
        }
        self.packets.len() > before
    }

    /// Takes the new revocations of a part that are `ours`.
    fn revocations<'s>(
        &mut self,
        part: &Part<'_>,
        signatures: impl Iterator<Item = &'s Signature>,
        ours: impl Fn(&Signature) -> bool,
    ) {
        for signature in signatures {
            if ours(signature) && is_new(signature, part.known) {
                self.take_revocation(part.name, signature, part.packet.clone());
            }
        }
    }

    /// A self-signature: taken if the stock policy accepts it, and every signature inside it.
    fn take_binding(&mut self, binds: &str, signature: &Signature, component: Option<Packet>) {
        let policy = stock(self.at);
        let weak = std::iter::once(signature)
            .chain(signature.embedded_signatures())
            .find(|part| {
                policy
                    .signature(part, HashAlgoSecurity::SecondPreImageResistance)
                    .is_err()
            });
        let binds = binds.escape_debug().to_string();
        if let Some(weak) = weak {
            self.refused.push(Refused::WeakHash {
                binds,
                hash: weak.hash_algo().to_string(),
            });
            return;
        }
        self.packets.extend(component);
        self.packets.push(signature.clone().into());
        self.changes.push(Change::SelfSignature {
            binds,
            hash: signature.hash_algo().to_string(),
            made: made(signature),
        });
    }

    fn take_revocation(&mut self, of: &str, signature: &Signature, component: Option<Packet>) {
        self.packets.extend(component);
        self.packets.push(signature.clone().into());
        self.changes.push(Change::Revocation {
            of: of.escape_debug().to_string(),
            made: made(signature),
        });
    }
}

fn is_new(signature: &Signature, known: &[&Signature]) -> bool {
    // Third-party signatures never get here: each was verified with the primary key.
    debug_assert_ne!(signature.typ(), SignatureType::Binary);
    !known.iter().any(|known| known.normalized_eq(signature))
}

fn made(signature: &Signature) -> String {
    signature
        .signature_creation_time()
        .map_or_else(String::new, |time| timestamp(time).to_string())
}

/// Where a Web Key Directory serves the certificate of a mail address: the directory's address and
/// the name in it, in the order in which they are asked (draft-koch-openpgp-webkey-service,
/// section 3.1, the advanced and the direct method).
pub fn web_key_directory(address: &str) -> Result<[(String, String); 2], RefreshError> {
    let error = || RefreshError::Address {
        found: address.to_owned(),
    };
    let (local, domain) = address.rsplit_once('@').ok_or_else(error)?;
    let domain = domain.to_ascii_lowercase();
    let is_domain = domain.contains('.')
        && domain
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if local.is_empty() || !is_domain || local.chars().any(char::is_control) {
        return Err(error());
    }
    let hash = sha1(local.to_ascii_lowercase().as_bytes()).ok_or_else(error)?;
    let name = z_base_32(&hash);
    let path = ".well-known/openpgpkey";
    Ok([
        (
            format!("https://openpgpkey.{domain}/{path}/{domain}/hu/"),
            name.clone(),
        ),
        (format!("https://{domain}/{path}/hu/"), name),
    ])
}

/// SHA-1 as a name, not as a proof: the directory's file names are defined so.
fn sha1(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut hasher = HashAlgorithm::SHA1.context().ok()?.for_digest();
    hasher.update(bytes);
    hasher.into_digest().ok()
}

/// z-base-32 of a multiple of five bytes.
fn z_base_32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";
    let mut text = String::new();
    for group in bytes.chunks(5) {
        let bits = group
            .iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for digit in (0..8).rev() {
            let index = usize::try_from(bits >> (digit * 5) & 31).unwrap_or(0);
            text.push(char::from(ALPHABET[index]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::source::test_keys::{Hash, Revoked, SIGNED, TestKey};

    struct Dir {
        _guard: tempfile::TempDir,
        path: Utf8PathBuf,
        pins: Vec<Fingerprint>,
    }

    impl Dir {
        fn with(keys: &[&TestKey]) -> Self {
            let guard = tempfile::tempdir().unwrap();
            let path = Utf8PathBuf::from(guard.path().to_str().unwrap());
            let mut pins = Vec::new();
            for key in keys {
                let pin: Fingerprint = key.fingerprint().parse().unwrap();
                files::write(&keyring::path(&path, &pin), key.armored_cert().as_bytes()).unwrap();
                pins.push(pin);
            }
            Self {
                _guard: guard,
                path,
                pins,
            }
        }

        fn refresh(&self, brought: &str, subkeys: Subkeys) -> Result<Vec<Refreshed>, RefreshError> {
            let brought = ("brought", brought.as_bytes());
            refresh(
                &self.path,
                &self.pins,
                brought,
                subkeys,
                clock::now(),
                false,
            )
        }

        fn cert(&self) -> Cert {
            let pin = &self.pins[0];
            keyring::read(&keyring::path(&self.path, pin), pin)
                .unwrap()
                .cert
        }
    }

    fn old() -> TestKey {
        TestKey::build()
            .self_signature(SignatureType::PositiveCertification, Hash::SHA1)
            .make()
    }

    #[test]
    fn a_newer_self_signature_is_merged() {
        let key = old();
        let dir = Dir::with(&[&key]);
        let newer = key.certify_again(Hash::SHA512, SIGNED);
        let done = dir.refresh(&newer.armored_cert(), Subkeys::Refuse).unwrap();
        assert_eq!(
            done[0].changes,
            [Change::SelfSignature {
                binds: "Test Maintainer <maintainer@example.org>".to_owned(),
                hash: "SHA512".to_owned(),
                made: "2024-01-01T00:00:00Z".to_owned(),
            }]
        );
        let stock = stock(clock::now());
        assert!(dir.cert().with_policy(&stock, None).is_ok());
        assert!(!dir.cert().is_tsk());
        // Once is enough.
        let again = dir.refresh(&newer.armored_cert(), Subkeys::Refuse).unwrap();
        assert!(again[0].changes.is_empty());
    }

    #[test]
    fn a_dry_run_tells_and_writes_nothing() {
        let key = old();
        let dir = Dir::with(&[&key]);
        let newer = key.certify_again(Hash::SHA512, SIGNED).armored_cert();
        let brought = ("brought", newer.as_bytes());
        let done = refresh(
            &dir.path,
            &dir.pins,
            brought,
            Subkeys::Refuse,
            clock::now(),
            true,
        );
        assert_eq!(done.unwrap()[0].changes.len(), 1);
        assert!(dir.cert().with_policy(&stock(clock::now()), None).is_err());
    }

    #[test]
    fn weak_self_signatures_are_not_taken() {
        let key = TestKey::new();
        let dir = Dir::with(&[&key]);
        let weaker = key.certify_again(Hash::SHA1, SIGNED);
        let done = dir
            .refresh(&weaker.armored_cert(), Subkeys::Refuse)
            .unwrap();
        assert!(done[0].changes.is_empty());
        assert!(matches!(&done[0].refused[..], [Refused::WeakHash { hash, .. }] if hash == "SHA1"));
        assert_eq!(
            dir.cert()
                .userids()
                .next()
                .unwrap()
                .self_signatures()
                .count(),
            1
        );
    }

    #[test]
    fn another_key_is_never_added() {
        let (key, other) = (TestKey::new(), TestKey::new());
        let dir = Dir::with(&[&key]);
        let error = dir
            .refresh(&other.armored_cert(), Subkeys::Allow)
            .unwrap_err();
        assert_eq!(error.exit(), Exit::NotVerified);
        assert!(error.to_string().contains(&other.fingerprint()), "{error}");
        let both = format!("{}\n{}", other.armored_cert(), key.armored_cert());
        let done = dir.refresh(&both, Subkeys::Allow).unwrap();
        assert!(done[0].changes.is_empty());
        assert!(matches!(
            done[0].refused[..],
            [Refused::OtherCertificate { .. }]
        ));
        assert_eq!(files::list(&dir.path).unwrap().len(), 1);
    }

    #[test]
    fn subkeys_are_added_only_when_asked_for_and_strong() {
        let key = TestKey::new();
        let dir = Dir::with(&[&key]);
        let strong = key
            .add_signing_subkey(Hash::SHA512, Hash::SHA512)
            .armored_cert();
        let refused = dir.refresh(&strong, Subkeys::Refuse).unwrap();
        assert!(matches!(
            refused[0].refused[..],
            [Refused::NewSubkey { .. }]
        ));
        assert_eq!(dir.cert().keys().count(), 1);
        for (binding, answer) in [(Hash::SHA1, Hash::SHA512), (Hash::SHA512, Hash::SHA1)] {
            let weak = key.add_signing_subkey(binding, answer).armored_cert();
            let done = dir.refresh(&weak, Subkeys::Allow).unwrap();
            assert!(matches!(done[0].refused[..], [Refused::WeakHash { .. }]));
            assert_eq!(dir.cert().keys().count(), 1);
        }
        dir.refresh(&strong, Subkeys::Allow).unwrap();
        assert_eq!(dir.cert().keys().count(), 2);
    }

    #[test]
    fn revocations_are_taken() {
        let key = TestKey::new();
        let dir = Dir::with(&[&key]);
        let revoked = key.revoke(Revoked::Hard, SIGNED);
        let done = dir
            .refresh(&revoked.armored_cert(), Subkeys::Refuse)
            .unwrap();
        assert!(matches!(done[0].changes[..], [Change::Revocation { .. }]));
        let (cert, policy) = (dir.cert(), stock(clock::now()));
        let status = cert.revocation_status(&policy, None);
        assert!(matches!(
            status,
            openpgp::types::RevocationStatus::Revoked(_)
        ));
    }

    #[test]
    fn a_self_signature_that_someone_else_made_is_nothing() {
        let (key, other) = (TestKey::new(), TestKey::new());
        let dir = Dir::with(&[&key]);
        // The other's self-signature on the same user id, put below the pinned key.
        let user = other.cert().userids().next().unwrap();
        let signature = user.self_signatures().next().unwrap().clone();
        let mut packets: Vec<Packet> = key
            .cert()
            .clone()
            .strip_secret_key_material()
            .into_packets()
            .collect();
        packets.push(user.userid().clone().into());
        packets.push(signature.into());
        let forged = Cert::from_packets(packets.into_iter()).unwrap();
        let text = String::from_utf8(forged.armored().to_vec().unwrap()).unwrap();
        let done = dir.refresh(&text, Subkeys::Allow).unwrap();
        assert!(done[0].changes.is_empty(), "{:?}", done[0].changes);
        let users = dir
            .cert()
            .userids()
            .next()
            .unwrap()
            .self_signatures()
            .count();
        assert_eq!(users, 1);
    }

    #[test]
    fn what_is_no_certificate_changes_nothing() {
        let key = TestKey::new();
        let dir = Dir::with(&[&key]);
        for (brought, code) in [
            ("", "certificate-malformed"),
            ("<html>404</html>", "certificate-malformed"),
            (&*key.armored_secret(), "certificate-secret"),
        ] {
            let error = dir.refresh(brought, Subkeys::Allow).unwrap_err();
            assert_eq!(error.code(), code);
        }
    }

    #[test]
    fn directory_addresses() {
        // The example of draft-koch-openpgp-webkey-service.
        let [advanced, direct] = web_key_directory("Joe.Doe@Example.ORG").unwrap();
        assert_eq!(
            advanced.0 + &advanced.1,
            "https://openpgpkey.example.org/.well-known/openpgpkey/example.org/hu/\
             iy9q119eutrkn8s1mk4r39qejnbu3n5q"
        );
        assert_eq!(
            direct.0 + &direct.1,
            "https://example.org/.well-known/openpgpkey/hu/iy9q119eutrkn8s1mk4r39qejnbu3n5q"
        );
        for bad in [
            "",
            "joe",
            "@example.org",
            "joe@",
            "joe@host/..",
            "joe@local",
            "a@b.c/d",
        ] {
            assert!(web_key_directory(bad).is_err(), "{bad}");
        }
    }
}
