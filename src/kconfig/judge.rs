//! Each request against the resolved configuration.

use super::explain::Selector;
use super::finding::{Finding, Kind, Requested, Rival, Severity, Why};
use super::guard::Scene;
use super::request::{Request, Source, shown};
use super::symbols::Site;
use crate::dotconfig::Value;

/// Judges every request; the number of those that are met.
pub(super) fn requests(scene: &Scene<'_>, findings: &mut Vec<Finding>) -> usize {
    several_members(scene, findings);
    for overridden in &scene.merged.overridden {
        let kind = Kind::Overridden {
            by: overridden.by.clone(),
            reason: overridden.reason.clone(),
        };
        findings.push(about(scene, &overridden.request, Severity::Note, kind));
    }
    let mut met = 0;
    for request in &scene.merged.requests {
        met += usize::from(one(scene, request, findings));
    }
    for origin in &scene.merged.idle_overrides {
        let asks = |request: &&Request| request.origin == *origin;
        if let Some(request) = scene.merged.requests.iter().find(asks) {
            let finding = about(scene, request, Severity::Note, Kind::IdleOverride);
            findings.push(finding);
        }
    }
    met
}

/// Judges one request; whether it is met.
fn one(scene: &Scene<'_>, request: &Request, findings: &mut Vec<Finding>) -> bool {
    let actual = scene.resolved.value(&request.symbol);
    let Some(kind) = fault(scene, request, actual) else {
        holds(scene, request, findings);
        return true;
    };
    if let Kind::OptionalAbsent { .. } = kind {
        findings.push(about(scene, request, Severity::Note, kind));
        return true;
    }
    let expired = match (&request.waiver, scene.today) {
        (Some(waiver), Some(today)) => today > waiver.until,
        // When reproducing, what was waived stays waived.
        _ => false,
    };
    if expired {
        let finding = about(scene, request, Severity::Block, Kind::WaiverExpired);
        findings.push(finding);
    }
    let waived = request.waiver.is_some() && !expired;
    let severity = if waived {
        Severity::Note
    } else {
        Severity::Block
    };
    findings.push(about(scene, request, severity, kind));
    false
}

/// What can still be said of a request that is met.
fn holds(scene: &Scene<'_>, request: &Request, findings: &mut Vec<Finding>) {
    let mut add = |severity, kind| findings.push(about(scene, request, severity, kind));
    if request.waiver.is_some() {
        add(Severity::Block, Kind::WaiverUnneeded);
    }
    if request.source == Source::Fragment && scene.symbols.is_promptless(&request.symbol) {
        add(Severity::Warn, Kind::Derived);
    }
    if let Some((severity, known)) = scene.facts.no_effect(&request.symbol, scene.resolved) {
        add(severity, Kind::NoEffect { known });
    }
    let before = scene.base_alone.value(&request.symbol);
    if request.source == Source::Fragment
        && !request.wanted.accepts(before)
        && let Some(reason) = scene.facts.weakened(&request.symbol, &request.wanted.value)
    {
        let kind = Kind::SecurityAsked { reason };
        let mut finding = about(scene, request, Severity::Warn, kind);
        finding.before = Some(shown(before));
        findings.push(finding);
    }
}

/// What is wrong with a request; nothing where it is met.
fn fault(scene: &Scene<'_>, request: &Request, actual: Option<&Value>) -> Option<Kind> {
    let (name, symbols) = (request.symbol.as_str(), scene.symbols);
    if scene.is_unknown(name) {
        // Off holds for every misspelt name, so the name comes first.
        return Some(if let Some(reason) = &request.optional {
            Kind::OptionalAbsent {
                reason: reason.clone(),
            }
        } else {
            let history = scene.facts.history(name);
            let successor = scene.facts.successor(name);
            let nearest = match &history {
                Some(_) => successor.filter(|now| symbols.get(now).is_some()),
                None => symbols.nearest(name).map(str::to_owned),
            };
            Kind::UnknownSymbol { nearest, history }
        });
    }
    let wanted = &request.wanted;
    if wanted.accepts(actual) {
        return None;
    }
    if let Some(expected) = symbols.kind(name)
        && !expected.takes(&wanted.value)
    {
        return Some(Kind::WrongType {
            expected,
            history: scene.facts.history(name),
        });
    }
    let actual = actual.unwrap_or(&Value::No);
    if symbols.choice(name).is_some() {
        return Some(in_choice(scene, request, actual));
    }
    if symbols.is_promptless(name) {
        return Some(Kind::NoPrompt);
    }
    let selectors = selectors(scene, name);
    let raised = matches!(
        (&wanted.value, actual),
        (Value::No, Value::Yes | Value::Module) | (Value::Module, Value::Yes)
    );
    let ranged = symbols.get(name).is_some_and(|(_, s)| !s.ranges.is_empty());
    Some(match (&wanted.value, actual) {
        _ if raised && !selectors.is_empty() => Kind::ForcedOn { selectors },
        (Value::Yes, Value::Module) => Kind::Lowered,
        (Value::Int(_) | Value::Hex(_), Value::Int(_) | Value::Hex(_)) if ranged => {
            Kind::Clamped { range: None }
        }
        (_, Value::No) => Kind::Lost,
        _ => Kind::Differs,
    })
}

/// A request for a member of a choice that did not come out so.
fn in_choice(scene: &Scene<'_>, request: &Request, actual: &Value) -> Kind {
    if !actual.is_off() {
        // Asked to be off, and on all the same: what a choice does where nothing else is asked.
        return Kind::Differs;
    }
    let mut siblings = scene.symbols.siblings(&request.symbol);
    let by = siblings.find(|member| !scene.resolved.is_off(member));
    let asks = |other: &&Request| Some(other.symbol.as_str()) == by && !other.wanted.value.is_off();
    let origin = scene.merged.requests.iter().find(asks);
    debug_assert!(by != Some(&request.symbol), "an unmet member is not on");
    Kind::Displaced {
        by: by.map(str::to_owned),
        origin: origin.map(|other| other.origin.clone()),
        history: scene.facts.history(&request.symbol),
    }
}

/// The symbols that are on and select this one.
fn selectors(scene: &Scene<'_>, name: &str) -> Vec<Selector> {
    let mut selectors: Vec<Selector> = Vec::new();
    let (Some(tree), Some((_, symbol))) = (scene.symbols.tree(), scene.symbols.get(name)) else {
        return selectors;
    };
    for select in &symbol.selected_by {
        let by = &tree.symbol(select.by).name;
        let known = selectors.iter().any(|known| known.symbol == *by);
        if !known && !scene.resolved.is_off(by) {
            selectors.push(Selector {
                symbol: by.clone(),
                value: shown(scene.resolved.value(by)),
                site: Site::new(tree, select.place),
            });
        }
    }
    selectors
}

/// Requests for several members of one choice, of which the last that is read wins.
fn several_members(scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    let mut by_choice: Vec<(&str, Vec<&Request>)> = Vec::new();
    for request in &scene.merged.requests {
        // A choice is known by its first member.
        let Some(choice) = scene.symbols.siblings(&request.symbol).next() else {
            continue;
        };
        if request.wanted.value != Value::Yes {
            continue;
        }
        match by_choice.iter_mut().find(|(first, _)| *first == choice) {
            Some((_, requests)) => requests.push(request),
            None => by_choice.push((choice, vec![request])),
        }
    }
    for (_, requests) in by_choice {
        if requests.iter().all(|r| r.symbol == requests[0].symbol) {
            continue;
        }
        let members = requests
            .iter()
            .map(|request| Rival {
                symbol: request.symbol.clone(),
                origin: request.origin.clone(),
            })
            .collect();
        let kind = Kind::SeveralMembers { members };
        let last = requests[requests.len() - 1];
        findings.push(about(scene, last, Severity::Block, kind));
    }
}

/// A finding about a request.
fn about(scene: &Scene<'_>, request: &Request, severity: Severity, kind: Kind) -> Finding {
    let mut finding = Finding::new(severity, &request.symbol, kind);
    finding.requested = Some(Requested::of(request));
    finding.actual = Some(shown(scene.resolved.value(&request.symbol)));
    finding.why = why(scene, &request.symbol);
    finding
}

/// What the Kconfig files say about a symbol.
pub(super) fn why(scene: &Scene<'_>, name: &str) -> Option<Why> {
    scene.symbols.get(name)?;
    Some(Why {
        kind: scene.symbols.kind(name),
        defined: scene.symbols.defined(name),
        choice: scene.symbols.in_choice(name),
        ..Why::default()
    })
}
