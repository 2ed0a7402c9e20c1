//! Patches over a verified source: whole, in order, without fuzz, or not at all.
//!
//! A patch is trusted because a person put its digest into the pipeline, beside the reason for it.
//! What is applied are exactly those bytes, and of them only the parts that kiln itself has read
//! (no words around them, no `ed` scripts), by `patch` in the sandbox of the unpacking.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::patch_text::{self, PatchText, PatchTextError};
use super::unpack::SourceTree;
use crate::command::{Cmd, CommandError, Tool};
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::sandbox::{Isolation, Sandbox};

/// Most lines of `patch` that an error repeats.
const MOST_LINES: usize = 12;

/// Where the tree stands inside the sandbox.
const INSIDE: &str = "/kiln/source";

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// Its bytes are others than the pipeline names.
    #[error(
        "`{patch}` is not the patch that the pipeline names: expected sha256 {expected}, found {found}"
    )]
    Changed {
        /// The file.
        patch: String,
        /// In the pipeline or lock.
        expected: Sha256,
        /// Of the file.
        found: Sha256,
    },
    /// It cannot be read as a patch.
    #[error("`{patch}` is no patch that can be applied")]
    Text {
        /// The file.
        patch: String,
        /// Why.
        #[source]
        source: PatchTextError,
    },
    /// The source is not what it was made for.
    #[error("`{patch}` does not fit linux {version}{}", details(.said))]
    DoesNotFit {
        /// The file.
        patch: String,
        /// The release.
        version: String,
        /// What `patch` said.
        said: Vec<String>,
    },
    /// `patch` did not come to an answer.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The file system.
    #[error(transparent)]
    File(#[from] FileError),
}

fn details(said: &[String]) -> String {
    said.iter()
        .flat_map(|line| ["\n    ", line.as_str()])
        .collect()
}

impl Diagnose for PatchError {
    fn exit(&self) -> Exit {
        match self {
            Self::Changed { .. } | Self::Text { .. } | Self::DoesNotFit { .. } => Exit::Usage,
            Self::Command(error) => error.exit(),
            Self::File(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "patch-changed",
            Self::Text { .. } => "patch-text",
            Self::DoesNotFit { .. } => "patch-does-not-fit",
            Self::Command(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Changed { found, .. } => vec![format!(
                "read what changed in it, then write `sha256: {found}` into the pipeline"
            )],
            Self::Text { .. } => {
                vec!["make it anew with `git format-patch` or `git diff`".to_owned()]
            }
            Self::DoesNotFit { said, .. } => {
                let taken = said.iter().any(|line| line.contains("previously applied"));
                vec![if taken {
                    "the release seems to hold the change already: if so, take the patch out of the pipeline"
                        .to_owned()
                } else {
                    "rebase it on this release; kiln applies no patch by guessing where it belongs"
                        .to_owned()
                }]
            }
            Self::Command(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// A patch whose bytes are those of the digest that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    name: String,
    sha256: Sha256,
    text: PatchText,
}

impl Patch {
    /// Reads the patch at `path`; `name` is for messages.
    pub fn load(path: &Utf8Path, name: &str, expected: &Sha256) -> Result<Self, PatchError> {
        let bytes = files::read(path, patch_text::LIMIT)?;
        let (patch, found) = (name.to_owned(), Sha256::of(&bytes));
        if found != *expected {
            let expected = *expected;
            return Err(PatchError::Changed {
                patch,
                expected,
                found,
            });
        }
        match PatchText::parse(bytes) {
            Ok(text) => Ok(Self {
                name: patch,
                sha256: found,
                text,
            }),
            Err(source) => Err(PatchError::Text { patch, source }),
        }
    }

    /// Its digest.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// How many files it changes.
    pub fn files(&self) -> usize {
        self.text.parts().len()
    }
}

/// Applies `patches` in order and returns the patched tree with what is worth telling: where a hunk
/// was found at another line than it says.
///
/// # Errors
/// A patch that needs fuzz, or is in the source already. The half patched tree is removed.
pub fn apply(
    mut tree: SourceTree,
    patches: &[Patch],
    isolation: &Isolation,
) -> Result<(SourceTree, Vec<String>), PatchError> {
    let mut moved = Vec::new();
    for patch in patches {
        match apply_one(&tree, patch, isolation) {
            Ok(said) => moved.extend(said.into_iter().filter(|line| line.contains("(offset "))),
            Err(error) => {
                // What went wrong first is what is reported.
                let _left = files::remove_dir_all(tree.path());
                return Err(error);
            }
        }
        tree.patched(patch.sha256);
    }
    Ok((tree, moved))
}

fn apply_one(
    tree: &SourceTree,
    patch: &Patch,
    isolation: &Isolation,
) -> Result<Vec<String>, PatchError> {
    let text = patch.text.selected(tree.select());
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let sandbox = Sandbox::new(isolation).writable(tree.path(), INSIDE);
    let directory = sandbox.path(Utf8Path::new(INSIDE));
    let scratch = tempfile::tempdir().map_err(|source| FileError::Io {
        action: "make a directory for",
        path: Utf8PathBuf::from("the words of `patch`"),
        source,
    })?;
    let log = Utf8PathBuf::from_path_buf(scratch.path().join("patch.log")).map_err(|path| {
        FileError::Io {
            action: "name",
            path: Utf8PathBuf::from(path.to_string_lossy().into_owned()),
            source: std::io::Error::other("the name is not UTF-8"),
        }
    })?;
    let code = Cmd::new(&Tool::find("patch")?)
        .args([
            "--strip=1",
            "--unified",
            "--fuzz=0",
            "--forward",
            "--batch",
            "--binary",
            "--get=0",
            "--no-backup-if-mismatch",
            "--reject-file=-",
        ])
        .arg(format!("--directory={directory}"))
        .stdin_bytes(text)
        .sandbox(&sandbox)
        .log(&log)
        .deadline(Duration::from_mins(10))
        .status()?;
    let said: Vec<String> = String::from_utf8_lossy(&files::read(&log, patch_text::LIMIT)?)
        .lines()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect())
        .collect();
    if code == 0 {
        return Ok(said);
    }
    Err(PatchError::DoesNotFit {
        patch: patch.name.clone(),
        version: tree.version().to_string(),
        said: telling(&said),
    })
}

/// What went wrong, each under the file it is about; not what went well, nor the patch's own text
/// that `patch` shows around a problem.
fn telling(said: &[String]) -> Vec<String> {
    let mut told = Vec::new();
    let mut file = None;
    for line in said {
        let noise = ["|", "---", "Perhaps you", "The text leading", "Hunk #"];
        if line.starts_with("patching file ") {
            file = Some(line);
        } else if line.contains("FAILED at") || !noise.iter().any(|start| line.starts_with(start)) {
            told.extend(file.take().cloned());
            told.push(line.clone());
        }
    }
    told.truncate(MOST_LINES);
    told
}
