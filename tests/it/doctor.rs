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

fn without_root() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("needs root, to give root up"));
    }
    let env = Env::new()?;
    let missing = needs::of(&Purpose::ALL)
        .into_iter()
        .any(|need| !need.thing.is_there());
    if !missing {
        return Err(skip("nothing is missing on this host"));
    }
    let ran = env
        .program(
            "setpriv",
            [
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                crate::support::env::KILN,
                "doctor",
                "--install",
            ],
        )
        .in_dir("/")
        .run()?;
    if ran.code() == Some(126) || ran.code() == Some(127) {
        return Err(skip("the program cannot be read without root"));
    }
    ran.exits(20)?
        .warns("needs root")?
        .warns("apt-get install --no-install-recommends --yes ")?;
    Ok(())
}
