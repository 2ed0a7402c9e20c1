//! What the answer to a probe depends on, as one digest.
//!
//! Everything that a probe's text, and the tree's scripts it names, could run is named by a word in
//! them: a word that is a program on the sandbox's PATH counts with that program's digest, a file of
//! the tree with its own and with the words in it, any other absolute path with what stands there.
//! What a compiler starts and reads without being told (its other half, libraries, headers) comes
//! from packages of the host, so the digest of the package database counts for every probe, as do
//! the environment, the loader's cache and the programs behind `gcc`. In a pinned root all of that
//! is one digest, the root's own.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use camino::{Utf8Path, Utf8PathBuf};

use super::make::Kbuild;
use super::probe::{ProbeError, TEXT_LIMIT};
use super::probe_environment::Derived;
use super::root::Root;
use crate::digest::{Hasher, Sha256};
use crate::files;

/// What counts for every probe.
const ALWAYS: &[&str] = &[
    "/bin/sh",
    "/usr/bin/as",
    "/usr/bin/ld",
    "/etc/ld.so.cache",
    "/var/lib/dpkg/status",
];

/// Where a compiler keeps the programs that it starts.
const COMPILERS: &[&str] = &[
    "/usr/lib/gcc/x86_64-linux-gnu",
    "/usr/libexec/gcc/x86_64-linux-gnu",
];

/// Their names.
const COMPILER_PARTS: &[&str] = &["cc1", "collect2", "lto-wrapper"];

/// Where the sandbox's PATH leads, beside the stand-ins.
const PATH: &[&str] = &["/usr/sbin", "/usr/bin"];

/// Digests of what was reached so far.
#[derive(Debug)]
pub(super) struct Reach {
    source: Utf8PathBuf,
    inside: Utf8PathBuf,
    /// Of all that a pinned root has: nothing of the host counts then.
    root: Option<Sha256>,
    always: Option<Sha256>,
    files: HashMap<Utf8PathBuf, String>,
    programs: HashMap<String, Option<Utf8PathBuf>>,
    /// The words of the tree's scripts.
    scripts: HashMap<Utf8PathBuf, Rc<[String]>>,
}

impl Reach {
    pub(super) fn new(kbuild: &Kbuild) -> Self {
        Self {
            source: kbuild.source().to_owned(),
            inside: kbuild.source_inside().to_owned(),
            root: kbuild.root().map(Root::digest),
            always: None,
            files: HashMap::new(),
            programs: HashMap::new(),
            scripts: HashMap::new(),
        }
    }

    /// The digest of a probe's text and all that its answer depends on.
    pub(super) fn key(&mut self, command: &str, derived: &Derived) -> Result<Sha256, ProbeError> {
        let mut found = BTreeMap::new();
        let mut scripts = Vec::new();
        for word in words(command) {
            self.word(word, None, &mut found, &mut scripts)?;
        }
        while let Some(path) = scripts.pop() {
            for word in self.script(&path, derived)?.iter() {
                self.word(word, path.parent(), &mut found, &mut scripts)?;
            }
        }
        let mut hasher = Hasher::new();
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field("probe 1");
        // The stand-ins are a part of this program.
        field(env!("CARGO_PKG_VERSION"));
        field(&self.always()?.to_string());
        for (name, value) in derived.vars() {
            field(name);
            field(value);
        }
        field(command);
        for (name, what) in &found {
            field(name);
            field(what);
        }
        Ok(hasher.finish())
    }

    /// What a word stands for. Scripts of the tree that are new are added to `scripts`.
    fn word(
        &mut self,
        word: &str,
        beside: Option<&Utf8Path>,
        found: &mut BTreeMap<String, String>,
        scripts: &mut Vec<Utf8PathBuf>,
    ) -> Result<(), ProbeError> {
        let path = Utf8Path::new(word);
        let named = path.strip_prefix(&self.inside).ok();
        let in_tree = match (named, beside, path.file_name()) {
            (Some(below), _, _) => Some(self.source.join(below)),
            // `$(dirname $0)/min-tool-version.sh`
            (None, Some(beside), Some(name)) => Some(beside.join(name)),
            _ => None,
        };
        if let Some(file) = in_tree.filter(|file| file.is_file()) {
            let what = self.file(&file)?;
            if found.insert(file.to_string(), what).is_none() {
                scripts.push(file);
            }
            return Ok(());
        }
        if self.root.is_some() {
            return Ok(());
        }
        if path.is_absolute() {
            let device = ["/dev", "/proc", "/tmp"]
                .iter()
                .any(|top| path.starts_with(top));
            if !device {
                let what = self.file(path)?;
                found.insert(word.to_owned(), what);
            }
        } else if !word.contains('/')
            && let Some(program) = self.program(word)
        {
            let what = self.file(&program)?;
            found.insert(program.to_string(), what);
        }
        Ok(())
    }

    fn program(&mut self, word: &str) -> Option<Utf8PathBuf> {
        if let Some(known) = self.programs.get(word) {
            return known.clone();
        }
        let mut places = PATH.iter().map(|dir| Utf8Path::new(dir).join(word));
        let program = places.find(|path| path.is_file());
        self.programs.insert(word.to_owned(), program.clone());
        program
    }

    /// The digest of a file, or what else stands there.
    fn file(&mut self, path: &Utf8Path) -> Result<String, ProbeError> {
        if let Some(known) = self.files.get(path) {
            return Ok(known.clone());
        }
        let what = if path.is_file() {
            files::hash(path)?.0.to_string()
        } else if path.is_dir() {
            "directory".to_owned()
        } else {
            "absent".to_owned()
        };
        self.files.insert(path.to_owned(), what.clone());
        Ok(what)
    }

    fn script(&mut self, path: &Utf8Path, derived: &Derived) -> Result<Rc<[String]>, ProbeError> {
        if let Some(known) = self.scripts.get(path) {
            return Ok(Rc::clone(known));
        }
        let bytes = files::read(path, TEXT_LIMIT)?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(name) = variables(&text).find(|name| derived.is_underived(name)) {
            return Err(ProbeError::Underived {
                name: name.to_owned(),
                asked_by: path.to_string(),
            });
        }
        let mut words: Vec<String> = words(&text).map(str::to_owned).collect();
        words.sort_unstable();
        words.dedup();
        let words: Rc<[String]> = words.into();
        self.scripts.insert(path.to_owned(), Rc::clone(&words));
        Ok(words)
    }

    fn always(&mut self) -> Result<Sha256, ProbeError> {
        if let Some(known) = self.always.or(self.root) {
            return Ok(known);
        }
        let mut paths: Vec<Utf8PathBuf> = ALWAYS.iter().map(Utf8PathBuf::from).collect();
        for directory in COMPILERS.iter().map(Utf8Path::new) {
            if directory.is_dir() {
                for version in files::list(directory)? {
                    let parts = COMPILER_PARTS.iter();
                    paths.extend(parts.map(|part| directory.join(&version).join(part)));
                }
            }
        }
        let mut hasher = Hasher::new();
        for path in paths {
            let what = self.file(&path)?;
            hasher.update(format!("{path} {what}\n").as_bytes());
        }
        let digest = hasher.finish();
        self.always = Some(digest);
        Ok(digest)
    }
}

/// The words of a text that could name a program or a file.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !(char.is_ascii_alphanumeric() || "_./+-".contains(char)))
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// The variables that a script of a shell reads.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let end = rest.find(|char| !plain(char)).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_could_be_programs_or_files() {
        let text = "{ trap \"rm -rf .tmp_$$\" EXIT; env \"CC=gcc\" /build/src/scripts/a.sh -m64; }";
        let found: Vec<&str> = words(text).collect();
        assert_eq!(
            found,
            [
                "trap",
                "rm",
                ".tmp_",
                "EXIT",
                "env",
                "CC",
                "gcc",
                "/build/src/scripts/a.sh"
            ]
        );
    }

    #[test]
    fn variables_of_a_script() {
        let found: Vec<&str> = variables("$A ${B:-x} $(cmd $C) $1 $").collect();
        assert_eq!(found, ["A", "B", "C", "1"]);
    }
}
