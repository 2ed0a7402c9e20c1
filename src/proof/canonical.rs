//! Canonical JSON: RFC 8785 restricted to objects, arrays, strings, booleans and integers below
//! 2^53. The same value always gives the same bytes, so a digest of the bytes names the value.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::misread::Misread;
use crate::failure::{Diagnose, Exit};

/// Largest document that is read, in bytes.
pub const SIZE_LIMIT: u64 = 16 << 20;

/// Deepest nesting that is read or written.
const DEPTH_LIMIT: usize = 32;

/// Largest integer that every JSON reader keeps exactly.
const INTEGER_LIMIT: u64 = 1 << 53;

/// Why a document is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// Not JSON, or not the document expected.
    #[error("{}", misread.told(what))]
    Shape {
        /// The document, for people.
        what: String,
        /// What is wrong, and where.
        misread: Misread,
    },
    /// JSON, but with something that the restricted form does not have.
    #[error(
        "`{what}` holds {found} at `{at}`: canonical documents have only objects, arrays, strings, booleans and integers below 2^53"
    )]
    Value {
        /// The document, for people.
        what: String,
        /// What is not allowed.
        found: &'static str,
        /// Where: a path such as `/body/packages/0`.
        at: String,
    },
    /// The same value has other bytes.
    #[error(
        "`{what}` is not in canonical form (blanks, key order, duplicate keys or escapes differ): it was edited or re-serialised"
    )]
    Form {
        /// The document, for people.
        what: String,
    },
    /// From a newer kiln.
    #[error("`{what}` has schema `{found}`; this kiln reads `{known}`")]
    Schema {
        /// The document, for people.
        what: String,
        /// Its schema.
        found: String,
        /// The one that is read.
        known: &'static str,
    },
}

impl Diagnose for CanonicalError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "document-shape",
            Self::Value { .. } => "document-value",
            Self::Form { .. } => "document-form",
            Self::Schema { .. } => "document-schema",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Schema { .. } => {
                vec!["use the kiln version that wrote it, or a newer one".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

fn shape(what: &str) -> impl FnOnce(serde_json::Error) -> CanonicalError {
    let what = what.to_owned();
    move |error| CanonicalError::Shape {
        what,
        misread: Misread::of(&error),
    }
}

/// The canonical bytes of a value; `what` names it in errors.
pub fn to_vec<T: Serialize>(what: &str, value: &T) -> Result<Vec<u8>, CanonicalError> {
    // `serde_json::Map` keeps its keys sorted by their bytes; keys are ASCII, for which that is
    // RFC 8785's order.
    let value = serde_json::to_value(value).map_err(shape(what))?;
    check(what, &value, &mut Vec::new())?;
    serde_json::to_vec(&value).map_err(shape(what))
}

/// Refuses a document of another schema than `known`, before it is read as one of its kind: what a
/// newer kiln wrote shall not be told as a wrong field.
pub fn check_schema(what: &str, bytes: &[u8], known: &'static str) -> Result<(), CanonicalError> {
    #[derive(Deserialize)]
    struct Header {
        schema: String,
    }
    let header: Header = serde_json::from_slice(bytes).map_err(shape(what))?;
    if header.schema == known {
        return Ok(());
    }
    Err(CanonicalError::Schema {
        what: what.to_owned(),
        found: header.schema,
        known,
    })
}

/// Reads canonical bytes, refusing any other form of the same value.
pub fn from_slice<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, CanonicalError> {
    let value: Value = serde_json::from_slice(bytes).map_err(shape(what))?;
    if to_vec(what, &value)? != bytes {
        return Err(CanonicalError::Form {
            what: what.to_owned(),
        });
    }
    from_value(what, value)
}

/// Reads a value that a person may have laid out: pretty-printed, in any key order.
pub fn from_pretty<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, CanonicalError> {
    let value: Value = serde_json::from_str(text).map_err(shape(what))?;
    check(what, &value, &mut Vec::new())?;
    // Straight from the text, so that an error has its line and column, and duplicates are seen.
    serde_json::from_str(text).map_err(shape(what))
}

fn from_value<T: DeserializeOwned>(what: &str, value: Value) -> Result<T, CanonicalError> {
    serde_json::from_value(value).map_err(shape(what))
}

/// Pretty bytes with sorted keys, for documents that are committed and reviewed.
pub fn to_pretty<T: Serialize>(what: &str, value: &T) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value).map_err(shape(what))?;
    check(what, &value, &mut Vec::new())?;
    let mut bytes = serde_json::to_vec_pretty(&value).map_err(shape(what))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn check(what: &str, value: &Value, path: &mut Vec<String>) -> Result<(), CanonicalError> {
    let refuse = |found, path: &[String]| {
        let at = format!("/{}", path.join("/"));
        Err(CanonicalError::Value {
            what: what.to_owned(),
            found,
            at,
        })
    };
    if path.len() > DEPTH_LIMIT {
        return refuse("more than 32 levels", path);
    }
    match value {
        Value::Null => refuse("null", path),
        Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => {
            let magnitude = number
                .as_i64()
                .map(i64::unsigned_abs)
                .or_else(|| number.as_u64());
            match magnitude {
                Some(magnitude) if magnitude < INTEGER_LIMIT => Ok(()),
                Some(_) => refuse("an integer of 2^53 or more", path),
                None => refuse("a floating-point number", path),
            }
        }
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            path.push(index.to_string());
            let result = check(what, item, path);
            path.pop();
            result
        }),
        Value::Object(map) => map.iter().try_for_each(|(key, item)| {
            path.push(key.clone());
            let result = if key.is_ascii() {
                check(what, item, path)
            } else {
                refuse("a key that is not ASCII", path)
            };
            path.pop();
            result
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_form_is_that_of_rfc_8785() {
        let value = json!({"b": [true, 1, "\u{20ac}$\u{f}\nA'\u{42}\"\\/"], "a": {}});
        let bytes = to_vec("x", &value).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            r#"{"a":{},"b":[true,1,"€$\u000f\nA'B\"\\/"]}"#
        );
    }

    #[test]
    fn what_the_restricted_form_lacks_is_refused_with_its_place() {
        for (value, place) in [
            (json!({"a": [1.5]}), "/a/0"),
            (json!({"a": null}), "/a"),
            (json!({"a": 9_007_199_254_740_992_u64}), "/a"),
            (json!({"ä": 1}), "/ä"),
        ] {
            let error = to_vec("x", &value).unwrap_err().to_string();
            assert!(error.contains(&format!("at `{place}`")), "{error}");
        }
        assert!(to_vec("x", &json!(9_007_199_254_740_991_u64)).is_ok());
    }

    #[test]
    fn another_form_of_the_same_value_is_refused() {
        let good = br#"{"a":1,"b":2}"#;
        assert!(from_slice::<Value>("x", good).is_ok());
        for bad in [
            r#"{"b":2,"a":1}"#,
            r#"{"a": 1,"b":2}"#,
            r#"{"a":1,"a":1,"b":2}"#,
            "{\"a\":1,\"b\":2}\n",
            r#"{"\u0061":1,"b":2}"#,
        ] {
            let error = from_slice::<Value>("x", bad.as_bytes()).unwrap_err();
            assert!(
                matches!(error, CanonicalError::Form { .. }),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(from_slice::<Value>("x", deep(32).as_bytes()).is_ok());
        assert!(from_slice::<Value>("x", deep(40).as_bytes()).is_err());
        assert!(from_slice::<Value>("x", deep(100_000).as_bytes()).is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53) + 1..(1i64 << 53)).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-z_]{0,8}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_bytes_read_back(value in values()) {
            let bytes = to_vec("x", &value).unwrap();
            prop_assert_eq!(from_slice::<Value>("x", &bytes).unwrap(), value);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _result = from_slice::<Value>("x", &bytes);
        }
    }
}
