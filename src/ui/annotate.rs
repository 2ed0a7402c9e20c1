//! The guard's findings at the lines that asked, in the forms that other programs read: a pure
//! function of the findings each.

mod github;
mod gitlab;
mod junit;

use crate::kconfig::{Finding, GuardReport, Kind, Severity};

/// A form of annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Workflow commands of GitHub Actions.
    Github,
    /// A code quality report of GitLab.
    Gitlab,
    /// `JUnit` XML, as most CI systems show it.
    Junit,
}

impl Form {
    /// What a program reads where nothing was judged.
    pub fn empty(self) -> &'static str {
        match self {
            Self::Github => "",
            Self::Gitlab => "[]\n",
            Self::Junit => "<testsuites tests=\"0\" failures=\"0\" errors=\"0\"/>\n",
        }
    }
}

/// A configuration that the guard judged, and where its files are.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The pipeline.
    pub pipeline: &'a str,
    /// Its file from the workspace's directory: what no single line asked for is told there.
    pub file: &'a str,
    /// The workspace's directory from that of the repository, with a slash at the end; empty where
    /// they are one.
    pub prefix: &'a str,
    /// What the guard found.
    pub report: &'a GuardReport,
}

impl Judged<'_> {
    /// All findings in the given form.
    pub fn annotations(&self, form: Form) -> String {
        match form {
            Form::Github => github::render(self),
            Form::Gitlab => gitlab::render(self),
            Form::Junit => junit::render(self),
        }
    }

    /// Findings that somebody should act on. Notes are for the report: there may be hundreds.
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.report.findings.iter();
        findings.filter(|finding| finding.severity != Severity::Note)
    }

    /// File, from the repository's directory, and line where a finding is shown.
    fn place(&self, finding: &Finding) -> (String, u32) {
        // What nobody asked for is shown where what costs it is asked for.
        let cause = match &finding.kind {
            Kind::Collateral { causes, .. } => causes.first().map(|rival| &rival.origin),
            _ => None,
        };
        let (file, line) = finding
            .origin()
            .or(cause)
            .map_or((self.file, 1), |origin| (&*origin.file, origin.line));
        // A file outside of the workspace is named from the root.
        let prefix = if file.starts_with('/') {
            ""
        } else {
            self.prefix
        };
        (format!("{prefix}{file}"), line)
    }

    /// The last line of the guard's answer.
    fn summary(&self) -> String {
        let report = self.report;
        let word = if report.passes() { "passed" } else { "failed" };
        format!(
            "{}: guard {word} on linux {}: {} of {} requests are met",
            self.pipeline, report.version, report.met, report.asked
        )
    }
}

/// The sentence and the lines that say why.
fn message(finding: &Finding) -> String {
    let mut text = finding.sentence();
    for line in finding.details() {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// What the finding is about, in a few words.
fn title(finding: &Finding) -> String {
    if finding.symbol.is_empty() {
        finding.code().to_owned()
    } else {
        format!("CONFIG_{}: {}", finding.symbol, finding.code())
    }
}

#[cfg(test)]
mod tests;
