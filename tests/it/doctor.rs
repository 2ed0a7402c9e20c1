//! What a host lacks, and how it is told.

use kiln::pipeline::needs::{self, Purpose};

use crate::support::case::{Case, Outcome, fail, skip};
use crate::support::env::Env;

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
            crate::support::env::KILN,
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
    assert_eq!(json["install"], line);
    assert_eq!(json["error"]["code"], "tools-missing");
    Ok(())
}
