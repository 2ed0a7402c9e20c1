//! Where untrusted input is worked on: a bubblewrap sandbox with fixed paths, no network, and no
//! view of home directories, keys or other runs.
//!
//! As root, bubblewrap itself runs as root, so that it can bind paths that the unprivileged user
//! could not reach (a workspace below a 0700 home), and `setpriv` then drops to [`BUILD_USER`]
//! before the program starts. As an ordinary user it makes a user namespace. Where neither works,
//! programs run on the host's own paths and the run is marked.

use std::ffi::OsString;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::command::{Cmd, CommandError, Tool};
use crate::files::FileError;

/// User and group id that a root-started kiln works under: outside of Debian's ranges for system
/// users (0-999), dynamically added ones by default (from 1000 up), systemd (61184-65519).
pub const BUILD_USER: u32 = 59_987;

/// Host name inside the sandbox, since builds record it.
pub const HOST_NAME: &str = "forge";

/// What keeps a program apart from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// bubblewrap works here.
    Bubblewrap {
        /// The program.
        bwrap: Tool,
        /// Drops privileges inside the sandbox; present when this process is root.
        setpriv: Option<Tool>,
        /// The user that programs run as, where it is not the usual one.
        user: Option<u32>,
    },
    /// No sandbox can be had.
    None {
        /// Why, for the run's record.
        reason: String,
        /// Drops privileges; present when this process is root.
        setpriv: Option<Tool>,
        /// The user that programs run as, where it is not the usual one.
        user: Option<u32>,
    },
}

impl Isolation {
    /// Tries whether a sandbox works, by running one.
    ///
    /// # Errors
    /// As root without `setpriv`: untrusted bytes are never worked on as root. And where it could
    /// not be tried: only a sandbox that was refused by this host is done without.
    pub fn probe() -> Result<Self, CommandError> {
        let setpriv = if rustix::process::geteuid().is_root() {
            Some(Tool::find("setpriv")?)
        } else {
            None
        };
        let bwrap = match Tool::find("bwrap") {
            Ok(bwrap) => bwrap,
            Err(error) => {
                return Ok(Self::None {
                    reason: error.to_string(),
                    setpriv,
                    user: None,
                });
            }
        };
        let isolation = Self::Bubblewrap {
            bwrap,
            setpriv: setpriv.clone(),
            user: None,
        };
        let tried = Cmd::new(&Tool::find("true")?)
            .sandbox(&Sandbox::new(&isolation))
            .deadline(Duration::from_secs(20))
            .run();
        match tried {
            Ok(_elapsed) => Ok(isolation),
            Err(error @ (CommandError::Failed { .. } | CommandError::Deadline { .. })) => {
                Ok(Self::None {
                    reason: error.to_string(),
                    setpriv,
                    user: None,
                })
            }
            // No room for a temporary file, or no descriptor left, says nothing about sandboxes.
            Err(error) => Err(error),
        }
    }

    /// The same with another user inside; nothing where that cannot be had: without a sandbox, only
    /// root can start a program as another.
    #[must_use]
    pub fn as_user(&self, other: u32) -> Option<Self> {
        let mut isolation = self.clone();
        match &mut isolation {
            Self::None { setpriv: None, .. } => return None,
            Self::Bubblewrap { user, .. } | Self::None { user, .. } => *user = Some(other),
        }
        Some(isolation)
    }

    fn user(&self) -> Option<u32> {
        match self {
            Self::Bubblewrap { user, .. } | Self::None { user, .. } => *user,
        }
    }

    /// Whether programs see only what they are given.
    pub fn is_isolated(&self) -> bool {
        matches!(self, Self::Bubblewrap { .. })
    }

    /// Why there is no sandbox.
    pub fn missing_reason(&self) -> Option<&str> {
        match self {
            Self::Bubblewrap { .. } => None,
            Self::None { reason, .. } => Some(reason),
        }
    }

    fn setpriv(&self) -> Option<&Tool> {
        match self {
            Self::Bubblewrap { setpriv, .. } | Self::None { setpriv, .. } => setpriv.as_ref(),
        }
    }

    /// Gives a directory to the user that sandboxed programs run as. Not recursive.
    pub fn own(&self, path: &Utf8Path) -> Result<(), FileError> {
        if self.setpriv().is_some() {
            let user = Some(self.user().unwrap_or(BUILD_USER));
            std::os::unix::fs::chown(path, user, user).map_err(|source| FileError::Io {
                action: "change the owner of",
                path: path.to_owned(),
                source,
            })?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bind {
    host: Utf8PathBuf,
    inside: Utf8PathBuf,
    writable: bool,
}

/// A sandbox as a value: what a program will see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    isolation: Isolation,
    /// Where programs and libraries come from; the host where there is none.
    root: Option<Utf8PathBuf>,
    binds: Vec<Bind>,
}

impl Sandbox {
    /// The system's programs and libraries, an empty `/tmp`, and nothing else.
    pub fn new(isolation: &Isolation) -> Self {
        Self {
            isolation: isolation.clone(),
            root: None,
            binds: Vec::new(),
        }
    }

    /// Programs, libraries and settings from this directory, and none from the host.
    #[must_use]
    pub fn rooted(mut self, root: impl Into<Utf8PathBuf>) -> Self {
        let root = root.into();
        // What is installed is asked for by Debian's packaging tools.
        for path in ["etc", "var/lib/dpkg"] {
            self = self.read_only(root.join(path), Utf8Path::new("/").join(path));
        }
        self.root = Some(root);
        self
    }

    /// Shows a file or directory of the host, read-only.
    #[must_use]
    pub fn read_only(self, host: impl Into<Utf8PathBuf>, inside: impl Into<Utf8PathBuf>) -> Self {
        self.bind(host.into(), inside.into(), false)
    }

    /// Shows a directory of the host, writable. It must belong to the sandbox's user: see
    /// [`Isolation::own`].
    #[must_use]
    pub fn writable(self, host: impl Into<Utf8PathBuf>, inside: impl Into<Utf8PathBuf>) -> Self {
        self.bind(host.into(), inside.into(), true)
    }

    fn bind(mut self, host: Utf8PathBuf, inside: Utf8PathBuf, writable: bool) -> Self {
        self.binds.push(Bind {
            host,
            inside,
            writable,
        });
        self
    }

    /// Whether programs see only what they are given.
    pub fn is_isolated(&self) -> bool {
        self.isolation.is_isolated()
    }

    /// The path under which a program finds what stands at `inside`: that path itself, or the
    /// host's own where there is no sandbox.
    pub fn path(&self, inside: &Utf8Path) -> Utf8PathBuf {
        if self.is_isolated() {
            return inside.to_owned();
        }
        self.binds
            .iter()
            .rev()
            .find_map(|bind| {
                let rest = inside.strip_prefix(&bind.inside).ok()?;
                Some(if rest.as_str().is_empty() {
                    bind.host.clone()
                } else {
                    bind.host.join(rest)
                })
            })
            .unwrap_or_else(|| inside.to_owned())
    }

    /// The program and arguments that run `program` inside.
    pub(crate) fn wrap(
        &self,
        program: &Utf8Path,
        args: Vec<OsString>,
        cwd: Option<&Utf8Path>,
    ) -> (Utf8PathBuf, Vec<OsString>) {
        let mut words: Vec<OsString> = Vec::new();
        if let Isolation::Bubblewrap { bwrap, .. } = &self.isolation {
            words.push(bwrap.path().as_str().into());
            words.extend(self.bubblewrap_args(cwd).into_iter().map(Into::into));
        }
        if let Some(setpriv) = self.isolation.setpriv() {
            let user = self.isolation.user().unwrap_or(BUILD_USER).to_string();
            words.push(setpriv.path().as_str().into());
            words.extend(
                [
                    "--reuid",
                    &user,
                    "--regid",
                    &user,
                    "--clear-groups",
                    "--no-new-privs",
                    // Changing the user clears what binds the program to this process's life.
                    "--pdeathsig",
                    "keep",
                ]
                .map(Into::into),
            );
            words.extend(["--inh-caps=-all", "--bounding-set=-all", "--"].map(Into::into));
        }
        if !self.is_isolated()
            && let Some(cwd) = cwd
        {
            // Outside of a sandbox the directory is set the same way, after privileges dropped.
            words.extend(["/usr/bin/env", "-C", cwd.as_str()].map(Into::into));
        }
        words.push(program.as_str().into());
        words.extend(args);
        let first = words.remove(0);
        (
            Utf8PathBuf::from(first.to_string_lossy().into_owned()),
            words,
        )
    }

    fn bubblewrap_args(&self, cwd: Option<&Utf8Path>) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        add(&[
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-uts",
        ]);
        add(&["--unshare-cgroup-try", "--die-with-parent", "--new-session"]);
        add(&["--hostname", HOST_NAME]);
        if self.isolation.setpriv().is_some() {
            add(&[
                "--cap-drop",
                "ALL",
                "--cap-add",
                "CAP_SETUID",
                "--cap-add",
                "CAP_SETGID",
            ]);
            add(&["--cap-add", "CAP_SETPCAP"]);
        } else {
            add(&["--unshare-user"]);
            if let Some(user) = self.isolation.user() {
                let user = user.to_string();
                add(&["--uid", &user, "--gid", &user]);
            }
        }
        let root = self.root.as_deref().unwrap_or(Utf8Path::new("/"));
        add(&["--ro-bind", root.join("usr").as_str(), "/usr"]);
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let (path, inside) = (root.join(name), Utf8Path::new("/").join(name));
            if path.is_symlink() {
                add(&["--symlink", &format!("usr/{name}"), inside.as_str()]);
            } else if path.is_dir() {
                add(&["--ro-bind", path.as_str(), inside.as_str()]);
            }
        }
        add(&[
            "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp",
        ]);
        let etc: &[&Utf8Path] = match self.root {
            None => &["/etc/alternatives", "/etc/ld.so.cache"].map(Utf8Path::new),
            Some(_) => &[],
        };
        // bubblewrap makes the directories above a mount point itself, closed to all but the user
        // it runs as; as root that is not the user the program runs as.
        let mut parents: Vec<&Utf8Path> = etc
            .iter()
            .copied()
            .chain(self.binds.iter().map(|bind| bind.inside.as_path()))
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|path| path.parent().is_some())
            .collect();
        parents.sort();
        parents.dedup();
        for parent in parents {
            add(&["--perms", "0755", "--dir", parent.as_str()]);
        }
        for path in etc {
            add(&["--ro-bind-try", path.as_str(), path.as_str()]);
        }
        for bind in &self.binds {
            let kind = if bind.writable { "--bind" } else { "--ro-bind" };
            add(&[kind, bind.host.as_str(), bind.inside.as_str()]);
        }
        add(&["--chdir", cwd.map_or("/", Utf8Path::as_str), "--"]);
        args
    }
}

/// The program that works on untrusted bytes in a sandbox: kiln itself, in its hidden `worker`
/// role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// This program.
    pub program: Utf8PathBuf,
}

impl Worker {
    /// Where the program stands inside the sandbox.
    const INSIDE: &'static str = "/kiln/kiln";

    /// A sandbox in which [`Worker::command`] can run.
    pub fn sandbox(&self, isolation: &Isolation) -> Sandbox {
        Sandbox::new(isolation).read_only(&self.program, Self::INSIDE)
    }

    /// `kiln worker JOB ARGS...` in `sandbox`, which [`Worker::sandbox`] made.
    pub fn command(&self, job: &str, sandbox: &Sandbox) -> Cmd {
        let tool = Tool::inside(sandbox.path(Utf8Path::new(Self::INSIDE)).as_str());
        Cmd::new(&tool).args(["worker", job]).sandbox(sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_inside_reaches_what_it_is_shown() {
        let isolation = Isolation::probe().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let host = Utf8PathBuf::from(scratch.path().to_str().unwrap());
        let shown = host.join("shown");
        crate::files::write(&shown.join("a"), b"hello").unwrap();
        let sandbox = Sandbox::new(&isolation).read_only(&shown, "/build/deep/src");
        if !sandbox.is_isolated() {
            return;
        }
        let cat = Cmd::new(&Tool::find("cat").unwrap())
            .arg("/build/deep/src/a")
            .sandbox(&sandbox);
        assert_eq!(cat.capture().unwrap(), b"hello");
        // A link of the alternatives system: readable only if the directories above it are.
        let awk = Cmd::new(&Tool::find("awk").unwrap())
            .args(["BEGIN { print 1 }"])
            .sandbox(&sandbox);
        assert_eq!(awk.capture().unwrap(), b"1\n");
    }
}
