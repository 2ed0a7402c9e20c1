//! The source as a pipeline wants it: unpacked, then patched.

use camino::Utf8Path;

use super::session::Session;
use super::workspace::Loaded;
use crate::failure::Failure;
use crate::proof::lock;
use crate::source::patch::{self, Patch};
use crate::source::signature::VerifiedTarball;
use crate::source::unpack::{Select, SourceTree};

impl Session<'_> {
    /// Unpacks a proven tarball and applies the pipeline's patches.
    pub(super) fn source_tree(
        &self,
        pipeline: &Loaded,
        tarball: &VerifiedTarball,
        destination: &Utf8Path,
        select: Select,
    ) -> Result<SourceTree, Failure> {
        // Read first: a wrong patch need not wait for the unpacking.
        let patches = self.patches(pipeline)?;
        let tree = self.unpack(tarball, destination, select)?;
        if patches.is_empty() {
            return Ok(tree);
        }
        let progress = self.progress;
        progress.started("patch", format!("{} on {}", patches.len(), tree.version()));
        let (tree, moved) = patch::apply(tree, &patches, &self.isolation)?;
        for line in moved {
            progress.note(format!("patch: {line}"));
        }
        let files: usize = patches.iter().map(Patch::files).sum();
        progress.done("patch", format!("{files} changes of files, without fuzz"));
        Ok(tree)
    }

    /// The patches of a pipeline, each with the digest that it names.
    fn patches(&self, pipeline: &Loaded) -> Result<Vec<Patch>, Failure> {
        let load = |patch: &crate::spec::Patch| {
            let path = self.workspace.root().join(&patch.file.value);
            let line = patch.file.referenced.line();
            let name = format!("{}` of `{}:{line}", patch.file.value, pipeline.file);
            Ok(Patch::load(&path, &name, &patch.sha256)?)
        };
        pipeline.spec.patches.iter().map(load).collect()
    }

    /// What a lock keeps of them.
    pub(super) fn locked_patches(&self, pipeline: &Loaded) -> Result<Vec<lock::Patch>, Failure> {
        let patches = self.patches(pipeline)?;
        let named = pipeline.spec.patches.iter().zip(patches);
        let keep = |(spec, patch): (&crate::spec::Patch, Patch)| lock::Patch {
            file: spec.file.value.to_string(),
            sha256: patch.sha256(),
        };
        Ok(named.map(keep).collect())
    }
}
