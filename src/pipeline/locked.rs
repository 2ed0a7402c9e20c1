//! Locks on disk: reading them, and carrying them over to what the workspace's files say today.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use super::session::Session;
use super::workspace::Loaded;
use crate::digest::Sha256;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files;
use crate::proof::build_root::BuildRoot;
use crate::proof::lock::{self, Inputs, Lock};
use crate::spec;

/// Largest lock, base config or module list that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// Why there is no usable lock.
#[derive(Debug, thiserror::Error)]
pub enum LockedError {
    /// Never resolved.
    #[error("pipeline `{pipeline}` has no lock: `{path}` does not exist")]
    Absent {
        /// The pipeline.
        pipeline: String,
        /// Where the lock would be.
        path: Utf8PathBuf,
    },
    /// What the pipeline asks for is not what was resolved.
    #[error(
        "the lock of `{pipeline}` was made for another {what}: the pipeline says {wanted}, the lock {locked}"
    )]
    Behind {
        /// The pipeline.
        pipeline: String,
        /// What differs.
        what: &'static str,
        /// In the pipeline file.
        wanted: String,
        /// In the lock.
        locked: String,
    },
    /// Files changed, and the caller allows no new lock.
    #[error("the lock of `{pipeline}` is behind the workspace's files: {}", .changed.join(", "))]
    Frozen {
        /// The pipeline.
        pipeline: String,
        /// What changed.
        changed: Vec<String>,
    },
    /// It states of the source what is not so.
    #[error(
        "the lock of `{pipeline}` says of its source that {fact} is {locked}: what was verified says {found}"
    )]
    Untrue {
        /// The pipeline.
        pipeline: String,
        /// Name of the field.
        fact: String,
        /// In the lock.
        locked: String,
        /// Of the source.
        found: String,
    },
    /// The kept base config is not the locked one.
    #[error(
        "`{path}` is not the base config that the lock names: expected sha256 {expected}, found {found}"
    )]
    Base {
        /// The kept file.
        path: Utf8PathBuf,
        /// In the lock.
        expected: Sha256,
        /// Of the file, or that there is none.
        found: String,
    },
}

impl Diagnose for LockedError {
    fn exit(&self) -> Exit {
        match self {
            Self::Untrue { .. } | Self::Base { .. } => Exit::NotVerified,
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "lock-absent",
            Self::Behind { .. } => "lock-behind",
            Self::Frozen { .. } => "lock-frozen",
            Self::Untrue { .. } => "lock-untrue",
            Self::Base { .. } => "base-changed",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Absent { pipeline, .. } | Self::Behind { pipeline, .. } => {
                vec![format!("run `kiln resolve {pipeline}`")]
            }
            Self::Frozen { pipeline, .. } => vec![format!(
                "run `kiln build {pipeline}` without `--locked`, and commit the lock it writes"
            )],
            Self::Untrue { pipeline, .. } => vec![
                "find out who changed it: `kiln resolve` writes only what it verified".to_owned(),
                format!(
                    "take the lock back from version control, or run `kiln resolve {pipeline}`"
                ),
            ],
            Self::Base { .. } => vec![
                "take the kept file back from version control; `kiln resolve` writes both anew"
                    .to_owned(),
            ],
        }
    }
}

impl Session<'_> {
    /// Where the lock of a pipeline is.
    pub fn lock_path(&self, pipeline: &Loaded) -> Utf8PathBuf {
        self.locks.join(format!("{}.lock.json", pipeline.name()))
    }

    /// Where the bytes of its base config are kept.
    pub fn base_path(&self, pipeline: &Loaded) -> Utf8PathBuf {
        self.locks.join(format!("{}.base.config", pipeline.name()))
    }

    /// The committed lock, if there is one.
    pub fn lock_if_any(&self, pipeline: &Loaded) -> Result<Option<Lock>, Failure> {
        let path = self.lock_path(pipeline);
        // A dangling link is no absent lock: reading it says what is wrong.
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let text = files::read_text(&path, LIMIT)?;
        let lock = Lock::parse(&self.workspace.shown(&path), &text)?;
        if lock.inputs.line != pipeline.spec.name.value {
            let (wanted, locked) = (pipeline.name().to_owned(), lock.inputs.line.to_string());
            return Err(behind(pipeline, "line", wanted, locked));
        }
        Ok(Some(lock))
    }

    /// The committed lock.
    pub fn lock(&self, pipeline: &Loaded) -> Result<Lock, Failure> {
        self.lock_if_any(pipeline)?.ok_or_else(|| {
            let (pipeline, path) = (pipeline.name().to_owned(), self.lock_path(pipeline));
            LockedError::Absent { pipeline, path }.into()
        })
    }

    /// The kept bytes of the locked base config; `None` where a target of the tree makes it.
    pub fn kept_base(&self, pipeline: &Loaded, lock: &Lock) -> Result<Option<String>, Failure> {
        let Some(expected) = lock.inputs.base.config() else {
            return Ok(None);
        };
        let path = self.base_path(pipeline);
        let found = if path.symlink_metadata().is_ok() {
            let text = files::read_text(&path, LIMIT)?;
            let found = Sha256::of(text.as_bytes());
            if found == expected.sha256 && u64::try_from(text.len()) == Ok(expected.bytes) {
                return Ok(Some(text));
            }
            found.to_string()
        } else {
            "no file".to_owned()
        };
        let Some(stored) = self.store.get(&expected.sha256)? else {
            return Err(LockedError::Base {
                path,
                expected: expected.sha256,
                found,
            }
            .into());
        };
        // A resolve that was stopped between its two writes leaves this behind.
        self.progress.warning(format!(
            "`{}` is not the base config that the lock names; its bytes are in the store, and are \
             taken from there: `kiln resolve {}` writes both anew",
            self.workspace.shown(&path),
            pipeline.name()
        ));
        Ok(Some(files::read_text(&stored, LIMIT)?))
    }

    /// The inputs of today's files on the locked source and base, and what changed since the lock.
    ///
    /// # Errors
    /// Where source or base themselves are others than the pipeline asks for: only a resolve can
    /// settle that.
    pub fn carry_over(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
    ) -> Result<(Inputs, Vec<String>), Failure> {
        check_source(pipeline, &lock.inputs)?;
        check_base(pipeline, &lock.inputs)?;
        let root = carried_root(pipeline, &lock.inputs)?;
        let inputs = self.inputs(
            pipeline,
            Proven {
                version: lock.inputs.version,
                source: lock.inputs.source.clone(),
                source_date_epoch: lock.inputs.source_date_epoch,
                base: lock.inputs.base.clone(),
                root,
            },
        )?;
        let changed = differences(&lock.inputs, &inputs);
        Ok((inputs, changed))
    }

    /// Reads the files that the inputs will name: what is wrong in one is told before anything is
    /// fetched for minutes.
    pub(super) fn check_inputs(&self, pipeline: &Loaded) -> Result<(), Failure> {
        drop(self.workspace.fragments_of(pipeline)?);
        drop(self.locked_patches(pipeline)?);
        drop(self.allowed(pipeline)?);
        if let spec::Trim::Lsmod(path) = &pipeline.spec.config.trim {
            files::hash(&self.workspace.root().join(path))?;
        }
        Ok(())
    }

    /// The inputs that the workspace's files and a proven source give together.
    pub(super) fn inputs(&self, pipeline: &Loaded, proven: Proven) -> Result<Inputs, Failure> {
        let spec = &pipeline.spec;
        let mut fragments = Vec::new();
        for name in &spec.config.fragments {
            let path = self.workspace.fragment_path(&name.value);
            // Parsed here too, so that a lock never names a fragment that cannot be read.
            let at = format!("{}:{}", pipeline.file, name.referenced.line());
            self.workspace.fragment(&name.value, &at)?;
            let (sha256, _bytes) = files::hash(&path)?;
            fragments.push(lock::Fragment {
                name: name.value.clone(),
                sha256,
            });
        }
        let assertions = spec
            .config
            .assertions
            .iter()
            .map(|assertion| (assertion.symbol.clone(), assertion.value.to_string()))
            .collect::<BTreeMap<_, _>>();
        let trim = match &spec.config.trim {
            spec::Trim::None => None,
            spec::Trim::ModulesOff => Some(lock::Trim::ModulesOff),
            spec::Trim::Lsmod(path) => {
                let (sha256, _bytes) = files::hash(&self.workspace.root().join(path))?;
                Some(lock::Trim::Lsmod { sha256 })
            }
        };
        Ok(Inputs {
            recipe: lock::RECIPE,
            line: spec.name.value.clone(),
            version: proven.version,
            source: proven.source,
            source_date_epoch: proven.source_date_epoch,
            patches: self.locked_patches(pipeline)?,
            base: proven.base,
            trim,
            fragments,
            assertions,
            arch: spec.build.arch.as_str().to_owned(),
            root: proven.root,
            packages: lock::Packages {
                headers: spec.packages.headers,
                debug: spec.packages.debug,
                compress: spec.packages.compress.as_str().to_owned(),
            },
        })
    }

    /// Writes a lock, and the bytes of the base it names before it. Two files are not written at
    /// once: the base that the lock on disk names goes to the store before it is written over, so
    /// that whatever stops this in between, the lock that is there has its base.
    pub(super) fn write_lock(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        base: Option<&[u8]>,
    ) -> Result<(), Failure> {
        if let Some(base) = base {
            let path = self.base_path(pipeline);
            // A lock or base that cannot be read is not worth keeping.
            if let Ok(Some(before)) = self.lock_if_any(pipeline)
                && let Some(config) = before.inputs.base.config()
                && let Ok(bytes) = files::read(&path, LIMIT)
                && Sha256::of(&bytes) == config.sha256
            {
                self.store.put(&bytes)?;
            }
            files::write(&path, base)?;
        }
        files::write(&self.lock_path(pipeline), &lock.to_text()?)?;
        Ok(())
    }
}

/// What a resolve has proven about a release.
#[derive(Debug, Clone)]
pub(super) struct Proven {
    pub(super) version: crate::kernel::Version,
    pub(super) source: lock::Source,
    pub(super) source_date_epoch: i64,
    pub(super) base: lock::Base,
    pub(super) root: BuildRoot,
}

fn behind(pipeline: &Loaded, what: &'static str, wanted: String, locked: String) -> Failure {
    LockedError::Behind {
        pipeline: pipeline.name().to_owned(),
        what,
        wanted,
        locked,
    }
    .into()
}

pub(super) fn check_source(pipeline: &Loaded, locked: &Inputs) -> Result<(), Failure> {
    let series = pipeline.spec.series.value;
    if series != locked.version.series {
        return Err(behind(
            pipeline,
            "series",
            series.to_string(),
            locked.version.series.to_string(),
        ));
    }
    let wanted = match &pipeline.spec.source.value {
        spec::Source::KernelOrg {} | spec::Source::Dir(_) => "kernel.org's layout".to_owned(),
        spec::Source::Debian { package } => format!("package {package}"),
    };
    let found = match &locked.source {
        lock::Source::KernelOrg { .. } => "kernel.org's layout".to_owned(),
        lock::Source::Debian { package, .. } => format!("package {package}"),
    };
    if wanted != found {
        return Err(behind(pipeline, "source", wanted, found));
    }
    // Who signs the list of checksums was changed, or the lock was.
    let role = |is_set| if is_set { "set" } else { "not set" }.to_owned();
    match &locked.source {
        lock::Source::KernelOrg { checksums, .. }
            if *checksums == pipeline.spec.keys.checksums.is_empty() =>
        {
            let (wanted, locked) = (role(!*checksums), role(*checksums));
            Err(behind(pipeline, "checksums role", wanted, locked))
        }
        _ => Ok(()),
    }
}

/// A lock states of its source what was verified in this process, and nothing else: it is what a
/// manifest repeats. A release that was `resigned` keeps its locked signature, which is not to be had
/// any more; whoever builds says so.
pub(super) fn check_facts(
    pipeline: &Loaded,
    inputs: &Inputs,
    (found, made): (&lock::Source, i64),
    resigned: bool,
) -> Result<(), Failure> {
    let untrue = |fact: String, locked: String, found: String| {
        let pipeline = pipeline.name().to_owned();
        Err(LockedError::Untrue {
            pipeline,
            fact,
            locked,
            found,
        }
        .into())
    };
    let mut locked = inputs.source.clone();
    if let (
        lock::Source::KernelOrg { signature, .. },
        lock::Source::KernelOrg {
            signature: served, ..
        },
    ) = (&mut locked, found)
        && resigned
    {
        signature.clone_from(served);
    }
    if let Some((fact, locked, found)) = locked.difference(found) {
        return untrue(fact, locked, found);
    }
    if !resigned && inputs.source_date_epoch != made {
        let locked = inputs.source_date_epoch.to_string();
        return untrue("source_date_epoch".to_owned(), locked, made.to_string());
    }
    Ok(())
}

fn check_base(pipeline: &Loaded, locked: &Inputs) -> Result<(), Failure> {
    let wanted = match &pipeline.spec.config.base.value {
        spec::Base::Debian {
            package, flavour, ..
        } => format!("{flavour} of {package}"),
        spec::Base::File { path, sha256, .. } => format!("{path} with sha256 {sha256}"),
        spec::Base::Target(target) => format!("make {target}"),
    };
    let found = match &locked.base {
        lock::Base::Debian {
            package, flavour, ..
        } => format!("{flavour} of {package}"),
        lock::Base::File { path, config } => format!("{path} with sha256 {}", config.sha256),
        lock::Base::Target { target } => format!("make {target}"),
    };
    if wanted == found {
        Ok(())
    } else {
        Err(behind(pipeline, "base config", wanted, found))
    }
}

/// The locked root where the pipeline still asks for it. The host needs no packages, so it can
/// take the place of any other.
fn carried_root(pipeline: &Loaded, locked: &Inputs) -> Result<BuildRoot, Failure> {
    let wanted = pipeline.spec.build.root;
    if wanted == spec::Root::Host {
        return Ok(BuildRoot::HOST);
    }
    if wanted.as_str() == locked.root.name() {
        return Ok(locked.root.clone());
    }
    let (wanted, locked) = (wanted.as_str().to_owned(), locked.root.name().to_owned());
    Err(behind(pipeline, "build root", wanted, locked))
}

/// What differs between two build roots: of many packages the first few.
fn root_differences(old: &BuildRoot, new: &BuildRoot) -> Option<String> {
    const SHOWN: usize = 3;
    if old == new {
        return None;
    }
    Some(match (old.pinned(), new.pinned()) {
        (Some(old), Some(new)) if old.name == new.name => {
            let changes = old.changes_to(new);
            let more = match changes.len() {
                0..=SHOWN => String::new(),
                count => format!(" and {} more", count - SHOWN),
            };
            let shown = changes.into_iter().take(SHOWN).collect::<Vec<_>>();
            format!("build root ({}{more})", shown.join(", "))
        }
        _ => format!("build root {} -> {}", old.name(), new.name()),
    })
}

/// What differs between two sets of inputs, in words.
pub(super) fn differences(old: &Inputs, new: &Inputs) -> Vec<String> {
    let mut changed = Vec::new();
    let mut note = |differs: bool, what: String| {
        if differs {
            changed.push(what);
        }
    };
    note(
        old.version != new.version,
        format!("release {} -> {}", old.version, new.version),
    );
    let same_release = old.version == new.version;
    match (&old.source, &new.source) {
        _ if !same_release || old.source == new.source => {}
        (
            lock::Source::KernelOrg {
                tar: old_tar,
                signature: old,
                ..
            },
            lock::Source::KernelOrg {
                tar,
                signature: new,
                ..
            },
        ) if old_tar == tar && old != new => {
            let (old, new) = (&old.signer, &new.signer);
            note(
                true,
                format!("signature of the release, by {old} -> by {new}"),
            );
        }
        _ => note(true, "source".to_owned()),
    }
    for what in patch_differences(&old.patches, &new.patches) {
        note(true, what);
    }
    note(old.base != new.base, "base config".to_owned());
    for fragment in &new.fragments {
        let known = old.fragments.iter().find(|f| f.name == fragment.name);
        note(
            known.is_none_or(|f| f.sha256 != fragment.sha256),
            format!("fragment {}", fragment.name),
        );
    }
    for fragment in &old.fragments {
        let gone = new.fragments.iter().all(|f| f.name != fragment.name);
        note(gone, format!("fragment {} (dropped)", fragment.name));
    }
    let names = |inputs: &Inputs| {
        inputs
            .fragments
            .iter()
            .map(|f| f.name.clone())
            .collect::<Vec<_>>()
    };
    note(
        changed_order(&names(old), &names(new)),
        "order of fragments".to_owned(),
    );
    note(old.trim != new.trim, "trim".to_owned());
    note(old.assertions != new.assertions, "assertions".to_owned());
    note(old.packages != new.packages, "packages".to_owned());
    note(old.arch != new.arch, "architecture".to_owned());
    if let Some(root) = root_differences(&old.root, &new.root) {
        note(true, root);
    }
    note(old.recipe != new.recipe, "kiln's own recipe".to_owned());
    changed
}

fn patch_differences(old: &[lock::Patch], new: &[lock::Patch]) -> Vec<String> {
    let changed = |patch: &&lock::Patch| !old.contains(patch);
    let gone = |patch: &&lock::Patch| new.iter().all(|new| new.file != patch.file);
    let mut all: Vec<String> = new
        .iter()
        .filter(changed)
        .map(|patch| format!("patch {}", patch.file))
        .collect();
    all.extend(
        old.iter()
            .filter(gone)
            .map(|patch| format!("patch {} (dropped)", patch.file)),
    );
    if all.is_empty() && old != new {
        all.push("order of patches".to_owned());
    }
    all
}

fn changed_order(old: &[String], new: &[String]) -> bool {
    let common = |list: &[String], other: &[String]| {
        list.iter()
            .filter(|name| other.contains(name))
            .cloned()
            .collect::<Vec<_>>()
    };
    common(old, new) != common(new, old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::lock::tests::inputs;

    #[test]
    fn differences_are_named() {
        let old = inputs();
        assert_eq!(differences(&old, &old), Vec::<String>::new());
        let mut new = inputs();
        new.version = "6.18.41".parse().unwrap();
        new.fragments[0].sha256 = Sha256::of(b"other");
        new.fragments.push(lock::Fragment {
            name: "latency".to_owned(),
            sha256: Sha256::of(b"l"),
        });
        new.packages.headers = false;
        assert_eq!(
            differences(&old, &new),
            [
                "release 6.18.40 -> 6.18.41",
                "fragment guest",
                "fragment latency",
                "packages"
            ]
        );
        assert_eq!(differences(&new, &old)[2], "fragment latency (dropped)");
    }

    #[test]
    fn a_changed_root_names_the_first_packages() {
        use crate::proof::build_root::{PackageLock, RootPackage};
        let root = |versions: &[&str]| {
            let package = |(index, version): (usize, &&str)| RootPackage {
                name: format!("p{index}"),
                version: (*version).to_owned(),
                architecture: "amd64".to_owned(),
                sha256: Sha256::of(version.as_bytes()),
                bytes: 1,
            };
            BuildRoot::Pinned(PackageLock {
                name: "debian-12".to_owned(),
                packages: versions.iter().enumerate().map(package).collect(),
            })
        };
        let mut old = inputs();
        let mut new = inputs();
        new.root = root(&["1", "1", "1", "1"]);
        assert_eq!(differences(&old, &new), ["build root host -> debian-12"]);
        old.root = root(&["1", "2", "1", "1"]);
        assert_eq!(differences(&old, &new), ["build root (p1 2 -> 1)"]);
        old.root = root(&["2", "2", "2", "2"]);
        assert_eq!(
            differences(&old, &new),
            ["build root (p0 2 -> 1, p1 2 -> 1, p2 2 -> 1 and 1 more)"]
        );
    }

    #[test]
    fn an_exchange_of_two_fragments_is_a_change() {
        let mut old = inputs();
        old.fragments.push(lock::Fragment {
            name: "latency".to_owned(),
            sha256: Sha256::of(b"l"),
        });
        let mut new = old.clone();
        new.fragments.reverse();
        assert_eq!(differences(&old, &new), ["order of fragments"]);
    }
}
