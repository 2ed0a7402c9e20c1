//! `kiln.yaml`: what a workspace sets for all of its pipelines.

use camino::Utf8PathBuf;
use serde::Deserialize;

use super::error::SpecErrors;
use super::kinds;
use super::shape::{Field, Shape, check, optional, required};
use super::signers::{self, Signer};
use super::yaml::{self, Spanned};

/// The settings of a workspace. Paths start at the workspace's directory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The number of the file format.
    #[serde(default)]
    pub kiln: u32,
    /// Where kernel.org's files are fetched from.
    #[serde(default)]
    pub mirrors: MirrorSettings,
    /// The directory of the store; `.kiln/store` where it is not set.
    pub store: Option<Spanned<Utf8PathBuf>>,
    /// How many compilers run at once; one for each processor where it is not set.
    pub jobs: Option<u64>,
    /// What signs statements; none leaves them unsigned.
    #[serde(default)]
    pub signers: Vec<Spanned<Signer>>,
}

/// Where kernel.org's files are fetched from. What is not set comes from kernel.org.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorSettings {
    /// Addresses that hold `v6.x/linux-*.tar.xz`, in the order they are asked.
    #[serde(default)]
    pub kernel: Vec<Spanned<String>>,
    /// Addresses asked for `sha256sums.asc` before those.
    #[serde(default)]
    pub checksums: Vec<Spanned<String>>,
    /// The address of `releases.json`, or of the directory that holds it.
    pub releases: Option<Spanned<String>>,
}

const MIRRORS: Shape = Shape::List {
    item: &Shape::Text(&kinds::MIRROR),
    least: 1,
    distinct: true,
};

static MIRROR_KEYS: [Field; 3] = [
    optional(
        "kernel",
        "addresses that hold v6.x/linux-*.tar.xz, in the order they are asked",
        MIRRORS,
    ),
    optional(
        "checksums",
        "addresses asked for sha256sums.asc before those",
        MIRRORS,
    ),
    optional(
        "releases",
        "the address of releases.json, or of the directory that holds it",
        Shape::Text(&kinds::MIRROR),
    ),
];

/// The keys of `kiln.yaml`.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    optional(
        "mirrors",
        "where kernel.org's files are fetched from; what is not set comes from kernel.org",
        Shape::Table(&MIRROR_KEYS),
    ),
    optional(
        "store",
        "the directory of the store; .kiln/store where it is not set",
        Shape::Text(&kinds::PATH),
    ),
    optional(
        "jobs",
        "how many compilers run at once; one for each processor where it is not set",
        Shape::Number(1, 4096),
    ),
    optional(
        "signers",
        "what signs statements, such as a build's manifest; none leaves them unsigned",
        signers::SHAPE,
    ),
]);

impl Settings {
    /// Reads `kiln.yaml`; `file` is its name for messages.
    ///
    /// # Errors
    /// Every wrong key and value of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecErrors> {
        check(file, &yaml::parse(file, text)?, &SHAPE)?;
        yaml::from_str(file, text)
    }
}
