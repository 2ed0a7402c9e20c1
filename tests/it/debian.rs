//! Source and base config out of Debian's packages: small made-up ones that lie in the store, and
//! the real ones through this host's apt.

use std::process::Command;

use camino::Utf8PathBuf;
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::progress::Silent;
use kiln::proof::lock::{Base, Blob, Source};
use kiln::sandbox::{Isolation, Worker};
use kiln::source::debian::{AptSource, Debian, DebianError, LockedSource};
use kiln::store::Store;

use crate::support::made_up::MadeUp;
use crate::support::tar::{Tar, makefile};
use crate::support::{Case, Outcome, Stop, fail, skip, xz};

/// Names that no archive has, so that apt knows nothing of them.
const SOURCE: &str = "linux-source-6.18.kiln-test";
const CONFIG: &str = "linux-config-6.18.kiln-test";
const VERSION: &str = "6.18.40-1~test1";
const CONFIG_TEXT: &[u8] = b"CONFIG_64BIT=y\n# CONFIG_EXPERT is not set\n";

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("debian::source_of_a_kept_package", kept_source),
        Case::new("debian::packages_that_are_not_what_they_should_be", twins),
        Case::new("debian::the_lock_is_obeyed", lock_is_obeyed),
        Case::new("debian::a_damaged_store", damaged_store),
        Case::new("debian::config_of_a_kept_package", kept_config),
        Case::new("debian::a_version_that_is_no_longer_served", not_served),
        Case::new("debian::real_source_and_config_through_apt", real).heavy(),
    ]
}

/// What a package holds.
#[derive(Clone)]
struct Plan {
    name: &'static str,
    tar: Option<Vec<u8>>,
    xz: Option<Vec<u8>>,
    changelog: Option<String>,
    configs: Vec<&'static str>,
}

impl Plan {
    fn source() -> Self {
        let text = makefile("6", "18", "40", "");
        let tar = Tar::new().file_at(&format!("{SOURCE}/Makefile"), text.as_bytes());
        Self {
            name: SOURCE,
            xz: Some(xz::one_block(&tar.bytes())),
            tar: Some(tar.bytes()),
            changelog: Some(changelog(VERSION)),
            configs: Vec::new(),
        }
    }

    fn config() -> Self {
        Self {
            name: CONFIG,
            tar: None,
            xz: None,
            changelog: None,
            configs: vec!["amd64_none_amd64", "amd64_none_cloud-amd64"],
        }
    }

    /// The package's bytes.
    fn build(&self) -> Result<Vec<u8>, Stop> {
        let directory = tempfile::tempdir()?;
        let root = Utf8PathBuf::from(directory.path().to_str().unwrap());
        let tree = root.join("tree");
        let put = |path: String, bytes: &[u8]| {
            let path = tree.join(path);
            std::fs::create_dir_all(path.parent().unwrap())?;
            std::fs::write(path, bytes)
        };
        let name = self.name;
        put(
            "DEBIAN/control".to_owned(),
            format!(
                "Package: {name}\nVersion: {VERSION}\nArchitecture: all\n\
                 Maintainer: Nobody <nobody@example.org>\nDescription: a test\n"
            )
            .as_bytes(),
        )?;
        if let Some(text) = &self.changelog {
            put(
                format!("usr/share/doc/{name}/changelog.Debian"),
                text.as_bytes(),
            )?;
            let path = tree.join(format!("usr/share/doc/{name}/changelog.Debian"));
            tool("gzip", &["-n", path.as_str()])?;
        }
        if let Some(bytes) = &self.xz {
            put(format!("usr/src/{name}.tar.xz"), bytes)?;
        }
        for config in &self.configs {
            let bytes = xz::one_block(CONFIG_TEXT);
            put(format!("usr/src/{name}/config.{config}.xz"), &bytes)?;
        }
        // dpkg-deb refuses what a strict umask makes.
        tool("chmod", &["-R", "u=rwX,go=rX", tree.as_str()])?;
        let deb = root.join("x.deb");
        tool(
            "dpkg-deb",
            &["--build", "--root-owner-group", tree.as_str(), deb.as_str()],
        )?;
        Ok(std::fs::read(deb)?)
    }
}

fn changelog(version: &str) -> String {
    format!(
        "linux ({version}) unstable; urgency=low\n\n  * A test.\n\n \
         -- Nobody <nobody@example.org>  Sat, 14 Nov 2026 13:56:02 +0100\n"
    )
}

fn tool(name: &str, arguments: &[&str]) -> Outcome {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(fail(String::from_utf8_lossy(&output.stderr))),
        Err(_) => Err(skip(format!("{name} is not installed"))),
    }
}

/// A store, and what works on untrusted bytes.
struct Bench {
    _directory: tempfile::TempDir,
    store: Store,
    worker: Worker,
    isolation: Isolation,
}

impl Bench {
    fn new() -> Result<Self, Stop> {
        tool("apt-cache", &["--version"])?;
        let directory = tempfile::tempdir()?;
        let root = Utf8PathBuf::from(directory.path().to_str().unwrap());
        Ok(Self {
            store: Store::open(&root.join("store"))?,
            _directory: directory,
            worker: Worker {
                program: Utf8PathBuf::from(env!("CARGO_BIN_EXE_kiln")),
            },
            isolation: Isolation::probe()?,
        })
    }

    fn debian(&self) -> Debian<'_> {
        Debian {
            store: &self.store,
            worker: &self.worker,
            isolation: &self.isolation,
            progress: &Silent,
        }
    }

    /// Puts the package into the store and takes its source, locked as `tar`.
    fn source_of(&self, plan: &Plan, tar: &Blob) -> Result<AptSource, DebianError> {
        let deb = plan.build().unwrap();
        self.store.put(&deb).unwrap();
        self.locked(&blob(&deb), tar)
    }

    fn locked(&self, deb: &Blob, tar: &Blob) -> Result<AptSource, DebianError> {
        let locked = LockedSource {
            version: VERSION,
            deb,
            tar,
            made: 1_794_660_962,
        };
        self.debian().source(SOURCE, Some(locked))
    }
}

fn blob(bytes: &[u8]) -> Blob {
    Blob {
        sha256: Sha256::of(bytes),
        bytes: bytes.len() as u64,
    }
}

fn refused<T>(result: Result<T, DebianError>, exit: Exit, code: &str) -> Outcome {
    match result {
        Ok(_) => Err(fail(format!("accepted; expected `{code}`"))),
        Err(error) if error.exit() == exit && error.code() == code => Ok(()),
        Err(error) => Err(fail(format!(
            "expected {exit:?} `{code}`, found {:?} `{}`: {error}",
            error.exit(),
            error.code()
        ))),
    }
}

fn kept_source() -> Outcome {
    let bench = Bench::new()?;
    let plan = Plan::source();
    let tar = blob(plan.tar.as_ref().unwrap());
    let found = bench.source_of(&plan, &tar)?;
    assert_eq!(found.tarball.sha256(), tar.sha256);
    assert_eq!(found.tarball.prefix(), SOURCE);
    assert_eq!(found.tarball.version().to_string(), "6.18.40");
    assert_eq!(found.tarball.made().to_string(), "2026-11-14T12:56:02Z");
    assert_eq!(found.tarball.path(), bench.store.path(&tar.sha256));
    let Source::Debian { deb, .. } = &found.facts else {
        return Err(fail("a source of Debian"));
    };
    // From the tar alone, too.
    files::remove_file(&bench.store.path(&deb.sha256))?;
    let again = bench.locked(deb, &tar)?;
    assert_eq!(again.facts, found.facts);
    assert_eq!(
        again.tarball.source_date_epoch(),
        found.tarball.source_date_epoch()
    );
    assert!(files::list(&bench.store.directory().join("staging"))?.is_empty());
    Ok(())
}

fn twins() -> Outcome {
    let good = Plan::source();
    let tar = blob(good.tar.as_ref().unwrap());
    let with = |change: fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        plan
    };
    for (plan, code) in [
        (with(|plan| plan.changelog = None), "package-content"),
        (
            with(|plan| plan.changelog = Some(changelog("6.18.39-1"))),
            "package-content",
        ),
        (
            with(|plan| plan.changelog = Some("nothing".to_owned())),
            "package-content",
        ),
        (with(|plan| plan.xz = None), "package-content"),
        (
            with(|plan| plan.xz = Some(b"not xz".to_vec())),
            "xz-foreign",
        ),
        (
            with(|plan| plan.xz.as_mut().unwrap().extend(b"junk")),
            "xz-junk",
        ),
        (
            with(|plan| {
                let text = makefile("6", "18", "39", "");
                let tar = Tar::new().file_at(&format!("{SOURCE}/Makefile"), text.as_bytes());
                plan.xz = Some(xz::one_block(&tar.bytes()));
            }),
            "wrong-release",
        ),
        (
            with(|plan| plan.xz = Some(xz::one_block(&Tar::kernel("6.18.40").bytes()))),
            "wrong-release",
        ),
    ] {
        let bench = Bench::new()?;
        refused(bench.source_of(&plan, &tar), Exit::NotVerified, code)?;
        if bench.store.has(&tar.sha256) {
            return Err(fail("the tar was kept"));
        }
    }
    // No package at all under that name.
    let bench = Bench::new()?;
    let junk = blob(b"junk");
    bench.store.put(b"junk")?;
    match bench.locked(&junk, &tar) {
        Err(DebianError::Command(_)) => Ok(()),
        other => Err(fail(format!(
            "expected dpkg-deb to refuse, found {other:?}"
        ))),
    }
}

fn lock_is_obeyed() -> Outcome {
    let bench = Bench::new()?;
    let result = bench.source_of(&Plan::source(), &blob(b"another tar"));
    refused(result, Exit::NotVerified, "package-digest")
}

fn damaged_store() -> Outcome {
    let plan = Plan::source();
    let tar = blob(plan.tar.as_ref().unwrap());
    let deb = plan.build()?;
    for (object, offset) in [(tar, 600), (blob(&deb), deb.len() - 20)] {
        let bench = Bench::new()?;
        bench.store.put(&deb)?;
        if object == tar {
            bench.locked(&blob(&deb), &tar)?;
        }
        let path = bench.store.path(&object.sha256);
        let mut bytes = files::read(&path, 1 << 20)?;
        bytes[offset] ^= 1;
        files::write(&path, &bytes)?;
        refused(
            bench.locked(&blob(&deb), &tar),
            Exit::NotVerified,
            "store-damaged",
        )?;
        if object == tar {
            files::remove_file(&path)?;
            bench.locked(&blob(&deb), &tar)?;
        }
    }
    Ok(())
}

fn kept_config() -> Outcome {
    let bench = Bench::new()?;
    let deb = Plan::config().build()?;
    bench.store.put(&deb)?;
    let locked = |config: &[u8]| Base::Debian {
        package: CONFIG.to_owned(),
        flavour: "none_amd64".to_owned(),
        version: VERSION.to_owned(),
        deb: blob(&deb),
        config: blob(config),
    };
    let take = |flavour: &str, config: &[u8]| {
        bench
            .debian()
            .base_config(CONFIG, flavour, Some(&locked(config)))
    };
    refused(
        take("none_arm64", CONFIG_TEXT),
        Exit::Usage,
        "flavour-unknown",
    )?;
    refused(
        take("none_amd64", b"other"),
        Exit::NotVerified,
        "package-digest",
    )?;
    let found = take("none_amd64", CONFIG_TEXT)?;
    assert_eq!(found.bytes, CONFIG_TEXT);
    assert_eq!(found.facts, locked(CONFIG_TEXT));
    // From the config alone, too.
    files::remove_file(&bench.store.path(&Sha256::of(&deb)))?;
    assert_eq!(take("none_amd64", CONFIG_TEXT)?.bytes, CONFIG_TEXT);
    Ok(())
}

fn not_served() -> Outcome {
    let bench = Bench::new()?;
    let gone = blob(b"gone");
    let result = bench.locked(&gone, &gone);
    let hints = result
        .as_ref()
        .map_or_else(kiln::failure::Diagnose::hints, |_| Vec::new());
    refused(result, Exit::NotPublished, "version-not-served")?;
    assert!(
        hints
            .iter()
            .any(|hint| hint.contains("`store:` in `kiln.yaml`")),
        "{hints:?}"
    );
    refused(
        bench.debian().source(SOURCE, None),
        Exit::NotPublished,
        "package-unknown",
    )?;
    refused(
        bench.debian().source("-o=x", None),
        Exit::Usage,
        "debian-word",
    )
}

/// A pipeline may name the digest of the distribution's config: then no other one is locked.
fn the_pipelines_digest_counts(digest: &Sha256) -> Outcome {
    let made = MadeUp::new()?;
    let base = "{debian: {package: linux-config-6.12, flavour: none_amd64, sha256: ";
    let other = Sha256::of(b"other");
    made.env.edit(
        "pipelines/made.yaml",
        "{target: tinyconfig}",
        &format!("{base}{other}}}}}"),
    )?;
    let ran = made.kiln("resolve made --format json").run()?;
    let ran = ran.exits(Exit::Usage)?;
    let error = ran.json()?["error"].clone();
    assert_eq!(error["code"], "base-digest");
    assert!(
        error["message"]
            .to_string()
            .contains("none_amd64 of linux-config-6.12"),
        "{error}"
    );
    assert!(!made.env.path("pipelines/made.lock.json").exists());
    made.env.edit(
        "pipelines/made.yaml",
        &other.to_string(),
        &digest.to_string(),
    )?;
    made.kiln("resolve made").run()?.exits(0)?;
    Ok(())
}

fn real() -> Outcome {
    let bench = Bench::new()?;
    let package = "linux-source-6.12";
    let found = match bench.debian().source(package, None) {
        Err(error) if matches!(error.exit(), Exit::Network | Exit::NotPublished) => {
            return Err(skip(format!("apt cannot serve {package}: {error}")));
        }
        found => found?,
    };
    assert_eq!(found.tarball.prefix(), package);
    assert_eq!(found.tarball.version().series.to_string(), "6.12");
    assert!(found.tarball.bytes() > 1 << 30, "a whole kernel");
    let Source::Debian {
        version, deb, tar, ..
    } = &found.facts
    else {
        return Err(fail("a source of Debian"));
    };
    let made = found.tarball.source_date_epoch();
    drop(found.tarball);
    // As a later process, which has the lock: from the store.
    let locked = LockedSource {
        version,
        deb,
        tar,
        made,
    };
    let again = bench.debian().source(package, Some(locked))?;
    assert_eq!(again.facts, found.facts);
    let config = bench
        .debian()
        .base_config("linux-config-6.12", "none_amd64", None)?;
    let text = String::from_utf8(config.bytes)?;
    assert!(
        text.lines()
            .filter(|line| line.starts_with("CONFIG_"))
            .count()
            > 5000
    );
    the_pipelines_digest_counts(&Sha256::of(text.as_bytes()))?;
    // A version that the archive never had.
    let gone = blob(b"gone");
    let locked = LockedSource {
        version: "6.12.1-0.1",
        deb: &gone,
        tar: &gone,
        made,
    };
    let error = bench.debian().source(package, Some(locked)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is no longer served; apt offers 6.12."),
        "{error}"
    );
    Ok(())
}
