//! Trees: directories named by the digest of their listing, which is every directory, file and link
//! below with its mode and content. One is walked and hashed whole on the way out.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::FileType;

use super::{Store, StoreError};
use crate::digest::Sha256;
use crate::files::{self, FileError};
use crate::interrupt;

/// Largest file of a tree, in bytes.
const LIMIT: u64 = 64 << 20;

/// A tree whose every byte was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// How many files and links it has.
    pub files: u64,
}

impl Store {
    /// Where the tree is, or would be. As with an object, the name proves nothing.
    pub fn tree(&self, digest: &Sha256) -> Utf8PathBuf {
        self.directory.join("trees").join(digest.to_string())
    }

    /// A place for a new directory that may become a tree: one a process.
    pub fn stage_tree(&self) -> Utf8PathBuf {
        let process = std::process::id();
        let staging = self.directory.join("staging");
        staging.join(format!("tree-{process}"))
    }

    /// Keeps a staged directory. Returns its name.
    pub fn keep_tree(&self, staged: &Utf8Path) -> Result<Sha256, FileError> {
        let digest = Listing::of(staged)?.sha256;
        let path = self.tree(&digest);
        if path.symlink_metadata().is_ok() {
            // It is hashed before it is used, whoever left it there.
            files::remove_dir_all(staged)?;
        } else {
            files::rename(staged, &path)?;
        }
        Self::used(&path);
        Ok(digest)
    }

    /// The tree once every byte of it was hashed again, or `None` where it is not there.
    pub fn get_tree(&self, digest: &Sha256) -> Result<Option<Tree>, StoreError> {
        let path = self.tree(digest);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let listing = Listing::of(&path)?;
        if listing.sha256 == *digest {
            Self::used(&path);
            let files = listing.files;
            return Ok(Some(Tree { path, files }));
        }
        Err(StoreError::Damaged {
            path,
            expected: *digest,
            found: listing.sha256,
        })
    }
}

/// How many bytes the files of a tree have.
pub(super) fn bytes(root: &Utf8Path) -> Result<u64, FileError> {
    let files = walk(root)?.into_iter();
    Ok(files.map(|entry| entry.bytes).sum())
}

/// Everything in a directory, in one digest.
#[derive(Debug, PartialEq, Eq)]
struct Listing {
    sha256: Sha256,
    /// How many files and links there are.
    files: u64,
}

impl Listing {
    fn of(root: &Utf8Path) -> Result<Self, FileError> {
        let entries = walk(root)?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let each = entries.len().div_ceil(threads.min(4)).max(1);
        let lines = |part: &[Entry]| -> Result<String, FileError> {
            part.iter().map(|entry| entry.line(root)).collect()
        };
        let text = std::thread::scope(|scope| {
            let parts: Vec<_> = entries
                .chunks(each)
                .map(|part| scope.spawn(move || lines(part)))
                .collect();
            let done = parts.into_iter().map(|part| {
                part.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            done.collect::<Result<String, FileError>>()
        })?;
        let files = entries
            .iter()
            .filter(|entry| !entry.is(FileType::Directory));
        Ok(Self {
            sha256: Sha256::of(text.as_bytes()),
            files: files.count() as u64,
        })
    }
}

/// Something below the directory.
#[derive(Debug)]
struct Entry {
    /// Relative to the directory.
    path: String,
    /// What it is, and its permissions.
    mode: u32,
    /// Size of a file.
    bytes: u64,
}

impl Entry {
    fn is(&self, kind: FileType) -> bool {
        FileType::from_raw_mode(self.mode) == kind
    }

    /// `MODE DIGEST PATH`; a directory or a strange thing has no digest. The path is quoted, so that
    /// no name can look like two lines.
    fn line(&self, root: &Utf8Path) -> Result<String, FileError> {
        interrupt::check()?;
        let path = root.join(&self.path);
        let digest = if self.is(FileType::RegularFile) {
            Sha256::of(&files::read(&path, LIMIT)?).to_string()
        } else if self.is(FileType::Symlink) {
            let target = path.read_link_utf8().map_err(|source| FileError::Io {
                action: "read the link",
                path,
                source,
            })?;
            Sha256::of(target.as_str().as_bytes()).to_string()
        } else {
            "-".to_owned()
        };
        Ok(format!("{:o} {digest} {:?}\n", self.mode, self.path))
    }
}

/// All that is below a directory, sorted by path.
fn walk(root: &Utf8Path) -> Result<Vec<Entry>, FileError> {
    let mut entries = Vec::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        for name in files::list(&root.join(&directory))? {
            let path = match directory.as_str() {
                "" => name,
                directory => format!("{directory}/{name}"),
            };
            let full = root.join(&path);
            let metadata = full.symlink_metadata().map_err(|source| FileError::Io {
                action: "look at",
                path: full,
                source,
            })?;
            if metadata.is_dir() {
                open.push(path.clone());
            }
            let bytes = if metadata.is_file() {
                metadata.len()
            } else {
                0
            };
            let mode = metadata.mode();
            entries.push(Entry { path, mode, bytes });
        }
    }
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn tree() -> (tempfile::TempDir, Utf8PathBuf) {
        let guard = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from(guard.path().to_str().unwrap()).join("tree");
        for (path, text) in [("Kconfig", "config A\n"), ("scripts/a.sh", "echo y\n")] {
            files::write(&root.join(path), text.as_bytes()).unwrap();
        }
        symlink("a.sh", root.join("scripts/b.sh")).unwrap();
        (guard, root)
    }

    #[test]
    fn the_same_tree_has_the_same_listing() {
        let (_one, first) = tree();
        let (_two, second) = tree();
        let listing = Listing::of(&first).unwrap();
        assert_eq!(listing, Listing::of(&second).unwrap());
        assert_eq!(listing.files, 3);
    }

    #[test]
    fn every_change_is_another_listing() {
        type Change = fn(&Utf8Path);
        let changes: [(&str, Change); 8] = [
            ("a byte", |root| {
                files::write(&root.join("Kconfig"), b"config B\n").unwrap();
            }),
            ("a file more", |root| {
                files::write(&root.join("localversion"), b"x").unwrap();
            }),
            ("a file less", |root| {
                files::remove_file(&root.join("scripts/a.sh")).unwrap();
            }),
            ("a directory more", |root| {
                files::create_dir_all(&root.join("empty")).unwrap();
            }),
            ("a mode", |root| {
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(root.join("Kconfig"), mode).unwrap();
            }),
            ("a link's target", |root| {
                files::remove_file(&root.join("scripts/b.sh")).unwrap();
                symlink("../Kconfig", root.join("scripts/b.sh")).unwrap();
            }),
            ("a link to the same bytes", |root| {
                files::rename(&root.join("Kconfig"), &root.with_file_name("kept")).unwrap();
                symlink("../kept", root.join("Kconfig")).unwrap();
            }),
            ("a name", |root| {
                files::rename(&root.join("Kconfig"), &root.join("Kconfig.x")).unwrap();
            }),
        ];
        let (_guard, root) = tree();
        let whole = Listing::of(&root).unwrap().sha256;
        for (what, change) in changes {
            let (_guard, root) = tree();
            change(&root);
            assert_ne!(Listing::of(&root).unwrap().sha256, whole, "{what}");
        }
    }
}
