//! What a configuration was meant to be, kept beside it, and two configurations compared by that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::guard::GuardReport;
use super::probed::Probed;
use super::request::{Request, shown};
use super::symbols::Symbols;
use crate::digest::Sha256;
use crate::dotconfig::DotConfig;
use crate::kernel::Version;

/// The schema that is written and read.
const SCHEMA: &str = "kiln.intent/1";

/// A request, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The value that is written.
    pub value: String,
    /// `file:line` of the request.
    pub at: String,
}

/// What a configuration was meant to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    schema: String,
    /// The kernel's version.
    pub version: Version,
    /// Digest of the base as given.
    pub base: Sha256,
    /// What was asked, by symbol without `CONFIG_`.
    pub asked: BTreeMap<String, Asked>,
    /// Symbols whose value follows from what probes of the toolchain say.
    pub toolchain: BTreeSet<String>,
}

impl Intent {
    /// That of a judged configuration.
    pub fn of(report: &GuardReport, requests: &[Request], symbols: Symbols<'_>) -> Self {
        let asked = requests.iter().map(|request| {
            let asked = Asked {
                value: shown(Some(&request.wanted.value)),
                at: request.origin.to_string(),
            };
            (request.symbol.clone(), asked)
        });
        let probed = symbols.tree().map(|tree| Probed::new(tree).names());
        Self {
            schema: SCHEMA.to_owned(),
            version: report.version,
            base: report.base,
            asked: asked.collect(),
            toolchain: probed.unwrap_or_default(),
        }
    }

    /// Reads what was kept; `None` for anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let intent: Self = serde_json::from_slice(bytes).ok()?;
        (intent.schema == SCHEMA).then_some(intent)
    }
}

/// Why a symbol differs between two configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// One asks for it and the other does not, or for something else.
    Asked,
    /// Neither was asked to differ: it follows from requests, base or tree.
    Derived,
    /// The toolchain answered differently.
    Toolchain,
}

/// One symbol that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// The value in the first.
    pub from: String,
    /// The value in the second.
    pub to: String,
    /// Why.
    pub ground: Ground,
    /// Where the first asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_at: Option<String>,
    /// Where the second asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_at: Option<String>,
}

/// Compares two configurations by what they were meant to be; sorted by ground, then as they are in
/// the first.
pub fn compare(from: (&Intent, &DotConfig), to: (&Intent, &DotConfig)) -> Vec<Difference> {
    let changes = from.1.diff(to.1).into_iter();
    let mut differences: Vec<Difference> = changes
        .map(|change| {
            let symbol = change.symbol;
            let (a, b) = (from.0.asked.get(&symbol), to.0.asked.get(&symbol));
            let probed = |intent: &Intent| intent.toolchain.contains(&symbol);
            let ground = if a.map(|a| &a.value) != b.map(|b| &b.value) {
                Ground::Asked
            } else if probed(from.0) || probed(to.0) {
                Ground::Toolchain
            } else {
                Ground::Derived
            };
            Difference {
                from: shown(change.from.as_ref()),
                to: shown(change.to.as_ref()),
                ground,
                from_at: a.map(|asked| asked.at.clone()),
                to_at: b.map(|asked| asked.at.clone()),
                symbol,
            }
        })
        .collect();
    differences.sort_by_key(|difference| difference.ground);
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(asked: &[(&str, &str)], toolchain: &[&str]) -> Intent {
        let asked = asked.iter().map(|(symbol, value)| {
            let asked = Asked {
                value: (*value).to_owned(),
                at: "f.config:1".to_owned(),
            };
            ((*symbol).to_owned(), asked)
        });
        Intent {
            schema: SCHEMA.to_owned(),
            version: "6.18.40".parse().unwrap(),
            base: Sha256::of(b"base"),
            asked: asked.collect(),
            toolchain: toolchain.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    #[test]
    fn each_difference_has_its_ground() {
        let (a, b) = (
            intent(&[("HZ_1000", "y"), ("BOTH", "y")], &["GCC_VERSION"]),
            intent(&[("HZ_250", "y"), ("BOTH", "y")], &[]),
        );
        let one = DotConfig::parse(
            "CONFIG_HZ=1000\nCONFIG_GCC_VERSION=120200\nCONFIG_HZ_1000=y\nCONFIG_BOTH=y\nCONFIG_SAME=y\n",
        );
        let two = DotConfig::parse(
            "CONFIG_HZ=250\nCONFIG_GCC_VERSION=140200\nCONFIG_HZ_250=y\nCONFIG_BOTH=m\nCONFIG_SAME=y\n",
        );
        let found: Vec<(String, Ground)> = compare((&a, &one), (&b, &two))
            .into_iter()
            .map(|difference| (difference.symbol, difference.ground))
            .collect();
        let expected = [
            ("HZ_1000", Ground::Asked),
            ("HZ_250", Ground::Asked),
            ("HZ", Ground::Derived),
            // Both ask for `y`; that one got less is nobody's wish.
            ("BOTH", Ground::Derived),
            ("GCC_VERSION", Ground::Toolchain),
        ];
        assert_eq!(found, expected.map(|(s, g)| (s.to_owned(), g)));
        assert_eq!(compare((&a, &one), (&a, &one)), []);
    }

    #[test]
    fn it_reads_back_and_nothing_else_does() {
        let good = intent(&[("A", "y")], &["B"]);
        let bytes = serde_json::to_vec(&good).unwrap();
        assert_eq!(Intent::parse(&bytes), Some(good.clone()));
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            Intent::parse(text.replace("intent/1", "intent/2").as_bytes()),
            None
        );
        assert_eq!(Intent::parse(b"{}"), None);
    }
}
