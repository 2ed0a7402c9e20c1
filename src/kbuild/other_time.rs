//! Another time than it is, for what runs inside a build: libfaketime, where the host has it. A time
//! namespace cannot do it: it moves the clocks that count from the start, not the wall clock
//! (`man 7 time_namespaces`).

use std::time::Duration;

use camino::Utf8Path;

use super::root::Root;
use crate::clock;
use crate::command::{Cmd, CommandError, Tool};
use crate::sandbox::{Isolation, Sandbox};

/// How far ahead the clock is: into another year, month and day.
pub const DAYS_AHEAD: u32 = 400;

/// Where distributions install it; the variant for programs with threads.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];

/// Where a build finds it.
const INSIDE: &str = "/build/time.so";

/// How far what a program is told may be from what it should be, in seconds.
const TOLERANCE: u64 = 3600;

/// A sandbox with the library in it, and the words to start a program through that is to see another
/// time. They are no variables of the sandbox: the library would be loaded before privileges are
/// dropped, and leave a semaphore that nobody can open afterwards. What is asked of files stays
/// true, since make would wonder about files from the future.
pub(super) fn shown(sandbox: Sandbox, library: &Utf8Path) -> (Sandbox, Vec<String>) {
    let sandbox = sandbox.read_only(library, INSIDE);
    let library = sandbox.path(Utf8Path::new(INSIDE));
    let words = [
        "/usr/bin/env".to_owned(),
        format!("LD_PRELOAD={library}"),
        format!("FAKETIME=+{DAYS_AHEAD}d"),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        "NO_FAKE_STAT=1".to_owned(),
    ];
    (sandbox, words.into())
}

/// The library that shows a build in this root another time, or why there is none.
pub fn library(
    isolation: &Isolation,
    root: Option<&Root>,
) -> Result<Result<&'static Utf8Path, &'static str>, CommandError> {
    const BROKEN: &str = "libfaketime does not work in the build root";
    if !isolation.is_isolated() {
        return Ok(Err("no sandbox can be had"));
    }
    let installed = LIBRARIES.map(Utf8Path::new);
    let Some(library) = installed.into_iter().find(|path| path.is_file()) else {
        return Ok(Err("libfaketime is not installed"));
    };
    let mut sandbox = Sandbox::new(isolation);
    if let Some(root) = root {
        sandbox = sandbox.rooted(root.path());
    }
    let (sandbox, words) = shown(sandbox, library);
    let asked = Cmd::new(&Tool::inside(&words[0]))
        .args(&words[1..])
        .args(["/usr/bin/date", "+%s"])
        .sandbox(&sandbox)
        .deadline(Duration::from_secs(20))
        .capture();
    let told = match asked {
        Ok(told) => String::from_utf8_lossy(&told).trim().parse::<i64>(),
        Err(error @ CommandError::Interrupted(_)) => return Err(error),
        Err(_) => return Ok(Err(BROKEN)),
    };
    let expected = clock::now().as_second() + i64::from(DAYS_AHEAD) * 86_400;
    Ok(match told {
        Ok(told) if told.abs_diff(expected) < TOLERANCE => Ok(library),
        _ => Err(BROKEN),
    })
}
