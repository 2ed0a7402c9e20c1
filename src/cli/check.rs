//! `kiln check`: every file of a workspace, offline.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::pipeline::check::{self, Checked};
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["check"],
    summary: "Check every file of the workspace, offline",
    detail: "Reads pipelines, locks, channels, kiln.yaml, fragments, certificates and collateral \
             lists, and looks whether what one file names is there. Tells everything that is wrong \
             at once. Whether options survive in a real kernel is told by `kiln config check`.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[
        Example {
            line: "kiln check",
            says: "checks the workspace you are in",
        },
        Example {
            line: "kiln check pipelines/lts.yaml --format json",
            says: "checks one file and what it names, for an editor",
        },
        Example {
            line: "kiln -C /srv/kernels check",
            says: "checks another workspace",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// Check only these files, and what they name
    #[arg(value_parser = super::run::path, value_name = "FILES")]
    files: Vec<Utf8PathBuf>,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let checked = if arguments.files.is_empty() {
        check::workspace(context.start())?
    } else {
        check::only(context.start(), &arguments.files)?
    };
    let report = Report(&checked);
    context.answer(&report)?;
    if checked.findings.is_empty() {
        return Ok(Exit::Ok);
    }
    Err(Failure {
        exit: Exit::Usage,
        code: "invalid-file",
        message: report.summary(),
        causes: Vec::new(),
        hints: Vec::new(),
    })
}

struct Report<'a>(&'a Checked);

impl Report<'_> {
    fn summary(&self) -> String {
        let files = self.0.files.len();
        let wrong = self.0.findings.len();
        let plural = |n: usize, word: &str| {
            let s = if n == 1 { "" } else { "s" };
            format!("{n} {word}{s}")
        };
        format!(
            "found {} in {}",
            plural(wrong, "error"),
            plural(files, "file")
        )
    }
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        if self.0.findings.is_empty() {
            let good = style.paint(Tone::Good, "ok:");
            return format!(
                "{good} {} files are as they should be\n",
                self.0.files.len()
            );
        }
        let mut out = String::new();
        for finding in &self.0.findings {
            let place = style.paint(Tone::Strong, &finding.place());
            let message = finding.message.replace('\n', "\n    ");
            out.push_str(&place);
            out.push_str(": ");
            out.push_str(&message);
            out.push('\n');
            for hint in &finding.hints {
                out.push_str("    hint: ");
                out.push_str(hint);
                out.push('\n');
            }
        }
        out
    }

    fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .0
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "file": finding.file,
                    "line": finding.line,
                    "column": finding.column,
                    "message": finding.message,
                    "hints": finding.hints,
                })
            })
            .collect();
        json!({
            "schema": "kiln.check/1",
            "files": self.0.files,
            "findings": findings,
        })
    }
}
