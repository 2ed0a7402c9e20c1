//! Source and base config from Debian's packages, through the host's own apt.
//!
//! Here the chain of trust is apt's: the archive signs its indexes, an index names the digest of
//! each package. The first time, a package passes through all of it, and it is kept in the store
//! with what was in it; from then on the lock's digests decide, so that an old lock still builds
//! when the archive has moved on. Where a locked package has to be fetched again and apt's index
//! names another digest for its version, that is an error, never a choice.

mod apt;
mod changelog;
mod closure;
mod error;
mod package;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

pub use self::error::{DebianError, WrongPackage};

use self::apt::{Indexed, Scratch};
use self::package::{Member, Package, gunzip};
use crate::digest::Sha256;
use crate::files::{self, FileError, Staged};
use crate::kernel::Version;
use crate::progress::{Event, Progress};
use crate::proof::lock;
use crate::sandbox::{Isolation, Worker};
use crate::store::{Store, StoreError};

use super::signature::VerifiedTarball;
use super::xz;

/// Largest source tarball in a package, compressed. That of 6.12 has 152 MB.
const SOURCE_CAP: u64 = 1 << 30;

/// Largest base config. Those of 6.12 have 300 kB.
const CONFIG_CAP: u64 = 8 << 20;

/// Largest changelog, compressed. That of 6.12 has 1.5 MB.
const CHANGELOG_CAP: u64 = 32 << 20;

/// Who promises digests, for messages.
const LOCK: &str = "the lock";
const INDEX: &str = "apt's index";

/// What a lock says of a Debian source.
#[derive(Debug, Clone, Copy)]
pub struct LockedSource<'a> {
    /// Its version of the package.
    pub version: &'a str,
    /// The package.
    pub deb: &'a lock::Blob,
    /// The tar inside.
    pub tar: &'a lock::Blob,
    /// The lock's `source_date_epoch`: the changelog date.
    pub made: i64,
}

/// A source from a Debian package.
#[derive(Debug)]
pub struct AptSource {
    /// The proven tarball.
    pub tarball: VerifiedTarball,
    /// What a lock keeps of it.
    pub facts: lock::Source,
}

/// A base config from a Debian package.
#[derive(Debug)]
pub struct AptConfig {
    /// The config.
    pub bytes: Vec<u8>,
    /// What a lock keeps of it.
    pub facts: lock::Base,
}

/// Debian's packages, as this host's apt offers them.
#[derive(Clone, Copy)]
pub struct Debian<'a> {
    /// Where packages and what was in them are kept.
    pub store: &'a Store,
    /// Works on untrusted bytes.
    pub worker: &'a Worker,
    /// What keeps it apart.
    pub isolation: &'a Isolation,
    /// Takes events.
    pub progress: &'a dyn Progress,
}

impl std::fmt::Debug for Debian<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Debian")
            .field("store", self.store)
            .finish_non_exhaustive()
    }
}

impl Debian<'_> {
    /// Version and file of `package` that apt would install now.
    pub fn offered(&self, package: &str) -> Result<(String, lock::Blob), DebianError> {
        let indexed = apt::show(package, None)?.ok_or_else(|| DebianError::Unknown {
            package: package.to_owned(),
        })?;
        Ok((indexed.version.clone(), blob(&indexed)))
    }

    /// The kernel source in `package` (`linux-source-6.12`): the locked version, or the one that
    /// apt would install.
    pub fn source(
        &self,
        package: &str,
        locked: Option<LockedSource<'_>>,
    ) -> Result<AptSource, DebianError> {
        if let Some(locked) = locked
            && self.store.has(&locked.tar.sha256)
        {
            return self.stored_source(package, locked);
        }
        let pinned = locked.map(|locked| (locked.version, locked.deb));
        let (indexed, deb) = self.package(package, pinned)?;
        let opened = Package::open(&deb, package, self.store, self.isolation)?;
        let members = opened.members()?;
        let made = self.changelog(&opened, &members, &indexed)?;
        let compressed = self.compressed(&opened, &members, package)?;
        let tar = self.store.stage()?;
        let name = format!("{package}.tar");
        self.decompress(&compressed, &tar, &name, &xz::Limits::kernel())?;
        let version = upstream(package, &indexed.version)?;
        let tarball = VerifiedTarball::from_apt(
            tar.reopen()?,
            Utf8Path::new(&name),
            package,
            &version,
            made,
            (package, &indexed.version),
        )?;
        let found = lock::Blob {
            sha256: tarball.sha256(),
            bytes: tarball.bytes(),
        };
        if let Some(locked) = locked {
            same(
                package,
                &indexed.version,
                found.sha256,
                locked.tar.sha256,
                LOCK,
            )?;
        }
        let path = self.store.keep(tar, &found.sha256)?;
        Ok(AptSource {
            tarball: tarball.renamed(path),
            facts: source_facts(&indexed, found),
        })
    }

    /// The tar of an earlier run. The lock, which was written after apt's chain had been walked,
    /// names its digest; it is hashed again here.
    fn stored_source(
        &self,
        package: &str,
        locked: LockedSource<'_>,
    ) -> Result<AptSource, DebianError> {
        let path = self.store.file(&locked.tar.sha256)?;
        let version = upstream(package, locked.version)?;
        let made = Timestamp::from_second(locked.made).map_err(|error| DebianError::Content {
            package: package.to_owned(),
            problem: format!("the lock's date is no date: {error}"),
        })?;
        let tarball = VerifiedTarball::from_apt(
            files::open(&path)?,
            &path,
            package,
            &version,
            made,
            (package, locked.version),
        );
        let damaged = |found| StoreError::Damaged {
            path: path.clone(),
            expected: locked.tar.sha256,
            found,
        };
        let tarball = match tarball {
            Ok(tarball) if tarball.sha256() == locked.tar.sha256 => tarball,
            Ok(tarball) => return Err(damaged(tarball.sha256()).into()),
            Err(error) => {
                // Damage may also have hit what identifies the release.
                let (found, _bytes) = files::hash(&path)?;
                return Err(if found == locked.tar.sha256 {
                    error.into()
                } else {
                    damaged(found).into()
                });
            }
        };
        let indexed = kept(package, locked.version, locked.deb);
        let tar = lock::Blob {
            sha256: tarball.sha256(),
            bytes: tarball.bytes(),
        };
        Ok(AptSource {
            tarball,
            facts: source_facts(&indexed, tar),
        })
    }

    /// The config `flavour` (`none_amd64`) in `package` (`linux-config-6.12`): the locked one, or
    /// that of the version which apt would install. The package's series need not be the
    /// source's.
    pub fn base_config(
        &self,
        package: &str,
        flavour: &str,
        locked: Option<&lock::Base>,
    ) -> Result<AptConfig, DebianError> {
        let pinned = match locked {
            Some(lock::Base::Debian {
                version,
                deb,
                config,
                ..
            }) => {
                if let Some(path) = self.store.get(&config.sha256)? {
                    return Ok(AptConfig {
                        bytes: files::read(&path, CONFIG_CAP)?,
                        facts: config_facts(package, flavour, version, *deb, *config),
                    });
                }
                Some((version.as_str(), deb, config))
            }
            _ => None,
        };
        let (indexed, deb) = self.package(
            package,
            pinned.map(|(version, deb, _config)| (version, deb)),
        )?;
        let opened = Package::open(&deb, package, self.store, self.isolation)?;
        let members = opened.members()?;
        let member = config_member(&members, package, flavour)?;
        let mut compressed = self.store.stage()?;
        opened.copy(member, CONFIG_CAP, compressed.file())?;
        let plain = self.store.stage()?;
        let limits = xz::Limits {
            bytes: CONFIG_CAP,
            ..xz::Limits::kernel()
        };
        self.decompress(&compressed, &plain, flavour, &limits)?;
        let bytes = files::read(&plain.path(), CONFIG_CAP)?;
        let config = lock::Blob {
            sha256: Sha256::of(&bytes),
            bytes: bytes.len() as u64,
        };
        if let Some((_version, _deb, locked)) = pinned {
            same(
                package,
                &indexed.version,
                config.sha256,
                locked.sha256,
                LOCK,
            )?;
        }
        self.store.put(&bytes)?;
        let facts = config_facts(package, flavour, &indexed.version, blob(&indexed), config);
        Ok(AptConfig { bytes, facts })
    }

    /// The package's file in the store: the locked version or the candidate.
    fn package(
        &self,
        package: &str,
        pinned: Option<(&str, &lock::Blob)>,
    ) -> Result<(Indexed, Utf8PathBuf), DebianError> {
        let indexed = match pinned {
            Some((version, deb)) => {
                if let Some(path) = self.store.get(&deb.sha256)? {
                    return Ok((kept(package, version, deb), path));
                }
                let Some(indexed) = apt::show(package, Some(version))? else {
                    return Err(DebianError::NotServed {
                        package: package.to_owned(),
                        version: version.to_owned(),
                        offered: apt::show(package, None)?.map(|indexed| indexed.version),
                    });
                };
                same(package, version, indexed.sha256, deb.sha256, LOCK)?;
                indexed
            }
            None => apt::show(package, None)?.ok_or_else(|| DebianError::Unknown {
                package: package.to_owned(),
            })?,
        };
        if let Some(path) = self.store.get(&indexed.sha256)? {
            return Ok((indexed, path));
        }
        let what = format!("{package} {}", indexed.version);
        let bytes = |done| Event::Bytes {
            what: what.clone(),
            done,
            total: Some(indexed.bytes),
        };
        self.progress.event(&bytes(0));
        let scratch = Scratch::new(&self.store.partial())?;
        let downloaded = apt::download(&indexed, &scratch)?;
        let path = self.keep(&downloaded, &indexed, INDEX)?;
        self.progress.event(&bytes(indexed.bytes));
        Ok((indexed, path))
    }

    /// Copies a downloaded package into the store, hashing what is copied.
    fn keep(
        &self,
        downloaded: &Utf8Path,
        indexed: &Indexed,
        promised_by: &'static str,
    ) -> Result<Utf8PathBuf, DebianError> {
        let mut staged = self.store.stage()?;
        let copied = std::io::copy(&mut files::open(downloaded)?, staged.file());
        copied.map_err(|source| FileError::Io {
            action: "copy",
            path: downloaded.to_owned(),
            source,
        })?;
        let (found, _bytes) = files::hash_open(&mut staged.reopen()?, downloaded)?;
        same(
            &indexed.package,
            &indexed.version,
            found,
            indexed.sha256,
            promised_by,
        )?;
        Ok(self.store.keep(staged, &indexed.sha256)?)
    }

    /// The date of the package's changelog, whose newest entry must be for this version.
    fn changelog(
        &self,
        opened: &Package,
        members: &[Member],
        indexed: &Indexed,
    ) -> Result<Timestamp, DebianError> {
        let package = &indexed.package;
        let content = |problem: String| DebianError::Content {
            package: package.clone(),
            problem,
        };
        // Debian policy, section 12.7: the second name is that of packages native to Debian.
        let member = ["changelog.Debian.gz", "changelog.gz"]
            .iter()
            .find_map(|name| find(members, &format!("usr/share/doc/{package}/{name}")))
            .ok_or_else(|| content("it has no changelog".to_owned()))?;
        let text = gunzip(opened.read(member, CHANGELOG_CAP)?, self.isolation)?;
        let entry = changelog::newest(&String::from_utf8_lossy(&text))
            .map_err(|problem| content(format!("its changelog cannot be read: {problem}")))?;
        if entry.version == indexed.version {
            Ok(entry.date)
        } else {
            let (found, expected) = (entry.version, &indexed.version);
            Err(content(format!(
                "its changelog is for {found}, expected {expected}"
            )))
        }
    }

    /// Decompresses one staged file into another; `name` is for messages.
    fn decompress(
        &self,
        from: &Staged,
        to: &Staged,
        name: &str,
        limits: &xz::Limits,
    ) -> Result<(), DebianError> {
        xz::decompress_in_sandbox(
            self.worker,
            self.isolation,
            (&from.reopen()?, Utf8Path::new(&format!("{name}.xz"))),
            (&to.reopen()?, &to.path()),
            limits,
            self.progress,
            |_| (),
        )?;
        Ok(())
    }

    /// The compressed source tarball.
    fn compressed(
        &self,
        opened: &Package,
        members: &[Member],
        package: &str,
    ) -> Result<Staged, DebianError> {
        let wanted = format!("usr/src/{package}.tar.xz");
        let member = find(members, &wanted).ok_or_else(|| DebianError::Content {
            package: package.to_owned(),
            problem: format!("it has no `{wanted}`"),
        })?;
        let mut compressed = self.store.stage()?;
        opened.copy(member, SOURCE_CAP, compressed.file())?;
        Ok(compressed)
    }
}

/// Refuses a digest that is not the promised one.
fn same(
    package: &str,
    version: &str,
    found: Sha256,
    expected: Sha256,
    promised_by: &'static str,
) -> Result<(), DebianError> {
    if found == expected {
        return Ok(());
    }
    Err(DebianError::WrongDigest(Box::new(WrongPackage {
        package: package.to_owned(),
        version: version.to_owned(),
        found,
        expected,
        promised_by,
    })))
}

/// A locked package, described as apt's index would.
fn kept(package: &str, version: &str, deb: &lock::Blob) -> Indexed {
    Indexed {
        package: package.to_owned(),
        version: version.to_owned(),
        architecture: String::new(),
        sha256: deb.sha256,
        bytes: deb.bytes,
    }
}

fn find<'m>(members: &'m [Member], path: &str) -> Option<&'m Member> {
    members.iter().find(|member| member.path == path)
}

fn blob(indexed: &Indexed) -> lock::Blob {
    lock::Blob {
        sha256: indexed.sha256,
        bytes: indexed.bytes,
    }
}

fn source_facts(indexed: &Indexed, tar: lock::Blob) -> lock::Source {
    lock::Source::Debian {
        package: indexed.package.clone(),
        version: indexed.version.clone(),
        deb: blob(indexed),
        tar,
    }
}

fn config_facts(
    package: &str,
    flavour: &str,
    version: &str,
    deb: lock::Blob,
    config: lock::Blob,
) -> lock::Base {
    lock::Base::Debian {
        package: package.to_owned(),
        flavour: flavour.to_owned(),
        version: version.to_owned(),
        deb,
        config,
    }
}

/// The file of a flavour: `config.ARCHITECTURE_FLAVOUR.xz`, where only one architecture is in a
/// package.
fn config_member<'m>(
    members: &'m [Member],
    package: &str,
    flavour: &str,
) -> Result<&'m Member, DebianError> {
    let directory = format!("usr/src/{package}/config.");
    let mut known = Vec::new();
    for member in members {
        let Some(name) = member.path.strip_prefix(&directory) else {
            continue;
        };
        let Some((_architecture, found)) = name
            .strip_suffix(".xz")
            .and_then(|name| name.split_once('_'))
        else {
            continue;
        };
        if found == flavour {
            return Ok(member);
        }
        known.push(found.to_owned());
    }
    Err(DebianError::Flavour {
        package: package.to_owned(),
        flavour: flavour.to_owned(),
        known,
    })
}

/// The kernel version in a Debian version: `6.12.117` in `6.12.117-1~deb12u1`, `7.3-rc2` in
/// `7.3~rc2-1~exp1`.
fn upstream(package: &str, version: &str) -> Result<Version, DebianError> {
    let without_epoch = version.split_once(':').map_or(version, |(_, rest)| rest);
    let upstream = without_epoch
        .rsplit_once('-')
        .map_or(without_epoch, |(upstream, _revision)| upstream);
    // Debian marks sources that were changed for legal reasons.
    let upstream = upstream.split(['+']).next().unwrap_or(upstream);
    upstream
        .replacen("~rc", "-rc", 1)
        .parse()
        .map_err(|error| DebianError::Content {
            package: package.to_owned(),
            problem: format!("its version is `{version}`: {error}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str) -> Member {
        Member::at(path)
    }

    #[test]
    fn the_upstream_part_of_a_version() {
        for (version, expected) in [
            ("6.12.117-1~deb12u1", "6.12.117"),
            ("7.3~rc2-1~exp1", "7.3-rc2"),
            ("1:6.18-1", "6.18"),
            ("6.12.3+ds1-2", "6.12.3"),
        ] {
            assert_eq!(upstream("p", version).unwrap().to_string(), expected);
        }
        for bad in ["", "-1", "6-1", "6.12.x-1", "~rc1-1"] {
            assert!(upstream("p", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flavour_is_found_by_its_name_alone() {
        let members = [
            member("usr/src/linux-config-6.12/config.amd64_none_amd64.xz"),
            member("usr/src/linux-config-6.12/config.amd64_none_cloud-amd64.xz"),
            member("usr/src/linux-config-6.12/config.amd64_rt_amd64.xz"),
            member("usr/share/doc/linux-config-6.12/copyright"),
        ];
        let found = config_member(&members, "linux-config-6.12", "none_amd64").unwrap();
        assert_eq!(found, &members[0]);
        let error = config_member(&members, "linux-config-6.12", "none_amd").unwrap_err();
        assert_eq!(
            error.to_string(),
            "package `linux-config-6.12` has no config `none_amd`: it has none_amd64, \
             none_cloud-amd64, rt_amd64"
        );
    }
}
