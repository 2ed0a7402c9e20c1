//! The main job as a user meets it, on a made-up kernel: from `kiln init` to checked packages, and
//! what a release, a lock and a mirror may do meanwhile.

mod answers;
mod edit;
mod fragments;
mod hostile;
mod killed;
mod patched;
mod reproduced;
mod sources;
mod state;
mod stopped;

use camino::Utf8Path;
use kiln::failure::Exit;
use kiln::proof::envelope::Envelope;

use crate::support::made_up::{FRAGMENT, MadeUp};
use crate::support::{Case, Outcome, Stop, fail, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("main_job::from_nothing_to_packages", from_nothing),
        Case::new("main_job::nothing_changed_no_work", nothing_changed),
        Case::new("main_job::a_changed_fragment_is_a_new_build", changed),
        Case::new("main_job::locked_refuses_a_changed_fragment", locked),
        Case::new("main_job::a_failing_guard_stops_before_compiling", guarded),
        Case::new("main_job::a_compiler_error_is_told", compiler_error),
        Case::new("main_job::packages_that_are_refused_go", refused_packages),
        Case::new(
            "main_job::without_a_sandbox_every_verb_says_so",
            without_a_sandbox,
        ),
    ];
    cases.extend(answers::cases());
    cases.extend(edit::cases());
    cases.extend(fragments::cases());
    cases.extend(killed::cases());
    cases.extend(patched::cases());
    cases.extend(reproduced::cases());
    cases.extend(sources::cases());
    cases.extend(hostile::cases());
    cases.extend(state::cases());
    cases.extend(stopped::cases());
    cases
}

fn from_nothing() -> Outcome {
    let made = MadeUp::sandboxed()?;
    // Before anything is resolved there is no lock to obey.
    made.kiln("fetch made")
        .run()?
        .exits(Exit::Usage)?
        .warns("kiln resolve made")?;
    let resolved = made
        .kiln("resolve made")
        .run()?
        .exits(0)?
        .says("resolved 6.18.40")?;
    let signer = format!("signed by {}", made.key.fingerprint());
    let resolved = resolved.says(&signer)?;
    drop(resolved.says("wrote pipelines/made.lock.json")?);
    let asked = made.mirror.log().len();
    made.kiln("fetch made")
        .run()?
        .exits(0)?
        .says("verified linux-6.18.40")?;
    made.kiln("config check made --offline")
        .run()?
        .exits(0)?
        .says("guard passed: 1 of 1 requests are met")?;
    let built = made.kiln("build made --format json").run()?.exits(0)?;
    let answer = built.json()?;
    assert_eq!(
        made.mirror.log().len(),
        asked,
        "the store is enough once it is resolved"
    );

    let release = answer["release"].as_str().unwrap_or_default();
    assert!(release.starts_with("6.18.40-1-made-"), "{release}");
    let directory = answer["directory"].as_str().unwrap_or_default();
    for package in answer["packages"].as_array().into_iter().flatten() {
        let file = Utf8Path::new(directory)
            .join("packages")
            .join(package["file"].as_str().unwrap_or_default());
        let (sha256, bytes) = kiln::files::hash(&file)?;
        assert_eq!(package["sha256"], sha256.to_string());
        assert_eq!(package["bytes"], bytes);
    }
    assert_eq!(made.products()?.len(), 3, "two packages and a manifest");
    // The object tree goes when it has served.
    let left = tree::listing(&made.env.path(".kiln/work"))?;
    assert!(
        left.iter()
            .all(|path| Utf8Path::new(path).extension() != Some("o")),
        "objects are left: {left:?}"
    );

    let runs = made.runs()?;
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(
        (&runs[0]["status"], &runs[0]["exit"]),
        (&"ok".into(), &0.into())
    );
    // One of the two modules is unsigned, so Secure Boot would not load it.
    assert_eq!(answer["unsigned_modules"], true);
    let text = std::fs::read_to_string(format!("{directory}/manifest.json"))?;
    let envelope = Envelope::parse("manifest.json", &text)?;
    let manifest = envelope.payload_of("manifest.json", "manifest")?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest)?;
    for unsigned in ["unsigned_modules", "unsigned_image"] {
        assert_eq!(manifest["body"][unsigned], true, "{manifest}");
    }
    let show = made.kiln("runs show").run()?.exits(0)?;
    let show = show.says(&format!("release: {release}\n"))?;
    let show = show.says(&format!("made: {directory}/manifest.json\n"))?;
    show.says(&format!(
        "made: {directory}/packages/linux-image-{release}_"
    ))?;
    let show = made.kiln("runs show --format json").run()?.exits(0)?;
    // What ran, by path and version, and how.
    let programs = show.json()?["run"]["programs"].clone();
    // openssl does not know --version, so its package stands for it.
    for name in [
        "bwrap", "gcc", "make", "flex", "bison", "perl", "openssl", "dpkg-deb",
    ] {
        if let Ok(tool) = kiln::command::Tool::find(name) {
            let told = programs[name].as_str().unwrap_or_default();
            let version = told.strip_prefix(&format!("{} ", tool.path()));
            assert!(
                version.is_some_and(|v| v.contains('.')),
                "{name}: {programs}"
            );
        }
    }
    let outputs = show.json()?["outputs"].as_array().map(Vec::len);
    assert_eq!(
        outputs,
        Some(5),
        "two packages, manifest, bill of materials, provenance"
    );
    made.kiln("runs log")
        .run()?
        .exits(0)?
        .says("== compile: ")?
        .says("\n== compile.log\n")?
        .says("  CC      kernel/fork.o\n")?
        .never_says("== failed")?;
    Ok(())
}

/// All files but those on their way out.
fn kept(made: &MadeUp) -> Result<Vec<String>, Stop> {
    let mut listing = made.env.listing()?;
    listing.retain(|path| !path.starts_with(".kiln/trash/"));
    Ok(listing)
}

fn nothing_changed() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let first = made.built()?;
    let (listing, asked) = (kept(&made)?, made.mirror.log().len());
    let ran = made.kiln("build made").run()?.exits(0)?;
    let ran = ran.says("nothing changed since")?;
    assert_eq!(ran.stderr, "", "nothing was at work");
    assert_eq!(kept(&made)?, listing, "nothing was written");
    assert_eq!(made.mirror.log().len(), asked, "nobody was asked");

    let again = made.kiln("build made --format json").run()?.exits(0)?;
    let again = again.json()?;
    assert_eq!(
        (&again["reused"], &again["directory"]),
        (&true.into(), &first["directory"])
    );

    // A package that is not what its manifest says was not built before.
    let file = made.products()?;
    let file = file.iter().find(|path| path.contains("/linux-image-"));
    let file = file.ok_or_else(|| fail("no package"))?;
    made.env.write(file, b"other bytes")?;
    let third = made.kiln("build made --format json").run()?.exits(0)?;
    assert_eq!(third.json()?["reused"], false);
    Ok(())
}

fn changed() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let first = made.built()?;
    made.ask("CONFIG_TINY=y")?;
    let ran = made.kiln("build made --format json").run()?.exits(0)?;
    let ran = ran.warns("wrote pipelines/made.lock.json anew: fragment made")?;
    let second = ran.json()?;
    assert_ne!(first["input_digest"], second["input_digest"]);
    let release = second["release"].as_str().unwrap_or_default();
    assert!(release.starts_with("6.18.40-2-made-"), "{release}");
    // Taken back, the first build is what it was.
    made.env.edit(FRAGMENT, "CONFIG_TINY=y\n", "")?;
    let ran = made.kiln("build made --format json").run()?.exits(0)?;
    let third = ran.json()?;
    assert_eq!(third["input_digest"], first["input_digest"]);
    Ok(())
}

fn locked() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let absent = made.kiln("build made --locked").run()?;
    absent.exits(Exit::Usage)?.warns("kiln resolve made")?;
    made.kiln("resolve made").run()?.exits(0)?;
    let lock = made.env.read("pipelines/made.lock.json")?;
    made.ask("CONFIG_TINY=y")?;
    made.kiln("build made --locked")
        .run()?
        .exits(Exit::Usage)?
        .warns("fragment made")?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    assert_eq!(made.products()?, Vec::<String>::new());
    made.env.edit(FRAGMENT, "CONFIG_TINY=y\n", "")?;
    made.kiln("build made --locked").run()?.exits(0)?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    Ok(())
}

fn guarded() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_DROPPED=y")?;
    made.kiln("resolve made").run()?.exits(0)?;
    let ran = made.kiln("build made --format json").run()?;
    let ran = ran.exits(Exit::Guard)?;
    let error = ran.json()?["error"].clone();
    assert_eq!(error["exit"], 11);
    let text = format!("{error}");
    assert!(
        text.contains("config-fragments/made.config:3") && text.contains("DROPPED"),
        "{text}"
    );
    assert_eq!(made.products()?, Vec::<String>::new());
    assert!(
        !made.tree().join("main.o").exists(),
        "something was compiled"
    );
    let runs = made.runs()?;
    assert_eq!(
        (&runs[0]["status"], &runs[0]["exit"]),
        (&"failed".into(), &11.into())
    );
    // Where CI shows findings at lines, they are at the line that asked.
    for verb in ["config check", "build"] {
        let github = made.kiln(&format!("{verb} made --format github")).run()?;
        let github = github.exits(Exit::Guard)?;
        let at = "::error file=config-fragments/made.config,line=3,title=CONFIG_DROPPED%3A ";
        github
            .says(at)?
            .says("::notice::made: guard failed on linux 6.18.40")?;
        let gitlab = made.kiln(&format!("{verb} made --format gitlab")).run()?;
        let issues = gitlab.exits(Exit::Guard)?.json()?;
        assert_eq!(issues[0]["location"]["lines"]["begin"], 3, "{issues}");
        let junit = made.kiln(&format!("{verb} made --format junit")).run()?;
        junit
            .exits(Exit::Guard)?
            .says("file=\"config-fragments/made.config\" line=\"3\"><failure type=")?;
    }
    // A checkout that the workspace is only a part of.
    let github = made.kiln("config check made --format github");
    let github = github
        .env("GITHUB_WORKSPACE", made.env.root().as_str())
        .run()?;
    github.says("::error file=ws/config-fragments/made.config,line=3,")?;
    made.kiln("check --format junit")
        .run()?
        .exits(Exit::Usage)?
        .warns("it knows text, json")?;
    // Without the line the same command goes through.
    made.env.edit(FRAGMENT, "CONFIG_DROPPED=y\n", "")?;
    made.kiln("build made --format gitlab")
        .run()?
        .exits(0)?
        .says("[]\n")?;
    let again = made.kiln("build made --format junit").run()?.exits(0)?;
    again.says("<testsuites tests=\"0\"")?;
    Ok(())
}

fn compiler_error() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_ERROR=y")?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Build)?
        .warns("kernel/fork.c:99:2: error: 'x' undeclared")?;
    assert_eq!(made.products()?, Vec::<String>::new());
    let show = made.kiln("runs show").run()?.exits(0)?;
    let show = show.says("release: 6.18.40-1-made-")?;
    show.says("error: 'x' undeclared")?.never_says("made: ")?;
    let log = made.kiln("runs log").run()?.exits(0)?;
    let log = log.says("make[3]: *** [scripts/Makefile.build:229: kernel/fork.o] Error 1")?;
    let (_before, failure) = log
        .stdout
        .split_once("\n== failed: compiling failed")
        .ok_or_else(|| fail("the failure is not the end of the log"))?;
    assert!(failure.contains("error: 'x' undeclared"), "{failure}");
    Ok(())
}

/// bubblewrap is hidden from kiln. Whatever works on foreign bytes says that it does so openly, and
/// what is built carries it.
fn without_a_sandbox() -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    let made = MadeUp::sandboxed()?;
    // The user that programs run as reaches the workspace on the host's own paths.
    std::fs::set_permissions(made.env.root(), std::fs::Permissions::from_mode(0o755))?;
    let run = |line: &str| {
        let hidden = "--dev-bind / / --ro-bind /dev/null /usr/bin/bwrap --";
        let words = hidden.split(' ').chain([crate::support::env::KILN]);
        let words = words.chain(line.split(' '));
        made.env.program("/usr/bin/bwrap", words).run()
    };
    for line in [
        "resolve made",
        "fetch made",
        "config check made",
        "build made",
    ] {
        let ran = run(&format!("{line} --format json"))?.exits(0)?;
        let told = ran.stderr.matches("no sandbox: ").count();
        assert_eq!(told, 1, "{line}: {}", ran.stderr);
        let answer = ran.json()?;
        assert_eq!(answer["isolation"], "none", "{line}: {answer}");
        let doubts = answer["doubts"].to_string();
        assert_eq!(doubts.contains("no sandbox: "), line == "build made");
    }
    let show = made.kiln("runs show --format json").run()?.exits(0)?;
    show.says("no sandbox: ")?;
    // The twin: with bubblewrap there is nothing to say.
    for line in ["fetch made", "config check made", "build made --again"] {
        let ran = made.kiln(&format!("{line} --format json")).run()?;
        let ran = ran.exits(0)?.never_says("no sandbox")?;
        assert_eq!(ran.json()?["isolation"], "bubblewrap", "{line}");
    }
    Ok(())
}

/// What the second look of the guard refuses must not lie about as if it could be installed.
fn refused_packages() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_SWAPPED=y")?;
    for time in ["first", "second"] {
        made.kiln("build made")
            .run()?
            .exits(Exit::Guard)?
            .warns("linux-image-6.18.40-1-made-")?;
        assert_eq!(made.products()?, Vec::<String>::new(), "the {time} time");
    }
    Ok(())
}
