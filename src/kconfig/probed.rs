//! Which symbols say what the toolchain is, and by which probes.
//!
//! A symbol that no line can set says so where its entry asks a program (`def_bool
//! $(cc-option,-fzero)`, `depends on $(success,...)`, `default $(cc-version)`), and where it follows
//! from such symbols alone (`default y if GCC_VERSION < 110500`). One with a prompt says so only
//! where its default is what a program answered: the rest is a person's to ask for.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::language::{Kind, NodeId, Place, Probe, Symbol, SymbolId, Tree};

/// The symbols of a tree that follow from the toolchain alone.
#[derive(Debug)]
pub(super) struct Probed<'t> {
    tree: &'t Tree,
    /// The probes in a symbol's own entries.
    own: HashMap<SymbolId, Vec<&'t Probe>>,
    /// What a symbol follows from that asks no program itself.
    from: HashMap<SymbolId, Vec<SymbolId>>,
}

impl<'t> Probed<'t> {
    /// Those of a tree.
    pub(super) fn new(tree: &'t Tree) -> Self {
        let own = own(tree);
        let mut candidates: Vec<(SymbolId, Vec<SymbolId>)> = tree
            .symbols()
            .filter(|(id, symbol)| follows(tree, symbol) && !own.contains_key(id))
            .map(|(id, symbol)| (id, mentioned(tree, symbol)))
            .filter(|(_, mentioned)| !mentioned.is_empty())
            .collect();
        let mut from = HashMap::new();
        loop {
            let known = |id: &SymbolId| own.contains_key(id) || from.contains_key(id);
            let (found, rest): (Vec<_>, Vec<_>) = candidates
                .into_iter()
                .partition(|(_, mentioned)| mentioned.iter().all(known));
            if found.is_empty() {
                return Self { tree, own, from };
            }
            from.extend(found);
            candidates = rest;
        }
    }

    /// Their names.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let ids = self.own.keys().chain(self.from.keys());
        ids.map(|id| self.tree.symbol(*id).name.clone()).collect()
    }

    /// The probes that a symbol rests on, those that answered no first, then the nearest; none
    /// where it is not one of them.
    pub(super) fn behind(&self, id: SymbolId) -> Vec<&'t Probe> {
        let (mut probes, mut seen) = (Vec::new(), HashSet::from([id]));
        let mut next = vec![id];
        while !next.is_empty() {
            let mut further = Vec::new();
            for id in next {
                if let Some(own) = self.own.get(&id) {
                    probes.extend(own.iter().copied());
                    further.extend(mentioned(self.tree, self.tree.symbol(id)));
                } else if let Some(from) = self.from.get(&id) {
                    further.extend(from.iter().copied());
                }
            }
            further.retain(|id| seen.insert(*id));
            next = further;
        }
        // What was granted took nothing away.
        probes.sort_by_key(|probe| probe.answer == "y");
        probes
    }
}

/// The probes in the entries of each symbol that says what they answer.
fn own(tree: &Tree) -> HashMap<SymbolId, Vec<&Probe>> {
    let mut entries: Vec<(Place, NodeId)> =
        tree.nodes().map(|(id, node)| (node.place, id)).collect();
    entries.sort_unstable();
    let mut own: HashMap<SymbolId, Vec<&Probe>> = HashMap::new();
    for probe in tree.probes() {
        let before = entries.partition_point(|(place, _)| *place <= probe.place);
        let Some((place, node)) = before.checked_sub(1).map(|at| entries[at]) else {
            continue;
        };
        let Kind::Config(id) = tree.node(node).kind else {
            continue;
        };
        let symbol = tree.symbol(id);
        let defaults = || symbol.defaults.iter().any(|d| d.place == probe.place);
        // Variables of the environment tell the architecture; the makefiles put what their tools say
        // of themselves into those of this name.
        let asks = !probe.command.is_empty() || probe.text.ends_with("_VERSION_TEXT)");
        let counts = asks && (follows(tree, symbol) || defaults());
        if place.file == probe.place.file && counts {
            own.entry(id).or_default().push(probe);
        }
    }
    own
}

/// Whether neither a line nor another symbol sets it.
fn follows(tree: &Tree, symbol: &Symbol) -> bool {
    let asked = |node: &NodeId| tree.node(*node).prompt.is_some();
    symbol.is_defined() && symbol.selected_by.is_empty() && !symbol.nodes.iter().any(asked)
}

/// The defined symbols in its defaults and their conditions.
fn mentioned(tree: &Tree, symbol: &Symbol) -> Vec<SymbolId> {
    let mut list = Vec::new();
    for default in &symbol.defaults {
        for expr in [default.value, default.condition] {
            tree.exprs().symbols(expr, &mut |id| {
                let symbol = tree.symbol(id);
                if symbol.is_defined() && !symbol.constant && !list.contains(&id) {
                    list.push(id);
                }
            });
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kconfig::language::Memory;

    const TREE: &str = "\
info := $(shell,cc --version)
version := $(shell,cut $(info))
config VERSION
\tint
\tdefault $(version)
config BROKEN
\tbool
\tdefault y if VERSION < 110500
config HAS_GOTO
\tdef_bool y
\tdepends on !BROKEN
\tdepends on $(shell,cc goto)
config TEXT
\tstring
\tdefault \"$(CC_VERSION_TEXT)\"
config PROMPTED
\tbool \"prompted\"
\tdepends on $(shell,cc goto)
config PLAIN
\tdef_bool y
config 64BIT
\tdef_bool \"$(ARCH)\" != \"i386\"
source \"$(MORE)\"
config MIXED
\tdef_bool HAS_GOTO && PROMPTED
config SELECTED
\tbool
\tdefault BROKEN
config SELECTS
\tbool \"selects\"
\tselect SELECTED
";

    fn tree() -> Tree {
        let mut host = Memory::of(TREE);
        host.files.insert("more", String::new());
        host.variables.insert("MORE", "more");
        host.programs.insert("cc --version", "gcc 12");
        host.programs.insert("cut gcc 12", "120200");
        host.programs.insert("cc goto", "y");
        Tree::parse(&host, "Kconfig").unwrap()
    }

    #[test]
    fn what_follows_from_the_toolchain_alone_is_known() {
        let tree = tree();
        let names = Probed::new(&tree).names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(names, ["BROKEN", "HAS_GOTO", "TEXT", "VERSION"]);
    }

    #[test]
    fn the_probes_behind_a_symbol_are_named() {
        let tree = tree();
        let probed = Probed::new(&tree);
        let behind = |name: &str| -> Vec<&str> {
            let probes = probed.behind(tree.find(name).unwrap());
            probes.iter().map(|probe| probe.text.as_str()).collect()
        };
        assert_eq!(behind("VERSION"), ["$(version)"]);
        assert_eq!(behind("BROKEN"), ["$(version)"]);
        assert_eq!(behind("HAS_GOTO"), ["$(version)", "$(shell,cc goto)"]);
        assert_eq!(behind("PLAIN"), [""; 0]);
        let version = probed.behind(tree.find("VERSION").unwrap())[0];
        assert_eq!(
            (version.answer.as_str(), version.command.as_str()),
            ("120200", "cut gcc 12")
        );
    }
}
