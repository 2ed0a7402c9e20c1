//! `kiln boot go`: the restart that a trial waits for, at a time and in a way that suits the node.

use std::time::Duration;

use super::error::BootError;
use super::place::Place;
use super::state::{Role, Why, foretell};
use crate::clock;
use crate::command::{Cmd, CommandError, Tool};
use crate::files;

/// Between two looks at the clock.
const PAUSE: Duration = Duration::from_secs(20);

const DAY: u32 = 24 * 60;

/// A time of every day, in minutes after midnight UTC. It may go past midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first minute.
    pub from: u32,
    /// The first minute after it.
    pub to: u32,
}

impl Window {
    /// Reads `HH:MM`.
    pub fn minutes(text: &str) -> Option<u32> {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    }

    /// Whether a minute of the day is in it.
    pub fn holds(self, minute: u32) -> bool {
        let length = (self.to + DAY - self.from) % DAY;
        (minute + DAY - self.from) % DAY < length
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(
            f,
            "{:02}:{:02} to {:02}:{:02} UTC",
            from / 60,
            from % 60,
            to / 60,
            to % 60
        )
    }
}

/// How a node is restarted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// Sends its users away first: a program with its arguments.
    pub drain: Option<Vec<String>>,
    /// The longest that this may take.
    pub drain_limit: Duration,
    /// When it may be restarted; always, where it is not set.
    pub window: Option<Window>,
    /// Whether to refuse outside of the window instead of waiting for it.
    pub no_wait: bool,
}

/// Drains the node, waits for its window, and restarts it. Returns on a tree that is not the running
/// system, where it leaves a note, and once the restart is under way.
///
/// # Errors
/// Where nothing is due at the next boot, where draining fails, and outside of the window.
pub fn go(place: &Place, way: &Way) -> Result<(), BootError> {
    is_due(place)?;
    let minute = || u32::try_from(clock::now().as_second().rem_euclid(86_400) / 60).unwrap_or(0);
    let closed = || way.window.filter(|window| !window.holds(minute()));
    if let Some(window) = closed().filter(|_| way.no_wait) {
        return Err(BootError::Closed { window });
    }
    if let Some(words) = &way.drain {
        drain(words, way.drain_limit).map_err(|source| BootError::Drain {
            source: Box::new(source),
        })?;
    }
    while closed().is_some() {
        std::thread::sleep(PAUSE);
    }
    // It may have been taken back meanwhile.
    is_due(place)?;
    if !place.is_live() {
        return Ok(files::write(&place.at("run/kiln/reboot"), b"boot go\n")?);
    }
    let restart = Tool::find("systemctl").and_then(|tool| Cmd::new(&tool).arg("reboot").run());
    restart.map(drop).map_err(|source| BootError::Restart {
        source: Box::new(source),
    })
}

fn drain(words: &[String], limit: Duration) -> Result<(), CommandError> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let tool = if program.starts_with('/') {
        Tool::at(camino::Utf8Path::new(program))
    } else {
        Tool::find(program)
    };
    Cmd::new(&tool?)
        .args(arguments.iter().cloned())
        .deadline(limit)
        .run()
        .map(drop)
}

fn is_due(place: &Place) -> Result<(), BootError> {
    let path = place.state();
    if !path.exists() {
        return Err(BootError::NotSetUp { path });
    }
    let state = files::read(&path, 1 << 16)?;
    let next = foretell(Some(&state), None);
    if next.role == Role::Trial || next.why == Why::Rehearsed {
        Ok(())
    } else {
        Err(BootError::NothingDue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_its_minutes() {
        let window = |from, to| Window {
            from: Window::minutes(from).unwrap(),
            to: Window::minutes(to).unwrap(),
        };
        let at = |text| Window::minutes(text).unwrap();
        let night = window("02:00", "04:30");
        assert!(night.holds(at("02:00")) && night.holds(at("04:29")));
        assert!(!night.holds(at("04:30")) && !night.holds(at("01:59")));
        let around = window("23:30", "00:15");
        assert!(around.holds(at("23:59")) && around.holds(at("00:14")));
        assert!(!around.holds(at("00:15")) && !around.holds(at("12:00")));
        assert_eq!(around.to_string(), "23:30 to 00:15 UTC");
        for bad in ["", "2", "24:00", "12:60", "x:y", "-1:00"] {
            assert_eq!(Window::minutes(bad), None, "{bad}");
        }
    }
}
