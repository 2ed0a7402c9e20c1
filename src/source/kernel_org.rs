//! A release of kernel.org, from its mirrors or the store to a [`VerifiedTarball`].
//!
//! The order is that of kernel.org's own `get-verified-tarball`, and each step can only go on from
//! the one before: the signature; the digest from a signed list, where the pipeline has a key for
//! it; the archive, compared with that digest before any decompressor sees it; one decompression,
//! in a sandbox, into one file that stays open; the signature over the bytes as they are written
//! to it; then what *that* file says of itself; and only then is anything kept under a final name.

mod error;
mod export;
mod locked;

use camino::{Utf8Path, Utf8PathBuf};

pub use self::error::AcquireError;
pub use self::locked::{LockedRelease, Resigned};

use super::checksums::{self, Checksums};
use super::keyring::Keyring;
use super::mirror::{FetchError, Fetched, Mirrors, Promise, Served};
use super::releases::Releases;
use super::signature::{self, MAX_SIGNATURE_BYTES, Origin, VerifiedTarball};
use super::xz;
use crate::failure::{Diagnose as _, Exit};
use crate::files::{self, FileError, Staged};
use crate::kernel::Version;
use crate::progress::{Event, Progress, Silent};
use crate::proof::lock;
use crate::sandbox::{Isolation, Worker};
use crate::store::{Store, StoreError};

/// Largest compressed archive. That of 7.2 has 155 MB.
const ARCHIVE_CAP: u64 = 1 << 30;

/// Where the parts came from; `None` for what was in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// The signature.
    pub signature: Option<Served>,
    /// The list of checksums.
    pub checksums: Option<Served>,
    /// The archive.
    pub archive: Option<Served>,
}

/// An acquired release.
#[derive(Debug)]
pub struct Acquired {
    /// The proven tarball, in the store.
    pub tarball: VerifiedTarball,
    /// What a lock keeps of it.
    pub facts: lock::Source,
    /// The new signature, where the release was signed anew since it was locked.
    pub resigned: Option<Resigned>,
    /// Where the parts came from.
    pub route: Route,
}

/// All that acquiring a release needs.
#[derive(Clone, Copy)]
pub struct KernelOrg<'a> {
    /// Where to fetch from.
    pub mirrors: &'a Mirrors,
    /// Certificates that may sign releases.
    pub release_keys: &'a Keyring,
    /// Certificates that may sign checksums; without them the list is not used.
    pub checksum_keys: Option<&'a Keyring>,
    /// Where verified objects are kept.
    pub store: &'a Store,
    /// Works on untrusted bytes.
    pub worker: &'a Worker,
    /// What keeps it apart.
    pub isolation: &'a Isolation,
    /// Takes events.
    pub progress: &'a dyn Progress,
}

impl std::fmt::Debug for KernelOrg<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelOrg")
            .field("mirrors", self.mirrors)
            .field("store", self.store)
            .finish_non_exhaustive()
    }
}

/// Reads kernel.org's list of releases.
pub fn list(mirrors: &Mirrors, progress: &dyn Progress) -> Result<Releases, AcquireError> {
    let (bytes, served) = mirrors.releases(progress)?;
    Ok(Releases::parse(&served.address, &bytes)?)
}

/// Path of a release's archive below a mirror: `v6.x/linux-6.18.40.tar.xz`.
pub fn archive_path(version: &Version) -> String {
    format!("{}/{}.tar.xz", version.directory(), version.stem())
}

/// Path of a release's signature below a mirror: `v6.x/linux-6.18.40.tar.sign`.
pub fn signature_path(version: &Version) -> String {
    format!("{}/{}.tar.sign", version.directory(), version.stem())
}

fn checksums_path(version: &Version) -> String {
    format!("{}/{}", version.directory(), checksums::FILE)
}

fn size(path: &Utf8Path) -> Result<u64, FileError> {
    let metadata = files::open(path)?.metadata();
    metadata
        .map(|metadata| metadata.len())
        .map_err(|source| FileError::Io {
            action: "look at",
            path: path.to_owned(),
            source,
        })
}

/// The compressed archive, wherever it is.
enum Archive {
    /// In the store, hashed again.
    Stored(Utf8PathBuf, lock::Blob),
    /// Fetched just now; nothing vouches for it but a promise that was kept, if there was one.
    Fetched(Fetched),
}

impl Archive {
    fn path(&self) -> &Utf8Path {
        match self {
            Self::Stored(path, _) => path,
            Self::Fetched(fetched) => fetched.path(),
        }
    }

    fn blob(&self) -> lock::Blob {
        match self {
            Self::Stored(_, blob) => *blob,
            Self::Fetched(fetched) => lock::Blob {
                sha256: fetched.sha256,
                bytes: fetched.bytes,
            },
        }
    }

    fn served(&self) -> Option<Served> {
        match self {
            Self::Stored(..) => None,
            Self::Fetched(fetched) => Some(fetched.served.clone()),
        }
    }
}

impl KernelOrg<'_> {
    /// Acquires a locked release, exactly: other bytes are refused, and a new signature shows as a
    /// change. With `None`, whatever is served under this version.
    ///
    /// A locked release whose tar is in the store needs no network; its signature is checked again
    /// all the same.
    pub fn acquire(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
    ) -> Result<Acquired, AcquireError> {
        let acquired = self.acquire_now(version, locked);
        match (acquired, locked) {
            (Err(AcquireError::Fetch(FetchError::NotPublished { what, tried })), Some(_)) => {
                let version = *version;
                Err(AcquireError::NoLongerServed {
                    version,
                    what,
                    tried,
                })
            }
            (acquired, _) => acquired,
        }
    }

    fn acquire_now(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
    ) -> Result<Acquired, AcquireError> {
        self.check(version)?;
        let (signature, signature_from) = self.signature(version, locked)?;
        self.check_signature(version, &signature)?;
        let mut route = Route {
            signature: signature_from,
            ..Route::default()
        };
        if let Some(locked) = locked
            && self.store.has(&locked.tar.sha256)
            && let Some(xz) = self.stored_archive(locked.xz)?
        {
            let tarball = self.stored(version, locked, &signature)?;
            let known = (xz, locked.checksums);
            return self.conclude(tarball, &signature, known, Some(locked), route);
        }
        let (promise, checksums_from) = self.promise(version, locked)?;
        route.checksums = checksums_from;
        self.fetch_and_verify(version, locked, &signature, promise.as_ref(), route)
    }

    /// Acquires what is served under this version, where a lock knows the release already: asks
    /// the mirrors for its signature (and its digest, with a key for checksums), and does not fetch
    /// the archive again if the tar in the store is what they are for.
    pub fn acquire_offered(
        &self,
        version: &Version,
        known: LockedRelease<'_>,
    ) -> Result<Acquired, AcquireError> {
        self.check(version)?;
        if !self.store.has(&known.tar.sha256) {
            return self.acquire(version, None);
        }
        let Some(xz) = self.stored_archive(known.xz)? else {
            return self.acquire(version, None);
        };
        let (signature, signature_from) = self.signature(version, None)?;
        self.check_signature(version, &signature)?;
        let (promise, checksums_from) = self.promise(version, None)?;
        let route = Route {
            signature: signature_from,
            checksums: checksums_from,
            archive: None,
        };
        let same_archive = promise
            .as_ref()
            .is_none_or(|promise| promise.sha256 == known.xz.sha256);
        if same_archive {
            match self.stored(version, known, &signature) {
                Ok(tarball) => {
                    let xz = (xz, promise.is_some());
                    return self.conclude(tarball, &signature, xz, Some(known), route);
                }
                Err(error @ AcquireError::Store(StoreError::NotAnObject(_))) => return Err(error),
                // The signature is for another tar, or the store is damaged: fetch.
                Err(error) if error.exit() == Exit::NotVerified => {
                    self.progress.event(&Event::Note(format!(
                        "the tar of {version} in the store is not what is served now ({error})"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        self.fetch_and_verify(version, None, &signature, promise.as_ref(), route)
    }

    /// From the archive to the end.
    fn fetch_and_verify(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
        signature: &[u8],
        promise: Option<&Promise>,
        mut route: Route,
    ) -> Result<Acquired, AcquireError> {
        let (archive, tar, tarball) =
            self.archive_and_verify(version, locked, signature, promise)?;
        route.archive = archive.served();
        if let Some(locked) = locked
            && locked.tar.sha256 != tarball.sha256()
        {
            return Err(AcquireError::NotLocked {
                version: *version,
                found: tarball.sha256(),
                expected: locked.tar.sha256,
            });
        }
        let xz = archive.blob();
        if let Archive::Fetched(fetched) = archive {
            fetched.keep(self.store)?;
        }
        let path = self.store.keep(tar, &tarball.sha256())?;
        let checksums = locked.map_or(promise.is_some(), |locked| locked.checksums);
        let tarball = tarball.renamed(path);
        self.conclude(tarball, signature, (xz, checksums), locked, route)
    }

    /// What can be refused before anything is asked for.
    fn check(&self, version: &Version) -> Result<(), AcquireError> {
        self.check_roles()?;
        if version.rc.is_some() {
            return Err(AcquireError::Candidate(*version));
        }
        Ok(())
    }

    /// What can be refused before an archive is fetched for it.
    fn check_signature(&self, version: &Version, signature: &[u8]) -> Result<(), AcquireError> {
        let subject = format!("{}.tar", version.stem());
        signature::check_before_reading(signature, &subject, self.release_keys)?;
        Ok(())
    }

    /// No certificate may have both roles.
    fn check_roles(&self) -> Result<(), AcquireError> {
        let releases = self.release_keys.pins();
        let checksums = self.checksum_keys.map(Keyring::pins).unwrap_or_default();
        match checksums.into_iter().find(|pin| releases.contains(pin)) {
            Some(pin) => Err(AcquireError::TwoRoles(pin)),
            None => Ok(()),
        }
    }

    /// The bytes of the signature file: the locked one from the store, or what is served.
    fn signature(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
    ) -> Result<(Vec<u8>, Option<Served>), AcquireError> {
        if let Some(locked) = locked
            && let Some(path) = self.store.get(&locked.signature.sha256)?
        {
            return Ok((files::read(&path, MAX_SIGNATURE_BYTES)?, None));
        }
        let path = signature_path(version);
        let (bytes, served) = self
            .mirrors
            .document(&path, MAX_SIGNATURE_BYTES, self.progress)?;
        Ok((bytes, Some(served)))
    }

    /// The compressed archive of an earlier run, hashed again and measured: what a lock says of it
    /// is repeated in manifests.
    fn stored_archive(&self, xz: &lock::Blob) -> Result<Option<lock::Blob>, AcquireError> {
        let Some(path) = self.store.get(&xz.sha256)? else {
            return Ok(None);
        };
        let (sha256, bytes) = (xz.sha256, size(&path)?);
        Ok(Some(lock::Blob { sha256, bytes }))
    }

    /// The tar of an earlier run. That it is in the store proves nothing: its signature is checked,
    /// and with it every bit.
    fn stored(
        &self,
        version: &Version,
        locked: LockedRelease<'_>,
        signature: &[u8],
    ) -> Result<VerifiedTarball, AcquireError> {
        let path = self.store.file(&locked.tar.sha256)?;
        let damaged = |found| StoreError::Damaged {
            path: path.clone(),
            expected: locked.tar.sha256,
            found,
        };
        let name = Utf8PathBuf::from(format!("{}.tar", version.stem()));
        match self.verify(&path, &name, version, signature) {
            Ok(tarball) if tarball.sha256() == locked.tar.sha256 => Ok(tarball.renamed(path)),
            Ok(tarball) => Err(damaged(tarball.sha256()).into()),
            Err(error) if error.exit() == Exit::NotVerified => {
                // Bits that changed on this disk must not be blamed on the signer.
                let (found, _bytes) = files::hash(&path)?;
                Err(if found == locked.tar.sha256 {
                    error
                } else {
                    damaged(found).into()
                })
            }
            Err(error) => Err(error),
        }
    }

    fn verify(
        &self,
        path: &Utf8Path,
        name: &Utf8Path,
        version: &Version,
        signature: &[u8],
    ) -> Result<VerifiedTarball, AcquireError> {
        let file = files::open(path)?;
        let keys = self.release_keys;
        Ok(signature::verify(
            file,
            name,
            signature,
            keys,
            version,
            self.progress,
        )?)
    }

    /// The digest that the archive must have, where anyone vouches for one.
    fn promise(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
    ) -> Result<(Option<Promise>, Option<Served>), AcquireError> {
        if let Some(locked) = locked {
            let promise = Promise {
                sha256: locked.xz.sha256,
                by: "the lock",
            };
            return Ok((Some(promise), None));
        }
        let Some(keys) = self.checksum_keys else {
            return Ok((None, None));
        };
        let (list, _bytes, served) = self.checksums(version, keys)?;
        let promise = Promise {
            sha256: list.digest(&format!("{}.tar.xz", version.stem()))?,
            by: checksums::FILE,
        };
        Ok((Some(promise), Some(served)))
    }

    fn checksums(
        &self,
        version: &Version,
        keys: &Keyring,
    ) -> Result<(Checksums, Vec<u8>, Served), AcquireError> {
        let path = checksums_path(version);
        let (bytes, served) = self
            .mirrors
            .checksums(&path, checksums::LIMIT, self.progress)?;
        Ok((Checksums::verify(&bytes, keys)?, bytes, served))
    }

    /// Fetches, decompresses and verifies. A download that was put together from several answers
    /// and is found wrong is repeated once, whole, before anybody hears of tampering.
    fn archive_and_verify(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
        signature: &[u8],
        promise: Option<&Promise>,
    ) -> Result<(Archive, Staged, VerifiedTarball), AcquireError> {
        let mut again = false;
        loop {
            let archive = self.archive(version, locked, promise)?;
            let error = match self.open(version, &archive, signature) {
                Ok((tar, tarball)) => return Ok((archive, tar, tarball)),
                Err(error) => error,
            };
            // What was interrupted, or had no room, is still good for the next run.
            if error.exit() != Exit::NotVerified {
                return Err(error);
            }
            let Archive::Fetched(fetched) = archive else {
                return Err(error);
            };
            let joined = fetched.joined;
            fetched.discard()?;
            if again || !joined {
                return Err(error);
            }
            again = true;
            self.progress.event(&Event::Note(format!(
                "the continued download of {version} is not good ({error}); fetching it whole"
            )));
        }
    }

    fn archive(
        &self,
        version: &Version,
        locked: Option<LockedRelease<'_>>,
        promise: Option<&Promise>,
    ) -> Result<Archive, AcquireError> {
        if let Some(promise) = promise
            && let Some(path) = self.store.get(&promise.sha256)?
        {
            let (sha256, bytes) = (promise.sha256, size(&path)?);
            return Ok(Archive::Stored(path, lock::Blob { sha256, bytes }));
        }
        let cap = locked.map_or(ARCHIVE_CAP, |locked| locked.xz.bytes);
        let path = archive_path(version);
        let fetched = self
            .mirrors
            .archive(&path, cap, promise, self.store, self.progress)?;
        Ok(Archive::Fetched(fetched))
    }

    /// Decompresses the archive once, and verifies what is written meanwhile.
    fn open(
        &self,
        version: &Version,
        archive: &Archive,
        signature: &[u8],
    ) -> Result<(Staged, VerifiedTarball), AcquireError> {
        let tar = self.store.stage()?;
        let name = Utf8PathBuf::from(format!("{}.tar", version.stem()));
        let (_decompressed, judged) = xz::decompress_in_sandbox(
            self.worker,
            self.isolation,
            (
                &files::open(archive.path())?,
                Utf8Path::new(&format!("{name}.xz")),
            ),
            (&tar.reopen()?, &tar.path()),
            &xz::Limits::kernel(),
            self.progress,
            |bytes| {
                let named = (&*name, None);
                signature::judge(bytes, named, signature, self.release_keys, &Silent)
            },
        )?;
        // The file that was written, not what stands under its name by now.
        let tarball = judged?.seal(tar.reopen()?, &name, version)?;
        Ok((tar, tarball))
    }

    /// Keeps the signature, compares with the lock, and says what was found. `archive` is the
    /// compressed archive, and whether a signed list of checksums agreed.
    fn conclude(
        &self,
        tarball: VerifiedTarball,
        signature: &[u8],
        archive: (lock::Blob, bool),
        locked: Option<LockedRelease<'_>>,
        route: Route,
    ) -> Result<Acquired, AcquireError> {
        let (xz, checksums) = archive;
        let sha256 = self.store.put(signature)?;
        let Origin::Signature { signer, notes } = tarball.origin() else {
            unreachable!("`signature::verify` says who signed");
        };
        for note in notes {
            self.progress
                .event(&Event::Note(format!("another signature {note}")));
        }
        let found = lock::Signature {
            sha256,
            signer: signer.certificate.clone(),
            made: tarball.source_date_epoch(),
        };
        let resigned = locked.and_then(|locked| {
            (locked.signature.sha256 != found.sha256).then(|| Resigned {
                locked: locked.signature.clone(),
                served: found.clone(),
            })
        });
        let facts = lock::Source::KernelOrg {
            path: archive_path(tarball.version()),
            xz,
            tar: lock::Blob {
                sha256: tarball.sha256(),
                bytes: tarball.bytes(),
            },
            signature: found,
            checksums,
        };
        Ok(Acquired {
            tarball,
            facts,
            resigned,
            route,
        })
    }
}
