//! A slot's own bytes once more, pins, and the restart that a trial waits for.

use kiln::boot::block::{Block, Outcome as Last, Slot, Trial};
use kiln::failure::Exit;

use super::node::{A, B, Node};
use crate::support::{Case, Outcome, Stop};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::previous_kernel_is_a_trial_too", previous),
        Case::new("gate::once_is_counted_and_not_kept", once),
        Case::new("gate::retry_is_for_what_was_used_up", retry),
        Case::new("gate::pinned_node_takes_no_trial", pinned),
        Case::new("gate::37_restart_drains_and_keeps_to_its_window", go),
    ]
}

fn refused(node: &Node, words: &[&str]) -> Result<String, Stop> {
    let ran = node.kiln(words)?.exits(Exit::NodeRefused)?;
    Ok(ran.json()?["error"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// The second kernel was tried and kept.
pub(super) fn kept() -> Result<Node, Stop> {
    let node = Node::on_trial()?;
    node.write("srv/ready", "")?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    assert_eq!(node.boot()?, "b good stable 0");
    Ok(node)
}

fn previous() -> Outcome {
    let node = Node::set_up()?;
    assert_eq!(refused(&node, &["stage", "--previous"])?, "slot-empty");
    let node = kept()?;
    // What is in `/boot` by now does not matter: the slot's own bytes do.
    std::fs::remove_file(node.path(&format!("boot/vmlinuz-{A}")))?;
    let staged = node.kiln(&["stage", "--previous"])?.exits(0)?.json()?;
    assert_eq!(
        (&staged["staged"]["release"], &staged["attempts"]),
        (&A.into(), &2.into())
    );
    assert_eq!(node.boot()?, "a trial counted 1");
    // The twin: one byte of the slot is another one.
    let node = kept()?;
    let kernel = node.path("boot/grub/gate/a/vmlinuz");
    let mut bytes = std::fs::read(&kernel)?;
    bytes[700] ^= 1;
    std::fs::write(&kernel, bytes)?;
    assert_eq!(refused(&node, &["stage", "--previous"])?, "slot-damaged");
    assert_eq!(node.boot()?, "b good stable 0");
    Ok(())
}

fn once() -> Outcome {
    let node = kept()?;
    assert_eq!(refused(&node, &["boot", "once", "b"])?, "slot-good");
    let staged = node.kiln(&["boot", "once", "a"])?.exits(0)?.json()?;
    assert_eq!(staged["attempts"], 1);
    assert_eq!(node.boot()?, "a trial counted 0");
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    assert_eq!(report["verdict"], "tried");
    assert_eq!(node.record("tried")?.release, A);
    // The deadman rests, also without the gate's word.
    node.write("proc/uptime", "119.50 1.00\n")?;
    node.kiln(&["gate", "deadman"])?.exits(0)?;
    assert_eq!(refused(&node, &["stage", B])?, "slot-in-use");
    assert_eq!(node.boot()?, "b good stable 0");
    // The twins: it dies, and it is unhealthy; the next boot is of the good one all the same.
    node.kiln(&["boot", "once", "a"])?.exits(0)?;
    assert_eq!(node.boot()?, "a trial counted 0");
    assert_eq!(node.boot()?, "b good exhausted 0");
    node.write("proc/uptime", "20.00 1.00\n")?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    node.kiln(&["boot", "once", "a"])?.exits(0)?;
    assert_eq!(node.boot()?, "a trial counted 0");
    std::fs::remove_file(node.path("srv/ready"))?;
    node.write("proc/uptime", "104.00 1.00\n")?;
    node.kiln(&["gate", "run"])?.exits(Exit::GateRejected)?;
    assert_eq!(node.boot()?, "b good exhausted 0");
    // And a trial that is staged after it is kept as any other.
    node.kiln(&["gate", "run"])?.exits(0)?;
    node.kiln(&["stage", "--previous"])?.exits(0)?;
    assert_eq!(node.boot()?, "a trial counted 1");
    node.write("srv/ready", "")?;
    node.write("proc/uptime", "20.00 1.00\n")?;
    node.kiln(&["gate", "run"])?.exits(0)?;
    assert_eq!(node.boot()?, "a good stable 0");
    Ok(())
}

fn retry() -> Outcome {
    let node = Node::on_trial()?;
    assert_eq!(node.boot()?, "b trial counted 0");
    assert_eq!(node.boot()?, "a good exhausted 0");
    // Its record is due first.
    assert_eq!(refused(&node, &["boot", "retry"])?, "not-exhausted");
    node.kiln(&["gate", "run"])?.exits(0)?;
    let first = node.block()?.generation;
    node.kiln(&["boot", "retry"])?.exits(0)?;
    assert_ne!(node.block()?.generation, first);
    assert_eq!(node.boot()?, "b trial counted 1");
    // The twins: rejected; other bytes; nothing was ever tried.
    node.kiln(&["gate", "reject"])?.exits(Exit::GateRejected)?;
    assert_eq!(node.boot()?, "a good exhausted 0");
    node.kiln(&["gate", "run"])?.exits(0)?;
    assert_eq!(refused(&node, &["boot", "retry"])?, "not-exhausted");

    let node = Node::armed()?;
    assert_eq!(refused(&node, &["boot", "retry"])?, "not-exhausted");
    let used_up = Block {
        trial: Some(Trial { left: 0 }),
        last: Last::None,
        ..node.block()?
    };
    node.put(&used_up.bytes())?;
    assert_eq!(node.boot()?, "a good exhausted 0");
    node.kiln(&["gate", "run"])?.exits(0)?;
    node.kiln(&["stage", B, "--words", "root=/dev/vda1 ro other"])?
        .exits(0)?;
    node.kiln(&["boot", "disarm"])?.exits(0)?;
    assert_eq!(refused(&node, &["boot", "retry"])?, "not-exhausted");
    Ok(())
}

fn pinned() -> Outcome {
    let node = Node::armed()?;
    let before = std::fs::read(node.path("boot/grub/gate/state.env"))?;
    node.kiln(&["boot", "pin", "tournament"])?.exits(0)?;
    assert_eq!(node.status()?["pinned"], "tournament");
    for words in [
        &["stage", B][..],
        &["stage", "--previous"],
        &["boot", "once", "b"],
        &["boot", "retry"],
    ] {
        let ran = node.kiln(words)?.exits(Exit::NodeRefused)?;
        assert!(ran.stdout.contains("pinned: tournament"), "{}", ran.stdout);
    }
    // The block is not touched: what is armed stays armed.
    assert_eq!(
        std::fs::read(node.path("boot/grub/gate/state.env"))?,
        before
    );
    assert_eq!(node.boot()?, "b trial counted 1");
    let node = Node::set_up()?;
    node.kiln(&["boot", "pin", "x"])?.exits(0)?;
    assert_eq!(
        node.kiln(&["boot", "unpin"])?.exits(0)?.json()?["changed"],
        true
    );
    assert_eq!(
        node.kiln(&["boot", "unpin"])?.exits(0)?.json()?["changed"],
        false
    );
    node.kiln(&["stage", B])?.exits(0)?;
    assert_eq!(node.block()?.other(), Slot::B);
    Ok(())
}

fn go() -> Outcome {
    let node = Node::set_up()?;
    let settings = |text: &str| {
        node.write(
            "etc/kiln/node.yaml",
            format!("kiln: 1\nrehearsal: by-image\n{text}"),
        )
    };
    let drained = node.path("drained");
    let drain = |code: u8| format!("drain: [/bin/sh, -c, \"echo x >> {drained}; exit {code}\"]\n");
    let left = || node.has("run/kiln/reboot");
    settings(&drain(0))?;
    assert_eq!(refused(&node, &["boot", "go"])?, "nothing-due");
    assert!(!drained.exists() && !left());
    node.kiln(&["stage", B])?.exits(0)?;
    // A window of an hour that begins in two.
    let now = kiln::clock::now().as_second().rem_euclid(86_400) / 60;
    let time = |minutes: i64| {
        let at = (now + minutes).rem_euclid(1440);
        format!("{:02}:{:02}", at / 60, at % 60)
    };
    let window = |from: i64, to: i64| {
        format!(
            "reboot-window: {{from: \"{}\", to: \"{}\"}}\n",
            time(from),
            time(to)
        )
    };
    settings(&format!("{}{}", drain(0), window(120, 180)))?;
    assert_eq!(
        refused(&node, &["boot", "go", "--no-wait"])?,
        "window-closed"
    );
    assert!(!drained.exists() && !left());
    settings(&format!("{}{}", drain(3), window(-120, 120)))?;
    assert_eq!(refused(&node, &["boot", "go"])?, "not-drained");
    assert!(drained.exists() && !left());
    settings(&format!("{}{}", drain(0), window(-120, 120)))?;
    node.kiln(&["boot", "go"])?.exits(0)?;
    assert!(left());
    assert_eq!(std::fs::read_to_string(&drained)?, "x\nx\n");
    assert_eq!(node.boot()?, "b trial counted 1");
    Ok(())
}
