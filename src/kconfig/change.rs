//! Everything that differs from the base run alone, by whose doing it is.

use serde::Serialize;

use super::merge::Merged;
use super::request::shown;
use super::symbols::Symbols;
use crate::dotconfig::DotConfig;

/// Whose doing a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A line asks for it.
    Asked,
    /// It follows from what was asked: without a prompt, a member of a choice that gave way, or a
    /// default of something that a request made visible.
    Derived,
    /// An option of the base that changed beside the requests.
    Beside,
}

/// One symbol that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// The value that the base alone gives.
    pub before: String,
    /// The value now.
    pub after: String,
    /// Whose doing it is.
    pub class: Class,
}

/// Compares the resolved configuration with the base run alone.
pub(super) fn against(
    base_alone: &DotConfig,
    resolved: &DotConfig,
    merged: &Merged,
    symbols: Symbols<'_>,
) -> Vec<Changed> {
    let changes = base_alone.diff(resolved).into_iter();
    changes
        .map(|change| {
            let asked = merged.requests_for(&change.symbol).next().is_some();
            let follows = symbols.tree().is_some() && symbols.prompt(&change.symbol).is_none()
                || change.from.is_none()
                || gave_way(&change.symbol, merged, symbols);
            let class = match (asked, follows) {
                (true, _) => Class::Asked,
                (false, true) => Class::Derived,
                (false, false) => Class::Beside,
            };
            Changed {
                before: shown(change.from.as_ref()),
                after: shown(change.to.as_ref()),
                symbol: change.symbol,
                class,
            }
        })
        .collect()
}

/// Whether another member of the symbol's choice is asked for.
fn gave_way(symbol: &str, merged: &Merged, symbols: Symbols<'_>) -> bool {
    let mut requests = symbols
        .siblings(symbol)
        .flat_map(|member| merged.requests_for(member));
    requests.any(|request| !request.wanted.value.is_off())
}
