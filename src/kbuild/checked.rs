//! Judging finished packages by what is inside them.
//!
//! The configuration in the image package, the names, the version text of the kernel: all of it is
//! read back from the files that would be published.

use camino::{Utf8Path, Utf8PathBuf};

use crate::digest::Sha256;
use crate::files;
use crate::kbuild::deb::{Deb, KernelHeader, Modules};
use crate::kbuild::environment::{SOURCE_NAME, package_version};
use crate::kbuild::packages::{ARCHITECTURE, Doubt, Packages, PackagesError, Request};
use crate::kernel::Release;
use crate::sandbox::Isolation;

impl Packages {
    /// Opens every package and compares it with what was guarded and promised.
    pub fn check(
        self,
        request: &Request<'_>,
        isolation: &Isolation,
    ) -> Result<CheckedPackages, PackagesError> {
        let names = request.names();
        if self.files().len() != names.len() {
            let found = self.files().iter().map(ToString::to_string).collect();
            return Err(PackagesError::Outputs {
                found,
                expected: names,
            });
        }
        let mut packages = Vec::new();
        for (name, file) in names.iter().zip(self.files()) {
            packages.push(check_one(name, file, request, isolation)?);
        }
        // The first name is always there: see `names`.
        let (modules, secure_boot_signed) =
            check_image(&names[0], &self.files()[0], request, isolation)?;
        Ok(CheckedPackages {
            packages,
            release: request.release.clone(),
            config: request.config.digest(),
            modules,
            secure_boot_signed,
            doubts: self.doubts().to_vec(),
            isolation: isolation.clone(),
        })
    }
}

/// Compares the control fields of one package, and takes its digest.
fn check_one(
    name: &str,
    file: &Utf8Path,
    request: &Request<'_>,
    isolation: &Isolation,
) -> Result<Package, PackagesError> {
    let fields = Deb::new(isolation, file).fields()?;
    let version = package_version(request.release);
    for (what, expected) in [
        ("Package", name),
        ("Version", &version),
        ("Architecture", ARCHITECTURE),
        ("Source", SOURCE_NAME),
    ] {
        let found = fields.get(what).map_or("absent", String::as_str);
        same(name, what, found, expected)?;
    }
    let (sha256, bytes) = files::hash(file)?;
    Ok(Package {
        name: name.to_owned(),
        version,
        architecture: ARCHITECTURE,
        file: file.to_owned(),
        bytes,
        sha256,
    })
}

/// Compares what stands in the image package.
fn check_image(
    name: &str,
    file: &Utf8Path,
    request: &Request<'_>,
    isolation: &Isolation,
) -> Result<(Modules, bool), PackagesError> {
    let image = Deb::new(isolation, file).image()?;
    let release = request.release.to_string();
    same(name, "/boot/config-*", &image.config.0, &release)?;
    same(name, "/boot/vmlinuz-*", &image.kernel.0, &release)?;
    request
        .config
        .check_copy(&format!("`{name}`"), &image.config.1)?;
    for tree in &image.module_trees {
        same(name, "/lib/modules/*", tree, &release)?;
    }
    let header = KernelHeader::read(&image.kernel.1);
    let version = header.as_ref().map_or("unreadable", |h| h.version.as_str());
    // The whole text ends with the configuration's words and the date; its start says who built
    // what, and any of it that came from the host would differ between two hosts.
    let expected = format!("{release} (builder@forge) #{} ", request.release.build);
    let start = version.get(..expected.len()).unwrap_or(version);
    same(name, "the version text in /boot/vmlinuz", start, &expected)?;
    Ok((image.modules, header.is_some_and(|header| header.signed)))
}

fn same(
    package: &str,
    what: &'static str,
    found: &str,
    expected: &str,
) -> Result<(), PackagesError> {
    if found == expected {
        return Ok(());
    }
    Err(PackagesError::NotAsPromised {
        package: package.to_owned(),
        what,
        found: found.to_owned(),
        expected: expected.to_owned(),
    })
}

/// One checked package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its Debian version.
    pub version: String,
    /// Its architecture, in Debian's words.
    pub architecture: &'static str,
    /// Where it stands.
    pub file: Utf8PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
}

/// Packages whose content was compared with the guarded configuration and the promised names. Made
/// by [`Packages::check`] only.
#[derive(Debug, Clone)]
pub struct CheckedPackages {
    packages: Vec<Package>,
    release: Release,
    config: Sha256,
    modules: Modules,
    secure_boot_signed: bool,
    doubts: Vec<Doubt>,
    isolation: Isolation,
}

impl CheckedPackages {
    /// All of them, the image first.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The package of the kernel and its modules.
    pub fn image(&self) -> &Package {
        // `names` always starts with it.
        &self.packages[0]
    }

    /// The kernel's name.
    pub fn release(&self) -> &Release {
        &self.release
    }

    /// Digest of the guarded configuration, whose symbols the packaged one has.
    pub fn config(&self) -> Sha256 {
        self.config
    }

    /// The modules of the image, and how many are signed.
    pub fn modules(&self) -> Modules {
        self.modules
    }

    /// Whether the kernel carries a Secure Boot signature.
    pub fn secure_boot_signed(&self) -> bool {
        self.secure_boot_signed
    }

    /// Why they cannot be published; nothing where they can.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// The files of the image package as a tar archive. Its digest is taken again before.
    pub fn image_files(&self) -> Result<std::fs::File, PackagesError> {
        let image = self.image();
        if files::hash(&image.file)?.0 != image.sha256 {
            return Err(PackagesError::Changed(image.file.clone()));
        }
        Ok(Deb::new(&self.isolation, &image.file).files()?)
    }
}

/// The files of a package as a tar archive, unpacked by `dpkg-deb` in a sandbox. For a package
/// whose digest was checked by whoever names it.
pub fn archive(package: &Utf8Path, isolation: &Isolation) -> Result<std::fs::File, PackagesError> {
    Ok(Deb::new(isolation, package).files()?)
}
