//! The gate: what a node does with the kernel that it was started with.
//!
//! A kernel on trial is checked, and then committed or rejected. The good kernel writes down how the
//! trial before it ended. Whatever is not clear ends in a restart, of which there is a bounded
//! number, and then in the good kernel.

use serde::Serialize;

use super::again;
use super::block::{Block, Generation, Outcome, Slot, Unsure};
use super::checks::{self, Settings, SinceBoot};
use super::disk::{self, Gate};
use super::error::BootError;
use super::expected;
use super::place::Place;
use super::probation;
use super::record;
use super::rehearsal::Counting;
use super::stage::Medium as _;
use super::state::{self, Role, Told};
use crate::failure::in_one_line;
use crate::files;
use crate::proof::boot_record::CheckResult;

/// What the gate did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The kernel on trial is the good one now.
    Committed,
    /// The kernel on trial is healthy, and was for this boot only.
    Tried,
    /// The kernel on trial was turned down; the node is to be restarted.
    Rejected,
    /// There was no trial to judge; what was due is done.
    AtRest,
}

/// What the gate did, and what it saw.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, where that is not what the checks say.
    pub why: Option<String>,
    /// How the last trial ended, where that was written down now.
    pub outcome: Option<String>,
    /// The record that was written.
    pub record: Option<String>,
    /// The id of the key that signed it, or why it is not signed.
    pub signed: Option<Result<String, String>>,
    /// The health checks.
    pub checks: Vec<CheckResult>,
    /// Whether the state block had to be made new.
    pub repaired: bool,
    /// What the panics of a kernel that was kept have led to.
    pub probation: Option<String>,
    /// What became known of GRUB's counting, at a boot without a trial.
    pub counting: Option<String>,
}

impl Report {
    fn at_rest() -> Self {
        Self {
            verdict: Verdict::AtRest,
            why: None,
            outcome: None,
            record: None,
            signed: None,
            checks: Vec::new(),
            repaired: false,
            counting: None,
            probation: None,
        }
    }

    fn rejected(why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Rejected,
            why: Some(why.into()),
            ..Self::at_rest()
        }
    }
}

/// What the running kernel was told, from the node's `/proc/cmdline`.
///
/// # Errors
/// Where that cannot be read, or says nothing.
pub fn told(place: &Place) -> Result<Told, BootError> {
    let line = files::read_text(&place.command_line(), 1 << 16)?;
    Ok(Told::read(&line)?)
}

/// Whether the running kernel was started for a trial, and is not the one that saves the memory of a
/// trial that died.
pub fn is_trial(place: &Place) -> bool {
    told(place).is_ok_and(|told| told.role == Role::Trial) && !is_capture_kernel(place)
}

/// Whether this is the kernel that saves the memory of one that died. It inherits that one's command
/// line, and nothing that is said there is about it.
pub fn is_capture_kernel(place: &Place) -> bool {
    place.at("proc/vmcore").exists()
}

/// A generation that was never used before.
///
/// # Errors
/// Where the kernel gives no random numbers.
pub fn new_generation() -> Result<Generation, BootError> {
    let path = camino::Utf8Path::new("/proc/sys/kernel/random/uuid");
    let text = files::read_text(path, 100)?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = digits
        .get(..16)
        .and_then(|d| u64::from_str_radix(d, 16).ok());
    let odd = || BootError::io("read", path)(std::io::ErrorKind::InvalidData.into());
    number.map(Generation).ok_or_else(odd)
}

/// Judges the kernel that runs. After [`Verdict::Rejected`] the caller restarts the node, also where
/// this ends in an error in a trial: nothing but a commit keeps a trial.
///
/// # Errors
/// Where another process holds the gate, and where files cannot be read or written.
pub fn run(place: &Place, settings: &Settings) -> Result<Report, BootError> {
    if is_capture_kernel(place) {
        return Ok(Report::at_rest());
    }
    let told = told(place)?;
    let mut gate = Gate::hold(place, "gate run")?;
    let block = match gate.read()? {
        Ok(block) => block,
        Err(unsure) => return lost(&gate, &told, &unsure),
    };
    let counting = disk::counting(place)?;
    let seen = counting.after(&block, &told, &boot_id(place));
    let counting = gate
        .remember(seen.clone())?
        .then(|| seen.as_str().to_owned());
    if told.is_trial_of(&block) {
        return judge(place, &mut gate, &told, settings);
    }
    if told.role == Role::Trial && block.trial.is_some() {
        return Ok(Report::rejected(
            "the state block is about another trial than the one that runs",
        ));
    }
    let mut report = rest(place, &mut gate, &block, &told)?;
    report.counting = counting;
    drop(gate);
    report.probation = probation::look(place, &told)?;
    Ok(report)
}

/// The id of this boot.
pub(super) fn boot_id(place: &Place) -> String {
    let path = place.at("proc/sys/kernel/random/boot_id");
    let text = files::read_text(&path, 4096).unwrap_or_default();
    text.trim().to_owned()
}

/// Turns down the kernel on trial, whatever its checks would say.
///
/// # Errors
/// Where the running kernel is not on trial, and where the block cannot be written: the node is to
/// be restarted then too.
pub fn reject(place: &Place) -> Result<Report, BootError> {
    let told = told(place)?;
    let mut gate = Gate::hold(place, "gate reject")?;
    let block = gate.block()?;
    gate.write(&state::reject(&block, &told)?)?;
    Ok(Report::rejected("a person turned it down"))
}

/// A state block that cannot be trusted: a trial cannot be kept; a good kernel makes a new block.
fn lost(gate: &Gate<'_>, told: &Told, unsure: &Unsure) -> Result<Report, BootError> {
    let why = format!("the state block cannot be trusted: {unsure}");
    if told.role == Role::Trial {
        return Ok(Report::rejected(why));
    }
    gate.make(&state::repair(gate.mirror(), Some(told), new_generation()?))?;
    Ok(Report {
        why: Some(why),
        repaired: true,
        ..Report::at_rest()
    })
}

fn judge(
    place: &Place,
    gate: &mut Gate<'_>,
    told: &Told,
    settings: &Settings,
) -> Result<Report, BootError> {
    let since_boot = SinceBoot::of(place)?;
    // What is not the kernel that was staged needs no patience.
    let mut checks = expected::judge(place, told, &settings.parameters);
    if checks.iter().all(|check| check.passed) {
        checks.extend(checks::run(settings, place, &since_boot));
    }
    let healthy = checks.iter().all(|check| check.passed);
    // Read again: what counts is what the disk says now.
    let block = gate.block()?;
    let committed = if healthy {
        let in_time = since_boot.now() < settings.decide;
        commit(place, gate, &block, told, in_time)
    } else {
        Err("not all checks passed".to_owned())
    };
    match committed {
        Ok(block) => {
            files::write(&place.verdict(), format!("{}\n", block.last).as_bytes())?;
            let mut report = written(place, gate, &block, told, told.slot, checks)?;
            report.verdict = if block.last == Outcome::Tried {
                Verdict::Tried
            } else {
                // It is kept by now, whatever becomes of a note.
                let begun = probation::begin(place, told.slot);
                report.why = begun.err().map(|error| in_one_line(&error));
                Verdict::Committed
            };
            Ok(report)
        }
        Err(why) => {
            let mut report = Report::rejected(why);
            report.checks = checks;
            // Where it cannot be written the restart is an attempt that was counted already.
            if let Err(error) = state::reject(&block, told)
                .map_err(BootError::from)
                .and_then(|block| gate.write(&block))
            {
                let told = report.why.take().unwrap_or_default();
                report.why = Some(format!("{told}; {}", in_one_line(&error)));
            }
            Ok(report)
        }
    }
}

fn commit(
    place: &Place,
    gate: &mut Gate<'_>,
    block: &Block,
    told: &Told,
    in_time: bool,
) -> Result<Block, String> {
    let step = if again::is_once(place, block.generation) {
        state::tried
    } else {
        state::commit
    };
    let committed = step(block, told, in_time).map_err(|error| error.to_string())?;
    gate.write(&committed)
        .map_err(|error| in_one_line(&error))?;
    Ok(committed)
}

/// No trial runs: writes down how the last one ended, if that is due.
fn rest(
    place: &Place,
    gate: &mut Gate<'_>,
    block: &Block,
    told: &Told,
) -> Result<Report, BootError> {
    let settled = state::settle(block, told).unwrap_or(*block);
    // Asked in this very boot, it is still due.
    let asked = matches!(disk::counting(place)?, Counting::Asked { .. });
    let settled = Block {
        rehearsal: settled.rehearsal && asked,
        ..settled
    };
    // Also where nothing changed: a mirror that a power cut left behind is made right.
    gate.write(&settled)?;
    files::write(&place.verdict(), b"at rest\n")?;
    // A committed trial is the good slot by now; any other still lies in the other one.
    let tried = match settled.last {
        Outcome::Committed => settled.good,
        _ => settled.other(),
    };
    written(place, gate, &settled, told, tried, Vec::new())
}

/// Writes the record of an outcome that has none, and then acknowledges it.
fn written(
    place: &Place,
    gate: &mut Gate<'_>,
    block: &Block,
    told: &Told,
    tried: Slot,
    checks: Vec<CheckResult>,
) -> Result<Report, BootError> {
    let mut report = Report::at_rest();
    if block.last != Outcome::None {
        let left = if told.role == Role::Trial {
            told.left
        } else {
            0
        };
        let record = record::of(place, block, told, tried, left, checks.clone());
        let (path, signed) = record::write(place, &record)?;
        (report.record, report.signed) = (Some(path), Some(signed));
        again::remember(place, tried, block.generation, block.last)?;
        report.outcome = Some(block.last.to_string());
        gate.write(&state::acknowledge(block))?;
    }
    report.checks = checks;
    Ok(report)
}
