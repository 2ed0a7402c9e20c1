//! The jobs that kiln hands to itself in a sandbox, because their input is nobody's word yet:
//! `kiln worker decompress` and `kiln worker unpack`.
//!
//! The worker reads standard input, writes to what it was given, and says on the last line of
//! standard error what came of it, as JSON. Its parent believes none of that without a check of
//! its own: the output is verified, and digests are compared.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::Utf8Path;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::extract::{self, ExtractError, Job};
use super::xz;
use crate::command::{Cmd, CommandError};
use crate::failure::{Diagnose, Exit};
use crate::files::{FileError, Staged};

/// Longest standard error that is read back, in bytes.
const MAX_VERDICT: u64 = 1 << 20;

/// Most address space of a worker, in bytes. Far above what its own limits let it take: this is for
/// a decoder that was made to run wild.
const ADDRESS_SPACE: u64 = 4 << 30;

/// Why a worker came to no verdict.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not be run, or did not end in time.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// It ended without saying what came of its work.
    #[error("the `{job}` worker ended with {code} and without a verdict; its last line: `{last}`")]
    NoVerdict {
        /// The job.
        job: &'static str,
        /// Its exit code.
        code: i32,
        /// The last it said, escaped.
        last: String,
    },
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it said could not be kept.
    #[error("failed to keep what the `{job}` worker says")]
    Io {
        /// The job.
        job: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl Diagnose for WorkerError {
    fn exit(&self) -> Exit {
        match self {
            Self::Command(error) => error.exit(),
            // A decoder that dies of its input has met bad input.
            Self::NoVerdict { .. } => Exit::NotVerified,
            Self::File(error) => error.exit(),
            Self::Io { .. } => Exit::Unexpected,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Command(error) => error.code(),
            Self::NoVerdict { .. } => "worker-no-verdict",
            Self::File(error) => error.code(),
            Self::Io { .. } => "worker-io",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Command(error) => error.hints(),
            Self::NoVerdict { .. } => vec![
                "fetch the file again from another mirror; if it stays, the file may have been \
                 made to break the decoder: keep it and report it"
                    .to_owned(),
            ],
            Self::File(error) => error.hints(),
            Self::Io { .. } => Vec::new(),
        }
    }
}

/// How a job ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Verdict<T, E> {
    Done(T),
    Refused(E),
}

/// Runs a worker's command and reads its verdict, calling `watch` five times a second meanwhile.
pub(in crate::source) fn run_watched<T: DeserializeOwned, E: DeserializeOwned>(
    job: &'static str,
    command: Cmd,
    watch: impl Fn() + Sync,
) -> Result<Result<T, E>, WorkerError> {
    let io = |source| WorkerError::Io { job, source };
    let mut log = Staged::within(Utf8Path::new("/tmp"))?;
    let command = command.log(log.path());
    let is_done = AtomicBool::new(false);
    let status = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                watch();
                std::thread::park_timeout(Duration::from_millis(200));
            }
        });
        let status = command.status();
        is_done.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        status
    });
    watch();
    let code = status?;
    let mut said = Vec::new();
    log.file().rewind().map_err(io)?;
    log.file()
        .take(MAX_VERDICT)
        .read_to_end(&mut said)
        .map_err(io)?;
    let last = said
        .split(|byte| *byte == b'\n')
        .rev()
        .find(|line| !line.trim_ascii().is_empty())
        .unwrap_or_default();
    match serde_json::from_slice(last) {
        Ok(Verdict::Done(done)) if code == 0 => Ok(Ok(done)),
        Ok(Verdict::Refused(refused)) => Ok(Err(refused)),
        Ok(Verdict::Done(_)) | Err(_) => Err(WorkerError::NoVerdict {
            job,
            code,
            last: last
                .iter()
                .take(300)
                .copied()
                .collect::<Vec<u8>>()
                .escape_ascii()
                .to_string(),
        }),
    }
}

/// The worker itself: `arguments` are what follows `kiln worker`. Returns the exit code.
pub fn main(arguments: &[String]) -> Exit {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["decompress", limits] => match serde_json::from_str(limits) {
            Ok(limits) => decompress(&limits),
            Err(error) => refuse_usage(&error.to_string()),
        },
        ["unpack", job, dest] => match serde_json::from_str(job) {
            Ok(job) => unpack(&job, Utf8Path::new(dest)),
            Err(error) => refuse_usage(&error.to_string()),
        },
        _ => refuse_usage("expected `decompress LIMITS` or `unpack JOB DIRECTORY`"),
    }
}

fn refuse_usage(reason: &str) -> Exit {
    say(format!("kiln worker: {reason}\n").as_bytes());
    Exit::Usage
}

fn decompress(limits: &xz::Limits) -> Exit {
    confine(limits.bytes);
    let mut input = io::stdin().lock();
    let output = std::os::fd::AsFd::as_fd(&io::stdout())
        .try_clone_to_owned()
        .map(File::from);
    let done = match output {
        Ok(mut output) => xz::decompress(&mut input, &mut output, limits),
        Err(error) => Err(xz::XzError::Io {
            action: "open the output".to_owned(),
            reason: error.to_string(),
        }),
    };
    conclude(done)
}

fn unpack(job: &Job, dest: &Utf8Path) -> Exit {
    confine(job.bytes);
    // Modes are clamped to 0644 and 0755, and this lets exactly those through.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let input = std::os::fd::AsFd::as_fd(&io::stdin())
        .try_clone_to_owned()
        .map(File::from);
    let done = match input {
        Ok(input) => extract::extract(input, dest, job),
        Err(error) => Err(ExtractError::Io {
            action: "open".to_owned(),
            name: "the archive".to_owned(),
            reason: error.to_string(),
        }),
    };
    conclude(done)
}

/// Writes the verdict.
fn conclude<T: Serialize, E: Serialize>(result: Result<T, E>) -> Exit {
    let (verdict, exit) = match result {
        Ok(done) => (Verdict::Done(done), Exit::Ok),
        Err(refused) => (Verdict::Refused(refused), Exit::NotVerified),
    };
    let mut line = serde_json::to_vec(&verdict).unwrap_or_default();
    line.push(b'\n');
    say(&line);
    exit
}

fn say(line: &[u8]) {
    // Whoever does not hear it finds no verdict, which is an error there.
    let _unheard = io::stderr().write_all(line);
}

/// Limits that hold even when a decoder is made to do something else: size of a file, memory,
/// no core dump.
fn confine(largest_file: u64) {
    for (resource, most) in [
        (Resource::Fsize, largest_file),
        (Resource::As, ADDRESS_SPACE),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // A lower limit that is already there stays, and is as good.
        let _kept = rustix::process::setrlimit(resource, limit);
    }
}
