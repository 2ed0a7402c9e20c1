//! `kiln config diff`: two configurations by what they were meant to be.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{BUILDING, Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::kconfig::Ground;
use crate::pipeline::compare::{Compared, Side};
use crate::ui::{Answer, Style, Table, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["config", "diff"],
    summary: "Compare two configurations by what was asked, derived, and said by the toolchain",
    detail: "Each is a pipeline (as its files are now, on its locked source), a lock's file or the \
             manifest of a build. A pipeline and a lock are configured by the kernel's own \
             `olddefconfig`; a build's configuration is read where its run kept it.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: BUILDING,
    examples: &[
        Example {
            line: "kiln config diff lts canary",
            says: "what the two lines differ in",
        },
        Example {
            line: "kiln config diff .kiln/runs/ID/manifest.json lts",
            says: "what changed since a build",
        },
        Example {
            line: "kiln config diff pipelines/lts.lock.json canary --format json",
            says: "the same as data",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// A pipeline, a lock's file or a manifest's file
    #[arg(value_name = "A")]
    from: String,

    /// What it is compared with
    #[arg(value_name = "B")]
    to: String,
}

/// Headings of the answer.
const GROUNDS: [(Ground, &str); 3] = [
    (Ground::Asked, "asked for"),
    (Ground::Derived, "derived from requests, base and tree"),
    (Ground::Toolchain, "said by the toolchain"),
];

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let compared = session.compare(context.start(), &arguments.from, &arguments.to)?;
    context.answer(&Report(&compared))?;
    Ok(Exit::Ok)
}

struct Report<'a>(&'a Compared);

fn head(side: &Side) -> String {
    format!("{} on linux {}", side.name, side.intent.version)
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let Compared {
            from,
            to,
            differences,
        } = self.0;
        let mut text = format!("from {}\nto   {}\n", head(from), head(to));
        if from.intent.base != to.intent.base {
            text.push_str("the base configs differ\n");
        }
        for (ground, words) in GROUNDS {
            let of_it = differences.iter().filter(|d| d.ground == ground);
            let mut table = Table::new();
            let mut count = 0;
            for difference in of_it {
                count += 1;
                let change = format!("{} -> {}", difference.from, difference.to);
                let at = difference.to_at.as_ref().or(difference.from_at.as_ref());
                let name = format!("CONFIG_{}", difference.symbol);
                table.row([name, change, at.cloned().unwrap_or_default()]);
            }
            if count > 0 {
                let heading = style.paint(Tone::Strong, words);
                let _infallible = writeln!(text, "{heading}: {count}");
                text.push_str(&table.render(2));
            }
        }
        if differences.is_empty() {
            text.push_str("no symbol differs\n");
        }
        text
    }

    fn json(&self) -> Value {
        let side = |side: &Side| {
            json!({
                "name": side.name,
                "version": side.intent.version,
                "base": side.intent.base,
            })
        };
        json!({
            "schema": "kiln.config-diff/1",
            "from": side(&self.0.from),
            "to": side(&self.0.to),
            "differences": self.0.differences,
        })
    }
}
