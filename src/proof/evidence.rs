//! Evidence about a build, by somebody who did not make it: that it was reproduced.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use super::envelope::{Envelope, EnvelopeError, Signed};
use super::roles::{Role, Roles};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};

/// The kind of envelope that `reproduced` comes in.
pub const REPRODUCED: &str = "reproduced";

/// The schema that is written and read.
pub const SCHEMA: &str = "kiln.reproduced/1";

/// The only launcher whose rebuilds count: a compiler cache would give back the first build's bytes.
pub const LAUNCHER: &str = "none";

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Id of the manifest.
    pub sha256: Sha256,
}

/// That a build from the manifest's lock, made elsewhere, gave every one of its packages and itself
/// bit for bit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproduced {
    /// Who rebuilt it: the name in the roles file of the key that signs this.
    pub rebuilder: String,
    /// What compilers were started through: [`LAUNCHER`], or the rebuild does not count.
    pub launcher: String,
    /// What was made different on purpose: `path`, `user`, `umask`, `time_zone`, `jobs`.
    pub conditions: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    schema: String,
    subject: Subject,
    issued: String,
    body: Reproduced,
}

impl Reproduced {
    /// The canonical bytes of the statement's payload, about a manifest's id.
    pub fn to_payload(
        &self,
        manifest: &Sha256,
        issued: Timestamp,
    ) -> Result<Vec<u8>, CanonicalError> {
        let payload = Payload {
            schema: SCHEMA.to_owned(),
            subject: Subject { sha256: *manifest },
            issued: issued.to_string(),
            body: self.clone(),
        };
        canonical::to_vec(REPRODUCED, &payload)
    }
}

/// Why evidence does not count.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// Not signed by who may.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// Not such a statement.
    #[error(transparent)]
    Document(#[from] CanonicalError),
    /// About another build.
    #[error("`{name}` is about the manifest {found}, expected {expected}")]
    Subject {
        /// The file.
        name: String,
        /// The manifest that was asked about.
        expected: Sha256,
        /// The manifest that it is about.
        found: Sha256,
    },
    /// Issued at no time.
    #[error("`{name}` was issued at `{found}`: expected a time such as 2027-03-01T12:00:00Z")]
    Issued {
        /// The file.
        name: String,
        /// What stands there.
        found: String,
    },
    /// In another's name.
    #[error("`{name}` says that `{said}` rebuilt it, and is signed by `{signer}`")]
    Signer {
        /// The file.
        name: String,
        /// Who it says it is by.
        said: String,
        /// Who signed.
        signer: String,
    },
    /// By who made the build.
    #[error("`{name}` is by `{builder}`, who made the build: nobody vouches for oneself")]
    OwnBuild {
        /// The file.
        name: String,
        /// Who.
        builder: String,
    },
    /// Not compiled at all, perhaps.
    #[error("`{name}` is of a rebuild through the launcher `{launcher}`: only `{LAUNCHER}` counts")]
    Launcher {
        /// The file.
        name: String,
        /// What compilers were started through.
        launcher: String,
    },
}

impl Diagnose for EvidenceError {
    fn exit(&self) -> Exit {
        Exit::StatementRejected
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Envelope(error) => error.code(),
            Self::Document(error) => error.code(),
            Self::Subject { .. } => "evidence-subject",
            Self::Issued { .. } => "evidence-issued",
            Self::Signer { .. } => "evidence-signer",
            Self::OwnBuild { .. } => "evidence-own",
            Self::Launcher { .. } => "evidence-launcher",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Envelope(error) => error.hints(),
            Self::Document(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// Evidence that counts, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// What it says.
    pub statement: Reproduced,
    /// When it was signed, as who signed says.
    pub issued: String,
    /// Signatures beside that do not count, and why.
    pub unfit: Vec<String>,
}

/// Opens `reproduced` evidence about a manifest that `builders` signed. Whoever counts several takes
/// [`Reproduced::rebuilder`] once: two keys of one name are one holder who changes keys.
pub fn open(
    (name, envelope): (&str, &Envelope),
    manifest: &Sha256,
    builders: &BTreeSet<String>,
    roles: &Roles,
    today: Date,
) -> Result<Counted, EvidenceError> {
    let signed = envelope.open(name, REPRODUCED, Role::Rebuilder, roles, today)?;
    let Payload {
        subject,
        issued,
        body,
        ..
    } = payload(name, &signed)?;
    let name = name.to_owned();
    if subject.sha256 != *manifest {
        let (expected, found) = (*manifest, subject.sha256);
        return Err(EvidenceError::Subject {
            name,
            expected,
            found,
        });
    }
    let time: Result<Timestamp, _> = issued.parse();
    if time.map_or(true, |time| {
        time.to_string() != issued || time.subsec_nanosecond() != 0
    }) {
        let found = issued;
        return Err(EvidenceError::Issued { name, found });
    }
    let signers = signed.names();
    if !signers.contains(&body.rebuilder) {
        let signer = signers.into_iter().collect::<Vec<_>>().join("`, `");
        let said = body.rebuilder;
        return Err(EvidenceError::Signer { name, said, signer });
    }
    if builders.contains(&body.rebuilder) {
        let builder = body.rebuilder;
        return Err(EvidenceError::OwnBuild { name, builder });
    }
    if body.launcher != LAUNCHER {
        let launcher = body.launcher;
        return Err(EvidenceError::Launcher { name, launcher });
    }
    Ok(Counted {
        statement: body,
        issued,
        unfit: signed.unfit().iter().map(ToString::to_string).collect(),
    })
}

fn payload(name: &str, signed: &Signed) -> Result<Payload, CanonicalError> {
    canonical::check_schema(name, signed.payload(), SCHEMA)?;
    canonical::from_slice(name, signed.payload())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::key::PrivateKey;
    use crate::proof::roles::tests::holder;

    const TODAY: Date = Date::constant(2026, 6, 1);
    const NOW: Timestamp = Timestamp::constant(1_790_347_225, 0);

    fn statement(seed: u8) -> Reproduced {
        Reproduced {
            rebuilder: format!("key-{seed}"),
            launcher: LAUNCHER.to_owned(),
            conditions: BTreeMap::from([("umask".to_owned(), "0077".to_owned())]),
        }
    }

    fn signed(seed: u8, payload: &[u8]) -> Envelope {
        let mut envelope = Envelope::unsigned(REPRODUCED, payload);
        let key = PrivateKey::from_seed(&[seed; 32]);
        let signature = key.sign(&envelope.to_sign().unwrap());
        envelope.add(&key.public(), &signature);
        envelope
    }

    fn judged(envelope: &Envelope, builders: &[&str]) -> Result<Counted, EvidenceError> {
        let roles = Roles {
            holders: vec![holder(1, Role::Builder), holder(2, Role::Rebuilder)],
        };
        let builders = builders.iter().map(|name| (*name).to_owned()).collect();
        open(("e", envelope), &Sha256::of(b"m"), &builders, &roles, TODAY)
    }

    #[test]
    fn a_rebuilder_counts_and_each_twin_does_not() {
        let id = Sha256::of(b"m");
        let good = statement(2).to_payload(&id, NOW).unwrap();
        let counted = judged(&signed(2, &good), &["key-1"]).unwrap();
        assert_eq!(counted.statement, statement(2));
        assert_eq!(counted.issued, NOW.to_string());

        let code =
            |envelope: &Envelope, builders: &[&str]| judged(envelope, builders).unwrap_err().code();
        // The builder's own key, and the builder in another role.
        assert_eq!(code(&signed(1, &good), &["key-1"]), "signer-role");
        assert_eq!(code(&signed(2, &good), &["key-2"]), "evidence-own");
        assert_eq!(code(&signed(3, &good), &[]), "signer-unknown");
        let other = statement(2).to_payload(&Sha256::of(b"n"), NOW).unwrap();
        assert_eq!(code(&signed(2, &other), &[]), "evidence-subject");
        let other = statement(3).to_payload(&id, NOW).unwrap();
        assert_eq!(code(&signed(2, &other), &[]), "evidence-signer");
        let mut cached = statement(2);
        cached.launcher = "ccache".to_owned();
        let cached = cached.to_payload(&id, NOW).unwrap();
        assert_eq!(code(&signed(2, &cached), &[]), "evidence-launcher");
        let text = String::from_utf8(good.clone()).unwrap();
        for (from, to, expected) in [
            ("kiln.reproduced/1", "kiln.reproduced/2", "document-schema"),
            ("\"issued\"", "\"issueD\"", "document-shape"),
            ("Z\"", "+00\"", "evidence-issued"),
            ("{\"body", "{ \"body", "document-form"),
        ] {
            assert!(text.contains(from), "{from}");
            let bad = text.replacen(from, to, 1);
            assert_eq!(code(&signed(2, bad.as_bytes()), &[]), expected, "{from}");
        }
        // An approval is no evidence, even where the bytes are.
        let mut envelope = Envelope::unsigned("approved", &good);
        let key = PrivateKey::from_seed(&[2; 32]);
        let signature = key.sign(&envelope.to_sign().unwrap());
        envelope.add(&key.public(), &signature);
        assert_eq!(code(&envelope, &[]), "envelope-type");
    }
}
