//! Reads the text of Kconfig files, line by line.

use std::io;
use std::iter::Peekable;
use std::sync::Arc;

use super::definitions::{
    Choice, Conditional, Definition, Definitions, DefinitionsError, Site, Type,
};
use crate::files::FileError;

/// How deeply files may include each other; the kernel's need 8.
const DEPTH_LIMIT: usize = 64;

/// Reads one file: its text, or nothing where there is none.
pub(super) type ReadFile<'a> = &'a mut dyn FnMut(&str) -> Result<Option<String>, Box<FileError>>;

/// Reads `top` and everything it includes.
pub(super) fn scan(top: &str, read: ReadFile<'_>) -> Result<Definitions, DefinitionsError> {
    let mut scanner = Scanner {
        definitions: Definitions::default(),
        frames: Vec::new(),
        entry: Entry::None,
        open: Vec::new(),
        read,
    };
    scanner.file(top, None, false)?;
    Ok(scanner.definitions)
}

/// What encloses a line.
struct Frame {
    kind: FrameKind,
    /// Conditions that it adds to what it holds.
    conditions: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    If,
    Menu,
    Choice(usize),
}

/// What the properties that follow belong to.
enum Entry {
    None,
    /// A definition of the symbol, the last in its list.
    Config(String),
    Frame,
    Choice(usize),
}

struct Scanner<'a> {
    definitions: Definitions,
    frames: Vec<Frame>,
    entry: Entry,
    open: Vec<String>,
    read: ReadFile<'a>,
}

impl Scanner<'_> {
    fn file(
        &mut self,
        name: &str,
        from: Option<&Site>,
        may_miss: bool,
    ) -> Result<(), DefinitionsError> {
        if let Some(site) = from
            && (self.open.len() >= DEPTH_LIMIT || self.open.iter().any(|open| open == name))
        {
            return Err(DefinitionsError::Recursion {
                file: name.to_owned(),
                site: site.clone(),
            });
        }
        let error = |source| DefinitionsError::Read {
            file: name.to_owned(),
            from: from.cloned(),
            source,
        };
        let Some(text) = (self.read)(name).map_err(error)? else {
            return if may_miss {
                Ok(())
            } else {
                Err(error(Box::new(FileError::Io {
                    action: "open",
                    path: name.into(),
                    source: io::ErrorKind::NotFound.into(),
                })))
            };
        };
        self.open.push(name.to_owned());
        self.lines(&Arc::from(name), &text)?;
        self.open.pop();
        Ok(())
    }

    fn lines(&mut self, file: &Arc<str>, text: &str) -> Result<(), DefinitionsError> {
        let mut lines = (1u32..).zip(text.lines()).peekable();
        let mut joined = String::new();
        while let Some((number, line)) = lines.next() {
            let mut line = line;
            if line.ends_with('\\') {
                joined.clear();
                while let Some(head) = line.strip_suffix('\\') {
                    joined.push_str(head);
                    line = lines.next().map_or("", |(_, next)| next);
                }
                joined.push_str(line);
                line = &joined;
            }
            let line = without_comment(line).trim();
            if matches!(line, "help" | "---help---") {
                skip_help(&mut lines);
                continue;
            }
            if line.is_empty() {
                continue;
            }
            let site = Site {
                file: Arc::clone(file),
                line: number,
            };
            self.line(line, site)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, site: Site) -> Result<(), DefinitionsError> {
        let end = line
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(line.len());
        let (keyword, rest) = line.split_at(end);
        let rest = rest.trim();
        match keyword {
            "config" | "menuconfig" => self.config(rest, site),
            "choice" => self.choice(site),
            "menu" => self.frame(FrameKind::Menu, Vec::new(), Entry::Frame),
            "if" => self.frame(FrameKind::If, vec![rest.to_owned()], Entry::None),
            "endif" | "endmenu" | "endchoice" => {
                self.frames.pop();
                self.entry = Entry::None;
            }
            "comment" | "mainmenu" => self.entry = Entry::None,
            "source" | "rsource" | "osource" | "orsource" => {
                self.entry = Entry::None;
                let relative = keyword.contains("rs");
                let name = included(rest, relative.then_some(&*site.file));
                return self.file(&name, Some(&site), keyword.starts_with('o'));
            }
            _ => self.property(keyword, rest, site),
        }
        Ok(())
    }

    fn frame(&mut self, kind: FrameKind, conditions: Vec<String>, entry: Entry) {
        self.frames.push(Frame { kind, conditions });
        self.entry = entry;
    }

    fn config(&mut self, name: &str, site: Site) {
        let choice = self.frames.iter().rev().find_map(|frame| match frame.kind {
            FrameKind::Choice(index) => Some(index),
            FrameKind::If | FrameKind::Menu => None,
        });
        if let Some(choice) = choice.and_then(|index| self.definitions.choices.get_mut(index)) {
            choice.members.push(name.to_owned());
        }
        let depends = self.frames.iter().flat_map(|frame| &frame.conditions);
        let definition = Definition {
            site,
            prompt: None,
            depends: depends.cloned().collect(),
            ranges: Vec::new(),
            defaults: Vec::new(),
            choice,
        };
        let symbol = self.definitions.symbols.entry(name.to_owned()).or_default();
        symbol.definitions.push(definition);
        self.entry = Entry::Config(name.to_owned());
    }

    fn choice(&mut self, site: Site) {
        let index = self.definitions.choices.len();
        self.definitions.choices.push(Choice {
            site,
            prompt: None,
            members: Vec::new(),
        });
        let entry = Entry::Choice(index);
        self.frame(FrameKind::Choice(index), Vec::new(), entry);
    }

    fn property(&mut self, keyword: &str, rest: &str, site: Site) {
        if keyword == "depends" {
            let condition = rest.strip_prefix("on").unwrap_or(rest).trim().to_owned();
            self.depends(condition);
            return;
        }
        match &self.entry {
            Entry::Choice(index) => {
                if matches!(keyword, "prompt" | "bool" | "tristate")
                    && let Some(choice) = self.definitions.choices.get_mut(*index)
                    && let Some((text, _)) = quoted(rest)
                {
                    choice.prompt = Some(text.to_owned());
                }
            }
            Entry::Config(name) => {
                let name = name.clone();
                self.config_property(&name, keyword, rest, site);
            }
            Entry::None | Entry::Frame => {}
        }
    }

    fn depends(&mut self, condition: String) {
        match &self.entry {
            Entry::Config(name) => {
                let symbol = self.definitions.symbols.get_mut(name);
                if let Some(definition) = symbol.and_then(|s| s.definitions.last_mut()) {
                    definition.depends.push(condition);
                }
            }
            Entry::Frame | Entry::Choice(_) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.conditions.push(condition);
                }
            }
            Entry::None => {}
        }
    }

    fn config_property(&mut self, name: &str, keyword: &str, rest: &str, site: Site) {
        if matches!(keyword, "select" | "imply") {
            let (target, condition) = split_condition(rest);
            let source = Conditional {
                text: name.to_owned(),
                condition,
                site,
            };
            let symbol = self.definitions.symbols.entry(target.to_owned());
            let symbol = symbol.or_default();
            if keyword == "select" {
                symbol.selected_by.push(source);
            } else {
                symbol.implied_by.push(source);
            }
            return;
        }
        let kind = match keyword {
            "bool" | "def_bool" => Some(Type::Bool),
            "tristate" | "def_tristate" => Some(Type::Tristate),
            "int" => Some(Type::Int),
            "hex" => Some(Type::Hex),
            "string" => Some(Type::String),
            _ => None,
        };
        let Some(symbol) = self.definitions.symbols.get_mut(name) else {
            return;
        };
        if kind.is_some() {
            symbol.kind = symbol.kind.or(kind);
        }
        let Some(definition) = symbol.definitions.last_mut() else {
            return;
        };
        let asks = matches!(
            keyword,
            "bool" | "tristate" | "int" | "hex" | "string" | "prompt"
        );
        if asks && let Some((text, after)) = quoted(rest) {
            let (_, condition) = split_condition(after);
            definition.prompt = Some(Conditional {
                text: text.to_owned(),
                condition,
                site,
            });
            return;
        }
        let list = match keyword {
            "range" => &mut definition.ranges,
            "default" | "def_bool" | "def_tristate" => &mut definition.defaults,
            _ => return,
        };
        let (text, condition) = split_condition(rest);
        list.push(Conditional {
            text: text.to_owned(),
            condition,
            site,
        });
    }
}

/// The line up to a `#` outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (index, byte) in line.bytes().enumerate() {
        match (quote, byte) {
            _ if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), byte) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'#') => return &line[..index],
            _ => {}
        }
    }
    line
}

/// The text in quotes at the start, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

/// What stands before and after ` if `.
fn split_condition(text: &str) -> (&str, Option<String>) {
    if let Some(condition) = text.trim_start().strip_prefix("if ") {
        return ("", Some(condition.trim().to_owned()));
    }
    match text.split_once(" if ").or_else(|| text.split_once("\tif ")) {
        Some((before, condition)) => (before.trim(), Some(condition.trim().to_owned())),
        None => (text.trim(), None),
    }
}

/// The file that a `source` line names: below the tree, or beside the file that names it.
fn included(rest: &str, beside: Option<&str>) -> String {
    let name = quoted(rest).map_or(rest, |(name, _)| name);
    let name = name.replace("$(SRCARCH)", "x86").replace("$SRCARCH", "x86");
    match beside.and_then(|file| file.rsplit_once('/')) {
        Some((directory, _)) => format!("{directory}/{name}"),
        None => name,
    }
}

/// Skips a help text: every line that is indented at least as its first.
fn skip_help<'a>(lines: &mut Peekable<impl Iterator<Item = (u32, &'a str)>>) {
    let mut least = None;
    while let Some((_, line)) = lines.peek() {
        if !line.trim().is_empty() {
            let indent = indent(line);
            if indent == 0 || indent < *least.get_or_insert(indent) {
                return;
            }
        }
        lines.next();
    }
}

fn indent(line: &str) -> usize {
    let mut width = 0;
    for char in line.chars() {
        match char {
            ' ' => width += 1,
            '\t' => width = (width / 8 + 1) * 8,
            _ => break,
        }
    }
    width
}
