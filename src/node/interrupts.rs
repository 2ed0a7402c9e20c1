//! Where interrupts go: to housekeeping CPUs, in turn, as far as they can be moved and vectors last.

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::cpus::CpuSet;
use crate::machine::{Device, DeviceKind, Fingerprint, Movable};

/// Vectors that a CPU of x86 has for devices: 256 less those of exceptions and of the system, some 200
/// (`arch/x86/include/asm/irq_vectors.h`).
pub const VECTORS: usize = 200;

/// An interrupt that is given a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its number, in this boot.
    pub number: u16,
    /// Who handles it.
    pub name: String,
    /// Its housekeeping CPU.
    pub cpu: u16,
}

/// A device with more queues than there are CPUs to serve them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// The device.
    pub device: String,
    /// Its queues.
    pub queues: usize,
    /// As many as there are housekeeping CPUs.
    pub at_most: usize,
    /// Why, and what can be done.
    pub why: String,
}

/// What becomes of interrupts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// Those that are moved, with the CPU of each.
    pub given: Vec<Given>,
    /// Names of those that only their driver could place.
    pub managed: Vec<String>,
    /// Names of those that nobody can move.
    pub immovable: Vec<String>,
    /// Vectors that the housekeeping CPUs have together.
    pub vectors: usize,
    /// Devices with too many queues.
    pub queues: Vec<Queues>,
}

impl Interrupts {
    /// The plan for the interrupts of a machine. `house` are the cores that keep house.
    pub(super) fn of(found: &Fingerprint, house: &[CpuSet]) -> Result<Self, Refusal> {
        let housekeeping: CpuSet = house.iter().collect();
        let turns = in_turn(house);
        let of_kind = |movable| {
            let all = found.interrupts.iter();
            all.filter(move |interrupt| interrupt.movable == movable)
        };
        let names = |movable| {
            of_kind(movable)
                .map(|interrupt| interrupt.name.clone())
                .collect()
        };
        let wanted = of_kind(Movable::Yes).count();
        let vectors = VECTORS * housekeeping.len();
        if wanted > vectors {
            return Err(Refusal::Vectors {
                wanted,
                budget: vectors,
                housekeeping,
            });
        }
        let given = of_kind(Movable::Yes).zip(turns.iter().cycle());
        let queues = found.devices.iter();
        Ok(Self {
            given: given
                .map(|(interrupt, cpu)| Given {
                    number: interrupt.number,
                    name: interrupt.name.clone(),
                    cpu: *cpu,
                })
                .collect(),
            managed: names(Movable::Managed),
            immovable: names(Movable::No),
            vectors,
            queues: queues
                .filter(|device| device.queues > housekeeping.len())
                .map(|device| too_many(device, housekeeping.len()))
                .collect(),
        })
    }
}

/// The CPUs of cores: the first thread of each, then the second of each.
fn in_turn(cores: &[CpuSet]) -> Vec<u16> {
    let most = cores.iter().map(CpuSet::len).max().unwrap_or(0);
    (0..most)
        .flat_map(|thread| cores.iter().filter_map(move |core| core.iter().nth(thread)))
        .collect()
}

fn too_many(device: &Device, at_most: usize) -> Queues {
    let why = match device.kind {
        DeviceKind::Network => format!(
            "more queues than housekeeping CPUs share CPUs and take vectors; give it {at_most} where \
             its driver is loaded: `ethtool -L` afterwards comes too late for the vectors"
        ),
        DeviceKind::Nvme => "a queue for every CPU has one CPU in its mask, and `managed_irq` does \
                             nothing for it: whoever reads or writes on a pool core gets the interrupt \
                             there"
            .to_owned(),
    };
    Queues {
        device: device.name.clone(),
        queues: device.queues,
        at_most,
        why,
    }
}
