//! Setting a node up, repairing it and looking at it, on the node's own files.

use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::again;
use super::block::{Block, Slot, Unsure};
use super::disk::{self, Gate, check_moorings};
use super::error::BootError;
use super::gate::{boot_id, new_generation, told};
use super::grub;
use super::hangs::{self, Hang};
use super::key;
use super::place::Place;
use super::preflight::{self, Asked, Finding};
use super::rehearsal::Counting;
use super::stage::Medium as _;
use super::state::{self, NotTold, Told, foretell};
use super::trial::{self, Staged};
use super::units;
use crate::command::{Cmd, Tool};
use crate::failure::in_one_line;
use crate::files;

/// Largest text that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// Everything that speaks against setting this node up; none where it is fit.
///
/// # Errors
/// Where the node's files cannot be read.
pub fn check(place: &Place) -> Result<Vec<Finding>, BootError> {
    Ok(preflight::judge(&preflight::look(place)?, Asked::SetUp))
}

/// Sets a node up: its kernel of `release` (the running one where it is not given) becomes slot `a`,
/// known to be good.
///
/// # Errors
/// Where the node is unfit, or has a gate already.
pub fn init(place: &Place, release: Option<&str>) -> Result<Staged, BootError> {
    let path = place.state();
    if path.exists() {
        return Err(BootError::SetUp { path });
    }
    let found = check(place)?;
    if !found.is_empty() {
        return Err(BootError::Preflight(found));
    }
    let load = trial::load(place, release, None, None)?;
    let mut gate = Gate::lock(place, "boot init")?;
    gate.fill(Slot::A, &load)?;
    gate.checkpoint()?;
    gate.verify(Slot::A, &load)?;
    let generation = new_generation()?;
    key::ensure(place)?;
    // The state comes before what reads it: a node that is cut off in between starts as it always
    // did.
    gate.make(&Block::stable(generation, Slot::A))?;
    for (path, text, mode) in grub::FILES.into_iter().chain(units::FILES) {
        let path = place.at(path);
        files::write(&path, text.as_bytes())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
            .map_err(BootError::io("set the mode of", &path))?;
    }
    for (link, target) in units::LINKS {
        enable(&place.at(link), target)?;
    }
    gate.checkpoint()?;
    Ok(Staged::of(Slot::A, load.plan, generation))
}

/// Takes away all that [`init`] made; the node starts as it did before. Boot records and settings
/// stay.
///
/// # Errors
/// While a trial is armed or runs, and where a file cannot be removed.
pub fn remove(place: &Place) -> Result<(), BootError> {
    let gate = Gate::hold(place, "boot remove")?;
    if let Ok(block) = gate.read()? {
        let told = told_if_any(place)?;
        state::disarm(&block, told.as_ref())?;
        if let Some(trial) = block.trial {
            let (slot, left) = (block.other(), trial.left);
            return Err(state::Refused::Armed { slot, left }.into());
        }
    }
    // GRUB passes over a text that is not there, and finds the entries that it always had.
    let links = units::LINKS.iter().map(|(link, _)| *link);
    let snippets = grub::FILES.iter().chain(&units::FILES);
    for path in links.chain(snippets.map(|(path, _, _)| *path)) {
        files::remove_file(&place.at(path))?;
    }
    files::remove_dir_all(&place.gate())?;
    files::remove_file(&place.moorings())?;
    Ok(files::sync_dir(&place.at("boot/grub"))?)
}

/// Makes the link that has systemd start a unit; one that is there already is fine.
fn enable(link: &Utf8Path, target: &str) -> Result<(), BootError> {
    if let Some(directory) = link.parent() {
        files::create_dir_all(directory)?;
    }
    match std::os::unix::fs::symlink(target, link) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(BootError::io("link", link)(error))
        }
        _ => Ok(()),
    }
}

/// Has GRUB count down once for nothing at the next boot, an ordinary one, so that it is a fact that it
/// can. `kiln gate run` writes down what was seen.
///
/// # Errors
/// Where the node is unfit, or a trial is armed or runs.
pub fn rehearse(place: &Place) -> Result<(), BootError> {
    let mut gate = Gate::hold(place, "boot rehearse")?;
    let mut found = preflight::judge(&preflight::look(place)?, Asked::Stage(0));
    found.extend(grub_reads(&place.grub_cfg()));
    if !found.is_empty() {
        return Err(BootError::Preflight(found));
    }
    let told = told_if_any(place)?;
    let block = state::rehearse(&gate.block()?, told.as_ref(), new_generation()?)?;
    let boot = boot_id(place);
    gate.remember(Counting::Asked { boot })?;
    gate.write(&block)
}

/// Takes back an armed trial; whether there was one.
///
/// # Errors
/// In the trial itself, and where the block cannot be trusted or written.
pub fn disarm(place: &Place) -> Result<bool, BootError> {
    let mut gate = Gate::hold(place, "boot disarm")?;
    let block = gate.block()?;
    let disarmed = state::disarm(&block, told_if_any(place)?.as_ref())?;
    gate.write(&disarmed)?;
    Ok(block.trial.is_some())
}

/// Makes state files that are damaged or were replaced anew. Files that are in order stay as they
/// are; whether any was made.
///
/// # Errors
/// Where they cannot be written.
pub fn repair(place: &Place) -> Result<bool, BootError> {
    let gate = Gate::lock(place, "boot repair")?;
    let read = if place.state().exists() {
        gate.read()?
    } else {
        Err(Unsure::Size { found: 0 })
    };
    let block = match read {
        Ok(block) if check_moorings(place).is_ok() && gate.mirror() == Some(block.good) => {
            return Ok(false);
        }
        Ok(block) => block,
        Err(_) => {
            let told = told_if_any(place)?;
            state::repair(gate.mirror(), told.as_ref(), new_generation()?)
        }
    };
    // A file that was replaced may be the one that GRUB does not see: what it counted is not known.
    let told = told_if_any(place)?;
    let block = state::disarm(&block, told.as_ref())?;
    gate.make(&block)?;
    Ok(true)
}

/// What GRUB's own checker says against `grub.cfg`, where the node has that checker.
pub(super) fn grub_reads(path: &Utf8Path) -> Option<Finding> {
    let checker = Tool::find("grub-script-check").ok()?;
    let error = Cmd::new(&checker).arg(path.as_str()).run().err()?;
    Some(Finding {
        code: "grub-cfg-syntax",
        what: format!("GRUB cannot read `{path}`: {}", in_one_line(&error)),
        next: "see which file of `/etc/grub.d` printed that, then run `update-grub`".to_owned(),
    })
}

/// What the good slot's copy of its initrd no longer has: the initrd in `/boot` was made anew since,
/// as it is when `fstab`, `crypttab` or a package changes.
fn drift(place: &Place, good: Slot) -> Option<(String, String)> {
    let directory = place.slot(good);
    let release = files::read_text(&directory.join("release"), LIMIT).ok()?;
    let release = release.trim();
    let (kept, _) = files::hash(&directory.join("initrd.img")).ok()?;
    let (now, _) = files::hash(&place.at(&format!("boot/initrd.img-{release}"))).ok()?;
    (kept != now).then(|| {
        (
            format!("the good slot's initrd is older than `/boot/initrd.img-{release}`"),
            format!("put the newer one on trial with `kiln stage {release}`"),
        )
    })
}

/// What the running kernel was told; `None` where it was not started by the gate's entries.
pub(super) fn told_if_any(place: &Place) -> Result<Option<Told>, BootError> {
    match told(place) {
        Ok(told) => Ok(Some(told)),
        Err(BootError::NotTold(NotTold::Absent)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How a node stands.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The slot that is known to come up; `None` where the block cannot be trusted.
    pub good: Option<String>,
    /// The slot on trial, and the attempts left.
    pub trial: Option<(String, u8)>,
    /// The generation of the block.
    pub generation: Option<String>,
    /// How the last trial ended, where no record of that is written yet.
    pub last: Option<String>,
    /// Why the block cannot be trusted.
    pub unsure: Option<String>,
    /// What the running kernel was started as: slot, role, why.
    pub running: Option<(String, String, String)>,
    /// What GRUB does at the next boot: slot, role, why.
    pub next: (String, String, String),
    /// What is in each slot, as `uname -r`; empty where nothing is.
    pub slots: Vec<(String, String)>,
    /// What is known of GRUB's counting on this node: `unknown`, `asked`, `seen` or `failed`.
    pub counting: String,
    /// What is not as it must be, each with what to do.
    pub alarms: Vec<(String, String)>,
    /// Why nothing is put on trial here; `None` where it may.
    pub pinned: Option<String>,
    /// How a kernel may hang here, and what ends each.
    pub hangs: Vec<Hang>,
    /// Where the state block is.
    pub state: String,
}

/// Looks at a node and changes nothing.
///
/// # Errors
/// Where there is no gate, or its files cannot be read.
pub fn status(place: &Place) -> Result<Status, BootError> {
    let path = place.state();
    if !path.exists() && !place.mirror().exists() {
        return Err(BootError::NotSetUp { path });
    }
    let bytes = |path: &Utf8PathBuf| files::read(path, LIMIT).ok();
    let (state, mirror) = (bytes(&path), bytes(&place.mirror()));
    let choice = foretell(state.as_deref(), mirror.as_deref());
    let block = Block::parse(state.as_deref().unwrap_or_default());
    let mut alarms = alarms(place, &block, mirror.as_deref());
    let running = match told_if_any(place) {
        Ok(told) => told,
        Err(error) => {
            alarms.push((error.to_string(), "see `/proc/cmdline`".to_owned()));
            None
        }
    };
    let slots = Slot::BOTH.map(|slot| {
        let release = files::read_text(&place.slot(slot).join("release"), LIMIT);
        (
            slot.to_string(),
            release.unwrap_or_default().trim().to_owned(),
        )
    });
    let known = block.as_ref().ok();
    Ok(Status {
        good: known.map(|block| block.good.to_string()),
        trial: known.and_then(|block| Some((block.other().to_string(), block.trial?.left))),
        generation: known.map(|block| block.generation.to_string()),
        last: known
            .map(|block| block.last.to_string())
            .filter(|last| last != "none"),
        unsure: block.as_ref().err().map(ToString::to_string),
        running: running.map(|told| {
            (
                told.slot.to_string(),
                told.role.to_string(),
                told.why.to_string(),
            )
        }),
        next: (
            choice.slot.to_string(),
            choice.role.to_string(),
            choice.why.to_string(),
        ),
        slots: slots.to_vec(),
        counting: disk::counting(place)
            .unwrap_or_default()
            .as_str()
            .to_owned(),
        alarms,
        pinned: again::pinned(place),
        hangs: hangs::of(place),
        state: place.shown(&path),
    })
}

fn alarms(
    place: &Place,
    block: &Result<Block, Unsure>,
    mirror: Option<&[u8]>,
) -> Vec<(String, String)> {
    let mut alarms = Vec::new();
    let repair = "run `kiln boot repair`".to_owned();
    match block {
        Err(unsure) => alarms.push((
            format!("the state block cannot be trusted: {unsure}"),
            repair.clone(),
        )),
        Ok(block) if mirror.and_then(super::block::read_mirror) != Some(block.good) => {
            alarms.push((
                "the mirror names another good slot than the state block".to_owned(),
                repair.clone(),
            ));
        }
        Ok(_) => {}
    }
    if let Ok(block) = block {
        alarms.extend(drift(place, block.good));
    }
    if let Ok(failed @ Counting::Failed) = disk::counting(place) {
        alarms.extend(failed.finding(false).map(|found| (found.what, found.next)));
    }
    if let Err(error) = check_moorings(place) {
        alarms.push((error.to_string(), repair));
    }
    let grub_cfg = files::read_text(&place.grub_cfg(), LIMIT).unwrap_or_default();
    if !grub::runs_the_gate(&grub_cfg) {
        alarms.push((
            "grub.cfg does not run the gate's text first and last".to_owned(),
            "run `update-grub`".to_owned(),
        ));
    }
    alarms
}
