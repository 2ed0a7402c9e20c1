//! The macro language: variables, user functions and built-in functions in `$(...)`, expanded while
//! a file is read (`Documentation/kbuild/kconfig-macro-language.rst` of the kernel).

use std::collections::HashMap;

use super::error::{Place, Problem};
use super::host::{Host, HostError};
use super::view::Probe;

/// A function may call functions this deep; deeper is a variable that contains itself.
const DEEPEST: usize = 200;

/// A text grown longer than this is no text that any kernel holds.
const LONGEST: usize = 1 << 20;

/// What all expansions of a tree may cost, in bytes expanded: variables that use each other twice
/// double the work at each level, and their text may stay empty all the while.
const DEAREST: usize = 1 << 26;

/// What an expansion costs beside its text, in bytes.
const CALL_COST: usize = 64;

/// What a built-in function said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// `$(info,...)`, which goes to standard output.
    Info(String),
    /// `$(warning-if,y,...)`.
    Warning(String),
}

impl Said {
    pub(super) fn is_warning(&self) -> bool {
        matches!(self, Self::Warning(_))
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Self::Info(text) | Self::Warning(text) => text,
        }
    }
}

/// How a variable was defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    /// `=`: expanded where it is used.
    Recursive,
    /// `:=`: expanded where it is defined.
    Simple,
    /// `+=`: as the variable was defined before.
    Append,
}

#[derive(Debug)]
struct Variable {
    text: String,
    recursive: bool,
    /// The last command that was run for its text, where it was expanded when it was defined.
    command: Option<String>,
}

/// Why a text could not be expanded.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The text is wrong.
    Text(Problem),
    /// The host failed.
    Host(HostError),
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self::Text(problem)
    }
}

/// The variables defined so far.
#[derive(Debug, Default)]
pub(super) struct Macros {
    variables: HashMap<String, Variable>,
    /// The variables of the environment that were asked for, and their values.
    pub(super) from_outside: Vec<(String, Option<String>)>,
    /// What built-in functions said, in order.
    pub(super) said: Vec<(Place, Said)>,
    /// What programs answered to statements, in order.
    pub(super) probes: Vec<Probe>,
    /// The last command that was run, until a statement takes it.
    command: Option<String>,
    /// What the expansions have cost so far.
    spent: usize,
}

/// Where an expansion takes place.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) file: &'a str,
    pub(super) place: Place,
}

impl Macros {
    /// `name = text`, `name := text` or `name += text`.
    pub(super) fn assign(
        &mut self,
        scene: Scene<'_>,
        name: &str,
        how: Assignment,
        text: &str,
    ) -> Result<(), Trouble> {
        let known = self.variables.get(name).map(|v| v.recursive);
        let (recursive, append) = match (how, known) {
            (Assignment::Simple, _) => (false, false),
            (Assignment::Append, Some(recursive)) => (recursive, true),
            // An undefined variable is recursive.
            (Assignment::Recursive, _) | (Assignment::Append, None) => (true, false),
        };
        self.command = None;
        let text = if recursive {
            text.to_owned()
        } else {
            self.expand(scene, text)?
        };
        let command = self.command.take();
        let entry = self.variables.entry(name.to_owned());
        let variable = entry.or_insert_with(|| Variable {
            text: String::new(),
            recursive,
            command: None,
        });
        variable.recursive = recursive;
        if command.is_some() || !append {
            variable.command = command;
        }
        if append {
            variable.text.push(' ');
            variable.text.push_str(&text);
            if variable.text.len() > LONGEST {
                return Err(Problem::TextTooLong.into());
            }
        } else {
            variable.text = text;
        }
        Ok(())
    }

    /// Expands every reference in `text`; a `$` without parenthesis stands for itself.
    pub(super) fn expand(&mut self, scene: Scene<'_>, text: &str) -> Result<String, Trouble> {
        self.expand_in(scene, text, &[], 0)
    }

    /// The value of the reference whose inside, without `$(` and `)`, is `inside`.
    pub(super) fn reference(&mut self, scene: Scene<'_>, inside: &str) -> Result<String, Trouble> {
        self.command = None;
        let value = self.call(scene, inside, &[], 0)?;
        if let Some(command) = self.command.take() {
            self.probes.push(Probe {
                place: scene.place,
                text: format!("$({inside})"),
                answer: value.clone(),
                command,
            });
        }
        Ok(value)
    }

    fn expand_in(
        &mut self,
        scene: Scene<'_>,
        text: &str,
        arguments: &[String],
        depth: usize,
    ) -> Result<String, Trouble> {
        self.spent += text.len() + CALL_COST;
        if self.spent > DEAREST {
            return Err(Problem::TooManyExpansions.into());
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(inside) = after.strip_prefix('(') {
                let length = reference_length(inside)?;
                let value = self.call(scene, &inside[..length], arguments, depth)?;
                out.push_str(&value);
                if out.len() > LONGEST {
                    return Err(Problem::TextTooLong.into());
                }
                rest = &inside[length + 1..];
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn call(
        &mut self,
        scene: Scene<'_>,
        inside: &str,
        outer: &[String],
        depth: usize,
    ) -> Result<String, Trouble> {
        if depth > DEEPEST {
            return Err(Problem::EndlessVariable(inside.to_owned()).into());
        }
        // Arguments are cut before they are expanded, so that `$(comma)` is no separator.
        let mut parts = Vec::new();
        for part in cut(inside) {
            parts.push(self.expand_in(scene, part, outer, depth + 1)?);
        }
        let name = parts.remove(0);
        if let Ok(number) = name.parse::<usize>() {
            let argument = number.checked_sub(1).and_then(|index| outer.get(index));
            return Ok(argument.cloned().unwrap_or_default());
        }
        if let Some(variable) = self.variables.get(&name) {
            let text = variable.text.clone();
            if variable.recursive {
                return self.expand_in(scene, &text, &parts, depth + 1);
            }
            // What a program answered where the variable is defined is answered here too.
            if let Some(command) = &variable.command {
                self.command.get_or_insert_with(|| command.clone());
            }
            return Ok(text);
        }
        if let Some(value) = self.builtin(scene, &name, &parts)? {
            return Ok(value);
        }
        if !parts.is_empty() {
            return Ok(String::new());
        }
        let value = scene.host.env(&name);
        self.command.get_or_insert_default();
        if !self.from_outside.iter().any(|(known, _)| *known == name) {
            self.from_outside.push((name, value.clone()));
        }
        Ok(value.unwrap_or_default())
    }

    fn builtin(
        &mut self,
        scene: Scene<'_>,
        name: &str,
        arguments: &[String],
    ) -> Result<Option<String>, Trouble> {
        let takes = match name {
            "shell" | "info" => 1,
            "warning-if" | "error-if" => 2,
            "filename" | "lineno" => 0,
            _ => return Ok(None),
        };
        if arguments.len() != takes {
            let problem = Problem::ArgumentCount {
                function: name.to_owned(),
                takes,
                given: arguments.len(),
            };
            return Err(problem.into());
        }
        let value = match (name, arguments) {
            ("shell", [command]) => {
                let output = scene.host.shell(command).map_err(Trouble::Host)?;
                self.command = Some(command.clone());
                one_line(&output)
            }
            ("info", [text]) => {
                self.said.push((scene.place, Said::Info(text.clone())));
                String::new()
            }
            ("warning-if", [condition, text]) => {
                if condition == "y" {
                    self.said.push((scene.place, Said::Warning(text.clone())));
                }
                String::new()
            }
            ("error-if", [condition, text]) => {
                if condition == "y" {
                    return Err(Problem::ErrorIf(text.clone()).into());
                }
                String::new()
            }
            ("filename", _) => scene.file.to_owned(),
            _ => scene.place.line.to_string(),
        };
        Ok(Some(value))
    }
}

/// How long the inside of a reference is: up to the parenthesis that closes it.
pub(super) fn reference_length(inside: &str) -> Result<usize, Problem> {
    let mut open = 0_usize;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' if open == 0 => return Ok(at),
            b')' => open -= 1,
            _ => {}
        }
    }
    let line = inside.lines().next().unwrap_or_default();
    Err(Problem::Unterminated(line.to_owned()))
}

/// Cuts the inside of a reference at the commas that stand in no inner parenthesis.
fn cut(inside: &str) -> impl Iterator<Item = &str> {
    let mut open = 0_usize;
    inside.split(move |char| match char {
        '(' => {
            open += 1;
            false
        }
        ')' => {
            open = open.saturating_sub(1);
            false
        }
        char => char == ',' && open == 0,
    })
}

/// A program's output as a value: no line breaks at the end, blanks for the others.
fn one_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.trim_end_matches('\n').replace('\n', " ")
}
