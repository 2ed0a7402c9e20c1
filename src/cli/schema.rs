//! `kiln schema`: JSON Schema of the files that people write, for editors.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::spec::shape::schema;
use crate::spec::{COLLATERAL_SHAPE, channels, gate, node, pipeline, roles, workspace};
use crate::ui::{Answer, Style};

pub(super) static VERB: Verb = Verb {
    path: &["schema"],
    summary: "Print the JSON Schema of a file format, for editors and scripts",
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
    /// keys/roles.yaml
    Roles,
    /// A node's /etc/kiln/gate.yaml
    Gate,
    /// A node's /etc/kiln/node.yaml
    Node,
    /// pipelines/NAME.lock.json
    Lock,
    /// The payload of a build's manifest
    Manifest,
}

impl Of {
    /// What people write has a table, which is the schema's source; what kiln writes has a type,
    /// and a schema that the tests hold against it.
    fn schema(self) -> serde_json::Result<Value> {
        match self {
            Self::Pipeline => Ok(schema("kiln pipeline", &pipeline::SHAPE)),
            Self::Channels => Ok(schema("kiln channels", &channels::SHAPE)),
            Self::Workspace => Ok(schema("kiln workspace settings", &workspace::SHAPE)),
            Self::Collateral => Ok(schema("kiln collateral list", &COLLATERAL_SHAPE)),
            Self::Roles => Ok(schema("kiln roles", &roles::SHAPE)),
            Self::Gate => Ok(schema("kiln gate settings", &gate::SHAPE)),
            Self::Node => Ok(schema("kiln node settings", &node::SHAPE)),
            Self::Lock => serde_json::from_str(include_str!("schema/lock.json")),
            Self::Manifest => serde_json::from_str(include_str!("schema/manifest.json")),
        }
    }
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let schema = arguments
        .of
        .schema()
        .expect("embedded schemas are read by the tests");
    context.answer(&Schema(schema))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_can_be_read() {
        for of in Of::value_variants() {
            assert!(of.schema().unwrap()["title"].is_string());
        }
    }
}
