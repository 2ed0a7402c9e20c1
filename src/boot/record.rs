//! The record of a trial, in the outbox: what an outcome waits for before it is acknowledged.

use super::block::{Block, Outcome, Slot};
use super::died;
use super::error::BootError;
use super::gate;
use super::key;
use super::place::Place;
use super::plan::Plan;
use super::state::Told;
use crate::clock;
use crate::files;
use crate::proof::boot_record::{self, BootRecord, CheckResult};
use crate::proof::envelope::Envelope;

/// Largest text of the node that is read for it, in bytes.
const LIMIT: u64 = 4096;

/// The record of how the trial of `block` ended; `tried` is its slot.
pub(super) fn of(
    place: &Place,
    block: &Block,
    told: &Told,
    tried: Slot,
    left: u8,
    checks: Vec<CheckResult>,
) -> BootRecord {
    let text = |path: &str| {
        let text = files::read_text(&place.at(path), LIMIT).unwrap_or_default();
        text.trim().to_owned()
    };
    // A trial that came so far as to be judged speaks for itself.
    let died = matches!(block.last, Outcome::Exhausted | Outcome::Rejected);
    let release = place.slot(tried).join("release");
    BootRecord {
        node: boot_record::node(&text("etc/machine-id")),
        generation: block.generation.to_string(),
        slot: tried.to_string(),
        outcome: block.last.to_string(),
        release: files::read_text(&release, LIMIT)
            .unwrap_or_default()
            .trim()
            .to_owned(),
        left: u64::from(left),
        boot_id: gate::boot_id(place),
        role: told.role.to_string(),
        why: told.why.to_string(),
        checks,
        manifest: Plan::of(place, tried).ok().and_then(|plan| plan.manifest),
        last_words: if died {
            died::last_words(place)
        } else {
            Vec::new()
        },
    }
}

/// Writes a record into the outbox, signed and durable; returns its name as the node calls it, and the
/// id of the key or why it is not signed. The same outcome of one generation has one name, so that a
/// record that is written again replaces itself.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn write(
    place: &Place,
    record: &BootRecord,
) -> Result<(String, Result<String, String>), BootError> {
    let path = place
        .outbox()
        .join(format!("{}-{}.json", record.generation, record.outcome));
    let describe = |error| BootError::io("describe", &path)(std::io::Error::other(error));
    let payload = record
        .to_payload(&clock::now().to_string())
        .map_err(describe)?;
    let mut envelope = Envelope::unsigned(boot_record::KIND, &payload);
    let signed = key::sign(place, &mut envelope);
    files::write(&path, &envelope.to_bytes().map_err(describe)?)?;
    Ok((place.shown(&path), signed))
}
