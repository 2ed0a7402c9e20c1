//! Each request against the resolved configuration.

use super::definitions::{Definitions, Symbol, Type, symbols_in};
use super::finding::{DefinedAt, Finding, InChoice, Kind, Requested, Rival, Severity, Term, Why};
use super::guard::Evidence;
use super::request::{Request, Source, shown};
use crate::dotconfig::{DotConfig, Value};

/// Judges every request; the number of those that are met.
pub(super) fn requests(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) -> usize {
    several_members(evidence, findings);
    let mut met = 0;
    for request in &evidence.merged.requests {
        met += usize::from(one(evidence, request, findings));
    }
    for origin in &evidence.merged.idle_overrides {
        let asks = |request: &&Request| request.origin == *origin;
        if let Some(request) = evidence.merged.requests.iter().find(asks) {
            let finding = about(evidence, request, Severity::Note, Kind::IdleOverride);
            findings.push(finding);
        }
    }
    met
}

/// Judges one request; whether it is met.
fn one(evidence: &Evidence<'_>, request: &Request, findings: &mut Vec<Finding>) -> bool {
    let actual = evidence.resolved.value(&request.symbol);
    let Some(kind) = fault(evidence, request, actual) else {
        holds(evidence, request, findings);
        return true;
    };
    if let Kind::OptionalAbsent { .. } = kind {
        findings.push(about(evidence, request, Severity::Note, kind));
        return true;
    }
    let expired = match (&request.waiver, evidence.today) {
        (Some(waiver), Some(today)) => today > waiver.until,
        // When reproducing, what was waived stays waived.
        _ => false,
    };
    if expired {
        let finding = about(evidence, request, Severity::Block, Kind::WaiverExpired);
        findings.push(finding);
    }
    let waived = request.waiver.is_some() && !expired;
    let severity = if waived {
        Severity::Note
    } else {
        Severity::Block
    };
    findings.push(about(evidence, request, severity, kind));
    false
}

/// What can still be said of a request that is met.
fn holds(evidence: &Evidence<'_>, request: &Request, findings: &mut Vec<Finding>) {
    let symbol = evidence.definitions.symbol(&request.symbol);
    let mut add = |severity, kind| findings.push(about(evidence, request, severity, kind));
    if request.waiver.is_some() {
        add(Severity::Block, Kind::WaiverUnneeded);
    }
    if request.source == Source::Fragment && symbol.is_some_and(|symbol| !symbol.has_prompt()) {
        add(Severity::Warn, Kind::Derived);
    }
    if let Some((severity, known)) = evidence.facts.no_effect(&request.symbol, evidence.resolved) {
        add(severity, Kind::NoEffect { known });
    }
    let before = evidence.base_alone.value(&request.symbol);
    if request.source == Source::Fragment
        && !request.wanted.accepts(before)
        && let Some(reason) = evidence
            .facts
            .weakened(&request.symbol, &request.wanted.value)
    {
        let kind = Kind::SecurityAsked { reason };
        let mut finding = about(evidence, request, Severity::Warn, kind);
        finding.before = Some(shown(before));
        findings.push(finding);
    }
}

/// What is wrong with a request; nothing where it is met.
fn fault(evidence: &Evidence<'_>, request: &Request, actual: Option<&Value>) -> Option<Kind> {
    let Some(symbol) = evidence.definitions.symbol(&request.symbol) else {
        // Off holds for every misspelt name, so the name comes first.
        return Some(if let Some(reason) = &request.optional {
            Kind::OptionalAbsent {
                reason: reason.clone(),
            }
        } else {
            let nearest = evidence.definitions.nearest(&request.symbol);
            Kind::UnknownSymbol {
                nearest: nearest.map(str::to_owned),
                history: evidence.facts.history(&request.symbol),
            }
        });
    };
    let wanted = &request.wanted;
    if wanted.accepts(actual) {
        return None;
    }
    if let Some(expected) = symbol.kind
        && !fits(expected, &wanted.value)
    {
        return Some(Kind::WrongType {
            expected,
            history: evidence.facts.history(&request.symbol),
        });
    }
    let actual = actual.unwrap_or(&Value::No);
    if let Some(choice) = symbol.choice() {
        return Some(in_choice(evidence, choice, request, actual));
    }
    if !symbol.has_prompt() {
        return Some(Kind::NoPrompt);
    }
    let selectors = selectors(symbol, evidence.resolved);
    let raised = matches!(
        (&wanted.value, actual),
        (Value::No, Value::Yes | Value::Module) | (Value::Module, Value::Yes)
    );
    Some(match (&wanted.value, actual) {
        _ if raised && !selectors.is_empty() => Kind::ForcedOn { selectors },
        (Value::Yes, Value::Module) => Kind::Lowered,
        (Value::Int(_) | Value::Hex(_), Value::Int(_) | Value::Hex(_)) => {
            let ranges = symbol.definitions.iter().flat_map(|d| &d.ranges);
            let ranges: Vec<_> = ranges.cloned().collect();
            if ranges.is_empty() {
                Kind::Differs
            } else {
                Kind::Clamped { ranges }
            }
        }
        (_, Value::No) => Kind::Lost,
        _ => Kind::Differs,
    })
}

/// Whether a symbol of this type can have the value.
fn fits(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Bool => matches!(value, Value::Yes | Value::No),
        Type::Tristate => matches!(value, Value::Yes | Value::Module | Value::No),
        // A number that is off has no line; that is a request like another.
        Type::Int => matches!(value, Value::Int(_) | Value::No),
        // `10` is read as hexadecimal, and kept as written.
        Type::Hex => matches!(value, Value::Hex(_) | Value::Int(_) | Value::No),
        Type::String => matches!(value, Value::Text(_) | Value::No),
    }
}

/// A request for a member of a choice that did not come out so.
fn in_choice(evidence: &Evidence<'_>, choice: usize, request: &Request, actual: &Value) -> Kind {
    if !actual.is_off() {
        // Asked to be off, and on all the same: what a choice does where nothing else is asked.
        return Kind::Differs;
    }
    let members = evidence.definitions.choice(choice).map(|c| &c.members);
    let by = members
        .into_iter()
        .flatten()
        .find(|member| !evidence.resolved.is_off(member));
    let asks = |other: &&Request| Some(&other.symbol) == by && !other.wanted.value.is_off();
    let origin = evidence.merged.requests.iter().find(asks);
    debug_assert!(by != Some(&request.symbol), "an unmet member is not on");
    Kind::Displaced {
        by: by.cloned(),
        origin: origin.map(|other| other.origin.clone()),
        history: evidence.facts.history(&request.symbol),
    }
}

/// The symbols that are on and select this one.
fn selectors(symbol: &Symbol, resolved: &DotConfig) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for selector in &symbol.selected_by {
        let known = terms.iter().any(|term| term.symbol == selector.text);
        if !known && !resolved.is_off(&selector.text) {
            terms.push(term(&selector.text, resolved));
        }
    }
    terms
}

fn term(symbol: &str, resolved: &DotConfig) -> Term {
    let value = resolved.value(symbol);
    Term {
        symbol: symbol.to_owned(),
        value: if resolved.is_off(symbol) {
            "not set".to_owned()
        } else {
            shown(value)
        },
    }
}

/// Requests for several members of one choice, of which the last that is read wins.
fn several_members(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    let mut by_choice: Vec<(usize, Vec<&Request>)> = Vec::new();
    for request in &evidence.merged.requests {
        let symbol = evidence.definitions.symbol(&request.symbol);
        let Some(choice) = symbol.and_then(Symbol::choice) else {
            continue;
        };
        if request.wanted.value != Value::Yes {
            continue;
        }
        match by_choice.iter_mut().find(|(index, _)| *index == choice) {
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
        findings.push(about(evidence, last, Severity::Block, kind));
    }
}

/// A finding about a request.
fn about(evidence: &Evidence<'_>, request: &Request, severity: Severity, kind: Kind) -> Finding {
    let mut finding = Finding::new(severity, &request.symbol, kind);
    finding.requested = Some(Requested {
        value: request.wanted.to_string(),
        origin: request.origin.clone(),
        source: request.source,
        why: request.why.clone(),
        waiver: request.waiver.clone(),
    });
    finding.actual = Some(shown(evidence.resolved.value(&request.symbol)));
    finding.why = why(evidence.definitions, &request.symbol, evidence.resolved);
    finding
}

/// What the definitions say about a symbol.
pub(super) fn why(definitions: &Definitions, symbol: &str, resolved: &DotConfig) -> Option<Why> {
    let known = definitions.symbol(symbol)?;
    let mut terms: Vec<Term> = Vec::new();
    for definition in &known.definitions {
        let prompt = definition.prompt.as_ref();
        let condition = prompt.and_then(|prompt| prompt.condition.as_ref());
        for expression in definition.depends.iter().chain(condition) {
            for name in symbols_in(expression) {
                if !terms.iter().any(|term| term.symbol == name) {
                    terms.push(term(name, resolved));
                }
            }
        }
    }
    let choice = known.choice().and_then(|index| definitions.choice(index));
    Some(Why {
        kind: known.kind,
        defined: known
            .definitions
            .iter()
            .map(|definition| DefinedAt {
                site: definition.site.clone(),
                prompt: definition.prompt.clone(),
                depends: definition.depends.clone(),
            })
            .collect(),
        terms,
        choice: choice.map(|choice| InChoice {
            site: choice.site.clone(),
            prompt: choice.prompt.clone(),
        }),
    })
}
