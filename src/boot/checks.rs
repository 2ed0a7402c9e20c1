//! The health checks that a kernel on trial must pass, and the time they have.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::place::Place;
use crate::clock;
use crate::command::{Cmd, CommandError, Tool};
use crate::failure::in_one_line;
use crate::files;
use crate::proof::boot_record::CheckResult;

/// How long after the start of the kernel the gate decides, unless told otherwise.
pub const DECIDE: Duration = Duration::from_secs(105);

/// How long after the start of the kernel the deadman restarts a node without a verdict.
pub const DEADMAN: Duration = Duration::from_mins(2);

/// Between two rounds of the checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Most of what a check said that is kept, in bytes.
const SAID: usize = 500;

/// What a check looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A program that must end with 0, by its absolute path, with its arguments.
    Command(Vec<String>),
    /// A systemd unit that must be active.
    Unit(String),
    /// A file that must exist.
    File(Utf8PathBuf),
    /// A path at which something must be mounted.
    Mounted(Utf8PathBuf),
    /// A port and path of this host that must answer a GET with a status from 200 to 299.
    Http(u16, String),
    /// What `uname -r` must print.
    Release(String),
}

/// One health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name, for the record.
    pub name: String,
    /// What it looks at.
    pub what: What,
    /// The longest that one run of it may take.
    pub timeout: Duration,
    /// How often in a row it must pass.
    pub passes: u64,
}

/// What the gate goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The checks; all must pass.
    pub checks: Vec<Check>,
    /// How long after the start of the kernel the gate decides.
    pub decide: Duration,
    /// Words of the kernel's command line that are not for the kernel.
    pub parameters: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            checks: Vec::new(),
            decide: DECIDE,
            parameters: Vec::new(),
        }
    }
}

/// The time since the kernel was started. No wall clock is read: it may jump by years.
#[derive(Debug, Clone)]
pub struct SinceBoot {
    at_start: Duration,
    started: std::time::Instant,
    uptime: Utf8PathBuf,
}

impl SinceBoot {
    /// Reads the node's `/proc/uptime`, which counts suspended time too.
    ///
    /// # Errors
    /// Where there is none.
    pub fn of(place: &Place) -> Result<Self, files::FileError> {
        let uptime = place.at("proc/uptime");
        let text = files::read_text(&uptime, 4096)?;
        Ok(Self {
            at_start: uptime_of(&text),
            started: clock::monotonic(),
            uptime,
        })
    }

    /// How long it is now: by the kernel's own count, and at least what passed meanwhile.
    pub fn now(&self) -> Duration {
        let counted =
            files::read_text(&self.uptime, 4096).map_or(Duration::ZERO, |t| uptime_of(&t));
        counted.max(self.at_start + self.started.elapsed())
    }
}

/// The first number of `proc_uptime(5)`; what cannot be read is taken as very late, so that a node
/// is never kept for want of a clock.
fn uptime_of(text: &str) -> Duration {
    let seconds = text.split(' ').next().and_then(|s| s.trim().parse().ok());
    seconds
        .and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(Duration::MAX / 2)
}

/// Runs the checks round by round until each has passed as often in a row as it must, or the time is
/// up. A check that hangs is stopped with all it has started.
pub fn run(settings: &Settings, place: &Place, since_boot: &SinceBoot) -> Vec<CheckResult> {
    let started = clock::monotonic();
    let mut results: Vec<CheckResult> = settings
        .checks
        .iter()
        .map(|check| CheckResult {
            name: check.name.clone(),
            passed: false,
            runs: 0,
            took_ms: 0,
            said: "it was not run: the time was up".to_owned(),
        })
        .collect();
    let mut rows = vec![0; results.len()];
    loop {
        for ((check, result), row) in settings.checks.iter().zip(&mut results).zip(&mut rows) {
            let left = settings.decide.saturating_sub(since_boot.now());
            if left.is_zero() {
                return results;
            }
            let seen = once(&check.what, place, check.timeout.min(left));
            *row = if seen.is_ok() { *row + 1 } else { 0 };
            result.runs += 1;
            result.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            result.passed = *row >= check.passes;
            result.said = match seen {
                Err(said) => shortened(&said),
                Ok(()) if result.passed => String::new(),
                Ok(()) => format!("passed {row} of {} times in a row", check.passes),
            };
        }
        if results.iter().all(|result| result.passed) {
            return results;
        }
        std::thread::sleep(PAUSE.min(settings.decide.saturating_sub(since_boot.now())));
    }
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(SAID);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Runs one check once; an error says what was found.
fn once(what: &What, place: &Place, longest: Duration) -> Result<(), String> {
    match what {
        What::Command(words) => command(words, longest),
        What::Unit(unit) => {
            let words = ["systemctl", "is-active", "--quiet", "--", unit];
            command(&words.map(str::to_owned), longest)
                .map_err(|_| format!("`{unit}` is not active"))
        }
        What::File(path) => {
            let exists = place.at(path.as_str()).exists();
            exists
                .then_some(())
                .ok_or_else(|| format!("there is no `{path}`"))
        }
        What::Mounted(path) => mounted(place, path),
        What::Http(port, path) => http(*port, path, longest),
        What::Release(expected) => {
            let found = files::read_text(&place.at("proc/sys/kernel/osrelease"), 4096)
                .map_err(|error| in_one_line(&error))?;
            match found.trim() {
                found if found == expected => Ok(()),
                found => Err(format!("`{found}` runs, expected `{expected}`")),
            }
        }
    }
}

fn command(words: &[String], longest: Duration) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("no program is named".to_owned());
    };
    let tool = if program.starts_with('/') {
        Tool::at(Utf8Path::new(program))
    } else {
        Tool::find(program)
    };
    let ran = tool.and_then(|tool| {
        Cmd::new(&tool)
            .args(arguments.iter().cloned())
            .deadline(longest)
            .run()
    });
    match ran {
        Ok(_) => Ok(()),
        Err(error @ CommandError::Interrupted(_)) => Err(format!("it was not finished: {error}")),
        Err(error) => Err(in_one_line(&error)),
    }
}

fn mounted(place: &Place, path: &Utf8Path) -> Result<(), String> {
    let mounts = files::read_text(&place.at("proc/self/mountinfo"), 4 << 20)
        .map_err(|error| in_one_line(&error))?;
    let is_there = mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(path.as_str()));
    is_there
        .then_some(())
        .ok_or_else(|| format!("nothing is mounted at `{path}`"))
}

/// Asks this host itself, and nobody else.
fn http(port: u16, path: &str, longest: Duration) -> Result<(), String> {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, longest)?;
        stream.set_read_timeout(Some(longest))?;
        stream.set_write_timeout(Some(longest))?;
        // In one piece: a server may answer and close after the first.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        // "HTTP/1.1 200": all that matters. A server may send it in pieces, or never.
        let mut head = Vec::new();
        let mut piece = [0; 64];
        let started = clock::monotonic();
        while head.len() < 12 && started.elapsed() < longest {
            match stream.read(&mut piece)? {
                0 => break,
                count => head.extend_from_slice(&piece[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    };
    let head = ask().map_err(|error| format!("port {port}: {error}"))?;
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .unwrap_or_default();
    match status.parse::<u16>() {
        Ok(200..=299) => Ok(()),
        Ok(other) => Err(format!("port {port}: `{path}` answered {other}")),
        Err(_) => Err(format!("port {port}: the answer is not HTTP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node {
        _dir: tempfile::TempDir,
        place: Place,
    }

    /// A node that was started so many seconds ago.
    fn node(uptime: &str) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from(dir.path().to_str().unwrap());
        files::write(&root.join("proc/uptime"), uptime.as_bytes()).unwrap();
        files::write(
            &root.join("proc/sys/kernel/osrelease"),
            b"6.18.40-1-lts-00000000\n",
        )
        .unwrap();
        files::write(
            &root.join("proc/self/mountinfo"),
            b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 8:2 / /srv rw - ext4 /dev/sda2 rw\n",
        )
        .unwrap();
        Node {
            _dir: dir,
            place: Place::new(root),
        }
    }

    fn check(what: What) -> Check {
        Check {
            name: "one".to_owned(),
            what,
            timeout: Duration::from_millis(300),
            passes: 1,
        }
    }

    fn results(uptime: &str, checks: Vec<Check>) -> Vec<CheckResult> {
        let node = node(uptime);
        let settings = Settings {
            checks,
            ..Settings::default()
        };
        let since_boot = SinceBoot::of(&node.place).unwrap();
        run(&settings, &node.place, &since_boot)
    }

    fn shell(script: &str) -> What {
        What::Command(["/bin/sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn each_kind_of_check_passes_and_fails() {
        for (what, expected) in [
            (shell("true"), ""),
            (shell("echo broken; false"), "exited with 1"),
            (What::Command(Vec::new()), "no program"),
            (What::Command(vec!["/no/such".to_owned()]), "/no/such"),
            (What::File("/proc/uptime".into()), ""),
            (What::File("/no/such".into()), "there is no `/no/such`"),
            (What::Mounted("/srv".into()), ""),
            (What::Mounted("/sr".into()), "nothing is mounted"),
            (What::Release("6.18.40-1-lts-00000000".to_owned()), ""),
            (What::Release("6.18.40".to_owned()), "runs, expected"),
            (
                What::Unit("no-such-unit-here.service".to_owned()),
                "not active",
            ),
        ] {
            let node = node("3.00 1.00\n");
            match once(&what, &node.place, Duration::from_secs(20)) {
                Ok(()) => assert_eq!(expected, "", "{what:?}"),
                Err(said) => assert!(!expected.is_empty() && said.contains(expected), "{said}"),
            }
        }
    }

    #[test]
    fn only_a_good_answer_over_http_counts() {
        let server = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let answers = [
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.0 503 Busy\r\n\r\n",
            "SSH-2.0-x\r\n",
        ];
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = server.accept().unwrap();
                let _read = stream.read(&mut [0; 512]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let ask = || http(port, "/health", Duration::from_secs(10));
        assert_eq!(ask(), Ok(()));
        assert!(ask().unwrap_err().contains("answered 503"));
        assert!(ask().unwrap_err().contains("not HTTP"));
        thread.join().unwrap();
        assert!(ask().is_err());
    }

    /// Fault 7: a check that hangs, and one that leaves a child behind which holds its output.
    #[test]
    fn a_hanging_check_is_stopped_and_the_deadline_holds() {
        for script in ["sleep 1000", "sleep 1000 & sleep 1000"] {
            let found = results("104.60 0\n", vec![check(shell(script))]);
            assert!(!found[0].passed && found[0].runs >= 1, "{found:?}");
        }
        // Nothing is run once the time is up, and what was never run has not passed.
        let found = results("105.00 0\n", vec![check(shell("true"))]);
        assert!(!found[0].passed && found[0].runs == 0, "{found:?}");
        // Its twin, in time.
        assert!(results("3.00 0\n", vec![check(shell("true"))])[0].passed);
    }

    /// Fault 40, and a clock that cannot be read.
    #[test]
    fn time_is_what_the_kernel_counted() {
        assert_eq!(uptime_of("12.50 3.00\n"), Duration::from_millis(12_500));
        for odd in ["", "-1 0", "nan", "x"] {
            assert!(uptime_of(odd) > DEADMAN, "{odd:?}");
        }
    }

    #[test]
    fn passes_count_only_in_a_row() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("n");
        // Fails on its second run only.
        let script = format!("echo x >> {0}; [ $(wc -l < {0}) != 2 ]", file.display());
        let twice = Check {
            passes: 2,
            timeout: Duration::from_secs(20),
            ..check(shell(&script))
        };
        let found = results("1.00 0\n", vec![twice]);
        assert!(found[0].passed);
        assert_eq!(found[0].runs, 4);
    }
}
