//! Getting rid of large trees without waiting for it: removing a kernel source takes a minute on a
//! file system that discards every block.

use std::sync::atomic::{AtomicU64, Ordering};

use camino::{Utf8Path, Utf8PathBuf};

use super::session::Session;
use crate::files::{self, FileError};

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Session<'_> {
    fn trash(&self) -> Utf8PathBuf {
        self.workspace.dot_kiln().join("trash")
    }

    /// Takes a directory away at once and removes it meanwhile. What is left when this process ends
    /// goes with the next one.
    pub(super) fn discard(&self, directory: &Utf8Path) -> Result<(), FileError> {
        if directory.symlink_metadata().is_err() {
            return Ok(());
        }
        let trash = self.trash();
        files::create_dir_all(&trash)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let to = trash.join(format!("{}-{number}", std::process::id()));
        files::rename(directory, &to)?;
        empty(vec![to]);
        Ok(())
    }

    /// Goes on with what earlier processes left, and with nothing else that lies there.
    pub fn empty_trash(&self) {
        let trash = self.trash();
        let left = files::list(&trash).unwrap_or_default();
        let ours = left.into_iter().filter(|name| is_ours(name));
        empty(ours.map(|name| trash.join(name)).collect());
    }
}

/// Whether a name is one that [`Session::discard`] gives: a process and a count.
fn is_ours(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('-')
        .is_some_and(|(process, count)| number(process) && number(count))
}

/// Removes in the background. A failure costs disk, not correctness: nothing reads the trash, and
/// every later command tries again.
fn empty(directories: Vec<Utf8PathBuf>) {
    if !directories.is_empty() {
        std::thread::spawn(move || {
            for directory in directories {
                let _left_for_later = files::remove_dir_all(&directory);
            }
        });
    }
}
