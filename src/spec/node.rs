//! `/etc/kiln/node.yaml`: what a node is told about itself.

use serde::Deserialize;

use super::error::SpecErrors;
use super::kinds;
use super::shape::{Kind, Shape, check, optional, required};
use super::yaml;

/// The settings of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NodeSpec {
    /// The number of the file format.
    pub kiln: u32,
    /// What sends the node's users away before it is restarted: a program with its arguments.
    pub drain: Option<Vec<String>>,
    /// The longest that this may take, in seconds; an hour where it is not set.
    pub drain_limit: Option<u64>,
    /// When the node may be restarted; at any time where it is not set.
    pub reboot_window: Option<WindowSpec>,
    /// How it is known that GRUB can count here.
    pub rehearsal: Option<Rehearsal>,
}

/// A time of every day, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpec {
    /// Its first minute, as `HH:MM`.
    pub from: String,
    /// The first minute after it; before `from`, it is that of the next day.
    pub to: String,
}

/// How it is known that GRUB can count on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rehearsal {
    /// By `kiln boot rehearse` on the node itself.
    Here,
    /// Whoever made its image has seen it; that counts until the first trial has shown it here.
    ByImage,
}

static TIME: Kind = Kind {
    expected: "a time of the day in UTC, such as \"03:30\"",
    pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$",
    accepts: |text| match text.as_bytes() {
        [h1, h2, b':', m1, m2] => {
            [h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit())
                && (h1, h2) <= (&b'2', if *h1 == b'2' { &b'3' } else { &b'9' })
                && *m1 <= b'5'
        }
        _ => false,
    },
};

/// The keys of `node.yaml`.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    optional(
        "drain",
        "what sends the node's users away before it is restarted: a program with its arguments",
        Shape::List {
            item: &Shape::Text(&kinds::ARGUMENT),
            least: 1,
            distinct: false,
        },
    ),
    optional(
        "drain-limit",
        "the longest that this may take, in seconds; an hour where it is not set",
        Shape::Number(1, 86_400),
    ),
    optional(
        "reboot-window",
        "when the node may be restarted, every day; at any time where it is not set",
        Shape::Table(&[
            required("from", "its first minute", Shape::Text(&TIME)),
            required("to", "the first minute after it", Shape::Text(&TIME)),
        ]),
    ),
    optional(
        "rehearsal",
        "how it is known that GRUB can count here: by `kiln boot rehearse`, or for the first trial \
         by whoever made the image",
        Shape::Words {
            words: &["here", "by-image"],
            refused: &[],
        },
    ),
]);

impl NodeSpec {
    /// Reads `node.yaml`; `file` is its name for messages.
    ///
    /// # Errors
    /// Every wrong key and value of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecErrors> {
        check(file, &yaml::parse(file, text)?, &SHAPE)?;
        yaml::from_str(file, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_wrong_is_told() {
        let spec = NodeSpec::parse("node.yaml", "kiln: 1\nrehearsal: by-image\n").unwrap();
        assert_eq!(spec.rehearsal, Some(Rehearsal::ByImage));
        assert_eq!(
            NodeSpec::parse("node.yaml", "kiln: 1\n").unwrap().rehearsal,
            None
        );
        for (bad, said) in [
            ("kiln: 1\nrehearsal: by-imag\n", "did you mean `by-image`?"),
            ("kiln: 2\n", "newer"),
            (
                "kiln: 1\nreboot-window: {from: \"24:00\", to: \"03:00\"}\n",
                "03:30",
            ),
            (
                "kiln: 1\nreboot-window: {from: \"02:60\", to: \"03:00\"}\n",
                "03:30",
            ),
            ("kiln: 1\ndrain: []\n", "drain"),
            ("kiln: 1\nrehearsals: here\n", "rehearsal"),
        ] {
            let error = NodeSpec::parse("node.yaml", bad).unwrap_err().to_string();
            assert!(
                error.contains("node.yaml:") && error.contains(said),
                "{error}"
            );
        }
    }
}
