//! Reading a configuration file as the kernel's `conf --olddefconfig` reads it.

use super::eval::{Asked, Model};
use super::expr::{SymbolId, Tri};
use super::tree::Type;

/// A warning of the reading of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWarning {
    /// The line, from 1.
    pub line: u32,
    /// The text, as the kernel's reader puts it.
    pub text: String,
}

impl Model {
    /// Forgets the configuration, reads this one, and computes every value.
    pub fn read(&mut self, text: &str) -> Vec<ReadWarning> {
        self.asked.fill(None);
        self.when.fill(0);
        self.latest = 0;
        let mut warnings = Vec::new();
        for (line, text) in (1_u32..).zip(text.split('\n')) {
            self.latest = line;
            let text = text.strip_suffix('\r').unwrap_or(text);
            self.read_line(line, text, &mut |text| {
                warnings.push(ReadWarning { line, text });
            });
        }
        self.warned = !warnings.is_empty();
        self.resolve();
        warnings
    }

    fn read_line(&mut self, number: u32, line: &str, warn: &mut impl FnMut(String)) {
        if line.is_empty() {
            return;
        }
        if line.starts_with('#') {
            let unset = line
                .strip_prefix("# CONFIG_")
                .and_then(|rest| rest.strip_suffix(" is not set"))
                .filter(|name| !name.contains(' '));
            if let Some(name) = unset {
                self.take(number, name, "n", warn);
            }
            return;
        }
        match line
            .strip_prefix("CONFIG_")
            .and_then(|rest| rest.split_once('='))
        {
            Some((name, value)) => self.take(number, name, value, warn),
            None => warn(format!("unexpected data: {line}")),
        }
    }

    fn take(&mut self, line: u32, name: &str, value: &str, warn: &mut impl FnMut(String)) {
        let Some(symbol) = self.tree.find(name) else {
            warn(format!("unknown symbol: {name}"));
            return;
        };
        if self.asked[symbol.index()].is_some() {
            warn(format!("override: reassigning to symbol {name}"));
        }
        match self.understood(symbol, value) {
            Understood::As(asked) => {
                self.asked[symbol.index()] = Some(asked);
                self.when[symbol.index()] = line;
            }
            Understood::Ignored => {}
            Understood::Invalid => warn(format!("symbol value '{value}' invalid for {name}")),
            Understood::OpenString => warn("invalid string found".to_owned()),
        }
    }

    /// What a line's value is for a symbol, or why it is none.
    pub(super) fn understood(&mut self, symbol: SymbolId, value: &str) -> Understood {
        let kind = self.tree.symbol(symbol).kind;
        let mut text = |text: &str| Understood::As(Asked::Text(self.texts.add(text)));
        match kind {
            // The first letter alone counts.
            Type::Bool | Type::Tristate => match value.bytes().next() {
                Some(b'y') => Understood::As(Asked::Logic(Tri::Yes)),
                Some(b'n') => Understood::As(Asked::Logic(Tri::No)),
                Some(b'm') if kind == Type::Tristate => Understood::As(Asked::Logic(Tri::Mod)),
                _ => Understood::Invalid,
            },
            Type::Int if is_int(value) => text(value),
            Type::Hex if is_hex(value) => text(value),
            Type::Int | Type::Hex => Understood::Invalid,
            Type::Text => match value.strip_prefix('"') {
                None => Understood::Ignored,
                Some(inner) => unquoted(inner).map_or(Understood::OpenString, |value| text(&value)),
            },
            Type::Unknown => Understood::Ignored,
        }
    }
}

/// What the reader makes of a value.
pub(super) enum Understood {
    As(Asked),
    Ignored,
    Invalid,
    OpenString,
}

/// Whether a text is a value of an int or hex symbol.
pub(super) fn is_value(kind: Type, text: &str) -> bool {
    match kind {
        Type::Int => is_int(text),
        Type::Hex => is_hex(text),
        _ => false,
    }
}

fn is_int(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn is_hex(text: &str) -> bool {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The string up to the closing quote.
fn unquoted(inner: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?),
            char => text.push(char),
        }
    }
}
