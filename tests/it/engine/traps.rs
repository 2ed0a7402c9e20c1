//! The traps of the language by name, each on the real tree, or on a few lines where no kernel's
//! tree has it: what the tree's own program makes of it is asserted, and that the engine makes the
//! same of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use super::requests::{merged, name_of};
use super::world::{World, asked, asked_small, newer, world};
use crate::support::case::{Made, made_once};
use crate::support::kconfig_tree::Answer;
use crate::support::{Case, Outcome, Stop, fail, linux};

type Body = fn() -> Outcome;

pub fn cases() -> Vec<Case> {
    let cases: [(&str, Body); 22] = [
        ("1_preempt_by_its_place_in_the_file", preempt),
        ("1_hz_off_lines_by_their_order", hz),
        ("1_a_member_is_not_selected", selected_member),
        ("1_a_member_has_its_entrys_dependency", member),
        ("2_values_are_read_by_their_start", starts),
        ("2_an_unquoted_string_is_dropped_in_silence", unquoted),
        ("2_a_trailing_blank_makes_a_remark", trailing_blank),
        ("2_an_int_with_a_leading_zero_is_invalid", octal),
        ("2_hex_is_kept_as_it_is_spelt", hex),
        ("3_imply_gives_way_to_a_value", imply),
        ("3_select_goes_over_dependencies", select),
        ("4_a_bound_takes_the_place_of_what_is_beyond", bounds),
        ("4_defaults_and_hidden_symbols_are_clamped_too", clamped),
        ("4_the_first_default_over_all_entries", first_default),
        ("5_without_modules", without_modules),
        ("6_an_undefined_symbol_is_its_name", undefined),
        ("7_visible_if_reaches_prompts_only", visible_if),
        ("7_a_condition_reaches_its_own_entry", own_entry),
        ("8_each_symbol_is_written_once", written_once),
        ("9_a_transitional_symbol_is_read_only", transitional),
        ("12_m_on_a_bool_that_was_on", module_on_a_bool),
        ("13_warnings_stop_nothing", warnings),
    ];
    let mut cases: Vec<Case> = cases
        .into_iter()
        .map(|(name, body)| Case::new(format!("engine::trap_{name}"), body))
        .collect();
    cases.push(Case::new("engine::trap_10_rustc_on_the_path", rustc));
    cases.push(Case::new(
        "engine::trap_11_an_error_of_the_tree_stops",
        error_if,
    ));
    cases
}

const FLAVOUR: &str = "amd64_none_amd64";

/// What both make of a configuration; where they differ, the case fails.
fn both(world: &World, config: &str) -> Result<Answer, Stop> {
    asked(world, &mut world.model(), config)
}

/// The distribution's configuration.
fn base() -> Result<&'static str, Stop> {
    static BASE: Made<String> = OnceLock::new();
    made_once(&BASE, || linux::real_config(FLAVOUR)).map(String::as_str)
}

/// What both make of these lines over it, put as the merge puts them.
fn over(lines: &str) -> Result<Answer, Stop> {
    let (base, lines): (Vec<&str>, Vec<&str>) =
        (base()?.lines().collect(), lines.lines().collect());
    both(world()?, &merged(&base, &lines))
}

/// The base without its lines about some symbols.
fn without(names: &[&str]) -> Result<String, Stop> {
    let kept = base()?
        .lines()
        .filter(|line| name_of(line).is_none_or(|name| !names.contains(&name)));
    Ok(kept.map(|line| line.to_owned() + "\n").collect())
}

/// What both make of a small tree.
fn few(kconfig: &str, config: &str) -> Result<Answer, Stop> {
    asked_small(world()?, kconfig, "", config)
}

/// The values of some symbols, `-` for one that has no line.
fn values<'a>(answer: &'a Answer, names: &[&str]) -> Vec<&'a str> {
    let of = |name: &&str| {
        let line = answer.text.lines().find(|line| name_of(line) == Some(name));
        line.map_or("-", |line| {
            line.split_once('=').map_or("n", |(_, value)| value)
        })
    };
    names.iter().map(of).collect()
}

fn preempt() -> Outcome {
    let (world, base) = (world()?, without(&["PREEMPT"])?);
    let names = ["PREEMPT", "PREEMPT_VOLUNTARY"];
    let before = both(world, &format!("CONFIG_PREEMPT=y\n{base}"))?;
    assert_eq!(values(&before, &names), ["n", "y"]);
    let after = both(world, &format!("{base}CONFIG_PREEMPT=y\n"))?;
    assert_eq!(values(&after, &names), ["y", "n"]);
    Ok(())
}

/// All members off: the one whose line comes first. One without a line: that one. None: the default.
fn hz() -> Outcome {
    let members = ["HZ_100", "HZ_250", "HZ_300", "HZ_1000"];
    let base = without(&members)?;
    for (off, hz) in [
        (vec!["100", "250", "300", "1000"], "100"),
        (vec!["1000", "300", "250", "100"], "1000"),
        (vec!["300", "100", "1000", "250"], "300"),
        (vec!["250", "1000", "100"], "300"),
        (vec!["250"], "100"),
        (vec![], "250"),
    ] {
        let lines = off
            .iter()
            .map(|hz| format!("# CONFIG_HZ_{hz} is not set\n"));
        let config = base.clone() + &lines.collect::<String>();
        let answer = both(world()?, &config)?;
        assert_eq!(values(&answer, &["HZ"]), [hz], "{off:?}");
    }
    Ok(())
}

fn selected_member() -> Outcome {
    let kconfig = "config S\n\tdef_bool y\n\tselect B\n\nchoice\n\tprompt \"c\"\nconfig A\n\tbool \"a\"\n\
                   config B\n\tbool \"b\"\nendchoice\n";
    assert_eq!(
        values(&few(kconfig, "")?, &["S", "A", "B"]),
        ["y", "y", "n"]
    );
    Ok(())
}

fn member() -> Outcome {
    let world = world()?;
    let answer = over("CONFIG_PREEMPT_RT=y\n")?;
    assert_eq!(values(&answer, &["PREEMPT_RT"]), ["y"]);
    let answer = over("CONFIG_PREEMPT_RT=y\n# CONFIG_EXPERT is not set\n")?;
    let names = ["PREEMPT_RT", "PREEMPT_VOLUNTARY"];
    assert_eq!(values(&answer, &names), ["-", "y"]);
    let model = world.model();
    let tree = model.tree();
    let symbol = tree.symbol(tree.find("PREEMPT_RT").expect("a symbol of the tree"));
    assert!(symbol.choice.is_some() && symbol.direct.is_empty());
    Ok(())
}

fn starts() -> Outcome {
    for (value, tristate, bool) in [
        ("mauve", "m", "n"),
        ("yes", "y", "y"),
        ("never", "n", "n"),
        ("1", "n", "n"),
    ] {
        let answer = over(&format!(
            "CONFIG_PTP_1588_CLOCK_MOCK={value}\nCONFIG_DEBUG_PREEMPT={value}\n\
             CONFIG_SCHED_CORE={value}\n"
        ))?;
        let names = ["PTP_1588_CLOCK_MOCK", "SCHED_CORE"];
        assert_eq!(values(&answer, &names), [tristate, bool], "{value}");
    }
    Ok(())
}

fn unquoted() -> Outcome {
    let answer = over("CONFIG_DEFAULT_HOSTNAME=forge\n")?;
    assert_eq!(values(&answer, &["DEFAULT_HOSTNAME"]), ["\"(none)\""]);
    assert!(!answer.log.contains("DEFAULT_HOSTNAME"), "{}", answer.log);
    let answer = over("CONFIG_DEFAULT_HOSTNAME=\"forge\"\n")?;
    assert_eq!(values(&answer, &["DEFAULT_HOSTNAME"]), ["\"forge\""]);
    Ok(())
}

fn trailing_blank() -> Outcome {
    let answer = over("# CONFIG_E1000E is not set \n")?;
    assert_eq!(values(&answer, &["E1000E"]), ["m"]);
    let answer = over("# CONFIG_E1000E is not set\n")?;
    assert_eq!(values(&answer, &["E1000E"]), ["n"]);
    Ok(())
}

fn octal() -> Outcome {
    let answer = over("CONFIG_LOG_BUF_SHIFT=014\n")?;
    assert_eq!(values(&answer, &["LOG_BUF_SHIFT"]), ["17"]);
    let told = "symbol value '014' invalid for LOG_BUF_SHIFT";
    assert!(answer.log.contains(told), "{}", answer.log);
    let answer = over("CONFIG_LOG_BUF_SHIFT=14\n")?;
    assert_eq!(values(&answer, &["LOG_BUF_SHIFT"]), ["14"]);
    Ok(())
}

fn hex() -> Outcome {
    for spelt in [
        "2000000",
        "0x2000000",
        "0X2000000",
        "0x02000000",
        "0xAb00000",
    ] {
        let answer = over(&format!("CONFIG_PHYSICAL_START={spelt}\n"))?;
        assert_eq!(values(&answer, &["PHYSICAL_START"]), [spelt]);
    }
    let answer = over("CONFIG_PHYSICAL_START=0xg\n")?;
    assert_eq!(values(&answer, &["PHYSICAL_START"]), ["0x1000000"]);
    Ok(())
}

fn imply() -> Outcome {
    let world = world()?;
    let names = ["EDAC_AMD64", "AMD_ATL"];
    let answer = both(world, &without(&["AMD_ATL"])?)?;
    assert_eq!(values(&answer, &names), ["m", "m"]);
    let answer = over("# CONFIG_AMD_ATL is not set\n")?;
    assert_eq!(values(&answer, &names), ["m", "n"]);
    // What it needs holds for an implied one too.
    let unmet = without(&["AMD_ATL", "MEMORY_FAILURE"])? + "# CONFIG_MEMORY_FAILURE is not set\n";
    assert_eq!(values(&both(world, &unmet)?, &names), ["m", "n"]);
    Ok(())
}

fn select() -> Outcome {
    let answer = over("# CONFIG_SERIO_I8042 is not set\n")?;
    assert_eq!(values(&answer, &["SERIO_I8042"]), ["y"]);
    let kconfig = "config A\n\tbool \"a\"\n\tselect B\nconfig B\n\tbool \"b\"\n\tdepends on C\n\
                   config C\n\tbool \"c\"\n";
    let answer = few(kconfig, "CONFIG_A=y\n")?;
    assert_eq!(values(&answer, &["A", "B", "C"]), ["y", "y", "n"]);
    let told = "WARNING: unmet direct dependencies detected for B";
    assert!(answer.log.contains(told), "{}", answer.log);
    Ok(())
}

fn bounds() -> Outcome {
    for (asked, symbol, got) in [
        ("CONFIG_LOG_BUF_SHIFT=99\n", "LOG_BUF_SHIFT", "25"),
        ("CONFIG_LOG_BUF_SHIFT=1\n", "LOG_BUF_SHIFT", "12"),
        // Bounds that are symbols.
        ("CONFIG_ARCH_MMAP_RND_BITS=99\n", "ARCH_MMAP_RND_BITS", "32"),
        ("CONFIG_ARCH_MMAP_RND_BITS=1\n", "ARCH_MMAP_RND_BITS", "28"),
        (
            "# CONFIG_MAXSMP is not set\nCONFIG_NR_CPUS=9999\n",
            "NR_CPUS",
            "512",
        ),
        (
            "# CONFIG_MAXSMP is not set\nCONFIG_NR_CPUS=1\n",
            "NR_CPUS",
            "2",
        ),
    ] {
        let answer = over(asked)?;
        assert_eq!(values(&answer, &[symbol]), [got], "{asked}");
        assert!(!answer.log.contains(symbol), "{}", answer.log);
    }
    // The bound's text as it stands, not its number.
    let kconfig = "config I\n\thex \"i\"\n\trange 0x0A 0X20\n\tdefault 0x10\n";
    let answer = few(kconfig, "CONFIG_I=0x99\n")?;
    assert_eq!(values(&answer, &["I"]), ["0X20"]);
    Ok(())
}

fn clamped() -> Outcome {
    let kconfig = "config W\n\tbool \"w\"\nconfig H\n\tint\n\trange 5 9\n\tdefault 500\n\
                   config I\n\tint \"i\"\n\trange 1 4 if W\n\trange 6 8\n\tdefault 5\n";
    assert_eq!(values(&few(kconfig, "")?, &["H", "I"]), ["9", "6"]);
    let answer = few(kconfig, "CONFIG_W=y\n")?;
    assert_eq!(values(&answer, &["H", "I"]), ["9", "4"]);
    Ok(())
}

/// `NR_CPUS_RANGE_END` has two entries, the first for 32-bit kernels.
fn first_default() -> Outcome {
    let names = ["NR_CPUS_RANGE_BEGIN", "NR_CPUS_RANGE_END"];
    assert_eq!(
        values(&over("CONFIG_MAXSMP=y\n")?, &names),
        ["8192", "8192"]
    );
    let answer = over("# CONFIG_MAXSMP is not set\n")?;
    assert_eq!(values(&answer, &names), ["2", "512"]);
    let (model, name) = (world()?.model(), names[1]);
    let tree = model.tree();
    let end = tree.symbol(tree.find(name).expect("a symbol of the tree"));
    assert_eq!((end.nodes.len(), end.defaults.len()), (2, 6));
    Ok(())
}

fn without_modules() -> Outcome {
    let names = ["E1000E", "TEST_LKM", "EXT4_FS", "EXT4_FS_SECURITY"];
    let answer = over("CONFIG_E1000E=m\nCONFIG_TEST_LKM=y\n")?;
    // `depends on m`, and a bool on top of a module.
    assert_eq!(values(&answer, &names), ["m", "m", "m", "y"]);
    let answer = over("# CONFIG_MODULES is not set\nCONFIG_E1000E=m\nCONFIG_TEST_LKM=m\n")?;
    assert_eq!(values(&answer, &names), ["y", "-", "y", "y"]);
    let answer = over("CONFIG_E1000E=m\nCONFIG_MODULES=n\n")?;
    assert_eq!(values(&answer, &["E1000E"]), ["y"]);
    Ok(())
}

/// `default N` of the real tree is the value of a symbol that nobody defines.
fn undefined() -> Outcome {
    let answer = both(world()?, &without(&["AMD_ATL", "EDAC_AMD64"])?)?;
    assert_eq!(values(&answer, &["AMD_ATL"]), ["n"]);
    assert_eq!(values(&answer, &["UML"]), ["-"]);
    let kconfig = "config A\n\tdef_bool FOO = n\nconfig B\n\tdef_bool !FOO\nconfig C\n\
                   \tdef_bool FOO = \"FOO\"\nconfig D\n\tdef_bool 0x10 = 16\n";
    let answer = few(kconfig, "")?;
    assert_eq!(values(&answer, &["A", "B", "C", "D"]), ["-", "y", "y", "y"]);
    Ok(())
}

fn visible_if() -> Outcome {
    let off = "# CONFIG_VIDEO_DEV is not set\n";
    assert_eq!(values(&over(off)?, &["VIDEO_DEV"]), ["n"]);
    // Its prompt hidden, its line is not heard; its default and what it needs stay.
    let answer = over(&format!("{off}CONFIG_MEDIA_SUPPORT_FILTER=y\n"))?;
    assert_eq!(values(&answer, &["VIDEO_DEV"]), ["m"]);
    Ok(())
}

fn own_entry() -> Outcome {
    let kconfig = "config A\n\tbool \"a\"\nif A\nconfig X\n\tbool \"x\"\n\tselect Y\nendif\n\
                   config X\n\tbool\n\tdefault y\nconfig Y\n\tbool\n";
    let names = ["A", "X", "Y"];
    assert_eq!(values(&few(kconfig, "")?, &names), ["n", "y", "-"]);
    assert_eq!(
        values(&few(kconfig, "CONFIG_A=y\n")?, &names),
        ["y", "y", "y"]
    );
    Ok(())
}

/// The order is that of both answers, which are the same.
fn written_once() -> Outcome {
    let answer = over("CONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT_DYNAMIC is not set\n")?;
    let mut names: Vec<&str> = answer.text.lines().filter_map(name_of).collect();
    let lines = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), lines);
    // Hidden and off: no line. Asked for and off: a line.
    let names = ["PREEMPT_BUILD", "PREEMPTION", "PREEMPT_DYNAMIC"];
    assert_eq!(values(&answer, &names), ["-", "-", "n"]);
    Ok(())
}

/// Of 6.18 and later; `RANDOM_KMALLOC_CACHES` became `KMALLOC_PARTITION_CACHES`.
fn transitional() -> Outcome {
    let (world, base) = newer()?;
    let base: Vec<&str> = base
        .lines()
        .filter(|line| name_of(line) != Some("KMALLOC_PARTITION_CACHES"))
        .collect();
    let names = ["RANDOM_KMALLOC_CACHES", "KMALLOC_PARTITION_CACHES"];
    for (value, became) in [("y", "y"), ("n", "n")] {
        let line = format!("CONFIG_RANDOM_KMALLOC_CACHES={value}");
        let answer = both(world, &merged(&base, &[&line]))?;
        assert_eq!(values(&answer, &names), ["-", became]);
    }
    Ok(())
}

/// The programs that the tree asks are input: a rustc on the PATH gives other values than none, and
/// Debian's configuration differs by them.
fn rustc() -> Outcome {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("rustc");
    let text =
        "#!/bin/sh\necho 'rustc 1.78.0 (9b00956e5 2024-04-29)'\necho 'LLVM version: 18.1.2'\n";
    std::fs::write(&program, text)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let names = ["RUSTC_VERSION", "RUSTC_LLVM_VERSION"];
    for (rustc, expected) in [
        (Path::new("/nonexistent"), ["0", "0"]),
        (&program, ["107800", "180102"]),
    ] {
        let rustc = rustc.to_str().ok_or_else(|| fail("no text"))?;
        let world = World::new(world()?.tree.with("RUSTC", rustc))?;
        let answer = both(&world, base()?)?;
        assert_eq!(values(&answer, &names), expected);
    }
    Ok(())
}

fn error_if() -> Outcome {
    let answer = few("$(error-if,y,this compiler is not supported.)\n", "")?;
    assert_eq!(answer.status, Some(1));
    assert!(answer.log.contains("this compiler is not supported."));
    let answer = few("$(error-if,n,not said)\nconfig A\n\tdef_bool y\n", "")?;
    assert_eq!(values(&answer, &["A"]), ["y"]);
    Ok(())
}

/// The merge took the base's line out, so its default applies, where there is one.
fn module_on_a_bool() -> Outcome {
    let answer = over("CONFIG_SCHED_AUTOGROUP=m\nCONFIG_X86_AMD_PSTATE=m\n")?;
    let names = ["SCHED_AUTOGROUP", "X86_AMD_PSTATE"];
    assert_eq!(values(&answer, &names), ["n", "y"]);
    for name in names {
        let told = format!("symbol value 'm' invalid for {name}");
        assert_eq!(answer.log.matches(&told).count(), 1, "{}", answer.log);
    }
    Ok(())
}

/// A base of another series, and lines that are none.
fn warnings() -> Outcome {
    let text = "garbage\nCONFIG_GONE_FOR_LONG=y\nCONFIG_HZ_1000=y\nCONFIG_HZ_1000=y\n";
    let answer = over(text)?;
    assert_eq!(answer.status, Some(0));
    assert_eq!(values(&answer, &["HZ"]), ["1000"]);
    for told in [
        "unexpected data: garbage",
        "unknown symbol: GONE_FOR_LONG",
        "reassigning",
    ] {
        assert!(answer.log.contains(told), "{told}: {}", answer.log);
    }
    Ok(())
}
