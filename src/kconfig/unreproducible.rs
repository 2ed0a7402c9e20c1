//! Values of a resolved configuration with which two builds could differ, before anything is built.

use super::finding::{Finding, Kind, Requested, Severity};
use super::guard::Evidence;
use super::known::Verdict;

/// Tells each such value, whoever asked for it.
pub(super) fn find(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    for (row, actual) in evidence.facts.unreproducible(evidence.resolved) {
        let severity = match row.verdict {
            Verdict::Refused => Severity::Block,
            Verdict::Handled => Severity::Note,
        };
        let requests = evidence.merged.requests.iter();
        let request = requests.rev().find(|request| request.symbol == row.symbol);
        let base = evidence.base.line_of(&row.symbol);
        let kind = Kind::Unreproducible {
            known: row.known(),
            // The base's line is only the reason where no request spoke after it.
            base_line: base.filter(|_| request.is_none()),
        };
        findings.push(Finding {
            actual: Some(actual),
            requested: request.map(Requested::of),
            ..Finding::new(severity, &row.symbol, kind)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dotconfig::DotConfig;
    use crate::kconfig::language::{Memory, Model, Tree};
    use crate::kconfig::{Facts, Fragment, guard, merge};

    /// What the guard finds of a base, a fragment's lines and what they resolve to.
    fn found(base: &str, fragment: &str, resolved: &str) -> Vec<(Severity, String)> {
        let (base, config) = (DotConfig::parse(base), DotConfig::parse(resolved));
        let fragment = Fragment::parse("f.config", fragment).unwrap();
        let merged = merge(&base, &[fragment], &[], "6.18".parse().unwrap()).unwrap();
        let kconfig = "config RANDSTRUCT\n\tbool \"a\"\nconfig IKHEADERS\n\ttristate \"b\"\n";
        let mut model = Model::new(Tree::parse(&Memory::of(kconfig), "Kconfig").unwrap());
        let evidence = Evidence {
            merged: &merged,
            base: &base,
            base_alone: &base,
            resolved: &config,
            remarks: &[],
            base_remarks: &[],
            facts: &Facts::embedded().unwrap(),
            allowed: &[],
            version: "6.18.40".parse().unwrap(),
            today: None,
        };
        let report = guard(&evidence, &mut model);
        let findings = report.findings.iter();
        let ours = findings.filter(|finding| finding.code() == "unreproducible");
        ours.map(|finding| (finding.severity, finding.to_string()))
            .collect()
    }

    #[test]
    fn the_place_is_told_wherever_it_is() {
        let line = "CONFIG_RANDSTRUCT=y\n";
        let asked = found("", line, line);
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].0, Severity::Block);
        let start =
            "f.config:1: CONFIG_RANDSTRUCT is y, so two builds would differ: each build draws";
        assert!(asked[0].1.starts_with(start), "{}", asked[0].1);
        let based = found(&format!("CONFIG_A=y\n{line}"), "", line);
        assert!(
            based[0].1.contains("is y by line 2 of the base, so"),
            "{}",
            based[0].1
        );
        let neither = found("", "", line);
        assert!(neither[0].1.contains("is y by the tree's default, so"));
        assert_eq!(found(line, "", "# CONFIG_RANDSTRUCT is not set\n"), []);
        let handled = found("", "CONFIG_IKHEADERS=m\n", "CONFIG_IKHEADERS=m\n");
        assert_eq!(handled[0].0, Severity::Note);
        assert!(
            handled[0].1.contains("could differ, and do not: headers"),
            "{}",
            handled[0].1
        );
    }
}
