//! `kiln verify`: what a manifest proves, and about which packages.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::holders::holder_json;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::pipeline::holders::shown_id;
use crate::pipeline::verify::{self, Question, Verified};
use crate::proof::lock::Source;
use crate::proof::roles::Roles;
use crate::spec;
use crate::ui::{Answer, Style, Tone};

/// Largest roles file that is read, in bytes.
const LIMIT: u64 = 1 << 20;

pub(super) static VERB: Verb = Verb {
    path: &["verify"],
    summary: "Tell who vouches for a build, and whether its packages are the ones",
    detail: "Opens a manifest by the keys of keys/roles.yaml, or of another roles file, and hashes \
             every package that it names. Evidence that others got the same bytes is counted by \
             holder, the builder never. It ends with 25 where a statement is not believed, and with \
             10 where a package is not the one that was built.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NotVerified, Exit::StatementRejected],
    examples: &[
        Example {
            line: "kiln verify .kiln/runs/ID/manifest.json",
            says: "a build of this workspace",
        },
        Example {
            line: "kiln verify manifest.json --dir debs --roles roles.yaml --evidence lab.json",
            says: "a build from elsewhere, with what others say about it",
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

    /// Evidence about it: statements that it was reproduced
    #[arg(value_parser = super::run::path, long, value_name = "FILE", num_args = 1..)]
    evidence: Vec<Utf8PathBuf>,

    /// Who may sign what; the workspace's keys/roles.yaml where it is not given
    #[arg(value_parser = super::run::path, long, value_name = "FILE")]
    roles: Option<Utf8PathBuf>,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let roles = roles(context, arguments.roles.as_deref())?;
    let manifest = place(context, &arguments.manifest);
    let packages = arguments.dir.as_ref().map(|dir| place(context, dir));
    let evidence = arguments.evidence.iter();
    let evidence: Vec<Utf8PathBuf> = evidence.map(|file| place(context, file)).collect();
    let question = Question {
        manifest: &manifest,
        packages: packages.as_deref(),
        evidence: &evidence,
        roles: &roles,
        today: clock::today(),
    };
    let verified = verify::verify(&question)?;
    context.answer(&Report {
        verified: &verified,
        roles: &roles,
    })?;
    Ok(Exit::Ok)
}

/// Who may sign what, by a file or by the workspace.
pub(super) fn roles(context: &Context, file: Option<&Utf8Path>) -> Result<Roles, Failure> {
    let Some(file) = file else {
        let workspace = context
            .workspace()
            .map_err(|failure| failure.hint("or name a roles file: `--roles FILE`"))?;
        return Ok(workspace.roles()?);
    };
    let text = files::read_text(&context.start().join(file), LIMIT)?;
    Ok(spec::roles::parse(file.as_str(), &text)?)
}

/// A path as it was given where that leads to it, so that messages show what was typed.
pub(super) fn place(context: &Context, path: &Utf8Path) -> Utf8PathBuf {
    if context.start_is_given() {
        context.start().join(path)
    } else {
        path.to_owned()
    }
}

struct Report<'a> {
    verified: &'a Verified,
    roles: &'a Roles,
}

impl Report<'_> {
    /// What was built, from what a source that was verified how.
    fn source(&self) -> String {
        match &self.verified.manifest.lock.inputs.source {
            Source::KernelOrg {
                path, signature, ..
            } => {
                let file = Utf8Path::new(path).file_name().unwrap_or(path);
                format!("{file}, signed by {}", signature.signer)
            }
            Source::Debian {
                package, version, ..
            } => format!("{package} {version}, by apt's signed index"),
        }
    }

    /// What is not proven, whoever signed.
    fn doubts(&self) -> Vec<String> {
        let manifest = &self.verified.manifest;
        let mut doubts = Vec::new();
        if manifest.lock.inputs.root.pinned().is_none() {
            doubts.push(
                "built with a host's own tools, not in a pinned root: not publishable".to_owned(),
            );
        }
        if self.verified.rebuilders().is_empty() {
            doubts.push("nobody else got the same bytes, or no `--evidence` says so".to_owned());
        }
        if manifest.unsigned_modules {
            doubts.push("not every module is signed: boot with Secure Boot off".to_owned());
        }
        if self.verified.sbom.is_none() {
            doubts.push("no bill of materials lies beside the manifest".to_owned());
        }
        for file in &self.verified.strangers {
            doubts.push(format!(
                "`{file}` lies beside the packages and is none of them"
            ));
        }
        doubts
    }
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let verified = self.verified;
        let mut text = format!(
            "{} {}\n  manifest {}\n",
            style.paint(Tone::Good, "verified"),
            verified.manifest.release,
            verified.id
        );
        let mut line = |line: String| {
            let _infallible = writeln!(text, "  {line}");
        };
        for holder in &verified.signers {
            let until = holder
                .until
                .map_or_else(String::new, |until| format!(", until {until}"));
            line(format!(
                "signed by {} ({}, key {}{until})",
                holder.name,
                holder.role,
                shown_id(&holder.key.id())
            ));
        }
        for unfit in &verified.unfit {
            line(format!("a signature beside does not count: {unfit}"));
        }
        line(format!(
            "{} packages in {} are the ones it names, byte by byte",
            verified.manifest.packages.len(),
            verified.packages
        ));
        line(format!("built from {}", self.source()));
        if let Some(sbom) = &verified.sbom {
            line(format!("what it is made of: {sbom}"));
        }
        if let Some(provenance) = &verified.provenance {
            line(format!("how it was made: {provenance}"));
        }
        let rebuilders = verified.rebuilders();
        if !rebuilders.is_empty() {
            let names: Vec<&str> = rebuilders.iter().copied().collect();
            line(format!(
                "reproduced by {}: {}",
                names.len(),
                names.join(", ")
            ));
        }
        let mark = style.paint(Tone::Warn, "not proven");
        for doubt in self.doubts() {
            line(format!("{mark}: {doubt}"));
        }
        text
    }

    fn json(&self) -> Value {
        let verified = self.verified;
        let evidence = verified.evidence.iter().map(|(file, counted)| {
            json!({
                "file": file,
                "kind": "reproduced",
                "by": counted.statement.rebuilder,
                "issued": counted.issued,
                "conditions": counted.statement.conditions,
                "unfit": counted.unfit,
            })
        });
        json!({
            "schema": "kiln.verified/1",
            "manifest": verified.id,
            "release": verified.manifest.release,
            "signers": verified.signers.iter().map(holder_json).collect::<Vec<Value>>(),
            "unfit": verified.unfit,
            "directory": verified.packages,
            "packages": verified.manifest.packages,
            "strangers": verified.strangers,
            "sbom": verified.sbom,
            "provenance": verified.provenance,
            "evidence": evidence.collect::<Vec<Value>>(),
            "reproduced_by": verified.rebuilders(),
            "known_keys": self.roles.holders.len(),
            "not_proven": self.doubts(),
        })
    }
}
