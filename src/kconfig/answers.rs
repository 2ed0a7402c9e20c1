//! What the language's engine adds to the guard's findings: reasons, probes, and lines that help.
//!
//! The tree's own tool decides what a configuration resolves to. Where the engine has another value
//! for a symbol than it, nothing is explained about that symbol.

use super::explain::{Answer, Explainer, Fix, Ground};
use super::finding::{Finding, Kind, Severity};
use super::guard::Evidence;
use super::language::Model;
use super::probed::Probed;
use super::request::Request;
use crate::dotconfig::{DotConfig, Value};

/// Adds reasons and fixes. The model has read the merged configuration, and has again at the end.
pub(super) fn add(evidence: &Evidence<'_>, model: &mut Model, findings: &mut [Finding]) {
    let ground = Ground {
        requests: &evidence.merged.requests,
        base: evidence.base,
    };
    let mut explainer = Explainer::new(model, ground);
    for finding in findings.iter_mut() {
        if finding.requested.is_some() {
            request(evidence, &mut explainer, finding);
        } else if let Kind::Collateral { .. } = finding.kind
            && finding.severity != Severity::Note
        {
            reason(evidence.resolved, &explainer, finding);
        }
    }
    drift(evidence, model, findings);
}

/// Explains a request that does not hold.
fn request(evidence: &Evidence<'_>, explainer: &mut Explainer<'_>, finding: &mut Finding) {
    let of = |request: &&Request| {
        let origin = finding.origin() == Some(&request.origin);
        origin && request.symbol == finding.symbol
    };
    let Some(request) = evidence.merged.requests.iter().find(of) else {
        return;
    };
    match &finding.kind {
        Kind::UnknownSymbol {
            nearest: Some(nearest),
            ..
        } => {
            let instead = explainer.wish(nearest, &request.wanted.value);
            let fix = instead.map(|answer| answer.fix.instead());
            finding.fix = fix.filter(|fix| *fix != Fix::None);
        }
        Kind::WrongType { .. }
        | Kind::NoPrompt
        | Kind::Displaced { .. }
        | Kind::ForcedOn { .. }
        | Kind::Lowered
        | Kind::Lost
        | Kind::Clamped { .. }
        | Kind::Differs => {
            if !explainer.agrees(&finding.symbol, evidence.resolved.value(&finding.symbol)) {
                return;
            }
            if let Some(answer) = explainer.request(request) {
                finding.kind = refined(&finding.kind, &answer);
                tell(finding, answer);
            }
        }
        _ => {}
    }
}

/// The verdict, now that the cause is known.
fn refined(kind: &Kind, answer: &Answer) -> Kind {
    let probes = answer.probes();
    match kind {
        Kind::WrongType { .. } => kind.clone(),
        _ if !probes.is_empty() => Kind::Toolchain {
            probes: probes.into_iter().cloned().collect(),
        },
        Kind::Clamped { .. } | Kind::Differs if answer.hidden => Kind::Hidden,
        Kind::Clamped { .. } => Kind::Clamped {
            range: answer.range.clone(),
        },
        _ => kind.clone(),
    }
}

fn tell(finding: &mut Finding, answer: Answer) {
    if let Some(why) = &mut finding.why {
        why.set = Some(answer.set);
        why.needs = answer.needs;
    }
    finding.fix = Some(answer.fix);
}

/// Tells why a symbol lost the value that it had before.
fn reason(resolved: &DotConfig, explainer: &Explainer<'_>, finding: &mut Finding) {
    if !explainer.agrees(&finding.symbol, resolved.value(&finding.symbol)) {
        return;
    }
    let before = finding.before.as_deref().map_or(Value::Yes, Value::parse);
    if let Some(answer) = explainer.reason(&finding.symbol, &before)
        && let Some(why) = &mut finding.why
    {
        why.set = Some(answer.set);
        why.needs = answer.needs;
    }
}

/// Names the probes behind what the base alone lost.
fn drift(evidence: &Evidence<'_>, model: &mut Model, findings: &mut [Finding]) {
    let drift = |finding: &&mut Finding| matches!(finding.kind, Kind::Drift { .. });
    let mut findings = findings.iter_mut().filter(drift).peekable();
    if findings.peek().is_none() {
        return;
    }
    model.read(evidence.base.text());
    let ground = Ground {
        requests: &[],
        base: evidence.base,
    };
    let explainer = Explainer::new(model, ground);
    let probed = Probed::new(explainer.model().tree());
    for finding in findings {
        let name = finding.symbol.clone();
        if explainer.agrees(&name, evidence.base_alone.value(&name)) {
            reason(evidence.base_alone, &explainer, finding);
            if let Kind::Drift { probes, .. } = &mut finding.kind {
                *probes = explainer.probes_behind(&name, &probed);
            }
        }
    }
    model.read(evidence.merged.text());
}
