//! The boot record: how one trial ended on one node, and what was seen.

use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use crate::digest::Sha256;

/// The kind of statement, for its envelope.
pub const KIND: &str = "boot-record";

/// The schema that is written and read.
pub const SCHEMA: &str = "kiln.boot-record/1";

/// One health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// Its name in `gate.yaml`.
    pub name: String,
    /// Whether it passed as often as it must.
    pub passed: bool,
    /// How often it ran.
    pub runs: u64,
    /// From the start of the checks to its last result, in milliseconds.
    pub took_ms: u64,
    /// What it last said; empty where it passed.
    pub said: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootRecord {
    /// Which node, without naming it: HMAC-SHA256 of `kiln` under its machine id.
    pub node: Sha256,
    /// The gate's generation: one trial, and no other.
    pub generation: String,
    /// The slot of the trial.
    pub slot: String,
    /// `committed`, `rejected`, `exhausted`, `load-failed`, `nowrite` or `tried`.
    pub outcome: String,
    /// What `uname -r` prints under the kernel on trial.
    pub release: String,
    /// Attempts that were left when it ended.
    pub left: u64,
    /// The boot that wrote this record.
    pub boot_id: String,
    /// What that boot was started as, and why.
    pub role: String,
    /// Why GRUB chose it.
    pub why: String,
    /// The health checks; none where the kernel on trial never came so far.
    pub checks: Vec<CheckResult>,
    /// Id of the manifest of the kernel on trial; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Sha256>,
    /// The last lines that a kernel which died has left; absent where nothing was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    schema: String,
    issued: String,
    body: BootRecord,
}

impl BootRecord {
    /// The canonical bytes of the statement's payload; `issued` is RFC 3339, in whole seconds.
    pub fn to_payload(&self, issued: &str) -> Result<Vec<u8>, CanonicalError> {
        let payload = Payload {
            schema: SCHEMA.to_owned(),
            issued: issued.to_owned(),
            body: self.clone(),
        };
        canonical::to_vec(KIND, &payload)
    }

    /// Reads a payload; `name` is for messages. The record, and when it was issued.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<(Self, String), CanonicalError> {
        canonical::check_schema(name, bytes, SCHEMA)?;
        let payload = canonical::from_slice::<Payload>(name, bytes)?;
        Ok((payload.body, payload.issued))
    }
}

/// The name of a node that its machine id does not follow from: HMAC-SHA256 (RFC 2104) of `kiln`.
pub fn node(machine_id: &str) -> Sha256 {
    hmac(machine_id.as_bytes(), b"kiln")
}

fn hmac(key: &[u8], message: &[u8]) -> Sha256 {
    const BLOCK: usize = 64;
    let mut padded = [0; BLOCK];
    if key.len() > BLOCK {
        padded[..32].copy_from_slice(Sha256::of(key).as_bytes());
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let inner = [&padded.map(|byte| byte ^ 0x36), message].concat();
    let outer = [
        &padded.map(|byte| byte ^ 0x5c)[..],
        Sha256::of(&inner).as_bytes(),
    ]
    .concat();
    Sha256::of(&outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> BootRecord {
        BootRecord {
            node: node("0123456789abcdef0123456789abcdef"),
            generation: "0000000000000017".to_owned(),
            slot: "b".to_owned(),
            outcome: "committed".to_owned(),
            release: "6.18.40-12-lts-3f2a9c1d".to_owned(),
            left: 1,
            boot_id: "1b4e28ba-2fa1-11d2-883f-0016d3cca427".to_owned(),
            role: "trial".to_owned(),
            why: "counted".to_owned(),
            checks: vec![CheckResult {
                name: "daemon".to_owned(),
                passed: true,
                runs: 3,
                took_ms: 2100,
                said: String::new(),
            }],
            manifest: Some(Sha256::of(b"manifest")),
            last_words: vec!["Kernel panic - not syncing: x".to_owned()],
        }
    }

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn the_published_vectors() {
        assert_eq!(
            hmac(b"Jefe", b"what do ya want for nothing?").to_string(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac(
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            )
            .to_string(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_record_reads_back_and_is_canonical() {
        let bytes = record().to_payload("2026-11-30T12:00:00Z").unwrap();
        let (read, issued) = BootRecord::parse("r", &bytes).unwrap();
        assert_eq!((read, issued.as_str()), (record(), "2026-11-30T12:00:00Z"));
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [
            ("boot-record/1", "boot-record/2"),
            ("\"left\":1", "\"left\":1,\"more\":1"),
            ("\"left\":1", "\"left\": 1"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text);
            assert!(BootRecord::parse("r", bad.as_bytes()).is_err(), "{to}");
        }
    }
}
