//! The runner of programs under bad luck: hostile surroundings, programs that will not end, and
//! the death of kiln itself.

use std::process::ExitCode;
use std::time::Duration;

use camino::Utf8PathBuf;
use kiln::command::{Cmd, CommandError, Tool};
use kiln::failure::{Diagnose as _, Exit};
use kiln::sandbox::{Isolation, Sandbox};
use rustix::process::Signal;

use crate::support::child::{self, Part, expect_none_marked, processes_marked, say};
use crate::support::{Case, Env, Outcome, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "command::hostile_environment_does_not_pass",
            hostile_environment,
        ),
        Case::new(
            "command::deadline_kills_grandchildren",
            deadline_kills_grandchildren,
        ),
        Case::new("command::program_that_ignores_term_is_killed", ignores_term),
        Case::new("command::program_that_heeds_term_may_tidy_up", heeds_term),
        Case::new(
            "command::killed_kiln_leaves_no_child",
            killed_kiln_leaves_no_child,
        ),
        Case::new(
            "command::killed_kiln_leaves_no_child_of_another_user",
            killed_kiln_leaves_no_child_of_another_user,
        ),
        Case::new(
            "command::killed_kiln_leaves_nothing_in_a_sandbox",
            killed_kiln_and_sandbox,
        ),
        Case::new(
            "command::interrupt_ends_all_and_says_so",
            interrupt_ends_all,
        ),
        Case::new(
            "command::interrupt_ends_all_in_a_sandbox",
            interrupt_ends_sandbox,
        ),
        Case::new("command::endless_output_is_cut_off", endless_output),
        Case::new(
            "command::error_holds_only_the_last_lines",
            only_the_last_lines,
        ),
        Case::new(
            "command::words_are_never_read_by_a_shell",
            words_are_not_shell,
        ),
        Case::new(
            "command::input_that_nobody_reads_does_not_hang",
            unread_input,
        ),
        Case::new(
            "command::orphan_that_holds_the_output_does_not_hang",
            orphan_with_output,
        ),
    ]
}

/// What this module's children do.
pub const PARTS: &[Part] = &[
    ("command::print_environment", print_environment),
    ("command::run_sleepers", run_sleepers),
];

fn sh(script: &str) -> Cmd {
    Cmd::new(&Tool::find("sh").expect("sh is everywhere")).args(["-c", script])
}

/// A time to sleep that no other test sleeps: it marks the process in the process table.
fn mark(number: u32) -> String {
    format!("3{:05}.{number}", std::process::id() % 100_000)
}

/// Part: prints the environment that a program gets.
fn print_environment(_arguments: &[String]) -> ExitCode {
    let env = Tool::find("env").expect("env is everywhere");
    let output = Cmd::new(&env).capture().expect("env prints");
    say(&String::from_utf8_lossy(&output));
    ExitCode::SUCCESS
}

fn hostile_environment() -> Outcome {
    let env = Env::new()?;
    let own_path = std::env::current_exe()?.display().to_string();
    let mut run = env.program(&own_path, Vec::<String>::new());
    run = run.env("KILN_TEST_PART", "command::print_environment");
    for name in [
        "MAKEFLAGS",
        "MFLAGS",
        "CFLAGS",
        "KCFLAGS",
        "CC",
        "ARCH",
        "CROSS_COMPILE",
        "LOCALVERSION",
        "KBUILD_OUTPUT",
        "KCONFIG_CONFIG",
        "XZ_OPT",
        "XZ_DEFAULTS",
        "TAR_OPTIONS",
        "GZIP",
        "LANG",
        "LANGUAGE",
        "LC_TIME",
        "SOURCE_DATE_EPOCH",
        "DEB_BUILD_OPTIONS",
        "GNUPGHOME",
        "http_proxy",
        "BASH_ENV",
        "ENV",
        "PERL5LIB",
        "TMPDIR",
    ] {
        run = run.env(name, "/tmp");
    }
    let ran = run
        .env("LC_ALL", "de_DE.UTF-8")
        .env("TZ", "Asia/Tokyo")
        .env("PATH", "/tmp/evil:/usr/bin:/bin")
        .run()?
        .exits(0)?;
    let mut lines: Vec<&str> = ran.stdout.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let path = format!("PATH={}", kiln::command::SEARCH_PATH);
    assert_eq!(
        lines,
        ["HOME=/nonexistent", "LC_ALL=C", path.as_str(), "TZ=UTC"]
    );
    Ok(())
}

fn deadline_kills_grandchildren() -> Outcome {
    let mark = mark(1);
    let script = format!("(sleep {mark} & sleep {mark}) & sleep {mark}");
    let error = sh(&script)
        .deadline(Duration::from_millis(300))
        .run()
        .expect_err("too slow");
    assert!(matches!(error, CommandError::Deadline { .. }), "{error}");
    assert!(
        error.to_string().contains(&mark),
        "the command line is told: {error}"
    );
    expect_none_marked(&mark)
}

fn ignores_term() -> Outcome {
    let mark = mark(2);
    let script = format!("trap '' TERM INT; echo deaf; sleep {mark}; sleep {mark}");
    let error = sh(&script)
        .deadline(Duration::from_millis(300))
        .run()
        .expect_err("too slow");
    let CommandError::Deadline { tail, .. } = &error else {
        panic!("expected a deadline, found {error}");
    };
    assert_eq!(*tail, ["deaf"]);
    expect_none_marked(&mark)
}

fn heeds_term() -> Outcome {
    let env = Env::new()?;
    let tidied = env.path("tidied");
    let script = format!("trap 'echo bye > {tidied}; exit 0' TERM; sleep 600 & wait");
    let error = sh(&script)
        .deadline(Duration::from_millis(500))
        .run()
        .expect_err("too slow");
    assert!(matches!(error, CommandError::Deadline { .. }), "{error}");
    assert!(tidied.exists(), "TERM comes before KILL");
    Ok(())
}

/// Part: runs a program with a child of its own, in a sandbox where asked.
fn run_sleepers(arguments: &[String]) -> ExitCode {
    kiln::interrupt::install().expect("handlers can be set");
    let mark = &arguments[0];
    let mut cmd = sh(&format!("sleep {mark} & sleep {mark}; true"));
    if arguments[1] == "dropped" {
        let isolation = Isolation::None {
            reason: "planted".to_owned(),
            setpriv: Some(Tool::find("setpriv").expect("setpriv is everywhere")),
            user: None,
        };
        cmd = cmd.sandbox(&Sandbox::new(&isolation));
    } else if arguments[1] == "sandbox" {
        let isolation = Isolation::probe().expect("the host can be probed");
        if !isolation.is_isolated() {
            say("no sandbox");
            return ExitCode::SUCCESS;
        }
        cmd = cmd.sandbox(&Sandbox::new(&isolation));
    }
    match cmd.run() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit().code())
        }
    }
}

/// Starts sleepers and waits until all run; `None` where there is no sandbox.
fn sleepers(
    env: &Env,
    mark: &str,
    place: &str,
) -> Result<crate::support::env::Running, crate::support::Stop> {
    let mut running = child::start(env, "command::run_sleepers", &[mark, place])?;
    let pid = u32::try_from(running.pid().as_raw_nonzero().get()).unwrap_or(0);
    running.until("its children ran", |running| {
        if running.stdout_so_far()?.contains("no sandbox") {
            return Err(skip("no sandbox can be had here"));
        }
        // Beside the part itself: the shell and its two sleepers at least.
        Ok(processes_marked(mark)
            .iter()
            .filter(|found| **found != pid)
            .count()
            >= 3)
    })?;
    Ok(running)
}

/// Only the program itself is bound to kiln's life here; what it started is the sandbox's to end.
fn killed_kiln_leaves_no_child() -> Outcome {
    killed_kiln_on_the_host("host", 3)
}

/// A change of user clears what binds a program to its parent's life: it must be set again.
fn killed_kiln_leaves_no_child_of_another_user() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("not root, so no other user can be had"));
    }
    killed_kiln_on_the_host("dropped", 8)
}

fn killed_kiln_on_the_host(place: &str, number: u32) -> Outcome {
    let env = Env::new()?;
    let mark = mark(number);
    let running = sleepers(&env, &mark, place)?;
    let own = running.pid().as_raw_nonzero().get().to_string();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
    let child = children.trim().to_owned();
    assert!(!child.is_empty(), "the shell is a child of the part");
    running.signal(Signal::KILL)?;
    running.wait()?;
    let is_gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    };
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_gone()
    });
    // What the child had started is nobody's now.
    let _late = expect_none_marked(&mark);
    assert!(
        gone,
        "the child {child} outlived the program that started it"
    );
    Ok(())
}

fn killed_kiln_and_sandbox() -> Outcome {
    let env = Env::new()?;
    let mark = mark(4);
    let running = sleepers(&env, &mark, "sandbox")?;
    running.signal(Signal::KILL)?;
    running.wait()?;
    expect_none_marked(&mark)
}

fn interrupt_in(place: &str, number: u32) -> Outcome {
    let env = Env::new()?;
    for (step, (signal, exit)) in [
        (Signal::INT, Exit::Interrupted),
        (Signal::TERM, Exit::Terminated),
    ]
    .into_iter()
    .enumerate()
    {
        let mark = mark(number * 10 + u32::try_from(step).unwrap_or(0));
        let running = sleepers(&env, &mark, place)?;
        // As Ctrl-C does: to the whole foreground group, in which the child is not.
        running.signal_group(signal)?;
        running.wait()?.exits(exit)?;
        expect_none_marked(&mark)?;
    }
    Ok(())
}

fn interrupt_ends_all() -> Outcome {
    interrupt_in("host", 5)
}

fn interrupt_ends_sandbox() -> Outcome {
    interrupt_in("sandbox", 6)
}

/// A program that prints without end is stopped by the cap, long before any deadline.
fn endless_output() -> Outcome {
    let error = sh("exec yes a-line-without-end")
        .deadline(Duration::from_mins(1))
        .capture()
        .expect_err("the cap must hold");
    assert!(matches!(error, CommandError::TooMuch { .. }), "{error}");
    let text = error.to_string();
    assert!(text.len() < 2000, "{} bytes of error", text.len());
    Ok(())
}

fn only_the_last_lines() -> Outcome {
    let env = Env::new()?;
    let log = env.path("log");
    let error = sh("seq 1 100000; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last; exit 4")
        .log(log.clone())
        .run()
        .expect_err("it exits with 4");
    let CommandError::Failed {
        tail,
        exit_code,
        log: told,
        ..
    } = &error
    else {
        panic!("expected a failure, found {error}");
    };
    assert_eq!(*exit_code, Some(4));
    assert_eq!(tail.last().map(String::as_str), Some("last"));
    assert!(tail.len() <= 20 && error.to_string().len() < 20_000);
    assert_eq!(told.as_ref(), Some(&log));
    assert!(
        std::fs::read_to_string(&log)?.starts_with("1\n2\n3\n"),
        "the log holds everything"
    );
    Ok(())
}

fn words_are_not_shell() -> Outcome {
    let words = ["$(id)", "a b", "`id`", "*", "", "'", "--", "é\n"];
    let printf = Tool::find("printf").expect("printf is everywhere");
    let output = Cmd::new(&printf).arg("[%s]").args(words).capture()?;
    assert_eq!(
        String::from_utf8_lossy(&output),
        format!("[{}]", words.join("]["))
    );
    Ok(())
}

fn unread_input() -> Outcome {
    let megabytes = vec![b'x'; 4 << 20];
    let ran = sh("exit 0")
        .stdin_bytes(megabytes)
        .deadline(Duration::from_secs(20))
        .status();
    assert!(matches!(ran, Ok(0)), "{ran:?}");
    Ok(())
}

/// A background process that keeps the output open must not keep kiln waiting.
fn orphan_with_output() -> Outcome {
    let mark = mark(7);
    let output = sh(&format!("sleep {mark} & echo done"))
        .deadline(Duration::from_secs(20))
        .capture()?;
    assert_eq!(output, b"done\n");
    expect_none_marked(&mark)?;
    // Also where it has left the group: then only the output counts.
    let script = format!("setsid sleep {mark} & echo done");
    let setsid = Utf8PathBuf::from("/usr/bin/setsid");
    if setsid.exists() {
        assert_eq!(
            sh(&script).deadline(Duration::from_secs(20)).capture()?,
            b"done\n"
        );
        let _left = expect_none_marked(&mark);
    }
    Ok(())
}
