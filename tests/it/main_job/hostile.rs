//! What comes from outside and lies, or is not what it should be: no statement repeats it, nothing
//! is lost to it, and nobody waits for it.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use camino::Utf8Path;
use kiln::failure::Exit;
use kiln::proof::lock::{Inputs, Lock, Source};

use crate::support::env::KILN;
use crate::support::keys::TestKey;
use crate::support::made_up::MadeUp;
use crate::support::terminal::Terminal;
use crate::support::{Case, Env, Outcome, Stop, fail};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::a_lock_that_lies_is_not_built", lying_lock),
        Case::new("main_job::no_temporary_files_is_not_no_sandbox", no_room),
        Case::new("main_job::pipes_are_not_waited_for", pipes),
        Case::new("main_job::links_in_the_store_are_refused", links),
        Case::new(
            "main_job::fragments_are_written_where_they_belong",
            edit_name,
        ),
        Case::new("main_job::secrets_are_found_and_not_shown", secrets),
        Case::new("main_job::an_empty_path_is_no_path", empty_path),
        Case::new(
            "main_job::only_a_configuration_becomes_a_fragment",
            no_configuration,
        ),
        Case::new("main_job::logs_are_a_runs_own", logs),
        Case::new("main_job::a_root_of_no_form_is_told", broken_root),
        Case::new("main_job::where_a_new_key_is_is_told", key_without_reader),
        Case::new("main_job::keys_changed_at_once_are_all_there", keys_at_once),
    ]
}

const LOCK: &str = "pipelines/made.lock.json";

/// Writes the lock anew with other inputs, and the digest that they have.
fn forge(made: &MadeUp, text: &str, change: &dyn Fn(&mut Inputs)) -> Result<(), Stop> {
    let lock = Lock::parse(LOCK, text)?;
    let mut inputs = lock.inputs.clone();
    change(&mut inputs);
    let forged = Lock::new(inputs, None)?;
    made.env.write(LOCK, forged.to_text()?).map(drop)
}

/// What a manifest says of the source was compared with what was verified, also where the store has
/// it all.
fn lying_lock() -> Outcome {
    type Lie = (&'static str, Exit, fn(&mut Inputs));
    let lies: [Lie; 7] = [
        ("signature.signer", Exit::NotVerified, |inputs| {
            if let Source::KernelOrg { signature, .. } = &mut inputs.source {
                signature.signer = TestKey::new().fingerprint().parse().unwrap();
            }
        }),
        ("signature.made", Exit::NotVerified, |inputs| {
            if let Source::KernelOrg { signature, .. } = &mut inputs.source {
                signature.made = 1;
            }
        }),
        ("source_date_epoch", Exit::NotVerified, |inputs| {
            inputs.source_date_epoch += 1;
        }),
        ("tar.bytes", Exit::NotVerified, |inputs| {
            if let Source::KernelOrg { tar, .. } = &mut inputs.source {
                tar.bytes += 1;
            }
        }),
        ("xz.bytes", Exit::NotVerified, |inputs| {
            if let Source::KernelOrg { xz, .. } = &mut inputs.source {
                xz.bytes += 1;
            }
        }),
        ("path", Exit::NotVerified, |inputs| {
            if let Source::KernelOrg { path, .. } = &mut inputs.source {
                "../../etc/passwd".clone_into(path);
            }
        }),
        ("checksums role", Exit::Usage, |inputs| {
            if let Source::KernelOrg { checksums, .. } = &mut inputs.source {
                *checksums = true;
            }
        }),
    ];
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let text = made.env.read(LOCK)?;
    for (fact, exit, lie) in lies {
        forge(&made, &text, &lie)?;
        for store in ["there", "new"] {
            let run = made.kiln("build made").env(
                "KILN_STORE",
                match store {
                    "there" => made.env.path(".kiln/store"),
                    _ => made
                        .env
                        .root()
                        .join(format!("store-{}", fact.replace(' ', "-"))),
                }
                .as_str(),
            );
            let ran = run.run()?.exits(exit)?;
            ran.warns(fact)?;
        }
    }
    // An archive of another digest is none that could be had.
    forge(&made, &text, &|inputs| {
        if let Source::KernelOrg { xz, .. } = &mut inputs.source {
            xz.sha256 = kiln::digest::Sha256::of(b"other");
        }
    })?;
    made.kiln("build made").run()?.exits(Exit::NotVerified)?;
    // A signature that is not to be had any more: told, and kept with the build.
    forge(&made, &text, &|inputs| {
        if let Source::KernelOrg { signature, .. } = &mut inputs.source {
            signature.sha256 = kiln::digest::Sha256::of(b"other");
        }
    })?;
    let built = made
        .kiln("build made --format json")
        .run()?
        .exits(0)?
        .json()?;
    assert!(
        built["doubts"].to_string().contains("signed anew"),
        "{built}"
    );
    // The truth builds.
    made.env.write(LOCK, &text)?;
    let built = made
        .kiln("build made --format json")
        .run()?
        .exits(0)?
        .json()?;
    assert!(
        !built["doubts"].to_string().contains("signed anew"),
        "{built}"
    );
    Ok(())
}

/// The sandbox is done without only where this host has none.
fn no_room() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    for directory in ["/nonexistent", "/proc"] {
        let ran = made
            .kiln("config check made")
            .env("TMPDIR", directory)
            .run()?;
        if ran.code() == Some(0) {
            return Err(ran.complaint("it went on without a temporary directory"));
        }
        ran.never_says("guard passed")?;
    }
    made.kiln("config check made").run()?.exits(0)?;
    Ok(())
}

fn pipe(path: &Utf8Path) -> Result<(), Stop> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, path.as_std_path(), 0o644.into())?;
    Ok(())
}

fn pipes() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let usb = made.env.path("usb");
    made.kiln("fetch made --to usb").run()?.exits(0)?;
    made.env.write(
        "kiln.yaml",
        format!("kiln: 1\nmirrors:\n  kernel: [\"file://{usb}\"]\n  releases: \"file://{usb}/releases.json\"\n"),
    )?;
    let run = |words: &str| {
        std::fs::remove_dir_all(made.env.path(".kiln"))?;
        made.kiln(words).deadline(Duration::from_mins(1)).run()
    };
    run("fetch made")?.exits(0)?;
    for name in ["v6.x/linux-6.18.40.tar.xz", "v6.x/linux-6.18.40.tar.sign"] {
        let (path, aside) = (usb.join(name), usb.join("aside"));
        std::fs::rename(&path, &aside)?;
        pipe(&path)?;
        run("fetch made")?
            .exits(Exit::Network)?
            .warns("not a regular file")?;
        std::fs::remove_file(&path)?;
        std::fs::rename(&aside, &path)?;
    }
    pipe(&usb.join("releases.json"))?;
    run("resolve made")?
        .exits(Exit::Network)?
        .warns("cannot be read")?;
    // In the store, it is no object, and that is told.
    made.env.write(
        "kiln.yaml",
        format!("kiln: 1\nmirrors:\n  kernel: [\"file://{usb}\"]\n"),
    )?;
    run("fetch made")?.exits(0)?;
    made.kiln("store verify").run()?.exits(0)?;
    let lock = Lock::parse(LOCK, &made.env.read(LOCK)?)?;
    let tar = lock.inputs.source.tar().sha256.to_string();
    pipe(
        &made
            .env
            .path(&format!(".kiln/store/sha256/{}/{tar}", &tar[..2])),
    )?;
    made.kiln("store verify")
        .run()?
        .exits(Exit::NotVerified)?
        .says(&format!(
            "no object: {}",
            made.env.path(".kiln/store/sha256")
        ))?;
    Ok(())
}

/// Old downloads are removed: not those of a place that a link leads to.
fn links() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let precious = made.env.write("victim/precious", b"kept")?;
    Command::new("touch")
        .args(["-d", "2020-01-01", precious.as_str()])
        .status()?;
    for part in ["staging", "partial", "sha256", "trees"] {
        let place = made.env.path(&format!(".kiln/store/{part}"));
        let aside = made.env.path("aside");
        std::fs::rename(&place, &aside)?;
        symlink(made.env.path("victim"), &place)?;
        made.kiln("store gc --keep 0")
            .run()?
            .exits(Exit::Usage)?
            .warns("is a symbolic link")?;
        assert_eq!(made.env.read("victim/precious")?, "kept");
        std::fs::remove_file(&place)?;
        std::fs::rename(&aside, &place)?;
    }
    made.kiln("store gc --keep 0").run()?.exits(0)?;
    Ok(())
}

fn edit_name() -> Outcome {
    let made = MadeUp::new()?;
    let before = made.env.listing()?;
    for name in ["../../out", "/tmp/out", "sub/x", "a.config", ".hidden"] {
        let line = format!("{KILN} config edit made --into {name}");
        let mut terminal = Terminal::start(&made.env, &line, Duration::from_mins(1))?;
        terminal.shows("is no name for a fragment")?;
        terminal.running.wait()?.exits(Exit::Usage)?;
    }
    // A link that leads nowhere is there all the same.
    symlink("nowhere", made.env.path("config-fragments/more.config"))?;
    let line = format!("{KILN} config edit made --into more");
    let mut terminal = Terminal::start(&made.env, &line, Duration::from_mins(1))?;
    terminal.shows("exists already")?;
    terminal.running.wait()?.exits(Exit::Usage)?;
    let mut after = made.env.listing()?;
    after.retain(|path| !path.starts_with(".kiln") && !path.contains("more.config"));
    assert_eq!(after, before);
    Ok(())
}

fn secrets() -> Outcome {
    let env = Env::with_workspace()?;
    let pgp = TestKey::new().armored_secret();
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIB1v2iJ3q44v\n-----END PRIVATE KEY-----\n";
    for (name, key) in [("ci.pem", pem), ("notes.txt", &pgp), ("backup.asc", &pgp)] {
        let file = format!("keys/{name}");
        env.write(&file, key)?;
        for words in [["check"].as_slice(), &["keys", "lint"]] {
            env.kiln(words.iter().copied())
                .run()?
                .exits(Exit::Usage)?
                .says(&file)?
                .says("it holds a private key")?;
        }
        std::fs::remove_file(env.path(&file))?;
    }
    env.kiln(["check"]).run()?.exits(0)?;
    let hides = |ran: crate::support::Ran, secret: &str| {
        if ran.stdout.contains(secret) || ran.stderr.contains(secret) {
            return Err(ran.complaint(&format!("it shows {secret}")));
        }
        Ok(())
    };
    let ran = env
        .kiln([
            "keys", "new", "--role", "builder", "--name", "x", "--public", pem,
        ])
        .run()?
        .exits(Exit::Usage)?
        .warns("the command line holds a private key")?;
    hides(ran, "MC4CAQ")?;
    for (file, text, secret) in [
        (
            "kiln.yaml",
            "kiln: 1\nmirrors: {kernel: [\"http://me:s3cret@127.0.0.1/\"]}\n".to_owned(),
            "s3cret",
        ),
        (
            "kiln.yaml",
            format!(
                "kiln: 1\nsigners: [{{file: \"{}\"}}]\nx: \"{}\"\n",
                "a",
                pem.replace('\n', "\\n")
            ),
            "MC4CAQ",
        ),
        (
            "keys/roles.yaml",
            format!("kiln: 1\nroles: \"{}\"\n", pem.replace('\n', "\\n")),
            "MC4CAQ",
        ),
    ] {
        let kept = env.read(file).ok();
        env.write(file, text)?;
        let ran = env.kiln(["check"]).run()?.exits(Exit::Usage)?;
        ran.says(file)?;
        hides(env.kiln(["check"]).run()?, secret)?;
        match kept {
            Some(kept) => drop(env.write(file, kept)?),
            None => std::fs::remove_file(env.path(file))?,
        }
    }
    Ok(())
}

fn empty_path() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let before = made.env.listing()?;
    for words in [
        ["fetch", "made", "--to", ""].as_slice(),
        &["config", "check", "made", "--output", ""],
        &[
            "keys", "new", "--role", "builder", "--name", "x", "--out", "",
        ],
        &["init", ""],
        &["-C", "", "check"],
    ] {
        made.env
            .kiln(words.iter().copied())
            .run()?
            .exits(Exit::Usage)?
            .warns("expected a path, found nothing")?;
    }
    assert_eq!(made.env.listing()?, before);
    Ok(())
}

fn no_configuration() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    for (text, says) in [
        ("", "wanted:"),
        (
            "not a config at all\n",
            "wanted:1:1: expected an assignment",
        ),
        (
            "CONFIG_A=y\nCONFIG_B\n",
            "wanted:2:1: expected an assignment",
        ),
        ("CONFIG_A=\"x\\\"y\n", "wanted:1:10: CONFIG_A has the value"),
        ("# only words\n", "is no configuration"),
    ] {
        made.env.write("wanted", text)?;
        let ran = made
            .kiln("fragment from wanted --base made")
            .run()?
            .exits(Exit::Usage)?;
        ran.warns(if text.is_empty() {
            "is no configuration"
        } else {
            says
        })?;
    }
    Ok(())
}

/// A key that is told to be there is, and one that is told to be taken back is taken back.
fn keys_at_once() -> Outcome {
    let env = Env::with_workspace()?;
    let at_once = |lines: Vec<Vec<String>>| -> Outcome {
        let mut running = Vec::new();
        for line in lines {
            running.push(env.kiln(line).start()?);
        }
        for run in running {
            run.wait()?.exits(0)?;
        }
        Ok(())
    };
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    at_once(
        (0..8)
            .map(|i| words(format!("keys new --role builder --name r{i}")))
            .collect(),
    )?;
    let roles = env.read("keys/roles.yaml")?;
    let there = (0..8)
        .filter(|i| roles.contains(&format!("name: r{i}")))
        .count();
    assert_eq!(there, 8, "{roles}");
    let revoke = |i: i32| {
        let mut line = words(format!("keys revoke r{i} --reason"));
        line.push("it was broken into".to_owned());
        line
    };
    at_once((0..8).map(revoke).collect())?;
    let roles = env.read("keys/roles.yaml")?;
    if roles.matches("revoked:").count() != 8 {
        return Err(fail(roles));
    }
    Ok(())
}

/// A link in a run's directory leads to nothing that is shown.
fn logs() -> Outcome {
    let made = MadeUp::new()?;
    made.built()?;
    made.kiln("runs log").run()?.exits(0)?;
    made.env.write("somebodys", "secret words")?;
    let run = std::fs::read_dir(made.env.path(".kiln/runs"))?
        .next()
        .ok_or_else(|| fail("there is no run"))??;
    let log = run.path().join("log");
    std::fs::remove_file(&log)?;
    symlink(made.env.path("somebodys"), &log)?;
    let id = run.file_name().to_string_lossy().into_owned();
    made.kiln(&format!("runs log {id}"))
        .run()?
        .exits(Exit::Usage)?
        .never_says("secret words")?
        .warns("is not a regular file")?;
    std::fs::write(run.path().join("run.json"), "{")?;
    made.kiln("runs list")
        .run()?
        .exits(0)?
        .warns("no readable run.json; what it kept of its log is beside it")?;
    Ok(())
}

fn broken_root() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.env
        .edit(LOCK, "\"root\": \"host\"", "\"root\": \"hots\"")?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Usage)?
        .warns(LOCK)?
        .warns("expected `host`, or a root's `name` and its `packages`")?;
    Ok(())
}

fn key_without_reader() -> Outcome {
    let env = Env::with_workspace()?;
    let line = format!("exec {KILN} keys new --role builder --name ci >/dev/full");
    env.program("/bin/sh", ["-c", &line])
        .run()?
        .exits(Exit::Unexpected)?
        .warns("the key was made and is in keys/roles.yaml")?
        .warns("its private half is `~/.config/kiln/keys/ci-")?;
    Ok(())
}
