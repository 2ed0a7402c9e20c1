//! Reading what make printed: how far it is, and what went wrong first.
//!
//! With many jobs the line that matters is far above the end: every other job still finishes, and
//! each level of make adds a line of its own. So the first error is looked for, not the last lines.

use std::io::{self, BufRead};

/// How many lines of the first error are shown at most.
const SHOWN_LINES: usize = 14;

/// How many lines before the error may belong to it (`In file included from`).
const LEAD_LINES: usize = 6;

/// Longest line that is kept; generated files can have lines of megabytes.
const LINE_LIMIT: usize = 400;

/// What stopped a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A compiler, assembler, linker or checker refused.
    Refused,
    /// A file that a rule needs does not exist.
    MissingFile,
    /// A program that a rule runs does not exist.
    MissingProgram,
    /// The disk is full.
    Disk,
    /// The memory is full: the kernel killed a compiler, or an allocation failed.
    Memory,
    /// None of these was found.
    Unknown,
}

/// The first error of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstError {
    /// What kind it is.
    pub cause: Cause,
    /// Its lines, with those around it that belong to it.
    pub lines: Vec<String>,
}

/// Finds the first error in a log.
///
/// # Errors
/// Where the log cannot be read.
pub fn first_error(mut log: impl BufRead) -> io::Result<FirstError> {
    let mut scan = Scan::default();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if log.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(scan.finish());
        }
        let text = String::from_utf8_lossy(&bytes);
        scan.line(&clean(text.trim_end_matches(['\n', '\r'])));
    }
}

/// Control characters are shown as `?`, since the text goes to a terminal.
fn clean(line: &str) -> String {
    line.chars()
        .take(LINE_LIMIT)
        .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
        .collect()
}

/// An error being collected, and how much its kind says: a compiler's message explains more than
/// make's, whichever came first.
struct Candidate {
    cause: Cause,
    weight: u8,
    lines: Vec<String>,
    open: bool,
}

#[derive(Default)]
struct Scan {
    recent: Vec<String>,
    best: Option<Candidate>,
}

impl Scan {
    fn line(&mut self, line: &str) {
        let judged = judge(line);
        let better = judged
            .is_some_and(|(_, weight)| self.best.as_ref().is_none_or(|best| weight > best.weight));
        if let (true, Some((cause, weight))) = (better, judged) {
            let mut lines = self.lead();
            lines.push(line.to_owned());
            self.best = Some(Candidate {
                cause,
                weight,
                lines,
                open: true,
            });
        } else if let Some(best) = self.best.as_mut().filter(|best| best.open) {
            best.open = best.lines.len() < SHOWN_LINES && !is_progress(line);
            if best.open {
                best.lines.push(line.to_owned());
            }
        }
        self.recent.push(line.to_owned());
        if self.recent.len() > LEAD_LINES {
            self.recent.remove(0);
        }
    }

    /// The lines just before an error that say where it was included or in which function it is.
    fn lead(&self) -> Vec<String> {
        let belongs = |line: &&String| {
            line.contains("In file included from ")
                || line.trim_start().starts_with("from ")
                || line.contains(": In function ")
                || line.contains(": in function `")
        };
        let count = self.recent.iter().rev().take_while(belongs).count();
        self.recent[self.recent.len() - count..].to_vec()
    }

    fn finish(self) -> FirstError {
        match self.best {
            Some(best) => FirstError {
                cause: best.cause,
                lines: best.lines,
            },
            None => FirstError {
                cause: Cause::Unknown,
                lines: self.recent,
            },
        }
    }
}

/// What a line says, and how much weight it has.
fn judge(line: &str) -> Option<(Cause, u8)> {
    let has = |text: &str| line.contains(text);
    if has("No space left on device") {
        return Some((Cause::Disk, 4));
    }
    if has("Killed signal terminated program")
        || has(": out of memory allocating")
        || has("Cannot allocate memory")
        || has("virtual memory exhausted")
    {
        return Some((Cause::Memory, 4));
    }
    let make = line.starts_with("make: *** ") || line.starts_with("make[") && has("]: *** ");
    if make {
        let missing = has("No rule to make target");
        return Some(if missing {
            (Cause::MissingFile, 3)
        } else {
            (Cause::Unknown, 1)
        });
    }
    // dash: `/bin/sh: 1: bc: not found`. Only where nothing better is known: probes print it too.
    if line.starts_with("/bin/sh: ") && line.ends_with(": not found") {
        return Some((Cause::MissingProgram, 2));
    }
    let refused = has(": error: ")
        || has(": fatal error: ")
        || has(": Error: ")
        || has(": undefined reference to ")
        || line.starts_with("error: ")
        || line.starts_with("ERROR: ")
        || line.starts_with("FAILED: ");
    (refused && !is_consequence(line)).then_some((Cause::Refused, 3))
}

/// The outermost packaging tool only says that make failed.
fn is_consequence(line: &str) -> bool {
    line.starts_with("dpkg-buildpackage: error: ")
}

/// A line in which make says what it does next: nothing of the error comes after it.
fn is_progress(line: &str) -> bool {
    line.starts_with("make: ")
        || line.starts_with("make[")
        || is_consequence(line)
        || step(line).is_some()
}

/// The word of a quiet command line: `CC`, `LD`, `AR` of `  CC [M]  fs/fat/cache.o`.
fn step(line: &str) -> Option<&str> {
    let word = line.strip_prefix("  ")?.split(' ').next()?;
    let upper = word
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    (word.len() > 1 && upper).then_some(word)
}

/// Counts what make has compiled as its log grows.
#[derive(Debug, Default)]
pub struct Counter {
    objects: u64,
    rest: Vec<u8>,
}

impl Counter {
    /// Takes the next piece of the log.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let compiled = std::str::from_utf8(&self.rest)
                    .ok()
                    .and_then(step)
                    .is_some_and(|word| matches!(word, "CC" | "AS"));
                self.objects += u64::from(compiled);
                self.rest.clear();
            } else if self.rest.len() < LINE_LIMIT {
                self.rest.push(*byte);
            }
        }
    }

    /// Objects compiled for the kernel so far; programs for the host do not count.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(log: &str) -> FirstError {
        first_error(log.as_bytes()).unwrap()
    }

    #[test]
    fn the_compilers_words_come_before_makes() {
        let found = first(
            "  CC      mm/slub.o\n\
             make[4]: *** [scripts/Makefile.build:229: lib/x.o] Error 1 (of another kind)\n\
             In file included from include/linux/kernel.h:5,\n\
             \x20                from kernel/fork.c:12:\n\
             kernel/fork.c: In function 'copy_process':\n\
             kernel/fork.c:99:2: error: 'x' undeclared (first use in this function)\n\
             \x20  99 |  x = 1;\n\
             \x20     |  ^\n\
             \x20 CC      mm/memory.o\n\
             kernel/exit.c:1:1: error: second\n\
             make[3]: *** [kernel] Error 2\n",
        );
        assert_eq!(found.cause, Cause::Refused);
        assert_eq!(found.lines.len(), 6, "{:#?}", found.lines);
        assert!(found.lines[0].starts_with("In file included"));
        assert!(found.lines[3].contains("kernel/fork.c:99:2: error"));
        assert!(found.lines[5].contains('^'));
    }

    #[test]
    fn each_kind_is_known_by_its_real_line() {
        for (line, cause) in [
            (
                "make[3]: *** No rule to make target 'debian/certs/debian-uefi-certs.pem', needed by 'certs/x509_certificate_list'.  Stop.",
                Cause::MissingFile,
            ),
            (
                "ERROR: modpost: \"foo\" [drivers/a.ko] undefined!",
                Cause::Refused,
            ),
            (
                "arch/x86/a.S:3: Error: no such instruction: `foo'",
                Cause::Refused,
            ),
            (
                "ld: kernel/a.o: in function `b': a.c:(.text+0x1): undefined reference to `c'",
                Cause::Refused,
            ),
            (
                "gcc: fatal error: Killed signal terminated program cc1",
                Cause::Memory,
            ),
            (
                "cc1: out of memory allocating 65536 bytes after a total of 1 bytes",
                Cause::Memory,
            ),
            (
                "/tmp/cc.s: fatal error: can't close /tmp/cc.s: No space left on device",
                Cause::Disk,
            ),
            ("/bin/sh: 1: bc: not found", Cause::MissingProgram),
            (
                "FAILED: load BTF from vmlinux: Invalid argument",
                Cause::Refused,
            ),
            ("dpkg-deb: error: illegal package name", Cause::Refused),
        ] {
            let log =
                format!("  CC      a.o\n{line}\nmake: *** [Makefile:236: __sub-make] Error 2\n");
            assert_eq!(first(&log).cause, cause, "{line}");
            assert_eq!(first(&log).lines, [line], "{line}");
        }
    }

    #[test]
    fn a_probe_that_finds_no_program_is_not_the_error() {
        let found = first(
            "/bin/sh: 1: lsb_release: not found\n  CC      a.o\na.c:1:1: error: real\n\
             dpkg-buildpackage: error: make -f debian/rules binary subprocess returned exit status 2\n",
        );
        assert_eq!(found.lines, ["a.c:1:1: error: real"]);
    }

    #[test]
    fn without_any_error_the_last_lines_are_shown() {
        let found = first("1\n2\n3\n4\n5\n6\n7\n8\n");
        assert_eq!(found.cause, Cause::Unknown);
        assert_eq!(found.lines, ["3", "4", "5", "6", "7", "8"]);
        assert_eq!(first("").lines, Vec::<String>::new());
    }

    #[test]
    fn a_long_error_is_cut_and_escapes_do_not_reach_the_terminal() {
        let log = format!("a.c:1:1: error: \u{1b}[31m\n{}", "note\n".repeat(100));
        let found = first(&log);
        assert_eq!(found.lines.len(), SHOWN_LINES);
        assert!(!found.lines[0].contains('\u{1b}'));
    }

    #[test]
    fn objects_are_counted_across_pieces() {
        let log =
            "  CC      a.o\n  CC [M]  b.o\n  AS      c.o\n  HOSTCC  d.o\n  LD      e.o\nCC x\n";
        for size in [1, 3, 1000] {
            let mut counter = Counter::default();
            for piece in log.as_bytes().chunks(size) {
                counter.feed(piece);
            }
            assert_eq!(counter.objects(), 3);
        }
    }

    proptest! {
        #[test]
        fn no_log_panics(log in prop::collection::vec(any::<u8>(), 0..400)) {
            let found = first_error(log.as_slice()).unwrap();
            prop_assert!(found.lines.len() <= SHOWN_LINES);
            let mut counter = Counter::default();
            counter.feed(&log);
        }
    }
}
