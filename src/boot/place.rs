//! Where things are on a node, below its root: `/`, or a tree of a test.

use camino::{Utf8Path, Utf8PathBuf};

use super::block::Slot;

/// The root of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: Utf8PathBuf,
}

impl Place {
    /// A node whose files are below `root`.
    pub fn new(root: impl Into<Utf8PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running system itself, which can be restarted.
    pub fn is_live(&self) -> bool {
        self.root == "/"
    }

    /// A path below the root.
    pub fn at(&self, path: &str) -> Utf8PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A path as the node itself calls it.
    pub fn shown(&self, path: &Utf8Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(inside) => format!("/{inside}"),
            Err(_) => path.to_string(),
        }
    }

    /// The gate's directory: what GRUB reads.
    pub fn gate(&self) -> Utf8PathBuf {
        self.at("boot/grub/gate")
    }

    /// The state block.
    pub fn state(&self) -> Utf8PathBuf {
        self.gate().join("state.env")
    }

    /// The mirror of which slot is good.
    pub fn mirror(&self) -> Utf8PathBuf {
        self.gate().join("mirror.env")
    }

    /// The directory of a slot.
    pub fn slot(&self, slot: Slot) -> Utf8PathBuf {
        self.gate().join(slot.as_str())
    }

    /// What GRUB runs.
    pub fn grub_cfg(&self) -> Utf8PathBuf {
        self.at("boot/grub/grub.cfg")
    }

    /// What the running kernel was started with.
    pub fn command_line(&self) -> Utf8PathBuf {
        self.at("proc/cmdline")
    }

    /// Where the state files lay when they were made.
    pub fn moorings(&self) -> Utf8PathBuf {
        self.at("var/lib/kiln/boot/moorings.json")
    }

    /// Boot records that wait to be taken away.
    pub fn outbox(&self) -> Utf8PathBuf {
        self.at("var/lib/kiln/boot/outbox")
    }

    /// The node's own key, which signs what it saw.
    pub fn key(&self) -> Utf8PathBuf {
        self.at("etc/kiln/node.key")
    }

    /// The lock of everything that writes here; gone with the next boot.
    pub fn lock(&self) -> Utf8PathBuf {
        self.at("run/kiln/boot.lock")
    }

    /// The process of the deadman that the initramfs started.
    pub fn early_deadman(&self) -> Utf8PathBuf {
        self.at("run/kiln/deadman.pid")
    }

    /// Who made a verdict in this boot: it is there once the deadman is to rest.
    pub fn verdict(&self) -> Utf8PathBuf {
        self.at("run/kiln/verdict")
    }
}
