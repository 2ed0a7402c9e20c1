//! Tables of keys: what a file may hold. One table checks the file and makes its JSON Schema.

use serde_json::{Map, Value as Json, json};

use super::error::{At, Problem, SpecError, SpecErrors};
use super::yaml::{self, Entry, Node, Value};
use crate::failure::nearest;

/// A kind of scalar.
#[derive(Debug)]
pub struct Kind {
    /// What fits, for messages: "a kernel series such as \"6.18\"".
    pub expected: &'static str,
    /// A regular expression for editors (ECMA 262); it may accept more than `accepts`.
    pub pattern: &'static str,
    /// Whether a text fits.
    pub accepts: fn(&str) -> bool,
}

/// A word that is known but refused, with the reason.
pub type Refused = (&'static str, &'static str);

/// What may stand in a place.
#[derive(Debug)]
pub enum Shape {
    /// A scalar of a kind, quoted or not.
    Text(&'static Kind),
    /// One of these words.
    Words {
        /// The accepted ones.
        words: &'static [&'static str],
        /// Words that people will try, and why they do not work.
        refused: &'static [Refused],
    },
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds, both included.
    Number(u64, u64),
    /// The number of the file format; this kiln reads exactly this one.
    Schema(u64),
    /// A list.
    List {
        /// What its items are.
        item: &'static Self,
        /// How few items are enough.
        least: usize,
        /// Whether an item may stand twice.
        distinct: bool,
    },
    /// A map with these keys.
    Table(&'static [Field]),
    /// A map with keys of a kind, all values of one shape.
    Keyed {
        /// What keys are.
        key: &'static Kind,
        /// What values are.
        value: &'static Self,
    },
    /// One of these words, or a map with exactly one of these keys.
    OneOf {
        /// The words.
        words: &'static [&'static str],
        /// The keys; `required` has no meaning here.
        forms: &'static [Field],
    },
}

/// One key of a table.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub help: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// What its value may be.
    pub shape: Shape,
}

/// A key that may be left out.
pub(crate) const fn optional(name: &'static str, help: &'static str, shape: Shape) -> Field {
    Field {
        name,
        help,
        required: false,
        shape,
    }
}

/// A key that must be there.
pub(crate) const fn required(name: &'static str, help: &'static str, shape: Shape) -> Field {
    Field {
        name,
        help,
        required: true,
        shape,
    }
}

/// Checks a whole file against `shape`.
///
/// # Errors
/// Everything that does not fit, in the order of the text.
pub fn check(file: &str, node: &Node, shape: &Shape) -> Result<(), SpecErrors> {
    let mut checker = Checker {
        file,
        path: Vec::new(),
        errors: Vec::new(),
    };
    checker.node(node, shape);
    SpecErrors::check(checker.errors)
}

struct Checker<'a> {
    file: &'a str,
    path: Vec<String>,
    errors: Vec<SpecError>,
}

impl Checker<'_> {
    fn report(&mut self, at: At, problem: Problem) {
        self.errors.push(SpecError {
            file: self.file.to_owned(),
            at,
            path: self.path.join("."),
            problem,
        });
    }

    fn expected(&mut self, node: &Node, expected: impl Into<String>, nearest: Option<String>) {
        let problem = Problem::Value {
            expected: expected.into(),
            found: node.found(),
            nearest,
        };
        self.report(node.at, problem);
    }

    fn inside(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        check(self);
        self.path.pop();
    }

    fn node(&mut self, node: &Node, shape: &Shape) {
        match shape {
            Shape::Text(kind) => self.text(node, kind),
            Shape::Words { words, refused } => self.words(node, words, refused),
            Shape::Flag => match &node.value {
                Value::Scalar {
                    text,
                    quoted: false,
                } if yaml::is_bool(text) => {}
                Value::Scalar { text, .. } => {
                    let meant = match text.to_ascii_lowercase().as_str() {
                        "yes" | "y" | "on" | "1" | "true" => Some("true".to_owned()),
                        "no" | "n" | "off" | "0" | "false" => Some("false".to_owned()),
                        other => nearest(other, ["true", "false"]),
                    };
                    self.expected(node, "true or false", meant);
                }
                _ => self.expected(node, "true or false", None),
            },
            Shape::Number(low, high) => {
                let fits = matches!(&node.value, Value::Scalar { text, quoted: false }
                    if number(text).is_some_and(|n| (*low..=*high).contains(&n)));
                if !fits {
                    self.expected(node, expected_number(*low, *high), None);
                }
            }
            Shape::Schema(version) => self.schema(node, *version),
            Shape::List {
                item,
                least,
                distinct,
            } => self.list(node, item, *least, *distinct),
            Shape::Table(fields) => self.table(node, fields),
            Shape::Keyed { key, value } => self.keyed(node, key, value),
            Shape::OneOf { words, forms } => self.one_of(node, words, forms),
        }
    }

    fn schema(&mut self, node: &Node, version: u64) {
        let found = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => number(text),
            _ => None,
        };
        match found {
            Some(found) if found == version => {}
            Some(found) if found > version => self.expected(
                node,
                format!(
                    "{version}, the newest format that this kiln reads; a newer kiln is needed"
                ),
                None,
            ),
            _ => self.expected(node, format!("{version}, the number of the format"), None),
        }
    }

    fn text(&mut self, node: &Node, kind: &Kind) {
        let fits = match &node.value {
            Value::Scalar { text, quoted } => {
                (*quoted || !(yaml::is_null(text) || yaml::is_bool(text))) && (kind.accepts)(text)
            }
            _ => false,
        };
        if !fits {
            self.expected(node, kind.expected, None);
        }
    }

    fn words(&mut self, node: &Node, words: &[&str], refused: &[Refused]) {
        let Value::Scalar { text, .. } = &node.value else {
            return self.expected(node, one_of(words), None);
        };
        if words.contains(&text.as_str()) {
            return;
        }
        if let Some((_, why)) = refused.iter().find(|(word, _)| word == text) {
            self.expected(node, format!("{} ({why})", one_of(words)), None);
        } else {
            let meant = nearest(text, words.iter().copied());
            self.expected(node, one_of(words), meant);
        }
    }

    fn list(&mut self, node: &Node, item: &Shape, least: usize, distinct: bool) {
        let Value::List(items) = &node.value else {
            return self.expected(node, "a list, such as [a, b]", None);
        };
        if items.len() < least {
            self.expected(node, format!("a list of at least {least}"), None);
        }
        for (index, node) in items.iter().enumerate() {
            self.inside(&index.to_string(), |c| c.node(node, item));
            let first = items[..index].iter().find(|n| n.value == node.value);
            if let (true, Some(first)) = (distinct, first) {
                let text = format!(
                    "{} stands twice in this list, first on line {}",
                    node.found(),
                    first.at.line
                );
                self.report(node.at, Problem::Contradiction(text));
            }
        }
    }

    fn table(&mut self, node: &Node, fields: &[Field]) {
        let Value::Map(entries) = &node.value else {
            let keys: Vec<&str> = fields.iter().map(|f| f.name).collect();
            let expected = format!("a map with the keys {}", keys.join(", "));
            return self.expected(node, expected, None);
        };
        for entry in entries {
            match fields.iter().find(|f| f.name == entry.key) {
                Some(field) => self.inside(field.name, |c| c.node(&entry.value, &field.shape)),
                None => self.unknown(entry, fields),
            }
        }
        for field in fields.iter().filter(|f| f.required) {
            if !entries.iter().any(|e| e.key == field.name) {
                let problem = Problem::MissingKey {
                    key: field.name.to_owned(),
                    help: field.help.to_owned(),
                };
                self.report(node.at, problem);
            }
        }
    }

    fn unknown(&mut self, entry: &Entry, fields: &[Field]) {
        let names = || fields.iter().map(|f| f.name);
        let problem = Problem::UnknownKey {
            key: entry.key.clone(),
            nearest: nearest(&entry.key, names()),
            known: names().map(str::to_owned).collect(),
        };
        self.report(entry.at, problem);
    }

    fn keyed(&mut self, node: &Node, key: &Kind, value: &Shape) {
        let Value::Map(entries) = &node.value else {
            let expected = format!("a map whose keys are {}", key.expected);
            return self.expected(node, expected, None);
        };
        for entry in entries {
            if !(key.accepts)(&entry.key) {
                let problem = Problem::Value {
                    expected: format!("{} as key", key.expected),
                    found: format!("`{}`", super::error::shown(&entry.key)),
                    nearest: None,
                };
                self.report(entry.at, problem);
            }
            self.inside(&entry.key, |c| c.node(&entry.value, value));
        }
    }

    fn one_of(&mut self, node: &Node, words: &[&str], forms: &[Field]) {
        let all = || words.iter().copied().chain(forms.iter().map(|f| f.name));
        let expected = || {
            let keys: Vec<String> = forms.iter().map(|f| format!("`{}: ...`", f.name)).collect();
            let words = words.iter().map(|w| format!("`{w}`"));
            format!(
                "one of {}",
                words.chain(keys).collect::<Vec<_>>().join(", ")
            )
        };
        match &node.value {
            Value::Scalar { text, .. } if words.contains(&text.as_str()) => {}
            Value::Scalar { text, .. } => {
                let meant = nearest(text, all()).map(|word| {
                    if words.contains(&word.as_str()) {
                        word
                    } else {
                        format!("{{{word}: ...}}")
                    }
                });
                self.expected(node, expected(), meant);
            }
            Value::Map(entries) => match entries.as_slice() {
                [entry] => match forms.iter().find(|f| f.name == entry.key) {
                    Some(form) => self.inside(form.name, |c| c.node(&entry.value, &form.shape)),
                    None => self.unknown(entry, forms),
                },
                [] => self.expected(node, expected(), None),
                [_, second, ..] => {
                    for entry in entries {
                        if !forms.iter().any(|f| f.name == entry.key) {
                            self.unknown(entry, forms);
                        }
                    }
                    let text = format!("exactly one key may stand here: {}", expected());
                    self.report(second.at, Problem::Contradiction(text));
                }
            },
            Value::List(_) => self.expected(node, expected(), None),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    (plain && canonical).then(|| text.parse().ok()).flatten()
}

fn expected_number(low: u64, high: u64) -> String {
    format!("a whole number from {low} to {high}")
}

fn one_of(words: &[&str]) -> String {
    if let [only] = words {
        return format!("`{only}`");
    }
    let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    format!("one of {}", quoted.join(", "))
}

/// The JSON Schema (2020-12) of a file, for editors.
pub fn schema(title: &str, shape: &Shape) -> Json {
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    if let (Some(root), Json::Object(body)) = (root.as_object_mut(), node_schema(shape)) {
        root.extend(body);
    }
    root
}

fn node_schema(shape: &Shape) -> Json {
    match shape {
        // An unquoted 6.18 is a number to an editor, and fine to kiln.
        Shape::Text(kind) => json!({
            "type": ["string", "number"],
            "pattern": kind.pattern,
            "description": kind.expected,
        }),
        Shape::Words { words, .. } => json!({ "enum": words }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
        Shape::Schema(version) => json!({ "const": version }),
        Shape::List {
            item,
            least,
            distinct,
        } => json!({
            "type": "array",
            "items": node_schema(item),
            "minItems": least,
            "uniqueItems": distinct,
        }),
        Shape::Table(fields) => {
            let required: Vec<&str> = fields
                .iter()
                .filter(|f| f.required)
                .map(|f| f.name)
                .collect();
            json!({
                "type": "object",
                "properties": properties(fields),
                "required": required,
                "additionalProperties": false,
            })
        }
        Shape::Keyed { key, value } => json!({
            "type": "object",
            "propertyNames": { "pattern": key.pattern, "description": key.expected },
            "additionalProperties": node_schema(value),
        }),
        Shape::OneOf { words, forms } => {
            let object = json!({
                "type": "object",
                "properties": properties(forms),
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            });
            if words.is_empty() {
                object
            } else {
                json!({ "oneOf": [{ "enum": words }, object] })
            }
        }
    }
}

fn properties(fields: &[Field]) -> Json {
    let mut map = Map::new();
    for field in fields {
        let mut schema = node_schema(&field.shape);
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), json!(field.help));
        }
        map.insert(field.name.to_owned(), schema);
    }
    Json::Object(map)
}
