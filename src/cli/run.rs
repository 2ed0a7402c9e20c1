//! From the command line to an exit code.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use camino::Utf8PathBuf;
use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Error, FromArgMatches};
use serde_json::{Value, json};

use super::app;
use super::context::{Context, Format, Global, write_out, written};
use super::verbs;
use crate::failure::{Diagnose as _, Exit, Failure};
use crate::source::worker;
use crate::ui::{Style, failure_json, failure_text, printable};

/// Where a panic happened and what it said, for the one place that reports it.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The program `kiln`.
pub fn kiln() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // In a sandbox, kiln works on bytes that nobody vouches for yet.
    if args.get(1).is_some_and(|word| word == "worker") {
        let rest = args[2..]
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        return ExitCode::from(worker::main(&rest.collect::<Vec<String>>()).code());
    }
    panic::set_hook(Box::new(|info| {
        let mut last = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        last.get_or_insert_with(|| info.to_string());
    }));
    let exit = panic::catch_unwind(AssertUnwindSafe(|| dispatch(&args))).unwrap_or_else(|_| {
        end(
            wants_json(&args),
            Style::auto(&io::stderr()),
            None,
            Err(bug()),
        )
    });
    ExitCode::from(exit.code())
}

/// What a panic becomes.
fn bug() -> Failure {
    let what = PANIC
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        .unwrap_or_else(|| "unknown panic".to_owned());
    Failure {
        exit: Exit::Unexpected,
        code: "bug",
        message: "kiln stopped at a state that should not exist".to_owned(),
        causes: vec![what.replace('\n', " ")],
        hints: vec![
            "this is an error in kiln; report it with this text and the command".to_owned(),
        ],
    }
}

/// Parses, runs the verb, and writes how it ended.
fn dispatch(args: &[OsString]) -> Exit {
    let err = Style::auto(&io::stderr());
    let matches = match app::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return refuse(&error, wants_json(args), err),
    };
    let prepared = arguments::<Global>(&matches).and_then(|global| Context::new(&global));
    let context = match prepared {
        Ok(context) => context,
        Err(failure) => return end(wants_json(args), err, None, Err(failure)),
    };
    let result = run(&context, &matches);
    context.quiet_down();
    end(
        context.format() == Format::Json,
        context.error_style(),
        context.document(),
        result,
    )
}

fn run(context: &Context, matches: &ArgMatches) -> Result<Exit, Failure> {
    crate::interrupt::install().map_err(|error| Failure {
        exit: Exit::Unexpected,
        code: "signals",
        message: "failed to listen for signals".to_owned(),
        causes: vec![error.to_string()],
        hints: Vec::new(),
    })?;
    let (verb, matches) =
        verbs::find(matches).ok_or_else(|| Failure::usage("no such verb; see `kiln help`"))?;
    if !verb.formats.contains(&context.format()) {
        let formats: Vec<&str> = verb.formats.iter().map(|format| format.as_str()).collect();
        return Err(Failure::usage(format!(
            "`kiln {}` does not answer as {}: it knows {}",
            verb.name(),
            context.format().as_str(),
            formats.join(", ")
        )));
    }
    let result = (verb.run)(context, matches);
    match crate::interrupt::check() {
        // What fails because it was interrupted ends with the signal's code, whatever it hit first.
        Err(interrupted) if result.is_err() => {
            let mut failure = Failure::from(interrupted);
            failure.causes = result
                .err()
                .filter(|first| first.code != interrupted.code())
                .map(|first| first.message)
                .into_iter()
                .collect();
            Err(failure)
        }
        _ => result,
    }
}

/// The arguments of a verb.
pub(super) fn arguments<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, Failure> {
    A::from_arg_matches(matches).map_err(|error| usage(&error))
}

/// A path on the command line. An empty one, such as an unset variable, would be the directory that
/// kiln was started in.
pub(super) fn path(text: &str) -> Result<Utf8PathBuf, String> {
    if text.is_empty() {
        return Err("expected a path, found nothing".to_owned());
    }
    Ok(text.into())
}

/// Whether the command line asks for JSON, read without parsing it, for when that failed.
fn wants_json(args: &[OsString]) -> bool {
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    args.iter().any(|arg| arg == "--format=json")
        || args
            .windows(2)
            .any(|pair| pair[0] == "--format" && pair[1] == "json")
}

/// Help and version are answers; everything else that clap returns is a wrong command line.
fn refuse(error: &Error, json: bool, style: Style) -> Exit {
    let shown = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if !shown {
        return end(json, style, None, Err(usage(error)));
    }
    if json {
        let text = error.render().to_string();
        return end(
            true,
            style,
            Some(json!({ "schema": "kiln.help/1", "text": text })),
            Ok(Exit::Ok),
        );
    }
    match written(error.print()) {
        Ok(()) => Exit::Ok,
        Err(failure) => end(false, style, None, Err(failure)),
    }
}

/// clap's error in kiln's form.
fn usage(error: &Error) -> Failure {
    let text = error.render().to_string();
    if text.contains("PRIVATE KEY") {
        return Failure::usage("the command line holds a private key: expected the name of a file")
            .hint("every user of this host can read command lines: make a new key, and do not use this one");
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a verb is missing").hint("see `kiln help` for the verbs");
    }
    let message = text
        .lines()
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let mut failure = Failure::usage(message.to_owned());
    for line in text.lines() {
        if let Some(tip) = line.trim_start().strip_prefix("tip: ") {
            failure = failure.hint(tip.to_owned());
        }
        if let Some(usage) = line.strip_prefix("Usage: ") {
            failure = failure.hint(format!("usage: {usage}"));
        }
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        return failure.hint("see `kiln help` for the verbs");
    }
    let verb = match error.get(ContextKind::Usage) {
        Some(usage) => usage
            .to_string()
            .split_whitespace()
            .skip(1)
            .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
            .collect::<Vec<_>>()
            .join(" "),
        None => "kiln".to_owned(),
    };
    failure.hint(format!("see `{verb} --help` for examples"))
}

/// Writes how it ended: the one JSON document, or the failure as text; returns the exit code.
fn end(json: bool, style: Style, document: Option<Value>, result: Result<Exit, Failure>) -> Exit {
    let failure = match result {
        Ok(exit) if !json => return exit,
        Ok(exit) => {
            let document = document.unwrap_or_else(|| json!({}));
            return match write_out(&pretty(&document)) {
                Ok(()) => exit,
                Err(failure) => end(false, style, None, Err(failure)),
            };
        }
        Err(failure) => failure,
    };
    if json {
        let mut document = match document {
            Some(Value::Object(document)) => document,
            _ => serde_json::Map::new(),
        };
        document.insert("error".to_owned(), failure_json(&failure));
        if write_out(&pretty(&Value::Object(document))).is_ok() {
            return failure.exit;
        }
    }
    // A closed stderr leaves the exit code to tell.
    let _told = io::stderr().write_all(printable(&failure_text(&failure, style)).as_bytes());
    failure.exit
}

fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}
