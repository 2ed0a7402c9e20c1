//! The build root in a lock: the host itself, or every package of a pinned one.

use serde::{Deserialize, Serialize};

use super::canonical::{self, CanonicalError};
use crate::digest::Sha256;

/// The environment that a build runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `host`, or a root's `name` and its `packages`"
)]
pub enum BuildRoot {
    /// The host's own tools: what comes out is marked and cannot be published.
    Host(HostWord),
    /// Exactly these packages, and nothing of the host.
    Pinned(PackageLock),
}

impl BuildRoot {
    /// The host.
    pub const HOST: Self = Self::Host(HostWord::Host);

    /// The word for it in a pipeline.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(HostWord::Host) => "host",
            Self::Pinned(lock) => &lock.name,
        }
    }

    /// The packages of a pinned root.
    pub fn pinned(&self) -> Option<&PackageLock> {
        match self {
            Self::Host(_) => None,
            Self::Pinned(lock) => Some(lock),
        }
    }
}

/// The one word that stands in a lock for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostWord {
    /// The host.
    #[serde(rename = "host")]
    Host,
}

/// Every package of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageLock {
    /// The word for the root in a pipeline: `debian-12`.
    pub name: String,
    /// The packages, sorted by name.
    pub packages: Vec<RootPackage>,
}

impl PackageLock {
    /// One digest of the whole list.
    pub fn digest(&self) -> Result<Sha256, CanonicalError> {
        Ok(Sha256::of(&canonical::to_vec("package lock", self)?))
    }

    /// What differs from another list, in words: packages that came, went or changed version.
    pub fn changes_to(&self, new: &Self) -> Vec<String> {
        let find = |list: &[RootPackage], name: &str| {
            list.iter().find(|package| package.name == name).cloned()
        };
        let mut changes = Vec::new();
        for package in &new.packages {
            match find(&self.packages, &package.name) {
                None => changes.push(format!("{} {}", package.name, package.version)),
                Some(old) if old == *package => {}
                Some(old) => changes.push(format!(
                    "{} {} -> {}",
                    package.name, old.version, package.version
                )),
            }
        }
        let gone = |package: &&RootPackage| find(&new.packages, &package.name).is_none();
        let gone = self.packages.iter().filter(gone);
        changes.extend(gone.map(|package| format!("{} (dropped)", package.name)));
        changes
    }
}

/// One `.deb` of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootPackage {
    /// Package name.
    pub name: String,
    /// Debian version.
    pub version: String,
    /// Debian architecture: `amd64` or `all`.
    pub architecture: String,
    /// Digest of the file.
    pub sha256: Sha256,
    /// Size in bytes.
    pub bytes: u64,
}

impl RootPackage {
    /// The name that a kept file gets. A colon, which the epoch of a version brings, would mean a
    /// host to some programs.
    pub fn file(&self) -> String {
        let version = self.version.replace(':', "%3a");
        format!("{}_{version}_{}.deb", self.name, self.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> RootPackage {
        RootPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: "amd64".to_owned(),
            sha256: Sha256::of(version.as_bytes()),
            bytes: 1,
        }
    }

    fn list(packages: &[(&str, &str)]) -> PackageLock {
        PackageLock {
            name: "debian-12".to_owned(),
            packages: packages.iter().map(|(n, v)| package(n, v)).collect(),
        }
    }

    #[test]
    fn the_host_is_one_word_as_ever() {
        let text = serde_json::to_string(&BuildRoot::HOST).unwrap();
        assert_eq!(text, "\"host\"");
        let read = |text: &str| serde_json::from_str::<BuildRoot>(text);
        assert_eq!(read(&text).unwrap(), BuildRoot::HOST);
        assert!(
            read("\"debian-12\"").is_err(),
            "a name without its packages"
        );
        let pinned = BuildRoot::Pinned(list(&[("make", "4.3-4.1")]));
        let text = serde_json::to_string(&pinned).unwrap();
        assert_eq!(read(&text).unwrap(), pinned);
        assert!(read(&text.replace("\"bytes\"", "\"size\"")).is_err());
    }

    #[test]
    fn every_package_counts_and_changes_are_named() {
        let old = list(&[("bc", "1"), ("gcc", "12"), ("make", "4")]);
        let new = list(&[("bc", "1"), ("gcc", "13"), ("zstd", "1.5")]);
        assert_eq!(
            old.changes_to(&new),
            ["gcc 12 -> 13", "zstd 1.5", "make (dropped)"]
        );
        assert_eq!(old.changes_to(&old), Vec::<String>::new());
        assert_ne!(old.digest().unwrap(), new.digest().unwrap());
        let mut rebuilt = old.clone();
        rebuilt.packages[0].sha256 = Sha256::of(b"other bytes, same version");
        assert_eq!(old.changes_to(&rebuilt), ["bc 1 -> 1"]);
        assert_ne!(old.digest().unwrap(), rebuilt.digest().unwrap());
    }

    #[test]
    fn an_epoch_does_not_look_like_a_host() {
        let file = package("automake", "1:1.16.5-1.3").file();
        assert_eq!(file, "automake_1%3a1.16.5-1.3_amd64.deb");
    }
}
