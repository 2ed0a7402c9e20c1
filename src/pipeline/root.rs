//! The build root of a pipeline: its packages locked, kept, handed on, and made into a directory.

use camino::{Utf8Path, Utf8PathBuf};

use super::session::Session;
use super::workspace::Loaded;
use crate::failure::Failure;
use crate::files::{self, Wait};
use crate::kbuild::root::{self, Look, Root};
use crate::proof::build_root::{BuildRoot, PackageLock};
use crate::proof::lock::Lock;
use crate::source::mirror::Location;
use crate::spec;

/// Name of the directory with a root's packages in one made by `kiln fetch --to`.
const KEPT: &str = "build-root";

/// How long a run waits for another one that makes the same root.
const PATIENCE: std::time::Duration = std::time::Duration::from_hours(2);

impl Session<'_> {
    /// The root that a pipeline asks for, as apt offers its packages now; they are in the store
    /// then.
    pub(super) fn offered_root(&self, pipeline: &Loaded) -> Result<BuildRoot, Failure> {
        let name = pipeline.spec.build.root;
        if name == spec::Root::Host {
            return Ok(BuildRoot::HOST);
        }
        self.progress
            .started("build root", format!("{} through apt", name.as_str()));
        let packages = self.debian().closure(root::CODENAME, &root::packages())?;
        let lock = PackageLock {
            name: name.as_str().to_owned(),
            packages,
        };
        self.root_files(pipeline, &lock, false)?;
        let bytes: u64 = lock.packages.iter().map(|package| package.bytes).sum();
        let mib = bytes >> 20;
        let count = lock.packages.len();
        self.progress
            .done("build root", format!("{count} packages, {mib} MiB"));
        Ok(BuildRoot::Pinned(lock))
    }

    /// The files of a root's packages in the store, each hashed.
    fn root_files(
        &self,
        pipeline: &Loaded,
        lock: &PackageLock,
        offline: bool,
    ) -> Result<Vec<Utf8PathBuf>, Failure> {
        let kept = self.kept_packages(pipeline);
        let files = self
            .debian()
            .root_files(root::CODENAME, &lock.packages, &kept, offline)?;
        Ok(files)
    }

    /// Sees to it that the packages of a locked root are in the store.
    pub fn fetch_root(&self, pipeline: &Loaded, lock: &Lock) -> Result<(), Failure> {
        if let Some(packages) = lock.inputs.root.pinned() {
            self.root_files(pipeline, packages, self.offline)?;
        }
        Ok(())
    }

    /// Copies the packages of a locked root into a directory; returns what was written.
    pub fn export_root(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        directory: &Utf8Path,
    ) -> Result<Vec<Utf8PathBuf>, Failure> {
        let Some(packages) = lock.inputs.root.pinned() else {
            return Ok(Vec::new());
        };
        let debs = self.root_files(pipeline, packages, self.offline)?;
        let directory = directory.join(KEPT);
        for (package, deb) in packages.packages.iter().zip(&debs) {
            files::copy(deb, &directory.join(package.file()), Some(&package.sha256))?;
        }
        Ok(vec![directory])
    }

    /// Directories that may hold a root's packages: beside the kernels of the workspace's mirrors.
    fn kept_packages(&self, pipeline: &Loaded) -> Vec<Utf8PathBuf> {
        self.with_mirrors(pipeline, |mirrors| {
            let directories = mirrors.kernel.iter().filter_map(|mirror| match mirror {
                Location::Directory(path) => Some(path.join(KEPT)),
                Location::Url(_) => None,
            });
            directories.collect()
        })
    }

    /// The root that a lock names, made where it is not there yet; nothing for the host.
    pub(super) fn build_root(
        &self,
        pipeline: &Loaded,
        lock: &Lock,
        look: Look,
    ) -> Result<Option<Root>, Failure> {
        let Some(packages) = lock.inputs.root.pinned() else {
            return Ok(None);
        };
        let roots = self.store.directory().join("roots");
        let directory = Root::directory(&roots, packages)?;
        if let Some(root) = Root::open(&directory, packages, look)? {
            return Ok(Some(root));
        }
        let name = directory.file_name().unwrap_or_default();
        let path = roots.join(format!("{name}.lock"));
        let _exclusive =
            files::Lock::acquire(&path, "make a build root", Wait::UpTo(PATIENCE), |holder| {
                self.progress.note(format!("waiting for {holder}"));
            })?;
        // Another run may have made it meanwhile.
        if let Some(root) = Root::open(&directory, packages, look)? {
            return Ok(Some(root));
        }
        let debs = self.root_files(pipeline, packages, self.offline)?;
        self.progress.started(
            "build root",
            format!("{} from {} packages", packages.name, debs.len()),
        );
        let root = Root::make(&directory, packages, &debs, &self.isolation)?;
        self.progress.done(
            "build root",
            format!("exactly the locked packages; sha256 {}", root.digest()),
        );
        Ok(Some(root))
    }
}
