//! `keys new`, `keys rotate` and `keys revoke`: the roles file and private keys, changed together.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::ToSpan as _;
use jiff::civil::Date;

use super::sign;
use super::workspace::Workspace;
use crate::command::{Cmd, Tool};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::proof::key::{PrivateKey, PublicKey};
use crate::proof::roles::{Holder, Revocation, Role, Roles};
use crate::spec::kinds;
use crate::spec::roles::{self, EditError};

/// Largest roles file that is changed, in bytes.
const LIMIT: u64 = 1 << 20;

/// How long another change of the keys is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many days the old key still counts beside the new one, where nobody says.
const OVERLAP_DAYS: i32 = 90;

impl Diagnose for EditError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(errors) => errors.code(),
            Self::NoKey { .. } => "no-key",
            Self::Form { .. } => "roles-form",
        }
    }
}

/// Where the key of a new row comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Made now; its private half goes into this file, or one below the home.
    New(Option<Utf8PathBuf>),
    /// Made elsewhere.
    Public(PublicKey),
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The new row, or the one that was revoked.
    pub holder: Holder,
    /// Where its private key was written, as `kiln.yaml` would name it.
    pub private: Option<Utf8PathBuf>,
    /// The keys of the same holder that now end.
    pub ending: Vec<Holder>,
    /// The roles file, from the workspace's directory.
    pub file: String,
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::usage(message)
}

/// The roles file as it is.
struct Open {
    /// Two changes at once would lose one, and a lost revocation is believed to be there.
    _lock: files::Lock,
    path: Utf8PathBuf,
    shown: String,
    text: Option<String>,
    roles: Roles,
}

impl Open {
    fn read(workspace: &Workspace) -> Result<Self, Failure> {
        workspace.refuse_links()?;
        let lock = files::Lock::acquire(
            &workspace.dot_kiln().join("locks/keys"),
            "keys",
            files::Wait::UpTo(PATIENCE),
            |_holder| (),
        )?;
        let path = workspace.roles_path();
        let shown = workspace.shown(&path);
        let text = match path.symlink_metadata() {
            Ok(_) => Some(files::read_text(&path, LIMIT)?),
            Err(_) => None,
        };
        Ok(Self {
            _lock: lock,
            path,
            shown,
            text,
            roles: workspace.roles()?,
        })
    }

    /// The keys of one holder that nobody took back.
    fn of(&self, name: &str) -> Result<Vec<&Holder>, Failure> {
        let all = &self.roles.holders;
        if !all.iter().any(|holder| holder.name == name) {
            let names: Vec<&str> = all.iter().map(|holder| holder.name.as_str()).collect();
            let nearest = crate::spec::nearest(name, names.iter().copied())
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            return Err(
                refused(format!("{} has no holder `{name}`{nearest}", self.shown))
                    .hint("`kiln keys lint` shows all of them"),
            );
        }
        Ok(all
            .iter()
            .filter(|holder| holder.name == name && holder.revoked.is_none())
            .collect())
    }
}

/// A key for a new holder.
pub fn new(
    workspace: &Workspace,
    (role, name): (Role, &str),
    (from, until): (Date, Option<Date>),
    origin: Origin,
) -> Result<Changed, Failure> {
    let open = Open::read(workspace)?;
    if !(kinds::HOLDER.accepts)(name) {
        return Err(refused(format!(
            "`{name}` is not {}",
            kinds::HOLDER.expected
        )));
    }
    if open.roles.holders.iter().any(|holder| holder.name == name) {
        return Err(
            refused(format!("{} has a holder `{name}` already", open.shown))
                .hint(format!("to give it a newer key: `kiln keys rotate {name}`")),
        );
    }
    let wanted = |key| Holder {
        role,
        name: name.to_owned(),
        key,
        from,
        until,
        revoked: None,
    };
    write(workspace, &open, origin, Vec::new(), wanted)
}

/// A newer key for a holder, whose older ones end later: at `until`, or 90 days after `from`.
pub fn rotate(
    workspace: &Workspace,
    name: &str,
    (from, until): (Date, Option<Date>),
    origin: Origin,
) -> Result<Changed, Failure> {
    let open = Open::read(workspace)?;
    let until = match until {
        Some(until) => until,
        None => from
            .checked_add(OVERLAP_DAYS.days())
            .map_err(|error| refused(format!("{from} is no day to begin on: {error}")))?,
    };
    if until <= from {
        return Err(refused(format!(
            "the old key would end on {until}, and the new one begin on {from}: they must overlap, \
             or who missed the change believes nobody"
        )));
    }
    let current: Vec<Holder> = open
        .of(name)?
        .into_iter()
        .filter(|holder| holder.until.is_none_or(|until| until > from))
        .cloned()
        .collect();
    let Some(role) = current.first().map(|holder| holder.role) else {
        return Err(refused(format!(
            "no key of `{name}` counts on {from}, so none can overlap"
        ))
        .hint("give the next key a name of its own: `kiln keys new`"));
    };
    if let Some(early) = current.iter().find(|holder| holder.from >= from) {
        return Err(refused(format!(
            "key {} of `{name}` counts from {} on, and the new one shall from {from}",
            early.key.id().short8(),
            early.from
        )));
    }
    let mut ending = current;
    ending.retain(|holder| holder.until.is_none_or(|known| known > until));
    for holder in &mut ending {
        holder.until = Some(until);
    }
    let wanted = |key| Holder {
        role,
        name: name.to_owned(),
        key,
        from,
        until: None,
        revoked: None,
    };
    write(workspace, &open, origin, ending, wanted)
}

/// Takes a key back. `key` is the beginning of its id, where the holder has several.
pub fn revoke(
    workspace: &Workspace,
    name: &str,
    key: Option<&str>,
    revocation: Revocation,
) -> Result<Changed, Failure> {
    let open = Open::read(workspace)?;
    let id = |holder: &Holder| holder.key.id().to_string();
    let mut found = open.of(name)?;
    found.retain(|holder| key.is_none_or(|begin| id(holder).starts_with(begin)));
    let holder = match found.as_slice() {
        [one] => (*one).clone(),
        [] => {
            let which = key.map_or_else(String::new, |key| format!(" that begins with {key}"));
            return Err(refused(format!(
                "`{name}` has no key{which} that could be revoked"
            )));
        }
        several => {
            let ids: Vec<String> = several.iter().map(|holder| id(holder)).collect();
            return Err(refused(format!("`{name}` has the keys {}", ids.join(", ")))
                .hint("name one by the beginning of its id: `--key ID`"));
        }
    };
    if !(kinds::SENTENCE.accepts)(&revocation.reason)
        || revocation.reason.chars().any(char::is_control)
    {
        return Err(refused(format!(
            "the reason is not {}",
            kinds::SENTENCE.expected
        )));
    }
    let text = open.text.as_deref().unwrap_or_default();
    let text = roles::revoke(&open.shown, text, &holder.key.id(), &revocation)?;
    files::write(&open.path, text.as_bytes())?;
    Ok(Changed {
        holder: Holder {
            revoked: Some(revocation),
            ..holder
        },
        private: None,
        ending: Vec::new(),
        file: open.shown,
    })
}

/// Writes the private key, then the roles file; where that fails, the key goes again.
fn write(
    workspace: &Workspace,
    open: &Open,
    origin: Origin,
    ending: Vec<Holder>,
    wanted: impl FnOnce(PublicKey) -> Holder,
) -> Result<Changed, Failure> {
    let (key, made) = match origin {
        Origin::Public(key) => (key, None),
        Origin::New(path) => {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed).map_err(|error| {
                Failure::unexpected(format!("the system gave no random numbers: {error}"))
            })?;
            let key = PrivateKey::from_seed(&seed);
            (key.public(), Some((key, path)))
        }
    };
    let holder = wanted(key);
    let mut text = open.text.clone();
    for old in &ending {
        if let (Some(before), Some(until)) = (&text, old.until) {
            text = Some(roles::end(&open.shown, before, &old.key.id(), until)?);
        }
    }
    let text = roles::append(&open.shown, text.as_deref(), &holder)?;
    let private = match made {
        None => None,
        Some((key, path)) => {
            let path = match path {
                Some(path) => path,
                None => usual_path(&holder)?,
            };
            let path = safe_path(workspace, &path)?;
            files::write_secret(&path, key.to_pem().as_bytes())?;
            Some(path)
        }
    };
    if let Err(error) = files::write(&open.path, text.as_bytes()) {
        if let Some(path) = &private {
            // Nothing was told about it yet; the first error is the one to tell.
            let _secondary = files::remove_file(path);
        }
        return Err(error.into());
    }
    Ok(Changed {
        holder,
        private: private.map(|path| from_home(&path)),
        ending,
        file: open.shown.clone(),
    })
}

/// Where a private key goes where nobody says.
fn usual_path(holder: &Holder) -> Result<Utf8PathBuf, Failure> {
    let home = sign::home().ok_or_else(|| {
        refused("the variable HOME names no directory for the private key")
            .hint("name a file: `--out FILE`")
    })?;
    let name = format!("{}-{}.pem", holder.name, holder.key.id().short8());
    Ok(home.join(".config/kiln/keys").join(name))
}

/// A path as `kiln.yaml` may name it for everybody with the same key in the same place.
fn from_home(path: &Utf8Path) -> Utf8PathBuf {
    let below = sign::home().and_then(|home| path.strip_prefix(home).map(Utf8Path::to_owned).ok());
    below.map_or_else(|| path.to_owned(), |below| Utf8Path::new("~").join(below))
}

/// The same path where a private key there will not be committed: outside of any repository and of
/// the workspace, or ignored by git.
fn safe_path(workspace: &Workspace, path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let file = path
        .file_name()
        .ok_or_else(|| refused(format!("`{path}` names no file")))?;
    let parent = path.parent().unwrap_or_else(|| Utf8Path::new("/"));
    // Where it really is: the nearest directory above that exists, through its links.
    let there = parent.ancestors().find(|directory| directory.is_dir());
    let there = there.unwrap_or_else(|| Utf8Path::new("/"));
    let below = parent
        .strip_prefix(there)
        .unwrap_or_else(|_| Utf8Path::new(""));
    let real = there
        .canonicalize_utf8()
        .map_err(|error| refused(format!("`{there}` cannot be looked at: {error}")))?;
    let path = real.join(below).join(file);
    let repository = real
        .ancestors()
        .find(|directory| directory.join(".git").exists());
    let safe = match repository {
        Some(repository) => is_ignored(repository, &path),
        None => !path.starts_with(workspace.root()),
    };
    if safe {
        return Ok(path);
    }
    let place = repository.unwrap_or_else(|| workspace.root());
    Err(Failure {
        code: "key-in-repository",
        ..refused(format!("`{path}` lies in `{place}` and git does not ignore it: a private key must never be committed"))
    }
    .hint("leave `--out` away, or name a file outside"))
}

/// Whether git leaves the file out, by the repository's own rules and not by those of one user.
fn is_ignored(repository: &Utf8Path, path: &Utf8Path) -> bool {
    let Ok(git) = Tool::find("git") else {
        return false;
    };
    let asked = Cmd::new(&git)
        .args([
            "-C",
            repository.as_str(),
            "check-ignore",
            "--quiet",
            "--",
            path.as_str(),
        ])
        .run();
    asked.is_ok()
}

/// The id of a key, as people name it: enough letters to be one.
pub fn shown_id(key: &Sha256) -> String {
    key.to_string()[..16].to_owned()
}
