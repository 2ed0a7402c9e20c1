//! A pipeline's `patches:`: changes to the source, each with its digest and its reason.

use camino::Utf8PathBuf;
use serde::Deserialize;

use super::kinds;
use super::shape::{Field, Shape, required};
use super::yaml::Spanned;
use crate::digest::Sha256;

/// One patch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The file, from the workspace's directory.
    pub file: Spanned<Utf8PathBuf>,
    /// Digest of its bytes: whoever wrote it down has read them.
    pub sha256: Sha256,
    /// Why the kernel needs it.
    pub reason: String,
}

static PATCH: [Field; 3] = [
    required(
        "file",
        "the patch, a unified diff",
        Shape::Text(&kinds::PATH),
    ),
    required("sha256", "its digest", Shape::Text(&kinds::SHA256)),
    required(
        "reason",
        "why the kernel needs it",
        Shape::Text(&kinds::SENTENCE),
    ),
];

/// What a list of patches may hold.
pub(super) const PATCHES: Shape = Shape::List {
    item: &Shape::Table(&PATCH),
    least: 0,
    distinct: true,
};
