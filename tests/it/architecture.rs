//! The shape of the code, held by a table: which room may import which, which file may name which
//! crate, who reads the time and who starts programs.

mod planted;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use table::{
    BUILDER, CRATES, FACTS, LONG_FILES, MOST_LINES, PROOFS, PROVEN, ROOMS, Room, STARTERS, TOOLS,
};

use crate::support::rust_source::{Source, Token};
use crate::support::{Case, Outcome, fail, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("architecture::rooms_keep_one_way", || holds(rooms)),
        Case::new("architecture::rooms_checker_finds_planted", planted::rooms),
        Case::new("architecture::facts_touch_nothing", || holds(facts)),
        Case::new("architecture::facts_checker_finds_planted", planted::facts),
        Case::new("architecture::crates_stay_in_their_files", || holds(crates)),
        Case::new(
            "architecture::crates_checker_finds_planted",
            planted::crates,
        ),
        Case::new("architecture::one_reader_of_time", || holds(time)),
        Case::new("architecture::time_checker_finds_planted", planted::time),
        Case::new("architecture::one_giver_of_final_names", || {
            holds(final_names)
        }),
        Case::new(
            "architecture::final_names_checker_finds_planted",
            planted::final_names,
        ),
        Case::new("architecture::one_runner_of_programs", || holds(programs)),
        Case::new(
            "architecture::programs_checker_finds_planted",
            planted::programs,
        ),
        Case::new("architecture::mod_files_only_declare", || holds(mod_files)),
        Case::new(
            "architecture::mod_checker_finds_planted",
            planted::mod_files,
        ),
        Case::new("architecture::proofs_stay_closed", || holds(proofs)),
        Case::new(
            "architecture::proofs_checker_finds_planted",
            planted::proofs,
        ),
        Case::new("architecture::binaries_are_thin", || holds(binaries)),
        Case::new(
            "architecture::binaries_checker_finds_planted",
            planted::binaries,
        ),
        Case::new("architecture::files_are_short", files_are_short),
        Case::new("architecture::table_has_one_way", table_has_one_way),
    ]
}

/// A rule: reads one file and tells what breaks it, each as `file:line: what`.
type Rule = fn(&Source) -> Vec<String>;

/// Every file of `src/`, read once.
fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let files = tree::rust_files("src").unwrap_or_default();
        files
            .iter()
            .map(|(file, text)| Source::new(file, text))
            .collect()
    })
}

fn holds(rule: Rule) -> Outcome {
    let sources = sources();
    assert!(sources.len() > 5, "the sources were not found");
    let broken: Vec<String> = sources.iter().flat_map(rule).collect();
    if broken.is_empty() {
        Ok(())
    } else {
        Err(fail(broken.join("\n")))
    }
}

fn find_room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// The room that a file belongs to; none for the crate root and the programs.
fn room_of(file: &str) -> Option<&str> {
    let inside = file.strip_prefix("src/").unwrap_or(file);
    if matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") {
        return None;
    }
    let first = inside.split('/').next().unwrap_or(inside);
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

fn rooms(source: &Source) -> Vec<String> {
    let Some(name) = room_of(&source.file) else {
        return Vec::new();
    };
    let Some(room) = find_room(name) else {
        return vec![format!(
            "{}:1: room `{name}` is not in the table",
            source.file
        )];
    };
    let mut broken = Vec::new();
    for path in source.paths() {
        if path.segments[0] != "crate" {
            continue;
        }
        let target = path.segments.get(1).map_or("*", String::as_str);
        let verdict = may_import(room, target, path.segments.get(2).map(String::as_str));
        if let Err(why) = verdict {
            broken.push(format!(
                "{}:{}: `{}`: {why}",
                source.file,
                path.line,
                path.text()
            ));
        }
    }
    broken
}

fn may_import(room: &Room, target: &str, item: Option<&str>) -> Result<(), String> {
    if target == room.name || room.may.contains(&target) {
        return Ok(());
    }
    let Some(other) = find_room(target) else {
        return Err(format!("`{target}` is not a room of the table"));
    };
    let whole = match room.level {
        0 => false,
        1 => other.level == 0,
        3 if room.pure => other.level == 0,
        3 => other.level <= 1,
        _ => other.level < room.level,
    };
    if whole {
        return Ok(());
    }
    let proven = PROVEN
        .iter()
        .find(|(from, to, _)| *from == room.name && *to == target);
    match proven {
        Some((_, _, types)) if item.is_some_and(|item| types.contains(&item)) => Ok(()),
        Some((_, _, types)) => Err(format!(
            "room `{}` may take only {} from `{target}`",
            room.name,
            types.join(", ")
        )),
        None => Err(format!(
            "room `{}` (level {}) must not import `{target}` (level {})",
            room.name, room.level, other.level
        )),
    }
}

/// Whether a file is this one, or below this directory (which ends in a slash).
fn is_in(file: &str, place: &str) -> bool {
    file == place || (place.ends_with('/') && file.starts_with(place))
}

fn facts(source: &Source) -> Vec<String> {
    let room = room_of(&source.file).and_then(find_room);
    if !room.is_some_and(|room| room.pure) {
        return Vec::new();
    }
    let worldly = |segments: &[String]| match segments[0].as_str() {
        "std" => matches!(
            segments.get(1).map_or("*", String::as_str),
            "fs" | "process" | "net" | "env" | "time" | "thread" | "*"
        ),
        "rustix" | "tempfile" | "duct" | "reqwest" | "signal_hook" | "libc" => true,
        _ => false,
    };
    source
        .paths()
        .iter()
        .filter(|path| !path.test && worldly(&path.segments))
        .map(|path| {
            format!(
                "{}:{}: `{}` in a room of facts",
                source.file,
                path.line,
                path.text()
            )
        })
        .collect()
}

fn crates(source: &Source) -> Vec<String> {
    let mut broken = Vec::new();
    for path in source.paths() {
        let Some((name, files)) = CRATES.iter().find(|(name, _)| path.segments[0] == *name) else {
            continue;
        };
        let allowed = files.iter().any(|place| is_in(&source.file, place));
        if !allowed {
            broken.push(format!(
                "{}:{}: crate `{name}` belongs only to {}",
                source.file,
                path.line,
                files.join(", ")
            ));
        }
    }
    broken
}

fn time(source: &Source) -> Vec<String> {
    if source.file == "src/clock.rs" {
        return Vec::new();
    }
    let tokens = &source.tokens;
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    // Every instant starts there; how long ago one was may be asked anywhere.
    let reads = |at: usize| {
        matches!(text(at), "Instant" | "SystemTime" | "Timestamp" | "Zoned")
            && text(at + 1) == "::"
            && text(at + 2) == "now"
    };
    (0..tokens.len())
        .filter(|at| !source.test[*at] && reads(*at))
        .map(|at| {
            format!(
                "{}:{}: the time is read outside src/clock.rs",
                source.file, tokens[at].line
            )
        })
        .collect()
}

/// A temporary file gets its final name by what makes both durable, and by nothing else.
fn final_names(source: &Source) -> Vec<String> {
    if source.file == "src/files.rs" {
        return Vec::new();
    }
    let tokens = &source.tokens;
    (1..tokens.len())
        .filter(|at| !source.test[*at] && tokens[at - 1].text == ".")
        .filter(|at| matches!(&*tokens[*at].text, "persist" | "persist_noclobber"))
        .map(|at| {
            let (line, name) = (tokens[at].line, &tokens[at].text);
            format!(
                "{}:{line}: `{name}` outside src/files.rs, which makes it durable",
                source.file
            )
        })
        .collect()
}

fn programs(source: &Source) -> Vec<String> {
    if STARTERS.iter().any(|(place, _)| is_in(&source.file, place)) {
        return Vec::new();
    }
    let starts = |segments: &[String]| {
        segments
            .windows(2)
            .any(|pair| pair[0] == "process" && matches!(&*pair[1], "Command" | "*"))
            && segments[0] != "crate"
    };
    source
        .paths()
        .iter()
        .filter(|path| !path.test && starts(&path.segments))
        .map(|path| {
            format!(
                "{}:{}: programs are started by src/command",
                source.file, path.line
            )
        })
        .collect()
}

/// Words that start an item with content of its own.
const LOGIC: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "const",
    "static",
    "type",
    "macro_rules",
    "union",
];

fn mod_files(source: &Source) -> Vec<String> {
    if !source.file.ends_with("/mod.rs") && source.file != "src/lib.rs" {
        return Vec::new();
    }
    source
        .tokens
        .iter()
        .zip(&source.test)
        .filter(|(token, test)| !**test && token.word && LOGIC.contains(&token.text.as_str()))
        .map(|(token, _)| {
            format!(
                "{}:{}: `{}` in a file that only declares and re-exports",
                source.file, token.line, token.text
            )
        })
        .collect()
}

fn proofs(source: &Source) -> Vec<String> {
    let Some(room) = room_of(&source.file) else {
        return Vec::new();
    };
    let tokens = &source.tokens;
    let mut broken = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        let name = tokens[at + 1].text.as_str();
        if tokens[at].text != "struct" || !PROOFS.contains(&(room, name)) {
            continue;
        }
        let complaint =
            |line: usize, what: &str| format!("{}:{line}: `{name}` {what}", source.file);
        for token in attributes_before(tokens, at) {
            if matches!(token.text.as_str(), "Deserialize" | "Default") {
                broken.push(complaint(
                    token.line,
                    &format!("is a proof: no `{}`", token.text),
                ));
            }
        }
        let body = tokens[at..]
            .iter()
            .skip_while(|token| !matches!(&*token.text, "{" | "(" | ";"));
        let body = body.take_while(|token| !matches!(&*token.text, "}" | ";"));
        for token in body.filter(|token| token.text == "pub") {
            broken.push(complaint(token.line, "is a proof: its fields are private"));
        }
    }
    broken
}

/// The tokens between the end of the item before and this one.
fn attributes_before(tokens: &[Token], at: usize) -> &[Token] {
    let start = tokens[..at]
        .iter()
        .rposition(|token| matches!(token.text.as_str(), "}" | ";"))
        .map_or(0, |end| end + 1);
    &tokens[start..at]
}

fn binaries(source: &Source) -> Vec<String> {
    if source.file != "src/main.rs" && !source.file.starts_with("src/bin/") {
        return Vec::new();
    }
    let own = |path: &[String]| path[0] == "kiln" && path.get(1).is_none_or(|room| room != "cli");
    let mut broken: Vec<String> = source
        .paths()
        .iter()
        .filter(|path| own(&path.segments))
        .map(|path| {
            format!(
                "{}:{}: a program calls only kiln::cli",
                source.file, path.line
            )
        })
        .collect();
    let functions = source
        .tokens
        .iter()
        .filter(|token| token.text == "fn")
        .count();
    if functions > 1 {
        broken.push(format!(
            "{}:1: a program has one function, this has {functions}",
            source.file
        ));
    }
    broken
}

fn files_are_short() -> Outcome {
    let mut lines: Vec<(String, usize)> = sources()
        .iter()
        .map(|source| (source.file.clone(), own_lines(source)))
        .collect();
    let tests = tree::rust_files("tests")?;
    lines.extend(
        tests
            .into_iter()
            .map(|(file, text)| (file, text.lines().count())),
    );
    let broken: Vec<String> = lines
        .iter()
        .filter_map(|(file, lines)| {
            let excused = LONG_FILES.iter().any(|(name, _)| name == file);
            match (*lines > MOST_LINES, excused) {
                (true, false) => Some(format!("{file}: {lines} lines, at most {MOST_LINES}")),
                (false, true) => Some(format!("{file}: {lines} lines need no excuse any more")),
                (true, true) | (false, false) => None,
            }
        })
        .collect();
    if broken.is_empty() {
        Ok(())
    } else {
        Err(fail(broken.join("\n")))
    }
}

/// The lines of a file without its unit tests.
fn own_lines(source: &Source) -> usize {
    let test_lines: BTreeSet<usize> = source
        .tokens
        .iter()
        .zip(&source.test)
        .filter(|(_, test)| **test)
        .map(|(token, _)| token.line)
        .collect();
    match (test_lines.first(), test_lines.last()) {
        (Some(first), Some(last)) => source.lines - (last - first + 1),
        _ => source.lines,
    }
}

/// The table itself: names are unique, and facts and builder rooms form no ring. The tools of
/// level 1 may lean on each other (a sandbox is a value that the runner takes, and probing for one
/// runs a program).
fn table_has_one_way() -> Outcome {
    let place: BTreeMap<&str, usize> = ROOMS
        .iter()
        .enumerate()
        .map(|(at, room)| (room.name, at))
        .collect();
    assert_eq!(place.len(), ROOMS.len(), "a room stands twice in the table");
    for room in ROOMS {
        for target in room.may {
            let other = find_room(target).unwrap_or_else(|| panic!("{target} is no room"));
            let earlier = place[target] < place[room.name];
            assert!(
                earlier || (room.level == 1 && other.level == 1),
                "{} -> {target}",
                room.name
            );
            assert!(
                other.level <= room.level,
                "{} -> {target} leads upwards",
                room.name
            );
        }
    }
    for (room, left, _) in PROVEN {
        assert!(
            place[left] < place[room],
            "{room} takes proofs from its right: {left}"
        );
    }
    for name in FACTS.iter().chain(TOOLS).chain(BUILDER) {
        assert!(place.contains_key(name), "{name} is not in the table");
    }
    Ok(())
}
