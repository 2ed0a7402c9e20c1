//! `kiln fragment`: fragments out of what exists.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::dotconfig;
use crate::failure::{Exit, Failure};
use crate::pipeline::draft::Draft;
use crate::progress::Event;
use crate::ui::{Answer, Style};

/// How many differences are told one by one.
const SHOWN: usize = 20;

pub(super) static FROM: Verb = Verb {
    path: &["fragment", "from"],
    summary: "Print the fragment that turns a pipeline's base into a given config",
    detail: "Compares CONFIG with the pipeline's base config, run alone through the same tree, and \
             prints a line for each option that a person can set. The lines are tried before they \
             are printed: what they cannot bring is told on stderr. Give each line its `why` before \
             you ship it.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[
        Exit::NotVerified,
        Exit::Build,
        Exit::MissingTools,
        Exit::Network,
        Exit::NotPublished,
        Exit::Locked,
        Exit::NoSpace,
    ],
    examples: &[Example {
        line: "kiln fragment from /boot/config-6.12.0 --base lts > config-fragments/ours.config",
        says: "what the running kernel has beyond the pipeline's base",
    }],
    args: FromArguments::augment_args,
    run: |context, matches| from(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct FromArguments {
    /// The config to reach
    #[arg(value_parser = super::run::path, value_name = "CONFIG")]
    config: Utf8PathBuf,

    /// The pipeline whose base and source are taken
    #[arg(long, value_name = "PIPELINE")]
    base: String,
}

fn from(context: &Context, arguments: &FromArguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.base)?;
    let config = context.start().join(&arguments.config);
    let draft = session.fragment_from(&pipeline, &config, arguments.config.as_str())?;
    for change in draft.remaining.iter().take(SHOWN) {
        let line = |value: &Option<dotconfig::Value>| match value {
            Some(value) => dotconfig::line(&change.symbol, value),
            None => format!("no CONFIG_{}", change.symbol),
        };
        context.progress().event(&Event::Warning(format!(
            "not reached: {}, which stays {}",
            line(&change.to),
            line(&change.from)
        )));
    }
    if draft.remaining.len() > SHOWN {
        context.progress().event(&Event::Warning(format!(
            "and {} more; --format json has all",
            draft.remaining.len() - SHOWN
        )));
    }
    context.answer(&Derived(&draft))?;
    Ok(Exit::Ok)
}

struct Derived<'a>(&'a Draft);

impl Answer for Derived<'_> {
    fn text(&self, _style: Style) -> String {
        self.0.text.clone()
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.fragment-from/1",
            "fragment": self.0.text,
            "lines": self.0.asked,
            "not_reached": self.0.remaining,
        })
    }
}
