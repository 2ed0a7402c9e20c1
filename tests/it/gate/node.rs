//! The verbs of a node, on a tree that stands for one; what GRUB makes of it is asked of real GRUB.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use camino::Utf8PathBuf;
use kiln::boot::block::{Block, Slot, Trial};
use kiln::boot::grub;
use kiln::digest::Sha256;
use kiln::failure::Exit;
use kiln::proof::boot_record::{BootRecord, KIND};
use kiln::proof::envelope::Envelope;
use kiln::proof::key::PrivateKey;
use kiln::proof::roles::{Holder, Role, Roles};
use serde_json::Value;

use crate::support::env::Run;
use crate::support::grub::{Files, Machine, initrd, kernel};
use crate::support::{Case, Env, Outcome, Ran, Stop, fail};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::00_init_stage_try_commit", committed),
        Case::new("gate::05_failing_check_ends_on_good", rejected),
        Case::new("gate::05_person_turns_it_down", turned_down),
        Case::new("gate::06_08_deadman_fires_without_a_verdict", deadman),
        Case::new("gate::49_early_deadman_hands_over", hands_over),
        Case::new("gate::10_20_replaced_state_file", replaced),
        Case::new("gate::14_lost_state_is_made_anew", lost),
        Case::new("gate::19_38_uncounted_trial_is_not_kept", uncounted),
        Case::new("gate::22_unfit_node_is_refused", unfit),
        Case::new("gate::30_31_staging_waits", waits),
        Case::new("gate::39_capture_kernel_rests", capture),
        Case::new("gate::44_second_gate_is_told", second),
        Case::new("gate::kernel_that_would_hang_is_refused", would_hang),
    ]
}

/// The kernel that runs first.
pub(super) const A: &str = "6.12.48-1-lts-aaaaaaaa";
/// The kernel that is put on trial.
pub(super) const B: &str = "6.18.40-2-lts-bbbbbbbb";

/// A configuration that panics where it should.
pub(super) const FIT: &str = "CONFIG_SOFTLOCKUP_DETECTOR=y\nCONFIG_HARDLOCKUP_DETECTOR=y\n\
                   CONFIG_DETECT_HUNG_TASK=y\n";

/// A tree that stands for a node.
pub(super) struct Node {
    pub(super) env: Env,
    pub(super) root: Utf8PathBuf,
}

impl Node {
    /// A Debian node with two kernels, the first of which runs.
    pub(super) fn new() -> Result<Self, Stop> {
        let env = Env::new()?;
        let root = env.path("node");
        let node = Self { env, root };
        let mut superblock = vec![0; 2048];
        superblock[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        node.write("dev/block/254:1", superblock)?;
        node.write("sys/dev/block/254:1/partition", "1\n")?;
        node.write("sys/kernel/kexec_loaded", "0\n")?;
        node.write(
            "proc/self/mountinfo",
            "21 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n",
        )?;
        node.write("proc/sys/kernel/osrelease", format!("{A}\n"))?;
        node.write("proc/sys/kernel/random/boot_id", "0f7c\n")?;
        node.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro\n")?;
        node.write("proc/uptime", "20.00 1.00\n")?;
        node.write("dev/kmsg", "6,1,0,-;Linux version\n")?;
        node.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")?;
        node.settings("{file: /srv/ready}")?;
        node.write("etc/kiln/node.yaml", "kiln: 1\nrehearsal: by-image\n")?;
        for (slot, release) in Slot::BOTH.into_iter().zip([A, B]) {
            node.write(
                &format!("boot/vmlinuz-{release}"),
                kernel(&format!("slot-{slot}"))?,
            )?;
            node.write(&format!("boot/initrd.img-{release}"), initrd(slot))?;
            node.write(&format!("boot/config-{release}"), FIT)?;
        }
        Ok(node)
    }

    /// The same, set up, with the `grub.cfg` that `update-grub` makes.
    pub(super) fn set_up() -> Result<Self, Stop> {
        let node = Self::new()?;
        node.kiln(&["boot", "init"])?.exits(0)?;
        node.update_grub()?;
        Ok(node)
    }

    /// Set up, and the second kernel armed.
    pub(super) fn armed() -> Result<Self, Stop> {
        let node = Self::set_up()?;
        node.kiln(&["stage", B])?.exits(0)?;
        Ok(node)
    }

    /// The second kernel runs for its first attempt.
    pub(super) fn on_trial() -> Result<Self, Stop> {
        let node = Self::armed()?;
        assert_eq!(node.boot()?, "b trial counted 1");
        Ok(node)
    }

    /// `grub.cfg` as `update-grub` makes it.
    pub(super) fn update_grub(&self) -> Result<(), Stop> {
        let text = format!(
            "{}{}",
            grub::printed(grub::FIRST),
            grub::printed(grub::LAST)
        );
        self.write("boot/grub/grub.cfg", text)
    }

    pub(super) fn settings(&self, check: &str) -> Result<(), Stop> {
        let text = format!("kiln: 1\nchecks:\n  - {{name: ready, check: {check}, passes: 1}}\n");
        self.write("etc/kiln/gate.yaml", text)
    }

    pub(super) fn write(&self, inside: &str, content: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.env.write(&format!("node/{inside}"), content).map(drop)
    }

    /// A path of the node.
    pub(super) fn path(&self, inside: &str) -> Utf8PathBuf {
        self.root.join(inside)
    }

    pub(super) fn has(&self, inside: &str) -> bool {
        self.path(inside).exists()
    }

    pub(super) fn run(&self, words: &[&str]) -> Run {
        self.env
            .kiln(words.iter().copied())
            .arg("--root")
            .arg(self.root.as_str())
    }

    /// Runs a verb on the node, with its answer as JSON.
    pub(super) fn kiln(&self, words: &[&str]) -> Result<Ran, Stop> {
        self.run(words).arg("--format").arg("json").run()
    }

    pub(super) fn status(&self) -> Result<Value, Stop> {
        let ran = self.kiln(&["boot", "status"])?.exits(0)?;
        Ok(ran.json()?["status"].clone())
    }

    /// The state block.
    pub(super) fn block(&self) -> Result<Block, Stop> {
        let bytes = std::fs::read(self.path("boot/grub/gate/state.env"))?;
        Block::parse(&bytes).map_err(|error| fail(error.to_string()))
    }

    /// Overwrites the state file in its place, as GRUB does.
    pub(super) fn put(&self, bytes: &[u8]) -> Result<(), Stop> {
        let path = self.path("boot/grub/gate/state.env");
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, 0)?;
        Ok(())
    }

    /// What GRUB told the running kernel.
    pub(super) fn tell(&self, words: &str) -> Result<(), Stop> {
        self.write("proc/cmdline", format!("root=/dev/vda1 ro {words}\n"))
    }

    /// Runs another program in the same surroundings.
    pub(super) fn program(&self, program: &str, words: &[&str]) -> Result<Ran, Stop> {
        self.env.program(program, words.iter().copied()).run()
    }

    /// Starts it in real GRUB, and takes over what GRUB wrote and said.
    pub(super) fn boot(&self) -> Result<String, Stop> {
        let machine = Machine::bios(&Files::below(&self.path("boot/grub"))?)?;
        self.boot_on(&machine)
    }

    /// The same on a machine with the node's files.
    pub(super) fn boot_on(&self, machine: &Machine) -> Result<String, Stop> {
        let started = machine.boot()?.started()?;
        self.put(&machine.block()?.bytes())?;
        self.write("proc/cmdline", format!("{}\n", started.line))?;
        let slot = started.told()?.slot;
        let release = self.path(&format!("boot/grub/gate/{slot}/release"));
        self.write("proc/sys/kernel/osrelease", std::fs::read(release)?)?;
        for volatile in ["run/kiln/verdict", "run/kiln/restart"] {
            kiln::files::remove_file(&self.path(volatile))?;
        }
        let boot_id = Sha256::of(started.line.as_bytes()).to_string();
        self.write("proc/sys/kernel/random/boot_id", boot_id)?;
        started.as_text()
    }

    /// Id of the manifest in `out`.
    pub(super) fn manifest_id(&self) -> Result<String, Stop> {
        let path = self.path("out/manifest.json");
        let envelope = Envelope::parse("manifest", &std::fs::read_to_string(path)?)?;
        let payload = envelope.payload_of("manifest", "manifest")?;
        Ok(Sha256::of(&payload).to_string())
    }

    /// The one record of this outcome.
    pub(super) fn record(&self, outcome: &str) -> Result<BootRecord, Stop> {
        let outbox = self.path("var/lib/kiln/boot/outbox");
        let names = kiln::files::list(&outbox)?;
        let mut found = names
            .iter()
            .filter(|name| name.ends_with(&format!("-{outcome}.json")));
        let (Some(name), None) = (found.next(), found.next()) else {
            return Err(fail(format!("expected one record of {outcome}: {names:?}")));
        };
        let envelope = Envelope::parse(name, &std::fs::read_to_string(outbox.join(name))?)?;
        // By the node's own key, and no other.
        let key = PrivateKey::from_pem(&std::fs::read_to_string(self.path("etc/kiln/node.key"))?)?;
        let roles = Roles {
            holders: vec![Holder {
                role: Role::Node,
                name: "node".to_owned(),
                key: key.public(),
                from: kiln::clock::today(),
                until: None,
                revoked: None,
            }],
        };
        envelope.open(name, KIND, Role::Node, &roles, kiln::clock::today())?;
        let payload = envelope.payload_of(name, KIND)?;
        Ok(BootRecord::parse(name, &payload)?.0)
    }
}

/// Everything as it should be: set up, staged, tried once, kept; and the old slot is the next
/// trial's.
fn committed() -> Outcome {
    let node = Node::new()?;
    node.run(&["boot", "init"])
        .run()?
        .exits(0)?
        .says("slot a is known to be good")?
        .says("update-grub")?;
    assert!(node.status()?["alarms"].to_string().contains("update-grub"));
    node.update_grub()?;
    let status = node.status()?;
    assert_eq!(status["alarms"], serde_json::json!([]));
    assert_eq!(status["good"], "a");
    assert_eq!(node.boot()?, "a good stable 0");

    let staged = node.kiln(&["stage", B])?.exits(0)?.json()?;
    assert_eq!(staged["staged"]["slot"], "b");
    assert_eq!(staged["staged"]["words"], "root=/dev/vda1 ro");
    let status = node.status()?;
    assert_eq!(status["next"], serde_json::json!(["b", "trial", "counted"]));
    assert_eq!(status["slots"], serde_json::json!([["a", A], ["b", B]]));
    assert_eq!(node.boot()?, "b trial counted 1");

    node.write("srv/ready", "")?;
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["verdict"], "committed");
    assert!(node.has("run/kiln/verdict") && !node.has("run/kiln/restart"));
    let record = node.record("committed")?;
    assert_eq!((record.release.as_str(), record.slot.as_str()), (B, "b"));
    assert_eq!((record.left, record.checks.len()), (1, 5));
    assert!(record.checks.iter().all(|check| check.passed));
    assert_eq!(
        node.block()?,
        Block::stable(node.block()?.generation, Slot::B)
    );
    // The same boot again: nothing is left to do.
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["verdict"], "at-rest");

    assert_eq!(node.boot()?, "b good stable 0");
    node.kiln(&["stage", A])?.exits(0)?;
    assert_eq!(node.boot()?, "a trial counted 1");
    Ok(())
}

fn rejected() -> Outcome {
    let node = Node::on_trial()?;
    // The gate gives up when its time is over, which is soon.
    node.write("proc/uptime", "104.00 1.00\n")?;
    let ran = node.run(&["gate", "run"]).run()?;
    ran.exits(Exit::GateRejected)?
        .says("failed: ready")?
        .says("there is no `/srv/ready`")?;
    assert!(node.has("run/kiln/restart") && !node.has("run/kiln/verdict"));
    assert_eq!(node.block()?.trial, Some(Trial { left: 0 }));
    assert_eq!(node.boot()?, "a good exhausted 0");
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["outcome"], "rejected");
    let record = node.record("rejected")?;
    assert_eq!((record.release.as_str(), record.role.as_str()), (B, "good"));
    assert_eq!(node.block()?.trial, None);
    assert_eq!(node.boot()?, "a good stable 0");
    Ok(())
}

fn turned_down() -> Outcome {
    let node = Node::on_trial()?;
    node.kiln(&["gate", "reject"])?.exits(Exit::GateRejected)?;
    assert!(node.has("run/kiln/restart"));
    assert_eq!(node.boot()?, "a good exhausted 0");
    // On the good kernel there is nothing to turn down.
    let ran = node.kiln(&["gate", "reject"])?.exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["error"]["code"], "not-on-trial");
    assert!(!node.has("run/kiln/restart"));
    Ok(())
}

fn deadman() -> Outcome {
    let node = Node::on_trial()?;
    let fires = |node: &Node, uptime: &str| -> Result<bool, Stop> {
        kiln::files::remove_file(&node.path("run/kiln/restart"))?;
        node.write("proc/uptime", format!("{uptime} 1.00\n"))?;
        let ran = node.kiln(&["gate", "deadman"])?;
        let fired = node.has("run/kiln/restart");
        ran.exits(if fired { Exit::GateRejected } else { Exit::Ok })?;
        Ok(fired)
    };
    assert!(fires(&node, "119.50")?);
    // It needs no settings, and fires at once where it starts late.
    kiln::files::remove_file(&node.path("etc/kiln/gate.yaml"))?;
    assert!(fires(&node, "5000.00")?);
    // A verdict lets it rest; so does a commit whose word was lost.
    node.write("run/kiln/verdict", "committed\n")?;
    assert!(!fires(&node, "119.50")?);
    kiln::files::remove_file(&node.path("run/kiln/verdict"))?;
    node.settings("{file: /srv/ready}")?;
    node.write("srv/ready", "")?;
    node.write("proc/uptime", "20.00 1.00\n")?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    kiln::files::remove_file(&node.path("run/kiln/verdict"))?;
    assert!(!fires(&node, "119.50")?);
    // And the good kernel is never restarted.
    assert_eq!(node.boot()?, "b good stable 0");
    assert!(!fires(&node, "5000.00")?);
    Ok(())
}

/// The deadman of the initramfs watches until the one of the system has started, and no process that
/// only has its number is ended.
fn hands_over() -> Outcome {
    for name in ["kiln", "other"] {
        let node = Node::on_trial()?;
        let pid = node.path("run/kiln/deadman.pid");
        let mut early = node.run(&["gate", "deadman", "--early"]).start()?;
        early.until("it watches", |_| Ok(pid.exists()))?;
        let number = std::fs::read_to_string(&pid)?;
        node.write(&format!("proc/{}/comm", number.trim()), format!("{name}\n"))?;
        let mut late = node.run(&["gate", "deadman"]).start()?;
        late.until("it takes over", |_| Ok(!pid.exists()))?;
        if name == "kiln" {
            assert_eq!(early.wait()?.code(), None);
            node.write("run/kiln/verdict", "committed\n")?;
        } else {
            node.write("run/kiln/verdict", "committed\n")?;
            early.wait()?.exits(0)?;
        }
        late.wait()?.exits(0)?;
    }
    Ok(())
}

/// Something replaced the state file by another with the same content: the blocks that GRUB finds
/// may be other ones.
fn replaced() -> Outcome {
    let replace = |node: &Node| -> Result<(), Stop> {
        let path = node.path("boot/grub/gate/state.env");
        let bytes = std::fs::read(&path)?;
        kiln::files::write(&path, &bytes)?;
        Ok(())
    };
    let node = Node::set_up()?;
    replace(&node)?;
    let ran = node.kiln(&["stage", B])?.exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["error"]["code"], "state-moved");
    assert_eq!(node.block()?.trial, None);
    assert!(node.status()?["alarms"].to_string().contains("boot repair"));
    node.kiln(&["boot", "repair"])?.exits(0)?;
    assert_eq!(node.status()?["alarms"], serde_json::json!([]));
    node.kiln(&["stage", B])?.exits(0)?;

    // In the trial: a healthy kernel whose commit cannot be written is not kept.
    assert_eq!(node.boot()?, "b trial counted 1");
    node.write("srv/ready", "")?;
    replace(&node)?;
    let ran = node.kiln(&["gate", "run"])?.exits(Exit::GateRejected)?;
    assert!(
        ran.stdout.contains("is not the file that was set up"),
        "{}",
        ran.stdout
    );
    assert!(node.has("run/kiln/restart"));
    assert_eq!(node.block()?.good, Slot::A);
    assert_eq!(node.boot()?, "b trial counted 0");
    assert_eq!(node.boot()?, "a good exhausted 0");
    Ok(())
}

fn lost() -> Outcome {
    for content in [&b""[..], &[0xa5; 1024], &[b'#'; 1025]] {
        let node = Node::on_trial()?;
        node.write("srv/ready", "")?;
        node.kiln(&["gate", "run"])?.exits(0)?;
        std::fs::write(node.path("boot/grub/gate/state.env"), content)?;
        let status = node.status()?;
        assert_eq!(status["good"], Value::Null);
        assert_eq!(status["next"], serde_json::json!(["b", "good", "badenv"]));
        let ran = node.kiln(&["stage", A])?.exits(Exit::NodeRefused)?;
        assert_eq!(ran.json()?["error"]["code"], "state-unsure");
        // GRUB starts the mirror's slot, and that kernel makes the block anew.
        let machine = Machine::bios(&Files::below(&node.path("boot/grub"))?)?;
        let started = machine.boot()?.started()?;
        assert_eq!(started.as_text()?, "b good badenv 0");
        node.write("proc/cmdline", started.line)?;
        let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
        assert_eq!(report["repaired"], true);
        assert_eq!(node.boot()?, "b good stable 0");
    }
    Ok(())
}

/// The kernel says that it was counted, and the disk does not: kexec, or another state file.
fn uncounted() -> Outcome {
    let node = Node::on_trial()?;
    node.write("srv/ready", "")?;
    let counted = node.block()?;
    node.put(
        &Block {
            trial: Some(Trial { left: 2 }),
            ..counted
        }
        .bytes(),
    )?;
    let ran = node.kiln(&["gate", "run"])?.exits(Exit::GateRejected)?;
    assert!(
        ran.stdout.contains("GRUB counted down to 1"),
        "{}",
        ran.stdout
    );
    assert!(node.has("run/kiln/restart"));
    // The twin, counted: the same node keeps it.
    node.put(&counted.bytes())?;
    kiln::files::remove_file(&node.path("run/kiln/restart"))?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    Ok(())
}

fn unfit() -> Outcome {
    let node = Node::new()?;
    let ran = node.kiln(&["boot", "init", "--check"])?.exits(0)?;
    assert_eq!(ran.json()?["fit"], true);
    let mount = "21 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,data=journal\n";
    node.write("proc/self/mountinfo", mount)?;
    let ran = node
        .kiln(&["boot", "init", "--check"])?
        .exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["findings"][0]["code"], "data-journal");
    node.run(&["boot", "init"])
        .run()?
        .exits(Exit::NodeRefused)?
        .warns("data=journal")?
        .warns("data=ordered")?;
    assert!(!node.has("boot/grub/gate") && !node.has("etc/grub.d"));
    let mount = mount.replace(",data=journal", "");
    node.write("proc/self/mountinfo", mount)?;
    node.write("sys/dev/block/254:1/dm/name", "vg-boot\n")?;
    let ran = node.kiln(&["boot", "init"])?.exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["error"]["code"], "preflight");
    Ok(())
}

fn waits() -> Outcome {
    let node = Node::on_trial()?;
    let refused = |node: &Node, words: &[&str]| -> Result<Value, Stop> {
        let ran = node.kiln(words)?.exits(Exit::NodeRefused)?;
        Ok(ran.json()?["error"]["code"].clone())
    };
    assert_eq!(refused(&node, &["stage", A])?, "trial-undecided");
    assert_eq!(refused(&node, &["boot", "disarm"])?, "trial-undecided");
    // The trial dies; good runs, and its record is due first.
    let dead = Block {
        trial: None,
        last: kiln::boot::block::Outcome::Exhausted,
        ..node.block()?
    };
    let node = Node::set_up()?;
    node.put(&dead.bytes())?;
    assert_eq!(refused(&node, &["stage", B])?, "outcome-unrecorded");
    assert_eq!(node.boot()?, "a good stable 0");
    node.kiln(&["gate", "run"])?.exits(0)?;
    node.record("exhausted")?;
    node.kiln(&["stage", B])?.exits(0)?;
    // Staged again before a boot: a new generation; disarmed: none.
    let first = node.block()?.generation;
    node.kiln(&["stage", B])?.exits(0)?;
    assert_ne!(node.block()?.generation, first);
    let ran = node.kiln(&["boot", "disarm"])?.exits(0)?;
    assert_eq!(ran.json()?["changed"], true);
    assert_eq!(node.boot()?, "a good stable 0");
    Ok(())
}

fn capture() -> Outcome {
    let node = Node::on_trial()?;
    node.write("proc/vmcore", "")?;
    node.write("proc/uptime", "500.00 1.00\n")?;
    let before = node.block()?;
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["verdict"], "at-rest");
    node.kiln(&["gate", "deadman"])?.exits(0)?;
    assert_eq!(node.block()?, before);
    assert!(!node.has("run/kiln/restart"));
    // The twin: the trial itself, at the same time.
    std::fs::remove_file(node.path("proc/vmcore"))?;
    node.kiln(&["gate", "deadman"])?.exits(Exit::GateRejected)?;
    Ok(())
}

fn second() -> Outcome {
    let node = Node::on_trial()?;
    let (started, go) = (node.path("started"), node.path("go"));
    let script = format!("touch {started}; while [ ! -e {go} ]; do sleep 0.05; done");
    node.settings(&format!(
        "{{command: [/bin/sh, -c, \"{script}\"]}}, timeout: 60"
    ))?;
    let mut first = node.run(&["gate", "run"]).start()?;
    first.until("its check runs", |_| Ok(started.exists()))?;
    let ran = node.kiln(&["gate", "run"])?.exits(Exit::Locked)?;
    assert!(ran.stdout.contains("gate run"), "{}", ran.stdout);
    // The verdict is the first one's: the second restarts nothing.
    assert!(!node.has("run/kiln/restart"));
    std::fs::write(&go, "")?;
    first.wait()?.exits(0)?.says("committed")?;
    Ok(())
}

fn would_hang() -> Outcome {
    let node = Node::set_up()?;
    let without = FIT.replace(
        "CONFIG_DETECT_HUNG_TASK=y",
        "# CONFIG_DETECT_HUNG_TASK is not set",
    );
    node.write(&format!("boot/config-{B}"), without)?;
    let ran = node.run(&["stage", B]).run()?.exits(Exit::NodeRefused)?;
    ran.warns("DETECT_HUNG_TASK")?;
    assert!(!node.has("boot/grub/gate/b"));
    node.write(&format!("boot/config-{B}"), FIT)?;
    // No settings: nobody could judge it.
    std::fs::remove_file(node.path("etc/kiln/gate.yaml"))?;
    node.kiln(&["stage", B])?.exits(Exit::Usage)?;
    node.settings("{file: /srv/ready}")?;
    node.run(&["stage", B, "--words", "root=/dev/vda1 $x"])
        .run()?
        .exits(Exit::Usage)?
        .warns("`$`")?;
    node.kiln(&["stage", B])?.exits(0)?;
    Ok(())
}
