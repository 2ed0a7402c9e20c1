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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::cli::verbs;

    #[test]
    fn clap_finds_no_fault() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_told_whole() {
        let mut names = BTreeSet::new();
        for verb in VERBS {
            let name = verb.name();
            assert!(names.insert(name.clone()), "{name} is there twice");
            assert!(
                verb.summary.starts_with(|c: char| c.is_ascii_uppercase())
                    && !verb.summary.ends_with('.')
                    && verb.summary.len() <= 80,
                "{name}: {}",
                verb.summary
            );
            assert!(
                verb.detail.is_empty() || verb.detail.ends_with('.'),
                "{name}: {}",
                verb.detail
            );
            assert!(!verb.examples.is_empty(), "{name} has no example");
            assert!(!verb.formats.is_empty(), "{name} answers in no format");
            for exit in verb.exits {
                assert!(!EVERY.contains(exit), "{name}: {exit:?} is every verb's");
            }
            if let [noun, _] = verb.path {
                assert!(
                    NOUNS.iter().any(|(known, _)| known == noun),
                    "{name}: the noun is not told"
                );
            }
        }
        for (noun, _) in NOUNS {
            assert!(
                VERBS.iter().any(|verb| verb.path[0] == *noun),
                "no verb belongs to {noun}"
            );
        }
    }

    #[test]
    fn every_example_parses_as_its_own_verb() {
        for verb in VERBS {
            for example in verb.examples {
                // A redirection is the shell's.
                let line = example.line.split(" > ").next().unwrap();
                let words = line.split_whitespace();
                let matches = command()
                    .try_get_matches_from(words)
                    .unwrap_or_else(|error| panic!("`{line}`: {error}"));
                let (found, _) = verbs::find(&matches).unwrap();
                assert_eq!(found.path, verb.path, "`{line}`");
                assert!(!example.says.ends_with('.'), "{}", example.says);
            }
        }
    }
}
