//! What a symbol needs and does not have.

use std::fmt;

use serde::Serialize;

use super::explainer::Ground;
use super::who::{Answered, SetBy, set_by};
use crate::kconfig::language::{Expr, ExprId, Kind, Model, NodeId, Prompt, SymbolId, Term, Tri};
use crate::kconfig::symbols::Site;

/// A term that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// The term with the current values in it: `!MAXSMP [=y]`.
    pub term: String,
    /// What it is: `n`, or `m` where more is needed.
    pub value: &'static str,
    /// The entry that asks for it.
    pub site: Site,
    /// What kind of entry that is, where it is not the symbol's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub around: Option<&'static str>,
    /// The symbols in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Fact>,
    /// The probes whose answers it is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Answered>,
}

/// A symbol, its value and whose doing that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// Its value.
    pub value: String,
    /// Whose doing it is.
    pub set: SetBy,
    /// What it lacks itself, where no line can set it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
}

/// How deep the needs of needs are followed.
const DEEPEST: u8 = 3;

/// The terms that keep a symbol's prompt below `value`: of the definition that lacks least, in the
/// order of the file. Empty where a person can set it so, and where it has no prompt.
pub(super) fn failing(model: &Model, ground: &Ground<'_>, id: SymbolId, value: Tri) -> Vec<Need> {
    let mut needs = failing_to(model, ground, id, value, DEEPEST);
    let mut told = needs.iter().map(|need| need.term.clone()).collect();
    for need in &mut needs {
        prune(need, &mut told);
    }
    needs
}

/// Takes out needs of needs that are told elsewhere.
fn prune(need: &mut Need, told: &mut Vec<String>) {
    for fact in &mut need.symbols {
        fact.needs.retain(|inner| !told.contains(&inner.term));
        told.extend(fact.needs.iter().map(|inner| inner.term.clone()));
        for inner in &mut fact.needs {
            prune(inner, told);
        }
    }
}

fn failing_to(
    model: &Model,
    ground: &Ground<'_>,
    id: SymbolId,
    value: Tri,
    depth: u8,
) -> Vec<Need> {
    let tree = model.tree();
    let value = if model.is_bool(id) { Tri::Mod } else { value };
    let lists = tree.symbol(id).nodes.iter().filter_map(|node| {
        let prompt = tree.node(*node).prompt.as_ref()?;
        Some(of_prompt(model, ground, *node, prompt, value, depth))
    });
    lists.min_by_key(Vec::len).unwrap_or_default()
}

/// The failing terms of one prompt: of the entries around, of its own, of its condition.
fn of_prompt(
    model: &Model,
    ground: &Ground<'_>,
    node: NodeId,
    prompt: &Prompt,
    value: Tri,
    depth: u8,
) -> Vec<Need> {
    let tree = model.tree();
    let mut seeker = Seeker {
        model,
        ground,
        value,
        depth,
        needs: Vec::new(),
    };
    for around in tree.around(node) {
        let entry = tree.node(around);
        let own = around == node;
        seeker.expr(entry.own, around, own);
        if !own {
            seeker.expr(entry.visible_if, around, own);
            // A member is asked for where its choice is.
            if let (Kind::Choice(_), Some(prompt)) = (entry.kind, &entry.prompt) {
                seeker.expr(prompt.own, around, own);
            }
        }
    }
    seeker.expr(prompt.own, node, true);
    seeker.needs
}

struct Seeker<'s> {
    model: &'s Model,
    ground: &'s Ground<'s>,
    value: Tri,
    depth: u8,
    needs: Vec<Need>,
}

impl Seeker<'_> {
    fn expr(&mut self, expr: ExprId, node: NodeId, own: bool) {
        if self.model.expr(expr) >= self.value {
            return;
        }
        // An expression that is a constant now was a macro's answer; kept apart, the others show.
        if let Expr::And(a, b) = self.model.tree().exprs().get(expr) {
            self.expr(a, node, own);
            self.expr(b, node, own);
            return;
        }
        match self.model.tree().terms(expr) {
            Term::All(terms) => {
                for term in terms {
                    self.term(&term, node, own);
                }
            }
            term => self.term(&term, node, own),
        }
    }

    fn term(&mut self, term: &Term, node: NodeId, own: bool) {
        let value = self.model.truth(term);
        if value >= self.value {
            return;
        }
        let tree = self.model.tree();
        let mut symbols: Vec<SymbolId> = Vec::new();
        self.blamed(term, &mut |symbol| {
            if !tree.symbol(symbol).constant && !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        });
        let number = |name: &str| name.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        symbols.retain(|symbol| !number(&tree.symbol(*symbol).name));
        let probes = if symbols.is_empty() {
            let probes = tree.probes_in(node).filter(|probe| probe.answer != "y");
            probes
                .map(|probe| Answered::new(self.model, probe))
                .collect()
        } else {
            Vec::new()
        };
        let shown = self.model.shown_term(term);
        if self.needs.iter().any(|need| need.term == shown) {
            return;
        }
        let entry = tree.node(node);
        self.needs.push(Need {
            term: shown,
            value: value.letter(),
            site: Site::new(tree, entry.place),
            around: (!own).then_some(match entry.kind {
                Kind::Menu => "menu",
                Kind::Choice(_) => "choice",
                Kind::If => "if",
                Kind::Config(_) | Kind::Comment => "entry",
            }),
            symbols: symbols
                .into_iter()
                .take(MOST_FACTS)
                .map(|symbol| self.fact(symbol))
                .collect(),
            probes,
        });
    }

    /// Calls `each` with the symbols of a failing term's failing parts.
    fn blamed(&self, term: &Term, each: &mut impl FnMut(SymbolId)) {
        match term {
            Term::All(terms) | Term::Any(terms) => {
                for term in terms {
                    if self.model.truth(term) < self.value {
                        self.blamed(term, each);
                    }
                }
            }
            term => term.symbols(each),
        }
    }

    fn fact(&self, id: SymbolId) -> Fact {
        let model = self.model;
        let symbol = model.tree().symbol(id);
        let off = symbol.kind.is_logic() && model.tri(id) == Tri::No;
        let set = set_by(model, self.ground, id);
        let needs = match set {
            _ if !off || self.depth == 0 || !symbol.is_defined() => Vec::new(),
            SetBy::Line { .. } | SetBy::Base { .. } | SetBy::Choice { .. } => Vec::new(),
            _ => self.deeper(id),
        };
        Fact {
            symbol: symbol.name.clone(),
            value: if symbol.is_defined() {
                model.value(id).to_owned()
            } else {
                "n".to_owned()
            },
            set,
            needs,
        }
    }

    /// What a symbol lacks that is off and that no line turned off.
    fn deeper(&self, id: SymbolId) -> Vec<Need> {
        let model = self.model;
        let symbol = model.tree().symbol(id);
        let (ground, depth) = (self.ground, self.depth - 1);
        let needs = failing_to(model, ground, id, Tri::Mod, depth);
        if !needs.is_empty() {
            return needs;
        }
        let Some(default) = symbol.defaults.first() else {
            return Vec::new();
        };
        let mut seeker = Seeker {
            model,
            ground,
            value: Tri::Mod,
            depth,
            needs: Vec::new(),
        };
        seeker.expr(default.condition, default.node, true);
        if model.tree().probes_at(default.place).next().is_none() {
            seeker.expr(default.value, default.node, true);
        }
        seeker.needs
    }
}

/// Symbols of one term that are told of.
const MOST_FACTS: usize = 8;

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.symbols.is_empty() && !self.probes.is_empty() {
            let probes: Vec<String> = self.probes.iter().map(ToString::to_string).collect();
            return f.write_str(&probes.join(", "));
        }
        f.write_str(&self.term)?;
        if let Some(around) = self.around {
            write!(f, " (the {around} at {})", self.site)?;
        }
        Ok(())
    }
}

impl Need {
    /// The term and whose doing it is, a line each, inner ones indented.
    pub fn lines(&self, indent: usize, lines: &mut Vec<String>) {
        let blank = " ".repeat(indent);
        lines.push(format!("{blank}{self}"));
        for fact in &self.symbols {
            let Fact { symbol, value, .. } = fact;
            lines.push(format!("{blank}  {symbol} is {value}: {}", fact.set));
            for need in &fact.needs {
                need.lines(indent + 4, lines);
            }
        }
    }

    /// Every probe that the need rests on, those behind its symbols included.
    pub fn all_probes(&self) -> Vec<&Answered> {
        let mut probes: Vec<&Answered> = self.probes.iter().collect();
        probes.extend(self.symbols.iter().flat_map(Fact::all_probes));
        probes
    }
}

impl Fact {
    /// Every probe that the value rests on.
    pub fn all_probes(&self) -> Vec<&Answered> {
        let mut probes = Vec::new();
        if let SetBy::Probe(answered) = &self.set {
            probes.push(answered);
        }
        probes.extend(self.needs.iter().flat_map(Need::all_probes));
        probes
    }
}

/// A symbol with whose doing its value is, and what it lacks.
pub(super) fn fact(model: &Model, ground: &Ground<'_>, id: SymbolId) -> Fact {
    let seeker = Seeker {
        model,
        ground,
        value: Tri::Mod,
        depth: DEEPEST,
        needs: Vec::new(),
    };
    seeker.fact(id)
}
