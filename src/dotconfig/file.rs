//! The lines of a configuration file.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::value::{PREFIX, Value, is_symbol};

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Blank,
    /// A comment that assigns nothing.
    Comment,
    /// `CONFIG_X=value`, or `# CONFIG_X is not set` (value [`Value::No`]).
    Assign {
        /// The name without `CONFIG_`.
        symbol: String,
        /// The value.
        value: Value,
    },
    /// What the kernel's reader calls unexpected data, and skips.
    Unexpected,
}

/// One line of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where the line starts in the text, in bytes.
    start: usize,
    /// Where it ends, line ending included.
    end: usize,
    /// What it says.
    pub content: Content,
    /// Whether it is the line that counts for its symbol. Kept here, since whoever goes through all
    /// symbols would look each up again otherwise.
    counts: bool,
}

/// Something in a configuration file that the kernel's reader would take otherwise than it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: u32,
    /// Column, from 1, in bytes.
    pub column: u32,
    /// What is wrong there.
    pub kind: ProblemKind,
}

/// Kinds of [`Problem`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// The line is skipped.
    Unexpected,
    /// The symbol was assigned before; the later line counts.
    Duplicate {
        /// The symbol.
        symbol: String,
        /// The earlier line, from 1.
        first: u32,
    },
    /// The value is read by its prefix, or ignored.
    Loose {
        /// The symbol.
        symbol: String,
        /// The value as written.
        value: String,
    },
}

/// Bytes that are no configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of `{name}` is not UTF-8 text")]
pub struct NotText {
    /// The file, as the caller names it.
    pub name: String,
    /// Line number, from 1.
    pub line: u32,
}

/// One symbol whose value differs between two files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// The value in the first file; nothing where it has no line.
    pub from: Option<Value>,
    /// The value in the second file; nothing where it has no line.
    pub to: Option<Value>,
}

/// A configuration file. It never changes, so a clone shares it.
#[derive(Clone)]
pub struct DotConfig(Arc<Read>);

struct Read {
    text: String,
    lines: Vec<Line>,
    /// The line that counts for a symbol: the last.
    last: HashMap<String, usize>,
}

impl fmt::Debug for DotConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Read { lines, last, .. } = &*self.0;
        write!(
            f,
            "DotConfig({} lines, {} symbols)",
            lines.len(),
            last.len()
        )
    }
}

impl DotConfig {
    /// Reads a configuration. Every text is one: what the kernel's reader would skip is kept and
    /// listed by [`problems`](Self::problems).
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        let mut lines: Vec<Line> = Vec::with_capacity(text.len() / 24);
        let mut last = HashMap::with_capacity(text.len() / 24);
        let mut start = 0;
        for piece in text.split_inclusive('\n') {
            let content = read(piece.trim_end_matches(['\n', '\r']));
            let counts = if let Content::Assign { symbol, value: _ } = &content {
                if let Some(earlier) = last.insert(symbol.clone(), lines.len()) {
                    lines[earlier].counts = false;
                }
                true
            } else {
                false
            };
            let end = start + piece.len();
            lines.push(Line {
                start,
                end,
                content,
                counts,
            });
            start = end;
        }
        Self(Arc::new(Read { text, lines, last }))
    }

    /// Reads the bytes of a configuration; `name` is for the message.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, NotText> {
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::parse(text)),
            Err(error) => {
                let good = error.utf8_error().valid_up_to();
                let breaks = error.as_bytes()[..good].iter().filter(|b| **b == b'\n');
                Err(NotText {
                    name: name.to_owned(),
                    line: number(breaks.count()),
                })
            }
        }
    }

    /// The text, byte for byte as it was read.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The lines in order.
    pub fn lines(&self) -> &[Line] {
        &self.0.lines
    }

    /// The text of a line, its ending included.
    pub fn line_text(&self, line: &Line) -> &str {
        &self.0.text[line.start..line.end]
    }

    /// The value that counts for `symbol`: [`Value::No`] for both spellings of off that have a
    /// line, nothing for the third.
    pub fn value(&self, symbol: &str) -> Option<&Value> {
        match &self.0.lines[*self.0.last.get(symbol)?].content {
            Content::Assign { symbol: _, value } => Some(value),
            Content::Blank | Content::Comment | Content::Unexpected => None,
        }
    }

    /// The line, from 1, that counts for `symbol`.
    pub fn line_of(&self, symbol: &str) -> Option<u32> {
        self.0.last.get(symbol).map(|index| number(*index))
    }

    /// Whether the line at `index` (from 0) is the one that counts for its symbol.
    pub fn counts(&self, index: usize) -> bool {
        self.0.lines.get(index).is_some_and(|line| line.counts)
    }

    /// Whether `symbol` is off, in any of the three spellings.
    pub fn is_off(&self, symbol: &str) -> bool {
        self.value(symbol).is_none_or(Value::is_off)
    }

    /// Each symbol once, with the value that counts, in the order of those lines.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.lines.iter().filter_map(|line| match &line.content {
            Content::Assign { symbol, value } if line.counts => Some((symbol.as_str(), value)),
            _ => None,
        })
    }

    /// What the kernel's reader would skip, take by a prefix, or see twice; in line order.
    pub fn problems(&self) -> Vec<Problem> {
        let mut first: HashMap<&str, u32> = HashMap::new();
        let mut problems = Vec::new();
        for (index, line) in self.0.lines.iter().enumerate() {
            let at = number(index);
            let mut add = |column, kind| {
                problems.push(Problem {
                    line: at,
                    column,
                    kind,
                });
            };
            match &line.content {
                Content::Blank | Content::Comment => {}
                Content::Unexpected => add(1, ProblemKind::Unexpected),
                Content::Assign { symbol, value } => {
                    if let Value::Loose(value) = value {
                        let kind = ProblemKind::Loose {
                            symbol: symbol.clone(),
                            value: value.clone(),
                        };
                        add(number(PREFIX.len() + symbol.len() + 1), kind);
                    }
                    let earlier = *first.entry(symbol).or_insert(at);
                    if earlier != at {
                        let kind = ProblemKind::Duplicate {
                            symbol: symbol.clone(),
                            first: earlier,
                        };
                        add(1, kind);
                    }
                }
            }
        }
        problems
    }

    /// The symbols whose values differ, the three spellings of off being one: those of `self` in
    /// its order, then those that only `other` has.
    pub fn diff(&self, other: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut compare = |symbol: &str, from: Option<&Value>, to: Option<&Value>| {
            let off = |value: Option<&Value>| value.is_none_or(Value::is_off);
            if from != to && !(off(from) && off(to)) {
                changes.push(Change {
                    symbol: symbol.to_owned(),
                    from: from.cloned(),
                    to: to.cloned(),
                });
            }
        };
        for (symbol, value) in self.symbols() {
            compare(symbol, Some(value), other.value(symbol));
        }
        for (symbol, value) in other.symbols() {
            if !self.0.last.contains_key(symbol) {
                compare(symbol, None, Some(value));
            }
        }
        changes
    }
}

/// A line number from an index; no file that fits a `.config` limit has four billion lines.
fn number(index: usize) -> u32 {
    u32::try_from(index).map_or(u32::MAX, |index| index.saturating_add(1))
}

/// Reads one line without its ending.
fn read(line: &str) -> Content {
    if line.is_empty() {
        return Content::Blank;
    }
    if line.starts_with('#') {
        let unset = line
            .strip_prefix("# CONFIG_")
            .and_then(|rest| rest.strip_suffix(" is not set"))
            .filter(|symbol| is_symbol(symbol));
        return match unset {
            Some(symbol) => Content::Assign {
                symbol: symbol.to_owned(),
                value: Value::No,
            },
            None => Content::Comment,
        };
    }
    match line.strip_prefix(PREFIX).and_then(|l| l.split_once('=')) {
        Some((symbol, value)) if is_symbol(symbol) => Content::Assign {
            symbol: symbol.to_owned(),
            value: Value::parse(value),
        },
        _ => Content::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_spellings_of_off_are_one() {
        let config = DotConfig::parse("# CONFIG_A is not set\nCONFIG_B=n\nCONFIG_D=y\n");
        assert!(["A", "B", "C"].iter().all(|symbol| config.is_off(symbol)));
        assert!(!config.is_off("D"));
        assert_eq!(config.value("A"), Some(&Value::No));
        assert_eq!(config.value("C"), None);
        assert!(config.diff(&DotConfig::parse("CONFIG_D=y")).is_empty());
    }

    #[test]
    fn values_are_read_exactly_or_kept_loose() {
        let loose = |text: &str| Value::Loose(text.to_owned());
        for (text, value) in [
            ("y", Value::Yes),
            ("m", Value::Module),
            ("n", Value::No),
            ("1000", Value::Int("1000".into())),
            ("-5", Value::Int("-5".into())),
            ("0", Value::Int("0".into())),
            ("0xff", Value::Hex("0xff".into())),
            ("\"\"", Value::Text(String::new())),
            (r#""a\"b\\c""#, Value::Text(r#"a"b\c"#.into())),
            ("017", loose("017")),
            ("yes", loose("yes")),
            ("", loose("")),
            ("ff", loose("ff")),
            ("0x", loose("0x")),
            ("\"open", loose("\"open")),
            ("\"a\" ", loose("\"a\" ")),
            ("y ", loose("y ")),
        ] {
            assert_eq!(Value::parse(text), value, "{text:?}");
        }
    }

    #[test]
    fn a_tristate_is_read_by_its_first_letter() {
        assert_eq!(
            Value::parse("mauve").read_as_tristate(),
            Some(Value::Module)
        );
        assert_eq!(Value::parse("yes").read_as_tristate(), Some(Value::Yes));
        assert_eq!(Value::parse("1").read_as_tristate(), None);
        assert_eq!(Value::parse("\"y\"").read_as_tristate(), None);
    }

    #[test]
    fn lines_that_only_look_like_assignments() {
        let text = "#CONFIG_A is not set\n# CONFIG_B is not set \n CONFIG_C=y\nCONFIG_D = y\nD=y\n";
        let config = DotConfig::parse(text);
        assert_eq!(config.symbols().count(), 0);
        let lines: Vec<u32> = config.problems().iter().map(|p| p.line).collect();
        assert_eq!(lines, [3, 4, 5]);
    }

    #[test]
    fn the_last_line_counts_and_the_first_is_named() {
        let config = DotConfig::parse("CONFIG_A=y\nCONFIG_B=m\n# CONFIG_A is not set\n");
        assert!(config.is_off("A"));
        assert_eq!(config.line_of("A"), Some(3));
        assert!(!config.counts(0) && config.counts(1) && config.counts(2));
        let order: Vec<&str> = config.symbols().map(|(symbol, _)| symbol).collect();
        assert_eq!(order, ["B", "A"]);
        let kind = ProblemKind::Duplicate {
            symbol: "A".into(),
            first: 1,
        };
        assert_eq!(config.problems()[0].kind, kind);
        assert_eq!(config.problems()[0].line, 3);
    }

    #[test]
    fn a_loose_value_is_pointed_at() {
        let problems = DotConfig::parse("\nCONFIG_AB=yes\n").problems();
        assert_eq!((problems[0].line, problems[0].column), (2, 11));
    }

    #[test]
    fn a_difference_is_by_symbol_and_value() {
        let a = DotConfig::parse("CONFIG_A=y\nCONFIG_B=m\nCONFIG_S=\"\"\n");
        let b = DotConfig::parse("CONFIG_B=y\nCONFIG_A=y\nCONFIG_N=5\n");
        let changes: Vec<String> = a.diff(&b).into_iter().map(|c| c.symbol).collect();
        // An empty string is a value: losing it is a change.
        assert_eq!(changes, ["B", "S", "N"]);
        assert!(a.diff(&a).is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let error = DotConfig::from_bytes("x", b"CONFIG_A=y\nCONFIG_\xff=y\n".to_vec());
        assert_eq!(error.unwrap_err().line, 2);
    }

    #[test]
    fn both_line_endings_read_alike_and_are_kept() {
        let config = DotConfig::parse("CONFIG_A=y\r\nCONFIG_B=\"x\"");
        assert_eq!(config.value("A"), Some(&Value::Yes));
        assert_eq!(config.value("B"), Some(&Value::Text("x".into())));
        assert_eq!(config.line_text(&config.lines()[0]), "CONFIG_A=y\r\n");
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_bytes(text in "(?s)([# CONFIGxy_=\"\\\\nmy0-9\r\n]|.){0,200}") {
            let config = DotConfig::parse(text.clone());
            let joined: String = config.lines().iter().map(|l| config.line_text(l)).collect();
            prop_assert_eq!(&joined, &text);
            let _problems = config.problems();
            prop_assert!(config.diff(&config).is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _config = DotConfig::from_bytes("x", bytes);
        }

        #[test]
        fn a_written_line_reads_back(text in "[ -~\u{e4}\u{20ac}]{0,20}", plain in "y|m|n|0|-?[1-9][0-9]{0,6}|0x[0-9a-f]{1,8}") {
            for value in [Value::Text(text.clone()), Value::parse(&plain)] {
                let config = DotConfig::parse(line("X", &value));
                prop_assert_eq!(config.value("X"), Some(&value));
            }
        }
    }
}
