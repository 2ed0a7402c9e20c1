//! The merge of fragments over a base configuration.
//!
//! The result is the base's lines in the base's order, without the symbols that a fragment
//! assigns, then the fragments' lines in fragment order; one line a symbol, never sorted. Order is
//! meaning: of several members of a choice the one that is read last wins.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::fragment::{Assignment, Fragment};
use super::request::{Origin, Request};
use crate::digest::Sha256;
use crate::dotconfig::{Content, DotConfig};
use crate::failure::{Diagnose, Exit};
use crate::kernel::Series;

/// Two lines that ask for different values of one symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The earlier request.
    pub first: Request,
    /// The later one.
    pub second: Request,
}

/// Fragments, or a fragment and the pipeline's `assert`, that cannot hold together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.disagreements))]
pub struct MergeError {
    /// All of them, in order.
    pub disagreements: Vec<Disagreement>,
}

fn list(disagreements: &[Disagreement]) -> String {
    let lines: Vec<String> = disagreements
        .iter()
        .map(|Disagreement { first, second }| {
            format!(
                "{}: {} is asked to be {} here, but {} at {}",
                second.origin, second.symbol, second.wanted, first.wanted, first.origin
            )
        })
        .collect();
    lines.join("\n")
}

impl Diagnose for MergeError {
    fn exit(&self) -> Exit {
        Exit::Guard
    }

    fn code(&self) -> &'static str {
        "fragments-disagree"
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "put `# kiln: override \"reason\"` before the later line if it is right, \
             or make the two agree"
                .to_owned(),
        ]
    }
}

/// A request that a later fragment took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overridden {
    /// The request that no longer holds.
    pub request: Request,
    /// The line that took it back.
    pub by: Origin,
    /// Why.
    pub reason: String,
}

/// A fragment as it went into a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// The file as the workspace names it.
    pub file: String,
    /// The digest of its bytes.
    pub digest: Sha256,
}

/// A merged configuration, before the tree resolves it, and everything that was asked of it.
#[derive(Debug, Clone)]
pub struct Merged {
    text: String,
    /// Where each line after the base's comes from, in order.
    origins: Vec<Origin>,
    /// Number of lines before those.
    base_lines: u32,
    /// The series whose lines are active.
    pub series: Series,
    /// The fragments, in order.
    pub fragments: Vec<Input>,
    /// Everything that is asked, fragments first, in order.
    pub requests: Vec<Request>,
    /// What later fragments took back.
    pub overridden: Vec<Overridden>,
    /// Lines with an `override` that nothing disagrees with.
    pub idle_overrides: Vec<Origin>,
}

impl Merged {
    /// The configuration to resolve.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fragment's line behind a line (from 1) of the text; nothing for the base's lines.
    pub fn origin_of_line(&self, line: u32) -> Option<&Origin> {
        let index = line.checked_sub(self.base_lines)?.checked_sub(1)?;
        self.origins.get(usize::try_from(index).ok()?)
    }

    /// The requests for a symbol.
    pub fn requests_for(&self, symbol: &str) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |r| r.symbol == symbol)
    }
}

/// Merges the lines that `series` gets of `fragments` over `base`. `assertions` are checked
/// against the fragments and added to the requests, but not written.
pub fn merge(
    base: &DotConfig,
    fragments: &[Fragment],
    assertions: &[Request],
    series: Series,
) -> Result<Merged, MergeError> {
    let mut plan = Plan::default();
    for fragment in fragments {
        for assignment in fragment.active(series) {
            plan.add(assignment);
        }
    }
    for assertion in assertions {
        plan.assert(assertion);
    }
    if !plan.disagreements.is_empty() {
        return Err(MergeError {
            disagreements: plan.disagreements,
        });
    }
    let mut merged = Merged {
        text: String::with_capacity(base.text().len() + 64 * plan.requests.len()),
        origins: Vec::new(),
        base_lines: 0,
        series,
        fragments: fragments
            .iter()
            .map(|fragment| Input {
                file: fragment.file.to_string(),
                digest: fragment.digest,
            })
            .collect(),
        requests: Vec::new(),
        overridden: plan.overridden,
        idle_overrides: plan.idle_overrides,
    };
    write_base(&mut merged, base, &plan.last);
    for (index, request) in plan.requests.iter().enumerate() {
        if plan.last.get(request.symbol.as_str()) == Some(&index) {
            // Writing to a string cannot fail.
            let _written = writeln!(merged.text, "{}", request.line());
            merged.origins.push(request.origin.clone());
        }
    }
    let dropped = plan.dropped;
    merged.requests = plan
        .requests
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !dropped.contains(index))
        .map(|(_, request)| request)
        .chain(assertions.iter().cloned())
        .collect();
    Ok(merged)
}

/// The base's lines but those of overridden symbols, and of a symbol's lines only the last.
fn write_base(merged: &mut Merged, base: &DotConfig, overridden: &HashMap<String, usize>) {
    for (index, line) in base.lines().iter().enumerate() {
        if let Content::Assign { symbol, value: _ } = &line.content
            && (overridden.contains_key(symbol) || !base.counts(index))
        {
            continue;
        }
        merged.text.push_str(base.line_text(line));
        merged.base_lines += 1;
    }
    if !merged.text.is_empty() && !merged.text.ends_with('\n') {
        merged.text.push('\n');
    }
}

/// What the fragments ask for together.
#[derive(Default)]
struct Plan {
    requests: Vec<Request>,
    /// The request whose line is written for a symbol: the last.
    last: HashMap<String, usize>,
    /// Requests that were taken back.
    dropped: HashSet<usize>,
    overridden: Vec<Overridden>,
    idle_overrides: Vec<Origin>,
    disagreements: Vec<Disagreement>,
}

impl Plan {
    fn add(&mut self, assignment: &Assignment) {
        let request = &assignment.request;
        let earlier: Vec<usize> = (0..self.requests.len())
            .filter(|index| {
                let other = &self.requests[*index];
                other.symbol == request.symbol
                    && !self.dropped.contains(index)
                    && other.wanted.value != request.wanted.value
            })
            .collect();
        match &assignment.overrides {
            Some(reason) => {
                if earlier.is_empty() {
                    self.idle_overrides.push(request.origin.clone());
                }
                for index in earlier {
                    self.dropped.insert(index);
                    self.overridden.push(Overridden {
                        request: self.requests[index].clone(),
                        by: request.origin.clone(),
                        reason: reason.clone(),
                    });
                }
            }
            None => self.disagree(earlier.first().copied(), request),
        }
        self.last
            .insert(request.symbol.clone(), self.requests.len());
        self.requests.push(request.clone());
    }

    fn assert(&mut self, assertion: &Request) {
        let earlier = (0..self.requests.len()).find(|index| {
            let other = &self.requests[*index];
            other.symbol == assertion.symbol
                && !self.dropped.contains(index)
                && !assertion.wanted.accepts(Some(&other.wanted.value))
        });
        self.disagree(earlier, assertion);
    }

    fn disagree(&mut self, earlier: Option<usize>, second: &Request) {
        if let Some(index) = earlier {
            self.disagreements.push(Disagreement {
                first: self.requests[index].clone(),
                second: second.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dotconfig::Value;
    use crate::kconfig::Source;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn series() -> Series {
        "6.18".parse().unwrap()
    }

    fn fragment(file: &str, text: &str) -> Fragment {
        Fragment::parse(file, text).unwrap()
    }

    fn merged(base: &str, fragments: &[&str]) -> Result<Merged, MergeError> {
        let fragments: Vec<Fragment> = fragments
            .iter()
            .enumerate()
            .map(|(index, text)| fragment(&format!("{index}.config"), text))
            .collect();
        merge(&DotConfig::parse(base), &fragments, &[], series())
    }

    fn text(base: &str, fragments: &[&str]) -> String {
        merged(base, fragments).unwrap().text().to_owned()
    }

    #[test]
    fn base_lines_keep_their_order_and_fragment_lines_follow() {
        let base = "# head\nCONFIG_Z=y\n# CONFIG_B is not set\nCONFIG_A=m\n";
        assert_eq!(
            text(base, &["CONFIG_Y=y\nCONFIG_B=y\n", "CONFIG_A=y\n"]),
            "# head\nCONFIG_Z=y\nCONFIG_Y=y\nCONFIG_B=y\nCONFIG_A=y\n"
        );
    }

    #[test]
    fn one_line_a_symbol_where_fragments_agree_the_last() {
        assert_eq!(
            text("CONFIG_A=y\nCONFIG_A=m\n", &[]),
            "CONFIG_A=m\n",
            "of the base's lines the last counts"
        );
        let merged = merged("", &["CONFIG_A=y\nCONFIG_B=y\n", "CONFIG_A=y\n"]).unwrap();
        assert_eq!(merged.text(), "CONFIG_B=y\nCONFIG_A=y\n");
        assert_eq!(merged.requests.len(), 3, "each line stays a requirement");
    }

    #[test]
    fn a_base_without_a_last_line_feed_does_not_swallow_a_request() {
        assert_eq!(
            text("CONFIG_A=y", &["CONFIG_B=y"]),
            "CONFIG_A=y\nCONFIG_B=y\n"
        );
    }

    #[test]
    fn fragments_that_disagree_are_an_error_that_names_both() {
        let error = merged("", &["CONFIG_A=y\n", "\n# CONFIG_A is not set\n"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1.config:2: A is asked to be not set here, but y at 0.config:1"
        );
        assert_eq!(error.exit(), Exit::Guard);
    }

    #[test]
    fn an_override_takes_the_earlier_request_back() {
        let merged = merged(
            "",
            &["CONFIG_A=y\n", "# kiln: override \"no room\"\nCONFIG_A=m\n"],
        )
        .unwrap();
        assert_eq!(merged.text(), "CONFIG_A=m\n");
        assert_eq!(merged.requests.len(), 1);
        assert_eq!(merged.overridden[0].reason, "no room");
        assert!(merged.idle_overrides.is_empty());
    }

    #[test]
    fn an_override_of_nothing_is_noticed() {
        let text = "# kiln: override \"x\"\nCONFIG_A=m\n";
        let merged = merged("", &["CONFIG_A=m\n", text]).unwrap();
        assert_eq!(merged.idle_overrides.len(), 1);
    }

    #[test]
    fn lines_of_other_series_are_left_out() {
        let one = "# kiln: series >= 7.0\nCONFIG_A=1\n# kiln: series < 7.0\nCONFIG_A=y\n";
        assert_eq!(text("", &[one]), "CONFIG_A=y\n");
    }

    #[test]
    fn assertions_are_requests_but_not_lines() {
        let origin = Origin {
            file: Arc::from("p.yaml"),
            line: 9,
        };
        let assertion = Request::new("HZ", Value::parse("1000"), origin, Source::Assertion);
        let fragments = [fragment("f", "CONFIG_HZ_1000=y\n")];
        let base = DotConfig::parse("");
        let merged = merge(
            &base,
            &fragments,
            std::slice::from_ref(&assertion),
            series(),
        )
        .unwrap();
        assert_eq!(merged.text(), "CONFIG_HZ_1000=y\n");
        assert_eq!(merged.requests[1], assertion);
        let fragments = [fragment("f", "CONFIG_HZ=250\n")];
        let error = merge(&base, &fragments, &[assertion], series()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.yaml:9: HZ is asked to be 1000 here, but 250 at f:1"
        );
    }

    #[test]
    fn a_line_of_the_text_leads_back_to_its_fragment() {
        let merged = merged("# c\nCONFIG_B=y\n", &["\nCONFIG_A=y\n"]).unwrap();
        assert_eq!(merged.origin_of_line(3).unwrap().to_string(), "0.config:2");
        for line in [0, 1, 2, 4, u32::MAX] {
            assert!(merged.origin_of_line(line).is_none(), "{line}");
        }
    }

    fn lines() -> impl Strategy<Value = String> {
        proptest::collection::vec(("[A-H]", "y|m|n|7|\"s\""), 0..12).prop_map(|lines| {
            let mut seen = HashSet::new();
            let lines = lines
                .into_iter()
                .filter(|(symbol, _)| seen.insert(symbol.clone()));
            let lines: Vec<String> = lines
                .map(|(symbol, value)| format!("# kiln: override \"x\"\nCONFIG_{symbol}={value}\n"))
                .collect();
            lines.concat()
        })
    }

    proptest! {
        #[test]
        fn merging_again_changes_nothing(base in lines(), a in lines(), b in lines()) {
            let once = text(&base, &[&a, &b]);
            prop_assert_eq!(&text(&once, &[&a, &b]), &once);
        }

        #[test]
        fn the_last_line_for_a_symbol_wins(base in lines(), a in lines(), b in lines()) {
            let merged = DotConfig::parse(text(&base, &[&a, &b]));
            let parse = DotConfig::parse;
            let (base, a, b) = (parse(base), parse(a), parse(b));
            for symbol in ["A", "B", "C", "D", "E", "F", "G", "H"] {
                let last = b.value(symbol).or(a.value(symbol)).or(base.value(symbol));
                prop_assert_eq!(merged.value(symbol), last);
            }
            prop_assert!(merged.problems().is_empty());
        }

        #[test]
        fn untouched_base_lines_keep_their_order(base in lines(), a in lines()) {
            let merged = DotConfig::parse(text(&base, &[&a]));
            let asked = DotConfig::parse(a);
            let base = DotConfig::parse(base);
            let kept = |config: &DotConfig| -> Vec<String> {
                let kept = config.symbols().filter(|(symbol, _)| asked.value(symbol).is_none());
                kept.map(|(symbol, value)| format!("{symbol}={value}")).collect()
            };
            prop_assert_eq!(kept(&merged), kept(&base));
            let tail: Vec<&str> = merged.symbols().map(|(symbol, _)| symbol).collect();
            let asked: Vec<&str> = asked.symbols().map(|(symbol, _)| symbol).collect();
            prop_assert!(tail.ends_with(&asked));
        }
    }
}
