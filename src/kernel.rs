//! Names of kernels: series, versions, and the release text that `uname -r` prints.
//!
//! kernel.org's scheme: `MAJOR.MINOR` names a series, `MAJOR.MINOR.PATCH` a stable release of it,
//! `MAJOR.MINOR-rcN` a candidate. kiln appends `-BUILD-LINE-DIGEST8`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest text that fits `utsname.release`: `__NEW_UTS_LEN` of the kernel (`uapi/linux/utsname.h`).
pub const UTS_RELEASE_MAX: usize = 64;

/// Why a text is not a series, version, line or release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {what}: expected {expected}")]
pub struct NameError {
    /// What the text was read as.
    pub what: &'static str,
    /// The text.
    pub found: String,
    /// The form that is accepted.
    pub expected: &'static str,
}

impl NameError {
    fn new(what: &'static str, found: &str, expected: &'static str) -> Self {
        Self {
            what,
            found: found.to_owned(),
            expected,
        }
    }
}

/// Serialises a type as its `Display` text and reads it back through `FromStr`.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;

/// Parses a decimal number without sign or leading zeros.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// A line of development such as `6.18`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Series {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let error = || NameError::new("series", text, "MAJOR.MINOR, such as 6.18");
        let (major, minor) = text.split_once('.').ok_or_else(error)?;
        Ok(Self {
            major: number(major).ok_or_else(error)?,
            minor: number(minor).ok_or_else(error)?,
        })
    }
}

serde_as_text!(Series);

/// A version that kernel.org publishes: `6.18`, `6.18.40` or `7.3-rc1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// The series it belongs to.
    pub series: Series,
    /// Stable patch level; 0 for the first release of a series, which is written without it.
    pub patch: u16,
    /// Candidate number, before the series' first release.
    pub rc: Option<u16>,
}

impl Version {
    /// File name without extensions: `linux-6.18.40`.
    pub fn stem(&self) -> String {
        format!("linux-{self}")
    }

    /// Directory below kernel.org's `pub/linux/kernel` that holds it: `v6.x`.
    pub fn directory(&self) -> String {
        format!("v{}.x", self.series.major)
    }

    /// The version as Debian orders it: `7.3~rc1` sorts before `7.3`.
    pub fn debian(&self) -> String {
        match self.rc {
            Some(rc) => format!("{}~rc{rc}", self.series),
            None => self.to_string(),
        }
    }

    /// What `make kernelversion` prints, which always has three numbers: `6.18.0`, `7.3.0-rc1`.
    pub fn kernelversion(&self) -> String {
        match self.rc {
            Some(rc) => format!("{}.{}-rc{rc}", self.series, self.patch),
            None => format!("{}.{}", self.series, self.patch),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.series)?;
        if self.patch != 0 {
            write!(f, ".{}", self.patch)?;
        }
        match self.rc {
            Some(rc) => write!(f, "-rc{rc}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Version {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let error = || NameError::new("kernel version", text, "6.18, 6.18.40 or 7.3-rc1");
        let (numbers, rc) = match text.split_once("-rc") {
            Some((numbers, rc)) => (numbers, Some(number(rc).ok_or_else(error)?)),
            None => (text, None),
        };
        let mut parts = numbers.splitn(3, '.');
        let mut next = || parts.next().map(number).map(|n| n.ok_or_else(error));
        let major = next().ok_or_else(error)??;
        let minor = next().ok_or_else(error)??;
        let patch = next().transpose()?.unwrap_or(0);
        if rc.is_some() && patch != 0 {
            return Err(error());
        }
        Ok(Self {
            series: Series { major, minor },
            patch,
            rc,
        })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // A candidate precedes its release, so "no rc" is the highest rc.
        let key = |v: &Self| (v.series, v.patch, v.rc.unwrap_or(u16::MAX));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

serde_as_text!(Version);

/// Name of a pipeline's builds: `[a-z][a-z0-9]{0,11}`, since it is part of package names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(String);

impl Line {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Line {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut bytes = text.bytes();
        let good = bytes.next().is_some_and(|b| b.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && text.len() <= 12;
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::new(
                "line",
                text,
                "a lower-case letter, then up to 11 letters or digits",
            ))
        }
    }
}

serde_as_text!(Line);

/// The text of `uname -r` of a kernel that kiln built: `6.18.40-12-lts-3f2a9c1d`.
///
/// The build number only grows, so newer sorts after older; the digest leads back to the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Release {
    /// Upstream version.
    pub version: Version,
    /// Build number of the line.
    pub build: u32,
    /// The line it was built for.
    pub line: Line,
    /// First eight hexadecimal digits of the input digest.
    pub digest8: String,
}

impl Release {
    /// What follows the upstream version: `-12-lts-3f2a9c1d`, kiln's use of `LOCALVERSION`.
    pub fn local_version(&self) -> String {
        format!("-{}-{}-{}", self.build, self.line, self.digest8)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The kernel's own text always has three numbers.
        write!(
            f,
            "{}{}",
            self.version.kernelversion(),
            self.local_version()
        )
    }
}

impl FromStr for Release {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let error = || NameError::new("kernel release", text, "VERSION-BUILD-LINE-DIGEST8");
        let mut parts = text.rsplitn(4, '-');
        let digest8 = parts.next().ok_or_else(error)?;
        let line = parts
            .next()
            .ok_or_else(error)?
            .parse()
            .map_err(|_| error())?;
        let build = parts.next().and_then(number).ok_or_else(error)?;
        let version: Version = parts
            .next()
            .ok_or_else(error)?
            .parse()
            .map_err(|_| error())?;
        let hex = digest8.len() == 8
            && digest8
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let release = Self {
            version,
            build,
            line,
            digest8: digest8.to_owned(),
        };
        if hex && text.len() <= UTS_RELEASE_MAX && release.to_string() == text {
            Ok(release)
        } else {
            Err(error())
        }
    }
}

serde_as_text!(Release);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_read_and_print_the_same_text() {
        for text in ["6.18", "6.18.40", "7.3-rc1", "10.0.1"] {
            assert_eq!(version(text).to_string(), text);
        }
    }

    #[test]
    fn texts_that_are_no_version_are_refused() {
        for text in [
            "",
            "6",
            "6.",
            "6.18.",
            "6.018",
            "6.18.40.1",
            "6.18-rc",
            "6.18.1-rc2",
            "v6.18",
            " 6.18",
            "6.18 ",
            "6.-1",
            "99999.1",
            "6.18-rcx",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn candidates_sort_before_their_release() {
        let mut texts = ["7.3", "7.2.13", "7.3-rc2", "7.3.1", "7.3-rc1", "6.18.40"];
        texts.sort_by_key(|t| version(t));
        assert_eq!(
            texts,
            ["6.18.40", "7.2.13", "7.3-rc1", "7.3-rc2", "7.3", "7.3.1"]
        );
    }

    #[test]
    fn forms_for_make_and_for_debian() {
        assert_eq!(version("7.3-rc1").kernelversion(), "7.3.0-rc1");
        assert_eq!(version("7.3-rc1").debian(), "7.3~rc1");
        assert_eq!(version("6.18").kernelversion(), "6.18.0");
        assert_eq!(version("6.18.40").directory(), "v6.x");
    }

    #[test]
    fn a_release_leads_back_to_its_parts() {
        let release: Release = "6.18.40-12-lts-3f2a9c1d".parse().unwrap();
        assert_eq!(release.build, 12);
        assert_eq!(release.local_version(), "-12-lts-3f2a9c1d");
        let candidate: Release = "7.3.0-rc1-2-canary-3f2a9c1d".parse().unwrap();
        assert_eq!(candidate.version, version("7.3-rc1"));
        for bad in [
            "6.18.40-lts-3f2a9c1d",
            "6.18.40-012-lts-3f2a9c1d",
            "6.18.40-12-LTS-3f2a9c1d",
            "6.18.40-12-lts-3F2A9C1D",
            "6.18.40-12-lts-3f2a9c1",
            "6.18-12-lts-3f2a9c1d",
        ] {
            assert!(bad.parse::<Release>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn lines_are_short_and_lower_case() {
        assert!("lts".parse::<Line>().is_ok());
        for bad in ["", "Lts", "1ts", "l_s", "abcdefghijklm", "l-s"] {
            assert!(bad.parse::<Line>().is_err(), "{bad:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _version = text.parse::<Version>();
            let _release = text.parse::<Release>();
        }

        #[test]
        fn any_release_reads_back(major in 0u16..99, minor in 0u16..99, patch in 0u16..999, build in 0u32..9999) {
            let release = Release {
                version: Version { series: Series { major, minor }, patch, rc: None },
                build,
                line: "lts".parse().unwrap(),
                digest8: "0123abcd".to_owned(),
            };
            prop_assert_eq!(release.to_string().parse::<Release>().unwrap(), release);
        }
    }
}
