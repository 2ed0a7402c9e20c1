//! Idle states and frequency: how deep a CPU sleeps, and who sets its speed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::root::Root;
use super::topology::CPUS;
use crate::cpus::CpuSet;

/// One idle state, and the CPUs that have it with the same number, name and latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// Its number on these CPUs.
    pub index: u16,
    /// Its name, such as `C2`.
    pub name: String,
    /// How long leaving it takes, in microseconds.
    pub latency_us: u32,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Those of them on which it is disabled now.
    pub disabled: CpuSet,
}

/// Idle states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The driver; empty where there is none.
    pub driver: String,
    /// The governor; empty where there is none.
    pub governor: String,
    /// The states, by number.
    pub states: Vec<IdleState>,
}

impl Idle {
    pub(super) fn read(root: &Root, online: &CpuSet) -> Self {
        let word = |name: &str| {
            let path = format!("{CPUS}/cpuidle/{name}");
            root.text(&path).unwrap_or_default()
        };
        let mut states: BTreeMap<(u16, u32, String), [CpuSet; 2]> = BTreeMap::new();
        for cpu in online.iter() {
            let idle = format!("{CPUS}/cpu{cpu}/cpuidle");
            for index in root.numbered(&idle, "state") {
                let state = format!("{idle}/state{index}");
                let Some(latency_us) = root.value(&format!("{state}/latency")) else {
                    continue;
                };
                let name = root.text(&format!("{state}/name")).unwrap_or_default();
                let [cpus, disabled] = states.entry((index, latency_us, name)).or_default();
                cpus.insert(cpu);
                let off = root.text(&format!("{state}/disable"));
                if off.is_some_and(|text| text != "0") {
                    disabled.insert(cpu);
                }
            }
        }
        let governor = match word("current_governor") {
            none if none.is_empty() => word("current_governor_ro"),
            governor => governor,
        };
        Self {
            driver: word("current_driver"),
            governor,
            states: states
                .into_iter()
                .map(|((index, latency_us, name), [cpus, disabled])| IdleState {
                    index,
                    name,
                    latency_us,
                    cpus,
                    disabled,
                })
                .collect(),
        }
    }
}

/// Who sets the speed of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// The drivers in use; one, usually.
    pub drivers: BTreeSet<String>,
    /// The governors in use.
    pub governors: BTreeSet<String>,
    /// What the CPUs are told to prefer (`energy_performance_preference`).
    pub preferences: BTreeSet<String>,
}

impl Frequency {
    pub(super) fn read(root: &Root, online: &CpuSet) -> Self {
        let words = |name: &str| {
            let path = |cpu| format!("{CPUS}/cpu{cpu}/cpufreq/{name}");
            online
                .iter()
                .filter_map(|cpu| root.text(&path(cpu)))
                .collect()
        };
        Self {
            drivers: words("scaling_driver"),
            governors: words("scaling_governor"),
            preferences: words("energy_performance_preference"),
        }
    }
}
