//! The first day of a kernel that was kept: two panics within it put the kernel before on trial.
//!
//! Only a panic that was written down counts (pstore): a power cut says nothing about a kernel, and two
//! of them in a day must not change it.

use serde::{Deserialize, Serialize};

use super::again::{self, Again};
use super::block::Slot;
use super::died;
use super::error::BootError;
use super::place::Place;
use super::state::{Role, Told};
use crate::clock;
use crate::digest::Sha256;
use crate::files;

/// How long it lasts, in seconds.
const LENGTH: i64 = 24 * 60 * 60;

/// How many panics are too many.
const PANICS: u64 = 2;

/// Largest note that is read, in bytes.
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Probation {
    /// Seconds since 1970 at which the kernel was kept.
    since: i64,
    /// Its slot.
    slot: String,
    /// Panics since then.
    panics: u64,
    /// Panics that are known, from before and since.
    seen: Vec<Sha256>,
}

fn path(place: &Place) -> camino::Utf8PathBuf {
    place.at("var/lib/kiln/boot/probation.json")
}

fn write(place: &Place, probation: &Probation) -> Result<(), BootError> {
    let path = path(place);
    let text = serde_json::to_vec_pretty(probation)
        .map_err(|error| BootError::io("describe", &path)(error.into()))?;
    Ok(files::write(&path, &text)?)
}

/// Begins: the kernel of a slot was kept just now.
pub(super) fn begin(place: &Place, slot: Slot) -> Result<(), BootError> {
    let seen = died::panics(place).into_iter().map(|dump| dump.digest);
    let probation = Probation {
        since: clock::now().as_second(),
        slot: slot.to_string(),
        panics: 0,
        seen: seen.collect(),
    };
    write(place, &probation)
}

/// Looks whether the good kernel has died again, and puts the one before on trial where it has died too
/// often. What was done, for people.
///
/// # Errors
/// Where notes cannot be read or written.
pub(super) fn look(place: &Place, told: &Told) -> Result<Option<String>, BootError> {
    let path = path(place);
    if told.role != Role::Good || !path.exists() {
        return Ok(None);
    }
    let odd = BootError::io("read", &path);
    let text = files::read_text(&path, LIMIT)?;
    let mut probation: Probation =
        serde_json::from_str(&text).map_err(|error| odd(error.into()))?;
    let age = clock::now().as_second().saturating_sub(probation.since);
    if age > LENGTH || probation.slot != told.slot.as_str() {
        files::remove_file(&path)?;
        return Ok(None);
    }
    let before = probation.panics;
    for dump in died::panics(place) {
        if !probation.seen.contains(&dump.digest) {
            probation.seen.push(dump.digest);
            probation.panics += 1;
        }
    }
    if probation.panics < PANICS {
        if probation.panics != before {
            write(place, &probation)?;
        }
        return Ok(None);
    }
    let panics = probation.panics;
    let said = match again::again(place, Again::Previous, false) {
        Ok(staged) => {
            files::remove_file(&path)?;
            format!(
                "it panicked {panics} times within a day of being kept: slot {} ({}) is armed for a trial",
                staged.slot, staged.release
            )
        }
        // A node that is pinned, for example. It is tried again at the next boot.
        Err(error) => format!(
            "it panicked {panics} times within a day of being kept, and the kernel before is not tried: {}",
            crate::failure::in_one_line(&error)
        ),
    };
    Ok(Some(said))
}
