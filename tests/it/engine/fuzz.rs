//! Damaged texts of the real tree: an answer or an error with its place, never a panic, never
//! without an end.
//!
//! Every damage is of a fixed seed, which a failure names together with the file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::dotconfig::DotConfig;
use kiln::kconfig::language::{Host, HostError, Model, ParseError, Tree};
use kiln::kconfig::{Fragment, merge};

use crate::support::case::Tier;
use crate::support::dice::Dice;
use crate::support::{Case, Outcome, Stop, fail, linux, tree};

/// Damaged Kconfig files, configurations and fragments, each, in the normal tier.
const CASES: usize = 1500;

/// The same in the full tier.
const FULL_CASES: usize = 40_000;

/// Lines of a configuration that are read at once: damage hits one place, wherever it stands.
const LINES: usize = 400;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("engine::damaged_kconfig_files_are_read_or_refused", kconfig),
        Case::new("engine::damaged_configurations_are_read", configurations),
        Case::new("engine::damaged_fragments_are_read_or_refused", fragments),
    ]
}

fn count() -> usize {
    match super::tier() {
        Tier::Usual => CASES,
        Tier::Full => FULL_CASES,
    }
}

/// One damaged file as the whole tree; what it includes is the real file, or damaged too, or empty.
fn kconfig() -> Outcome {
    let source = linux::real_source()?;
    let files = kconfig_files(source)?;
    let (mut read, mut refused) = (0_usize, 0_usize);
    for seed in 0..count() {
        let mut dice = Dice::new(7000 + seed as u64);
        let file = dice.pick(&files).clone();
        let text = std::fs::read_to_string(source.join(&file))?;
        let other = std::fs::read_to_string(source.join(dice.pick(&files)))?;
        let host = Damaged {
            root: damaged(&text, &other, &mut dice),
            other: if dice.percent(50) {
                damaged(&other, &text, &mut dice)
            } else {
                String::new()
            },
            answer: ANSWERS[dice.below(ANSWERS.len())],
        };
        let parsed = unharmed(&format!("{file}, seed {seed}"), || {
            let tree = Tree::parse(&host, "Kconfig")?;
            let mut model = Model::new(tree);
            model.read("CONFIG_MODULES=y\n");
            let first = model.file();
            model.read(&first);
            let _unmet = model.unmet();
            Ok::<(), ParseError>(())
        })?;
        match parsed {
            Ok(()) => read += 1,
            Err(error) => {
                refused += 1;
                let (ParseError::Text { line, .. } | ParseError::Host { line, .. }) = &error;
                assert!(*line > 0, "{file}, seed {seed}: {error}");
            }
        }
    }
    eprintln!("damaged Kconfig files: {read} read, {refused} refused with a place");
    assert!(
        read > 100 && refused > 100,
        "{read} read, {refused} refused"
    );
    Ok(())
}

/// Parts of the distribution's configuration, read by the real tree's model and by the guard's
/// reader. What the tree's model writes of them it reads again without a change.
fn configurations() -> Outcome {
    let mut model = super::world()?.model();
    let base = linux::real_config("amd64_none_amd64")?;
    let lines: Vec<&str> = base.lines().collect();
    let mut problems = 0_usize;
    for seed in 0..count() {
        let mut dice = Dice::new(8000 + seed as u64);
        let from = dice.below(lines.len() - LINES);
        let part = lines[from..from + LINES].join("\n");
        let other = lines[dice.below(lines.len())];
        let text = damaged(&part, other, &mut dice);
        let settles = unharmed(&format!("configuration, seed {seed}"), || {
            problems += DotConfig::parse(&*text).problems().len();
            // The whole tree takes longer than its lines: a few of them show enough.
            if seed % 30 != 0 {
                return true;
            }
            model.read(&text);
            let first = model.file();
            model.read(&first);
            model.file() == first
        })?;
        assert!(
            settles,
            "seed {seed}: what was written changes when it is read"
        );
    }
    eprintln!("damaged configurations: {problems} lines are pointed out");
    assert!(problems > 100, "{problems}");
    Ok(())
}

/// Each fragment that kiln ships, merged over the base where it is still one.
fn fragments() -> Outcome {
    let dir = tree::repository().join("config-fragments");
    let mut texts = Vec::new();
    for entry in dir.read_dir_utf8()? {
        let path = entry?.into_path();
        if path.extension() == Some("config") {
            texts.push(std::fs::read_to_string(&path)?);
        }
    }
    texts.sort();
    let base = DotConfig::parse("CONFIG_MODULES=y\nCONFIG_HZ_250=y\n# CONFIG_HZ_1000 is not set\n");
    let series = linux::SERIES.parse()?;
    let (mut read, mut refused) = (0_usize, 0_usize);
    for seed in 0..count() {
        let mut dice = Dice::new(9000 + seed as u64);
        let (text, other) = (dice.pick(&texts).clone(), dice.pick(&texts).clone());
        let text = damaged(&text, &other, &mut dice);
        let parsed = unharmed(&format!("fragment, seed {seed}"), || {
            let fragment = Fragment::parse("f.config", &text);
            let fragment = fragment.map_err(|error| error.to_string())?;
            // A second one that disagrees, or the same again.
            let merged = merge(&base, &[fragment.clone(), fragment], &[], series);
            Ok::<bool, String>(merged.is_ok())
        })?;
        match parsed {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                assert!(error.contains("f.config"), "seed {seed}: {error}");
            }
        }
    }
    eprintln!("damaged fragments: {read} read, {refused} refused");
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
    Ok(())
}

/// Runs `body`; a panic is a failure that names the case.
fn unharmed<T>(what: &str, body: impl FnOnce() -> T) -> Result<T, Stop> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|_| fail(format!("{what}: a panic")))
}

/// A tree whose main file is one text and whose other files are another.
struct Damaged {
    root: String,
    other: String,
    answer: &'static str,
}

impl Host for Damaged {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        Ok(match path {
            "Kconfig" => Some(self.root.clone()),
            path if path.len() % 7 == 0 => None,
            _ => Some(self.other.clone()),
        })
    }

    fn shell(&self, _command: &str) -> Result<Vec<u8>, HostError> {
        Ok(self.answer.as_bytes().to_vec())
    }

    fn env(&self, name: &str) -> Option<String> {
        (name != "ABSENT").then(|| self.answer.to_owned())
    }
}

/// Every Kconfig file of the source, below it, in a fixed order.
fn kconfig_files(source: &Utf8Path) -> Result<Vec<Utf8PathBuf>, Stop> {
    let (mut found, mut next) = (Vec::new(), vec![source.to_owned()]);
    while let Some(dir) = next.pop() {
        for entry in dir.read_dir_utf8()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.into_path());
            } else if entry.file_name().starts_with("Kconfig") {
                let path = entry.path().strip_prefix(source).map(Utf8Path::to_owned);
                found.extend(path.ok());
            }
        }
    }
    found.sort();
    if found.len() < 1000 {
        return Err(fail(format!("only {} Kconfig files", found.len())));
    }
    Ok(found)
}

/// What programs and the environment answer.
const ANSWERS: [&str; 8] = ["y", "n", "", "140200", "\"", "y\n)", "$(shell,x)", "\0"];

/// What no file holds where it is put.
const PIECES: &[&str] = &[
    "\0",
    "\u{e4}",
    "\"",
    "'",
    "\\",
    "\n",
    "\t",
    "#",
    "$",
    "$(",
    ")",
    "(",
    "$(f,",
    ",",
    "!",
    "&&",
    "||",
    "<=",
    "=",
    "+=",
    ":=",
    "if ",
    "endif\n",
    "choice\n",
    "endchoice\n",
    "menu \"x\"\n",
    "endmenu\n",
    "config ",
    "help\n",
    "\tselect ",
    "\timply ",
    "\trange 1 ",
    "source \"Kconfig\"\n",
    "99999999999999999999",
    "-1",
    "0x",
    "name = $(name)\n",
    "CONFIG_",
    " is not set",
    "# kiln: ",
];

/// One to six damages: flipped bits, cuts, pieces, many pieces, lines of elsewhere, lines twice, lines
/// in another place.
fn damaged(text: &str, other: &str, dice: &mut Dice) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=dice.below(6) {
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
        let at = dice.below(bytes.len());
        let end = (at + dice.below(400)).min(bytes.len());
        let piece = dice.pick(PIECES).as_bytes();
        match dice.below(9) {
            0 if dice.percent(20) => bytes.truncate(at),
            0 | 1 => bytes[at] ^= 1 << dice.below(8),
            2 => drop(bytes.drain(at..end)),
            3 | 4 => drop(bytes.splice(at..at, piece.iter().copied())),
            5 => drop(bytes.splice(at..at, piece.repeat(1 + dice.below(300)))),
            6 => {
                let lines: Vec<&str> = other.lines().collect();
                let from = dice.below(lines.len());
                let most = (from + 1 + dice.below(12)).min(lines.len());
                let mut part = lines[from.min(most)..most].join("\n");
                part.push('\n');
                bytes.splice(at..at, part.bytes());
            }
            _ => {
                let part = bytes[at..end].to_vec();
                if dice.percent(50) {
                    bytes.drain(at..end);
                }
                let to = dice.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
