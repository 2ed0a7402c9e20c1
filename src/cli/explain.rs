//! `kiln explain`: one option of the kernel's configuration.

use clap::Args;

use super::context::Context;
use super::run::arguments;
use super::verbs::{BUILDING, Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::dotconfig::Value;
use crate::failure::{Exit, Failure};
use crate::pipeline::workspace::Workspace;
use crate::ui::Told;

pub(super) static VERB: Verb = Verb {
    path: &["explain"],
    summary: "Tell what an option is, why it has its value, and what would change with another",
    detail: "Answers for any option of a pipeline's kernel, set or not: what it asks, where it is \
             defined, its value and who set it, what it needs with the values now, what selects it \
             and what it selects, and what would change if it were set otherwise. Where a line \
             alone would not hold, the lines that make it hold are searched and tried. Nothing is \
             changed.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: BUILDING,
    examples: &[
        Example {
            line: "kiln explain CONFIG_PREEMPT_RT --pipeline lts",
            says: "what real-time preemption needs, and what it would cost there",
        },
        Example {
            line: "kiln explain NR_CPUS=256 --pipeline lts",
            says: "what it takes to give it that value",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The option, with or without `CONFIG_`, and perhaps a value: NAME=VALUE
    #[arg(value_name = "OPTION")]
    option: String,

    /// The pipeline whose kernel and fragments are meant: a name in pipelines/, or a path
    #[arg(long, value_name = "P")]
    pipeline: Option<String>,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let (symbol, value) = parsed(&arguments.option)?;
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let name = match &arguments.pipeline {
        Some(name) => name.clone(),
        None => only(&work.workspace)?,
    };
    let pipeline = work.workspace.pipeline(&name)?;
    let explained = session.explain(&pipeline, symbol, value.as_ref())?;
    context.answer(&Told {
        explained: &explained,
        verbose: context.verbose(),
    })?;
    Ok(Exit::Ok)
}

/// The option's name and value.
fn parsed(option: &str) -> Result<(&str, Option<Value>), Failure> {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(Value::parse(value))),
        None => (option, None),
    };
    let name = name.strip_prefix("CONFIG_").unwrap_or(name);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(word) {
        return Err(Failure::usage(format!(
            "expected an option such as CONFIG_PREEMPT_RT or NR_CPUS=256, found `{option}`"
        )));
    }
    Ok((name, value))
}

/// The pipeline of a workspace that has only one.
fn only(workspace: &Workspace) -> Result<String, Failure> {
    let names = workspace.pipeline_names()?;
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(Failure::usage(format!(
            "which pipeline's kernel is meant? add `--pipeline` with one of {}",
            names.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_named_in_any_usual_way() {
        assert_eq!(parsed("HZ").unwrap(), ("HZ", None));
        assert_eq!(parsed("CONFIG_HZ").unwrap(), ("HZ", None));
        let value = Some(Value::Int("256".to_owned()));
        assert_eq!(parsed("NR_CPUS=256").unwrap(), ("NR_CPUS", value));
        for bad in ["", "CONFIG_", "a b", "=y", "--x"] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
