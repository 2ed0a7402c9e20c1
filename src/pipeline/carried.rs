//! The files of a workspace that a manifest carries, so that it is enough to build again, and the
//! workspace made of them.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path};

use super::session::Session;
use super::workspace::{Loaded, Workspace};
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::proof::lock::Lock;
use crate::proof::manifest::{Kept, Manifest};
use crate::spec;

/// Largest file that is carried, in bytes: a lock's base config is the largest that a build reads.
const LIMIT: u64 = 4 << 20;

/// What a workspace made of a manifest has from whoever builds again, or not at all: settings name
/// programs to run.
const ONES_OWN: [&str; 3] = ["keys", "kiln.yaml", ".kiln"];

/// Why no workspace can be made of what a manifest carries.
#[derive(Debug, thiserror::Error)]
pub(super) enum CarriedError {
    /// Nothing is carried.
    #[error("`{name}` carries no files of its workspace: expected the pipeline and what it names")]
    Nothing {
        /// The manifest.
        name: String,
    },
    /// A file that would land elsewhere.
    #[error("`{name}` carries a file `{path}`: expected a path inside of a workspace")]
    Outside {
        /// The manifest.
        name: String,
        /// The path.
        path: String,
    },
    /// Neither a text nor base64.
    #[error("`{name}` carries the file `{path}` in a form that is no base64")]
    Form {
        /// The manifest.
        name: String,
        /// The path.
        path: String,
    },
}

impl Diagnose for CarriedError {
    fn exit(&self) -> Exit {
        Exit::StatementRejected
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Nothing { .. } => "manifest-bare",
            Self::Outside { .. } => "manifest-path",
            Self::Form { .. } => "manifest-file",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Nothing { .. } => {
                vec!["an older kiln made it; build again, with `kiln build --again`".to_owned()]
            }
            Self::Outside { .. } | Self::Form { .. } => Vec::new(),
        }
    }
}

impl Session<'_> {
    /// The files of the workspace that a build reads. One that a pipeline names by an absolute path
    /// is left out: it would be another file elsewhere.
    pub(super) fn carried(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
    ) -> Result<BTreeMap<String, Kept>, Failure> {
        let name = pipeline.name();
        let text = |text: &str| Kept::Text(text.to_owned());
        let mut carried =
            BTreeMap::from([(format!("pipelines/{name}.yaml"), text(&pipeline.text))]);
        if let Some(base) = self.kept_base(pipeline, lock)? {
            carried.insert(format!("pipelines/{name}.base.config"), Kept::Text(base));
        }
        let config = &pipeline.spec.config;
        let root = self.workspace.root();
        let fragments = config.fragments.iter();
        let fragments = fragments.map(|name| self.workspace.fragment_path(&name.value));
        let patches = pipeline.spec.patches.iter();
        let patches = patches.map(|patch| root.join(&patch.file.value));
        let allowed = config.collateral.iter().map(|c| root.join(&c.allow.value));
        let modules = match &config.trim {
            spec::Trim::Lsmod(path) => Some(root.join(path)),
            spec::Trim::None | spec::Trim::ModulesOff => None,
        };
        for path in fragments.chain(patches).chain(allowed).chain(modules) {
            if let Ok(below) = path.strip_prefix(root)
                && is_inside(below)
            {
                carried.insert(below.to_string(), Kept::of(&files::read(&path, LIMIT)?));
            }
        }
        Ok(carried)
    }
}

/// Whether a path stays inside of the directory that it is taken from.
fn is_inside(path: &Utf8Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Utf8Component::Normal(_)))
}

/// Makes a workspace in the empty directory `root`, of what a manifest carries, with the keys of
/// whoever builds again. `name` is the manifest's for messages.
pub(super) fn workspace(
    root: &Utf8Path,
    name: &str,
    manifest: &Manifest,
    keys: &Utf8Path,
) -> Result<Workspace, Failure> {
    if manifest.workspace.is_empty() {
        let name = name.to_owned();
        return Err(CarriedError::Nothing { name }.into());
    }
    for (path, kept) in &manifest.workspace {
        let (name, file) = (name.to_owned(), path.clone());
        if !is_inside(Utf8Path::new(path))
            || ONES_OWN
                .iter()
                .any(|own| Utf8Path::new(path).starts_with(own))
        {
            return Err(CarriedError::Outside { name, path: file }.into());
        }
        let Some(bytes) = kept.bytes() else {
            return Err(CarriedError::Form { name, path: file }.into());
        };
        files::write(&root.join(path), &bytes)?;
    }
    let lock = manifest.lock.inputs.line.as_str();
    let lock = root.join(format!("pipelines/{lock}.lock.json"));
    files::write(&lock, &manifest.lock.to_text()?)?;
    let link = root.join("keys");
    std::os::unix::fs::symlink(keys, &link).map_err(|source| files::FileError::Io {
        action: "link",
        path: link,
        source,
    })?;
    Ok(Workspace::find(root)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_are_inside() {
        for path in ["a", "pipelines/lts.yaml", "my/own.config"] {
            assert!(is_inside(Utf8Path::new(path)), "{path}");
        }
        for path in ["", "/a", "../a", "a/../b", "./a"] {
            assert!(!is_inside(Utf8Path::new(path)), "{path}");
        }
    }
}
