//! What the readers of different releases take or refuse, read from the tree itself: its own reader
//! says in its sources what it refuses.

use super::host::{Host, HostError};

/// How strict a tree's own reader is. Where its sources are not there, as lenient as any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dialect {
    /// A file may be included once, in all.
    pub(super) includes_once: bool,
    /// Entries that older readers warned of are errors, and a choice takes no type.
    pub(super) is_strict: bool,
}

impl Dialect {
    /// Looks into the sources of the tree's reader.
    pub(super) fn of(host: &dyn Host) -> Result<Self, HostError> {
        let says = |path: &str, words: &str| -> Result<bool, HostError> {
            Ok(host.read(path)?.is_some_and(|text| text.contains(words)))
        };
        Ok(Self {
            includes_once: says("scripts/kconfig/util.c", "error: repeated inclusion of ")?,
            is_strict: says(
                "scripts/kconfig/parser.y",
                "zconf_error(\"menuconfig statement without prompt\")",
            )?,
        })
    }
}
