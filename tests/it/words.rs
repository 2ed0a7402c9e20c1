//! The words of the tree: nothing private, nothing unfinished, nothing of one machine; and what
//! the README promises is what the program does.

use kiln::failure::Exit;

use crate::support::{Case, Outcome, Stop, fail, skip, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "words::tree_holds_no_unwanted_word",
            tree_holds_no_unwanted_word,
        ),
        Case::new("words::checker_finds_planted", checker_finds_planted),
        Case::new(
            "words::readme_has_the_exit_codes",
            readme_has_the_exit_codes,
        ),
        Case::new("words::readme_names_every_verb", readme_names_every_verb),
        Case::new(
            "words::ci_runs_the_readmes_test_command",
            ci_runs_the_readmes_test_command,
        ),
        Case::new(
            "words::exit_code_reader_finds_planted",
            exit_code_reader_finds_planted,
        ),
    ]
}

/// A text that must not stand in the tree, and why. Joined here, so that it does not stand here.
struct Unwanted {
    text: String,
    whole_word: bool,
    why: &'static str,
}

fn unwanted() -> Vec<Unwanted> {
    let list: [(&[&str], &str, bool, &str); 20] = [
        (
            &["deb", "debian", "org"],
            ".",
            false,
            "names an archive host",
        ),
        (
            &["security", "debian", "org"],
            ".",
            false,
            "names an archive host",
        ),
        (
            &["snapshot", "debian", "org"],
            ".",
            false,
            "names an archive host",
        ),
        (
            &["ftp", "debian", "org"],
            ".",
            false,
            "names an archive host",
        ),
        (
            &["static", "crates", "io"],
            ".",
            false,
            "names a registry host",
        ),
        (
            &["index", "crates", "io"],
            ".",
            false,
            "names a registry host",
        ),
        (&["pypi", "org"], ".", false, "names a registry host"),
        (
            &["pythonhosted", "org"],
            ".",
            false,
            "names a registry host",
        ),
        (
            &["registry", "npmjs", "org"],
            ".",
            false,
            "names a registry host",
        ),
        (
            &["proxy", "golang", "org"],
            ".",
            false,
            "names a registry host",
        ),
        (&["", "work", ""], "/", false, "a path of one machine"),
        (&["", "root", ""], "/", false, "a path of one machine"),
        (&["FIX", "ME"], "", true, "unfinished"),
        (&["X", "XX"], "", true, "unfinished"),
        (&["todo", "("], "!", false, "unfinished"),
        (&["unimplemented", "("], "!", false, "unfinished"),
        (&["C", "EO"], "", true, "about people, not the product"),
        (&["cl", "aude"], "", true, "about how it was written"),
        (&["l", "lm"], "", true, "about how it was written"),
        (&["work", "order"], " ", true, "about how it was written"),
    ];
    list.into_iter()
        .map(|(parts, glue, whole_word, why)| Unwanted {
            text: parts.join(glue),
            whole_word,
            why,
        })
        .collect()
}

/// Every unwanted text of one file, as `file:line: what: why`.
fn check(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for unwanted in unwanted() {
            if contains(line, &unwanted) {
                found.push(format!(
                    "{file}:{}: {:?} {}",
                    at + 1,
                    unwanted.text,
                    unwanted.why
                ));
            }
        }
    }
    found
}

fn contains(line: &str, unwanted: &Unwanted) -> bool {
    let (line, text) = (line.to_lowercase(), unwanted.text.to_lowercase());
    let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(&text).any(|(at, _)| {
        // A longer path or host that only ends or starts alike is another one.
        let before = line[..at].chars().next_back();
        let after = line[at + text.len()..].chars().next();
        if unwanted.whole_word {
            edge(before) && edge(after)
        } else {
            edge(before)
        }
    })
}

fn tree_holds_no_unwanted_word() -> Outcome {
    let mut found = Vec::new();
    let mut read = 0;
    for path in tree::own_files()? {
        // The lock of the Rust packages names its registry on every line.
        if path == "Cargo.lock" {
            continue;
        }
        // What is no text (an archive, a key ring) holds no words.
        if let Ok(text) = std::fs::read_to_string(tree::repository().join(&path)) {
            found.extend(check(path.as_str(), &text));
            read += 1;
        }
    }
    assert!(read > 20, "only {read} files were read");
    if found.is_empty() {
        Ok(())
    } else {
        Err(fail(found.join("\n")))
    }
}

fn checker_finds_planted() -> Outcome {
    for unwanted in unwanted() {
        let line = format!("let x = \"{}\";", unwanted.text);
        let found = check("src/x.rs", &format!("//! Doc.\n{line}\n"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with("src/x.rs:2: "), "{}", found[0]);
    }
    for line in [
        "sources.debian.net",
        "a framework/root",
        "$dir/root/x",
        "lllm",
        "network/x",
    ] {
        assert_eq!(check("README.md", line), Vec::<String>::new(), "{line}");
    }
    Ok(())
}

/// The rows `| CODE | meaning |` of the README.
fn exit_codes(readme: &str) -> Vec<(u8, String)> {
    readme
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let code = cells.next()?.trim_matches('`').parse().ok()?;
            Some((code, cells.next()?.to_owned()))
        })
        .collect()
}

/// The README, or the reason why there is nothing to check.
pub fn readme() -> Result<String, Stop> {
    std::fs::read_to_string(tree::repository().join("README.md"))
        .map_err(|_| skip("there is no README.md"))
}

fn readme_has_the_exit_codes() -> Outcome {
    let found = exit_codes(&readme()?);
    let expected: Vec<(u8, String)> = Exit::TABLE
        .iter()
        .map(|(exit, text)| (exit.code(), (*text).to_owned()))
        .collect();
    assert_eq!(
        found, expected,
        "the README's table of exit codes is not failure::Exit::TABLE"
    );
    Ok(())
}

fn exit_code_reader_finds_planted() -> Outcome {
    let readme =
        "# x\n| code | meaning |\n| --- | --- |\n| 0 | ok |\n| `11` | guard |\ntext | 3 |\n";
    assert_eq!(
        exit_codes(readme),
        [(0, "ok".to_owned()), (11, "guard".to_owned())]
    );
    assert_eq!(exit_codes("no table"), []);
    Ok(())
}

fn readme_names_every_verb() -> Outcome {
    let readme = readme()?;
    let missing: Vec<String> = kiln::cli::VERBS
        .iter()
        .map(|verb| format!("kiln {}", verb.name()))
        .filter(|verb| !readme.contains(verb.as_str()))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(fail(format!(
            "the README does not show: {}",
            missing.join(", ")
        )))
    }
}

/// The command of `.ci/run` stands in the README as it is, in a line of its own.
fn ci_runs_the_readmes_test_command() -> Outcome {
    let script = std::fs::read_to_string(tree::repository().join(".ci/run"))?;
    let command = script
        .lines()
        .find_map(|line| line.strip_prefix("test_command='")?.strip_suffix('\''))
        .ok_or_else(|| fail(".ci/run has no line test_command='...'"))?;
    let readme = readme()?;
    let shown = readme.lines().any(|line| {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        line.split(" #")
            .next()
            .is_some_and(|line| line.trim_end() == command)
    });
    assert!(shown, "the README does not show `{command}`");
    assert!(
        script.contains("-c \"$test_command\""),
        ".ci/run does not run its test command"
    );
    Ok(())
}
