//! What a pipeline's `trim` takes out of the base, told apart from what tree and tools do to it.

use super::explain::{Explainer, Ground};
use super::finding::{Kind, Severity};
use super::guard::GuardReport;
use super::language::Model;
use super::merge::Merged;
use crate::dotconfig::DotConfig;

impl GuardReport {
    /// Marks the drift that comes of trimming: what the base keeps in this tree as it was before,
    /// `whole`, neither the tree nor the tools take from it. Such a loss was asked for, so it is a
    /// note, but for security options. The model ends with the merged configuration, as the guard
    /// leaves it.
    pub fn tell_trim_apart(&mut self, whole: &DotConfig, merged: &Merged, model: &mut Model) {
        model.read(whole.text());
        let ground = Ground {
            requests: &[],
            base: whole,
        };
        let explainer = Explainer::new(model, ground);
        for finding in &mut self.findings {
            let Kind::Drift {
                security, trimmed, ..
            } = &mut finding.kind
            else {
                continue;
            };
            *trimmed = explainer.agrees(&finding.symbol, whole.value(&finding.symbol));
            if *trimmed && security.is_none() {
                finding.severity = Severity::Note;
            }
        }
        self.findings.sort_by_key(|finding| finding.severity);
        model.read(merged.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kconfig::language::{Memory, Tree};
    use crate::kconfig::{Evidence, Facts, guard, merge};

    const TREE: &str = "config MODULES\n\tbool \"modules\"\n\tmodules\n\
        config BUS\n\ttristate \"a bus\"\n\
        config BUS_DEBUG\n\tbool \"its messages\"\n\tdepends on BUS\n";

    #[test]
    fn what_trim_takes_is_told_apart_from_what_the_tree_takes() {
        let whole = "CONFIG_MODULES=y\nCONFIG_BUS=m\nCONFIG_BUS_DEBUG=y\nCONFIG_GONE=y\n";
        let base = "CONFIG_MODULES=y\n# CONFIG_BUS is not set\nCONFIG_BUS_DEBUG=y\nCONFIG_GONE=y\n";
        let alone = "CONFIG_MODULES=y\n# CONFIG_BUS is not set\n";
        let [whole, base, alone] = [whole, base, alone].map(DotConfig::parse);
        let mut model = Model::new(Tree::parse(&Memory::of(TREE), "Kconfig").unwrap());
        let merged = merge(&base, &[], &[], "6.12".parse().unwrap()).unwrap();
        let evidence = Evidence {
            merged: &merged,
            base: &base,
            base_alone: &alone,
            resolved: &alone,
            remarks: &[],
            base_remarks: &[],
            facts: &Facts::embedded().unwrap(),
            allowed: &[],
            version: "6.12.117".parse().unwrap(),
            today: None,
        };
        let mut report = guard(&evidence, &mut model);
        let told = |report: &GuardReport| -> Vec<(String, &'static str, Severity)> {
            let mut told: Vec<_> = report
                .findings
                .iter()
                .map(|f| (f.symbol.clone(), f.code(), f.severity))
                .collect();
            told.sort();
            told
        };
        let before = [
            ("BUS_DEBUG".to_owned(), "drift", Severity::Warn),
            ("GONE".to_owned(), "drift", Severity::Warn),
        ];
        assert_eq!(told(&report), before);
        report.tell_trim_apart(&whole, &merged, &mut model);
        let after = [
            ("BUS_DEBUG".to_owned(), "trimmed", Severity::Note),
            ("GONE".to_owned(), "drift", Severity::Warn),
        ];
        assert_eq!(told(&report), after);
        assert!(
            report.findings[1]
                .to_string()
                .contains("`trim` takes out of the base")
        );
    }
}
