//! The guest kernel: really compiled, really booted, out of its finished package.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::dotconfig::DotConfig;
use kiln::failure::{Diagnose as _, Exit};
use kiln::image::boot_report::BootFailure;
use kiln::image::boot_test::{self, BootTestError, Booted, Options};
use kiln::kbuild::checked;
use kiln::kbuild::packages::{Packages, Request};
use kiln::kernel::Release;
use kiln::qemu::{self, Accel};
use kiln::sandbox::Isolation;

use crate::support::fake_kernel::guarded;
use crate::support::guest::{GuestBuild, guest_build};
use crate::support::{Case, Env, Outcome, Stop, child, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("boot::probe_runs_a_guest", probe_runs_a_guest),
        Case::new("boot::guest_kernel_is_as_promised", as_promised).heavy(),
        Case::new("boot::panic_is_told", panic_is_told).heavy(),
        Case::new("boot::hang_is_told", hang_is_told).heavy(),
        Case::new("boot::other_release_is_told", other_release).heavy(),
        Case::new("boot::other_config_is_told", other_config).heavy(),
        Case::new("boot::refused_module_is_told", refused_module).heavy(),
        Case::new("boot::swapped_config_in_the_package_is_11", swapped_config).heavy(),
        Case::new("boot::killed_compile_leaves_nothing", killed_compile)
            .heavy()
            .full(),
    ]
}

/// The emulator, or the reason why the case cannot run.
fn emulator() -> Result<(), Stop> {
    match Tool::find(qemu::PROGRAM) {
        Ok(_) => Ok(()),
        Err(error) => Err(skip(error.to_string())),
    }
}

fn probe_runs_a_guest() -> Outcome {
    emulator()?;
    assert!(
        qemu::works(Accel::Tcg)?,
        "the translator does not run the probe's guest"
    );
    let probe = qemu::probe()?;
    // Either KVM works, or there is a reason.
    assert_eq!(
        probe.accel == Accel::Tcg,
        probe.reason.is_some(),
        "{probe:?}"
    );
    Ok(())
}

/// Boots the image package of `guest` under the translator.
fn boot(
    guest: &GuestBuild,
    release: &Release,
    config: &DotConfig,
    options: &Options,
    dir: &Utf8Path,
) -> Result<Booted, BootTestError> {
    let isolation = Isolation::probe().expect("the host can be probed");
    let mut archive = checked::archive(&guest.packages[0], &isolation).expect("it can be read");
    boot_test::boot(&mut archive, release, config, options, dir)
}

/// Boots it with words that break it, and returns what was told.
fn broken(append: &str, deadline: Duration) -> Result<BootTestError, Stop> {
    emulator()?;
    let guest = guest_build()?;
    let env = Env::new()?;
    let options = Options {
        accel: Accel::Tcg,
        append: append.to_owned(),
        deadline,
    };
    match boot(
        guest,
        &guest.release,
        &guest.config,
        &options,
        &env.path("boot"),
    ) {
        Ok(booted) => Err(fail(format!("it booted: {booted:?}"))),
        Err(error) => Ok(error),
    }
}

fn failure(error: &BootTestError) -> Result<&BootFailure, Stop> {
    match error {
        BootTestError::Failed { failure, .. } => Ok(failure),
        other => Err(fail(format!("{other:?}"))),
    }
}

fn as_promised() -> Outcome {
    emulator()?;
    let guest = guest_build()?;
    let env = Env::new()?;
    let options = Options::new(Accel::Tcg);
    let booted = boot(
        guest,
        &guest.release,
        &guest.config,
        &options,
        &env.path("boot"),
    )?;
    let report = &booted.report;
    assert_eq!(
        report.release.as_deref(),
        Some(guest.release.to_string().as_str())
    );
    assert_eq!(report.tainted, Some(0), "{report:?}");
    let loaded = report
        .modules
        .iter()
        .filter(|module| module.refused.is_none());
    assert!(loaded.count() >= 2, "{:?}", report.modules);
    let steps: Vec<&str> = booted.timeline.iter().map(|(step, _)| *step).collect();
    assert_eq!(
        steps,
        [
            "kernel started",
            "init started",
            "report complete",
            "powered off"
        ]
    );
    assert_eq!(booted.warnings, Vec::<String>::new());
    assert!(std::fs::read_to_string(&booted.console)?.contains("Linux version"));
    println!("booted: {:?}", booted.timeline);
    Ok(())
}

fn panic_is_told() -> Outcome {
    let error = broken("rdinit=/nonexistent", Duration::from_mins(5))?;
    assert!(matches!(failure(&error)?, BootFailure::Panic(_)), "{error}");
    assert_eq!(error.exit(), Exit::BootTest);
    Ok(())
}

/// A first process that sleeps: everything is fine, and nothing comes.
fn hang_is_told() -> Outcome {
    let append = "rdinit=/bin/busybox -- sleep 1000";
    let error = broken(append, Duration::from_secs(25))?;
    assert!(
        matches!(failure(&error)?, BootFailure::Hang { .. }),
        "{error}"
    );
    assert_eq!(error.exit(), Exit::BootTest);
    child::expect_none_marked("rdinit=/bin/busybox -- sleep 1000")?;
    Ok(())
}

fn other_release() -> Outcome {
    emulator()?;
    let guest = guest_build()?;
    let env = Env::new()?;
    let release = Release {
        digest8: "00000000".to_owned(),
        ..guest.release.clone()
    };
    let options = Options::new(Accel::Tcg);
    let error = boot(guest, &release, &guest.config, &options, &env.path("boot"));
    let error = error.expect_err("it has another name");
    assert!(
        matches!(failure(&error)?, BootFailure::Release { .. }),
        "{error}"
    );
    assert_eq!(error.exit(), Exit::BootTest);
    Ok(())
}

fn other_config() -> Outcome {
    emulator()?;
    let guest = guest_build()?;
    let env = Env::new()?;
    let text = guest
        .config
        .text()
        .replace("CONFIG_HZ=1000", "CONFIG_HZ=250");
    let options = Options::new(Accel::Tcg);
    let config = DotConfig::parse(text);
    let error = boot(guest, &guest.release, &config, &options, &env.path("boot"));
    let error = error.expect_err("it runs another configuration");
    match failure(&error)? {
        BootFailure::Config(changes) => {
            let symbols: Vec<&str> = changes.iter().map(|c| c.symbol.as_str()).collect();
            assert_eq!(symbols, ["HZ"]);
        }
        other => return Err(fail(format!("{other}"))),
    }
    Ok(())
}

/// A package whose modules are of another kernel.
fn refused_module() -> Outcome {
    emulator()?;
    let guest = guest_build()?;
    let env = Env::new()?;
    // The same length, so that nothing else of the module changes.
    let script = "set -e; for m in $(find lib/modules -name '*.ko'); do \
                  sed -i 's/vermagic=6[.]/vermagic=5./' \"$m\"; done";
    let package = repacked(&env, &guest.packages[0], script)?;
    let isolation = Isolation::probe()?;
    let mut archive = checked::archive(&package, &isolation)?;
    let options = Options::new(Accel::Tcg);
    let dir = env.path("boot");
    let error = boot_test::boot(&mut archive, &guest.release, &guest.config, &options, &dir)
        .expect_err("its modules are of another kernel");
    assert!(
        matches!(failure(&error)?, BootFailure::Module { .. }),
        "{error}"
    );
    Ok(())
}

/// The package with its files changed by a shell script that runs where they are unpacked.
fn repacked(env: &Env, package: &Utf8Path, script: &str) -> Result<Utf8PathBuf, Stop> {
    let (unpacked, dir) = (env.path("unpacked"), env.path("repacked"));
    std::fs::create_dir_all(&dir)?;
    let deb = Tool::find("dpkg-deb")?;
    Cmd::new(&deb)
        .args(["-R", package.as_str(), unpacked.as_str()])
        .run()?;
    Cmd::new(&Tool::find("sh")?)
        .args(["-c", script])
        .cwd(&unpacked)
        .run()?;
    let target = dir.join(package.file_name().unwrap_or("package.deb"));
    Cmd::new(&deb)
        .args(["--root-owner-group", "-Zgzip", "-b"])
        .args([unpacked.as_str(), target.as_str()])
        .run()?;
    Ok(target)
}

/// The finished package, and the same with one option changed in its configuration.
fn swapped_config() -> Outcome {
    let guest = guest_build()?;
    let env = Env::new()?;
    let isolation = Isolation::probe()?;
    let config = guarded(guest.config.text())?;
    let request = Request {
        config: &config,
        release: &guest.release,
        options: kiln::spec::pipeline::Packages::default(),
    };
    let check = |image: Utf8PathBuf| {
        let mut files = guest.packages.clone();
        files[0] = image;
        Packages::at(files, Vec::new()).check(&request, &isolation)
    };
    check(guest.packages[0].clone())?;
    let script = "sed -i 's/^CONFIG_PANIC_TIMEOUT=10$/CONFIG_PANIC_TIMEOUT=0/' boot/config-*";
    let image = repacked(&env, &guest.packages[0], script)?;
    let error = check(image).expect_err("its configuration was swapped");
    assert_eq!(error.exit(), Exit::Guard, "{error}");
    assert!(error.to_string().contains("PANIC_TIMEOUT"), "{error}");
    Ok(())
}

/// `kill -9` in the middle of a real compile: nothing is left, and the next run says that it went
/// on in a used tree.
fn killed_compile() -> Outcome {
    let guest = guest_build()?;
    let env = Env::new()?;
    let build = || {
        env.kiln(["build", "guest", "--again", "--format", "json"])
            .in_dir(&guest.workspace)
            .deadline(Duration::from_mins(75))
    };
    let log = guest.workspace.join(".kiln/work/guest/build/compile.log");
    drop(std::fs::remove_file(&log));
    let mut running = build().start()?;
    running.until("the first objects were compiled", |_| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        Ok(text.matches("  CC      kernel/").count() > 20)
    })?;
    running.signal(rustix::process::Signal::KILL)?;
    running.wait()?;
    child::expect_none_marked("/build/src")?;
    let answer = build().run()?.exits(0)?.json()?;
    let doubts = answer["doubts"].to_string();
    assert!(doubts.contains("was continued"), "{doubts}");
    Ok(())
}
