//! The engine against the kernel tree's own `conf`, on the real tree and on small ones: the same
//! lines in the same order with the same headings, the same warnings.
//!
//! The oracle is the tree's own code, read once and forked for each question
//! (`tests/oracle/oracle.c`); some questions go through the real `make olddefconfig` too. Every
//! seed is fixed and printed. A difference is made small and printed as the lines that show it.

mod fuzz;
mod minimise;
mod own;
mod requests;
mod small;
mod traps;
mod world;

use std::time::Instant;

use kiln::kconfig::language::Ask;

use crate::support::case::Tier;
use crate::support::dice::Dice;
use crate::support::{Case, Outcome, Stop, fail, linux};
use minimise::{minimise, smallest};
use requests::merged;
use small::Small;
use world::{World, asked_small, difference, engine};
pub use world::{newer, world};

/// Random fragments over each base.
const CASES: usize = 300;

/// Random fragments over the configuration of a newer series.
const NEWER_CASES: usize = 150;

/// The same in the full tier.
const FULL_CASES: usize = 3000;

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, base) in BASES.iter().enumerate() {
        let seed = 1 + at as u64;
        let name = format!("engine::agrees_over_{}", base.name);
        let case = Case::new(name, move || over_base(base, seed));
        // The largest configuration of all says little that the distribution's does not.
        cases.push(if base.name == "allmodconfig" {
            case.full()
        } else {
            case
        });
    }
    cases.extend([
        Case::new("engine::agrees_on_small_files", || {
            small_files(world()?, 12, 400)
        }),
        Case::new("engine::agrees_on_small_files_of_a_newer_series", || {
            small_files(newer()?.0, 13, 200)
        }),
        Case::new("engine::newer_readers_are_stricter", newer_readers),
        Case::new("engine::agrees_on_found_differences", found_differences),
        Case::new(
            "engine::planted_difference_is_found_and_made_small",
            planted,
        ),
        Case::new("engine::agrees_over_a_newer_series", over_newer),
        Case::new("engine::oracle_says_what_make_says", real_make),
        Case::new("engine::trial_is_a_full_reading", trials),
    ]);
    cases.extend(traps::cases());
    cases.extend(fuzz::cases());
    cases.extend(own::cases());
    cases
}

/// What once differed, as the lines that showed it.
const FOUND: &[(&str, &str)] = &[
    ("menuconfig A\n\tbool\n\n\nconfig B\n\tbool \"b\"\n", ""),
    ("mainmenu \" Spaced\"\nconfig A\n\tbool \" a\"\n", ""),
    ("config A\n\tbool \"a\"\nmainmenu \"t\"\n", ""),
    ("config A\n\tbool \"a\" if A\n", ""),
    ("config A\n\tbool \"a\"\n\tdefault A\n", ""),
    ("config A\n\tbool \"a\"", ""),
    ("config A\n\tbool \"a\"\n# remark", ""),
    (
        "config A\n\tbool \"a\"\n\thelp\nconfig B\n\tbool \"b\"\n",
        "",
    ),
    (
        "config A\n\tbool \"a\"\n\thelp\n\nconfig B\n\tbool \"b\"\n",
        "",
    ),
    ("config A\n\tbool \"a\"\n\thelp\n\t  x\nv := 1\n", ""),
    ("config A\n\tbool \"a\"\nv := 1\n", ""),
    ("config A\n\tbool\n\tmodules\n\tmodules\n", ""),
    (
        "choice\n\tbool \"c\"\nmenuconfig A\n\tbool \"a\"\nendchoice\n",
        "",
    ),
    (
        "config A\n\tbool\nchoice\n\tbool \"c\"\nconfig A\n\tbool \"a\"\nendchoice\n",
        "",
    ),
    (
        "choice\n\tbool \"c\"\nconfig A\n\tbool \"a\"\nconfig B\n\tbool \"b\"\nendchoice\n\
         config X\n\tbool \"x\" if B\n\tselect A\n",
        "",
    ),
    (
        "config B\n\tbool \"b\"\nconfig I\n\tint \"i\"\n\trange 0 B\n",
        "CONFIG_B=y\nCONFIG_I=9\n",
    ),
    (
        "config H\n\thex\n\tdefault 0X20\nconfig I\n\tint \"i\"\n\trange 1 H\n",
        "CONFIG_I=25\n",
    ),
    (
        "config S\n\tstring\n\tdefault \"10\"\nconfig T\n\tstring\n\tdefault \"9\"\n\
         config B\n\tbool\nconfig C\n\tdef_bool S < T\nconfig D\n\tdef_bool S > \"9\"\n\
         config E\n\tdef_bool S > B\n",
        "",
    ),
];

fn found_differences() -> Outcome {
    let world = world()?;
    for (kconfig, config) in FOUND {
        asked_small(world, kconfig, "", config)?;
    }
    Ok(())
}

/// What readers of newer series refuse: the first file and what it includes.
const REFUSED: &[(&str, &str)] = &[
    (
        "source \"Kconfig.more\"\nsource \"Kconfig.more\"\n",
        "config A\n\tdef_bool y\n",
    ),
    ("menuconfig A\n\tbool\n", ""),
    (
        "config A\n\tbool \"a\"\n\thelp\n\nconfig B\n\tbool \"b\"\n",
        "",
    ),
    ("config A\n\tbool \"a\"\n\thelp\n\t  x\n\thelp\n\t  y\n", ""),
    (
        "choice\n\tbool \"c\"\nconfig A\n\tbool \"a\"\nendchoice\n",
        "",
    ),
];

/// Each reader by its own rules, which it says in its sources.
fn newer_readers() -> Outcome {
    let (older, newer) = (world()?, newer()?.0);
    for (kconfig, more) in REFUSED {
        let answer = asked_small(older, kconfig, more, "")?;
        assert_eq!(answer.status, Some(0), "{kconfig}: {}", answer.log);
        let answer = asked_small(newer, kconfig, more, "")?;
        assert_eq!(answer.status, Some(1), "{kconfig}");
    }
    let once = REFUSED[0].0.lines().next().unwrap_or_default().to_owned() + "\n";
    let answer = asked_small(newer, &once, REFUSED[0].1, "")?;
    assert!(answer.text.contains("CONFIG_A=y"), "{}", answer.text);
    // What only the newer reader knows.
    let depends = "config B\n\tbool \"b\"\nconfig A\n\tdef_bool y\n\tdepends on n if B\n";
    let old_name = "config N\n\tbool \"n\"\n\tdefault O\nconfig O\n\tbool\n\ttransitional\n";
    for (kconfig, config, line) in [
        (depends, "", "CONFIG_A=y"),
        (depends, "CONFIG_B=y\n", "CONFIG_B=y"),
        (old_name, "CONFIG_O=y\n", "CONFIG_N=y"),
    ] {
        let answer = asked_small(newer, kconfig, "", config)?;
        assert!(
            answer.text.ends_with(&format!("{line}\n")),
            "{}",
            answer.text
        );
    }
    Ok(())
}

/// One line that only the engine gets is found, and left alone of a whole fragment.
fn planted() -> Outcome {
    let world = world()?;
    let base = linux::real_config("amd64_none_amd64")?;
    let base = lines(&base);
    let fragment = world.requests.fragment(&mut Dice::new(77));
    let mut fragment: Vec<&str> = fragment.iter().map(String::as_str).collect();
    fragment.retain(|line| !line.contains("HZ_"));
    fragment.insert(fragment.len() / 2, "CONFIG_HZ_1000=y");
    let mut model = world.model();
    let small = minimise(&fragment, |lines| {
        let honest: Vec<&str> = lines
            .iter()
            .copied()
            .filter(|line| *line != "CONFIG_HZ_1000=y")
            .collect();
        let answer = world.oracle.ask(&merged(&base, &honest))?;
        let ours = engine(&mut model, &merged(&base, lines));
        Ok(difference(&ours, &answer).is_some())
    })?;
    assert_eq!(small, ["CONFIG_HZ_1000=y"]);
    Ok(())
}

/// The oracle itself is tested: the real `make olddefconfig` leaves and says the same.
fn real_make() -> Outcome {
    let world = world()?;
    let base = linux::real_config("amd64_none_amd64")?;
    let base = lines(&base);
    let count = match tier() {
        Tier::Usual => 4,
        Tier::Full => 30,
    };
    let mut dice = Dice::new(21);
    for number in 0..count {
        let fragment = world.requests.fragment(&mut dice);
        let fragment: Vec<&str> = fragment.iter().map(String::as_str).collect();
        let config = merged(&base, &fragment);
        let made = world.tree.make_olddefconfig(&config)?;
        let mut answer = world.oracle.ask(&config)?;
        // Make was told to be silent about what it wrote.
        for end in ["configuration written to", "No change to"] {
            if let Some(at) = answer.log.find(&format!("#\n# {end} .config\n#\n")) {
                answer.log.truncate(at);
            }
        }
        if let Some(told) = difference(&made, &answer) {
            let told = told.replace("the engine", "make");
            return Err(fail(format!(
                "case {number}: {told}\n{}",
                fragment.join("\n")
            )));
        }
    }
    println!("oracle: {count} cases through make, no differences");
    Ok(())
}

/// What a trial says would change is what a full reading of the lines changes.
fn trials() -> Outcome {
    let world = world()?;
    let base = linux::real_config("amd64_none_amd64")?;
    let base_lines = lines(&base);
    let count = match tier() {
        Tier::Usual => 100,
        Tier::Full => 3000,
    };
    let (mut model, mut other) = (world.model(), world.model());
    model.read(&base);
    let before = model.lines();
    let mut dice = Dice::new(31);
    let mut changed = 0;
    for number in 0..count {
        let mut fragment = world.requests.fragment(&mut dice);
        let mut seen = std::collections::HashSet::new();
        fragment.retain(|line| {
            let name = requests::name_of(line).unwrap_or_default().to_owned();
            model.tree().find(&name).is_some() && seen.insert(name)
        });
        fragment.truncate(1 + dice.below(3));
        let asks: Vec<Ask> = fragment
            .iter()
            .filter_map(|line| {
                let name = requests::name_of(line)?;
                let off = line.starts_with('#');
                let value = if off { "n" } else { line.split_once('=')?.1 };
                let value = value.to_owned();
                let symbol = model.tree().find(name)?;
                Some(Ask { symbol, value })
            })
            .collect();
        let mut expected: std::collections::BTreeSet<String> = before.iter().cloned().collect();
        for change in model.trial(&asks) {
            changed += 1;
            if let Some(line) = &change.before {
                expected.remove(line);
            }
            expected.extend(change.after);
        }
        let fragment: Vec<&str> = fragment.iter().map(String::as_str).collect();
        other.read(&merged(&base_lines, &fragment));
        let full: std::collections::BTreeSet<String> = other.lines().into_iter().collect();
        if full != expected {
            let wrong: Vec<&String> = full.symmetric_difference(&expected).take(5).collect();
            return Err(fail(format!(
                "case {number}: {wrong:?}\n{}",
                fragment.join("\n")
            )));
        }
        if model.lines() != before {
            return Err(fail(format!(
                "case {number}: the trial left something behind"
            )));
        }
    }
    assert!(changed > count, "{changed}");
    println!("trials: {count} cases of seed 31, {changed} changed lines, no differences");
    Ok(())
}

/// Small random trees of every construct.
fn small_files(world: &World, seed: u64, usual: usize) -> Outcome {
    let count = match tier() {
        Tier::Usual => usual,
        Tier::Full => 20_000,
    };
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir()?;
    let dir = camino::Utf8Path::from_path(dir.path()).ok_or_else(|| fail("no text"))?;
    let mut differences = Vec::new();
    let (mut refused, mut broken, mut unanswered) = (0, 0, 0);
    let started = Instant::now();
    for number in 0..count {
        let small = Small::new(&mut dice, &world.tree.source);
        let conf = small.conf(&world.tree, dir)?;
        broken += usize::from(small::is_broken(&conf));
        refused += usize::from(conf.status == Some(1));
        let engine = small.engine();
        unanswered += usize::from(small::is_refused(&engine));
        if let Some(told) = small::differ(&engine, &conf) {
            // Smaller files may differ for another reason.
            let kind = (engine.status, conf.status, small::kind(&told));
            let same = |small: &Small| {
                let (engine, conf) = (small.engine(), small.conf(&world.tree, dir)?);
                let told = small::differ(&engine, &conf);
                Ok(told
                    .is_some_and(|told| (engine.status, conf.status, small::kind(&told)) == kind))
            };
            let small = smallest(small, same)?;
            let conf = small.conf(&world.tree, dir)?;
            let told = small::differ(&small.engine(), &conf).unwrap_or_default();
            differences.push(format!("case {number}: {told}\n{}", small.shown()));
            if differences.len() == 5 {
                break;
            }
        }
    }
    println!(
        "engine on small files: {count} cases of seed {seed}, {refused} refused by conf, {broken} \
         that broke it, {unanswered} \
         refused by the engine for bounds, {} differences, {} ms",
        differences.len(),
        started.elapsed().as_millis()
    );
    if differences.is_empty() {
        Ok(())
    } else {
        Err(fail(differences.join("\n\n")))
    }
}

/// A configuration that random lines are put over.
struct Base {
    name: &'static str,
    text: fn(&World) -> Result<String, Stop>,
}

const BASES: &[Base] = &[
    Base {
        name: "debian",
        text: |_| linux::real_config("amd64_none_amd64"),
    },
    Base {
        name: "debian_cloud",
        text: |_| linux::real_config("amd64_none_cloud-amd64"),
    },
    Base {
        name: "debian_rt",
        text: |_| linux::real_config("amd64_rt_amd64"),
    },
    Base {
        name: "debian_without_modules",
        text: |_| {
            let base = linux::real_config("amd64_none_amd64")?;
            Ok(merged(&lines(&base), &["# CONFIG_MODULES is not set"]))
        },
    },
    Base {
        name: "tinyconfig",
        text: |world| {
            let base = [("KCONFIG_ALLCONFIG", "kernel/configs/tiny-base.config")];
            let base = world.tree.target("allnoconfig", &base)?;
            let tiny = world.tree.source.join("kernel/configs/tiny.config");
            let tiny = std::fs::read_to_string(tiny)?;
            Ok(world
                .oracle
                .ask(&merged(&lines(&base), &lines(&tiny)))?
                .text)
        },
    },
    Base {
        name: "allnoconfig",
        text: |world| world.tree.target("allnoconfig", &[]),
    },
    Base {
        name: "allmodconfig",
        text: |world| world.tree.target("allmodconfig", &[]),
    },
    Base {
        name: "randconfig",
        text: |world| {
            world
                .tree
                .target("randconfig", &[("KCONFIG_SEED", "0x6b696c6e")])
        },
    },
];

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// The tier of this run; a setting without meaning has stopped it already.
fn tier() -> Tier {
    let setting = std::env::var("KILN_TESTS").ok();
    Tier::from_setting(setting.as_deref()).unwrap_or(Tier::Usual)
}

/// The base alone, then random lines over it.
fn over_base(base: &Base, seed: u64) -> Outcome {
    let world = world()?;
    let count = match tier() {
        Tier::Usual => CASES,
        Tier::Full => FULL_CASES,
    };
    agrees_over(world, base.name, &(base.text)(world)?, seed, count)
}

/// The same on a tree of a newer series.
fn over_newer() -> Outcome {
    let (world, base) = newer()?;
    let count = match tier() {
        Tier::Usual => NEWER_CASES,
        Tier::Full => FULL_CASES,
    };
    agrees_over(world, "a newer series", base, 41, count)
}

fn agrees_over(world: &World, name: &str, text: &str, seed: u64, count: usize) -> Outcome {
    let base_lines = lines(text);
    let mut model = world.model();
    let started = Instant::now();
    let mut dice = Dice::new(seed);
    let mut differences = Vec::new();
    for number in 0..=count {
        let fragment = if number == 0 {
            Vec::new()
        } else {
            world.requests.fragment(&mut dice)
        };
        let fragment: Vec<&str> = fragment.iter().map(String::as_str).collect();
        let way = dice.below(10);
        let put = |base: &[&str], lines: &[&str]| match way {
            // As a careless person does it: the base's own lines stay, before or after.
            0 => [base, lines].concat().join("\n"),
            1 => [lines, base].concat().join("\n") + "\n",
            _ => merged(base, lines),
        };
        let mut differs = |base: &[&str], lines: &[&str]| -> Result<Option<String>, Stop> {
            let config = put(base, lines);
            let answer = world.oracle.ask(&config)?;
            Ok(difference(&engine(&mut model, &config), &answer))
        };
        if let Some(first) = differs(&base_lines, &fragment)? {
            let small = minimise(
                &fragment,
                |lines| Ok(differs(&base_lines, lines)?.is_some()),
            )?;
            let under = minimise(&base_lines, |base| Ok(differs(base, &small)?.is_some()))?;
            let under = if under.len() > 40 { &[] } else { &*under };
            differences.push(format!(
                "seed {seed}, case {number}: {first}\n--- over {} of these lines of the base\n{}\n--- the \
                 fragment\n{}",
                under.len(),
                under.join("\n"),
                small.join("\n")
            ));
            if differences.len() == 3 {
                break;
            }
        }
    }
    println!(
        "engine over {}: {count} cases of seed {seed}, {} differences, {} ms",
        name,
        differences.len(),
        started.elapsed().as_millis()
    );
    if differences.is_empty() {
        Ok(())
    } else {
        Err(fail(differences.join("\n\n")))
    }
}
