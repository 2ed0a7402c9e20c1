//! What Kconfig files ask of the world, answered without make: files of the tree, the environment
//! that its makefile would give, and the output of `$(shell)` texts.
//!
//! A probe is the tree's own text, run by `/bin/sh` where and as `conf` would run it: in the build's
//! sandbox, in the object tree (`cc-option` makes a directory there), with the variables that the
//! makefile exports. What was answered before is not run again as long as nothing that it depends
//! on has changed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::make::Kbuild;
use super::probe_cache::Cache;
use super::probe_environment::Derived;
use super::probe_reach::Reach;
use crate::command::{CommandError, Tool};
use crate::failure::{Diagnose, Exit, in_one_line};
use crate::files::{self, FileError};

/// Largest Kconfig file or makefile that is read, in bytes: 6.12's largest has 90 KiB.
pub(super) const TEXT_LIMIT: u64 = 8 << 20;

/// Longest that one probe may take; a compiler needs 20 ms on a quiet machine.
const DEADLINE: Duration = Duration::from_mins(5);

/// Runs the text and then says that it came to its end: a sandbox that failed looks like a probe
/// that answered `n` otherwise. Neither the status of the text nor its standard error counts.
const TO_THE_END: &str = r#"/bin/sh -c "$1"; printf '\n%s' "$2""#;

/// What stands at the end of the output of a probe that was run.
const END: &str = "-- end of probe --";

/// Why a tree's Kconfig files cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A file of the tree, the cache or a tool could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The shell, or the sandbox around it, failed.
    #[error("cannot run the probe `{command}` of the kernel tree")]
    Command {
        /// The text.
        command: String,
        /// What happened.
        #[source]
        source: Box<CommandError>,
    },
    /// The shell did not come to its end.
    #[error("the probe `{command}` of the kernel tree was cut off")]
    Cut {
        /// The text.
        command: String,
    },
    /// The tree's makefile does not say what the kernel's makefiles say.
    #[error("{file}: no line `{wanted}`, so the environment of Kconfig files is unknown")]
    Makefile {
        /// The makefile.
        file: Utf8PathBuf,
        /// What is missing.
        wanted: String,
    },
    /// A variable that the makefile exports, and that only make can compute.
    #[error("{asked_by} reads `{name}`, which the tree's makefile computes in its own way")]
    Underived {
        /// The variable.
        name: String,
        /// The file or command that reads it.
        asked_by: String,
    },
}

impl Diagnose for ProbeError {
    fn exit(&self) -> Exit {
        match self {
            Self::File(error) => error.exit(),
            Self::Command { source, .. } => match source.exit() {
                Exit::Unexpected => Exit::Build,
                other => other,
            },
            Self::Cut { .. } | Self::Makefile { .. } | Self::Underived { .. } => Exit::Build,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::File(error) => error.code(),
            Self::Command { source, .. } if source.exit() == Exit::Unexpected => "probe-failed",
            Self::Command { source, .. } => source.code(),
            Self::Cut { .. } => "probe-cut",
            Self::Makefile { .. } => "probe-makefile",
            Self::Underived { .. } => "probe-underived",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(error) => error.hints(),
            Self::Command { source, .. } => source.hints(),
            _ => Vec::new(),
        }
    }
}

/// How many probes there were, and what became of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probes {
    /// How many different texts were asked.
    pub asked: usize,
    /// How many of them were run; the others were known.
    pub run: usize,
    /// Why the cache's file was not believed.
    pub ignored: Option<String>,
    /// Why what was learnt could not be kept for the next time.
    pub unkept: Option<String>,
}

/// Answers for one tree.
#[derive(Debug)]
pub struct Prober<'k> {
    kbuild: &'k Kbuild,
    derived: Derived,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    reach: Reach,
    cache: Cache,
    /// What was answered to this process.
    answers: HashMap<String, Vec<u8>>,
    run: usize,
    /// A variable that was asked for and cannot be derived.
    underived: Option<String>,
}

impl<'k> Prober<'k> {
    /// Derives the environment of a tree. Answers are taken from the file `cache`, if any.
    pub fn new(kbuild: &'k Kbuild, cache: Option<&Utf8Path>) -> Result<Self, ProbeError> {
        let derived = Derived::of(kbuild)?;
        let mut prober = Self {
            kbuild,
            state: RefCell::new(State {
                reach: Reach::new(kbuild),
                cache: cache.map(Cache::load).unwrap_or_default(),
                answers: HashMap::new(),
                run: 0,
                underived: None,
            }),
            derived,
        };
        for asked in std::mem::take(&mut prober.derived.asked) {
            let output = prober.shell(&asked.command)?;
            prober.derived.answer(&asked, &output);
        }
        Ok(prober)
    }

    /// The text of a file that Kconfig files name: below the tree, by whatever name `conf` would
    /// find it there.
    pub fn read(&self, path: &str) -> Result<Option<String>, ProbeError> {
        let path = Utf8Path::new(path);
        let below = if path.is_absolute() {
            match path.strip_prefix(self.kbuild.source_inside()) {
                Ok(below) => below,
                Err(_) => return Ok(None),
            }
        } else {
            path
        };
        if below.components().any(|part| part.as_str() == "..") {
            return Ok(None);
        }
        let file = self.kbuild.source().join(below);
        if !file.is_file() {
            return Ok(None);
        }
        let bytes = files::read(&file, TEXT_LIMIT)?;
        // What is not text stands in comments and help at most.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(Some(text))
    }

    /// A variable as the tree's makefile gives it to `conf`.
    pub fn env(&self, name: &str) -> Option<String> {
        let value = self.derived.get(name);
        if value.is_none() && self.derived.is_underived(name) {
            self.state.borrow_mut().underived = Some(name.to_owned());
        }
        value.map(str::to_owned)
    }

    /// Whether the tree's makefile gives a variable a value that only make can compute.
    pub fn refuses(&self, name: &str) -> bool {
        self.derived.is_underived(name)
    }

    /// The variables as the tree's makefile gives them to `conf`, as far as Kconfig files can see
    /// them.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        self.derived.vars()
    }

    /// The standard output of a `$(shell)` text.
    pub fn shell(&self, command: &str) -> Result<Vec<u8>, ProbeError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(known) = state.answers.get(command) {
            return Ok(known.clone());
        }
        let key = state.reach.key(command, &self.derived)?;
        let output = if let Some(known) = state.cache.get(&key) {
            known.as_bytes().to_vec()
        } else {
            state.run += 1;
            let output = self.run(command)?;
            state.cache.put(key, command, &output);
            output
        };
        state.answers.insert(command.to_owned(), output.clone());
        Ok(output)
    }

    /// Keeps what was learnt, and tells how much that was.
    ///
    /// # Errors
    /// Where a Kconfig file asked for a variable that is not known: nothing of what was read then
    /// may be believed.
    pub fn finish(self) -> Result<Probes, ProbeError> {
        let state = self.state.into_inner();
        if let Some(name) = state.underived {
            let asked_by = "a Kconfig file".to_owned();
            return Err(ProbeError::Underived { name, asked_by });
        }
        let ignored = state.cache.ignored().map(str::to_owned);
        // Only time is lost with it: what was answered holds.
        let unkept = state.cache.keep().err().map(|error| in_one_line(&error));
        Ok(Probes {
            asked: state.answers.len(),
            run: state.run,
            ignored,
            unkept,
        })
    }

    fn run(&self, command: &str) -> Result<Vec<u8>, ProbeError> {
        let mut output = self
            .kbuild
            .program(&Tool::inside("/bin/sh"))
            .without_env("LC_ALL")
            .envs(self.derived.vars())
            .args(["-c", TO_THE_END, "sh", command, END])
            .deadline(DEADLINE)
            .capture()
            .map_err(|source| ProbeError::Command {
                command: command.to_owned(),
                source: Box::new(source),
            })?;
        let end = format!("\n{END}");
        if !output.ends_with(end.as_bytes()) {
            let command = command.to_owned();
            return Err(ProbeError::Cut { command });
        }
        output.truncate(output.len() - end.len());
        Ok(output)
    }
}
