//! The test harness itself: a harness that cannot fail proves nothing.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Case, Env, Outcome, Ran, Stop, case, redact, rust_source};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = case::own_cases::cases();
    cases.extend(redact::own_cases::cases());
    cases.extend(rust_source::own_cases::cases());
    cases.extend([
        Case::new("harness::environment_is_clean", environment_is_clean),
        Case::new(
            "harness::exit_code_and_streams_are_checked",
            checks_can_fail,
        ),
        Case::new(
            "harness::hanging_program_is_killed",
            hanging_program_is_killed,
        ),
        Case::new(
            "harness::input_reaches_the_program",
            input_reaches_the_program,
        ),
        Case::new("harness::env_is_removed", env_is_removed),
    ]);
    cases
}

fn environment_is_clean() -> Outcome {
    let env = Env::new()?;
    let ran = env
        .program("/usr/bin/env", Vec::<String>::new())
        .run()?
        .exits(0)?;
    let mut names: Vec<_> = ran
        .stdout
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["COLUMNS", "HOME", "LC_ALL", "PATH", "TERM", "TZ"]);
    assert_eq!(
        env.program("/bin/pwd", Vec::<String>::new())
            .run()?
            .stdout_redacted(),
        "[ENV]/ws\n"
    );
    Ok(())
}

fn checks_can_fail() -> Outcome {
    let env = Env::new()?;
    let run = |code: &str| {
        env.program(
            "/bin/sh",
            ["-c", &format!("echo answer; echo trouble >&2; exit {code}")],
        )
        .run()
    };
    run("3")?
        .exits(3)?
        .says("answer")?
        .warns("trouble")?
        .never_says("else")?;
    let must_fail = |checked: Result<Ran, Stop>| match checked {
        Err(Stop::Fail(text)) => {
            assert!(
                text.contains("answer") && text.contains("trouble"),
                "{text}"
            );
        }
        Err(Stop::Skip(_)) | Ok(_) => panic!("a check that had to fail did not"),
    };
    must_fail(run("3")?.exits(0));
    must_fail(run("0")?.says("trouble"));
    must_fail(run("0")?.warns("answer"));
    must_fail(run("0")?.never_says("trouble"));
    assert!(run("0")?.json().is_err());
    Ok(())
}

fn hanging_program_is_killed() -> Outcome {
    let env = Env::new()?;
    let run = env
        .program("/bin/sleep", ["600"])
        .deadline(Duration::from_millis(100))
        .run();
    assert!(matches!(run, Err(Stop::Fail(text)) if text.contains("was killed")));
    let running = env.program("/bin/sleep", ["600"]).start()?;
    running.signal(Signal::TERM)?;
    assert_eq!(running.wait()?.code(), None);
    Ok(())
}

fn input_reaches_the_program() -> Outcome {
    let env = Env::new()?;
    let ran = env
        .program("/bin/cat", Vec::<String>::new())
        .stdin("a\nb\n")
        .run()?;
    assert_eq!(ran.exits(0)?.stdout, "a\nb\n");
    Ok(())
}

fn env_is_removed() -> Outcome {
    let env = Env::new()?;
    env.write("a/b.txt", "text")?;
    env.edit("a/b.txt", "ex", "oas")?;
    assert_eq!(env.read("a/b.txt")?, "toast");
    assert!(env.edit("a/b.txt", "absent", "x").is_err());
    assert_eq!(env.listing()?, ["a/", "a/b.txt"]);
    let root = env.root().to_owned();
    drop(env);
    assert!(!root.exists());
    Ok(())
}
