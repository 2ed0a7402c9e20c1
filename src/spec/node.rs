//! `/etc/kiln/node.yaml`: what a node is told about itself.

use serde::Deserialize;

use super::error::SpecErrors;
use super::shape::{Shape, check, optional, required};
use super::yaml;

/// The settings of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// The number of the file format.
    pub kiln: u32,
    /// How it is known that GRUB can count here.
    pub rehearsal: Option<Rehearsal>,
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

/// The keys of `node.yaml`.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
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
