//! What the package manager does beside the gate, and what the gate leaves behind.

use kiln::failure::Exit;

use super::node::{A, B, Node};
use crate::support::{Case, Outcome, Stop};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::33_removed_kernel_still_boots", removed),
        Case::new("gate::36_older_initrd_is_an_alarm", drift),
        Case::new("gate::removed_gate_leaves_nothing", gate_removed),
    ]
}

/// What the package manager removes from `/boot` is not what the slots hold.
fn removed() -> Outcome {
    let node = Node::armed()?;
    assert!(veto(&node, A)? && veto(&node, B)?);
    assert!(!veto(&node, "6.1.0-1")? && !veto(&node, "")?);
    for release in [A, B] {
        for name in ["vmlinuz", "initrd.img", "config"] {
            std::fs::remove_file(node.path(&format!("boot/{name}-{release}")))?;
        }
    }
    assert_eq!(node.boot()?, "b trial counted 1");
    assert_eq!(node.boot()?, "b trial counted 0");
    assert_eq!(node.boot()?, "a good exhausted 0");
    Ok(())
}

/// dpkg asks before it removes a kernel, and is told no for what a slot holds.
fn veto(node: &Node, release: &str) -> Result<bool, Stop> {
    let hook = node.path("etc/kernel/prerm.d/00-kiln");
    let ran = node
        .env
        .program(hook.as_str(), [release])
        .env("DPKG_ROOT", node.root.as_str())
        .run()?;
    Ok(ran.code() != Some(0))
}

fn drift() -> Outcome {
    let node = Node::set_up()?;
    assert_eq!(node.status()?["alarms"], serde_json::json!([]));
    node.write(&format!("boot/initrd.img-{A}"), "made anew")?;
    let alarms = node.status()?["alarms"].to_string();
    assert!(
        alarms.contains("is older than") && alarms.contains("kiln stage"),
        "{alarms}"
    );
    // As a trial, and no other way.
    node.kiln(&["stage", A])?.exits(0)?;
    assert_eq!(
        node.status()?["slots"],
        serde_json::json!([["a", A], ["b", A]])
    );
    Ok(())
}

/// Every file of the node is as it was before.
fn gate_removed() -> Outcome {
    let node = Node::new()?;
    let list = |node: &Node| -> Result<Vec<String>, Stop> {
        let all = crate::support::tree::listing(&node.root)?;
        // The node's key is what it is known by, and stays.
        let is_file = |path: &String| {
            !path.ends_with('/') && !path.starts_with("run/") && path != "etc/kiln/node.key"
        };
        Ok(all.into_iter().filter(is_file).collect())
    };
    let before = list(&node)?;
    node.kiln(&["boot", "init"])?.exits(0)?;
    node.update_grub()?;
    assert!(list(&node)?.len() > before.len() + 8);
    node.kiln(&["stage", B])?.exits(0)?;
    let ran = node.kiln(&["boot", "remove"])?.exits(Exit::NodeRefused)?;
    assert_eq!(ran.json()?["error"]["code"], "trial-armed");
    node.kiln(&["boot", "disarm"])?.exits(0)?;
    node.kiln(&["boot", "remove"])?.exits(0)?;
    std::fs::remove_file(node.path("boot/grub/grub.cfg"))?;
    assert_eq!(list(&node)?, before);
    node.kiln(&["boot", "remove"])?.exits(Exit::Usage)?;
    Ok(())
}
