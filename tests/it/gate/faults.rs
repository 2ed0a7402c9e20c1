//! The list of faults: each is shown by tests that exist, or says what is missing.

use std::collections::BTreeSet;

use crate::support::{Outcome, Stop, fail, tree};

const LIST: &str = include_str!("../../data/faults.txt");

/// The faults are numbered from 1 to this.
const LAST: u8 = 49;

/// Every fault is there once, and every test that is named exists. `cases` are those of this module.
pub(super) fn every_fault_is_shown(cases: &BTreeSet<String>) -> Outcome {
    let units = unit_tests()?;
    let found = problems(LIST, cases, &units);
    if found.is_empty() {
        println!("{}", summary(LIST));
        return Ok(());
    }
    Err(fail(found.join("\n")))
}

/// The names of the functions of the room's files.
fn unit_tests() -> Result<BTreeSet<String>, Stop> {
    let room = tree::repository().join("src/boot");
    let mut names = BTreeSet::new();
    for file in kiln::files::list(&room)? {
        if camino::Utf8Path::new(&file).extension() != Some("rs") {
            continue;
        }
        let text = std::fs::read_to_string(room.join(file))?;
        let functions = text.lines().filter_map(|line| {
            let (name, _) = line.trim_start().strip_prefix("fn ")?.split_once('(')?;
            Some(name.to_owned())
        });
        names.extend(functions);
    }
    Ok(names)
}

fn problems(list: &str, cases: &BTreeSet<String>, units: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [number, _fault, _behaviour, shown] = fields[..] else {
            found.push(format!("{line:?}: expected 4 fields"));
            continue;
        };
        match number.parse::<u8>() {
            Ok(number) if (1..=LAST).contains(&number) && seen.insert(number) => {}
            _ => found.push(format!("{number}: unknown, or there twice")),
        }
        for word in shown.split(", ") {
            let excuse = ["part: ", "not yet: "]
                .iter()
                .find_map(|kind| word.strip_prefix(kind));
            let is_fine = match (excuse, word.strip_prefix("unit ")) {
                (Some(text), _) => text.len() > 5,
                (None, Some(unit)) => units.contains(unit),
                (None, None) => cases.contains(word),
            };
            if !is_fine {
                found.push(format!("{number}: there is no test `{word}`"));
            }
        }
    }
    found.extend(
        (1..=LAST)
            .filter(|number| !seen.contains(number))
            .map(|number| format!("{number}: missing")),
    );
    found
}

fn summary(list: &str) -> String {
    let lines = || {
        list.lines()
            .filter(|line| line.contains(" | ") && !line.starts_with('#'))
    };
    let none = lines().filter(|line| line.contains("not yet: ")).count();
    let part = lines().filter(|line| line.contains("part: ")).count();
    let all = lines().count();
    format!(
        "{all} faults: {} shown, {part} in part, {none} not yet",
        all - none - part
    )
}

/// The twins.
pub(super) fn checker_finds_planted() -> Outcome {
    let names = |name: &str| BTreeSet::from([name.to_owned()]);
    let line = |number: u8| format!("{number} | what | right | gate::x, unit y\n");
    let good: String = (1..=LAST).map(line).collect();
    let judge = |list: &str| problems(list, &names("gate::x"), &names("y")).join("\n");
    assert_eq!(judge(&good), "");
    let first = line(1);
    for (planted, expected) in [
        (String::new(), "1: missing"),
        (line(2), "2: unknown, or there twice"),
        (line(50), "50: unknown"),
        (first.replace("::x", "::z"), "no test `gate::z`"),
        (first.replace("unit y", "unit z"), "no test `unit z`"),
        (first.replace("gate::x", "not yet: "), "no test `not yet: `"),
        (first.replace(" | right", ""), "expected 4 fields"),
    ] {
        let found = judge(&good.replacen(&first, &planted, 1));
        assert!(found.contains(expected), "{planted:?}: {found}");
    }
    Ok(())
}
