//! A machine whose description holds together: every CPU that runs is a thread of one core, every core
//! is below one L3 cache, every cache is on one NUMA node of one package.

use super::refusal::Refusal;
use crate::cpus::CpuSet;
use crate::machine::{CPUS, Fault, Fingerprint, Numbered, Platform, Topology};

/// The cores of one L3 cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Cores with the threads that run, by their lowest CPU; never empty.
    pub cores: Vec<CpuSet>,
    /// The cache's size.
    pub size_kib: u64,
    /// The package it is in.
    pub package: u16,
    /// The NUMA node it is on.
    pub node: u16,
}

/// A machine that can be planned. Only [`Layout::of`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    domains: Vec<Domain>,
}

impl Layout {
    /// Checks what a fingerprint says against itself. `pinned` is the word of who runs the host that
    /// the CPUs of a virtual machine are cores of its own.
    ///
    /// # Errors
    /// Refuses where anything is missing or contradicts itself.
    pub fn of(found: &Fingerprint, pinned: bool) -> Result<Self, Refusal> {
        if let Some(fault) = found.faults.iter().find(|fault| matters(fault)) {
            return Err(Refusal::Unreadable {
                path: fault.path.clone(),
                why: fault.why.clone(),
            });
        }
        match found.platform {
            Platform::Metal => {}
            Platform::Virtual if pinned => {}
            Platform::Virtual => return Err(Refusal::Virtual),
            Platform::Unknown => return Err(Refusal::UnknownPlatform),
        }
        if !found.isolated.is_empty() {
            return Err(Refusal::Isolated(found.isolated.clone()));
        }
        Self::of_topology(&found.topology)
    }

    fn of_topology(topology: &Topology) -> Result<Self, Refusal> {
        if topology.domains.is_empty() {
            return Err(Refusal::NoCaches);
        }
        let online = &topology.online;
        apart("core", online, topology.cores.iter())?;
        apart("L3 cache", online, topology.domains.iter().map(|d| &d.cpus))?;
        let places = [
            ("package", "packages", &topology.packages),
            ("NUMA node", "NUMA nodes", &topology.nodes),
        ];
        for (what, _, sets) in places {
            // A kernel built without NUMA tells of no node.
            if !sets.is_empty() {
                apart(what, online, sets.iter().map(|set| &set.cpus))?;
            }
        }
        if !topology.kinds.is_empty() {
            let kinds = topology.kinds.iter();
            let kinds: Vec<String> = kinds.map(|k| format!("{}: {}", k.name, k.cpus)).collect();
            return Err(Refusal::Kinds(kinds.join("; ")));
        }
        whole_cores(topology)?;
        let domain = |domain: &crate::machine::Domain| {
            let cpus = &domain.cpus;
            let size = domain.size_kib;
            Ok(Domain {
                cores: within(topology, cpus)?,
                size_kib: size.ok_or_else(|| Refusal::UnknownSize(cpus.clone()))?,
                package: home(cpus, places[0].1, &topology.packages)?,
                node: home(cpus, places[1].1, &topology.nodes)?,
            })
        };
        let domains = topology.domains.iter().map(domain);
        Ok(Self {
            domains: domains.collect::<Result<_, _>>()?,
        })
    }

    /// The domains, by their lowest CPU; never empty.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The CPU that the machine starts on: the lowest.
    pub fn boot_cpu(&self) -> Option<u16> {
        let cores = self.domains.iter().flat_map(|domain| &domain.cores);
        cores.filter_map(CpuSet::first).min()
    }
}

/// Whether a plan rests on the file of a fault.
fn matters(fault: &Fault) -> bool {
    let path = fault.path.as_str();
    let below = |directory: &str| path.contains(directory);
    path == CPUS
        || ["online", "present", "possible", "isolated", "smt/control"]
            .iter()
            .any(|name| path.strip_prefix(CPUS) == Some(&format!("/{name}")))
        || [
            "/topology/",
            "/cache/",
            "/cpuinfo_max_freq",
            "/devices/system/node",
            "/devices/cpu_",
        ]
        .into_iter()
        .any(below)
}

/// Whether sets share out the CPUs that run: each is in exactly one.
fn apart<'a>(
    what: &'static str,
    online: &CpuSet,
    sets: impl Iterator<Item = &'a CpuSet>,
) -> Result<(), Refusal> {
    let mut seen: Vec<&CpuSet> = Vec::new();
    let mut covered = CpuSet::new();
    for set in sets {
        let other = if set.is_subset(online) {
            // The usual case is told fast; the culprit is looked for only where there is one.
            let clash = !set.is_disjoint(&covered);
            seen.iter()
                .find(|other| clash && !other.is_disjoint(set))
                .copied()
        } else {
            Some(online)
        };
        if let Some(other) = other {
            return Err(Refusal::Overlap {
                what,
                one: set.clone(),
                other: other.clone(),
            });
        }
        covered = covered.union(set);
        seen.push(set);
    }
    let cpus = online.difference(&covered);
    if cpus.is_empty() && !online.is_empty() {
        return Ok(());
    }
    Err(Refusal::Homeless { what, cpus })
}

/// The cores of a cache, none of which may reach beyond it.
fn within(topology: &Topology, cpus: &CpuSet) -> Result<Vec<CpuSet>, Refusal> {
    let cores: Vec<CpuSet> = topology.cores_in(cpus).cloned().collect();
    match cores.iter().find(|core| !core.is_subset(cpus)) {
        None => Ok(cores),
        Some(core) => Err(Refusal::Across {
            part: "core",
            cpus: core.clone(),
            wholes: "L3 caches",
        }),
    }
}

/// The one package or node that a cache is in; 0 where the kernel tells of none.
fn home(cpus: &CpuSet, wholes: &'static str, sets: &[Numbered]) -> Result<u16, Refusal> {
    if sets.is_empty() {
        return Ok(0);
    }
    let home = sets.iter().find(|set| cpus.is_subset(&set.cpus));
    home.map(|set| set.id).ok_or_else(|| Refusal::Across {
        part: "L3 cache",
        cpus: cpus.clone(),
        wholes,
    })
}

/// Whether every core runs with all its threads, or SMT is off for all of them. The list of siblings
/// names no thread that is offline, so one that could come back beside a tenant's shows only by this.
fn whole_cores(topology: &Topology) -> Result<(), Refusal> {
    let (threads, offline) = (topology.threads(), topology.offline());
    let is_off = matches!(
        topology.smt.as_str(),
        "off" | "forceoff" | "notsupported" | "notimplemented"
    );
    let uneven = topology.cores.iter().find(|core| core.len() != threads);
    let hidden = topology.cores.first();
    let hidden = hidden.filter(|_| threads == 1 && !is_off && !offline.is_empty());
    match uneven.or(hidden) {
        None => Ok(()),
        Some(core) => Err(Refusal::HalfCore {
            core: core.clone(),
            offline,
        }),
    }
}
