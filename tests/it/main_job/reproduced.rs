//! Builds made again from their manifests alone, on the made-up kernel.

use std::collections::BTreeMap;

use camino::Utf8Path;
use kiln::failure::Exit;
use kiln::proof::envelope::Envelope;
use kiln::proof::manifest::{Kept, Manifest};
use serde_json::Value;

use crate::support::made_up::{FRAGMENT, MadeUp};
use crate::support::{Case, Outcome, Ran, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::a_build_is_reproduced", identical),
        Case::new("main_job::each_difference_is_told_by_its_kind", planted),
        Case::new("main_job::the_same_files_compressed_otherwise", threads),
        Case::new("main_job::what_differs_on_purpose_really_does", conditions),
        Case::new("main_job::without_the_first_packages", without_packages),
        Case::new("main_job::diffoscope_is_asked_where_it_is", diffoscope),
        Case::new("main_job::what_cannot_reproduce_is_refused_first", linted),
        Case::new("main_job::manifests_that_cannot_be_reproduced", refused),
    ]
}

/// Builds, and returns the manifest's path.
fn built(made: &MadeUp) -> Result<String, Stop> {
    let answer = made.built()?;
    let manifest = answer["manifest"].as_str();
    Ok(manifest.ok_or_else(|| fail("no manifest"))?.to_owned())
}

fn reproduce(made: &MadeUp, manifest: &str) -> Result<Ran, Stop> {
    let words = ["reproduce", manifest, "--format", "json"];
    made.env.kiln(words).run()
}

fn identical() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let manifest = built(&made)?;
    // Nothing of the workspace is needed but its keys: neither the pipeline, nor its lock or files.
    for file in ["pipelines/made.yaml", "pipelines/made.lock.json", FRAGMENT] {
        std::fs::remove_file(made.env.path(file))?;
    }
    let found = reproduce(&made, &manifest)?.exits(0)?.json()?;
    assert_eq!(found["identical"], true, "{found}");
    let packages = found["packages"].as_array().map_or(0, Vec::len);
    assert_eq!(packages, 2, "the image and its headers: {found}");
    assert_eq!(found["differences"], serde_json::json!([]));
    for what in [
        "path",
        "umask",
        "time_zone",
        "locale",
        "jobs",
        "environment",
    ] {
        assert!(found["varied"][what].is_string(), "{what}: {found}");
    }
    // The host's own tools vouch for nothing, and so does nobody here.
    let reason = found["no_evidence"].as_str().unwrap_or_default();
    assert!(reason.contains("not in a pinned root"), "{reason}");
    let left = made.env.path(".kiln/reproduce/made");
    assert!(!left.exists(), "the scratch workspace is left");
    let ran = made.env.kiln(["reproduce", &manifest]).run()?.exits(0)?;
    let ran = ran.says("identical 6.18.40-1-made-")?;
    let ran = ran.says("2 of 2 packages are the same, byte by byte")?;
    ran.says("not varied: the machine")?;
    let runs = made.runs()?;
    let last = runs.iter().find(|run| run["verb"] == "reproduce");
    assert_eq!(last.map(|run| &run["status"]), Some(&"ok".into()));
    Ok(())
}

/// Every difference of an answer, by package and file.
fn differences(found: &Value) -> BTreeMap<String, Vec<String>> {
    let list = found["differences"].as_array().into_iter().flatten();
    list.map(|one| {
        let text = |what: &str| one[what].as_str().unwrap_or_default().to_owned();
        let package = text("package");
        let package = package.split("-6.18").next().unwrap_or_default();
        let causes = one["causes"].as_array().into_iter().flatten();
        let causes = causes.map(|cause| cause["cause"].as_str().unwrap_or_default().to_owned());
        let file = text("file");
        let file = Utf8Path::new(&file).file_name().unwrap_or_default();
        (format!("{package}/{file}"), causes.collect())
    })
    .collect()
}

fn planted() -> Outcome {
    if kiln::command::Tool::find("objcopy").is_err() {
        return Err(skip("objcopy is not installed"));
    }
    let made = MadeUp::sandboxed()?;
    let kinds = [
        "TIME", "PATH", "KEY", "ORDER", "UNKNOWN", "BTF", "ID", "HEADERS",
    ];
    for kind in kinds {
        made.ask(&format!("CONFIG_FAKE_DIFFERS_{kind}=y"))?;
    }
    let manifest = built(&made)?;
    let ran = reproduce(&made, &manifest)?.exits(Exit::NotReproducible)?;
    let found = ran.json()?;
    assert_eq!(found["error"]["code"], "not-reproduced", "{found}");
    let expected = [
        ("linux-image/notes", vec!["timestamp", "path"]),
        ("linux-image/certificate", vec!["key"]),
        ("linux-image/signed.ko", vec!["key"]),
        ("linux-image/modules.order", vec!["file-order"]),
        ("linux-image/unknown", vec!["unclassified"]),
        ("linux-image/btf.ko", vec!["btf-order"]),
        ("linux-image/id.so", vec!["build-id"]),
        ("linux-headers/notes", vec!["timestamp"]),
    ];
    let expected: BTreeMap<String, Vec<String>> = expected
        .into_iter()
        .map(|(file, causes)| {
            let causes = causes.into_iter().map(str::to_owned);
            (file.to_owned(), causes.collect())
        })
        .collect();
    assert_eq!(differences(&found), expected, "{found:#}");
    // The other packages are kept, and the run says how it ended.
    let directory = found["directory"].as_str().unwrap_or_default();
    let kept = kiln::files::list(&Utf8Path::new(directory).join("rebuilt"))?;
    assert_eq!(kept.len(), 3, "two packages and a manifest: {kept:?}");
    let runs = made.runs()?;
    let run = runs.iter().find(|run| run["verb"] == "reproduce");
    assert_eq!(run.map(|run| &run["exit"]), Some(&13.into()));
    let ran = made.env.kiln(["reproduce", &manifest]).run()?;
    let ran = ran.exits(Exit::NotReproducible)?;
    let ran = ran.says("0 of 2 packages are the same")?;
    let ran =
        ran.says("usr/share/planted/certificate, its content\n    key (a key was generated")?;
    ran.warns("install diffoscope")?;
    Ok(())
}

/// The same files in another package.
fn threads() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_DIFFERS_THREADS=y")?;
    let manifest = built(&made)?;
    let ran = reproduce(&made, &manifest)?.exits(Exit::NotReproducible)?;
    let found = ran.json()?;
    let expected = [(
        "linux-headers/".to_owned(),
        vec!["compression-threads".to_owned()],
    )];
    assert_eq!(differences(&found), expected.into(), "{found:#}");
    assert!(!ran.stderr.contains("diffoscope"), "it would know no more");
    Ok(())
}

/// The build itself tells what was around it: what may not reach it is the same in both.
fn conditions() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_DIFFERS_SURROUNDINGS=y")?;
    let manifest = built(&made)?;
    let found = reproduce(&made, &manifest)?
        .exits(Exit::NotReproducible)?
        .json()?;
    let told = differences(&found);
    let varied = |what: &str| found["varied"][what].as_str();
    assert_eq!(
        told.contains_key("linux-image/user"),
        varied("user").is_some(),
        "{found:#}"
    );
    assert!(told.contains_key("linux-image/clock"), "{found:#}");
    for same in ["umask", "environment"] {
        let file = format!("linux-image/{same}");
        assert!(!told.contains_key(&file), "{file}: {found:#}");
    }
    let directory = found["directory"].as_str().unwrap_or_default();
    let rebuilt = Utf8Path::new(directory).join("rebuilt");
    let image = kiln::files::list(&rebuilt)?;
    let image = image.iter().find(|file| file.starts_with("linux-image"));
    let image = rebuilt.join(image.ok_or_else(|| fail("no image"))?);
    let content = |file: &str| -> Result<String, Stop> {
        let script = "dpkg-deb --fsys-tarfile \"$0\" | tar -xO \"./usr/share/planted/$1\"";
        let words = ["-c", script, image.as_str(), file];
        let ran = made.env.program("/bin/sh", words).run()?.exits(0)?;
        Ok(ran.stdout.trim().to_owned())
    };
    if let Some(user) = varied("user") {
        assert_eq!(content("user")?, user);
    }
    let ahead = content("clock")?.parse::<i64>()? - kiln::clock::now().as_second();
    if varied("clock").is_some() {
        assert!((399..=400).contains(&(ahead / 86_400)), "{ahead} s");
    } else {
        let unvaried = found["not_varied"].to_string();
        assert!(unvaried.contains("the clock: "), "{unvaried}");
        assert!(ahead <= 0, "{ahead} s");
    }
    Ok(())
}

fn without_packages() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_DIFFERS_TIME=y")?;
    let manifest = built(&made)?;
    let text = std::fs::read(&manifest)?;
    let alone = made.env.write("elsewhere/manifest.json", text)?;
    let found = reproduce(&made, alone.as_str())?
        .exits(Exit::NotReproducible)?
        .json()?;
    let what = found["differences"][0]["what"].as_str().unwrap_or_default();
    assert!(what.contains("`--dir`"), "{found:#}");
    let packages = Utf8Path::new(&manifest).with_file_name("packages");
    let words = ["reproduce", alone.as_str(), "--dir", packages.as_str()];
    let ran = made.env.kiln(words).run()?.exits(Exit::NotReproducible)?;
    ran.says("planted/notes, its content\n    timestamp (")?;
    Ok(())
}

/// A diffoscope that says so stands in for the real one.
fn diffoscope() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_FAKE_DIFFERS_TIME=y")?;
    let manifest = built(&made)?;
    let script = made.env.write(
        "bin/diffoscope",
        "#!/bin/sh\nshift 4\necho \"looked at $*\"\nexit 1\n",
    )?;
    std::os::unix::fs::chown(&script, None, None)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode)?;
    let to = "/usr/local/bin/diffoscope";
    let head = [
        "--dev-bind",
        "/",
        "/",
        "--tmpfs",
        "/usr/local/bin",
        "--ro-bind",
    ];
    let words = head.into_iter().chain([script.as_str(), to, "--"]);
    let kiln = [crate::support::env::KILN, "reproduce", &manifest];
    let ran = made
        .env
        .program("/usr/bin/bwrap", words.chain(kiln))
        .run()?;
    if ran.stderr.contains("bwrap: ") {
        return Err(skip("nothing can be mounted here"));
    }
    let ran = ran.exits(Exit::NotReproducible)?;
    let ran = ran
        .says(".diffoscope.txt")?
        .never_says("install diffoscope")?;
    let line = ran
        .stdout
        .lines()
        .find_map(|line| line.split_once("what diffoscope says: "));
    let (_, report) = line.ok_or_else(|| fail("no report"))?;
    let report = std::fs::read_to_string(report)?;
    assert_eq!(
        report,
        "looked at /compare/first.deb /compare/rebuilt.deb\n"
    );
    Ok(())
}

/// Told before anything is compiled, at the line that asks for it.
fn linted() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask("CONFIG_RANDSTRUCT=y\nCONFIG_IKHEADERS=m")?;
    made.kiln("resolve made").run()?.exits(0)?;
    let at = "config-fragments/made.config:3: CONFIG_RANDSTRUCT is y, so two builds would differ: ";
    for verb in ["build", "config check"] {
        let ran = made.kiln(&format!("{verb} made")).run()?;
        let ran = ran.exits(Exit::Guard)?;
        assert!(
            ran.stdout.contains(at) || ran.stderr.contains(at),
            "{}",
            ran.stderr
        );
    }
    assert!(
        !made.tree().join("main.o").exists(),
        "something was compiled"
    );
    let github = made.kiln("config check made --format github").run()?;
    github.says("::error file=config-fragments/made.config,line=3,title=CONFIG_RANDSTRUCT%3A ")?;
    // What kiln handles is only explained.
    made.env.edit(FRAGMENT, "CONFIG_RANDSTRUCT=y\n", "")?;
    let checked = made.kiln("config check made --format json").run()?;
    checked.exits(0)?.says("KBUILD_BUILD_TIMESTAMP is set")?;
    made.kiln("build made").run()?.exits(0)?;
    Ok(())
}

/// What is made of a good manifest.
type Change = fn(&mut Manifest);

/// Puts a file into a manifest.
fn put(manifest: &mut Manifest, path: &str, kept: Kept) {
    manifest.workspace.insert(path.to_owned(), kept);
}

fn refused() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let path = built(&made)?;
    let text = std::fs::read_to_string(&path)?;
    let envelope = Envelope::parse("m", &text)?;
    let good = Manifest::parse("m", &envelope.payload_of("m", "manifest")?)?;
    let cases: [(Change, Exit, &str); 7] = [
        (
            |m| m.workspace.clear(),
            Exit::StatementRejected,
            "manifest-bare",
        ),
        (
            |m| put(m, "../../x", Kept::of(b"x")),
            Exit::StatementRejected,
            "manifest-path",
        ),
        (
            |m| put(m, "kiln.yaml", Kept::of(b"kiln: 1\n")),
            Exit::StatementRejected,
            "manifest-path",
        ),
        (
            |m| put(m, "keys/x.asc", Kept::of(b"x")),
            Exit::StatementRejected,
            "manifest-path",
        ),
        (
            |m| put(m, "a.patch", Kept::Base64("!".to_owned())),
            Exit::StatementRejected,
            "manifest-file",
        ),
        // Another fragment than the one that the lock names.
        (
            |m| put(m, FRAGMENT, Kept::of(b"CONFIG_MODULES=y\n# other\n")),
            Exit::Usage,
            "lock-frozen",
        ),
        (
            |m| m.lock.build += 1,
            Exit::StatementRejected,
            "manifest-release",
        ),
    ];
    for (change, exit, code) in cases {
        let mut manifest = good.clone();
        change(&mut manifest);
        let bad = Envelope::unsigned("manifest", &manifest.to_payload()?).to_bytes()?;
        let bad = made.env.write("bad.json", bad)?;
        let ran = reproduce(&made, bad.as_str())?.exits(exit)?;
        assert_eq!(ran.json()?["error"]["code"], code, "{}", ran.stdout);
    }
    assert!(!made.env.root().join("x").exists());
    // A build whose manifest carries nothing is not enough: it is built again.
    let again = || {
        made.kiln("build made --format json")
            .run()?
            .exits(0)?
            .json()
    };
    assert_eq!(again()?["reused"], true);
    let mut bare = good.clone();
    bare.workspace.clear();
    let bare = Envelope::unsigned("manifest", &bare.to_payload()?).to_bytes()?;
    std::fs::write(&path, bare)?;
    assert_eq!(again()?["reused"], false);
    // The twin, written the same way.
    let twin = Envelope::unsigned("manifest", &good.to_payload()?).to_bytes()?;
    let twin = made.env.write("twin.json", twin)?;
    reproduce(&made, twin.as_str())?.exits(0)?;
    Ok(())
}
