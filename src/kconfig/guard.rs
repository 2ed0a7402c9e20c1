//! The guard: what was asked against what came out.
//!
//! `olddefconfig` ends with 0 whatever it drops, so everything here is judged by comparison: each
//! request with the resolved configuration, the resolved configuration with the base run alone
//! through the same tree (collateral), and that with the base as it was given (drift). All
//! findings come at once.

use std::ops::Deref;

use jiff::civil::Date;
use serde::Serialize;

use super::change::Changed;
use super::explain::{self, Causes};
use super::finding::{Finding, Kind, Severity};
use super::guarded::GuardedConfig;
use super::known::Facts;
use super::language::{Model, Tree};
use super::merge::{Input, Merged, Overridden};
use super::request::Request;
use super::symbols::Symbols;
use super::{answers, change, collateral, drift, judge, unreproducible};
use crate::digest::Sha256;
use crate::dotconfig::{DotConfig, ProblemKind};
use crate::failure::{Diagnose, Exit};
use crate::kernel::Version;
use crate::proof::canonical::{self, CanonicalError};
use crate::spec::Allowed;

/// Something that the tree's own tool said while it resolved a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The line of the configuration it is about, from 1.
    pub line: Option<u32>,
    /// The symbol it is about.
    pub symbol: Option<String>,
    /// Its words.
    pub text: String,
}

/// All that the guard looks at.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// What was asked, and the configuration that went into the tree.
    pub merged: &'a Merged,
    /// The base as it was given.
    pub base: &'a DotConfig,
    /// The base run alone through the same tree with the same tools.
    pub base_alone: &'a DotConfig,
    /// What the tree made of the merged configuration.
    pub resolved: &'a DotConfig,
    /// What the tree's tool said of the merged configuration.
    pub remarks: &'a [Remark],
    /// What it said of the base alone.
    pub base_remarks: &'a [Remark],
    /// What is known about kernels.
    pub facts: &'a Facts,
    /// The collateral that the pipeline accepts.
    pub allowed: &'a [Allowed],
    /// The kernel's version.
    pub version: Version,
    /// The day by which waivers are judged; nothing when reproducing, when all of them hold.
    pub today: Option<Date>,
}

/// How much kiln knows of the tree's Kconfig files while it judges.
#[derive(Debug)]
pub enum Reading<'m> {
    /// All. It reads what it is asked about, and ends with the merged configuration.
    Whole(&'m mut Model),
    /// What the files say; but kiln makes of a configuration what the tree does not, as this reason
    /// tells, so that nothing is explained.
    Files(&'m Tree, String),
    /// Nothing, for this reason.
    Nothing(String),
}

impl<'m> From<&'m mut Model> for Reading<'m> {
    fn from(model: &'m mut Model) -> Self {
        Self::Whole(model)
    }
}

impl Reading<'_> {
    fn tree(&self) -> Option<&Tree> {
        match self {
            Self::Whole(model) => Some(model.tree()),
            Self::Files(tree, _) => Some(tree),
            Self::Nothing(_) => None,
        }
    }

    fn basis(&self) -> Basis {
        match self {
            Self::Whole(_) => Basis::Explained,
            Self::Files(..) => Basis::Files,
            Self::Nothing(_) => Basis::Values,
        }
    }
}

/// What a report rests on. Lost requests and lost options block by all three. A name that the tree
/// does not have is known by the first two; by the last as far as the tree's own tool says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The tree's Kconfig files, and its values as kiln computes them: findings are explained.
    Explained,
    /// The tree's Kconfig files: types, prompts and choices are known, nothing is explained.
    Files,
    /// Values alone. What follows from others, or gave way in a choice, cannot be told from what was
    /// lost, so it counts as lost.
    Values,
}

/// What the judges look at: the evidence, and what the tree's Kconfig files say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    evidence: &'a Evidence<'a>,
    pub(super) symbols: Symbols<'a>,
    pub(super) causes: &'a Causes,
}

impl<'a> Deref for Scene<'a> {
    type Target = Evidence<'a>;

    fn deref(&self) -> &Evidence<'a> {
        self.evidence
    }
}

impl Scene<'_> {
    /// Whether the tree does not define a symbol. Where its files could not be read, its own tool
    /// said so, or nothing did.
    pub(super) fn is_unknown(&self, symbol: &str) -> bool {
        if self.symbols.tree().is_some() {
            return self.symbols.get(symbol).is_none();
        }
        let unknown = |remark: &Remark| {
            remark.symbol.as_deref() == Some(symbol) && remark.text.starts_with("unknown symbol")
        };
        self.remarks.iter().any(unknown)
    }
}

/// What the guard found.
#[derive(Debug, Clone, Serialize)]
pub struct GuardReport {
    /// Name and number of this format.
    pub schema: &'static str,
    /// The kernel's version.
    pub version: Version,
    /// What it rests on.
    pub basis: Basis,
    /// Digest of the base as given.
    pub base: Sha256,
    /// Digest of the merged configuration.
    pub merged: Sha256,
    /// Digest of the resolved configuration.
    pub resolved: Sha256,
    /// The fragments in order.
    pub fragments: Vec<Input>,
    /// Number of requests.
    pub asked: usize,
    /// Number of requests that are met.
    pub met: usize,
    /// Everything found, the weightiest first.
    pub findings: Vec<Finding>,
    /// Requests that a later fragment took back.
    pub overridden: Vec<Overridden>,
    /// Everything that differs from the base run alone.
    pub changes: Vec<Changed>,
    #[serde(skip)]
    config: DotConfig,
    #[serde(skip)]
    requests: Vec<Request>,
}

/// The configuration is not what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{}", summary(.0))]
pub struct GuardFailed(pub Box<GuardReport>);

fn summary(report: &GuardReport) -> String {
    let mut text = format!(
        "the configuration is not what was asked: {} of {} requests are met, {} findings block",
        report.met,
        report.asked,
        report.count(Severity::Block)
    );
    for finding in report.blocking() {
        text.push_str("\n  ");
        text.push_str(&finding.to_string());
    }
    text
}

impl Diagnose for GuardFailed {
    fn exit(&self) -> Exit {
        Exit::Guard
    }

    fn code(&self) -> &'static str {
        "guard-failed"
    }
}

impl GuardReport {
    /// The findings that block.
    pub fn blocking(&self) -> impl Iterator<Item = &Finding> {
        let block = |finding: &&Finding| finding.severity == Severity::Block;
        self.findings.iter().filter(block)
    }

    /// Number of findings of one weight.
    pub fn count(&self, severity: Severity) -> usize {
        let same = self.findings.iter().filter(|f| f.severity == severity);
        same.count()
    }

    /// Whether nothing blocks.
    pub fn passes(&self) -> bool {
        self.count(Severity::Block) == 0
    }

    /// The resolved configuration that was judged.
    pub fn config(&self) -> &DotConfig {
        &self.config
    }

    /// The digest of the report: of its canonical JSON.
    pub fn digest(&self) -> Result<Sha256, CanonicalError> {
        canonical::to_vec("guard report", self).map(|bytes| Sha256::of(&bytes))
    }

    /// The proof that the guard passed, and the only way to one.
    pub fn into_guarded(self) -> Result<GuardedConfig, GuardFailed> {
        if !self.passes() {
            return Err(GuardFailed(Box::new(self)));
        }
        // Every value in a report is a text, a number below 2^53 or a list of those.
        let report = self.digest().expect("a report is canonical JSON");
        Ok(GuardedConfig::new(
            self.config,
            self.version,
            self.requests,
            report,
        ))
    }
}

/// Judges a resolved configuration.
///
/// Requests are judged by values alone where the tree's Kconfig files cannot be read; the report says
/// what it rests on.
pub fn guard<'m>(evidence: &Evidence<'_>, reading: impl Into<Reading<'m>>) -> GuardReport {
    let mut reading = reading.into();
    let basis = reading.basis();
    let merged = evidence.merged;
    let changes = evidence.base_alone.diff(evidence.resolved);
    let causes = match &mut reading {
        Reading::Whole(model) => explain::causes(model, merged, evidence.base, &changes),
        Reading::Files(..) | Reading::Nothing(_) => Causes::new(),
    };
    let scene = Scene {
        evidence,
        symbols: Symbols::new(reading.tree()),
        causes: &causes,
    };
    let mut findings = Vec::new();
    let met = judge::requests(&scene, &mut findings);
    collateral::find(&scene, &mut findings);
    drift::find(&scene, &mut findings);
    unreproducible::find(evidence, &mut findings);
    base_problems(evidence, &mut findings);
    remarks(evidence, &mut findings);
    let changes = change::against(
        evidence.base_alone,
        evidence.resolved,
        merged,
        scene.symbols,
    );
    match reading {
        Reading::Whole(model) => answers::add(evidence, model, &mut findings),
        Reading::Files(_, reason) | Reading::Nothing(reason) => {
            let kind = Kind::Unexplained { basis, reason };
            // Whoever resolved the configuration has warned of it already.
            findings.push(Finding::new(Severity::Note, "", kind));
        }
    }
    // Stable: within one weight the order of the requests stays.
    findings.sort_by_key(|finding| finding.severity);
    GuardReport {
        schema: "kiln.guard/2",
        version: evidence.version,
        basis,
        base: Sha256::of(evidence.base.text().as_bytes()),
        merged: Sha256::of(merged.text().as_bytes()),
        resolved: Sha256::of(evidence.resolved.text().as_bytes()),
        fragments: merged.fragments.clone(),
        asked: merged.requests.len(),
        met,
        findings,
        overridden: merged.overridden.clone(),
        changes,
        config: evidence.resolved.clone(),
        requests: merged.requests.clone(),
    }
}

/// Lines of the base that the tree's reader skips or misreads.
fn base_problems(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    for problem in evidence.base.problems() {
        let at = format!("the base's line {}", problem.line);
        let (severity, symbol, text) = match problem.kind {
            ProblemKind::Unexpected => (
                Severity::Warn,
                String::new(),
                format!("{at} is no assignment and is skipped"),
            ),
            ProblemKind::Duplicate { symbol, first } => {
                let text = format!("{at} assigns CONFIG_{symbol} again, after line {first}");
                (Severity::Note, symbol, text)
            }
            ProblemKind::Loose { symbol, value } => {
                let text = format!(
                    "{at} gives CONFIG_{symbol} the value `{value}`, which is read by a prefix or ignored"
                );
                (Severity::Warn, symbol, text)
            }
        };
        findings.push(Finding::new(severity, symbol, Kind::BaseProblem { text }));
    }
}

/// What the tool said and no finding tells better.
fn remarks(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    for remark in evidence.remarks {
        let symbol = remark.symbol.clone().unwrap_or_default();
        let origin = remark.line.and_then(|l| evidence.merged.origin_of_line(l));
        let told = |f: &Finding| !symbol.is_empty() && f.symbol == symbol && f.origin().is_some();
        if origin.is_some() && findings.iter().any(told) {
            continue;
        }
        // A line of the base, or a remark that the base alone draws too, is not the requests' doing.
        let of_base = (remark.line.is_some() && origin.is_none())
            || evidence.base_remarks.iter().any(|b| b.text == remark.text);
        let severity = if of_base {
            Severity::Note
        } else {
            Severity::Warn
        };
        let text = remark.text.clone();
        findings.push(Finding::new(severity, symbol, Kind::ToolSaid { text }));
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
