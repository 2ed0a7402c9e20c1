//! The README's console blocks are run as they stand, and must print what they show.
//!
//! A block starts with a line of three back ticks and `console`. In it `$ ` starts a command (`> `
//! continues one that ends in a backslash), and the lines below are what a person then sees: a
//! line `...` stands for any lines, `[..]` for any text in a line. All blocks of a README run one
//! after another in one directory. A comment in the line before a block can say:
//!
//! ```text
//! <!-- tour: skip=REASON -->   not run, and the report says why
//! <!-- tour: heavy -->         run only after the light tests (it compiles or boots)
//! <!-- tour: full -->          run only in the full tier
//! <!-- tour: exit=11 -->       the block's last command ends with this code
//! ```

mod twins;

use std::fmt::Write as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::support::env::KILN;
use crate::support::{Case, Env, Outcome, Stop, fail, skip, tree};

/// The cases of this module: the light blocks, each skipped block, and all blocks where some are
/// heavy.
pub fn cases() -> Vec<Case> {
    let mut cases = twins::cases();
    let readme = std::fs::read_to_string(tree::repository().join("README.md")).unwrap_or_default();
    let blocks = match blocks(&readme) {
        Ok(blocks) => blocks,
        Err(problem) => {
            cases.push(Case::new("tour::readme_is_understood", move || {
                Err(fail(problem))
            }));
            return cases;
        }
    };
    for block in &blocks {
        if let When::Never(reason) = &block.when {
            let reason = reason.clone();
            let name = format!("tour::readme_block_at_line_{}", block.line);
            cases.push(Case::new(name, move || Err(skip(reason))));
        }
    }
    let among = |list: &[Block], when: &[When]| -> Vec<Block> {
        list.iter()
            .filter(|block| when.contains(&block.when))
            .cloned()
            .collect()
    };
    let light = among(&blocks, &[When::Usual]);
    let heavy = among(&blocks, &[When::Usual, When::Heavy]);
    let full = among(&blocks, &[When::Usual, When::Heavy, When::Full]);
    let (light_count, heavy_count) = (light.len(), heavy.len());
    if full.len() > heavy_count {
        cases.push(
            Case::new("tour::readme_full", move || run(&full))
                .heavy()
                .full(),
        );
    }
    if heavy_count > light_count {
        cases.push(Case::new("tour::readme_heavy", move || run(&heavy)).heavy());
    }
    cases.push(Case::new("tour::readme", move || {
        if light.is_empty() {
            Err(skip("the README shows no console block"))
        } else {
            run(&light)
        }
    }));
    cases
}

/// When a block runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum When {
    Usual,
    Heavy,
    Full,
    Never(String),
}

/// A console block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// The line of its opening fence, from 1.
    line: usize,
    when: When,
    steps: Vec<Step>,
}

/// A command and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
    exit: i32,
}

/// The marks of a comment before a block.
#[derive(Default)]
struct Marks {
    when: Option<When>,
    exit: i32,
}

/// Reads the blocks of a text.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut marks = Marks::default();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    while let Some((number, line)) = lines.next() {
        if let Some(comment) = line.trim().strip_prefix("<!-- tour:") {
            marks = read_marks(number, comment)?;
            continue;
        }
        if let Some(language) = line.strip_prefix("```") {
            let mut body = Vec::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some(line) => body.push(line),
                    None => return Err(format!("line {number}: the block is not closed")),
                }
            }
            if language.trim() == "console" {
                let marks = std::mem::take(&mut marks);
                let mut steps = steps(&body)?;
                let Some(last) = steps.last_mut() else {
                    return Err(format!("line {number}: the block has no command"));
                };
                last.exit = marks.exit;
                found.push(Block {
                    line: number,
                    when: marks.when.unwrap_or(When::Usual),
                    steps,
                });
            }
        }
        if !line.trim().is_empty() {
            marks = Marks::default();
        }
    }
    Ok(found)
}

fn read_marks(number: usize, comment: &str) -> Result<Marks, String> {
    let comment = comment.trim().strip_suffix("-->").unwrap_or(comment).trim();
    let mut marks = Marks::default();
    if let Some(reason) = comment.strip_prefix("skip=") {
        if reason.len() < 10 {
            return Err(format!("line {number}: skip= wants a reason"));
        }
        marks.when = Some(When::Never(reason.to_owned()));
        return Ok(marks);
    }
    for word in comment.split_whitespace() {
        match word {
            "heavy" => marks.when = Some(When::Heavy),
            "full" => marks.when = Some(When::Full),
            _ => {
                let code = word
                    .strip_prefix("exit=")
                    .and_then(|code| code.parse().ok());
                let unknown =
                    || format!("line {number}: {word:?}: expected skip=, heavy, full or exit=");
                marks.exit = code.ok_or_else(unknown)?;
            }
        }
    }
    Ok(marks)
}

fn steps(body: &[(usize, &str)]) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for (number, line) in body {
        if goes_on {
            let Some((rest, step)) = line.strip_prefix("> ").zip(steps.last_mut()) else {
                return Err(format!("line {number}: expected `> ` after a backslash"));
            };
            step.command = format!("{}{}", step.command.trim_end_matches('\\'), rest);
            goes_on = rest.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            goes_on = command.ends_with('\\');
            steps.push(Step {
                line: *number,
                command,
                expected: Vec::new(),
                exit: 0,
            });
        } else if let Some(step) = steps.last_mut() {
            step.expected.push((*line).to_owned());
        } else {
            return Err(format!("line {number}: output before the first command"));
        }
    }
    Ok(steps)
}

/// Runs blocks one after another in one directory.
fn run(blocks: &[Block]) -> Outcome {
    let env = Env::new()?;
    let mut here = env.workspace();
    for step in blocks.iter().flat_map(|block| &block.steps) {
        here = run_step(&env, &here, step).map_err(|stop| match stop {
            Stop::Fail(text) => fail(format!(
                "README line {}: `{}`\n{text}",
                step.line, step.command
            )),
            Stop::Skip(reason) => skip(reason),
        })?;
    }
    Ok(())
}

/// Runs one command as a terminal would and returns the directory that it leaves one in.
fn run_step(env: &Env, here: &Utf8Path, step: &Step) -> Result<Utf8PathBuf, Stop> {
    let note = env.root().join("directory");
    // The trap tells the directory even where the command is `exit`.
    let script = format!("trap 'pwd > {note}' EXIT\nexec 2>&1\n{}\n", step.command);
    let programs = Utf8Path::new(KILN).parent().unwrap_or(Utf8Path::new("/"));
    let ran = env
        .program("/bin/sh", ["-c", &script])
        .env("PATH", format!("{programs}:/usr/sbin:/usr/bin:/sbin:/bin"))
        .in_dir(here)
        .deadline(Duration::from_mins(30))
        .run()?
        .exits(step.exit)?;
    let shown: Vec<&str> = ran.stdout.lines().collect();
    compare(&step.expected, &shown).map_err(|at| {
        let mut text = String::from("shows something else:\n");
        for line in &shown {
            let _ = writeln!(text, "    {line}");
        }
        let _ = match step.expected.get(at) {
            Some(line) => write!(text, "no match for the README's: {line}"),
            None => write!(text, "the README shows less than this"),
        };
        fail(text)
    })?;
    Ok(Utf8PathBuf::from(std::fs::read_to_string(note)?.trim_end()))
}

/// Compares what a block shows with what came; the error is the first line without a match.
fn compare(expected: &[String], shown: &[&str]) -> Result<(), usize> {
    let end = |lines: usize, blank: &dyn Fn(usize) -> bool| {
        (0..lines)
            .rev()
            .find(|at| !blank(*at))
            .map_or(0, |at| at + 1)
    };
    let expected_end = end(expected.len(), &|at| expected[at].trim().is_empty());
    let shown_end = end(shown.len(), &|at| shown[at].trim().is_empty());
    let mut furthest = 0;
    if matches(
        &expected[..expected_end],
        &shown[..shown_end],
        0,
        &mut furthest,
    ) {
        Ok(())
    } else {
        Err(furthest)
    }
}

/// `at` counts the expected lines that are matched already.
fn matches(expected: &[String], shown: &[&str], at: usize, furthest: &mut usize) -> bool {
    *furthest = at.max(*furthest);
    match (expected.split_first(), shown.split_first()) {
        (None, _) => shown.is_empty(),
        (Some((first, rest)), _) if first.trim() == "..." => {
            (0..=shown.len()).any(|skipped| matches(rest, &shown[skipped..], at + 1, furthest))
        }
        (Some((first, rest)), Some((line, others))) => {
            line_matches(first.trim_end(), line.trim_end())
                && matches(rest, others, at + 1, furthest)
        }
        (Some(_), None) => false,
    }
}

/// Whether a line is as the pattern says; `[..]` in it stands for any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| line_matches(after, &rest[at..]))
        }),
    }
}
