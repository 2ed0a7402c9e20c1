//! What every verb is given: the global flags, the way to answer, and the way to report progress.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::closed;
use crate::failure::{Exit, Failure};
use crate::pipeline::workspace::Workspace;
use crate::progress::Progress;
use crate::sandbox::Isolation;
use crate::ui::progress::{Level, Reporter};
use crate::ui::{Answer, Form, Judged, Style, printable};

/// How a verb answers on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For machines: exactly one document, also on failure.
    Json,
    /// Annotations of GitHub Actions.
    Github,
    /// A code quality report of GitLab.
    Gitlab,
    /// `JUnit` XML.
    Junit,
}

impl Format {
    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Junit => "junit",
        }
    }

    /// The form of annotations that it stands for.
    pub fn form(self) -> Option<Form> {
        match self {
            Self::Text | Self::Json => None,
            Self::Github => Some(Form::Github),
            Self::Gitlab => Some(Form::Gitlab),
            Self::Junit => Some(Form::Junit),
        }
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Flags of every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// The workspace, or a directory inside it
    #[arg(value_parser = super::run::path, short = 'C', long, global = true, value_name = "DIR")]
    pub(super) directory: Option<Utf8PathBuf>,

    /// How to answer on stdout: text, or json (exactly one document); `config check` and `build`
    /// also github, gitlab and junit (annotations at the lines of fragments)
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    pub(super) format: Format,

    /// Say only what is wrong
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,

    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(super) verbose: bool,

    /// When to colour: auto, always or never
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = Colour::Auto,
        value_name = "WHEN",
        hide_possible_values = true
    )]
    pub(super) color: Colour,

    /// Use no network: only what the store and the workspace hold
    #[arg(long, global = true)]
    pub(super) offline: bool,

    /// Answer yes where a verb asks
    #[arg(short, long, global = true)]
    pub(super) yes: bool,
}

/// What every verb is given.
#[derive(Debug)]
pub struct Context {
    start: Utf8PathBuf,
    start_is_given: bool,
    format: Format,
    quiet: bool,
    verbose: bool,
    offline: bool,
    yes: bool,
    out: Style,
    err: Style,
    reporter: Arc<Reporter>,
    document: RefCell<Option<Value>>,
    isolation: Cell<Option<&'static str>>,
}

impl Context {
    pub(super) fn new(global: &Global) -> Result<Self, Failure> {
        let here = std::env::current_dir()
            .ok()
            .and_then(|path| Utf8PathBuf::from_path_buf(path).ok())
            .ok_or_else(|| {
                Failure::usage("the current directory is gone, or its name is not UTF-8")
            })?;
        let style = |automatic| match global.color {
            Colour::Auto => automatic,
            Colour::Always => Style::COLOURED,
            Colour::Never => Style::PLAIN,
        };
        let err = style(Style::auto(&io::stderr()));
        let level = if global.quiet {
            Level::Quiet
        } else {
            Level::Normal
        };
        let start = match &global.directory {
            Some(directory) if !here.join(directory).is_dir() => {
                return Err(Failure::usage(format!(
                    "`-C {directory}`: no such directory"
                )));
            }
            Some(directory) => here.join(directory),
            None => here,
        };
        Ok(Self {
            start,
            start_is_given: global.directory.is_some(),
            format: global.format,
            quiet: global.quiet,
            verbose: global.verbose,
            offline: global.offline,
            yes: global.yes,
            out: style(Style::auto(&io::stdout())),
            err,
            reporter: Arc::new(Reporter::new(level, err, io::stderr().is_terminal())),
            document: RefCell::new(None),
            isolation: Cell::new(None),
        })
    }

    /// The directory that relative paths of the command line start at.
    pub fn start(&self) -> &Utf8Path {
        &self.start
    }

    /// Whether the command line says where to start.
    pub fn start_is_given(&self) -> bool {
        self.start_is_given
    }

    /// The workspace around the start directory.
    ///
    /// # Errors
    /// Fails where there is none, or its `kiln.yaml` is wrong.
    pub fn workspace(&self) -> Result<Workspace, Failure> {
        Ok(Workspace::find(&self.start)?)
    }

    /// What foreign bytes are worked on in, for the answer as JSON: `bubblewrap`, or `none` where no
    /// sandbox can be had.
    pub(super) fn works_in(&self, isolation: &Isolation) {
        let isolated = isolation.is_isolated();
        self.isolation
            .set(Some(if isolated { "bubblewrap" } else { "none" }));
    }

    /// Where progress is reported.
    pub fn progress(&self) -> &dyn Progress {
        &*self.reporter
    }

    /// Where progress is reported, to be kept by other threads.
    pub fn shared_progress(&self) -> Arc<dyn Progress> {
        Arc::clone(&self.reporter) as Arc<dyn Progress>
    }

    /// The format of the answer.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether only what is wrong is to be said.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether more is to be said.
    pub fn verbose(&self) -> bool {
        self.verbose
    }

    /// Whether the network is off limits.
    pub fn offline(&self) -> bool {
        self.offline
    }

    /// How errors are styled.
    pub fn error_style(&self) -> Style {
        self.err
    }

    /// Answers. As text the answer is written at once; as JSON it becomes the one document, which
    /// is written when the verb ends, together with its failure if it fails after all.
    ///
    /// # Errors
    /// Fails where stdout cannot be written.
    pub fn answer(&self, answer: &dyn Answer) -> Result<(), Failure> {
        match self.format {
            Format::Text => {
                self.reporter.clear();
                write_out(&printable(&answer.text(self.out)))
            }
            Format::Json => {
                let mut document = answer.json();
                if let Some(isolation) = self.isolation.get() {
                    document["isolation"] = isolation.into();
                }
                *self.document.borrow_mut() = Some(document);
                Ok(())
            }
            // What these carry are findings, and those are written by `annotate`.
            Format::Github | Format::Gitlab | Format::Junit => Ok(()),
        }
    }

    /// Writes the guard's findings where the format is one of annotations; `None` where nothing was
    /// judged.
    ///
    /// # Errors
    /// Fails where stdout cannot be written.
    pub fn annotate(&self, judged: Option<&Judged<'_>>) -> Result<(), Failure> {
        let Some(form) = self.format.form() else {
            return Ok(());
        };
        self.reporter.clear();
        let text = judged.map_or_else(|| form.empty().to_owned(), |j| j.annotations(form));
        write_out(&printable(&text))
    }

    /// The JSON document so far.
    pub(super) fn document(&self) -> Option<Value> {
        self.document.borrow().clone()
    }

    /// Takes away the progress bar.
    pub(super) fn quiet_down(&self) {
        self.reporter.clear();
    }

    /// Whether a person sits at a terminal on both ends.
    pub fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Whether the user agrees: by `--yes`, or when asked on a terminal. Anything but yes is no.
    pub fn agreed(&self, question: &str) -> bool {
        if self.yes {
            return true;
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return false;
        }
        self.reporter.clear();
        let mut err = io::stderr().lock();
        if write!(err, "{question} [y/N] ")
            .and_then(|()| err.flush())
            .is_err()
        {
            return false;
        }
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line).is_ok();
        read && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }
}

/// Writes to stdout. A reader that went away (`kiln ... | head`) is no failure.
pub(super) fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of something that was written to stdout.
pub(super) fn written(result: io::Result<()>) -> Result<(), Failure> {
    let cause = match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => error.to_string(),
        _ if closed::stdout_was_closed() => "it is closed".to_owned(),
        _ => return Ok(()),
    };
    Err(Failure {
        exit: Exit::Unexpected,
        code: "stdout",
        message: "failed to write the answer to stdout".to_owned(),
        causes: vec![cause],
        hints: Vec::new(),
    })
}
