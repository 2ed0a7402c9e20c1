//! `kiln boot rehearse`: whether GRUB can count is a fact of the node, seen at one ordinary boot.

use kiln::boot::block::Block;
use kiln::failure::Exit;

use super::node::{B, Node};
use crate::support::grub::{Files, Machine};
use crate::support::{Case, Outcome};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::18_rehearsal_shows_that_grub_counts", rehearsed),
        Case::new("gate::18_rehearsal_that_fails_is_no_leave", not_rehearsed),
    ]
}

/// A node that nobody has seen count: staging asks for a rehearsal, which is one ordinary boot.
fn rehearsed() -> Outcome {
    let node = Node::set_up()?;
    std::fs::remove_file(node.path("etc/kiln/node.yaml"))?;
    let refused = |node: &Node, said: &str| -> Outcome {
        let ran = node.run(&["stage", B]).run()?;
        ran.exits(Exit::NodeRefused)?.warns(said)?;
        assert!(!node.has("boot/grub/gate/b"));
        Ok(())
    };
    refused(&node, "never seen to count")?;
    node.kiln(&["boot", "rehearse"])?.exits(0)?;
    // In the same boot nothing is known yet, whoever asks.
    node.tell(GOOD)?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    refused(&node, "at its next boot")?;
    let status = node.status()?;
    assert_eq!(
        status["next"],
        serde_json::json!(["a", "good", "rehearsed"])
    );
    let before = node.block()?;
    assert!(before.rehearsal);
    assert_eq!(node.boot()?, "a good rehearsed 0");
    // One byte was counted down, and the kernel that was told so finds it on the disk.
    assert_eq!(
        node.block()?,
        Block {
            rehearsal: false,
            ..before
        }
    );
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["counting"], "seen");
    assert_eq!(node.status()?["counting"], "seen");
    assert_eq!(node.boot()?, "a good stable 0");
    node.kiln(&["stage", B])?.exits(0)?;
    let ran = node.kiln(&["boot", "rehearse"])?.exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["error"]["code"], "trial-armed");
    // State files that were made anew lie elsewhere, and were not seen to be counted in.
    node.kiln(&["boot", "disarm"])?.exits(0)?;
    let state = node.path("boot/grub/gate/state.env");
    kiln::files::write(&state, &std::fs::read(&state)?)?;
    node.kiln(&["boot", "repair"])?.exits(0)?;
    assert_eq!(node.status()?["counting"], "unknown");
    Ok(())
}

const GOOD: &str =
    "gate.slot=a gate.role=good gate.why=stable gate.gen=0000000000000001 gate.left=0";

/// The twins: a disk that refuses writes, and a kernel that is told of a count that the disk has not.
fn not_rehearsed() -> Outcome {
    for lies in [false, true] {
        let node = Node::set_up()?;
        node.kiln(&["boot", "rehearse"])?.exits(0)?;
        let due = node.block()?;
        let machine = Machine::bios(&Files::below(&node.path("boot/grub"))?)?;
        if lies {
            assert_eq!(node.boot_on(&machine)?, "a good rehearsed 0");
            node.put(&due.bytes())?;
        } else {
            let told = node.boot_on(&machine.read_only())?;
            assert!(told.starts_with("a good nowrite"), "{told}");
        }
        let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
        assert_eq!(report["counting"], "failed");
        assert!(
            node.status()?["alarms"]
                .to_string()
                .contains("could not count")
        );
        // Not even for an image that promises it.
        let ran = node.kiln(&["stage", B])?.exits(Exit::NodeRefused)?;
        assert!(ran.stdout.contains("could not count"), "{}", ran.stdout);
        assert!(!node.block()?.rehearsal && node.block()?.trial.is_none());
        assert_eq!(node.boot()?, "a good stable 0");
    }
    Ok(())
}
