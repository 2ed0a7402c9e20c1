//! What is made different on purpose where a build is made again, and what cannot be.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use camino::Utf8Path;
use rustix::fs::Mode;

use super::session::{Rebuilding, Session};
use super::statements::PROVENANCE;
use super::verify;
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::kbuild::other_time::{self, DAYS_AHEAD};
use crate::kbuild::root::Root;
use crate::proof::canonical::SIZE_LIMIT;
use crate::proof::envelope::Envelope;
use crate::proof::provenance;
use crate::sandbox::BUILD_USER;

/// What the caller's environment holds while a build is made again: what has changed the outcome of
/// builds elsewhere. None of it may reach this one.
const SURROUNDINGS: [(&str, &str); 14] = [
    ("TZ", TIME_ZONE),
    ("LANG", LOCALE),
    ("LC_ALL", LOCALE),
    ("MAKEFLAGS", "-e KCFLAGS=-O1 KBUILD_BUILD_HOST=elsewhere"),
    ("KCFLAGS", "-O1"),
    ("CFLAGS", "-O1 -g"),
    ("KBUILD_BUILD_USER", "somebody"),
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("SOURCE_DATE_EPOCH", "1"),
    ("XZ_OPT", "-0 --threads=7"),
    ("XZ_DEFAULTS", "-0"),
    ("GZIP", "-1"),
    ("TAR_OPTIONS", "--format=posix --mtime=now"),
    ("DEB_BUILD_OPTIONS", "nostrip parallel=7"),
];

/// As far from UTC as a place can be.
const TIME_ZONE: &str = "Pacific/Kiritimati";

/// One with letters, dates and an order of its own.
const LOCALE: &str = "tr_TR.UTF-8";

/// The strictest that anybody uses.
const UMASK: u32 = 0o077;

/// Starts this program again in surroundings that no build may depend on; returns at once where it
/// stands in them.
pub fn enter() -> Result<(), Failure> {
    let is_in =
        |(name, value): &(&str, &str)| std::env::var(name).is_ok_and(|found| found == *value);
    if SURROUNDINGS.iter().all(is_in) {
        return Ok(());
    }
    Err(command::again(&SURROUNDINGS).into())
}

/// Works under a strict umask.
pub(super) fn strictly<T>(work: impl FnOnce() -> T) -> T {
    let usual = rustix::process::umask(Mode::from_raw_mode(UMASK));
    let result = work();
    rustix::process::umask(usual);
    result
}

/// The conditions of a rebuild, in words.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    /// What is different on purpose.
    pub(super) varied: BTreeMap<String, String>,
    /// What cannot be different here, and why.
    pub(super) unvaried: Vec<String>,
}

/// The same session where things are different: user, jobs, and the time of day.
pub(super) fn vary<'a>(
    session: Session<'a>,
    root: Option<&Root>,
    manifest: &Utf8Path,
) -> Result<(Session<'a>, Conditions), Failure> {
    let mut session = session;
    let mut conditions = Conditions::default();
    let mut varied = |what: &str, how: String| conditions.varied.insert(what.to_owned(), how);
    varied("path", "another directory".to_owned());
    varied("umask", format!("{UMASK:04o}"));
    varied("time_zone", TIME_ZONE.to_owned());
    varied("locale", LOCALE.to_owned());
    let names: Vec<&str> = SURROUNDINGS[3..].iter().map(|(name, _)| *name).collect();
    varied("environment", names.join(" "));
    let usual = session.jobs.get();
    let first = first_jobs(manifest);
    let jobs = [usual, usual + 1]
        .into_iter()
        .find(|jobs| Some(*jobs) != first.or(Some(usual)));
    session.jobs = jobs.and_then(NonZeroU32::new).unwrap_or(session.jobs);
    varied("jobs", session.jobs.to_string());
    let mut unvaried = vec![
        "the machine: its kernel, its processors, and how many: reproduce on another one"
            .to_owned(),
    ];
    match session.isolation.as_user(BUILD_USER + 1) {
        Some(isolation) => {
            session.isolation = isolation;
            varied("user", (BUILD_USER + 1).to_string());
        }
        None => unvaried.push("the user: without a sandbox only root can change it".to_owned()),
    }
    let mut rebuilding = Rebuilding::default();
    match other_time::library(&session.isolation, root)? {
        Ok(library) => {
            rebuilding.other_time = Some(library.to_owned());
            varied("clock", format!("{DAYS_AHEAD} days ahead"));
        }
        Err(reason) => unvaried.push(format!("the clock: {reason}")),
    }
    session.rebuilding = Some(rebuilding);
    conditions.unvaried = unvaried;
    Ok((session, conditions))
}

/// How many jobs the first build ran, where the provenance beside its manifest says it. Nobody needs
/// to vouch for that: a wrong number makes this rebuild a little less different, and its own number
/// is told.
fn first_jobs(manifest: &Utf8Path) -> Option<u32> {
    let path = verify::beside(manifest).join(PROVENANCE);
    let text = files::read_text(&path, 2 * SIZE_LIMIT).ok()?;
    let envelope = Envelope::parse(path.as_str(), &text).ok()?;
    let statement = envelope.payload_of(path.as_str(), provenance::KIND).ok()?;
    provenance::jobs_of(&statement)
}
