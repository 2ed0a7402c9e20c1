//! Asking a kernel tree, compiling it, judging its packages: on a tree that answers like a kernel's
//! within a second. The real one is built in `boot`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use camino::Utf8Path;
use kiln::command::{Cmd, Tool};
use kiln::failure::{Diagnose as _, Exit};
use kiln::kbuild::checked::CheckedPackages;
use kiln::kbuild::make::MakeError;
use kiln::kbuild::packages::{self, Doubt, PackagesError, Request};
use kiln::kbuild::warnings::KconfigWarning;
use kiln::kernel::Release;
use kiln::progress::{Event, Progress, Silent};
use kiln::sandbox::{BUILD_USER, Isolation};
use kiln::spec::pipeline::Packages as Options;
use rustix::process::Signal;

use crate::support::child::{self, Part};
use crate::support::fake_kernel::{EPOCH, FakeKernel, guarded};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

/// What this program can be as a child of these tests.
pub const PARTS: &[Part] = &[("kbuild-slow", build_slowly), ("kbuild-umask", tell_umask)];

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("kbuild::tree_answers", tree_answers),
        Case::new("kbuild::surroundings_are_fixed", surroundings_are_fixed),
        Case::new(
            "kbuild::umask_of_the_caller_does_not_leak",
            umask_does_not_leak,
        ),
        Case::new("kbuild::without_a_sandbox", without_a_sandbox),
        Case::new("kbuild::links_are_not_followed", links_are_not_followed),
        Case::new("kbuild::release_must_be_exact", release_must_be_exact),
        Case::new("kbuild::targets_are_configurations", targets),
        Case::new("kbuild::packages_are_checked", packages_are_checked),
        Case::new("kbuild::first_error_is_shown", first_error_is_shown),
        Case::new("kbuild::full_memory_is_27", full_memory),
        Case::new(
            "kbuild::dropped_option_stops_before_compiling",
            dropped_option,
        ),
        Case::new("kbuild::swapped_config_is_11", swapped_config),
        Case::new("kbuild::host_name_in_the_kernel_is_refused", host_name),
        Case::new("kbuild::generated_key_is_refused", generated_key),
        Case::new("kbuild::unexpected_package_is_refused", unexpected_package),
        Case::new("kbuild::headers_can_be_left_out", without_headers),
        Case::new("kbuild::killed_tree_is_marked", killed_tree_is_marked),
        Case::new("kbuild::finished_build_is_used_again", finished_build),
        Case::new("kbuild::killed_build_leaves_nothing", killed_build),
        Case::new(
            "kbuild::stopped_build_without_a_sandbox",
            stopped_in_the_open,
        ),
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
        user: None,
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
    let output = kernel.kbuild()?.make(["-s", "surroundings"])?.capture()?;
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

/// The child: says the umask of a program in the surroundings of a build.
fn tell_umask(arguments: &[String]) -> ExitCode {
    let run = || -> Result<String, Stop> {
        let kernel = FakeKernel::at(Utf8Path::new(&arguments[0]), Isolation::probe()?);
        let shell = Tool::find("sh")?;
        let output = kernel
            .kbuild()?
            .program(&shell)
            .args(["-c", "umask"])
            .capture()?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    };
    child::say(&run().unwrap_or_else(|stop| format!("{stop:?}")));
    ExitCode::SUCCESS
}

/// It would show in the modes of the packages' files.
fn umask_does_not_leak() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let _written = FakeKernel::new(&env, Isolation::probe()?)?;
    let narrow = ["/bin/sh", "-c", "umask 077; exec \"$@\"", "sh"];
    let workspace = env.workspace();
    let ran = child::start_through(&env, &narrow, "kbuild-umask", &[workspace.as_str()])?.wait()?;
    assert_eq!(ran.stdout.trim(), "0022", "{}", ran.stderr);
    Ok(())
}

fn without_a_sandbox() -> Outcome {
    let env = Env::new()?;
    let kernel = FakeKernel::new(&env, open()?)?;
    readable(&env)?;
    let kbuild = kernel.kbuild()?;
    assert!(!kbuild.is_isolated());
    assert_eq!(
        kbuild.target("tinyconfig")?.text,
        "CONFIG_TINY=y\nCONFIG_MODULES=y\n"
    );
    let output = kbuild.make(["-s", "surroundings"])?.capture()?;
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
    let options = Options::default();
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

/// Keeps what it is told.
#[derive(Default)]
struct Kept(Mutex<Vec<Event>>);

impl Progress for Kept {
    fn event(&self, event: &Event) {
        self.0
            .lock()
            .expect("no panic while locked")
            .push(event.clone());
    }
}

/// Builds and checks a configuration of the tree in `env`.
fn build(env: &Env, config: &str, options: Options) -> Result<CheckedPackages, PackagesError> {
    build_telling(env, config, options, &Silent)
}

fn build_telling(
    env: &Env,
    config: &str,
    options: Options,
    progress: &dyn Progress,
) -> Result<CheckedPackages, PackagesError> {
    let isolation = Isolation::probe().expect("the host can be probed");
    let kernel = FakeKernel::new(env, isolation).expect("the tree is written");
    let kbuild = kernel.kbuild().expect("the build is prepared");
    let config = guarded(config).expect("the guard passes it");
    let request = Request {
        config: &config,
        release: &release(),
        options,
    };
    packages::build(&kbuild, &request, progress)?.check(&request, kernel.isolation())
}

fn packages_are_checked() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let kept = Kept::default();
    let config = "CONFIG_TINY=y\nCONFIG_MODULES=y\n";
    let checked = build_telling(&env, config, Options::default(), &kept)?;
    let names: Vec<&str> = checked.packages().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "linux-image-6.18.40-12-lts-3f2a9c1d",
            "linux-headers-6.18.40-12-lts-3f2a9c1d"
        ]
    );
    let image = checked.image();
    assert_eq!(
        (image.version.as_str(), image.architecture),
        ("6.18.40-12", "amd64")
    );
    assert_eq!(kiln::files::hash(&image.file)?, (image.sha256, image.bytes));
    let modules = checked.modules();
    assert_eq!(
        (modules.count, modules.signed, modules.compressed),
        (2, 1, 0)
    );
    assert!(!checked.secure_boot_signed());
    assert_eq!(checked.doubts(), []);
    // The C library's headers are made and never offered.
    let left = kiln::files::list(&env.path("build/out"))?;
    assert!(
        !left.iter().any(|name| name.contains("libc-dev")),
        "{left:?}"
    );
    let counted = kept.0.lock().expect("no panic while locked").iter().any(
        |event| matches!(event, Event::Count { what, done: 1.., .. } if what == "objects compiled"),
    );
    // A build of a fraction of a second may end before the log is looked at.
    if !counted {
        println!("the build ended before its progress was looked at");
    }
    Ok(())
}

fn first_error_is_shown() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let error = build(&env, "CONFIG_FAKE_ERROR=y\n", Options::default()).expect_err("it fails");
    assert_eq!(
        (error.exit(), error.code()),
        (Exit::Build, "compile-failed")
    );
    let text = error.to_string();
    assert!(
        text.contains("kernel/fork.c:99:2: error: 'x' undeclared"),
        "{text}"
    );
    assert!(text.contains("In function 'copy_process'"), "{text}");
    assert!(!text.contains("kernel/exit.o"), "{text}");
    assert!(text.contains("compile.log"), "{text}");
    Ok(())
}

fn full_memory() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let error = build(&env, "CONFIG_FAKE_KILLED=y\n", Options::default()).expect_err("it fails");
    assert_eq!(error.exit(), Exit::NoSpace, "{error}");
    assert!(
        error.hints()[0].contains("fewer jobs"),
        "{:?}",
        error.hints()
    );
    Ok(())
}

/// The tree of the package build drops an option that the guard saw.
fn dropped_option() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let config = "CONFIG_TINY=y\nCONFIG_DROPPED=y\n";
    let error = build(&env, config, Options::default()).expect_err("it fails");
    assert_eq!(error.exit(), Exit::Guard, "{error}");
    assert!(error.to_string().contains("DROPPED"), "{error}");
    assert!(!env.path("build/compile.log").exists(), "it was compiled");
    Ok(())
}

fn swapped_config() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let config = "CONFIG_TINY=y\nCONFIG_FAKE_SWAPPED=y\n";
    let error = build(&env, config, Options::default()).expect_err("it fails");
    assert_eq!(error.exit(), Exit::Guard, "{error}");
    assert!(error.to_string().contains("TINY"), "{error}");
    assert!(error.to_string().contains("linux-image-6.18.40"), "{error}");
    Ok(())
}

fn host_name() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let error = build(&env, "CONFIG_FAKE_HOST=y\n", Options::default()).expect_err("it fails");
    assert_eq!(error.code(), "package-differs");
    assert!(error.to_string().contains("builder17"), "{error}");
    Ok(())
}

fn generated_key() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let error = build(&env, "CONFIG_FAKE_KEY=y\n", Options::default()).expect_err("it fails");
    assert_eq!((error.exit(), error.code()), (Exit::Build, "generated-key"));
    Ok(())
}

fn unexpected_package() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let error = build(&env, "CONFIG_FAKE_EXTRA=y\n", Options::default()).expect_err("it fails");
    assert_eq!(error.code(), "packages-differ");
    assert!(error.to_string().contains("surprise.deb"), "{error}");
    Ok(())
}

fn without_headers() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let options = Options {
        headers: false,
        ..Options::default()
    };
    let checked = build(&env, "CONFIG_MODULES=y\n", options)?;
    assert_eq!(checked.packages().len(), 1);
    Ok(())
}

/// A tree that already holds objects may be continued, and the result says so.
fn killed_tree_is_marked() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let failed = build(&env, "CONFIG_FAKE_ERROR=y\n", Options::default());
    assert!(failed.is_err());
    let kept = Kept::default();
    let checked = build_telling(&env, "CONFIG_TINY=y\n", Options::default(), &kept)?;
    assert_eq!(checked.doubts(), [Doubt::ContinuedTree]);
    let warned =
        kept.0.lock().expect("no panic while locked").iter().any(
            |event| matches!(event, Event::Warning(text) if text.contains("cannot be published")),
        );
    assert!(warned);
    Ok(())
}

fn finished_build() -> Outcome {
    sandboxed()?;
    let env = Env::new()?;
    let text = "CONFIG_TINY=y\nCONFIG_MODULES=y\n";
    let kernel = FakeKernel::new(&env, Isolation::probe()?)?;
    let kbuild = kernel.kbuild()?;
    let config = guarded(text)?;
    let request = Request {
        config: &config,
        release: &release(),
        options: Options::default(),
    };
    assert!(
        packages::finished(&kbuild, &request)?.is_none(),
        "nothing was built"
    );
    let built = packages::build(&kbuild, &request, &Silent)?;
    let again = packages::finished(&kbuild, &request)?.ok_or_else(|| fail("not found"))?;
    assert_eq!(again.files(), built.files());
    assert_eq!(again.doubts(), []);

    let other = guarded("CONFIG_TINY=y\n")?;
    let asks_more = Request {
        config: &other,
        ..request
    };
    assert!(
        packages::finished(&kbuild, &asks_more)?.is_none(),
        "another configuration"
    );

    let file = &built.files()[0];
    std::fs::OpenOptions::new()
        .append(true)
        .open(file)?
        .set_len(100)?;
    let error = packages::finished(&kbuild, &request).expect_err("it was changed");
    assert_eq!(error.exit(), Exit::NotVerified, "{error}");
    Ok(())
}

/// The child: a build whose compilers would run for ten minutes.
fn build_slowly(arguments: &[String]) -> ExitCode {
    let run = || -> Result<(), Stop> {
        kiln::interrupt::install()?;
        let workspace = Utf8Path::new(&arguments[0]);
        let isolation = match arguments[1].as_str() {
            "open" => open()?,
            _ => Isolation::probe()?,
        };
        let kernel = FakeKernel::at(workspace, isolation);
        let config = guarded("CONFIG_FAKE_SLOW=y\n")?;
        let request = Request {
            config: &config,
            release: &release(),
            options: Options::default(),
        };
        match packages::build(&kernel.kbuild()?, &request, &Silent) {
            Ok(_) => Err(fail("a slow build ended")),
            Err(error) => Err(fail(format!("{} {error}", error.exit().code()))),
        }
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            child::say(&format!("{stop:?}"));
            ExitCode::from(3)
        }
    }
}

/// Command lines of what a slow build leaves running, as `/proc` shows them.
const COMPILERS: [&str; 2] = ["sleep\u{0}613", "sleep\u{0}614"];

/// Whatever ends kiln, no compiler is left after two seconds, not even one in its own session.
fn killed_build() -> Outcome {
    sandboxed()?;
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let env = Env::new()?;
        let _written = FakeKernel::new(&env, Isolation::probe()?)?;
        let workspace = env.workspace();
        let running = child::start(&env, "kbuild-slow", &[workspace.as_str(), "sandbox"])?;
        for mark in COMPILERS {
            until(mark, || !child::processes_marked(mark).is_empty())?;
        }
        running.signal(signal)?;
        let ran = running.wait()?;
        if signal != Signal::KILL {
            let code = if signal == Signal::INT { "130" } else { "143" };
            assert!(ran.stdout.contains(code), "{signal:?}: {}", ran.stdout);
        }
        for mark in COMPILERS {
            child::expect_none_marked(mark)?;
        }
        // Nothing that looks like a package.
        let left = kiln::files::list(&env.path("build/out"))?;
        assert_eq!(left, ["tree"], "{signal:?}");
    }
    Ok(())
}

/// Without a sandbox the group is all there is: a stop reaches it, `kill -9` of kiln would not.
fn stopped_in_the_open() -> Outcome {
    let env = Env::new()?;
    let _written = FakeKernel::new(&env, open()?)?;
    env.edit("linux/package.sh", "setsid sleep 614 &", "")?;
    env.edit("linux/package.sh", "sleep 613", "sleep 615")?;
    readable(&env)?;
    let workspace = env.workspace();
    let running = child::start(&env, "kbuild-slow", &[workspace.as_str(), "open"])?;
    let mark = "sleep\u{0}615";
    until(mark, || !child::processes_marked(mark).is_empty())?;
    running.signal(Signal::TERM)?;
    let ran = running.wait()?;
    assert!(ran.stdout.contains("143"), "{}", ran.stdout);
    child::expect_none_marked(mark)
}

/// Opens what stands in the workspace to the unprivileged user; a temporary directory is closed.
fn readable(env: &Env) -> Result<(), Stop> {
    Cmd::new(&Tool::find("chmod")?)
        .args(["-R", "a+rX", env.root().as_str()])
        .run()?;
    Ok(())
}

/// Waits until something holds; half a minute is only a guard against hanging.
fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), Stop> {
    for _ in 0..3000 {
        if holds() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(fail(format!("in vain waited for {what:?}")))
}
