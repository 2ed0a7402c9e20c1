//! One execution of a program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use camino::Utf8PathBuf;
use rustix::process::{Pid, Signal};

use super::error::CommandError;
use super::process::{self, Cap, Done, Stopped};
use super::tool::{SEARCH_PATH, Tool};
use crate::clock;
use crate::interrupt;
use crate::sandbox::Sandbox;

/// Most that [`Cmd::capture`] takes, in bytes.
const CAPTURE_LIMIT: u64 = 64 << 20;

/// Most that one program may add to a log, in bytes: far above any honest build, far below a disk.
const LOG_LIMIT: u64 = 1 << 30;

#[derive(Debug)]
enum Input {
    Null,
    File(File),
    Bytes(Vec<u8>),
    Terminal,
}

/// A word as a person can paste it into a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// One execution of a program, described before it happens.
#[derive(Debug)]
pub struct Cmd {
    tool: Tool,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    cwd: Option<Utf8PathBuf>,
    input: Input,
    output: Option<File>,
    output_limit: Option<u64>,
    log: Option<Utf8PathBuf>,
    deadline: Option<Duration>,
    sandbox: Option<Sandbox>,
}

impl Cmd {
    /// A run of `tool` without arguments, in a clean environment, reading nothing.
    pub fn new(tool: &Tool) -> Self {
        Self {
            tool: tool.clone(),
            args: Vec::new(),
            env: [
                ("PATH", SEARCH_PATH),
                ("HOME", "/nonexistent"),
                ("LC_ALL", "C"),
                ("TZ", "UTC"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            cwd: None,
            input: Input::Null,
            output: None,
            output_limit: None,
            log: None,
            deadline: None,
            sandbox: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable; a later value replaces an earlier one.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value));
        self
    }

    /// Sets variables.
    #[must_use]
    pub fn envs<N: Into<String>, V: Into<String>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        variables
            .into_iter()
            .fold(self, |cmd, (name, value)| cmd.env(name, value))
    }

    /// Takes a variable out.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// The directory to run in; inside the sandbox where there is one.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<Utf8PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Reads from an open file.
    #[must_use]
    pub fn stdin_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Reads these bytes.
    #[must_use]
    pub fn stdin_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Writes its standard output to an open file.
    #[must_use]
    pub fn stdout_file(mut self, file: File) -> Self {
        self.output = Some(file);
        self
    }

    /// Appends its output to a log file.
    #[must_use]
    pub fn log(mut self, path: impl Into<Utf8PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// The longest it may run.
    #[must_use]
    pub fn deadline(mut self, longest: Duration) -> Self {
        self.deadline = Some(longest);
        self
    }

    /// Runs it in a sandbox.
    #[must_use]
    pub fn sandbox(mut self, sandbox: &Sandbox) -> Self {
        self.sandbox = Some(sandbox.clone());
        self
    }

    /// The command line for people, quoted where a shell would need it.
    pub fn line(&self) -> String {
        let mut line = quoted(self.tool.path().as_str());
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quoted(&arg.to_string_lossy()));
        }
        line
    }

    /// Runs it to a good end.
    ///
    /// # Errors
    /// Any exit code but 0 is an error that carries the last lines.
    pub fn run(self) -> Result<Duration, CommandError> {
        let (line, log) = (self.line(), self.log.clone());
        let done = self.execute()?;
        done.require_success(line, log)?;
        Ok(done.elapsed)
    }

    /// Runs it and returns its exit code, whatever it is. Death by a signal is an error.
    pub fn status(self) -> Result<i32, CommandError> {
        let (line, log) = (self.line(), self.log.clone());
        let done = self.execute()?;
        match done.status.code() {
            Some(code) => Ok(code),
            None => Err(done.failed(line, log)),
        }
    }

    /// Runs it to a good end and returns its standard output.
    ///
    /// # Errors
    /// Also when it prints more than 64 MiB: it is stopped then.
    pub fn capture(mut self) -> Result<Vec<u8>, CommandError> {
        let (line, log, program) = (self.line(), self.log.clone(), self.tool.path().to_string());
        let io = |action| {
            let program = program.clone();
            move |source| CommandError::Io {
                action,
                program,
                source,
            }
        };
        let mut output = tempfile::tempfile().map_err(io("keep the output of"))?;
        self.output = Some(output.try_clone().map_err(io("keep the output of"))?);
        self.output_limit = Some(CAPTURE_LIMIT);
        let done = self.execute()?;
        done.require_success(line.clone(), log.clone())?;
        output.rewind().map_err(io("read the output of"))?;
        let mut bytes = Vec::new();
        output
            .take(CAPTURE_LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(io("read the output of"))?;
        if bytes.len() as u64 > CAPTURE_LIMIT {
            return Err(CommandError::TooMuch {
                line,
                limit: CAPTURE_LIMIT,
                tail: done.tail,
                log,
            });
        }
        Ok(bytes)
    }

    /// Runs it on the caller's terminal, in the caller's process group, and returns its exit code.
    /// Ctrl-C belongs to the program then; a termination ends it.
    pub fn interactive(mut self) -> Result<i32, CommandError> {
        self.input = Input::Terminal;
        self.status()
    }

    /// Starts the program and waits, watching the deadline and the interrupt flag.
    fn execute(self) -> Result<Done, CommandError> {
        let program = self.tool.path().to_string();
        let line = self.line();
        let io = |action| {
            let program = program.clone();
            move |source| CommandError::Io {
                action,
                program,
                source,
            }
        };
        let (log_path, deadline) = (self.log.clone(), self.deadline);
        let terminal = matches!(self.input, Input::Terminal);
        let shares_group = terminal && !self.is_isolated();
        let mut log = match &log_path {
            Some(path) => File::options()
                .create(true)
                .append(true)
                .read(true)
                .open(path),
            None => tempfile::tempfile(),
        }
        .map_err(io("keep the output of"))?;
        let log_start = log
            .seek(SeekFrom::End(0))
            .map_err(io("keep the output of"))?;
        let mut caps = vec![Cap {
            file: log.try_clone().map_err(io("keep the output of"))?,
            limit: log_start.saturating_add(LOG_LIMIT),
        }];
        if let (Some(file), Some(limit)) = (&self.output, self.output_limit) {
            let file = file.try_clone().map_err(io("keep the output of"))?;
            caps.push(Cap { file, limit });
        }

        let started = clock::monotonic();
        let lent = terminal.then(interrupt::lend_terminal);
        let handle = self
            .expression(log.try_clone().map_err(io("keep the output of"))?)
            .map_err(io("prepare"))?
            .start()
            .map_err(io("start"))?;
        let pid = handle
            .pids()
            .first()
            .and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?))
            .ok_or_else(|| io("find")(io::Error::other("no process id")))?;
        let stopped = process::watch(pid, started, deadline, &caps, lent.as_ref());
        if shares_group && stopped.is_some() {
            process::stop(pid);
        } else if stopped.is_some() {
            process::stop_group(pid);
        } else if !shares_group {
            // The leader has ended but is not reaped yet, so its group id cannot be another's:
            // whatever it left running goes now.
            let _gone = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let output = handle.wait().map_err(io("wait for"))?;
        drop(lent);
        let done = Done {
            status: output.status,
            elapsed: started.elapsed(),
            tail: process::tail(&mut log, log_start),
        };
        match stopped {
            None => Ok(done),
            Some(Stopped::Interrupted(interrupted)) => Err(interrupted.into()),
            Some(Stopped::Deadline(limit)) => Err(CommandError::Deadline {
                line,
                limit,
                tail: done.tail,
                log: log_path,
            }),
            Some(Stopped::TooMuch(limit)) => Err(CommandError::TooMuch {
                line,
                limit,
                tail: done.tail,
                log: log_path,
            }),
        }
    }

    fn is_isolated(&self) -> bool {
        self.sandbox.as_ref().is_some_and(Sandbox::is_isolated)
    }

    fn expression(self, log: File) -> io::Result<duct::Expression> {
        let terminal = matches!(self.input, Input::Terminal);
        let is_isolated = self.is_isolated();
        let (path, args, cwd) = match &self.sandbox {
            None => (self.tool.path().to_owned(), self.args, self.cwd),
            Some(sandbox) => {
                let (path, args) = sandbox.wrap(self.tool.path(), self.args, self.cwd.as_deref());
                (path, args, None)
            }
        };
        let mut expression = duct::cmd(path.as_std_path(), args)
            .full_env(self.env)
            .unchecked();
        if let Some(cwd) = cwd {
            expression = expression.dir(cwd.as_std_path());
        }
        expression = match self.input {
            Input::Null => expression.stdin_null(),
            Input::File(file) => expression.stdin_file(file),
            Input::Bytes(bytes) => expression.stdin_bytes(bytes),
            Input::Terminal => {
                // A sandbox has a session of its own inside; Ctrl-C would only end its wrapper.
                return Ok(expression.before_spawn(move |command| {
                    if is_isolated {
                        command.process_group(0);
                    }
                    process::bind_life(command)
                }));
            }
        };
        expression = match self.output {
            Some(file) => expression.stdout_file(file).stderr_file(log),
            None => expression.stdout_file(log.try_clone()?).stderr_file(log),
        };
        debug_assert!(!terminal);
        Ok(expression.before_spawn(|command| {
            command.process_group(0);
            process::bind_life(command)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Diagnose as _, Exit};

    fn sh(script: &str) -> Cmd {
        Cmd::new(&Tool::find("sh").unwrap()).args(["-c", script])
    }

    #[test]
    fn the_environment_is_clean() {
        let output = Cmd::new(&Tool::find("env").unwrap())
            .env("A", "1")
            .env("A", "2")
            .capture()
            .unwrap();
        let text = String::from_utf8(output).unwrap();
        let mut names: Vec<&str> = text.lines().map(|l| l.split('=').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["A", "HOME", "LC_ALL", "PATH", "TZ"]);
        assert!(text.contains("A=2"));
    }

    #[test]
    fn a_bad_end_tells_the_line_the_code_and_the_last_words() {
        let error = sh("echo out; echo err >&2; exit 3").run().unwrap_err();
        let CommandError::Failed {
            exit_code,
            ref tail,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(exit_code, Some(3));
        assert_eq!(*tail, ["out", "err"]);
        assert!(error.to_string().contains("exited with 3"), "{error}");
    }

    #[test]
    fn a_signal_is_named() {
        let error = sh("kill -SEGV $$").run().unwrap_err();
        assert!(
            error.to_string().contains("was killed by SIGSEGV"),
            "{error}"
        );
    }

    #[test]
    fn codes_can_be_data() {
        assert_eq!(sh("exit 1").status().unwrap(), 1);
    }

    #[test]
    fn the_deadline_takes_the_whole_group() {
        let scratch = tempfile::tempdir().unwrap();
        let pid_file = scratch.path().join("pid");
        let script = format!("sleep 300 & echo $! > {}; wait", pid_file.display());
        let error = sh(&script)
            .deadline(Duration::from_millis(400))
            .run()
            .unwrap_err();
        assert!(matches!(error, CommandError::Deadline { .. }), "{error}");
        let pid: i32 = std::fs::read_to_string(pid_file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(gone(pid), "the grandchild {pid} still runs");
    }

    #[test]
    fn a_background_child_does_not_outlive_its_parent() {
        let output = sh("sleep 300 & echo $!").capture().unwrap();
        let pid: i32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
        assert!(gone(pid), "the left-over {pid} still runs");
    }

    /// Whether a process is gone, or dead and not yet reaped by its new parent.
    fn gone(pid: i32) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
                stat.rsplit(") ").next().is_some_and(|s| s.starts_with('Z'))
            })
        })
    }

    #[test]
    fn input_can_be_bytes() {
        let cat = Cmd::new(&Tool::find("cat").unwrap()).stdin_bytes(*b"hello");
        assert_eq!(cat.capture().unwrap(), b"hello");
    }

    #[test]
    fn a_missing_program_is_its_own_error() {
        let error = Tool::find("no-such-program-here").unwrap_err();
        assert_eq!(error.exit(), Exit::MissingTools);
    }

    #[test]
    fn escape_sequences_of_a_program_do_not_reach_the_terminal() {
        let error = sh(r"printf '\033[31mred\n'; exit 1").run().unwrap_err();
        assert!(!error.to_string().contains('\u{1b}'));
    }
}
