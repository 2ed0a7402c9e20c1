//! Odd command lines, poor surroundings and damaged files: an answer or an error with its place,
//! never a panic and never a trace on the disk.

mod odd;

use kiln::cli::{VERBS, Verb};
use kiln::failure::Exit;
use serde_json::Value;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Env, Outcome, Ran, Stop, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "robust::exit_codes_of_help_are_the_tables",
            exit_codes_of_help,
        ),
        Case::new("robust::wrong_key_has_its_place", wrong_key_has_its_place),
        Case::new("robust::wrong_lock_has_its_place", wrong_lock_has_its_place),
        Case::new(
            "robust::damaged_certificate_has_its_place",
            damaged_certificate,
        ),
        Case::new(
            "robust::outside_of_a_workspace_it_says_so",
            outside_of_a_workspace,
        ),
        Case::new(
            "robust::arguments_that_are_no_text",
            arguments_that_are_no_text,
        ),
        Case::new("robust::poor_environment_is_enough", poor_environment),
        Case::new("robust::readers_write_nothing", readers_write_nothing),
        Case::new(
            "robust::init_touches_nothing_that_exists",
            init_touches_nothing,
        ),
        Case::new("robust::workspace_of_init_passes_check", workspace_of_init),
        Case::new("robust::damaged_files_never_panic", || damaged_files(120)),
        Case::new("robust::damaged_files_never_panic_long", || {
            damaged_files(4000)
        })
        .full(),
    ];
    cases.extend(odd::cases());
    cases
}

fn exit_codes_of_help() -> Outcome {
    let env = Env::new()?;
    for verb in VERBS {
        let ran = env
            .kiln(verb.path.iter().copied().chain(["--help"]))
            .run()?
            .exits(0)?;
        for exit in verb.exits {
            let meaning = Exit::TABLE
                .iter()
                .find(|(known, _)| known == exit)
                .map(|(_, text)| text);
            let meaning = meaning.ok_or_else(|| fail(format!("{exit:?} is not in the table")))?;
            assert!(
                ran.stdout.contains(meaning),
                "{}: help lacks {meaning}",
                verb.name()
            );
        }
    }
    Ok(())
}

/// The one document of a failed run, checked for its form.
fn failure(ran: &Ran) -> Result<Value, Stop> {
    let document = ran.json()?;
    let error = &document["error"];
    let code = ran.code().map(i64::from);
    if error["exit"].as_i64() != code {
        return Err(ran.complaint("the document's exit code is not the program's"));
    }
    let kebab =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let whole = error["code"].as_str().is_some_and(kebab)
        && error["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
        && error["hints"].is_array()
        && error["causes"].is_array();
    if whole {
        Ok(error.clone())
    } else {
        Err(ran.complaint("the failure lacks a field"))
    }
}

fn wrong_key_has_its_place() -> Outcome {
    let env = Env::with_workspace()?;
    env.edit("pipelines/lts.yaml", "\nseries:", "\nserie:")?;
    let line = env
        .read("pipelines/lts.yaml")?
        .lines()
        .position(|line| line.starts_with("serie:"));
    let line = line.unwrap_or(0) + 1;
    let ran = env
        .kiln(["check", "pipelines/lts.yaml"])
        .run()?
        .exits(Exit::Usage)?;
    // The findings are the answer; that there are some is the failure.
    let place = format!("pipelines/lts.yaml:{line}:1: ");
    let told = ran.stdout.lines().find(|found| found.starts_with(&place));
    assert!(
        told.is_some_and(|told| told.contains("`series`")),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    let ran = env
        .kiln(["check", "--format", "json", "pipelines/lts.yaml"])
        .run()?;
    let ran = ran.exits(Exit::Usage)?;
    failure(&ran)?;
    let document = ran.json()?;
    let findings = document["findings"].as_array().cloned().unwrap_or_default();
    assert!(
        findings
            .iter()
            .any(|found| found["line"] == line && found["column"] == 1)
    );
    assert_eq!(ran.stderr, "", "the document says it all");
    Ok(())
}

/// The findings of `kiln check` in one file.
fn findings_in(env: &Env, file: &str) -> Result<Vec<Value>, Stop> {
    let ran = env.kiln(["check", "--format", "json"]).run()?;
    let document = ran.exits(Exit::Usage)?.json()?;
    let mut findings = document["findings"].as_array().cloned().unwrap_or_default();
    findings.retain(|finding| finding["file"] == file);
    Ok(findings)
}

fn wrong_lock_has_its_place() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let file = "pipelines/made.lock.json";
    made.env.edit(file, "  \"build\":", "  \"buildd\":")?;
    let text = made.env.read(file)?;
    let line = text.lines().position(|line| line.contains("\"buildd\""));
    let line = line.unwrap_or(0) + 1;
    let findings = findings_in(&made.env, file)?;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0]["line"], line, "{findings:?}");
    assert_ne!(findings[0]["column"], 0, "{findings:?}");
    let message = findings[0]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("unknown field `buildd`") && message.ends_with("did you mean `build`?"),
        "{message}"
    );
    // Where it stops a verb, the same is said.
    let ran = made.kiln("fetch made").run()?.exits(Exit::Usage)?;
    ran.warns(&format!("error: {file}:{line}:"))?
        .warns("did you mean `build`?")?;
    Ok(())
}

fn damaged_certificate() -> Outcome {
    let made = MadeUp::new()?;
    let file = format!("keys/{}.asc", made.key.fingerprint());
    let good = made.env.read(&file)?;
    let lines: Vec<&str> = good.lines().collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        lines.join("\n") + "\n"
    };
    for (text, line, says) in [
        (format!("{good}junk\n"), lines.len() + 1, "does not belong"),
        (with(5, "AAAA!!!!"), 6, "is not the base64 text"),
        (with(5, ""), 0, "damaged or cut off"),
    ] {
        made.env.write(&file, text)?;
        let findings = findings_in(&made.env, &file)?;
        assert_eq!(findings.len(), 1, "{says}: {findings:?}");
        assert_eq!(findings[0]["line"], line, "{findings:?}");
        let message = findings[0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{message}");
        assert!(!message.contains(made.env.root().as_str()), "{message}");
    }
    made.env.write(&file, good)?;
    made.kiln("check").run()?.exits(0)?;
    Ok(())
}

fn outside_of_a_workspace() -> Outcome {
    let env = Env::new()?;
    let ran = env
        .kiln(["check"])
        .run()?
        .exits(Exit::Usage)?
        .warns("kiln init")?;
    assert_eq!(ran.stdout, "");
    failure(&env.kiln(["check", "--format", "json"]).run()?)?;
    assert_eq!(
        env.listing()?,
        Vec::<String>::new(),
        "nothing is made by asking"
    );
    Ok(())
}

fn arguments_that_are_no_text() -> Outcome {
    use std::os::unix::ffi::OsStringExt as _;
    let env = Env::with_workspace()?;
    let not_text = std::ffi::OsString::from_vec(b"x\xff".to_vec());
    let strange = [
        "",
        " ",
        "\n",
        "-",
        "--",
        "---",
        "\u{202e}",
        "../../../etc/passwd",
        "/dev/null",
    ];
    let strange = strange.into_iter().map(std::ffi::OsString::from);
    for word in strange.chain([not_text, "y".repeat(100_000).into()]) {
        for before in [&["check"][..], &["-C"], &["--format"], &[]] {
            let run = before.iter().fold(
                env.kiln(Vec::<String>::new()),
                crate::support::env::Run::arg,
            );
            no_bug(&run.arg(&word).run()?)?;
        }
    }
    Ok(())
}

/// Whatever it says, it has not panicked.
fn no_bug(ran: &Ran) -> Outcome {
    let text = format!("{}{}", ran.stdout, ran.stderr);
    let known = matches!(ran.code(), Some(0 | 2));
    if known && !text.contains("panicked") && !text.contains("should not exist") {
        return Ok(());
    }
    Err(ran.complaint("expected success or exit code 2, and no panic"))
}

fn poor_environment() -> Outcome {
    let env = Env::with_workspace()?;
    let kiln = crate::support::env::KILN;
    for words in ["check", "schema pipeline", "doctor"] {
        let script = format!("exec env -i {kiln} {words} < /dev/null");
        let ran = env.program("/bin/sh", ["-c", &script]).run()?;
        let odd = env
            .kiln(words.split(' '))
            .env("LC_ALL", "xx_YY.FOO")
            .env("HOME", "")
            .env("TERM", "no-such-terminal")
            .env("COLUMNS", "1")
            .run()?;
        for ran in [ran, odd] {
            assert!(
                matches!(ran.code(), Some(0 | 2 | 20)),
                "{words}: {}",
                ran.stderr
            );
            assert!(!ran.stderr.contains("panicked"), "{words}: {}", ran.stderr);
        }
    }
    Ok(())
}

fn readers_write_nothing() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.built()?;
    // What is on its way out is taken up by any command.
    let kept = || -> Result<Vec<String>, Stop> {
        let mut listing = made.env.listing()?;
        listing.retain(|path| !path.starts_with(".kiln/trash/"));
        Ok(listing)
    };
    let (before, mut tried) = (kept()?, 0);
    for verb in VERBS.iter().filter(|verb: &&&Verb| !verb.writes) {
        let name = verb.name();
        let words = match name.as_str() {
            "config export" => " made",
            "schema" => " pipeline",
            "completions" => " bash",
            "classify" => " patches/none.patch",
            _ => "",
        };
        let ran = made.kiln(&format!("{name}{words}")).run()?;
        tried += u32::from(ran.code() == Some(0));
        assert_eq!(kept()?, before, "`kiln {name}` wrote: {}", ran.stderr);
    }
    assert!(tried >= 8, "only {tried} verbs answered");
    // What is tried with a lock that is there leaves the pipelines' directory as it is.
    let pipelines = || crate::support::tree::listing(&made.env.path("pipelines"));
    let (before, lock) = (pipelines()?, made.env.read("pipelines/made.lock.json")?);
    made.ask("CONFIG_TINY=y")?;
    for line in [
        "config check made",
        "config diff made made",
        "shell made",
        "fetch made",
    ] {
        made.kiln(line).run()?.exits(0)?;
        assert_eq!(pipelines()?, before, "kiln {line}");
        let now = made.env.read("pipelines/made.lock.json")?;
        assert_eq!(now, lock, "kiln {line}");
    }
    Ok(())
}

fn init_touches_nothing() -> Outcome {
    let env = Env::new()?;
    env.write("used/file", "mine")?;
    env.write("plain", "a file")?;
    for target in ["used", "plain", "plain/below"] {
        let ran = env.kiln(["init", target]).run()?;
        assert!(
            ran.code() == Some(2),
            "{target}: {}",
            ran.complaint("expected 2").text()
        );
    }
    assert_eq!(env.listing()?, ["plain", "used/", "used/file"]);
    assert_eq!(env.read("used/file")?, "mine");
    env.kiln(["init", "new"]).run()?.exits(0)?;
    let first = env.listing()?;
    env.kiln(["init", "new"])
        .run()?
        .exits(Exit::Usage)?
        .warns("new")?;
    assert_eq!(env.listing()?, first);
    Ok(())
}

fn workspace_of_init() -> Outcome {
    let env = Env::with_workspace()?;
    env.kiln(["check"]).run()?.exits(0)?;
    let below = env.path("pipelines");
    env.kiln(["check"]).in_dir(below).run()?.exits(0)?;
    let ran = env.kiln(["check", "--format", "json"]).run()?.exits(0)?;
    assert_eq!(ran.json()?["findings"], serde_json::json!([]));
    assert_eq!(ran.stderr, "");
    Ok(())
}

/// Small damages of every file that people write, each checked: an error with a place, or still a
/// good file; never a panic.
fn damaged_files(times: u64) -> Outcome {
    let env = Env::with_workspace()?;
    let files: Vec<String> = env
        .listing()?
        .into_iter()
        .filter(|name| {
            [".yaml", ".config", ".asc"]
                .iter()
                .any(|end| name.ends_with(end))
        })
        .collect();
    assert!(files.len() > 5, "{files:?}");
    let mut dice = Dice(0x1234_5678_9abc_def0);
    for time in 0..times {
        let file = &files[dice.below(files.len())];
        let whole = std::fs::read(env.path(file))?;
        let damaged = damage(&whole, &mut dice);
        env.write(file, &damaged)?;
        let ran = env.kiln(["check"]).run()?;
        if let Err(stop) = no_bug(&ran) {
            let text = String::from_utf8_lossy(&damaged).into_owned();
            return Err(fail(format!(
                "damage {time} of {file}: {stop:?}\n--- file\n{text}"
            )));
        }
        env.write(file, whole)?;
    }
    env.kiln(["check"]).run()?.exits(0)?;
    Ok(())
}

/// A fixed sequence that looks random: the same damages in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit.max(1) as u64)).unwrap_or(0)
    }
}

fn damage(whole: &[u8], dice: &mut Dice) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"\0",
        b"\xff\xfe",
        b"\"",
        b"'",
        b": ",
        b"\n",
        b"\t",
        b"#",
        b"- ",
        b"[",
        b"}",
        b"&a *a",
        b"!!x",
        b"<<: *x",
        b"99999999999999999999",
        b"-1",
        b"null",
        b"~",
        b"\xc3\xa9",
        b"\xe2\x80\xae",
        b"y\n",
        b"---\n",
        b"...\n",
        b"CONFIG_X=y\n",
        b"# kiln: begin\n",
        b"{{{{{{{{{{{{{{{{{{{{",
    ];
    let mut bytes = whole.to_vec();
    let at = dice.below(bytes.len());
    match dice.below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << dice.below(8),
        2 => {
            let end = (at + 1 + dice.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let piece = PIECES[dice.below(PIECES.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        4 => {
            // A line twice.
            let start = bytes[..at]
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
            let end = bytes[at..]
                .iter()
                .position(|b| *b == b'\n')
                .map_or(bytes.len(), |n| at + n);
            let line = [&bytes[start..end], b"\n"].concat();
            bytes.splice(start..start, line);
        }
        _ => {
            // A value replaced up to the end of its line.
            let end = bytes[at..]
                .iter()
                .position(|b| *b == b'\n')
                .map_or(bytes.len(), |n| at + n);
            let piece = PIECES[dice.below(PIECES.len())];
            bytes.splice(at..end, piece.iter().copied());
        }
    }
    bytes
}
