//! Facts about kernels that no single tree tells: what matters for security, what became of a
//! symbol, which values hold without any effect. They are rows in `known/*.yaml`, each with its
//! source; code never compares a series to know them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::finding::{Known, Severity};
use super::request::shown;
use crate::dotconfig::{DotConfig, Value};
use crate::spec::{SpecErrors, matches, yaml};

/// The tables, embedded.
const SECURITY: &str = include_str!("known/security.yaml");
const HISTORY: &str = include_str!("known/history.yaml");
const NO_EFFECT: &str = include_str!("known/no-effect.yaml");
const UNREPRODUCIBLE: &str = include_str!("known/unreproducible.yaml");

/// A table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<T> {
    /// Number of the file format.
    #[serde(rename = "kiln")]
    _format: u32,
    rows: Vec<T>,
}

/// Symbols to which one fact applies.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Symbols without `CONFIG_`; `*` stands for any letters.
    pub symbols: Vec<String>,
    /// The fact.
    pub text: String,
    /// Where it can be checked.
    pub source: String,
    /// The symbol to ask for in its place; `*` stands for the old name.
    #[serde(default)]
    pub now: Option<String>,
    /// Which side is the weaker one, where that matters.
    #[serde(default)]
    pub weaker: Side,
}

/// A side of an option.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// `y` or `m`.
    On,
    /// Not set.
    #[default]
    Off,
}

impl Row {
    fn known(&self) -> Known {
        Known {
            text: self.text.clone(),
            source: self.source.clone(),
        }
    }
}

/// A value that holds without an effect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectRow {
    /// The symbol.
    pub symbol: String,
    /// The value that was asked and holds.
    pub value: String,
    /// Other values of the resolved configuration that must hold too.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// `warn` where the line alone is pointless, `note` where a boot parameter decides.
    pub weight: Weight,
    /// Why.
    pub text: String,
    /// Where it can be checked.
    pub source: String,
}

/// The weight of an [`EffectRow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Should be looked at.
    Warn,
    /// For the record.
    Note,
}

/// A value with which two builds could differ.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreproducibleRow {
    /// The symbol.
    pub symbol: String,
    /// The value; where there is none, `y`, `m` and any text but the empty one.
    #[serde(default)]
    pub value: Option<String>,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why, and what to do or what is done.
    pub text: String,
    /// Where it can be checked.
    pub source: String,
}

impl UnreproducibleRow {
    pub(super) fn known(&self) -> Known {
        Known {
            text: self.text.clone(),
            source: self.source.clone(),
        }
    }

    fn covers(&self, value: &Value) -> bool {
        match (&self.value, value) {
            (Some(wanted), value) => Value::parse(wanted) == *value,
            (None, Value::Text(text)) => !text.is_empty(),
            (None, value) => matches!(value, Value::Yes | Value::Module),
        }
    }
}

/// What becomes of a value with which two builds could differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing can be done about it: no build is started.
    Refused,
    /// kiln does something about it.
    Handled,
}

/// All tables.
#[derive(Debug, Clone)]
pub struct Facts {
    security: Vec<Row>,
    history: Vec<Row>,
    no_effect: Vec<EffectRow>,
    unreproducible: Vec<UnreproducibleRow>,
}

impl Facts {
    /// Reads the embedded tables.
    ///
    /// # Errors
    /// Never in a kiln whose tests passed: they read the same bytes.
    pub fn embedded() -> Result<Self, SpecErrors> {
        let security: Table<Row> = yaml::from_str("known/security.yaml", SECURITY)?;
        let history: Table<Row> = yaml::from_str("known/history.yaml", HISTORY)?;
        let no_effect: Table<EffectRow> = yaml::from_str("known/no-effect.yaml", NO_EFFECT)?;
        let unreproducible: Table<UnreproducibleRow> =
            yaml::from_str("known/unreproducible.yaml", UNREPRODUCIBLE)?;
        Ok(Self {
            unreproducible: unreproducible.rows,
            security: security.rows,
            history: history.rows,
            no_effect: no_effect.rows,
        })
    }

    /// The security list.
    pub fn security_rows(&self) -> &[Row] {
        &self.security
    }

    /// Why a symbol is on the security list, where it is.
    pub fn security(&self, symbol: &str) -> Option<Known> {
        find(&self.security, symbol)
    }

    /// The same where `value` is on the weaker side, or is no plain side at all.
    pub fn weakened(&self, symbol: &str, value: &Value) -> Option<Known> {
        let row = covering(&self.security, symbol)?;
        let stronger = match value {
            Value::Yes | Value::Module => row.weaker == Side::Off,
            Value::No => row.weaker == Side::On,
            _ => false,
        };
        (!stronger).then(|| row.known())
    }

    /// What became of a symbol, where that is known.
    pub fn history(&self, symbol: &str) -> Option<Known> {
        find(&self.history, symbol)
    }

    /// The symbol to ask for in place of one that is gone, where that is known.
    pub fn successor(&self, symbol: &str) -> Option<String> {
        let now = covering(&self.history, symbol)?.now.as_ref()?;
        Some(now.replace('*', symbol))
    }

    /// The values of `resolved` with which two builds could differ, each as it is shown.
    pub fn unreproducible<'a>(
        &'a self,
        resolved: &'a DotConfig,
    ) -> impl Iterator<Item = (&'a UnreproducibleRow, String)> {
        self.unreproducible.iter().filter_map(|row| {
            let value = resolved.value(&row.symbol)?;
            row.covers(value).then(|| (row, shown(Some(value))))
        })
    }

    /// Why a value that holds in `resolved` has no effect there, where that is known.
    pub fn no_effect(&self, symbol: &str, resolved: &DotConfig) -> Option<(Severity, Known)> {
        let holds = |symbol: &str, value: &str| {
            *resolved.value(symbol).unwrap_or(&Value::No) == Value::parse(value)
        };
        let row = self.no_effect.iter().find(|row| {
            row.symbol == symbol
                && holds(symbol, &row.value)
                && row.when.iter().all(|(symbol, value)| holds(symbol, value))
        })?;
        let severity = match row.weight {
            Weight::Warn => Severity::Warn,
            Weight::Note => Severity::Note,
        };
        let known = Known {
            text: row.text.clone(),
            source: row.source.clone(),
        };
        Some((severity, known))
    }
}

fn find(rows: &[Row], symbol: &str) -> Option<Known> {
    covering(rows, symbol).map(Row::known)
}

fn covering<'a>(rows: &'a [Row], symbol: &str) -> Option<&'a Row> {
    let covers = |row: &&Row| row.symbols.iter().any(|pattern| matches(pattern, symbol));
    rows.iter().find(covers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_tables_read_and_every_row_says_where_it_is_from() {
        let facts = Facts::embedded().unwrap();
        for row in facts.security.iter().chain(&facts.history) {
            assert!(!row.symbols.is_empty(), "{row:?}");
            assert!(!row.text.is_empty() && row.source.len() > 10, "{row:?}");
        }
        for row in &facts.unreproducible {
            assert!(!row.text.is_empty() && row.source.len() > 10, "{row:?}");
        }
        for row in &facts.no_effect {
            assert!(!row.text.is_empty() && row.source.len() > 10, "{row:?}");
            assert!(
                !matches!(Value::parse(&row.value), Value::Loose(_)),
                "{row:?}"
            );
        }
    }

    #[test]
    fn a_value_and_its_twin_are_told_apart() {
        let facts = Facts::embedded().unwrap();
        let found = |line: &str| {
            let config = DotConfig::parse(format!("{line}\n"));
            let mut rows = facts.unreproducible(&config);
            rows.next().map(|(row, value)| (row.verdict, value))
        };
        for row in &facts.unreproducible {
            let value = row.value.clone();
            let value = value.unwrap_or_else(|| match row.symbol.as_str() {
                "EXTRA_FIRMWARE" | "INITRAMFS_SOURCE" => "\"file\"".to_owned(),
                _ => "y".to_owned(),
            });
            let symbol = &row.symbol;
            let (verdict, _) = found(&format!("CONFIG_{symbol}={value}")).unwrap();
            assert_eq!(verdict, row.verdict, "{symbol}");
            assert_eq!(found(&format!("# CONFIG_{symbol} is not set")), None);
            assert_eq!(found(&format!("CONFIG_{symbol}=\"\"")), None);
        }
        assert_eq!(found("CONFIG_MODULE_SIG_KEY=\"my/key.pem\""), None);
        assert_eq!(found("CONFIG_RANDSTRUCT_NONE=y"), None);
        let (verdict, value) = found("CONFIG_IKHEADERS=m").unwrap();
        assert_eq!((verdict, value.as_str()), (Verdict::Handled, "m"));
    }

    #[test]
    fn patterns_and_conditions_hold() {
        let facts = Facts::embedded().unwrap();
        assert!(facts.security("MITIGATION_SRSO").is_some());
        assert!(facts.security("DRM_I915").is_none());
        assert!(facts.weakened("MITIGATION_SRSO", &Value::No).is_some());
        assert!(facts.weakened("MITIGATION_SRSO", &Value::Yes).is_none());
        assert!(facts.weakened("COMPAT_VDSO", &Value::Yes).is_some());
        assert!(facts.weakened("COMPAT_VDSO", &Value::No).is_none());
        assert!(
            facts
                .weakened("LSM", &Value::Text("yama".to_owned()))
                .is_some()
        );
        assert!(facts.history("NO_HZ_FULL_ALL").is_some());
        assert_eq!(
            facts.successor("RETPOLINE").unwrap(),
            "MITIGATION_RETPOLINE"
        );
        assert_eq!(facts.successor("SLAB"), None);
        let both = DotConfig::parse("CONFIG_CPU_IDLE_GOV_TEO=y\nCONFIG_CPU_IDLE_GOV_MENU=y\n");
        assert!(facts.no_effect("CPU_IDLE_GOV_TEO", &both).is_some());
        let alone = DotConfig::parse("CONFIG_CPU_IDLE_GOV_TEO=y\n");
        assert!(facts.no_effect("CPU_IDLE_GOV_TEO", &alone).is_none());
    }
}
