//! The eight decisions of a plan, each with its state, its reason, and the way back.

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::cpus::CpuSet;

/// How a decision came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is part of the plan.
    Planned,
    /// This machine, or this role, has no use for it.
    NotNeeded,
    /// Left as it is, though another role could have it.
    Kept,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// From 1 to 8.
    pub number: u8,
    /// In a word or two.
    pub name: String,
    /// How it came out.
    pub state: State,
    /// What is decided.
    pub what: String,
    /// Why.
    pub why: String,
    /// How it is taken back.
    pub undo: String,
    /// What it costs; only the two trades have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
}

/// What there is to say of one, in order: name, state, what, why, undo, cost.
type Said = (
    &'static str,
    State,
    String,
    &'static str,
    &'static str,
    Option<String>,
);

/// The decisions of a plan whose other parts are done.
pub(super) fn decisions(plan: &Plan) -> Vec<Decision> {
    let all = [
        housekeeping(plan),
        caches(plan),
        fence(plan),
        slots(plan),
        determinism(plan),
        interrupts(plan),
        idle(plan),
        mitigations(plan),
    ];
    let numbered = (1..).zip(all);
    numbered
        .map(|(number, (name, state, what, why, undo, cost))| Decision {
            number,
            name: name.to_owned(),
            state,
            what,
            why: why.to_owned(),
            undo: undo.to_owned(),
            cost,
        })
        .collect()
}

fn housekeeping(plan: &Plan) -> Said {
    (
        "housekeeping",
        State::Planned,
        format!("CPUs {} keep house", plan.housekeeping),
        "what serves a pool core stays in its cache: two cores of every domain, one where it has six or \
         fewer, and never simply the first ones of the machine",
        "give the fence back; no core is set apart by itself",
        None,
    )
}

fn caches(plan: &Plan) -> Said {
    let spared = plan.domains.iter().find(|domain| domain.spared);
    let (state, what) = match spared {
        Some(domain) => (
            State::Planned,
            format!(
                "the stacked cache of {} MiB keeps no house and is given away first",
                domain.size_kib / 1024
            ),
        ),
        None if plan.has_unequal_caches() => (
            State::Planned,
            "every domain keeps house for itself; cores of larger caches are given away first"
                .to_owned(),
        ),
        None => (
            State::NotNeeded,
            "all L3 caches are of one size; cores are given away in the order of their numbers"
                .to_owned(),
        ),
    };
    (
        "cache preference",
        state,
        what,
        "a cache of 64 MiB or more beside a smaller one is stacked, and worth most to who pays for the \
         whole machine; on a shared one it would only move the wait to another tenant",
        "plan again with the other role",
        None,
    )
}

fn fence(plan: &Plan) -> Said {
    (
        "fence",
        State::Planned,
        format!(
            "a partition of kind `root` holds CPUs {}; everything else stays outside",
            plan.pool
        ),
        "services, sessions, containers and monitoring run on housekeeping CPUs only; `root` still \
         balances load inside, which `isolated` does not",
        "give the CPUs back to the root cgroup and every slice its own again",
        None,
    )
}

fn slots(plan: &Plan) -> Said {
    (
        "named cores",
        State::Planned,
        format!(
            "{} slots of one core with all its threads",
            plan.slots.density.len()
        ),
        "a quota says how much and never where: it stalls a server on an idle machine and moves it away \
         from its cache; a named core does neither, and no two tenants share one",
        "give the server its quota back and take its cpuset away",
        None,
    )
}

fn determinism(plan: &Plan) -> Said {
    let (slots, price) = (plan.slots.determinism.len(), plan.slots.price());
    let state = if slots == 0 {
        State::NotNeeded
    } else {
        State::Planned
    };
    let cost = if price == 0 {
        "no thread: the cores have one each".to_owned()
    } else {
        format!(
            "{price} thread{} a slot, which nobody can use",
            if price == 1 { "" } else { "s" }
        )
    };
    (
        "tick core alone",
        state,
        format!("up to {slots} slots of two cores: the tick alone on one, all else on the other"),
        "a thread beside the tick takes half of its core at any moment",
        "sell the two cores as slots of one core each",
        Some(cost),
    )
}

fn interrupts(plan: &Plan) -> Said {
    let interrupts = &plan.interrupts;
    (
        "interrupts",
        State::Planned,
        format!(
            "{} are given to housekeeping CPUs in turn; {} are managed by their drivers, {} cannot be moved",
            interrupts.given.len(),
            interrupts.managed.len(),
            interrupts.immovable.len()
        ),
        "an interrupt on a pool core stops the tick for as long as it takes; its driver may have none of \
         the server's work",
        "write the affinities back that were there",
        None,
    )
}

fn idle(plan: &Plan) -> Said {
    let pool: CpuSet = plan.caps.iter().map(|cap| &cap.cpus).collect();
    let names: Vec<String> = plan
        .caps
        .iter()
        .map(|cap| format!("{} ({} us)", cap.name, cap.latency_us))
        .collect();
    let (state, what) = if names.is_empty() {
        let what = "no CPU of the pool has a state that takes more than 100 us to leave";
        (State::NotNeeded, what.to_owned())
    } else {
        (
            State::Planned,
            format!("{} off on CPUs {pool}", names.join(", ")),
        )
    };
    (
        "idle states",
        state,
        what,
        "a sleeping pool core is back within 100 us; housekeeping keeps all states, and with them the \
         room to run the pool faster",
        "write the `disable` files back that were there",
        None,
    )
}

fn mitigations(plan: &Plan) -> Said {
    let is_off = plan
        .parameters
        .iter()
        .any(|parameter| parameter.name == "mitigations" && parameter.value == "off");
    if is_off {
        return (
            "mitigations",
            State::Planned,
            "off for the single tenant".to_owned(),
            "every entry to the kernel is dearer with them, and there is no second tenant to guard against",
            "start without `mitigations=off`; a second tenant must wait for that",
            Some(
                "any code that runs here can read all memory of this machine: no second tenant, no \
                 foreign code"
                    .to_owned(),
            ),
        );
    }
    (
        "mitigations",
        State::Kept,
        "on, as the kernel chooses them".to_owned(),
        "where tenants share, or may come to, one must not read the memory of another",
        "nothing to take back",
        Some(
            "dearer entries to the kernel; off only with `--role dedicated --tenants single`"
                .to_owned(),
        ),
    )
}
