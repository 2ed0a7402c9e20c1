//! Who has which cores of the pool. A ledger is held against the plan whenever it is read, so that
//! cores are reserved for real: no core is in two slots, and none is given away that the pool lacks.

use serde::{Deserialize, Serialize};

use super::plan::{Class, Order, Plan};
use super::slots::Determinism;
use crate::cpus::CpuSet;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};

/// The schema that is written; who reads one compares it first.
pub const LEDGER: &str = "kiln.slots/1";

/// What a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Whole cores with all their threads.
    Density,
    /// Two cores; the tick alone on one of them.
    Determinism,
}

/// Cores that a server has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// The server.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// What kind of slot.
    pub kind: Kind,
    /// The CPUs that its cpuset holds.
    pub cpus: CpuSet,
    /// The thread for the tick; empty in a density slot.
    pub tick: CpuSet,
    /// Threads beside the tick: paid for, and in no cpuset.
    pub unused: CpuSet,
}

impl Slot {
    /// All threads of its cores.
    pub fn cores(&self) -> CpuSet {
        self.cpus.union(&self.unused)
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The server.
    pub name: &'a str,
    /// Whose it is.
    pub tenant: &'a str,
    /// What kind of slot.
    pub kind: Kind,
    /// How many cores; two for determinism, whatever is said.
    pub cores: usize,
}

/// Why a slot is not given, or a ledger not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Written for a machine that was another then.
    #[error(
        "the ledger is of topology {ledger}, this machine is {machine}: its lists of CPUs may mean other cores now"
    )]
    Stale {
        /// What the ledger is of.
        ledger: Sha256,
        /// What the machine is.
        machine: Sha256,
    },
    /// Not what a plan allows.
    #[error("slot `{name}` of the ledger {why}")]
    Wrong {
        /// The slot.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A name that could not be written into other programs' settings.
    #[error(
        "`{0}` is no name: expected 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit"
    )]
    Name(String),
    /// The name is given.
    #[error("there is a slot `{0}` already")]
    Taken(String),
    /// The name is not given.
    #[error("there is no slot `{0}`")]
    Absent(String),
    /// Nothing was asked for.
    #[error("`--cores 0`: a slot has at least one core")]
    NoCores,
    /// It does not fit.
    #[error("no L3 domain has {wanted} free core{plural}; {free} of {pool} cores of the pool are free, at most {most} in one domain", plural = if *wanted == 1 { "" } else { "s" })]
    Full {
        /// Cores asked for.
        wanted: usize,
        /// Free ones in all.
        free: usize,
        /// Free ones of the domain that has most.
        most: usize,
        /// Cores of the pool.
        pool: usize,
    },
    /// Mitigations are off for somebody else.
    #[error(
        "this machine runs without mitigations for the single tenant `{tenant}`: a second one could read all memory, and be read"
    )]
    SecondTenant {
        /// The one that has it.
        tenant: String,
    },
}

impl Diagnose for LedgerError {
    fn exit(&self) -> Exit {
        match self {
            Self::Name(_) | Self::Taken(_) | Self::Absent(_) | Self::NoCores => Exit::Usage,
            Self::Stale { .. }
            | Self::Wrong { .. }
            | Self::Full { .. }
            | Self::SecondTenant { .. } => Exit::NodeRefused,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "ledger-stale",
            Self::Wrong { .. } => "ledger-wrong",
            Self::Name(_) => "slot-name",
            Self::Taken(_) => "slot-taken",
            Self::Absent(_) => "slot-absent",
            Self::NoCores => "slot-without-cores",
            Self::Full { .. } => "pool-full",
            Self::SecondTenant { .. } => "second-tenant",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Stale { .. } => {
                "compare with `kiln node fingerprint`; bring the machine back to what it was, or begin a \
                 new ledger and give its servers slots anew"
            }
            Self::Wrong { .. } => "the ledger was edited: put the file back, or begin a new one",
            Self::Full { .. } => {
                "remove a slot, ask for fewer cores, or take another machine; nothing is given twice"
            }
            Self::SecondTenant { .. } => {
                "plan the machine without `--tenants single`, restart it, and begin a new ledger"
            }
            Self::Absent(_) => "see `kiln node slots list`",
            Self::Name(_) | Self::Taken(_) | Self::NoCores => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// A ledger of slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    schema: String,
    fingerprint: Sha256,
    order: Order,
    slots: Vec<Slot>,
}

impl Ledger {
    /// The empty ledger of a plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            schema: LEDGER.to_owned(),
            fingerprint: plan.fingerprint,
            order: plan.order,
            slots: Vec::new(),
        }
    }

    /// What its plan was asked to be.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The slots, in the order of their names.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Holds it against the plan of the machine as it is now.
    ///
    /// # Errors
    /// Fails where it is of another topology, and where a slot is not made of whole cores of one
    /// domain's pool that no other slot has.
    pub fn check(&self, plan: &Plan) -> Result<(), LedgerError> {
        if self.fingerprint != plan.fingerprint {
            return Err(LedgerError::Stale {
                ledger: self.fingerprint,
                machine: plan.fingerprint,
            });
        }
        for (at, slot) in self.slots.iter().enumerate() {
            let wrong = |why: String| LedgerError::Wrong {
                name: slot.name.clone(),
                why,
            };
            sound(plan, slot).map_err(|why| wrong(why.to_owned()))?;
            name(&slot.name)?;
            name(&slot.tenant)?;
            for other in &self.slots[..at] {
                if other.name == slot.name {
                    return Err(wrong("is there twice".to_owned()));
                }
                if !other.cores().is_disjoint(&slot.cores()) {
                    return Err(wrong(format!("shares a core with slot `{}`", other.name)));
                }
                self.one_tenant(&other.tenant, &slot.tenant)?;
            }
        }
        Ok(())
    }

    fn one_tenant(&self, first: &str, second: &str) -> Result<(), LedgerError> {
        if self.order.single_tenant && first != second {
            return Err(LedgerError::SecondTenant {
                tenant: first.to_owned(),
            });
        }
        Ok(())
    }

    /// Cores of the pool that no slot has, by domain, each in the order in which they are given away.
    pub fn free<'a>(&self, plan: &'a Plan) -> Vec<Vec<&'a CpuSet>> {
        let is_free = |core: &&CpuSet| self.slots.iter().all(|s| s.cores().is_disjoint(core));
        let mut domains = pools(plan);
        for cores in &mut domains {
            cores.retain(is_free);
        }
        domains
    }

    /// Gives a slot away: the first cores in the pool's order that lie together in one domain.
    ///
    /// # Errors
    /// Fails where the name is taken, or no domain has as many free cores.
    pub fn add(&mut self, plan: &Plan, wanted: Wanted<'_>) -> Result<Slot, LedgerError> {
        name(wanted.name)?;
        name(wanted.tenant)?;
        if self.slots.iter().any(|slot| slot.name == wanted.name) {
            return Err(LedgerError::Taken(wanted.name.to_owned()));
        }
        if let Some(slot) = self.slots.first() {
            self.one_tenant(&slot.tenant, wanted.tenant)?;
        }
        let count = match wanted.kind {
            Kind::Density => wanted.cores,
            Kind::Determinism => 2,
        };
        if count == 0 {
            return Err(LedgerError::NoCores);
        }
        let free = self.free(plan);
        let Some(domain) = free.iter().find(|cores| cores.len() >= count) else {
            return Err(LedgerError::Full {
                wanted: count,
                free: free.iter().map(Vec::len).sum(),
                most: free.iter().map(Vec::len).max().unwrap_or(0),
                pool: plan.pool_order.len(),
            });
        };
        let (cpus, tick, unused) = match (wanted.kind, &domain[..count]) {
            (Kind::Determinism, [tick_core, helper]) => {
                let parts = Determinism::of(tick_core, helper);
                (parts.tick.union(&parts.helper), parts.tick, parts.unused)
            }
            (_, cores) => {
                let cpus = cores.iter().copied().collect();
                (cpus, CpuSet::new(), CpuSet::new())
            }
        };
        let slot = Slot {
            name: wanted.name.to_owned(),
            tenant: wanted.tenant.to_owned(),
            kind: wanted.kind,
            cpus,
            tick,
            unused,
        };
        self.slots.push(slot.clone());
        self.slots.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(slot)
    }

    /// Takes a slot back.
    ///
    /// # Errors
    /// Fails where there is none of that name.
    pub fn remove(&mut self, name: &str) -> Result<Slot, LedgerError> {
        let at = self.slots.iter().position(|slot| slot.name == name);
        let at = at.ok_or_else(|| LedgerError::Absent(name.to_owned()))?;
        Ok(self.slots.remove(at))
    }
}

/// The pool's cores by domain, domains and cores in the order in which they are given away.
fn pools(plan: &Plan) -> Vec<Vec<&CpuSet>> {
    let home = |core: &CpuSet| {
        let has = |domain: &super::plan::PlannedDomain| {
            let mut cores = domain.cores.iter();
            cores.any(|other| other.class == Class::Pool && other.cpus == *core)
        };
        plan.domains.iter().position(has)
    };
    let mut pools: Vec<(Option<usize>, Vec<&CpuSet>)> = Vec::new();
    for core in &plan.pool_order {
        let domain = home(core);
        match pools.last_mut() {
            Some((last, cores)) if *last == domain => cores.push(core),
            _ => pools.push((domain, vec![core])),
        }
    }
    pools.into_iter().map(|(_, cores)| cores).collect()
}

/// Whether a slot is what [`Ledger::add`] could have given away.
fn sound(plan: &Plan, slot: &Slot) -> Result<(), &'static str> {
    let all = slot.cores();
    if all.is_empty() {
        return Err("has no core");
    }
    if !all.is_subset(&plan.pool) {
        return Err("has CPUs that are not in the pool");
    }
    let pools = pools(plan);
    let touched = |cores: &&Vec<&CpuSet>| cores.iter().any(|core| !core.is_disjoint(&all));
    let mut touched = pools.iter().filter(touched);
    let (Some(domain), None) = (touched.next(), touched.next()) else {
        return Err("lies across several L3 domains");
    };
    let cores: Vec<&CpuSet> = domain
        .iter()
        .filter(|core| !core.is_disjoint(&all))
        .copied()
        .collect();
    if cores.iter().any(|core| !core.is_subset(&all)) {
        return Err("has a part of a core only");
    }
    let fits = match slot.kind {
        Kind::Density => slot.tick.is_empty() && slot.unused.is_empty(),
        Kind::Determinism => match cores[..] {
            [one, other] => [(one, other), (other, one)].iter().any(|(tick, helper)| {
                let parts = Determinism::of(tick, helper);
                parts.tick == slot.tick
                    && parts.unused == slot.unused
                    && parts.tick.union(helper) == slot.cpus
            }),
            _ => false,
        },
    };
    if fits {
        Ok(())
    } else {
        Err("is not what a slot of its kind is made of")
    }
}

fn name(text: &str) -> Result<(), LedgerError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let good = (1..=64).contains(&text.len())
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric();
    if good {
        Ok(())
    } else {
        Err(LedgerError::Name(text.chars().take(64).collect()))
    }
}
