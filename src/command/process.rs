//! The life of a started program: watched, stopped with all its group, and judged by its end.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::error::CommandError;
use crate::clock;
use crate::interrupt::{self, Interrupted, Lent};

/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(10);

/// How much of an error's output is shown.
const TAIL_LINES: usize = 20;

/// Makes the kernel kill the child when this process dies, however it dies, and gives it the usual
/// umask: the caller's would show in the modes of packaged files. The form is the one that the
/// spawning library calls back.
#[expect(clippy::unnecessary_wraps, reason = "a callback")]
pub(super) fn bind_life(command: &mut std::process::Command) -> io::Result<()> {
    let die_with_us = || {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
    };
    #[expect(
        unsafe_code,
        reason = "the standard library offers no safe way to set it"
    )]
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; these are two system
    // calls without allocation.
    unsafe {
        command.pre_exec(die_with_us);
    }
    Ok(())
}

/// Why a program was stopped.
pub(super) enum Stopped {
    Deadline(Duration),
    /// More output than this many bytes.
    TooMuch(u64),
    Interrupted(Interrupted),
}

/// An output file and the size it may reach, in bytes.
pub(super) struct Cap {
    pub(super) file: File,
    pub(super) limit: u64,
}

impl Cap {
    fn is_passed(&self) -> bool {
        // A size that cannot be asked for is left to the deadline.
        self.file
            .metadata()
            .is_ok_and(|data| data.len() > self.limit)
    }
}

/// Waits until the process has ended (without reaping it), or there is a reason to stop it.
pub(super) fn watch(
    pid: Pid,
    started: Instant,
    deadline: Option<Duration>,
    caps: &[Cap],
    lent: Option<&Lent>,
) -> Option<Stopped> {
    let mut pause = Duration::from_millis(1);
    loop {
        if has_ended(pid) {
            return None;
        }
        if lent.is_some_and(Lent::was_interrupted) {
            pass_on(pid);
        }
        if let Err(interrupted) = interrupt::check() {
            return Some(Stopped::Interrupted(interrupted));
        }
        if let Some(limit) = deadline.filter(|limit| started.elapsed() >= *limit) {
            return Some(Stopped::Deadline(limit));
        }
        if let Some(cap) = caps.iter().find(|cap| cap.is_passed()) {
            return Some(Stopped::TooMuch(cap.limit));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that there is no such child, so nothing to wait for.
    !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None))
}

/// TERM to the whole group, then KILL to what is left.
pub(super) fn stop_group(pid: Pid) {
    let _gone = rustix::process::kill_process_group(pid, Signal::TERM);
    let asked = clock::monotonic();
    while asked.elapsed() < GRACE && !has_ended(pid) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _gone = rustix::process::kill_process_group(pid, Signal::KILL);
}

/// Gives Ctrl-C to what runs below a sandbox on the terminal: it has a session of its own, so the
/// terminal does not. A process that shares our group got it from the terminal already.
fn pass_on(first: Pid) {
    let wrappers = [rustix::process::getpgrp(), first];
    let mut groups = Vec::new();
    let mut queue = vec![first.as_raw_nonzero().get()];
    while let Some(pid) = queue.pop() {
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
            queue.push(child);
            let group =
                Pid::from_raw(child).and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
            groups.extend(group.filter(|group| !wrappers.contains(group)));
        }
    }
    groups.dedup();
    for group in groups {
        let _gone = rustix::process::kill_process_group(group, Signal::INT);
    }
}

/// Ends one process that shares this one's group: a program on the terminal.
pub(super) fn stop(pid: Pid) {
    let _gone = rustix::process::kill_process(pid, Signal::TERM);
    let asked = clock::monotonic();
    while asked.elapsed() < GRACE && !has_ended(pid) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _gone = rustix::process::kill_process(pid, Signal::KILL);
}

/// How a program ended.
pub(super) struct Done {
    pub(super) status: ExitStatus,
    pub(super) elapsed: Duration,
    pub(super) tail: Vec<String>,
}

impl Done {
    pub(super) fn require_success(
        &self,
        line: String,
        log: Option<Utf8PathBuf>,
    ) -> Result<(), CommandError> {
        if self.status.success() {
            Ok(())
        } else {
            Err(self.failed(line, log))
        }
    }

    pub(super) fn failed(&self, line: String, log: Option<Utf8PathBuf>) -> CommandError {
        let how = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exited with {code}"),
            (None, Some(signal)) => {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                format!("was killed by {name}")
            }
            (None, None) => "ended in an unknown way".to_owned(),
        };
        CommandError::Failed {
            line,
            how,
            exit_code: self.status.code(),
            elapsed: self.elapsed,
            tail: self.tail.clone(),
            log,
        }
    }
}

/// The last lines that were written to the log from `start` on; control characters are shown as
/// `?`, since the text may come from a hostile archive and goes to a terminal.
pub(super) fn tail(log: &mut File, start: u64) -> Vec<String> {
    const WINDOW: u64 = 16 << 10;
    let mut read = || -> io::Result<String> {
        let end = log.seek(SeekFrom::End(0))?;
        log.seek(SeekFrom::Start(start.max(end.saturating_sub(WINDOW))))?;
        let mut bytes = Vec::new();
        log.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let Ok(text) = read() else { return Vec::new() };
    let clean = |line: &str| -> String {
        line.chars()
            .take(400)
            .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
            .collect()
    };
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|line| clean(line))
        .collect()
}
