//! Random lines over a configuration, weighted so that they find something: members of choices in
//! shuffled order, symbols that much depends on, numbers at and beyond their bounds.

use std::collections::{HashMap, HashSet};

use kiln::kconfig::language::{Symbol, SymbolId, Tree, Type};

use crate::support::dice::Dice;

/// What can be asked of a tree.
pub struct Requests {
    /// The members of each choice.
    choices: Vec<Vec<String>>,
    /// Bool and tristate symbols, each with the sum of the weights up to and with its own.
    logic: Vec<(String, usize)>,
    /// Int, hex and string symbols with the texts of their bounds.
    worded: Vec<(String, Type, Vec<String>)>,
}

/// Odd spellings of values, each of which some reader takes for something.
const ODD: [&str; 18] = [
    "yes",
    "no",
    "mauve",
    "Y",
    "M",
    "N",
    "1",
    "0",
    "",
    "\"y\"",
    " y",
    "y ",
    "0x",
    "-",
    "+1",
    "\"open",
    "\"a\\\"b\\\\c\" tail",
    "\u{e4}",
];

impl Requests {
    /// Reads from a tree what can be asked.
    pub fn of(tree: &Tree) -> Self {
        let weights = weights(tree);
        let mut sum = 0;
        let mut logic = Vec::new();
        let mut worded = Vec::new();
        for (id, symbol) in tree.symbols().filter(|(_, symbol)| symbol.is_defined()) {
            let asked = |symbol: &Symbol| {
                let mut nodes = symbol.nodes.iter();
                nodes.any(|node| tree.node(*node).prompt.is_some())
            };
            match symbol.kind {
                Type::Bool | Type::Tristate => {
                    // What no prompt asks for is asked too, but seldom.
                    let weight = weights.get(&id).copied().unwrap_or(0);
                    sum += if asked(symbol) { 1 + weight } else { 1 };
                    logic.push((symbol.name.clone(), sum));
                }
                Type::Int | Type::Hex | Type::Text => {
                    let bounds = symbol
                        .ranges
                        .iter()
                        .flat_map(|range| [range.low, range.high]);
                    let bounds = bounds.map(|id| tree.symbol(id).name.clone()).collect();
                    worded.push((symbol.name.clone(), symbol.kind, bounds));
                }
                Type::Unknown => {}
            }
        }
        let members = |ids: &[SymbolId]| {
            let names = ids.iter().map(|id| tree.symbol(*id).name.clone());
            names.collect()
        };
        Self {
            choices: tree
                .choices()
                .map(|(_, choice)| members(&choice.members))
                .collect(),
            logic,
            worded,
        }
    }

    /// One to thirty lines.
    pub fn fragment(&self, dice: &mut Dice) -> Vec<String> {
        let length = 1 + dice.below(30);
        let mut lines = Vec::new();
        while lines.len() < length {
            match dice.below(10) {
                0..3 => self.members(dice, &mut lines),
                3..6 => {
                    let value = *dice.pick(&["y", "y", "m", "n"]);
                    lines.push(format!("CONFIG_{}={value}", self.logic(dice)));
                }
                6..8 => lines.push(self.word(dice)),
                8 if dice.percent(20) => lines.push(self.oddity(dice)),
                _ => {
                    let name = if dice.percent(90) {
                        self.logic(dice)
                    } else {
                        &dice.pick(&self.worded).0
                    };
                    lines.push(format!("# CONFIG_{name} is not set"));
                }
            }
        }
        lines
    }

    fn logic(&self, dice: &mut Dice) -> &str {
        let all = self.logic.last().map_or(0, |(_, sum)| *sum);
        let drawn = dice.below(all);
        let at = self.logic.partition_point(|(_, sum)| *sum <= drawn);
        &self.logic[at].0
    }

    /// Some members of one choice in any order.
    fn members(&self, dice: &mut Dice, lines: &mut Vec<String>) {
        let mut members = dice.pick(&self.choices).clone();
        dice.shuffle(&mut members);
        members.truncate(1 + dice.below(5));
        for member in members {
            lines.push(match dice.below(5) {
                0 | 1 => format!("CONFIG_{member}=y"),
                2 => format!("CONFIG_{member}=n"),
                _ => format!("# CONFIG_{member} is not set"),
            });
        }
    }

    /// A number or text at, near or far from its bounds.
    fn word(&self, dice: &mut Dice) -> String {
        let (name, kind, bounds) = dice.pick(&self.worded);
        let near = |dice: &mut Dice, text: &str| {
            let off = i128::try_from(dice.below(3)).unwrap_or(0) - 1;
            let (digits, radix) = match text.strip_prefix("0x") {
                Some(digits) => (digits, 16),
                None => (text, 10),
            };
            i128::from_str_radix(digits, radix).map(|number| (number + off, radix))
        };
        let shown = |number: i128, hex: bool| {
            if hex {
                format!("{}0x{:x}", if number < 0 { "-" } else { "" }, number.abs())
            } else {
                number.to_string()
            }
        };
        let value = match kind {
            Type::Text => format!("\"{}\"", dice.pick(&["", "text", "a b", "\\\"", "\\\\"])),
            kind => {
                let hex = *kind == Type::Hex;
                let bound = (!bounds.is_empty()).then(|| dice.pick(bounds).clone());
                match bound.and_then(|bound| near(dice, &bound).ok()) {
                    Some((number, _)) if dice.percent(70) => shown(number, hex),
                    _ if dice.percent(40) => {
                        let far = ["0", "-1", "017", "ff", "0xFF", "0X1f", "1e3"];
                        (*dice.pick(&far)).to_owned()
                    }
                    _ if dice.percent(20) => {
                        let far = [
                            "9223372036854775808",
                            "-9223372036854775809",
                            "0xffffffffffffffffff",
                        ];
                        (*dice.pick(&far)).to_owned()
                    }
                    _ => shown(i128::from(dice.next() >> (32 + dice.below(30))), hex),
                }
            }
        };
        format!("CONFIG_{name}={value}")
    }

    /// A line that only looks like one, or a value that only looks like one.
    fn oddity(&self, dice: &mut Dice) -> String {
        let name = if dice.percent(60) {
            self.logic(dice)
        } else {
            &dice.pick(&self.worded).0
        };
        match dice.below(8) {
            0 => format!("# CONFIG_{name} is not set "),
            1 => format!(" CONFIG_{name}=y"),
            2 => format!("CONFIG_{name} =y"),
            3 => "CONFIG_NEVER_HEARD_OF=y".to_owned(),
            4 => format!("{name}=y"),
            _ => format!("CONFIG_{name}={}", dice.pick(&ODD)),
        }
    }
}

/// How many others stand or fall with each symbol.
fn weights(tree: &Tree) -> HashMap<SymbolId, usize> {
    let mut weights: HashMap<SymbolId, usize> = HashMap::new();
    let mut add = |symbol, weight| *weights.entry(symbol).or_default() += weight;
    for (_, node) in tree.nodes() {
        tree.exprs().symbols(node.own, &mut |symbol| add(symbol, 1));
    }
    for (id, symbol) in tree.symbols() {
        add(id, 3 * symbol.selected_by.len());
        for select in &symbol.selects {
            add(id, 1);
            tree.exprs()
                .symbols(select.condition, &mut |symbol| add(symbol, 1));
        }
    }
    // What everything depends on would be drawn every time.
    for weight in weights.values_mut() {
        *weight = (*weight).min(60);
    }
    weights
}

/// The symbol that a line of a configuration is about.
pub fn name_of(line: &str) -> Option<&str> {
    let off = line
        .strip_prefix("# CONFIG_")
        .and_then(|rest| rest.strip_suffix(" is not set"));
    off.or_else(|| Some(line.strip_prefix("CONFIG_")?.split_once('=')?.0))
}

/// Lines put over a configuration, as the merge does it: at the end, the base's own lines about the
/// same symbols taken out.
pub fn merged(base: &[&str], lines: &[&str]) -> String {
    let asked: HashSet<&str> = lines.iter().filter_map(|line| name_of(line)).collect();
    let kept = base
        .iter()
        .filter(|line| name_of(line).is_none_or(|name| !asked.contains(name)));
    let all: Vec<&str> = kept.chain(lines).copied().collect();
    all.join("\n") + "\n"
}
