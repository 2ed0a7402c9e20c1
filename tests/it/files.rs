//! Writing under bad luck: killed half way, no space left, a lock that another process holds.

use std::process::ExitCode;
use std::time::Duration;

use camino::Utf8Path;
use kiln::failure::{Diagnose as _, Exit};
use kiln::files::{self, FileError, Lock, Wait};
use rustix::process::Signal;

use crate::support::child::{self, Part, say};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("files::killed_writer_leaves_old_or_new", || {
            killed_writer(25)
        }),
        Case::new("files::killed_writer_leaves_old_or_new_long", || {
            killed_writer(500)
        })
        .full(),
        Case::new("files::full_disk_leaves_old_content", full_disk),
        Case::new(
            "files::held_lock_names_its_holder",
            held_lock_names_its_holder,
        ),
        Case::new(
            "files::waiting_for_a_lock_ends_with_it",
            waiting_for_a_lock_ends_with_it,
        ),
        Case::new(
            "files::lock_of_a_killed_process_is_free",
            lock_of_a_killed_process_is_free,
        ),
        Case::new(
            "files::interrupt_ends_the_wait_for_a_lock",
            interrupt_ends_the_wait,
        ),
        Case::new(
            "files::unreadable_lock_still_locks",
            unreadable_lock_still_locks,
        ),
        Case::new("files::wrong_kind_of_path_is_an_error", wrong_kind_of_path),
    ]
}

/// What this module's children do.
pub const PARTS: &[Part] = &[
    ("files::write_in_turn", write_in_turn),
    ("files::write_until_full", write_until_full),
    ("files::hold_lock", hold_lock),
    ("files::take_lock", take_lock),
];

/// Two contents that differ in every byte and in length.
fn contents() -> [Vec<u8>; 2] {
    [vec![b'a'; 700_000], vec![b'b'; 300_000]]
}

/// Part: writes one content and the other in turn until it is killed.
fn write_in_turn(arguments: &[String]) -> ExitCode {
    let path = Utf8Path::new(&arguments[0]);
    let contents = contents();
    for turn in 0.. {
        if let Err(error) = files::write(path, &contents[turn % 2]) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        if turn == 1 {
            say("both written");
        }
    }
    ExitCode::SUCCESS
}

fn killed_writer(times: u32) -> Outcome {
    let env = Env::new()?;
    let path = env.path("file");
    let contents = contents();
    let mut seen = [false; 2];
    for time in 0..times {
        let mut writer = child::start(&env, "files::write_in_turn", &[path.as_str()])?;
        writer.until("it wrote", |writer| {
            Ok(writer.stdout_so_far()?.contains("both"))
        })?;
        // A moment that differs every time, spread over several writes.
        std::thread::sleep(Duration::from_micros(u64::from(time * 7919 % 20_000)));
        writer.signal(Signal::KILL)?;
        writer.wait()?;
        let found = std::fs::read(&path)?;
        let which = contents
            .iter()
            .position(|content| *content == found)
            .ok_or_else(|| {
                fail(format!(
                    "half a file after kill {time}: {} bytes",
                    found.len()
                ))
            })?;
        seen[which] = true;
    }
    // What a killed writer leaves lies under a name that nobody reads.
    for name in env.listing()? {
        assert!(
            name == "file" || name.starts_with(".kiln-"),
            "left behind: {name}"
        );
    }
    assert!(
        times < 100 || seen == [true, true],
        "the kills never hit different moments"
    );
    Ok(())
}

/// Part: fills a small file system, then tries to replace a file there.
fn write_until_full(arguments: &[String]) -> ExitCode {
    let dir = Utf8Path::new(&arguments[0]);
    let kept = dir.join("kept");
    files::write(&kept, b"old content").expect("there is room at first");
    let error = files::write(&kept, &vec![b'x'; 4 << 20]).expect_err("no room for this");
    say(&format!("exit {}", error.exit().code()));
    say(&format!("code {}", error.code()));
    say(&format!("message {error}"));
    say(&format!("hints {}", error.hints().join(" ")));
    say(&format!(
        "names {}",
        files::list(dir).expect("readable").join(" ")
    ));
    let after = files::read_text(&kept, 100).expect("readable");
    say(&format!("content {after}"));
    ExitCode::SUCCESS
}

fn full_disk() -> Outcome {
    let env = Env::new()?;
    let dir = env.path("small");
    std::fs::create_dir(&dir)?;
    // A mount namespace of its own: nothing of it is left on the host.
    let script = format!("mount -t tmpfs -o size=1m none {dir} || exit 77; exec \"$@\"");
    let mut wrapper = vec!["/usr/bin/unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        wrapper.push("--map-root-user");
    }
    wrapper.extend(["/bin/sh", "-c", &script, "sh"]);
    let part = child::start_through(&env, &wrapper, "files::write_until_full", &[dir.as_str()]);
    let ran = part?.wait()?;
    if ran.code() == Some(77) || ran.stderr.contains("unshare") {
        return Err(skip(format!(
            "no file system can be mounted here: {}",
            ran.stderr.trim()
        )));
    }
    ran.exits(0)?
        .says(&format!("exit {}\n", Exit::NoSpace.code()))?
        .says("code no-space\n")?
        .says(dir.join("kept").as_str())?
        .says("free some space")?
        .says("names kept\n")?
        .says("content old content\n")?;
    Ok(())
}

/// Part: takes a lock and keeps it until it is killed.
fn hold_lock(arguments: &[String]) -> ExitCode {
    let path = Utf8Path::new(&arguments[0]);
    let _lock = Lock::acquire(path, "build lts", Wait::No, |_| {}).expect("the lock is free");
    say("locked");
    std::thread::sleep(Duration::from_mins(10));
    ExitCode::SUCCESS
}

/// Part: waits for a lock as the program does, and ends with the code the program would.
fn take_lock(arguments: &[String]) -> ExitCode {
    kiln::interrupt::install().expect("handlers can be set");
    let path = Utf8Path::new(&arguments[0]);
    let wait = Wait::UpTo(Duration::from_mins(1));
    match Lock::acquire(path, "fetch lts", wait, |holder| {
        say(&format!("waits for {}", holder.pid));
    }) {
        Ok(_lock) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit().code())
        }
    }
}

/// A child that holds the lock at this path.
fn holder(env: &Env, path: &Utf8Path) -> Result<crate::support::env::Running, Stop> {
    let mut holder = child::start(env, "files::hold_lock", &[path.as_str()])?;
    holder.until("it held the lock", |holder| {
        Ok(holder.stdout_so_far()?.contains("locked"))
    })?;
    Ok(holder)
}

fn held_lock_names_its_holder() -> Outcome {
    let env = Env::new()?;
    let path = env.path("lock");
    let holder = holder(&env, &path)?;
    let pid = holder.pid().as_raw_nonzero().get();
    let error = Lock::acquire(&path, "fetch lts", Wait::No, |_| panic!("must not wait"))
        .expect_err("the lock is held");
    assert_eq!(error.exit(), Exit::Locked);
    let text = error.to_string();
    assert!(
        text.contains("build lts") && text.contains(&format!("process {pid} ")),
        "{text}"
    );
    assert!(
        error.hints()[0].contains(&pid.to_string()),
        "{:?}",
        error.hints()
    );
    Ok(())
}

fn waiting_for_a_lock_ends_with_it() -> Outcome {
    let env = Env::new()?;
    let path = env.path("lock");
    let holder = holder(&env, &path)?;
    let mut waiter = child::start(&env, "files::take_lock", &[path.as_str()])?;
    let expected = format!("waits for {}", holder.pid().as_raw_nonzero());
    waiter.until("it waited", |waiter| {
        Ok(waiter.stdout_so_far()?.contains(&expected))
    })?;
    holder.signal(Signal::TERM)?;
    holder.wait()?;
    waiter.wait()?.exits(0)?;
    Ok(())
}

fn lock_of_a_killed_process_is_free() -> Outcome {
    let env = Env::new()?;
    let path = env.path("lock");
    let holder = holder(&env, &path)?;
    holder.signal(Signal::KILL)?;
    holder.wait()?;
    Lock::acquire(&path, "build lts", Wait::No, |_| panic!("must not wait"))?;
    Ok(())
}

fn interrupt_ends_the_wait() -> Outcome {
    let env = Env::new()?;
    let path = env.path("lock");
    let _holder = holder(&env, &path)?;
    for (signal, exit) in [
        (Signal::INT, Exit::Interrupted),
        (Signal::TERM, Exit::Terminated),
    ] {
        let mut waiter = child::start(&env, "files::take_lock", &[path.as_str()])?;
        waiter.until("it waited", |waiter| {
            Ok(waiter.stdout_so_far()?.contains("waits"))
        })?;
        waiter.signal(signal)?;
        waiter.wait()?.exits(exit)?;
    }
    Ok(())
}

/// A lock file is only a place to lock; rubbish in it must not let a second process in.
fn unreadable_lock_still_locks() -> Outcome {
    let env = Env::new()?;
    let path = env.path("lock");
    let _holder = holder(&env, &path)?;
    std::fs::write(&path, b"\xff{ rubbish")?;
    let error = Lock::acquire(&path, "x", Wait::No, |_| {}).expect_err("the lock is held");
    assert!(matches!(error, FileError::Locked { .. }), "{error}");
    assert!(
        !error.hints().join(" ").contains("kill 0"),
        "`kill 0` ends the caller's own group"
    );
    Ok(())
}

fn wrong_kind_of_path() -> Outcome {
    let env = Env::new()?;
    let dir = env.path("dir");
    std::fs::create_dir_all(dir.join("inside"))?;
    std::fs::write(env.path("plain"), "x")?;
    for (path, word) in [(dir.clone(), "dir"), (env.path("plain/below"), "plain")] {
        let error = files::write(&path, b"x").expect_err("not a place for a file");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(files::read(&dir, 10).is_err());
    assert_eq!(
        files::read(&env.path("absent"), 10)
            .expect_err("absent")
            .exit(),
        Exit::Usage
    );
    assert_eq!(env.listing()?, ["dir/", "dir/inside/", "plain"]);
    Ok(())
}
