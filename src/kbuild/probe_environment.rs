//! The variables that a tree's makefile exports to `conf`, without make.
//!
//! Each value is a row that holds only where the tree's own makefile has the line that the row
//! names, so a makefile that goes another way is noticed. A variable that the makefile exports and
//! that no row gives is refused when a Kconfig file reads it: nothing is guessed. A test compares
//! all of it with what the real make passes.

use std::collections::{BTreeMap, BTreeSet};

use super::make::Kbuild;
use super::probe::{ProbeError, TEXT_LIMIT};
use crate::files;

/// Name, what the makefile assigns, and the value that this is in kiln's builds: x86-64, gcc, no
/// cross compiler.
const ROWS: &[(&str, &str, &str)] = &[
    ("LC_COLLATE", "C", "C"),
    ("LC_NUMERIC", "C", "C"),
    ("SRCARCH", "x86", "x86"),
    ("UTS_MACHINE", "$(ARCH)", "x86_64"),
    ("CONFIG_SHELL", "sh", "sh"),
    ("HOSTCC", "gcc", "gcc"),
    ("HOSTCXX", "g++", "g++"),
    ("HOSTRUSTC", "rustc", "rustc"),
    ("HOSTPKG_CONFIG", "pkg-config", "pkg-config"),
    ("CPP", "$(CC) -E", "gcc -E"),
    ("CC", "$(CROSS_COMPILE)gcc", "gcc"),
    ("LD", "$(CROSS_COMPILE)ld", "ld"),
    ("AR", "$(CROSS_COMPILE)ar", "ar"),
    ("NM", "$(CROSS_COMPILE)nm", "nm"),
    ("OBJCOPY", "$(CROSS_COMPILE)objcopy", "objcopy"),
    ("OBJDUMP", "$(CROSS_COMPILE)objdump", "objdump"),
    ("READELF", "$(CROSS_COMPILE)readelf", "readelf"),
    ("STRIP", "$(CROSS_COMPILE)strip", "strip"),
    ("RUSTC", "rustc", "rustc"),
    ("RUSTDOC", "rustdoc", "rustdoc"),
    ("RUSTFMT", "rustfmt", "rustfmt"),
    ("BINDGEN", "bindgen", "bindgen"),
    ("PAHOLE", "pahole", "pahole"),
    ("LEX", "flex", "flex"),
    ("YACC", "bison", "bison"),
    ("AWK", "awk", "awk"),
    ("PERL", "perl", "perl"),
    ("PYTHON3", "python3", "python3"),
    ("BASH", "bash", "bash"),
    ("RUSTC_BOOTSTRAP", "1", "1"),
    ("KCONFIG_CONFIG", ".config", ".config"),
];

/// Variables whose value is the output of a shell text that stands in the makefile.
const SHELLED: &[&str] = &["CC_VERSION_TEXT", "RUSTC_VERSION_TEXT", "PAHOLE_VERSION"];

/// Variables of make itself, which no answer may depend on.
const MAKES_OWN: &[&str] = &[
    "MAKE",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MAKEOVERRIDES",
    "MFLAGS",
    "O",
    "obj",
];

/// The makefiles beside the first one that export variables on the way to `conf`.
const INCLUDED: &[&str] = &["arch/x86/Makefile", "scripts/kconfig/Makefile"];

/// A variable that a shell text of the makefile gives.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    name: &'static str,
    pub(super) command: String,
    /// Whether `#` is taken out: `$(subst $(pound),,...)`.
    without_pound: bool,
}

/// The environment of `conf`.
#[derive(Debug, Default)]
pub(super) struct Derived {
    vars: BTreeMap<String, String>,
    underived: BTreeSet<String>,
    /// What is still to be asked.
    pub(super) asked: Vec<Asked>,
}

impl Derived {
    /// Reads the makefile of a tree.
    pub(super) fn of(kbuild: &Kbuild) -> Result<Self, ProbeError> {
        let file = kbuild.source().join("Makefile");
        let makefile = files::read_text(&file, TEXT_LIMIT)?;
        let outside = kbuild.environment().vars();
        let outside = outside.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let source = kbuild.source_inside().as_str();
        let mut derived =
            Self::from_text(&makefile, source, outside).map_err(|wanted| ProbeError::Makefile {
                file,
                wanted: wanted.to_owned(),
            })?;
        for included in INCLUDED {
            let path = kbuild.source().join(included);
            if path.is_file() {
                derived.refuse(exported(&files::read_text(&path, TEXT_LIMIT)?));
            }
        }
        Ok(derived)
    }

    /// Refuses to answer for variables, but for those that are known.
    fn refuse<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            let asked = self.asked.iter().any(|asked| asked.name == name);
            if !asked && !self.vars.contains_key(name) {
                self.underived.insert(name.to_owned());
            }
        }
    }

    /// The environment by the text of the makefile, the place of the source and what make itself
    /// is given.
    fn from_text(
        makefile: &str,
        source: &str,
        outside: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, &'static str> {
        let assigned: BTreeSet<(&str, &str)> = assignments(makefile).collect();
        let mut vars: BTreeMap<String, String> = outside.collect();
        if makefile.lines().any(|line| line == "unexport LC_ALL") {
            vars.remove("LC_ALL");
        }
        for (name, text, value) in ROWS {
            if assigned.contains(&(name, text)) {
                vars.insert((*name).to_owned(), (*value).to_owned());
            }
        }
        for needed in ["CC", "LD", "SRCARCH"] {
            if !vars.contains_key(needed) {
                return Err(needed);
            }
        }
        let number =
            |name| assignments(makefile).find_map(|(n, value)| (n == name).then_some(value));
        let version = number("VERSION").ok_or("VERSION = ...")?;
        let minor = number("PATCHLEVEL").ok_or("PATCHLEVEL = ...")?;
        let mut full = format!("{version}.{minor}");
        match number("SUBLEVEL").unwrap_or_default() {
            "" => {}
            patch => full = format!("{full}.{patch}"),
        }
        full.push_str(number("EXTRAVERSION").unwrap_or_default());
        for (name, value) in [
            ("ARCH", "x86_64"),
            ("CROSS_COMPILE", ""),
            // What the makefile of x86 exports for a 64-bit kernel.
            ("BITS", "64"),
            ("srctree", source),
            ("objtree", "."),
            ("KERNELVERSION", &full),
            ("VERSION", version),
            ("PATCHLEVEL", minor),
            ("SUBLEVEL", number("SUBLEVEL").unwrap_or_default()),
        ] {
            vars.insert(name.to_owned(), value.to_owned());
        }
        let asked: Vec<Asked> = SHELLED
            .iter()
            .filter_map(|name| {
                let text = number(name)?;
                asked(name, text, &vars)
            })
            .collect();
        let mut derived = Self {
            vars,
            underived: BTreeSet::new(),
            asked,
        };
        derived.refuse(exported(makefile).chain(MAKES_OWN.iter().copied()));
        Ok(derived)
    }

    /// Takes the output of what was asked, as make takes it.
    pub(super) fn answer(&mut self, asked: &Asked, output: &[u8]) {
        let text = String::from_utf8_lossy(output);
        let mut text = text.trim_end_matches('\n').replace('\n', " ");
        if asked.without_pound {
            text = text.replace('#', "");
        }
        self.vars.insert(asked.name.to_owned(), text);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str)
    }

    /// Whether the makefile gives the variable a value that is not known.
    pub(super) fn is_underived(&self, name: &str) -> bool {
        self.underived.contains(name)
    }

    pub(super) fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        let vars = self.vars.iter();
        vars.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The simple assignments of a makefile, whatever conditions they stand in: name and value.
fn assignments(makefile: &str) -> impl Iterator<Item = (&str, &str)> {
    makefile
        .lines()
        .filter(|line| !line.starts_with('\t'))
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let name = name.trim_end_matches([':', '?']).trim();
            let name = name.strip_prefix("export").map_or(name, str::trim);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            (!name.is_empty() && name.bytes().all(plain)).then(|| (name, value.trim()))
        })
}

/// The variables that `export` lines name.
fn exported(makefile: &str) -> impl Iterator<Item = &str> {
    makefile
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("export "))
        .flat_map(|line| {
            let names = line.split(['=', '#']).next().unwrap_or_default();
            names
                .trim_end()
                .trim_end_matches([':', '?'])
                .split_whitespace()
        })
}

/// `$(shell TEXT)`, or that in `$(subst $(pound),,...)`.
fn asked(name: &'static str, value: &str, vars: &BTreeMap<String, String>) -> Option<Asked> {
    let inner = value
        .strip_prefix("$(subst $(pound),,")
        .and_then(|rest| rest.strip_suffix(')'));
    let text = inner.unwrap_or(value);
    let text = text.strip_prefix("$(shell ")?.strip_suffix(')')?;
    let mut command = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        let (variable, after) = after.split_once(')')?;
        command.push_str(before);
        command.push_str(vars.get(variable)?);
        rest = after;
    }
    command.push_str(rest);
    Some(Asked {
        name,
        command,
        without_pound: inner.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "\
VERSION = 7
PATCHLEVEL = 2
SUBLEVEL = 13
EXTRAVERSION = -rc1
unexport LC_ALL
LC_COLLATE=C
export LC_COLLATE LC_NUMERIC
ifneq ($(LLVM),)
CC\t\t= $(LLVM_PREFIX)clang$(LLVM_SUFFIX)
else
CC\t\t= $(CROSS_COMPILE)gcc
LD\t\t= $(CROSS_COMPILE)ld
endif
PAHOLE\t\t= pahole
ifeq ($(ARCH),x86_64)
        SRCARCH := x86
endif
CC_VERSION_TEXT = $(subst $(pound),,$(shell LC_ALL=C $(CC) --version 2>/dev/null | head -n 1))
PAHOLE_VERSION = $(shell $(srctree)/scripts/pahole-version.sh $(PAHOLE))
export RUSTC_BOOTSTRAP := 1
export CC LD PAHOLE KBUILD_CFLAGS
";

    fn derived(makefile: &str) -> Result<Derived, &'static str> {
        let outside =
            [("LC_ALL", "C"), ("PATH", "/bin")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        Derived::from_text(makefile, "/build/src", outside.into_iter())
    }

    #[test]
    fn values_come_from_the_lines_of_the_makefile() {
        let mut derived = derived(MAKEFILE).unwrap();
        for (name, value) in [
            ("CC", Some("gcc")),
            ("SRCARCH", Some("x86")),
            ("KERNELVERSION", Some("7.2.13-rc1")),
            ("RUSTC_BOOTSTRAP", Some("1")),
            ("PATH", Some("/bin")),
            ("LC_ALL", None),
            ("LC_NUMERIC", None),
            ("BINDGEN", None),
        ] {
            assert_eq!(derived.get(name), value, "{name}");
        }
        let asked = std::mem::take(&mut derived.asked);
        let commands: Vec<&str> = asked.iter().map(|asked| &*asked.command).collect();
        assert_eq!(
            commands,
            [
                "LC_ALL=C gcc --version 2>/dev/null | head -n 1",
                "/build/src/scripts/pahole-version.sh pahole"
            ]
        );
        derived.answer(&asked[0], b"gcc #1\n");
        assert_eq!(derived.get("CC_VERSION_TEXT"), Some("gcc 1"));
    }

    #[test]
    fn what_no_row_gives_is_not_guessed() {
        let derived_all = derived(MAKEFILE).unwrap();
        assert!(derived_all.is_underived("KBUILD_CFLAGS"));
        assert!(!derived_all.is_underived("CC"));
        assert!(!derived_all.is_underived("NOBODY_EXPORTS_IT"));
        // Another value than the row's: the row does not hold.
        let other = MAKEFILE.replace("= pahole", "= $(TOOLS)/pahole");
        let other = derived(&other).unwrap();
        assert_eq!(other.get("PAHOLE"), None);
        assert!(other.is_underived("PAHOLE"));
        assert_eq!(derived("VERSION = 6\n").unwrap_err(), "CC");
    }
}
