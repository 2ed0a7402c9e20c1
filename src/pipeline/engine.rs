//! What a configuration resolves to by kiln's own reading of the tree's Kconfig files: no make, no
//! parser generator, no compiled `conf`. The tree's own `olddefconfig` stays the authority.

use camino::Utf8Path;

use crate::failure::{Diagnose, Exit};
use crate::kbuild::make::{Kbuild, Resolved};
use crate::kbuild::probe::{ProbeError, Prober, Probes};
use crate::kbuild::warnings::warnings;
use crate::kconfig::language::{Host, HostError, Model, ParseError, Said, Tree};

/// The file that a tree's Kconfig files begin with.
const FIRST: &str = "Kconfig";

/// Why a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its Kconfig files say what kiln does not understand, or stop by themselves.
    #[error("kiln cannot read the tree's Kconfig files")]
    Parse(#[from] ParseError),
    /// What they ask cannot be answered.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

impl EngineError {
    /// Whether the tree's own program may still know the answer.
    pub fn leaves_it_to_the_tree(&self) -> bool {
        !matches!(
            self.exit(),
            Exit::Interrupted | Exit::Terminated | Exit::NoSpace
        )
    }
}

impl Diagnose for EngineError {
    fn exit(&self) -> Exit {
        match self {
            Self::Parse(_) => Exit::Build,
            Self::Probe(error) => error.exit(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Parse(_) => "kconfig-unreadable",
            Self::Probe(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Parse(_) => Vec::new(),
            Self::Probe(error) => error.hints(),
        }
    }
}

/// A tree's Kconfig files, read.
#[derive(Debug)]
pub struct Engine {
    model: Model,
    probes: Probes,
    /// What the reading of the Kconfig files gave to say, as `conf` says it.
    said: Vec<String>,
}

struct TreeHost<'p, 'k>(&'p Prober<'k>);

impl Host for TreeHost<'_, '_> {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        self.0.read(path).map_err(failed)
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        self.0.shell(command).map_err(failed)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.0.env(name)
    }
}

fn failed(error: ProbeError) -> HostError {
    HostError(Box::new(error))
}

impl Engine {
    /// Reads the Kconfig files of a tree. Probes that the file `cache` knows are not run again.
    pub fn read(kbuild: &Kbuild, cache: Option<&Utf8Path>) -> Result<Self, EngineError> {
        let prober = Prober::new(kbuild, cache)?;
        let tree = Tree::parse(&TreeHost(&prober), FIRST);
        // What was learnt is kept even where the reading failed.
        let probes = prober.finish();
        let tree = tree?;
        Ok(Self {
            said: said(&tree),
            model: Model::new(tree),
            probes: probes?,
        })
    }

    /// How many probes there were.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// What `olddefconfig` makes of a configuration, byte for byte, and what it says meanwhile.
    pub fn olddefconfig(&mut self, text: &str) -> Resolved {
        let read = self.model.read(text).into_iter();
        let read = read.map(|found| format!(".config:{}:warning: {}", found.line, found.text));
        let mut log = self.said.clone();
        log.extend(read);
        log.extend(self.model.unmet());
        Resolved {
            text: self.model.file(),
            warnings: warnings(&log.join("\n")),
        }
    }

    /// The tree with the configuration that was resolved last.
    pub fn into_model(self) -> Model {
        self.model
    }
}

fn said(tree: &Tree) -> Vec<String> {
    let info = tree.said().iter().filter_map(|(_, said)| match said {
        Said::Info(text) => Some(text.clone()),
        Said::Warning(_) => None,
    });
    let warnings = tree.warnings().iter();
    let warnings = warnings.map(|found| format!("{}:{}", tree.shown(found.place()), found.text()));
    info.chain(warnings).collect()
}
