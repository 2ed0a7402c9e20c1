//! `kiln build`: from a pipeline to checked packages.

use std::cell::Cell;
use std::fmt::Write as _;

use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, SIGNED_BUILDING, Verb, WITH_ANNOTATIONS};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::kconfig::GuardReport;
use crate::pipeline::build::{Built, MANIFEST, Options};
use crate::pipeline::statements::Signed;
use crate::ui::{Answer, Judged, Style, Table, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["build"],
    summary: "Verify, configure, guard, compile, package, and check the packages",
    detail: "Builds from the lock (and resolves one where there is none). The guard stops the build \
             before anything is compiled; after packaging it reads the configuration inside the \
             finished image package once more. The same inputs are not built twice. A stopped build \
             goes on where it was; its packages are then marked as not publishable. The manifest is \
             signed by every signer of `kiln.yaml` whose key counts as builder.",
    writes: true,
    formats: WITH_ANNOTATIONS,
    exits: SIGNED_BUILDING,
    examples: &[
        Example {
            line: "kiln build lts",
            says: "builds the fleet's kernel",
        },
        Example {
            line: "kiln build lts --locked --format json",
            says: "in CI: refuses to change the lock",
        },
        Example {
            line: "kiln build lts --again",
            says: "compiles again although nothing changed",
        },
    ],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// Refuse to write a new lock where fragments or pipeline changed since it was made
    #[arg(long)]
    locked: bool,

    /// Build even where the same inputs were built before
    #[arg(long)]
    again: bool,

    /// Keep the object tree afterwards
    #[arg(long)]
    keep: bool,

    /// Leave the manifest unsigned although `kiln.yaml` names signers
    #[arg(long)]
    unsigned: bool,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let options = Options {
        locked: arguments.locked,
        again: arguments.again,
        keep: arguments.keep,
        unsigned: arguments.unsigned,
    };
    let prefix = work.prefix();
    let annotated = Cell::new(None);
    let judged = |report: &GuardReport| {
        let judged = Judged {
            pipeline: pipeline.name(),
            file: &pipeline.file,
            prefix: &prefix,
            report,
        };
        annotated.set(Some(context.annotate(Some(&judged))));
    };
    let built = session.build(&pipeline, options, &judged);
    match annotated.take() {
        Some(written) => written?,
        None if built.is_ok() => context.annotate(None)?,
        None => {}
    }
    context.answer(&Report(&built?))?;
    Ok(Exit::Ok)
}

/// A finished build, as an answer.
pub(super) struct Report<'a>(pub(super) &'a Built);

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let built = self.0;
        let word = if built.reused {
            "nothing changed since"
        } else {
            "built"
        };
        let mut text = format!(
            "{} {}\n",
            style.paint(Tone::Good, word),
            built.manifest.release
        );
        let mut table = Table::new();
        for package in &built.manifest.packages {
            let size = format!("{} KiB", package.bytes.div_ceil(1024));
            table.row([built.package(package).to_string(), size]);
        }
        text.push_str(&table.render(2));
        let manifest = built.directory.join(MANIFEST);
        let modules = if built.manifest.unsigned_modules {
            "; not every module is signed: boot with Secure Boot off"
        } else {
            ""
        };
        let signed = match &built.signed {
            Signed::By(names) => format!("signed by {}", names.join(", ")),
            Signed::Nobody(reason) => format!("the manifest is unsigned: {reason}"),
        };
        let _always = writeln!(text, "  {manifest}\n  {signed}{modules}");
        let mark = style.paint(Tone::Warn, "not publishable");
        for doubt in &built.doubts {
            let _always = writeln!(text, "  {mark}: {doubt}");
        }
        text
    }

    fn json(&self) -> Value {
        let built = self.0;
        json!({
            "schema": "kiln.built/1",
            "release": built.manifest.release,
            "reused": built.reused,
            "directory": built.directory,
            "manifest": built.directory.join(MANIFEST),
            "packages": built.manifest.packages,
            "config": built.manifest.config,
            "input_digest": built.manifest.lock.input_digest,
            "unsigned_modules": built.manifest.unsigned_modules,
            "unsigned_image": built.manifest.unsigned_image,
            "signed_by": match &built.signed {
                Signed::By(names) => names.clone(),
                Signed::Nobody(_) => Vec::new(),
            },
            "doubts": built.doubts,
        })
    }
}
