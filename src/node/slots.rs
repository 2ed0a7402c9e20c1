//! What the pool can be given away as: whole cores by name, inside one domain, without a quota.

use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;

/// Two cores of one domain for a server whose tick must not be late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Determinism {
    /// The thread that the tick runs on, alone on its core.
    pub tick: CpuSet,
    /// The tick core's other threads: they are in no cpuset, so that nothing runs beside the tick.
    pub unused: CpuSet,
    /// The other core, with all its threads, for everything else of the server.
    pub helper: CpuSet,
}

/// Two ways to give the same pool away, and any mixture of them core by core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// A core with all its threads each, in the order in which they are given away.
    pub density: Vec<CpuSet>,
    /// Two cores each, in the same order.
    pub determinism: Vec<Determinism>,
    /// Cores that have no second one in their domain: for density only.
    pub odd: Vec<CpuSet>,
}

impl Slots {
    /// Slots of the pool, given in order with the domain of each core.
    pub(super) fn of(pool: &[(usize, CpuSet)]) -> Self {
        let mut slots = Self {
            density: pool.iter().map(|(_, core)| core.clone()).collect(),
            determinism: Vec::new(),
            odd: Vec::new(),
        };
        for domain in pool.chunk_by(|one, next| one.0 == next.0) {
            for pair in domain.chunks(2) {
                match pair {
                    [(_, tick), (_, helper)] => {
                        slots.determinism.push(Determinism::of(tick, helper));
                    }
                    rest => slots.odd.extend(rest.iter().map(|(_, core)| core.clone())),
                }
            }
        }
        slots
    }

    /// Threads that one determinism slot leaves unused.
    pub fn price(&self) -> usize {
        let unused = self.determinism.iter().map(|slot| slot.unused.len());
        unused.max().unwrap_or(0)
    }
}

impl Determinism {
    /// Two cores as one slot.
    pub(super) fn of(tick_core: &CpuSet, helper: &CpuSet) -> Self {
        let tick: CpuSet = tick_core.first().into_iter().collect();
        Self {
            unused: tick_core.difference(&tick),
            tick,
            helper: helper.clone(),
        }
    }
}
