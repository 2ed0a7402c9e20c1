//! Everything that a plan for a machine is made from, and the digest that names its topology.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::devices::{self, Device, Interrupt};
use super::power::{Frequency, Idle};
use super::root::{Fault, Root, RootError};
use super::topology::{CPUS, Topology};
use crate::cpus::CpuSet;
use crate::digest::Sha256;
use crate::proof::canonical;

/// What the CPUs are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// Silicon.
    Metal,
    /// A hypervisor's threads.
    Virtual,
    /// There is nothing to tell it by.
    Unknown,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Names topology and platform: the same after every boot, another as soon as a list of CPUs made
    /// from it could be wrong. Interrupt numbers, microcode, drivers and latencies are not in it.
    pub hash: Sha256,
    /// Metal or virtual.
    pub platform: Platform,
    /// Who says so: the hypervisor's or the mainboard's name. May be empty.
    pub product: String,
    /// The CPU's maker and model; empty where the kernel does not say.
    pub model: String,
    /// Revisions of the microcode; more than one is a fault of the firmware.
    pub microcode: BTreeSet<String>,
    /// The release of the running kernel.
    pub kernel: String,
    /// CPUs and what they share.
    pub topology: Topology,
    /// CPUs that the running kernel balances no load over (`isolcpus=` in its full form).
    pub isolated: CpuSet,
    /// CPUs without a tick (`nohz_full=`).
    pub nohz_full: CpuSet,
    /// Idle states.
    pub idle: Idle,
    /// Frequency.
    pub frequency: Frequency,
    /// Interrupts that something handles.
    pub interrupts: Vec<Interrupt>,
    /// Network cards and NVMe drives.
    pub devices: Vec<Device>,
    /// What the kernel says to each known weakness of the CPU.
    pub vulnerabilities: BTreeMap<String, String>,
    /// Files that are there and could not be used.
    pub faults: Vec<Fault>,
}

impl Fingerprint {
    /// Reads the machine of a root.
    ///
    /// # Errors
    /// Fails where there is no machine at all. What is wrong with single files is told in the faults.
    pub fn read(root: &Root, shown: &camino::Utf8Path) -> Result<Self, RootError> {
        if root.names(CPUS).is_empty() {
            return Err(RootError::NoMachine {
                path: shown.to_owned(),
                missing: CPUS,
            });
        }
        let topology = Topology::read(root);
        let processors = Processors::read(root);
        let platform = processors.platform.clone();
        let set = |name: &str| {
            let path = format!("{CPUS}/{name}");
            // A kernel without the feature writes `(null)`.
            let text = root.text(&path).filter(|text| text != "(null)");
            text.and_then(|_| root.cpus(&path, "")).unwrap_or_default()
        };
        Ok(Self {
            hash: hash(&topology, &platform),
            product: product(root),
            model: processors.model,
            microcode: processors.microcode,
            kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            isolated: set("isolated"),
            nohz_full: set("nohz_full"),
            idle: Idle::read(root, &topology.online),
            frequency: Frequency::read(root, &topology.online),
            interrupts: devices::interrupts(root),
            devices: devices::devices(root),
            vulnerabilities: vulnerabilities(root),
            faults: root.faults(),
            platform,
            topology,
        })
    }
}

/// The digest of what lists of CPUs follow from.
fn hash(topology: &Topology, platform: &Platform) -> Sha256 {
    let named = json!({
        "schema": "kiln.topology/1",
        "platform": platform,
        "topology": topology,
    });
    let bytes = canonical::to_vec("topology", &named);
    Sha256::of(&bytes.expect("a topology holds objects, lists, texts and small numbers"))
}

/// What `/proc/cpuinfo` says.
struct Processors {
    platform: Platform,
    model: String,
    microcode: BTreeSet<String>,
}

impl Processors {
    fn read(root: &Root) -> Self {
        let text = root.text("proc/cpuinfo").unwrap_or_default();
        let fields = || {
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.map(|(name, value)| (name.trim(), value.trim()))
        };
        let first = |wanted: &str| fields().find(|(name, _)| *name == wanted);
        // The hypervisor's bit of CPUID; every hypervisor that is not in hiding sets it. Only x86 has it.
        let platform = match first("flags") {
            None => Platform::Unknown,
            Some((_, flags)) if flags.split(' ').any(|flag| flag == "hypervisor") => {
                Platform::Virtual
            }
            Some(_) => Platform::Metal,
        };
        let microcodes = fields().filter(|(name, _)| *name == "microcode");
        Self {
            platform,
            model: first("model name").map_or_else(String::new, |(_, model)| model.to_owned()),
            microcode: microcodes
                .map(|(_, revision)| revision.to_owned())
                .collect(),
        }
    }
}

/// Maker and product by the firmware's tables; numbers that name one machine alone are not read.
fn product(root: &Root) -> String {
    let names = ["sys_vendor", "product_name"].map(|name| {
        let path = format!("sys/class/dmi/id/{name}");
        root.text(&path).unwrap_or_default()
    });
    names.join(" ").trim().to_owned()
}

fn vulnerabilities(root: &Root) -> BTreeMap<String, String> {
    let directory = format!("{CPUS}/vulnerabilities");
    let names = root.names(&directory).into_iter();
    names
        .filter_map(|name| {
            let state = root.text(&format!("{directory}/{name}"))?;
            Some((name, state))
        })
        .collect()
}
