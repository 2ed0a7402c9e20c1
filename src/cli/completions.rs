//! `kiln completions`: what a shell needs to complete kiln's command lines.

use clap::Args;
use clap_complete::Shell;

use super::app;
use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::ui::Text;

pub(super) static VERB: Verb = Verb {
    path: &["completions"],
    summary: "Print a completion script for a shell",
    detail: "",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[
        Example {
            line: "kiln completions bash > ~/.local/share/bash-completion/completions/kiln",
            says: "completes in every new bash of yours",
        },
        Example {
            line: "kiln completions zsh > /usr/local/share/zsh/site-functions/_kiln",
            says: "completes in every new zsh",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut app::command(), "kiln", &mut script);
    context.answer(&Text {
        schema: "kiln.completions/1",
        text: String::from_utf8_lossy(&script).into_owned(),
    })?;
    Ok(Exit::Ok)
}
