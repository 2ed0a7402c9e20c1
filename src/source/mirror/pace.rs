//! The stall clock: whether bytes come too slowly for too long.
//!
//! The HTTP client's own time limit is per read, so a server that sends a byte now and then would
//! hold a transfer for ever. This clock counts bytes over a window instead.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The least rate that is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Bytes per second.
    pub floor: u64,
    /// Over this long.
    pub window: Duration,
}

/// How many samples a window is divided into; more would only cost memory.
const SAMPLES: u32 = 20;

/// Counts what arrives.
#[derive(Debug)]
pub(super) struct StallClock {
    slow: Slow,
    started: Instant,
    /// When, and how many bytes arrived around then.
    samples: VecDeque<(Instant, u64)>,
}

impl StallClock {
    pub(super) fn start(slow: Slow, now: Instant) -> Self {
        Self {
            slow,
            started: now,
            samples: VecDeque::new(),
        }
    }

    /// Bytes arrived.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) {
        let bytes = bytes as u64;
        let grain = self.slow.window / SAMPLES;
        match self.samples.back_mut() {
            Some((at, sum)) if now.saturating_duration_since(*at) < grain => *sum += bytes,
            _ => self.samples.push_back((now, bytes)),
        }
    }

    /// Bytes of the last window, if they are too few and a whole window has passed.
    pub(super) fn stalled(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.started) < self.slow.window {
            return None;
        }
        while let Some((at, _)) = self.samples.front() {
            if now.saturating_duration_since(*at) <= self.slow.window {
                break;
            }
            self.samples.pop_front();
        }
        let got: u64 = self.samples.iter().map(|(_, bytes)| bytes).sum();
        let least = u128::from(self.slow.floor) * self.slow.window.as_millis() / 1000;
        (u128::from(got) < least).then_some(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Slow = Slow {
        floor: 100,
        window: Duration::from_secs(10),
    };

    fn run(bytes_each_second: impl Fn(u64) -> usize, seconds: u64) -> Option<u64> {
        let start = Instant::now();
        let mut clock = StallClock::start(SLOW, start);
        for second in 1..=seconds {
            let now = start + Duration::from_secs(second);
            clock.count(bytes_each_second(second), now);
            if clock.stalled(now).is_some() {
                return Some(second);
            }
        }
        None
    }

    #[test]
    fn a_steady_stream_just_above_the_floor_is_borne() {
        assert_eq!(run(|_| 101, 1000), None);
    }

    #[test]
    fn a_trickle_is_noticed_after_one_window() {
        assert_eq!(run(|_| 50, 1000), Some(10));
    }

    #[test]
    fn a_stall_after_a_fast_start_is_noticed_one_window_later() {
        assert_eq!(
            run(|second| if second <= 5 { 1_000_000 } else { 0 }, 1000),
            Some(16)
        );
    }

    #[test]
    fn a_short_pause_is_borne() {
        assert_eq!(
            run(|second| if second % 9 == 0 { 5_000 } else { 0 }, 1000),
            None
        );
    }
}
