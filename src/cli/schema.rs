//! `kiln schema`: JSON Schema of the files that people write, for editors.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::spec::shape::{Shape, schema};
use crate::spec::{COLLATERAL_SHAPE, channels, pipeline, workspace};
use crate::ui::{Answer, Style};

pub(super) static VERB: Verb = Verb {
    path: &["schema"],
    summary: "Print the JSON Schema of a file format, for editors",
    detail: "Schemas are JSON Schema 2020-12. The yaml-language-server takes one by a first line \
             such as `# yaml-language-server: $schema=pipeline.schema.json`. `kiln check` finds \
             more than a schema can say.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[
        Example {
            line: "kiln schema pipeline",
            says: "the schema of pipelines/NAME.yaml",
        },
        Example {
            line: "kiln schema workspace",
            says: "the schema of kiln.yaml",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// Which format
    #[arg(value_enum, value_name = "FORMAT")]
    of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// pipelines/NAME.yaml
    Pipeline,
    /// pipelines/channels.yaml
    Channels,
    /// kiln.yaml
    Workspace,
    /// collateral/NAME.yaml
    Collateral,
}

impl Of {
    fn shape(self) -> (&'static str, &'static Shape) {
        match self {
            Self::Pipeline => ("kiln pipeline", &pipeline::SHAPE),
            Self::Channels => ("kiln channels", &channels::SHAPE),
            Self::Workspace => ("kiln workspace settings", &workspace::SHAPE),
            Self::Collateral => ("kiln collateral list", &COLLATERAL_SHAPE),
        }
    }
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let (title, shape) = arguments.of.shape();
    context.answer(&Schema(schema(title, shape)))?;
    Ok(Exit::Ok)
}

/// A schema is the same document in both formats.
struct Schema(Value);

impl Answer for Schema {
    fn text(&self, _style: Style) -> String {
        format!("{:#}\n", self.0)
    }

    fn json(&self) -> Value {
        self.0.clone()
    }
}
