//! What the base itself loses or gains in this tree with these tools, requests aside.

use std::collections::HashSet;

use super::finding::{Finding, Kind, Severity};
use super::guard::Evidence;
use super::judge::why;
use super::request::shown;
use crate::dotconfig::Change;

/// Finds drift and new options that took a default.
pub(super) fn find(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    let requests = &evidence.merged.requests;
    let requested: HashSet<&str> = requests.iter().map(|r| r.symbol.as_str()).collect();
    for change in evidence.base.diff(evidence.base_alone) {
        let known_to_base = evidence.base.line_of(&change.symbol).is_some();
        if known_to_base && !requested.contains(change.symbol.as_str()) {
            findings.push(drift(evidence, &change));
        }
    }
    for (symbol, value) in evidence.resolved.symbols() {
        if evidence.base.line_of(symbol).is_some() || requested.contains(symbol) {
            continue;
        }
        let known = evidence.definitions.symbol(symbol);
        let mut definitions = known.into_iter().flat_map(|known| &known.definitions);
        let Some(prompt) = definitions.find_map(|definition| definition.prompt.as_ref()) else {
            continue;
        };
        // What a request made visible is its consequence; what the base alone meets is news.
        let unasked = evidence.base_alone.line_of(symbol).is_some() && !value.is_off();
        let severity = if unasked {
            Severity::Warn
        } else {
            Severity::Note
        };
        let kind = Kind::NewDefault {
            prompt: prompt.text.clone(),
        };
        let mut finding = Finding::new(severity, symbol, kind);
        finding.actual = Some(shown(Some(value)));
        findings.push(finding);
    }
}

fn drift(evidence: &Evidence<'_>, change: &Change) -> Finding {
    let known = evidence.definitions.symbol(&change.symbol);
    let security = evidence.facts.security(&change.symbol);
    // A symbol without a prompt follows from the tools and from others, which are listed too.
    let follows = known.is_some_and(|known| !known.has_prompt());
    let severity = if follows && security.is_none() {
        Severity::Note
    } else {
        Severity::Warn
    };
    let kind = Kind::Drift {
        security,
        defined: known.is_some(),
        history: evidence.facts.history(&change.symbol),
    };
    let mut finding = Finding::new(severity, &change.symbol, kind);
    finding.before = Some(shown(change.from.as_ref()));
    finding.actual = Some(shown(change.to.as_ref()));
    finding.why = why(evidence.definitions, &change.symbol, evidence.base_alone);
    finding
}
