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

/// Waits for a verdict on the running trial until `limit` after the start of the kernel.
///
/// # Errors
/// Where the node's own files cannot be read.
pub fn wait(place: &Place, limit: Duration) -> Result<End, BootError> {
    // Words that cannot be read are no reason to restart a node that may be on its good kernel.
    if !gate::is_trial(place) {
        return Ok(End::Rests);
    }
    let since_boot = SinceBoot::of(place)?;
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
    let told = gate::told(place)?;
    Ok(if is_committed(place, &told) {
        End::Rests
    } else {
        End::Fires
    })
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
