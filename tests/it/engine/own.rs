//! The tests that a kernel's tree has for its own reader (`scripts/kconfig/tests`), read in place
//! and asked of the engine. Each directory is accounted for: asked, or named with the reason why it
//! asks something that the engine does not do.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::kconfig::language::{Host, HostError, Model, ParseError, Said, Tree};

use crate::support::{Case, Outcome, Stop, fail, linux, skip};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("engine::passes_the_trees_own_tests", || {
            all(linux::real_source()?)
        }),
        Case::new("engine::passes_a_newer_trees_own_tests", || {
            all(&linux::newer()?.source)
        }),
        Case::new("engine::trees_own_tests_can_fail", planted),
    ]
}

/// One directory: what is asked, and what is not.
struct Own {
    dir: &'static str,
    ask: fn(&Dir) -> Outcome,
    /// What else the directory asks, and why the engine is not asked that.
    not_asked: &'static str,
}

const PERSON: &str = "what a person is shown and asked at a terminal: the engine asks nobody";

const OWN: &[Own] = &[
    Own {
        dir: "auto_submenu",
        ask: |dir| dir.is_read(),
        not_asked: PERSON,
    },
    Own {
        dir: "choice",
        ask: choice,
        not_asked: PERSON,
    },
    Own {
        dir: "choice_randomize",
        ask: randomized,
        not_asked: "that each outcome comes up: the engine throws no dice",
    },
    Own {
        dir: "choice_randomize2",
        ask: randomized,
        not_asked: "that random values give nothing else: the engine throws no dice",
    },
    Own {
        dir: "conditional_dep",
        ask: conditional,
        not_asked: "",
    },
    Own {
        dir: "err_recursive_dep",
        ask: |dir| dir.refuses("recursive dependency: "),
        not_asked: "the other cycles: the engine stops at the first",
    },
    Own {
        dir: "err_recursive_inc",
        ask: |dir| dir.refuses("file `Kconfig.inc1` includes itself"),
        not_asked: "",
    },
    Own {
        dir: "err_repeated_inc",
        ask: |dir| dir.refuses("file `Kconfig.inc3` is included again; first at Kconfig.inc2:3"),
        not_asked: "",
    },
    Own {
        dir: "err_transitional",
        ask: |dir| dir.refuses("transitional symbol `BAD_"),
        not_asked: "the other five: the engine stops at the first",
    },
    Own {
        dir: "new_choice_with_dep",
        ask: |dir| dir.is_read(),
        not_asked: PERSON,
    },
    Own {
        dir: "no_write_if_dep_unmet",
        ask: unwritten,
        not_asked: "",
    },
    Own {
        dir: "preprocess/builtin_func",
        ask: said,
        not_asked: "",
    },
    Own {
        dir: "preprocess/circular_expansion",
        ask: |dir| dir.refuses("contains itself"),
        not_asked: "",
    },
    Own {
        dir: "preprocess/escape",
        ask: said,
        not_asked: "",
    },
    Own {
        dir: "preprocess/variable",
        ask: said,
        not_asked: "",
    },
    Own {
        dir: "transitional",
        ask: |dir| {
            let written = dir.olddefconfig(&dir.text("initial_config")?)?;
            dir.contains(&written, "expected_config")
        },
        not_asked: PERSON,
    },
    Own {
        dir: "warn_changed_input",
        ask: changed_input,
        not_asked: "`savedefconfig`, which kiln does not write",
    },
];

/// Every directory that the tree has; one that is not known here fails.
fn all(source: &Utf8Path) -> Outcome {
    let tests = source.join("scripts/kconfig/tests");
    if !tests.is_dir() {
        return Err(skip(format!("{tests}: not in this package of the source")));
    }
    let mut asked = 0;
    for path in directories(&tests)? {
        let name = path
            .strip_prefix(&tests)
            .map_or("", Utf8Path::as_str)
            .to_owned();
        let own = OWN.iter().find(|own| own.dir == name);
        let own = own.ok_or_else(|| fail(format!("{name} is not known")))?;
        let dir = Dir {
            path,
            source: source.to_owned(),
        };
        (own.ask)(&dir).map_err(|stop| fail(format!("{name}: {}", stop.text())))?;
        asked += 1;
        if !own.not_asked.is_empty() {
            eprintln!("{name}: not asked: {}", own.not_asked);
        }
    }
    eprintln!("{asked} of the tree's own tests are asked");
    assert!(asked >= 12, "only {asked} directories");
    Ok(())
}

/// The same directories with another expectation are not met.
fn planted() -> Outcome {
    let source = linux::real_source()?;
    let tests = source.join("scripts/kconfig/tests");
    for (name, file, from, to) in [
        ("choice", "alldef_expected_config", "CHOICE1=y", "CHOICE0=y"),
        (
            "no_write_if_dep_unmet",
            "expected_config",
            "CONFIG_A",
            "CONFIG_B",
        ),
        ("preprocess/escape", "expected_stderr", "$$", "$"),
        (
            "err_recursive_inc",
            "Kconfig.inc3",
            "source \"Kconfig.inc1\"",
            "",
        ),
    ] {
        let copy = tempfile::tempdir()?;
        let path = Utf8PathBuf::try_from(copy.path().to_owned())?;
        for entry in tests.join(name).read_dir_utf8()? {
            let entry = entry?;
            let text = std::fs::read_to_string(entry.path())?;
            let is_it = entry.file_name() == file;
            let text = if is_it { text.replace(from, to) } else { text };
            std::fs::write(path.join(entry.file_name()), text)?;
        }
        let own = OWN.iter().find(|own| own.dir == name);
        let own = own.ok_or_else(|| fail(name))?;
        let dir = Dir {
            path,
            source: source.to_owned(),
        };
        assert!(
            (own.ask)(&dir).is_err(),
            "{name} passes with another {file}"
        );
    }
    Ok(())
}

/// The directories with a test in them.
fn directories(tests: &Utf8Path) -> Result<Vec<Utf8PathBuf>, Stop> {
    let (mut found, mut next) = (Vec::new(), vec![tests.to_owned()]);
    while let Some(dir) = next.pop() {
        for entry in dir.read_dir_utf8()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.into_path());
            } else if entry.file_name() == "__init__.py" {
                found.push(dir.clone());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Without values the default of the choice counts, and what the other targets write stands.
fn choice(dir: &Dir) -> Outcome {
    let written = dir.olddefconfig("")?;
    dir.contains(&written, "alldef_expected_config")?;
    for target in ["allyes", "allmod", "allno"] {
        dir.stands(&format!("{target}_expected_config"))?;
    }
    Ok(())
}

/// Each outcome that random values may have is one that stands, line for line.
fn randomized(dir: &Dir) -> Outcome {
    for number in 0..3 {
        dir.stands(&format!("expected_config{number}"))?;
    }
    Ok(())
}

fn conditional(dir: &Dir) -> Outcome {
    for number in 1..=3 {
        let written = dir.olddefconfig(&dir.text(&format!("test_config{number}"))?)?;
        dir.is(&written, &format!("expected_config{number}"))?;
    }
    Ok(())
}

/// The test answers its one question with n.
fn unwritten(dir: &Dir) -> Outcome {
    let with_answer = dir.text("config")? + "# CONFIG_A is not set\n";
    dir.is(&dir.olddefconfig(&with_answer)?, "expected_config")
}

/// What the functions of the macro language print.
fn said(dir: &Dir) -> Outcome {
    let tree = dir.tree()?;
    let (mut out, mut err) = (String::new(), String::new());
    for (_, said) in tree.said() {
        if let Said::Info(text) = said {
            out.extend([text, "\n"]);
        }
    }
    for warning in tree.warnings() {
        err.extend([&tree.shown(warning.place()), ":", &warning.text(), "\n"]);
    }
    same("expected_stderr", &err, &dir.text("expected_stderr")?)?;
    match dir.text("expected_stdout") {
        Ok(text) => same("expected_stdout", &out, &text),
        Err(_) => same("expected_stdout", &out, ""),
    }
}

/// The values, and which of them the reader changed: the guard tells each of them as a finding.
fn changed_input(dir: &Dir) -> Outcome {
    let input = dir.text("config")?;
    let mut model = Model::new(dir.tree()?);
    model.read(&input);
    dir.is(&model.file(), "expected_config")?;
    let mut told = "warning: user-provided values changed by Kconfig:\n".to_owned();
    for line in input.lines() {
        let (name, value) = line.split_once('=').ok_or_else(|| fail(line))?;
        let symbol = name.trim_start_matches("CONFIG_");
        let id = model.tree().find(symbol).ok_or_else(|| fail(symbol))?;
        if model.value(id) != value {
            told.extend(["  ", name, ": ", value, " -> ", model.value(id), "\n"]);
        }
    }
    same("expected_stderr", &told, &dir.text("expected_stderr")?)
}

fn same(what: &str, ours: &str, theirs: &str) -> Outcome {
    if ours == theirs {
        return Ok(());
    }
    Err(fail(format!("{what}: expected\n{theirs}found\n{ours}")))
}

/// A directory of the tree's tests.
struct Dir {
    path: Utf8PathBuf,
    source: Utf8PathBuf,
}

impl Dir {
    fn text(&self, name: &str) -> Result<String, Stop> {
        let path = self.path.join(name);
        std::fs::read_to_string(&path).map_err(|error| fail(format!("{path}: {error}")))
    }

    fn tree(&self) -> Result<Tree, Stop> {
        Ok(Tree::parse(self, "Kconfig")?)
    }

    fn is_read(&self) -> Outcome {
        let written = self.olddefconfig("")?;
        if written.contains("CONFIG_") {
            Ok(())
        } else {
            Err(fail("nothing is written"))
        }
    }

    fn olddefconfig(&self, config: &str) -> Result<String, Stop> {
        let mut model = Model::new(self.tree()?);
        model.read(config);
        Ok(model.file())
    }

    fn is(&self, written: &str, expected: &str) -> Outcome {
        same(expected, written, &self.text(expected)?)
    }

    fn contains(&self, written: &str, expected: &str) -> Outcome {
        let text = self.text(expected)?;
        if written.contains(&text) {
            return Ok(());
        }
        Err(fail(format!("{expected}: not in\n{written}")))
    }

    /// Whether what the test expects stays as it is when it is read.
    fn stands(&self, expected: &str) -> Outcome {
        let written = self.olddefconfig(&self.text(expected)?)?;
        self.contains(&written, expected)
    }

    /// Whether the files are refused, with these words, at a place that the test names too where it
    /// names any.
    fn refuses(&self, words: &str) -> Outcome {
        let Err(error) = Tree::parse(self, "Kconfig") else {
            return Err(fail("read without an error"));
        };
        let ParseError::Text { file, line, .. } = &error else {
            return Err(error.into());
        };
        let (place, expected) = (format!("{file}:{line}"), self.text("expected_stderr")?);
        let names_places = expected.contains("Kconfig:") || expected.contains("Kconfig.inc");
        assert!(error.to_string().contains(words), "{error}");
        assert!(
            !names_places || expected.contains(&place),
            "{error}: the tree's program says\n{expected}"
        );
        Ok(())
    }
}

/// The test's own directory is the tree, of the reader of its source.
impl Host for Dir {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        // What its reader refuses is read from the source of the reader itself.
        let dir = if path.starts_with("scripts/kconfig/") {
            &self.source
        } else {
            &self.path
        };
        match std::fs::read_to_string(dir.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HostError(Box::new(error))),
        }
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        let output = Command::new("/bin/sh").args(["-c", command]).output();
        Ok(output.map_err(|error| HostError(Box::new(error)))?.stdout)
    }

    fn env(&self, _name: &str) -> Option<String> {
        None
    }
}
