//! `kiln resolve`: the newest release of a series into a lock.

use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, FETCHING, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::kernel::Version;
use crate::pipeline::resolve::{Options, Resolution};
use crate::proof::lock::Source;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["resolve"],
    summary: "Find the newest release of a series, verify it, and write the lock",
    detail: "Reads kernel.org's list of releases (or takes what apt offers), fetches the source and \
             verifies it against the pinned certificates. Only then is the lock written beside the \
             pipeline, together with the bytes of the base config. Commit both: every later command \
             obeys them.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: FETCHING,
    examples: &[
        Example {
            line: "kiln resolve lts",
            says: "takes the newest release of the pipeline's series",
        },
        Example {
            line: "kiln resolve lts --version 6.18.40",
            says: "takes this release",
        },
        Example {
            line: "kiln resolve lts --dry-run --format json",
            says: "says what would be locked, and writes nothing",
        },
    ],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,

    /// Take this release, not the newest one
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,

    /// Accept a release older than the lock's
    #[arg(long)]
    allow_downgrade: bool,

    /// Fetch and verify, but write no lock
    #[arg(long)]
    dry_run: bool,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let options = Options {
        allow_downgrade: arguments.allow_downgrade,
        version: arguments.version,
        dry_run: arguments.dry_run,
    };
    let resolution = session.resolve(&pipeline, options)?;
    let path = work.workspace.shown(&session.lock_path(&pipeline));
    context.answer(&Resolved {
        resolution: &resolution,
        path,
        dry_run: arguments.dry_run,
    })?;
    Ok(Exit::Ok)
}

struct Resolved<'a> {
    resolution: &'a Resolution,
    path: String,
    dry_run: bool,
}

impl Answer for Resolved<'_> {
    fn text(&self, style: Style) -> String {
        let Resolution {
            lock,
            previous,
            changed,
            ..
        } = self.resolution;
        let inputs = &lock.inputs;
        let proof = match &inputs.source {
            Source::KernelOrg { signature, .. } => format!("signed by {}", signature.signer),
            Source::Debian {
                package, version, ..
            } => format!("{package} {version}, through apt's signatures"),
        };
        let written = match (self.dry_run, previous.as_ref()) {
            (true, _) => format!("would write {}", self.path),
            (false, Some(old)) if old == lock => format!("{} is up to date", self.path),
            (false, _) => format!("wrote {}", self.path),
        };
        let mut text = format!(
            "{} {} ({proof})\n  input digest {}, build {}\n  {written}\n",
            style.paint(Tone::Good, "resolved"),
            inputs.version,
            lock.input_digest,
            lock.build,
        );
        if !changed.is_empty() {
            text.push_str("  changed: ");
            text.push_str(&changed.join(", "));
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.resolved/1",
            "lock": self.resolution.lock,
            "path": self.path,
            "written": !self.dry_run,
            "changed": self.resolution.changed,
            "end_of_life": self.resolution.end_of_life,
        })
    }
}
