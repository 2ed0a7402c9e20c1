//! What the base and the request resolve to: by kiln's own reading of the tree, by the tree's own
//! `olddefconfig`, or by both, compared.

use super::engine::{Engine, EngineError};
use super::session::Session;
use crate::failure::{Failure, in_one_line};
use crate::kbuild::make::{Kbuild, Resolved};
use crate::kbuild::warnings::KconfigWarning;
use crate::kconfig::language::Model;

/// Most differing lines that are told of each configuration.
const SHOWN: usize = 3;

/// Who is asked what a configuration resolves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// kiln's own reading of the tree alone; the tree where kiln cannot read it.
    Engine,
    /// Both, and where they differ the tree wins. The result stands in the object tree then.
    Both,
}

/// Whose answer it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweredBy {
    /// kiln's own reading of the tree, with so many probes of which so many were run.
    Engine {
        /// How many different probes the tree has.
        probes: usize,
        /// How many were not known from earlier.
        run: usize,
    },
    /// The tree's own `olddefconfig`, which kiln's reading agrees with.
    Both,
    /// The tree's own `olddefconfig`; kiln's reading gave something else.
    Tree {
        /// The first lines that differ.
        differences: Vec<String>,
    },
    /// The tree's own `olddefconfig`, since kiln cannot read the tree.
    TreeAlone {
        /// Why.
        reason: String,
    },
}

impl AnsweredBy {
    /// A word for machines.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Engine { .. } => "engine",
            Self::Both => "engine-and-tree",
            Self::Tree { .. } => "tree-differs",
            Self::TreeAlone { .. } => "tree",
        }
    }

    /// What differs between kiln's answer and the tree's.
    pub fn differences(&self) -> &[String] {
        match self {
            Self::Tree { differences } => differences,
            _ => &[],
        }
    }
}

impl std::fmt::Display for AnsweredBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine { probes, run } => write!(
                f,
                "kiln's own reading of the tree's Kconfig files ({probes} toolchain probes, {run} \
                 of them run anew)"
            ),
            Self::Both => f.write_str(
                "the tree's own `olddefconfig`; kiln's reading gives the same, byte for byte",
            ),
            Self::Tree { .. } => {
                f.write_str("the tree's own `olddefconfig`; kiln's reading gives something else")
            }
            Self::TreeAlone { .. } => {
                f.write_str("the tree's own `olddefconfig`; kiln cannot read this tree")
            }
        }
    }
}

/// The tree's Kconfig files, as kiln reads them.
#[derive(Debug)]
pub(super) enum Read {
    /// Its values are the tree's own.
    Agrees(Model),
    /// They are not, for this reason; what the files say holds all the same.
    Differs(Model, String),
    /// kiln cannot read them, for this reason.
    Not(String),
}

/// The answers to base and request.
#[derive(Debug)]
pub(super) struct Answers {
    /// The base alone.
    pub(super) alone: Resolved,
    /// The request.
    pub(super) resolved: Resolved,
    /// The tree as kiln reads it with the request.
    pub(super) read: Read,
    /// Whose answers these are.
    pub(super) by: AnsweredBy,
}

impl Session<'_> {
    /// Resolves the base alone and the request.
    pub(super) fn answers(
        &self,
        kbuild: &Kbuild,
        (base, merged): (&str, &str),
        asked: Asked,
    ) -> Result<Answers, Failure> {
        let cache = self.workspace.dot_kiln().join("cache").join("probes.json");
        let read = match Engine::read(kbuild, Some(&cache)) {
            Err(error) if !error.leaves_it_to_the_tree() => return Err(error.into()),
            read => read,
        };
        let answers = match read {
            Err(error) => by_the_tree_alone(kbuild, (base, merged), &error)?,
            Ok(mut engine) => {
                let probes = engine.probes().clone();
                if let Some(why) = &probes.ignored {
                    let note = "all probes were run anew";
                    self.progress.warning(format!(
                        "the kept answers of probes are not used: {why}; {note}"
                    ));
                }
                if let Some(why) = &probes.unkept {
                    self.progress.warning(format!(
                        "the answers of probes are not kept for the next time: {why}"
                    ));
                }
                let (alone, resolved) = (engine.olddefconfig(base), engine.olddefconfig(merged));
                let ours = Answers {
                    alone,
                    resolved,
                    read: Read::Agrees(engine.into_model()),
                    by: AnsweredBy::Engine {
                        probes: probes.asked,
                        run: probes.run,
                    },
                };
                match asked {
                    Asked::Engine => ours,
                    Asked::Both => compared(kbuild, (base, merged), ours)?,
                }
            }
        };
        match &answers.by {
            AnsweredBy::Engine { .. } | AnsweredBy::Both => {}
            AnsweredBy::TreeAlone { reason } => {
                let warning = format!("{}: {reason}", answers.by);
                self.progress.warning(warning);
            }
            AnsweredBy::Tree { differences } => {
                let warning = format!("{}: {}", answers.by, differences.join("; "));
                self.progress.warning(warning);
            }
        }
        Ok(answers)
    }
}

fn by_the_tree_alone(
    kbuild: &Kbuild,
    (base, merged): (&str, &str),
    error: &EngineError,
) -> Result<Answers, Failure> {
    let reason = in_one_line(error);
    let alone = kbuild.olddefconfig(base)?;
    Ok(Answers {
        alone,
        // Last, so that its result is what stands in the object tree.
        resolved: kbuild.olddefconfig(merged)?,
        read: Read::Not(reason.clone()),
        by: AnsweredBy::TreeAlone { reason },
    })
}

/// The tree's answers, and how they differ from `ours`.
fn compared(
    kbuild: &Kbuild,
    (base, merged): (&str, &str),
    ours: Answers,
) -> Result<Answers, Failure> {
    let alone = kbuild.olddefconfig(base)?;
    let resolved = kbuild.olddefconfig(merged)?;
    let mut differences = differences("the base alone", &ours.alone, &alone);
    differences.extend(self::differences("the request", &ours.resolved, &resolved));
    let (read, by) = match ours.read {
        Read::Agrees(model) if !differences.is_empty() => {
            // An explanation from values that are not the tree's would explain another configuration.
            let reason = format!("kiln reads the tree otherwise: {}", differences.join("; "));
            (
                Read::Differs(model, reason),
                AnsweredBy::Tree { differences },
            )
        }
        read => (read, AnsweredBy::Both),
    };
    Ok(Answers {
        alone,
        resolved,
        read,
        by,
    })
}

/// The first lines and remarks in which two answers differ.
fn differences(what: &str, ours: &Resolved, theirs: &Resolved) -> Vec<String> {
    let mut found = Vec::new();
    let (mut left, mut right) = (ours.text.lines(), theirs.text.lines());
    for line in 1.. {
        let (left, right) = (left.next(), right.next());
        if left == right && left.is_none() {
            break;
        }
        if left != right && found.len() < SHOWN {
            let end = "nothing";
            found.push(format!(
                "line {line} of {what} is `{}` to kiln and `{}` to the tree",
                left.unwrap_or(end),
                right.unwrap_or(end)
            ));
        }
    }
    let remarks = |resolved: &Resolved| -> Vec<KconfigWarning> {
        let known = resolved.warnings.iter();
        // What else stands in the log is said by programs that make or the probes ran.
        let known = known.filter(|warning| !matches!(warning, KconfigWarning::Other(_)));
        known.cloned().collect()
    };
    let (left, right) = (remarks(ours), remarks(theirs));
    let only = |these: &[KconfigWarning], those: &[KconfigWarning], who: &str| -> Vec<String> {
        let alone = these.iter().filter(|remark| !those.contains(remark));
        let told = alone.map(|remark| format!("only {who} remarks on {what}: {remark:?}"));
        told.take(SHOWN).collect()
    };
    found.extend(only(&left, &right, "kiln"));
    found.extend(only(&right, &left, "the tree"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, unknown: &[&str]) -> Resolved {
        let unknown = unknown.iter().map(|symbol| KconfigWarning::UnknownSymbol {
            line: 1,
            symbol: (*symbol).to_owned(),
        });
        Resolved {
            text: text.to_owned(),
            warnings: unknown.collect(),
        }
    }

    #[test]
    fn the_same_bytes_and_remarks_are_no_difference() {
        let mut theirs = resolved("A\nB\n", &["X"]);
        theirs.warnings.push(KconfigWarning::Other("make".into()));
        let none: [String; 0] = [];
        assert_eq!(
            differences("it", &resolved("A\nB\n", &["X"]), &theirs),
            none
        );
    }

    #[test]
    fn the_first_differing_lines_are_told() {
        let ours = resolved("A\nB\nC\n", &["X"]);
        let theirs = resolved("A\nb\nC\nD\n", &[]);
        assert_eq!(
            differences("it", &ours, &theirs),
            [
                "line 2 of it is `B` to kiln and `b` to the tree",
                "line 4 of it is `nothing` to kiln and `D` to the tree",
                "only kiln remarks on it: UnknownSymbol { line: 1, symbol: \"X\" }",
            ]
        );
        let long = |letter: &str| resolved(&format!("{letter}\n").repeat(100), &[]);
        assert_eq!(differences("it", &long("A"), &long("B")).len(), SHOWN);
    }
}
