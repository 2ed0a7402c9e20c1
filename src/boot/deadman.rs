//! The deadman: restarts a node whose kernel on trial gets no verdict in time.
//!
//! It needs nothing of what it watches over: no gate, no other unit, no network, no clock but the
//! kernel's own.

use std::time::Duration;

use camino::Utf8PathBuf;

use super::block::{Block, Outcome};
use super::checks::SinceBoot;
use super::error::BootError;
use super::gate;
use super::place::Place;
use super::state::Told;
use crate::files;

/// Between two looks for a verdict.
const PAUSE: Duration = Duration::from_millis(500);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// There is nothing to watch over, or there is a verdict.
    Rests,
    /// The time is up: the node is to be restarted.
    Fires,
}

/// Waits for a verdict on the running trial until `limit` after the start of the kernel. `early`: in the
/// initramfs, until the deadman of the system takes over.
///
/// # Errors
/// Where the node's own files cannot be read.
pub fn wait(place: &Place, limit: Duration, early: bool) -> Result<End, BootError> {
    // Words that cannot be read are no reason to restart a node that may be on its good kernel.
    if !gate::is_trial(place) {
        return Ok(End::Rests);
    }
    // All that is needed at the end: when the initramfs gives way to the system, `/proc` and `/run` are
    // moved away from a process that it started.
    let told = gate::told(place)?;
    let since_boot = SinceBoot::of(place)?;
    if early {
        let process = std::process::id();
        files::write(&place.early_deadman(), format!("{process}\n").as_bytes())?;
    } else {
        take_over(place);
    }
    loop {
        if place.verdict().exists() {
            return Ok(End::Rests);
        }
        if since_boot.now() >= limit {
            break;
        }
        std::thread::sleep(PAUSE.min(limit.saturating_sub(since_boot.now())));
    }
    // The word of the gate may be missing where its commit is on the disk.
    Ok(if is_committed(place, &told) {
        End::Rests
    } else {
        End::Fires
    })
}

/// Ends the deadman of the initramfs: from here on this one watches. Where there is none, or it is gone,
/// nothing is lost; two that watch do no harm.
fn take_over(place: &Place) {
    let path = place.early_deadman();
    let text = files::read_text(&path, 64).unwrap_or_default();
    let Some(process) = text
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return;
    };
    // A process of another program may have the number by now.
    let name = place.at(&format!("proc/{}/comm", process.as_raw_nonzero()));
    if files::read_text(&name, 64).is_ok_and(|name| name.trim() == "kiln") {
        let _gone = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    let _removed = files::remove_file(&path);
}

fn is_committed(place: &Place, told: &Told) -> bool {
    let bytes = files::read(&place.state(), 1 << 16).unwrap_or_default();
    Block::parse(&bytes).is_ok_and(|block| {
        block.trial.is_none()
            && (block.good == told.slot || block.last == Outcome::Tried)
            && Some(block.generation) == told.generation
    })
}

/// Restarts the node through its firmware: by the system call, then by the magic key. On a tree that
/// is not the running system it only leaves a note, whose path is returned.
///
/// # Errors
/// Where the node cannot be restarted at all.
pub fn restart(place: &Place, why: &str) -> Result<Option<Utf8PathBuf>, BootError> {
    if !place.is_live() {
        let path = place.at("run/kiln/restart");
        files::write(&path, format!("{why}\n").as_bytes())?;
        return Ok(Some(path));
    }
    rustix::fs::sync();
    let refused = rustix::system::reboot(rustix::system::RebootCommand::Restart);
    // Only reached where the call was refused, or came back.
    let path = Utf8PathBuf::from("/proc/sysrq-trigger");
    std::fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"b"))
        .map_err(|error| match refused {
            Ok(()) => BootError::io("write", &path)(error),
            Err(errno) => BootError::io("restart the node, or write", &path)(errno.into()),
        })?;
    Ok(None)
}
