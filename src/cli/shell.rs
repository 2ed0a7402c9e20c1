//! `kiln shell`: a shell inside the build environment, for debugging.

use clap::{Args, Command};

use super::context::{Context, Format};
use super::run::arguments;
use super::verbs::{Example, Verb};
use super::work::Work;
use crate::command::Tool;
use crate::failure::{Exit, Failure};

pub(super) static VERB: Verb = Verb {
    path: &["shell"],
    summary: "Open a shell in the build environment of a pipeline",
    detail: "The same sandbox, paths, variables and user that the build has: the source read-only in \
             /build/src, the configured object tree in /build/out/tree. What is done there is kept \
             apart from builds.",
    writes: true,
    formats: &[Format::Text],
    exits: super::verbs::BUILDING,
    examples: &[Example {
        line: "kiln shell lts",
        says: "look at what the build sees, run make by hand",
    }],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The pipeline: a name in pipelines/, or a path
    pipeline: String,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let work = Work::open(context)?;
    let session = work.session(context, context.progress())?;
    let pipeline = work.workspace.pipeline(&arguments.pipeline)?;
    let (_exclusive, shell) = session.shell(&pipeline)?;
    context
        .progress()
        .note("leave with `exit`; nothing of this is used by a build");
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    let code = shell
        .program(&Tool::find("sh")?)
        .arg("-i")
        .env("TERM", terminal)
        .interactive()?;
    context
        .progress()
        .note(format!("the shell ended with {code}"));
    Ok(Exit::Ok)
}
