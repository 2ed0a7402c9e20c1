//! Signing statements: by the signers of `kiln.yaml`, as far as `keys/roles.yaml` lets them count.
//!
//! A private key is read from its own file and stays in this process, or never leaves the program
//! that signs with it. Neither is ever an argument, a variable or a line of a log.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::civil::Date;

use super::workspace::{Workspace, WorkspaceError};
use crate::command::{Cmd, CommandError, Tool};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::proof::envelope::{Envelope, EnvelopeError};
use crate::proof::key::{KeyError, PrivateKey, PublicKey, SIGNATURE_BYTES};
use crate::proof::roles::{Holder, Role, Roles, Unfit};
use crate::spec::Signer;

/// Largest file of a private key that is read, in bytes.
const KEY_LIMIT: u64 = 4096;

/// Longest that a program may take to sign: somebody may have to touch a token.
const DEADLINE: Duration = Duration::from_mins(2);

/// Why nothing can be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The roles file cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A key's file cannot be read.
    #[error("the signer `{path}` cannot be used")]
    File {
        /// The file, as `kiln.yaml` names it.
        path: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// A key that others can reach.
    #[error(
        "the signer `{path}` has mode {mode:04o} and owner {owner}: expected mode 0600 and your user {user}"
    )]
    Exposed {
        /// The file, as `kiln.yaml` names it.
        path: String,
        /// Its permissions.
        mode: u32,
        /// Its user id.
        owner: u32,
        /// Ours.
        user: u32,
    },
    /// Not a private key.
    #[error("the signer `{path}` holds no key")]
    Key {
        /// The file, as `kiln.yaml` names it.
        path: String,
        /// What it should hold.
        #[source]
        source: KeyError,
    },
    /// `~/` without a home.
    #[error("the signer `{path}` begins with `~/`, and the variable HOME names no directory")]
    Home {
        /// The file, as `kiln.yaml` names it.
        path: String,
    },
    /// A program that is not there.
    #[error("the signer `{name}` cannot be run")]
    Program {
        /// Its command line.
        name: String,
        /// Why.
        #[source]
        source: Box<CommandError>,
    },
    /// A program that gave no signature.
    #[error("the signer `{name}` did not sign")]
    Command {
        /// Its command line.
        name: String,
        /// What happened.
        #[source]
        source: Box<CommandError>,
    },
    /// A program whose answer is not the signature asked for.
    #[error(
        "the signer `{name}` answered with {found}: expected the ed25519 signature by {key} over what \
         it read, as 64 bytes or their base64"
    )]
    Answer {
        /// Its command line.
        name: String,
        /// What came.
        found: &'static str,
        /// The public key that `kiln.yaml` gives for it.
        key: String,
    },
    /// A signer whose signature would be worth nothing.
    #[error("the signer `{name}` would sign for nothing: {why}")]
    Unfit {
        /// The signer.
        name: String,
        /// Why.
        why: Unfit,
    },
    /// Not a document that can be signed.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

impl Diagnose for SignError {
    fn exit(&self) -> Exit {
        match self {
            Self::Workspace(error) => error.exit(),
            Self::File { source, .. } => source.exit(),
            Self::Program { source, .. } => source.exit(),
            Self::Command { source, .. } => match source.exit() {
                Exit::Unexpected => Exit::StatementRejected,
                other => other,
            },
            Self::Answer { .. } | Self::Envelope(_) => Exit::StatementRejected,
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Workspace(error) => error.code(),
            Self::File { source, .. } => source.code(),
            Self::Exposed { .. } => "signer-exposed",
            Self::Key { .. } => "signer-key",
            Self::Home { .. } => "signer-home",
            Self::Program { source, .. } => source.code(),
            Self::Command { .. } => "signer-failed",
            Self::Answer { .. } => "signer-answer",
            Self::Unfit { why, .. } => why.code(),
            Self::Envelope(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Workspace(error) => return error.hints(),
            Self::Exposed { path, .. } => format!(
                "if only you could read it so far, `chmod 600 {path}`; if not, `kiln keys rotate`"
            ),
            Self::File { .. } => "where the key is not at hand, build with `--unsigned`".to_owned(),
            Self::Unfit {
                why: Unfit::Unknown { .. },
                ..
            } => "add its public key: `kiln keys new --role ROLE --name NAME --public KEY`"
                .to_owned(),
            Self::Unfit { .. } => {
                "`kiln keys lint` shows every key; `kiln keys rotate NAME` makes the next one"
                    .to_owned()
            }
            _ => return Vec::new(),
        };
        vec![hint]
    }
}

/// How a key signs.
#[derive(Debug)]
enum Hand {
    Key(PrivateKey),
    Program(Tool, Vec<String>),
}

/// A signer at hand: whoever it is in the roles file is another matter.
#[derive(Debug)]
pub struct Ready {
    /// How `kiln.yaml` names it.
    pub name: String,
    /// The key that it signs with.
    pub key: PublicKey,
    hand: Hand,
}

impl Ready {
    /// The signature over `message`, which has been checked.
    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], SignError> {
        let (tool, arguments) = match &self.hand {
            Hand::Key(key) => return Ok(key.sign(message)),
            Hand::Program(tool, arguments) => (tool, arguments),
        };
        let answer = Cmd::new(tool)
            .args(arguments)
            .stdin_bytes(message)
            .deadline(DEADLINE)
            .capture()
            .map_err(|source| SignError::Command {
                name: self.name.clone(),
                source: Box::new(source),
            })?;
        let wrong = |found| SignError::Answer {
            name: self.name.clone(),
            found,
            key: self.key.to_string(),
        };
        let signature: [u8; SIGNATURE_BYTES] = match answer.try_into() {
            Ok(raw) => raw,
            Err(text) => {
                let text = text.trim_ascii();
                let bytes = STANDARD.decode(text).ok();
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.ok_or_else(|| wrong("something else"))?
            }
        };
        if self.key.verifies(message, &signature) {
            Ok(signature)
        } else {
            Err(wrong("a signature that does not match"))
        }
    }
}

/// Makes one signer of `kiln.yaml` ready; `None` for one that cannot sign statements.
pub fn ready(workspace: &Workspace, signer: &Signer) -> Result<Option<Ready>, SignError> {
    match signer {
        Signer::GpgAgent(_) => Ok(None),
        Signer::File(path) => {
            let key = private_key(workspace, path)?;
            Ok(Some(Ready {
                name: path.to_string(),
                key: key.public(),
                hand: Hand::Key(key),
            }))
        }
        Signer::Command { run, key } => {
            let name = shown(signer);
            let program = run.first().map(String::as_str).unwrap_or_default();
            let tool = if program.contains('/') {
                Tool::at(Utf8Path::new(program))
            } else {
                Tool::find(program)
            };
            let tool = tool.map_err(|source| SignError::Program {
                name: name.clone(),
                source: Box::new(source),
            })?;
            Ok(Some(Ready {
                name,
                key: *key,
                hand: Hand::Program(tool, run[1..].to_vec()),
            }))
        }
    }
}

/// How messages name a signer.
pub fn shown(signer: &Signer) -> String {
    match signer {
        Signer::File(path) => path.to_string(),
        Signer::Command { run, .. } => run.join(" "),
        Signer::GpgAgent(fingerprint) => format!("gpg-agent {fingerprint}"),
    }
}

/// Reads a private key, which nobody but this user may be able to read.
fn private_key(workspace: &Workspace, named: &Utf8Path) -> Result<PrivateKey, SignError> {
    let path = match named.as_str().strip_prefix("~/") {
        None => workspace.root().join(named),
        Some(below) => home()
            .ok_or_else(|| SignError::Home {
                path: named.to_string(),
            })?
            .join(below),
    };
    let unread = |source| SignError::File {
        path: named.to_string(),
        source,
    };
    let io = |source| {
        unread(FileError::Io {
            action: "read",
            path: path.clone(),
            source,
        })
    };
    let file = files::open(&path).map_err(unread)?;
    // Of the open file, so that it cannot be another one when it is read.
    let facts = file.metadata().map_err(io)?;
    let (mode, owner) = (facts.mode() & 0o7777, facts.uid());
    let user = rustix::process::geteuid().as_raw();
    if mode != 0o600 || owner != user {
        return Err(SignError::Exposed {
            path: named.to_string(),
            mode,
            owner,
            user,
        });
    }
    let mut text = String::new();
    file.take(KEY_LIMIT).read_to_string(&mut text).map_err(io)?;
    PrivateKey::from_pem(&text).map_err(|source| SignError::Key {
        path: named.to_string(),
        source,
    })
}

/// The home directory of who runs kiln.
pub fn home() -> Option<Utf8PathBuf> {
    let home = std::env::var("HOME").ok().map(Utf8PathBuf::from)?;
    home.is_absolute().then_some(home)
}

/// What signs the statements of one role today.
#[derive(Debug, Default)]
pub struct Signing {
    active: Vec<(Ready, Holder)>,
    /// Why nothing, or not everything, signs: for people.
    pub idle: Vec<String>,
}

impl Signing {
    /// Nothing signs, for this reason.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            active: Vec::new(),
            idle: vec![reason.into()],
        }
    }

    /// The signers of the workspace whose keys count for `role` today. While keys change over these
    /// are two, so that who has only the old roles file believes what is signed too.
    ///
    /// # Errors
    /// A signer that cannot be used, that the roles file does not know, or that was revoked; and
    /// where all of the role's keys are early or expired.
    pub fn open(workspace: &Workspace, role: Role, today: Date) -> Result<Self, SignError> {
        let signers = &workspace.settings().signers;
        if signers.is_empty() {
            return Ok(Self::none("`kiln.yaml` names no signer"));
        }
        let roles = workspace.roles()?;
        let mut signing = Self::default();
        let mut late = None;
        for signer in signers {
            let Some(ready) = ready(workspace, &signer.value)? else {
                let name = shown(&signer.value);
                signing.idle.push(format!(
                    "`{name}` signs with OpenPGP, which is for apt's InRelease: statements need \
                     `file:` or `command:`"
                ));
                continue;
            };
            let name = ready.name.clone();
            match judge(&roles, ready, role, today) {
                Ok(active) => signing.active.push(active),
                Err(why @ Unfit::Role { .. }) => signing.idle.push(why.to_string()),
                Err(why @ (Unfit::Early { .. } | Unfit::Expired { .. })) => {
                    signing.idle.push(why.to_string());
                    late = Some(SignError::Unfit { name, why });
                }
                Err(why) => return Err(SignError::Unfit { name, why }),
            }
        }
        match late {
            Some(error) if signing.active.is_empty() => Err(error),
            _ => Ok(signing),
        }
    }

    /// Whether nothing signs.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Who signs.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.active.iter().map(|(_, holder)| holder)
    }

    /// Signs a document with every key.
    pub fn sign(&self, envelope: &mut Envelope) -> Result<(), SignError> {
        if self.is_empty() {
            return Ok(());
        }
        let message = envelope.to_sign()?;
        for (ready, _holder) in &self.active {
            let signature = ready.sign(&message)?;
            envelope.add(&ready.key, &signature);
        }
        Ok(())
    }
}

fn judge(roles: &Roles, ready: Ready, role: Role, today: Date) -> Result<(Ready, Holder), Unfit> {
    let holder = roles.judge(&ready.key.id(), role, today)?.clone();
    Ok((ready, holder))
}
