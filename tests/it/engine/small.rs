//! Small random Kconfig files with every construct of the language, asked of the tree's own `conf`
//! and of the engine.

use std::collections::HashMap;
use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::kconfig::language::{Host, HostError, Model, Said, Tree};

use crate::support::Stop;
use crate::support::dice::Dice;
use crate::support::kconfig_tree::{Answer, KconfigTree};

/// A tree of a few files, and a configuration for it.
pub struct Small {
    /// The main file.
    pub kconfig: String,
    /// What it includes as `Kconfig.more`.
    pub more: String,
    /// What is read.
    pub config: String,
    /// The source tree whose reader is meant.
    pub source: Utf8PathBuf,
}

/// Writes what the dice say.
struct Writer<'d> {
    dice: &'d mut Dice,
    text: String,
    names: Vec<(String, &'static str)>,
    /// How many of the names have an entry so far.
    known: usize,
    /// What is written may speak of the names before this one: no cycle then.
    limit: usize,
    /// The conditions around speak of names before this one.
    around: usize,
    /// Which names are members of a choice.
    members: Vec<usize>,
    more: bool,
}

const TYPES: [&str; 8] = [
    "bool", "bool", "bool", "tristate", "tristate", "int", "hex", "string",
];

impl Small {
    /// The files of the next throws.
    pub fn new(dice: &mut Dice, source: &Utf8Path) -> Self {
        let count = 3 + dice.below(12);
        let names = (0..count).map(|at| {
            if at == 0 && dice.percent(70) {
                ("MODULES".to_owned(), "bool")
            } else {
                (format!("S{at}"), *dice.pick(&TYPES))
            }
        });
        let names = names.collect();
        let mut writer = Writer {
            dice,
            text: String::new(),
            names,
            known: 0,
            limit: 0,
            around: 0,
            members: Vec::new(),
            more: false,
        };
        if writer.dice.percent(30) {
            let title = *writer.dice.pick(&["Title", " Spaced", ""]);
            let _ = writeln!(writer.text, "mainmenu \"{title}\"");
        }
        writer.block(0);
        while writer.known < writer.names.len() {
            writer.block(0);
        }
        let kconfig = std::mem::take(&mut writer.text);
        if writer.more {
            writer.known = writer.names.len();
            writer.block(1);
        }
        let more = std::mem::take(&mut writer.text);
        let config = writer.config_text();
        Self {
            kconfig,
            more,
            config,
            source: source.to_owned(),
        }
    }

    /// The same with one line of one file less, each once.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let parts = [&self.kconfig, &self.more, &self.config];
        for part in 0..parts.len() {
            let lines: Vec<&str> = parts[part].split_inclusive('\n').collect();
            for length in [4, 2, 1] {
                for from in 0..lines.len().saturating_sub(length - 1) {
                    let mut texts = parts.map(String::clone);
                    texts[part] = [&lines[..from], &lines[from + length..]].concat().concat();
                    let [kconfig, more, config] = texts;
                    all.push(Self {
                        kconfig,
                        more,
                        config,
                        source: self.source.clone(),
                    });
                }
            }
        }
        all
    }

    /// What the tree's own program says of it: its answer, or what it printed when it refused.
    pub fn conf(&self, tree: &KconfigTree, dir: &Utf8Path) -> Result<Answer, Stop> {
        for (name, text) in [
            ("Kconfig", &self.kconfig),
            ("Kconfig.more", &self.more),
            (".config", &self.config),
        ] {
            std::fs::write(dir.join(name), text)?;
        }
        let output = tree
            .program(&tree.objects.join("scripts/kconfig/conf"))
            .args(["-s", "--olddefconfig", "Kconfig"])
            .current_dir(dir)
            .env("srctree", dir)
            .env("KCONFIG_CONFIG", ".config")
            .output()?;
        let log = [output.stdout, output.stderr].concat();
        let log = String::from_utf8_lossy(&log).into_owned();
        // A remark on `BOOL = m`, which no kernel's tree gives rise to: it has no place, and the
        // engine does not make it.
        let remark = |line: &&str| !line.contains(" tested for 'm'? test forced to ");
        Ok(Answer {
            status: output.status.code(),
            text: std::fs::read_to_string(dir.join(".config"))?,
            log: log.split_inclusive('\n').filter(remark).collect(),
        })
    }

    /// What the engine makes of it, told the same way.
    pub fn engine(&self) -> Answer {
        match Tree::parse(self, "Kconfig") {
            Ok(tree) => answer(tree, &self.config),
            Err(error) => Answer {
                status: Some(1),
                text: self.config.clone(),
                log: error.to_string(),
            },
        }
    }

    /// All of it, for a person to look at.
    pub fn shown(&self) -> String {
        let Self {
            kconfig,
            more,
            config,
            ..
        } = self;
        format!("--- Kconfig\n{kconfig}--- Kconfig.more\n{more}--- .config\n{config}")
    }
}

/// What the engine says and writes, as `conf -s --olddefconfig` does.
pub fn answer(tree: Tree, config: &str) -> Answer {
    let mut log = String::new();
    for (_, said) in tree.said() {
        if let Said::Info(text) = said {
            let _ = writeln!(log, "{text}");
        }
    }
    for warning in tree.warnings() {
        let _ = writeln!(log, "{}:{}", tree.shown(warning.place()), warning.text());
    }
    let mut model = Model::new(tree);
    for warning in model.read(config) {
        let _ = writeln!(log, ".config:{}:warning: {}", warning.line, warning.text);
    }
    log.extend(model.unmet());
    Answer {
        status: Some(0),
        text: model.file(),
        log,
    }
}

/// Whether the tree's own program broke: it died by a signal, or read memory that it had given back
/// (6.12 does so with some comparisons, and then says "Oops!" with a random number), or printed a
/// value that is none.
pub fn is_broken(conf: &Answer) -> bool {
    conf.status.is_none()
        || conf.log.contains("Oops! How to check")
        || conf.text.contains("=(null)")
}

/// Whether the engine refuses what it cannot answer as the tree's own program does: bounds of ranges
/// that depend on each other, whose values there follow from the order of a table.
pub fn is_refused(engine: &Answer) -> bool {
    engine.log.contains("range bounds depend on each other")
}

/// How the two differ; what a broken program says is not compared. Where both refuse, what they say is not compared: one stops at the first
/// error, the other goes on.
pub fn differ(engine: &Answer, conf: &Answer) -> Option<String> {
    match (engine.status, conf.status) {
        (Some(0), Some(0)) if !is_broken(conf) => {
            super::world::difference(&sorted(engine), &sorted(conf))
        }
        _ if is_broken(conf) || is_refused(engine) => None,
        (Some(1), Some(1)) => None,
        (ours, theirs) => Some(format!(
            "the engine ends with {ours:?} ({}), conf with {theirs:?} ({})",
            engine.log, conf.log
        )),
    }
}

/// An answer with its warnings about Kconfig files in any order: `conf` looks at the entries that an
/// automatic submenu holds before the one that holds them.
fn sorted(answer: &Answer) -> Answer {
    let lines = answer.log.split_inclusive('\n');
    let (mut warnings, others): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.starts_with("Kconfig"));
    warnings.sort_unstable();
    Answer {
        log: [warnings, others].concat().concat(),
        ..answer.clone()
    }
}

/// What kind of difference it is: the same text without names and numbers.
pub fn kind(told: &str) -> String {
    let mut kind: String = told.chars().filter(|c| !c.is_ascii_digit()).collect();
    if let Some(at) = kind.find("rror") {
        // Where one of the two refuses: why.
        kind.replace_range(..at, "");
    }
    kind.chars().take(60).collect()
}

impl Host for Small {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        Ok(match path {
            "Kconfig" => Some(self.kconfig.clone()),
            "Kconfig.more" => Some(self.more.clone()),
            // What the reader itself says that it refuses.
            path => std::fs::read_to_string(self.source.join(path)).ok(),
        })
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        // The generator writes only these.
        let known = HashMap::from([
            ("echo y", "y\n"),
            ("echo n", "n\n"),
            ("echo 7; echo 8", "7\n8\n"),
            ("printf '\\n\\n'", "\n\n"),
            ("false", ""),
        ]);
        known
            .get(command)
            .map(|text| text.as_bytes().to_vec())
            .ok_or_else(|| HostError(format!("unknown command {command}").into()))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A name: one that has an entry, now and then one that has it later or never.
    fn name(&mut self) -> String {
        match self.dice.below(400) {
            0..20 => "GONE".to_owned(),
            20 => self.dice.pick(&self.names).0.clone(),
            _ if self.limit == 0 => "GONE".to_owned(),
            _ => {
                let at = self.dice.below(self.limit);
                self.names[at].0.clone()
            }
        }
    }

    fn value(&mut self, kind: &str) -> String {
        let list: &[&str] = match kind {
            "int" => &[
                "0",
                "1",
                "5",
                "10",
                "25",
                "-3",
                "017",
                "$(shell,echo 7; echo 8)",
            ],
            "hex" => &["0x0", "0x10", "1f", "0xFFFFFFFFFFFFFFFFFF", "\"0x5\""],
            "string" => &[
                "\"\"",
                "\"text\"",
                "\"a\\\"b\"",
                "'q'",
                "\"$(v) $(GONE)\"",
                "word",
            ],
            _ => &["y", "n", "m", "y", "\"y\"", "$(v)", "$(shell,echo y)"],
        };
        (*self.dice.pick(list)).to_owned()
    }

    fn expression(&mut self, depth: usize) -> String {
        match self.dice.below(if depth > 2 { 5 } else { 10 }) {
            0..3 => self.name(),
            3 => {
                let kind = *self.dice.pick(&TYPES);
                let sign = match *self.dice.pick(&["=", "!=", "<", "<=", ">", ">="]) {
                    // Not `BOOL != y`: 6.12 then may read memory that it has given back, which
                    // shows in headings.
                    "!=" if matches!(kind, "bool" | "tristate") => "=",
                    sign => sign,
                };
                let (left, right) = (self.name(), self.value(kind));
                format!("{left} {sign} {right}")
            }
            4 => {
                let sign = *self.dice.pick(&["=", "!=", "<", "<=", ">", ">="]);
                let (left, right) = (self.name(), self.name());
                format!("{left}{sign}{right}")
            }
            5 => format!("!{}", self.name()),
            // Not `!(A != B)`: 6.12 then reads memory that it has given back. No kernel has it.
            6 => format!("!({} && {})", self.name(), self.name()),
            7 => (*self.dice.pick(&["y", "n", "m", "\"y\""])).to_owned(),
            8 => {
                let (left, right) = (self.expression(depth + 1), self.expression(depth + 1));
                format!("{left} && {right}")
            }
            _ => {
                let (left, right) = (self.expression(depth + 1), self.expression(depth + 1));
                format!("({left} || {right})")
            }
        }
    }

    fn condition(&mut self, percent: usize) -> String {
        if self.dice.percent(percent) {
            format!(" if {}", self.expression(0))
        } else {
            String::new()
        }
    }

    fn block(&mut self, depth: usize) {
        let around = std::mem::replace(&mut self.around, self.limit);
        self.entries(depth);
        self.around = around;
    }

    fn entries(&mut self, depth: usize) {
        for _ in 0..=self.dice.below(4) {
            self.limit = self.known;
            match self.dice.below(if depth > 3 { 12 } else { 20 }) {
                0..8 => self.config(),
                8 => self.macros(),
                9 => {
                    let text = self.dice.below(100);
                    self.line(&format!("comment \"remark {text}\""));
                    self.depends(30);
                }
                10 if !self.more && depth < 2 => {
                    self.more = true;
                    self.line("source \"Kconfig.more\"");
                }
                10..13 => self.choice(),
                13..16 => {
                    let condition = self.expression(0);
                    self.line(&format!("if {condition}"));
                    self.block(depth + 1);
                    self.line("endif");
                }
                _ => {
                    let text = self.dice.below(100);
                    self.line(&format!("menu \"menu {text}\""));
                    self.depends(40);
                    if self.dice.percent(40) {
                        let condition = self.expression(0);
                        self.line(&format!("visible if {condition}"));
                    }
                    self.block(depth + 1);
                    self.line("endmenu");
                }
            }
        }
    }

    fn macros(&mut self) {
        let line = *self.dice.pick(&[
            "v := y",
            "v = $(shell,echo n)",
            "v += n",
            "f = $(1)$(2)",
            "$(info,$(filename):$(lineno) $(f,a,b) $(v))",
            "$(warning-if,$(v),said $(v))",
            "$(warning-if,$(shell,echo y),said)",
            "w := $(shell,false)",
            "w := $(shell,printf '\\n\\n')",
        ]);
        self.line(line);
    }

    fn depends(&mut self, percent: usize) {
        while self.dice.percent(percent) {
            let condition = self.expression(0);
            self.line(&format!("\tdepends on {condition}"));
        }
    }

    /// An entry of the next symbol, or a second one of an earlier.
    fn config(&mut self) {
        let again = self.known == self.names.len() || self.known > 0 && self.dice.percent(15);
        let at = if again {
            let from = self.around.min(self.known - 1);
            let at = from + self.dice.below(self.known - from);
            if self.members.contains(&at) || at < self.around && self.dice.percent(97) {
                return;
            }
            at
        } else {
            self.known += 1;
            self.known - 1
        };
        let (name, kind) = self.names[at].clone();
        self.limit = at;
        let word = if self.dice.percent(15) {
            "menuconfig"
        } else {
            "config"
        };
        self.line(&format!("{word} {name}"));
        self.depends(25);
        let asks = word == "menuconfig" || self.dice.percent(70);
        let prompt = if asks {
            let condition = self.condition(25);
            format!(" \"{name} text\"{condition}")
        } else {
            String::new()
        };
        self.line(&format!("\t{kind}{prompt}"));
        if name == "MODULES" && !again && self.dice.percent(80) {
            self.line("\tmodules");
            if self.dice.percent(70) {
                self.line("\tdefault y");
            }
        }
        while self.dice.percent(40) {
            let condition = self.condition(60);
            let value = if matches!(kind, "bool" | "tristate") && self.dice.percent(40) {
                self.expression(1)
            } else if self.dice.percent(20) {
                self.name()
            } else {
                self.value(kind)
            };
            self.line(&format!("\tdefault {value}{condition}"));
        }
        if matches!(kind, "int" | "hex") && self.dice.percent(50) {
            for _ in 0..=self.dice.below(2) {
                let bound = |writer: &mut Self, low: bool| match (kind, low) {
                    _ if writer.dice.percent(15) => writer.name(),
                    ("int", true) => (*writer.dice.pick(&["0", "1", "-5", "6"])).to_owned(),
                    ("int", false) => (*writer.dice.pick(&["10", "20", "7"])).to_owned(),
                    (_, true) => (*writer.dice.pick(&["0x0", "0x2", "3"])).to_owned(),
                    (_, false) => (*writer.dice.pick(&["0x40", "0xff", "1a"])).to_owned(),
                };
                let (low, high) = (bound(self, true), bound(self, false));
                let condition = self.condition(50);
                self.line(&format!("\trange {low} {high}{condition}"));
            }
        }
        if matches!(kind, "bool" | "tristate") {
            while self.dice.percent(25) {
                let word = if self.dice.percent(60) {
                    "select"
                } else {
                    "imply"
                };
                // What is selected comes later, mostly.
                let later = at + 1 + self.dice.below(self.names.len() - at);
                let target = match self.names.get(later) {
                    Some((target, _)) => target.clone(),
                    None if self.dice.percent(98) => continue,
                    None => self.name(),
                };
                let condition = self.condition(40);
                self.line(&format!("\t{word} {target}{condition}"));
            }
        }
        self.depends(10);
        if self.dice.percent(15) {
            self.line(
                "\thelp\n\t  Text of several words,\n\t    indented,\n\n\t  config OF_NOTHING",
            );
        }
    }

    /// A choice of the next symbols.
    fn choice(&mut self) {
        let from = self.known;
        let most = (self.names.len() - from).min(4);
        if most < 2 {
            return;
        }
        let count = 2 + self.dice.below(most - 1);
        let word = if self.dice.percent(30) {
            "\tbool \"which\""
        } else {
            "\tprompt \"which\""
        };
        let condition = self.condition(25);
        self.line(&format!("choice\n{word}{condition}"));
        while self.dice.percent(40) {
            let member = from + self.dice.below(count);
            let condition = self.condition(50);
            let name = self.names[member].0.clone();
            self.line(&format!("\tdefault {name}{condition}"));
        }
        self.depends(25);
        for at in from..from + count {
            self.names[at].1 = "bool";
            self.members.push(at);
            let name = self.names[at].0.clone();
            let within = self.dice.percent(10);
            if within {
                let condition = self.expression(0);
                self.line(&format!("if {condition}"));
            }
            let condition = self.condition(25);
            self.line(&format!("config {name}\n\tbool \"{name} text\"{condition}"));
            self.depends(25);
            let later = from + count + self.dice.below(4);
            if later < self.names.len() && self.dice.percent(30) {
                let target = self.names[later].0.clone();
                let condition = self.condition(30);
                self.line(&format!("\tselect {target}{condition}"));
            }
            if within {
                self.line("endif");
            }
        }
        self.line("endchoice");
        self.known = from + count;
    }

    /// Lines about the symbols in any order.
    fn config_lines(&mut self) -> Vec<String> {
        let mut names = self.names.clone();
        self.dice.shuffle(&mut names);
        let mut lines = Vec::new();
        for (name, kind) in names {
            if self.dice.percent(25) {
                continue;
            }
            let list: &[&str] = match kind {
                "int" => &["0", "1", "7", "9223372036854775808", "-9", "017", "0x1"],
                "hex" => &["0x0", "0x11", "ff", "0xffffffffffffffff", "g"],
                "string" => &["\"\"", "\"t\"", "plain", "\"a\\\\b\\\"\""],
                _ => &["y", "y", "m", "n", "yes", "x"],
            };
            lines.push(if self.dice.percent(25) {
                format!("# CONFIG_{name} is not set")
            } else {
                format!("CONFIG_{name}={}", self.dice.pick(list))
            });
        }
        lines
    }

    fn config_text(&mut self) -> String {
        self.config_lines()
            .iter()
            .fold(String::new(), |text, line| text + line + "\n")
    }
}
