//! `kiln boot status` in the forms that other programs show: a line for who logs in, and metrics.

use crate::boot::setup::Status;

/// One line.
pub(super) fn line(status: &Status) -> String {
    let running = match &status.running {
        Some((slot, role, why)) => format!("slot {slot} as {role} ({why})"),
        None => "a kernel that the gate did not start".to_owned(),
    };
    let (slot, role, _) = &status.next;
    let alarms = match status.alarms.len() {
        0 => String::new(),
        1 => "; 1 alarm: `kiln boot status`".to_owned(),
        many => format!("; {many} alarms: `kiln boot status`"),
    };
    let pinned = status
        .pinned
        .as_ref()
        .map_or_else(String::new, |why| format!("; pinned: {why}"));
    format!("kiln: runs {running}; next boot: slot {slot} as {role}{pinned}{alarms}\n")
}

/// Metrics as the text file collector of `node_exporter` reads them.
pub(super) fn metrics(status: &Status) -> String {
    let mut lines = Vec::new();
    let mut gauge = |name: &str, help: &str, rows: Vec<(String, u64)>| {
        lines.push(format!("# HELP kiln_boot_{name} {help}"));
        lines.push(format!("# TYPE kiln_boot_{name} gauge"));
        for (labels, value) in rows {
            lines.push(format!("kiln_boot_{name}{labels} {value}"));
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    let slots = status.slots.iter().map(|(slot, release)| {
        let good = status.good.as_ref() == Some(slot);
        let labels = format!("{{slot=\"{slot}\",release=\"{}\"}}", escaped(release));
        (labels, u64::from(good))
    });
    gauge(
        "slot_good",
        "Whether a slot is the good one.",
        slots.collect(),
    );
    if let Some((slot, role, why)) = &status.running {
        let labels = format!("{{slot=\"{slot}\",role=\"{role}\",why=\"{why}\"}}");
        gauge(
            "running",
            "What the running kernel was started as.",
            vec![(labels, 1)],
        );
    }
    let left = status.trial.as_ref().map(|(_, left)| u64::from(*left));
    gauge(
        "trial_armed",
        "Whether a trial has attempts left.",
        one(u64::from(left > Some(0))),
    );
    gauge(
        "attempts_left",
        "Attempts of the trial that are left.",
        one(left.unwrap_or(0)),
    );
    gauge(
        "alarms",
        "Things that are not as they must be.",
        one(status.alarms.len() as u64),
    );
    gauge(
        "pinned",
        "Whether every trial is held back.",
        one(u64::from(status.pinned.is_some())),
    );
    let seen = status.counting == "seen";
    gauge(
        "counting_seen",
        "Whether GRUB was seen to count here.",
        one(u64::from(seen)),
    );
    let open = status
        .hangs
        .iter()
        .filter(|hang| hang.lacks.is_some())
        .count();
    gauge(
        "hangs_not_ended",
        "Ways to hang that nothing on this node ends.",
        one(open as u64),
    );
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

/// A label's value (exposition format: backslash, quote and newline are escaped).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
