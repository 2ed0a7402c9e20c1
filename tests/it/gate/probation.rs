//! The first day of a kernel that was kept, and what other programs are shown of a node.

use kiln::boot::block::Trial;

use super::again::kept;
use super::node::{A, Node};
use crate::support::{Case, Outcome, Stop};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::probation_ends_after_two_panics", two_panics),
        Case::new("gate::status_for_logins_and_metrics", shown),
    ]
}

fn dump(node: &Node, at: &str, text: &str) -> Outcome {
    node.write(
        at,
        format!("Panic#1 Part1\n<0>Kernel panic - not syncing: {text}\n"),
    )
}

/// What the gate says at the boot of a good kernel.
fn said(node: &Node) -> Result<String, Stop> {
    let report = node.kiln(&["gate", "run"])?.exits(0)?.json()?["report"].clone();
    Ok(report["probation"].as_str().unwrap_or_default().to_owned())
}

fn two_panics() -> Outcome {
    let node = kept()?;
    assert_eq!(said(&node)?, "");
    dump(&node, "sys/fs/pstore/dmesg-ramoops-0", "one")?;
    assert_eq!(said(&node)?, "");
    // The same panic, moved by systemd-pstore, and a power cut: neither is a second one.
    dump(&node, "var/lib/systemd/pstore/1/dmesg-ramoops-0", "one")?;
    assert_eq!(node.boot()?, "b good stable 0");
    assert_eq!(said(&node)?, "");
    assert_eq!(node.block()?.trial, None);
    dump(&node, "sys/fs/pstore/dmesg-ramoops-0", "two")?;
    // A person may hold it back.
    node.kiln(&["boot", "pin", "tournament"])?.exits(0)?;
    assert!(said(&node)?.contains("pinned: tournament"));
    assert_eq!(node.block()?.trial, None);
    node.kiln(&["boot", "unpin"])?.exits(0)?;
    assert!(said(&node)?.contains(&format!("slot a ({A}) is armed")));
    assert_eq!(node.block()?.trial, Some(Trial { left: 2 }));
    assert_eq!(node.boot()?, "a trial counted 1");
    // The twin: a day and more later it is over.
    let node = kept()?;
    let path = node.path("var/lib/kiln/boot/probation.json");
    let text = std::fs::read_to_string(&path)?;
    let since = kiln::clock::now().as_second();
    let digits: String = since.to_string().chars().take(6).collect();
    let older = (since - 25 * 3600).to_string();
    let line = text
        .lines()
        .find(|line| line.contains("since"))
        .unwrap_or_default();
    assert!(line.contains(&digits), "{text}");
    std::fs::write(
        &path,
        text.replacen(line, &format!("  \"since\": {older},"), 1),
    )?;
    dump(&node, "sys/fs/pstore/dmesg-ramoops-0", "one")?;
    dump(&node, "sys/fs/pstore/dmesg-ramoops-1", "two")?;
    assert_eq!(said(&node)?, "");
    assert!(node.block()?.trial.is_none() && !path.exists());
    Ok(())
}

fn shown() -> Outcome {
    let node = Node::armed()?;
    let form = |words: &[&str]| -> Result<String, Stop> {
        Ok(node
            .run(&[&["boot", "status"], words].concat())
            .run()?
            .exits(0)?
            .stdout)
    };
    assert_eq!(
        form(&["--motd"])?,
        "kiln: runs a kernel that the gate did not start; next boot: slot b as trial\n"
    );
    let metrics = form(&["--metrics"])?;
    for line in [
        format!("kiln_boot_slot_good{{slot=\"a\",release=\"{A}\"}} 1"),
        "kiln_boot_attempts_left 2".to_owned(),
        "kiln_boot_trial_armed 1".to_owned(),
        "kiln_boot_alarms 0".to_owned(),
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}: {metrics}"
        );
    }
    // Every line is a comment, or a name with one number.
    for line in metrics.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_default();
        assert!(
            name.starts_with("kiln_boot_") && value.parse::<u64>().is_ok(),
            "{line}"
        );
    }
    node.kiln(&["boot", "disarm"])?.exits(0)?;
    node.write("boot/grub/grub.cfg", "")?;
    assert!(form(&["--motd"])?.contains("1 alarm"));
    assert!(form(&["--metrics"])?.contains("kiln_boot_trial_armed 0\n"));
    Ok(())
}
