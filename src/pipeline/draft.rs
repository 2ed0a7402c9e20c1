//! Fragments out of configurations: from a file that exists, or from an evening with `menuconfig`.

use camino::{Utf8Path, Utf8PathBuf};

use super::answers::Asked;
use super::check_config::Trial;
use super::session::Session;
use super::workspace::Loaded;
use crate::command::CommandError;
use crate::dotconfig::{Change, DotConfig, ProblemKind};
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::interrupt::Interrupted;
use crate::kconfig::{Derived, derive};

/// Largest configuration that is read, in bytes; the longest of a distribution has 300 kB.
const LIMIT: u64 = 4 << 20;

/// Most rounds of asking for what the last round brought up: chains of defaults are short.
const ROUNDS: usize = 12;

/// What `menuconfig` is compiled against.
const CURSES: &str = "/usr/include/ncurses.h";

/// Why no fragment came out.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The configuration editor cannot be compiled.
    #[error("`make menuconfig` needs {CURSES}, which is missing")]
    NoCurses,
    /// The configuration editor failed.
    #[error("`make menuconfig` ended with {code}")]
    Editor {
        /// Its exit code.
        code: i32,
    },
    /// A fragment would be lost.
    #[error("`{path}` exists already")]
    Exists {
        /// The fragment's file.
        path: Utf8PathBuf,
    },
}

/// A configuration to be reached must be one, line by line: what the kernel's reader would skip or
/// misread can be no request.
fn check_form(config: &DotConfig, shown: &str) -> Result<(), Failure> {
    let wrong = config.problems().into_iter().find_map(|problem| {
        let what = match problem.kind {
            ProblemKind::Unexpected => "expected an assignment, a comment or nothing".to_owned(),
            ProblemKind::Loose { symbol, value } => format!(
                "CONFIG_{symbol} has the value `{value}`: expected y, m, n, a number or one quoted string"
            ),
            ProblemKind::Duplicate { .. } => return None,
        };
        Some(format!("{shown}:{}:{}: {what}", problem.line, problem.column))
    });
    match wrong {
        Some(wrong) => Err(Failure::usage(wrong)),
        None if config.symbols().next().is_none() => Err(Failure::usage(format!(
            "{shown} is no configuration: expected lines like CONFIG_X=y, found none"
        ))),
        None => Ok(()),
    }
}

impl Diagnose for DraftError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoCurses => Exit::MissingTools,
            Self::Editor { .. } => Exit::Build,
            Self::Exists { .. } => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoCurses => "tool-missing",
            Self::Editor { .. } => "editor-failed",
            Self::Exists { .. } => "fragment-exists",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoCurses => {
                vec!["as root, run `kiln doctor --for edit --install`".to_owned()]
            }
            Self::Editor { .. } => vec!["its own words stand above".to_owned()],
            Self::Exists { .. } => vec!["name another fragment with `--into NAME`".to_owned()],
        }
    }
}

/// A fragment that was derived, and how far it reaches.
#[derive(Debug)]
pub struct Draft {
    /// The fragment's text.
    pub text: String,
    /// How many lines ask for something.
    pub asked: usize,
    /// What still differs from the wanted configuration when the base gets this fragment.
    pub remaining: Vec<Change>,
}

impl Session<'_> {
    /// The fragment that brings the base of a pipeline to `wanted`, and what it cannot bring.
    pub fn fragment_from(
        &self,
        pipeline: &Loaded,
        wanted: &Utf8Path,
        shown: &str,
    ) -> Result<Draft, Failure> {
        let wanted = DotConfig::parse(files::read_text(wanted, LIMIT)?);
        check_form(&wanted, shown)?;
        let trial = self.trial(pipeline, "fragment from", Asked::Both)?;
        let tried = &trial.configured;
        let series = trial.lock.inputs.version.series;
        let header = format!(
            "From {shown}, against the base of {} on {series}.",
            pipeline.name()
        );
        let symbols = tried.symbols();
        let mut derived = derive(&tried.base_alone, &wanted, symbols);
        // Tried before it is offered: the base with these lines, through the same tree. What a
        // line makes visible may come up with a default that is not wanted, and is asked for next.
        for _ in 0..ROUNDS {
            let text = derived.text(&header, &[]);
            let merged = format!("{}\n{text}", tried.base_alone.text());
            let result = DotConfig::parse(tried.kbuild.olddefconfig(&merged)?.text);
            let more = derive(&result, &wanted, symbols);
            if !derived.extend(more, &wanted) {
                return Ok(Draft {
                    asked: derived.lines.len(),
                    remaining: result.diff(&wanted),
                    text,
                });
            }
        }
        Err(Failure::unexpected(format!(
            "{shown} was not reached in {ROUNDS} rounds, each of which asked for more"
        )))
    }

    /// Lets a person change the configuration of a pipeline, and derives what was changed.
    pub fn edit_config(&self, pipeline: &Loaded) -> Result<Option<Draft>, Failure> {
        if !Utf8Path::new(CURSES).exists() {
            return Err(DraftError::NoCurses.into());
        }
        let trial = self.trial(pipeline, "config edit", Asked::Both)?;
        let before = trial.configured.report.config();
        let after = edited(&trial)?;
        let derived: Derived = derive(before, &after, trial.configured.symbols());
        if derived.lines.is_empty() {
            return Ok(None);
        }
        let series = trial.lock.inputs.version.series;
        let header = format!("Changed by hand in {} on {series}.", pipeline.name());
        Ok(Some(Draft {
            text: derived.text(&header, &trial.configured.merged.requests),
            asked: derived.lines.len(),
            remaining: Vec::new(),
        }))
    }
}

/// The configuration that a person leaves behind.
fn edited(trial: &Trial) -> Result<DotConfig, Failure> {
    let kbuild = &trial.configured.kbuild;
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    let code = kbuild
        .make(["menuconfig"])?
        .env("TERM", terminal)
        .interactive()
        .map_err(|error: CommandError| Failure::from(error))?;
    // make's own answer to Ctrl-C.
    if code == i32::from(Exit::Interrupted.code()) {
        return Err(Interrupted::Terminal.into());
    }
    if code != 0 {
        return Err(DraftError::Editor { code }.into());
    }
    let text = files::read_text(&kbuild.tree().join(".config"), LIMIT)?;
    Ok(DotConfig::parse(text))
}
