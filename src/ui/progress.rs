//! Progress: a bar on a terminal, otherwise a line now and then.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::style::{Style, Tone, printable};
use crate::clock;
use crate::progress::{Event, Progress};

/// How often a line is written where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// How talkative the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Warnings only.
    Quiet,
    /// Stages, progress, notes.
    Normal,
}

/// Progress on stderr.
#[derive(Debug)]
pub struct Reporter {
    level: Level,
    style: Style,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    moved: Moved,
    bar: Option<ProgressBar>,
}

impl Reporter {
    /// A reporter; `terminal` draws a bar that is redrawn in place.
    pub fn new(level: Level, style: Style, terminal: bool) -> Self {
        let bar = (terminal && level == Level::Normal).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = indicatif::ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            level,
            style,
            started: clock::monotonic(),
            state: Mutex::new(State {
                moved: Moved::default(),
                bar,
            }),
        }
    }

    /// Takes away what is drawn, before something else is written.
    pub fn clear(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Reporter {
    fn event(&self, event: &Event) {
        let now = clock::monotonic().duration_since(self.started);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = state.bar.is_some();
        let line = match event {
            Event::Warning(text) => Some(format!(
                "{} {text}",
                self.style.paint(Tone::Warn, "warning:")
            )),
            _ if self.level == Level::Quiet => None,
            Event::StageStarted { stage, detail } => {
                state.moved = Moved::default();
                Some(format!(
                    "{} {detail}",
                    self.style.paint(Tone::Strong, stage)
                ))
            }
            Event::StageDone { note, .. } => {
                if let Some(bar) = &state.bar {
                    bar.set_message("");
                }
                (!note.is_empty()).then(|| format!("  {note}"))
            }
            Event::Note(text) => Some(format!("  {text}")),
            Event::Bytes { what, done, total } => {
                let step = Step {
                    what,
                    done: *done,
                    total: *total,
                    unit: Unit::Bytes,
                };
                state.moved.step(&step, now, drawn)
            }
            Event::Count { what, done, total } => {
                let step = Step {
                    what,
                    done: *done,
                    total: *total,
                    unit: Unit::Count,
                };
                state.moved.step(&step, now, drawn)
            }
        };
        let Some(line) = line else { return };
        match (&state.bar, event) {
            (Some(bar), Event::Bytes { .. } | Event::Count { .. }) => bar.set_message(line),
            (Some(bar), _) => bar.suspend(|| write(&line)),
            (None, _) => write(&line),
        }
    }
}

/// Writes one line to stderr; a closed stderr never stops the work.
fn write(line: &str) {
    let mut out = std::io::stderr().lock();
    let _ignored = writeln!(out, "{}", printable(line));
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Bytes,
    Count,
}

struct Step<'a> {
    what: &'a str,
    done: u64,
    total: Option<u64>,
    unit: Unit,
}

/// What has moved so far, by name.
#[derive(Debug, Default)]
struct Moved(BTreeMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    began: Duration,
    first: u64,
    said: Option<Duration>,
}

impl Moved {
    /// The line for a step, if one is due: every one where it is `drawn` in place, otherwise the
    /// first after [`EVERY`], so that short work is not talked about.
    fn step(&mut self, step: &Step<'_>, now: Duration, drawn: bool) -> Option<String> {
        let seen = self.0.entry(step.what.to_owned()).or_insert(Seen {
            began: now,
            first: step.done,
            said: None,
        });
        let due = now.saturating_sub(seen.said.unwrap_or(seen.began)) >= EVERY;
        if !due && !drawn {
            return None;
        }
        seen.said = Some(now);
        Some(line(
            step,
            step.done.saturating_sub(seen.first),
            now.saturating_sub(seen.began),
        ))
    }
}

/// `linux-6.18.40.tar.xz: 40.0 of 148.2 MiB (27 %), 4.1 MiB/s, 26 s left`.
fn line(step: &Step<'_>, moved: u64, elapsed: Duration) -> String {
    let amount = |n: u64| match step.unit {
        Unit::Bytes => bytes(n),
        Unit::Count => n.to_string(),
    };
    let mut out = format!("  {}: {}", step.what, amount(step.done));
    if let Some(total) = step.total.filter(|&total| total > 0) {
        let share = u128::from(step.done) * 100 / u128::from(total);
        out.push_str(" of ");
        out.push_str(&amount(total));
        out.push_str(&format_args!(" ({share} %)").to_string());
    }
    let millis = elapsed.as_millis();
    if moved == 0 || millis < 1000 {
        return out;
    }
    let speed = u64::try_from(u128::from(moved) * 1000 / millis).unwrap_or(u64::MAX);
    if let Unit::Bytes = step.unit {
        out.push_str(", ");
        out.push_str(&bytes(speed));
        out.push_str("/s");
    }
    if let Some(left) = step.total.and_then(|total| total.checked_sub(step.done)) {
        let seconds = u128::from(left) * millis / u128::from(moved) / 1000;
        out.push_str(", ");
        out.push_str(&duration(u64::try_from(seconds).unwrap_or(u64::MAX)));
        out.push_str(" left");
    }
    out
}

/// An amount of bytes for people: `312 B`, `4.1 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut tenths = u128::from(n) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A length of time for people: `26 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(done: u64, total: Option<u64>) -> Step<'static> {
        Step {
            what: "tar",
            done,
            total,
            unit: Unit::Bytes,
        }
    }

    #[test]
    fn a_line_every_ten_seconds_and_not_before() {
        let mut moved = Moved::default();
        let mut at = |second: u64, done: u64| {
            let now = Duration::from_secs(second);
            moved.step(&step(done << 20, Some(100 << 20)), now, false)
        };
        assert_eq!(at(0, 0), None);
        assert_eq!(at(9, 9), None);
        assert_eq!(
            at(10, 10).unwrap(),
            "  tar: 10.0 MiB of 100.0 MiB (10 %), 1.0 MiB/s, 1 min 30 s left"
        );
        assert_eq!(at(15, 50), None);
        assert!(at(20, 100).unwrap().ends_with("5.0 MiB/s, 0 s left"));
    }

    #[test]
    fn speed_counts_from_where_a_resumed_transfer_began() {
        let mut moved = Moved::default();
        moved.step(&step(50 << 20, None), Duration::ZERO, true);
        let line = moved
            .step(&step(60 << 20, None), Duration::from_secs(10), true)
            .unwrap();
        assert_eq!(line, "  tar: 60.0 MiB, 1.0 MiB/s");
    }

    #[test]
    fn a_total_that_is_too_small_does_no_harm() {
        let mut moved = Moved::default();
        moved.step(&step(0, Some(1)), Duration::ZERO, true);
        let line = moved.step(&step(2048, Some(1)), Duration::from_secs(5), true);
        assert_eq!(line.unwrap(), "  tar: 2.0 KiB of 1 B (204800 %), 409 B/s");
        assert!(
            moved
                .step(
                    &step(u64::MAX, Some(u64::MAX)),
                    Duration::from_secs(9),
                    true
                )
                .is_some()
        );
    }

    #[test]
    fn amounts_for_people() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(148 << 20), "148.0 MiB");
        assert_eq!(bytes(u64::MAX), "16383.9 PiB");
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(185), "3 min 5 s");
        assert_eq!(duration(7800), "2 h 10 min");
    }
}
