//! Parts that this very program plays when a test starts it again as a child: a process that can
//! be killed at any moment, because it is not the one that judges.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

/// Names the part in the child's environment.
const PART: &str = "KILN_TEST_PART";

/// A part: takes its arguments, returns the exit code.
pub type Part = fn(&[String]) -> ExitCode;

/// Every part by name. A module adds its own here, one line each, sorted.
fn parts() -> BTreeMap<&'static str, Part> {
    BTreeMap::from([(
        "env::print_environment",
        super::env::print_environment as Part,
    )])
}

/// A command that starts this program in the given part.
pub fn command(part: &str, arguments: &[&str]) -> Command {
    let own_path = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(own_path);
    command.env(PART, part).args(arguments);
    command
}

/// In a child: plays the part and says how to exit. In the real test program: nothing.
pub fn play_part() -> Option<ExitCode> {
    let name = std::env::var(PART).ok()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts = parts();
    let Some(part) = parts.get(name.as_str()) else {
        eprintln!("no part is named {name}");
        return Some(ExitCode::from(2));
    };
    Some(part(&arguments))
}
