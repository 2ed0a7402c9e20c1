//! The only reader of time.

use std::time::Instant;

use jiff::Timestamp;

/// The wall clock, in whole seconds: no document of kiln carries a finer time.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The monotonic clock, for durations and deadlines.
pub fn monotonic() -> Instant {
    Instant::now()
}
