//! Answers to what Kconfig files ask, without make: the environment is the one that the real
//! makefile gives, and an answer is not run again until something that it depends on changes.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use camino::Utf8Path;
use jiff::Timestamp;
use kiln::command::Tool;
use kiln::dotconfig::DotConfig;
use kiln::files;
use kiln::kbuild::make::{Kbuild, Setup};
use kiln::kbuild::probe::{ProbeError, Prober, Probes};
use kiln::kconfig::{Fragment, merge};
use kiln::pipeline::engine::Engine;
use kiln::sandbox::Isolation;

use crate::support::{Case, Env, Outcome, Stop, linux, skip, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "probe::environment_is_the_one_that_make_gives",
            environment_of_the_real_tree,
        ),
        Case::new(
            "probe::engine_answers_as_the_tree_does",
            engine_on_the_real_tree,
        ),
        Case::new("probe::answers_are_kept", answers_are_kept),
        Case::new(
            "probe::answers_are_forgotten_when_their_cause_changes",
            answers_are_forgotten,
        ),
        Case::new("probe::runs_as_the_build_does", runs_as_the_build_does),
        Case::new("probe::failures_are_no_answers", failures_are_no_answers),
        Case::new("probe::files_are_of_the_tree_only", files_of_the_tree),
        Case::new(
            "probe::variables_that_only_make_knows_are_refused",
            unknown_variables,
        ),
    ]
}

fn kbuild_on(source: &Utf8Path, dir: &Utf8Path, isolation: &Isolation) -> Result<Kbuild, Stop> {
    Ok(Kbuild::new(&Setup {
        source,
        dir,
        isolation,
        root: None,
        epoch: Timestamp::from_second(1_780_300_000)?,
        jobs: NonZeroU32::MIN,
        other_time: None,
    })?)
}

/// A Kconfig file that writes down what `conf` was given.
const TELLS: &str = "$(shell,env -0 > /build/out/tree/given)\n";

fn environment_of_the_real_tree() -> Outcome {
    let source = linux::real_source()?;
    for tool in ["make", "gcc", "flex", "bison"] {
        if Tool::find(tool).is_err() {
            return Err(skip(format!("{tool} is not installed")));
        }
    }
    let isolation = Isolation::probe()?;
    if let Some(reason) = isolation.missing_reason() {
        return Err(skip(format!("no sandbox can be had here: {reason}")));
    }
    let env = Env::new()?;
    let kbuild = kbuild_on(source, &env.path("build"), &isolation)?;
    files::write(&kbuild.out().join("Kconfig.tells"), TELLS.as_bytes())?;
    kbuild
        .make(["-s", "olddefconfig"])?
        .arg("KBUILD_KCONFIG=/build/out/Kconfig.tells")
        .run()?;
    let given = files::read_text(&kbuild.tree().join("given"), 1 << 20)?;
    let given: BTreeMap<&str, &str> = given
        .split('\0')
        .filter_map(|pair| pair.split_once('='))
        .collect();

    let prober = Prober::new(&kbuild, None)?;
    let derived: BTreeMap<&str, &str> = prober.environment().collect();
    assert!(derived.len() > 30, "{derived:?}");
    for (name, value) in &derived {
        assert_eq!(given.get(name), Some(value), "{name}");
    }
    // What make gives beside that is refused: an answer would be a guess. A shell sets PWD itself.
    for name in given.keys().filter(|name| **name != "PWD") {
        assert_ne!(derived.contains_key(name), prober.refuses(name), "{name}");
    }
    Ok(())
}

/// The distribution's configuration, alone and with the shipped fragments over it: the same bytes
/// and the same remarks as from the tree's own program.
fn engine_on_the_real_tree() -> Outcome {
    let source = linux::real_source()?;
    let base = DotConfig::parse(linux::real_config("amd64_none_amd64")?);
    let isolation = Isolation::probe()?;
    let env = Env::new()?;
    let kbuild = kbuild_on(source, &env.path("build"), &isolation)?;
    let cache = env.path("probes.json");
    let mut engine = Engine::read(&kbuild, Some(&cache))?;
    assert!(engine.probes().run > 90, "{:?}", engine.probes());
    let mut fragments = Vec::new();
    for name in ["upstream-build", "latency", "boot-gate"] {
        let file = format!("config-fragments/{name}.config");
        fragments.push(Fragment::load(&tree::repository().join(&file), &file)?);
    }
    let merged = merge(&base, &fragments, &[], linux::SERIES.parse()?)?;
    for text in [
        base.text(),
        merged.text(),
        "CONFIG_64BIT=y\nCONFIG_NO_SUCH=y\n",
    ] {
        let (ours, theirs) = (engine.olddefconfig(text), kbuild.olddefconfig(text)?);
        assert_eq!(ours.warnings, theirs.warnings);
        let differs = ours
            .text
            .lines()
            .zip(theirs.text.lines())
            .find(|(a, b)| a != b);
        assert_eq!(differs, None);
        assert!(ours.text == theirs.text);
    }
    // All of it is known the second time.
    let again = Engine::read(&kbuild, Some(&cache))?;
    assert_eq!(again.probes().run, 0, "{:?}", again.probes());
    Ok(())
}

/// The lines of the kernel's makefile that an environment can be derived from.
const MAKEFILE: &str = "\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
EXTRAVERSION =
unexport LC_ALL
CC = $(CROSS_COMPILE)gcc
LD = $(CROSS_COMPILE)ld
        SRCARCH := x86
export CC LD SECRET
";

/// A small tree, prepared.
struct Small {
    env: Env,
    isolation: Isolation,
}

impl Small {
    fn new() -> Result<Self, Stop> {
        let env = Env::new()?;
        env.write("linux/Makefile", MAKEFILE)?;
        env.write("linux/scripts/outer.sh", "$(dirname $0)/inner.sh\n")?;
        env.write("linux/scripts/inner.sh", "echo $0; : one\n")?;
        env.write("linux/scripts/secret.sh", "echo $SECRET\n")?;
        let isolation = Isolation::probe()?;
        match isolation.missing_reason() {
            None => Ok(Self { env, isolation }),
            Some(reason) => Err(skip(format!("no sandbox can be had here: {reason}"))),
        }
    }

    fn kbuild(&self) -> Result<Kbuild, Stop> {
        kbuild_on(
            &self.env.path("linux"),
            &self.env.path("build"),
            &self.isolation,
        )
    }

    fn ask(&self, commands: &[&str]) -> Result<(Vec<String>, Probes), Stop> {
        let kbuild = self.kbuild()?;
        let prober = Prober::new(&kbuild, Some(&self.env.path("probes.json")))?;
        let mut answers = Vec::new();
        for command in commands {
            answers.push(String::from_utf8(prober.shell(command)?)?);
        }
        Ok((answers, prober.finish()?))
    }

    fn fails(&self, commands: &[&str]) -> Result<ProbeError, Stop> {
        let kbuild = self.kbuild()?;
        let prober = Prober::new(&kbuild, None)?;
        for command in commands {
            if let Err(error) = prober.shell(command) {
                return Ok(error);
            }
        }
        Err(crate::support::fail("every probe was answered"))
    }
}

fn answers_are_kept() -> Outcome {
    let small = Small::new()?;
    let commands = [
        "echo a; echo b",
        "cat /proc/self/stat | wc -l",
        "echo a; echo b",
        "false",
    ];
    let (first, probes) = small.ask(&commands)?;
    assert_eq!(first, ["a\nb\n", "1\n", "a\nb\n", ""]);
    assert_eq!((probes.asked, probes.run, probes.ignored), (3, 3, None));
    let (second, probes) = small.ask(&commands)?;
    assert_eq!(second, first);
    assert_eq!((probes.asked, probes.run), (3, 0));
    // A broken file is told of, and everything is asked again.
    let path = small.env.path("probes.json");
    let text = files::read_text(&path, 1 << 20)?;
    files::write(&path, text.replace(r"a\nb\n", r"a\nc\n").as_bytes())?;
    let (third, probes) = small.ask(&commands)?;
    assert_eq!(third, first);
    assert_eq!(probes.run, 3);
    assert!(probes.ignored.is_some_and(|why| why.contains("damaged")));
    let (_, probes) = small.ask(&commands)?;
    assert_eq!((probes.run, probes.ignored), (0, None));
    Ok(())
}

fn answers_are_forgotten() -> Outcome {
    let small = Small::new()?;
    let commands = ["sh /build/src/scripts/outer.sh", "echo untouched"];
    let run = |small: &Small| small.ask(&commands).map(|(_, probes)| probes.run);
    assert_eq!(run(&small)?, 2);
    assert_eq!(run(&small)?, 0);
    // A script that a script runs.
    small
        .env
        .write("linux/scripts/inner.sh", "echo $0; : two\n")?;
    assert_eq!(run(&small)?, 1);
    assert_eq!(run(&small)?, 0);
    // The environment.
    let other = MAKEFILE.replace("SUBLEVEL = 1", "SUBLEVEL = 2");
    small.env.write("linux/Makefile", &other)?;
    assert_eq!(run(&small)?, 2);
    assert_eq!(run(&small)?, 0);
    Ok(())
}

fn runs_as_the_build_does() -> Outcome {
    let small = Small::new()?;
    let commands = [
        "mkdir .tmp_x && rmdir .tmp_x && echo y",
        "echo $LC_ALL:$LC_COLLATE:$CC:$srctree:$SOURCE_DATE_EPOCH:$KERNELVERSION",
        "pwd",
        "touch /build/src/touched || echo no",
        "cat /proc/net/dev | tail -n +3 | wc -l",
        "ls -d /root /home 2>/dev/null",
    ];
    let (answers, _) = small.ask(&commands)?;
    assert_eq!(
        answers,
        [
            "y\n",
            "::gcc:/build/src:1780300000:6.12.1\n",
            "/build/out/tree\n",
            "no\n",
            "1\n",
            ""
        ]
    );
    Ok(())
}

fn failures_are_no_answers() -> Outcome {
    let small = Small::new()?;
    // A shell that is cut off, and a sandbox that does not start.
    let error = small.fails(&["kill -9 $PPID"])?;
    assert!(
        matches!(error, ProbeError::Command { .. } | ProbeError::Cut { .. }),
        "{error}"
    );
    let broken = small.env.path("bwrap");
    small.env.write("bwrap", "#!/bin/sh\nexit 1\n")?;
    make_executable(&broken)?;
    let Isolation::Bubblewrap { setpriv, .. } = &small.isolation else {
        return Err(skip("no sandbox"));
    };
    let isolation = Isolation::Bubblewrap {
        bwrap: Tool::at(&broken)?,
        setpriv: setpriv.clone(),
        user: None,
    };
    let kbuild = kbuild_on(
        &small.env.path("linux"),
        &small.env.path("build"),
        &isolation,
    )?;
    let prober = Prober::new(&kbuild, None)?;
    let error = prober.shell("echo y").unwrap_err();
    assert!(matches!(error, ProbeError::Command { .. }), "{error}");
    Ok(())
}

fn make_executable(path: &Utf8Path) -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn files_of_the_tree() -> Outcome {
    let small = Small::new()?;
    small.env.write("linux/a/Kconfig", "config A\n")?;
    small.env.write("outside", "config B\n")?;
    let kbuild = small.kbuild()?;
    let prober = Prober::new(&kbuild, None)?;
    let read = |path: &str| prober.read(path);
    assert_eq!(read("a/Kconfig")?.as_deref(), Some("config A\n"));
    assert_eq!(read("/build/src/a/Kconfig")?.as_deref(), Some("config A\n"));
    for other in [
        "b/Kconfig",
        "../outside",
        "a/../../outside",
        "/etc/hostname",
        "/build/src/../x",
    ] {
        assert_eq!(read(other)?, None, "{other}");
    }
    Ok(())
}

fn unknown_variables() -> Outcome {
    let small = Small::new()?;
    let error = small.fails(&["sh /build/src/scripts/secret.sh"])?;
    assert!(
        matches!(&error, ProbeError::Underived { name, .. } if name == "SECRET"),
        "{error}"
    );
    let kbuild = small.kbuild()?;
    let prober = Prober::new(&kbuild, None)?;
    assert_eq!(prober.env("NOBODY"), None);
    assert_eq!(prober.env("CC").as_deref(), Some("gcc"));
    assert_eq!(prober.env("SECRET"), None);
    assert!(prober.finish().is_err());
    Ok(())
}
