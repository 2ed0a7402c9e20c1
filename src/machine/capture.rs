//! A capture: the files that a fingerprint was read from, in a tar archive.

use std::io;

use camino::Utf8Path;

use super::root::{Root, Seen};
use crate::files::{FileError, Staged};

/// Kept beside what a fingerprint is read from, for people.
const FOR_PEOPLE: [&str; 3] = ["proc/version", "proc/cmdline", "proc/interrupts"];

/// Writes what `root` has read so far to `path`: unpacked, it gives the same fingerprint. The same
/// files make the same bytes.
///
/// # Errors
/// Fails where the file cannot be written.
pub fn write(root: &Root, path: &Utf8Path) -> Result<(), FileError> {
    for extra in FOR_PEOPLE {
        drop(root.text(extra));
    }
    let mut staged = Staged::beside(path)?;
    archive(root, staged.file()).map_err(|source| FileError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    staged.commit(path)
}

fn archive(root: &Root, out: &mut std::fs::File) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::new(out));
    let seen = root.seen();
    for (path, what) in &seen {
        match what {
            Seen::File(bytes, mode) => append(&mut archive, path, bytes, *mode)?,
            Seen::Names(names) => {
                for name in names {
                    // What was read below it brings it about by itself.
                    let path = format!("{path}/{name}");
                    let below = format!("{path}/");
                    let next = seen.range(below.clone()..).next();
                    let is_made = seen.contains_key(&path)
                        || next.is_some_and(|(next, _)| next.starts_with(&below));
                    if !is_made {
                        append(&mut archive, &below, &[], 0o755)?;
                    }
                }
            }
        }
    }
    archive
        .into_inner()?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

fn append(
    archive: &mut tar::Builder<io::BufWriter<&mut std::fs::File>>,
    path: &str,
    bytes: &[u8],
    mode: u32,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    if path.ends_with('/') {
        header.set_entry_type(tar::EntryType::Directory);
    }
    archive.append_data(&mut header, path, bytes)
}
