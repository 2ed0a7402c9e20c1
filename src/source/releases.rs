//! kernel.org's `releases.json`: which release of a series is the newest.
//!
//! The file is kernel.org's (<https://www.kernel.org/releases.json>), so fields that kiln does not
//! know are passed over; the ones that it reads must have the shape it expects. The file is not
//! signed: it only says what to ask for. What comes back is judged by its signature, and a version
//! older than the lock's is refused by whoever writes locks.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::Date;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Unexpected};

use crate::failure::{Diagnose, Exit, nearest};
use crate::kernel::{Series, Version};
use crate::proof::misread::Misread;

/// How many series an error names when the wanted one is not listed.
const NEAREST: usize = 3;

/// Why `releases.json` gave no release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleasesError {
    /// The text does not have the expected shape.
    #[error("{origin}:{line}:{column}: {problem}")]
    Malformed {
        /// Where the text came from: a URL or a path.
        origin: String,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// What was expected and what was found.
        problem: String,
    },
    /// The series has no entry at all.
    #[error(
        "series {series} is not listed in {origin}: the nearest are {}",
        list(nearest)
    )]
    NotListed {
        /// The series that was asked for.
        series: Series,
        /// Where the list came from.
        origin: String,
        /// The listed series that are nearest to it, newest first.
        nearest: Vec<Series>,
    },
    /// The series is newer than every release in the list.
    #[error("series {series} has no release yet in {origin}: {}", newest_known(*newest, *candidate))]
    NotYet {
        /// The series that was asked for.
        series: Series,
        /// Where the list came from.
        origin: String,
        /// The newest release of any series.
        newest: Option<Version>,
        /// The newest candidate of the series.
        candidate: Option<Version>,
    },
}

fn list(series: &[Series]) -> String {
    if series.is_empty() {
        return "none (the list is empty)".to_owned();
    }
    let names: Vec<String> = series.iter().map(Series::to_string).collect();
    names.join(", ")
}

fn newest_known(newest: Option<Version>, candidate: Option<Version>) -> String {
    match (candidate, newest) {
        (Some(candidate), _) => format!("only the candidate {candidate}"),
        (None, Some(newest)) => format!("the newest release is {newest}"),
        (None, None) => "the list is empty".to_owned(),
    }
}

impl Diagnose for ReleasesError {
    fn exit(&self) -> Exit {
        match self {
            Self::Malformed { .. } | Self::NotListed { .. } => Exit::Usage,
            Self::NotYet { .. } => Exit::NotPublished,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "releases-malformed",
            Self::NotListed { .. } => "series-not-listed",
            Self::NotYet { .. } => "series-not-yet-released",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Malformed { .. } => vec![
                "check that the `releases` address in `kiln.yaml` serves kernel.org's \
                 `releases.json` and not a sign-in or error page"
                    .to_owned(),
            ],
            Self::NotListed { .. } => vec![
                "set `series:` of the pipeline to a listed one; kernel.org drops series that \
                 reached their end of life"
                    .to_owned(),
            ],
            Self::NotYet { .. } => {
                vec!["wait for its first release, or choose an older `series:`".to_owned()]
            }
        }
    }
}

/// The kind of release, by kernel.org's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moniker {
    /// Linus' tree: a candidate, or for some days after it appears a series' first release.
    Mainline,
    /// The current stable series.
    Stable,
    /// A series with long support.
    Longterm,
}

impl fmt::Display for Moniker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mainline => "mainline",
            Self::Stable => "stable",
            Self::Longterm => "longterm",
        })
    }
}

/// One release of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseInfo {
    /// Its version.
    pub version: Version,
    /// Its kind.
    pub moniker: Moniker,
    /// Whether kernel.org says that no further release of the series will come.
    pub eol: bool,
    /// The day it was released.
    pub released: Option<Date>,
    /// Address of the archive, as kernel.org gives it.
    pub source: Option<String>,
    /// Address of the signature; absent for candidates, which kernel.org does not sign as archives.
    pub signature: Option<String>,
}

/// Whether candidates (`-rc`) may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Candidates {
    /// Only releases.
    #[default]
    No,
    /// Candidates too, where the series has no release.
    Yes,
}

/// The releases that `releases.json` lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Releases {
    origin: String,
    entries: Vec<ReleaseInfo>,
}

impl Releases {
    /// Reads the text of `releases.json`; `origin` names it in errors.
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<Self, ReleasesError> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| {
            let misread = Misread::of(&error);
            ReleasesError::Malformed {
                origin: origin.to_owned(),
                line: misread.line.max(1),
                column: misread.column.max(1),
                problem: misread.problem,
            }
        })?;
        Ok(Self {
            origin: origin.to_owned(),
            entries: file.0.into_iter().filter_map(|entry| entry.0).collect(),
        })
    }

    /// The same list with `entry`, in the place of one for the same version.
    #[must_use]
    pub fn with(mut self, entry: ReleaseInfo) -> Self {
        self.entries.retain(|known| known.version != entry.version);
        self.entries.push(entry);
        self.entries
            .sort_by_key(|entry| std::cmp::Reverse(entry.version));
        self
    }

    /// The list as kernel.org writes it, newest first where it was made by [`Releases::with`].
    pub fn to_json(&self) -> Vec<u8> {
        use serde_json::json;
        let entries: Vec<serde_json::Value> = self
            .entries
            .iter()
            .map(|entry| {
                let released = entry
                    .released
                    .map(|date| json!({"isodate": date.to_string()}));
                json!({
                    "moniker": entry.moniker.to_string(),
                    "version": entry.version.to_string(),
                    "iseol": entry.eol,
                    "released": released,
                    "source": entry.source,
                    "pgp": entry.signature,
                })
            })
            .collect();
        let mut text = format!("{:#}", json!({ "releases": entries })).into_bytes();
        text.push(b'\n');
        text
    }

    /// Where the list came from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Every release listed, in the file's order.
    pub fn entries(&self) -> &[ReleaseInfo] {
        &self.entries
    }

    /// The newest release of `series`; a candidate is none.
    pub fn newest(&self, series: Series) -> Option<&ReleaseInfo> {
        self.of(series)
            .filter(|entry| entry.version.rc.is_none())
            .max_by_key(|entry| entry.version)
    }

    /// The newest release of `series`, or with [`Candidates::Yes`] its newest candidate while it
    /// has no release; otherwise an error that says what is there instead.
    pub fn choose(
        &self,
        series: Series,
        candidates: Candidates,
    ) -> Result<&ReleaseInfo, ReleasesError> {
        let candidate = self.of(series).max_by_key(|entry| entry.version);
        if let Some(release) = self.newest(series) {
            return Ok(release);
        }
        if let (Some(candidate), Candidates::Yes) = (candidate, candidates) {
            return Ok(candidate);
        }
        let newest = self.entries.iter().map(|entry| entry.version);
        let newest = newest.filter(|version| version.rc.is_none()).max();
        if candidate.is_some() || newest.is_none_or(|newest| newest.series < series) {
            return Err(ReleasesError::NotYet {
                series,
                origin: self.origin.clone(),
                newest,
                candidate: candidate.map(|entry| entry.version),
            });
        }
        Err(ReleasesError::NotListed {
            series,
            origin: self.origin.clone(),
            nearest: self.nearest(series),
        })
    }

    fn of(&self, series: Series) -> impl Iterator<Item = &ReleaseInfo> {
        self.entries
            .iter()
            .filter(move |entry| entry.version.series == series)
    }

    /// The released series nearest to `series`: of the same major number first, then by distance.
    fn nearest(&self, series: Series) -> Vec<Series> {
        let released = self.entries.iter().map(|entry| entry.version);
        let released = released.filter(|version| version.rc.is_none());
        let mut listed: Vec<Series> = released.map(|version| version.series).collect();
        listed.sort_unstable();
        listed.dedup();
        listed.sort_by_key(|other| {
            (
                other.major.abs_diff(series.major),
                other.minor.abs_diff(series.minor),
            )
        });
        listed.truncate(NEAREST);
        listed.sort_unstable_by(|a, b| b.cmp(a));
        listed
    }
}

/// The file, as far as kiln reads it.
#[derive(Deserialize)]
#[serde(try_from = "Lists")]
struct File(Vec<Entry>);

#[derive(Deserialize)]
struct Lists {
    releases: Option<Vec<Entry>>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

impl TryFrom<Lists> for File {
    type Error = String;

    fn try_from(lists: Lists) -> Result<Self, String> {
        present(lists.releases, "releases", &lists.others).map(Self)
    }
}

/// A field that must be there. Where it is not, another that looks like it is told: kernel.org may
/// add fields, so that an unknown one is no mistake by itself.
fn present<T>(
    field: Option<T>,
    name: &str,
    others: &BTreeMap<String, serde_json::Value>,
) -> Result<T, String> {
    field.ok_or_else(|| match nearest(name, others.keys().map(String::as_str)) {
        Some(found) => format!("missing field `{name}`: found `{found}`; did you mean `{name}`?"),
        None => format!("missing field `{name}`"),
    })
}

/// One element of `releases`; `None` for kinds that are no release, such as linux-next.
#[derive(Deserialize)]
#[serde(try_from = "Fields")]
struct Entry(Option<ReleaseInfo>);

#[derive(Deserialize)]
struct Fields {
    #[serde(default, deserialize_with = "moniker")]
    moniker: Option<String>,
    #[serde(default, deserialize_with = "version")]
    version: Option<String>,
    #[serde(default, deserialize_with = "iseol")]
    iseol: Option<bool>,
    #[serde(default, deserialize_with = "released")]
    released: Option<Date>,
    #[serde(default, deserialize_with = "source")]
    source: Option<String>,
    #[serde(default, deserialize_with = "pgp")]
    pgp: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

impl TryFrom<Fields> for Entry {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let others = &fields.others;
        let moniker = present(fields.moniker, "moniker", others)?;
        let version = present(fields.version, "version", others)?;
        let eol = present(fields.iseol, "iseol", others)?;
        let moniker = match moniker.as_str() {
            "mainline" => Moniker::Mainline,
            "stable" => Moniker::Stable,
            "longterm" => Moniker::Longterm,
            // linux-next is a moving tree; a kind that kernel.org invents later is not kiln's.
            _ => return Ok(Self(None)),
        };
        let version = version.parse::<Version>().map_err(|error| {
            format!("`version` of this {moniker} entry (it ends here): {error}")
        })?;
        Ok(Self(Some(ReleaseInfo {
            version,
            moniker,
            eol,
            released: fields.released,
            source: fields.source,
            signature: fields.pgp,
        })))
    }
}

/// Reads any value and gives it to `accept`; if that takes nothing, the error names the field,
/// what was expected there and what was found.
fn field<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    accept: impl FnOnce(&serde_json::Value) -> Option<T>,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    accept(&value).ok_or_else(|| D::Error::invalid_type(unexpected(&value), &expected))
}

/// The same for a field that may be null.
fn optional<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    accept: impl FnOnce(&serde_json::Value) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    match Option::<serde_json::Value>::deserialize(deserializer)? {
        Some(value) => field(value, expected, accept)
            .map(Some)
            .map_err(D::Error::custom),
        None => Ok(None),
    }
}

fn unexpected(value: &serde_json::Value) -> Unexpected<'_> {
    use serde_json::Value;
    match value {
        Value::Null => Unexpected::Other("null"),
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("a number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

fn text(value: &serde_json::Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn moniker<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    field(deserializer, "a text in `moniker`", text).map(Some)
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    field(deserializer, "a text such as 6.18.40 in `version`", text).map(Some)
}

fn iseol<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let expected = "true or false in `iseol`";
    field(deserializer, expected, serde_json::Value::as_bool).map(Some)
}

fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let expected = "an address or null in `source`";
    optional(deserializer, expected, text)
}

fn pgp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    optional(deserializer, "an address or null in `pgp`", text)
}

fn released<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    let expected = "an object with an `isodate` such as 2026-11-14, or null, in `released`";
    optional(deserializer, expected, |value| {
        value.get("isodate")?.as_str()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The shape that kernel.org serves, shortened, with fields that kiln does not read.
    const GOOD: &str = r#"{
    "latest_stable": {"version": "7.2.13"},
    "releases": [
        {"iseol": false, "version": "7.3-rc4", "moniker": "mainline",
         "source": "https://git.kernel.org/torvalds/t/linux-7.3-rc4.tar.gz", "pgp": null,
         "released": {"timestamp": 1795700000, "isodate": "2026-11-26"}, "changelog": null,
         "patch": {"full": null, "incremental": null}, "gitweb": "x", "diffview": "y"},
        {"iseol": false, "version": "7.2.13", "moniker": "stable",
         "source": "https://cdn.kernel.org/pub/linux/kernel/v7.x/linux-7.2.13.tar.xz",
         "pgp": "https://cdn.kernel.org/pub/linux/kernel/v7.x/linux-7.2.13.tar.sign",
         "released": {"timestamp": 1795000000, "isodate": "2026-11-18"}},
        {"iseol": true, "version": "7.1.20", "moniker": "stable", "source": null, "pgp": null},
        {"iseol": false, "version": "6.18.40", "moniker": "longterm"},
        {"iseol": false, "version": "6.12.117", "moniker": "longterm"},
        {"iseol": false, "version": "next-20261127", "moniker": "linux-next",
         "source": null, "pgp": null, "released": {"timestamp": 1, "isodate": "2026-11-27"}}
    ]
}"#;

    fn releases() -> Releases {
        Releases::parse("releases.json", GOOD.as_bytes()).unwrap()
    }

    fn series(text: &str) -> Series {
        text.parse().unwrap()
    }

    fn error(text: &str) -> ReleasesError {
        Releases::parse("releases.json", text.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_newest_release_of_a_series() {
        let releases = releases();
        let newest = releases.newest(series("7.2")).unwrap();
        assert_eq!(newest.version.to_string(), "7.2.13");
        assert_eq!(newest.moniker, Moniker::Stable);
        assert_eq!(newest.released.unwrap().to_string(), "2026-11-18");
        assert!(newest.signature.as_deref().unwrap().ends_with(".tar.sign"));
        assert!(!newest.eol);
        assert!(releases.newest(series("7.1")).unwrap().eol);
        assert_eq!(releases.entries().len(), 5, "linux-next is not a release");
    }

    #[test]
    fn the_highest_of_several_entries_wins_whatever_their_order() {
        let text = GOOD.replace("6.12.117", "6.18.9");
        let releases = Releases::parse("r", text.as_bytes()).unwrap();
        let newest = releases.choose(series("6.18"), Candidates::No).unwrap();
        assert_eq!(newest.version.to_string(), "6.18.40");
    }

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        let first = releases();
        let newer = ReleaseInfo {
            version: "7.2.14".parse().unwrap(),
            ..first.newest(series("7.2")).unwrap().clone()
        };
        let known = first.newest(series("6.18")).unwrap().clone();
        let longer = first.with(newer).with(known);
        assert_eq!(longer.entries().len(), 6);
        let read = Releases::parse("releases.json", &longer.to_json()).unwrap();
        assert_eq!(read, longer);
        assert_eq!(read.newest(series("7.2")).unwrap().version.patch, 14);
    }

    #[test]
    fn a_candidate_is_chosen_only_when_asked_for() {
        let releases = releases();
        assert_eq!(releases.newest(series("7.3")), None);
        let refused = releases.choose(series("7.3"), Candidates::No).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "series 7.3 has no release yet in releases.json: only the candidate 7.3-rc4"
        );
        assert_eq!(refused.exit(), Exit::NotPublished);
        let asked = releases.choose(series("7.3"), Candidates::Yes).unwrap();
        assert_eq!(asked.version.to_string(), "7.3-rc4");
        // Asking for candidates never prefers one to a release.
        let text = GOOD.replace("7.3-rc4", "7.2-rc7");
        let releases = Releases::parse("r", text.as_bytes()).unwrap();
        let chosen = releases.choose(series("7.2"), Candidates::Yes).unwrap();
        assert_eq!(chosen.version.to_string(), "7.2.13");
    }

    #[test]
    fn a_first_release_is_mainline_for_some_days() {
        let text = GOOD.replace("7.3-rc4", "7.3");
        let releases = Releases::parse("r", text.as_bytes()).unwrap();
        let newest = releases.newest(series("7.3")).unwrap();
        assert_eq!(
            (newest.version.patch, newest.moniker),
            (0, Moniker::Mainline)
        );
    }

    #[test]
    fn a_series_that_is_not_listed_names_its_neighbours() {
        let old = releases()
            .choose(series("6.17"), Candidates::No)
            .unwrap_err();
        assert_eq!(
            old.to_string(),
            "series 6.17 is not listed in releases.json: the nearest are 7.2, 6.18, 6.12"
        );
        assert_eq!(old.exit(), Exit::Usage);
        let future = releases()
            .choose(series("7.4"), Candidates::No)
            .unwrap_err();
        assert_eq!(future.exit(), Exit::NotPublished);
        assert!(future.to_string().ends_with("the newest release is 7.2.13"));
        let empty = Releases::parse("r", br#"{"releases": []}"#).unwrap();
        assert_eq!(
            empty
                .choose(series("6.18"), Candidates::No)
                .unwrap_err()
                .code(),
            "series-not-yet-released"
        );
    }

    #[test]
    fn wrong_shapes_say_where_what_was_expected_and_what_was_found() {
        let cases = [
            (
                "\"7.2.13\", \"moniker\"",
                "7, \"moniker\"",
                ":8:37: invalid type: a number, expected a text such as 6.18.40 in `version`",
            ),
            (
                "\"iseol\": true",
                "\"iseol\": \"yes\"",
                "expected true or false in `iseol`",
            ),
            (
                "{\"timestamp\": 1795000000, \"isodate\": \"2026-11-18\"}",
                "\"today\"",
                "string \"today\", expected an object with an `isodate`",
            ),
            (
                "6.18.40",
                "6.18.x",
                "`version` of this longterm entry (it ends here): `6.18.x` is not a kernel version",
            ),
            (
                "\"releases\": [",
                "\"release\": [",
                "missing field `releases`: found `release`; did you mean `releases`?",
            ),
            (
                "\"version\": \"6.18.40\"",
                "\"verison\": \"6.18.40\"",
                "missing field `version`: found `verison`; did you mean `version`?",
            ),
            (
                "\"moniker\": \"linux-next\",",
                "",
                "missing field `moniker`",
            ),
        ];
        for (from, to, expected) in cases {
            assert!(GOOD.contains(from), "the case {from} changes nothing");
            let found = error(&GOOD.replace(from, to));
            assert!(found.to_string().contains(expected), "{found}");
            assert_eq!(found.exit(), Exit::Usage);
        }
    }

    #[test]
    fn a_page_instead_of_json_and_a_cut_file_are_malformed() {
        assert!(
            error("<!DOCTYPE html><html>")
                .to_string()
                .starts_with("releases.json:1:1: ")
        );
        assert!(error(&GOOD[..GOOD.len() / 2]).to_string().contains("EOF"));
        assert!(error("").to_string().contains("EOF"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _parsed = Releases::parse("r", &bytes);
        }

        #[test]
        fn no_change_of_a_good_file_panics(at in 0..GOOD.len(), byte in any::<u8>()) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(parsed) = Releases::parse("r", &bytes) {
                for entry in parsed.entries() {
                    let _chosen = parsed.choose(entry.version.series, Candidates::Yes).unwrap();
                }
            }
        }
    }
}
