//! Why a file was not fetched, and what to do then.

use std::time::Duration;

use super::Trouble;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::FileError;
use crate::interrupt::Interrupted;

/// One mirror that did not give the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The file's address there.
    pub address: String,
    /// What was wrong.
    pub trouble: Trouble,
}

/// The mirrors that were tried, a line each.
pub(in crate::source) fn told(tried: &[Tried]) -> String {
    let lines: Vec<String> = tried
        .iter()
        .map(|tried| format!("\n    {}: {}", tried.address, tried.trouble))
        .collect();
    lines.concat()
}

/// A file that is not the one that was promised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` from {address} has sha256 {found}, but {promised_by} says {expected}")]
pub struct WrongDigest {
    /// The file.
    pub what: String,
    /// Where it came from.
    pub address: String,
    /// Its digest.
    pub found: Sha256,
    /// The promised digest.
    pub expected: Sha256,
    /// Who promised it.
    pub promised_by: String,
}

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No mirror has it.
    #[error("`{what}` is not published: no mirror has it{}", told(tried))]
    NotPublished {
        /// The file.
        what: String,
        /// The mirrors.
        tried: Vec<Tried>,
    },
    /// No mirror gave it, and at least one was in trouble.
    #[error("no mirror gave `{what}`{}", told(tried))]
    Unreachable {
        /// The file.
        what: String,
        /// The mirrors.
        tried: Vec<Tried>,
    },
    /// No directory gave it, and nothing else may be asked.
    #[error(
        "`{what}` is not on this machine, and --offline forbids to fetch it{}",
        told(tried)
    )]
    Offline {
        /// The file.
        what: String,
        /// The mirrors.
        tried: Vec<Tried>,
    },
    /// What the mirrors offer cannot be the file.
    #[error("`{what}` is not what it must be{}", told(tried))]
    TooLarge {
        /// The file.
        what: String,
        /// The mirrors.
        tried: Vec<Tried>,
    },
    /// The bytes are not those that were promised.
    #[error(transparent)]
    WrongDigest(Box<WrongDigest>),
    /// It took too long in all.
    #[error("fetching `{what}` took longer than {limit:?}")]
    Deadline {
        /// The file.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// No HTTP client can be made on this machine.
    #[error("no web client can be made here: {0}")]
    Client(String),
    /// This machine's files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for FetchError {
    fn exit(&self) -> Exit {
        match self {
            Self::NotPublished { .. } => Exit::NotPublished,
            Self::Unreachable { .. }
            | Self::Offline { .. }
            | Self::Deadline { .. }
            | Self::Client(_) => Exit::Network,
            Self::TooLarge { .. } | Self::WrongDigest(_) => Exit::NotVerified,
            Self::File(error) => error.exit(),
            Self::Interrupted(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotPublished { .. } => "not-published",
            Self::Unreachable { .. } => "mirrors-unreachable",
            Self::Offline { .. } => "offline",
            Self::TooLarge { .. } => "download-too-large",
            Self::WrongDigest(_) => "wrong-digest",
            Self::Deadline { .. } => "download-deadline",
            Self::Client(_) => "http-client",
            Self::File(error) => error.code(),
            Self::Interrupted(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotPublished { .. } => vec![
                "wait: mirrors lag behind an announcement by up to some hours".to_owned(),
                "check the version if it is an old one: kernel.org keeps every release".to_owned(),
            ],
            Self::Unreachable { .. } | Self::Deadline { .. } => vec![
                "run the same command again: what has arrived is kept, and the download goes on \
                 from there"
                    .to_owned(),
                "set other mirrors in `kiln.yaml`, or `HTTPS_PROXY` where a proxy is needed"
                    .to_owned(),
            ],
            Self::Offline { .. } => {
                vec!["run the same command once with a network and without `--offline`".to_owned()]
            }
            Self::TooLarge { .. } | Self::WrongDigest(_) => vec![
                "do not use these bytes; nothing of them was unpacked or kept".to_owned(),
                "compare with another mirror; if both agree, the promise changed: see what \
                 `kiln resolve` says"
                    .to_owned(),
            ],
            Self::Client(_) => {
                vec!["install the package `ca-certificates`, or set `SSL_CERT_FILE`".to_owned()]
            }
            Self::File(error) => error.hints(),
            Self::Interrupted(error) => error.hints(),
        }
    }
}
