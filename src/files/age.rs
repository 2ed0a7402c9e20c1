//! When a file was last written, and saying that it was used.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use camino::Utf8Path;

use super::FileError;

/// Size in bytes and last modification of a regular file, not following a link; `None` for anything
/// else, and where nothing is there.
pub fn size_and_time(path: &Utf8Path) -> Result<Option<(u64, SystemTime)>, FileError> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(FileError::io("look at", path))?,
    };
    if !found.is_file() {
        return Ok(None);
    }
    let time = found.modified().map_err(FileError::io("look at", path))?;
    Ok(Some((found.len(), time)))
}

/// Sets the last modification of a file that is there.
pub fn touch(path: &Utf8Path, time: SystemTime) -> Result<(), FileError> {
    File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .map_err(FileError::io("touch", path))
}
