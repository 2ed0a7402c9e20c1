//! When a file was last written, and saying that it was used.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use camino::Utf8Path;

use super::FileError;

/// Size in bytes and last modification of a regular file, not following a link; `None` for anything
/// else, and where nothing is there.
pub fn size_and_time(path: &Utf8Path) -> Result<Option<(u64, SystemTime)>, FileError> {
    let Some(found) = look(path)?.filter(Metadata::is_file) else {
        return Ok(None);
    };
    let time = found.modified().map_err(FileError::io("look at", path))?;
    Ok(Some((found.len(), time)))
}

/// Last modification of whatever is there, not following a link.
pub fn modified(path: &Utf8Path) -> Result<Option<SystemTime>, FileError> {
    let time = look(path)?.map(|found| found.modified());
    time.transpose().map_err(FileError::io("look at", path))
}

/// When a file was last written; of a directory when anything about itself was last changed, since
/// its modification can be that of an archive it was made from. `None` for anything else.
pub fn touched(path: &Utf8Path) -> Result<Option<SystemTime>, FileError> {
    let Some(found) = look(path)?.filter(Metadata::is_dir) else {
        return Ok(size_and_time(path)?.map(|(_bytes, time)| time));
    };
    let since_1970 = Duration::from_secs(found.ctime().unsigned_abs());
    Ok(SystemTime::UNIX_EPOCH.checked_add(since_1970))
}

fn look(path: &Utf8Path) -> Result<Option<Metadata>, FileError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some).map_err(FileError::io("look at", path)),
    }
}

/// Sets the last modification of a file or directory that is there.
pub fn touch(path: &Utf8Path, time: SystemTime) -> Result<(), FileError> {
    File::options()
        .read(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .map_err(FileError::io("touch", path))
}
