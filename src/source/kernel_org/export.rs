//! Making a mirror out of what was acquired: a directory in kernel.org's layout, for machines that
//! have no network.

use camino::{Utf8Path, Utf8PathBuf};

use super::{AcquireError, Acquired, Archive, KernelOrg, LockedRelease, Promise};
use super::{archive_path, checksums_path, signature_path};
use crate::files::{self, FileError, Staged};
use crate::progress::Event;
use crate::source::releases::{Moniker, ReleaseInfo, Releases};
use crate::source::signature::MAX_SIGNATURE_BYTES;

/// Largest `releases.json` of a directory, in bytes.
const RELEASES_CAP: u64 = 4 << 20;

impl KernelOrg<'_> {
    /// Writes `acquired` into `directory`, beside what is there, so that the directory can be named
    /// as a mirror. Its `releases.json` lists the releases that it holds and no others; what is
    /// said of this one comes from `releases`, where that lists it. Returns what was written.
    ///
    /// With a key for checksums, the signed list of checksums is put there too. Where that cannot
    /// be had, a warning says so: a lock that names the digests does not need it.
    pub fn export(
        &self,
        acquired: &Acquired,
        releases: Option<&Releases>,
        directory: &Utf8Path,
    ) -> Result<Vec<Utf8PathBuf>, AcquireError> {
        let version = acquired.tarball.version();
        let Some(facts) = LockedRelease::of(&acquired.facts) else {
            return Ok(Vec::new());
        };
        let promise = Promise {
            sha256: facts.xz.sha256,
            by: "the lock",
        };
        let archive = match self.archive(version, Some(facts), Some(&promise))? {
            Archive::Stored(path, _) => path,
            // It has the digest of the archive whose tar was verified.
            Archive::Fetched(fetched) => fetched.keep(self.store)?,
        };
        let archive_to = directory.join(archive_path(version));
        copy(&archive, &archive_to)?;
        let mut written = vec![archive_to];
        let signature = self.store.get(&facts.signature.sha256)?;
        if let Some(path) = signature {
            let to = directory.join(signature_path(version));
            files::write(&to, &files::read(&path, MAX_SIGNATURE_BYTES)?)?;
            written.push(to);
        }
        if let Some(keys) = self.checksum_keys {
            match self.checksums(version, keys) {
                Ok((_list, bytes, _served)) => {
                    let to = directory.join(checksums_path(version));
                    files::write(&to, &bytes)?;
                    written.push(to);
                }
                Err(AcquireError::Interrupted(interrupted)) => return Err(interrupted.into()),
                Err(error) => self.progress.event(&Event::Warning(format!(
                    "`{directory}` gets no list of checksums, so that only locked releases can be \
                     taken from it: {error}"
                ))),
            }
        }
        let to = directory.join("releases.json");
        files::write(&to, &listed(&to, acquired, releases)?)?;
        written.push(to);
        Ok(written)
    }
}

/// The directory's list with this release in it.
fn listed(
    path: &Utf8Path,
    acquired: &Acquired,
    releases: Option<&Releases>,
) -> Result<Vec<u8>, AcquireError> {
    let version = *acquired.tarball.version();
    let old = if path.is_file() {
        let bytes = files::read(path, RELEASES_CAP)?;
        Releases::parse(path.as_str(), &bytes)?
    } else {
        Releases::default()
    };
    let known = releases.into_iter().flat_map(Releases::entries);
    let entry = known
        .chain(old.entries())
        .find(|entry| entry.version == version)
        .cloned()
        .unwrap_or(ReleaseInfo {
            version,
            moniker: Moniker::Stable,
            eol: false,
            released: None,
            source: None,
            signature: None,
        });
    Ok(old.with(entry).to_json())
}

/// Copies a file under its final name, whole or not at all.
fn copy(from: &Utf8Path, to: &Utf8Path) -> Result<(), FileError> {
    let mut staged = Staged::beside(to)?;
    std::io::copy(&mut files::open(from)?, staged.file()).map_err(|source| FileError::Io {
        action: "copy",
        path: from.to_owned(),
        source,
    })?;
    staged.commit(to)
}
