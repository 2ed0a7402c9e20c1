//! The comments of a fragment that are addressed to kiln.

use super::fragment_line::Fault;
use super::nearest::nearest;
use super::request::{self, SERIES_OPERATORS, SeriesRange, Waiver};
use crate::dotconfig::Value;
use crate::kernel::Series;

/// What every directive starts with.
const LEAD: &str = "# kiln: ";

/// The words of directives.
const NAMES: [&str; 8] = [
    "series", "optional", "any", "why", "waive", "override", "begin", "end",
];

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Directive {
    Series(SeriesRange),
    Optional(String),
    Any(Vec<Value>),
    Why(String),
    Waive(Waiver),
    Override(String),
    Begin(SeriesRange),
    End,
}

impl Directive {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Series(_) => "series",
            Self::Optional(_) => "optional",
            Self::Any(_) => "any",
            Self::Why(_) => "why",
            Self::Waive(_) => "waive",
            Self::Override(_) => "override",
            Self::Begin(_) => "begin",
            Self::End => "end",
        }
    }
}

/// Reads a comment line: nothing where it is not addressed to kiln.
pub(super) fn read(line: &str) -> Result<Option<Directive>, Fault> {
    let Some(text) = line.strip_prefix(LEAD) else {
        return match near(line) {
            Some(rest) => {
                let fault = Fault::new(1, format!("`{LEAD}`"), format!("`{line}`"));
                Err(fault.nearest(format!("{LEAD}{rest}")))
            }
            None => Ok(None),
        };
    };
    let mut words = Words {
        text,
        column: LEAD.len() + 1,
    };
    let directive = words.directive()?;
    words.finish()?;
    Ok(Some(directive))
}

/// The text of a directive whose lead is written wrongly: `#kiln:why`, `# Kiln: why`, `# kiln why`.
fn near(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#').trim_start();
    let (lead, rest) = text.split_at_checked(4)?;
    if !lead.eq_ignore_ascii_case("kiln") {
        return None;
    }
    let after = rest.trim_start();
    if let Some(after) = after.strip_prefix(':') {
        return Some(after.trim());
    }
    // Without the colon only a directive's word tells it from prose.
    let word = after.split_whitespace().next()?;
    (rest.starts_with(char::is_whitespace) && NAMES.contains(&word)).then(|| after.trim())
}

/// The words of a directive, with the column of the next one.
struct Words<'a> {
    text: &'a str,
    column: usize,
}

impl<'a> Words<'a> {
    fn skip_blanks(&mut self) {
        let trimmed = self.text.trim_start();
        self.advance(self.text.len() - trimmed.len());
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.text.split_at(bytes);
        self.column += taken.chars().count();
        self.text = rest;
        taken
    }

    /// The next word; a fault where the line ends.
    fn word(&mut self, expected: &str) -> Result<(usize, &'a str), Fault> {
        self.skip_blanks();
        let column = self.column;
        let end = self.text.find(char::is_whitespace);
        let end = end.unwrap_or(self.text.len());
        if end == 0 {
            return Err(Fault::new(column, expected, "the end of the line"));
        }
        Ok((column, self.advance(end)))
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), Fault> {
        let expected = format!("`{keyword}`");
        let (column, found) = self.word(&expected)?;
        if found == keyword {
            Ok(())
        } else {
            Err(Fault::new(column, expected, format!("`{found}`")))
        }
    }

    /// A text in quotes, which may not be empty: an empty reason is none.
    fn quoted(&mut self, what: &str) -> Result<String, Fault> {
        self.skip_blanks();
        let column = self.column;
        let text = self.text;
        let expected = format!("{what} in quotes");
        let found = match text {
            "" => "the end of the line".to_owned(),
            text => format!("`{text}`"),
        };
        if !text.starts_with('"') {
            return Err(Fault::new(column, expected, found));
        }
        let mut value = String::new();
        let mut chars = text.char_indices().skip(1);
        while let Some((index, char)) = chars.next() {
            match char {
                '"' if value.trim().is_empty() => {
                    return Err(Fault::new(column, expected, "an empty text"));
                }
                '"' => {
                    self.advance(index + 1);
                    return Ok(value);
                }
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                char => value.push(char),
            }
        }
        Err(Fault::new(column, "a closing quote", found))
    }

    fn directive(&mut self) -> Result<Directive, Fault> {
        let (column, name) = self.word("a directive")?;
        match name {
            "series" => self.condition().map(Directive::Series),
            "optional" => self.quoted("a reason").map(Directive::Optional),
            "any" => self.values().map(Directive::Any),
            "why" => self.quoted("a reason").map(Directive::Why),
            "waive" => self.waiver().map(Directive::Waive),
            "override" => self.quoted("a reason").map(Directive::Override),
            "begin" => {
                self.keyword("series")?;
                self.condition().map(Directive::Begin)
            }
            "end" => Ok(Directive::End),
            _ => {
                let expected = format!("one of {}", NAMES.join(", "));
                let fault = Fault::new(column, expected, format!("`{name}`"));
                Err(match nearest(name, NAMES.iter().copied()) {
                    Some(nearest) => fault.nearest(format!("{LEAD}{nearest}{}", self.text)),
                    None => fault,
                })
            }
        }
    }

    fn condition(&mut self) -> Result<SeriesRange, Fault> {
        let operators = format!("one of {}", SERIES_OPERATORS.join(" "));
        let (column, operator) = self.word(&operators)?;
        let bad_operator = || Fault::new(column, &operators, format!("`{operator}`"));
        if !SERIES_OPERATORS.contains(&operator) {
            return Err(match operator {
                "==" => bad_operator().nearest("="),
                _ => bad_operator(),
            });
        }
        let expected = "a series, such as 6.18";
        let (column, text) = self.word(expected)?;
        let series: Series = text
            .parse()
            .map_err(|_| Fault::new(column, expected, format!("`{text}`")))?;
        SeriesRange::condition(operator, series).ok_or_else(bad_operator)
    }

    fn values(&mut self) -> Result<Vec<Value>, Fault> {
        let expected = "two or more values";
        let mut values = Vec::new();
        loop {
            self.skip_blanks();
            if self.text.is_empty() {
                break;
            }
            let column = self.column;
            let value = if self.text.starts_with('"') {
                Value::Text(self.quoted("a value")?)
            } else {
                Value::parse(self.word(expected)?.1)
            };
            if let Value::Loose(word) = &value {
                let expected = "`y`, `m`, `n`, a number, or a string in quotes";
                return Err(Fault::new(column, expected, format!("`{word}`")));
            }
            if values.contains(&value) {
                let found = format!("`{value}` again");
                return Err(Fault::new(column, "each value once", found));
            }
            values.push(value);
        }
        if values.len() < 2 {
            let found = format!("{} of them", values.len());
            return Err(Fault::new(self.column, expected, found));
        }
        Ok(values)
    }

    fn waiver(&mut self) -> Result<Waiver, Fault> {
        self.keyword("until")?;
        let expected = "a date, such as 2027-03-01";
        let (column, text) = self.word(expected)?;
        let until =
            request::date(text).ok_or_else(|| Fault::new(column, expected, format!("`{text}`")))?;
        self.keyword("owner")?;
        let expected = "a name of one word";
        let (column, owner) = self.word(expected)?;
        if owner.starts_with('"') {
            return Err(Fault::new(column, expected, format!("`{owner}`")));
        }
        Ok(Waiver {
            until,
            owner: owner.to_owned(),
            reason: self.quoted("a reason")?,
        })
    }

    fn finish(&mut self) -> Result<(), Fault> {
        if self.text.is_empty() {
            return Ok(());
        }
        let found = match self.text.trim() {
            "" => "a blank".to_owned(),
            text => format!("`{text}`"),
        };
        Err(Fault::new(self.column, "the end of the line", found))
    }
}
