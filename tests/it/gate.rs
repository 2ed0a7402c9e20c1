//! The boot gate's text in real GRUB under QEMU. The number in a case's name is that of the fault in
//! `tests/data/faults.txt`.

mod again;
mod build;
mod crash;
mod faults;
mod node;
mod packages;
mod probation;
mod rehearsal;

use std::fmt::Write as _;

use kiln::boot::block::{Block, Generation, Outcome, SIZE, Slot, Trial};
use kiln::boot::grub;
use kiln::boot::state::{Role, Why, foretell};
use kiln::command::{Cmd, Tool};

use crate::support::dice::Dice;
use crate::support::grub::{Ended, Files, Machine, kernel, parts};
use crate::support::{Case, Env, Outcome as Ending, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = grub_cases();
    cases.extend(node::cases());
    cases.extend(rehearsal::cases());
    cases.extend(build::cases());
    cases.extend(packages::cases());
    cases.extend(probation::cases());
    cases.extend(again::cases());
    cases.extend(crash::cases());
    let names = cases.iter().map(|case| case.name().to_owned()).collect();
    cases.extend([
        Case::new(
            "gate::every_fault_is_shown_or_says_what_is_missing",
            move || faults::every_fault_is_shown(&names),
        ),
        Case::new(
            "gate::checker_of_faults_finds_planted",
            faults::checker_finds_planted,
        ),
    ]);
    cases
}

fn grub_cases() -> Vec<Case> {
    vec![
        Case::new("gate::texts_are_clean", texts_are_clean),
        Case::new("gate::units_are_clean", units_are_clean),
        Case::new("gate::01_02_03_trial_that_dies_is_tried_twice", tried_twice),
        Case::new("gate::01_stable_node_writes_nothing", stable),
        Case::new("gate::04_power_cut_before_the_entry", cut_in_grub),
        Case::new("gate::13_14_15_damaged_state_boots_good", damaged_state),
        Case::new("gate::15_27_good_slot_gone_is_last_resort", last_resort),
        Case::new("gate::16_17_48_blocks_are_read_as_foretold", as_foretold),
        Case::new("gate::18_nothing_is_tried_uncounted", read_only),
        Case::new("gate::23_24_trial_that_cannot_be_loaded", not_loaded),
        Case::new("gate::24_trial_whose_initrd_does_not_fit", late_failure),
        Case::new("gate::28_no_kernel_at_all_is_no_prompt", no_kernel),
        Case::new("gate::34_update_grub_changes_nothing", update_grub),
        Case::new("gate::35_grub_cfg_cut_short", cut_short),
        Case::new("gate::41_noise_on_the_serial_line", noise),
        Case::new("gate::41_noise_stops_a_stock_menu", noise_twin).full(),
        Case::new("gate::42_person_at_the_menu", person),
        Case::new("gate::01_18_23_signed_grub_on_fat", signed_on_fat).heavy(),
    ]
}

/// Slot `b` on trial.
fn armed(left: u8) -> Block {
    Block {
        generation: Generation(0x17),
        trial: Some(Trial { left }),
        ..Block::stable(Generation(0), Slot::A)
    }
}

fn armed_node() -> Result<Files, Stop> {
    Files::node(&armed(2))
}

fn texts_are_clean() -> Ending {
    let Ok(check) = Tool::find("grub-script-check") else {
        return Err(skip("grub-script-check is not installed"));
    };
    let env = Env::new()?;
    let judge = |text: &str| -> Result<bool, Stop> {
        let path = env.write("text.cfg", text)?;
        Ok(Cmd::new(&check).arg(path.as_str()).run().is_ok())
    };
    let entry = grub::entry(Slot::B, "root=UUID=1-2 ro console=ttyS0,115200n8");
    for text in [
        grub::GATE,
        grub::printed(grub::FIRST),
        grub::printed(grub::LAST),
        &entry,
    ] {
        assert!(judge(text)?, "{text}");
    }
    assert!(!judge(&grub::GATE[..grub::GATE.len() - 4])?);
    Ok(())
}

/// Twice the trial, each counted by one byte of the whole disk; then good, and nothing is written
/// any more.
fn tried_twice() -> Ending {
    let machine = Machine::bios(&armed_node()?)?;
    for (expected, left, changed) in [
        ("b trial counted 1", 1, 1),
        ("b trial counted 0", 0, 1),
        ("a good exhausted 0", 0, 0),
        ("a good exhausted 0", 0, 0),
    ] {
        let before = machine.disk()?;
        let started = machine.boot()?.started()?;
        assert_eq!(started.told()?.generation, Some(Generation(0x17)));
        assert_eq!(Ended::Started(started).told()?, expected);
        assert_eq!(machine.block()?, armed(left));
        let after = machine.disk()?;
        let differ = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert_eq!(differ, changed, "{expected}");
    }
    Ok(())
}

fn stable() -> Ending {
    for good in Slot::BOTH {
        let machine = Machine::bios(&Files::node(&Block::stable(Generation(3), good))?)?;
        let before = machine.disk()?;
        assert_eq!(machine.boot()?.told()?, format!("{good} good stable 0"));
        assert!(before == machine.disk()?, "a node at rest was written to");
    }
    Ok(())
}

/// The machine goes off at the first thing that GRUB prints, which is before any entry runs.
fn cut_in_grub() -> Ending {
    let machine = Machine::bios(&armed_node()?)?;
    let ended = machine.cut_off(|console| !console.is_empty())?;
    assert!(!matches!(ended, Ended::Prompt), "{ended:?}");
    let left = machine.block()?.trial.map(|trial| trial.left);
    let Some(left @ 1..=2) = left else {
        return Err(fail(format!("{left:?} attempts are left")));
    };
    assert_eq!(
        machine.boot()?.told()?,
        format!("b trial counted {}", left - 1)
    );
    Ok(())
}

/// Whatever is in the state file, the mirror's slot is started, and the digit of nothing changes.
fn damaged_state() -> Ending {
    let good = Block {
        good: Slot::B,
        ..armed(2)
    };
    let torn = String::from_utf8(good.bytes().to_vec())
        .unwrap()
        .replacen("g_end=0", "g_end=1", 1);
    let node = || Files::node(&good);
    let state = |content: &[u8]| Ok::<_, Stop>(node()?.with("gate/state.env", content));
    let cases = [
        ("torn", state(torn.as_bytes())?),
        ("garbage", state(&[0xa5; SIZE])?),
        ("empty", state(b"")?),
        ("missing", node()?.without("gate/state.env")),
    ];
    for (name, files) in cases {
        let machine = Machine::bios(&files)?;
        let told = machine.boot()?.told()?;
        assert_eq!(told, "b good badenv 0", "{name}");
    }
    // The twin: the same block, whole.
    assert_eq!(
        Machine::bios(&node()?)?.boot()?.told()?,
        "a trial counted 1"
    );
    // Without a mirror it is the first slot.
    let files = node()?.without("gate/state.env").without("gate/mirror.env");
    assert_eq!(Machine::bios(&files)?.boot()?.told()?, "a good badenv 0");
    Ok(())
}

fn last_resort() -> Ending {
    let stable = Files::node(&Block::stable(Generation(1), Slot::A))?;
    for gone in [
        "gate/a",
        "gate/a/entry.cfg",
        "gate/a/vmlinuz",
        "gate/a/initrd.img",
    ] {
        let machine = Machine::bios(&stable.clone().without(gone))?;
        let told = machine.boot()?.told()?;
        assert_eq!(told, "b last-resort good-load-failed 0", "{gone}");
    }
    Ok(())
}

/// One start of GRUB reads many blocks, good and damaged and hostile; for each it must choose what
/// `foretell` says.
fn as_foretold() -> Ending {
    let mut dice = Dice::new(5);
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for text in hostile() {
        let mut bytes = format!("# GRUB Environment Block\n{text}").into_bytes();
        bytes.resize(SIZE, b'#');
        blocks.push(bytes);
    }
    while blocks.len() < 150 {
        let trial = dice.percent(80).then(|| Trial {
            left: u8::try_from(dice.below(3)).unwrap(),
        });
        let block = Block {
            generation: Generation(dice.next() >> 40),
            good: *dice.pick(&Slot::BOTH),
            trial,
            last: *dice.pick(&Outcome::ALL),
            rehearsal: trial.is_none() && dice.percent(50),
        };
        let mut bytes = block.bytes().to_vec();
        for _ in 0..dice.below(4) {
            // Within the text; what is printed and what ends lines are the interesting ones.
            let at = dice.below(160);
            bytes[at] = *dice.pick(b"ab012=\n#\\ \"$';[x");
        }
        bytes.truncate(*dice.pick(&[SIZE, SIZE, SIZE, 150, 40]));
        blocks.push(bytes);
    }
    let mut files = armed_node()?;
    let mut config = String::new();
    for (at, bytes) in blocks.iter().enumerate() {
        files = files.with(&format!("{at}/gate/state.env"), bytes);
        writeln!(
            config,
            "set prefix=(hd0,msdos1)/boot/grub/{at}\nsource /boot/grub/gate/gate.cfg\n\
             echo \"<{at} $g_go $g_good $g_why $g_left>\""
        )
        .unwrap();
    }
    // The last line of all resets the machine.
    let files = files.with("grub.cfg", format!("{config}reboot\n"));
    let console = match Machine::bios(&files)?.boot()? {
        Ended::Reset(console) => console,
        other => return Err(fail(format!("{other:?}"))),
    };
    let (mut trials, mut bad) = (0, 0);
    for (at, bytes) in blocks.iter().enumerate() {
        let choice = foretell(Some(bytes), None);
        let good = match choice.role {
            Role::Trial => choice.slot.other(),
            _ => choice.slot,
        };
        // GRUB counts in the entry, which was not run.
        let expected = match (choice.role, choice.why) {
            (_, Why::Rehearsed) => format!("<{at} rehearsal {good} stable 1>"),
            (Role::Trial, _) => format!("<{at} trial {good} stable {}>", choice.left + 1),
            (_, why) => format!("<{at} good {good} {why} "),
        };
        assert!(
            console.contains(&expected),
            "expected {expected}\nblock: {}\nconsole: {console}",
            String::from_utf8_lossy(bytes)
        );
        trials += usize::from(choice.role == Role::Trial);
        bad += usize::from(choice.why == Why::BadEnv);
    }
    assert!(trials > 10 && bad > 30, "{trials} trials, {bad} bad blocks");
    println!(
        "{} blocks: {trials} trials, {bad} not trusted",
        blocks.len()
    );
    Ok(())
}

/// Texts that would deceive a reader that compares numbers, splits words or takes every name.
fn hostile() -> Vec<String> {
    let with = |left: &str, trial: &str| {
        format!("g_v=1\ng_gen=7\ng_good=a\ng_trial={trial}\ng_left={left}\ng_end=7\n")
    };
    let mut texts: Vec<String> = [
        "", "junk", "9", "3", "-1", "02", "2 ", " 2", "1 -o 1", "!", "(",
    ]
    .into_iter()
    .map(|left| with(left, "b"))
    .collect();
    texts.extend(["a", "none", "", "b ", "x -o 1 = 1"].map(|trial| with("2", trial)));
    texts.push(with("2", "b").replace("g_left=2\n", ""));
    texts.push(with("2", "b").replace("g_v=1", "g_v=2"));
    texts.push(with("2", "b").replace("g_v=1", "g_v=1 = 1 -o 1"));
    texts.push(with("2", "b").replace("=7\n", "=!\n"));
    texts.push(with("2", "b").replace("=7\n", "=\n"));
    texts.push(with("2", "b").replace("=7\n", "=-o\n"));
    texts.push(with("2", "b").replace("g_good=a", "g_good=x -o a"));
    // Names that are not asked for change nothing.
    texts.push(format!(
        "prefix=(hd9)/x\ndefault=7\nroot=hd9\ng_go=trial\ng_dir=/x\n{}",
        with("0", "none")
    ));
    texts
}

/// A disk that refuses writes: what cannot be counted is not tried.
fn read_only() -> Ending {
    let machine = Machine::bios(&armed_node()?)?.read_only();
    for _ in 0..2 {
        let told = machine.boot()?.told()?;
        assert!(told.starts_with("a good nowrite"), "{told}");
        assert_eq!(machine.block()?, armed(2));
    }
    Ok(())
}

/// What cannot be loaded costs its attempt, and good is started from within the same entry.
fn not_loaded() -> Ending {
    let whole = kernel("slot-b")?;
    let bad_magic = [&whole[..0x202], b"nope", &whole[0x206..]].concat();
    let node = armed_node()?;
    let cases = [
        ("kernel missing", node.clone().without("gate/b/vmlinuz")),
        ("kernel empty", node.clone().with("gate/b/vmlinuz", b"")),
        ("bad magic", node.clone().with("gate/b/vmlinuz", bad_magic)),
        (
            "header only",
            node.clone().with("gate/b/vmlinuz", &whole[..0x300]),
        ),
        ("entry missing", node.clone().without("gate/b/entry.cfg")),
        (
            "entry is junk",
            node.clone().with("gate/b/entry.cfg", "if if {"),
        ),
        ("initrd empty", node.clone().with("gate/b/initrd.img", b"")),
        ("initrd missing", node.without("gate/b/initrd.img")),
    ];
    for (name, files) in cases {
        let machine = Machine::bios(&files)?;
        let told = machine.boot()?.told()?;
        assert_eq!(told, "a good load-failed 1", "{name}");
        assert_eq!(machine.block()?, armed(1), "{name}");
    }
    Ok(())
}

/// An initrd that is there and does not fit into memory. GRUB 2.06 cannot load another kernel after
/// that, so the machine is reset: each attempt is counted, and then good is started.
fn late_failure() -> Ending {
    let machine = Machine::bios(&armed_node()?.with_hole("gate/b/initrd.img", 1 << 30))?;
    for left in [1, 0] {
        match machine.boot()? {
            Ended::Reset(_) => assert_eq!(machine.block()?, armed(left)),
            other => return Err(fail(format!("{other:?}"))),
        }
    }
    assert_eq!(machine.boot()?.told()?, "a good exhausted 0");
    Ok(())
}

fn no_kernel() -> Ending {
    let node = armed_node()?.without("gate/a").without("gate/b");
    let machine = Machine::bios(&node)?;
    for _ in 0..3 {
        match machine.boot()? {
            Ended::Reset(console) => assert!(!console.contains("grub> "), "{console}"),
            other => return Err(fail(format!("{other:?}"))),
        }
    }
    Ok(())
}

/// A `grub.cfg` as `update-grub` makes it: Debian's own header, an entry of a newer kernel.
fn generated(first: &str, last: &str) -> Result<String, Stop> {
    parts()?;
    let header = "/etc/grub.d/00_header";
    if !std::path::Path::new(header).exists() {
        return Err(skip(format!("this host has no {header}")));
    }
    let env = Env::new()?;
    let header = env
        .program("/bin/sh", [header])
        .env("pkgdatadir", "/usr/share/grub")
        .env("GRUB_TERMINAL_INPUT", "serial")
        .env("GRUB_TERMINAL_OUTPUT", "serial")
        .env("GRUB_SERIAL_COMMAND", "serial --unit=0")
        .run()?
        .exits(0)?
        .says("set timeout=5")?
        .stdout;
    Ok(format!(
        "#\n# DO NOT EDIT THIS FILE\n#\n{first}{header}\
         menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple' {{\n\
         linux /boot/grub/newer root=/dev/vda1 ro quiet\ninitrd /boot/grub/gate/a/initrd.img\n}}\n\
         {last}"
    ))
}

fn update_grub() -> Ending {
    let (first, last) = (grub::printed(grub::FIRST), grub::printed(grub::LAST));
    let boot = |block: &Block, config: String| -> Result<Ended, Stop> {
        let files = Files::node(block)?.with("newer", kernel("newer")?);
        Machine::bios(&files.with("grub.cfg", config))?.boot()
    };
    let whole = generated(first, last)?;
    assert!(grub::runs_the_gate(&whole));
    assert_eq!(boot(&armed(2), whole.clone())?.told()?, "b trial counted 1");
    assert_eq!(boot(&armed(0), whole)?.told()?, "a good exhausted 0");
    // The twins: each snippet is needed, and its absence is found.
    let unsaid = generated(first, "")?;
    assert!(!grub::runs_the_gate(&unsaid));
    assert_eq!(boot(&armed(2), unsaid)?.told()?, "a good stable 2");
    let stock = generated("", "")?;
    assert!(!grub::runs_the_gate(&stock));
    assert_eq!(boot(&armed(2), stock)?.started()?.label, "newer");
    Ok(())
}

/// Cut anywhere behind its first line, `grub.cfg` still starts what the state block says, or the
/// good kernel; an empty one ends at a prompt, which only the check after `update-grub` prevents.
fn cut_short() -> Ending {
    let first = grub::printed(grub::FIRST);
    let whole = generated(first, grub::printed(grub::LAST))?;
    let from = whole.find(first).unwrap() + first.len();
    let mut dice = Dice::new(35);
    for _ in 0..6 {
        let cut = from + dice.below(whole.len() - from);
        let files = armed_node()?.with("grub.cfg", &whole[..cut]);
        let told = Machine::bios(&files)?.boot()?.told()?;
        assert!(
            told == "b trial counted 1" || told == "a good stable 2",
            "cut at {cut} of {}: {told}",
            whole.len()
        );
    }
    let files = armed_node()?.with("grub.cfg", "");
    assert!(matches!(Machine::bios(&files)?.boot()?, Ended::Prompt));
    assert!(!grub::runs_the_gate(""));
    Ok(())
}

const NOISE: &[u8] = b"\x00~x \x1b[A\r\nesc\x1b";

fn noise() -> Ending {
    let whole = generated(grub::printed(grub::FIRST), grub::printed(grub::LAST))?;
    let machine = Machine::bios(&armed_node()?.with("grub.cfg", whole))?;
    assert_eq!(machine.boot_with(NOISE)?.told()?, "b trial counted 1");
    Ok(())
}

/// The twin: a stock configuration stops at its menu. It is given three times its own timeout.
fn noise_twin() -> Ending {
    let files = armed_node()?.with("newer", kernel("newer")?);
    let machine = Machine::bios(&files.with("grub.cfg", generated("", "")?))?;
    assert_eq!(machine.boot()?.started()?.label, "newer");
    let since = std::cell::Cell::new(None);
    let ended = machine.watch(b"x", |console| {
        if console.contains("Use the") && since.get().is_none() {
            since.set(Some(std::time::Instant::now()));
        }
        since
            .get()
            .is_some_and(|since| since.elapsed().as_secs() > 15)
    })?;
    assert!(matches!(ended, Ended::Reset(_)), "{ended:?}");
    Ok(())
}

fn person() -> Ending {
    let choose = |block: &Block, entry: &str| -> Result<(String, Block), Stop> {
        let node = Files::node(block)?;
        let config = format!("{}set default={entry}\n", node.text("grub.cfg"));
        let machine = Machine::bios(&node.with("grub.cfg", config))?;
        Ok((machine.boot()?.told()?, machine.block()?))
    };
    // The trial, when no attempt is left, and when there is none.
    let exhausted = armed(0);
    let told = choose(&exhausted, "gate-trial")?;
    assert_eq!(told, ("a good exhausted 0".to_owned(), exhausted));
    let stable = Block::stable(Generation(1), Slot::B);
    let told = choose(&stable, "gate-trial")?;
    assert_eq!(told, ("b good stable 0".to_owned(), stable));
    // Good, while a trial is armed: nothing is counted.
    let told = choose(&armed(2), "gate-good")?;
    assert_eq!(told, ("a good stable 2".to_owned(), armed(2)));
    // An entry that does not exist.
    let told = choose(&armed(1), "nonsense")?;
    assert_eq!(told, ("a good stable 1".to_owned(), armed(1)));
    Ok(())
}

/// Debian's signed GRUB under OVMF, all on FAT.
fn signed_on_fat() -> Ending {
    let machine = Machine::efi(&armed_node()?)?;
    for (expected, left, changed) in [
        ("b trial counted 1", 1, 1),
        ("b trial counted 0", 0, 1),
        ("a good exhausted 0", 0, 0),
    ] {
        let before = machine.disk()?;
        assert_eq!(machine.boot()?.told()?, expected);
        assert_eq!(machine.block()?, armed(left));
        let after = machine.disk()?;
        let differ = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert_eq!(differ, changed, "{expected}");
    }
    let told = Machine::efi(&armed_node()?)?.read_only().boot()?.told()?;
    assert!(told.starts_with("a good nowrite"), "{told}");
    let files = armed_node()?.without("gate/b/vmlinuz");
    let told = Machine::efi(&files)?.boot()?.told()?;
    assert_eq!(told, "a good load-failed 1");
    let files = armed_node()?.with("gate/state.env", [0xa5; SIZE]);
    let told = Machine::efi(&files)?.boot()?.told()?;
    assert_eq!(told, "a good badenv 0");
    Ok(())
}

/// systemd reads the units, and finds nothing wrong with them.
fn units_are_clean() -> Ending {
    let env = Env::new()?;
    let analyse = camino::Utf8Path::new("/usr/bin/systemd-analyze");
    if !analyse.exists() {
        return Err(skip("systemd-analyze is not installed"));
    }
    let verify = |texts: [&str; 2]| -> Result<crate::support::Ran, Stop> {
        let mut words = vec!["verify".to_owned(), "--man=no".to_owned()];
        for (name, text) in ["kiln-gate.service", "kiln-deadman.service"]
            .iter()
            .zip(texts)
        {
            // The program is not installed here.
            let text = text.replace("/usr/bin/kiln ", "/bin/true ");
            words.push(env.write(name, text)?.into_string());
        }
        env.program(analyse.as_str(), words).run()
    };
    let (gate, deadman) = (kiln::boot::units::GATE, kiln::boot::units::DEADMAN);
    let ran = verify([gate, deadman])?.exits(0)?;
    assert_eq!(ran.stderr, "");
    let wrong = deadman.replace("Type=exec", "Type=exce");
    let ran = verify([gate, &wrong])?;
    assert!(ran.stderr.contains("exce"), "{}", ran.stderr);
    Ok(())
}
