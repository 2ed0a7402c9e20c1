//! What a host lacks, and how it is told.

use std::time::Duration;

use kiln::pipeline::needs::{self, Purpose};

use crate::support::case::{Case, Outcome, Stop, fail, skip};
use crate::support::env::{Env, KILN, Ran};
use crate::support::terminal::Terminal;

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("doctor::json_and_text_tell_the_same", same),
        Case::new(
            "doctor::packages_of_the_table_bring_what_they_promise",
            promises,
        ),
        Case::new(
            "doctor::install_with_nothing_missing_does_nothing",
            nothing_to_do,
        ),
        Case::new("doctor::without_root_it_prints_the_line", without_root),
        Case::new("doctor::as_root_it_installs", as_root_it_installs),
        Case::new("doctor::quickstart_asks_first", quickstart_asks_first),
    ]
}

fn same() -> Outcome {
    let env = Env::new()?;
    for work in ["build", "image", "test"] {
        let text = env.kiln(["doctor", "--for", work]).run()?;
        let ran = env
            .kiln(["doctor", "--for", work, "--format", "json"])
            .run()?;
        if text.code() != ran.code() {
            return Err(ran.complaint("the formats end with different codes"));
        }
        let json = ran.json()?;
        let needs = json["needs"].as_array().cloned().unwrap_or_default();
        assert!(!needs.is_empty());
        let mut missing = false;
        for need in &needs {
            let name = need["name"].as_str().unwrap_or("?");
            assert!(text.stdout.contains(name), "{name} is not in the text");
            missing |= need["present"] == false;
        }
        assert_eq!(ran.code(), Some(if missing { 20 } else { 0 }));
        assert_eq!(json["error"].is_object(), missing);
        assert_eq!(json["install"].is_string(), missing);
        assert!(json["sandbox"]["works"].is_boolean());
        assert!(json["host"]["memory_bytes"].as_u64() > Some(0));
    }
    Ok(())
}

/// Where a package is installed, what the table says it brings must be there.
fn promises() -> Outcome {
    let env = Env::new()?;
    let mut wrong = Vec::new();
    let mut judged = 0;
    for need in needs::of(&Purpose::ALL) {
        let Ok(ran) = env
            .program(
                "dpkg-query",
                ["-W", "-f", "${db:Status-Status}", need.package],
            )
            .run()
        else {
            return Err(skip("this host has no dpkg"));
        };
        if ran.stdout == "installed" {
            judged += 1;
            if !need.thing.is_there() {
                wrong.push(format!(
                    "{} does not bring {}",
                    need.package,
                    need.thing.name()
                ));
            }
        }
    }
    if judged == 0 {
        return Err(skip("none of the packages is installed"));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(fail(wrong.join("\n")))
    }
}

fn nothing_to_do() -> Outcome {
    let env = Env::new()?;
    if env.kiln(["doctor", "--for", "build"]).run()?.code() != Some(0) {
        return Err(skip(
            "this host lacks tools, so installing would not be nothing",
        ));
    }
    env.kiln(["doctor", "--for", "build", "--install"])
        .run()?
        .exits(0)?
        .never_says("apt-get")?;
    Ok(())
}

/// Headers are hidden, so that something is missing on every host.
fn without_root() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("needs root, to give root up"));
    }
    let env = Env::new()?;
    let run = |arguments: &[&str]| {
        let hidden = [
            "--ro-bind",
            "/",
            "/",
            "--dev-bind",
            "/dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/usr/include",
            "--",
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            KILN,
            "doctor",
            "--for",
            "build",
        ];
        env.program("bwrap", hidden.iter().chain(arguments).copied())
            .in_dir("/")
            .run()
            .map_err(|_| skip("bubblewrap is not installed"))
    };
    let ran = run(&[])?;
    if ran.code() != Some(20) && !ran.stderr.contains("error: this host") {
        return Err(skip(format!(
            "no sandbox to hide headers in, or the program cannot be read without root: {}",
            ran.stderr.trim()
        )));
    }
    let line = "apt-get install --no-install-recommends --yes libc6-dev libelf-dev libssl-dev";
    ran.exits(20)?
        .says(line)?
        .warns("lacks /usr/include/")?
        .warns(line)?;
    run(&["--install"])?
        .exits(20)?
        .warns("needs root")?
        .warns(&format!("hint: as root, run `{line}`"))?;
    let json = run(&["--format", "json"])?.exits(20)?.json()?;
    let install = json["install"].as_str().unwrap_or_default();
    assert!(install.ends_with(line), "{install}");
    assert_eq!(json["error"]["code"], "tools-missing");
    Ok(())
}

/// A stand-in for apt-get that writes down how it was called, and brings what is hidden.
struct Apt {
    env: Env,
    log: camino::Utf8PathBuf,
}

impl Apt {
    /// `then` is what it does when asked to install.
    fn new(then: &str) -> Result<Self, Stop> {
        use std::os::unix::fs::PermissionsExt as _;
        let env = Env::new()?;
        let log = env.root().join("apt.log");
        let script = format!(
            "#!/bin/sh\necho \"$https_proxy $*\" >> {log}\ncase \"$*\" in *' install '*) {then};; esac\n"
        );
        let file = env.write("apt-get", script)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { env, log })
    }

    /// The arguments of bubblewrap that hide headers and apt's lists, and kiln.
    fn hidden(&self) -> Vec<String> {
        let apt = self.env.path("apt-get");
        let words = [
            "--dev-bind",
            "/",
            "/",
            "--tmpfs",
            "/usr/include",
            "--tmpfs",
            "/var/lib/apt/lists",
            "--bind",
            apt.as_str(),
            "/usr/bin/apt-get",
            "--",
            KILN,
        ];
        words.map(str::to_owned).to_vec()
    }

    /// `kiln WORDS` as root, where headers and apt's lists are hidden.
    fn run(&self, words: &[&str]) -> Result<Ran, Stop> {
        let words = words.iter().map(|word| (*word).to_owned());
        let words = self.hidden().into_iter().chain(words);
        let run = self.env.program("/usr/bin/bwrap", words);
        run.env("https_proxy", "http://proxy.invalid:3128").run()
    }

    /// `kiln WORDS` like that, on a terminal.
    fn on_terminal(&self, words: &str) -> Result<Terminal, Stop> {
        let hidden = self.hidden().join(" ");
        Terminal::start(
            &self.env,
            &format!("/usr/bin/bwrap {hidden} {words}"),
            Duration::from_mins(1),
        )
    }

    /// How it was called.
    fn calls(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn as_root_it_installs() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("only root may install"));
    }
    if let Some(reason) = kiln::sandbox::Isolation::probe()?.missing_reason() {
        return Err(skip(format!("no sandbox to hide files in: {reason}")));
    }
    let doctor = ["doctor", "--for", "build"];
    let install = ["doctor", "--for", "build", "--install"];
    // What it would install: whatever is not there once the headers are hidden.
    let idle = Apt::new("false")?;
    let told = idle.run(&doctor)?.exits(20)?;
    told.says("apt-get update && apt-get install --no-install-recommends --yes ")?;
    assert_eq!(idle.calls(), "", "only `--install` installs");
    let json = idle.run(&["doctor", "--for", "build", "--format", "json"])?;
    let json = json.json()?;
    let mut brings = Vec::new();
    for need in json["needs"].as_array().into_iter().flatten() {
        if need["present"] == false {
            let path = need["name"].as_str().unwrap_or_default();
            if !path.starts_with("/usr/include/") {
                return Err(skip(format!(
                    "{path} is missing here, and cannot be brought"
                )));
            }
            brings.push(format!("mkdir -p $(dirname {path}); : > {path}"));
        }
    }

    let apt = Apt::new(&brings.join("; "))?;
    apt.run(&install)?.exits(0)?.warns("installed 3 packages")?;
    let calls = apt.calls();
    let lines: Vec<&str> = calls.lines().collect();
    let options = "http://proxy.invalid:3128 -o DPkg::Lock::Timeout=300";
    let packages = "libc6-dev libelf-dev libssl-dev";
    assert_eq!(
        lines,
        [
            format!("{options} update"),
            format!("{options} install --no-install-recommends --yes {packages}")
        ]
    );
    // It says that it did, and did not.
    let empty = Apt::new("true")?;
    let ran = empty.run(&install)?.exits(20)?;
    ran.warns("the packages are installed, and yet these are missing: /usr/include/")?;
    // It fails, also with new lists.
    let failing = Apt::new("exit 100")?;
    let ran = failing.run(&install)?.exits(20)?;
    ran.warns("failed to install libc6-dev")?;
    assert_eq!(failing.calls().matches(" install ").count(), 2);
    Ok(())
}

/// The README's first command installs only what it was told to: by `--yes`, or on a terminal.
fn quickstart_asks_first() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("only root may install"));
    }
    if let Some(reason) = kiln::sandbox::Isolation::probe()?.missing_reason() {
        return Err(skip(format!("no sandbox to hide files in: {reason}")));
    }
    let question = "libssl-dev. Install them with apt? [y/N] ";
    // Nobody is there to answer.
    let apt = Apt::new("exit 100")?;
    apt.run(&["quickstart"])?
        .exits(20)?
        .never_says(question)?
        .warns(
            "hint: run the same command with `--yes`, or first `apt-get update && apt-get install",
        )?;
    assert_eq!(apt.calls(), "", "nobody agreed");
    // Only a clear yes is one.
    for answer in ["n", "", "yess"] {
        let mut terminal = apt.on_terminal("quickstart")?;
        terminal.shows(question)?;
        terminal.types(&format!("{answer}\n"))?;
        terminal.shows("with `--yes`")?;
        terminal.running.wait()?.exits(20)?;
        assert_eq!(apt.calls(), "", "{answer:?}");
    }
    let mut terminal = apt.on_terminal("quickstart")?;
    terminal.shows(question)?;
    terminal.types("y\n")?;
    terminal.shows("failed to install")?;
    terminal.running.wait()?.exits(20)?;
    assert!(apt.calls().contains(" install "), "{}", apt.calls());
    // `--yes` asks nothing.
    let apt = Apt::new("exit 100")?;
    apt.run(&["quickstart", "--yes"])?
        .exits(20)?
        .never_says(question)?;
    assert!(apt.calls().contains(" install "), "{}", apt.calls());
    Ok(())
}
