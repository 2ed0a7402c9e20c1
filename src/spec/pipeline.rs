//! `pipelines/NAME.yaml`: what to build from what.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::error::{Problem, SpecError, SpecErrors};
use super::kinds;
use super::patch::{PATCHES, Patch};
use super::shape::{Field, Shape, check, optional, required};
use super::yaml::{self, Spanned, at};
use crate::digest::{Fingerprint, Sha256};
use crate::kernel::{Line, Series};

/// A pipeline file. Paths in it start at the workspace's directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// The number of the file format.
    pub kiln: u32,
    /// Its name, which is the line that its builds belong to.
    pub name: Spanned<Line>,
    /// The kernel series that is followed.
    pub series: Spanned<Series>,
    /// Where the source comes from.
    pub source: Spanned<Source>,
    /// Whose signatures count.
    #[serde(default)]
    pub keys: Keys,
    /// Changes to the source, in the order they are applied.
    #[serde(default)]
    pub patches: Vec<Patch>,
    /// How the kernel is configured.
    pub config: Config,
    /// How it is compiled.
    #[serde(default)]
    pub build: Build,
    /// Which packages are made.
    #[serde(default)]
    pub packages: Packages,
    /// The image made around the kernel, if any.
    pub image: Option<Spanned<Utf8PathBuf>>,
}

/// Where the source comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// kernel.org's releases, from the mirrors of `kiln.yaml`.
    KernelOrg {},
    /// A Debian source package, through the host's apt and its signatures.
    Debian {
        /// Its name, such as `linux-source-6.12`.
        package: String,
    },
    /// A directory with kernel.org's layout, such as `kiln fetch --to` makes.
    Dir(Utf8PathBuf),
}

/// Whose signatures count, by role.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Who may sign a release.
    #[serde(default)]
    pub release: Vec<Spanned<Fingerprint>>,
    /// Who may sign `sha256sums.asc`, and nothing else; none skips that file.
    #[serde(default)]
    pub checksums: Vec<Spanned<Fingerprint>>,
}

/// How the kernel is configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What the fragments are merged into.
    pub base: Spanned<Base>,
    /// What of the base's modules is left out.
    #[serde(default)]
    pub trim: Trim,
    /// Fragments in the order of merging: names in `config-fragments/`, or paths.
    #[serde(default)]
    pub fragments: Vec<Spanned<String>>,
    /// What the resolved config must say, beside the fragments.
    #[serde(default, rename = "assert", deserialize_with = "assertions")]
    pub assertions: Vec<Assertion>,
    /// What may be lost beside what was asked for.
    pub collateral: Option<CollateralRef>,
}

/// What the fragments are merged into.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Base {
    /// A config out of a Debian package, through the host's apt.
    Debian {
        /// The package, such as `linux-config-6.12`.
        package: String,
        /// Which of its configs, such as `none_amd64`.
        flavour: String,
        /// Digest that the config must have, where the pipeline does not follow the archive.
        sha256: Option<Sha256>,
    },
    /// A file, with the facts that it must have.
    File {
        /// The file.
        path: Utf8PathBuf,
        /// The kernel series that it was written for.
        series: Series,
        /// Its digest.
        sha256: Sha256,
    },
    /// What a target of the kernel's own makefile gives, such as `tinyconfig`.
    Target(String),
}

/// What of the base's modules is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Trim {
    /// Nothing.
    #[default]
    None,
    /// Every module that no fragment asks for.
    ModulesOff,
    /// Every module that is not in this output of `lsmod`.
    Lsmod(Utf8PathBuf),
}

/// One `assert` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// The symbol, without `CONFIG_`.
    pub symbol: String,
    /// What its value must be.
    pub value: AssertValue,
    /// Line in the pipeline file.
    pub line: u64,
}

/// What a symbol's value must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssertValue {
    /// `y`.
    Yes,
    /// `m`.
    Module,
    /// `n`: off, however that is spelt.
    No,
    /// A number, decimal or with `0x`, as written.
    Number(String),
    /// A text, without the quotes of the `.config`.
    Text(String),
}

impl AssertValue {
    /// Reads the text of a scalar.
    pub fn new(text: &str) -> Self {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = match hex {
            Some(hex) => !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()),
            None => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()),
        };
        match text {
            "y" => Self::Yes,
            "m" => Self::Module,
            "n" => Self::No,
            _ if is_number => Self::Number(text.to_owned()),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for AssertValue {
    /// The value as a `.config` holds it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("y"),
            Self::Module => f.write_str("m"),
            Self::No => f.write_str("n"),
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

/// Reads the `assert` map in the order of the file.
fn assertions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Assertion>, D::Error> {
    struct InOrder;

    impl<'de> Visitor<'de> for InOrder {
        type Value = Vec<Assertion>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from symbols to values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some((symbol, value)) = map.next_entry::<Spanned<String>, String>()? {
                all.push(Assertion {
                    line: at(&symbol).line,
                    symbol: symbol.value,
                    value: AssertValue::new(&value),
                });
            }
            Ok(all)
        }
    }

    deserializer.deserialize_map(InOrder)
}

/// Where the list of accepted collateral is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollateralRef {
    /// The file.
    pub allow: Spanned<Utf8PathBuf>,
}

/// How the kernel is compiled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// For which machines.
    pub arch: Arch,
    /// In which environment.
    pub root: Root,
    /// Through which compiler cache or distributor.
    pub launcher: Launcher,
}

/// Architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
}

impl Arch {
    /// The word for it in a pipeline and in a lock.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
        }
    }
}

/// The environment that a build runs in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Root {
    /// Packages of Debian 12, locked one by one.
    #[default]
    #[serde(rename = "debian-12")]
    Debian12,
    /// The host's own tools; what comes out is marked and cannot be published.
    Host,
}

impl Root {
    /// The word for it in a pipeline and in a lock.
    pub fn as_str(self) -> &'static str {
        ["debian-12", "host"][self as usize]
    }
}

/// What compilers are started through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Launcher {
    /// Nothing.
    #[default]
    None,
}

/// Which packages are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packages {
    /// The headers, for modules built elsewhere.
    pub headers: bool,
    /// The kernel and modules with debugging information.
    pub debug: bool,
    /// How the packages are compressed.
    pub compress: Compress,
}

impl Default for Packages {
    fn default() -> Self {
        Self {
            headers: true,
            debug: false,
            compress: Compress::Xz,
        }
    }
}

/// How packages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compress {
    /// xz: the same bytes for any number of threads.
    Xz,
    /// gzip: larger and faster, the same bytes too.
    Gzip,
    /// Not at all.
    None,
}

impl Compress {
    /// The word that dpkg-deb and `KDEB_COMPRESS` use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::None => "none",
        }
    }
}

const FINGERPRINTS: Shape = Shape::List {
    item: &Shape::Text(&kinds::FINGERPRINT),
    least: 0,
    distinct: true,
};

static SOURCE: [Field; 3] = [
    required(
        "kernel-org",
        "kernel.org's releases, from the mirrors of kiln.yaml",
        Shape::Table(&[]),
    ),
    required(
        "debian",
        "a Debian source package, through the host's apt",
        Shape::Table(&[required(
            "package",
            "its name, such as linux-source-6.12",
            Shape::Text(&kinds::PACKAGE),
        )]),
    ),
    required(
        "dir",
        "a directory with kernel.org's layout, such as `kiln fetch --to` makes",
        Shape::Text(&kinds::PATH),
    ),
];

static BASE: [Field; 3] = [
    required(
        "debian",
        "a config out of a Debian package, through the host's apt",
        Shape::Table(&[
            required(
                "package",
                "its name, such as linux-config-6.12",
                Shape::Text(&kinds::PACKAGE),
            ),
            required(
                "flavour",
                "which of its configs, such as none_amd64",
                Shape::Text(&kinds::FLAVOUR),
            ),
            optional("sha256", "its digest", Shape::Text(&kinds::SHA256)),
        ]),
    ),
    required(
        "file",
        "a file, with the facts that it must have",
        Shape::Table(&[
            required("path", "the file", Shape::Text(&kinds::PATH)),
            required(
                "series",
                "the kernel series that it was written for",
                Shape::Text(&kinds::SERIES),
            ),
            required("sha256", "its digest", Shape::Text(&kinds::SHA256)),
        ]),
    ),
    required(
        "target",
        "what a target of the kernel's own makefile gives",
        Shape::Words {
            words: &["tinyconfig", "allnoconfig", "defconfig"],
            refused: &[],
        },
    ),
];

static CONFIG: [Field; 5] = [
    required(
        "base",
        "what the fragments are merged into",
        Shape::OneOf {
            words: &[],
            forms: &BASE,
        },
    ),
    optional(
        "trim",
        "which of the base's modules are left out",
        Shape::OneOf {
            words: &["none", "modules-off"],
            forms: &[required(
                "lsmod",
                "a file with the output of lsmod; modules not in it are left out",
                Shape::Text(&kinds::PATH),
            )],
        },
    ),
    optional(
        "fragments",
        "fragments in the order of merging",
        Shape::List {
            item: &Shape::Text(&kinds::FRAGMENT),
            least: 0,
            distinct: true,
        },
    ),
    optional(
        "assert",
        "what the resolved config must say, beside the fragments",
        Shape::Keyed {
            key: &kinds::SYMBOL,
            value: &Shape::Text(&kinds::ASSERTED),
        },
    ),
    optional(
        "collateral",
        "what may be lost beside what was asked for",
        Shape::Table(&[required(
            "allow",
            "the file that lists it",
            Shape::Text(&kinds::PATH),
        )]),
    ),
];

static BUILD: [Field; 3] = [
    optional(
        "arch",
        "for which machines",
        Shape::Words {
            words: &["x86_64"],
            refused: &[("amd64", "the kernel's own name for it is used")],
        },
    ),
    optional(
        "root",
        "in which environment",
        Shape::Words {
            words: &["debian-12", "host"],
            refused: &[],
        },
    ),
    optional(
        "launcher",
        "what compilers are started through",
        Shape::Words {
            words: &["none"],
            refused: &[],
        },
    ),
];

static PACKAGES: [Field; 3] = [
    optional(
        "headers",
        "whether to make the headers package, for modules built elsewhere",
        Shape::Flag,
    ),
    optional(
        "debug",
        "whether to make the package with debugging information",
        Shape::Flag,
    ),
    optional(
        "compress",
        "how packages are compressed",
        Shape::Words {
            words: &["xz", "gzip", "none"],
            refused: &[("zstd", "its bytes depend on the number of threads")],
        },
    ),
];

/// The keys of a pipeline file.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    required(
        "name",
        "the pipeline's name, which is the line of its builds",
        Shape::Text(&kinds::LINE),
    ),
    required(
        "series",
        "the kernel series to follow",
        Shape::Text(&kinds::SERIES),
    ),
    required(
        "source",
        "where the source comes from",
        Shape::OneOf {
            words: &[],
            forms: &SOURCE,
        },
    ),
    optional(
        "keys",
        "whose signatures count, by role",
        Shape::Table(&[
            optional("release", "who may sign a release", FINGERPRINTS),
            optional(
                "checksums",
                "who may sign sha256sums.asc, and nothing else; empty skips that file",
                FINGERPRINTS,
            ),
        ]),
    ),
    optional("patches", "changes to the source, in order", PATCHES),
    required(
        "config",
        "how the kernel is configured",
        Shape::Table(&CONFIG),
    ),
    optional("build", "how it is compiled", Shape::Table(&BUILD)),
    optional(
        "packages",
        "which packages are made",
        Shape::Table(&PACKAGES),
    ),
    optional(
        "image",
        "the file of the image made around the kernel",
        Shape::Text(&kinds::PATH),
    ),
]);

impl Pipeline {
    /// Reads a pipeline file; `file` is its name for messages.
    ///
    /// # Errors
    /// Every wrong key and value of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecErrors> {
        check(file, &yaml::parse(file, text)?, &SHAPE)?;
        let pipeline: Self = yaml::from_str(file, text)?;
        SpecErrors::check(pipeline.contradictions(file))?;
        Ok(pipeline)
    }

    /// What is fine alone but not together.
    fn contradictions(&self, file: &str) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let mut report = |at, path: &str, text: &str| {
            errors.push(SpecError {
                file: file.to_owned(),
                at,
                path: path.to_owned(),
                problem: Problem::Contradiction(text.to_owned()),
            });
        };
        match &self.source.value {
            Source::KernelOrg {} | Source::Dir(_) if self.keys.release.is_empty() => report(
                at(&self.source),
                "source",
                "a release from here is verified, so `keys: {release: [...]}` must name at least \
                 one fingerprint",
            ),
            Source::Debian { .. } => {
                if let Some(key) = self.keys.release.iter().chain(&self.keys.checksums).next() {
                    report(
                        at(key),
                        "keys",
                        "the debian source is verified by apt, so a key named here would never \
                         be used",
                    );
                }
            }
            _ => {}
        }
        for key in &self.keys.checksums {
            if self.keys.release.iter().any(|r| r.value == key.value) {
                report(
                    at(key),
                    "keys.checksums",
                    "this key is also a release key; the checksum role must never be able to \
                     bless a release",
                );
            }
        }
        errors
    }
}
