//! `kiln node slots`: who has which cores.

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::context::Context;
use super::node::{Machine, counted};
use super::node_plan::Ordered;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::cpus::CpuSet;
use crate::failure::{Exit, Failure};
use crate::files::{self, Lock, Wait};
use crate::machine::Fingerprint;
use crate::node::{self, Kind, LEDGER, Ledger, Plan, Slot, Wanted};
use crate::proof::canonical;
use crate::ui::{Answer, Style, Table};

/// Where a node keeps it.
const PATH: &str = "/var/lib/kiln/node/slots.json";

pub(super) static SLOTS: Verb = Verb {
    path: &["node", "slots"],
    summary: "Give cores of the pool to servers and take them back; nothing is given twice",
    detail: "Keeps a ledger, which is held against the machine's plan at every use. A slot is whole \
             cores of one L3 domain, for one tenant, without a quota. The first `add` begins the \
             ledger and needs `--role`, as `kiln node plan` does.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NodeRefused, Exit::Locked, Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln node slots add lobby --tenant acme --role shared",
            says: "one core with all its threads, and the lines that confine a server to it",
        },
        Example {
            line: "kiln node slots add arena --tenant acme --kind determinism",
            says: "two cores, the tick alone on one of them",
        },
        Example {
            line: "kiln node slots list",
            says: "who has what, and what is free",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Show slots and what is free
    List,
    /// Give a slot away
    Add,
    /// Take a slot back
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindWord {
    /// Whole cores with all their threads
    Density,
    /// Two cores, the tick alone on one of them
    Determinism,
}

#[derive(Debug, Args)]
struct Arguments {
    /// What to do
    #[arg(value_enum, value_name = "ACTION")]
    action: Action,

    /// The server
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Whose it is
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// What kind of slot
    #[arg(long, value_enum, value_name = "KIND", default_value = "density")]
    kind: KindWord,

    /// Cores of a density slot, all of one L3 domain
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    cores: usize,

    /// The ledger
    #[arg(long, value_name = "FILE", default_value = PATH)]
    ledger: Utf8PathBuf,

    #[command(flatten)]
    ordered: Ordered,

    #[command(flatten)]
    machine: Machine,
}

fn run(context: &Context, wanted: &Arguments) -> Result<Exit, Failure> {
    let (_, found) = wanted.machine.read(context)?;
    let path = context.start().join(&wanted.ledger);
    let answer = match wanted.action {
        Action::List => {
            let (ledger, plan) = read(&path, &found, &wanted.ordered)?;
            Told {
                ledger,
                plan,
                changed: None,
            }
        }
        Action::Add | Action::Remove => {
            // A lock file of its own: the ledger itself is replaced, and a lock stays with the old one.
            let lock = path.with_extension("lock");
            let _held = Lock::acquire(&lock, "slots", Wait::No, |_| {})?;
            let (mut ledger, plan) = read(&path, &found, &wanted.ordered)?;
            let slot = change(&mut ledger, &plan, wanted)?;
            ledger.check(&plan)?;
            files::write(&path, &canonical::to_pretty("ledger", &ledger)?)?;
            let changed = Some((wanted.action, slot));
            Told {
                ledger,
                plan,
                changed,
            }
        }
    };
    context.answer(&answer)?;
    Ok(Exit::Ok)
}

/// The ledger, and the plan of the machine that it holds against.
fn read(
    path: &Utf8Path,
    found: &Fingerprint,
    ordered: &Ordered,
) -> Result<(Ledger, Plan), Failure> {
    if !path.exists() {
        let order = ordered.order()?.ok_or_else(|| {
            Failure::usage(format!(
                "there is no ledger `{path}` yet, and no `--role` to begin one"
            ))
            .hint("say `--role shared` or `--role dedicated`, as for `kiln node plan`")
        })?;
        let plan = node::plan(found, order)?;
        return Ok((Ledger::of(&plan), plan));
    }
    let text = files::read_text(path, canonical::SIZE_LIMIT)?;
    canonical::check_schema(path.as_str(), text.as_bytes(), LEDGER)?;
    let ledger: Ledger = canonical::from_pretty(path.as_str(), &text)?;
    if ordered
        .order()?
        .is_some_and(|order| order != ledger.order())
    {
        return Err(Failure::usage(format!(
            "the ledger `{path}` is of a plan for another role or other tenants"
        ))
        .hint("leave `--role` and `--tenants` out; another role needs a new ledger"));
    }
    let plan = node::plan(found, ledger.order())?;
    ledger.check(&plan)?;
    Ok((ledger, plan))
}

fn change(ledger: &mut Ledger, plan: &Plan, wanted: &Arguments) -> Result<Slot, Failure> {
    let name = wanted.name.as_deref();
    let name = name.ok_or_else(|| Failure::usage("which slot: its name is missing"))?;
    if matches!(wanted.action, Action::Remove) {
        return Ok(ledger.remove(name)?);
    }
    let tenant = wanted.tenant.as_deref();
    let tenant = tenant.ok_or_else(|| Failure::usage("whose slot: `--tenant NAME` is missing"))?;
    if wanted.kind == KindWord::Determinism && wanted.cores != 1 {
        return Err(Failure::usage(format!(
            "`--cores {}` is for density slots: one for determinism has two cores",
            wanted.cores
        )));
    }
    let kind = match wanted.kind {
        KindWord::Density => Kind::Density,
        KindWord::Determinism => Kind::Determinism,
    };
    Ok(ledger.add(
        plan,
        Wanted {
            name,
            tenant,
            kind,
            cores: wanted.cores,
        },
    )?)
}

struct Told {
    ledger: Ledger,
    plan: Plan,
    changed: Option<(Action, Slot)>,
}

impl Told {
    fn free(&self) -> Vec<&CpuSet> {
        self.ledger.free(&self.plan).concat()
    }
}

impl Answer for Told {
    fn text(&self, _style: Style) -> String {
        let mut out = Vec::new();
        match &self.changed {
            Some((Action::Remove, slot)) => {
                out.push(format!(
                    "took `{}` back: CPUs {}\n",
                    slot.name,
                    slot.cores()
                ));
            }
            Some((_, slot)) => out.push(given(slot)),
            None => {
                let mut table = Table::new();
                for slot in self.ledger.slots() {
                    table.row([
                        slot.name.clone(),
                        slot.tenant.clone(),
                        word(slot),
                        cpus(slot),
                    ]);
                }
                out.push(table.render(0));
            }
        }
        let free: CpuSet = self.free().into_iter().collect();
        out.push(format!(
            "free: {} of {}{}\n",
            self.free().len(),
            counted(self.plan.pool_order.len(), "core"),
            if free.is_empty() {
                String::new()
            } else {
                format!(", CPUs {free}")
            }
        ));
        out.concat()
    }

    fn json(&self) -> Value {
        let mut document = json!({
            "schema": "kiln.node-slots/1",
            "ledger": self.ledger,
            "free": self.free(),
        });
        if let Some((_, slot)) = &self.changed {
            document["changed"] = json!(slot);
        }
        document
    }
}

fn word(slot: &Slot) -> String {
    match slot.kind {
        Kind::Density => "density".to_owned(),
        Kind::Determinism => "determinism".to_owned(),
    }
}

fn cpus(slot: &Slot) -> String {
    match slot.kind {
        Kind::Density => slot.cpus.to_string(),
        Kind::Determinism if slot.unused.is_empty() => format!("{}, tick {}", slot.cpus, slot.tick),
        Kind::Determinism => format!("{}, tick {}, unused {}", slot.cpus, slot.tick, slot.unused),
    }
}

/// What to write where, so that a server stays on its cores; never a quota.
fn given(slot: &Slot) -> String {
    let cpus_of = &slot.cpus;
    let mut table = Table::new();
    table.row([
        "systemd:".to_owned(),
        format!("AllowedCPUs={cpus_of}"),
        "and no CPUQuota=".to_owned(),
    ]);
    table.row([
        "Docker:".to_owned(),
        format!("--cpuset-cpus={cpus_of}"),
        "and no --cpus, no --cpu-quota".to_owned(),
    ]);
    table.row([
        "panel:".to_owned(),
        cpus_of.to_string(),
        "as CPU pinning, with a CPU limit of 0".to_owned(),
    ]);
    if !slot.tick.is_empty() {
        table.row([
            "tick thread:".to_owned(),
            format!("taskset -pc {} TID", slot.tick),
            String::new(),
        ]);
    }
    format!(
        "gave `{}` ({}) CPUs {}\n{}",
        slot.name,
        word(slot),
        cpus(slot),
        table.render(2)
    )
}
