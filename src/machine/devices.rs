//! Interrupts and the devices that have queues.

use serde::{Deserialize, Serialize};

use super::root::Root;
use crate::cpus::CpuSet;

/// Whether an interrupt can be given to other CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movable {
    /// Whoever may write to its affinity can move it.
    Yes,
    /// Its driver had the kernel spread it over CPUs, and nobody else can move it.
    Managed,
    /// The kernel lets nobody move it: spread by its driver, or bound to one CPU.
    No,
}

/// An interrupt that something handles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The kernel's number, which the next boot may give to another.
    pub number: u16,
    /// Who handles it, such as `nvme0q3`.
    pub name: String,
    /// Whether it can be moved.
    pub movable: Movable,
    /// The CPUs that it may go to.
    pub allowed: CpuSet,
    /// The CPUs that it does go to; empty where the kernel does not say.
    pub effective: CpuSet,
}

/// Interrupts that something handles, by number.
pub(super) fn interrupts(root: &Root) -> Vec<Interrupt> {
    let numbers = root.numbered("proc/irq", "").into_iter();
    numbers
        .filter_map(|number| interrupt(root, number))
        .collect()
}

fn interrupt(root: &Root, number: u16) -> Option<Interrupt> {
    let name = root.text(&format!("sys/kernel/irq/{number}/actions"))?;
    if name.is_empty() {
        return None;
    }
    let irq = format!("proc/irq/{number}");
    let (text, writable) = root.file(&format!("{irq}/smp_affinity_list"))?;
    let allowed = text.parse().unwrap_or_else(|error| {
        root.fault(&format!("{irq}/smp_affinity_list"), format!("{error}"));
        CpuSet::new()
    });
    let effective = root.cpus(&format!("{irq}/effective_affinity_list"), "");
    Some(Interrupt {
        number,
        movable: movable(&name, writable),
        name,
        allowed,
        effective: effective.unwrap_or_default(),
    })
}

/// An NVMe queue for data is managed on every kernel (`nvme_setup_irqs` asks for it). Newer kernels give
/// the file of an affinity that nobody can change no permission to write (`register_irq_proc`).
fn movable(name: &str, writable: bool) -> Movable {
    let queue = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('q'));
    let of_data = queue.is_some_and(|(device, queue)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits(device) && digits(queue) && queue != "0"
    });
    match (of_data, writable) {
        (true, _) => Movable::Managed,
        (false, true) => Movable::Yes,
        (false, false) => Movable::No,
    }
}

/// What a device with queues is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A network card.
    Network,
    /// An NVMe drive.
    Nvme,
}

/// A device with queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The kernel's name: `eth0`, `nvme0`.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Queues: of a network card those that receive, of a drive those for data.
    pub queues: usize,
}

/// Network cards and NVMe drives, by name.
pub(super) fn devices(root: &Root) -> Vec<Device> {
    const NETWORK: &str = "sys/class/net";
    const NVME: &str = "sys/class/nvme";
    let card = |name: String| {
        // Bridges, tunnels and the loopback have no device below them.
        let real = !root.names(&format!("{NETWORK}/{name}/device")).is_empty();
        let queues = root.names(&format!("{NETWORK}/{name}/queues"));
        real.then(|| Device {
            kind: DeviceKind::Network,
            queues: queues
                .iter()
                .filter(|queue| queue.starts_with("rx-"))
                .count(),
            name,
        })
    };
    let drive = |name: String| {
        // The first is for commands to the drive itself.
        let queues: Option<u16> = root.value(&format!("{NVME}/{name}/queue_count"));
        Device {
            kind: DeviceKind::Nvme,
            queues: usize::from(queues.unwrap_or(0).saturating_sub(1)),
            name,
        }
    };
    let cards = root.names(NETWORK).into_iter().filter_map(card);
    let drives = root.names(NVME).into_iter().map(drive);
    cards.chain(drives).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_for_data_are_managed_whatever_the_mode() {
        for (name, writable, movable_is) in [
            ("nvme0q1", true, Movable::Managed),
            ("nvme12q34", false, Movable::Managed),
            ("nvme0q0", true, Movable::Yes),
            ("nvme0q", true, Movable::Yes),
            ("nvmeq1", true, Movable::Yes),
            ("eth0-rx-0", true, Movable::Yes),
            ("virtio1-req.0", false, Movable::No),
        ] {
            assert_eq!(movable(name, writable), movable_is, "{name}");
        }
    }
}
