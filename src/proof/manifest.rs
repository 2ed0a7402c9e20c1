//! The manifest: what a build produced, and from what. Deterministic facts only, so that two
//! honest builds of the same inputs give the same bytes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use super::lock::Lock;
use crate::digest::Sha256;
use crate::kernel::Release;

/// The schema that is written and read.
pub const SCHEMA: &str = "kiln.manifest/1";

/// One `.deb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Package name, which holds the kernel release.
    pub name: String,
    /// Debian version.
    pub version: String,
    /// Debian architecture.
    pub architecture: String,
    /// File name.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the file.
    pub sha256: Sha256,
}

/// A file of the workspace, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Kept {
    /// Its text.
    Text(String),
    /// Its bytes, where they are no UTF-8.
    Base64(String),
}

impl Kept {
    /// Keeps these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// The bytes; nothing where what stands there is no base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

/// What a build produced, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What `uname -r` prints.
    pub release: Release,
    /// Every input.
    pub lock: Lock,
    /// The files of the workspace that were read, by their paths in it: what the lock names by
    /// digest alone, so that the manifest is enough to build again. Keys are not among them: whoever
    /// builds again believes their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workspace: BTreeMap<String, Kept>,
    /// The `.deb`s, sorted by name.
    pub packages: Vec<Package>,
    /// Digest of the resolved config, which is also the one inside the image package.
    pub config: Sha256,
    /// Digest of the guard's report.
    pub guard_report: Sha256,
    /// Digest of the bill of materials.
    pub sbom: Sha256,
    /// Versions of the programs of the build root that decide the bytes. Empty for a pinned root,
    /// whose package lock says it.
    pub toolchain: BTreeMap<String, String>,
    /// At least one module carries no signature.
    pub unsigned_modules: bool,
    /// The kernel is not signed for Secure Boot.
    pub unsigned_image: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    schema: String,
    body: Manifest,
}

impl Manifest {
    /// The canonical bytes of the statement's payload.
    pub fn to_payload(&self) -> Result<Vec<u8>, CanonicalError> {
        let payload = Payload {
            schema: SCHEMA.to_owned(),
            body: self.clone(),
        };
        canonical::to_vec("manifest", &payload)
    }

    /// The statement's id: the digest of its payload.
    pub fn id(&self) -> Result<Sha256, CanonicalError> {
        Ok(Sha256::of(&self.to_payload()?))
    }

    /// Reads a payload; `name` is for messages.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, CanonicalError> {
        canonical::check_schema(name, bytes, SCHEMA)?;
        canonical::from_slice::<Payload>(name, bytes).map(|payload| payload.body)
    }
}

#[cfg(test)]
pub(in crate::proof) mod tests {
    use super::*;
    use crate::proof::lock::tests::inputs;

    pub(in crate::proof) fn manifest() -> Manifest {
        let lock = Lock::new(inputs(), None).unwrap();
        Manifest {
            release: lock.release(),
            lock,
            workspace: BTreeMap::from([
                ("a.config".to_owned(), Kept::of(b"CONFIG_A=\"y\"\n")),
                ("b.patch".to_owned(), Kept::of(b"\xff")),
            ]),
            packages: Vec::new(),
            config: Sha256::of(b"config"),
            guard_report: Sha256::of(b"report"),
            sbom: Sha256::of(b"sbom"),
            toolchain: BTreeMap::from([("gcc".to_owned(), "12.2.0".to_owned())]),
            unsigned_modules: true,
            unsigned_image: true,
        }
    }

    #[test]
    fn a_manifest_reads_back_and_keeps_its_id() {
        let bytes = manifest().to_payload().unwrap();
        let read = Manifest::parse("m", &bytes).unwrap();
        assert_eq!(read, manifest());
        assert_eq!(read.id().unwrap(), Sha256::of(&bytes));
        let kept = |name: &str| read.workspace[name].bytes().unwrap();
        assert_eq!(kept("a.config"), b"CONFIG_A=\"y\"\n");
        assert_eq!(kept("b.patch"), b"\xff");
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let good = manifest();
        let bytes = good.to_payload().unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            if let Ok(read) = Manifest::parse("m", &bad) {
                assert_ne!(read.id().unwrap(), good.id().unwrap(), "byte {at}");
            }
        }
    }
}
