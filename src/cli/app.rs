//! clap's view of the table of verbs.

use std::fmt::Write as _;

use clap::{Args as _, Command};

use super::context::Global;
use super::verbs::{NOUNS, VERBS, Verb};
use crate::failure::Exit;

/// Widest line of help, where the terminal is not narrower.
const WIDTH: usize = 100;

/// Exit codes that every verb has.
const EVERY: [Exit; 5] = [
    Exit::Ok,
    Exit::Unexpected,
    Exit::Usage,
    Exit::Interrupted,
    Exit::Terminated,
];

/// The whole command line.
pub fn command() -> Command {
    let mut app = Global::augment_args(Command::new("kiln"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Builds Linux kernels that a fleet can trust to be boring")
        .long_about(None)
        .max_term_width(WIDTH)
        .help_expected(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Start with `kiln init DIR`. `kiln help VERB` shows examples and exit codes of a verb.",
        );
    for (noun, about) in NOUNS {
        let verbs = VERBS.iter().filter(|verb| verb.path.first() == Some(noun));
        let group = Command::new(*noun)
            .about(*about)
            .subcommand_required(true)
            .arg_required_else_help(true);
        app = app.subcommand(verbs.fold(group, |group, verb| group.subcommand(of(verb))));
    }
    VERBS
        .iter()
        .filter(|verb| verb.path.len() == 1)
        .fold(app, |app, verb| app.subcommand(of(verb)))
}

/// One verb's command, named by its last word.
pub(super) fn of(verb: &Verb) -> Command {
    let name = verb.path.last().copied().unwrap_or_default();
    let command = Command::new(name)
        .about(verb.summary)
        .after_help(after(verb));
    let command = if verb.detail.is_empty() {
        command
    } else {
        command.long_about(format!("{}\n\n{}", verb.summary, verb.detail))
    };
    (verb.args)(command)
}

/// Examples and exit codes, which stand below the options.
fn after(verb: &Verb) -> String {
    let mut out = String::from("Examples:\n");
    for example in verb.examples {
        let _infallible = writeln!(out, "  {}\n      {}", example.line, example.says);
    }
    out.push_str("\nExit codes:\n");
    for (exit, meaning) in Exit::TABLE {
        if EVERY.contains(&exit) || verb.exits.contains(&exit) {
            let _infallible = writeln!(out, "  {:<5}{meaning}", exit.code());
        }
    }
    out.trim_end().to_owned()
}
