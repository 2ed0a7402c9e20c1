//! `kiln reproduce`: the same bytes again, from the manifest alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use super::verify::{place, roles};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::kbuild::compare::Difference;
use crate::kbuild::difference::Cause;
use crate::pipeline::reproduce::{Question, Reproduction, Twice, Vouched};
use crate::pipeline::vary;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["reproduce"],
    summary: "Build again from a manifest alone, and tell whether the bytes are the same",
    detail: "Makes a workspace of what the manifest carries, fetches and verifies the source that its \
             lock names with your own keys, and builds in another directory, as another user, with \
             another umask, time zone, locale, number of jobs and clock, and with variables around \
             that no build may listen to. Every package is compared byte by byte. What differs is \
             told by file and likely cause; the other packages are kept. Where everything is the \
             same, a signer whose key counts as rebuilder signs evidence for `kiln verify`.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[
        Exit::NotVerified,
        Exit::Guard,
        Exit::Build,
        Exit::NotReproducible,
        Exit::MissingTools,
        Exit::Network,
        Exit::NotPublished,
        Exit::Locked,
        Exit::StatementRejected,
        Exit::NoSpace,
    ],
    examples: &[
        Example {
            line: "kiln reproduce .kiln/runs/ID/manifest.json",
            says: "a build of this workspace",
        },
        Example {
            line: "kiln reproduce manifest.json --dir debs --roles roles.yaml",
            says: "a build from elsewhere, with its packages at hand to be looked into",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The manifest
    #[arg(value_parser = super::run::path)]
    manifest: Utf8PathBuf,

    /// Where its packages are; `packages` beside it, or beside it, where it is not given
    #[arg(value_parser = super::run::path, long, value_name = "DIR")]
    dir: Option<Utf8PathBuf>,

    /// Who may sign what; the workspace's keys/roles.yaml where it is not given
    #[arg(value_parser = super::run::path, long, value_name = "FILE")]
    roles: Option<Utf8PathBuf>,

    /// Sign no evidence although `kiln.yaml` names signers
    #[arg(long)]
    unsigned: bool,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    vary::enter()?;
    let session = work.session(context, context.progress())?;
    let roles = roles(context, arguments.roles.as_deref())?;
    let manifest = place(context, &arguments.manifest);
    let packages = arguments.dir.as_ref().map(|dir| place(context, dir));
    let reproduction = session.reproduce(&Question {
        manifest: &manifest,
        packages: packages.as_deref(),
        roles: &roles,
        unsigned: arguments.unsigned,
    })?;
    context.answer(&Report(&reproduction))?;
    reproduction.verdict()?;
    Ok(Exit::Ok)
}

struct Report<'a>(&'a Reproduction);

/// The causes of a difference in words, with where each comes from.
fn told(causes: &BTreeSet<Cause>) -> String {
    let each = causes.iter();
    let each: Vec<String> = each
        .map(|cause| format!("{} ({})", cause.as_str(), cause.likely()))
        .collect();
    each.join(", ")
}

fn difference_text(difference: &Difference) -> String {
    let Difference {
        package,
        file,
        causes,
        detail,
    } = difference;
    let file = if file.is_empty() {
        String::new()
    } else {
        format!("{file}, ")
    };
    format!("{package}: {file}{detail}\n    {}", told(causes))
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let found = self.0;
        let (tone, word) = if found.is_identical() {
            (Tone::Good, "identical")
        } else {
            (Tone::Bad, "not reproduced")
        };
        let same = found.packages.iter().filter(|twice| twice.is_same());
        let mut text = format!(
            "{} {}\n  manifest {}\n  {} of {} packages are the same, byte by byte\n",
            style.paint(tone, word),
            found.release,
            found.id,
            same.count(),
            found.packages.len(),
        );
        let mut line = |line: String| {
            let _infallible = writeln!(text, "  {line}");
        };
        for difference in &found.differences {
            line(difference_text(difference));
        }
        for fact in &found.manifest {
            line(format!("the manifest differs in {fact}"));
        }
        let varied = found.varied.iter();
        let varied: Vec<String> = varied.map(|(what, how)| format!("{what} {how}")).collect();
        line(format!("different on purpose: {}", varied.join("; ")));
        for reason in &found.unvaried {
            line(format!("not varied: {reason}"));
        }
        if !found.is_identical() {
            line(format!("the other packages: {}/rebuilt", found.directory));
        }
        if let Some(report) = &found.diffoscope {
            line(format!("what diffoscope says: {report}"));
        }
        match &found.vouched {
            Vouched::By(name, path) => line(format!("evidence signed by {name}: {path}")),
            Vouched::Nobody(reason) => line(format!("no evidence was signed: {reason}")),
        }
        let mark = style.paint(Tone::Warn, "not proven");
        for doubt in &found.doubts {
            line(format!("{mark}: {doubt}"));
        }
        text
    }

    fn json(&self) -> Value {
        let found = self.0;
        let package = |twice: &Twice| {
            json!({
                "name": twice.name,
                "identical": twice.is_same(),
                "first": twice.first,
                "rebuilt": twice.second,
            })
        };
        let difference = |one: &Difference| {
            let causes = one.causes.iter();
            let causes = causes.map(|cause| json!({ "cause": cause, "likely": cause.likely() }));
            json!({
                "package": one.package,
                "file": one.file,
                "what": one.detail,
                "causes": causes.collect::<Vec<Value>>(),
            })
        };
        let (evidence, unsigned) = match &found.vouched {
            Vouched::By(name, path) => (json!({ "by": name, "file": path }), Value::Null),
            Vouched::Nobody(reason) => (Value::Null, json!(reason)),
        };
        json!({
            "schema": "kiln.reproduction/1",
            "manifest": found.id,
            "release": found.release,
            "identical": found.is_identical(),
            "packages": found.packages.iter().map(package).collect::<Vec<Value>>(),
            "differences": found.differences.iter().map(difference).collect::<Vec<Value>>(),
            "manifest_differs": found.manifest,
            "varied": found.varied,
            "not_varied": found.unvaried,
            "directory": found.directory,
            "diffoscope": found.diffoscope,
            "evidence": evidence,
            "no_evidence": unsigned,
            "doubts": found.doubts,
        })
    }
}
