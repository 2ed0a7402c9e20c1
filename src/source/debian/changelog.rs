//! The newest entry of a Debian changelog: which version it is for, and its date.
//!
//! The format is Debian policy's, section 4.4.

use jiff::Timestamp;

/// The newest entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The version that it describes.
    pub(super) version: String,
    /// When it was finished.
    pub(super) date: Timestamp,
}

/// Reads the newest entry, which comes first. The error says what is wrong.
pub(super) fn newest(text: &str) -> Result<Entry, String> {
    let mut lines = text.lines().enumerate();
    let (at, head) = lines
        .find(|(_, line)| !line.trim().is_empty())
        .ok_or("it is empty")?;
    let version = head
        .split_once(" (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(version, _)| version)
        .filter(|version| !version.is_empty() && !version.contains(char::is_whitespace))
        .ok_or_else(|| {
            format!(
                "line {}: expected `PACKAGE (VERSION) DISTRIBUTION; ...`",
                at + 1
            )
        })?;
    let (at, trailer) = lines
        .find(|(_, line)| line.starts_with(" -- "))
        .ok_or("its first entry has no line that starts with ` -- `")?;
    // Two blanks stand between the address and the date.
    let date = trailer
        .rsplit_once(">  ")
        .and_then(|(_, date)| jiff::fmt::rfc2822::parse(date.trim()).ok())
        .ok_or_else(|| {
            format!(
                "line {}: expected ` -- NAME <ADDRESS>  DATE`, found no date",
                at + 1
            )
        })?;
    Ok(Entry {
        version: version.to_owned(),
        date: date.timestamp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "linux-6.12 (6.12.117-1~deb12u1) bookworm-security; urgency=high

  * Rebuild for bookworm

 -- Somebody <somebody@example.org>  Sat, 14 Nov 2026 13:56:02 +0100

linux (6.12.117-1) trixie-security; urgency=high

 -- Somebody <somebody@example.org>  Fri, 13 Nov 2026 00:00:00 +0000
";

    #[test]
    fn the_first_entry_is_the_newest() {
        let entry = newest(GOOD).unwrap();
        assert_eq!(entry.version, "6.12.117-1~deb12u1");
        assert_eq!(entry.date.to_string(), "2026-11-14T12:56:02Z");
    }

    #[test]
    fn what_is_no_changelog_says_where() {
        for (from, to, says) in [
            (" (6.12.117-1~deb12u1)", "", "line 1: expected"),
            (
                "Sat, 14 Nov 2026 13:56:02 +0100",
                "yesterday",
                "line 5: expected",
            ),
            (" -- ", "-- ", "no line that starts with"),
        ] {
            let error = newest(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(newest(" \n").unwrap_err(), "it is empty");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z (). ><;0-9\n-]{0,200}") {
            let _entry = newest(&text);
        }
    }
}
