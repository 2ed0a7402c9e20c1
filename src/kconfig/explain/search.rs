//! The search for lines that make a request hold.
//!
//! Every answer was tried: the configuration with the lines has the value, and every other request
//! that held before holds still. How long is searched is counted in work, not in time, so that the
//! same question always has the same answer.

use std::collections::{HashMap, HashSet};

use super::steps::{Aim, steps};
use crate::dotconfig::Value;
use crate::kconfig::language::{Ask, Model, SymbolId, Tri, Type};
use crate::kconfig::request::{Request, Wanted};

/// Symbols that are computed for one answer, in each of the two ways of searching: under a second.
const MOST_WORK: usize = 100_000;

/// What a trial costs beside the symbols that it changes, in symbols.
const TRIAL: usize = 25;

/// Up to this many lines every way is tried, and of the shortest answers the one that costs least
/// is taken; a longer one where those would lose many options.
const EXHAUSTIVE: usize = 3;

/// An answer has no more lines than this.
const LONGEST: usize = 14;

/// Options that may be lost more or less before one way is called dearer than another.
const ABOUT: usize = 16;

/// Ways that are tried beyond [`EXHAUSTIVE`] lines at each step.
const GREEDY_WAYS: usize = 5;

/// The symbol's value as its line has it; nothing where it has none.
pub(super) fn current(model: &Model, symbol: SymbolId) -> Option<Value> {
    model.line(symbol)?;
    Some(match model.tree().symbol(symbol).kind {
        Type::Text => Value::Text(model.value(symbol).to_owned()),
        _ => Value::parse(model.value(symbol)),
    })
}

/// What is wanted of one symbol.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    pub(super) symbol: SymbolId,
    pub(super) wanted: Wanted,
}

impl Goal {
    pub(super) fn met(&self, model: &Model) -> bool {
        self.wanted.accepts(current(model, self.symbol).as_ref())
    }

    /// What must change first.
    fn aim(&self, model: &Model) -> Aim {
        let at_most = |value| Aim::AtMost(self.symbol, value);
        match &self.wanted.value {
            Value::Yes => Aim::AtLeast(self.symbol, Tri::Yes),
            Value::Module if model.tri(self.symbol) == Tri::Yes => at_most(Tri::Mod),
            Value::Module => Aim::AtLeast(self.symbol, Tri::Mod),
            Value::No => at_most(Tri::No),
            Value::Int(text) | Value::Hex(text) | Value::Text(text) | Value::Loose(text) => {
                Aim::Text(self.symbol, text.clone())
            }
        }
    }
}

/// What every answer must leave as it is.
#[derive(Debug, Default)]
pub(super) struct Keep {
    /// What the requests accept for a symbol.
    pinned: HashMap<SymbolId, Vec<Goal>>,
    /// The requests that hold.
    held: HashMap<SymbolId, Vec<Goal>>,
}

impl Keep {
    /// Keeps what holds now of these requests.
    pub(super) fn new<'r>(model: &Model, requests: impl Iterator<Item = &'r Request>) -> Self {
        let mut keep = Self::default();
        for request in requests {
            let Some(symbol) = model.tree().find(&request.symbol) else {
                continue;
            };
            let goal = Goal {
                symbol,
                wanted: request.wanted.clone(),
            };
            if goal.met(model) {
                keep.held.entry(symbol).or_default().push(goal.clone());
            }
            keep.pinned.entry(symbol).or_default().push(goal);
        }
        keep
    }

    /// Whether a line says nothing else than the requests do.
    fn allows(&self, line: &Ask) -> bool {
        let value = Value::parse(&line.value);
        let pins = self.pinned.get(&line.symbol);
        pins.is_none_or(|pins| pins.iter().all(|goal| goal.wanted.accepts(Some(&value))))
    }

    /// A request that held and no longer does.
    fn broken(&self, model: &Model, changed: &[SymbolId]) -> Option<&Goal> {
        let goals = changed.iter().filter_map(|symbol| self.held.get(symbol));
        goals.flatten().find(|goal| !goal.met(model))
    }
}

/// What an answer costs beside its lines: options that go, and symbols that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    lost: usize,
    changed: usize,
}

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    /// The lines; nothing where none were found.
    pub(super) lines: Option<Vec<Ask>>,
    /// Whether other requests stood in the way of any line, so that there may be lines without
    /// them.
    pub(super) hindered: bool,
}

/// Searches lines that, after `always`, bring about the goal, shortest first.
pub(super) fn search(model: &mut Model, goal: &Goal, always: &[Ask], keep: &Keep) -> Found {
    let mut search = Search {
        model,
        goal,
        keep,
        fixed: always.len(),
        work: 0,
        seen: HashSet::new(),
        best: None,
        greedy: false,
        stopped: false,
        hindered: false,
    };
    let mut lines = always.to_vec();
    for longest in 0..=EXHAUSTIVE {
        search.seen.clear();
        search.walk(&mut lines, longest);
        if search.is_settled() {
            break;
        }
    }
    if !search.is_settled() {
        search.greedy = true;
        search.work = 0;
        search.seen.clear();
        search.walk(&mut lines, LONGEST);
    }
    let hindered = search.hindered;
    let best = search.best.map(|(_, lines)| lines);
    Found {
        lines: best.map(|lines| minimal(model, goal, always.len(), keep, lines)),
        hindered,
    }
}

/// Whether the goal is met with these lines, and no other request broken.
pub(super) fn holds(model: &mut Model, goal: &Goal, lines: &[Ask], keep: &Keep) -> bool {
    model.suppose(lines, |model, changed| {
        goal.met(model) && keep.broken(model, changed).is_none()
    })
}

/// Takes out lines as long as the rest suffices.
fn minimal(
    model: &mut Model,
    goal: &Goal,
    fixed: usize,
    keep: &Keep,
    mut lines: Vec<Ask>,
) -> Vec<Ask> {
    let mut at = lines.len();
    while at > fixed {
        at -= 1;
        let mut fewer = lines.clone();
        fewer.remove(at);
        if holds(model, goal, &fewer, keep) {
            lines = fewer;
            at = lines.len();
        }
    }
    lines.split_off(fixed)
}

struct Search<'s> {
    model: &'s mut Model,
    goal: &'s Goal,
    keep: &'s Keep,
    /// How many of the lines are given.
    fixed: usize,
    work: usize,
    /// Sets of lines that were tried, with the number of lines that were left to add.
    seen: HashSet<(Vec<(SymbolId, String)>, usize)>,
    best: Option<(Cost, Vec<Ask>)>,
    greedy: bool,
    /// Whether the greedy walk came to its first answer.
    stopped: bool,
    hindered: bool,
}

/// What a trial says.
enum Outcome {
    Found(Cost),
    /// The goal is met, but another request is not.
    Broken(Vec<Ask>),
    Next(Vec<Ask>),
}

impl Search<'_> {
    fn walk(&mut self, lines: &mut Vec<Ask>, left: usize) {
        let mut set: Vec<(SymbolId, String)> = lines[self.fixed..]
            .iter()
            .map(|line| (line.symbol, line.value.clone()))
            .collect();
        set.sort();
        let left_to_do = if self.greedy { 0 } else { left };
        if self.work >= MOST_WORK || !self.seen.insert((set, left_to_do)) {
            return;
        }
        let (goal, keep, work) = (self.goal, self.keep, &mut self.work);
        let outcome = self.model.suppose(lines, |model, changed| {
            *work += TRIAL + changed.len();
            if !goal.met(model) {
                return Outcome::Next(steps(model, &goal.aim(model)));
            }
            match keep.broken(model, changed) {
                None => Outcome::Found(cost(model, changed)),
                Some(open) => Outcome::Broken(steps(model, &open.aim(model))),
            }
        });
        let next = match outcome {
            Outcome::Found(cost) => {
                let rank = |cost: &Cost, lines: &[Ask]| {
                    // Much that is lost weighs more than a line, and a line more than a little.
                    (cost.lost / ABOUT, lines.len(), *cost)
                };
                let better = self
                    .best
                    .as_ref()
                    .is_none_or(|(least, known)| rank(&cost, lines) < rank(least, known));
                if better {
                    self.best = Some((cost, lines.clone()));
                }
                self.stopped |= self.greedy;
                return;
            }
            Outcome::Broken(next) => {
                self.hindered = true;
                next
            }
            Outcome::Next(next) => next,
        };
        if left == 0 {
            return;
        }
        let mut ways = Vec::new();
        for line in next {
            if !self.keep.allows(&line) {
                self.hindered = true;
            } else if lines.iter().all(|other| other.symbol != line.symbol) {
                ways.push(line);
            }
        }
        if self.greedy {
            ways.truncate(GREEDY_WAYS);
            self.cheapest_first(lines, &mut ways);
        }
        for line in ways {
            lines.push(line);
            self.walk(lines, left - 1);
            lines.pop();
            if self.stopped {
                return;
            }
        }
    }

    /// Whether there is an answer that does not take much with it.
    fn is_settled(&self) -> bool {
        self.best
            .as_ref()
            .is_some_and(|(cost, _)| cost.lost / ABOUT == 0)
    }

    /// Puts ways that would take much with them behind those that would not.
    fn cheapest_first(&mut self, lines: &mut Vec<Ask>, ways: &mut [Ask]) {
        ways.sort_by_cached_key(|line| {
            lines.push(line.clone());
            let lost = self.model.suppose(lines, |model, changed| {
                self.work += TRIAL + changed.len();
                cost(model, changed).lost
            });
            lines.pop();
            // The order in which they were found counts among those that are about as dear.
            lost / ABOUT
        });
    }
}

/// What the configuration of a trial costs against the one before.
fn cost(model: &Model, changed: &[SymbolId]) -> Cost {
    let lost = changed.iter().filter(|symbol| {
        let known = model.tree().symbol(**symbol);
        let asked = model.asked(**symbol).is_some_and(|value| value != "n");
        known.kind.is_logic() && asked && model.tri(**symbol) == Tri::No
    });
    Cost {
        lost: lost.count(),
        changed: changed.len(),
    }
}
