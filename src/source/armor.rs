//! What surrounds OpenPGP packets in a file: text armor, or nothing.
//!
//! The OpenPGP library skips what stands before the first armor header and stops reading after the
//! first footer. A file that is meant to be *one thing* must not hold anything else, so the frame is
//! checked here first, and what is not OpenPGP at all is named for what it is.

/// Why a file is not the OpenPGP data it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArmorError {
    /// No bytes but blanks.
    #[error("it is empty")]
    Empty,
    /// An error page of a server or proxy.
    #[error("it is a web page, not OpenPGP data")]
    WebPage,
    /// Something else.
    #[error("it is not OpenPGP data: it begins with `{start}`")]
    Foreign {
        /// Its first characters, escaped.
        start: String,
    },
    /// OpenPGP, but of another kind.
    #[error("it is `{found}`, expected `{expected}`")]
    Kind {
        /// The kind that belongs here, such as `PGP SIGNATURE`.
        expected: &'static str,
        /// The kind that was found.
        found: String,
    },
    /// The end is missing.
    #[error("it is cut off: its end is missing")]
    Truncated,
    /// Bytes that are not part of it.
    #[error("line {line} does not belong to the OpenPGP data")]
    Trailing {
        /// The line, from 1.
        line: usize,
    },
}

impl ArmorError {
    /// The line that is wrong, from 1; 0 where the whole is.
    pub fn line(&self) -> u64 {
        match self {
            Self::Trailing { line } => *line as u64,
            Self::Empty
            | Self::WebPage
            | Self::Foreign { .. }
            | Self::Kind { .. }
            | Self::Truncated => 0,
        }
    }
}

/// The first line, from 1, inside of armored blocks that is neither header nor base64; `None` for
/// data that is not armored.
pub(in crate::source) fn foreign_line(bytes: &[u8]) -> Option<u64> {
    /// Where a line stands.
    enum Place {
        Outside,
        Headers,
        Body,
    }
    let mut place = Place::Outside;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        place = match place {
            Place::Outside | Place::Body if line.starts_with(b"-----") => match line {
                line if line.starts_with(b"-----BEGIN ") => Place::Headers,
                _ => Place::Outside,
            },
            Place::Headers if line.is_empty() => Place::Body,
            Place::Body if !line.iter().all(base64) => return Some(index as u64 + 1),
            place => place,
        };
    }
    None
}

/// The armored blocks of `kind` that make up `bytes`, or all of `bytes` where it is binary OpenPGP.
pub(in crate::source) fn blocks<'a>(
    bytes: &'a [u8],
    kind: &'static str,
) -> Result<Vec<&'a [u8]>, ArmorError> {
    let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err(ArmorError::Empty);
    };
    // RFC 9580, section 4.2: every packet header has its highest bit set; no text begins so.
    if bytes.first() == Some(first) && first & 0x80 != 0 {
        return Ok(vec![bytes]);
    }
    let begin = format!("-----BEGIN {kind}-----");
    let end = format!("-----END {kind}-----");
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len();
        let text = line.trim_ascii();
        match open {
            None if text.is_empty() => {}
            None if text == begin.as_bytes() => open = Some(start),
            None if found.is_empty() => return Err(foreign(bytes, text, kind)),
            None => return Err(ArmorError::Trailing { line: index + 1 }),
            Some(from) if text == end.as_bytes() => {
                found.push(&bytes[from..offset]);
                open = None;
            }
            Some(_) => {}
        }
    }
    match open {
        Some(_) => Err(ArmorError::Truncated),
        None => Ok(found),
    }
}

/// Checks that `bytes` are one text with a signature around it and nothing else: the cleartext
/// signature framework of RFC 9580, section 7.
pub(in crate::source) fn check_signed_text(bytes: &[u8]) -> Result<(), ArmorError> {
    const TEXT: &str = "PGP SIGNED MESSAGE";
    const SIGNATURE: &str = "PGP SIGNATURE";
    let begin = b"-----BEGIN PGP SIGNED MESSAGE-----";
    let middle = b"-----BEGIN PGP SIGNATURE-----";
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(ArmorError::Empty);
    }
    if first.trim_ascii_end() != begin {
        return Err(foreign(bytes, first.trim_ascii(), TEXT));
    }
    let mut in_headers = true;
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let text = line.trim_ascii_end();
        if index > 0 && in_headers {
            in_headers = !text.is_empty();
            // Anything else up here would be shown as part of a text that it is not signed with.
            if in_headers && !text.starts_with(b"Hash: ") {
                return Err(ArmorError::Trailing { line: index + 1 });
            }
        }
        // Dashes that begin a line of the text itself are escaped as `- -----`.
        if !in_headers && text == middle {
            return match blocks(&bytes[offset..], SIGNATURE)?.len() {
                1 => Ok(()),
                _ => Err(ArmorError::Trailing { line: index + 1 }),
            };
        }
        offset += line.len();
    }
    Err(ArmorError::Truncated)
}

fn foreign(bytes: &[u8], line: &[u8], expected: &'static str) -> ArmorError {
    let head = bytes.trim_ascii_start();
    let head = &head[..head.len().min(512)];
    let lower = head.to_ascii_lowercase();
    let is_page = lower.starts_with(b"<")
        && [&b"<html"[..], b"<!doctype", b"<head", b"<body", b"<?xml"]
            .iter()
            .any(|tag| lower.windows(tag.len()).any(|window| window == *tag));
    if is_page {
        return ArmorError::WebPage;
    }
    let text = String::from_utf8_lossy(line);
    if let Some(found) = text
        .strip_prefix("-----BEGIN ")
        .and_then(|rest| rest.strip_suffix("-----"))
    {
        return ArmorError::Kind {
            expected,
            found: escape(found),
        };
    }
    ArmorError::Foreign {
        start: escape(&text),
    }
}

/// At most 40 characters of a text that someone else wrote, safe to print.
fn escape(text: &str) -> String {
    text.chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: &str = "PGP SIGNATURE";
    const ONE: &str = "-----BEGIN PGP SIGNATURE-----\n\nabc\n=abcd\n-----END PGP SIGNATURE-----\n";

    fn error(bytes: &[u8]) -> ArmorError {
        blocks(bytes, KIND).unwrap_err()
    }

    #[test]
    fn a_damaged_line_is_found() {
        assert_eq!(foreign_line(ONE.as_bytes()), None);
        assert_eq!(foreign_line(&[0x89, 1, b'\n', 0]), None);
        let damaged = ONE.replace("abc", "a!c");
        assert_eq!(foreign_line(damaged.as_bytes()), Some(3));
        let header = ONE.replacen('\n', "\nComment: a! b!\n", 1);
        assert_eq!(foreign_line(header.as_bytes()), None);
    }

    #[test]
    fn one_block_two_blocks_and_binary() {
        assert_eq!(blocks(ONE.as_bytes(), KIND).unwrap(), [ONE.as_bytes()]);
        let two = format!("{ONE}\n{ONE}");
        assert_eq!(blocks(two.as_bytes(), KIND).unwrap().len(), 2);
        assert_eq!(blocks(&[0x89, 1], KIND).unwrap(), [[0x89, 1]]);
    }

    #[test]
    fn each_thing_that_is_no_signature_is_named() {
        assert_eq!(error(b""), ArmorError::Empty);
        assert_eq!(error(b" \n\r\n"), ArmorError::Empty);
        for page in [
            "<!DOCTYPE HTML><title>404</title>",
            "\n<html>",
            "<?xml version",
        ] {
            assert_eq!(error(page.as_bytes()), ArmorError::WebPage);
        }
        assert!(matches!(
            error(b"404 Not Found"),
            ArmorError::Foreign { .. }
        ));
        assert!(matches!(error(b"\n\x89\x01"), ArmorError::Foreign { .. }));
        let cut = &ONE[..ONE.len() - 10];
        assert_eq!(error(cut.as_bytes()), ArmorError::Truncated);
        let trailing = format!("{ONE}<html>\n");
        assert_eq!(error(trailing.as_bytes()), ArmorError::Trailing { line: 6 });
        let key = ONE.replace("SIGNATURE", "PUBLIC KEY BLOCK");
        assert!(
            error(key.as_bytes())
                .to_string()
                .contains("`PGP PUBLIC KEY BLOCK`, expected `PGP SIGNATURE`")
        );
        // What stands before the armor is not skipped.
        let mail = format!("Hello\n{ONE}");
        assert!(matches!(error(mail.as_bytes()), ArmorError::Foreign { .. }));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _blocks = blocks(&bytes, KIND);
        }
    }
}
