//! Whether a change could reach a running kernel as a live patch, or needs a reboot.
//!
//! The text of a patch alone can say that a reboot is needed, or that it does not know; it never
//! says that a live patch will do. That takes building the touched objects before and after, and
//! comparing them. The rules are those of the kernel's own documentation
//! (Documentation/livepatch/livepatch.rst, "Limitations"): functions can be replaced while they are
//! not running; data, the layout of types, code that ran at boot and what is inlined into others
//! cannot.

use serde::Serialize;

use super::patch_text::{Part, PatchText};

/// What the text of a patch allows to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A live patch cannot carry it.
    NeedsReboot,
    /// The text does not rule a live patch out.
    Unsure,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Kconfig, makefiles, linker scripts, tables that code is generated from.
    BuildRules,
    /// Code that runs before the kernel proper.
    BootCode,
    /// Assembly.
    Assembly,
    /// A variable that exists changes or goes.
    Data,
    /// The members of a type.
    Layout,
    /// A function that is inlined, or a macro that others use.
    Inline,
    /// Code or data that is used once, at boot or when a module is loaded.
    Init,
    /// Symbols for modules.
    Exported,
    /// A source file goes.
    Removed,
    /// Nothing of it reaches the kernel.
    Outside,
    /// As far as the text says, bodies of functions only.
    Bodies,
}

impl Reason {
    /// In words, after "because".
    pub fn text(self) -> &'static str {
        match self {
            Self::BuildRules => "it changes how the kernel is configured or linked",
            Self::BootCode => "it changes code that runs before the kernel, which is over by then",
            Self::Assembly => "it changes assembly, whose symbols cannot be redirected",
            Self::Data => "it changes data that exists, which keeps its old content",
            Self::Layout => "it changes the layout of a type that is in use",
            Self::Inline => "it changes what is inlined into other functions",
            Self::Init => "it changes what ran at boot and does not run again",
            Self::Exported => "it changes the symbols that modules are linked against",
            Self::Removed => "it removes a file whose code is in use",
            Self::Outside => "nothing of it reaches the running kernel",
            Self::Bodies => {
                "as far as its text says it changes bodies of functions only; whether the compiler \
                 agrees shows only in the built objects"
            }
        }
    }

    fn rules_out(self) -> bool {
        !matches!(self, Self::Outside | Self::Bodies)
    }
}

/// A reason with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file of the source.
    pub file: String,
    /// The line of the patch, from 1.
    pub line: usize,
    /// Why.
    pub reason: Reason,
}

/// What the text says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Classified {
    /// The answer.
    pub verdict: Verdict,
    /// The first place for each file and reason.
    pub findings: Vec<Finding>,
}

/// Reads a patch for what rules a live patch out.
pub fn classify(patch: &PatchText) -> Classified {
    let mut findings: Vec<Finding> = Vec::new();
    for part in patch.parts() {
        let file = part.after.as_deref().or(part.before.as_deref());
        let file = file.unwrap_or_default();
        for (line, reason) in judge(patch, part, file) {
            let known = findings
                .iter()
                .any(|known| (known.file.as_str(), known.reason) == (file, reason));
            if !known {
                findings.push(Finding {
                    file: file.to_owned(),
                    line,
                    reason,
                });
            }
        }
    }
    let ruled_out = findings.iter().any(|finding| finding.reason.rules_out());
    Classified {
        verdict: if ruled_out {
            Verdict::NeedsReboot
        } else {
            Verdict::Unsure
        },
        findings,
    }
}

fn judge(patch: &PatchText, part: &Part, file: &str) -> Vec<(usize, Reason)> {
    if let Some(reason) = by_name(file) {
        return vec![(part.line, reason)];
    }
    if part.after.is_none() {
        return vec![(part.line, Reason::Removed)];
    }
    let mut reader = Reader::new(file);
    let mut found: Vec<_> = patch
        .lines(part)
        .filter_map(|(number, line)| Some((number, reader.line(&line)?)))
        .collect();
    if found.is_empty() {
        found.push((part.line, Reason::Bodies));
    }
    found
}

/// What follows the last dot.
fn ending(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// What a file is by its name, where that decides.
fn by_name(file: &str) -> Option<Reason> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let ending = ending(name);
    let below = |directories: &[&str]| directories.iter().any(|d| file.starts_with(d));
    // objtool and the libraries under it work on every object; the rest of tools/ is for users.
    let builds = [
        "scripts/",
        "usr/",
        "tools/objtool/",
        "tools/lib/",
        "tools/include/",
        "tools/bpf/resolve_btfids/",
    ];
    let apart = ["Documentation/", "tools/", "samples/", "LICENSES/"];
    let plain = !file.contains('/') && !["Makefile", "Kbuild", "Kconfig"].contains(&name);
    if below(&builds) {
        Some(Reason::BuildRules)
    } else if below(&apart) || plain || ["rst", "txt", "md", "yaml"].contains(&ending) {
        Some(Reason::Outside)
    } else if ["Kconfig", "Makefile", "Kbuild"]
        .iter()
        .any(|start| name.starts_with(start))
        || [
            "config", "lds", "tbl", "awk", "sh", "py", "pl", "dts", "dtsi",
        ]
        .contains(&ending)
        || name.ends_with("_defconfig")
        || name.ends_with(".lds.S")
    {
        Some(Reason::BuildRules)
    } else if file.starts_with("arch/") && file.split('/').nth(2) == Some("boot") {
        Some(Reason::BootCode)
    } else if ["S", "s"].contains(&ending) {
        Some(Reason::Assembly)
    } else if ["c", "h"].contains(&ending) {
        None
    } else {
        // What kiln does not know may be compiled in by ways it does not know.
        Some(Reason::BuildRules)
    }
}

/// What the lines of a hunk stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Nothing, or nothing known.
    Open,
    /// The body of a function, or its parameters.
    Function { inline: bool, init: bool },
    /// A `struct` or `union`; whether the patch brings it.
    Members { new: bool },
    /// An initialiser; whether the patch brings it.
    Value { new: bool, init: bool },
}

struct Reader {
    header: bool,
    within: Within,
    in_macro: bool,
}

impl Reader {
    fn new(file: &str) -> Self {
        Self {
            header: ending(file) == "h",
            within: Within::Open,
            in_macro: false,
        }
    }

    /// What a line of a part rules out.
    fn line(&mut self, line: &str) -> Option<Reason> {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            let context = hunk
                .split_once("@@")
                .map_or("", |(_, context)| context.trim_start());
            self.within = Within::Open;
            self.in_macro = false;
            self.enter(context, false);
            return None;
        }
        if line.starts_with("--- ") || line.starts_with("+++ ") {
            return None;
        }
        let (mark, text) = line.split_at_checked(1)?;
        let changed = match mark {
            "+" | "-" => true,
            " " => false,
            _ => return None,
        };
        let was_macro = self.in_macro;
        self.in_macro = text.ends_with('\\') && (was_macro || text.trim_start().starts_with('#'));
        let words = text.trim();
        let says_nothing = words.is_empty()
            || ["/*", "*", "//"]
                .iter()
                .any(|start| words.starts_with(start));
        if words.starts_with('#') || was_macro {
            let counts = changed && !says_nothing && !words.starts_with("#include");
            return (counts && self.header).then_some(Reason::Inline);
        }
        let top_level = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && !words.ends_with(':');
        if top_level {
            self.enter(text, mark == "+");
        }
        let reason = (changed && !says_nothing).then(|| self.reason(mark, words, top_level));
        if text.starts_with('}') {
            self.within = Within::Open;
        }
        reason.flatten()
    }

    /// Takes note of a line in the first column, which begins something.
    fn enter(&mut self, text: &str, new: bool) {
        let init = is_init(text);
        let before_value = text.split('=').next().unwrap_or_default();
        let function = before_value.contains('(');
        let kind = text
            .split_whitespace()
            .find(|word| !["static", "const", "typedef"].contains(word));
        self.within = if text.is_empty() {
            Within::Open
        } else if text.contains('=') && !function {
            Within::Value { new, init }
        } else if !function && matches!(kind, Some("struct" | "union")) && text.contains('{') {
            Within::Members { new }
        } else if !function && text.trim_end().ends_with(';') {
            Within::Open
        } else {
            Within::Function {
                inline: text.contains("inline"),
                init,
            }
        };
    }

    fn reason(&self, mark: &str, words: &str, top_level: bool) -> Option<Reason> {
        if top_level && words.starts_with("EXPORT_") {
            return Some(Reason::Exported);
        }
        if top_level && is_init(words) {
            return Some(Reason::Init);
        }
        if top_level && makes_data(words) {
            // New data comes along with a live patch; what exists stays as it is.
            return (mark == "-" || words.starts_with("module_param")).then_some(Reason::Data);
        }
        match self.within {
            Within::Function { init: true, .. } | Within::Value { init: true, .. } => {
                Some(Reason::Init)
            }
            Within::Function { inline: true, .. } => Some(Reason::Inline),
            Within::Members { new: false } => Some(Reason::Layout),
            Within::Value { new: false, .. } => Some(Reason::Data),
            Within::Function { .. }
            | Within::Members { new: true }
            | Within::Value { new: true, .. }
            | Within::Open => None,
        }
    }
}

/// Whether a line in the first column makes a variable: `static int x;`, `DEFINE_MUTEX(x);`.
fn makes_data(words: &str) -> bool {
    let macros = [
        "DEFINE_",
        "module_param",
        "LIST_HEAD(",
        "ATOMIC_NOTIFIER_HEAD(",
        "DECLARE_",
    ];
    if macros.iter().any(|start| words.starts_with(start)) {
        return !words.starts_with("DEFINE_SHOW_ATTRIBUTE");
    }
    let before_value = words.split('=').next().unwrap_or_default();
    let is_type = ["extern ", "typedef ", "return "]
        .iter()
        .any(|start| words.starts_with(start));
    let declares = words.ends_with(';') || words.contains('=');
    declares && !before_value.contains('(') && !is_type && before_value.trim().contains(' ')
}

fn is_init(text: &str) -> bool {
    let marks = [
        "__init",
        "__exit",
        "_initcall",
        "module_init(",
        "early_param(",
        "__setup(",
        "__ro_after_init",
    ];
    marks.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
#[path = "live_patch_tests.rs"]
mod tests;
