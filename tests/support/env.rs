//! A private place to run the real `kiln` in, and what came out of a run.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::failure::Exit;
use rustix::process::{Pid, Signal};

use super::case::{Stop, fail};
use super::redact::Redaction;

/// The program under test.
pub const KILN: &str = env!("CARGO_BIN_EXE_kiln");

/// How long one run may take unless a test says otherwise. Only a guard against hanging.
const USUAL_DEADLINE: Duration = Duration::from_mins(2);

/// A temporary directory with a home and an empty workspace, removed when dropped.
pub struct Env {
    /// Removes the directory when dropped.
    _root: tempfile::TempDir,
    dir: Utf8PathBuf,
}

impl Env {
    /// An empty workspace directory, an empty home, an empty cache.
    pub fn new() -> Result<Self, Stop> {
        let root = tempfile::Builder::new().prefix("kiln-it-").tempdir()?;
        let dir = Utf8PathBuf::from_path_buf(root.path().canonicalize()?)
            .map_err(|path| fail(format!("{} is not UTF-8", path.display())))?;
        let env = Self { _root: root, dir };
        for sub in ["ws", "home"] {
            std::fs::create_dir(env.dir.join(sub))?;
        }
        Ok(env)
    }

    /// Like [`Env::new`], with the default workspace written into it by `kiln init`.
    pub fn with_workspace() -> Result<Self, Stop> {
        let env = Self::new()?;
        std::fs::remove_dir(env.workspace())?;
        env.kiln(["init", env.workspace().as_str()])
            .in_dir(env.root())
            .run()?
            .exits(0)?;
        Ok(env)
    }

    /// The temporary directory itself.
    pub fn root(&self) -> &Utf8Path {
        &self.dir
    }

    /// The workspace: every run starts here.
    pub fn workspace(&self) -> Utf8PathBuf {
        self.dir.join("ws")
    }

    /// A path inside the workspace.
    pub fn path(&self, inside: &str) -> Utf8PathBuf {
        self.workspace().join(inside)
    }

    /// Writes a file of the workspace, making its directories.
    pub fn write(&self, inside: &str, content: impl AsRef<[u8]>) -> Result<Utf8PathBuf, Stop> {
        let path = self.path(inside);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, content)
            .map_err(|error| fail(format!("cannot write {path}: {error}")))?;
        Ok(path)
    }

    /// The text of a file of the workspace.
    pub fn read(&self, inside: &str) -> Result<String, Stop> {
        let path = self.path(inside);
        std::fs::read_to_string(&path).map_err(|error| fail(format!("cannot read {path}: {error}")))
    }

    /// Changes a file of the workspace by replacing the one place where `from` stands.
    pub fn edit(&self, inside: &str, from: &str, to: &str) -> Result<(), Stop> {
        let text = self.read(inside)?;
        match text.matches(from).count() {
            1 => self.write(inside, text.replacen(from, to, 1)).map(drop),
            times => Err(fail(format!(
                "{from:?} stands {times} times in {inside}, expected once"
            ))),
        }
    }

    /// A run of `kiln` with these arguments, not started yet.
    pub fn kiln<I, S>(&self, arguments: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        self.program(KILN, arguments)
    }

    /// A run of another program in the same surroundings.
    pub fn program<I, S>(&self, program: &str, arguments: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        Run {
            program: program.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: vec![
                ("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into()),
                ("HOME".into(), self.dir.join("home").into_string().into()),
                ("LC_ALL".into(), "C.UTF-8".into()),
                ("TZ".into(), "UTC".into()),
                ("TERM".into(), "dumb".into()),
                ("COLUMNS".into(), "100".into()),
            ],
            dir: self.workspace(),
            stdin: Vec::new(),
            deadline: USUAL_DEADLINE,
            redaction: Redaction::new().path(&self.dir, "[ENV]"),
        }
    }

    /// Every file and directory below the workspace, sorted, relative to it.
    pub fn listing(&self) -> Result<Vec<String>, Stop> {
        super::tree::listing(&self.workspace())
    }
}

/// A run that is being described.
#[derive(Clone)]
pub struct Run {
    program: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    dir: Utf8PathBuf,
    stdin: Vec<u8>,
    deadline: Duration,
    redaction: Redaction,
}

impl Run {
    /// Adds one argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds a variable to the otherwise clean environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts in this directory instead of the workspace.
    pub fn in_dir(mut self, dir: impl Into<Utf8PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// What the program finds on standard input (nothing by default).
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// After this long the run is killed and the test fails.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts it and returns at once.
    pub fn start(self) -> Result<Running, Stop> {
        let mut input = tempfile::tempfile()?;
        input.write_all(&self.stdin)?;
        input.seek(SeekFrom::Start(0))?;
        let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(out.try_clone()?))
            .stderr(Stdio::from(err.try_clone()?))
            .process_group(0);
        let line = command_line(&self.program, &self.arguments);
        let child = command
            .spawn()
            .map_err(|error| fail(format!("cannot start {line}: {error}")))?;
        Ok(Running {
            line,
            child,
            out,
            err,
            started: Instant::now(),
            deadline: self.deadline,
            redaction: self.redaction,
            over: false,
        })
    }

    /// Starts it, waits for its end and returns what came out.
    pub fn run(self) -> Result<Ran, Stop> {
        self.start()?.wait()
    }
}

/// The command line as a person would type it.
fn command_line(program: &str, arguments: &[OsString]) -> String {
    let mut line = program.rsplit('/').next().unwrap_or(program).to_owned();
    for argument in arguments {
        let _ = write!(line, " {}", argument.to_string_lossy());
    }
    line
}

/// A run that has started. Dropped before its end, it is killed with all its group.
pub struct Running {
    line: String,
    child: Child,
    out: std::fs::File,
    err: std::fs::File,
    started: Instant,
    deadline: Duration,
    redaction: Redaction,
    over: bool,
}

impl Running {
    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the program alone, as `kill PID` does.
    pub fn signal(&self, signal: Signal) -> Result<(), Stop> {
        rustix::process::kill_process(self.pid(), signal)?;
        Ok(())
    }

    /// Sends a signal to the program's group, as Ctrl-C in a terminal does.
    pub fn signal_group(&self, signal: Signal) -> Result<(), Stop> {
        rustix::process::kill_process_group(self.pid(), signal)?;
        Ok(())
    }

    /// What it has written to standard error so far.
    pub fn stderr_so_far(&mut self) -> Result<String, Stop> {
        text_of(&mut self.err)
    }

    /// What it has written to standard output so far.
    pub fn stdout_so_far(&mut self) -> Result<String, Stop> {
        text_of(&mut self.out)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool, Stop> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until the condition holds; fails when the program ends or its deadline passes first.
    pub fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool, Stop>,
    ) -> Result<(), Stop> {
        loop {
            if holds(self)? {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || self.started.elapsed() > self.deadline {
                let (out, err) = (self.stdout_so_far()?, self.stderr_so_far()?);
                return Err(fail(format!(
                    "`{}` {} before {what}\nstdout:\n{out}\nstderr:\n{err}",
                    self.line,
                    if ended.is_some() {
                        "ended"
                    } else {
                        "passed its deadline"
                    },
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end and returns what came out.
    pub fn wait(mut self) -> Result<Ran, Stop> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if self.started.elapsed() > self.deadline {
                let (out, err) = (self.stdout_so_far()?, self.stderr_so_far()?);
                return Err(fail(format!(
                    "`{}` did not end within {:?} and was killed\nstdout:\n{out}\nstderr:\n{err}",
                    self.line, self.deadline
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.over = true;
        Ok(Ran {
            line: self.line.clone(),
            status,
            stdout: text_of(&mut self.out)?,
            stderr: text_of(&mut self.err)?,
            took: self.started.elapsed(),
            redaction: self.redaction.clone(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
            drop(self.child.wait());
        }
    }
}

/// All that is in the file now.
fn text_of(file: &mut std::fs::File) -> Result<String, Stop> {
    use std::os::unix::fs::FileExt as _;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    // The handle shares its offset with the program's, so nothing here may move it.
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An exit code to expect.
pub struct ExpectedCode(i32);

impl From<i32> for ExpectedCode {
    fn from(code: i32) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExpectedCode {
    fn from(exit: Exit) -> Self {
        Self(i32::from(exit.code()))
    }
}

/// What came out of a run.
pub struct Ran {
    line: String,
    status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took. For reports; no test asserts a time.
    pub took: Duration,
    redaction: Redaction,
}

impl Ran {
    /// The exit code; none when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Fails unless it ended with this code: a number, or one of `failure::Exit`.
    pub fn exits(self, code: impl Into<ExpectedCode>) -> Result<Self, Stop> {
        let ExpectedCode(code) = code.into();
        if self.status.code() == Some(code) {
            return Ok(self);
        }
        let found = match (self.status.code(), self.status.signal()) {
            (Some(found), _) => format!("exit code {found}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit code".to_owned(),
        };
        Err(self.complaint(&format!("expected exit code {code}, found {found}")))
    }

    /// Fails unless standard output holds this text.
    pub fn says(self, text: &str) -> Result<Self, Stop> {
        if self.stdout.contains(text) {
            return Ok(self);
        }
        Err(self.complaint(&format!("standard output lacks {text:?}")))
    }

    /// Fails unless standard error holds this text.
    pub fn warns(self, text: &str) -> Result<Self, Stop> {
        if self.stderr.contains(text) {
            return Ok(self);
        }
        Err(self.complaint(&format!("standard error lacks {text:?}")))
    }

    /// Fails when either stream holds this text.
    pub fn never_says(self, text: &str) -> Result<Self, Stop> {
        if self.stdout.contains(text) || self.stderr.contains(text) {
            return Err(self.complaint(&format!("the output must not hold {text:?}")));
        }
        Ok(self)
    }

    /// The one JSON document on standard output. More or less than one is a failure.
    pub fn json(&self) -> Result<serde_json::Value, Stop> {
        serde_json::from_str(&self.stdout).map_err(|error| {
            self.complaint(&format!(
                "standard output is not one JSON document: {error}"
            ))
        })
    }

    /// Standard output with paths, digests and times replaced, for snapshots.
    pub fn stdout_redacted(&self) -> String {
        self.redaction.apply(&self.stdout)
    }

    /// Standard error with paths, digests and times replaced, for snapshots.
    pub fn stderr_redacted(&self) -> String {
        self.redaction.apply(&self.stderr)
    }

    /// A failure that shows the whole run.
    pub fn complaint(&self, text: &str) -> Stop {
        fail(format!(
            "{text}\ncommand: {}\nstdout:\n{}\nstderr:\n{}",
            self.line, self.stdout, self.stderr
        ))
    }
}
