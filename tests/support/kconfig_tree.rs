//! A kernel's tree with its own Kconfig programs built, the environment that its makefiles give
//! them, and the world as its Kconfig files see it.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::files::{self, Lock, Wait};
use kiln::kconfig::language::{Host, HostError};

use super::case::{Stop, fail, skip};

/// How long another run of these tests may hold the build directory.
const PATIENCE: Duration = Duration::from_mins(20);

/// Most that a configuration has, in bytes.
const TEXT_LIMIT: u64 = 16 << 20;

/// A tree whose `scripts/kconfig/conf` is built.
pub struct KconfigTree {
    /// The source.
    pub source: Utf8PathBuf,
    /// The object tree, which the makefiles run `conf` in.
    pub objects: Utf8PathBuf,
    environment: BTreeMap<String, String>,
    /// What commands of the tree have printed.
    said: Mutex<HashMap<String, Vec<u8>>>,
    /// Held as long as anyone uses the object tree.
    lock: Arc<Lock>,
}

/// What `olddefconfig` made of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Exit status; nothing where it died by a signal.
    pub status: Option<i32>,
    /// The configuration as it was left.
    pub text: String,
    /// What it printed on both outputs, the configuration called `.config`.
    pub log: String,
}

impl KconfigTree {
    /// Builds the programs of `source` in a directory of its own.
    pub fn new(source: &Utf8Path, dir: &Utf8Path) -> Result<Self, Stop> {
        for tool in ["make", "gcc", "flex", "bison"] {
            if Tool::find(tool).is_err() {
                return Err(skip(format!("{tool} is not installed")));
            }
        }
        let lock = dir.join("lock");
        let lock = Lock::acquire(&lock, "building conf", Wait::UpTo(PATIENCE), |_| ())?;
        let objects = dir.join("objects");
        files::create_dir_all(&objects)?;
        // A Kconfig file of our own, which has its environment written down.
        let dump = dir.join("environment");
        let asking = dir.join("Kconfig.environment");
        let text = format!("$(shell,env -0 >'{dump}')\nconfig NONE\n\tbool \"none\"\n");
        files::write(&asking, text.as_bytes())?;
        files::write(&objects.join(".config"), b"")?;
        make(source, &objects, &[&format!("KBUILD_KCONFIG={asking}")])?;
        let text = files::read_text(&dump, TEXT_LIMIT)?;
        let variables = text.split('\0').filter_map(|line| line.split_once('='));
        let mut environment: BTreeMap<String, String> = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        environment.remove("KBUILD_KCONFIG");
        Ok(Self {
            source: source.to_owned(),
            objects,
            environment,
            said: Mutex::default(),
            lock: Arc::new(lock),
        })
    }

    /// The same tree where the makefiles give a variable another value.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut environment = self.environment.clone();
        environment.insert(name.to_owned(), value.to_owned());
        Self {
            source: self.source.clone(),
            objects: self.objects.clone(),
            environment,
            said: Mutex::default(),
            lock: Arc::clone(&self.lock),
        }
    }

    /// A program started as the makefiles start `conf`.
    pub fn program(&self, path: &Utf8Path) -> Command {
        let mut command = Command::new(path);
        command
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.objects)
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// What `conf --TARGET` writes into an empty directory.
    pub fn target(&self, target: &str, variables: &[(&str, &str)]) -> Result<String, Stop> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("config");
        let output = self
            .program(&self.objects.join("scripts/kconfig/conf"))
            .args([&format!("--{target}"), "Kconfig"])
            .env("KCONFIG_CONFIG", &path)
            .envs(variables.iter().copied())
            .output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(fail(format!("conf --{target}: {text}")));
        }
        Ok(std::fs::read_to_string(path)?)
    }

    /// What the real `make olddefconfig` does with a configuration.
    pub fn make_olddefconfig(&self, config: &str) -> Result<Answer, Stop> {
        let path = self.objects.join(".config");
        files::write(&path, config.as_bytes())?;
        let log = make(&self.source, &self.objects, &[])?;
        Ok(Answer {
            status: Some(0),
            text: files::read_text(&path, TEXT_LIMIT)?,
            log,
        })
    }
}

/// `make olddefconfig`, and what it printed.
fn make(source: &Utf8Path, objects: &Utf8Path, arguments: &[&str]) -> Result<String, Stop> {
    let log = objects.join("make.log");
    files::remove_file(&log)?;
    Cmd::new(&Tool::find("make")?)
        .args(["-s", "--no-print-directory", "-C", source.as_str()])
        .arg(format!("O={objects}"))
        .arg("ARCH=x86_64")
        .args(arguments.iter().copied())
        .arg("olddefconfig")
        .env("KCONFIG_WARN_UNKNOWN_SYMBOLS", "1")
        .log(&log)
        .run()?;
    Ok(files::read_text(&log, TEXT_LIMIT)?)
}

/// The tree without a sandbox: its source is as trusted as the distribution that packs it.
impl Host for KconfigTree {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        for place in [self.objects.join(path), self.source.join(path)] {
            match std::fs::read_to_string(place) {
                Ok(text) => return Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(HostError(Box::new(error))),
            }
        }
        Ok(None)
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = said.get(command) {
            return Ok(known.clone());
        }
        let output = self
            .program("/bin/sh".into())
            .args(["-c", command])
            .output()
            .map_err(|error| HostError(Box::new(error)))?;
        said.insert(command.to_owned(), output.stdout.clone());
        Ok(output.stdout)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }
}
