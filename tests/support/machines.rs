//! Machines made up: trees of `/sys` and `/proc` files as the kernel writes them.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::cpus::CpuSet;

use super::{Env, Stop};

/// An L3 cache, and where it is.
#[derive(Clone, Copy)]
pub struct Cache {
    /// MiB.
    pub mib: u64,
    /// Package.
    pub package: u16,
    /// NUMA node.
    pub node: u16,
}

/// A physical core.
#[derive(Clone, Copy)]
pub struct Core {
    /// Threads that exist.
    pub threads: u16,
    /// Its cache, by its place in the list.
    pub cache: usize,
}

/// What a machine is made of.
#[derive(Clone)]
pub struct Shape {
    pub name: &'static str,
    pub caches: Vec<Cache>,
    pub cores: Vec<Core>,
    /// Siblings have neighbouring numbers; else all second threads follow all first ones.
    pub siblings_beside: bool,
    /// CPUs that do not run.
    pub offline: BTreeSet<u16>,
    /// Numbers that no CPU has: from this one on, so many.
    pub hole: Option<(u16, u16)>,
    /// `cpu_core` and `cpu_atom`: how many cores, from the front, are fast.
    pub fast_cores: Option<usize>,
    /// Whether the kernel tells about caches.
    pub tells_caches: bool,
    pub is_virtual: bool,
    pub smt: &'static str,
    /// Receive queues of the one network card.
    pub queues: usize,
}

impl Shape {
    /// Packages of domains of equal cores, each domain with its size in MiB.
    pub fn of(name: &'static str, packages: &[&[(usize, u64)]], threads: u16) -> Self {
        let (mut caches, mut cores) = (Vec::new(), Vec::new());
        for (package, domains) in (0..).zip(packages) {
            for (count, mib) in *domains {
                let core = Core {
                    threads,
                    cache: caches.len(),
                };
                cores.extend(std::iter::repeat_n(core, *count));
                caches.push(Cache {
                    mib: *mib,
                    package,
                    node: package,
                });
            }
        }
        Self {
            name,
            caches,
            cores,
            siblings_beside: false,
            offline: BTreeSet::new(),
            hole: None,
            fast_cores: None,
            tells_caches: true,
            is_virtual: false,
            smt: if threads > 1 { "on" } else { "notsupported" },
            queues: 4,
        }
    }

    /// One domain of eight cores.
    pub fn single_ccd() -> Self {
        Self::of("1x8", &[&[(8, 32)]], 2)
    }

    /// Two domains of eight cores.
    pub fn dual_ccd() -> Self {
        Self::of("2x8", &[&[(8, 32), (8, 32)]], 2)
    }

    /// Two domains of six cores.
    pub fn two_by_six() -> Self {
        Self::of("2x6", &[&[(6, 32), (6, 32)]], 2)
    }

    /// Two domains of eight cores, the first with a stacked cache.
    pub fn x3d() -> Self {
        Self::of("x3d", &[&[(8, 96), (8, 32)]], 2)
    }

    /// Unequal caches, neither of them stacked, over cores of two designs that differ in speed.
    pub fn strix_point() -> Self {
        Self::of("strix-point", &[&[(4, 16), (8, 8)]], 2)
    }

    /// Two packages, each a node of its own, with many small domains.
    pub fn epyc() -> Self {
        let package = &[(3, 8); 8];
        Self::of("epyc", &[package, package], 2)
    }

    /// Fast cores of two threads and slow ones of one, under one cache.
    pub fn hybrid() -> Self {
        let mut shape = Self::of("hybrid", &[&[(16, 30)]], 2);
        shape.siblings_beside = true;
        shape.fast_cores = Some(8);
        for core in &mut shape.cores[8..] {
            core.threads = 1;
        }
        shape
    }

    /// Eight cores, the second threads switched off.
    pub fn smt_off() -> Self {
        let mut shape = Self::of("smt-off", &[&[(8, 32)]], 2);
        shape.offline = (8..16).collect();
        shape.smt = "off";
        shape
    }

    /// A core in the middle that does not run, and numbers that no CPU has.
    pub fn offline_and_holes() -> Self {
        let mut shape = Self::of("offline-and-holes", &[&[(8, 32), (8, 32)]], 2);
        // Core 3, both threads: 3, and 16 + 3 behind a hole of four.
        shape.hole = Some((8, 4));
        shape.offline = BTreeSet::from([3, 23]);
        shape
    }

    /// A virtual machine that tells of no caches.
    pub fn vm_without_caches() -> Self {
        let mut shape = Self::of("vm-without-caches", &[&[(4, 16)]], 1);
        shape.is_virtual = true;
        shape.tells_caches = false;
        shape
    }

    /// A virtual machine whose CPUs all share one cache, as it says.
    pub fn vm_flat() -> Self {
        let mut shape = Self::of("vm-flat", &[&[(8, 16)]], 1);
        shape.is_virtual = true;
        shape
    }

    /// One domain of four cores without second threads.
    pub fn small() -> Self {
        Self::of("1x4", &[&[(4, 8)]], 1)
    }

    /// One core.
    pub fn single_core() -> Self {
        Self::of("single-core", &[&[(1, 4)]], 1)
    }

    /// Every shape.
    pub fn all() -> Vec<Self> {
        vec![
            Self::single_ccd(),
            Self::dual_ccd(),
            Self::two_by_six(),
            Self::x3d(),
            Self::strix_point(),
            Self::epyc(),
            Self::hybrid(),
            Self::smt_off(),
            Self::offline_and_holes(),
            Self::vm_without_caches(),
            Self::vm_flat(),
            Self::small(),
            Self::single_core(),
        ]
    }

    /// The CPUs of each core, by number; offline ones too.
    pub fn threads(&self) -> Vec<Vec<u16>> {
        let mut next = 0;
        let mut number = || {
            let here = next;
            next += 1;
            match self.hole {
                Some((at, length)) if here >= at => here + length,
                _ => here,
            }
        };
        let mut cores = vec![Vec::new(); self.cores.len()];
        if self.siblings_beside {
            for (core, numbers) in self.cores.iter().zip(&mut cores) {
                numbers.extend((0..core.threads).map(|_| number()));
            }
            return cores;
        }
        let most = self.cores.iter().map(|core| core.threads).max();
        for thread in 0..most.unwrap_or(0) {
            for (core, numbers) in self.cores.iter().zip(&mut cores) {
                if thread < core.threads {
                    numbers.push(number());
                }
            }
        }
        cores
    }

    /// The CPUs that exist.
    pub fn present(&self) -> CpuSet {
        self.threads().into_iter().flatten().collect()
    }

    /// The CPUs that run, of those that `wanted` takes by their core.
    pub fn online(&self, wanted: impl Fn(usize, &Core) -> bool) -> CpuSet {
        let threads = self.threads();
        let cores = self.cores.iter().enumerate().zip(threads);
        let taken = cores.filter(|((at, core), _)| wanted(*at, core));
        let cpus = taken.flat_map(|(_, cpus)| cpus);
        cpus.filter(|cpu| !self.offline.contains(cpu)).collect()
    }

    /// Every file, by its path below the root.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let all = self.online(|_, _| true);
        let cpu = "sys/devices/system/cpu";
        let mut put = |path: String, text: String| {
            files.insert(path, format!("{text}\n"));
        };
        let present = self.present();
        for name in ["present", "possible"] {
            put(format!("{cpu}/{name}"), present.to_string());
        }
        put(format!("{cpu}/online"), all.to_string());
        put(format!("{cpu}/isolated"), String::new());
        put(format!("{cpu}/nohz_full"), "(null)".to_owned());
        put(format!("{cpu}/smt/control"), self.smt.to_owned());
        put(
            format!("{cpu}/cpuidle/current_driver"),
            "acpi_idle".to_owned(),
        );
        put(format!("{cpu}/cpuidle/current_governor"), "menu".to_owned());
        put(
            format!("{cpu}/vulnerabilities/spectre_v2"),
            "Mitigation: Retpolines".to_owned(),
        );
        for (at, numbers) in self.threads().into_iter().enumerate() {
            for number in numbers {
                // Also of CPUs that do not run the kernel has a directory.
                put(format!("{cpu}/cpu{number}/uevent"), String::new());
                if all.contains(number) {
                    self.put_cpu(&mut put, at, number);
                }
            }
        }
        for node in self.caches.iter().map(|cache| cache.node) {
            let cpus = self.online(|_, core| self.caches[core.cache].node == node);
            put(
                format!("sys/devices/system/node/node{node}/cpulist"),
                cpus.to_string(),
            );
        }
        if let Some(fast) = self.fast_cores {
            for (name, is_fast) in [("cpu_core", true), ("cpu_atom", false)] {
                let cpus = self.online(|at, _| (at < fast) == is_fast);
                put(format!("sys/devices/{name}/cpus"), cpus.to_string());
            }
        }
        self.put_devices(&mut put, &all);
        files
    }

    fn put_cpu(&self, put: &mut impl FnMut(String, String), at: usize, number: u16) {
        let cpu = format!("sys/devices/system/cpu/cpu{number}");
        let core = &self.cores[at];
        let cache = &self.caches[core.cache];
        let siblings = self.online(|other, _| other == at);
        put(
            format!("{cpu}/topology/core_cpus_list"),
            siblings.to_string(),
        );
        put(
            format!("{cpu}/topology/thread_siblings_list"),
            siblings.to_string(),
        );
        put(
            format!("{cpu}/topology/physical_package_id"),
            cache.package.to_string(),
        );
        if self.tells_caches {
            let sharers = self.online(|_, other| other.cache == core.cache);
            for (index, level, size, sharers) in [
                (0, 1, "32K".to_owned(), &siblings),
                (3, 3, format!("{}K", cache.mib * 1024), &sharers),
            ] {
                let index = format!("{cpu}/cache/index{index}");
                put(format!("{index}/level"), level.to_string());
                put(format!("{index}/size"), size);
                put(format!("{index}/shared_cpu_list"), sharers.to_string());
            }
        }
        for (state, name, latency) in [(0, "POLL", 0), (1, "C1", 1), (2, "C2", 350)] {
            let state = format!("{cpu}/cpuidle/state{state}");
            put(format!("{state}/name"), name.to_owned());
            put(format!("{state}/latency"), latency.to_string());
            put(format!("{state}/disable"), "0".to_owned());
        }
        let is_dense = self.name == "strix-point" && cache.mib < 16;
        let khz = if is_dense { 3_300_000 } else { 5_100_000 };
        for (name, text) in [
            ("scaling_driver", "amd-pstate-epp".to_owned()),
            ("scaling_governor", "powersave".to_owned()),
            (
                "energy_performance_preference",
                "balance_performance".to_owned(),
            ),
            ("cpuinfo_max_freq", khz.to_string()),
        ] {
            put(format!("{cpu}/cpufreq/{name}"), text);
        }
    }

    fn put_devices(&self, put: &mut impl FnMut(String, String), all: &CpuSet) {
        let hypervisor = if self.is_virtual { " hypervisor" } else { "" };
        put(
            "proc/cpuinfo".to_owned(),
            format!(
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: A machine made up\n\
                 microcode\t: 0xa601209\nflags\t\t: fpu sse2{hypervisor} clzero\n"
            ),
        );
        put("proc/sys/kernel/osrelease".to_owned(), "6.18.40".to_owned());
        put(
            "proc/cmdline".to_owned(),
            "BOOT_IMAGE=/vmlinuz quiet".to_owned(),
        );
        let mut names = vec!["ahci".to_owned(), "nvme0q0".to_owned()];
        names.extend((1..=all.len()).map(|queue| format!("nvme0q{queue}")));
        names.extend((0..self.queues).map(|queue| format!("eth0-rx-{queue}")));
        for (number, name) in (30..).zip(&names) {
            put(format!("sys/kernel/irq/{number}/actions"), name.clone());
            let irq = format!("proc/irq/{number}");
            put(format!("{irq}/smp_affinity_list"), all.to_string());
            let first = all.first().unwrap_or(0);
            put(format!("{irq}/effective_affinity_list"), first.to_string());
        }
        put(
            "sys/class/net/eth0/device/vendor".to_owned(),
            "0x8086".to_owned(),
        );
        put("sys/class/net/lo/mtu".to_owned(), "65536".to_owned());
        for queue in 0..self.queues {
            let rx = format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus");
            put(rx, "0".to_owned());
        }
        put(
            "sys/class/nvme/nvme0/queue_count".to_owned(),
            (all.len() + 1).to_string(),
        );
    }

    /// Writes the tree into a workspace, below the shape's name; gives its path.
    pub fn write(&self, env: &Env) -> Result<Utf8PathBuf, Stop> {
        write_files(&env.path(self.name), &self.files())
    }
}

/// Writes files below a root.
pub fn write_files(root: &Utf8Path, files: &BTreeMap<String, String>) -> Result<Utf8PathBuf, Stop> {
    for (path, text) in files {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(root.to_owned())
}
