//! A code quality report of GitLab: a JSON array; see "Code Quality report format" in its
//! documentation of CI/CD.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Judged, message};
use crate::digest::Sha256;
use crate::kconfig::{Finding, Severity};

pub(super) fn render(judged: &Judged<'_>) -> String {
    let mut seen = BTreeMap::new();
    let issues = judged.findings().map(|finding| {
        let (file, line) = judged.place(finding);
        let severity = match finding.severity {
            Severity::Block => "blocker",
            Severity::Warn => "minor",
            Severity::Note => "info",
        };
        json!({
            "description": message(finding),
            "check_name": finding.code(),
            "fingerprint": fingerprint(judged, finding, &file, &mut seen),
            "severity": severity,
            "location": { "path": file, "lines": { "begin": line } },
        })
    });
    let issues: Vec<Value> = issues.collect();
    format!("{:#}\n", Value::Array(issues))
}

/// What stays the same while lines move and values change; the second of a kind is told apart by
/// its number, since of two equal ones GitLab shows one.
fn fingerprint(
    judged: &Judged<'_>,
    finding: &Finding,
    file: &str,
    seen: &mut BTreeMap<String, usize>,
) -> String {
    let what = [judged.pipeline, file, finding.code(), &finding.symbol].join("\0");
    let number = seen.entry(what.clone()).or_default();
    *number += 1;
    Sha256::of(format!("{what}\0{number}").as_bytes()).to_string()
}
