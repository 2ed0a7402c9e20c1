//! Statements: who may sign, how signing is done, and that nothing is believed that was not signed.

pub mod built;
mod independent;
mod keys;
mod signers;
mod verify;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::ToSpan as _;
use jiff::civil::Date;
use kiln::clock;
use kiln::digest::Sha256;
use kiln::proof::envelope::Envelope;
use kiln::proof::key::PrivateKey;
use kiln::proof::lock::{self, Blob, Inputs, Lock};
use kiln::proof::manifest::{Manifest, Package};

use crate::support::{Case, Env, Stop};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = keys::cases();
    cases.extend(signers::cases());
    cases.extend(verify::cases());
    cases.extend(built::cases());
    cases.extend(independent::cases());
    cases
}

/// A key of the tests.
fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed(&[seed; 32])
}

/// A day from today on.
fn in_days(days: i32) -> Date {
    clock::today().checked_add(days.days()).unwrap()
}

/// Writes a roles file: role, name, seed of the key, and what else stands in the row.
pub fn roles(env: &Env, rows: &[(&str, &str, u8, &str)]) -> Result<(), Stop> {
    env.write("keys/roles.yaml", roles_text(rows)).map(drop)
}

/// The text of a roles file.
pub fn roles_text(rows: &[(&str, &str, u8, &str)]) -> String {
    let mut text = "kiln: 1\nkeys:\n".to_owned();
    for (role, name, seed, rest) in rows {
        let from = if rest.contains("from: ") {
            String::new()
        } else {
            ", from: 2026-01-01".to_owned()
        };
        let public = key(*seed).public();
        let _infallible = writeln!(
            text,
            "  - {{role: {role}, name: {name}, key: {public}{from}{rest}}}"
        );
    }
    text
}

/// Signs a payload by keys.
pub fn signed(kind: &str, payload: &[u8], seeds: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut envelope = Envelope::unsigned(kind, payload);
    let message = envelope.to_sign()?;
    for seed in seeds {
        let key = key(*seed);
        envelope.add(&key.public(), &key.sign(&message));
    }
    Ok(envelope.to_bytes()?)
}

/// The bytes of the one package of [`manifest`].
const DEB: &[u8] = b"a package";

/// The bytes of its bill of materials.
pub const SBOM: &[u8] = b"{}";

/// A manifest of a made-up build with one package.
pub fn manifest() -> Result<Manifest, Stop> {
    let digest = Sha256::of(b"x");
    let blob = Blob {
        sha256: digest,
        bytes: 1,
    };
    let inputs = Inputs {
        recipe: lock::RECIPE,
        line: "lts".parse()?,
        version: "6.18.40".parse()?,
        source: lock::Source::Debian {
            package: "linux-source-6.18".to_owned(),
            version: "6.18.40-1".to_owned(),
            deb: blob,
            tar: blob,
        },
        source_date_epoch: 1_790_347_225,
        patches: Vec::new(),
        base: lock::Base::Target {
            target: "tinyconfig".to_owned(),
        },
        trim: None,
        fragments: Vec::new(),
        assertions: BTreeMap::new(),
        arch: "x86_64".to_owned(),
        root: kiln::proof::build_root::BuildRoot::HOST,
        packages: lock::Packages {
            headers: false,
            debug: false,
            compress: "xz".to_owned(),
        },
    };
    let lock = Lock::new(inputs, None)?;
    Ok(Manifest {
        workspace: std::collections::BTreeMap::new(),
        release: lock.release(),
        lock,
        packages: vec![Package {
            name: "linux-image-x".to_owned(),
            version: "6.18.40-1".to_owned(),
            architecture: "amd64".to_owned(),
            file: "linux-image-x.deb".to_owned(),
            bytes: DEB.len() as u64,
            sha256: Sha256::of(DEB),
        }],
        config: digest,
        guard_report: digest,
        sbom: Sha256::of(SBOM),
        toolchain: BTreeMap::from([("gcc".to_owned(), "12.2.0".to_owned())]),
        unsigned_modules: true,
        unsigned_image: true,
    })
}

/// Writes [`manifest`] and its package, signed by keys.
fn publish(env: &Env, seeds: &[u8]) -> Result<Manifest, Stop> {
    let manifest = manifest()?;
    env.write(
        "out/manifest.json",
        signed("manifest", &manifest.to_payload()?, seeds)?,
    )?;
    env.write("out/packages/linux-image-x.deb", DEB)?;
    env.write("out/sbom.json", SBOM)?;
    Ok(manifest)
}
