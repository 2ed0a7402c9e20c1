//! Reading YAML: the only file that names the YAML crate.
//!
//! kiln reads a small part of YAML 1.2: one document of maps with text keys, lists and scalars.
//! Anchors, aliases, tags, merge keys and further documents are refused, since a file that others
//! review must say what it says in one place. Plain scalars follow YAML 1.2: `true` and `false` are
//! the only booleans, `no`, `on` and `yes` are words.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_yaml::granit_parser::{self, Event, Parser, ScalarStyle};
pub use serde_yaml::{Location, Spanned};

use super::error::{At, Problem, SpecErrors, shown};
use crate::failure::nearest;

/// Longest text that is read: what people write by hand is a thousand times smaller.
pub const LIMIT: usize = 1 << 20;

/// Deepest nesting of lists and maps.
const DEPTH: usize = 32;

/// A value with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub at: At,
    /// The value.
    pub value: Value,
}

/// What a node can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar, with its text as written.
    Scalar {
        /// The text after escapes, before any reading as a number or boolean.
        text: String,
        /// Quoted, or a block: always text, never a number, a boolean or nothing.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text, without duplicates.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key's text.
    pub key: String,
    /// Where the key begins.
    pub at: At,
    /// The value.
    pub value: Node,
}

impl Node {
    /// What stands here, for a message: "the word `on`", "a list", "nothing".
    pub fn found(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
            Value::Scalar { text, quoted: true } => format!("the text \"{}\"", shown(text)),
            Value::Scalar { text, .. } => match text.as_str() {
                _ if is_null(text) => "nothing".to_owned(),
                _ if is_bool(text) => format!("the boolean `{text}`"),
                _ if text.parse::<f64>().is_ok() => format!("the number `{}`", shown(text)),
                _ => format!("`{}`", shown(text)),
            },
        }
    }
}

/// Whether a plain scalar is YAML 1.2's null.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Whether a plain scalar is a YAML 1.2 boolean.
pub(crate) fn is_bool(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

/// Reads `text` into nodes.
///
/// # Errors
/// Syntax errors, with their place; `file` is only named in them.
pub fn parse(file: &str, text: &str) -> Result<Node, SpecErrors> {
    let syntax = |at, what: String| SpecErrors::one(file, at, Problem::Syntax(what));
    if text.len() > LIMIT {
        let what = format!(
            "file is {} bytes long; at most {LIMIT} are read",
            text.len()
        );
        return Err(syntax(At::START, what));
    }
    let mut builder = Builder::default();
    for item in Parser::new_from_str(text) {
        let (event, span) = item.map_err(|e| {
            let what = format!("not YAML: {}", e.info());
            syntax(place(*e.marker()), what)
        })?;
        let at = place(span.start);
        builder
            .event(event, at)
            .map_err(|Misplaced { at, problem }| SpecErrors::one(file, at, problem))?;
    }
    builder
        .root
        .ok_or_else(|| syntax(At::START, "the file is empty".to_owned()))
}

fn place(marker: granit_parser::Marker) -> At {
    At {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

/// A list or map that is not closed yet.
enum Open {
    List(At, Vec<Node>),
    Map {
        at: At,
        entries: Vec<Entry>,
        key: Option<(String, At)>,
        lines: BTreeMap<String, u64>,
    },
}

/// Something that is not read, and where it begins.
struct Misplaced {
    at: At,
    problem: Problem,
}

impl Misplaced {
    fn syntax(at: At, what: impl Into<String>) -> Self {
        let problem = Problem::Syntax(what.into());
        Self { at, problem }
    }
}

/// Builds the tree from the parser's events.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: At) -> Result<(), Misplaced> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_decoration(at, anchor, tag.is_some())?;
                let value = Value::Scalar {
                    text: text.into_owned(),
                    quoted: style != ScalarStyle::Plain,
                };
                self.add(Node { at, value })
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_decoration(at, anchor, tag.is_some())?;
                self.push(at, Open::List(at, Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_decoration(at, anchor, tag.is_some())?;
                let open = Open::Map {
                    at,
                    entries: Vec::new(),
                    key: None,
                    lines: BTreeMap::new(),
                };
                self.push(at, open)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(_) | Event::UnresolvedAlias(_) => Err(Misplaced::syntax(
                at,
                "aliases (`*name`) are not read; write the value where it is used",
            )),
            Event::DocumentStart(..) if self.root.is_some() => Err(Misplaced::syntax(
                at,
                "a second document begins; a file holds one",
            )),
            _ => Ok(()),
        }
    }

    fn push(&mut self, at: At, open: Open) -> Result<(), Misplaced> {
        if self.open.len() == DEPTH {
            let what = format!("lists and maps are nested more than {DEPTH} deep");
            return Err(Misplaced::syntax(at, what));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Misplaced> {
        match self.open.pop() {
            Some(Open::List(at, items)) => self.add(Node {
                at,
                value: Value::List(items),
            }),
            Some(Open::Map { at, entries, .. }) => self.add(Node {
                at,
                value: Value::Map(entries),
            }),
            None => Ok(()),
        }
    }

    fn add(&mut self, node: Node) -> Result<(), Misplaced> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map {
                entries,
                key,
                lines,
                ..
            }) => match key.take() {
                Some((key, at)) => entries.push(Entry {
                    key,
                    at,
                    value: node,
                }),
                None => *key = Some(key_of(node, lines)?),
            },
        }
        Ok(())
    }
}

/// The text of a node that stands as a key, which must be new in its map.
fn key_of(node: Node, lines: &mut BTreeMap<String, u64>) -> Result<(String, At), Misplaced> {
    let (at, found) = (node.at, node.found());
    let misplaced = |problem| Misplaced { at, problem };
    let Value::Scalar { text, quoted } = node.value else {
        return Err(misplaced(Problem::Value {
            expected: "a word as key".to_owned(),
            found,
            nearest: None,
        }));
    };
    if text == "<<" && !quoted {
        return Err(Misplaced::syntax(
            at,
            "merge keys (`<<`) are not read; write the keys where they are used",
        ));
    }
    if let Some(&first) = lines.get(&text) {
        return Err(misplaced(Problem::DuplicateKey { key: text, first }));
    }
    lines.insert(text.clone(), at.line);
    Ok((text, at))
}

fn refuse_decoration(at: At, anchor: usize, tag: bool) -> Result<(), Misplaced> {
    if anchor != 0 {
        return Err(Misplaced::syntax(
            at,
            "anchors (`&name`) are not read; write the value where it is used",
        ));
    }
    if tag {
        return Err(Misplaced::syntax(
            at,
            "tags (`!name`) are not read; write the plain value",
        ));
    }
    Ok(())
}

/// Reads `text` as a `T`.
///
/// # Errors
/// The first thing that does not fit, with its place. Formats with a table of keys
/// ([`super::shape`]) are checked by that first and so report all errors at once.
pub fn from_str<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, SpecErrors> {
    parse(file, text)?;
    let options = serde_yaml::options! {
        strict_booleans: true,
    };
    serde_yaml::from_str_with_options(text, options).map_err(|e| convert(file, &e))
}

/// The place of a spanned value.
pub fn at<T>(value: &Spanned<T>) -> At {
    from_location(value.referenced)
}

fn from_location(location: Location) -> At {
    At {
        line: location.line().max(1),
        column: location.column().max(1),
    }
}

fn convert(file: &str, error: &serde_yaml::Error) -> SpecErrors {
    use serde_yaml::Error as E;
    let error = error.without_snippet();
    let at = error.location().map_or(At::START, from_location);
    let problem = match error {
        E::SerdeUnknownField {
            field, expected, ..
        } => Problem::UnknownKey {
            key: field.clone(),
            nearest: nearest(field, expected.iter().copied()),
            known: expected.iter().map(|&word| word.to_owned()).collect(),
        },
        E::SerdeUnknownVariant {
            variant, expected, ..
        } => Problem::Value {
            expected: format!("one of {}", expected.join(", ")),
            found: format!("`{}`", shown(variant)),
            nearest: nearest(variant, expected.iter().copied()),
        },
        E::SerdeMissingField { field, .. } => Problem::MissingKey {
            key: (*field).to_owned(),
            help: "required".to_owned(),
        },
        E::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | E::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => Problem::Value {
            expected: expected.clone(),
            found: unexpected.clone(),
            nearest: None,
        },
        E::Message { msg, .. } => Problem::Syntax(msg.clone()),
        other => Problem::Syntax(other.to_string()),
    };
    SpecErrors::one(file, at, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failure(text: &str) -> String {
        match parse("f.yaml", text) {
            Ok(node) => panic!("{text:?} was read as {node:?}"),
            Err(errors) => errors.to_string(),
        }
    }

    #[test]
    fn places_count_from_one() {
        let node = parse("f", "a: 1\nb:\n  - x\n  - {c: 6.10}\n").unwrap();
        let Value::Map(entries) = node.value else {
            panic!("not a map")
        };
        assert_eq!(entries[1].at, At { line: 2, column: 1 });
        let Value::List(items) = &entries[1].value.value else {
            panic!("not a list")
        };
        assert_eq!(items[0].at, At { line: 3, column: 5 });
        let Value::Map(inner) = &items[1].value else {
            panic!("not a map")
        };
        assert_eq!(inner[0].value.at, At { line: 4, column: 9 });
        assert_eq!(
            inner[0].value.value,
            Value::Scalar {
                text: "6.10".to_owned(),
                quoted: false
            }
        );
    }

    #[test]
    fn what_is_not_read_is_named_with_its_place() {
        for (text, expected) in [
            ("", "f.yaml:1:1: the file is empty"),
            ("# only a comment\n", "f.yaml:1:1: the file is empty"),
            (
                "a: 1\nb: 2\na: 3\n",
                "f.yaml:3:1: key `a` stands twice, first on line 1",
            ),
            ("a: &x 1\n", "f.yaml:1:7: anchors"),
            ("a: !x 1\n", "f.yaml:1:7: tags"),
            ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins"),
            ("<<: {a: 1}\n", "f.yaml:1:1: merge keys"),
            (
                "{[a]: 1}\n",
                "f.yaml:1:2: expected a word as key, found a list",
            ),
            ("a: [1\nb: 2\n", "f.yaml:2"),
        ] {
            let failure = failure(text);
            assert!(failure.starts_with(expected), "{text:?} gave {failure:?}");
        }
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(failure(&deep).contains("nested more than 32 deep"));
        let long = "#".repeat(LIMIT + 1);
        assert!(failure(&long).contains("at most 1048576"));
    }

    #[test]
    fn only_true_and_false_are_booleans() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Flag {
            flag: bool,
        }
        assert!(from_str::<Flag>("f", "flag: true\n").unwrap().flag);
        for word in ["yes", "on", "y", "1"] {
            assert!(from_str::<Flag>("f", &format!("flag: {word}\n")).is_err());
        }
        let error = from_str::<Flag>("f", "flg: true\n").unwrap_err();
        assert!(error.to_string().contains("did you mean `flag`"), "{error}");
    }

    #[test]
    fn numbers_keep_their_text() {
        #[derive(serde::Deserialize)]
        struct Text {
            version: Spanned<String>,
        }
        let text: Text = from_str("f", "version: 6.10\n").unwrap();
        assert_eq!(text.version.value, "6.10");
        assert_eq!(
            at(&text.version),
            At {
                line: 1,
                column: 10
            }
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c:\\-\\[\\]{}&*!|>'\"#,?%@ \\t\\n\\r0-9.]{0,80}") {
            let _node = parse("f", &text);
        }

        #[test]
        fn no_wild_text_panics(text in "\\PC{0,80}") {
            let _node = parse("f", &text);
        }
    }
}
