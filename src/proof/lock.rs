//! The lock: every input of a build, exactly, and their one digest.
//!
//! It is written only after verification, committed beside the pipeline, and obeyed from then on.
//! Times and hosts are not in it, so resolving twice gives the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::build_root::BuildRoot;
use super::canonical::{self, CanonicalError};
use crate::digest::{Fingerprint, Sha256};
use crate::kernel::{Line, Release, Version};

/// The schema that is written and read.
pub const SCHEMA: &str = "kiln.lock/1";

/// Raised when kiln's own recipe changes what a build gives for the same inputs.
pub const RECIPE: u32 = 1;

/// A file's digest and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// Digest of its bytes.
    pub sha256: Sha256,
    /// Size in bytes.
    pub bytes: u64,
}

/// The detached signature over the tar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Digest of the signature file. It may change while the tar stays: kernel.org re-signs old
    /// releases after a key compromise.
    pub sha256: Sha256,
    /// Primary fingerprint of the signer.
    pub signer: Fingerprint,
    /// Creation time of the signature, in seconds since 1970.
    pub made: i64,
}

/// Where the source came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A release of kernel.org, from any mirror of it.
    KernelOrg {
        /// Path below a mirror's root: `v6.x/linux-6.18.40.tar.xz`. Mirrors are not named: the
        /// bytes are what counts.
        path: String,
        /// The compressed tarball.
        xz: Blob,
        /// The tar, which is what is signed.
        tar: Blob,
        /// Who signed it, and when.
        signature: Signature,
        /// Whether the compressed tarball's digest also stood in a verified `sha256sums.asc`.
        checksums: bool,
    },
    /// A source package of Debian, through apt's own chain of signatures.
    Debian {
        /// Such as `linux-source-6.12`.
        package: String,
        /// Its Debian version.
        version: String,
        /// The `.deb`.
        deb: Blob,
        /// The tar inside.
        tar: Blob,
    },
}

impl Source {
    /// The uncompressed tar.
    pub fn tar(&self) -> &Blob {
        match self {
            Self::KernelOrg { tar, .. } | Self::Debian { tar, .. } => tar,
        }
    }

    /// The first fact that is another one in `found`: its name, here, and there.
    pub fn difference(&self, found: &Self) -> Option<(String, String, String)> {
        let facts = |source: &Self| serde_json::to_value(source).expect("facts become JSON");
        let (here, there) = (facts(self), facts(found));
        let mut names = Vec::new();
        leaves(&here, "", &mut names);
        leaves(&there, "", &mut names);
        let shown = |facts: &serde_json::Value, name: &str| {
            facts.pointer(name).map_or("none".to_owned(), |value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            })
        };
        let name = names
            .into_iter()
            .find(|name| here.pointer(name) != there.pointer(name))?;
        let (here, there) = (shown(&here, &name), shown(&there, &name));
        Some((name[1..].replace('/', "."), here, there))
    }
}

/// JSON pointers to all that is no object.
fn leaves(value: &serde_json::Value, at: &str, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                leaves(value, &format!("{at}/{name}"), names);
            }
        }
        _ => names.push(at.to_owned()),
    }
}

/// Where the base config came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Base {
    /// A flavour of a `linux-config-*` package of Debian.
    Debian {
        /// Such as `linux-config-6.12`.
        package: String,
        /// Such as `none_amd64`.
        flavour: String,
        /// Its Debian version.
        version: String,
        /// The `.deb`.
        deb: Blob,
        /// The config's bytes, kept beside the lock.
        config: Blob,
    },
    /// A file of the workspace.
    File {
        /// Path below the workspace.
        path: String,
        /// Its bytes, kept beside the lock.
        config: Blob,
    },
    /// A target of the tree itself, such as `tinyconfig`. Its bytes follow from the source.
    Target {
        /// The make target.
        target: String,
    },
}

impl Base {
    /// The bytes that are kept beside the lock.
    pub fn config(&self) -> Option<&Blob> {
        match self {
            Self::Debian { config, .. } | Self::File { config, .. } => Some(config),
            Self::Target { .. } => None,
        }
    }
}

/// A fragment of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    /// Its name, without directory and ending.
    pub name: String,
    /// Digest of its text.
    pub sha256: Sha256,
}

/// A change to the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Path below the workspace.
    pub file: String,
    /// Digest of its bytes.
    pub sha256: Sha256,
}

/// What is packaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// Whether `linux-headers` is built.
    pub headers: bool,
    /// Whether `linux-image-*-dbg` is built.
    pub debug: bool,
    /// `xz` or `gzip`.
    pub compress: String,
}

/// The part of the source that configuring reads: what checks of a configuration take instead of the
/// whole tar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The rule that chose its files. The digest of another rule's part says nothing of this one's.
    pub rule: u32,
    /// Digest of the listing of its files.
    pub sha256: Sha256,
}

/// Every input but the build number: what the input digest is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// [`RECIPE`] of the kiln that resolved it.
    pub recipe: u32,
    /// Whose builds these are.
    pub line: Line,
    /// Upstream version.
    pub version: Version,
    /// The source.
    pub source: Source,
    /// Seconds since 1970 that the build takes for "now": the creation time of the verified
    /// signature, or the changelog date of a Debian source.
    pub source_date_epoch: i64,
    /// Changes to the source, in the order they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// The base config.
    pub base: Base,
    /// Digest of the list of modules to keep, where the pipeline trims the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<Trim>,
    /// The fragments, in merge order.
    pub fragments: Vec<Fragment>,
    /// The pipeline's own assertions: symbol and wanted value.
    pub assertions: BTreeMap<String, String>,
    /// Target architecture in Debian's machine naming, `x86_64`.
    pub arch: String,
    /// The build root.
    pub root: BuildRoot,
    /// What is packaged.
    pub packages: Packages,
}

impl Inputs {
    /// The objects of the store that a build of these inputs reads, each with what it is.
    pub fn objects(&self) -> Vec<(Sha256, String)> {
        let stem = self.version.stem();
        let mut all = match &self.source {
            Source::KernelOrg {
                xz, tar, signature, ..
            } => vec![
                (xz.sha256, format!("{stem}.tar.xz")),
                (tar.sha256, format!("{stem}.tar")),
                (signature.sha256, format!("{stem}.tar.sign")),
            ],
            Source::Debian {
                package,
                version,
                deb,
                tar,
            } => vec![
                (deb.sha256, format!("{package} {version}")),
                (tar.sha256, format!("tar of {package} {version}")),
            ],
        };
        match &self.base {
            Base::Debian {
                package,
                flavour,
                version,
                deb,
                config,
            } => all.extend([
                (deb.sha256, format!("{package} {version}")),
                (config.sha256, format!("config {flavour} of {package}")),
            ]),
            Base::File { path, config } => all.push((config.sha256, format!("config {path}"))),
            Base::Target { .. } => {}
        }
        all
    }
}

/// How the base config is trimmed before the fragments are merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Trim {
    /// `make mod2noconfig`: everything that is a module goes.
    ModulesOff,
    /// `make localmodconfig` with a kept list of modules.
    Lsmod {
        /// Digest of the list.
        sha256: Sha256,
    },
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    schema: String,
    /// Number of this build of the line; it only grows, and only when the inputs changed.
    pub build: u32,
    /// Digest over the canonical form of [`Lock::inputs`].
    pub input_digest: Sha256,
    /// The inputs.
    pub inputs: Inputs,
    /// The part of the source that configuring reads. It follows from the tar, so it is no input of
    /// its own and not in the input digest: a lock that was written without it stays what it is, and
    /// the next resolve adds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
}

impl Lock {
    /// The lock for `inputs`, numbered after `previous`: the same inputs keep their number, and the
    /// same tar keeps what is known of it.
    pub fn new(inputs: Inputs, previous: Option<&Self>) -> Result<Self, CanonicalError> {
        let input_digest = digest(&inputs)?;
        let build = match previous {
            Some(lock) if lock.input_digest == input_digest => lock.build,
            Some(lock) => lock.build + 1,
            None => 1,
        };
        let configuration = previous
            .filter(|lock| lock.inputs.source.tar() == inputs.source.tar())
            .and_then(|lock| lock.configuration);
        Ok(Self {
            schema: SCHEMA.to_owned(),
            build,
            input_digest,
            inputs,
            configuration,
        })
    }

    /// Reads a committed lock; `name` is for messages.
    ///
    /// # Errors
    /// Unknown fields, a newer schema, and a digest that is not that of the inputs.
    pub fn parse(name: &str, text: &str) -> Result<Self, LockError> {
        canonical::check_schema(name, text.as_bytes(), SCHEMA)?;
        let lock: Self = canonical::from_pretty(name, text)?;
        lock.check(name)?;
        Ok(lock)
    }

    /// Whether the input digest is that of the inputs; `name` is for messages.
    pub fn check(&self, name: &str) -> Result<(), LockError> {
        let found = digest(&self.inputs)?;
        if found == self.input_digest {
            return Ok(());
        }
        Err(LockError::Edited {
            name: name.to_owned(),
            line: self.inputs.line.clone(),
            written: self.input_digest,
            found,
        })
    }

    /// The text that is committed.
    pub fn to_text(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_pretty("lock", self)
    }

    /// What `uname -r` of the built kernel will print.
    pub fn release(&self) -> Release {
        Release {
            version: self.inputs.version,
            build: self.build,
            line: self.inputs.line.clone(),
            digest8: self.input_digest.short8(),
        }
    }
}

fn digest(inputs: &Inputs) -> Result<Sha256, CanonicalError> {
    Ok(Sha256::of(&canonical::to_vec("inputs", inputs)?))
}

/// Why a lock is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not a lock.
    #[error(transparent)]
    Document(#[from] CanonicalError),
    /// Somebody changed an input by hand.
    #[error("`{name}` was edited: its inputs give the digest {found}, it says {written}")]
    Edited {
        /// The file.
        name: String,
        /// The line that it says it is of.
        line: Line,
        /// The digest it carries.
        written: Sha256,
        /// The digest of its inputs.
        found: Sha256,
    },
}

impl crate::failure::Diagnose for LockError {
    fn exit(&self) -> crate::failure::Exit {
        crate::failure::Exit::Usage
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Document(error) => error.code(),
            Self::Edited { .. } => "lock-edited",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Document(error) => error.hints(),
            Self::Edited { line, .. } => {
                vec![format!("write it anew with `kiln resolve {line}`")]
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Inputs of a made-up release, for tests of whatever takes a lock.
    pub(crate) fn inputs() -> Inputs {
        let blob = |text: &str| Blob {
            sha256: Sha256::of(text.as_bytes()),
            bytes: 3,
        };
        Inputs {
            recipe: RECIPE,
            line: "lts".parse().unwrap(),
            version: "6.18.40".parse().unwrap(),
            source: Source::KernelOrg {
                path: "v6.x/linux-6.18.40.tar.xz".to_owned(),
                xz: blob("xz"),
                tar: blob("tar"),
                signature: Signature {
                    sha256: Sha256::of(b"sign"),
                    signer: "647F28654894E3BD457199BE38DBBDC86092693E".parse().unwrap(),
                    made: 1_790_347_225,
                },
                checksums: false,
            },
            source_date_epoch: 1_790_347_225,
            patches: Vec::new(),
            base: Base::Target {
                target: "tinyconfig".to_owned(),
            },
            trim: None,
            fragments: vec![Fragment {
                name: "guest".to_owned(),
                sha256: Sha256::of(b"g"),
            }],
            assertions: BTreeMap::from([("PREEMPT_RT".to_owned(), "n".to_owned())]),
            arch: "x86_64".to_owned(),
            root: BuildRoot::HOST,
            packages: Packages {
                headers: true,
                debug: false,
                compress: "xz".to_owned(),
            },
        }
    }

    #[test]
    fn a_lock_reads_back_and_names_the_kernel() {
        let lock = Lock::new(inputs(), None).unwrap();
        let text = String::from_utf8(lock.to_text().unwrap()).unwrap();
        assert_eq!(Lock::parse("lts.lock.json", &text).unwrap(), lock);
        let digest8 = lock.input_digest.short8();
        assert_eq!(
            lock.release().to_string(),
            format!("6.18.40-1-lts-{digest8}")
        );
    }

    #[test]
    fn the_configuration_part_is_kept_with_its_tar_and_is_no_input() {
        let mut lock = Lock::new(inputs(), None).unwrap();
        let without = lock.clone();
        lock.configuration = Some(Configuration {
            rule: 1,
            sha256: Sha256::of(b"listing"),
        });
        let text = String::from_utf8(lock.to_text().unwrap()).unwrap();
        assert_eq!(Lock::parse("x", &text).unwrap(), lock);
        let text = String::from_utf8(without.to_text().unwrap()).unwrap();
        assert_eq!(Lock::parse("x", &text).unwrap().configuration, None);
        assert_eq!(lock.input_digest, without.input_digest);
        let mut changed = inputs();
        changed.fragments.clear();
        let next = Lock::new(changed.clone(), Some(&lock)).unwrap();
        assert_eq!((next.build, next.configuration), (2, lock.configuration));
        if let Source::KernelOrg { tar, .. } = &mut changed.source {
            tar.sha256 = Sha256::of(b"other");
        }
        let next = Lock::new(changed, Some(&lock)).unwrap();
        assert_eq!((next.build, next.configuration), (2, None));
    }

    #[test]
    fn the_number_grows_only_when_an_input_changed() {
        let first = Lock::new(inputs(), None).unwrap();
        assert_eq!(Lock::new(inputs(), Some(&first)).unwrap().build, 1);
        let mut changed = inputs();
        changed.fragments[0].sha256 = Sha256::of(b"h");
        let second = Lock::new(changed, Some(&first)).unwrap();
        assert_eq!(second.build, 2);
        assert_ne!(second.input_digest, first.input_digest);
    }

    #[test]
    fn an_edited_lock_is_refused() {
        let lock = Lock::new(inputs(), None).unwrap();
        let text = String::from_utf8(lock.to_text().unwrap()).unwrap();
        for (from, to, wanted) in [
            ("\"6.18.40\"", "\"6.18.41\"", "was edited"),
            ("kiln.lock/1", "kiln.lock/9", "has schema `kiln.lock/9`"),
            ("\"recipe\"", "\"receipt\"", "did you mean `recipe`?"),
        ] {
            let error = Lock::parse("x", &text.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(wanted), "{from}: {error}");
        }
    }

    #[test]
    fn the_digest_of_these_inputs_is_a_promise() {
        // A change here means that every lock in every workspace changes: raise RECIPE instead.
        let lock = Lock::new(inputs(), None).unwrap();
        assert_eq!(
            lock.input_digest.to_string(),
            "e290d705168aa050588396edcc18f27a4beae90e1af90b639e0262869c60e020"
        );
    }
}
