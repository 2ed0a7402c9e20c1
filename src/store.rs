//! The store: objects named by their SHA-256, and trees by that of their listing, shared between
//! runs and workspaces.
//!
//! Nothing enters before its verdict, and what is taken out is hashed again: a name proves nothing.

mod tree;

use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use crate::clock;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError, Staged};

pub use tree::Tree;

/// Why the store did not give or take an object.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Bits changed since it was stored.
    #[error("stored object `{path}` is damaged: expected sha256 {expected}, found {found}")]
    Damaged {
        /// The object.
        path: Utf8PathBuf,
        /// Its name.
        expected: Sha256,
        /// What its bytes give.
        found: Sha256,
    },
    /// Something else stands in the place of an object.
    #[error("`{0}` is not a stored object: expected a file")]
    NotAnObject(Utf8PathBuf),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Diagnose for StoreError {
    fn exit(&self) -> Exit {
        match self {
            Self::Damaged { .. } | Self::NotAnObject(_) => Exit::NotVerified,
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } | Self::NotAnObject(_) => "store-damaged",
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Damaged { path, .. } => vec![
                format!(
                    "remove `{path}` and run the same command again: it is fetched and verified anew"
                ),
                "check the disk: bits that change at rest are a hardware fault".to_owned(),
            ],
            Self::NotAnObject(path) => vec![format!(
                "remove `{path}` and run the same command again: the object is fetched and \
                 verified anew"
            )],
            Self::File(error) => error.hints(),
        }
    }
}

/// One object or tree as it lies there; whether its bytes are its name's is for [`Store::check`] to
/// say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub sha256: Sha256,
    /// Size in bytes.
    pub bytes: u64,
    /// When it was last put in or taken out.
    pub used: Timestamp,
}

/// What lies in a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The objects, by name.
    pub objects: Vec<Object>,
    /// Files and directories that no run has touched for a day and that never became objects.
    pub abandoned: Vec<Utf8PathBuf>,
    /// What has no business there.
    pub strange: Vec<Utf8PathBuf>,
}

/// How long a download may rest before it counts as abandoned.
const ABANDONED: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// A directory of objects.
#[derive(Debug, Clone)]
pub struct Store {
    directory: Utf8PathBuf,
}

impl Store {
    /// Opens the store, creating it where missing.
    pub fn open(directory: &Utf8Path) -> Result<Self, FileError> {
        for part in ["sha256", "trees", "staging", "partial"] {
            let part = directory.join(part);
            if part.is_symlink() {
                return Err(FileError::Link { path: part });
            }
            files::create_dir_all(&part)?;
        }
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// Where the store is.
    pub fn directory(&self) -> &Utf8Path {
        &self.directory
    }

    /// Directory for downloads that a later run may resume. Nothing in it is trusted.
    pub fn partial(&self) -> Utf8PathBuf {
        self.directory.join("partial")
    }

    /// A new file that may become an object.
    pub fn stage(&self) -> Result<Staged, FileError> {
        Staged::within(&self.directory.join("staging"))
    }

    /// Where the object is, or would be.
    pub fn path(&self, digest: &Sha256) -> Utf8PathBuf {
        let name = digest.to_string();
        self.directory.join("sha256").join(&name[..2]).join(name)
    }

    /// Whether something of that name is there. Says nothing of what it is.
    pub fn has(&self, digest: &Sha256) -> bool {
        self.path(digest).symlink_metadata().is_ok()
    }

    /// The path of an object that is there.
    ///
    /// # Errors
    /// Where what is there is no file.
    pub fn file(&self, digest: &Sha256) -> Result<Utf8PathBuf, StoreError> {
        let path = self.path(digest);
        if path.is_file() {
            Ok(path)
        } else {
            Err(StoreError::NotAnObject(path))
        }
    }

    /// The object's path once its bytes were hashed again, or `None` where it is not there.
    pub fn get(&self, digest: &Sha256) -> Result<Option<Utf8PathBuf>, StoreError> {
        if !self.has(digest) {
            return Ok(None);
        }
        let path = self.file(digest)?;
        let (found, _bytes) = files::hash(&path)?;
        if found == *digest {
            Self::used(&path);
            Ok(Some(path))
        } else {
            Err(StoreError::Damaged {
                path,
                expected: *digest,
                found,
            })
        }
    }

    /// Keeps a staged file. `digest` must come from reading this very file in this process.
    pub fn keep(&self, staged: Staged, digest: &Sha256) -> Result<Utf8PathBuf, FileError> {
        let path = self.path(digest);
        if let Some(parent) = path.parent() {
            files::create_dir_all(parent)?;
        }
        staged.commit(&path)?;
        Ok(path)
    }

    /// Takes note that an object was used, so that it stays.
    fn used(path: &Utf8Path) {
        // In a store that cannot be written nothing is collected either.
        if let Ok(now) = SystemTime::try_from(clock::now()) {
            let _not_ours = files::touch(path, now);
        }
    }

    /// Hashes an object or tree again, if there is one of that name.
    pub fn check(&self, digest: &Sha256) -> Result<(), StoreError> {
        self.get(digest)?;
        self.get_tree(digest)?;
        Ok(())
    }

    /// Removes an object or tree; it is no error where it is not there.
    pub fn remove(&self, digest: &Sha256) -> Result<(), FileError> {
        files::remove_file(&self.path(digest))?;
        files::remove_dir_all(&self.tree(digest))
    }

    /// What lies in the store.
    pub fn contents(&self) -> Result<Contents, FileError> {
        let mut contents = Contents::default();
        let objects = self.directory.join("sha256");
        for shelf in files::list(&objects)? {
            let shelf = objects.join(shelf);
            if !shelf.is_dir() {
                contents.strange.push(shelf);
                continue;
            }
            for name in files::list(&shelf)? {
                let path = shelf.join(&name);
                match (name.parse::<Sha256>(), files::size_and_time(&path)?) {
                    (Ok(sha256), Some((bytes, time))) if self.path(&sha256) == path => {
                        let used = instant(time);
                        contents.objects.push(Object {
                            sha256,
                            bytes,
                            used,
                        });
                    }
                    _ => contents.strange.push(path),
                }
            }
        }
        self.trees(&mut contents)?;
        contents.objects.sort_by_key(|object| object.sha256);
        for part in ["staging", "partial"] {
            let part = self.directory.join(part);
            for name in files::list(&part)? {
                let path = part.join(name);
                // One that vanishes meanwhile became an object.
                if let Some(time) = files::touched(&path)?
                    && clock::now().duration_since(instant(time)) > ABANDONED
                {
                    contents.abandoned.push(path);
                }
            }
        }
        Ok(contents)
    }

    fn trees(&self, contents: &mut Contents) -> Result<(), FileError> {
        let trees = self.directory.join("trees");
        for name in files::list(&trees)? {
            let path = trees.join(&name);
            match (name.parse(), files::modified(&path)?) {
                (Ok(sha256), Some(time)) if path.is_dir() => contents.objects.push(Object {
                    sha256,
                    bytes: tree::bytes(&path)?,
                    used: instant(time),
                }),
                _ => contents.strange.push(path),
            }
        }
        Ok(())
    }

    /// Keeps bytes.
    pub fn put(&self, bytes: &[u8]) -> Result<Sha256, FileError> {
        let digest = Sha256::of(bytes);
        files::write(&self.path(&digest), bytes)?;
        Ok(digest)
    }
}

/// A file's time; one that no calendar has counts as new, so that nothing goes for it.
fn instant(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_else(|_| clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_noticed_on_the_way_out() {
        let guard = tempfile::tempdir().unwrap();
        let store = Store::open(Utf8Path::new(guard.path().to_str().unwrap())).unwrap();
        let digest = store.put(b"object").unwrap();
        assert!(store.get(&digest).unwrap().is_some());
        files::write(&store.path(&digest), b"objecu").unwrap();
        let error = store.get(&digest).unwrap_err();
        assert_eq!(error.exit(), Exit::NotVerified);
        assert!(store.get(&Sha256::of(b"absent")).unwrap().is_none());
        files::remove_file(&store.path(&digest)).unwrap();
        files::create_dir_all(&store.path(&digest)).unwrap();
        assert!(store.has(&digest));
        assert_eq!(store.get(&digest).unwrap_err().exit(), Exit::NotVerified);
    }
}
