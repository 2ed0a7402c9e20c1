//! What the kernel's `conf` says while it resolves a configuration.
//!
//! It ends with 0 whatever it drops, so these lines are all that a caller learns from it.

/// One thing that `conf` (or make) said while it resolved a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KconfigWarning {
    /// The configuration names a symbol that no Kconfig file defines.
    UnknownSymbol {
        /// Line in the merged configuration.
        line: u32,
        /// The name without `CONFIG_`.
        symbol: String,
    },
    /// A value that the symbol's type does not allow, such as `m` for a bool.
    InvalidValue {
        /// Line in the merged configuration.
        line: u32,
        /// The name without `CONFIG_`.
        symbol: String,
        /// The value.
        value: String,
    },
    /// A line that is neither an assignment nor a comment.
    UnexpectedData {
        /// Line in the merged configuration.
        line: u32,
        /// The line's text.
        text: String,
    },
    /// A second line for a symbol.
    Reassigned {
        /// Line in the merged configuration.
        line: u32,
        /// The name without `CONFIG_`.
        symbol: String,
    },
    /// A symbol was forced on by `select` although what it depends on is off.
    UnmetDependency {
        /// The name without `CONFIG_`.
        symbol: String,
        /// The lines that explain it.
        detail: Vec<String>,
    },
    /// Anything else, word for word, so that nothing is lost.
    Other(String),
}

/// Reads what a configuration target printed.
///
/// Formats: `conf_warning` and `conf_set_sym_val` of `scripts/kconfig/confdata.c`,
/// `sym_warn_unmet_dep` of `symbol.c`. What make says of its own work is left out.
pub fn warnings(log: &str) -> Vec<KconfigWarning> {
    let mut found: Vec<KconfigWarning> = Vec::new();
    for line in log.lines() {
        if let Some(symbol) = line.strip_prefix("WARNING: unmet direct dependencies detected for ")
        {
            found.push(KconfigWarning::UnmetDependency {
                symbol: symbol.to_owned(),
                detail: Vec::new(),
            });
        } else if let (Some(KconfigWarning::UnmetDependency { detail, .. }), true) =
            (found.last_mut(), is_unmet_detail(line))
        {
            detail.push(line.trim().to_owned());
        } else if let Some(warning) = config_warning(line) {
            found.push(warning);
        } else if !is_make_talk(line) {
            found.push(KconfigWarning::Other(line.to_owned()));
        }
    }
    found
}

fn is_unmet_detail(line: &str) -> bool {
    ["  Depends on [", "  Selected by [", "  - "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// `.config:12:warning: TEXT`.
fn config_warning(line: &str) -> Option<KconfigWarning> {
    let rest = line.strip_prefix(".config:")?;
    let (number, text) = rest.split_once(":warning: ")?;
    let line = number.parse().ok()?;
    if let Some(symbol) = text.strip_prefix("unknown symbol: ") {
        let symbol = symbol.to_owned();
        return Some(KconfigWarning::UnknownSymbol { line, symbol });
    }
    if let Some(symbol) = text.strip_prefix("override: reassigning to symbol ") {
        let symbol = symbol.to_owned();
        return Some(KconfigWarning::Reassigned { line, symbol });
    }
    if let Some(data) = text.strip_prefix("unexpected data: ") {
        let text = data.to_owned();
        return Some(KconfigWarning::UnexpectedData { line, text });
    }
    let invalid = text.strip_prefix("symbol value '")?;
    // The value may contain the separator, a symbol's name cannot.
    let (value, symbol) = invalid.rsplit_once("' invalid for ")?;
    Some(KconfigWarning::InvalidValue {
        line,
        symbol: symbol.to_owned(),
        value: value.to_owned(),
    })
}

/// Lines in which make and conf tell what they do.
fn is_make_talk(line: &str) -> bool {
    line.trim().is_empty()
        || line.starts_with("make: ")
        || line.starts_with("make[")
        || line.starts_with('#')
        || line.starts_with("***")
        || line.starts_with("Using ")
        || line.starts_with("Merging ")
        || line.starts_with("Value of ")
        || line.starts_with("Previous value: ")
        || line.starts_with("New value: ")
        || line
            .strip_prefix("  ")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From real runs on 6.12.117, put together.
    const LOG: &str = "\
make: Entering directory '/build/src'
make[1]: Entering directory '/build/out/tree'
  GEN     Makefile
  HOSTCC  scripts/kconfig/conf.o
  HOSTLD  scripts/kconfig/conf
.config:7:warning: unknown symbol: NO_HZ_FULL_ALL
.config:8:warning: symbol value 'm' invalid for CPU_IDLE_GOV_TEO
.config:9:warning: unexpected data:  CONFIG_X=y
.config:10:warning: override: reassigning to symbol EXPERT
.config:11:warning: invalid string found

WARNING: unmet direct dependencies detected for SERIO_I8042
  Depends on [n]: INPUT [=n]
  Selected by [y]:
  - KEYBOARD_ATKBD [=y] && INPUT_KEYBOARD [=y]
#
# configuration written to .config
#
make[1]: Leaving directory '/build/out/tree'
";

    #[test]
    fn each_warning_has_its_kind_and_none_is_lost() {
        let text = |text: &str| text.to_owned();
        assert_eq!(
            warnings(LOG),
            [
                KconfigWarning::UnknownSymbol {
                    line: 7,
                    symbol: text("NO_HZ_FULL_ALL"),
                },
                KconfigWarning::InvalidValue {
                    line: 8,
                    symbol: text("CPU_IDLE_GOV_TEO"),
                    value: text("m"),
                },
                KconfigWarning::UnexpectedData {
                    line: 9,
                    text: text(" CONFIG_X=y"),
                },
                KconfigWarning::Reassigned {
                    line: 10,
                    symbol: text("EXPERT"),
                },
                KconfigWarning::Other(text(".config:11:warning: invalid string found")),
                KconfigWarning::UnmetDependency {
                    symbol: text("SERIO_I8042"),
                    detail: vec![
                        text("Depends on [n]: INPUT [=n]"),
                        text("Selected by [y]:"),
                        text("- KEYBOARD_ATKBD [=y] && INPUT_KEYBOARD [=y]"),
                    ],
                },
            ]
        );
    }

    #[test]
    fn a_quiet_run_has_no_warnings() {
        let quiet =
            "make: Entering directory '/x'\n  GEN     Makefile\n#\n# No change to .config\n#\n";
        assert_eq!(warnings(quiet), []);
    }

    #[test]
    fn a_value_may_contain_the_separator() {
        let line = ".config:3:warning: symbol value 'a' invalid for b' invalid for HZ";
        assert_eq!(
            warnings(line),
            [KconfigWarning::InvalidValue {
                line: 3,
                symbol: "HZ".to_owned(),
                value: "a' invalid for b".to_owned(),
            }]
        );
    }

    proptest! {
        #[test]
        fn no_log_panics_and_every_strange_line_is_kept(line in "[^\n\r]{0,60}") {
            let found = warnings(&line);
            prop_assert!(found.len() == 1 || is_make_talk(&line));
        }
    }
}
