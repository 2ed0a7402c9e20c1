//! `kiln boot`: the boot gate of a node, set up, looked at, repaired.

use camino::Utf8PathBuf;
use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::status_as;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::boot::key;
use crate::boot::place::Place;
use crate::boot::preflight::Finding;
use crate::boot::setup::{self, Status};
use crate::boot::trial::Staged;
use crate::failure::{Exit, Failure};
use crate::proof::key::PublicKey;
use crate::ui::{Answer, Style, Tone};

/// What may go wrong on a node.
pub(super) const NODE: &[Exit] = &[Exit::NodeRefused, Exit::Locked, Exit::NoSpace];

// Where the node's files are. Not a doc comment: that would become the help of every verb with it.
#[derive(Debug, Clone, Args)]
pub(super) struct Root {
    /// Work on the node whose files are below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: Utf8PathBuf,
}

impl Root {
    pub(super) fn place(&self, context: &Context) -> Place {
        Place::new(context.start().join(&self.root))
    }
}

pub(super) static INIT: Verb = Verb {
    path: &["boot", "init"],
    summary: "Set up a node's boot gate, with its kernel as the good one",
    detail: "Looks first whether attempts can be counted here, and refuses with the reason where \
             not. Then the kernel that runs becomes slot a, and GRUB gets the text that counts. \
             Nothing changes at the next boot until `update-grub` ran.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[
        Example {
            line: "kiln boot init --check",
            says: "looks whether this node is fit, and changes nothing",
        },
        Example {
            line: "kiln boot init",
            says: "sets it up (as root)",
        },
    ],
    args: |command: Command| InitArguments::augment_args(command),
    run: |context, matches| init(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct InitArguments {
    /// Only look whether the node is fit
    #[arg(long)]
    check: bool,

    /// The kernel in /boot that is known to come up; the running one where it is not given
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,

    #[command(flatten)]
    root: Root,
}

pub(super) static REHEARSE: Verb = Verb {
    path: &["boot", "rehearse"],
    summary: "Have GRUB count once for nothing at the next boot, to show that it can",
    detail: "An ordinary boot of the good kernel, before which GRUB counts down as it would before a \
             trial. `kiln gate run` then compares what GRUB said with what is on the disk, and \
             `kiln stage` asks for that. It does not reboot. State files that are made anew are \
             rehearsed anew.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot rehearse",
        says: "then restart once; `kiln boot status` tells what was seen",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| rehearse(context, &arguments(matches)?),
};

pub(super) static STATUS: Verb = Verb {
    path: &["boot", "status"],
    summary: "Show which kernel runs and why, and what the next boot starts",
    detail: "",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[
        Example {
            line: "kiln boot status --format json",
            says: "the same for a script",
        },
        Example {
            line: "kiln boot status --motd",
            says: "one line, for /etc/update-motd.d",
        },
        Example {
            line: "kiln boot status --metrics",
            says: "for the text file collector of node_exporter",
        },
    ],
    args: |command: Command| StatusArguments::augment_args(command),
    run: |context, matches| status(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct StatusArguments {
    /// As one line, for whoever logs in
    #[arg(long, conflicts_with = "metrics")]
    motd: bool,

    /// As metrics, for the text file collector of `node_exporter`
    #[arg(long)]
    metrics: bool,

    #[command(flatten)]
    root: Root,
}

pub(super) static DISARM: Verb = Verb {
    path: &["boot", "disarm"],
    summary: "Take back a trial that is armed",
    detail: "The next boot starts the good kernel. In the trial itself this is refused: its way out \
             is the verdict, or `kiln gate reject`.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot disarm",
        says: "leaves the node on its good kernel",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| disarm(context, &arguments(matches)?),
};

pub(super) static REPAIR: Verb = Verb {
    path: &["boot", "repair"],
    summary: "Make state files anew that are damaged or were replaced",
    detail: "The good slot is the mirror's, else the one that runs. A trial that was armed is taken \
             back, since it is not known what was counted.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot repair",
        says: "does nothing where all is in order",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| repair(context, &arguments(matches)?),
};

pub(super) static REMOVE: Verb = Verb {
    path: &["boot", "remove"],
    summary: "Take a node's boot gate away again",
    detail: "Removes the slots, GRUB's text and the units; the node then starts as it did before. \
             Refused while a trial is armed or runs. Boot records and /etc/kiln stay.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot remove",
        says: "then run `update-grub`",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| remove(context, &arguments(matches)?),
};

fn init(context: &Context, wanted: &InitArguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    if wanted.check {
        let findings = setup::check(&place)?;
        let unfit = !findings.is_empty();
        context.answer(&Fitness(findings))?;
        return Ok(if unfit { Exit::NodeRefused } else { Exit::Ok });
    }
    let staged = setup::init(&place, wanted.release.as_deref())?;
    let key = key::ensure(&place)?;
    context.answer(&Done {
        staged,
        key,
        says: "is known to be good",
        next: "run `update-grub`, then see with `kiln boot status` that GRUB runs the gate",
    })?;
    Ok(Exit::Ok)
}

struct Fitness(Vec<Finding>);

impl Answer for Fitness {
    fn text(&self, style: Style) -> String {
        if self.0.is_empty() {
            let good = style.paint(Tone::Good, "ok:");
            return format!("{good} attempts can be counted on this node\n");
        }
        let lines = self.0.iter().map(|finding| {
            let word = style.paint(Tone::Bad, "refused:");
            format!("{word} {}\n    hint: {}\n", finding.what, finding.next)
        });
        lines.collect()
    }

    fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .0
            .iter()
            .map(|one| json!({"code": one.code, "what": one.what, "next": one.next}))
            .collect();
        json!({"schema": "kiln.boot-check/1", "fit": self.0.is_empty(), "findings": findings})
    }
}

/// A slot that was filled.
pub(super) struct Done {
    pub(super) staged: Staged,
    /// What the node signs with.
    pub(super) key: PublicKey,
    pub(super) says: &'static str,
    pub(super) next: &'static str,
}

impl Answer for Done {
    fn text(&self, style: Style) -> String {
        let Staged {
            slot,
            release,
            words,
            ..
        } = &self.staged;
        let good = style.paint(Tone::Good, "ok:");
        format!(
            "{good} slot {slot} {}: {release}\n    command line: {words}\n    the node signs with: {}\n    \
             next: {}\n",
            self.says, self.key, self.next
        )
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.boot-init/1",
            "staged": self.staged,
            "key": self.key.to_string(),
            "next": self.next,
        })
    }
}

fn status(context: &Context, wanted: &StatusArguments) -> Result<Exit, Failure> {
    let status = setup::status(&wanted.root.place(context))?;
    let form = match (wanted.motd, wanted.metrics) {
        (true, _) => Form::Line,
        (_, true) => Form::Metrics,
        _ => Form::Whole,
    };
    context.answer(&StatusAnswer(status, form))?;
    Ok(Exit::Ok)
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Whole,
    Line,
    Metrics,
}

struct StatusAnswer(Status, Form);

impl Answer for StatusAnswer {
    fn text(&self, style: Style) -> String {
        let status = &self.0;
        match self.1 {
            Form::Line => return status_as::line(status),
            Form::Metrics => return status_as::metrics(status),
            Form::Whole => {}
        }
        let mut lines = Vec::new();
        lines.push(match &status.running {
            Some((slot, role, why)) => format!("running: slot {slot} as {role} ({why})"),
            None => "running: a kernel that the gate did not start".to_owned(),
        });
        for (slot, release) in &status.slots {
            let what = match release.as_str() {
                "" => "empty",
                release => release,
            };
            let mut notes = Vec::new();
            if status.good.as_ref() == Some(slot) {
                notes.push("good".to_owned());
            }
            if let Some((trial, left)) = &status.trial
                && trial == slot
            {
                notes.push(format!("on trial, {left} attempts left"));
            }
            let notes = match notes.as_slice() {
                [] => String::new(),
                some => format!(" ({})", some.join(", ")),
            };
            lines.push(format!("slot {slot}:  {what}{notes}"));
        }
        if let Some(last) = &status.last {
            lines.push(format!("last trial: {last}, not recorded yet"));
        }
        lines.push(format!(
            "counting:  {}",
            match status.counting.as_str() {
                "seen" => "GRUB was seen to count on this node",
                "asked" => "the next boot shows whether GRUB can count",
                "failed" => "GRUB could not count",
                _ => "GRUB was never seen to count here",
            }
        ));
        let (slot, role, why) = &status.next;
        lines.push(format!("next boot: slot {slot} as {role} ({why})"));
        if let Some(why) = &status.pinned {
            lines.push(format!("pinned:    {why}"));
        }
        for hang in &status.hangs {
            if let Some(lacks) = hang.lacks {
                lines.push(format!("not ended: {}; it lacks {lacks}", hang.what));
            }
        }
        for (what, next) in &status.alarms {
            let word = style.paint(Tone::Bad, "alarm:");
            lines.push(format!("{word} {what}\n    hint: {next}"));
        }
        lines
            .iter()
            .flat_map(|line| [line.as_str(), "\n"])
            .collect()
    }

    fn json(&self) -> Value {
        json!({"schema": "kiln.boot-status/1", "status": self.0})
    }
}

/// Something that was done, or that there was nothing to do.
pub(super) struct Said {
    pub(super) did: bool,
    pub(super) yes: &'static str,
    pub(super) no: &'static str,
}

impl Answer for Said {
    fn text(&self, style: Style) -> String {
        let good = style.paint(Tone::Good, "ok:");
        format!("{good} {}\n", if self.did { self.yes } else { self.no })
    }

    fn json(&self) -> Value {
        json!({"schema": "kiln.boot-done/1", "changed": self.did})
    }
}

fn rehearse(context: &Context, root: &Root) -> Result<Exit, Failure> {
    setup::rehearse(&root.place(context))?;
    context.answer(&Said {
        did: true,
        yes: "GRUB will count once for nothing at the next boot; restart, then see `kiln boot status`",
        no: "",
    })?;
    Ok(Exit::Ok)
}

fn disarm(context: &Context, root: &Root) -> Result<Exit, Failure> {
    context.answer(&Said {
        did: setup::disarm(&root.place(context))?,
        yes: "the trial is taken back; the next boot starts the good kernel",
        no: "no trial was armed",
    })?;
    Ok(Exit::Ok)
}

fn remove(context: &Context, root: &Root) -> Result<Exit, Failure> {
    setup::remove(&root.place(context))?;
    context.answer(&Said {
        did: true,
        yes: "the boot gate is removed; run `update-grub`",
        no: "",
    })?;
    Ok(Exit::Ok)
}

fn repair(context: &Context, root: &Root) -> Result<Exit, Failure> {
    context.answer(&Said {
        did: setup::repair(&root.place(context))?,
        yes: "the state files are made anew; no trial is armed",
        no: "the state files are in order",
    })?;
    Ok(Exit::Ok)
}
