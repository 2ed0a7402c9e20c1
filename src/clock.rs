//! The only reader of time.

use std::time::Instant;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The wall clock, in whole seconds: no document of kiln carries a finer time.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The day it is (UTC).
pub fn today() -> Date {
    TimeZone::UTC.to_datetime(now()).date()
}

/// The monotonic clock, for durations and deadlines.
pub fn monotonic() -> Instant {
    Instant::now()
}
