//! Small made-up releases of kernel.org, signed by test keys.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use kiln::digest::Sha256;
use kiln::kernel::Version;
use kiln::source::keyring::Keyring;

use super::keys::TestKey;
use super::mirror::{Content, Mirror};
use super::tar::Tar;
use super::{Stop, xz};

/// A release: a tar with a makefile, compressed and signed.
#[derive(Clone)]
pub struct Release {
    /// Its version.
    pub version: Version,
    /// What is signed.
    pub tar: Vec<u8>,
    /// What is served.
    pub xz: Vec<u8>,
    /// The signature.
    pub sign: Vec<u8>,
}

impl Release {
    /// A good one.
    pub fn new(version: &str, key: &TestKey) -> Self {
        Self::of(version, Tar::kernel(version).bytes(), key)
    }

    /// One with this tar.
    pub fn of(version: &str, tar: Vec<u8>, key: &TestKey) -> Self {
        Self {
            version: version.parse().unwrap(),
            xz: xz::one_block(&tar),
            sign: key.sign_detached(&tar[..]),
            tar,
        }
    }

    /// `v6.x/linux-6.18.40`, before the extensions.
    pub fn stem(&self) -> String {
        format!("{}/{}", self.version.directory(), self.version.stem())
    }

    /// Path of the archive.
    pub fn xz_path(&self) -> String {
        format!("{}.tar.xz", self.stem())
    }

    /// Path of the signature.
    pub fn sign_path(&self) -> String {
        format!("{}.tar.sign", self.stem())
    }

    /// Puts it on a mirror.
    pub fn publish(&self, mirror: &Mirror) {
        mirror.put(&self.xz_path(), Content::bytes(self.xz.clone()));
        mirror.put(&self.sign_path(), Content::bytes(self.sign.clone()));
    }
}

/// The signed list of checksums that names these releases.
pub fn checksums(releases: &[&Release], key: &TestKey) -> Vec<u8> {
    let mut text = String::new();
    for release in releases {
        let (xz, stem) = (Sha256::of(&release.xz), release.version.stem());
        writeln!(text, "{xz}  {stem}.tar.xz").unwrap();
    }
    key.cleartext_sign(&text)
}

/// A `releases.json` that lists these versions as stable.
pub fn releases_json(versions: &[&str]) -> String {
    let entries: Vec<String> = versions
        .iter()
        .map(|version| {
            format!(
                r#"{{"moniker": "stable", "version": "{version}", "iseol": false, "source": null,
                "pgp": null, "released": {{"timestamp": 1, "isodate": "2026-11-14"}}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"latest_stable": {{"version": "x"}}, "releases": [{}]}}"#,
        entries.join(",")
    )
}

/// A keyring that pins these keys.
pub fn keyring(keys: &[&TestKey]) -> Result<Keyring, Stop> {
    let directory = tempfile::tempdir()?;
    let path = Utf8PathBuf::from(directory.path().to_str().unwrap());
    let mut pins = Vec::new();
    for key in keys {
        std::fs::write(
            path.join(format!("{}.asc", key.fingerprint())),
            key.armored_cert(),
        )?;
        pins.push(key.fingerprint().parse()?);
    }
    Ok(Keyring::load(&path, &pins)?)
}
