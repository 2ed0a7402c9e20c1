//! What a verb answers on stdout, in either format.

use serde_json::Value;

use super::style::Style;

/// An answer: the same data as text and as JSON.
pub trait Answer {
    /// For people; ends with a line break unless empty.
    fn text(&self, style: Style) -> String;

    /// For machines: an object that carries a `schema`, such as `kiln.check/1`.
    fn json(&self) -> Value;
}

/// An answer that is one text in both formats.
#[derive(Debug, Clone)]
pub struct Text {
    /// Name and number of the JSON form.
    pub schema: &'static str,
    /// The text.
    pub text: String,
}

impl Answer for Text {
    fn text(&self, _style: Style) -> String {
        self.text.clone()
    }

    fn json(&self) -> Value {
        serde_json::json!({ "schema": self.schema, "text": self.text })
    }
}
