//! A fragment out of two configurations: what a person has to ask for, so that the first becomes
//! the second.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::request::Request;
use super::symbols::Symbols;
use crate::dotconfig::{self, Change, DotConfig, Value};

/// A fragment that was derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// What it asks for, in the order of the wanted configuration.
    pub lines: Vec<(String, Value)>,
    /// What differs too, but cannot be asked for: symbols without a prompt, displaced members of
    /// choices, and what vanished with something else.
    pub following: Vec<Change>,
}

/// What to ask for, so that `base` becomes `wanted` in the tree of `symbols`.
pub fn derive(base: &DotConfig, wanted: &DotConfig, symbols: Symbols<'_>) -> Derived {
    let (mut asked, mut following) = (Vec::new(), Vec::new());
    for change in base.diff(wanted) {
        match request(&change, wanted, symbols) {
            Some(value) => asked.push((change.symbol, value)),
            None => following.push(change),
        }
    }
    // The order decides which member of a choice wins, so it is the one of the wanted file.
    asked.sort_by_key(|(symbol, _)| wanted.line_of(symbol));
    Derived {
        lines: asked,
        following,
    }
}

/// The value to ask for, where a person can ask for it.
fn request(change: &Change, wanted: &DotConfig, symbols: Symbols<'_>) -> Option<Value> {
    let name = change.symbol.as_str();
    let value = change.to.clone()?;
    if symbols.tree().is_some() && symbols.prompt(name).is_none() {
        return None;
    }
    let displaced = value.is_off() && symbols.siblings(name).any(|m| !wanted.is_off(m));
    (!displaced).then_some(value)
}

impl Derived {
    /// Adds the lines of `more` that are new; whether there were any. The order stays that of
    /// `wanted`.
    pub fn extend(&mut self, more: Self, wanted: &DotConfig) -> bool {
        let before = self.lines.len();
        for (symbol, value) in more.lines {
            if !self.lines.iter().any(|(known, _)| *known == symbol) {
                self.lines.push((symbol, value));
            }
        }
        self.lines.sort_by_key(|(symbol, _)| wanted.line_of(symbol));
        self.following = more.following;
        self.lines.len() > before
    }

    /// The fragment's text. Where `earlier` asks for another value of a symbol, the line says
    /// that it overrides.
    pub fn text(&self, header: &str, earlier: &[Request]) -> String {
        let mut asked: BTreeMap<&str, &Value> = BTreeMap::new();
        for request in earlier {
            asked.insert(&request.symbol, &request.wanted.value);
        }
        let mut out = String::new();
        for line in header.lines() {
            // Writing to a string cannot fail.
            let _written = writeln!(out, "# {line}");
        }
        for (symbol, value) in &self.lines {
            if asked.get(symbol.as_str()).is_some_and(|old| *old != value) {
                out.push_str("# kiln: override \"changed by hand\"\n");
            }
            out.push_str(&dotconfig::line(symbol, value));
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kconfig::language::{Memory, Tree};
    use crate::kconfig::{Fragment, merge};

    const TREE: &str = concat!(
        "config A\n\tbool \"a\"\n",
        "config B\n\tbool \"b\"\n\tdepends on A\n",
        "config HIDDEN\n\tdef_bool A\n",
        "config SIZE\n\tint \"size\"\n",
        "choice\n\tprompt \"which\"\n",
        "config ONE\n\tbool \"one\"\nconfig TWO\n\tbool \"two\"\n",
        "endchoice\n",
    );

    fn derived(base: &str, wanted: &str) -> Derived {
        let tree = Tree::parse(&Memory::of(TREE), "Kconfig").unwrap();
        derive(
            &DotConfig::parse(base),
            &DotConfig::parse(wanted),
            Symbols::new(Some(&tree)),
        )
    }

    fn text(base: &str, wanted: &str) -> String {
        derived(base, wanted).text("", &[])
    }

    #[test]
    fn what_can_be_asked_for_is_asked_for() {
        let base = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_HIDDEN=y\nCONFIG_SIZE=1\n";
        // B and HIDDEN go with A, so that only A is asked for.
        let wanted = "CONFIG_SIZE=2\n# CONFIG_A is not set\n";
        assert_eq!(text(base, wanted), "CONFIG_SIZE=2\n# CONFIG_A is not set\n");
        let following = derived(base, wanted).following;
        let names: Vec<&str> = following.iter().map(|c| c.symbol.as_str()).collect();
        assert_eq!(names, ["B", "HIDDEN"]);
        assert_eq!(text(base, base), "");
    }

    #[test]
    fn of_a_choice_only_the_winner_is_asked_for() {
        let one = "CONFIG_ONE=y\n# CONFIG_TWO is not set\n";
        let two = "# CONFIG_ONE is not set\nCONFIG_TWO=y\n";
        assert_eq!(text(one, two), "CONFIG_TWO=y\n");
        // A choice without a winner is asked for as it is.
        let none = "# CONFIG_ONE is not set\n# CONFIG_TWO is not set\n";
        assert_eq!(text(one, none), "# CONFIG_ONE is not set\n");
    }

    #[test]
    fn what_the_tree_does_not_have_is_not_asked_for() {
        assert_eq!(text("", "CONFIG_ELSEWHERE=y\n"), "");
    }

    #[test]
    fn what_comes_up_on_the_way_is_asked_for_next() {
        // A makes B visible, whose default is y; wanted is A without B.
        let wanted = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_HIDDEN=y\n";
        let mut first = derived("# CONFIG_A is not set\n", wanted);
        assert_eq!(first.text("", &[]), "CONFIG_A=y\n");
        let result = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_HIDDEN=y\n";
        let wanted_config = DotConfig::parse(wanted);
        assert!(first.extend(derived(result, wanted), &wanted_config));
        assert_eq!(first.text("", &[]), "CONFIG_A=y\n# CONFIG_B is not set\n");
        assert!(!first.extend(derived(wanted, wanted), &wanted_config));
    }

    #[test]
    fn a_line_against_an_earlier_fragment_overrides_it() {
        let series = "6.12".parse().unwrap();
        let first = Fragment::parse("first.config", "CONFIG_A=y\nCONFIG_SIZE=1\n").unwrap();
        let base = DotConfig::parse("");
        let merged = merge(&base, std::slice::from_ref(&first), &[], series).unwrap();
        let derived = derived("CONFIG_A=y\nCONFIG_SIZE=1\n", "CONFIG_A=y\nCONFIG_SIZE=2\n");
        let text = derived.text("by hand", &merged.requests);
        assert_eq!(
            text,
            "# by hand\n# kiln: override \"changed by hand\"\nCONFIG_SIZE=2\n"
        );
        let second = Fragment::parse("second.config", &text).unwrap();
        let merged = merge(&base, &[first, second], &[], series).unwrap();
        assert_eq!(merged.text(), "CONFIG_A=y\nCONFIG_SIZE=2\n");
    }
}
