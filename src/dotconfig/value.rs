//! One value, and how a line writes it.

use std::fmt;

use serde::{Serialize, Serializer};

/// What every symbol's name is prefixed with in a configuration file.
pub const PREFIX: &str = "CONFIG_";

/// A value as a configuration file writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// `y`.
    Yes,
    /// `m`.
    Module,
    /// `n`, or the line `# CONFIG_X is not set`.
    No,
    /// A decimal number, as written; leading zeros are not one (`017` is no valid int).
    Int(String),
    /// A number with `0x`, as written.
    Hex(String),
    /// A quoted string, without its quotes and escapes.
    Text(String),
    /// Anything else, as written. The kernel's reader takes such a value by a prefix or drops it.
    Loose(String),
}

impl Value {
    /// Reads what stands after `=`. Every text is a value; see [`Value::Loose`].
    pub fn parse(text: &str) -> Self {
        match text {
            "y" => Self::Yes,
            "m" => Self::Module,
            "n" => Self::No,
            _ if is_int(text) => Self::Int(text.to_owned()),
            _ if is_hex(text) => Self::Hex(text.to_owned()),
            _ => match unquote(text) {
                Some(string) => Self::Text(string),
                None => Self::Loose(text.to_owned()),
            },
        }
    }

    /// Whether this is `n`.
    pub fn is_off(&self) -> bool {
        *self == Self::No
    }

    /// What the kernel's reader makes of it for a tristate: the first letter alone counts.
    pub fn read_as_tristate(&self) -> Option<Self> {
        match self.to_string().bytes().next() {
            Some(b'y' | b'Y') => Some(Self::Yes),
            Some(b'm' | b'M') => Some(Self::Module),
            Some(b'n' | b'N') => Some(Self::No),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("y"),
            Self::Module => f.write_str("m"),
            Self::No => f.write_str("n"),
            Self::Int(text) | Self::Hex(text) | Self::Loose(text) => f.write_str(text),
            Self::Text(string) => {
                // The kernel's writer escapes these two and nothing else.
                let escaped = string.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{escaped}\"")
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn is_int(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn is_hex(text: &str) -> bool {
    text.strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The string between quotes, or nothing where the text is not exactly one quoted string.
fn unquote(text: &str) -> Option<String> {
    let mut string = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(string),
            '\\' => string.push(chars.next()?),
            char => string.push(char),
        }
    }
}

/// Writes the line that gives `symbol` this value, as the kernel's writer does.
pub fn line(symbol: &str, value: &Value) -> String {
    if value.is_off() {
        format!("# {PREFIX}{symbol} is not set")
    } else {
        format!("{PREFIX}{symbol}={value}")
    }
}

/// Whether `text` can be the name of a symbol. Some kernel symbols do have lower-case letters
/// (`ARCNET_COM90xx`).
pub fn is_symbol(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
