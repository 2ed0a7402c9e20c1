//! A tree, its own program as the oracle, and the engine, asked the same.

use std::fmt::Write as _;
use std::sync::OnceLock;

use camino::Utf8PathBuf;
use kiln::kconfig::language::{Model, Tree};

use super::requests::Requests;
use crate::support::case::{Made, made_once};
use crate::support::kconfig_tree::{Answer, KconfigTree};
use crate::support::oracle::Oracle;
use crate::support::{Stop, fail, linux};

/// Everything that is made once for a tree.
pub struct World {
    /// The tree and its surroundings.
    pub tree: KconfigTree,
    /// The tree's own program.
    pub oracle: Oracle,
    /// What can be asked.
    pub requests: Requests,
    model: Model,
}

/// The world of the series that the distribution serves.
pub fn world() -> Result<&'static World, Stop> {
    static WORLD: Made<World> = OnceLock::new();
    made_once(&WORLD, || World::new(linux::SERIES, linux::real_source()?))
}

impl World {
    fn new(series: &str, source: &camino::Utf8Path) -> Result<Self, Stop> {
        let dir = Utf8PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/engine")).join(series);
        let tree = KconfigTree::new(source, &dir)?;
        // Both read the tree at once.
        let (oracle, parsed) = std::thread::scope(|scope| {
            let oracle = scope.spawn(|| Oracle::start(&tree));
            let parsed = Tree::parse(&tree, "Kconfig");
            (oracle.join(), parsed)
        });
        let oracle = oracle.map_err(|_| fail("the oracle's start panicked"))??;
        let parsed = parsed?;
        Ok(Self {
            requests: Requests::of(&parsed),
            model: Model::new(parsed),
            oracle,
            tree,
        })
    }

    /// An engine of one's own.
    pub fn model(&self) -> Model {
        self.model.clone()
    }
}

/// What the engine makes of a configuration, told as the tree's own program tells it.
pub fn engine(model: &mut Model, config: &str) -> Answer {
    let mut log = String::new();
    for warning in model.read(config) {
        let _ = writeln!(log, ".config:{}:warning: {}", warning.line, warning.text);
    }
    log.extend(model.unmet());
    let text = model.file();
    log.push_str(if text == config {
        "#\n# No change to .config\n#\n"
    } else {
        "#\n# configuration written to .config\n#\n"
    });
    Answer {
        status: Some(0),
        text,
        log,
    }
}

/// How two answers differ, in the first line that does; nothing where they are the same.
pub fn difference(engine: &Answer, oracle: &Answer) -> Option<String> {
    if engine == oracle {
        return None;
    }
    for (what, ours, theirs) in [
        ("configuration", &engine.text, &oracle.text),
        ("messages", &engine.log, &oracle.log),
    ] {
        if ours == theirs {
            continue;
        }
        let mut lines = theirs.lines();
        for (at, ours) in ours.lines().map(Some).chain([None]).enumerate() {
            let theirs = lines.next();
            if ours != theirs {
                return Some(format!(
                    "line {} of the {what}: the engine has {ours:?}, the tree's program {theirs:?}",
                    at + 1
                ));
            }
        }
        return Some(format!("the {what} end differently"));
    }
    Some(format!(
        "exit status {:?} and {:?}",
        engine.status, oracle.status
    ))
}
