//! Verbs that are killed at a system call, on a real ext4 file system, with the power going off in
//! the same moment: what has reached the disk by then, journal and all, is started in real GRUB, and
//! then mounted, which replays the journal over what GRUB wrote.

use std::io::Write as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::boot::block::{Block, Generation, Outcome as Last, Slot, Trial};

use super::node::Node;
use crate::support::dice::Dice;
use crate::support::grub::{Machine, PARTITION, make_disk};
use crate::support::{Case, Outcome, Stop, fail, skip};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::11_21_killed_at_some_calls", || matrix(Some(3))),
        Case::new("gate::11_21_killed_at_every_call", || matrix(None)).full(),
        Case::new("gate::20_21_wrong_writers_lose_the_count", wrong_writers),
    ]
}

/// The calls that change something, or make it durable.
const CALLS: &str = "write,pwrite64,fsync,fdatasync,syncfs,ioctl,rename,unlink,unlinkat,rmdir,mkdir,\
                     copy_file_range,sendfile";

/// Where the state files lie on the disk.
const MOORINGS: &str = "var/lib/kiln/boot/moorings.json";

/// A system call, and which of its kind.
type Point = (String, usize);

/// Something that a verb is run on, and all that the next start may be: first, what it is for.
struct Scenario {
    name: &'static str,
    /// The state before.
    before: Block,
    /// What the running kernel was told.
    told: &'static str,
    verb: &'static [&'static str],
    /// Whether its checks pass.
    healthy: bool,
    may: &'static [&'static str],
}

const GENERATION: Generation = Generation(0x17);
const ON_TRIAL: &str = "gate.slot=b gate.role=trial gate.why=counted gate.gen=0000000000000017 \
                        gate.left=1 panic=10 oops=panic softlockup_panic=1 \
                        nmi_watchdog=panic hung_task_panic=1";
const GOOD: &str = "gate.slot=a gate.role=good gate.why=stable gate.gen=0000000000000017 \
                    gate.left=0";
const EXHAUSTED: &str = "gate.slot=a gate.role=good gate.why=exhausted \
                         gate.gen=0000000000000017 gate.left=0";

fn trial(left: u8) -> Block {
    Block {
        trial: Some(Trial { left }),
        ..Block::stable(GENERATION, Slot::A)
    }
}

fn scenarios() -> Vec<Scenario> {
    let stage: &[&str] = &["stage", super::node::B];
    vec![
        Scenario {
            name: "stage",
            before: Block::stable(GENERATION, Slot::A),
            told: GOOD,
            verb: stage,
            healthy: false,
            may: &["b trial counted 1", "a good stable 0"],
        },
        Scenario {
            name: "stage again",
            before: trial(2),
            told: GOOD,
            verb: stage,
            healthy: false,
            may: &["b trial counted 1", "a good stable 0"],
        },
        Scenario {
            name: "commit",
            before: trial(1),
            told: ON_TRIAL,
            verb: &["gate", "run"],
            healthy: true,
            may: &["b good stable 0", "b trial counted 0"],
        },
        Scenario {
            name: "reject",
            before: trial(1),
            told: ON_TRIAL,
            verb: &["gate", "reject"],
            healthy: false,
            may: &["a good exhausted 0", "b trial counted 0"],
        },
        Scenario {
            name: "settle",
            before: Block {
                last: Last::Rejected,
                ..trial(0)
            },
            told: EXHAUSTED,
            verb: &["gate", "run"],
            healthy: false,
            may: &["a good stable 0", "a good exhausted 0"],
        },
        Scenario {
            name: "disarm",
            before: trial(2),
            told: GOOD,
            verb: &["boot", "disarm"],
            healthy: false,
            may: &["a good stable 0", "b trial counted 1"],
        },
    ]
}

/// A file system of a disk image, mounted; unmounted when dropped.
struct Mounted<'a>(&'a Utf8Path);

impl<'a> Mounted<'a> {
    fn new(disk: &Utf8Path, at: &'a Utf8Path) -> Result<Self, Stop> {
        std::fs::create_dir_all(at)?;
        let options = format!("loop,offset={PARTITION}");
        let ran = Command::new("/bin/mount")
            .args(["-o", &options, disk.as_str(), at.as_str()])
            .output()?;
        if ran.status.success() {
            return Ok(Self(at));
        }
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        Err(skip(format!(
            "a disk image cannot be mounted here: {}",
            said.trim()
        )))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // What was killed may still hold it for a moment. Mounted twice, it would be destroyed.
        for _ in 0..100 {
            let ended = Command::new("/bin/umount").arg(self.0.as_str()).output();
            if ended.is_ok_and(|ended| ended.status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        eprintln!("{} is still mounted", self.0);
    }
}

/// A node whose `/boot` is on a disk of its own.
struct OnDisk {
    node: Node,
    at: Utf8PathBuf,
    /// The disk as `boot init` left it, with both slots filled and slot `a` good.
    base: Utf8PathBuf,
}

impl OnDisk {
    fn new() -> Result<Self, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("mounting a disk image needs root"));
        }
        let node = Node::new()?;
        let (at, base) = (node.path("part"), node.path("base.img"));
        let content = node.path("content");
        std::fs::create_dir(&content)?;
        std::fs::rename(node.path("boot"), content.join("boot"))?;
        make_disk(&content, &base)?;
        std::os::unix::fs::symlink("part/boot", node.path("boot"))?;
        let made = Self { node, at, base };
        {
            let _mounted = Mounted::new(&made.base, &made.at)?;
            made.node.kiln(&["boot", "init"])?.exits(0)?;
            made.node.update_grub()?;
            made.node.kiln(&["stage", super::node::B])?.exits(0)?;
        }
        std::fs::copy(made.node.path(MOORINGS), made.node.path("moorings.base"))?;
        Ok(made)
    }

    /// A copy of the base with this state, written in its place.
    fn disk(&self, name: &str, state: &Block) -> Result<Utf8PathBuf, Stop> {
        let disk = self.node.path(name);
        std::fs::copy(&self.base, &disk)?;
        let _mounted = Mounted::new(&disk, &self.at)?;
        self.node.put(&state.bytes())?;
        Ok(disk)
    }

    /// Runs a verb on a copy of `disk`: to its end, or until it is killed at a call. The disk as it is
    /// then.
    fn run(
        &self,
        scenario: &Scenario,
        disk: &Utf8Path,
        until: Option<&Point>,
    ) -> Result<Utf8PathBuf, Stop> {
        let (used, snapshot) = (self.node.path("used.img"), self.node.path("snapshot.img"));
        std::fs::copy(disk, &used)?;
        let _mounted = Mounted::new(&used, &self.at)?;
        for volatile in ["run/kiln", "var/lib/kiln/boot"] {
            kiln::files::remove_dir_all(&self.node.path(volatile))?;
        }
        // What the run before came to know would spare this one its writes.
        let moorings = self.node.path(MOORINGS);
        std::fs::create_dir_all(self.node.path("var/lib/kiln/boot"))?;
        std::fs::copy(self.node.path("moorings.base"), moorings)?;
        let (log, root) = (self.node.path("calls.txt"), self.node.path(""));
        let trace = format!("trace={CALLS}");
        let mut words = vec!["-f", "-qq", "-o", log.as_str(), "-e", &trace];
        let inject = until.map(|(call, at)| format!("inject={call}:signal=KILL:when={at}"));
        if let Some(inject) = &inject {
            words.extend(["-e", inject]);
        }
        words.push(crate::support::env::KILN);
        words.extend(scenario.verb);
        words.extend(["--root", root.as_str()]);
        let ran = self.node.program("/usr/bin/strace", &words)?;
        // The power goes off: what the file system has not written by now is lost.
        std::fs::copy(&used, &snapshot)?;
        let was_killed = ran.code().is_none_or(|code| code > 128);
        if was_killed == until.is_some() {
            Ok(snapshot)
        } else {
            Err(ran.complaint(&format!("to be killed at: {until:?}")))
        }
    }

    /// Every call of the run before.
    fn calls(&self) -> Result<Vec<Point>, Stop> {
        let log = std::fs::read_to_string(self.node.path("calls.txt"))?;
        let mut points: Vec<Point> = Vec::new();
        // `123 fsync(4) = 0`; the rest of a call that was interrupted has no bracket in its place.
        for line in log.lines() {
            let call = line
                .split_whitespace()
                .nth(1)
                .and_then(|rest| rest.split_once('('));
            if let Some((call, _)) = call
                && CALLS.split(',').any(|known| known == call)
            {
                let before = points.iter().filter(|(known, _)| known == call).count();
                points.push((call.to_owned(), before + 1));
            }
        }
        Ok(points)
    }

    /// Starts a snapshot, then mounts it; fails where the start is none of those that may be, or the
    /// disk says another count afterwards than GRUB did.
    fn starts_as(&self, snapshot: &Utf8Path, may: &[&str]) -> Result<String, Stop> {
        let machine = Machine::of_disk(snapshot)?;
        let started = machine.boot()?.started()?;
        let (text, told) = (started.as_text()?, started.told()?);
        if !may.contains(&text.as_str()) {
            return Err(fail(format!("it was started as `{text}`")));
        }
        let _mounted = Mounted::new(machine.path(), &self.at)?;
        let block = self.node.block()?;
        let agrees = told.generation == Some(block.generation)
            && (!text.contains("trial") || block.trial == Some(Trial { left: told.left }));
        if agrees {
            Ok(text)
        } else {
            Err(fail(format!(
                "GRUB said `{text}` of {:?}, and the disk says {block:?}",
                told.generation
            )))
        }
    }
}

/// Each verb, killed at some of its calls, or at each.
fn matrix(most: Option<usize>) -> Outcome {
    if !Utf8Path::new("/usr/bin/strace").exists() {
        return Err(skip("strace is not installed"));
    }
    let on_disk = OnDisk::new()?;
    let mut dice = Dice::new(11);
    let (mut boots, mut failures) = (0, Vec::new());
    for scenario in scenarios() {
        let disk = on_disk.disk("before.img", &scenario.before)?;
        on_disk.node.tell(scenario.told)?;
        let release = if scenario.told == ON_TRIAL {
            super::node::B
        } else {
            super::node::A
        };
        on_disk.node.write("proc/sys/kernel/osrelease", release)?;
        let ready = on_disk.node.path("srv/ready");
        kiln::files::remove_file(&ready)?;
        if scenario.healthy {
            kiln::files::write(&ready, b"")?;
        }
        // First to its end, which is where it should lead.
        let snapshot = on_disk.run(&scenario, &disk, None)?;
        let done = on_disk.starts_as(&snapshot, scenario.may)?;
        assert_eq!(done, scenario.may[0], "{}", scenario.name);
        let mut points = on_disk.calls()?;
        let all = points.len();
        assert!(all > 5, "{}: {points:?}", scenario.name);
        if let Some(most) = most {
            dice.shuffle(&mut points);
            points.truncate(most);
        }
        let mut seen = vec![done];
        boots += 1;
        for point in &points {
            let snapshot = on_disk.run(&scenario, &disk, Some(point))?;
            boots += 1;
            match on_disk.starts_as(&snapshot, scenario.may) {
                Ok(text) => seen.push(text),
                Err(stop) => {
                    let (call, at) = point;
                    failures.push(format!("{}: {call} {at}: {}", scenario.name, stop.text()));
                }
            }
        }
        seen.sort();
        seen.dedup();
        println!(
            "{}: {} of {all} calls: {seen:?}",
            scenario.name,
            points.len()
        );
    }
    println!("{boots} starts, {} failures", failures.len());
    if failures.is_empty() {
        Ok(())
    } else {
        Err(fail(failures.join("\n")))
    }
}

/// Writes a state file.
type Writer = fn(&Utf8Path, &[u8]) -> std::io::Result<()>;

/// The twins: a writer that replaces the state file, and one that empties it first, as others do.
/// What GRUB counted is thrown away when the journal is replayed, so both must be found.
fn wrong_writers() -> Outcome {
    let on_disk = OnDisk::new()?;
    let armed = Block {
        generation: Generation(0x18),
        ..trial(2)
    };
    let may = &["b trial counted 1", "a good stable 0", "a good badenv 0"];
    let writers: [(&str, bool, Writer); 3] = [
        ("in its place", false, |path, bytes| {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::File::options().write(true).open(path)?;
            file.write_all_at(bytes, 0)?;
            file.sync_data()
        }),
        ("replaced", true, |path, bytes| {
            let new = path.with_extension("new");
            let mut file = std::fs::File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            std::fs::File::open(path.parent().unwrap())?.sync_all()
        }),
        ("emptied first", true, |path, bytes| {
            let mut file = std::fs::File::create(path)?;
            file.sync_all()?;
            file.write_all(bytes)?;
            file.sync_all()
        }),
    ];
    for (name, is_wrong, write) in writers {
        // Armed before: what GRUB may still see is a trial, too.
        let disk = on_disk.disk("before.img", &trial(2))?;
        let snapshot = on_disk.node.path("snapshot.img");
        {
            let _mounted = Mounted::new(&disk, &on_disk.at)?;
            write(
                &on_disk.node.path("boot/grub/gate/state.env"),
                &armed.bytes(),
            )?;
            std::fs::copy(&disk, &snapshot)?;
        }
        let result = on_disk.starts_as(&snapshot, may);
        println!("{name}: {result:?}");
        assert_eq!(result.is_err(), is_wrong, "{name}: {result:?}");
    }
    Ok(())
}
