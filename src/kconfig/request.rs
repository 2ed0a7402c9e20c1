//! What is asked of a configuration: a symbol, a value, where that stands, and how strictly it
//! holds.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr as _;
use std::sync::Arc;

use jiff::civil::Date;
use serde::{Serialize, Serializer};

use crate::dotconfig::{self, Value};
use crate::kernel::Series;

/// A line of a file that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The file, relative to the workspace.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The values that satisfy a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The value that is written.
    pub value: Value,
    /// All values that are accepted, where that is more than the written one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<Value>,
}

impl Wanted {
    /// Exactly this value.
    pub fn exactly(value: Value) -> Self {
        Self {
            value,
            any: Vec::new(),
        }
    }

    /// Whether the value found satisfies the request; nothing found is off, but no empty string.
    pub fn accepts(&self, found: Option<&Value>) -> bool {
        let found = found.unwrap_or(&Value::No);
        if self.any.is_empty() {
            *found == self.value
        } else {
            self.any.contains(found)
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.any.is_empty() {
            return f.write_str(&shown(Some(&self.value)));
        }
        let values: Vec<String> = self.any.iter().map(ToString::to_string).collect();
        f.write_str(&values.join(" or "))
    }
}

/// How a value found is written for people.
pub fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::No) => "not set".to_owned(),
        Some(value) => value.to_string(),
        None => "absent".to_owned(),
    }
}

/// A written permission for one request to stay unmet, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiver {
    /// Last day on which it holds.
    #[serde(serialize_with = "as_text")]
    pub until: Date,
    /// Who answers for it.
    pub owner: String,
    /// Why.
    pub reason: String,
}

fn as_text<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Where a request comes from, which decides whether it is written into the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A fragment's line: it is merged, and must survive.
    Fragment,
    /// A pipeline's `assert`: only judged, so it may name a symbol that cannot be set.
    Assertion,
}

/// One requirement on the resolved configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// The values that satisfy it.
    pub wanted: Wanted,
    /// Where it stands.
    pub origin: Origin,
    /// What kind of line that is.
    pub source: Source,
    /// Why the symbol may be missing from a series (a wrong value is still an error).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Permission to stay unmet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiver: Option<Waiver>,
}

impl Request {
    /// A plain requirement.
    pub fn new(symbol: impl Into<String>, value: Value, origin: Origin, source: Source) -> Self {
        Self {
            symbol: symbol.into(),
            wanted: Wanted::exactly(value),
            origin,
            source,
            optional: None,
            why: None,
            waiver: None,
        }
    }

    /// The line that a configuration file gets.
    pub fn line(&self) -> String {
        dotconfig::line(&self.symbol, &self.wanted.value)
    }
}

/// A range of series, from `series >= 7.0` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesRange {
    low: Bound<Series>,
    high: Bound<Series>,
}

/// The operators of a series condition.
pub const SERIES_OPERATORS: [&str; 5] = ["<", "<=", ">", ">=", "="];

impl SeriesRange {
    /// Every series.
    pub const ALL: Self = Self {
        low: Bound::Unbounded,
        high: Bound::Unbounded,
    };

    /// The range that one condition describes; nothing where the operator is unknown.
    pub fn condition(operator: &str, series: Series) -> Option<Self> {
        let (low, high) = match operator {
            "<" => (Bound::Unbounded, Bound::Excluded(series)),
            "<=" => (Bound::Unbounded, Bound::Included(series)),
            ">" => (Bound::Excluded(series), Bound::Unbounded),
            ">=" => (Bound::Included(series), Bound::Unbounded),
            "=" => (Bound::Included(series), Bound::Included(series)),
            _ => return None,
        };
        Some(Self { low, high })
    }

    /// The series that both ranges hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            low: tighter(self.low, other.low, |a, b| a > b),
            high: tighter(self.high, other.high, |a, b| a < b),
        }
    }

    /// Whether a series is in the range.
    pub fn contains(&self, series: Series) -> bool {
        let above = match self.low {
            Bound::Unbounded => true,
            Bound::Included(low) => series >= low,
            Bound::Excluded(low) => series > low,
        };
        let below = match self.high {
            Bound::Unbounded => true,
            Bound::Included(high) => series <= high,
            Bound::Excluded(high) => series < high,
        };
        above && below
    }

    /// Whether no series can be in the range.
    pub fn is_empty(&self) -> bool {
        match (self.low, self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
            | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        }
    }
}

/// The bound that admits less; with equal series the excluding one.
fn tighter(a: Bound<Series>, b: Bound<Series>, wins: fn(Series, Series) -> bool) -> Bound<Series> {
    let series = |bound| match bound {
        Bound::Included(series) | Bound::Excluded(series) => Some(series),
        Bound::Unbounded => None,
    };
    let first = match (series(a), series(b)) {
        (None, _) => false,
        (_, None) => true,
        (Some(x), Some(y)) if x == y => matches!(a, Bound::Excluded(_)),
        (Some(x), Some(y)) => wins(x, y),
    };
    if first { a } else { b }
}

/// Reads a date in its one spelling.
pub(crate) fn date(text: &str) -> Option<Date> {
    Date::from_str(text)
        .ok()
        .filter(|date| date.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(operator: &str, series: &str) -> SeriesRange {
        SeriesRange::condition(operator, series.parse().unwrap()).unwrap()
    }

    #[test]
    fn conditions_hold_for_their_series() {
        let holds = |operator, text: &str| range(operator, "7.0").contains(text.parse().unwrap());
        assert!(holds("<", "6.18") && !holds("<", "7.0"));
        assert!(holds("<=", "7.0") && !holds("<=", "7.1"));
        assert!(holds(">", "7.1") && !holds(">", "7.0"));
        assert!(holds(">=", "10.0") && !holds(">=", "6.99"));
        assert!(holds("=", "7.0") && !holds("=", "7.1"));
        assert!(SeriesRange::condition("==", "7.0".parse().unwrap()).is_none());
    }

    #[test]
    fn ranges_that_exclude_each_other_are_empty() {
        assert!(range("<", "7.0").and(range(">=", "7.0")).is_empty());
        assert!(!range("<=", "7.0").and(range(">=", "7.0")).is_empty());
        assert!(range("=", "6.12").and(range("=", "6.18")).is_empty());
        assert!(!SeriesRange::ALL.and(range("<", "7.0")).is_empty());
    }

    #[test]
    fn off_accepts_its_three_spellings_and_a_string_only_itself() {
        let off = Wanted::exactly(Value::No);
        assert!(off.accepts(None) && off.accepts(Some(&Value::No)));
        assert!(!off.accepts(Some(&Value::Yes)));
        let empty = Wanted::exactly(Value::Text(String::new()));
        assert!(!empty.accepts(None));
        let any = Wanted {
            value: Value::Module,
            any: vec![Value::Module, Value::Yes],
        };
        assert!(any.accepts(Some(&Value::Yes)) && !any.accepts(None));
        assert_eq!(any.to_string(), "m or y");
    }

    #[test]
    fn dates_are_whole_and_exact() {
        assert!(date("2027-03-01").is_some());
        for bad in ["2027-3-1", "2027-02-30", "20270301", "tomorrow", ""] {
            assert!(date(bad).is_none(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn an_intersection_holds_what_both_hold(
            a in (0usize..5, 5u16..9, 0u16..3),
            b in (0usize..5, 5u16..9, 0u16..3),
            major in 5u16..9,
            minor in 0u16..3,
        ) {
            let make = |(op, major, minor): (usize, u16, u16)| {
                SeriesRange::condition(SERIES_OPERATORS[op], Series { major, minor }).unwrap()
            };
            let (a, b, series) = (make(a), make(b), Series { major, minor });
            let both = a.and(b);
            prop_assert_eq!(both.contains(series), a.contains(series) && b.contains(series));
            prop_assert!(!(both.is_empty() && both.contains(series)));
        }
    }
}
