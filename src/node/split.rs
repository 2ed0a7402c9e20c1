//! Who keeps house, and in which order the others are given away.

use super::layout::{Domain, Layout};
use super::plan::Role;
use super::refusal::Refusal;
use crate::cpus::CpuSet;

/// An L3 cache from this size on, in KiB, that is larger than its neighbour, is stacked. Told by the
/// layout and this floor, never by a CPU's name: a chip with 16 and 8 MiB has no stacked cache.
pub const STACKED_KIB: u64 = 64 << 10;

/// Cores up to which a domain keeps house with one core: of six, two would be a third.
const SMALL: usize = 6;

/// Cores, shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Split {
    /// Cores that keep house.
    pub(super) housekeeping: Vec<CpuSet>,
    /// Cores of the pool with their domain's number, in the order in which they are given away.
    pub(super) pool: Vec<(usize, CpuSet)>,
    /// The domain with the stacked cache, where it is spared all housekeeping.
    pub(super) spared: Option<usize>,
}

impl Split {
    /// Shares the cores of a machine out.
    pub(super) fn of(layout: &Layout, role: Role) -> Result<Self, Refusal> {
        let domains = layout.domains();
        let spared = match role {
            Role::Shared => None,
            Role::Dedicated => stacked(domains)?,
        };
        let (mut housekeeping, mut pool) = (Vec::new(), Vec::new());
        for (at, domain) in domains.iter().enumerate() {
            let count = if spared == Some(at) {
                0
            } else {
                quota(domain.cores.len())
            };
            let (house, rest) = domain.cores.split_at(count.min(domain.cores.len()));
            housekeeping.extend_from_slice(house);
            pool.extend(rest.iter().map(|core| (at, core.clone())));
        }
        if pool.is_empty() {
            return Err(Refusal::TooFewCores {
                cores: housekeeping.len(),
                domains: domains.len(),
            });
        }
        let boot = layout.boot_cpu();
        // Larger caches first. The core that the machine starts on comes last in its domain: some
        // interrupts never leave it, and no `nohz_full=` can have it.
        pool.sort_by_key(|(at, core)| {
            let is_boot = boot.is_some_and(|cpu| core.contains(cpu));
            let larger_first = u64::MAX - domains[*at].size_kib;
            (larger_first, *at, is_boot, core.first())
        });
        Ok(Self {
            housekeeping,
            pool,
            spared,
        })
    }
}

/// How many cores of a domain keep house.
fn quota(cores: usize) -> usize {
    if cores <= SMALL { 1 } else { 2 }
}

/// The domain with stacked cache, where exactly one of two has it.
fn stacked(domains: &[Domain]) -> Result<Option<usize>, Refusal> {
    let sizes = || domains.iter().map(|domain| domain.size_kib);
    let (largest, smallest) = (sizes().max().unwrap_or(0), sizes().min().unwrap_or(0));
    if largest < STACKED_KIB || largest == smallest {
        return Ok(None);
    }
    if domains.len() == 2 {
        return Ok(sizes().position(|size| size == largest));
    }
    let is_stacked = |size: &u64| *size >= STACKED_KIB && *size > smallest;
    Err(Refusal::ManyUnequal {
        stacked: sizes().filter(is_stacked).count(),
        domains: domains.len(),
    })
}
