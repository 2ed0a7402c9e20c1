//! What is wrong with a file, where, and what was meant.

use std::fmt;

use crate::failure::{Diagnose, Exit};

/// A place in a file; both numbers count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl At {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The text is not the YAML that kiln reads.
    Syntax(String),
    /// A key that the place does not have.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
        /// All known keys of the place.
        known: Vec<String>,
    },
    /// A key that the place must have.
    MissingKey {
        /// The key.
        key: String,
        /// What it is for.
        help: String,
    },
    /// A key that stands twice.
    DuplicateKey {
        /// The key.
        key: String,
        /// Line of the first.
        first: u64,
    },
    /// A value that does not fit its place.
    Value {
        /// What fits.
        expected: String,
        /// What stands there.
        found: String,
        /// The accepted word that looks most like it.
        nearest: Option<String>,
    },
    /// Values that are fine alone but not together.
    Contradiction(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text) | Self::Contradiction(text) => f.write_str(text),
            Self::UnknownKey {
                key,
                nearest,
                known,
            } => {
                write!(f, "unknown key `{}`", shown(key))?;
                match nearest {
                    Some(word) => write!(f, "; did you mean `{word}`?"),
                    None if known.is_empty() => f.write_str("; no key is known here"),
                    None => write!(f, "; known here: {}", known.join(", ")),
                }
            }
            Self::MissingKey { key, help } => write!(f, "missing key `{key}` ({help})"),
            Self::DuplicateKey { key, first } => {
                write!(
                    f,
                    "key `{}` stands twice, first on line {first}",
                    shown(key)
                )
            }
            Self::Value {
                expected,
                found,
                nearest,
            } => {
                write!(f, "expected {expected}, found {found}")?;
                match nearest {
                    Some(word) => write!(f, "; did you mean `{word}`?"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// One error in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The file, as the user named it.
    pub file: String,
    /// Where in it.
    pub at: At,
    /// The keys that lead there, such as `config.base.debian`; empty at the top.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.at.line, self.at.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}", self.problem)
    }
}

/// Every error found in a file, in the order of the text. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecErrors {
    /// The errors.
    pub errors: Vec<SpecError>,
}

impl SpecErrors {
    /// `Err` with the errors in the order of the text, or `Ok` where there are none.
    pub fn check(mut errors: Vec<SpecError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(|error| error.at);
        Err(Self { errors })
    }

    /// One error.
    pub fn one(file: &str, at: At, problem: Problem) -> Self {
        Self {
            errors: vec![SpecError {
                file: file.to_owned(),
                at,
                path: String::new(),
                problem,
            }],
        }
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}

impl Diagnose for SpecErrors {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        "invalid-file"
    }
}

/// `text` on one line, without control characters, at most 60 characters long; without what must not
/// come into a log.
pub(crate) fn shown(text: &str) -> String {
    if text.contains("PRIVATE KEY") {
        return "(a private key, which is not shown)".to_owned();
    }
    let discreet = match text.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_secret, host)) => format!("{scheme}://***@{host}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    };
    let text = discreet.as_str();
    let mut out: String = text
        .chars()
        .take(60)
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect::<Vec<_>>()
            } else {
                vec![c]
            }
        })
        .collect();
    if text.chars().nth(60).is_some() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_one_short_line() {
        assert_eq!(shown("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(shown(&"x".repeat(99)).len(), 63);
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("http://me:s3@cret@host/x"), "http://***@host/x");
        assert_eq!(shown("http://a@b://c@d"), "http://***@d");
        let key = shown("-----BEGIN PRIVATE KEY-----\nMC4CAQ");
        assert!(!key.contains("MC4"), "{key}");
    }
}
