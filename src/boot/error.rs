//! Why something on a node was not done.

use camino::Utf8PathBuf;

use super::block::{Slot, Unsure};
use super::go::Window;
use super::preflight::Finding;
use super::state::{NotTold, Refused};
use crate::command::CommandError;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::FileError;

/// Why something on a node was not done.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file could not be read or written, or another process holds the lock.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refused something that is not reading or writing a whole file.
    #[error("failed to {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: Utf8PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// There is no gate.
    #[error("this node has no boot gate: `{path}` is missing")]
    NotSetUp {
        /// The state file.
        path: Utf8PathBuf,
    },
    /// There is one already.
    #[error("this node has a boot gate already: `{path}` exists")]
    SetUp {
        /// The state file.
        path: Utf8PathBuf,
    },
    /// The state block is not to be trusted.
    #[error("the state block `{path}` cannot be trusted")]
    Unsure {
        /// The state file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: Unsure,
    },
    /// The state file is not where GRUB was told that it is.
    #[error("`{path}` is not the file that was set up: {what}")]
    Moved {
        /// The state file.
        path: Utf8PathBuf,
        /// What is different.
        what: String,
    },
    /// What was written is not what is read.
    #[error("`{path}` does not hold what was just written to it")]
    NotWritten {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A step that the state forbids.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The command line does not say what the kernel was started as.
    #[error(transparent)]
    NotTold(#[from] NotTold),
    /// A slot's file is not what was copied.
    #[error("`{path}` has sha256 {found} on disk, expected {expected}")]
    Damaged {
        /// The file.
        path: Utf8PathBuf,
        /// What was copied.
        expected: Sha256,
        /// What is read back.
        found: Sha256,
    },
    /// The node, or the kernel, is not fit for it.
    #[error("{}", findings(.0))]
    Preflight(Vec<Finding>),
    /// A command line that GRUB would read as its own language.
    #[error("the command line has `{}`, which GRUB would take for its own", .found.escape_default())]
    Words {
        /// The character.
        found: char,
    },
    /// A package could not be installed.
    #[error("`{package}` could not be installed")]
    Install {
        /// The package.
        package: String,
        /// What dpkg said.
        #[source]
        source: Box<CommandError>,
    },
    /// The package did not leave what its manifest says.
    #[error("`{path}` has sha256 {found}, and the manifest's configuration {expected}")]
    OtherConfig {
        /// The file.
        path: Utf8PathBuf,
        /// What the manifest says.
        expected: Sha256,
        /// What was installed.
        found: Sha256,
    },
    /// A person holds every trial back.
    #[error("this node is pinned: {why}")]
    Pinned {
        /// What that person said.
        why: String,
    },
    /// Only what was used up is tried again.
    #[error("there is nothing to try again: {what}")]
    NotExhausted {
        /// What is there instead.
        what: String,
    },
    /// The slot is the one that is started anyway.
    #[error("slot {slot} is the good one: the next boot starts it anyway")]
    IsGood {
        /// The slot.
        slot: Slot,
    },
    /// A restart would change nothing.
    #[error("nothing is due at the next boot: no trial is armed, and no rehearsal asked for")]
    NothingDue,
    /// It is not the time for it.
    #[error("this node is restarted from {window} only")]
    Closed {
        /// When it is.
        window: Window,
    },
    /// Its users could not be sent away.
    #[error("the node was not drained, and is not restarted")]
    Drain {
        /// What the program said.
        #[source]
        source: Box<CommandError>,
    },
    /// The system does not restart.
    #[error("the node could not be restarted")]
    Restart {
        /// Why.
        #[source]
        source: Box<CommandError>,
    },
    /// An empty slot, and the like.
    #[error("slot {slot} holds no whole kernel")]
    EmptySlot {
        /// The slot.
        slot: Slot,
    },
}

fn findings(all: &[Finding]) -> String {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl BootError {
    pub(super) fn io(
        action: &'static str,
        path: &camino::Utf8Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl Diagnose for BootError {
    fn exit(&self) -> Exit {
        match self {
            Self::File(error) => error.exit(),
            Self::Io { .. } | Self::NotWritten { .. } => Exit::Unexpected,
            Self::Install { source, .. } | Self::Restart { source } => source.exit(),
            Self::NotSetUp { .. } | Self::SetUp { .. } | Self::Words { .. } => Exit::Usage,
            Self::Unsure { .. }
            | Self::Moved { .. }
            | Self::Refused(_)
            | Self::NotTold(_)
            | Self::Damaged { .. }
            | Self::Preflight(_)
            | Self::OtherConfig { .. }
            | Self::Pinned { .. }
            | Self::NotExhausted { .. }
            | Self::IsGood { .. }
            | Self::NothingDue
            | Self::Closed { .. }
            | Self::Drain { .. }
            | Self::EmptySlot { .. } => Exit::NodeRefused,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::File(error) => error.code(),
            Self::Io { .. } => "boot-io",
            Self::NotSetUp { .. } => "gate-missing",
            Self::SetUp { .. } => "gate-exists",
            Self::Unsure { .. } => "state-unsure",
            Self::Moved { .. } => "state-moved",
            Self::NotWritten { .. } => "state-not-written",
            Self::Refused(refused) => refused.code(),
            Self::NotTold(_) => "not-told",
            Self::Damaged { .. } => "slot-damaged",
            Self::Preflight(_) => "preflight",
            Self::Words { .. } => "words",
            Self::Install { .. } => "not-installed",
            Self::OtherConfig { .. } => "other-config",
            Self::Pinned { .. } => "pinned",
            Self::NotExhausted { .. } => "not-exhausted",
            Self::IsGood { .. } => "slot-good",
            Self::NothingDue => "nothing-due",
            Self::Closed { .. } => "window-closed",
            Self::Drain { .. } => "not-drained",
            Self::Restart { .. } => "not-restarted",
            Self::EmptySlot { .. } => "slot-empty",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::File(error) => return error.hints(),
            Self::Preflight(found) => return found.iter().map(|one| one.next.clone()).collect(),
            Self::NotSetUp { .. } => "set it up with `kiln boot init`",
            Self::SetUp { .. } => "see how it stands with `kiln boot status`",
            Self::Unsure { .. } => {
                "the node starts its good kernel until the block is made new with `kiln boot repair`"
            }
            Self::Moved { .. } => {
                "something replaced the file; make it new in its place with `kiln boot repair`"
            }
            Self::Refused(refused) => return refused.hints(),
            Self::Damaged { .. } => "the disk or its memory gives back other bytes; test both",
            Self::Words { .. } => "write the words without quotes, `$`, `;` and the like",
            Self::Install { source, .. } | Self::Restart { source } | Self::Drain { source } => {
                return source.hints();
            }
            Self::Pinned { .. } => "release it with `kiln boot unpin`",
            Self::NotExhausted { .. } => "stage it anew with `kiln stage`",
            Self::IsGood { .. } => "restart the node",
            Self::NothingDue => "stage a kernel with `kiln stage`",
            Self::Closed { .. } => {
                "without `--no-wait` it waits; the window is in `/etc/kiln/node.yaml`"
            }
            Self::OtherConfig { .. } => {
                "see which package owns the file: `dpkg -S`; then install the one of the manifest anew"
            }
            Self::EmptySlot { .. } => "stage a kernel with `kiln stage RELEASE`",
            Self::Io { .. } | Self::NotWritten { .. } | Self::NotTold(_) => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

impl Refused {
    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Undecided => "trial-undecided",
            Self::Armed { .. } => "trial-armed",
            Self::Unrecorded { .. } => "outcome-unrecorded",
            Self::SlotInUse { .. } => "slot-in-use",
            Self::OldGeneration { .. } => "generation-old",
            Self::NotOnTrial { .. } => "not-on-trial",
            Self::OtherTrial { .. } => "other-trial",
            Self::Uncounted { .. } => "attempt-uncounted",
            Self::TooLate => "too-late",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Undecided => {
                "wait for the verdict of `kiln gate run`, or turn it down with `kiln gate reject`"
            }
            Self::Armed { .. } => "take it back with `kiln boot disarm`",
            Self::Unrecorded { .. } => "run `kiln gate run`, which writes the record",
            Self::SlotInUse { .. } => "start the good kernel, then stage again",
            Self::Uncounted { .. } => {
                "see which file GRUB reads: `kiln boot status` names the one that kiln writes"
            }
            Self::OldGeneration { .. }
            | Self::NotOnTrial { .. }
            | Self::OtherTrial { .. }
            | Self::TooLate => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
