//! `config accept`: what a configuration loses beside the requests, as rows for review.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;

use super::answers::Asked;
use super::session::Session;
use super::workspace::Loaded;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::kconfig::{Finding, GuardReport, Kind};
use crate::spec::accept::{self, AppendError, Proposed};

/// Largest collateral list that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// What was proposed.
#[derive(Debug)]
pub struct Accepted {
    /// The list, from the workspace's directory.
    pub file: String,
    /// The rows that were added to it.
    pub rows: Vec<Proposed>,
    /// Findings that block and that no list can accept.
    pub others: usize,
    /// Whether the pipeline names the list.
    pub named: bool,
}

impl Diagnose for AppendError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(errors) => errors.code(),
            Self::Form { .. } => "collateral-form",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(_) => vec![
                "a row that waits for its `why` is refused until a person has written it"
                    .to_owned(),
            ],
            Self::Form { .. } => Vec::new(),
        }
    }
}

impl Session<'_> {
    /// Adds what blocks as collateral to the pipeline's list.
    pub fn accept(&self, pipeline: &Loaded) -> Result<Accepted, Failure> {
        let checked = self.check_config(pipeline, None, Asked::Engine)?;
        let rows = rows(&checked.report);
        let blocking = checked.report.blocking();
        let others = blocking.filter(|finding| causes(finding).is_none()).count();
        let reference = &pipeline.spec.config.collateral;
        let path = match reference {
            Some(reference) => self.workspace.root().join(&reference.allow.value),
            None => self.list_of(pipeline),
        };
        let file = self.workspace.shown(&path);
        if !rows.is_empty() {
            let text = match path.symlink_metadata() {
                Ok(_) => Some(files::read_text(&path, LIMIT)?),
                Err(_) => None,
            };
            let text = accept::append(&file, text.as_deref(), &rows)?;
            files::write(&path, text.as_bytes())?;
        }
        Ok(Accepted {
            file,
            rows,
            others,
            named: reference.is_some(),
        })
    }

    /// Where the list of a pipeline goes that names none.
    fn list_of(&self, pipeline: &Loaded) -> Utf8PathBuf {
        let name = format!("{}.yaml", pipeline.name());
        self.workspace.root().join("collateral").join(name)
    }
}

/// The requests that cost what a finding is about; `None` where it is no collateral.
fn causes(finding: &Finding) -> Option<Vec<(String, String)>> {
    let Kind::Collateral { causes, .. } = &finding.kind else {
        return None;
    };
    let causes = causes.iter();
    Some(
        causes
            .map(|rival| (rival.symbol.clone(), rival.origin.file.to_string()))
            .collect(),
    )
}

/// A row for each request that costs something; what leads to several requests is under the first.
fn rows(report: &GuardReport) -> Vec<Proposed> {
    let mut groups: BTreeMap<Option<String>, (BTreeSet<String>, Vec<String>)> = BTreeMap::new();
    for finding in report.blocking() {
        let Some(causes) = causes(finding) else {
            continue;
        };
        let first = causes.into_iter().next();
        let head = match &first {
            Some((symbol, file)) => format!("Lost because CONFIG_{symbol} is asked for in {file}."),
            None => "No request is known to cost this: name the one that does.".to_owned(),
        };
        let (symbols, remarks) = groups
            .entry(first.map(|(symbol, _)| symbol))
            .or_insert_with(|| (BTreeSet::new(), vec![head]));
        symbols.insert(finding.symbol.clone());
        let before = finding.before.as_deref().unwrap_or("absent");
        let actual = finding.actual.as_deref().unwrap_or("absent");
        let security = match &finding.kind {
            Kind::Collateral {
                security: Some(known),
                ..
            } => format!(", on the security list: {}", known.text),
            _ => String::new(),
        };
        remarks.push(format!(
            "{}: {before} -> {actual}{security}",
            finding.symbol
        ));
    }
    groups
        .into_iter()
        .map(|(cause, (symbols, remarks))| Proposed {
            symbols: symbols.into_iter().collect(),
            cause,
            remarks,
        })
        .collect()
}
