//! A directory tree as one digest, and its modes made plain.
//!
//! Whoever unpacks a root owns it, so owners say nothing; what counts is which files there are,
//! what is in them, where links lead, and what can be run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use crate::digest::{Hasher, Sha256};
use crate::files::{self, FileError};
use crate::interrupt;

/// Gives every directory and program mode 0755 and every other file 0644, and all of it to this
/// process's user. No program of an old root stays setuid on the host.
pub(super) fn settle(root: &Utf8Path) -> Result<(), FileError> {
    let owner = rustix::process::geteuid();
    let own = owner.is_root().then(|| owner.as_raw());
    walk(root, &mut |entry| {
        if let Some(owner) = own {
            std::os::unix::fs::lchown(entry.path, Some(owner), Some(owner))
                .map_err(failed("change the owner of", entry.path))?;
        }
        let mode = match entry.kind {
            Kind::Link => return Ok(()),
            Kind::Directory | Kind::File { runs: true } => 0o755,
            Kind::File { runs: false } => 0o644,
        };
        std::fs::set_permissions(entry.path, std::fs::Permissions::from_mode(mode))
            .map_err(failed("change the mode of", entry.path))
    })
}

/// One digest over names, kinds and contents.
pub(super) fn digest(root: &Utf8Path) -> Result<Sha256, FileError> {
    let mut hasher = Hasher::new();
    let top = root.as_std_path().to_owned();
    walk(root, &mut |entry| {
        let name = entry.path.strip_prefix(&top).unwrap_or(entry.path);
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(name.as_os_str().as_bytes());
        match entry.kind {
            Kind::Directory => field(b"directory"),
            Kind::Link => {
                field(b"link");
                let to =
                    std::fs::read_link(entry.path).map_err(failed("read the link", entry.path))?;
                field(to.as_os_str().as_bytes());
            }
            Kind::File { runs } => {
                field(if runs { b"program" } else { b"file" });
                let mut file =
                    std::fs::File::open(entry.path).map_err(failed("open", entry.path))?;
                let (sha256, _bytes) = files::hash_open(&mut file, &shown(entry.path))?;
                field(sha256.to_string().as_bytes());
            }
        }
        Ok(())
    })?;
    Ok(hasher.finish())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Link,
    File { runs: bool },
}

struct Entry<'a> {
    path: &'a Path,
    kind: Kind,
}

/// Calls `see` for everything below a directory: a directory before what is in it, names in order.
fn walk(
    root: &Utf8Path,
    see: &mut dyn FnMut(&Entry<'_>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut left: Vec<PathBuf> = vec![root.as_std_path().to_owned()];
    while let Some(directory) = left.pop() {
        interrupt::check()?;
        let mut names: Vec<OsString> = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(failed("list", &directory))? {
            names.push(entry.map_err(failed("list", &directory))?.file_name());
        }
        names.sort_unstable();
        for name in names {
            let path = directory.join(name);
            let metadata = path.symlink_metadata().map_err(failed("look at", &path))?;
            let kind = if metadata.is_dir() {
                Kind::Directory
            } else if metadata.is_symlink() {
                Kind::Link
            } else if metadata.is_file() {
                Kind::File {
                    runs: metadata.permissions().mode() & 0o111 != 0,
                }
            } else {
                // No device, pipe or socket is of use in a root, and reading one could wait forever.
                std::fs::remove_file(&path).map_err(failed("remove", &path))?;
                continue;
            };
            see(&Entry { path: &path, kind })?;
            if kind == Kind::Directory {
                left.push(path);
            }
        }
    }
    Ok(())
}

fn shown(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from(path.to_string_lossy().into_owned())
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> FileError {
    let path = shown(path);
    move |source| FileError::Io {
        action,
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Utf8PathBuf) {
        let guard = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from(guard.path().to_str().unwrap()).join("root");
        files::write(&root.join("usr/bin/make"), b"program").unwrap();
        files::write(&root.join("etc/passwd"), b"root").unwrap();
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        let mode = |path: &str, mode: u32| {
            let path = root.join(path);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("usr/bin/make", 0o4711);
        mode("etc/passwd", 0o600);
        (guard, root)
    }

    #[test]
    fn modes_become_plain_and_nothing_stays_setuid() {
        let (_guard, root) = tree();
        settle(&root).unwrap();
        let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("usr/bin/make"), 0o755);
        assert_eq!(mode("etc/passwd"), 0o644);
        assert_eq!(mode("usr/bin"), 0o755);
    }

    #[test]
    fn every_change_changes_the_digest() {
        let (_guard, root) = tree();
        settle(&root).unwrap();
        let whole = digest(&root).unwrap();
        assert_eq!(digest(&root).unwrap(), whole);
        let changes: [&dyn Fn(); 5] = [
            &|| files::write(&root.join("etc/passwd"), b"toor").unwrap(),
            &|| files::write(&root.join("etc/new"), b"").unwrap(),
            &|| files::rename(&root.join("etc/new"), &root.join("etc/newer")).unwrap(),
            &|| {
                let mode = std::fs::Permissions::from_mode(0o644);
                std::fs::set_permissions(root.join("usr/bin/make"), mode).unwrap();
            },
            &|| {
                files::remove_file(&root.join("bin")).unwrap();
                std::os::unix::fs::symlink("usr/sbin", root.join("bin")).unwrap();
            },
        ];
        let mut seen = vec![whole];
        for change in changes {
            change();
            let now = digest(&root).unwrap();
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }
}
