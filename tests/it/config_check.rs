//! `kiln config check` on the real kernel's Kconfig files and the distribution's configuration,
//! through the binary: answered without make, proven with it.
//!
//! The release is the configuration part of the distribution's source, signed by a key of the test
//! and served by a loopback mirror.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;

use camino::Utf8Path;
use kiln::digest::Sha256;
use kiln::failure::Exit;
use kiln::proof::lock::{Configuration, Lock};
use kiln::sandbox::Isolation;
use serde_json::Value;

use crate::support::env::{KILN, Ran};
use crate::support::keys::TestKey;
use crate::support::mirror::{Content, Mirror};
use crate::support::release::{Release, releases_json};
use crate::support::tar::{Entry, Tar, kind};
use crate::support::{Case, Env, Outcome, Stop, fail, linux, skip, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "config_check::needs_no_make_and_is_proven_by_the_tree",
            without_make_and_proven,
        ),
        Case::new("config_check::a_difference_is_told", a_difference_is_told),
        Case::new(
            "config_check::takes_only_the_part_that_the_lock_names",
            only_the_locked_part,
        ),
        Case::new("config_check::options_are_explained", options_are_explained),
        Case::new(
            "config_check::cloud_has_what_a_machine_boots_from",
            cloud_has_its_disks,
        ),
        Case::new(
            "config_check::a_tree_that_cannot_be_read_is_asked",
            an_unreadable_tree_is_asked,
        ),
    ]
}

/// What the real source's makefile and Kconfig files call themselves here.
const VERSION: &str = "6.12.117";

/// A file, a text in it, and what stands there instead.
type Changed = (&'static str, &'static str, &'static str);

/// A workspace with a pipeline on the real tree.
struct Real {
    env: Env,
    _mirror: Mirror,
}

impl Real {
    /// With one change to the tree.
    fn new(changed: Option<Changed>) -> Result<Self, Stop> {
        if let Some(reason) = Isolation::probe()?.missing_reason() {
            return Err(skip(format!("no sandbox can be had here: {reason}")));
        }
        let env = Env::with_workspace()?;
        let (mirror, key) = (Mirror::start()?, TestKey::new());
        let (url, pin) = (mirror.url(), key.fingerprint());
        env.write(&format!("keys/{pin}.asc"), key.armored_cert())?;
        env.write(
            "kiln.yaml",
            format!(
                "kiln: 1\nmirrors:\n  kernel: [\"{url}\"]\n  releases: \"{url}releases.json\"\n"
            ),
        )?;
        let base = linux::real_config("amd64_none_amd64")?;
        let sha256 = Sha256::of(base.as_bytes());
        let series = linux::SERIES;
        env.write(
            "pipelines/real.yaml",
            format!(
                "kiln: 1\nname: real\nseries: \"{series}\"\nsource: {{kernel-org: {{}}}}\n\
                 keys: {{release: [{pin}], checksums: []}}\n\
                 config:\n  base: {{file: {{path: base.config, series: \"{series}\", sha256: {sha256}}}}}\n  trim: none\n\
                 \x20 fragments: [upstream-build, latency, boot-gate, real]\n\
                 \x20 collateral: {{allow: collateral/lts.yaml}}\n\
                 build: {{arch: x86_64, root: host, launcher: none}}\n\
                 packages: {{headers: true, debug: false, compress: xz}}\n"
            ),
        )?;
        env.write("base.config", base)?;
        env.write(
            "config-fragments/real.config",
            "# kiln: why \"the test asks for it\"\nCONFIG_RCU_EXPERT=y\n",
        )?;
        let tar = packed(changed)?;
        Release::of(VERSION, tar, &key).publish(&mirror);
        mirror.put("releases.json", Content::bytes(releases_json(&[VERSION])));
        let real = Self {
            env,
            _mirror: mirror,
        };
        real.env.kiln(["resolve", "real"]).run()?.exits(0)?;
        Ok(real)
    }

    /// `kiln config check real WORDS...` where files of the host are hidden.
    fn run(&self, words: &[&str], hidden: &[&str]) -> Result<Ran, Stop> {
        let mut all = vec!["--dev-bind", "/", "/"];
        for path in hidden.iter().filter(|path| Utf8Path::new(path).exists()) {
            all.extend(["--ro-bind", "/dev/null", path]);
        }
        all.extend(["--", KILN, "config", "check", "real", "--offline"]);
        all.extend(words);
        self.env.program("/usr/bin/bwrap", all).run()
    }

    /// The answer as a document, whatever the guard says.
    fn check(&self, words: &[&str], hidden: &[&str]) -> Result<Value, Stop> {
        let ran = self.run(&[&["--format", "json"], words].concat(), hidden)?;
        match ran.code() {
            Some(0 | 11) => ran.json(),
            _ => Err(ran.complaint("neither 0 nor 11")),
        }
    }
}

/// A file of the source: its name, whether it may be run, what it holds; or where a link leads.
type Part = (String, u32, Vec<u8>, Option<String>);

/// The configuration part of the real source.
fn part() -> Result<&'static [Part], Stop> {
    static PART: OnceLock<Vec<Part>> = OnceLock::new();
    if let Some(part) = PART.get() {
        return Ok(part);
    }
    let source = linux::real_source()?;
    let mut part = Vec::new();
    for name in tree::listing(source)? {
        let path = source.join(&name);
        if !is_of_the_configuration(&name) {
            continue;
        }
        let metadata = path.symlink_metadata()?;
        if metadata.is_symlink() {
            let target = path.read_link_utf8()?.into_string();
            part.push((name, 0o777, Vec::new(), Some(target)));
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o777;
            part.push((name, mode, std::fs::read(&path)?, None));
        }
    }
    Ok(PART.get_or_init(|| part))
}

fn is_of_the_configuration(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let parts: Vec<&str> = name.split('/').collect();
    file.starts_with("Kconfig")
        || match parts[..] {
            ["Makefile" | "Kbuild"] | ["scripts", ..] => true,
            ["arch", _, file] => file.starts_with("Makefile"),
            _ => false,
        }
}

/// The part as kernel.org would pack it.
fn packed(changed: Option<Changed>) -> Result<Vec<u8>, Stop> {
    let prefix = format!("linux-{VERSION}");
    let mut tar = Tar::new()
        .global_header("comment=0123456789012345678901234567890123456789")
        .directory(&format!("{prefix}/"));
    let mut done = changed.is_none();
    for (name, mode, content, link) in part()? {
        let mut content = content.clone();
        if let Some((file, from, to)) = changed
            && file == name
        {
            let text = String::from_utf8(content)?;
            done = text.contains(from);
            content = text.replace(from, to).into_bytes();
        }
        let path = format!("{prefix}/{name}");
        tar = tar.entry(Entry {
            path: &path,
            kind: if link.is_some() {
                kind::SYMLINK
            } else {
                kind::FILE
            },
            mode: *mode,
            link: link.as_deref().unwrap_or_default(),
            content: &content,
            ..Entry::default()
        });
    }
    assert!(done, "the text to change is not there: {changed:?}");
    Ok(tar.bytes())
}

const MAKE_TOOLS: &[&str] = &["/usr/bin/make", "/usr/bin/flex", "/usr/bin/bison"];

fn resolved(real: &Real) -> Result<String, Stop> {
    real.env.read(".kiln/work/real.config/resolved.config")
}

/// First with make, flex and bison hidden, then against the tree's own program.
fn without_make_and_proven() -> Outcome {
    let real = Real::new(None)?;
    let answer = real.check(&[], MAKE_TOOLS)?;
    assert_eq!(answer["resolved_by"], "engine", "{answer}");
    assert_eq!(answer["report"]["basis"], "explained");
    let ours = resolved(&real)?;
    assert!(ours.lines().count() > 8000, "{}", ours.lines().count());
    assert!(ours.contains("CONFIG_RCU_EXPERT=y\n"));
    // What is asked of the tree itself is missed by its name.
    let ran = real.run(&["--prove"], MAKE_TOOLS)?;
    ran.exits(Exit::MissingTools)?
        .warns("`make` is not installed")?;

    let missing = MAKE_TOOLS.iter().find(|path| !Utf8Path::new(path).exists());
    if let Some(tool) = missing {
        return Err(skip(format!(
            "{tool} is not installed: nothing to compare with"
        )));
    }
    let answer = real.check(&["--prove"], &[])?;
    assert_eq!(answer["resolved_by"], "engine-and-tree", "{answer}");
    assert_eq!(answer["differences"], serde_json::json!([]));
    assert!(resolved(&real)? == ours);
    real.run(&["--prove"], &[])?
        .says("kiln's reading gives the same, byte for byte")?;
    Ok(())
}

/// Without the tar; then with a part that is damaged, gone, unnamed, or named wrongly.
fn only_the_locked_part() -> Outcome {
    let real = Real::new(None)?;
    let check = |words: &[&str], code: i32| -> Result<Ran, Stop> {
        let verb = ["config", "check", "real", "--offline"];
        let ran = real.env.kiln([&verb[..], words].concat()).run()?;
        ran.exits(code)
    };
    let file = "pipelines/real.lock.json";
    let lock = Lock::parse(file, &real.env.read(file)?)?;
    let (store, kept) = (real.env.path(".kiln/store/sha256"), real.env.path("kept"));
    // Neither tar nor what it could be made from again.
    std::fs::rename(&store, &kept)?;
    check(&[], 0)?.warns("the bytes that the lock names")?;
    check(&["--prove"], Exit::Network as i32)?.warns("--offline forbids to fetch it")?;

    let named = lock.configuration.expect("a resolve names it");
    let part = format!(".kiln/store/trees/{}", named.sha256);
    let path = format!("{part}/scripts/Kconfig.include");
    let good = real.env.read(&path)?;
    real.env
        .write(&path, good.replacen("cc-option", "cc-optiom", 1))?;
    check(&[], Exit::NotVerified as i32)?.warns("is damaged: expected sha256")?;
    let of_store = |verb, code| real.env.kiln(["store", verb]).run()?.exits(code);
    of_store("verify", Exit::NotVerified as i32)?.says("configuration part of linux-6.12")?;
    real.env.write(&path, &good)?;
    check(&[], 0)?;
    of_store("verify", 0)?;
    of_store("list", 0)?.says("configuration part of linux-6.12")?;
    real.env.write(&format!("{part}/Kconfig.more"), "")?;
    check(&[], Exit::NotVerified as i32)?.warns("is damaged: expected sha256")?;

    std::fs::remove_dir_all(real.env.path(&part))?;
    check(&[], Exit::Network as i32)?.warns("--offline forbids to fetch it")?;
    std::fs::remove_dir_all(&store)?;
    std::fs::rename(&kept, &store)?;
    check(&[], 0)?.warns("made from the whole source")?;
    assert_eq!(real.env.read(&path)?, good);

    let wrong = Configuration {
        sha256: Sha256::of(b"another"),
        ..named
    };
    let of_another_rule = Configuration { rule: 99, ..wrong };
    for (configuration, code, words) in [
        (Some(wrong), Exit::NotVerified as i32, "and the lock says"),
        (Some(of_another_rule), 0, "names no configuration part"),
        (None, 0, "names no configuration part"),
    ] {
        let mut edited = lock.clone();
        edited.configuration = configuration;
        real.env.write(file, edited.to_text()?)?;
        check(&[], code)?.warns(words)?;
    }
    // What a resolve adds changes neither number nor digest.
    real.env.kiln(["resolve", "real"]).run()?.exits(0)?;
    assert_eq!(Lock::parse(file, &real.env.read(file)?)?, lock);
    Ok(())
}

/// The tree's own program is made to say one line more.
fn a_difference_is_told() -> Outcome {
    let real = Real::new(Some((
        "scripts/kconfig/Makefile",
        "$(Q)$< $(silent) --$@ $(Kconfig)",
        "$(Q)$< $(silent) --$@ $(Kconfig); echo CONFIG_ONE_MORE=y >> .config",
    )))?;
    let answer = real.check(&[], &[])?;
    assert_eq!(answer["resolved_by"], "engine", "{answer}");
    assert!(!resolved(&real)?.contains("CONFIG_ONE_MORE"));
    let ran = real.run(&["--prove", "--format", "json"], &[])?;
    let answer = ran.json()?;
    assert_eq!(answer["resolved_by"], "tree-differs", "{answer}");
    assert_eq!(answer["report"]["basis"], "files");
    let differences = answer["differences"].to_string();
    assert!(differences.contains("`nothing` to kiln and `CONFIG_ONE_MORE=y` to the tree"));
    ran.warns("kiln's reading gives something else")?;
    // The tree wins.
    assert!(resolved(&real)?.contains("CONFIG_ONE_MORE=y\n"));
    Ok(())
}

/// A makefile that names another compiler than kiln knows.
fn an_unreadable_tree_is_asked() -> Outcome {
    let line = "CC\t\t= $(CROSS_COMPILE)gcc\n";
    let real = Real::new(Some((
        "Makefile",
        line,
        "CC\t\t= $(CROSS_COMPILE)gcc -m64\n",
    )))?;
    let ran = real.run(&["--format", "json"], &[])?;
    let answer = ran.json()?;
    assert_eq!(answer["resolved_by"], "tree", "{answer}");
    assert_eq!(answer["report"]["basis"], "values");
    ran.warns("kiln cannot read this tree")?
        .warns("no line `CC`")?;
    assert!(resolved(&real)?.contains("CONFIG_RCU_EXPERT=y\n"));
    Ok(())
}

/// The shipped pipeline without modules, on the real tree and the distribution's configuration.
fn cloud_has_its_disks() -> Outcome {
    let real = Real::new(None)?;
    let pipeline = "pipelines/cloud.yaml";
    let text = real.env.read("pipelines/real.yaml")?;
    let source = text
        .lines()
        .filter(|line| line.starts_with("source:") || line.starts_with("keys:"));
    let source = source.collect::<Vec<_>>().join("\n");
    let base = linux::real_config("amd64_none_cloud-amd64")?;
    let (series, sha256) = (linux::SERIES, Sha256::of(base.as_bytes()));
    real.env.write("cloud-base.config", base)?;
    real.env.edit(
        pipeline,
        &format!("source: {{debian: {{package: linux-source-{series}}}}}"),
        &source,
    )?;
    real.env.edit(
        pipeline,
        &format!("{{debian: {{package: linux-config-{series}, flavour: none_cloud-amd64}}}}"),
        &format!("{{file: {{path: cloud-base.config, series: \"{series}\", sha256: {sha256}}}}}"),
    )?;
    let check = |code: i32| -> Result<(Value, String), Stop> {
        real.env.kiln(["resolve", "cloud"]).run()?.exits(0)?;
        let ran = real
            .env
            .kiln(["config", "check", "cloud", "--offline", "--format", "json"]);
        let answer = ran.run()?.exits(code)?.json()?;
        let config = real.env.read(".kiln/work/cloud.config/resolved.config")?;
        Ok((answer, config))
    };
    let (answer, config) = check(0)?;
    let drivers = ["VIRTIO_BLK", "VIRTIO_NET", "BLK_DEV_SD", "VFAT_FS"];
    for driver in drivers {
        assert!(config.contains(&format!("CONFIG_{driver}=y\n")), "{driver}");
    }
    assert!(!config.contains("=m\n"), "a module is left");
    // What goes with the modules is told apart from what tree and tools do.
    let findings = answer["report"]["findings"].as_array();
    let findings = findings.ok_or_else(|| fail("no findings"))?;
    let of = |kind: &str, severity: &str| {
        let such = findings.iter().filter(|finding| {
            finding["kind"] == "drift"
                && (finding["trimmed"] == true) == (kind == "trimmed")
                && finding["severity"] == severity
        });
        such.count()
    };
    let (trimmed, drift) = (of("trimmed", "note"), of("drift", "warn"));
    assert!(
        trimmed > 100 && drift < 40,
        "{trimmed} trimmed, {drift} drift"
    );
    // Without the fragment they are gone with the modules.
    real.env.edit(pipeline, "boot-gate, cloud]", "boot-gate]")?;
    let (_answer, config) = check(0)?;
    for driver in drivers {
        assert!(
            !config.contains(&format!("CONFIG_{driver}=y\n")),
            "{driver}"
        );
    }
    Ok(())
}

/// Any option, set or not: what it is, whose doing its value is, what would make it another.
fn options_are_explained() -> Outcome {
    let real = Real::new(None)?;
    let explain = |words: &[&str], code: i32| -> Result<Ran, Stop> {
        let verb = ["explain", "--pipeline", "real", "--offline"];
        real.env
            .kiln([&verb[..], words].concat())
            .run()?
            .exits(code)
    };
    // Set, by a fragment's line.
    let about = explain(&["CONFIG_RCU_EXPERT", "--format", "json"], 0)?.json()?["about"].clone();
    assert_eq!(about["value"], "y");
    assert_eq!(about["set"]["by"], "line");
    assert_eq!(about["set"]["origin"], "config-fragments/real.config:2");
    let site = about["defined"][0]["site"].to_string();
    assert!(site.starts_with("\"kernel/rcu/Kconfig:"), "{site}");
    // Not set, and not to be had by its line alone.
    explain(&["NR_CPUS=256"], 0)?
        .says("CONFIG_NR_CPUS (int \"Maximum number of CPUs\")")?
        .says("it is 8192: the default at arch/x86/Kconfig:")?
        .says("MAXSMP is y: set by the base, line ")?
        .says("CONFIG_NR_CPUS=256 alone would not hold")?
        .says("        # CONFIG_MAXSMP is not set\n")?;
    // Not to be had at all with these tools, and they are named.
    explain(&["CFI_CLANG"], 0)?
        .says("$(cc-option,-fsanitize=kcfi) at arch/Kconfig:")?
        .says("no lines were found")?;
    // Not in this tree.
    explain(&["CONFIG_NO_HZ_FULL_ALL"], 2)?
        .warns("CONFIG_NO_HZ_FULL_ALL is not in linux 6.12")?
        .warns("kiln explain CONFIG_NO_HZ_FULL")?;
    // Of several pipelines one must be named.
    explain(&["config_hz_1000"], 2)?.warns("kiln explain CONFIG_HZ_1000")?;
    explain(&["NR_CPUS=many"], 2)?
        .warns("cannot be many: it is int, which takes a decimal number")?;
    explain(&["MODULES=2"], 2)?.warns("cannot be 2: it is bool")?;
    let vague = real.env.kiln(["explain", "HZ"]).run()?;
    vague.exits(2)?.warns("--pipeline")?;
    Ok(())
}
