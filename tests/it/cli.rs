//! The command line: help, formats, exit codes, completions, manual pages.

use kiln::cli::{VERBS, command};

use crate::support::case::{Case, Outcome, skip};
use crate::support::env::Env;

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("cli::every_verb_has_help_with_examples", help),
        Case::new("cli::a_failure_is_one_json_document", json_failures),
        Case::new("cli::an_answer_is_one_json_document", json_answers),
        Case::new("cli::a_typing_mistake_is_answered_with_the_word", mistakes),
        Case::new("cli::colour_only_where_it_is_wanted", colour),
        Case::new("cli::a_reader_that_goes_away_is_no_error", broken_pipe),
        Case::new("cli::completions_are_good_scripts", completions),
        Case::new("cli::manual_pages_of_every_verb", manual),
    ]
}

fn help() -> Outcome {
    let env = Env::new()?;
    let whole = env.kiln(["help"]).run()?.exits(0)?;
    for verb in VERBS {
        let noun = verb.path[0];
        assert!(whole.stdout.contains(noun), "`kiln help` hides {noun}");
        let by_flag = env
            .kiln(verb.path.iter().copied().chain(["--help"]))
            .run()?
            .exits(0)?
            .says("Examples:\n  kiln ")?
            .says("Exit codes:\n  0")?
            .says(verb.summary)?;
        let by_verb = env
            .kiln(["help"].iter().chain(verb.path).copied())
            .run()?
            .exits(0)?;
        assert_eq!(by_flag.stdout, by_verb.stdout, "{}", verb.name());
        let longest = by_flag
            .stdout
            .lines()
            .map(|line| line.chars().count())
            .max();
        assert!(longest <= Some(110), "{}: {longest:?} columns", verb.name());
    }
    Ok(())
}

fn json_failures() -> Outcome {
    let env = Env::new()?;
    env.write("pipelines/lts.yaml", "kiln: 1\n")?;
    env.write("full/file", "x")?;
    for (line, code, exit) in [
        ("frobnicate --format json", "usage", 2),
        ("check --format json --wrong", "usage", 2),
        ("--format=json check", "invalid-file", 2),
        ("-C /nowhere check --format json", "usage", 2),
        ("-C / check --format json", "no-workspace", 2),
        ("init full --format json", "not-empty", 2),
        ("check notes.txt --format json", "usage", 2),
        ("--format json", "usage", 2),
    ] {
        let ran = env.kiln(line.split(' ')).run()?.exits(exit)?;
        let document = ran.json()?;
        let error = &document["error"];
        let texts = ["message", "code"].map(|key| error[key].is_string());
        let lists = ["causes", "hints"].map(|key| error[key].is_array());
        if error["code"] != code
            || error["exit"] != exit
            || texts != [true; 2]
            || lists != [true; 2]
        {
            return Err(ran.complaint("the error is not as it should be"));
        }
    }
    Ok(())
}

fn json_answers() -> Outcome {
    let env = Env::new()?;
    for line in [
        "--format json help",
        "--format json help check",
        "check --help --format json",
        "--version --format=json",
        "init made --format json",
        "schema pipeline --format json",
        "completions bash --format json",
        "man pages --format json",
    ] {
        let ran = env.kiln(line.split(' ')).run()?.exits(0)?;
        if !ran.json()?.is_object() {
            return Err(ran.complaint("the answer is no object"));
        }
    }
    Ok(())
}

fn mistakes() -> Outcome {
    let env = Env::new()?;
    env.kiln(["chekc"])
        .run()?
        .exits(2)?
        .warns("error: ")?
        .warns("\n\nhint: ")?
        .warns("'check'")?
        .warns("kiln help")?;
    env.kiln(["schema", "pipelin"])
        .run()?
        .exits(2)?
        .warns("'pipeline'")?;
    env.kiln(["check", "--fromat", "json"])
        .run()?
        .exits(2)?
        .warns("--format")?;
    env.kiln(["init"]).run()?.exits(2)?.warns("DIR")?;
    env.kiln::<[&str; 0], &str>([]).run()?.exits(2)?;
    Ok(())
}

fn colour() -> Outcome {
    let env = Env::new()?;
    let coloured = |arguments: &[&str]| -> Result<bool, crate::support::case::Stop> {
        let ran = env.kiln(arguments.iter().copied()).run()?.exits(2)?;
        Ok(ran.stderr.contains('\u{1b}'))
    };
    assert!(!coloured(&["check"])?, "a file is no terminal");
    assert!(coloured(&["check", "--color", "always"])?);
    assert!(!coloured(&["check", "--color", "never"])?);
    Ok(())
}

fn broken_pipe() -> Outcome {
    let env = Env::new()?;
    let script = format!(
        "set -o pipefail; {} schema pipeline | true",
        crate::support::env::KILN
    );
    env.program("bash", ["-c", &script]).run()?.exits(0)?;
    Ok(())
}

fn completions() -> Outcome {
    let env = Env::new()?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = env.kiln(["completions", shell]).run()?.exits(0)?;
        for verb in VERBS {
            let last = verb.path[verb.path.len() - 1];
            assert!(ran.stdout.contains(last), "{shell} does not know {last}");
        }
        env.write(&format!("kiln.{shell}"), &ran.stdout)?;
    }
    env.program("bash", ["-n", "kiln.bash"]).run()?.exits(0)?;
    // What bash would offer after `kiln ch`.
    let script = "source kiln.bash; COMP_WORDS=(kiln ch); COMP_CWORD=1; _kiln kiln ch kiln; \
                  echo \"${COMPREPLY[*]}\"";
    env.program("bash", ["-c", script])
        .run()?
        .exits(0)?
        .says("check")?;
    Ok(())
}

fn manual() -> Outcome {
    let env = Env::new()?;
    env.kiln(["man", "pages"]).run()?.exits(0)?;
    for verb in VERBS {
        let page = env.read(&format!("pages/kiln-{}.1", verb.path.join("-")))?;
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        assert!(page.contains("Examples:"), "{page}");
    }
    let whole = env.read("pages/kiln.1")?;
    for sub in command().get_subcommands() {
        assert!(
            whole.contains(sub.get_name()),
            "kiln.1 hides {}",
            sub.get_name()
        );
    }
    let pages: Vec<_> = env
        .listing()?
        .into_iter()
        .filter(|path| path.ends_with(".1"))
        .collect();
    assert_eq!(pages.len(), VERBS.len() + 1);
    let Ok(ran) = env
        .program(
            "man",
            ["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "pages/kiln.1"],
        )
        .run()
    else {
        return Err(skip("man is not installed, so the pages were not rendered"));
    };
    ran.exits(0)?.says("Builds Linux kernels")?;
    Ok(())
}
