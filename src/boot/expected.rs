//! What every kernel on trial must be, whatever the checks of the node look at: the one that was put
//! into its slot, started as was planned, and reading every word of its command line.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use super::lint::TRIAL_WORDS;
use super::place::Place;
use super::plan::Plan;
use super::state::Told;
use crate::command::{Cmd, Tool};
use crate::digest::Sha256;
use crate::failure::in_one_line;
use crate::files;
use crate::proof::boot_record::CheckResult;

/// Largest text that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// Judges the running kernel against what its slot was filled with. `known`: words of the command line
/// that are not for the kernel, and that this node's programs read.
pub(super) fn judge(place: &Place, told: &Told, known: &[String]) -> Vec<CheckResult> {
    let plan = match Plan::of(place, told.slot) {
        Ok(plan) => plan,
        Err(error) => return vec![result("slot", Err(in_one_line(&error)))],
    };
    vec![
        result("kernel release", release(place, &plan)),
        result("command line", command_line(place, &plan, told)),
        result("kernel configuration", config(place, &plan)),
        result("boot parameters", parameters(place, known)),
    ]
}

fn result(name: &str, found: Result<(), String>) -> CheckResult {
    CheckResult {
        name: name.to_owned(),
        passed: found.is_ok(),
        runs: 1,
        took_ms: 0,
        said: found.err().unwrap_or_default(),
    }
}

fn release(place: &Place, plan: &Plan) -> Result<(), String> {
    let found = files::read_text(&place.at("proc/sys/kernel/osrelease"), LIMIT)
        .map_err(|error| in_one_line(&error))?;
    let (found, expected) = (found.trim(), plan.release.as_str());
    if found == expected {
        Ok(())
    } else {
        Err(format!("`{found}` runs, expected `{expected}`"))
    }
}

fn command_line(place: &Place, plan: &Plan, told: &Told) -> Result<(), String> {
    let found = files::read_text(&place.command_line(), LIMIT).map_err(|e| in_one_line(&e))?;
    let expected = planned(plan, told);
    let found = found.trim();
    // GRUB puts the kernel's own path first.
    let own = match found.split_once(' ') {
        Some((first, rest)) if first.starts_with("BOOT_IMAGE=") => rest,
        _ => found,
    };
    if own == expected {
        Ok(())
    } else {
        Err(format!("it is `{own}`, planned was `{expected}`"))
    }
}

/// The command line that GRUB's text makes of a plan for a trial (`assets/gate.cfg`).
fn planned(plan: &Plan, told: &Told) -> String {
    let Told {
        slot,
        role,
        why,
        generation,
        left,
    } = told;
    let generation = generation.map_or("bad".to_owned(), |known| known.to_string());
    let gate = format!(
        "gate.slot={slot} gate.role={role} gate.why={why} gate.gen={generation} gate.left={left}"
    );
    let words = plan.words.split_ascii_whitespace();
    let added = TRIAL_WORDS.iter().map(|(word, _)| *word);
    let all: Vec<&str> = words.chain([gate.as_str()]).chain(added).collect();
    all.join(" ")
}

/// The configuration that the running kernel has in itself. Where the slot was filled from `/boot`, a
/// kernel may have none.
fn config(place: &Place, plan: &Plan) -> Result<(), String> {
    let path = place.at("proc/config.gz");
    let Some(expected) = plan.config else {
        return Ok(());
    };
    if !path.exists() {
        return match plan.manifest {
            None => Ok(()),
            Some(_) => {
                Err("there is no `/proc/config.gz`, and a manifest to compare with".to_owned())
            }
        };
    }
    let packed = files::read(&path, LIMIT).map_err(|error| in_one_line(&error))?;
    let unpacked = Tool::find("gzip")
        .and_then(|tool| {
            Cmd::new(&tool)
                .args(["-d", "-c"])
                .stdin_bytes(packed)
                .capture()
        })
        .map_err(|error| in_one_line(&error))?;
    let found = Sha256::of(&unpacked);
    if found == expected {
        Ok(())
    } else {
        Err(format!(
            "`/proc/config.gz` has sha256 {found}, the one that was staged {expected}"
        ))
    }
}

/// What the kernel says about words that it does not know (`print_unknown_bootoptions`,
/// `init/main.c`): a word that is misspelt does nothing, and nobody notices.
fn parameters(place: &Place, known: &[String]) -> Result<(), String> {
    let log = kernel_log(place).map_err(|error| format!("`/dev/kmsg`: {error}"))?;
    let unknown = unknown(&log, known);
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the kernel does not know `{}`",
            unknown.join("`, `")
        ))
    }
}

fn unknown(log: &str, known: &[String]) -> Vec<String> {
    let words = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("Unknown kernel command line parameters \"")?;
        rest.split_once('"').map(|(words, _)| words)
    });
    words
        .flat_map(str::split_ascii_whitespace)
        .filter(|word| {
            let name = word.split('=').next().unwrap_or(word);
            name != "BOOT_IMAGE" && !known.iter().any(|one| one == name)
        })
        .map(str::to_owned)
        .collect()
}

/// What the kernel has said since its start, as `/dev/kmsg` gives it: a record at each read, and
/// "again" at the end.
pub(super) fn kernel_log(place: &Place) -> std::io::Result<String> {
    let mut file = std::fs::File::options()
        .read(true)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0))
        .open(place.at("dev/kmsg"))?;
    let mut text = Vec::new();
    let mut record = vec![0; 16 << 10];
    loop {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&record[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            // The record was overwritten meanwhile, or the read interrupted.
            Err(error) if matches!(error.raw_os_error(), Some(4 | 32)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::block::{Generation, Slot};
    use super::super::state::{Role, Why};
    use super::*;

    const TOLD: Told = Told {
        slot: Slot::B,
        role: Role::Trial,
        why: Why::Counted,
        generation: Some(Generation(0x17)),
        left: 1,
    };

    struct Node {
        _dir: tempfile::TempDir,
        place: Place,
        plan: Plan,
    }

    impl Node {
        /// A trial that is all that it was planned to be.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let place = Place::new(dir.path().to_str().unwrap());
            let digest = Sha256::of(b"x");
            let mut plan = Plan::new("6.18.40", "root=/dev/vda1 ro", digest, digest);
            plan.config = Some(Sha256::of(b"CONFIG_X=y\n"));
            plan.manifest = Some(digest);
            let node = Self {
                _dir: dir,
                place,
                plan,
            };
            node.write("boot/grub/gate/b/plan.json", node.plan.text().as_bytes());
            node.write("proc/sys/kernel/osrelease", b"6.18.40\n");
            let line = format!("BOOT_IMAGE=/x {}\n", planned(&node.plan, &TOLD));
            node.write("proc/cmdline", line.as_bytes());
            node.config(b"CONFIG_X=y\n");
            node.write("dev/kmsg", b"6,1,0,-;Linux version 6.18.40\n");
            node
        }

        fn write(&self, path: &str, bytes: &[u8]) {
            files::write(&self.place.at(path), bytes).unwrap();
        }

        fn config(&self, text: &[u8]) {
            let gzip = Cmd::new(&Tool::find("gzip").unwrap()).args(["-n", "-c"]);
            let packed = gzip.stdin_bytes(text).capture().unwrap();
            self.write("proc/config.gz", &packed);
        }

        fn failed(&self) -> Vec<String> {
            let known = ["splash".to_owned()];
            let all = judge(&self.place, &TOLD, &known).into_iter();
            all.filter(|one| !one.passed)
                .map(|one| format!("{}: {}", one.name, one.said))
                .collect()
        }
    }

    #[test]
    fn a_kernel_that_is_what_was_planned_passes() {
        assert_eq!(Node::new().failed(), [""; 0]);
        let line = planned(&Node::new().plan, &TOLD);
        assert_eq!(
            line,
            "root=/dev/vda1 ro gate.slot=b gate.role=trial gate.why=counted \
             gate.gen=0000000000000017 gate.left=1 panic=10 oops=panic softlockup_panic=1 \
             nmi_watchdog=panic hung_task_panic=1"
        );
    }

    /// Another command line, another configuration, another kernel: each is told.
    #[test]
    fn what_is_not_as_planned_is_told() {
        type Change = fn(&Node);
        let cases: [(&str, Change); 7] = [
            ("kernel release: `6.18.4` runs", |n| {
                n.write("proc/sys/kernel/osrelease", b"6.18.4\n");
            }),
            ("command line: it is", |n| {
                let line = planned(&n.plan, &TOLD).replace("ro ", "rw ");
                n.write("proc/cmdline", line.as_bytes());
            }),
            ("command line: it is", |n| {
                let line = format!("{} extra", planned(&n.plan, &TOLD));
                n.write("proc/cmdline", line.as_bytes());
            }),
            ("kernel configuration: `/proc/config.gz` has", |n| {
                n.config(b"CONFIG_X=m\n");
            }),
            ("kernel configuration: there is no", |n| {
                files::remove_file(&n.place.at("proc/config.gz")).unwrap();
            }),
            (
                "boot parameters: the kernel does not know `isolcpu=2`",
                |n| {
                    n.write(
                        "dev/kmsg",
                        b"5,9,0,-;Unknown kernel command line parameters \"BOOT_IMAGE=/x splash \
                      isolcpu=2\", will be passed to user space.\n",
                    );
                },
            ),
            ("slot: ", |n| {
                files::remove_dir_all(&n.place.slot(Slot::B)).unwrap();
            }),
        ];
        for (said, change) in cases {
            let node = Node::new();
            change(&node);
            let failed = node.failed();
            assert!(
                failed.len() == 1 && failed[0].starts_with(said),
                "{said}: {failed:?}"
            );
        }
    }

    /// From `/boot`, without a manifest: a kernel that has no configuration in itself is not blamed.
    #[test]
    fn a_kernel_from_boot_may_have_no_configuration_in_it() {
        let mut node = Node::new();
        node.plan.manifest = None;
        node.write("boot/grub/gate/b/plan.json", node.plan.text().as_bytes());
        files::remove_file(&node.place.at("proc/config.gz")).unwrap();
        assert_eq!(node.failed(), [""; 0]);
        node.config(b"CONFIG_X=m\n");
        assert_eq!(node.failed().len(), 1);
    }
}
