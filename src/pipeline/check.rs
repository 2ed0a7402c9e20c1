//! Checks every file of a workspace, offline: each alone, and that what one names the others have.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use super::workspace::{Loaded, Workspace, WorkspaceError};
use crate::digest::{Fingerprint, Sha256};
use crate::failure::{Diagnose, Failure, in_one_line};
use crate::files::{self, FileError};
use crate::kconfig::{Fragment, FragmentError};
use crate::proof::canonical::CanonicalError;
use crate::proof::lock::{Lock, LockError};
use crate::source::keyring::Keyring;
use crate::source::keys;
use crate::source::patch::Patch;
use crate::spec::pipeline::Trim;
use crate::spec::{
    Base, Channels, Collateral, Settings, Spanned, SpecErrors, nearest, roles, yaml,
};

/// Largest file that is read, in bytes: locks are the longest.
const LIMIT: u64 = 4 << 20;

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the workspace's directory.
    pub file: String,
    /// Line, from 1; 0 where the whole file is meant.
    pub line: u64,
    /// Column, from 1; 0 where the whole line is meant.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do, where more than mending the text is needed.
    pub hints: Vec<String>,
}

impl Finding {
    /// `file:line:column`, as far as known.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (0, _) => self.file.clone(),
            (line, 0) => format!("{}:{line}", self.file),
            (line, column) => format!("{}:{line}:{column}", self.file),
        }
    }
}

/// What was checked and found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The files that were read, from the workspace's directory.
    pub files: BTreeSet<String>,
    /// What is wrong, in the order of files and lines.
    pub findings: BTreeSet<Finding>,
}

/// What a file of a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Settings,
    Channels,
    Pipeline,
    Lock,
    Fragment,
    Certificate,
    Collateral,
    Roles,
}

impl Kind {
    /// By name and place; `None` for files that kiln does not read.
    fn of(path: &Utf8Path) -> Option<Self> {
        let name = path.file_name()?;
        let parent = path.parent().and_then(Utf8Path::file_name).unwrap_or("");
        match (parent, name, path.extension()) {
            (_, "kiln.yaml", _) => Some(Self::Settings),
            (_, "channels.yaml", _) => Some(Self::Channels),
            (_, _, Some("asc")) => Some(Self::Certificate),
            (_, _, Some("config")) => Some(Self::Fragment),
            ("collateral", _, Some("yaml")) => Some(Self::Collateral),
            ("keys", roles::FILE, _) => Some(Self::Roles),
            (_, _, Some("yaml")) => Some(Self::Pipeline),
            (_, _, Some("json")) if name.ends_with(".lock.json") => Some(Self::Lock),
            _ => None,
        }
    }
}

/// Checks the whole workspace around `start`.
///
/// # Errors
/// Fails only where there is no workspace, or it cannot be listed.
pub fn workspace(start: &Utf8Path) -> Result<Checked, WorkspaceError> {
    // A wrong kiln.yaml is a finding like any other; it must not hide the rest.
    let workspace = Workspace::find_root(start)?;
    let mut checker = Checker::new(&workspace);
    for directory in ["", "pipelines", "config-fragments", "keys", "collateral"] {
        let directory = workspace.root().join(directory);
        if !directory.is_dir() {
            continue;
        }
        let (names, strange) = files::entries(&directory)?;
        if directory != workspace.root() {
            let shown = workspace.shown(&directory);
            for name in strange {
                let text = "its name is not UTF-8, so nothing can name it";
                checker.report(&format!("{shown}/{name}"), 0, text);
            }
        }
        for name in names {
            let path = directory.join(name);
            if directory == workspace.keys() && keys::holds_secret(&path) {
                checker.secret(&path);
                continue;
            }
            let expected = match Kind::of(&path) {
                // In the top directory only kiln.yaml is kiln's.
                Some(Kind::Settings) => true,
                Some(_) => directory != workspace.root(),
                None => false,
            };
            if expected {
                checker.file(&path);
            }
        }
    }
    checker.across();
    Ok(checker.checked)
}

/// Checks only these files, and what they name.
///
/// # Errors
/// Fails where there is no workspace, or a file is of no kind that kiln reads.
pub fn only(start: &Utf8Path, paths: &[Utf8PathBuf]) -> Result<Checked, Failure> {
    let workspace = Workspace::find_root(start)?;
    let mut checker = Checker::new(&workspace);
    for path in paths {
        if Kind::of(path).is_none() {
            return Err(Failure::usage(format!(
                "`{path}` is of no kind that kiln reads: expected a .yaml, .config, .asc or \
                 .lock.json file"
            )));
        }
        let path = start.join(path);
        checker.file(&path.canonicalize_utf8().unwrap_or(path));
    }
    checker.across();
    Ok(checker.checked)
}

struct Checker<'a> {
    workspace: &'a Workspace,
    checked: Checked,
    pipelines: BTreeMap<String, Loaded>,
    channels: Option<(String, Channels)>,
    locks: Vec<(String, Lock)>,
}

impl<'a> Checker<'a> {
    fn new(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            checked: Checked::default(),
            pipelines: BTreeMap::new(),
            channels: None,
            locks: Vec::new(),
        }
    }

    fn report(&mut self, file: &str, line: u64, message: impl Into<String>) {
        self.checked.findings.insert(Finding {
            file: file.to_owned(),
            line,
            column: 0,
            message: message.into(),
            hints: Vec::new(),
        });
    }

    fn secret(&mut self, path: &Utf8Path) {
        self.checked.findings.insert(Finding {
            file: self.workspace.shown(path),
            line: 0,
            column: 0,
            message: keys::SECRET.to_owned(),
            hints: vec![keys::SECRET_HINT.to_owned()],
        });
    }

    /// A failure about a file as a whole.
    fn failure(&mut self, file: &str, line: u64, error: &(impl Diagnose + ?Sized)) {
        self.checked.findings.insert(Finding {
            file: file.to_owned(),
            line,
            column: 0,
            message: in_one_line(error),
            hints: error.hints(),
        });
    }

    fn spec(&mut self, errors: SpecErrors) {
        for error in errors.errors {
            let message = if error.path.is_empty() {
                error.problem.to_string()
            } else {
                format!("{}: {}", error.path, error.problem)
            };
            self.checked.findings.insert(Finding {
                file: error.file,
                line: error.at.line,
                column: error.at.column,
                message,
                hints: Vec::new(),
            });
        }
    }

    /// A fragment that was read, or not. One that asks for nothing is most likely cut off.
    fn fragment(&mut self, shown: &str, parsed: Result<Fragment, FragmentError>) {
        self.checked.files.insert(shown.to_owned());
        match parsed {
            Ok(fragment) if fragment.assignments.is_empty() => self.report(
                shown,
                0,
                "the fragment asks for nothing: write a line into it, or remove it",
            ),
            Ok(_) => {}
            Err(error) => self.fragment_error(shown, error),
        }
    }

    fn fragment_error(&mut self, shown: &str, error: FragmentError) {
        let FragmentError::Invalid { file, problems } = error else {
            return self.failure(shown, 0, &error);
        };
        for problem in problems {
            let nearest = problem
                .nearest
                .map_or_else(String::new, |nearest| format!("; write `{nearest}`"));
            self.checked.findings.insert(Finding {
                file: file.clone(),
                line: problem.line.into(),
                column: problem.column.into(),
                message: format!(
                    "expected {}, found {}{nearest}",
                    problem.expected, problem.found
                ),
                hints: Vec::new(),
            });
        }
    }

    /// Reads one file; what it names is looked at by [`Self::across`].
    fn file(&mut self, path: &Utf8Path) {
        let shown = self.workspace.shown(path);
        let Some(kind) = Kind::of(path) else { return };
        self.checked.files.insert(shown.clone());
        if kind == Kind::Certificate {
            return self.certificate(path, &shown);
        }
        let text = match files::read_text(path, LIMIT) {
            Ok(text) => text,
            Err(error) => return self.failure(&shown, 0, &error),
        };
        match kind {
            Kind::Settings => self.parsed(Settings::parse(&shown, &text)),
            Kind::Collateral => self.parsed(Collateral::parse(&shown, &text)),
            Kind::Roles => self.parsed(roles::parse(&shown, &text)),
            Kind::Channels => {
                if let Some(channels) = self.kept(Channels::parse(&shown, &text)) {
                    self.channels = Some((shown, channels));
                }
            }
            Kind::Pipeline => self.pipeline(path, &shown),
            Kind::Lock => match Lock::parse(&shown, &text) {
                Ok(lock) => self.locks.push((shown, lock)),
                Err(LockError::Document(CanonicalError::Shape { misread, .. })) => {
                    self.checked.findings.insert(Finding {
                        file: shown,
                        line: misread.line,
                        column: misread.column,
                        message: misread.problem,
                        hints: Vec::new(),
                    });
                }
                Err(error) => self.failure(&shown, 0, &error),
            },
            Kind::Fragment => {
                let parsed = Fragment::parse(&shown, &text);
                self.fragment(&shown, parsed);
            }
            Kind::Certificate => {}
        }
    }

    fn parsed<T>(&mut self, result: Result<T, SpecErrors>) {
        let _only_checked = self.kept(result);
    }

    fn kept<T>(&mut self, result: Result<T, SpecErrors>) -> Option<T> {
        result.map_err(|errors| self.spec(errors)).ok()
    }

    fn pipeline(&mut self, path: &Utf8Path, shown: &str) {
        match self.workspace.pipeline(path.as_str()) {
            Ok(loaded) => {
                self.pipelines.insert(shown.to_owned(), loaded);
            }
            Err(WorkspaceError::Spec(errors)) => self.spec(errors),
            Err(WorkspaceError::Misnamed {
                line, name, stem, ..
            }) => self.report(
                shown,
                line,
                format!("the pipeline is named `{name}`, its file `{stem}`; they must agree"),
            ),
            Err(error) => self.failure(shown, 0, &error),
        }
    }

    fn certificate(&mut self, path: &Utf8Path, shown: &str) {
        let stem = path.file_stem().unwrap_or_default();
        let Ok(fingerprint) = stem.parse::<Fingerprint>() else {
            return self.report(
                shown,
                0,
                "a certificate's file is named by its full fingerprint, such as \
                 647F28654894E3BD457199BE38DBBDC86092693E.asc",
            );
        };
        let directory = path.parent().unwrap_or_else(|| Utf8Path::new("."));
        let Err(error) = Keyring::load(directory, &[fingerprint]) else {
            return;
        };
        match error.in_file() {
            Some((line, message)) => {
                self.checked.findings.insert(Finding {
                    file: shown.to_owned(),
                    line,
                    column: 0,
                    message,
                    hints: error.hints(),
                });
            }
            None => self.failure(shown, 0, &error),
        }
    }

    /// What the files name of one another.
    fn across(&mut self) {
        for (file, loaded) in std::mem::take(&mut self.pipelines) {
            self.named_by(&file, &loaded);
            self.pipelines.insert(file, loaded);
        }
        if let Some((file, channels)) = self.channels.take() {
            self.lines(&file, &channels);
        }
        for (file, lock) in std::mem::take(&mut self.locks) {
            self.lock(&file, &lock);
        }
    }

    fn named_by(&mut self, file: &str, loaded: &Loaded) {
        let spec = &loaded.spec;
        for key in spec.keys.release.iter().chain(&spec.keys.checksums) {
            let keys = self.workspace.keys();
            let path = keys.join(format!("{}.asc", key.value));
            // What is wrong in a file is told there, and once.
            if path.symlink_metadata().is_ok() {
                if !self.checked.files.contains(&self.workspace.shown(&path)) {
                    self.file(&path);
                }
                continue;
            }
            if let Err(error) = Keyring::load(&keys, std::slice::from_ref(&key.value)) {
                self.failure(file, key.referenced.line(), &error);
            }
        }
        for name in &spec.config.fragments {
            let line = name.referenced.line();
            let at = format!("{file}:{line}");
            match self.workspace.fragment(&name.value, &at) {
                Ok(fragment) => {
                    let shown = fragment.file.to_string();
                    self.fragment(&shown, Ok(fragment));
                }
                Err(WorkspaceError::Fragment(error)) => {
                    let path = self.workspace.fragment_path(&name.value);
                    let shown = self.workspace.shown(&path);
                    self.fragment(&shown, Err(error));
                }
                Err(error) => {
                    let text = error.to_string();
                    let text = text.strip_prefix(&format!("{at}: ")).unwrap_or(&text);
                    self.report(file, line, text);
                }
            }
        }
        if let Some(collateral) = &spec.config.collateral {
            self.collateral(file, &collateral.allow);
        }
        for patch in &spec.patches {
            let path = self.workspace.root().join(&patch.file.value);
            if let Err(error) = Patch::load(&path, patch.file.value.as_str(), &patch.sha256) {
                self.failure(file, patch.file.referenced.line(), &error);
            }
        }
        let line = spec.config.base.referenced.line();
        if let Base::File { path, sha256, .. } = &spec.config.base.value {
            self.digest(file, line, path, sha256);
        }
        if let Trim::Lsmod(path) = &spec.config.trim {
            self.exists(file, line, path);
        }
        if let Some(image) = &spec.image {
            self.exists(file, image.referenced.line(), &image.value);
        }
    }

    fn collateral(&mut self, file: &str, path: &Spanned<Utf8PathBuf>) {
        let whole = self.workspace.root().join(&path.value);
        let shown = self.workspace.shown(&whole);
        if self.checked.files.contains(&shown) {
            return;
        }
        match files::read_text(&whole, LIMIT) {
            Ok(text) => {
                self.checked.files.insert(shown.clone());
                self.parsed(Collateral::parse(&shown, &text));
            }
            Err(error) => self.failure(file, yaml::at(path).line, &error),
        }
    }

    fn digest(&mut self, file: &str, line: u64, path: &Utf8Path, expected: &Sha256) {
        match files::hash(&self.workspace.root().join(path)) {
            Ok((found, _)) if found == *expected => {}
            Ok((found, _)) => self.report(
                file,
                line,
                format!("`{path}` has the sha256 {found}, expected {expected}"),
            ),
            Err(error) => self.failure(file, line, &error),
        }
    }

    fn exists(&mut self, file: &str, line: u64, path: &Utf8Path) {
        if !self.workspace.root().join(path).is_file() {
            self.report(file, line, format!("there is no file `{path}`"));
        }
    }

    fn lines(&mut self, file: &str, channels: &Channels) {
        let known: Result<Vec<String>, FileError> = self.workspace.pipeline_names();
        let known = match known {
            Ok(known) => known,
            Err(error) => return self.failure(file, 0, &error),
        };
        for line in channels.channels.values().flat_map(|c| &c.value.lines) {
            let name = line.value.as_str();
            if !known.iter().any(|k| k == name) {
                let meant = nearest(name, known.iter().map(String::as_str))
                    .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
                let text = format!("no pipeline makes the line `{name}`{meant}");
                self.report(file, line.referenced.line(), text);
            }
        }
    }

    fn lock(&mut self, file: &str, lock: &Lock) {
        let stem = Utf8Path::new(file)
            .file_name()
            .and_then(|name| name.strip_suffix(".lock.json"))
            .unwrap_or_default();
        let line = lock.inputs.line.as_str();
        if stem != line {
            let text = format!("this lock is of the line `{line}`, its file is named `{stem}`");
            self.report(file, 0, text);
        }
        if let Some(base) = lock.inputs.base.config() {
            let kept = file.replace(".lock.json", ".base.config");
            self.digest(file, 0, Utf8Path::new(&kept), &base.sha256);
        }
        let pipeline = self.pipelines.values().find(|p| p.name() == line);
        if let Some(loaded) = pipeline {
            let (asked, locked) = (loaded.spec.series.value, lock.inputs.version.series);
            if asked != locked {
                let text = format!(
                    "the pipeline follows {asked}, this lock holds {}",
                    lock.inputs.version
                );
                self.checked.findings.insert(Finding {
                    file: file.to_owned(),
                    line: 0,
                    column: 0,
                    message: text,
                    hints: vec![format!("run `kiln resolve {line}` to write it anew")],
                });
            }
        }
    }
}
