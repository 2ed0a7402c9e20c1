//! Installing the image package of a verified build, as dpkg does it: its hooks make the initrd and
//! run `update-grub`.

use std::time::Duration;

use camino::Utf8PathBuf;

use super::error::BootError;
use super::place::Place;
use crate::command::{Cmd, Tool};
use crate::digest::Sha256;
use crate::files;

/// Longest that dpkg may take: an initrd with many modules, on a slow disk.
const DEADLINE: Duration = Duration::from_mins(20);

/// A build whose manifest and packages were verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// What `uname -r` prints under its kernel.
    pub release: String,
    /// Its image package.
    pub package: Utf8PathBuf,
    /// Digest of that file.
    pub sha256: Sha256,
    /// Digest of the kernel's configuration.
    pub config: Sha256,
    /// Id of the manifest.
    pub manifest: Sha256,
}

/// Installs the image package: the very bytes that were verified, from a directory that nobody else
/// writes to.
///
/// # Errors
/// Where the package has changed, dpkg refuses it, or the configuration that it left is another one.
pub fn install(place: &Place, build: &Build) -> Result<(), BootError> {
    let directory = place.at("var/lib/kiln/boot/install");
    files::remove_dir_all(&directory)?;
    let installed = unpack(place, build, &directory);
    // The first error is the one to tell.
    let removed = files::remove_dir_all(&directory);
    installed?;
    removed?;
    let path = place.at(&format!("boot/config-{}", build.release));
    let (found, _bytes) = files::hash(&path)?;
    if found == build.config {
        return Ok(());
    }
    Err(BootError::OtherConfig {
        path,
        expected: build.config,
        found,
    })
}

fn unpack(place: &Place, build: &Build, directory: &camino::Utf8Path) -> Result<(), BootError> {
    let failed = |source| BootError::Install {
        package: build.package.to_string(),
        source: Box::new(source),
    };
    let dpkg = Tool::find("dpkg").map_err(failed)?;
    files::create_dir_all(directory)?;
    let logs = place.at("var/log/kiln");
    files::create_dir_all(&logs)?;
    let copy = directory.join(build.package.file_name().unwrap_or("image.deb"));
    files::copy(&build.package, &copy, Some(&build.sha256))?;
    let mut cmd = Cmd::new(&dpkg)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .deadline(DEADLINE)
        .log(logs.join("install.log"));
    if !place.is_live() {
        cmd = cmd.arg(format!("--root={}", place.at("")));
    }
    cmd.args(["--install", copy.as_str()])
        .run()
        .map_err(failed)?;
    Ok(())
}
