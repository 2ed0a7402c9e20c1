//! A run: one execution of a long verb, with its log, events, reports and outputs in a directory
//! of its own, written as it goes, so that a killed run still tells how far it came.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::statements::{PROVENANCE, SBOM};
use crate::clock;
use crate::digest::Sha256;
use crate::failure::Failure;
use crate::files::{self, FileError};
use crate::progress::{Event, Progress};

/// Largest run record that is read, in bytes.
const RECORD_LIMIT: u64 = 1 << 20;

/// Name of the directory with the logs of programs, in that of a run.
const LOGS: &str = "logs";

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// At work.
    Running,
    /// Ended well.
    Ok,
    /// Ended with a failure.
    Failed,
    /// Its process is gone and it never said how it ended.
    Died,
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// How long it took, in milliseconds; absent while it is at work, or where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// What it found or made.
    pub note: String,
}

/// What `run.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    schema: String,
    /// The run's id, which sorts by time.
    pub id: String,
    /// What was run: `build` or `boot-test`; `quickstart` runs both.
    pub verb: String,
    /// On which pipeline.
    pub pipeline: String,
    /// The process that runs it.
    pub pid: u32,
    /// When that process began, in clock ticks since the machine was started: its number alone may
    /// belong to another one by now. Absent in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_began: Option<u64>,
    /// When it began, RFC 3339.
    pub started: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// How it stands.
    pub status: Status,
    /// Exit code, once ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The inputs it worked on, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<Sha256>,
    /// The kernel release it builds, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Why its outputs may not be published; empty for a clean run.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// The command lines that configured and built, as they are inside the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The host's programs that it may run, by name: path and what each says of its version. For
    /// people who look for a difference; nothing is compared with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// What it did so far.
    pub stages: Vec<Stage>,
}

const SCHEMA: &str = "kiln.run/1";

impl Record {
    /// How long a stage took, where it ended.
    pub fn took(&self, stage: &str) -> Option<Duration> {
        let ended = self.stages.iter().rfind(|known| known.stage == stage)?;
        ended.took_ms.map(Duration::from_millis)
    }
}

struct Open {
    record: Record,
    log: File,
    events: File,
    stage_started: Option<Instant>,
}

/// A run at work. It takes every event, keeps it, and passes it on.
pub struct Run<'a> {
    directory: Utf8PathBuf,
    open: Mutex<Open>,
    next: &'a dyn Progress,
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// Begins a run below `runs`; events go on to `next`.
    pub fn begin(
        runs: &Utf8Path,
        verb: &str,
        pipeline: &str,
        next: &'a dyn Progress,
    ) -> Result<Self, FileError> {
        let now = clock::now();
        let stamp: String = now
            .to_string()
            .chars()
            .filter(|c| !"-:".contains(*c))
            .collect();
        let id = format!("{stamp}-{verb}-{pipeline}-{}", std::process::id());
        let directory = runs.join(&id);
        files::create_dir_all(&directory)?;
        let append = |name: &str| {
            let path = directory.join(name);
            File::options()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(|source| FileError::Io {
                    action: "create",
                    path,
                    source,
                })
        };
        let record = Record {
            schema: SCHEMA.to_owned(),
            id,
            verb: verb.to_owned(),
            pipeline: pipeline.to_owned(),
            pid: std::process::id(),
            pid_began: began(std::process::id()),
            started: now.to_string(),
            ended: None,
            status: Status::Running,
            exit: None,
            failure: None,
            input_digest: None,
            release: None,
            doubts: Vec::new(),
            commands: Vec::new(),
            programs: BTreeMap::new(),
            stages: Vec::new(),
        };
        let open = Open {
            record,
            log: append("log")?,
            events: append("events.jsonl")?,
            stage_started: None,
        };
        let run = Self {
            directory,
            open: Mutex::new(open),
            next,
        };
        run.save()?;
        Ok(run)
    }

    /// The run's directory.
    pub fn directory(&self) -> &Utf8Path {
        &self.directory
    }

    /// The log that programs append to.
    pub fn log(&self) -> Utf8PathBuf {
        self.directory.join("log")
    }

    /// Where the logs of its programs are kept.
    pub fn logs(&self) -> Utf8PathBuf {
        self.directory.join(LOGS)
    }

    /// The run's id.
    pub fn id(&self) -> String {
        self.lock().record.id.clone()
    }

    /// Notes what is built.
    pub fn building(&self, input_digest: Sha256, release: &str) -> Result<(), FileError> {
        {
            let mut open = self.lock();
            open.record.input_digest = Some(input_digest);
            open.record.release = Some(release.to_owned());
        }
        self.save()
    }

    /// Notes which programs it may run.
    pub fn programs(&self, programs: BTreeMap<String, String>) -> Result<(), FileError> {
        self.lock().record.programs = programs;
        self.save()
    }

    /// How long a stage of this run took.
    pub fn took(&self, stage: &str) -> Option<Duration> {
        self.lock().record.took(stage)
    }

    /// Notes why the outputs may not be published.
    pub fn doubt(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let mut open = self.lock();
        if !open.record.doubts.contains(&reason) {
            open.record.doubts.push(reason);
        }
    }

    /// Why the outputs may not be published, so far.
    pub fn doubts(&self) -> Vec<String> {
        self.lock().record.doubts.clone()
    }

    /// Notes a command line that it runs.
    pub fn runs(&self, line: String) {
        self.lock().record.commands.push(line);
    }

    /// What is known of it so far.
    pub fn record(&self) -> Record {
        self.lock().record.clone()
    }

    /// Ends the run and keeps how.
    pub fn end<T>(&self, result: &Result<T, Failure>) -> Result<(), FileError> {
        {
            let mut open = self.lock();
            open.record.ended = Some(clock::now().to_string());
            match result {
                Ok(_) => {
                    open.record.status = Status::Ok;
                    open.record.exit = Some(0);
                }
                Err(failure) => {
                    open.record.status = Status::Failed;
                    open.record.exit = Some(failure.exit.code());
                    open.record.failure = Some(told(failure));
                }
            }
        }
        self.save()
    }

    fn save(&self) -> Result<(), FileError> {
        let record = self.lock().record.clone();
        let path = self.directory.join("run.json");
        let bytes = serde_json::to_vec_pretty(&record).map_err(|error| FileError::Io {
            action: "describe",
            path: path.clone(),
            source: error.into(),
        })?;
        files::write(&path, &bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        // A panic while the lock was held leaves a record that is still worth writing.
        self.open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The message of a failure with what caused it, a line each.
fn told(failure: &Failure) -> String {
    let causes = failure.causes.iter();
    let causes = causes.map(|cause| format!("\ncaused by: {cause}"));
    format!("{}{}", failure.message, causes.collect::<String>())
}

impl Progress for Run<'_> {
    fn event(&self, event: &Event) {
        let mut changed = false;
        {
            let mut open = self.lock();
            let line = match event {
                Event::StageStarted { stage, detail } => {
                    open.stage_started = Some(clock::monotonic());
                    let stage = Stage {
                        stage: (*stage).to_owned(),
                        took_ms: None,
                        note: detail.clone(),
                    };
                    changed = true;
                    let line = format!("== {}: {detail}", stage.stage);
                    open.record.stages.push(stage);
                    Some(line)
                }
                Event::StageDone { stage, note } => {
                    let took = open.stage_started.take().map(|started| started.elapsed());
                    if let Some(last) = open.record.stages.iter_mut().rfind(|s| s.stage == *stage) {
                        last.took_ms = took.and_then(|took| u64::try_from(took.as_millis()).ok());
                        last.note.clone_from(note);
                    }
                    changed = true;
                    Some(format!("== {stage} done: {note}"))
                }
                Event::Bytes { .. } | Event::Count { .. } => None,
                Event::Note(text) => Some(text.clone()),
                Event::Warning(text) => Some(format!("warning: {text}")),
            };
            // Keeping the log must not stop the work: a full disk shows up where outputs are
            // written, with a better message than here.
            if let Some(line) = line {
                let _result = writeln!(open.log, "{line}");
                let at = clock::now().to_string();
                let json = serde_json::json!({ "at": at, "event": event });
                let _result = writeln!(open.events, "{json}");
            }
        }
        if changed {
            let _result = self.save();
        }
        self.next.event(event);
    }
}

/// A finished or running run, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Its directory.
    pub directory: Utf8PathBuf,
    /// Its record.
    pub record: Record,
}

impl Past {
    /// What it has put out: the manifest, what lies beside it, and the packages that it names.
    /// Nothing where there is no manifest, which is written last.
    pub fn outputs(&self) -> Result<Vec<Utf8PathBuf>, FileError> {
        let manifest = self.directory.join(super::build::MANIFEST);
        if !manifest.is_file() {
            return Ok(Vec::new());
        }
        let packages = self.directory.join("packages");
        let names = files::list(&packages)?;
        let packages = names.into_iter().map(|name| packages.join(name));
        let beside = [SBOM, PROVENANCE].map(|name| self.directory.join(name));
        let beside = beside.into_iter().filter(|path| path.is_file());
        Ok(std::iter::once(manifest)
            .chain(beside)
            .chain(packages)
            .collect())
    }

    /// The logs of its programs; that of compiling is the last.
    pub fn logs(&self) -> Result<Vec<Utf8PathBuf>, FileError> {
        let logs = self.directory.join(LOGS);
        if !logs.is_dir() {
            return Ok(Vec::new());
        }
        let names = files::list(&logs)?;
        let mut logs: Vec<Utf8PathBuf> = names.into_iter().map(|name| logs.join(name)).collect();
        // What one looks for stands where one looks: at the end.
        logs.sort_by_key(|path| path.file_stem() == Some("compile"));
        Ok(logs)
    }
}

/// All runs below `runs`, oldest first. Directories without a readable record are left out and
/// named in the second list.
pub fn list(runs: &Utf8Path) -> Result<(Vec<Past>, Vec<Utf8PathBuf>), FileError> {
    let (mut past, mut unreadable) = (Vec::new(), Vec::new());
    let names = match files::list(runs) {
        Err(FileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    for name in names {
        let directory = runs.join(name);
        match read(&directory) {
            Some(record) => past.push(Past { directory, record }),
            None => unreadable.push(directory),
        }
    }
    Ok((past, unreadable))
}

fn read(directory: &Utf8Path) -> Option<Record> {
    let bytes = files::read(&directory.join("run.json"), RECORD_LIMIT).ok()?;
    let mut record: Record = serde_json::from_slice(&bytes).ok()?;
    let began = began(record.pid);
    let alive = began.is_some() && (record.pid_began.is_none() || record.pid_began == began);
    if record.status == Status::Running && !alive {
        record.status = Status::Died;
    }
    (record.schema == SCHEMA).then_some(record)
}

/// When a process began, in clock ticks since the machine was started; `None` where there is no
/// such process. The 22nd field of `/proc/PID/stat`; the second, the program's name, may hold
/// blanks and brackets.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_name, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;
    use crate::progress::Silent;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let guard = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(guard.path().to_str().unwrap());
        (guard, path)
    }

    #[test]
    fn a_run_tells_how_far_it_came() {
        let (_guard, runs) = scratch();
        let run = Run::begin(&runs, "build", "lts", &Silent).unwrap();
        let progress: &dyn Progress = &run;
        progress.started("fetch", "linux-6.18.40");
        progress.done("fetch", "140 MB");
        progress.started("compile", "6.18.40");
        let (past, _) = list(&runs).unwrap();
        assert_eq!(past[0].record.status, Status::Running);
        assert!(past[0].record.stages[0].took_ms.is_some());
        assert!(past[0].record.stages[1].took_ms.is_none());
        let failure = Failure {
            exit: Exit::Build,
            ..Failure::usage("it broke")
        };
        run.end::<()>(&Err(failure)).unwrap();
        let (past, _) = list(&runs).unwrap();
        assert_eq!(
            (past[0].record.status, past[0].record.exit),
            (Status::Failed, Some(12))
        );
        let log = files::read_text(&run.log(), 1000).unwrap();
        assert_eq!(
            log,
            "== fetch: linux-6.18.40\n== fetch done: 140 MB\n== compile: 6.18.40\n"
        );
    }

    #[test]
    fn a_run_whose_process_is_gone_died() {
        let (_guard, runs) = scratch();
        let run = Run::begin(&runs, "build", "lts", &Silent).unwrap();
        run.lock().record.pid = u32::MAX;
        run.save().unwrap();
        assert_eq!(list(&runs).unwrap().0[0].record.status, Status::Died);
    }

    #[test]
    fn a_number_that_another_process_has_now_is_not_the_run() {
        let (_guard, runs) = scratch();
        let run = Run::begin(&runs, "build", "lts", &Silent).unwrap();
        let status = || list(&runs).unwrap().0[0].record.status;
        assert_eq!(status(), Status::Running);
        run.lock().record.pid_began = Some(1);
        run.save().unwrap();
        assert_eq!(status(), Status::Died);
        // A record of before says nothing of it.
        run.lock().record.pid_began = None;
        run.save().unwrap();
        assert_eq!(status(), Status::Running);
    }

    #[test]
    fn what_is_no_directory_is_not_no_runs() {
        let (_guard, runs) = scratch();
        assert_eq!(
            list(&runs.join("absent")).unwrap(),
            (Vec::new(), Vec::new())
        );
        files::write(&runs.join("file"), b"").unwrap();
        assert!(list(&runs.join("file")).is_err());
        assert!(list(&runs.join("file/runs")).is_err());
    }

    #[test]
    fn a_directory_without_a_record_is_named() {
        let (_guard, runs) = scratch();
        files::create_dir_all(&runs.join("x")).unwrap();
        assert_eq!(list(&runs).unwrap(), (Vec::new(), vec![runs.join("x")]));
    }
}
