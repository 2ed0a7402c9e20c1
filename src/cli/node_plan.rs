//! `kiln node plan`: which core does what, and why.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::context::Context;
use super::node::{Machine, counted};
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::cpus::CpuSet;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::node::{self, Order, Plan, Role, State};
use crate::ui::{Answer, Style, Table, Tone, chip};

pub(super) static PLAN: Verb = Verb {
    path: &["node", "plan"],
    summary: "Plan which core does what on a machine, with the reason for each decision",
    detail: "Changes nothing. The plan follows from the fingerprint alone: the same machine has the \
             same plan. Where the machine leaves a doubt there is no plan but the reason, and what \
             would make one possible.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NodeRefused, Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln node plan --role shared",
            says: "this machine for servers of several tenants",
        },
        Example {
            line: "kiln node plan --role dedicated --tenants single --svg chip.svg",
            says: "for one customer alone, and drawn",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleWord {
    /// Servers of several tenants
    Shared,
    /// One customer has the machine whole
    Dedicated,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tenants {
    /// One tenant, and no foreign code
    Single,
}

#[derive(Debug, Args)]
struct Arguments {
    #[command(flatten)]
    machine: Machine,

    #[command(flatten)]
    ordered: Ordered,

    /// Also draws the map into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<Utf8PathBuf>,
}

// What is asked for. Not a doc comment: that would become the help of every verb with it.
#[derive(Debug, Args)]
pub(super) struct Ordered {
    /// What the machine is for
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<RoleWord>,

    /// Vouch for a single tenant on a dedicated machine: mitigations are switched off
    #[arg(long, value_enum, value_name = "HOW-MANY", requires = "role")]
    tenants: Option<Tenants>,

    /// Vouch that each CPU of this virtual machine is a core of its own on its host
    #[arg(long, requires = "role")]
    vcpus_pinned: bool,
}

impl Ordered {
    /// The order; `None` where nothing is said.
    pub(super) fn order(&self) -> Result<Option<Order>, Failure> {
        let role = match (self.role, self.tenants) {
            (None, _) => return Ok(None),
            (Some(RoleWord::Shared), None) => Role::Shared,
            (Some(RoleWord::Dedicated), _) => Role::Dedicated,
            (Some(RoleWord::Shared), Some(Tenants::Single)) => {
                return Err(Failure::usage(
                    "`--role shared` is for several tenants, `--tenants single` vouches for one",
                )
                .hint("say `--role dedicated --tenants single`, or leave `--tenants` out"));
            }
        };
        Ok(Some(Order {
            role,
            single_tenant: self.tenants.is_some(),
            vcpus_pinned: self.vcpus_pinned,
        }))
    }
}

fn run(context: &Context, wanted: &Arguments) -> Result<Exit, Failure> {
    let order = wanted.ordered.order()?.ok_or_else(|| {
        Failure::usage("what the machine is for is missing: `--role shared` or `--role dedicated`")
    })?;
    let (_, found) = wanted.machine.read(context)?;
    let plan = node::plan(&found, order)?;
    if let Some(path) = &wanted.svg {
        files::write(&context.start().join(path), chip::svg(&plan).as_bytes())?;
    }
    context.answer(&Planned(plan))?;
    Ok(Exit::Ok)
}

struct Planned(Plan);

impl Answer for Planned {
    fn text(&self, style: Style) -> String {
        let plan = &self.0;
        let role = match plan.order.role {
            Role::Shared => "shared",
            Role::Dedicated => "dedicated",
        };
        let hash = plan.fingerprint.to_string();
        let heading = format!("plan for a {role} machine, topology {}", &hash[..12]);
        [
            format!("{}\n", style.paint(Tone::Strong, &heading)),
            chip::map(plan, style),
            classes(plan),
            decisions(plan, style),
            slots(plan),
            interrupts(plan),
            parameters(plan),
        ]
        .concat()
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.node-plan/1",
            "plan": self.0,
            "command_line": node::command_line(&self.0.parameters),
        })
    }
}

fn classes(plan: &Plan) -> String {
    let mut table = Table::new();
    let mut row = |what: &str, cpus: &CpuSet| {
        if !cpus.is_empty() {
            table.row([what, &counted(cpus.len(), "CPU"), &cpus.to_string()]);
        }
    };
    row("H keeps house:", &plan.housekeeping);
    row("P is given away:", &plan.pool);
    row("offline, to stay so:", &plan.offline);
    format!("\n{}", table.render(0))
}

fn decisions(plan: &Plan, style: Style) -> String {
    let mut out = vec!["\ndecisions\n".to_owned()];
    for decision in &plan.decisions {
        let state = match decision.state {
            State::Planned => style.paint(Tone::Good, "planned"),
            State::NotNeeded => style.paint(Tone::Faint, "not needed"),
            State::Kept => style.paint(Tone::Faint, "left as it is"),
        };
        let number = decision.number;
        out.push(format!(
            "{number} {}, {state}: {}\n",
            decision.name, decision.what
        ));
        let mut table = Table::new();
        table.row(["why:", &decision.why]);
        if let Some(cost) = &decision.cost {
            table.row(["cost:", cost]);
        }
        table.row(["undo:", &decision.undo]);
        out.push(table.render(2));
    }
    out.concat()
}

fn slots(plan: &Plan) -> String {
    let mut table = Table::new();
    for slot in &plan.slots.determinism {
        let unused = if slot.unused.is_empty() {
            "-".to_owned()
        } else {
            slot.unused.to_string()
        };
        table.row([
            format!("tick {}", slot.tick),
            format!("unused {unused}"),
            format!("helper {}", slot.helper),
        ]);
    }
    for core in &plan.slots.odd {
        table.row([format!("density only: {core}")]);
    }
    format!("\nslots with a tick core of their own\n{}", table.render(2))
}

fn interrupts(plan: &Plan) -> String {
    let interrupts = &plan.interrupts;
    let mut out = vec![format!(
        "\ninterrupts: {} to housekeeping CPUs, which have about {} vectors\n",
        interrupts.given.len(),
        interrupts.vectors
    )];
    let mut table = Table::new();
    for queues in &interrupts.queues {
        table.row([
            queues.device.clone(),
            format!("{} queues, at most {}", queues.queues, queues.at_most),
            queues.why.clone(),
        ]);
    }
    out.push(table.render(2));
    out.concat()
}

fn parameters(plan: &Plan) -> String {
    let mut table = Table::new();
    for parameter in &plan.parameters {
        let word = format!("{}={}", parameter.name, parameter.value);
        table.row([&word, &parameter.why]);
    }
    let mut left_out = Table::new();
    for parameter in &plan.left_out {
        left_out.row([&parameter.name, &parameter.why]);
    }
    format!(
        "\nboot parameters\n{}\nleft out\n{}\n{}\n",
        table.render(2),
        left_out.render(2),
        node::command_line(&plan.parameters)
    )
}
