//! Which CPUs there are, and what they share.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::root::Root;
use crate::cpus::CpuSet;

/// Where the kernel describes CPUs (`Documentation/ABI/stable/sysfs-devices-system-cpu`).
pub const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs of something that the kernel gives a number: a package, a NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Numbered {
    /// Its number.
    pub id: u16,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// The CPUs that share one L3 cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Domain {
    /// The CPUs that are online.
    pub cpus: CpuSet,
    /// The cache's size in KiB, where the kernel tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_kib: Option<u64>,
}

/// Cores of one kind on a machine that has several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// `performance`, `efficient`, `low-power`; `up to N kHz` where only the speed tells them apart.
    pub name: String,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// Which CPUs there are, and what they share. It is what the lists of a plan follow from, and the same
/// after every boot until firmware settings, hardware or the set of online CPUs change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// CPUs that could ever exist.
    pub possible: CpuSet,
    /// CPUs that are plugged in.
    pub present: CpuSet,
    /// CPUs that run.
    pub online: CpuSet,
    /// Packages (sockets) by the firmware's numbers.
    pub packages: Vec<Numbered>,
    /// NUMA nodes.
    pub nodes: Vec<Numbered>,
    /// L3 domains, by their lowest CPU.
    pub domains: Vec<Domain>,
    /// Physical cores, each with its threads that are online, by their lowest CPU.
    pub cores: Vec<CpuSet>,
    /// Kinds of cores; empty where all are alike.
    pub kinds: Vec<Kind>,
    /// `smt/control`: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`; empty on kernels without.
    pub smt: String,
}

impl Topology {
    /// Reads it. What is missing or wrong leaves its mark as a set that is not there.
    pub(super) fn read(root: &Root) -> Self {
        let file = |name: &str| {
            let path = format!("{CPUS}/{name}");
            root.cpus(&path, "")
        };
        let listed: CpuSet = root.numbered(CPUS, "cpu").into_iter().collect();
        let present = file("present").unwrap_or_else(|| listed.clone());
        let online = file("online").unwrap_or_else(|| online_one_by_one(root, &listed));
        let possible = file("possible").unwrap_or_else(|| present.clone());
        let each = Each::read(root, &online);
        Self {
            packages: numbered(each.packages),
            nodes: nodes(root, &online),
            domains: each.domains.into_iter().collect(),
            cores: each.cores.into_iter().collect(),
            kinds: kinds(root, &online),
            smt: root
                .text(&format!("{CPUS}/smt/control"))
                .unwrap_or_default(),
            possible,
            present,
            online,
        }
    }

    /// CPUs that are plugged in and do not run.
    pub fn offline(&self) -> CpuSet {
        self.present.difference(&self.online)
    }

    /// Numbers below the highest present CPU that no CPU has.
    pub fn holes(&self) -> CpuSet {
        let all: CpuSet = (0..self.present.iter().last().map_or(0, |last| last + 1)).collect();
        all.difference(&self.present)
    }

    /// The cores of a set of CPUs that touch it, by their lowest CPU.
    pub fn cores_in<'a>(&'a self, cpus: &'a CpuSet) -> impl Iterator<Item = &'a CpuSet> + 'a {
        let touches = move |core: &&CpuSet| !core.is_disjoint(cpus);
        self.cores.iter().filter(touches)
    }

    /// Threads of the core that has most of them.
    pub fn threads(&self) -> usize {
        self.cores.iter().map(CpuSet::len).max().unwrap_or(0)
    }
}

/// Kernels of old say of each CPU alone whether it is online; CPU 0 has no such file.
fn online_one_by_one(root: &Root, listed: &CpuSet) -> CpuSet {
    let on = |cpu: &u16| root.text(&format!("{CPUS}/cpu{cpu}/online")).as_deref() != Some("0");
    listed.iter().filter(on).collect()
}

/// What the directories of the CPUs say; equal sets fall together.
#[derive(Default)]
struct Each {
    packages: BTreeMap<u16, CpuSet>,
    domains: BTreeSet<Domain>,
    cores: BTreeSet<CpuSet>,
}

impl Each {
    fn read(root: &Root, online: &CpuSet) -> Self {
        let mut each = Self::default();
        for cpu in online.iter() {
            let topology = format!("{CPUS}/cpu{cpu}/topology");
            let newer = root.cpus(&format!("{topology}/core_cpus_list"), "");
            let core = newer.or_else(|| {
                let siblings = format!("{topology}/thread_siblings");
                root.cpus(&format!("{siblings}_list"), &siblings)
            });
            each.cores.extend(core);
            let package: Option<i32> = root.value(&format!("{topology}/physical_package_id"));
            // -1 means that the firmware does not say.
            if let Some(id) = package.and_then(|id| u16::try_from(id).ok()) {
                each.packages.entry(id).or_default().insert(cpu);
            }
            each.domains.extend(last_level(root, cpu));
        }
        each
    }
}

/// The L3 cache of one CPU.
fn last_level(root: &Root, cpu: u16) -> Option<Domain> {
    let caches = format!("{CPUS}/cpu{cpu}/cache");
    let mut indices = root.numbered(&caches, "index").into_iter();
    let level = |index: &u16| root.value::<u8>(&format!("{caches}/index{index}/level"));
    let index = indices.find(|index| level(index) == Some(3))?;
    let cache = format!("{caches}/index{index}");
    let shared = format!("{cache}/shared_cpu");
    let cpus = root.cpus(&format!("{shared}_list"), &format!("{shared}_map"))?;
    let size = root.text(&format!("{cache}/size"));
    let size_kib = size.as_deref().and_then(|text| {
        let kib = text
            .strip_suffix('K')
            .and_then(|digits| digits.parse().ok());
        if kib.is_none() {
            root.fault(&format!("{cache}/size"), "expected a number and `K`");
        }
        // Canonical documents hold integers below 2^53.
        kib.filter(|kib| (1..1 << 40).contains(kib))
    });
    Some(Domain { cpus, size_kib })
}

/// NUMA nodes with CPUs that are online.
fn nodes(root: &Root, online: &CpuSet) -> Vec<Numbered> {
    const NODES: &str = "sys/devices/system/node";
    let cpus = |id: u16| {
        let node = format!("{NODES}/node{id}");
        let cpus = root.cpus(&format!("{node}/cpulist"), &format!("{node}/cpumap"));
        Some((id, cpus?.intersection(online)))
    };
    let ids = root.numbered(NODES, "node").into_iter();
    numbered(ids.filter_map(cpus).collect())
}

fn numbered(sets: BTreeMap<u16, CpuSet>) -> Vec<Numbered> {
    let full = sets.into_iter().filter(|(_, cpus)| !cpus.is_empty());
    full.map(|(id, cpus)| Numbered { id, cpus }).collect()
}

/// Kinds of cores: by the names that Intel's hybrid parts have for their counters, else by speed.
fn kinds(root: &Root, online: &CpuSet) -> Vec<Kind> {
    let named = [
        ("performance", "sys/devices/cpu_core/cpus"),
        ("efficient", "sys/devices/cpu_atom/cpus"),
        ("low-power", "sys/devices/cpu_lowpower/cpus"),
    ];
    let kind = |(name, path): (&str, &str)| {
        let cpus = root.cpus(path, "")?.intersection(online);
        let name = name.to_owned();
        (!cpus.is_empty()).then_some(Kind { name, cpus })
    };
    let named: Vec<Kind> = named.into_iter().filter_map(kind).collect();
    match named.len() {
        0 => by_speed(root, online),
        1 => Vec::new(),
        _ => named,
    }
}

/// Cores of one design differ a little in their highest speed (the best ones of a chip, and those below
/// stacked cache, by up to a tenth); a dense or efficient design is more than a quarter slower.
fn by_speed(root: &Root, online: &CpuSet) -> Vec<Kind> {
    let mut speeds: BTreeMap<u64, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        let path = format!("{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq");
        if let Some(khz) = root.value::<u32>(&path) {
            speeds.entry(khz.into()).or_default().insert(cpu);
        }
    }
    let Some(fastest) = speeds.keys().next_back().copied() else {
        return Vec::new();
    };
    let is_slow = |khz: u64| khz * 4 < fastest * 3;
    if !speeds.keys().any(|khz| is_slow(*khz)) {
        return Vec::new();
    }
    let mut kinds: BTreeMap<bool, (u64, CpuSet)> = BTreeMap::new();
    for (khz, cpus) in speeds {
        let kind = kinds.entry(is_slow(khz)).or_default();
        *kind = (khz, kind.1.union(&cpus));
    }
    let kind = |(khz, cpus)| Kind {
        name: format!("up to {khz} kHz"),
        cpus,
    };
    kinds.into_values().map(kind).collect()
}
