//! Why a Debian package gave no source or config, and what to do then.

use crate::command::CommandError;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::FileError;
use crate::interrupt::Interrupted;
use crate::store::StoreError;

use crate::source::signature::SignatureError;
use crate::source::xz::DecompressError;

/// A package, or what was in it, that is not the promised one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {version} of `{package}` has sha256 {found}, but {promised_by} says {expected}")]
pub struct WrongPackage {
    /// The package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The digest of its bytes, or the one that apt's index names.
    pub found: Sha256,
    /// The promised digest.
    pub expected: Sha256,
    /// Who promised it.
    pub promised_by: &'static str,
}

/// Why a Debian package gave no source or config.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// Not a package name or version.
    #[error("`{found}` is not a Debian {what}")]
    Word {
        /// What it was taken for.
        what: &'static str,
        /// The text.
        found: String,
    },
    /// apt does not know the package.
    #[error("apt knows no package `{package}`")]
    Unknown {
        /// The package.
        package: String,
    },
    /// apt has no packages of this release of Debian.
    #[error("apt offers no packages of Debian {codename} here")]
    NoSuite {
        /// The release's code name.
        codename: &'static str,
    },
    /// The archive has moved on.
    #[error("version {version} of `{package}` is no longer served{}", offered_text(.offered.as_deref()))]
    NotServed {
        /// The package.
        package: String,
        /// The version of the lock.
        version: String,
        /// What apt offers instead.
        offered: Option<String>,
    },
    /// Not kept, and nobody may be asked.
    #[error(
        "version {version} of `{package}` is not in the store ({missing} packages are missing), and --offline forbids to fetch it"
    )]
    Offline {
        /// The first that is missing.
        package: String,
        /// The version of the lock.
        version: String,
        /// How many are missing.
        missing: usize,
    },
    /// apt says something unexpected.
    #[error("apt's index of `{package}` cannot be used: {problem}")]
    Index {
        /// The package.
        package: String,
        /// What is wrong.
        problem: String,
    },
    /// The archive's signature is missing.
    #[error("apt cannot authenticate version {version} of `{package}`")]
    Unauthenticated {
        /// The package.
        package: String,
        /// Its version.
        version: String,
    },
    /// The archive cannot be reached.
    #[error("apt could not fetch version {version} of `{package}`")]
    Network {
        /// The package.
        package: String,
        /// Its version.
        version: String,
        /// What it said.
        #[source]
        source: Box<CommandError>,
    },
    /// Not the promised bytes.
    #[error(transparent)]
    WrongDigest(Box<WrongPackage>),
    /// Not a readable package.
    #[error("package `{package}` cannot be read")]
    Unreadable {
        /// The package.
        package: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something else inside than expected.
    #[error("package `{package}` does not hold what it should: {problem}")]
    Content {
        /// The package.
        package: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no such config in the package.
    #[error("package `{package}` has no config `{flavour}`: it has {}", .known.join(", "))]
    Flavour {
        /// The package.
        package: String,
        /// The wanted flavour.
        flavour: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// Decompressing failed.
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    /// The source is not what the package says.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A tool of the host.
    #[error(transparent)]
    Command(Box<CommandError>),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl From<CommandError> for DebianError {
    fn from(error: CommandError) -> Self {
        Self::Command(Box::new(error))
    }
}

fn offered_text(offered: Option<&str>) -> String {
    offered.map_or_else(String::new, |version| format!("; apt offers {version}"))
}

impl Diagnose for DebianError {
    fn exit(&self) -> Exit {
        match self {
            Self::Word { .. } | Self::Flavour { .. } => Exit::Usage,
            Self::Unknown { .. } | Self::NoSuite { .. } | Self::NotServed { .. } => {
                Exit::NotPublished
            }
            Self::Index { .. }
            | Self::Unauthenticated { .. }
            | Self::WrongDigest(_)
            | Self::Unreadable { .. }
            | Self::Content { .. } => Exit::NotVerified,
            Self::Network { .. } | Self::Offline { .. } => Exit::Network,
            Self::Decompress(error) => error.exit(),
            Self::Signature(error) => error.exit(),
            Self::Command(error) => error.exit(),
            Self::Store(error) => error.exit(),
            Self::File(error) => error.exit(),
            Self::Interrupted(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Word { .. } => "debian-word",
            Self::Unknown { .. } => "package-unknown",
            Self::NoSuite { .. } => "suite-unknown",
            Self::NotServed { .. } => "version-not-served",
            Self::Index { .. } => "apt-index",
            Self::Unauthenticated { .. } => "package-unauthenticated",
            Self::Network { .. } => "apt-network",
            Self::Offline { .. } => "offline",
            Self::WrongDigest(_) => "package-digest",
            Self::Unreadable { .. } => "package-unreadable",
            Self::Content { .. } => "package-content",
            Self::Flavour { .. } => "flavour-unknown",
            Self::Decompress(error) => error.code(),
            Self::Signature(error) => error.code(),
            Self::Command(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::File(error) => error.code(),
            Self::Interrupted(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Unknown { package } => format!(
                "run `apt-get update`, then see `apt-cache policy {package}`; the package may be \
                 in a suite that `/etc/apt/sources.list` does not name"
            ),
            Self::NoSuite { codename } => format!(
                "run `apt-get update`; where this host is of another release, name an apt \
                 configuration with a source for {codename} in the variable APT_CONFIG"
            ),
            Self::NotServed { .. } => "to build the old one all the same, set `store:` in \
                 `kiln.yaml` to a store that still has the locked version"
                .to_owned(),
            Self::Index { .. } => "run `apt-get update`, then the same command again".to_owned(),
            Self::Unauthenticated { .. } => "run `apt-get update` and read its warnings: an \
                 archive without a valid signature is not used"
                .to_owned(),
            Self::Network { .. } => "run the same command again; where a proxy is needed, set \
                 `http_proxy` or apt's `Acquire::http::Proxy`"
                .to_owned(),
            Self::Offline { .. } => "run `kiln fetch PIPELINE` once with a network, or take a \
                 directory made by `kiln fetch PIPELINE --to DIR` as a mirror"
                .to_owned(),
            Self::WrongDigest(_) => "do not use these bytes: a Debian version never changes \
                 its content; compare with another mirror"
                .to_owned(),
            Self::Flavour { .. } => {
                "set `flavour:` of the pipeline's base config to one of them".to_owned()
            }
            Self::Decompress(error) => return error.hints(),
            Self::Signature(error) => return error.hints(),
            Self::Command(error) => return error.hints(),
            Self::Store(error) => return error.hints(),
            Self::File(error) => return error.hints(),
            Self::Interrupted(error) => return error.hints(),
            Self::Word { .. } | Self::Unreadable { .. } | Self::Content { .. } => {
                return Vec::new();
            }
        };
        vec![hint]
    }
}
