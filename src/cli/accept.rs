//! `kiln config accept`: what blocks as collateral, into the pipeline's list, for review.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{BUILDING, Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::pipeline::accept::Accepted;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["config", "accept"],
    summary: "Write what a configuration loses beside the requests into its collateral list",
    detail: "Judges the configuration as `config check` does. What blocks because it was lost, or \
             changed a security option, beside what was asked becomes rows at the end of the \
             pipeline's collateral list: the symbols, and the request that costs them. The reason \
             is left empty, and the list is refused until a person has written it. Rows and \
             comments that are there stay as they are.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: BUILDING,
    examples: &[
        Example {
            line: "kiln config accept lts",
            says: "adds rows to collateral/lts.yaml, each waiting for its `why`",
        },
        Example {
            line: "kiln config accept lts --format json",
            says: "the rows as data",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let accepted = session.accept(&pipeline)?;
    context.answer(&Report {
        accepted: &accepted,
        pipeline: &pipeline.file,
    })?;
    Ok(Exit::Ok)
}

struct Report<'a> {
    accepted: &'a Accepted,
    pipeline: &'a str,
}

impl Report<'_> {
    fn symbols(&self) -> usize {
        self.accepted.rows.iter().map(|row| row.symbols.len()).sum()
    }
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let Accepted {
            file,
            rows,
            others,
            named,
        } = self.accepted;
        let mut text = String::new();
        if rows.is_empty() {
            text.push_str("nothing blocks as collateral; no list was changed\n");
        } else {
            let _infallible = writeln!(
                text,
                "{} {} symbols in {} rows into {file}\n  write the `why` of each row: the list is \
                 refused until then",
                style.paint(Tone::Warn, "proposed"),
                self.symbols(),
                rows.len(),
            );
            if !named {
                let _infallible = writeln!(
                    text,
                    "  and name the list in {}, below `config:`: `collateral: {{allow: {file}}}`",
                    self.pipeline
                );
            }
        }
        if *others > 0 {
            let _infallible = writeln!(
                text,
                "{others} more findings block that no list can accept; see them with `kiln config check`"
            );
        }
        text
    }

    fn json(&self) -> Value {
        let rows = self.accepted.rows.iter().map(
            |row| json!({ "symbols": row.symbols, "cause": row.cause, "remarks": row.remarks }),
        );
        json!({
            "schema": "kiln.config-accept/1",
            "file": self.accepted.file,
            "rows": rows.collect::<Vec<Value>>(),
            "others": self.accepted.others,
            "named": self.accepted.named,
        })
    }
}
