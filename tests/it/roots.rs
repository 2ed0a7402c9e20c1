//! Build roots: their packages locked through apt, kept when the archive moves on, handed on in a
//! directory, and a real one made and built in.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::digest::Sha256;
use kiln::failure::Exit;
use kiln::files;

use crate::support::env::Run;
use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Stop, fail, skip, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("roots::packages_are_locked_through_apt", locked),
        Case::new("roots::an_old_lock_outlives_the_archive", outlives),
        Case::new("roots::other_bytes_under_a_locked_version", other_bytes),
        Case::new("roots::a_release_that_apt_does_not_offer", other_release),
        Case::new("roots::a_pipeline_changes_its_root", changes),
        Case::new("roots::a_real_root_is_made_and_built_in", real).heavy(),
    ]
}

const PIPELINE: &str = "pipelines/made.yaml";

/// An archive of tiny packages, and an apt that knows no other.
struct Archive {
    _guard: tempfile::TempDir,
    at: Utf8PathBuf,
}

impl Archive {
    fn new(codename: &str) -> Result<Self, Stop> {
        // Where apt's own user can read it.
        let guard = tempfile::Builder::new()
            .prefix("kiln-it-apt-")
            .tempdir_in("/var/tmp")?;
        std::fs::set_permissions(guard.path(), std::fs::Permissions::from_mode(0o755))?;
        let at = Utf8PathBuf::from(guard.path().to_str().unwrap());
        let archive = Self { _guard: guard, at };
        let at = &archive.at;
        for directory in ["debs", "lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(at.join(directory))?;
        }
        std::fs::write(
            at.join("sources.list"),
            format!("deb [trusted=yes] file:{at}/debs ./\n"),
        )?;
        std::fs::write(
            at.join("apt.conf"),
            format!(
                "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::State::lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
                 APT::Sandbox::User \"root\";\n"
            ),
        )?;
        let mut packages = kiln::kbuild::root::packages();
        packages.push("base-files");
        for package in packages {
            archive.put(package, "1.0", "first")?;
        }
        archive.update(codename)?;
        Ok(archive)
    }

    /// Puts a package there, in the place of any other version.
    fn put(&self, name: &str, version: &str, content: &str) -> Outcome {
        let debs = self.at.join("debs");
        for file in files::list(&debs)? {
            if file.starts_with(&format!("{name}_")) {
                std::fs::remove_file(debs.join(file))?;
            }
        }
        let tree = self.at.join("tree");
        std::fs::create_dir_all(tree.join("DEBIAN"))?;
        std::fs::write(tree.join("content"), content)?;
        let essential = match name {
            "base-files" => "Essential: yes\n",
            _ => "Depends: base-files\n",
        };
        std::fs::write(
            tree.join("DEBIAN/control"),
            format!(
                "Package: {name}\nVersion: {version}\nArchitecture: amd64\n{essential}\
                 Maintainer: Nobody <nobody@example.org>\nDescription: a test\n"
            ),
        )?;
        tool("chmod", &["-R", "u=rwX,go=rX", tree.as_str()])?;
        let deb = debs.join(format!("{name}_{version}_amd64.deb"));
        tool(
            "dpkg-deb",
            &[
                "-Znone",
                "--root-owner-group",
                "--build",
                tree.as_str(),
                deb.as_str(),
            ],
        )
    }

    /// Writes the archive's indexes, and lets apt take them.
    fn update(&self, codename: &str) -> Outcome {
        let debs = self.at.join("debs");
        let mut index = String::new();
        for file in files::list(&debs)? {
            if Utf8Path::new(&file).extension() != Some("deb") {
                continue;
            }
            let path = debs.join(&file);
            let control = Command::new("dpkg-deb")
                .args(["-f", path.as_str()])
                .output()?;
            let (sha256, bytes) = files::hash(&path)?;
            let _ = write!(
                index,
                "{}Filename: ./{file}\nSize: {bytes}\nSHA256: {sha256}\n\n",
                String::from_utf8_lossy(&control.stdout)
            );
        }
        std::fs::write(debs.join("Packages"), &index)?;
        std::fs::write(
            debs.join("Release"),
            format!(
                "Origin: Debian\nLabel: Debian\nSuite: oldstable\nCodename: {codename}\n\
                 Date: Sat, 14 Nov 2026 12:00:00 UTC\nArchitectures: amd64\nComponents: main\n\
                 SHA256:\n {} {} Packages\n",
                Sha256::of(index.as_bytes()),
                index.len()
            ),
        )?;
        let status = Command::new("apt-get")
            .args(["update", "--quiet", "--quiet"])
            .env("APT_CONFIG", self.at.join("apt.conf"))
            .output()?;
        if status.status.success() {
            Ok(())
        } else {
            Err(fail(String::from_utf8_lossy(&status.stderr)))
        }
    }

    /// The run, with this apt.
    fn with(&self, run: Run) -> Run {
        run.env("APT_CONFIG", self.at.join("apt.conf").into_string())
    }
}

fn tool(name: &str, arguments: &[&str]) -> Outcome {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(fail(String::from_utf8_lossy(&output.stderr))),
        Err(_) => Err(skip(format!("{name} is not installed"))),
    }
}

/// A made-up pipeline that asks for a pinned root.
fn made() -> Result<MadeUp, Stop> {
    tool("apt-get", &["--version"])?;
    let made = MadeUp::sandboxed()?;
    made.env.edit(PIPELINE, "root: host", "root: debian-12")?;
    Ok(made)
}

/// Version and digest of every package in the lock.
fn root_of(made: &MadeUp) -> Result<BTreeMap<String, (String, String)>, Stop> {
    let lock = made.env.read("pipelines/made.lock.json")?;
    let lock: serde_json::Value = serde_json::from_str(&lock)?;
    let root = &lock["inputs"]["root"];
    assert_eq!(root["name"], "debian-12", "{root}");
    let packages = root["packages"].as_array().into_iter().flatten();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Ok(packages
        .map(|p| (text(&p["name"]), (text(&p["version"]), text(&p["sha256"]))))
        .collect())
}

fn locked() -> Outcome {
    let (made, archive) = (made()?, Archive::new("bookworm")?);
    archive
        .with(made.kiln("resolve made"))
        .run()?
        .exits(0)?
        .says("resolved 6.18.40")?;
    let root = root_of(&made)?;
    // What was asked for, and what is essential.
    assert_eq!(root.len(), kiln::kbuild::root::packages().len() + 1);
    for (name, (version, sha256)) in &root {
        assert_eq!(version, "1.0", "{name}");
        let deb = archive.at.join(format!("debs/{name}_1.0_amd64.deb"));
        assert_eq!(files::hash(&deb)?.0.to_string(), *sha256, "{name}");
        let object = format!(".kiln/store/sha256/{}/{sha256}", &sha256[..2]);
        assert_eq!(files::hash(&made.env.path(&object))?.0.to_string(), *sha256);
    }
    // The same packages give the same lock.
    let lock = made.env.read("pipelines/made.lock.json")?;
    archive.with(made.kiln("resolve made")).run()?.exits(0)?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    // A newer package is a changed input.
    archive.put("gcc", "2.0", "second")?;
    archive.update("bookworm")?;
    archive
        .with(made.kiln("resolve made"))
        .run()?
        .exits(0)?
        .says("changed: build root (gcc 1.0 -> 2.0)")?
        .says("build 2")?;
    Ok(())
}

fn outlives() -> Outcome {
    let (made, archive) = (made()?, Archive::new("bookworm")?);
    archive.with(made.kiln("resolve made")).run()?.exits(0)?;
    let usb = made.env.root().join("usb");
    archive
        .with(made.kiln(&format!("fetch made --to {usb}")))
        .run()?
        .exits(0)?
        .says("/usb/build-root")?;
    let kept = usb.join("build-root/gcc_1.0_amd64.deb");
    assert_eq!(files::hash(&kept)?.0.to_string(), root_of(&made)?["gcc"].1);

    archive.put("gcc", "2.0", "second")?;
    archive.update("bookworm")?;
    // The store still has all of it.
    archive.with(made.kiln("fetch made")).run()?.exits(0)?;
    archive
        .with(made.kiln("fetch made --offline"))
        .run()?
        .exits(0)?;
    // A machine without that store asks the archive in vain.
    let elsewhere = made.env.root().join("elsewhere");
    let fetch = |line: &str| {
        let run = archive.with(made.kiln(line));
        run.env("KILN_STORE", elsewhere.as_str()).run()
    };
    fetch("fetch made")?
        .exits(Exit::NotPublished)?
        .warns("version 1.0 of `gcc` is no longer served; apt offers 2.0")?;
    // With the directory as a mirror, the lock's own packages are there.
    made.env.write(
        "kiln.yaml",
        format!("kiln: 1\nmirrors:\n  kernel: [\"file://{usb}\"]\n  releases: \"file://{usb}\"\n"),
    )?;
    // One that was changed on the way is not taken.
    let whole = std::fs::read(&kept)?;
    std::fs::write(&kept, b"!<arch>\n")?;
    fetch("fetch made")?
        .exits(Exit::NotVerified)?
        .warns("but the lock says")?;
    std::fs::write(&kept, whole)?;
    fetch("fetch made")?.exits(0)?;
    fetch("fetch made --offline")?.exits(0)?;
    Ok(())
}

fn other_bytes() -> Outcome {
    let (made, archive) = (made()?, Archive::new("bookworm")?);
    archive.with(made.kiln("resolve made")).run()?.exits(0)?;
    archive.put("make", "1.0", "other bytes")?;
    archive.update("bookworm")?;
    let elsewhere = made.env.root().join("elsewhere");
    archive
        .with(made.kiln("fetch made"))
        .env("KILN_STORE", elsewhere.as_str())
        .run()?
        .exits(Exit::NotVerified)?
        .warns("version 1.0 of `make` has sha256")?;
    // What is damaged in the store is not taken either.
    let sha256 = &root_of(&made)?["bison"].1;
    let object = format!(".kiln/store/sha256/{}/{sha256}", &sha256[..2]);
    made.env.write(&object, b"bits changed")?;
    archive
        .with(made.kiln("fetch made"))
        .run()?
        .exits(Exit::NotVerified)?
        .warns("is damaged")?;
    Ok(())
}

/// Packages of another release do not count, however well they fit.
fn other_release() -> Outcome {
    let (made, archive) = (made()?, Archive::new("trixie")?);
    archive
        .with(made.kiln("resolve made"))
        .run()?
        .exits(Exit::NotPublished)?
        .warns("apt offers no packages of Debian bookworm here")?
        .warns("APT_CONFIG")?;
    assert!(!made.env.path("pipelines/made.lock.json").exists());
    Ok(())
}

fn changes() -> Outcome {
    let (made, archive) = (made()?, Archive::new("bookworm")?);
    archive.with(made.kiln("resolve made")).run()?.exits(0)?;
    made.env.edit(PIPELINE, "root: debian-12", "root: host")?;
    // The host needs nothing that a lock would have to learn.
    let built = made.kiln("build made --format json").run()?.exits(0)?;
    let built = built.warns("build root debian-12 -> host")?;
    let doubts = format!("{}", built.json()?["doubts"]);
    assert!(doubts.contains("`host`"), "{doubts}");
    made.env.edit(PIPELINE, "root: host", "root: debian-12")?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Usage)?
        .warns("made for another build root")?
        .warns("kiln resolve made")?;
    Ok(())
}

/// How long a root may take on a busy machine: 120 MB of packages, unpacked and set up.
const PATIENCE: Duration = Duration::from_mins(30);

fn real() -> Outcome {
    for program in ["mmdebstrap", "apt-get"] {
        tool(program, &["--version"])?;
    }
    let made = made()?;
    // Kept between runs of the tests, as a person's is.
    let store = concat!(env!("CARGO_TARGET_TMPDIR"), "/roots-store");
    let kiln = |line: &str| {
        let run = made.kiln(line).env("KILN_STORE", store);
        run.deadline(PATIENCE)
    };
    let resolved = kiln("resolve made").run()?;
    if resolved.code() == Some(i32::from(Exit::NotPublished.code())) {
        return Err(skip("apt has no packages of Debian 12 here"));
    }
    resolved.exits(0)?;
    let built = kiln("build made --format json").run()?.exits(0)?.json()?;
    let doubts = format!("{}", built["doubts"]);
    assert!(!doubts.contains("host"), "{doubts}");
    let manifest = Utf8Path::new(built["directory"].as_str().unwrap_or_default());
    let manifest = kiln::files::read_text(&manifest.join("manifest.json"), 16 << 20)?;
    let envelope = kiln::proof::envelope::Envelope::parse("manifest", &manifest)?;
    let payload = envelope.payload_of("manifest", "manifest")?;
    let manifest = kiln::proof::manifest::Manifest::parse("manifest", &payload)?;
    assert!(manifest.toolchain.is_empty(), "{:?}", manifest.toolchain);
    let packages = manifest.lock.inputs.root.pinned().map(|p| p.packages.len());
    assert!(packages > Some(100), "{packages:?}");

    // A root that somebody wrote to is not built in.
    let roots = Utf8Path::new(store).join("roots");
    let names = files::list(&roots)?;
    let name = names.iter().find(|name| roots.join(name).is_dir());
    let name = name.ok_or_else(|| fail("no root was kept"))?;
    let written = roots.join(name).join("tree/etc/written");
    std::fs::write(&written, b"")?;
    let refused = kiln("build made --again").run();
    std::fs::remove_file(&written)?;
    refused?
        .exits(Exit::NotVerified)?
        .warns("was changed since it was made")?;
    kiln("build made --again").run()?.exits(0)?;
    let setuid = tree::listing(&roots.join(name).join("tree/usr/bin"))?
        .into_iter()
        .filter(|file| {
            let path = roots.join(name).join("tree/usr/bin").join(file);
            path.symlink_metadata()
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
        })
        .collect::<Vec<_>>();
    assert_eq!(setuid, Vec::<String>::new());
    Ok(())
}
