//! `kiln config`: what a kernel is configured to be.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{BUILDING, Example, TEXT_AND_JSON, Verb, WITH_ANNOTATIONS};
use super::work::Work;
use crate::dotconfig;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::kconfig::{self, Changed, Class};
use crate::kernel::Series;
use crate::pipeline::answers::Asked;
use crate::pipeline::check_config::ConfigCheck;
use crate::pipeline::draft::DraftError;
use crate::spec::kinds;
use crate::ui::{Answer, Guarded, Judged, Style, Text, printable};

pub(super) static CHECK: Verb = Verb {
    path: &["config", "check"],
    summary: "Let the guard judge a pipeline's configuration, without compiling",
    detail: "Lays the fragments over the base config, resolves both by kiln's own reading of the \
             kernel's Kconfig files, and compares what was asked with what came out: requests, \
             collateral, drift. Needs neither make nor flex nor bison; with `--prove` the kernel's \
             own `olddefconfig` is asked too, as every build does, and wins where it differs. Uses \
             the locked source and base, and the fragments as they are now; no lock is written for \
             them, so trying a line costs nothing. The report, the merged and the resolved config \
             and the changes against the base alone are kept as files.",
    writes: true,
    formats: WITH_ANNOTATIONS,
    exits: BUILDING,
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
        Example {
            line: "kiln config check lts --prove",
            says: "asks the kernel's own olddefconfig too, and tells any difference",
        },
        Example {
            line: "kiln config check lts --format github",
            says: "in CI: what blocks, shown at the line that asked",
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
    exits: BUILDING,
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
             series gets, in the order of merging, with place and reason as comments.",
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
    #[arg(value_parser = super::run::path, long, value_name = "DIR")]
    output: Option<Utf8PathBuf>,

    /// Ask the kernel's own `olddefconfig` too, and compare
    #[arg(long)]
    prove: bool,
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
    let asked = if arguments.prove {
        Asked::Both
    } else {
        Asked::Engine
    };
    let checked = session.check_config(&pipeline, output.as_deref(), asked)?;
    let path = checked.directory.join("changes.diff");
    files::write(&path, diff(&checked).as_bytes())?;
    let answer = Checked {
        guarded: Guarded {
            pipeline: &checked.pipeline,
            report: &checked.report,
            verbose: context.verbose(),
        },
        outcome: &checked,
    };
    context.annotate(Some(&Judged {
        pipeline: &checked.pipeline,
        file: &pipeline.file,
        prefix: &work.prefix(),
        report: &checked.report,
    }))?;
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

/// The changes as `-` and `+` lines, by whose doing they are.
fn diff(checked: &ConfigCheck) -> String {
    let mut lines = vec!["--- the base alone".to_owned(), "+++ resolved".to_owned()];
    for (class, heading) in CLASSES {
        let changes = checked.report.changes.iter();
        let mut changes = changes.filter(|change| change.class == class).peekable();
        if changes.peek().is_some() {
            lines.push(format!("@@ {heading} @@"));
        }
        for Changed { symbol, .. } in changes {
            let before = checked.base_alone.value(symbol);
            let after = checked.report.config().value(symbol);
            for (mark, value) in [('-', before), ('+', after)] {
                lines
                    .extend(value.map(|value| format!("{mark}{}", dotconfig::line(symbol, value))));
            }
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Whose doing a change is, in words.
const CLASSES: [(Class, &str); 3] = [
    (Class::Asked, "asked for"),
    (Class::Derived, "derived from that"),
    (Class::Beside, "beside that"),
];

/// The guard's answer, and where the files are.
struct Checked<'a> {
    guarded: Guarded<'a>,
    outcome: &'a ConfigCheck,
}

impl Answer for Checked<'_> {
    fn text(&self, style: Style) -> String {
        let changes = &self.outcome.report.changes;
        let counts = CLASSES.map(|(class, words)| {
            let count = changes.iter().filter(|change| change.class == class);
            format!("{} {words}", count.count())
        });
        let mut text = format!(
            "{}  {} symbols differ from the base alone: {}\n  resolved by {}\n",
            self.guarded.text(style),
            changes.len(),
            counts.join(", "),
            self.outcome.by,
        );
        for difference in self.outcome.by.differences() {
            text.push_str(&format_args!("    {difference}\n").to_string());
        }
        let directory = &self.outcome.directory;
        text + &format!("  report, configs and changes: {directory}\n")
    }

    fn json(&self) -> Value {
        let mut document = self.guarded.json();
        document["changes"] = json!(self.outcome.report.changes);
        document["directory"] = json!(self.outcome.directory);
        document["resolved_by"] = json!(self.outcome.by.word());
        document["differences"] = json!(self.outcome.by.differences());
        document["release"] = json!(self.outcome.lock.inputs.version);
        document
    }
}

fn export(context: &Context, arguments: &ExportArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let pipeline = workspace.pipeline(&arguments.pipeline)?;
    let fragments = workspace.fragments_of(&pipeline)?;
    let series = arguments.series.unwrap_or(pipeline.spec.series.value);
    context.answer(&Text {
        schema: "kiln.config-export/1",
        text: kconfig::export(&fragments, series)?,
    })?;
    Ok(Exit::Ok)
}

fn edit(context: &Context, arguments: &EditArguments) -> Result<Exit, Failure> {
    if !context.is_interactive() {
        return Err(
            Failure::usage("`kiln config edit` needs a terminal for menuconfig").hint(
                "write the lines into a fragment with an editor, then run `kiln config check`",
            ),
        );
    }
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let name = match &arguments.into {
        Some(name) => name.clone(),
        None => format!("{}-edit", pipeline.name()),
    };
    // Told before the evening's work, not after it.
    if !(kinds::FRAGMENT.accepts)(&name) || name.contains('/') {
        return Err(Failure::usage(format!(
            "`{}` is no name for a fragment: expected letters, digits, `_`, `-` and `.`, without \
             `.config`",
            printable(&name)
        )));
    }
    let path = work.workspace.fragment_path(&name);
    if path.symlink_metadata().is_ok() {
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
