//! A program on a terminal, with keys typed into it.

use std::io::Write as _;
use std::time::Duration;

use camino::Utf8Path;

use super::case::{Stop, skip};
use super::env::{Env, Running};

/// A program on a terminal of its own, and the keys that are typed there.
pub struct Terminal {
    /// `script`, and under it the program.
    pub running: Running,
    keys: std::fs::File,
    seen: usize,
}

impl Terminal {
    /// Starts a command line of the shell's under `script`, which makes the terminal. After
    /// `deadline` it is killed.
    pub fn start(env: &Env, line: &str, deadline: Duration) -> Result<Self, Stop> {
        if !Utf8Path::new("/usr/bin/script").exists() {
            return Err(skip("there is no script(1) to make a terminal with"));
        }
        let pipe = env.root().join("keys");
        if !pipe.exists() {
            rustix::fs::mkfifoat(rustix::fs::CWD, pipe.as_std_path(), 0o600.into())?;
        }
        let script =
            format!("exec script --quiet --return --command 'exec {line}' /dev/null < {pipe}");
        let run = env.program("/bin/sh", ["-c", &script]);
        let running = run.env("TERM", "xterm").deadline(deadline).start()?;
        // Opens once the other end does.
        let keys = std::fs::File::options().write(true).open(&pipe)?;
        Ok(Self {
            running,
            keys,
            seen: 0,
        })
    }

    /// Waits until this is on the screen, drawn since the last key.
    pub fn shows(&mut self, text: &str) -> Result<(), Stop> {
        let seen = self.seen;
        self.running.until(&format!("it shows {text:?}"), |run| {
            let screen = run.stdout_so_far()?;
            Ok(plain(screen.get(seen..).unwrap_or_default()).contains(text))
        })
    }

    /// Types.
    pub fn types(&mut self, keys: &str) -> Result<(), Stop> {
        self.seen = self.running.stdout_so_far()?.len();
        self.keys.write_all(keys.as_bytes())?;
        Ok(())
    }
}

/// What is drawn, without how.
fn plain(screen: &str) -> String {
    let mut out = String::new();
    let mut rest = screen.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.next() {
                Some('[') => drop(rest.find(char::is_ascii_alphabetic)),
                Some('(' | ')') => drop(rest.next()),
                _ => {}
            },
            '\u{e}' | '\u{f}' => {}
            _ => out.push(c),
        }
    }
    out
}
