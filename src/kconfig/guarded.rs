//! A configuration that the guard passed, and the comparison with it of every later copy.

use super::finding::{Finding, Kind, Severity};
use super::request::{Request, shown};
use crate::digest::Sha256;
use crate::dotconfig::{Content, DotConfig, Value};
use crate::failure::{Diagnose, Exit};
use crate::kernel::Version;

/// A configuration that the guard passed. Only the guard makes one; it cannot be read back from
/// anything.
#[derive(Debug, Clone)]
pub struct GuardedConfig {
    config: DotConfig,
    digest: Sha256,
    report: Sha256,
    version: Version,
    requests: Vec<Request>,
}

/// A copy of the guarded configuration that is not one.
#[derive(Debug, thiserror::Error)]
#[error("{}", differences(.what, .findings))]
pub struct NotGuarded {
    /// The copy: a file in a package, or the running kernel's.
    pub what: String,
    /// Each symbol that differs.
    pub findings: Vec<Finding>,
}

/// Most differences that a message lists.
const LISTED: usize = 20;

fn differences(what: &str, findings: &[Finding]) -> String {
    let count = findings.len();
    let mut text =
        format!("the configuration in {what} is not the guarded one: {count} symbols differ");
    for finding in findings.iter().take(LISTED) {
        text.push_str("\n  ");
        text.push_str(&finding.to_string());
    }
    if count > LISTED {
        text.push_str("\n  ...");
    }
    text
}

impl Diagnose for NotGuarded {
    fn exit(&self) -> Exit {
        Exit::Guard
    }

    fn code(&self) -> &'static str {
        "config-not-guarded"
    }
}

impl GuardedConfig {
    pub(super) fn new(
        config: DotConfig,
        version: Version,
        requests: Vec<Request>,
        report: Sha256,
    ) -> Self {
        let digest = Sha256::of(config.text().as_bytes());
        Self {
            config,
            digest,
            report,
            version,
            requests,
        }
    }

    /// The text, which is what gets compiled.
    pub fn text(&self) -> &str {
        self.config.text()
    }

    /// The configuration.
    pub fn config(&self) -> &DotConfig {
        &self.config
    }

    /// The digest of the text.
    pub fn digest(&self) -> Sha256 {
        self.digest
    }

    /// The digest of the guard's report.
    pub fn report_digest(&self) -> Sha256 {
        self.report
    }

    /// The kernel's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Everything that was asked.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Compares a copy, symbol line by symbol line and in order; comments may differ, since the
    /// tree writes its release and its compiler there.
    pub fn matches(&self, copy: &str) -> Result<(), Vec<Finding>> {
        let copy = DotConfig::parse(copy);
        if lines(&self.config) == lines(&copy) {
            return Ok(());
        }
        let differs = |symbol: &str, was: Option<&Value>, is: Option<&Value>| {
            let mut finding = Finding::new(Severity::Block, symbol, Kind::NotGuarded);
            finding.before = Some(shown(was));
            finding.actual = Some(shown(is));
            finding
        };
        let mut findings = Vec::new();
        for (symbol, value) in self.config.symbols() {
            let found = copy.value(symbol);
            if found != Some(value) {
                findings.push(differs(symbol, Some(value), found));
            }
        }
        for (symbol, value) in copy.symbols() {
            if self.config.value(symbol).is_none() {
                findings.push(differs(symbol, None, Some(value)));
            }
        }
        if findings.is_empty() {
            // The same values in other lines: reordered, repeated, or spelt otherwise.
            let (ours, theirs) = (lines(&self.config), lines(&copy));
            let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            let line = |lines: &[&str]| lines.get(same).map_or("the end", |line| line).to_owned();
            let mut finding = Finding::new(Severity::Block, "", Kind::NotGuarded);
            finding.before = Some(line(&ours));
            finding.actual = Some(line(&theirs));
            findings.push(finding);
        }
        Err(findings)
    }

    /// The same as an error that names the copy.
    pub fn check_copy(&self, what: &str, copy: &str) -> Result<(), NotGuarded> {
        self.matches(copy).map_err(|findings| NotGuarded {
            what: what.to_owned(),
            findings,
        })
    }
}

/// The lines that are not comments or empty, without their endings.
fn lines(config: &DotConfig) -> Vec<&str> {
    let meant = |content: &Content| {
        matches!(
            content,
            Content::Assign {
                symbol: _,
                value: _
            } | Content::Unexpected
        )
    };
    let lines = config.lines().iter().filter(|line| meant(&line.content));
    lines
        .map(|line| config.line_text(line).trim_end_matches(['\r', '\n']))
        .collect()
}
