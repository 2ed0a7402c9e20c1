//! `kiln gate`: judges a kernel on trial.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Command};
use serde_json::{Value, json};

use super::boot::Root;
use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::boot::checks::{Check, DEADMAN as DEADMAN_LIMIT, DECIDE, Settings, What};
use crate::boot::deadman::{self, End};
use crate::boot::gate::{self, Report, Verdict};
use crate::boot::place::Place;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::spec::gate::{CheckSpec, GateSpec, WhatSpec};
use crate::spec::node::NodeSpec;
use crate::ui::{Answer, Style, Tone};

/// Largest settings that are read, in bytes.
const LIMIT: u64 = 1 << 20;

/// Where a node has them.
pub(super) const SETTINGS: &str = "etc/kiln/gate.yaml";

/// Where it is told about itself.
const NODE_SETTINGS: &str = "etc/kiln/node.yaml";

const EXITS: &[Exit] = &[
    Exit::NodeRefused,
    Exit::GateRejected,
    Exit::Locked,
    Exit::NoSpace,
];

pub(super) static RUN: Verb = Verb {
    path: &["gate", "run"],
    summary: "Judge the kernel on trial: commit it if every check passes, else restart",
    detail: "Runs the checks of /etc/kiln/gate.yaml until each passed as often in a row as it must, \
             or the time is up. A kernel that is not healthy loses its attempts, and the node is \
             restarted at once. On the good kernel it writes down how the trial before it ended.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: EXITS,
    examples: &[Example {
        line: "kiln gate run",
        says: "what the node's unit runs at every boot",
    }],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

pub(super) static REJECT: Verb = Verb {
    path: &["gate", "reject"],
    summary: "Turn down the kernel on trial and restart the node",
    detail: "",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: EXITS,
    examples: &[Example {
        line: "kiln gate reject",
        says: "back to the good kernel, whatever the checks say",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| reject(context, &arguments(matches)?),
};

pub(super) static DEADMAN: Verb = Verb {
    path: &["gate", "deadman"],
    summary: "Restart the node if the kernel on trial gets no verdict in time",
    detail: "Waits until 120 seconds after the start of the kernel, or what gate.yaml says. It ends \
             at once where no trial runs.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: EXITS,
    examples: &[Example {
        line: "kiln gate deadman",
        says: "what the node's unit runs at every boot",
    }],
    args: |command: Command| DeadmanArguments::augment_args(command),
    run: |context, matches| deadman(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The settings; the node's /etc/kiln/gate.yaml where they are not given
    #[arg(long, value_name = "FILE")]
    settings: Option<Utf8PathBuf>,

    #[command(flatten)]
    root: Root,
}

#[derive(Debug, Args)]
struct DeadmanArguments {
    /// In the initramfs: until the deadman of the system takes over
    #[arg(long)]
    early: bool,

    #[command(flatten)]
    usual: Arguments,
}

impl Arguments {
    fn spec(&self, context: &Context, place: &Place) -> Result<GateSpec, Failure> {
        match &self.settings {
            Some(path) => spec(&context.start().join(path)),
            None => spec(&place.at(SETTINGS)),
        }
    }
}

/// Reads what a node is told about itself; a node without a file is told nothing.
pub(super) fn node(place: &Place) -> Result<NodeSpec, Failure> {
    let path = place.at(NODE_SETTINGS);
    if !path.exists() {
        return Ok(NodeSpec::default());
    }
    let text = files::read_text(&path, LIMIT)?;
    Ok(NodeSpec::parse(path.as_str(), &text)?)
}

/// Reads the gate's settings of a node.
pub(super) fn spec(path: &Utf8Path) -> Result<GateSpec, Failure> {
    let text = files::read_text(path, LIMIT)?;
    let spec = GateSpec::parse(path.as_str(), &text)?;
    let deadman = spec.deadman.map_or(DEADMAN_LIMIT, Duration::from_secs);
    let decide = spec.decide.map_or(DECIDE, Duration::from_secs);
    if decide < deadman {
        return Ok(spec);
    }
    Err(Failure::usage(format!(
        "`{path}`: the gate decides after {} s, when the deadman has restarted the node after {} s",
        decide.as_secs(),
        deadman.as_secs()
    ))
    .hint("give `deadman` more seconds than `decide`"))
}

fn settings(spec: GateSpec) -> Settings {
    let seconds = Duration::from_secs;
    let standard = Settings::default();
    Settings {
        checks: spec.checks.into_iter().map(check).collect(),
        decide: spec.decide.map_or(standard.decide, seconds),
        parameters: spec.parameters.unwrap_or_default(),
    }
}

fn check(spec: CheckSpec) -> Check {
    Check {
        name: spec.name,
        what: match spec.check {
            WhatSpec::Command(words) => What::Command(words),
            WhatSpec::Unit(unit) => What::Unit(unit),
            WhatSpec::File(path) => What::File(path),
            WhatSpec::Mounted(path) => What::Mounted(path),
            WhatSpec::Http { port, path } => What::Http(port, path),
            WhatSpec::Release(release) => What::Release(release),
        },
        timeout: Duration::from_secs(spec.timeout.unwrap_or(10)),
        passes: spec.passes.unwrap_or(3),
    }
}

fn run(context: &Context, wanted: &Arguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    let on_trial = gate::is_trial(&place);
    let judged = (|| -> Result<Report, Failure> {
        // Settings that cannot be read are no reason to keep a kernel, nor to restart a good one.
        let settings = if on_trial {
            settings(wanted.spec(context, &place)?)
        } else {
            Settings::default()
        };
        Ok(gate::run(&place, &settings)?)
    })();
    match judged {
        Ok(report) => ended(context, &place, report),
        // Another gate holds the lock: the verdict is its.
        Err(failure) if on_trial && failure.exit != Exit::Locked => {
            deadman::restart(&place, &failure.message)?;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

fn ended(context: &Context, place: &Place, report: Report) -> Result<Exit, Failure> {
    let rejected = report.verdict == Verdict::Rejected;
    let why = report.why.clone().unwrap_or_default();
    context.answer(&ReportAnswer(report))?;
    if rejected {
        deadman::restart(place, &why)?;
        return Ok(Exit::GateRejected);
    }
    Ok(Exit::Ok)
}

fn reject(context: &Context, root: &Root) -> Result<Exit, Failure> {
    let place = root.place(context);
    ended(context, &place, gate::reject(&place)?)
}

fn deadman(context: &Context, arguments: &DeadmanArguments) -> Result<Exit, Failure> {
    let wanted = &arguments.usual;
    let place = wanted.root.place(context);
    // It fires in any case: where the settings cannot be read, at its usual time.
    let limit = wanted
        .spec(context, &place)
        .ok()
        .and_then(|spec| spec.deadman)
        .map_or(DEADMAN_LIMIT, Duration::from_secs);
    let end = deadman::wait(&place, limit, arguments.early)?;
    context.answer(&DeadmanAnswer(end))?;
    if end == End::Fires {
        deadman::restart(&place, "no verdict in time")?;
        return Ok(Exit::GateRejected);
    }
    Ok(Exit::Ok)
}

struct DeadmanAnswer(End);

impl Answer for DeadmanAnswer {
    fn text(&self, _style: Style) -> String {
        match self.0 {
            End::Rests => "nothing to do: no trial is without a verdict\n".to_owned(),
            End::Fires => "no verdict in time: the node is restarted\n".to_owned(),
        }
    }

    fn json(&self) -> Value {
        json!({"schema": "kiln.gate-deadman/1", "fired": self.0 == End::Fires})
    }
}

struct ReportAnswer(Report);

impl Answer for ReportAnswer {
    fn text(&self, style: Style) -> String {
        let report = &self.0;
        let mut lines = Vec::new();
        for check in &report.checks {
            let (tone, word) = if check.passed {
                (Tone::Good, "passed:")
            } else {
                (Tone::Bad, "failed:")
            };
            lines.push(format!(
                "{} {} ({} runs, {} ms) {}",
                style.paint(tone, word),
                check.name,
                check.runs,
                check.took_ms,
                check.said
            ));
        }
        lines.push(match report.verdict {
            Verdict::Committed => "committed: this kernel is the good one now".to_owned(),
            Verdict::Tried => {
                "healthy, for this boot: the next one starts the good kernel".to_owned()
            }
            Verdict::Rejected => "rejected: the node is restarted on its good kernel".to_owned(),
            Verdict::AtRest => "no trial runs".to_owned(),
        });
        if let Some(why) = &report.why {
            lines.push(format!("why: {why}"));
        }
        if report.repaired {
            lines.push("the state block was made anew; no trial is armed".to_owned());
        }
        if let Some(counting) = &report.counting {
            lines.push(format!("GRUB's counting on this node: {counting}"));
        }
        if let Some(probation) = &report.probation {
            lines.push(probation.clone());
        }
        if let Some(outcome) = &report.outcome {
            lines.push(format!("the last trial ended: {outcome}"));
        }
        if let Some(record) = &report.record {
            let signed = match &report.signed {
                Some(Ok(key)) => format!("signed by {key}"),
                Some(Err(why)) => format!("not signed: {why}"),
                None => "not signed".to_owned(),
            };
            lines.push(format!("record: {record} ({signed})"));
        }
        let trimmed = lines.iter().map(|line| line.trim_end());
        trimmed.flat_map(|line| [line, "\n"]).collect()
    }

    fn json(&self) -> Value {
        json!({"schema": "kiln.gate-run/1", "report": self.0})
    }
}
