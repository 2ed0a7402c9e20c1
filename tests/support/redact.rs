//! Replaces what differs between two runs by words of fixed shape, so that output can be compared.

use camino::Utf8Path;

/// What to replace, in order.
#[derive(Clone, Default)]
pub struct Redaction {
    texts: Vec<(String, String)>,
}

impl Redaction {
    /// Digests, times and durations only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also this path, and everything below it keeps its tail: `[ENV]/ws/pipelines`.
    pub fn path(mut self, path: &Utf8Path, word: &str) -> Self {
        self.texts.push((path.to_string(), word.to_owned()));
        self
    }

    /// Also this text.
    pub fn text(mut self, text: &str, word: &str) -> Self {
        self.texts.push((text.to_owned(), word.to_owned()));
        self
    }

    /// The text with everything replaced.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.texts {
            text = text.replace(from, to);
        }
        words(&text)
    }
}

/// Replaces word by word; a word is a run of letters, digits and the marks inside times.
fn words(text: &str) -> String {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        if end == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        // A duration may stand as two words: "1.24 s".
        let unit = [" ms", " s"].iter().find(|unit| {
            after
                .strip_prefix(**unit)
                .is_some_and(|next| !next.starts_with(inside))
        });
        match (replacement(word), unit) {
            (Some(replaced), _) => out.push_str(replaced),
            (None, Some(unit)) if is_number(word) => {
                out.push_str("[TIME]");
                rest = &after[unit.len()..];
                continue;
            }
            (None, _) => out.push_str(word),
        }
        rest = after;
    }
    out
}

fn replacement(word: &str) -> Option<&'static str> {
    let core = word.trim_end_matches(['.', ':', '-']);
    if core.len() == 64 && core.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Some("[SHA256]");
    }
    if is_timestamp(core) {
        return Some("[TIMESTAMP]");
    }
    let seconds = core.strip_suffix("ms").or_else(|| core.strip_suffix('s'))?;
    is_number(seconds).then_some("[TIME]")
}

fn is_number(word: &str) -> bool {
    !word.is_empty()
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// `2026-11-30T12:00:00Z`, with or without a fraction.
fn is_timestamp(word: &str) -> bool {
    let shape: String = word
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .take(19)
        .collect();
    shape == "0000-00-00T00:00:00" && word.ends_with('Z')
}

/// Good words stay, running ones go.
pub mod own_cases {
    use super::Redaction;
    use crate::support::case::{Case, Outcome};

    /// More cases of the group `harness`.
    pub fn cases() -> Vec<Case> {
        vec![Case::new(
            "harness::redaction_hides_only_what_differs",
            redaction,
        )]
    }

    fn redaction() -> Outcome {
        let redaction = Redaction::new().path("/tmp/x".into(), "[ENV]");
        let digest = "0f".repeat(32);
        for (text, expected) in [
            (format!("sha256 {digest}, ok"), "sha256 [SHA256], ok"),
            (format!("short {}", &digest[..8]), "short 0f0f0f0f"),
            (
                "at 2026-11-30T12:00:00Z done".to_owned(),
                "at [TIMESTAMP] done",
            ),
            ("took 1.24 s (350ms)".to_owned(), "took [TIME] ([TIME])"),
            (
                "linux-6.12.117 in /tmp/x/ws".to_owned(),
                "linux-6.12.117 in [ENV]/ws",
            ),
            ("12 symbols, 3 sets".to_owned(), "12 symbols, 3 sets"),
            ("ünïcode 5 s".to_owned(), "ünïcode [TIME]"),
        ] {
            assert_eq!(redaction.apply(&text), expected);
        }
        Ok(())
    }
}
