//! `configure`: what base and fragments resolve to, and the guard's answer.

use std::sync::Arc;

use camino::Utf8Path;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::answers::{AnsweredBy, Answers, Asked, Read};
use super::session::Session;
use super::workspace::Loaded;
use crate::clock;
use crate::dotconfig::{DotConfig, Value};
use crate::failure::Failure;
use crate::files;
use crate::kbuild::make::{Kbuild, Resolved, Setup};
use crate::kbuild::root::{Look, Root};
use crate::kbuild::warnings::KconfigWarning;
use crate::kconfig::language::Tree;
use crate::kconfig::{
    self, Evidence, Facts, GuardReport, Intent, Merged, Origin, Reading, Remark, Request, Symbols,
};
use crate::proof::lock::{self, Lock};
use crate::source::unpack::SourceTree;
use crate::spec;

/// Largest collateral list or module list that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// A configuration that was resolved, by kiln's reading of the tree or the tree itself, and that the
/// guard judged.
#[derive(Debug)]
pub struct Configured {
    /// What was asked, and the text that went in.
    pub merged: Merged,
    /// The base as given.
    pub base: DotConfig,
    /// The base alone through the same tree.
    pub base_alone: DotConfig,
    /// The guard's answer, which holds the resolved configuration.
    pub report: GuardReport,
    /// The tree's makefiles; with the resolved configuration in place where the tree was asked.
    pub kbuild: Kbuild,
    /// The tree by kiln's own reading, with the resolved configuration where the two agree.
    pub(super) read: Read,
    /// Whose answer it is.
    pub by: AnsweredBy,
}

impl Configured {
    /// What it was meant to be, to be kept beside it.
    pub fn intent(&self) -> Intent {
        Intent::of(&self.report, &self.merged.requests, self.symbols())
    }

    /// What the tree's Kconfig files say about symbols.
    pub fn symbols(&self) -> Symbols<'_> {
        Symbols::new(self.read.tree())
    }
}

impl Read {
    /// What the guard may judge by. The report is the same wherever the source lies.
    fn reading(&mut self, source: &Utf8Path) -> Reading<'_> {
        let anywhere = |reason: &str| reason.replace(&format!("{source}/"), "");
        match self {
            Self::Agrees(model) => Reading::Whole(model),
            Self::Differs(model, reason) => Reading::Files(model.tree(), anywhere(reason)),
            Self::Not(reason) => Reading::Nothing(anywhere(reason)),
        }
    }

    /// What the files say; nothing where kiln cannot read them.
    fn tree(&self) -> Option<&Tree> {
        match self {
            Self::Agrees(model) | Self::Differs(model, _) => Some(model.tree()),
            Self::Not(_) => None,
        }
    }
}

impl Session<'_> {
    /// The tree's makefiles on `tree`, working in `directory`, in a pinned root or on the host.
    pub fn kbuild(
        &self,
        tree: &SourceTree,
        directory: &Utf8Path,
        root: Option<&Root>,
    ) -> Result<Kbuild, Failure> {
        let epoch = jiff::Timestamp::from_second(tree.source_date_epoch()).map_err(|error| {
            Failure::unexpected(format!("SOURCE_DATE_EPOCH out of range: {error}"))
        })?;
        Ok(Kbuild::new(&Setup {
            source: tree.path(),
            dir: directory,
            isolation: &self.isolation,
            root,
            epoch,
            jobs: self.jobs,
            other_time: self
                .rebuilding
                .as_ref()
                .and_then(|r| r.other_time.as_deref()),
        })?)
    }

    /// Resolves the configuration of `pipeline` on `tree` and lets the guard judge it.
    pub fn configure(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        tree: &SourceTree,
        directory: &Utf8Path,
        asked: Asked,
    ) -> Result<Configured, Failure> {
        let progress = self.progress;
        // A build asks the tree itself, and compiles; anything less is asked again by a build.
        let look = match asked {
            Asked::Both => Look::Whole,
            Asked::Engine => Look::Record,
        };
        let root = self.build_root(pipeline, lock, look)?;
        progress.started(
            "configure",
            format!("{} on {}", pipeline.file, lock.inputs.version),
        );
        let kbuild = self.kbuild(tree, directory, root.as_ref())?;
        let whole = self.whole_base(pipeline, lock, &kbuild)?;
        let trimmed = self.trimmed(pipeline, &whole, &kbuild)?;
        let base = trimmed.as_ref().unwrap_or(&whole);
        let fragments = self.workspace.fragments_of(pipeline)?;
        let merged = kconfig::merge(
            base,
            &fragments,
            &assertions(pipeline),
            lock.inputs.version.series,
        )?;
        let Answers {
            alone,
            resolved,
            mut read,
            by,
        } = self.answers(&kbuild, (base.text(), merged.text()), asked)?;
        progress.done(
            "configure",
            format!(
                "{} requests over {} lines, by {by}",
                merged.requests.len(),
                base.lines().len()
            ),
        );

        progress.started("guard", "every request against the result");
        let (base_alone, config) = (
            DotConfig::parse(&*alone.text),
            DotConfig::parse(&*resolved.text),
        );
        let mut report = kconfig::guard(
            &Evidence {
                merged: &merged,
                base,
                base_alone: &base_alone,
                resolved: &config,
                remarks: &remarks(&resolved),
                base_remarks: &remarks(&alone),
                facts: &Facts::embedded()?,
                allowed: &self.allowed(pipeline)?,
                version: lock.inputs.version,
                // A waiver is judged when a build is made, never when it is made again.
                today: self.rebuilding.is_none().then(today),
            },
            read.reading(kbuild.source()),
        );
        if let (Some(_), Read::Agrees(model)) = (&trimmed, &mut read) {
            report.tell_trim_apart(&whole, &merged, model);
        }
        progress.done("guard", summary(&report));
        Ok(Configured {
            merged,
            base: trimmed.unwrap_or(whole),
            base_alone,
            report,
            kbuild,
            read,
            by,
        })
    }

    /// The base config of the lock.
    fn whole_base(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        kbuild: &Kbuild,
    ) -> Result<DotConfig, Failure> {
        let text = match (&lock.inputs.base, self.kept_base(pipeline, lock)?) {
            (_, Some(text)) => text,
            (lock::Base::Target { target }, None) => {
                self.progress.note(format!(
                    "the base is what the tree's own `make {target}` writes"
                ));
                kbuild.target(target)?.text
            }
            (_, None) => String::new(),
        };
        Ok(DotConfig::parse(text))
    }

    /// The base without what the pipeline's `trim` takes out of it; nothing where it has none.
    fn trimmed(
        &self,
        pipeline: &Loaded,
        base: &DotConfig,
        kbuild: &Kbuild,
    ) -> Result<Option<DotConfig>, Failure> {
        Ok(match &pipeline.spec.config.trim {
            spec::Trim::None => None,
            spec::Trim::ModulesOff => Some(modules_off(base)),
            spec::Trim::Lsmod(path) => {
                let list = files::read_text(&self.workspace.root().join(path), LIMIT)?;
                self.progress
                    .note("the base is trimmed by the tree's own `make localmodconfig`");
                let text = kbuild.localmodconfig(base.text(), &list)?.text;
                Some(DotConfig::parse(text))
            }
        })
    }

    pub(super) fn allowed(&self, pipeline: &Loaded) -> Result<Vec<spec::Allowed>, Failure> {
        let Some(reference) = &pipeline.spec.config.collateral else {
            return Ok(Vec::new());
        };
        let path = self.workspace.root().join(&reference.allow.value);
        let text = files::read_text(&path, LIMIT)?;
        Ok(spec::Collateral::parse(&self.workspace.shown(&path), &text)?.allow)
    }
}

/// The pipeline's `assert` entries, as requests whose origin is their line.
#[must_use]
pub fn assertions(pipeline: &Loaded) -> Vec<Request> {
    let file: Arc<str> = pipeline.file.as_str().into();
    let entries = pipeline.spec.config.assertions.iter();
    entries
        .map(|assertion| {
            let line = u32::try_from(assertion.line).unwrap_or(u32::MAX);
            let origin = Origin {
                file: Arc::clone(&file),
                line,
            };
            let value = Value::parse(&assertion.value.to_string());
            Request::new(
                assertion.symbol.clone(),
                value,
                origin,
                kconfig::Source::Assertion,
            )
        })
        .collect()
}

/// Turns every module off, as `make mod2noconfig` does; what a fragment asks for comes back with
/// the merge.
fn modules_off(base: &DotConfig) -> DotConfig {
    let lines = base
        .text()
        .lines()
        .map(|line| match line.strip_suffix("=m") {
            Some(symbol) if line.starts_with("CONFIG_") => format!("# {symbol} is not set\n"),
            _ => format!("{line}\n"),
        });
    DotConfig::parse(lines.collect::<String>())
}

/// The tree's own remarks, in the guard's form.
fn remarks(resolved: &Resolved) -> Vec<Remark> {
    let of = |line: Option<u32>, symbol: Option<&String>, text: String| Remark {
        line,
        symbol: symbol.cloned(),
        text,
    };
    let warnings = resolved.warnings.iter();
    warnings
        .map(|warning| match warning {
            KconfigWarning::UnknownSymbol { line, symbol } => {
                of(Some(*line), Some(symbol), "unknown symbol".to_owned())
            }
            KconfigWarning::InvalidValue {
                line,
                symbol,
                value,
            } => of(
                Some(*line),
                Some(symbol),
                format!("value `{value}` is invalid"),
            ),
            KconfigWarning::UnexpectedData { line, text } => {
                of(Some(*line), None, format!("unexpected data: {text}"))
            }
            KconfigWarning::Reassigned { line, symbol } => {
                of(Some(*line), Some(symbol), "assigned before".to_owned())
            }
            KconfigWarning::UnmetDependency { symbol, detail } => of(
                None,
                Some(symbol),
                format!(
                    "selected although its dependencies are unmet: {}",
                    detail.join(" ")
                ),
            ),
            KconfigWarning::Other(text) => of(None, None, text.clone()),
        })
        .collect()
}

/// The guard's answer in a few words.
pub(super) fn summary(report: &GuardReport) -> String {
    let count = |severity| report.count(severity);
    format!(
        "{} of {} requests hold; {} findings block, {} warn",
        report.met,
        report.asked,
        count(kconfig::Severity::Block),
        count(kconfig::Severity::Warn),
    )
}

fn today() -> Date {
    TimeZone::UTC.to_datetime(clock::now()).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_go_and_nothing_else() {
        let base = DotConfig::parse(
            "# head\nCONFIG_A=m\nCONFIG_B=y\nCONFIG_S=\"x=m\"\n# CONFIG_C is not set\n",
        );
        assert_eq!(
            modules_off(&base).text(),
            "# head\n# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_S=\"x=m\"\n# CONFIG_C is not set\n"
        );
    }
}
