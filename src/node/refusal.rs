//! Why there is no plan, and what would make one possible.

use crate::cpus::CpuSet;
use crate::failure::{Diagnose, Exit};

/// A doubt that a plan must not be built on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A file that the plan would rest on cannot be used.
    #[error("no plan: `{path}` cannot be used: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Metal or virtual: nothing says.
    #[error(
        "no plan: whether this is metal or a virtual machine is not known: `/proc/cpuinfo` has no flags"
    )]
    UnknownPlatform,
    /// The CPUs are the hypervisor's.
    #[error(
        "no plan: this is a virtual machine: whose core a CPU is, and for how long, is its host's to say"
    )]
    Virtual,
    /// Started with `isolcpus=` in its full form.
    #[error(
        "no plan: the kernel balances no load over CPUs {0} (`isolcpus=` with `domain`, which is its default): threads pile up on one of them, and no fence of kind `root` can have them"
    )]
    Isolated(CpuSet),
    /// The kernel names no L3 cache.
    #[error("no plan: the kernel tells of no L3 cache, so which cores share one is not known")]
    NoCaches,
    /// A CPU that runs belongs to none.
    #[error("no plan: CPUs {cpus} run and belong to no {what}")]
    Homeless {
        /// Of what kind.
        what: &'static str,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Two sets that should be apart share CPUs, or one holds CPUs that do not run.
    #[error("no plan: {what} {one} and {what} {other} share CPUs and are not the same")]
    Overlap {
        /// Of what kind.
        what: &'static str,
        /// One set.
        one: CpuSet,
        /// The other; the CPUs that run, where the set reaches beyond them.
        other: CpuSet,
    },
    /// A part lies across two of a larger kind.
    #[error("no plan: the {part} of CPUs {cpus} lies across several {wholes}")]
    Across {
        /// What should be in one.
        part: &'static str,
        /// Its CPUs.
        cpus: CpuSet,
        /// Of what.
        wholes: &'static str,
    },
    /// Cores of several designs.
    #[error(
        "no plan: the cores are of several kinds ({0}), so slots of as many cores are not worth the same"
    )]
    Kinds(String),
    /// A cache without a size.
    #[error(
        "no plan: the size of the L3 cache of CPUs {0} is not known, so which is larger is not either"
    )]
    UnknownSize(CpuSet),
    /// A thread that is off may come back beside a thread of a tenant.
    #[error(
        "no plan: of the core of CPUs {core} not every thread runs, while SMT is not off; CPUs {offline} are offline"
    )]
    HalfCore {
        /// What runs of it.
        core: CpuSet,
        /// Every CPU that is offline.
        offline: CpuSet,
    },
    /// Stacked cache beside several domains without.
    #[error(
        "no plan: {stacked} of {domains} L3 caches are stacked; which of the others should keep house is not clear"
    )]
    ManyUnequal {
        /// How many.
        stacked: usize,
        /// Of how many.
        domains: usize,
    },
    /// Nothing is left for the pool.
    #[error(
        "no plan: housekeeping takes all {cores} cores of {domains} L3 caches, and none is left for the pool"
    )]
    TooFewCores {
        /// Cores that run.
        cores: usize,
        /// Domains.
        domains: usize,
    },
    /// More interrupts than housekeeping CPUs have vectors.
    #[error(
        "no plan: {wanted} interrupts can be moved, and CPUs {housekeeping} have about {budget} vectors: the kernel would put what does not fit on any CPU, without a word"
    )]
    Vectors {
        /// Interrupts that would be moved.
        wanted: usize,
        /// Vectors of the housekeeping CPUs together.
        budget: usize,
        /// These CPUs.
        housekeeping: CpuSet,
    },
}

impl Diagnose for Refusal {
    fn exit(&self) -> Exit {
        Exit::NodeRefused
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "topology-unreadable",
            Self::UnknownPlatform => "platform-unknown",
            Self::Virtual => "virtual-machine",
            Self::Isolated(_) => "isolcpus-active",
            Self::NoCaches => "caches-unknown",
            Self::Homeless { .. } | Self::Overlap { .. } | Self::Across { .. } => {
                "topology-contradicts-itself"
            }
            Self::Kinds(_) => "cores-of-several-kinds",
            Self::UnknownSize(_) => "cache-size-unknown",
            Self::HalfCore { .. } => "half-a-core",
            Self::ManyUnequal { .. } => "unequal-caches",
            Self::TooFewCores { .. } => "too-few-cores",
            Self::Vectors { .. } => "too-few-vectors",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Unreadable { .. } => {
                "look at it with `kiln node fingerprint`; in a captured tree, capture the machine anew \
                 with `kiln node fingerprint --capture FILE`"
            }
            Self::UnknownPlatform => {
                "capture the machine with `kiln node fingerprint --capture FILE`, which keeps that \
                 file; other architectures than x86 are not known yet"
            }
            Self::Virtual => {
                "plan the host; or, if the host gives each CPU of this machine a core of its own and \
                 tells it the true caches, say so with `--vcpus-pinned`"
            }
            Self::Isolated(_) => {
                "take `isolcpus=` off the kernel's command line, restart, and plan again: the plan's own \
                 line has it in the form that only moves interrupts"
            }
            Self::NoCaches => {
                "on metal use a kernel that describes caches in \
                 /sys/devices/system/cpu/cpu*/cache; in a virtual machine have the host pass its caches \
                 on (QEMU: `-cpu host,host-cache-info=on`)"
            }
            Self::Homeless { .. } | Self::Overlap { .. } => {
                "report it with `kiln node fingerprint --capture FILE`; a kernel with a newer firmware \
                 may describe the machine rightly"
            }
            Self::Across { wholes, .. } if *wholes == "NUMA nodes" => {
                "have the firmware make a NUMA node of whole L3 caches (Intel: sub-NUMA clustering off), \
                 then plan again"
            }
            Self::Across { .. } => "report it with `kiln node fingerprint --capture FILE`",
            Self::Kinds(_) => {
                "switch the cores of one kind off in the firmware, or offline them and plan again"
            }
            Self::UnknownSize(_) => "use a kernel that tells the size of every L3 cache",
            Self::HalfCore { .. } => {
                "bring the threads online (`echo 1 > /sys/devices/system/cpu/cpuN/online`), or switch SMT \
                 off whole (`echo off > /sys/devices/system/cpu/smt/control`), then plan again"
            }
            Self::ManyUnequal { .. } => {
                "plan with `--role shared`, where every domain keeps house for itself"
            }
            Self::TooFewCores { .. } => {
                "a domain needs two cores that run; bring cores online, or use this machine whole, \
                 without a fence"
            }
            Self::Vectors { .. } => {
                "give devices fewer queues (`ethtool -L DEVICE combined N`, or the driver's module \
                 option, before they are allocated), then plan again"
            }
        };
        vec![hint.to_owned()]
    }
}
