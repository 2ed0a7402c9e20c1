//! The text of a patch: which files its parts change, read before any program sees it.
//!
//! The format is that of `git diff` and `diff -u` (git-diff(1), "Generating patch text with -p";
//! diffutils manual, "Detailed Description of Unified Format"). Mail headers and a commit message
//! around the parts are passed over, as `patch` does.

use std::borrow::Cow;
use std::ops::Range;

use super::entry::{NameProblem, Select, components};

/// Most bytes of a patch. The largest stable update of a series is about 20 MB.
pub const LIMIT: u64 = 64 << 20;

/// Why a text is no usable patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchTextError {
    /// No part at all.
    #[error("it changes nothing: expected a part that begins with `diff --git` or `--- `")]
    Empty,
    /// A line that cannot stand where it does.
    #[error("line {line}: expected {expected}, found {found}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What could stand there.
        expected: &'static str,
        /// The line, shortened.
        found: String,
    },
    /// The text ends inside a hunk.
    #[error("it ends inside the hunk of line {line}: {missing} more lines were announced")]
    Cut {
        /// Number of the hunk's first line.
        line: usize,
        /// How many lines are missing.
        missing: u64,
    },
    /// A binary part.
    #[error("line {line}: a binary change cannot be reviewed, so it is not applied")]
    Binary {
        /// Number of the line.
        line: usize,
    },
    /// A name that leads out of the source.
    #[error("line {line}: `{name}` is no name inside the source: {problem}")]
    Name {
        /// Number of the line.
        line: usize,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// One part that speaks of two files.
    #[error(
        "line {line}: expected `{expected}` as in the lines before, found `{found}`: only a `rename` or `copy` line names two files"
    )]
    Other {
        /// Number of the line.
        line: usize,
        /// The file so far.
        expected: String,
        /// The other one.
        found: String,
    },
    /// A mode that the source's files do not have.
    #[error("line {line}: mode {mode}: a patch makes plain files only (100644 or 100755)")]
    Mode {
        /// Number of the line.
        line: usize,
        /// The mode.
        mode: String,
    },
}

/// One part: the change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The file before, relative to the source; `None` where the part makes it.
    pub before: Option<String>,
    /// The file after; `None` where the part removes it.
    pub after: Option<String>,
    /// Number of its first line, from 1.
    pub line: usize,
    /// Its bytes in the text.
    range: Range<usize>,
}

impl Part {
    fn touches(&self, select: Select) -> bool {
        [&self.before, &self.after]
            .into_iter()
            .flatten()
            .any(|path| select.takes(path))
    }
}

/// A patch that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchText {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

impl PatchText {
    /// Reads a patch.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, PatchTextError> {
        let parts = Reader::new(&bytes).parts()?;
        if parts.is_empty() {
            return Err(PatchTextError::Empty);
        }
        Ok(Self { bytes, parts })
    }

    /// Its parts, in the order of the text.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The lines of a part, each with its number in the text, from 1. What is not UTF-8 in them is
    /// replaced: they are for looking, not for applying.
    pub fn lines<'t>(&'t self, part: &Part) -> impl Iterator<Item = (usize, Cow<'t, str>)> {
        let lines = self.bytes[part.range.clone()].split_inclusive(|byte| *byte == b'\n');
        let text =
            |line: &'t [u8]| String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        lines
            .enumerate()
            .map(move |(at, line)| (part.line + at, text(line)))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The bytes of the parts that change a selected file, without the words around them.
    pub fn selected(&self, select: Select) -> Vec<u8> {
        self.parts
            .iter()
            .filter(|part| part.touches(select))
            .flat_map(|part| &self.bytes[part.range.clone()])
            .copied()
            .collect()
    }
}

/// The lines of a text with where they begin.
struct Reader<'t> {
    lines: Vec<(usize, &'t [u8])>,
    end: usize,
    next: usize,
}

/// What the header lines of a part said so far.
#[derive(Default)]
struct Header {
    before: Option<String>,
    after: Option<String>,
    made: bool,
    removed: bool,
    renamed: bool,
}

impl<'t> Reader<'t> {
    fn new(bytes: &'t [u8]) -> Self {
        let mut at = 0;
        let lines = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                let start = at;
                at += line.len();
                (start, line.strip_suffix(b"\n").unwrap_or(line))
            })
            .collect();
        Self {
            lines,
            end: bytes.len(),
            next: 0,
        }
    }

    fn peek(&self) -> Option<&'t [u8]> {
        self.lines.get(self.next).map(|(_, line)| *line)
    }

    fn names_follow(&self) -> bool {
        let begins = |at: usize, prefix: &[u8]| {
            let line = self.lines.get(at);
            line.is_some_and(|(_, line)| line.starts_with(prefix))
        };
        begins(self.next, b"--- ") && begins(self.next + 1, b"+++ ")
    }

    fn parts(&mut self) -> Result<Vec<Part>, PatchTextError> {
        let mut parts = Vec::new();
        while let Some(line) = self.peek() {
            if self.names_follow() || line.starts_with(b"diff --git ") {
                parts.push(self.part()?);
            } else if line.starts_with(b"@@ -") {
                return Err(self.unexpected("`--- ` and `+++ ` lines before a hunk"));
            } else {
                self.next += 1;
            }
        }
        Ok(parts)
    }

    fn part(&mut self) -> Result<Part, PatchTextError> {
        let (first, start) = (self.next, self.lines[self.next].0);
        let mut header = Header::default();
        if let Some(names) = self
            .peek()
            .and_then(|line| line.strip_prefix(b"diff --git "))
        {
            self.git_names(names, &mut header)?;
            self.next += 1;
            self.extended(&mut header)?;
        }
        if self.peek().is_some_and(|line| line.starts_with(b"--- ")) {
            let before = self.name(b"--- ")?;
            self.same(header.before.as_deref(), before.as_deref())?;
            header.before = before;
            self.next += 1;
            if self.peek().is_none_or(|line| !line.starts_with(b"+++ ")) {
                return Err(self.unexpected("a `+++ ` line after `--- `"));
            }
            let after = self.name(b"+++ ")?;
            self.same(header.after.as_deref(), after.as_deref())?;
            header.after = after;
            if !header.renamed {
                self.same(header.before.as_deref(), header.after.as_deref())?;
            }
            if header.before.is_none() && header.after.is_none() {
                return Err(self.unexpected("the name of the file that changes"));
            }
            self.next += 1;
            let mut hunks = 0;
            while self.peek().is_some_and(|line| line.starts_with(b"@@ ")) {
                self.hunk()?;
                hunks += 1;
            }
            if hunks == 0 {
                return Err(self.unexpected("a hunk that begins with `@@ -`"));
            }
        }
        let end = self.lines.get(self.next).map_or(self.end, |(at, _)| *at);
        Ok(Part {
            before: header.before.filter(|_| !header.made),
            after: header.after.filter(|_| !header.removed),
            line: first + 1,
            range: start..end,
        })
    }

    /// The names of `diff --git a/X b/X`. Where they differ (a rename), the lines below say them
    /// again, unambiguously.
    fn git_names(&self, names: &[u8], header: &mut Header) -> Result<(), PatchTextError> {
        let half = names.len() / 2;
        let (before, after) = match (names.get(..half), names.get(half + 1..)) {
            (Some(before), Some(after)) if names[half] == b' ' => (before, after),
            _ => return Ok(()),
        };
        if before.get(1..) == after.get(1..) {
            header.before = self.stripped(before)?;
            header.after = self.stripped(after)?;
        }
        Ok(())
    }

    /// git's lines between `diff --git` and `--- `.
    fn extended(&mut self, header: &mut Header) -> Result<(), PatchTextError> {
        const MODES: [&[u8]; 4] = [
            b"old mode ",
            b"new mode ",
            b"new file mode ",
            b"deleted file mode ",
        ];
        while let Some(line) = self.peek() {
            let after = |prefix: &[u8]| line.strip_prefix(prefix);
            if let Some(mode) = MODES.iter().find_map(|prefix| after(prefix)) {
                self.mode(mode)?;
                header.made |= line.starts_with(b"new file");
                header.removed |= line.starts_with(b"deleted file");
            } else if let Some(name) = after(b"rename from ").or(after(b"copy from ")) {
                header.before = Some(self.checked(name)?);
                header.renamed = true;
            } else if let Some(name) = after(b"rename to ").or(after(b"copy to ")) {
                header.after = Some(self.checked(name)?);
                header.renamed = true;
            } else if line.starts_with(b"GIT binary patch") || line.starts_with(b"Binary files ") {
                return Err(PatchTextError::Binary {
                    line: self.next + 1,
                });
            } else if let Some(rest) = after(b"index ") {
                if let Some(at) = rest.iter().position(|byte| *byte == b' ') {
                    self.mode(&rest[at + 1..])?;
                }
            } else if !(line.starts_with(b"similarity index ")
                || line.starts_with(b"dissimilarity index "))
            {
                break;
            }
            self.next += 1;
        }
        if header.before.is_none() && header.after.is_none() {
            // Neither the first line nor any after it named a file that can be checked.
            if self.peek().is_none_or(|line| !line.starts_with(b"--- ")) {
                return Err(self.unexpected("the name of the file that changes"));
            }
        }
        Ok(())
    }

    fn mode(&self, mode: &[u8]) -> Result<(), PatchTextError> {
        if mode == b"100644" || mode == b"100755" {
            return Ok(());
        }
        Err(PatchTextError::Mode {
            line: self.next + 1,
            mode: shown(mode),
        })
    }

    /// The name of a `--- ` or `+++ ` line, up to a tab; `None` for `/dev/null`.
    fn name(&self, prefix: &[u8]) -> Result<Option<String>, PatchTextError> {
        let line = self.peek().unwrap_or_default();
        let rest = line.strip_prefix(prefix).unwrap_or_default();
        let name = rest.split(|byte| *byte == b'\t').next().unwrap_or_default();
        if name == b"/dev/null" {
            return Ok(None);
        }
        self.stripped(name)
    }

    /// Two names of one file. `patch` would choose between them by rules of its own, so that what is
    /// judged and what is changed could be two files.
    fn same(&self, expected: Option<&str>, found: Option<&str>) -> Result<(), PatchTextError> {
        match (expected, found) {
            (Some(expected), Some(found)) if expected != found => Err(PatchTextError::Other {
                line: self.next + 1,
                expected: expected.to_owned(),
                found: found.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// A name without its first component, as `patch --strip=1` takes it.
    fn stripped(&self, name: &[u8]) -> Result<Option<String>, PatchTextError> {
        // git quotes what is no plain text, the first component included.
        let quoted = name.contains(&b'"');
        let slash = name.iter().position(|byte| *byte == b'/');
        match slash {
            _ if quoted => self.checked(name).map(Some),
            Some(at) if at > 0 => self.checked(&name[at + 1..]).map(Some),
            _ => Err(PatchTextError::Name {
                line: self.next + 1,
                name: shown(name),
                problem: if slash == Some(0) {
                    NameProblem::Absolute
                } else {
                    NameProblem::Spelling
                },
            }),
        }
    }

    fn checked(&self, name: &[u8]) -> Result<String, PatchTextError> {
        let wrong = |problem| PatchTextError::Name {
            line: self.next + 1,
            name: shown(name),
            problem,
        };
        // No file of a kernel has one in its name, and `patch` would take it off.
        if name.contains(&b'"') || name.ends_with(b"/") {
            return Err(wrong(NameProblem::Text));
        }
        Ok(components(name).map_err(wrong)?.join("/"))
    }

    fn hunk(&mut self) -> Result<(), PatchTextError> {
        let first = self.next + 1;
        let Some((mut old, mut new)) = self.peek().and_then(lengths) else {
            return Err(self.unexpected("`@@ -LINE,COUNT +LINE,COUNT @@`"));
        };
        self.next += 1;
        while old > 0 || new > 0 {
            let Some(line) = self.peek() else {
                return Err(PatchTextError::Cut {
                    line: first,
                    missing: old.max(new),
                });
            };
            match line.first() {
                // A mailer may have cut the blank of an empty line; `patch` forgives it.
                Some(b' ') | None if old > 0 && new > 0 => (old, new) = (old - 1, new - 1),
                Some(b'-') if old > 0 => old -= 1,
                Some(b'+') if new > 0 => new -= 1,
                Some(b'\\') => {}
                _ => return Err(self.unexpected("a line of the hunk (` `, `-` or `+`)")),
            }
            self.next += 1;
        }
        if self.peek().is_some_and(|line| line.starts_with(b"\\")) {
            self.next += 1;
        }
        // `patch` drops what a hunk does not count, in silence. `-- ` begins a mail's signature.
        let more = |line: &[u8]| matches!(line.first(), Some(b' ' | b'+' | b'-')) && line != b"-- ";
        if self.peek().is_some_and(more) && !self.names_follow() {
            return Err(self.unexpected("the end of the hunk, by the counts of its first line"));
        }
        Ok(())
    }

    fn unexpected(&self, expected: &'static str) -> PatchTextError {
        PatchTextError::Line {
            line: self.next + 1,
            expected,
            found: self
                .peek()
                .map_or_else(|| "the end".to_owned(), |line| format!("`{}`", shown(line))),
        }
    }
}

/// How many lines of the old and the new file a hunk has: of `@@ -l,s +l,s @@`; `,s` may miss.
fn lengths(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line.get(..line.len().min(80))?).ok()?;
    let mut words = text.strip_prefix("@@ -")?.split(' ');
    let length = |word: &str| match word.split_once(',') {
        Some((at, length)) => at.parse::<u64>().ok().and(length.parse::<u64>().ok()),
        None => word.parse::<u64>().ok().and(Some(1)),
    };
    let old = length(words.next()?)?;
    let new = length(words.next()?.strip_prefix('+')?)?;
    (words.next()? == "@@").then_some((old, new))
}

/// A line as a message shows it: plain and short.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(80)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "\
From: someone
Subject: a change

--- is a line of a message here
---
 a.c | 2 +-

diff --git a/drivers/a.c b/drivers/a.c
index 111..222 100644
--- a/drivers/a.c
+++ b/drivers/a.c
@@ -1,3 +1,3 @@ int x
 one
-two
+--- two
 three
diff --git a/new/Kconfig b/new/Kconfig
new file mode 100644
index 000..333
--- /dev/null
+++ b/new/Kconfig
@@ -0,0 +1 @@
+config NEW
\\ No newline at end of file
diff --git a/gone.c b/gone.c
deleted file mode 100644
--- a/gone.c
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/x.sh b/y.sh
similarity index 100%
rename from x.sh
rename to y.sh
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
--
2.39.5
";

    fn parse(text: &str) -> Result<PatchText, PatchTextError> {
        PatchText::parse(text.as_bytes().to_vec())
    }

    fn names(text: &str) -> Vec<(Option<String>, Option<String>)> {
        let parts = parse(text).unwrap().parts;
        parts.into_iter().map(|p| (p.before, p.after)).collect()
    }

    fn pair(before: &str, after: &str) -> (Option<String>, Option<String>) {
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        (name(before), name(after))
    }

    #[test]
    fn the_parts_of_a_mail_from_git() {
        let expected = [
            pair("drivers/a.c", "drivers/a.c"),
            pair("", "new/Kconfig"),
            pair("gone.c", ""),
            pair("x.sh", "y.sh"),
            pair("run.sh", "run.sh"),
        ];
        assert_eq!(names(GOOD), expected);
    }

    #[test]
    fn a_plain_unified_diff() {
        let text =
            "--- linux/a.c\t2026-01-01\n+++ linux.new/a.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(names(text), [pair("a.c", "a.c")]);
    }

    #[test]
    fn only_selected_parts_and_no_words_around_them() {
        let patch = parse(GOOD).unwrap();
        let some = String::from_utf8(patch.selected(Select::Configuration)).unwrap();
        assert!(some.starts_with("diff --git a/new/Kconfig"), "{some}");
        assert!(some.ends_with("at end of file\n"), "{some}");
        let all = String::from_utf8(patch.selected(Select::All)).unwrap();
        assert!(!all.contains("Subject") && !all.contains("2.39.5"), "{all}");
        assert_eq!(names(&all), names(GOOD));
    }

    #[test]
    fn what_is_no_patch_is_refused_with_its_line() {
        let part = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";
        assert!(parse(part).is_ok());
        let bad = |from: &str, to: &str| parse(&part.replace(from, to)).unwrap_err().to_string();
        for (from, to, expected) in [
            (part, "hello\n", "it changes nothing"),
            ("+three\n", "", "it ends inside the hunk of line 3: 1 more"),
            ("+three", "three", "line 6: expected a line of the hunk"),
            ("@@ -1,2 +1,2 @@", "@@ one @@", "line 3: expected `@@ -LINE"),
            (
                "@@ -1,2 +1,2 @@\n one\n-two\n+three\n",
                "",
                "line 3: expected a hunk",
            ),
            (
                "a/x",
                "a/../x",
                "line 1: `../x` is no name inside the source: it holds `..`",
            ),
            (
                "b/x",
                "/etc/x",
                "line 2: `/etc/x` is no name inside the source: it is absolute",
            ),
            ("a/x", "x", "line 1: `x` is no name inside"),
            (
                "b/x",
                "b/y",
                "line 2: expected `x` as in the lines before, found `y`",
            ),
            (
                "a/x",
                "\"a/x\"",
                "line 1: `\"a/x\"` is no name inside the source: it is not plain text",
            ),
            (
                "+three\n",
                "+three\n+four\n",
                "line 7: expected the end of the hunk",
            ),
            (
                "+three\n",
                "+three\n four\n",
                "line 7: expected the end of the hunk",
            ),
            (
                "+three\n",
                "+three\n-four\n",
                "line 7: expected the end of the hunk",
            ),
            (
                "--- a/x\n+++ b/x\n",
                "--- /dev/null\n+++ /dev/null\n",
                "line 2: expected the name of the file",
            ),
            ("a/x", "a/\\x\u{7}", "line 1: `\\x?` is no name inside"),
            (
                "--- a/x\n+++ b/x\n",
                "",
                "line 1: expected `--- ` and `+++ ` lines before",
            ),
        ] {
            let error = bad(from, to);
            assert!(error.starts_with(expected), "{error}");
        }
        let git = |lines: &str| parse(&format!("diff --git a/x b/x\n{lines}")).unwrap_err();
        for (lines, expected) in [
            ("new file mode 120000\n", "line 2: mode 120000"),
            ("new file mode 100600\n", "line 2: mode 100600"),
            ("index 1..2 120000\n", "line 2: mode 120000"),
            ("GIT binary patch\n", "line 2: a binary change"),
            (
                "Binary files a/x and b/x differ\n",
                "line 2: a binary change",
            ),
            (
                "--- a/y\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
                "line 2: expected `x` as in the lines before, found `y`",
            ),
            (
                "rename from x\nrename to y\n--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
                "line 5: expected `y` as in the lines before, found `z`",
            ),
            ("rename from ../x\n", "line 2: `../x` is no name inside"),
            ("rename to /x\n", "line 2: `/x` is no name inside"),
        ] {
            let error = git(lines).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let other = parse("diff --git a/x y\nold mode 100644\n").unwrap_err();
        assert!(
            other.to_string().contains("the name of the file"),
            "{other}"
        );
    }

    proptest! {
        #[test]
        fn any_damage_is_an_answer_and_names_stay_inside(
            at in 0..GOOD.len(),
            byte in any::<u8>(),
            cut in 0..GOOD.len(),
        ) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] = byte;
            bytes.truncate(cut);
            if let Ok(patch) = PatchText::parse(bytes) {
                for name in patch.parts.iter().flat_map(|p| [&p.before, &p.after]).flatten() {
                    prop_assert!(!name.starts_with('/') && !name.split('/').any(|p| p == ".."));
                }
            }
        }
    }
}
