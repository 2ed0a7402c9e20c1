//! Asking a kernel tree, compiling it, judging its packages: on a tree that answers like a kernel's
//! within a second. The real one is built in `boot`.

use camino::Utf8Path;
use kiln::command::{Cmd, Tool};
use kiln::failure::{Diagnose as _, Exit};
use kiln::kbuild::make::MakeError;
use kiln::kbuild::warnings::KconfigWarning;
use kiln::kernel::Release;
use kiln::sandbox::{BUILD_USER, Isolation};

use crate::support::fake_kernel::{EPOCH, FakeKernel};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("kbuild::tree_answers", tree_answers),
        Case::new("kbuild::surroundings_are_fixed", surroundings_are_fixed),
        Case::new("kbuild::without_a_sandbox", without_a_sandbox),
        Case::new("kbuild::links_are_not_followed", links_are_not_followed),
        Case::new("kbuild::release_must_be_exact", release_must_be_exact),
        Case::new("kbuild::targets_are_configurations", targets),
    ]
}

fn sandboxed() -> Result<Isolation, Stop> {
    let isolation = Isolation::probe()?;
    match isolation.missing_reason() {
        None => Ok(isolation),
        Some(reason) => Err(skip(format!("no sandbox can be had here: {reason}"))),
    }
}

/// What a host without bubblewrap gives.
fn open() -> Result<Isolation, Stop> {
    let root = rustix::process::geteuid().is_root();
    Ok(Isolation::None {
        reason: "a test".to_owned(),
        setpriv: root.then(|| Tool::find("setpriv")).transpose()?,
    })
}

fn release() -> Release {
    "6.18.40-12-lts-3f2a9c1d".parse().expect("a release")
}

fn tree_answers() -> Outcome {
    let env = Env::new()?;
    let kbuild = FakeKernel::new(&env, sandboxed()?)?.kbuild()?;
    let tiny = kbuild.target("tinyconfig")?;
    assert_eq!(tiny.text, "CONFIG_TINY=y\nCONFIG_MODULES=y\n");
    assert_eq!(tiny.warnings, []);

    let merged = "CONFIG_TINY=y\nCONFIG_UNKNOWN=y\nCONFIG_DROPPED=y\n";
    let resolved = kbuild.olddefconfig(merged)?;
    // What a tree drops, it drops with a good exit code.
    assert_eq!(resolved.text, "CONFIG_TINY=y\n");
    let unknown = KconfigWarning::UnknownSymbol {
        line: 2,
        symbol: "UNKNOWN".to_owned(),
    };
    assert_eq!(resolved.warnings, [unknown]);
    assert_eq!(kbuild.listnewconfig(merged)?, ["NEW"]);
    Ok(())
}

/// What the makefiles see: the fixed variables, paths and user, and nothing of the caller's.
fn surroundings_are_fixed() -> Outcome {
    let env = Env::new()?;
    let kernel = FakeKernel::new(&env, sandboxed()?)?;
    let output = kernel.kbuild()?.make(["-s", "surroundings"]).capture()?;
    let said = String::from_utf8_lossy(&output).into_owned();
    let variable = |name: &str| {
        let start = format!("{name}=");
        said.lines().find_map(|line| line.strip_prefix(&start))
    };
    assert_eq!(variable("pwd"), Some("/build/src"), "{said}");
    assert_eq!(
        variable("SOURCE_DATE_EPOCH"),
        Some(EPOCH.to_string().as_str())
    );
    assert_eq!(
        variable("KBUILD_BUILD_TIMESTAMP"),
        Some("Mon Jun  1 07:46:40 UTC 2026")
    );
    assert_eq!(variable("LOCALVERSION"), Some(""));
    for name in [
        "CARGO_MANIFEST_DIR",
        "CFLAGS",
        "XZ_OPT",
        "TAR_OPTIONS",
        "USER",
    ] {
        assert_eq!(variable(name), None, "{name} leaked:\n{said}");
    }
    if rustix::process::geteuid().is_root() {
        let user = BUILD_USER.to_string();
        assert!(said.lines().any(|line| line == user), "{said}");
    }
    assert!(
        !env.path("linux/touched").exists(),
        "the source was written to"
    );
    Ok(())
}

fn without_a_sandbox() -> Outcome {
    let env = Env::new()?;
    // Open to the unprivileged user; a temporary directory is not.
    Cmd::new(&Tool::find("chmod")?)
        .args(["-R", "a+rX", env.root().as_str()])
        .run()?;
    let kernel = FakeKernel::new(&env, open()?)?;
    let kbuild = kernel.kbuild()?;
    assert!(!kbuild.is_isolated());
    assert_eq!(
        kbuild.target("tinyconfig")?.text,
        "CONFIG_TINY=y\nCONFIG_MODULES=y\n"
    );
    let output = kbuild.make(["-s", "surroundings"]).capture()?;
    let said = String::from_utf8_lossy(&output).into_owned();
    let source = env.path("linux");
    assert!(said.contains(&format!("pwd={source}\n")), "{said}");
    // The host's paths are mapped away as far as the compiler can.
    assert!(
        said.contains(&format!("-ffile-prefix-map={source}=.")),
        "{said}"
    );
    assert!(
        said.contains(&format!("PATH={}/bin:", kernel.dir())),
        "{said}"
    );
    Ok(())
}

/// A tree could leave a link to any file of the host as its configuration.
fn links_are_not_followed() -> Outcome {
    let env = Env::new()?;
    let kbuild = FakeKernel::new(&env, sandboxed()?)?.kbuild()?;
    for (target, what) in [
        ("linkconfig", "a symbolic link"),
        ("emptyconfig", "nothing"),
    ] {
        match kbuild.target(target) {
            Err(MakeError::NotAFile { found, .. }) => assert_eq!(found, what),
            other => return Err(fail(format!("{target}: {other:?}"))),
        }
    }
    Ok(())
}

fn release_must_be_exact() -> Outcome {
    let env = Env::new()?;
    let kbuild = FakeKernel::new(&env, sandboxed()?)?.kbuild()?;
    let options = kiln::spec::pipeline::Packages::default();
    kbuild.olddefconfig("CONFIG_TINY=y\n")?;
    kbuild.check_release(&release(), options)?;
    let other: Release = "6.18.41-12-lts-3f2a9c1d".parse()?;
    let error = kbuild
        .check_release(&other, options)
        .expect_err("another version");
    assert!(matches!(error, MakeError::Release { .. }), "{error}");
    assert_eq!(error.exit(), Exit::Build);
    Ok(())
}

/// The name of a target comes from a pipeline file.
fn targets() -> Outcome {
    let env = Env::new()?;
    let kbuild = FakeKernel::new(&env, sandboxed()?)?.kbuild()?;
    for target in [
        "clean",
        "-f/etc/passwd config",
        "SHELL=/bin/evil config",
        "../config",
        "",
    ] {
        let error = kbuild.target(target).expect_err("no configuration target");
        assert_eq!(error.exit(), Exit::Usage, "{target}");
    }
    let error = kbuild
        .target("nosuchconfig")
        .expect_err("the tree has no such target");
    assert_eq!(error.exit(), Exit::Build);
    assert!(
        Utf8Path::new(kbuild.dir())
            .join("nosuchconfig.log")
            .exists()
    );
    Ok(())
}
