//! A workspace on disk: where its files are, and the pipelines in it.

use camino::{Utf8Path, Utf8PathBuf};

use crate::failure::{Diagnose, Exit, Failure};
use crate::files::{self, FileError};
use crate::kconfig::{Fragment, FragmentError};
use crate::proof::roles::Roles;
use crate::spec::{Pipeline, Settings, SpecErrors, nearest, roles};

/// Largest file of a workspace that a person writes, in bytes.
const TEXT_LIMIT: u64 = 1 << 20;

/// Why a workspace, or a file of it, could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// No `pipelines/` here or above.
    #[error("`{start}` is not in a workspace: no directory above it has a `pipelines` directory")]
    None {
        /// Where the search began.
        start: Utf8PathBuf,
    },
    /// No pipeline of that name.
    #[error("there is no pipeline `{name}` in `{directory}`{}", suggestion(.nearest.as_deref(), .known))]
    NoPipeline {
        /// The name.
        name: String,
        /// Where it was looked for.
        directory: Utf8PathBuf,
        /// The nearest name.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
    /// The file's name and the pipeline's name differ.
    #[error(
        "{file}:{line}: the pipeline is named `{name}`, its file `{stem}`: they must agree, since locks and builds are found by name"
    )]
    Misnamed {
        /// The file.
        file: String,
        /// Line of the name.
        line: u64,
        /// The name inside.
        name: String,
        /// The name of the file.
        stem: String,
    },
    /// A pipeline asks for a fragment that is not there.
    #[error("{at}: there is no fragment `{name}` in `{directory}`{}", suggestion(.nearest.as_deref(), .known))]
    NoFragment {
        /// `file:line` of the request.
        at: String,
        /// The name.
        name: String,
        /// Where it was looked for.
        directory: Utf8PathBuf,
        /// The nearest name.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
    /// A file with errors.
    #[error(transparent)]
    Spec(#[from] SpecErrors),
    /// A fragment with errors.
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => "; there are none".to_owned(),
        None => format!("; there are {}", known.join(", ")),
    }
}

impl Diagnose for WorkspaceError {
    fn exit(&self) -> Exit {
        match self {
            Self::Spec(error) => error.exit(),
            Self::Fragment(error) => error.exit(),
            Self::File(error) => error.exit(),
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::None { .. } => "no-workspace",
            Self::NoPipeline { .. } => "no-pipeline",
            Self::Misnamed { .. } => "pipeline-misnamed",
            Self::NoFragment { .. } => "no-fragment",
            Self::Spec(error) => error.code(),
            Self::Fragment(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::None { .. } => {
                vec!["make a workspace with `kiln init DIR`, or name one with `-C DIR`".to_owned()]
            }
            Self::Spec(error) => error.hints(),
            Self::Fragment(error) => error.hints(),
            Self::File(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// A directory with `pipelines/`, and what `kiln.yaml` says about it.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Utf8PathBuf,
    settings: Settings,
}

/// A pipeline and its file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What the file says.
    pub spec: Pipeline,
    /// The file's name for messages, from the workspace's directory where it lies in it.
    pub file: String,
    /// Its text.
    pub text: String,
}

impl Loaded {
    /// The pipeline's name, which is the line of its builds.
    pub fn name(&self) -> &str {
        self.spec.name.value.as_str()
    }
}

impl Workspace {
    /// The workspace that `start` lies in: the nearest directory with `pipelines/`.
    pub fn find(start: &Utf8Path) -> Result<Self, WorkspaceError> {
        let mut workspace = Self::find_root(start)?;
        let file = workspace.root.join("kiln.yaml");
        if file.symlink_metadata().is_ok() {
            let text = files::read_text(&file, TEXT_LIMIT)?;
            workspace.settings = Settings::parse("kiln.yaml", &text)?;
        }
        Ok(workspace)
    }

    /// The same without reading `kiln.yaml`: settings are those of an empty one.
    pub(super) fn find_root(start: &Utf8Path) -> Result<Self, WorkspaceError> {
        let start = start.canonicalize_utf8().map_err(|source| FileError::Io {
            action: "find",
            path: start.to_owned(),
            source,
        })?;
        let root = start
            .ancestors()
            .find(|directory| directory.join("pipelines").is_dir())
            .ok_or_else(|| WorkspaceError::None {
                start: start.clone(),
            })?
            .to_owned();
        Ok(Self {
            root,
            settings: Settings::default(),
        })
    }

    /// Its directory, absolute.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// What `kiln.yaml` says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where kiln keeps what can be made again: store, runs, object trees.
    pub fn dot_kiln(&self) -> Utf8PathBuf {
        self.root.join(".kiln")
    }

    /// Refuses links where kiln removes what it finds: a repository can carry one, and it could lead
    /// anywhere.
    pub fn refuse_links(&self) -> Result<(), Failure> {
        let state = self.dot_kiln();
        let parts = [
            "cache",
            "locks",
            "quickstart",
            "reproduce",
            "runs",
            "store",
            "trash",
            "work",
        ];
        let parts = parts.iter().map(|part| state.join(part));
        for path in std::iter::once(state.clone()).chain(parts) {
            if path.is_symlink() {
                return Err(Failure::usage(format!(
                    "`{}` is a symbolic link: expected a directory, since kiln removes old files \
                     below it",
                    self.shown(&path)
                ))
                .hint(
                    "remove the link; for a store elsewhere write `store: PATH` into kiln.yaml or \
                     set KILN_STORE, for all of it use a bind mount",
                ));
            }
        }
        Ok(())
    }

    /// Where runs are kept.
    pub fn runs(&self) -> Utf8PathBuf {
        self.dot_kiln().join("runs")
    }

    /// The store, unless `KILN_STORE` names another.
    pub fn store(&self) -> Utf8PathBuf {
        match &self.settings.store {
            Some(path) => self.root.join(&path.value),
            None => self.dot_kiln().join("store"),
        }
    }

    /// Where pipelines and their locks are.
    pub fn pipelines(&self) -> Utf8PathBuf {
        self.root.join("pipelines")
    }

    /// Where the pinned certificates are.
    pub fn keys(&self) -> Utf8PathBuf {
        self.root.join("keys")
    }

    /// Where it is written who may sign what.
    pub fn roles_path(&self) -> Utf8PathBuf {
        self.keys().join(roles::FILE)
    }

    /// Who may sign what; nobody where there is no such file.
    pub fn roles(&self) -> Result<Roles, WorkspaceError> {
        let path = self.roles_path();
        if path.symlink_metadata().is_err() {
            return Ok(Roles::default());
        }
        let text = files::read_text(&path, TEXT_LIMIT)?;
        Ok(roles::parse(&self.shown(&path), &text)?)
    }

    /// Where fragments are.
    pub fn fragments(&self) -> Utf8PathBuf {
        self.root.join("config-fragments")
    }

    /// Names of all pipelines, sorted.
    pub fn pipeline_names(&self) -> Result<Vec<String>, FileError> {
        // A name that is no text is no pipeline.
        let (names, _strange) = files::entries(&self.pipelines())?;
        let stems = names.iter().filter_map(|name| name.strip_suffix(".yaml"));
        Ok(stems
            .filter(|stem| *stem != "channels")
            .map(str::to_owned)
            .collect())
    }

    /// Reads a pipeline, given by name or by path.
    pub fn pipeline(&self, name: &str) -> Result<Loaded, WorkspaceError> {
        let by_path = name.contains('/') || Utf8Path::new(name).extension() == Some("yaml");
        let path = if by_path {
            Utf8PathBuf::from(name)
        } else {
            self.pipelines().join(format!("{name}.yaml"))
        };
        if !by_path && !path.is_file() {
            let known = self.pipeline_names()?;
            let nearest = nearest(name, known.iter().map(String::as_str));
            let (name, directory) = (name.to_owned(), self.pipelines());
            return Err(WorkspaceError::NoPipeline {
                name,
                directory,
                nearest,
                known,
            });
        }
        let file = self.shown(&path);
        let text = files::read_text(&path, TEXT_LIMIT)?;
        let spec = Pipeline::parse(&file, &text)?;
        let stem = path.file_stem().unwrap_or_default();
        if stem != spec.name.value.as_str() {
            return Err(WorkspaceError::Misnamed {
                file,
                line: spec.name.referenced.line(),
                name: spec.name.value.to_string(),
                stem: stem.to_owned(),
            });
        }
        Ok(Loaded { spec, file, text })
    }

    /// Reads the fragments of a pipeline, in merge order.
    pub fn fragments_of(&self, pipeline: &Loaded) -> Result<Vec<Fragment>, WorkspaceError> {
        pipeline
            .spec
            .config
            .fragments
            .iter()
            .map(|name| {
                let at = format!("{}:{}", pipeline.file, name.referenced.line());
                self.fragment(&name.value, &at)
            })
            .collect()
    }

    /// Reads one fragment, given by name or by path; `at` says who asks.
    pub fn fragment(&self, name: &str, at: &str) -> Result<Fragment, WorkspaceError> {
        let path = self.fragment_path(name);
        if !path.is_file() {
            let known: Vec<String> = files::list(&self.fragments())
                .unwrap_or_default()
                .iter()
                .filter_map(|file| file.strip_suffix(".config"))
                .map(str::to_owned)
                .collect();
            let nearest = nearest(name, known.iter().map(String::as_str));
            let (at, name, directory) = (at.to_owned(), name.to_owned(), self.fragments());
            return Err(WorkspaceError::NoFragment {
                at,
                name,
                directory,
                nearest,
                known,
            });
        }
        Ok(Fragment::load(&path, &self.shown(&path))?)
    }

    /// Where a fragment's text is.
    pub fn fragment_path(&self, name: &str) -> Utf8PathBuf {
        if name.contains('/') || name.ends_with(".config") {
            self.root.join(name)
        } else {
            self.fragments().join(format!("{name}.config"))
        }
    }

    /// A path as messages show it: from the workspace's directory where it lies in it.
    pub fn shown(&self, path: &Utf8Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string()
    }
}
