//! `kiln store`: what is kept, whether it is whole, and what may go.

use clap::{Args, Command};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use camino::Utf8PathBuf;

use crate::digest::Sha256;
use crate::failure::{Diagnose as _, Exit, Failure};
use crate::files;
use crate::pipeline::garbage::Inventory;
use crate::store::StoreError;
use crate::ui::{Answer, Style, Table, Tone};

pub(super) static LIST: Verb = Verb {
    path: &["store", "list"],
    summary: "List the objects of the store",
    detail: "Each with its size, when it was last used, and what it is by the locks and manifests \
             of this workspace. A store that KILN_STORE names may hold objects of other workspaces.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[Exit::MissingTools],
    examples: &[Example {
        line: "kiln store list",
        says: "what is kept, and how much of it",
    }],
    args: |command: Command| command,
    run: |context, _matches| list(context),
};

pub(super) static VERIFY: Verb = Verb {
    path: &["store", "verify"],
    summary: "Hash every object of the store again",
    detail: "Every command hashes what it takes out of the store anyway; this finds damage before \
             it is needed. A damaged object is fetched and verified anew once it is removed.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NotVerified, Exit::MissingTools],
    examples: &[
        Example {
            line: "kiln store verify",
            says: "exits with 10 where an object is damaged",
        },
        Example {
            line: "kiln store verify --remove",
            says: "removes damaged ones too; what needs them fetches them again",
        },
    ],
    args: |command: Command| VerifyArguments::augment_args(command),
    run: |context, matches| verify(context, &arguments(matches)?),
};

pub(super) static GC: Verb = Verb {
    path: &["store", "gc"],
    summary: "Remove what nothing needs any more",
    detail: "An object goes when no lock or manifest of this workspace names it and nothing used \
             it for as long as --keep says; in a store that workspaces share, that time is what \
             keeps the others' objects. Downloads that rest for more than a day go too. With \
             --runs, all but the newest runs of each verb and pipeline go as well, with their \
             packages; the newest that ended well stays in any case.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::MissingTools],
    examples: &[
        Example {
            line: "kiln store gc --dry-run",
            says: "says what would go, and how much that is",
        },
        Example {
            line: "kiln store gc --keep 7 --runs 5",
            says: "what was not used for a week, and all but five runs of each kind",
        },
    ],
    args: |command: Command| GcArguments::augment_args(command),
    run: |context, matches| gc(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct VerifyArguments {
    /// Remove damaged objects
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Args)]
struct GcArguments {
    /// Days for which an object is kept that nothing here names
    #[arg(long, value_name = "DAYS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(..=36_500))]
    keep: u32,
    /// Of each verb and pipeline, remove all but this many runs
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Say what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    context.answer(&List {
        directory: session.store.directory().to_string(),
        inventory: session.inventory()?,
    })?;
    Ok(Exit::Ok)
}

struct List {
    directory: String,
    inventory: Inventory,
}

impl Answer for List {
    fn text(&self, _style: Style) -> String {
        let contents = &self.inventory.contents;
        let mut table = Table::new();
        for object in &contents.objects {
            table.row([
                object.sha256.short8(),
                mebibytes(object.bytes),
                day(object.used),
                self.inventory.name(object).unwrap_or("-").to_owned(),
            ]);
        }
        let mut text = table.render(0);
        for path in &contents.strange {
            text.push_str("no object: ");
            text.push_str(path.as_str());
            text.push('\n');
        }
        let total = contents.objects.iter().map(|object| object.bytes).sum();
        let count = contents.objects.len();
        text + &format!(
            "{count} objects, {} in {}\n",
            mebibytes(total),
            self.directory
        )
    }

    fn json(&self) -> Value {
        let contents = &self.inventory.contents;
        let objects = contents.objects.iter().map(|object| {
            json!({
                "sha256": object.sha256,
                "bytes": object.bytes,
                "used": object.used.to_string(),
                "name": self.inventory.name(object),
            })
        });
        json!({
            "schema": "kiln.store/1",
            "directory": self.directory,
            "objects": objects.collect::<Vec<_>>(),
            "abandoned": contents.abandoned,
            "strange": contents.strange,
        })
    }
}

fn verify(context: &Context, wanted: &VerifyArguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let inventory = session.inventory()?;
    let mut answer = Verified::default();
    for object in &inventory.contents.objects {
        match session.store.check(&object.sha256) {
            // Or gone meanwhile.
            Ok(()) => answer.whole += 1,
            Err(StoreError::File(error)) => return Err(error.into()),
            Err(error) => {
                if wanted.remove {
                    session.store.remove(&object.sha256)?;
                }
                let name = inventory
                    .name(object)
                    .unwrap_or("not named here")
                    .to_owned();
                answer
                    .damaged
                    .push((object.sha256, name, error.to_string()));
                if answer.hints.is_empty() && !wanted.remove {
                    answer.hints = error.hints();
                }
            }
        }
    }
    answer.removed = wanted.remove;
    answer.strange.clone_from(&inventory.contents.strange);
    let found = !(answer.damaged.is_empty() && answer.strange.is_empty());
    context.answer(&answer)?;
    Ok(if found { Exit::NotVerified } else { Exit::Ok })
}

#[derive(Default)]
struct Verified {
    whole: usize,
    damaged: Vec<(Sha256, String, String)>,
    /// What is no object; a name that a build would ask for may be among them.
    strange: Vec<Utf8PathBuf>,
    removed: bool,
    hints: Vec<String>,
}

impl Answer for Verified {
    fn text(&self, style: Style) -> String {
        let what = if self.removed { "removed" } else { "damaged" };
        let what = style.paint(Tone::Bad, what);
        let damaged = self.damaged.iter();
        let lines = damaged.map(|(_, name, error)| format!("{what}: {name}: {error}\n"));
        let strange = self
            .strange
            .iter()
            .map(|path| format!("no object: {path}; remove it\n"));
        let hints = self.hints.iter().map(|hint| format!("hint: {hint}\n"));
        let end = format!(
            "{} objects are whole, {} damaged\n",
            self.whole,
            self.damaged.len()
        );
        lines.chain(strange).chain(hints).chain([end]).collect()
    }

    fn json(&self) -> Value {
        let damaged = self
            .damaged
            .iter()
            .map(|(sha256, name, error)| json!({ "sha256": sha256, "name": name, "error": error }));
        json!({
            "schema": "kiln.store-verified/1",
            "whole": self.whole,
            "damaged": damaged.collect::<Vec<_>>(),
            "strange": self.strange,
            "removed": self.removed,
        })
    }
}

fn gc(context: &Context, wanted: &GcArguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let runs = match wanted.runs {
        Some(keep) => session.old_runs(keep as usize)?,
        None => Vec::new(),
    };
    if !wanted.dry_run {
        // First: what only their manifests named may go then.
        for run in &runs {
            session.remove_run(run)?;
        }
    }
    let inventory = session.inventory()?;
    let unneeded = inventory.unneeded(SignedDuration::from_hours(24 * i64::from(wanted.keep)));
    if !wanted.dry_run {
        for object in &unneeded {
            session.store.remove(&object.sha256)?;
        }
        for path in &inventory.contents.abandoned {
            if path.is_dir() {
                files::remove_dir_all(path)?;
            } else {
                files::remove_file(path)?;
            }
        }
    }
    context.answer(&Collected {
        dry_run: wanted.dry_run,
        bytes: unneeded.iter().map(|object| object.bytes).sum(),
        objects: unneeded.into_iter().map(|object| object.sha256).collect(),
        downloads: inventory
            .contents
            .abandoned
            .iter()
            .map(ToString::to_string)
            .collect(),
        runs: runs.iter().map(ToString::to_string).collect(),
        kept: inventory.contents.objects.len(),
    })?;
    Ok(Exit::Ok)
}

struct Collected {
    dry_run: bool,
    bytes: u64,
    objects: Vec<Sha256>,
    downloads: Vec<String>,
    runs: Vec<String>,
    kept: usize,
}

impl Answer for Collected {
    fn text(&self, _style: Style) -> String {
        let word = if self.dry_run {
            "would remove"
        } else {
            "removed"
        };
        let runs = self.runs.iter();
        let runs = runs.map(|run| format!("{word} the run {run}\n"));
        let downloads = self.downloads.iter();
        let downloads = downloads.map(|path| format!("{word} the abandoned download {path}\n"));
        let (gone, kept) = (self.objects.len(), self.kept - self.objects.len());
        let size = mebibytes(self.bytes);
        let end = format!("{word} {gone} objects, {size}; {kept} stay\n");
        runs.chain(downloads).chain([end]).collect()
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.store-collected/1",
            "dry_run": self.dry_run,
            "bytes": self.bytes,
            "objects": self.objects,
            "downloads": self.downloads,
            "runs": self.runs,
            "kept": self.kept - self.objects.len(),
        })
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20)
}

fn day(time: jiff::Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}
