//! What ends a build before its end: signals, a full disk, another build.

use camino::Utf8Path;
use kiln::failure::Exit;
use kiln::files;
use rustix::process::Signal;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Ran, Stop, child, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::ctrl_c_leaves_nothing_and_goes_on", || {
            stopped(Signal::INT, "701")
        }),
        Case::new("main_job::term_leaves_nothing_and_goes_on", || {
            stopped(Signal::TERM, "702")
        }),
        Case::new("main_job::kill_leaves_nothing_and_goes_on", || {
            stopped(Signal::KILL, "703")
        }),
        Case::new("main_job::two_signals_at_once_still_answer", two_signals),
        Case::new("main_job::the_second_build_waits", second_waits),
        Case::new("main_job::other_lines_do_not_wait", other_lines),
        Case::new("main_job::who_writes_a_lock_waits", who_writes_waits),
        Case::new(
            "main_job::stopped_between_base_and_lock",
            between_base_and_lock,
        ),
        Case::new("main_job::a_full_disk_while_fetching", || {
            full_disk(".kiln/store", "200k", "resolve made").map(drop)
        }),
        Case::new(
            "main_job::too_small_a_disk_is_told_before_compiling",
            too_small_a_disk,
        ),
        Case::new(
            "main_job::a_full_disk_while_compiling",
            full_while_compiling,
        ),
        Case::new("main_job::a_full_disk_for_the_packages", || {
            full_disk(".kiln/runs", "300k", "build made").map(drop)
        }),
    ]
}

/// Starts a build that would take hours, in processes with this number, and waits for them.
fn compiling_for_hours(
    made: &MadeUp,
    number: &str,
    format: &str,
) -> Result<(crate::support::env::Running, [String; 2]), Stop> {
    made.ask(&format!("CONFIG_FAKE_HOURS={number}"))?;
    made.kiln("resolve made").run()?.exits(0)?;
    let mut running = made
        .kiln(&format!("build made --format {format}"))
        .start()?;
    let marks = ["61", "62"].map(|start| format!("sleep\u{0}{start}{number}"));
    running.until("compilers run", |_| {
        let runs = |mark: &String| !child::processes_marked(mark).is_empty();
        Ok(marks.iter().all(runs))
    })?;
    Ok((running, marks))
}

fn stopped(signal: Signal, number: &str) -> Outcome {
    let made = MadeUp::sandboxed()?;
    let (running, marks) = compiling_for_hours(&made, number, "json")?;
    if signal == Signal::INT {
        running.signal_group(signal)?;
    } else {
        running.signal(signal)?;
    }
    let ran = running.wait()?;
    for mark in &marks {
        child::expect_none_marked(mark)?;
    }
    assert_eq!(made.products()?, Vec::<String>::new());
    let runs = made.runs()?;
    let ended = if signal == Signal::KILL {
        assert_eq!(ran.code(), None, "{}", ran.stderr);
        ("died", serde_json::Value::Null)
    } else {
        let exit = if signal == Signal::INT { 130 } else { 143 };
        let ran = ran.exits(exit)?;
        assert_eq!(ran.json()?["error"]["exit"], exit);
        ("failed", exit.into())
    };
    assert_eq!(
        (&runs[0]["status"], &runs[0]["exit"]),
        (&ended.0.into(), &ended.1)
    );
    // The same inputs, and this time the compilers come to an end: what package.sh waits for is
    // decided by the tree, which goes on where it was.
    let answer = goes_on(&made, number)?;
    let doubts = format!("{}", answer["doubts"]);
    assert!(doubts.contains("continued"), "{doubts}");
    Ok(())
}

/// Builds again to the end: the compilers are ended from outside, as if they had finished.
pub(super) fn goes_on(made: &MadeUp, number: &str) -> Result<serde_json::Value, Stop> {
    let mut running = made.kiln("build made --format json").start()?;
    for start in ["61", "62"] {
        let mark = format!("sleep\u{0}{start}{number}");
        running.until("compilers run again", |_| {
            Ok(!child::processes_marked(&mark).is_empty())
        })?;
        for pid in child::processes_marked(&mark) {
            let pid = i32::try_from(pid)
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            let pid = pid.ok_or_else(|| fail("no process id"))?;
            // The shell around it shows the same words and may be gone already.
            let _gone = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
    running.wait()?.exits(0)?.json()
}

/// A service manager sends TERM to kiln and to all it started, and may do so twice at once.
fn two_signals() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let (running, marks) = compiling_for_hours(&made, "704", "json")?;
    running.signal(Signal::TERM)?;
    running.signal_group(Signal::TERM)?;
    let ran = running.wait()?.exits(Exit::Terminated)?;
    assert_eq!(ran.json()?["error"]["exit"], 143);
    for mark in &marks {
        child::expect_none_marked(mark)?;
    }
    Ok(())
}

fn second_waits() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_GATE=y")?;
    let first = made.compiling()?;
    let mut second = made.kiln("build made").start()?;
    let says = format!(
        "waiting for process {} (build made, since ",
        first.pid().as_raw_nonzero()
    );
    second.until("it says who it waits for", |run| {
        Ok(run.stderr_so_far()?.contains(&says))
    })?;
    // Reading needs no lock.
    let runs = made.runs()?;
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0]["status"], "running");
    std::fs::write(made.tree().join("open"), "")?;
    first.wait()?.exits(0)?.says("built 6.18.40-1-made-")?;
    second.wait()?.exits(0)?.says("nothing changed since")?;
    assert_eq!(made.runs()?.len(), 1);
    Ok(())
}

fn other_lines() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let pipeline = made.env.read("pipelines/made.yaml")?;
    made.env.write(
        "pipelines/other.yaml",
        pipeline
            .replace("name: made", "name: other")
            .replace("[made]", "[other]"),
    )?;
    made.env
        .write("config-fragments/other.config", "CONFIG_MODULES=y\n")?;
    made.ask("CONFIG_FAKE_GATE=y")?;
    let first = made.compiling()?;
    made.kiln("build other").run()?.exits(0)?;
    std::fs::write(made.tree().join("open"), "")?;
    first.wait()?.exits(0)?;
    Ok(())
}

/// Every verb that may write the line's lock holds the line for that.
fn who_writes_waits() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let config = made.env.write("any.config", "CONFIG_TINY=y\n")?;
    let path = made.env.path(".kiln/locks/made");
    for line in [
        "resolve made",
        "config check made",
        "config diff made made",
        "explain TINY --pipeline made",
        &format!("fragment from {config} --base made"),
        "shell made",
        "build made",
    ] {
        let held = files::Lock::acquire(&path, "the test", files::Wait::No, |_| {})?;
        let mut waiting = made.kiln(line).start()?;
        waiting.until("it waits", |run| {
            Ok(run.stderr_so_far()?.contains("waiting for process"))
        })?;
        let lock = made.env.path("pipelines/made.lock.json");
        assert!(
            !lock.exists(),
            "`kiln {line}` wrote while the line was held"
        );
        drop(held);
        let ran = waiting.wait()?;
        if !lock.exists() {
            return Err(ran.complaint("no lock was written"));
        }
        std::fs::remove_file(lock)?;
    }
    Ok(())
}

/// The lock cannot be replaced, so that a resolve ends after it has written the base.
fn between_base_and_lock() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("only root can mount a file over itself"));
    }
    let made = MadeUp::sandboxed()?;
    let base = |made: &MadeUp, text: &str| -> Result<String, Stop> {
        made.env.write("base.config", text)?;
        let digest = kiln::digest::Sha256::of(text.as_bytes());
        Ok(format!(
            "{{file: {{path: base.config, series: \"6.18\", sha256: {digest}}}}}"
        ))
    };
    let pipeline = "pipelines/made.yaml";
    let first = base(&made, "CONFIG_TINY=y\nCONFIG_MODULES=y\n")?;
    made.env.edit(pipeline, "{target: tinyconfig}", &first)?;
    made.kiln("resolve made").run()?.exits(0)?;
    // As in a fresh clone: nothing but what is committed.
    std::fs::remove_dir_all(made.env.path(".kiln"))?;
    let (lock, before) = (
        made.env.read("pipelines/made.lock.json")?,
        made.env.read("pipelines/made.base.config")?,
    );
    let second = base(&made, "CONFIG_TINY=y\nCONFIG_MODULES=y\nCONFIG_NEWER=y\n")?;
    made.env.edit(pipeline, &first, &second)?;
    let script = "mount --bind \"$0\" \"$0\" || exit 99; exec \"$@\"";
    let path = made.env.path("pipelines/made.lock.json");
    let words = ["--mount", "/bin/sh", "-c", script, path.as_str()];
    let words = words
        .into_iter()
        .chain([crate::support::env::KILN, "resolve", "made"]);
    let ran = made.env.program("/usr/bin/unshare", words).run()?;
    if ran.code() == Some(99) || ran.stderr.contains("unshare failed") {
        return Err(skip("nothing can be mounted here"));
    }
    if ran.code() == Some(0) {
        return Err(ran.complaint("the lock was replaced after all"));
    }
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    assert_ne!(made.env.read("pipelines/made.base.config")?, before);
    // The lock that is there still builds.
    made.env.edit(pipeline, &second, &first)?;
    let built = made.kiln("build made").run()?.exits(0)?;
    built.warns("is not the base config that the lock names")?;
    // Without its bytes anywhere it does not, and the other resolve mends both.
    std::fs::remove_dir_all(made.env.path(".kiln"))?;
    let ran = made.kiln("build made --format json").run()?;
    let ran = ran.exits(Exit::NotVerified)?;
    assert_eq!(ran.json()?["error"]["code"], "base-changed");
    made.env.edit(pipeline, &first, &second)?;
    made.kiln("resolve made").run()?.exits(0)?;
    let built = made.kiln("build made").run()?.exits(0)?;
    built.never_says("is not the base config")?;
    Ok(())
}

/// `kiln LINE` with `directory` on a file system of this size.
fn on_a_small_disk(made: &MadeUp, directory: &str, size: &str, line: &str) -> Result<Ran, Stop> {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("only root can mount a small file system"));
    }
    let directory = made.env.path(directory);
    std::fs::create_dir_all(&directory)?;
    // What is left on it is told at the end, since it is gone with the namespace.
    let script = "mount -t tmpfs -o size=$2,mode=0755 tmpfs \"$1\" || exit 99; shift 2; \
                  \"$@\"; code=$?; find \"$0\" -type f -exec sha256sum {} + >&2; exit $code";
    let words = [
        "--mount",
        "/bin/sh",
        "-c",
        script,
        directory.as_str(),
        directory.as_str(),
        size,
        crate::support::env::KILN,
    ];
    let words = words.into_iter().chain(line.split_whitespace());
    let ran = made.env.program("/usr/bin/unshare", words).run()?;
    if ran.code() == Some(99) || ran.stderr.contains("unshare failed") {
        return Err(skip("no file system can be mounted here"));
    }
    Ok(ran)
}

/// What a build would need and what is there, as numbers, and nothing was compiled.
fn too_small_a_disk() -> Outcome {
    let told = full_disk(".kiln/work", "2m", "build made")?;
    let numbers = told.lines().find(|line| line.contains(" of disk: "));
    let numbers = numbers.ok_or_else(|| fail(format!("no numbers: {told}")))?;
    assert!(
        numbers.contains("needs about 0.6 GiB") && numbers.ends_with("GiB are free"),
        "{numbers}"
    );
    assert!(!told.contains("/tree/main.o"), "something was compiled");
    Ok(())
}

/// Enough for the estimate, and yet it fills up.
fn full_while_compiling() -> Outcome {
    let told = full_disk(".kiln/work", "900m", "build made")?;
    assert!(told.contains("No space left on device"), "{told}");
    assert!(told.contains("/tree/main.o"), "nothing was compiled");
    Ok(())
}

/// Runs out of space on a small disk, finds nothing half done, and goes on with a larger one.
/// Returns what was said, and which files were left there.
fn full_disk(directory: &str, size: &str, line: &str) -> Result<String, Stop> {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_BULK=y\nCONFIG_FAKE_FILLS=y")?;
    if directory == ".kiln/store" {
        made.enlarge("6.18.40")?;
    } else {
        made.kiln("resolve made").run()?.exits(0)?;
    }
    let ran = on_a_small_disk(&made, directory, size, line)?.exits(Exit::NoSpace)?;
    // Whatever stands under a final name is whole; a manifest, which says that all is, does not.
    let products = made.products()?;
    let mut whole = Vec::new();
    for product in &products {
        whole.push(kiln::files::hash(&made.env.path(product))?.0.to_string());
    }
    for line in ran.stderr.lines() {
        let Some((sha256, path)) = line.split_once("  /") else {
            continue;
        };
        let path = Utf8Path::new(path);
        let name = path.file_name().unwrap_or_default();
        assert_ne!(name, "manifest.json", "{}", ran.stderr);
        if path.as_str().contains("/store/sha256/") {
            assert_eq!(name, sha256, "half an object in the store");
        }
        if path.extension() == Some("deb") {
            let known = whole.iter().any(|known| known == sha256);
            assert!(known, "half a package: {path}");
        }
    }
    // Checked packages may wait where they were made; a build of the same inputs goes on with them.
    let waiting = |path: &String| path.starts_with(".kiln/work/made/build/out/");
    assert!(products.iter().all(waiting), "{products:?}");
    made.kiln(line).run()?.exits(0)?;
    Ok(ran.stderr)
}
