//! `kiln runs`: what ran, how it ended, and its log.

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::{Context, Format, write_out};
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::files::{self, FileError};
use crate::pipeline::run::{self, Past, Status};
use crate::ui::{Answer, Style, Table, Tone, printable};

/// Largest log that is shown, in bytes.
const LOG_LIMIT: u64 = 256 << 20;

pub(super) static LIST: Verb = Verb {
    path: &["runs", "list"],
    summary: "List runs, newest last",
    detail: "",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[Example {
        line: "kiln runs list",
        says: "every run of this workspace, and how it ended",
    }],
    args: |command: Command| command,
    run: |context, _matches| list(context),
};

pub(super) static SHOW: Verb = Verb {
    path: &["runs", "show"],
    summary: "Show the stages of a run and what it made",
    detail: "",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[
        Example {
            line: "kiln runs show",
            says: "the newest run",
        },
        Example {
            line: "kiln runs show 20261130T1205 --format json",
            says: "the run whose id starts so",
        },
    ],
    args: |command: Command| One::augment_args(command),
    run: |context, matches| show(context, &arguments(matches)?),
};

pub(super) static LOG: Verb = Verb {
    path: &["runs", "log"],
    summary: "Print the log of a run",
    detail: "What the run did, then what its programs printed, then how it failed, if it did.",
    writes: false,
    formats: &[Format::Text],
    exits: &[],
    examples: &[Example {
        line: "kiln runs log",
        says: "the whole log of the newest run",
    }],
    args: |command: Command| One::augment_args(command),
    run: |context, matches| log(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct One {
    /// Start of the run's id; the newest run without it
    #[arg(value_name = "ID")]
    id: Option<String>,
}

fn all(context: &Context) -> Result<Vec<Past>, Failure> {
    let (past, unreadable) = run::list(&context.workspace()?.runs())?;
    for directory in unreadable {
        context.progress().warning(format!(
            "`{directory}` has no readable run.json; what it kept of its log is beside it"
        ));
    }
    Ok(past)
}

fn one(context: &Context, wanted: &One) -> Result<Past, Failure> {
    let mut past = all(context)?;
    let Some(id) = &wanted.id else {
        return past.pop().ok_or_else(|| {
            Failure::usage("there are no runs yet").hint("start one with `kiln build PIPELINE`")
        });
    };
    let mut fitting: Vec<Past> = past
        .into_iter()
        .filter(|run| run.record.id.starts_with(id))
        .collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(run), true) => Ok(run),
        (None, _) => Err(
            Failure::usage(format!("there is no run whose id starts with `{id}`"))
                .hint("see them with `kiln runs list`"),
        ),
        (Some(_), false) => Err(Failure::usage(format!(
            "more than one run's id starts with `{id}`"
        ))
        .hint("give more of the id; see them with `kiln runs list`")),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    context.answer(&List(all(context)?))?;
    Ok(Exit::Ok)
}

fn show(context: &Context, wanted: &One) -> Result<Exit, Failure> {
    let run = one(context, wanted)?;
    let outputs = run.outputs()?;
    context.answer(&Show { run, outputs })?;
    Ok(Exit::Ok)
}

fn log(context: &Context, wanted: &One) -> Result<Exit, Failure> {
    let run = one(context, wanted)?;
    show_log(&run.directory.join("log"))?;
    for path in run.logs()? {
        write_out(&format!("\n== {}\n", path.file_name().unwrap_or_default()))?;
        show_log(&path)?;
    }
    if let Some(failure) = &run.record.failure {
        write_out(&printable(&format!("\n== failed: {failure}\n")))?;
    }
    Ok(Exit::Ok)
}

/// Prints a log. Compilers and archives may have put anything into it: nothing of that moves the
/// cursor.
fn show_log(path: &Utf8Path) -> Result<(), Failure> {
    // A run writes none: it would lead to a file of somebody else's.
    if path.is_symlink() {
        let path = path.to_owned();
        return Err(FileError::NotAFile { path }.into());
    }
    let bytes = files::read(path, LOG_LIMIT)?;
    let text = printable(&String::from_utf8_lossy(&bytes));
    write_out(&text)?;
    if text.is_empty() || text.ends_with('\n') {
        Ok(())
    } else {
        write_out("\n")
    }
}

fn word(run: &Past) -> (&'static str, Tone) {
    match run.record.status {
        Status::Ok => ("ok", Tone::Good),
        Status::Running => ("running", Tone::Strong),
        Status::Failed => ("failed", Tone::Bad),
        Status::Died => ("died", Tone::Bad),
    }
}

struct List(Vec<Past>);

impl Answer for List {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new();
        for run in &self.0 {
            let (word, tone) = word(run);
            let exit = run
                .record
                .exit
                .map_or_else(String::new, |code| code.to_string());
            table.row([
                run.record.id.clone(),
                style.paint(tone, word),
                exit,
                run.record.release.clone().unwrap_or_default(),
            ]);
        }
        table.render(0)
    }

    fn json(&self) -> Value {
        json!({ "schema": "kiln.runs/1", "runs": self.0.iter().map(|run| &run.record).collect::<Vec<_>>() })
    }
}

struct Show {
    run: Past,
    outputs: Vec<Utf8PathBuf>,
}

impl Answer for Show {
    fn text(&self, style: Style) -> String {
        let record = &self.run.record;
        let (word, tone) = word(&self.run);
        let mut text = format!("{} {}\n", record.id, style.paint(tone, word));
        if let Some(release) = &record.release {
            text.push_str("  release: ");
            text.push_str(release);
            text.push('\n');
        }
        if let Some(failure) = &record.failure {
            text.push_str("  ");
            text.push_str(&failure.replace('\n', "\n  "));
            text.push('\n');
        }
        let mut table = Table::new();
        for stage in &record.stages {
            let took = stage.took_ms.map_or_else(
                || "-".to_owned(),
                |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100),
            );
            table.row([stage.stage.clone(), took, stage.note.clone()]);
        }
        text.push_str(&table.render(2));
        for doubt in &record.doubts {
            text.push_str("  not publishable: ");
            text.push_str(doubt);
            text.push('\n');
        }
        for path in &self.outputs {
            text.push_str("  made: ");
            text.push_str(path.as_str());
            text.push('\n');
        }
        text.push_str("  files: ");
        text.push_str(self.run.directory.as_str());
        text.push('\n');
        text
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.run/1",
            "directory": self.run.directory,
            "run": self.run.record,
            "outputs": self.outputs,
        })
    }
}
