//! What the reader of JSON says of a text: the place, the problem, and the right word nearest to one
//! that it does not know.

use crate::failure::nearest;

/// Why a text was not read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misread {
    /// Line, from 1; 0 where the value did not come from a text.
    pub line: u64,
    /// Column, from 1, where the reader stopped: after the word that is wrong.
    pub column: u64,
    /// What was expected and what was found.
    pub problem: String,
}

impl Misread {
    /// What an error of the reader says.
    pub fn of(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let full = error.to_string();
        let position = format!(" at line {line} column {column}");
        let text = full.strip_suffix(&position).unwrap_or(&full);
        // At the very start of a line the reader counts no column.
        let column = if line == 0 { 0 } else { column.max(1) };
        Self {
            line: line as u64,
            column: column as u64,
            problem: with_nearest(text),
        }
    }

    /// The whole message about the document `what`.
    pub fn told(&self, what: &str) -> String {
        match self.line {
            0 => format!(
                "`{what}` is not a valid document of its kind: {}",
                self.problem
            ),
            line => format!("{what}:{line}:{}: {}", self.column, self.problem),
        }
    }
}

/// The reader's words, which name what it does not know and then what it does.
fn with_nearest(text: &str) -> String {
    let names_words = ["unknown field", "unknown variant"];
    if !names_words.iter().any(|start| text.starts_with(start)) {
        return text.to_owned();
    }
    let mut words = text.split('`').skip(1).step_by(2);
    let found = words.next().unwrap_or_default();
    match nearest(found, words) {
        Some(word) => format!("{text}; did you mean `{word}`?"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        #[expect(dead_code, reason = "only read")]
        build: u32,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        KernelOrg,
        Debian,
    }

    fn misread(text: &str) -> Misread {
        Misread::of(&serde_json::from_str::<Document>(text).unwrap_err())
    }

    #[test]
    fn a_wrong_word_has_its_place_and_the_nearest_right_one() {
        let wrong = misread("{\n  \"buildd\": 1\n}");
        assert_eq!((wrong.line, wrong.column), (2, 10));
        let text = "unknown field `buildd`, expected `build` or `kind`; did you mean `build`?";
        assert_eq!(wrong.problem, text);
        assert_eq!(
            wrong.told("a.lock.json"),
            format!("a.lock.json:2:10: {text}")
        );
        let wrong = misread("{\"build\": 1, \"kind\": \"debia\"}");
        assert!(
            wrong.problem.ends_with("did you mean `debian`?"),
            "{}",
            wrong.problem
        );
        // Nothing is near.
        let wrong = misread("{\"xyzzy\": 1}");
        assert!(!wrong.problem.contains("did you mean"), "{}", wrong.problem);
    }

    #[test]
    fn other_problems_have_their_place() {
        assert_eq!(misread("").line, 1);
        let wrong = misread("{\n\"build\": \"one\"}");
        assert_eq!(wrong.line, 2);
        assert!(wrong.problem.contains("expected u32"), "{}", wrong.problem);
        let value = serde_json::json!({ "build": "one" });
        let wrong = Misread::of(&serde_json::from_value::<Document>(value).unwrap_err());
        assert_eq!((wrong.line, wrong.column), (0, 0));
        assert!(wrong.told("x").starts_with("`x` is not a valid document"));
    }
}
