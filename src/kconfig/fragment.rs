//! Fragments: `.config` lines with kiln's directives in comments.
//!
//! ```text
//! # kiln: series >= 7.0                        for the next assignment only
//! # kiln: optional "absent before 6.13"        may be missing from the series
//! # kiln: any m y                              accept either
//! # kiln: why "bounds the delay of a normal wake-up to 1 ms"
//! # kiln: waive until 2027-03-01 owner NAME "reason"
//! # kiln: override "reason"                    where an earlier fragment says otherwise
//! # kiln: begin series < 7.0 ... # kiln: end   a block; blocks nest
//! ```
//!
//! The kernel's own reader ignores what it does not understand, mostly in silence. So the grammar
//! here is strict: a line that the kernel would skip or misread is an error, and a comment that
//! was meant as an assignment is too. Blocks for other series are read and checked like the rest.

use std::borrow::Cow;
use std::sync::Arc;

use camino::Utf8Path;

use super::directive::Directive;
use super::fragment_line::{self, Fault, Meaning};
use super::request::{Origin, Request, SeriesRange, Source, Wanted};
use crate::digest::Sha256;
use crate::dotconfig::Value;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kernel::Series;

/// Largest fragment that is read; the longest distribution configuration has 300 kB.
const SIZE_LIMIT: u64 = 4 << 20;

/// One error in a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// What should stand there.
    pub expected: String,
    /// What does stand there.
    pub found: String,
    /// The nearest right text, where there is one.
    pub nearest: Option<String>,
}

/// Why a fragment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FragmentError {
    /// The file cannot be read.
    #[error("failed to read fragment `{file}`")]
    Read {
        /// The file as the workspace names it.
        file: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// The file has errors; all of them are listed.
    #[error("{}", list(.file, .problems))]
    Invalid {
        /// The file as the workspace names it.
        file: String,
        /// The errors in line order.
        problems: Vec<Problem>,
    },
}

/// One line an error: file, position, what should stand there, what does, the nearest right text.
fn list(file: &str, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| {
            let Problem {
                line,
                column,
                expected,
                found,
                nearest,
            } = problem;
            let nearest = nearest
                .as_ref()
                .map_or_else(String::new, |nearest| format!("; write `{nearest}`"));
            format!("{file}:{line}:{column}: expected {expected}, found {found}{nearest}")
        })
        .collect();
    lines.join("\n")
}

impl Diagnose for FragmentError {
    fn exit(&self) -> Exit {
        match self {
            Self::Read { file: _, source } => source.exit(),
            Self::Invalid { .. } => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "fragment-unreadable",
            Self::Invalid { .. } => "fragment-invalid",
        }
    }
}

/// One line of a fragment that asks for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// What it asks for.
    pub request: Request,
    /// The series it is for.
    pub series: SeriesRange,
    /// Why it may disagree with an earlier fragment.
    pub overrides: Option<String>,
}

/// A fragment that was read without errors.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The file as the workspace names it.
    pub file: Arc<str>,
    /// The digest of its bytes.
    pub digest: Sha256,
    /// Its assignments for all series, in order.
    pub assignments: Vec<Assignment>,
}

impl Fragment {
    /// Reads the fragment at `path`; `shown` is its name in messages and reports.
    pub fn load(path: &Utf8Path, shown: &str) -> Result<Self, FragmentError> {
        let text = files::read_text(path, SIZE_LIMIT).map_err(|source| FragmentError::Read {
            file: shown.to_owned(),
            source,
        })?;
        Self::parse(shown, &text)
    }

    /// Reads a fragment's text; `file` is its name in messages and reports.
    pub fn parse(file: &str, text: &str) -> Result<Self, FragmentError> {
        let mut reader = Reader {
            file: Arc::from(file),
            assignments: Vec::new(),
            pending: Vec::new(),
            blocks: Vec::new(),
            problems: Vec::new(),
        };
        let bare = reader.encoding(text);
        for (number, line) in (1..).zip(bare.split('\n')) {
            reader.line(number, line);
        }
        reader.finish();
        if reader.problems.is_empty() {
            Ok(Self {
                file: reader.file,
                digest: Sha256::of(text.as_bytes()),
                assignments: reader.assignments,
            })
        } else {
            reader.problems.sort_by_key(|p| (p.line, p.column));
            Err(FragmentError::Invalid {
                file: file.to_owned(),
                problems: reader.problems,
            })
        }
    }

    /// The assignments that a series gets.
    pub fn active(&self, series: Series) -> impl Iterator<Item = &Assignment> {
        self.assignments
            .iter()
            .filter(move |assignment| assignment.series.contains(series))
    }
}

/// The directives that wait for an assignment, and the blocks that are open.
struct Reader {
    file: Arc<str>,
    assignments: Vec<Assignment>,
    pending: Vec<(u32, Directive)>,
    blocks: Vec<(u32, SeriesRange)>,
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, line: u32, fault: Fault) {
        let Fault {
            column,
            expected,
            found,
            nearest,
        } = fault;
        self.problems.push(Problem {
            line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
            expected,
            found,
            nearest,
        });
    }

    /// What an editor of another system adds, told once for the file; the text without it.
    fn encoding<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
        if bare.len() < text.len() {
            let fault = Fault::new(1, "plain UTF-8", "a byte order mark before the first line");
            self.problem(1, fault);
        }
        let ended = |line: &&str| line.ends_with('\r');
        let count = bare.split('\n').filter(ended).count();
        let mut lines = bare.split('\n').enumerate();
        let first = lines.find(|(_, line)| ended(line));
        // A single one is a slip in that line, and told there.
        let Some((first, line)) = first.filter(|_| count > 1) else {
            return Cow::Borrowed(bare);
        };
        let expected = "lines that end with a line feed alone (`sed -i 's/\\r$//'` makes them so)";
        let found = format!(
            "carriage returns before it, in this line and {} more",
            count - 1
        );
        let fault = Fault::new(line.chars().count(), expected, found);
        self.problem(u32::try_from(first + 1).unwrap_or(u32::MAX), fault);
        Cow::Owned(bare.replace("\r\n", "\n").trim_end_matches('\r').to_owned())
    }

    fn line(&mut self, number: u32, line: &str) {
        match fragment_line::read(line) {
            Ok(Meaning::Nothing) => {}
            Ok(Meaning::Directive(Directive::Begin(range))) => {
                self.dangling();
                self.begin(number, range);
            }
            Ok(Meaning::Directive(Directive::End)) => {
                self.dangling();
                if self.blocks.pop().is_none() {
                    let fault = Fault::new(1, "a block to end", "`end` without `begin`");
                    self.problem(number, fault);
                }
            }
            Ok(Meaning::Directive(directive)) => self.directive(number, directive),
            Ok(Meaning::Assign { symbol, value }) => self.assign(number, symbol, value),
            Err(fault) => {
                // The line was meant as an assignment or a directive, so what waits does not dangle.
                if !line.starts_with('#') {
                    self.pending.clear();
                }
                self.problem(number, fault);
            }
        }
    }

    fn begin(&mut self, number: u32, range: SeriesRange) {
        if self.range().and(range).is_empty() {
            self.never(number);
        }
        self.blocks.push((number, range));
    }

    fn never(&mut self, number: u32) {
        let expected = "conditions that some series meets together";
        self.problem(number, Fault::new(1, expected, "ones that none meets"));
    }

    /// The series of the open blocks together.
    fn range(&self) -> SeriesRange {
        let ranges = self.blocks.iter().map(|(_, range)| *range);
        ranges.fold(SeriesRange::ALL, SeriesRange::and)
    }

    fn directive(&mut self, number: u32, directive: Directive) {
        let name = directive.name();
        let twice = !matches!(directive, Directive::Series(_))
            && self.pending.iter().any(|(_, other)| other.name() == name);
        if twice {
            let found = format!("a second `{name}` before the next assignment");
            self.problem(number, Fault::new(9, "one of each directive", found));
        }
        self.pending.push((number, directive));
    }

    /// Directives that no assignment follows.
    fn dangling(&mut self) {
        for (line, directive) in std::mem::take(&mut self.pending) {
            let found = format!("`{}` with none", directive.name());
            let fault = Fault::new(1, "an assignment after the directive", found);
            self.problem(line, fault);
        }
    }

    fn assign(&mut self, line: u32, symbol: String, value: Value) {
        let origin = Origin {
            file: Arc::clone(&self.file),
            line,
        };
        let mut assignment = Assignment {
            request: Request::new(symbol, value, origin, Source::Fragment),
            series: self.range(),
            overrides: None,
        };
        for (at, directive) in std::mem::take(&mut self.pending) {
            self.bind(&mut assignment, at, directive);
        }
        if assignment.series.is_empty() && !self.range().is_empty() {
            self.never(line);
        }
        let symbol = &assignment.request.symbol;
        let earlier = self.assignments.iter().find(|other| {
            other.request.symbol == *symbol && !other.series.and(assignment.series).is_empty()
        });
        if let Some(earlier) = earlier {
            let found = format!(
                "a second one: {symbol} also stands in line {}",
                earlier.request.origin.line
            );
            let fault = Fault::new(1, "one line for a symbol and series", found);
            self.problem(line, fault);
        }
        self.assignments.push(assignment);
    }

    fn bind(&mut self, assignment: &mut Assignment, at: u32, directive: Directive) {
        let request = &mut assignment.request;
        match directive {
            Directive::Series(range) => assignment.series = assignment.series.and(range),
            Directive::Optional(reason) => request.optional = Some(reason),
            Directive::Any(any) => {
                if !any.contains(&request.wanted.value) {
                    let expected = "the value of the next assignment among those accepted";
                    let found = format!("`{}`", request.line());
                    self.problem(at, Fault::new(1, expected, found));
                }
                request.wanted = Wanted {
                    value: request.wanted.value.clone(),
                    any,
                };
            }
            Directive::Why(text) => request.why = Some(text),
            Directive::Waive(waiver) => request.waiver = Some(waiver),
            Directive::Override(reason) => assignment.overrides = Some(reason),
            // Blocks are opened and closed where they stand; they never wait.
            Directive::Begin(_) | Directive::End => {}
        }
    }

    fn finish(&mut self) {
        self.dangling();
        for (line, _) in std::mem::take(&mut self.blocks) {
            let fault = Fault::new(1, "`# kiln: end` for the block", "the end of the file");
            self.problem(line, fault);
        }
    }
}

#[cfg(test)]
#[path = "fragment_tests.rs"]
mod tests;
