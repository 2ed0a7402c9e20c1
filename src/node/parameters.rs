//! What the kernel is started with, each with its reason, and what is left out on purpose.

use serde::{Deserialize, Serialize};

use super::plan::{Order, Role};
use crate::cpus::CpuSet;

/// A boot parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it is for.
    pub why: String,
}

/// A parameter that others set and this plan does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// What speaks against it.
    pub why: String,
}

/// Parameters as one line.
pub fn command_line(parameters: &[Parameter]) -> String {
    let parameters = parameters.iter();
    let words: Vec<String> = parameters
        .map(|p| format!("{}={}", p.name, p.value))
        .collect();
    words.join(" ")
}

/// What both roles start with. The lists are the plan's; the rest was read in the kernel's sources and
/// in `admin-guide/kernel-parameters.txt`.
pub(super) fn parameters(order: Order, house: &CpuSet, pool: &CpuSet) -> Vec<Parameter> {
    let rows = [
        (
            "preempt",
            "full".to_owned(),
            "a thread that wakes up runs at once; `lazy` lets another run on until the next tick",
        ),
        (
            "panic",
            "10".to_owned(),
            "a kernel that dies restarts, so that the boot gate counts the attempt",
        ),
        (
            "oops",
            "panic".to_owned(),
            "a kernel that oopsed may hold locks for ever: it dies instead, and the gate sees it",
        ),
        (
            "skew_tick",
            "1".to_owned(),
            "the ticks of all CPUs do not come at the same moment and wait for the same locks",
        ),
        (
            "irqaffinity",
            house.to_string(),
            "interrupts start on housekeeping CPUs, before anything can move them",
        ),
        (
            "isolcpus",
            format!("managed_irq,{pool}"),
            "managed interrupts keep off the pool where their queue has a housekeeping CPU too; never without `managed_irq`: that would end load balancing over the pool",
        ),
        (
            "workqueue.unbound_cpus",
            house.to_string(),
            "work that is bound to no CPU is done on housekeeping CPUs",
        ),
        (
            "transparent_hugepage",
            "madvise".to_owned(),
            "only who asks for huge pages waits for memory to be compacted",
        ),
        (
            "numa_balancing",
            "disable".to_owned(),
            "pages are not unmapped to find out who uses them",
        ),
        (
            "rcupdate.rcu_normal_after_boot",
            "1".to_owned(),
            "no expedited grace periods, which interrupt every CPU",
        ),
        (
            "rcutree.enable_rcu_lazy",
            "0".to_owned(),
            "callbacks are not put off for seconds and then done at once",
        ),
    ];
    let (value, why) = mitigations(order);
    let rows = rows
        .into_iter()
        .chain([("mitigations", value.to_owned(), why)]);
    rows.map(|(name, value, why)| Parameter {
        name: name.to_owned(),
        value,
        why: why.to_owned(),
    })
    .collect()
}

/// Mitigations by tenancy: off only where somebody vouches for a single tenant.
fn mitigations(order: Order) -> (&'static str, &'static str) {
    match order {
        Order {
            role: Role::Shared, ..
        } => (
            "auto",
            "tenants share this machine, so they stay on; said here, so that no default decides it",
        ),
        Order {
            single_tenant: false,
            ..
        } => (
            "auto",
            "nobody said that there is one tenant only (`--tenants single`), so they stay on",
        ),
        Order { .. } => (
            "off",
            "one tenant, as said by who made the plan: there is nobody to keep secrets from",
        ),
    }
}

/// What is left out on purpose.
pub(super) fn left_out() -> Vec<LeftOut> {
    let rows = [
        (
            "isolcpus=domain",
            "ends load balancing: the threads of a server pile up on its first core; the fence does without",
        ),
        (
            "nohz_full",
            "helps a CPU with exactly one runnable thread and makes every entry to the kernel dearer elsewhere; for tick cores that were measured to have one",
        ),
        (
            "rcu_nocbs",
            "its threads would run on the pool unless they are pinned; to be tried against a run without",
        ),
        (
            "tsc=nowatchdog",
            "only once the TSC of this machine was seen to be stable",
        ),
        (
            "idle=poll, processor.max_cstate",
            "hold for the whole machine: housekeeping and siblings would stay hot; idle states are capped per CPU instead",
        ),
        (
            "nosoftlockup, nowatchdog",
            "a kernel that hangs must die, so that the boot gate counts it",
        ),
    ];
    rows.map(|(name, why)| LeftOut {
        name: name.to_owned(),
        why: why.to_owned(),
    })
    .into()
}
