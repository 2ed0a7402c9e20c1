//! Putting a kernel on trial, on a node's own files.

use camino::Utf8Path;
use serde::Serialize;

use super::again;
use super::block::{Generation, Slot};
use super::disk::{self, Gate, Load};
use super::error::BootError;
use super::gate::new_generation;
use super::install::{self, Build};
use super::lint::{self, TRIAL_WORDS};
use super::place::Place;
use super::plan::Plan;
use super::preflight::{self, Asked};
use super::setup::{grub_reads, told_if_any};
use super::stage::{self, Medium as _};
use super::state;
use crate::digest::Sha256;
use crate::dotconfig::DotConfig;
use crate::files;

/// Largest text that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// A node that was set up, or a kernel that was staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Staged {
    /// The slot that was filled.
    pub slot: String,
    /// What `uname -r` prints under its kernel.
    pub release: String,
    /// Its command line, without what GRUB adds.
    pub words: String,
    /// The generation of the trial, or of the node's first state.
    pub generation: String,
    /// Id of the manifest of the build; `None` where the kernel came from `/boot`.
    pub manifest: Option<Sha256>,
}

impl Staged {
    pub(super) fn of(slot: Slot, plan: Plan, generation: Generation) -> Self {
        Self {
            slot: slot.to_string(),
            release: plan.release,
            words: plan.words,
            generation: generation.to_string(),
            manifest: plan.manifest,
        }
    }
}

/// What is put on trial.
#[derive(Debug, Clone, Copy)]
pub enum Kernel<'a> {
    /// The kernel of this release, as its package left it in `/boot`.
    Installed(&'a str),
    /// A verified build, whose image package is installed first.
    Built(&'a Build),
}

impl Kernel<'_> {
    fn release(&self) -> &str {
        match self {
            Self::Installed(release) => release,
            Self::Built(build) => &build.release,
        }
    }
}

/// Puts a kernel on trial, with these words or those of the running kernel. `by_image`: whoever made
/// this node's image has seen that GRUB counts.
///
/// # Errors
/// Where node, kernel or state are unfit for it; nothing is armed then.
pub fn stage(
    place: &Place,
    kernel: Kernel<'_>,
    words: Option<&str>,
    by_image: bool,
) -> Result<Staged, BootError> {
    let mut gate = Gate::hold(place, "stage")?;
    again::free(place)?;
    let told = told_if_any(place)?;
    if let Kernel::Built(build) = kernel {
        // Before anything is installed: what can be known to be refused. Then no trial is armed while
        // the hooks of the package change `/boot`.
        fit(place, 0, by_image)?;
        let block = gate.block()?;
        state::may_stage(&block, told.as_ref())?;
        gate.write(&state::disarm(&block, told.as_ref())?)?;
        install::install(place, build)?;
    }
    let manifest = match kernel {
        Kernel::Installed(_) => None,
        Kernel::Built(build) => Some(build.manifest),
    };
    let load = load(place, Some(kernel.release()), words, manifest)?;
    fit(place, room(&load)?, by_image)?;
    judge(place, &load.plan)?;
    let armed = stage::stage(&mut gate, told.as_ref(), &load, new_generation()?)?;
    Ok(Staged::of(armed.other(), load.plan, armed.generation))
}

/// Refuses a node that would not count, or has no room for so many bytes.
pub(super) fn fit(place: &Place, needed: u64, by_image: bool) -> Result<(), BootError> {
    let mut found = preflight::judge(&preflight::look(place)?, Asked::Stage(needed));
    found.extend(grub_reads(&place.grub_cfg()));
    found.extend(disk::counting(place)?.finding(by_image));
    if found.is_empty() {
        Ok(())
    } else {
        Err(BootError::Preflight(found))
    }
}

/// Refuses a kernel that would hang where it should panic.
fn judge(place: &Place, plan: &Plan) -> Result<(), BootError> {
    let config = place.at(&format!("boot/config-{}", plan.release));
    let config = DotConfig::parse(files::read_text(&config, LIMIT)?);
    let found = lint::lint(&config, &plan.words);
    if found.is_empty() {
        Ok(())
    } else {
        Err(BootError::Preflight(found))
    }
}

fn room(load: &Load) -> Result<u64, BootError> {
    let size = |path: &Utf8Path| {
        let data = std::fs::metadata(path).map_err(BootError::io("look at", path))?;
        Ok::<_, BootError>(data.len())
    };
    Ok(size(&load.kernel)? + size(&load.initrd)? + (1 << 20))
}

/// What a slot is to hold: the kernel of a release (the running one), with words (those it has now).
pub(super) fn load(
    place: &Place,
    release: Option<&str>,
    words: Option<&str>,
    manifest: Option<Sha256>,
) -> Result<Load, BootError> {
    let release = match release {
        Some(release) => release.to_owned(),
        None => files::read_text(&place.at("proc/sys/kernel/osrelease"), LIMIT)?
            .trim()
            .to_owned(),
    };
    let words = match words {
        Some(words) => words.to_owned(),
        None => own_words(&files::read_text(&place.command_line(), LIMIT)?),
    };
    let mut load = Load::of(
        &place.at(&format!("boot/vmlinuz-{release}")),
        &place.at(&format!("boot/initrd.img-{release}")),
        &words,
        &release,
    )?;
    let config = files::hash(&place.at(&format!("boot/config-{release}")));
    load.plan.config = config.ok().map(|(digest, _bytes)| digest);
    load.plan.manifest = manifest;
    Ok(load)
}

/// A command line without what a boot loader adds.
fn own_words(command_line: &str) -> String {
    let added = |word: &str| {
        ["BOOT_IMAGE=", "initrd=", "gate."]
            .iter()
            .any(|start| word.starts_with(start))
            || TRIAL_WORDS.iter().any(|(known, _)| *known == word)
    };
    let words: Vec<&str> = command_line
        .split_ascii_whitespace()
        .filter(|word| !added(word))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_kept_without_what_loaders_add() {
        let line = "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet gate.slot=b gate.left=1 \
                    oops=panic panic=10 initrd=x panic=5\n";
        assert_eq!(own_words(line), "root=/dev/vda1 ro quiet panic=5");
    }
}
