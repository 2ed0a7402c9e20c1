//! A slot's own bytes once more: the kernel before as a trial, one boot of the other slot, a second
//! chance for what was used up; and a pin, which holds all of that back.

use serde::{Deserialize, Serialize};

use super::block::{Generation, Outcome, Slot};
use super::disk::{Gate, Load};
use super::error::BootError;
use super::gate::new_generation;
use super::place::Place;
use super::plan::{self, Plan};
use super::setup::told_if_any;
use super::stage::Medium as _;
use super::state;
use super::trial::{Staged, fit};
use crate::digest::Sha256;
use crate::files;

/// Largest note that is read, in bytes.
const LIMIT: u64 = 4096;

/// How a slot is put on trial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// As any other kernel.
    Previous,
    /// For one boot: it is not kept, however healthy it is.
    Once,
    /// After its attempts were used up without a verdict.
    Retry,
}

/// How the last trial ended, and of which bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    outcome: String,
    generation: String,
    plan: Sha256,
}

/// Puts what the other slot holds on trial: the same bytes, read back from the disk and hashed, with a
/// new generation. Its configuration is not judged again: it came up here, or was judged before.
///
/// # Errors
/// Where the slot does not hold what was put there, the state forbids it, or the node would not count.
pub fn again(place: &Place, how: Again, by_image: bool) -> Result<Staged, BootError> {
    let mut gate = Gate::hold(place, "stage")?;
    free(place)?;
    let told = told_if_any(place)?;
    let block = gate.block()?;
    state::may_stage(&block, told.as_ref())?;
    fit(place, 0, by_image)?;
    let slot = block.other();
    let load = Load::of_slot(place, slot)?;
    if how == Again::Retry {
        exhausted(place, slot)?;
    }
    let disarmed = state::disarm(&block, told.as_ref())?;
    gate.write(&disarmed)?;
    gate.verify(slot, &load)?;
    gate.checkpoint()?;
    let generation = new_generation()?;
    let mut armed = state::arm(&disarmed, told.as_ref(), generation)?;
    if how == Again::Once {
        // Durable before the trial is armed: without it the kernel would be kept.
        files::write(&once(place), generation.to_string().as_bytes())?;
        armed = state::once(&armed);
    }
    gate.write(&armed)?;
    Ok(Staged::of(slot, load.plan, generation))
}

fn once(place: &Place) -> camino::Utf8PathBuf {
    place.at("var/lib/kiln/boot/once")
}

/// Whether a trial is for one boot only.
pub(super) fn is_once(place: &Place, generation: Generation) -> bool {
    let text = files::read_text(&once(place), LIMIT).unwrap_or_default();
    text == generation.to_string()
}

fn last(place: &Place) -> camino::Utf8PathBuf {
    place.at("var/lib/kiln/boot/last.json")
}

/// Remembers how the trial of a slot ended.
pub(super) fn remember(
    place: &Place,
    slot: Slot,
    generation: Generation,
    outcome: Outcome,
) -> Result<(), BootError> {
    let path = last(place);
    let Ok((plan, _bytes)) = files::hash(&place.slot(slot).join(plan::FILE)) else {
        // A slot that was emptied has nothing to be tried again.
        return Ok(files::remove_file(&path)?);
    };
    let last = Last {
        outcome: outcome.to_string(),
        generation: generation.to_string(),
        plan,
    };
    let text = serde_json::to_vec_pretty(&last)
        .map_err(|error| BootError::io("describe", &path)(error.into()))?;
    Ok(files::write(&path, &text)?)
}

/// Refuses anything but the very bytes whose attempts were used up.
fn exhausted(place: &Place, slot: Slot) -> Result<(), BootError> {
    let path = last(place);
    let not = |what: String| BootError::NotExhausted { what };
    if !path.exists() {
        return Err(not("no trial has ended on this node".to_owned()));
    }
    let text = files::read_text(&path, LIMIT)?;
    let last: Last =
        serde_json::from_str(&text).map_err(|error| BootError::io("read", &path)(error.into()))?;
    if last.outcome != Outcome::Exhausted.as_str() {
        return Err(not(format!("the last trial ended as `{}`", last.outcome)));
    }
    let (plan, _bytes) = files::hash(&place.slot(slot).join(plan::FILE))?;
    if plan == last.plan {
        Ok(())
    } else {
        Err(not(format!("slot {slot} holds another kernel by now")))
    }
}

fn pin_file(place: &Place) -> camino::Utf8PathBuf {
    place.at("var/lib/kiln/boot/pin")
}

/// Why nothing is put on trial on this node; `None` where it may.
pub fn pinned(place: &Place) -> Option<String> {
    let path = pin_file(place);
    // A pin that cannot be read is one.
    path.exists().then(|| {
        let text = files::read_text(&path, LIMIT).unwrap_or_default();
        text.trim().to_owned()
    })
}

/// Refuses a pinned node.
pub(super) fn free(place: &Place) -> Result<(), BootError> {
    match pinned(place) {
        None => Ok(()),
        Some(why) => Err(BootError::Pinned { why }),
    }
}

/// Holds back every trial until [`unpin`]. One that is armed already stays armed.
///
/// # Errors
/// Where there is no gate, or the pin cannot be written.
pub fn pin(place: &Place, why: &str) -> Result<(), BootError> {
    let _gate = Gate::hold(place, "boot pin")?;
    Ok(files::write(
        &pin_file(place),
        format!("{why}\n").as_bytes(),
    )?)
}

/// Takes the pin away; whether there was one.
///
/// # Errors
/// Where there is no gate, or the pin cannot be removed.
pub fn unpin(place: &Place) -> Result<bool, BootError> {
    let _gate = Gate::hold(place, "boot unpin")?;
    let was = pinned(place).is_some();
    files::remove_file(&pin_file(place))?;
    Ok(was)
}

impl Load {
    /// What a slot holds, to be verified and started as it is.
    pub(super) fn of_slot(place: &Place, slot: Slot) -> Result<Self, BootError> {
        let directory = place.slot(slot);
        Ok(Self {
            kernel: directory.join("vmlinuz"),
            initrd: directory.join("initrd.img"),
            plan: Plan::of(place, slot)?,
        })
    }
}
