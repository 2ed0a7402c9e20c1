//! One line of a fragment: what it means, or what is wrong with it.

use super::directive::{self, Directive};
use crate::dotconfig::{self, PREFIX, Value};

/// What is wrong in a line.
#[derive(Debug)]
pub(super) struct Fault {
    /// Column from 1, in characters.
    pub(super) column: usize,
    pub(super) expected: String,
    pub(super) found: String,
    pub(super) nearest: Option<String>,
}

impl Fault {
    pub(super) fn new(
        column: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            column,
            expected: expected.into(),
            found: found.into(),
            nearest: None,
        }
    }

    pub(super) fn nearest(mut self, nearest: impl Into<String>) -> Self {
        self.nearest = Some(nearest.into());
        self
    }
}

/// What one line means.
#[derive(Debug)]
pub(super) enum Meaning {
    Nothing,
    Directive(Directive),
    Assign { symbol: String, value: Value },
}

/// Reads a line without its line feed.
pub(super) fn read(line: &str) -> Result<Meaning, Fault> {
    if line.is_empty() {
        return Ok(Meaning::Nothing);
    }
    if line.starts_with('#') {
        return comment(line);
    }
    blanks(line)?;
    assignment(line)
}

fn comment(line: &str) -> Result<Meaning, Fault> {
    if let Some(directive) = directive::read(line)? {
        return Ok(Meaning::Directive(directive));
    }
    let words: Vec<&str> = line[1..].split_whitespace().collect();
    let Some(symbol) = words.first().and_then(|word| strip_prefix_any_case(word)) else {
        return Ok(Meaning::Nothing);
    };
    let rest = words[1..].join(" ").to_ascii_lowercase();
    let meant = ["is not set", "is not set.", "not set", "is unset"].contains(&rest.as_str());
    if !meant || !dotconfig::is_symbol(symbol) {
        return Ok(Meaning::Nothing);
    }
    let right = dotconfig::line(&upper(symbol), &Value::No);
    if line == right {
        return Ok(Meaning::Assign {
            symbol: symbol.to_owned(),
            value: Value::No,
        });
    }
    let same = line.chars().zip(right.chars()).take_while(|(a, b)| a == b);
    let column = same.count() + 1;
    let found = format!("`{line}`, which is only a comment");
    Err(Fault::new(column, "the exact line that unsets a symbol", found).nearest(right))
}

/// The symbol as it was surely meant: no symbol of the kernel is all lower case.
fn upper(symbol: &str) -> String {
    if symbol.bytes().any(|b| b.is_ascii_uppercase()) {
        symbol.to_owned()
    } else {
        symbol.to_ascii_uppercase()
    }
}

fn strip_prefix_any_case(word: &str) -> Option<&str> {
    let (prefix, rest) = word.split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX).then_some(rest)
}

/// Blanks where the kernel's reader allows none.
fn blanks(line: &str) -> Result<(), Fault> {
    if line.trim().is_empty() {
        return Err(Fault::new(1, "an empty line", "blanks"));
    }
    if line.starts_with(char::is_whitespace) {
        let fault = Fault::new(1, "no blank at the start of a line", "a blank");
        return Err(fault.nearest(line.trim()));
    }
    if line.ends_with(char::is_whitespace) {
        let kept = line.trim_end();
        let found = if line.ends_with('\r') {
            "a carriage return"
        } else {
            "a blank"
        };
        let fault = Fault::new(kept.chars().count() + 1, "the end of the line", found);
        return Err(fault.nearest(kept));
    }
    Ok(())
}

fn assignment(line: &str) -> Result<Meaning, Fault> {
    let Some((name, text)) = line.split_once('=') else {
        let found = format!("`{line}`");
        return Err(Fault::new(1, "`CONFIG_SYMBOL=value` or a comment", found));
    };
    let Some(symbol) = name.strip_prefix(PREFIX) else {
        let bare = strip_prefix_any_case(name).unwrap_or(name).trim();
        let fault = Fault::new(1, "`CONFIG_`", format!("`{name}`"));
        return Err(if dotconfig::is_symbol(bare) {
            fault.nearest(format!("{PREFIX}{}={}", upper(bare), text.trim()))
        } else {
            fault
        });
    };
    let right = |value: &str| format!("{PREFIX}{}={value}", upper(symbol.trim()));
    if symbol.ends_with(char::is_whitespace) {
        let column = name.trim_end().chars().count() + 1;
        let fault = Fault::new(column, "`=` right after the symbol", "a blank");
        return Err(fault.nearest(right(text.trim())));
    }
    if text.starts_with(char::is_whitespace) {
        let column = name.chars().count() + 2;
        let fault = Fault::new(column, "the value right after `=`", "a blank");
        return Err(fault.nearest(right(text.trim())));
    }
    if !dotconfig::is_symbol(symbol) {
        let good = symbol
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        let column = PREFIX.len() + good.count() + 1;
        let found = format!("`{name}`");
        return Err(Fault::new(
            column,
            "letters, digits and `_` in a symbol",
            found,
        ));
    }
    if upper(symbol) != symbol {
        let found = format!("`{symbol}`");
        let fault = Fault::new(PREFIX.len() + 1, "an upper-case symbol", found);
        return Err(fault.nearest(right(text)));
    }
    match Value::parse(text) {
        Value::Loose(loose) => Err(loose_value(name.chars().count() + 2, symbol, &loose)),
        value => Ok(Meaning::Assign {
            symbol: symbol.to_owned(),
            value,
        }),
    }
}

/// Says what is wrong with a value that the kernel would take by a prefix, or drop.
fn loose_value(column: usize, symbol: &str, text: &str) -> Fault {
    let right = |value: &str| dotconfig::line(symbol, &Value::parse(value));
    if text.is_empty() {
        return Fault::new(column, "a value", "nothing").nearest(right("\"\""));
    }
    let found = format!("`{text}`");
    let tristate = match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" | "on" => Some("y"),
        "m" | "mod" | "module" => Some("m"),
        "n" | "no" | "false" | "off" => Some("n"),
        _ => None,
    };
    if let Some(value) = tristate {
        return Fault::new(column, "`y`, `m` or `n`", found).nearest(right(value));
    }
    if let Some((value, _)) = text.split_once(char::is_whitespace)
        && !matches!(Value::parse(value), Value::Loose(_))
    {
        let column = column + value.chars().count();
        let fault = Fault::new(column, "nothing after the value", found);
        return fault.nearest(right(value));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let sign = &text[..text.len() - digits.len()];
        let bare = digits.trim_start_matches('0');
        let value = if bare.is_empty() { "0" } else { bare };
        let fault = Fault::new(column, "a number without leading zeros", found);
        return fault.nearest(right(&format!("{sign}{value}")));
    }
    let bare = text.replace(['"', '\\'], "");
    let expected = if text.starts_with('"') {
        "one string that ends with `\"` (inside it `\\\"` stands for a quote)"
    } else {
        "`y`, `m`, `n`, a number, or a string in quotes"
    };
    Fault::new(column, expected, found).nearest(dotconfig::line(symbol, &Value::Text(bare)))
}
