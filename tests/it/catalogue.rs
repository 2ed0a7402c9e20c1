//! Every trap of the Kconfig language, every known way in which an option is lost in silence and
//! every pitfall of configuring has a case of its own, named in `tests/data/catalogue.txt`.

use std::collections::BTreeSet;

use crate::support::{Case, Outcome, fail};

/// The map; its head explains the form.
const MAP: &str = include_str!("../data/catalogue.txt");

/// What is counted, and up to which number.
const KINDS: [(&str, u16); 3] = [("trap", 13), ("loss", 16), ("pitfall", 14)];

/// The cases of this module. `names` are those of all other cases.
pub fn cases(names: BTreeSet<String>) -> Vec<Case> {
    vec![
        Case::new("catalogue::every_entry_has_a_case", move || {
            let found = problems(MAP, &names);
            if found.is_empty() {
                Ok(())
            } else {
                Err(fail(found.join("\n")))
            }
        }),
        Case::new("catalogue::checker_finds_planted", finds_planted),
    ]
}

fn problems(map: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut missing: BTreeSet<String> = KINDS
        .iter()
        .flat_map(|(kind, last)| (1..=*last).map(move |number| format!("{kind} {number}")))
        .collect();
    for (at, text) in map.lines().enumerate() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let place = format!("tests/data/catalogue.txt:{}", at + 1);
        let fields: Vec<&str> = text.split('|').map(str::trim).collect();
        let [entry, short, cases] = fields[..] else {
            found.push(format!(
                "{place}: expected 3 fields, found {}",
                fields.len()
            ));
            continue;
        };
        if !missing.remove(entry) {
            found.push(format!("{place}: `{entry}` is unknown or stands twice"));
        }
        if short.len() < 10 {
            found.push(format!("{place}: the line says nothing"));
        }
        for case in cases.split(',').map(str::trim) {
            if !names.contains(case) {
                found.push(format!("{place}: there is no case `{case}`"));
            }
        }
    }
    found.extend(
        missing
            .iter()
            .map(|entry| format!("`{entry}` is not mapped")),
    );
    found
}

fn finds_planted() -> Outcome {
    let names: BTreeSet<String> = MAP
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.rsplit('|').next().unwrap_or_default().split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    assert_eq!(problems(MAP, &names), Vec::<String>::new());
    let first = MAP.lines().find(|line| line.starts_with("trap 1 "));
    let first = first.ok_or_else(|| fail("no trap 1"))?;
    for (planted, told) in [
        (MAP.replace(first, ""), "`trap 1` is not mapped"),
        (
            format!("{MAP}{first}\n"),
            "`trap 1` is unknown or stands twice",
        ),
        (
            MAP.replace(first, "trap 1 | some words | a::b"),
            "no case `a::b`",
        ),
        (
            MAP.replace(first, "trap 1 | some words"),
            "expected 3 fields",
        ),
        (
            format!("{MAP}trap 14 | some words | a::b\n"),
            "`trap 14` is unknown",
        ),
    ] {
        let found = problems(&planted, &names).join("\n");
        assert!(found.contains(told), "{told}: {found}");
    }
    Ok(())
}
