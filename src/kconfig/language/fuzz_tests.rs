//! Damaged and hostile texts: an answer or an error with its place, in bounded time and memory.

use super::language_tests::memory;
use super::{Memory, Model, ParseError, Problem, Tree};

/// A small tree of every construct.
const KCONFIG: &str = "\
mainmenu \"t $(VERSION)\"\nname := x\nf = $(1)-$(2)$(name)\nconfig MODULES\n\tbool \"m\"\n\tmodules\n\
menu \"menu\"\n\tdepends on C || !B\n\tvisible if C = \"y\"\nconfig A\n\ttristate \"a\" if B\n\
\tdefault m if (B && C) || D < 10\n\tselect E if A\n\timply F\n\thelp\n\t  Words.\n\n\t  More.\n\
config D\n\tint \"d\"\n\trange 1 20\n\tdefault 017\nconfig H\n\thex \"h\"\n\trange 0x1 0xff\n\
config S\n\tstring \"s\"\n\tdefault \"$(f,a,b)\"\nendmenu\nchoice\n\tprompt \"c\"\n\tdefault C2\n\
config C1\n\tbool \"c1\"\nconfig C2\n\tbool \"c2\"\nendchoice\nif A\nconfig E\n\tbool\nendif\n\
config B\n\tbool \"b\"\nconfig C\n\tdef_bool $(shell,echo y)\nconfig F\n\tbool \"f\"\n\
comment \"end\"\n\tdepends on F\nsource \"more\"\n";

const CONFIG: &str = "\
# CONFIG_MODULES is not set\nCONFIG_A=m\nCONFIG_B=y\nCONFIG_D=25\nCONFIG_H=0xfff\n\
CONFIG_S=\"a \\\" b\"\n# CONFIG_C1 is not set\nCONFIG_C2=y\nCONFIG_NONE=y\n";

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
    "menu \"x\"\n",
    "endmenu\n",
    "config ",
    "help\n",
    "source \"Kconfig\"\n",
    "99999999999999999999",
    "-1",
    "0x",
    "name = $(name)\n",
    "CONFIG_",
    " is not set",
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % limit.max(1) as u64).unwrap()
    }
}

/// One to four damages: bits flipped, cuts, pieces, many pieces, and parts of itself again.
fn damaged(text: &str, dice: &mut Dice) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let most = 1 + dice.below(4);
    for _ in 0..=dice.below(most) {
        let at = dice.below(bytes.len());
        let end = (at + dice.below(60)).min(bytes.len());
        let piece = PIECES[dice.below(PIECES.len())].as_bytes();
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, piece.iter().copied())),
            4 => drop(bytes.splice(at..at, piece.repeat(1 + dice.below(300)))),
            _ => {
                let part = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_texts_are_read_or_refused_with_a_place() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut host = memory(&damaged(KCONFIG, &mut dice));
        let more = "config M\n\tbool \"m\"\n";
        let is_damaged = dice.below(8) == 0;
        let more = if is_damaged {
            damaged(more, &mut dice)
        } else {
            more.to_owned()
        };
        host.files.insert("more", more);
        host.programs.insert("echo y", "y\n");
        match Tree::parse(&host, "Kconfig") {
            Ok(tree) => {
                read += 1;
                let mut model = Model::new(tree);
                model.read(&damaged(CONFIG, &mut dice));
                let first = model.file();
                model.read(&first);
                let _unmet = model.unmet();
            }
            Err(error) => {
                refused += 1;
                let (ParseError::Text { file, line, .. } | ParseError::Host { file, line, .. }) =
                    &error;
                assert!(
                    host.files.contains_key(file.as_str()) && *line > 0,
                    "{error}"
                );
            }
        }
    }
    assert!(
        read > 100 && refused > 100,
        "{read} read, {refused} refused"
    );
}

#[test]
fn damaged_configurations_never_panic() {
    let mut host = memory(KCONFIG);
    host.files.insert("more", String::new());
    host.programs.insert("echo y", "y\n");
    let mut model = Model::new(Tree::parse(&host, "Kconfig").unwrap());
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for _ in 0..4000 {
        let text = damaged(CONFIG, &mut dice);
        model.read(&text);
        let first = model.file();
        model.read(&first);
    }
}

fn problem(host: &Memory) -> Problem {
    match Tree::parse(host, "Kconfig") {
        Err(ParseError::Text { problem, .. }) => problem,
        other => panic!("expected a problem, found {other:?}"),
    }
}

#[test]
fn variables_that_double_the_work_are_stopped() {
    use std::fmt::Write as _;
    let doubling = |levels: usize| {
        let mut text = "v0 =\n".to_owned();
        for level in 1..=levels {
            let below = level - 1;
            writeln!(text, "v{level} = $(v{below})$(v{below})").unwrap();
        }
        writeln!(text, "$(v{levels})").unwrap();
        memory(&text)
    };
    assert!(Tree::parse(&doubling(8), "Kconfig").is_ok());
    assert_eq!(problem(&doubling(60)), Problem::TooManyExpansions);
}

#[test]
fn files_that_double_the_work_are_stopped() {
    let doubling = |levels: usize| {
        let name = |level: usize| -> &'static str { format!("k{level}").leak() };
        let mut host = memory("source \"k0\"\n");
        for level in 0..levels {
            let line = format!("source \"{}\"\n", name(level + 1));
            host.files.insert(name(level), line.repeat(2));
        }
        host.files.insert(name(levels), String::new());
        host
    };
    assert!(Tree::parse(&doubling(6), "Kconfig").is_ok());
    assert_eq!(problem(&doubling(50)), Problem::TooManyFiles);
}
