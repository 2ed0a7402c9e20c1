//! Parts that this very program plays when a test starts it again as a child: a process that can
//! be killed at any moment, because it is not the one that judges.

use std::io::Write as _;
use std::process::{Command, ExitCode};

use super::env::Running;
use super::{Env, Stop, fail};

/// Names the part in the child's environment.
const PART: &str = "KILN_TEST_PART";

/// A part by name: takes its arguments, returns the exit code.
pub type Part = (&'static str, fn(&[String]) -> ExitCode);

/// A command that starts this program in the given part.
pub fn command(part: &str, arguments: &[&str]) -> Command {
    let own_path = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(own_path);
    command.env(PART, part).args(arguments);
    command
}

/// In a child: plays the part and says how to exit. In the real test program: nothing.
pub fn play_part(parts: &[Part]) -> Option<ExitCode> {
    let name = std::env::var(PART).ok()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((_, part)) = parts.iter().find(|(known, _)| *known == name) else {
        eprintln!("no part is named {name}");
        return Some(ExitCode::from(2));
    };
    Some(part(&arguments))
}

/// Says a line to the test at once; a test that is gone does not listen.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Starts the part in the surroundings of `env`.
pub fn start(env: &Env, part: &str, arguments: &[&str]) -> Result<Running, Stop> {
    env.program(&own_path()?, arguments.iter().copied())
        .env(PART, part)
        .start()
}

/// Starts the part through another program: `wrapper... THIS_PROGRAM arguments...`.
pub fn start_through(
    env: &Env,
    wrapper: &[&str],
    part: &str,
    arguments: &[&str],
) -> Result<Running, Stop> {
    let own_path = own_path()?;
    let words = wrapper[1..].iter().copied().chain([own_path.as_str()]);
    env.program(wrapper[0], words.chain(arguments.iter().copied()))
        .env(PART, part)
        .start()
}

fn own_path() -> Result<String, Stop> {
    let path = std::env::current_exe()?;
    path.into_os_string()
        .into_string()
        .map_err(|path| fail(format!("{} is not UTF-8", path.display())))
}

/// Every process whose command line holds the mark, and is not dead already.
pub fn processes_marked(mark: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            *pid != std::process::id()
                && std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        })
        .collect()
}

/// Waits up to two seconds until no process carries the mark; fails with those that do.
pub fn expect_none_marked(mark: &str) -> Result<(), Stop> {
    let mut left = processes_marked(mark);
    for _ in 0..200 {
        if left.is_empty() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        left = processes_marked(mark);
    }
    // They would disturb other tests.
    drop(
        Command::new("/bin/kill")
            .arg("-9")
            .args(left.iter().map(u32::to_string))
            .status(),
    );
    Err(fail(format!(
        "processes {left:?} outlived what started them"
    )))
}
