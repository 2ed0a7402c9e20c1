//! Opening a session: what every verb that works on pipelines needs.

use std::env::VarError;
use std::num::NonZeroU32;

use camino::{Utf8Path, Utf8PathBuf};

use super::context::Context;
use crate::failure::Failure;
use crate::pipeline::session::Session;
use crate::pipeline::workspace::Workspace;
use crate::progress::Progress;
use crate::sandbox::{Isolation, Worker};
use crate::source::mirror::{Location, Mirrors};
use crate::store::Store;

/// A workspace and the mirrors it uses: what a [`Session`] borrows.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) workspace: Workspace,
    mirrors: Mirrors,
}

impl Work {
    /// The workspace around the start directory.
    pub(super) fn open(context: &Context) -> Result<Self, Failure> {
        let workspace = context.workspace()?;
        let mut mirrors = mirrors(&workspace)?;
        mirrors.offline = context.offline();
        Ok(Self { workspace, mirrors })
    }

    /// The workspace's directory from that of the repository that CI checked out, with a slash at
    /// the end: annotations name files from there. Empty where they are one, or where nothing says.
    pub(super) fn prefix(&self) -> String {
        let checkout = ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
            .and_then(|path| Utf8Path::new(&path).canonicalize_utf8().ok());
        let below = checkout
            .as_deref()
            .and_then(|checkout| self.workspace.root().strip_prefix(checkout).ok())
            .filter(|below| !below.as_str().is_empty());
        below.map_or_else(String::new, |below| format!("{below}/"))
    }

    /// A session in it.
    pub(super) fn session<'a>(
        &'a self,
        context: &Context,
        progress: &'a dyn Progress,
    ) -> Result<Session<'a>, Failure> {
        let program = std::env::current_exe()
            .ok()
            .and_then(|path| Utf8PathBuf::from_path_buf(path).ok())
            .ok_or_else(|| Failure::unexpected("this program's own file cannot be found"))?;
        let store = match std::env::var("KILN_STORE") {
            Ok(path) if !path.is_empty() => shared_store(path)?,
            Ok(_) | Err(VarError::NotPresent) => self.workspace.store(),
            Err(VarError::NotUnicode(_)) => {
                return Err(Failure::usage("the variable KILN_STORE is not UTF-8"));
            }
        };
        self.workspace.refuse_links()?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let jobs = self.workspace.settings().jobs.unwrap_or(processors as u64);
        let jobs = u32::try_from(jobs)
            .ok()
            .and_then(NonZeroU32::new)
            .unwrap_or(NonZeroU32::MIN);
        let session = Session {
            store: Store::open(&store)?,
            isolation: Isolation::probe()?,
            worker: Worker { program },
            mirrors: &self.mirrors,
            offline: context.offline(),
            jobs,
            locks: self.workspace.pipelines(),
            workspace: &self.workspace,
            rebuilding: None,
            progress,
        };
        session.empty_trash();
        context.works_in(&session.isolation);
        if let Some(doubt) = session.isolation_doubt() {
            progress.warning(doubt);
        }
        Ok(session)
    }
}

/// The store that `KILN_STORE` names.
fn shared_store(path: String) -> Result<Utf8PathBuf, Failure> {
    let path = Utf8PathBuf::from(path);
    // It is shared between workspaces, so it cannot depend on where one stands.
    if !path.is_absolute() {
        return Err(Failure::usage(format!(
            "the variable KILN_STORE is `{path}`: expected an absolute path"
        )));
    }
    if path.exists() && !path.is_dir() {
        return Err(Failure::usage(format!(
            "the variable KILN_STORE names `{path}`, which is a file: expected a directory"
        )));
    }
    Ok(path)
}

/// The mirrors of `kiln.yaml`; what it does not set comes from kernel.org.
fn mirrors(workspace: &Workspace) -> Result<Mirrors, Failure> {
    let settings = &workspace.settings().mirrors;
    let mut mirrors = Mirrors::kernel_org();
    let parse = |text: &str| Location::parse(text, workspace.root());
    if !settings.kernel.is_empty() {
        let all = settings.kernel.iter().map(|mirror| parse(&mirror.value));
        mirrors.kernel = all.collect::<Result<_, _>>()?;
        // Mirrors of one's own are asked for the list of checksums too, before anybody else.
        mirrors.checksums.clear();
    }
    if !settings.checksums.is_empty() {
        let all = settings.checksums.iter().map(|mirror| parse(&mirror.value));
        mirrors.checksums = all.collect::<Result<_, _>>()?;
    }
    if let Some(releases) = &settings.releases {
        mirrors.releases = parse(&releases.value)?;
    }
    Ok(mirrors)
}
