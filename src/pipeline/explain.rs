//! `explain`: one symbol under a pipeline's configuration as its files are now.

use super::answers::{Asked, Read};
use super::configure::Configured;
use super::session::Session;
use super::workspace::Loaded;
use crate::dotconfig::Value;
use crate::failure::{Diagnose, Exit, Failure};
use crate::kconfig::explain::{About, Explainer, Ground};
use crate::kconfig::{Facts, Known, Symbols, Type};
use crate::kernel::Version;

/// What there is to say about a symbol.
#[derive(Debug)]
pub struct Explained {
    /// The pipeline.
    pub pipeline: String,
    /// The kernel's version.
    pub version: Version,
    /// The symbol.
    pub about: About,
    /// What is known of it beside.
    pub known: Vec<Known>,
}

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The tree has no such symbol.
    #[error("CONFIG_{symbol} is not in linux {version}{}", .history.as_ref().map_or_else(String::new, |known| format!(": {}", known.text)))]
    Unknown {
        /// The symbol.
        symbol: String,
        /// The kernel's version.
        version: Version,
        /// What was most likely meant.
        nearest: Option<String>,
        /// What became of it.
        history: Option<Known>,
    },
    /// The symbol is of another type than the value.
    #[error("CONFIG_{symbol} cannot be {value}: it is {kind}, which takes {}", .kind.form())]
    WrongType {
        /// The symbol.
        symbol: String,
        /// What was asked about.
        value: String,
        /// Its type.
        kind: Type,
    },
    /// kiln cannot read the tree.
    #[error("kiln cannot read this tree's Kconfig files, so nothing can be explained")]
    Unreadable,
}

impl Diagnose for ExplainError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unknown { .. } | Self::WrongType { .. } => Exit::Usage,
            Self::Unreadable => Exit::Build,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown-symbol",
            Self::WrongType { .. } => "wrong-type",
            Self::Unreadable => "kconfig-unreadable",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown {
                nearest: Some(nearest),
                ..
            } => vec![format!(
                "CONFIG_{nearest} is: `kiln explain CONFIG_{nearest}`"
            )],
            Self::Unknown { nearest: None, .. } | Self::WrongType { .. } | Self::Unreadable => {
                Vec::new()
            }
        }
    }
}

impl Session<'_> {
    /// Explains a symbol, or what it would take to give it a value.
    pub fn explain(
        &self,
        pipeline: &Loaded,
        symbol: &str,
        value: Option<&Value>,
    ) -> Result<Explained, Failure> {
        let trial = self.trial(pipeline, "explain", Asked::Engine)?;
        let version = trial.lock.inputs.version;
        let facts = Facts::embedded()?;
        let Configured {
            merged,
            base,
            report,
            read,
            ..
        } = trial.configured;
        let Read::Agrees(mut model) = read else {
            return Err(ExplainError::Unreadable.into());
        };
        let ground = Ground {
            requests: &merged.requests,
            base: &base,
        };
        let Some(about) = Explainer::new(&mut model, ground).about(symbol, value) else {
            let nearest = facts.successor(symbol).or_else(|| {
                let symbols = Symbols::new(Some(model.tree()));
                let upper = symbol.to_ascii_uppercase();
                let upper = upper.strip_prefix("CONFIG_").unwrap_or(&upper).to_owned();
                let same = symbols.get(&upper).map(|_| upper.clone());
                same.or_else(|| symbols.nearest(&upper).map(str::to_owned))
            });
            return Err(ExplainError::Unknown {
                symbol: symbol.to_owned(),
                version,
                nearest,
                history: facts.history(symbol),
            }
            .into());
        };
        if let (Some(kind), Some(value)) = (about.kind, value)
            && !kind.takes(value)
        {
            return Err(ExplainError::WrongType {
                symbol: symbol.to_owned(),
                value: value.to_string(),
                kind,
            }
            .into());
        }
        let no_effect = facts.no_effect(symbol, report.config());
        let known = facts
            .security(symbol)
            .into_iter()
            .chain(facts.history(symbol))
            .chain(no_effect.map(|(_, known)| known));
        Ok(Explained {
            pipeline: pipeline.name().to_owned(),
            version,
            about,
            known: known.collect(),
        })
    }
}
