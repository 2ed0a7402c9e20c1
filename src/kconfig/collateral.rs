//! What changed beside the requests, against the base run alone through the same tree.

use std::collections::{HashMap, HashSet, VecDeque};

use super::definitions::{Symbol, symbols_in};
use super::finding::{Finding, Kind, Rival, Severity};
use super::guard::Evidence;
use super::judge::why;
use super::request::{Request, shown};
use crate::dotconfig::{Change, Value};

/// Finds collateral and judges it by the security list and the pipeline's allow-list.
pub(super) fn find(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    let changes = evidence.base_alone.diff(evidence.resolved);
    let graph = Graph::new(evidence, &changes);
    let mut used = vec![false; evidence.allowed.len()];
    for change in &changes {
        if graph.requests.contains_key(change.symbol.as_str()) {
            continue;
        }
        findings.push(one(evidence, &graph, change, &mut used));
    }
    for (row, used) in evidence.allowed.iter().zip(used) {
        if !used {
            let symbols = row.symbols.iter().map(|s| s.value.clone()).collect();
            let kind = Kind::AllowanceUnused {
                symbols,
                cause: row.cause.value.clone(),
            };
            findings.push(Finding::new(Severity::Warn, "", kind));
        }
    }
}

fn one(evidence: &Evidence<'_>, graph: &Graph<'_>, change: &Change, used: &mut [bool]) -> Finding {
    let security = evidence.facts.security(&change.symbol);
    let causes = graph.causes(&change.symbol);
    let (severity, kind) = match graph.sibling(&change.symbol) {
        Some(by) if lost(change) && security.is_none() => (Severity::Note, Kind::SiblingOff { by }),
        _ => {
            let allowed = allowance(evidence, graph, &change.symbol, &causes, used);
            let severity = if allowed.is_some() {
                Severity::Note
            } else {
                weight(evidence, change, !causes.is_empty(), security.is_some())
            };
            let kind = Kind::Collateral {
                security,
                causes,
                allowed,
            };
            (severity, kind)
        }
    };
    let mut finding = Finding::new(severity, &change.symbol, kind);
    finding.before = Some(shown(change.from.as_ref()));
    finding.actual = Some(shown(change.to.as_ref()));
    finding.why = why(evidence.definitions, &change.symbol, evidence.resolved);
    finding
}

/// How much a change weighs that no one allowed.
fn weight(evidence: &Evidence<'_>, change: &Change, caused: bool, security: bool) -> Severity {
    // Without a line in the base it came into being with its default, because a request made it
    // visible: nothing that was there has changed.
    let appeared = evidence.base_alone.line_of(&change.symbol).is_none();
    // A value without a prompt is no option: `HZ` and `TINY_RCU` follow from others, and whatever
    // of those changed is listed itself.
    let known = evidence.definitions.symbol(&change.symbol);
    let follows = known.is_some_and(|known| !known.has_prompt());
    // On because a request selects it, or needs it.
    let gained = caused && !is_on(change.from.as_ref()) && is_on(change.to.as_ref());
    match security {
        true if appeared => Severity::Warn,
        true => Severity::Block,
        false if appeared || follows || gained => Severity::Note,
        false if lost(change) => Severity::Block,
        false => Severity::Warn,
    }
}

fn is_on(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Yes | Value::Module))
}

fn lost(change: &Change) -> bool {
    is_on(change.from.as_ref()) && !is_on(change.to.as_ref())
}

/// The reason why the pipeline accepts the change.
fn allowance(
    evidence: &Evidence<'_>,
    graph: &Graph<'_>,
    symbol: &str,
    causes: &[Rival],
    used: &mut [bool],
) -> Option<String> {
    for (row, used) in evidence.allowed.iter().zip(used) {
        let cause = row.cause.value.as_str();
        // Where the needs lead to requests, the row must name one of those: accepting what one
        // request costs does not accept what another does.
        let caused = if causes.is_empty() {
            graph.requests.contains_key(cause)
        } else {
            causes.iter().any(|rival| rival.symbol == cause)
        };
        if caused && row.covers(symbol) {
            *used = true;
            return Some(row.why.clone());
        }
    }
    None
}

/// The changed symbols and what they hang on, as written in the Kconfig files.
struct Graph<'a> {
    evidence: &'a Evidence<'a>,
    changed: HashSet<&'a str>,
    requests: HashMap<&'a str, &'a Request>,
}

impl<'a> Graph<'a> {
    fn new(evidence: &'a Evidence<'a>, changes: &'a [Change]) -> Self {
        let requests = &evidence.merged.requests;
        Self {
            evidence,
            changed: changes.iter().map(|c| c.symbol.as_str()).collect(),
            requests: requests.iter().map(|r| (r.symbol.as_str(), r)).collect(),
        }
    }

    fn rival(request: &Request) -> Rival {
        Rival {
            symbol: request.symbol.clone(),
            origin: request.origin.clone(),
        }
    }

    /// The requested member that a symbol of the same choice gave way to.
    fn sibling(&self, symbol: &str) -> Option<Rival> {
        let definitions = self.evidence.definitions;
        let choice = definitions.symbol(symbol)?.choice()?;
        let members = &definitions.choice(choice)?.members;
        let on = |request: &&&Request| {
            !request.wanted.value.is_off() && !self.evidence.resolved.is_off(&request.symbol)
        };
        let requests = members.iter().filter_map(|m| self.requests.get(m.as_str()));
        requests.filter(on).map(|r| Self::rival(r)).next()
    }

    /// The requests that a changed symbol hangs on, through other changed symbols.
    fn causes(&self, symbol: &str) -> Vec<Rival> {
        let mut seen = HashSet::from([symbol]);
        let mut queue = VecDeque::from([symbol]);
        let mut causes = Vec::new();
        while let Some(symbol) = queue.pop_front() {
            for name in self.neighbours(symbol) {
                let changed = self.changed.contains(name);
                if !changed || !seen.insert(name) {
                    continue;
                }
                match self.requests.get(name) {
                    Some(request) => causes.push(Self::rival(request)),
                    None => queue.push_back(name),
                }
            }
        }
        causes.sort_by(|a, b| a.origin.cmp(&b.origin));
        causes
    }

    /// The symbols that decide about a symbol: those in its needs, prompts, defaults and ranges,
    /// those that select or imply it, and the members of its choice.
    fn neighbours(&self, symbol: &str) -> Vec<&'a str> {
        let definitions = self.evidence.definitions;
        let Some(known) = definitions.symbol(symbol) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for definition in &known.definitions {
            let texts = definition.depends.iter().map(String::as_str);
            let conditional = definition
                .prompt
                .iter()
                .chain(&definition.defaults)
                .chain(&definition.ranges);
            for item in conditional {
                names.extend(
                    item.condition
                        .as_deref()
                        .map(symbols_in)
                        .unwrap_or_default(),
                );
            }
            let values = definition.defaults.iter().chain(&definition.ranges);
            for text in texts.chain(values.map(|value| value.text.as_str())) {
                names.extend(symbols_in(text));
            }
        }
        for source in known.selected_by.iter().chain(&known.implied_by) {
            names.push(source.text.as_str());
            names.extend(
                source
                    .condition
                    .as_deref()
                    .map(symbols_in)
                    .unwrap_or_default(),
            );
        }
        let choice = Symbol::choice(known).and_then(|index| definitions.choice(index));
        names.extend(
            choice
                .into_iter()
                .flat_map(|c| &c.members)
                .map(String::as_str),
        );
        names
    }
}
