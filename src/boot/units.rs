//! The units that run gate and deadman at every boot.

/// Judges the kernel on trial.
pub const GATE: &str = include_str!("assets/kiln-gate.service");

/// Restarts the node without it.
pub const DEADMAN: &str = include_str!("assets/kiln-deadman.service");

/// The files of a node, below its root: path, text.
pub const FILES: [(&str, &str); 2] = [
    ("etc/systemd/system/kiln-gate.service", GATE),
    ("etc/systemd/system/kiln-deadman.service", DEADMAN),
];

/// What enables them, as `systemctl enable` does: link, and what it points to.
pub const LINKS: [(&str, &str); 2] = [
    (
        "etc/systemd/system/multi-user.target.wants/kiln-gate.service",
        "/etc/systemd/system/kiln-gate.service",
    ),
    (
        "etc/systemd/system/sysinit.target.wants/kiln-deadman.service",
        "/etc/systemd/system/kiln-deadman.service",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_what_the_units_ask_for() {
        for ((path, text), (link, target)) in FILES.iter().zip(LINKS) {
            assert_eq!(format!("/{path}"), target);
            let (_, wanted) = text.split_once("WantedBy=").unwrap();
            assert!(link.contains(&format!("/{}.wants/", wanted.trim())));
        }
    }
}
