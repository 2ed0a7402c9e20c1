//! What the base itself loses or gains in this tree with these tools, requests aside.

use std::collections::HashSet;

use super::finding::{Finding, Kind, Severity};
use super::guard::Scene;
use super::judge::why;
use super::request::shown;
use crate::dotconfig::Change;

/// Finds drift and new options that took a default.
pub(super) fn find(scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    let requests = &scene.merged.requests;
    let requested: HashSet<&str> = requests.iter().map(|r| r.symbol.as_str()).collect();
    for change in scene.base.diff(scene.base_alone) {
        let known_to_base = scene.base.line_of(&change.symbol).is_some();
        if known_to_base && !requested.contains(change.symbol.as_str()) {
            findings.push(drift(scene, &change));
        }
    }
    for (symbol, value) in scene.resolved.symbols() {
        if scene.base.line_of(symbol).is_some() || requested.contains(symbol) {
            continue;
        }
        let Some(prompt) = scene.symbols.prompt(symbol) else {
            continue;
        };
        // What a request made visible is its consequence; what the base alone meets is news.
        let unasked = scene.base_alone.line_of(symbol).is_some() && !value.is_off();
        let severity = if unasked {
            Severity::Warn
        } else {
            Severity::Note
        };
        let kind = Kind::NewDefault {
            prompt: prompt.to_owned(),
            help: scene.symbols.help(symbol),
        };
        let mut finding = Finding::new(severity, symbol, kind);
        finding.actual = Some(shown(Some(value)));
        findings.push(finding);
    }
}

fn drift(scene: &Scene<'_>, change: &Change) -> Finding {
    let security = scene.facts.security(&change.symbol);
    // A symbol without a prompt follows from the tools and from others, which are listed too.
    let follows = scene.symbols.is_promptless(&change.symbol);
    let severity = if follows && security.is_none() {
        Severity::Note
    } else {
        Severity::Warn
    };
    let kind = Kind::Drift {
        security,
        defined: !scene.is_unknown(&change.symbol),
        trimmed: false,
        probes: Vec::new(),
        history: scene.facts.history(&change.symbol),
    };
    let mut finding = Finding::new(severity, &change.symbol, kind);
    finding.before = Some(shown(change.from.as_ref()));
    finding.actual = Some(shown(change.to.as_ref()));
    finding.why = why(scene, &change.symbol);
    finding
}
