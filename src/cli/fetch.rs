//! `kiln fetch`: the locked source, proven, in the store or in a directory of one's own.

use camino::Utf8PathBuf;
use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, FETCHING, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::proof::lock::Lock;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["fetch"],
    summary: "Fetch the locked source and verify it",
    detail: "Obeys the lock: other bytes are refused, and a release that was signed anew shows as a \
             change. Downloads resume. With --to the release becomes a directory in kernel.org's \
             layout, which a machine without a network can name as `source: {dir: PATH}` or as a \
             mirror in kiln.yaml. The packages of a pinned build root go with it.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: FETCHING,
    examples: &[
        Example {
            line: "kiln fetch lts",
            says: "fills the store",
        },
        Example {
            line: "kiln fetch lts --to /media/usb/kernel.org",
            says: "makes a mirror for a machine without a network",
        },
    ],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// Make a mirror of the locked release in this directory
    #[arg(value_parser = super::run::path, long, value_name = "DIR")]
    to: Option<Utf8PathBuf>,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let lock = session.lock(&pipeline)?;
    let written = if let Some(directory) = &arguments.to {
        let directory = context.start().join(directory);
        let mut written = session.export(&pipeline, &lock, &directory)?;
        written.extend(session.export_root(&pipeline, &lock, &directory)?);
        written
    } else {
        session.acquire_locked(&pipeline, &lock)?;
        session.fetch_root(&pipeline, &lock)?;
        vec![session.store.path(&lock.inputs.source.tar().sha256)]
    };
    context.answer(&Fetched {
        lock: &lock,
        written: &written,
    })?;
    Ok(Exit::Ok)
}

struct Fetched<'a> {
    lock: &'a Lock,
    written: &'a [Utf8PathBuf],
}

impl Answer for Fetched<'_> {
    fn text(&self, style: Style) -> String {
        let inputs = &self.lock.inputs;
        let mut text = format!(
            "{} {}, tar sha256 {}\n",
            style.paint(Tone::Good, "verified"),
            inputs.version.stem(),
            inputs.source.tar().sha256
        );
        for path in self.written {
            text.push_str("  ");
            text.push_str(path.as_str());
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.fetched/1",
            "version": self.lock.inputs.version,
            "source": self.lock.inputs.source,
            "files": self.written,
        })
    }
}
