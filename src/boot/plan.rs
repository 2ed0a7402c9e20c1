//! What a slot holds, as it was put there: `plan.json` beside its kernel.

use serde::{Deserialize, Serialize};

use super::block::Slot;
use super::error::BootError;
use super::place::Place;
use crate::digest::Sha256;
use crate::files;

/// Largest plan that is read, in bytes.
const LIMIT: u64 = 64 << 10;

/// The format that is written and read.
const SCHEMA: &str = "kiln.slot/1";

/// The file's name.
pub const FILE: &str = "plan.json";

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    schema: String,
    /// What `uname -r` prints under its kernel.
    pub release: String,
    /// Its command line, without what GRUB adds.
    pub words: String,
    /// Digest of the kernel.
    pub kernel: Sha256,
    /// Digest of its initrd.
    pub initrd: Sha256,
    /// Digest of the kernel's configuration; `None` where `/boot` has no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Sha256>,
    /// Id of the manifest of the build; `None` where it came from `/boot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Sha256>,
}

impl Plan {
    /// A plan without what is only known of some kernels.
    pub fn new(release: &str, words: &str, kernel: Sha256, initrd: Sha256) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            release: release.to_owned(),
            words: words.to_owned(),
            kernel,
            initrd,
            config: None,
            manifest: None,
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        // Texts and digests only: they can always be written.
        serde_json::to_string_pretty(self).map_or_else(|_| String::new(), |text| text + "\n")
    }

    /// The plan of a slot.
    ///
    /// # Errors
    /// Where the slot has none that this kiln reads.
    pub fn of(place: &Place, slot: Slot) -> Result<Self, BootError> {
        let path = place.slot(slot).join(FILE);
        if !path.exists() {
            return Err(BootError::EmptySlot { slot });
        }
        let read = BootError::io("read", &path);
        let plan: Self = serde_json::from_str(&files::read_text(&path, LIMIT)?)
            .map_err(|error| read(error.into()))?;
        if plan.schema == SCHEMA {
            Ok(plan)
        } else {
            Err(BootError::EmptySlot { slot })
        }
    }
}
