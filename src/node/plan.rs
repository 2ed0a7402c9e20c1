//! The plan: from what a machine is to who owns which core.

use serde::{Deserialize, Serialize};

use super::decisions::{self, Decision};
use super::interrupts::Interrupts;
use super::layout::Layout;
use super::parameters::{self, LeftOut, Parameter};
use super::refusal::Refusal;
use super::slots::Slots;
use super::split::Split;
use crate::cpus::CpuSet;
use crate::digest::Sha256;
use crate::machine::{Fingerprint, Idle};

/// The longest that a CPU of the pool may take to leave an idle state, in microseconds.
pub const DEEPEST_US: u32 = 100;

/// What a machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Servers of several tenants.
    Shared,
    /// One customer has it whole.
    Dedicated,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What the machine is for.
    pub role: Role,
    /// Whether somebody vouches that there is one tenant only; nothing on a shared machine.
    pub single_tenant: bool,
    /// Whether somebody vouches that CPUs of a virtual machine are cores of its own.
    pub vcpus_pinned: bool,
}

/// What a core is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Keeps house: the system, its services, interrupts.
    Housekeeping,
    /// Is given away to servers.
    Pool,
}

/// A core, with all its threads in one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCore {
    /// Its threads.
    pub cpus: CpuSet,
    /// What it is for.
    pub class: Class,
}

/// The cores of an L3 cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDomain {
    /// The package.
    pub package: u16,
    /// The NUMA node.
    pub node: u16,
    /// The cache's size, in KiB.
    pub size_kib: u64,
    /// Whether its cache is stacked and it is spared all housekeeping for that.
    pub spared: bool,
    /// Its cores, by their lowest CPU.
    pub cores: Vec<PlannedCore>,
}

/// An idle state that is switched off on CPUs of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// Its number on these CPUs.
    pub index: u16,
    /// Its name.
    pub name: String,
    /// How long leaving it takes, in microseconds.
    pub latency_us: u32,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// Who owns which core, and what is done so that it stays so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The topology that it holds for, and no other.
    pub fingerprint: Sha256,
    /// What was asked for.
    pub order: Order,
    /// CPUs that keep house.
    pub housekeeping: CpuSet,
    /// CPUs that are given away.
    pub pool: CpuSet,
    /// CPUs that are plugged in and do not run: in neither class, and not wanted back under this plan.
    pub offline: CpuSet,
    /// Cores by the L3 cache that they share.
    pub domains: Vec<PlannedDomain>,
    /// The pool's cores in the order in which they are given away.
    pub pool_order: Vec<CpuSet>,
    /// What the pool can be given away as.
    pub slots: Slots,
    /// Where interrupts go.
    pub interrupts: Interrupts,
    /// Idle states that are switched off.
    pub caps: Vec<Cap>,
    /// What the kernel is started with.
    pub parameters: Vec<Parameter>,
    /// What it is not started with, and why.
    pub left_out: Vec<LeftOut>,
    /// The eight decisions.
    pub decisions: Vec<Decision>,
}

impl Plan {
    /// Whether L3 caches differ in size.
    pub fn has_unequal_caches(&self) -> bool {
        let mut sizes = self.domains.windows(2);
        sizes.any(|pair| pair[0].size_kib != pair[1].size_kib)
    }
}

/// The plan for a machine. The same question has the same answer, and nothing but the fingerprint and
/// the order goes into it.
///
/// # Errors
/// Refuses wherever the machine leaves a doubt.
pub fn plan(found: &Fingerprint, order: Order) -> Result<Plan, Refusal> {
    let layout = Layout::of(found, order.vcpus_pinned)?;
    let split = Split::of(&layout, order.role)?;
    let housekeeping: CpuSet = split.housekeeping.iter().collect();
    let pool: CpuSet = split.pool.iter().map(|(_, core)| core).collect();
    let mut plan = Plan {
        fingerprint: found.hash,
        order,
        offline: found.topology.offline(),
        domains: domains(&layout, &split),
        pool_order: split.pool.iter().map(|(_, core)| core.clone()).collect(),
        slots: Slots::of(&split.pool),
        interrupts: Interrupts::of(found, &split.housekeeping)?,
        caps: caps(&found.idle, &pool),
        parameters: parameters::parameters(order, &housekeeping, &pool),
        left_out: parameters::left_out(),
        decisions: Vec::new(),
        housekeeping,
        pool,
    };
    plan.decisions = decisions::decisions(&plan);
    Ok(plan)
}

fn domains(layout: &Layout, split: &Split) -> Vec<PlannedDomain> {
    let class = |core: &CpuSet| {
        if split.housekeeping.contains(core) {
            Class::Housekeeping
        } else {
            Class::Pool
        }
    };
    let core = |core: &CpuSet| PlannedCore {
        cpus: core.clone(),
        class: class(core),
    };
    let domains = layout.domains().iter().enumerate();
    domains
        .map(|(at, domain)| PlannedDomain {
            package: domain.package,
            node: domain.node,
            size_kib: domain.size_kib,
            spared: split.spared == Some(at),
            cores: domain.cores.iter().map(core).collect(),
        })
        .collect()
}

/// What is too deep for the pool. Of every CPU its own states count: they differ where cores do.
fn caps(idle: &Idle, pool: &CpuSet) -> Vec<Cap> {
    let deep = idle
        .states
        .iter()
        .filter(|state| state.latency_us > DEEPEST_US);
    deep.map(|state| Cap {
        index: state.index,
        name: state.name.clone(),
        latency_us: state.latency_us,
        cpus: state.cpus.intersection(pool),
    })
    .filter(|cap| !cap.cpus.is_empty())
    .collect()
}
