//! Lines into tokens: words, strings and operators, with macros expanded where they stand.

use super::error::{Place, Problem};
use super::macros::{Assignment, Macros, Scene, Trouble, reference_length};
use super::warning::ParseWarning;

/// One token of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A bare word. Only a word without expansion can be a keyword.
    Word { text: String, plain: bool },
    /// What stood in quotes.
    Quoted(String),
    /// An operator or parenthesis.
    Sign(&'static str),
}

impl Token {
    /// The keyword, where this can be one.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Self::Word { text, plain: true } => Some(text),
            _ => None,
        }
    }

    /// How a message shows it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word { text, .. } => format!("`{text}`"),
            Self::Quoted(text) => format!("\"{text}\""),
            Self::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// A file being read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) file: u32,
    text: String,
    at: usize,
    /// The line that `at` is in, from 1.
    line: u32,
}

/// A statement.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub(super) line: u32,
    pub(super) tokens: Vec<Token>,
    /// `name = text` and its kin; the name is the only token then.
    pub(super) assignment: Option<(Assignment, String)>,
}

impl Statement {
    /// Whether it belongs to the entry before.
    pub(super) fn is_attribute(&self) -> bool {
        let word = self.tokens.first().and_then(Token::keyword);
        self.assignment.is_none()
            && !matches!(
                word,
                Some(
                    "config"
                        | "menuconfig"
                        | "choice"
                        | "endchoice"
                        | "menu"
                        | "endmenu"
                        | "if"
                        | "endif"
                        | "comment"
                        | "source"
                        | "mainmenu"
                )
            )
    }
}

const SIGNS: [&str; 11] = ["||", "&&", "!=", "<=", ">=", "=", "<", ">", "!", "(", ")"];

impl Source {
    pub(super) fn new(name: String, file: u32, text: String) -> Self {
        Self {
            name,
            file,
            text,
            at: 0,
            line: 1,
        }
    }

    /// Where reading stands.
    pub(super) fn place(&self) -> Place {
        Place {
            file: self.file,
            line: self.line,
        }
    }

    /// Reads the next statement that is not empty; false at the end of the file.
    pub(super) fn statement(
        &mut self,
        host: &dyn super::Host,
        macros: &mut Macros,
        warnings: &mut Vec<ParseWarning>,
        statement: &mut Statement,
    ) -> Result<bool, Trouble> {
        loop {
            statement.tokens.clear();
            statement.assignment = None;
            statement.line = self.line;
            if self.at >= self.text.len() {
                return Ok(false);
            }
            let probes = macros.probes.len();
            self.tokens(host, macros, warnings, statement)?;
            for probe in &mut macros.probes[probes..] {
                probe.place.line = statement.line;
            }
            if !statement.tokens.is_empty() {
                return Ok(true);
            }
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Reads tokens up to and including the line's end.
    fn tokens(
        &mut self,
        host: &dyn super::Host,
        macros: &mut Macros,
        warnings: &mut Vec<ParseWarning>,
        statement: &mut Statement,
    ) -> Result<(), Trouble> {
        loop {
            let Some(byte) = self.rest().bytes().next() else {
                // A remark may end the file like this, a statement may not.
                return if statement.tokens.is_empty() {
                    Ok(())
                } else {
                    Err(Problem::NoNewline.into())
                };
            };
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    return Ok(());
                }
                b' ' | b'\t' => self.at += 1,
                b'\\' if self.rest().starts_with("\\\n") => {
                    self.at += 2;
                    self.line += 1;
                }
                b'#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                b'"' | b'\'' => {
                    let text = self.quoted(host, macros, warnings, byte)?;
                    statement.tokens.push(Token::Quoted(text));
                }
                byte if is_word(byte) || byte == b'$' => {
                    let (text, plain) = self.word(host, macros)?;
                    let first = statement.tokens.is_empty();
                    if first {
                        statement.line = self.line;
                    }
                    // A macro that expands to nothing is nothing.
                    if !text.is_empty() {
                        statement.tokens.push(Token::Word { text, plain });
                        if first && self.assignment(statement)? {
                            return Ok(());
                        }
                    }
                }
                _ => self.sign(warnings, statement),
            }
        }
    }

    fn scene<'a>(&'a self, host: &'a dyn super::Host) -> Scene<'a> {
        Scene {
            host,
            file: &self.name,
            place: self.place(),
        }
    }

    /// Expands the reference that starts here, `$(` included.
    fn reference(
        &mut self,
        host: &dyn super::Host,
        macros: &mut Macros,
    ) -> Result<String, Trouble> {
        let inside = &self.rest()[2..];
        // A reference ends in its line.
        let line = inside.split('\n').next().unwrap_or_default();
        let length = reference_length(line)?;
        let value = macros.reference(self.scene(host), &line[..length])?;
        self.at += length + 3;
        Ok(value)
    }

    /// A bare word with the references in it, and whether it had none.
    fn word(
        &mut self,
        host: &dyn super::Host,
        macros: &mut Macros,
    ) -> Result<(String, bool), Trouble> {
        let mut text = String::new();
        let mut plain = true;
        loop {
            let length = self.rest().bytes().take_while(|b| is_word(*b)).count();
            text.push_str(&self.rest()[..length]);
            self.at += length;
            if !self.rest().starts_with('$') {
                return Ok((text, plain));
            }
            plain = false;
            if self.rest().starts_with("$(") {
                let value = self.reference(host, macros)?;
                text.push_str(&value);
            } else {
                text.push('$');
                self.at += 1;
            }
        }
    }

    fn quoted(
        &mut self,
        host: &dyn super::Host,
        macros: &mut Macros,
        warnings: &mut Vec<ParseWarning>,
        quote: u8,
    ) -> Result<String, Trouble> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(char) = self.rest().chars().next() else {
                warnings.push(ParseWarning::MultiLine(self.place()));
                return Ok(text);
            };
            if char == '\n' {
                // The line's end ends the string too, and is read again as such.
                warnings.push(ParseWarning::MultiLine(self.place()));
                return Ok(text);
            }
            if self.rest().starts_with("$(") {
                let value = self.reference(host, macros)?;
                text.push_str(&value);
                continue;
            }
            self.at += char.len_utf8();
            match char {
                '\\' => match self.rest().chars().next() {
                    Some('\n') | None => {}
                    Some(next) => {
                        text.push(next);
                        self.at += next.len_utf8();
                    }
                },
                char if char == char::from(quote) => return Ok(text),
                char => text.push(char),
            }
        }
    }

    /// Reads `= text` and its kin after the first word of a line.
    fn assignment(&mut self, statement: &mut Statement) -> Result<bool, Problem> {
        let rest = self.rest();
        let sign = rest.trim_start_matches([' ', '\t']);
        let (how, text) = if let Some(text) = sign.strip_prefix(":=") {
            (Assignment::Simple, text)
        } else if let Some(text) = sign.strip_prefix("+=") {
            (Assignment::Append, text)
        } else if let Some(text) = sign.strip_prefix('=') {
            (Assignment::Recursive, text)
        } else {
            return Ok(false);
        };
        let line = text.split('\n').next().unwrap_or_default();
        let value = line.trim_start_matches([' ', '\t']).to_owned();
        let length = rest.len() - text.len() + line.len();
        self.at += length;
        if !self.rest().starts_with('\n') {
            return Err(Problem::NoNewline);
        }
        self.at += 1;
        self.line += 1;
        statement.assignment = Some((how, value));
        Ok(true)
    }

    fn sign(&mut self, warnings: &mut Vec<ParseWarning>, statement: &mut Statement) {
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) {
            statement.tokens.push(Token::Sign(sign));
            self.at += sign.len();
        } else if let Some(char) = self.rest().chars().next() {
            warnings.push(ParseWarning::Unsupported(self.place(), char));
            self.at += char.len_utf8();
        }
    }

    /// Reads a help text: up to the first line that is indented less than its first line. A line
    /// right behind `help` belongs to it even without indentation.
    pub(super) fn help(&mut self) -> String {
        let mut text = String::new();
        let mut indent = None;
        let mut first_line = true;
        while !self.rest().is_empty() {
            let rest = self.rest();
            let line = rest.split('\n').next().unwrap_or_default();
            let ended = line.len() < rest.len();
            let (width, content) = indentation(line);
            if content.is_empty() {
                text.push('\n');
            } else {
                let first = indent.unwrap_or(width);
                if (width < first || width == 0) && !first_line {
                    break;
                }
                if width > 0 {
                    indent = Some(first);
                }
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(first)));
                text.push_str(content.trim_end());
                text.push('\n');
            }
            first_line = false;
            self.at += line.len() + usize::from(ended);
            self.line += u32::from(ended);
        }
        text.trim_matches('\n').to_owned()
    }
}

/// Whether a byte can stand in a bare word.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The width of a line's indentation, a tab reaching to the next multiple of eight, and the rest.
fn indentation(line: &str) -> (usize, &str) {
    let mut width = 0;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b' ' => width += 1,
            b'\t' => width = (width & !7) + 8,
            _ => return (width, &line[at..]),
        }
    }
    (width, "")
}

/// The problem of a token that should not stand where it stands.
pub(super) fn unexpected(expected: &'static str, token: Option<&Token>) -> Problem {
    Problem::Syntax {
        expected,
        found: token.map_or_else(|| "the end of the line".to_owned(), Token::shown),
    }
}
