//! What the product owes, line by line: each has a test that exists, or a stated reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::support::{Case, Outcome, fail};

/// The map; its head explains the form.
const MAP: &str = include_str!("../data/mission.txt");

/// The lines are numbered from 1 to this.
const LAST: u16 = 107;

/// What can be missing as a whole. A reason outside this list is a typing mistake or an excuse.
const AREAS: &[&str] = &[
    "staging and boot gate",
    "images",
    "channels and promotion",
    "node plan",
    "measurement",
];

/// The cases of this module. `names` are those of all other cases of the usual tier: what runs only
/// on demand shows nothing every day.
pub fn cases(names: BTreeSet<String>) -> Vec<Case> {
    vec![
        Case::new("mission::every_line_has_a_test_or_a_reason", move || {
            let found = problems(MAP, &names);
            if found.is_empty() {
                Ok(())
            } else {
                Err(fail(found.join("\n")))
            }
        }),
        Case::new("mission::checker_finds_planted", checker_finds_planted),
    ]
}

/// How a line is shown.
#[derive(Debug, PartialEq, Eq)]
enum Shown<'a> {
    By(Vec<&'a str>),
    NotYet(&'a str),
    Otherwise,
}

/// Reads one line of the map.
fn line(text: &str) -> Result<(u16, Shown<'_>), String> {
    let fields: Vec<&str> = text.split('|').map(str::trim).collect();
    let [number, who, short, shown] = fields[..] else {
        return Err(format!("expected 4 fields, found {}", fields.len()));
    };
    let number: u16 = number
        .parse()
        .map_err(|_| format!("{number:?} is no number"))?;
    let known = |who: char| matches!(who, 'C' | 'N' | 'H' | '-');
    if who.is_empty() || !who.chars().all(known) {
        return Err(format!("{who:?}: expected letters of C, N, H"));
    }
    if short.len() < 10 {
        return Err("the line says nothing".to_owned());
    }
    let shown = if let Some(names) = shown.strip_prefix("test ") {
        Shown::By(names.split(',').map(str::trim).collect())
    } else if let Some(area) = shown.strip_prefix("not yet: ") {
        Shown::NotYet(area)
    } else if ["rule: ", "cited: "]
        .iter()
        .any(|kind| shown.strip_prefix(kind).is_some_and(|text| text.len() > 10))
    {
        Shown::Otherwise
    } else {
        return Err(format!(
            "{shown:?}: expected `test`, `not yet:`, `rule:` or `cited:`"
        ));
    };
    Ok((number, shown))
}

fn problems(map: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, text) in map.lines().enumerate() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let place = format!("tests/data/mission.txt:{}", at + 1);
        match line(text) {
            Err(problem) => found.push(format!("{place}: {problem}")),
            Ok((number, shown)) => {
                if !(1..=LAST).contains(&number) || !seen.insert(number) {
                    found.push(format!("{place}: line {number} is unknown or stands twice"));
                }
                match shown {
                    Shown::By(tests) => {
                        for test in tests.iter().filter(|test| !names.contains(**test)) {
                            found.push(format!(
                                "{place}: there is no test `{test}` in the usual tier"
                            ));
                        }
                    }
                    Shown::NotYet(area) if !AREAS.contains(&area) => {
                        found.push(format!("{place}: {area:?} is not one of {AREAS:?}"));
                    }
                    Shown::NotYet(_) | Shown::Otherwise => {}
                }
            }
        }
    }
    for number in (1..=LAST).filter(|number| !seen.contains(number)) {
        found.push(format!(
            "tests/data/mission.txt: line {number} is not mapped"
        ));
    }
    found
}

fn checker_finds_planted() -> Outcome {
    let names = BTreeSet::from(["source::good".to_owned()]);
    let mut good = String::new();
    for number in 1..=LAST {
        let _ = writeln!(
            good,
            "{number} | C | words that say something | not yet: images"
        );
    }
    assert_eq!(problems(&good, &names), Vec::<String>::new());
    let first = "1 | C | words that say something | not yet: images\n";
    for (replaced, expected) in [
        ("", "line 1 is not mapped"),
        ("1 | C | words that say something | test source::good\n", ""),
        (
            "1 | C | words that say something | test source::gone\n",
            "no test `source::gone` in the usual tier",
        ),
        (
            "1 | C | words that say something | test source::good, x\n",
            "no test `x`",
        ),
        (
            "1 | C | words that say something | not yet: someday\n",
            "is not one of",
        ),
        (
            "1 | C | words that say something | rule: \n",
            "expected `test`",
        ),
        ("1 | C | words that say something\n", "expected 4 fields"),
        (
            "1 | X | words that say something | not yet: images\n",
            "expected letters",
        ),
        (
            "2 | C | words that say something | not yet: images\n",
            "stands twice",
        ),
        (
            "108 | C | words that say something | not yet: images\n",
            "unknown",
        ),
        (
            "one | C | words that say something | not yet: images\n",
            "no number",
        ),
        ("1 | C | words | not yet: images\n", "says nothing"),
    ] {
        let found = problems(&good.replacen(first, replaced, 1), &names).join("\n");
        if expected.is_empty() {
            assert_eq!(found, "");
        } else {
            assert!(found.contains(expected), "{replaced:?}: {found:?}");
        }
    }
    Ok(())
}
