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
}
