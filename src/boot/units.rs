//! What the rest of the system runs: gate and deadman at every boot, and a veto before dpkg removes
//! the modules of a kernel that a slot holds.

/// Judges the kernel on trial.
pub const GATE: &str = include_str!("assets/kiln-gate.service");

/// Restarts the node without it.
pub const DEADMAN: &str = include_str!("assets/kiln-deadman.service");

/// Keeps the modules of both slots; Debian's kernel packages run it, and stop where it fails.
pub const VETO: &str = include_str!("assets/kernel-prerm");

/// Puts the deadman into the initramfs.
pub const HOOK: &str = include_str!("assets/initramfs-hook");

/// Starts it there.
pub const INIT_TOP: &str = include_str!("assets/initramfs-init-top");

/// Where that is.
pub const INIT_TOP_PATH: &str = "etc/initramfs-tools/scripts/init-top/kiln";

/// The files of a node, below its root: path, text, mode.
pub const FILES: [(&str, &str, u32); 5] = [
    ("etc/systemd/system/kiln-gate.service", GATE, 0o644),
    ("etc/systemd/system/kiln-deadman.service", DEADMAN, 0o644),
    // The first of its directory: what comes after it has already taken something away.
    ("etc/kernel/prerm.d/00-kiln", VETO, 0o755),
    ("etc/initramfs-tools/hooks/kiln", HOOK, 0o755),
    (INIT_TOP_PATH, INIT_TOP, 0o755),
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
        for ((path, text, _mode), (link, target)) in FILES.iter().zip(LINKS) {
            assert_eq!(format!("/{path}"), target);
            let (_, wanted) = text.split_once("WantedBy=").unwrap();
            assert!(link.contains(&format!("/{}.wants/", wanted.trim())));
        }
    }
}
