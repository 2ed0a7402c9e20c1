//! What changed beside the requests, against the base run alone through the same tree.

use std::collections::{HashMap, HashSet, VecDeque};

use super::finding::{Finding, Kind, Rival, Severity};
use super::guard::Scene;
use super::judge::why;
use super::language::{ExprId, SymbolId, Tree};
use super::request::{Request, shown};
use crate::dotconfig::{Change, Value};

/// Finds collateral and judges it by the security list and the pipeline's allow-list.
pub(super) fn find(scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    let changes = scene.base_alone.diff(scene.resolved);
    let graph = Graph::new(scene, &changes);
    let mut used = vec![false; scene.allowed.len()];
    for change in &changes {
        if graph.requests.contains_key(change.symbol.as_str()) {
            continue;
        }
        findings.push(one(scene, &graph, change, &mut used));
    }
    for (row, used) in scene.allowed.iter().zip(used) {
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

fn one(scene: &Scene<'_>, graph: &Graph<'_>, change: &Change, used: &mut [bool]) -> Finding {
    let security = scene.facts.security(&change.symbol);
    let causes = graph.causes(&change.symbol);
    let (severity, kind) = match graph.sibling(&change.symbol) {
        Some(by) if lost(change) && security.is_none() => (Severity::Note, Kind::SiblingOff { by }),
        _ => {
            let allowed = allowance(scene, graph, &change.symbol, &causes, used);
            let severity = if allowed.is_some() {
                Severity::Note
            } else {
                weight(scene, change, !causes.is_empty(), security.is_some())
            };
            let through = graph.through(&change.symbol, &causes);
            let kind = Kind::Collateral {
                security,
                causes,
                through,
                allowed,
            };
            (severity, kind)
        }
    };
    let mut finding = Finding::new(severity, &change.symbol, kind);
    finding.before = Some(shown(change.from.as_ref()));
    finding.actual = Some(shown(change.to.as_ref()));
    finding.why = why(scene, &change.symbol);
    finding
}

/// How much a change weighs that no one allowed.
fn weight(scene: &Scene<'_>, change: &Change, caused: bool, security: bool) -> Severity {
    // Without a line in the base it came into being with its default, because a request made it
    // visible: nothing that was there has changed.
    let appeared = scene.base_alone.line_of(&change.symbol).is_none();
    // A value without a prompt is no option: `HZ` and `TINY_RCU` follow from others, and whatever
    // of those changed is listed itself.
    let follows = scene.symbols.is_promptless(&change.symbol);
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
    scene: &Scene<'_>,
    graph: &Graph<'_>,
    symbol: &str,
    causes: &[Rival],
    used: &mut [bool],
) -> Option<String> {
    for (row, used) in scene.allowed.iter().zip(used) {
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
    scene: &'a Scene<'a>,
    changed: HashSet<&'a str>,
    requests: HashMap<&'a str, &'a Request>,
}

impl<'a> Graph<'a> {
    fn new(scene: &'a Scene<'a>, changes: &'a [Change]) -> Self {
        let requests = &scene.merged.requests;
        Self {
            scene,
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
        let on = |request: &&&Request| {
            !request.wanted.value.is_off() && !self.scene.resolved.is_off(&request.symbol)
        };
        let members = self.scene.symbols.siblings(symbol);
        let requests = members.filter_map(|m| self.requests.get(m));
        requests.filter(on).map(|r| Self::rival(r)).next()
    }

    /// The requests that changed a symbol: as trials told, or else those that it hangs on.
    fn causes(&self, symbol: &str) -> Vec<Rival> {
        if let Some(causes) = self.scene.causes.get(symbol) {
            return causes.clone();
        }
        if self.scene.symbols.tree().is_none() {
            // Nothing tells them apart: each request that changed something may be the cause.
            let requests = self.requests.values();
            let changed = requests.filter(|request| self.changed.contains(request.symbol.as_str()));
            let mut causes: Vec<Rival> = changed.map(|request| Self::rival(request)).collect();
            causes.sort_by(|a, b| a.origin.cmp(&b.origin));
            return causes;
        }
        let mut causes = Vec::new();
        self.walk(symbol, |_, request| {
            causes.push(Self::rival(request));
            false
        });
        causes.sort_by(|a, b| a.origin.cmp(&b.origin));
        causes
    }

    /// The changed symbol next to a cause, through which this one hangs on it; nothing where it
    /// hangs on a cause itself.
    fn through(&self, symbol: &str, causes: &[Rival]) -> Option<String> {
        let mut found = None;
        self.walk(symbol, |by, request| {
            let cause = causes.iter().any(|rival| rival.symbol == request.symbol);
            if cause {
                found = (by != symbol).then(|| by.to_owned());
            }
            cause
        });
        found
    }

    /// Goes from a changed symbol to the changed symbols that it hangs on, nearest first, and calls
    /// `each` with every request that is met and the symbol next to it, until that says stop.
    fn walk(&self, symbol: &str, mut each: impl FnMut(&str, &Request) -> bool) {
        let Some(tree) = self.scene.symbols.tree() else {
            return;
        };
        let Some((start, _)) = self.scene.symbols.get(symbol) else {
            return;
        };
        let mut seen = HashSet::from([start]);
        let mut queue = VecDeque::from([start]);
        while let Some(id) = queue.pop_front() {
            for next in neighbours(tree, id) {
                let name = tree.symbol(next).name.as_str();
                if !self.changed.contains(name) || !seen.insert(next) {
                    continue;
                }
                match self.requests.get(name) {
                    Some(request) => {
                        if each(&tree.symbol(id).name, request) {
                            return;
                        }
                    }
                    None => queue.push_back(next),
                }
            }
        }
    }
}

/// The symbols that decide about a symbol: those in its needs, prompts, defaults and ranges, those
/// that select or imply it, and the members of its choice.
fn neighbours(tree: &Tree, id: SymbolId) -> Vec<SymbolId> {
    let symbol = tree.symbol(id);
    let mut found = Vec::new();
    let mut add = |expr: ExprId| tree.exprs().symbols(expr, &mut |s| found.push(s));
    for node in &symbol.nodes {
        let node = tree.node(*node);
        add(node.dependency);
        if let Some(prompt) = &node.prompt {
            add(prompt.condition);
        }
    }
    for default in &symbol.defaults {
        add(default.condition);
        add(default.value);
    }
    for range in &symbol.ranges {
        add(range.condition);
    }
    let selects = symbol.selected_by.iter().chain(&symbol.implied_by);
    for select in selects.clone() {
        add(select.condition);
    }
    found.extend(selects.map(|select| select.by));
    found.extend(
        symbol
            .ranges
            .iter()
            .flat_map(|range| [range.low, range.high]),
    );
    if let Some(choice) = symbol.choice {
        found.extend(&tree.choice(choice).members);
    }
    found
}
