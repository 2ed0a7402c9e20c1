//! `verify`: a manifest, the packages it names, and evidence about it, judged by the roles file.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::civil::Date;

use super::statements::{PROVENANCE, SBOM};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files::{self, FileError};
use crate::proof::canonical::{CanonicalError, SIZE_LIMIT};
use crate::proof::envelope::Envelope;
use crate::proof::evidence::{self, Counted};
use crate::proof::lock::LockError;
use crate::proof::manifest::{Manifest, Package};
use crate::proof::provenance;
use crate::proof::roles::{Holder, Role, Roles};

/// An envelope is its payload in base64, and signatures.
const LIMIT: u64 = 2 * SIZE_LIMIT;

/// What is to be verified, by whose word, on which day.
#[derive(Debug)]
pub struct Question<'a> {
    /// The manifest's file.
    pub manifest: &'a Utf8Path,
    /// Where its packages are: this directory, or `packages` beside it, or beside it.
    pub packages: Option<&'a Utf8Path>,
    /// Files of evidence about it.
    pub evidence: &'a [Utf8PathBuf],
    /// Who may sign what.
    pub roles: &'a Roles,
    /// The day to judge on.
    pub today: Date,
}

/// A manifest that is what somebody signed, who may, and whose packages are what it says.
#[derive(Debug)]
pub struct Verified {
    /// Its id.
    pub id: Sha256,
    /// What it says.
    pub manifest: Manifest,
    /// The keys that signed it, and count.
    pub signers: Vec<Holder>,
    /// Signatures beside that do not count, and why.
    pub unfit: Vec<String>,
    /// Where its packages are.
    pub packages: Utf8PathBuf,
    /// Other packages there: nobody vouches for them.
    pub strangers: Vec<String>,
    /// The bill of materials beside the manifest, which is the one it names; nothing where there is
    /// no such file.
    pub sbom: Option<Utf8PathBuf>,
    /// The provenance beside the manifest, which a builder signed too; nothing where there is none.
    pub provenance: Option<Utf8PathBuf>,
    /// The evidence that counts, in the order given.
    pub evidence: Vec<(Utf8PathBuf, Counted)>,
}

impl Verified {
    /// Who got the same bytes, each once.
    pub fn rebuilders(&self) -> BTreeSet<&str> {
        let counted = self.evidence.iter();
        counted
            .map(|(_, counted)| counted.statement.rebuilder.as_str())
            .collect()
    }
}

/// Why what was signed is not believed.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Signed, and yet not a manifest that this kiln reads.
    #[error("`{name}` is signed, but not a manifest that this kiln reads")]
    Document {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: CanonicalError,
    },
    /// Its lock does not agree with itself.
    #[error("the lock inside `{name}` is not one that kiln wrote")]
    Lock {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: Box<LockError>,
    },
    /// Its release is not that of its lock.
    #[error("`{name}` is of the release `{found}`, its lock of `{expected}`")]
    Release {
        /// The file.
        name: String,
        /// The lock's release.
        expected: String,
        /// The manifest's release.
        found: String,
    },
    /// It names a package by something that is no file name.
    #[error("`{name}` names the package `{file}`: expected a plain file name")]
    Name {
        /// The file.
        name: String,
        /// What stands there.
        file: String,
    },
    /// A file is not there.
    #[error("`{path}` cannot be read")]
    Missing {
        /// Where it should be.
        path: Utf8PathBuf,
        /// Why not.
        #[source]
        source: FileError,
    },
    /// The bill of materials is another one.
    #[error(
        "`{path}` is not the bill of materials of this build: it has sha256 {found}, expected {expected}"
    )]
    Sbom {
        /// The file.
        path: Utf8PathBuf,
        /// What the manifest says.
        expected: Sha256,
        /// Its digest.
        found: Sha256,
    },
    /// The provenance is that of another build.
    #[error("`{path}` is the provenance of {}, expected that of the manifest {expected}", of_what(.found.as_ref()))]
    Provenance {
        /// The file.
        path: Utf8PathBuf,
        /// Id of the manifest.
        expected: Sha256,
        /// The one it is about.
        found: Option<Sha256>,
    },
    /// A package is another one.
    #[error(
        "`{path}` is not the package that was built: it has {bytes} bytes and sha256 {sha256}, expected \
         {} bytes and sha256 {}", .expected.bytes, .expected.sha256
    )]
    Package {
        /// The file.
        path: Utf8PathBuf,
        /// Its digest.
        sha256: Sha256,
        /// Its size in bytes.
        bytes: u64,
        /// What the manifest says.
        expected: Box<Package>,
    },
}

fn of_what(manifest: Option<&Sha256>) -> String {
    manifest.map_or_else(|| "no build".to_owned(), |id| format!("the manifest {id}"))
}

impl Diagnose for VerifyError {
    fn exit(&self) -> Exit {
        match self {
            Self::Missing { source, .. } if matches!(source, FileError::Interrupted(_)) => {
                source.exit()
            }
            // The statement is fine; the files are not what it is about.
            Self::Missing { .. } | Self::Sbom { .. } | Self::Package { .. } => Exit::NotVerified,
            _ => Exit::StatementRejected,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Document { source, .. } => source.code(),
            Self::Lock { source, .. } => source.code(),
            Self::Release { .. } => "manifest-release",
            Self::Name { .. } => "manifest-name",
            Self::Missing { .. } => "package-missing",
            Self::Sbom { .. } => "sbom-differs",
            Self::Provenance { .. } => "provenance-other",
            Self::Package { .. } => "package-differs",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Document { source, .. } => source.hints(),
            Self::Missing { .. } => vec!["name their directory with `--dir`".to_owned()],
            Self::Package { .. } => vec![
                "do not install it: get the package again from where it was built, or build it \
                 anew"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}

/// Verifies.
///
/// # Errors
/// Whatever is wrong first: the envelope, its signatures, the document, the packages, the evidence.
pub fn verify(question: &Question<'_>) -> Result<Verified, Failure> {
    let Question {
        manifest: path,
        roles,
        today,
        ..
    } = *question;
    let name = path.as_str();
    let envelope = read(path)?;
    let signed = envelope.open(name, "manifest", Role::Builder, roles, today)?;
    let manifest = manifest(name, signed.payload())?;
    let id = Sha256::of(signed.payload());
    let directory = directory(path, question.packages);
    let strangers = packages(name, &directory, &manifest)?;
    let sbom = sbom(path, &manifest.sbom)?;
    let provenance = provenance(path, &id, roles, today)?;
    let mut counted = Vec::new();
    for path in question.evidence {
        let envelope = read(path)?;
        let about = (path.as_str(), &envelope);
        let one = evidence::open(about, &id, &signed.names(), roles, today)?;
        counted.push((path.clone(), one));
    }
    Ok(Verified {
        id,
        manifest,
        signers: signed.signers().to_vec(),
        unfit: signed.unfit().iter().map(ToString::to_string).collect(),
        packages: directory,
        strangers,
        sbom,
        provenance,
        evidence: counted,
    })
}

pub(super) fn read(path: &Utf8Path) -> Result<Envelope, Failure> {
    let text = files::read_text(path, LIMIT)?;
    Ok(Envelope::parse(path.as_str(), &text)?)
}

/// The manifest in a signed payload, which must agree with itself.
pub(super) fn manifest(name: &str, payload: &[u8]) -> Result<Manifest, VerifyError> {
    let name = || name.to_owned();
    let manifest = Manifest::parse(&name(), payload).map_err(|source| VerifyError::Document {
        name: name(),
        source,
    })?;
    let lock = &manifest.lock;
    lock.check(&name()).map_err(|source| VerifyError::Lock {
        name: name(),
        source: Box::new(source),
    })?;
    if manifest.release != lock.release() {
        return Err(VerifyError::Release {
            name: name(),
            expected: lock.release().to_string(),
            found: manifest.release.to_string(),
        });
    }
    Ok(manifest)
}

/// Where the packages of a manifest are.
pub(super) fn directory(manifest: &Utf8Path, given: Option<&Utf8Path>) -> Utf8PathBuf {
    if let Some(given) = given {
        return given.to_owned();
    }
    let beside = beside(manifest);
    let packages = beside.join("packages");
    if packages.is_dir() {
        packages
    } else {
        beside.to_owned()
    }
}

/// The directory that a file is in.
pub(super) fn beside(manifest: &Utf8Path) -> &Utf8Path {
    match manifest.parent() {
        Some(parent) if !parent.as_str().is_empty() => parent,
        _ => Utf8Path::new("."),
    }
}

/// The bill of materials beside a manifest, which must be the one it names.
fn sbom(manifest: &Utf8Path, expected: &Sha256) -> Result<Option<Utf8PathBuf>, VerifyError> {
    let path = beside(manifest).join(SBOM);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    match files::hash(&path) {
        Ok((found, _bytes)) if found == *expected => Ok(Some(path)),
        Ok((found, _bytes)) => Err(VerifyError::Sbom {
            path,
            expected: *expected,
            found,
        }),
        Err(source) => Err(VerifyError::Missing { path, source }),
    }
}

/// The provenance beside a manifest, which must be signed by a builder and about that manifest.
fn provenance(
    manifest: &Utf8Path,
    id: &Sha256,
    roles: &Roles,
    today: Date,
) -> Result<Option<Utf8PathBuf>, Failure> {
    let path = beside(manifest).join(PROVENANCE);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let envelope = read(&path)?;
    let signed = envelope.open(path.as_str(), provenance::KIND, Role::Builder, roles, today)?;
    let found = provenance::manifest_of(signed.payload());
    if found != Some(*id) {
        let expected = *id;
        return Err(VerifyError::Provenance {
            path,
            expected,
            found,
        }
        .into());
    }
    Ok(Some(path))
}

/// Looks at every byte of every package, and returns the names of others that are there.
fn packages(
    name: &str,
    directory: &Utf8Path,
    manifest: &Manifest,
) -> Result<Vec<String>, VerifyError> {
    let mut known = BTreeSet::new();
    for package in &manifest.packages {
        let file = package.file.as_str();
        if Utf8Path::new(file).file_name() != Some(file) || file.starts_with('.') {
            return Err(VerifyError::Name {
                name: name.to_owned(),
                file: file.to_owned(),
            });
        }
        let path = directory.join(file);
        let (sha256, bytes) = files::hash(&path).map_err(|source| VerifyError::Missing {
            path: path.clone(),
            source,
        })?;
        if (sha256, bytes) != (package.sha256, package.bytes) {
            return Err(VerifyError::Package {
                path,
                sha256,
                bytes,
                expected: Box::new(package.clone()),
            });
        }
        known.insert(file);
    }
    let there = files::list(directory).unwrap_or_default();
    let is_stranger = |file: &String| {
        Utf8Path::new(file).extension() == Some("deb") && !known.contains(file.as_str())
    };
    Ok(there.into_iter().filter(is_stranger).collect())
}
