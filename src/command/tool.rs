//! Programs on this host.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::cmd::Cmd;
use super::error::CommandError;

/// Where programs are looked for, and the `PATH` they get. The caller's own `PATH` is never used:
/// it is part of what makes two hosts differ.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    path: Utf8PathBuf,
}

impl Tool {
    /// Looks for a program by name in [`SEARCH_PATH`].
    pub fn find(name: &str) -> Result<Self, CommandError> {
        SEARCH_PATH
            .split(':')
            .map(|directory| Utf8Path::new(directory).join(name))
            .find(|path| is_executable(path))
            .map(|path| Self { path })
            .ok_or_else(|| CommandError::Missing {
                name: name.to_owned(),
            })
    }

    /// The program at `path`, which must be absolute.
    pub fn at(path: &Utf8Path) -> Result<Self, CommandError> {
        if path.is_absolute() && is_executable(path) {
            Ok(Self {
                path: path.to_owned(),
            })
        } else {
            Err(CommandError::Missing {
                name: path.to_string(),
            })
        }
    }

    /// A program known only inside a sandbox or build root, where this process cannot look.
    pub fn inside(path: &str) -> Self {
        Self {
            path: Utf8PathBuf::from(path),
        }
    }

    /// Its absolute path.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The first line of what `--version` prints that says anything.
    pub fn version(&self) -> Result<String, CommandError> {
        let output = Cmd::new(self)
            .arg("--version")
            .deadline(Duration::from_secs(20))
            .capture()?;
        let text = String::from_utf8_lossy(&output);
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty());
        Ok(first.unwrap_or_default().to_owned())
    }
}

fn is_executable(path: &Utf8Path) -> bool {
    path.is_file() && rustix::fs::access(path.as_std_path(), rustix::fs::Access::EXEC_OK).is_ok()
}
