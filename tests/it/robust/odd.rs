//! What a user's machine can be like without being broken: closed and full streams, odd names, odd
//! variables, files that another system's editor wrote.

use kiln::failure::Exit;

use crate::support::env::KILN;
use crate::support::made_up::MadeUp;
use crate::support::{Case, Env, Outcome, Ran, Stop};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "robust::an_answer_that_nobody_gets_is_no_success",
            no_reader,
        ),
        Case::new("robust::init_quiet_and_its_next_lines", init_next),
        Case::new("robust::files_of_another_systems_editor", other_editor),
        Case::new("robust::a_fault_is_counted_once", counted_once),
        Case::new("robust::names_that_are_no_text", names_that_are_no_text),
        Case::new("robust::odd_stores", odd_stores),
        Case::new("robust::a_directory_in_the_store", directory_in_store),
        Case::new("robust::a_lock_whose_holder_is_unknown", unknown_holder),
        Case::new("robust::an_edited_lock_says_how_to_write_it", edited_lock),
        Case::new("robust::a_file_where_runs_should_be", file_for_runs),
    ]
}

/// `kiln WORDS` through a shell that does something with its streams.
fn through_shell(env: &Env, words: &str, streams: &str) -> Result<Ran, Stop> {
    let script = format!("exec {KILN} {words} {streams}");
    env.program("/bin/sh", ["-c", &script]).run()
}

fn no_reader() -> Outcome {
    let env = Env::with_workspace()?;
    for words in [
        "check",
        "check --format json",
        "--help",
        "--version",
        "schema pipeline",
    ] {
        for (streams, cause) in [(">&-", "it is closed"), (">/dev/full", "No space left")] {
            through_shell(&env, words, streams)?
                .exits(Exit::Unexpected)?
                .warns("failed to write the answer to stdout")?
                .warns(cause)?;
        }
        // To throw it away is the reader's right, and so is to stop reading.
        through_shell(&env, words, ">/dev/null")?.exits(0)?;
        through_shell(&env, words, "1<>/dev/null")?.exits(0)?;
        through_shell(&env, words, "| true")?.exits(0)?;
    }
    Ok(())
}

fn init_next() -> Outcome {
    let env = Env::new()?;
    let ran = env.kiln(["init", "-q", "quiet"]).run()?.exits(0)?;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    assert!(env.path("quiet/pipelines").is_dir());
    let ran = env.kiln(["init", "it's new"]).run()?.exits(0)?;
    ran.says("\n  cd 'it'\\''s new'\n")?;
    let ran = env.kiln(["init", "--", "-odd"]).run()?.exits(0)?;
    ran.says("\n  cd ./-odd\n")?;
    // The lines can be pasted where the reader stands.
    std::fs::create_dir(env.path("below"))?;
    let ran = env.kiln(["-C", "below", "init", "new"]).run()?.exits(0)?;
    let line = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("  cd "));
    let line = line.unwrap_or_default();
    let ran = env
        .program("/bin/sh", ["-c", &format!("cd {line} && ls")])
        .run()?;
    ran.exits(0)?.says("pipelines")?;
    Ok(())
}

fn other_editor() -> Outcome {
    let env = Env::with_workspace()?;
    let fragment = "config-fragments/latency.config";
    let good = env.read(fragment)?;
    let lines = good.lines().count();
    env.write(fragment, format!("\u{feff}{good}"))?;
    let ran = env.kiln(["check"]).run()?.exits(Exit::Usage)?;
    ran.says("latency.config:1:1: expected plain UTF-8, found a byte order mark")?
        .warns("found 1 error")?;
    env.write(fragment, good.replace('\n', "\r\n"))?;
    let ran = env.kiln(["check"]).run()?.exits(Exit::Usage)?;
    let more = format!("in this line and {} more", lines - 1);
    ran.says("latency.config:1:")?
        .says("sed -i 's/\\r$//'")?
        .says(&more)?
        .warns("found 1 error")?;
    // The other errors of such a file are told as well.
    env.write(
        fragment,
        format!("{}COFNIG_A=y\r\n", good.replace('\n', "\r\n")),
    )?;
    env.kiln(["check"]).run()?.warns("found 2 errors")?;
    // Nothing is asked, and nobody would notice.
    env.write(fragment, "# CONFIG of latency\n")?;
    let ran = env.kiln(["check"]).run()?.exits(Exit::Usage)?;
    ran.says("latency.config: the fragment asks for nothing")?
        .warns("found 1 error")?;
    Ok(())
}

fn counted_once() -> Outcome {
    let env = Env::with_workspace()?;
    // Two pipelines pin this one.
    let key = "keys/647F28654894E3BD457199BE38DBBDC86092693E.asc";
    let good = env.read(key)?;
    env.write(key, "garbage")?;
    env.kiln(["check"])
        .run()?
        .exits(Exit::Usage)?
        .says(&format!("{key}: "))?
        .warns("found 1 error")?;
    let ran = env.kiln(["check", "pipelines/lts.yaml"]).run()?;
    ran.says(&format!("{key}: "))?.warns("found 1 error")?;
    std::fs::remove_file(env.path(key))?;
    // A missing one is each pipeline's own.
    env.kiln(["check"]).run()?.warns("found 2 errors")?;
    env.write(key, good)?;
    env.kiln(["check"]).run()?.exits(0)?;
    Ok(())
}

fn names_that_are_no_text() -> Outcome {
    use std::os::unix::ffi::OsStrExt as _;
    let env = Env::with_workspace()?;
    let strange = std::ffi::OsStr::from_bytes(b"\xff.asc");
    for directory in ["keys", "pipelines", "config-fragments"] {
        let path = env.path(directory).into_std_path_buf().join(strange);
        std::fs::write(&path, "")?;
        env.kiln(["check"])
            .run()?
            .exits(Exit::Usage)?
            .says(&format!("{directory}/\u{fffd}.asc: its name is not UTF-8"))?
            .warns("found 1 error")?;
        std::fs::remove_file(path)?;
    }
    // What lies beside a workspace's own files is nobody's business.
    std::fs::write(env.workspace().into_std_path_buf().join(strange), "")?;
    env.kiln(["check"]).run()?.exits(0)?;
    Ok(())
}

fn odd_stores() -> Outcome {
    let made = MadeUp::new()?;
    made.env.write("file", "")?;
    let file = made.env.path("file");
    for (value, says) in [
        ("store", "expected an absolute path"),
        (file.as_str(), "which is a file: expected a directory"),
    ] {
        let run = made.kiln("resolve made").env("KILN_STORE", value);
        run.run()?
            .exits(Exit::Usage)?
            .warns("KILN_STORE")?
            .warns(says)?;
        assert!(!made.env.path("store").exists());
    }
    made.kiln("resolve made")
        .env("KILN_STORE", "")
        .run()?
        .exits(0)?;
    assert!(made.env.path(".kiln/store/sha256").is_dir());
    let shared = made.env.root().join("shared");
    made.kiln("fetch made")
        .env("KILN_STORE", shared.as_str())
        .run()?
        .exits(0)?
        .says(shared.join("sha256").as_str())?;
    Ok(())
}

fn directory_in_store() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let ran = made.kiln("fetch made").run()?.exits(0)?;
    let object = ran.stdout.lines().find_map(|line| line.strip_prefix("  "));
    let object = object.unwrap_or_default().to_owned();
    std::fs::remove_file(&object)?;
    std::fs::create_dir(&object)?;
    for line in ["fetch made", "fetch made --offline", "resolve made"] {
        made.kiln(line)
            .run()?
            .exits(Exit::NotVerified)?
            .warns(&format!("`{object}` is not a stored object"))?;
    }
    // With it out of the way the object comes back.
    std::fs::remove_dir(&object)?;
    made.kiln("fetch made").run()?.exits(0)?;
    Ok(())
}

fn unknown_holder() -> Outcome {
    let made = MadeUp::new()?;
    let lock = made.env.write(".kiln/locks/made", "")?;
    let file = std::fs::File::open(&lock)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    let mut running = made.kiln("resolve made").start()?;
    let says = format!("waiting for a process that does not say which, which holds `{lock}`");
    running.until("it says what it waits for", |run| {
        Ok(run.stderr_so_far()?.contains(&says))
    })?;
    drop(file);
    running.wait()?.exits(0)?.never_says("process 0")?;
    Ok(())
}

fn edited_lock() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.env
        .edit("pipelines/made.lock.json", "\"6.18.40\"", "\"6.18.41\"")?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Usage)?
        .warns("was edited")?
        .warns("`kiln resolve made`")?;
    Ok(())
}

fn file_for_runs() -> Outcome {
    let env = Env::with_workspace()?;
    env.kiln(["runs", "list"]).run()?.exits(0)?;
    env.write(".kiln", "")?;
    let ran = env.kiln(["runs", "list"]).run()?.exits(Exit::Usage)?;
    ran.warns(".kiln/runs")?.warns("Not a directory")?;
    Ok(())
}
