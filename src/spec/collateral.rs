//! Collateral lists: what a configuration may lose beside what was asked for.

use serde::Deserialize;

use super::error::SpecErrors;
use super::kinds;
use super::shape::{Field, Shape, check, required};
use super::yaml::{self, Spanned};

/// A collateral list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collateral {
    /// The number of the file format.
    pub kiln: u32,
    /// What is allowed.
    pub allow: Vec<Allowed>,
}

/// Symbols that may be lost, and because of what.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Symbols without `CONFIG_`; `*` stands for any letters.
    pub symbols: Vec<Spanned<String>>,
    /// The requested symbol whose setting costs them.
    pub cause: Spanned<String>,
    /// Why that is acceptable.
    pub why: String,
}

impl Allowed {
    /// Whether `symbol` is among [`Self::symbols`].
    pub fn covers(&self, symbol: &str) -> bool {
        self.symbols
            .iter()
            .any(|pattern| matches(&pattern.value, symbol))
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any letters, or none.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // Taking each middle part as early as possible leaves the most for those after it.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

static ALLOWED: [Field; 3] = [
    required(
        "symbols",
        "symbols without CONFIG_ that may be lost; `*` stands for any letters",
        Shape::List {
            item: &Shape::Text(&kinds::SYMBOL_PATTERN),
            least: 1,
            distinct: true,
        },
    ),
    required(
        "cause",
        "the requested symbol whose setting costs them",
        Shape::Text(&kinds::SYMBOL),
    ),
    required(
        "why",
        "why that is acceptable",
        Shape::Text(&kinds::SENTENCE),
    ),
];

/// The keys of a collateral list.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    required(
        "allow",
        "what is allowed",
        Shape::List {
            item: &Shape::Table(&ALLOWED),
            least: 0,
            distinct: true,
        },
    ),
]);

impl Collateral {
    /// Reads a collateral list; `file` is its name for messages.
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
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("DRM_I915", "DRM_I915", true),
            ("DRM_I915", "DRM_I915_GVT", false),
            ("DRM_I915*", "DRM_I915_GVT", true),
            ("DRM_I915*", "DRM_I915", true),
            ("*_BTF", "DEBUG_INFO_BTF", true),
            ("*_BTF", "DEBUG_INFO_BTF_MODULES", false),
            ("D*_B*F", "DEBUG_INFO_BTF", true),
            ("A*A", "A", false),
            ("A*A", "AA", true),
            ("A*BC*BC", "AxBC", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_list_reads_and_its_twin_does_not() {
        let good = "kiln: 1\nallow:\n  - symbols: [DRM_I915, DRM_I915_*]\n    cause: PREEMPT_RT\n    why: no screen is attached\n";
        let list = Collateral::parse("c.yaml", good).unwrap();
        assert!(list.allow[0].covers("DRM_I915_GVT"));
        let bad = good.replace("cause: PREEMPT_RT", "caus: PREEMPT_RT");
        let error = Collateral::parse("c.yaml", &bad).unwrap_err().to_string();
        assert!(
            error.contains("c.yaml:4:5: allow.0: unknown key `caus`; did you mean `cause`?"),
            "{error}"
        );
        assert!(
            error.contains("c.yaml:3:5: allow.0: missing key `cause`"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn a_pattern_without_stars_is_equality(text in "[A-C_]{0,6}", other in "[A-C_]{0,6}") {
            prop_assert_eq!(matches(&text, &other), text == other);
        }

        #[test]
        fn what_a_star_replaces_is_matched(a in "[A-C]{0,4}", b in "[A-C]{0,4}", c in "[A-C]{0,4}") {
            let pattern = format!("{a}*{c}");
            let text = format!("{a}{b}{c}");
            prop_assert!(matches(&pattern, &text));
        }
    }
}
