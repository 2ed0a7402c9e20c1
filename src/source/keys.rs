//! What state the certificates in `keys/` are in, under the stock policy and under kiln's.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{Span, Timestamp};
use sequoia_openpgp as openpgp;
use serde::Serialize;

use openpgp::Cert;
use openpgp::cert::amalgamation::key::PrimaryKey as _;
use openpgp::cert::amalgamation::{ValidAmalgamation as _, ValidateAmalgamation as _};
use openpgp::packet::Signature;
use openpgp::policy::Policy;
use openpgp::types::RevocationStatus;

use super::keyring::{self, KeyringError};
use super::policy::{PinnedPolicy, stock, system_time, timestamp};
use super::verdict::{fingerprint, is_weak};
use crate::digest::Fingerprint;
use crate::files::{self, FileError};

/// A certificate that expires within this many hours is worth a word: 90 days.
const SOON_HOURS: i64 = 90 * 24;

/// Largest file in which a private key is looked for, in bytes.
const SECRET_LIMIT: u64 = 4 << 20;

/// What is said of a private key in `keys/`.
pub const SECRET: &str =
    "it holds a private key: `keys/` is committed, and may hold public ones only";

/// What to do then.
pub const SECRET_HINT: &str = "move the file out of the repository; if it was ever committed or sent, revoke that key and make a new one";

/// Whether a key can make a signature that counts, today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum State {
    /// It can.
    Signs,
    /// It is accepted, but meant for something else.
    NotForSigning,
    /// It has ended.
    Expired(String),
    /// It was revoked.
    Revoked(String),
    /// The policy rejects it.
    Rejected(String),
}

/// A primary key or subkey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Algorithm and size.
    pub algorithm: String,
    /// Whether it is the certificate's primary key.
    pub primary: bool,
    /// Under the standard policy.
    pub stock: State,
    /// Under kiln's policy for pinned certificates.
    pub pinned: State,
}

/// A signature of the certificate about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfSignature {
    /// What it binds: a user id, `the key itself`, or a subkey's fingerprint.
    pub binds: String,
    /// Its hash.
    pub hash: String,
    /// When it was made.
    pub made: String,
    /// Whether its hash is one that the stock policy rejects.
    pub weak: bool,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateReport {
    /// Its file.
    pub path: Utf8PathBuf,
    /// Fingerprint of its primary key.
    pub fingerprint: Fingerprint,
    /// Whether a pipeline pins it.
    pub pinned: bool,
    /// Its user ids, escaped.
    pub users: Vec<String>,
    /// When its primary key was made.
    pub created: String,
    /// When it expires, where it does.
    pub expires: Option<String>,
    /// Its keys, the primary one first.
    pub keys: Vec<KeyReport>,
    /// Its signatures about itself.
    pub self_signatures: Vec<SelfSignature>,
}

impl CertificateReport {
    /// Whether it can make a signature that kiln accepts.
    pub fn signs(&self) -> bool {
        self.keys.iter().any(|key| key.pinned == State::Signs)
    }

    /// Whether it can make one that a stock policy accepts.
    pub fn signs_in_stock(&self) -> bool {
        self.keys.iter().any(|key| key.stock == State::Signs)
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Cannot go on so.
    Error,
    /// Will become an error, or is worth knowing.
    Warning,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Where.
    pub path: Utf8PathBuf,
    /// What.
    pub message: String,
    /// What to do.
    pub hints: Vec<String>,
}

/// The state of a directory of certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// Every readable certificate.
    pub certificates: Vec<CertificateReport>,
    /// What is wrong, errors first.
    pub findings: Vec<Finding>,
}

impl Lint {
    /// Whether something cannot go on so.
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}

/// Looks at every `FINGERPRINT.asc` in `directory` as of `at`. `pins` are the fingerprints that the
/// workspace's pipelines name: each must have a file.
pub fn lint(directory: &Utf8Path, pins: &[Fingerprint], at: Timestamp) -> Result<Lint, FileError> {
    let mut certificates = Vec::new();
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for name in files::list(directory)? {
        if holds_secret(&directory.join(&name)) {
            findings.push(secret(directory.join(name)));
            continue;
        }
        let Some(stem) = name.strip_suffix(".asc") else {
            continue;
        };
        let path = directory.join(&name);
        let Ok(pin) = stem.parse::<Fingerprint>() else {
            findings.push(Finding {
                severity: Severity::Error,
                path,
                message: format!("the name `{stem}` is not a full fingerprint"),
                hints: vec!["name the file by the fingerprint of its primary key".to_owned()],
            });
            continue;
        };
        seen.push(pin.clone());
        match keyring::read(&path, &pin) {
            Ok(read) => {
                let report = report(&read.cert, path, pins.contains(&pin), at);
                judge(&report, at, &mut findings);
                certificates.push(report);
            }
            Err(KeyringError::File(error)) => return Err(error),
            Err(error) => findings.push(failed(path, &error)),
        }
    }
    for pin in pins.iter().filter(|pin| !seen.contains(pin)) {
        let path = keyring::path(directory, pin);
        let error = KeyringError::Missing {
            pin: pin.clone(),
            path: path.clone(),
        };
        findings.push(failed(path, &error));
    }
    findings.sort_by(|a, b| (a.severity, &a.path).cmp(&(b.severity, &b.path)));
    findings.dedup();
    Ok(Lint {
        certificates,
        findings,
    })
}

/// Whether a file has the text form of a private key of any kind: `keys/` is committed.
pub fn holds_secret(path: &Utf8Path) -> bool {
    // What cannot be read is told by whoever needs it.
    files::read(path, SECRET_LIMIT).is_ok_and(|bytes| {
        [&b"PRIVATE KEY-----"[..], b"PRIVATE KEY BLOCK-----"]
            .iter()
            .any(|mark| bytes.windows(mark.len()).any(|part| part == *mark))
    })
}

fn secret(path: Utf8PathBuf) -> Finding {
    Finding {
        severity: Severity::Error,
        path,
        message: SECRET.to_owned(),
        hints: vec![SECRET_HINT.to_owned()],
    }
}

fn failed(path: Utf8PathBuf, error: &KeyringError) -> Finding {
    use crate::failure::Diagnose as _;
    let cause =
        std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
    Finding {
        severity: Severity::Error,
        path,
        message: format!("{error}{cause}"),
        hints: error.hints(),
    }
}

/// Describes one certificate as of `at`.
pub(in crate::source) fn report(
    cert: &Cert,
    path: Utf8PathBuf,
    pinned: bool,
    at: Timestamp,
) -> CertificateReport {
    let ours = PinnedPolicy::new(at, vec![cert.fingerprint()]);
    let theirs = stock(at);
    let users = cert
        .userids()
        .map(|user| user_text(user.userid().value()))
        .collect();
    let expires = cert
        .with_policy(&ours, system_time(at))
        .ok()
        .and_then(|valid| valid.primary_key().key_expiration_time())
        .map(|end| timestamp(end).to_string());
    let keys = cert
        .keys()
        .map(|key| KeyReport {
            fingerprint: fingerprint(&key.key().fingerprint()),
            algorithm: match key.key().mpis().bits() {
                Some(bits) => format!("{} {bits}", key.key().pk_algo()),
                None => key.key().pk_algo().to_string(),
            },
            primary: key.primary(),
            stock: state(cert, &key.key().fingerprint(), &theirs, at),
            pinned: state(cert, &key.key().fingerprint(), &ours, at),
        })
        .collect();
    CertificateReport {
        path,
        fingerprint: fingerprint(&cert.fingerprint()),
        pinned,
        users,
        created: timestamp(cert.primary_key().key().creation_time()).to_string(),
        expires,
        keys,
        self_signatures: self_signatures(cert),
    }
}

fn user_text(value: &[u8]) -> String {
    String::from_utf8_lossy(value)
        .chars()
        .take(200)
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> = if c.is_control() {
                Box::new(c.escape_default())
            } else {
                Box::new(std::iter::once(c))
            };
            escaped
        })
        .collect()
}

fn self_signatures(cert: &Cert) -> Vec<SelfSignature> {
    let describe = |binds: String, signature: &Signature| SelfSignature {
        binds,
        hash: signature.hash_algo().to_string(),
        made: signature
            .signature_creation_time()
            .map_or_else(String::new, |time| timestamp(time).to_string()),
        weak: is_weak(signature),
    };
    let mut all = Vec::new();
    for signature in cert.primary_key().self_signatures() {
        all.push(describe("the key itself".to_owned(), signature));
    }
    for user in cert.userids() {
        for signature in user.self_signatures() {
            all.push(describe(user_text(user.userid().value()), signature));
        }
    }
    for subkey in cert.keys().subkeys() {
        for signature in subkey.self_signatures() {
            all.push(describe(subkey.key().fingerprint().to_hex(), signature));
        }
    }
    all
}

fn state(cert: &Cert, wanted: &openpgp::Fingerprint, policy: &dyn Policy, at: Timestamp) -> State {
    let at = system_time(at);
    let Some(key) = cert.keys().find(|key| key.key().fingerprint() == *wanted) else {
        return State::Rejected("it is not part of the certificate".to_owned());
    };
    let valid = match key.with_policy(policy, at) {
        Ok(valid) => valid,
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            return State::Rejected(causes.join(": "));
        }
    };
    for status in [
        valid.valid_cert().revocation_status(),
        valid.revocation_status(),
    ] {
        if let RevocationStatus::Revoked(revocations) = status {
            let when = revocations
                .first()
                .and_then(|revocation| revocation.signature_creation_time())
                .map_or_else(String::new, |time| timestamp(time).to_string());
            return State::Revoked(when);
        }
    }
    for alive in [valid.valid_cert().alive(), valid.alive()] {
        if let Err(error) = alive {
            return State::Expired(error.to_string());
        }
    }
    if valid.for_signing() {
        State::Signs
    } else {
        State::NotForSigning
    }
}

fn judge(report: &CertificateReport, at: Timestamp, findings: &mut Vec<Finding>) {
    let mut add = |severity, message: String, hint: &str| {
        findings.push(Finding {
            severity,
            path: report.path.clone(),
            message,
            hints: vec![hint.to_owned()],
        });
    };
    if !report.signs() {
        let why = report
            .keys
            .iter()
            .find_map(|key| match &key.pinned {
                State::Expired(why) | State::Rejected(why) => Some(why.clone()),
                State::Revoked(when) => Some(format!("revoked {when}")),
                State::Signs | State::NotForSigning => None,
            })
            .unwrap_or_else(|| "no key in it is meant for signing".to_owned());
        // An old release may still be verified with it, so it is not an error to have it.
        add(
            Severity::Warning,
            format!("cannot make a signature that counts today: {why}"),
            "run `kiln keys refresh --wkd`; unpin it once no locked release needs it",
        );
    } else if report.pinned && !report.signs_in_stock() {
        add(
            Severity::Warning,
            "only weak self-signatures: accepted because it is pinned, rejected by other tools"
                .to_owned(),
            "run `kiln keys refresh --wkd` for a copy with newer self-signatures",
        );
    }
    let soon = at.checked_add(Span::new().hours(SOON_HOURS)).ok();
    if let Some(end) = &report.expires
        && report.signs()
        && end.parse::<Timestamp>().ok() <= soon
    {
        add(
            Severity::Warning,
            format!("expires {end}"),
            "run `kiln keys refresh --wkd`: its owner may have prolonged it",
        );
    }
    if !report.pinned {
        add(
            Severity::Warning,
            "no pipeline pins it".to_owned(),
            "pin it under `keys:` of a pipeline, or remove the file",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::source::test_keys::{CREATED, Hash, Revoked, SIGNED, TestKey};
    use openpgp::types::SignatureType;

    fn lint_keys(keys: &[&TestKey], pins: &[&TestKey]) -> Lint {
        let guard = tempfile::tempdir().unwrap();
        let directory = Utf8Path::new(guard.path().to_str().unwrap());
        for key in keys {
            let path = directory.join(format!("{}.asc", key.fingerprint()));
            files::write(&path, key.armored_cert().as_bytes()).unwrap();
        }
        let pins: Vec<Fingerprint> = pins
            .iter()
            .map(|key| key.fingerprint().parse().unwrap())
            .collect();
        lint(directory, &pins, clock::now()).unwrap()
    }

    fn messages(lint: &Lint) -> Vec<&str> {
        lint.findings
            .iter()
            .map(|finding| finding.message.as_str())
            .collect()
    }

    #[test]
    fn the_real_certificates() {
        let keys = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("keys");
        let pins: Vec<Fingerprint> = files::list(&keys)
            .unwrap()
            .iter()
            .filter_map(|name| name.strip_suffix(".asc")?.parse().ok())
            .collect();
        let lint = lint(&keys, &pins, clock::now()).unwrap();
        assert_eq!(lint.certificates.len(), 4);
        assert!(!lint.has_errors());
        for certificate in &lint.certificates {
            assert!(certificate.signs(), "{}", certificate.fingerprint);
        }
        let greg = &lint.certificates[0];
        assert!(greg.users[0].starts_with("Greg Kroah-Hartman"));
        assert_eq!(greg.created, "2011-09-23T16:37:41Z");
        assert_eq!(greg.keys[0].algorithm, "RSA 4096");
        assert!(greg.self_signatures.iter().all(|signature| signature.weak));
        assert!(!greg.signs_in_stock());
        let State::Rejected(why) = &greg.keys[0].stock else {
            panic!("{:?}", greg.keys[0].stock);
        };
        assert!(why.contains("SHA1 is not considered secure"), "{why}");
        let weak = "only weak self-signatures: accepted because it is pinned, rejected by other \
                    tools";
        assert_eq!(messages(&lint), [weak, weak]);
        // Weak is what only a pin accepts, so it is told of what is pinned.
        let unpinned = super::lint(&keys, &[], clock::now()).unwrap();
        assert_eq!(messages(&unpinned), ["no pipeline pins it"; 4]);
    }

    #[test]
    fn each_state_has_its_words() {
        let good = TestKey::new();
        assert!(messages(&lint_keys(&[&good], &[&good])).is_empty());
        assert_eq!(messages(&lint_keys(&[&good], &[])), ["no pipeline pins it"]);
        let expired = TestKey::build().expires(SIGNED).make();
        let lint = lint_keys(&[&expired], &[&expired]);
        assert!(!lint.certificates[0].signs());
        assert!(messages(&lint)[0].starts_with("cannot make a signature that counts today"));
        assert_eq!(
            lint.certificates[0].expires.as_deref(),
            Some("2024-01-01T00:00:00Z")
        );
        let soon = u64::try_from(clock::now().as_second()).unwrap() + 60 * 24 * 3600;
        let ending = TestKey::build().expires(soon).make();
        assert!(messages(&lint_keys(&[&ending], &[&ending]))[0].starts_with("expires "));
        let revoked = TestKey::build().revoked(Revoked::Soft, SIGNED).make();
        let lint = lint_keys(&[&revoked], &[&revoked]);
        assert_eq!(
            lint.certificates[0].keys[0].pinned,
            State::Revoked("2024-01-01T00:00:00Z".to_owned())
        );
        let weak = TestKey::build()
            .signing_subkey(Hash::SHA1, Hash::SHA512)
            .make();
        let lint = lint_keys(&[&weak], &[&weak]);
        assert_eq!(lint.certificates[0].keys[0].pinned, State::NotForSigning);
        assert!(matches!(
            lint.certificates[0].keys[1].pinned,
            State::Rejected(_)
        ));
        let old = TestKey::build()
            .created(CREATED)
            .self_signature(SignatureType::PositiveCertification, Hash::SHA1)
            .make();
        assert!(messages(&lint_keys(&[&old], &[&old]))[0].starts_with("only weak"));
    }

    #[test]
    fn files_that_are_wrong_and_pins_without_a_file() {
        let guard = tempfile::tempdir().unwrap();
        let directory = Utf8Path::new(guard.path().to_str().unwrap());
        let (key, absent) = (TestKey::new(), TestKey::new());
        files::write(&directory.join("greg.asc"), key.armored_cert().as_bytes()).unwrap();
        let named = directory.join(format!("{}.asc", key.fingerprint()));
        files::write(&named, b"<html>").unwrap();
        files::write(&directory.join("README.md"), b"text").unwrap();
        let pins = [absent.fingerprint().parse().unwrap()];
        let lint = lint(directory, &pins, clock::now()).unwrap();
        assert!(lint.has_errors());
        assert_eq!(lint.findings.len(), 3);
        let all = messages(&lint).join("\n");
        assert!(
            all.contains("the name `greg` is not a full fingerprint"),
            "{all}"
        );
        assert!(all.contains("it is a web page"), "{all}");
        assert!(all.contains("is pinned, but"), "{all}");
        // A report is for machines too.
        assert!(
            serde_json::to_string(&lint)
                .unwrap()
                .contains("\"severity\":\"error\"")
        );
    }
}
