//! `kiln config`: what a kernel is configured to be.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::dotconfig::{self, Change, DotConfig};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::kconfig;
use crate::kernel::Series;
use crate::pipeline::check_config::ConfigCheck;
use crate::pipeline::draft::DraftError;
use crate::ui::{Answer, Guarded, Style, Text};

/// What can go wrong before a configuration is judged.
const EXITS: &[Exit] = &[
    Exit::NotVerified,
    Exit::Guard,
    Exit::Build,
    Exit::MissingTools,
    Exit::Network,
    Exit::NotPublished,
    Exit::Locked,
    Exit::NoSpace,
];

pub(super) static CHECK: Verb = Verb {
    path: &["config", "check"],
    summary: "Let the guard judge a pipeline's configuration, without compiling",
    detail: "Lays the fragments over the base config, runs the kernel's own `olddefconfig`, and \
             compares what was asked with what came out: requests, collateral, drift. Uses the \
             locked source and base, and the fragments as they are now, without writing a lock for \
             them. A pipeline that has no lock yet is resolved first. The report, the merged and the resolved config \
             and the changes against the base alone are kept as files.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: EXITS,
    examples: &[
        Example {
            line: "kiln config check lts",
            says: "tells which options survive, which do not, and why",
        },
        Example {
            line: "kiln config check lts -v --output /tmp/lts",
            says: "shows all of it, and keeps the files there",
        },
        Example {
            line: "kiln config check lts --format json",
            says: "the whole report, and every change against the base alone",
        },
    ],
    args: CheckArguments::augment_args,
    run: |context, matches| check(context, &arguments(matches)?),
};

pub(super) static EDIT: Verb = Verb {
    path: &["config", "edit"],
    summary: "Change a configuration in menuconfig and keep the change as a fragment",
    detail: "Starts the kernel's own `menuconfig` on the resolved config. What you change there and \
             save becomes a new fragment; add its name to the pipeline's fragments, and the guard \
             judges it from then on.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: EXITS,
    examples: &[
        Example {
            line: "kiln config edit lts",
            says: "writes config-fragments/lts-edit.config",
        },
        Example {
            line: "kiln config edit lts --into storage",
            says: "writes config-fragments/storage.config",
        },
    ],
    args: EditArguments::augment_args,
    run: |context, matches| edit(context, &arguments(matches)?),
};

pub(super) static EXPORT: Verb = Verb {
    path: &["config", "export"],
    summary: "Print what a pipeline asks for as one plain fragment",
    detail: "For the kernel's own tools, such as scripts/kconfig/merge_config.sh: the lines that a \
             series gets, in the order of merging, without kiln's directives.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[Exit::Guard],
    examples: &[
        Example {
            line: "kiln config export lts > lts.config",
            says: "for the series that the pipeline follows",
        },
        Example {
            line: "kiln config export lts --series 7.2",
            says: "for another series",
        },
    ],
    args: ExportArguments::augment_args,
    run: |context, matches| export(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct CheckArguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// Keep report and configs in this directory
    #[arg(long, value_name = "DIR")]
    output: Option<Utf8PathBuf>,
}

#[derive(Debug, Args)]
struct EditArguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// Name of the new fragment
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
}

#[derive(Debug, Args)]
struct ExportArguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// The series whose lines are wanted
    #[arg(long, value_name = "SERIES")]
    series: Option<Series>,
}

fn check(context: &Context, arguments: &CheckArguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let output = arguments
        .output
        .as_ref()
        .map(|dir| context.start().join(dir));
    let checked = session.check_config(&pipeline, output.as_deref())?;
    let changes = checked.base_alone.diff(checked.report.config());
    let path = checked.directory.join("changes.diff");
    files::write(&path, diff(&changes).as_bytes())?;
    let answer = Checked {
        guarded: Guarded {
            pipeline: &checked.pipeline,
            report: &checked.report,
            verbose: context.verbose(),
        },
        outcome: &checked,
        changes: &changes,
    };
    context.answer(&answer)?;
    if checked.report.passes() {
        return Ok(Exit::Ok);
    }
    let blocking = checked.report.blocking().count();
    Err(Failure {
        exit: Exit::Guard,
        code: "guard-failed",
        message: format!("the configuration is not what was asked: {blocking} findings block"),
        causes: Vec::new(),
        hints: vec![
            "change the fragment's line, mark it as `optional` or `waive`, or accept collateral in \
             the pipeline's collateral list"
                .to_owned(),
        ],
    })
}

/// The changes as `-` and `+` lines.
fn diff(changes: &[Change]) -> String {
    let mut out = String::from("--- the base alone\n+++ resolved\n");
    for Change { symbol, from, to } in changes {
        for (mark, value) in [('-', from), ('+', to)] {
            if let Some(value) = value {
                out.push(mark);
                out.push_str(&dotconfig::line(symbol, value));
                out.push('\n');
            }
        }
    }
    out
}

/// The guard's answer, and where the files are.
struct Checked<'a> {
    guarded: Guarded<'a>,
    outcome: &'a ConfigCheck,
    changes: &'a [Change],
}

impl Answer for Checked<'_> {
    fn text(&self, style: Style) -> String {
        format!(
            "{}  {} symbols differ from the base alone\n  report, configs and changes: {}\n",
            self.guarded.text(style),
            self.changes.len(),
            self.outcome.directory
        )
    }

    fn json(&self) -> Value {
        let mut document = self.guarded.json();
        document["changes"] = json!(self.changes);
        document["directory"] = json!(self.outcome.directory);
        document["release"] = json!(self.outcome.lock.inputs.version);
        document
    }
}

fn export(context: &Context, arguments: &ExportArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let pipeline = workspace.pipeline(&arguments.pipeline)?;
    let fragments = workspace.fragments_of(&pipeline)?;
    let series = arguments.series.unwrap_or(pipeline.spec.series.value);
    let merged = kconfig::merge(&DotConfig::parse(""), &fragments, &[], series)?;
    let files: Vec<&str> = fragments.iter().map(|f| &*f.file).collect();
    context.answer(&Text {
        schema: "kiln.config-export/1",
        text: format!(
            "# What {} asks for on {series}, from {}.\n{}",
            pipeline.name(),
            files.join(", "),
            merged.text()
        ),
    })?;
    Ok(Exit::Ok)
}

fn edit(context: &Context, arguments: &EditArguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let name = match &arguments.into {
        Some(name) => name.clone(),
        None => format!("{}-edit", pipeline.name()),
    };
    let path = work.workspace.fragment_path(&name);
    // Told before the evening's work, not after it.
    if path.exists() {
        return Err(DraftError::Exists { path }.into());
    }
    let Some(draft) = session.edit_config(&pipeline)? else {
        context.answer(&Edited { written: None })?;
        return Ok(Exit::Ok);
    };
    files::write(&path, draft.text.as_bytes())?;
    context.answer(&Edited {
        written: Some((work.workspace.shown(&path), name, draft.asked)),
    })?;
    Ok(Exit::Ok)
}

/// What `config edit` left behind: file, name and number of lines.
struct Edited {
    written: Option<(String, String, usize)>,
}

impl Answer for Edited {
    fn text(&self, _style: Style) -> String {
        match &self.written {
            None => "nothing was changed\n".to_owned(),
            Some((file, name, lines)) => format!(
                "wrote {lines} lines into {file}\nadd `{name}` to the pipeline's fragments to build \
                 with it\n"
            ),
        }
    }

    fn json(&self) -> Value {
        let (file, lines) = match &self.written {
            None => (Value::Null, 0),
            Some((file, _, lines)) => (json!(file), *lines),
        };
        json!({ "schema": "kiln.config-edit/1", "fragment": file, "lines": lines })
    }
}
