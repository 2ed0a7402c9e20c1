//! Colour, where there is a terminal to show it. Everything is legible without.

use std::io::IsTerminal;

/// What a piece of text says, by which it is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good news.
    Good,
    /// Something that needs a look.
    Warn,
    /// Something that is wrong.
    Bad,
    /// What matters in a line.
    Strong,
    /// What may be passed over.
    Faint,
}

/// Whether to colour one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// No colour.
    pub const PLAIN: Self = Self { colour: false };

    /// Always colour.
    pub const COLOURED: Self = Self { colour: true };

    /// Colour where `stream` is a terminal that can show it and nobody asked for none
    /// (`NO_COLOR`, <https://no-color.org>).
    pub fn auto(stream: &impl IsTerminal) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            colour: wanted && able && stream.is_terminal(),
        }
    }

    /// `text` in a tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "1;31",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// The codes that [`Style::paint`] writes.
const CODES: [&str; 6] = ["32m", "33m", "1;31m", "1m", "2m", "0m"];

/// `text` as it may go to a terminal: whatever came from files, archives and programs moves no
/// cursor, and turns no line around. Only the colours that [`Style`] gives stay.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let ours = |code: &&&str| {
            c == '\u{1b}'
                && rest
                    .strip_prefix('[')
                    .is_some_and(|r| r.starts_with(**code))
        };
        if let Some(code) = CODES.iter().find(ours) {
            out.push_str("\u{1b}[");
            out.push_str(code);
            rest = &rest[1 + code.len()..];
        } else if (c.is_control() && !matches!(c, '\n' | '\t')) || turns_lines(c) {
            out.push('?');
        } else {
            out.push(c);
        }
    }
    out
}

/// Unicode's directional formatting characters (UAX 9), which let a text look like another.
fn turns_lines(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_added_around_the_text_only() {
        assert_eq!(Style::PLAIN.paint(Tone::Bad, "x"), "x");
        assert_eq!(
            Style::COLOURED.paint(Tone::Good, "x"),
            "\u{1b}[32mx\u{1b}[0m"
        );
    }

    #[test]
    fn only_our_own_colours_reach_the_terminal() {
        let good = Style::COLOURED.paint(Tone::Bad, "red\tone\n");
        assert_eq!(printable(&good), good);
        assert_eq!(
            printable("a\u{1b}]0;owned\u{7}b\u{1b}[2Jc\rd\u{202e}e"),
            "a?]0;owned?b?[2Jc?d?e"
        );
        assert_eq!(printable("\u{1b}"), "?");
        assert_eq!(printable("\u{1b}[3"), "?[3");
    }
}
