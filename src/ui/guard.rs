//! The guard's report, for people and machines.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::Answer;
use super::style::{Style, Tone};
use crate::kconfig::{Finding, GuardReport, Kind, Severity, costs};

/// How many warnings of one kind are shown where nobody asked for all.
const SHOWN: usize = 8;

/// The report of one pipeline's configuration.
#[derive(Debug)]
pub struct Guarded<'a> {
    /// The pipeline.
    pub pipeline: &'a str,
    /// What the guard found.
    pub report: &'a GuardReport,
    /// Whether all of it is shown.
    pub verbose: bool,
}

impl Guarded<'_> {
    /// The last line: whether a kernel may be compiled from this.
    fn verdict(&self, style: Style) -> String {
        let report = self.report;
        let met = format!("{} of {} requests are met", report.met, report.asked);
        let counts = format!(
            "{} block, {}, {}",
            report.count(Severity::Block),
            count(report.count(Severity::Warn), "warning"),
            count(report.count(Severity::Note), "note")
        );
        let (tone, word) = if report.passes() {
            (Tone::Good, "guard passed:")
        } else {
            (Tone::Bad, "guard failed:")
        };
        format!("{} {met}; {counts}\n", style.paint(tone, word))
    }

    /// Warnings or notes, by kind; those over the limit are counted.
    fn group(&self, severity: Severity, style: Style, out: &mut String) {
        let mut kinds: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        if severity != Severity::Note {
            self.costs(severity, style, out);
        }
        for finding in &self.report.findings {
            // What lines cost is told together.
            let told = severity != Severity::Note
                && !self.verbose
                && matches!(finding.kind, Kind::Collateral { .. });
            if finding.severity == severity && !told {
                kinds.entry(finding.code()).or_default().push(finding);
            }
        }
        let limit = match severity {
            _ if self.verbose => usize::MAX,
            Severity::Block => usize::MAX,
            Severity::Warn => SHOWN,
            Severity::Note => 0,
        };
        for (code, findings) in kinds {
            for finding in findings.iter().take(limit) {
                self.finding(finding, style, out);
            }
            let more = findings.len().saturating_sub(limit);
            if more > 0 {
                let word = style.paint(tone(severity), &severity.to_string());
                let others = if limit == 0 { "" } else { " more" };
                out.push_str(
                    &format_args!("{word}  {more}{others} of the kind {code}{}\n", gloss(code))
                        .to_string(),
                );
            }
        }
    }

    /// Collateral, by the lines that cause it.
    fn costs(&self, severity: Severity, style: Style, out: &mut String) {
        let findings = self.report.findings.iter();
        let mut costs = costs(findings.filter(|finding| finding.severity != Severity::Note));
        // What a cost that blocks takes along is told with it.
        costs.retain(|cost| cost.severity() == severity);
        let most = if self.verbose { usize::MAX } else { SHOWN };
        for cost in &costs {
            let word = style.paint(tone(severity), &severity.to_string());
            out.push_str(&format_args!("{word}  {}\n", cost.sentence()).to_string());
            for line in cost.lines(most) {
                out.push_str(&format_args!("         {line}\n").to_string());
            }
        }
        if !costs.is_empty() && severity == Severity::Block {
            let hint = "         to accept it: `kiln config accept` writes the rows for review\n";
            out.push_str(&style.paint(Tone::Faint, hint));
        }
    }

    fn finding(&self, finding: &Finding, style: Style, out: &mut String) {
        let word = style.paint(tone(finding.severity), &finding.severity.to_string());
        out.push_str(&format_args!("{word}  {finding}\n").to_string());
        if self.verbose || finding.severity == Severity::Block {
            for line in finding.details() {
                out.push_str("         ");
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
}

fn count(n: usize, word: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {word}{s}")
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Block => Tone::Bad,
        Severity::Warn => Tone::Warn,
        Severity::Note => Tone::Faint,
    }
}

impl Answer for Guarded<'_> {
    fn text(&self, style: Style) -> String {
        let mut out = format!(
            "{} on linux {}\n",
            style.paint(Tone::Strong, self.pipeline),
            self.report.version
        );
        self.group(Severity::Block, style, &mut out);
        self.group(Severity::Warn, style, &mut out);
        self.group(Severity::Note, style, &mut out);
        let hidden =
            self.report.count(Severity::Note) > 0 || self.report.count(Severity::Warn) > SHOWN;
        if hidden && !self.verbose {
            let hint = "-v shows everything, --format json too\n";
            out.push_str(&style.paint(Tone::Faint, hint));
        }
        out.push_str(&self.verdict(style));
        out
    }

    fn json(&self) -> Value {
        // A report holds nothing that JSON cannot.
        let report = serde_json::to_value(self.report).unwrap_or_default();
        json!({
            "schema": "kiln.config-check/1",
            "pipeline": self.pipeline,
            "passes": self.report.passes(),
            "report": report,
        })
    }
}

/// What a kind is, for those that are mostly counted; the design's words alone say little to a
/// newcomer.
fn gloss(code: &str) -> &'static str {
    match code {
        "collateral" => ": changed beside the requests, because of them",
        "drift" => ": the base alone changes so in this tree, with these tools",
        "trimmed" => ": goes with what the pipeline's `trim` takes out of the base",
        "new-default" => ": new to the base, at their defaults",
        "no-effect" => ": hold, but do nothing here",
        "sibling-off" => ": gave way to a requested member of their choice",
        "allowance-unused" => ": rows of the collateral list that allow nothing",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dotconfig::DotConfig;
    use crate::kconfig::language::{Memory, Model, Tree};
    use crate::kconfig::{Evidence, Facts, Fragment, guard, merge};

    /// What the guard says of a fragment over a base in a tree, where `resolved` came out.
    fn judged(tree: &str, base: &str, fragment: &str, resolved: &str) -> GuardReport {
        let mut model = Model::new(Tree::parse(&Memory::of(tree), "Kconfig").unwrap());
        let base = DotConfig::parse(base);
        let fragments = [Fragment::parse("f.config", fragment).unwrap()];
        let merged = merge(&base, &fragments, &[], "6.12".parse().unwrap()).unwrap();
        let evidence = Evidence {
            merged: &merged,
            base: &base,
            base_alone: &base,
            resolved: &DotConfig::parse(resolved),
            remarks: &[],
            base_remarks: &[],
            facts: &Facts::embedded().unwrap(),
            allowed: &[],
            version: "6.12.117".parse().unwrap(),
            today: None,
        };
        guard(&evidence, &mut model)
    }

    /// A tree in which FOO needs DEP, asked for FOO.
    fn report(resolved: &str) -> GuardReport {
        judged(
            "config FOO\n\tbool \"foo\"\n\tdepends on DEP\nconfig DEP\n\tbool \"dep\"\n",
            "# CONFIG_DEP is not set\n",
            "# kiln: why \"it is the point\"\nCONFIG_FOO=y\n",
            resolved,
        )
    }

    #[test]
    fn a_lost_option_is_told_with_its_reasons() {
        let report = report("# CONFIG_DEP is not set\n");
        let guarded = Guarded {
            pipeline: "lts",
            report: &report,
            verbose: false,
        };
        let text = guarded.text(Style::PLAIN);
        assert!(
            text.starts_with("lts on linux 6.12.117\nblock  f.config:2: CONFIG_FOO"),
            "{text}"
        );
        assert!(
            text.contains("\n         wanted because: it is the point\n"),
            "{text}"
        );
        assert!(text.contains(": it needs DEP [=n]\n"), "{text}");
        assert!(
            text.contains("DEP is n: set by the base, line 1\n"),
            "{text}"
        );
        assert!(text.contains("\n             CONFIG_DEP=y\n"), "{text}");
        assert!(
            text.contains("guard failed: 0 of 1 requests are met; 1 block, "),
            "{text}"
        );
        let json = guarded.json();
        assert_eq!(json["passes"], false);
        assert_eq!(json["report"]["findings"][0]["symbol"], "FOO");
    }

    #[test]
    fn what_a_line_costs_is_told_by_that_line() {
        let tree = "config RT\n\tbool \"rt\"\nconfig GPU\n\tbool \"gpu driver\"\n\tdepends on !RT\n\
                    config GVT\n\tbool \"gvt\"\n\tdepends on GPU\n";
        let base = "CONFIG_GPU=y\nCONFIG_GVT=y\n";
        let report = judged(tree, base, "CONFIG_RT=y\n", "CONFIG_RT=y\n");
        let guarded = Guarded {
            pipeline: "lts",
            report: &report,
            verbose: false,
        };
        let text = guarded.text(Style::PLAIN);
        let told = "block  f.config:1: CONFIG_RT changes 2 options of the base that nobody asked to change\n         \
                    GPU \"gpu driver\" goes: it needs !RT [=y] at Kconfig:3; with it GVT\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_passing_report_says_so() {
        let report = report("CONFIG_DEP=y\nCONFIG_FOO=y\n");
        let guarded = Guarded {
            pipeline: "lts",
            report: &report,
            verbose: true,
        };
        let text = guarded.text(Style::PLAIN);
        assert!(
            text.contains("guard passed: 1 of 1 requests are met; 0 block, "),
            "{text}"
        );
        assert!(!text.contains("-v shows"), "{text}");
        assert_eq!(guarded.json()["passes"], true);
    }
}
