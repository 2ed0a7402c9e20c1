//! `kiln node`: what a machine is made of, and which core does what on it.

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::cpus::CpuSet;
use crate::failure::{Exit, Failure};
use crate::machine::{self, DeviceKind, Domain, Fingerprint, Movable, Platform, Root, Topology};
use crate::ui::{Answer, Style, Table, Tone, chip};

pub(super) static FINGERPRINT: Verb = Verb {
    path: &["node", "fingerprint"],
    summary: "Tell what a machine is: cores, caches, idle states, interrupts, queues",
    detail: "Reads /sys and /proc and changes nothing. The digest names the topology: it stays over \
             reboots and changes as soon as a list of CPUs made from it could be wrong. A capture \
             holds the files that were read, the kernel's version and command line, and no serial \
             numbers; unpacked, it can be given to --sysfs anywhere.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln node fingerprint",
            says: "what this machine is made of",
        },
        Example {
            line: "kiln node fingerprint --capture machine.tar",
            says: "the same, with what a bug report needs",
        },
    ],
    args: Read::augment_args,
    run: |context, matches| fingerprint(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Read {
    #[command(flatten)]
    machine: Machine,

    /// Also writes what was read into this tar archive
    #[arg(long, value_name = "FILE")]
    capture: Option<Utf8PathBuf>,
}

// Which machine. Not a doc comment: that would become the help of every verb with it.
#[derive(Debug, Args)]
pub(super) struct Machine {
    /// A captured tree, the directory with `sys` and `proc`; this machine where it is not given
    #[arg(long, value_name = "DIR")]
    sysfs: Option<Utf8PathBuf>,
}

impl Machine {
    /// Its root, and what it is.
    pub(super) fn read(&self, context: &Context) -> Result<(Root, Fingerprint), Failure> {
        let path = self.sysfs.as_ref().map_or_else(
            || Utf8Path::new("/").to_owned(),
            |path| context.start().join(path),
        );
        let root = Root::open(&path)?;
        let fingerprint = Fingerprint::read(&root, &path)?;
        Ok((root, fingerprint))
    }
}

fn fingerprint(context: &Context, wanted: &Read) -> Result<Exit, Failure> {
    let (root, fingerprint) = wanted.machine.read(context)?;
    if let Some(path) = &wanted.capture {
        machine::write_capture(&root, &context.start().join(path))?;
    }
    context.answer(&Told(fingerprint))?;
    Ok(Exit::Ok)
}

struct Told(Fingerprint);

impl Answer for Told {
    fn text(&self, style: Style) -> String {
        let found = &self.0;
        let mut out = vec![
            format!("{}\n", style.paint(Tone::Strong, &found.hash.to_string())),
            head(found),
            domains(&found.topology),
            power(found),
            interrupts(found),
        ];
        if !found.faults.is_empty() {
            let heading = style.paint(Tone::Warn, "could not be used:");
            let mut table = Table::new();
            for fault in &found.faults {
                table.row([&fault.path, &fault.why]);
            }
            out.push(format!("{heading}\n{}", table.render(2)));
        }
        out.concat()
    }

    fn json(&self) -> Value {
        json!({"schema": "kiln.fingerprint/1", "fingerprint": self.0})
    }
}

/// A text, or that nothing says it.
fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// `1 core`, `2 cores`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Texts in a row.
fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<&str> = texts.into_iter().map(String::as_str).collect();
    texts.join(", ")
}

fn head(found: &Fingerprint) -> String {
    let topology = &found.topology;
    let platform = match found.platform {
        Platform::Metal => "metal",
        Platform::Virtual => "a virtual machine",
        Platform::Unknown => "metal or virtual: unknown",
    };
    let mut lines = vec![
        format!(
            "{}, {platform}, {}",
            or_unknown(&found.model),
            or_unknown(&found.product)
        ),
        format!(
            "kernel {}, microcode {}",
            or_unknown(&found.kernel),
            or_unknown(&list(&found.microcode))
        ),
        format!(
            "{} online ({}) of {} present; {} of at most {}; {}, {}",
            counted(topology.online.len(), "CPU"),
            topology.online,
            topology.present.len(),
            counted(topology.cores.len(), "core"),
            counted(topology.threads(), "thread"),
            counted(topology.packages.len(), "package"),
            counted(topology.nodes.len(), "NUMA node"),
        ),
    ];
    let sets = [
        ("offline", topology.offline()),
        ("numbers that no CPU has", topology.holes()),
        ("isolated by the command line", found.isolated.clone()),
        ("without a tick", found.nohz_full.clone()),
    ];
    for (what, cpus) in sets.into_iter().filter(|(_, cpus)| !cpus.is_empty()) {
        lines.push(format!("{what}: {cpus}"));
    }
    for kind in &topology.kinds {
        lines.push(format!("{} cores: {}", kind.name, kind.cpus));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A cache's size for people.
fn size(domain: &Domain) -> String {
    domain
        .size_kib
        .map_or_else(|| "unknown size".to_owned(), chip::size)
}

fn domains(topology: &Topology) -> String {
    if topology.domains.is_empty() {
        return "L3 caches: none known\n".to_owned();
    }
    let mut table = Table::new();
    let of = |sets: &[machine::Numbered], cpus: &CpuSet| {
        let ids = sets.iter().filter(|set| !set.cpus.is_disjoint(cpus));
        let ids: Vec<String> = ids.map(|set| set.id.to_string()).collect();
        ids.join("+")
    };
    for domain in &topology.domains {
        let cpus = &domain.cpus;
        table.row([
            size(domain),
            counted(topology.cores_in(cpus).count(), "core"),
            format!("package {}", or_unknown(&of(&topology.packages, cpus))),
            format!("node {}", or_unknown(&of(&topology.nodes, cpus))),
            cpus.to_string(),
        ]);
    }
    format!("L3 caches:\n{}", table.render(2))
}

fn power(found: &Fingerprint) -> String {
    let idle = &found.idle;
    let mut out = vec![format!(
        "idle states: driver {}, governor {}\n",
        or_unknown(&idle.driver),
        or_unknown(&idle.governor)
    )];
    let mut table = Table::new();
    for state in &idle.states {
        let mut row = vec![
            state.index.to_string(),
            state.name.clone(),
            format!("{} us", state.latency_us),
        ];
        if state.cpus != found.topology.online {
            row.push(format!("on {}", state.cpus));
        }
        if !state.disabled.is_empty() {
            row.push(format!("disabled on {}", state.disabled));
        }
        table.row(row);
    }
    out.push(table.render(2));
    let frequency = &found.frequency;
    out.push(format!(
        "frequency: driver {}, governor {}\n",
        or_unknown(&list(&frequency.drivers)),
        or_unknown(&list(&frequency.governors))
    ));
    out.concat()
}

fn interrupts(found: &Fingerprint) -> String {
    let count = |movable| {
        let of_kind = found.interrupts.iter().filter(|irq| irq.movable == movable);
        of_kind.count()
    };
    let mut out = Vec::new();
    if found.interrupts.is_empty() {
        out.push("interrupts: none told\n".to_owned());
    } else {
        out.push(format!(
        "interrupts: {} in use; {} can be moved, {} managed by their drivers, {} cannot be moved\n",
        found.interrupts.len(),
        count(Movable::Yes),
        count(Movable::Managed),
        count(Movable::No)
    ));
    }
    let mut table = Table::new();
    for device in &found.devices {
        let kind = match device.kind {
            DeviceKind::Network => "network card",
            DeviceKind::Nvme => "NVMe drive",
        };
        let queues = counted(device.queues, "queue");
        table.row([device.name.as_str(), kind, &queues]);
    }
    out.push(table.render(2));
    out.concat()
}
