//! A tree, its own program as the oracle, and the engine, asked the same.

use std::fmt::Write as _;
use std::sync::OnceLock;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::kconfig::language::{Model, Tree};

use super::requests::Requests;
use super::small::{self, Small};
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
    made_once(&WORLD, || {
        World::new(tree(linux::SERIES, linux::real_source()?)?)
    })
}

/// The world of a newer series, where one can be had, and the distribution's configuration of it.
pub fn newer() -> Result<(&'static World, &'static str), Stop> {
    static WORLD: Made<(World, String)> = OnceLock::new();
    let made = made_once(&WORLD, || {
        let newer = linux::newer()?;
        let world = World::new(tree("newer", &newer.source)?)?;
        Ok((world, newer.config))
    })?;
    Ok((&made.0, &made.1))
}

/// What both make of a configuration; where they differ, the case fails.
pub fn asked(world: &World, model: &mut Model, config: &str) -> Result<Answer, Stop> {
    let answer = world.oracle.ask(config)?;
    match difference(&engine(model, config), &answer) {
        None => Ok(answer),
        Some(told) => Err(fail(told)),
    }
}

/// What both make of a small tree; where they differ, the case fails.
pub fn asked_small(world: &World, kconfig: &str, more: &str, config: &str) -> Result<Answer, Stop> {
    let files = Small {
        kconfig: kconfig.to_owned(),
        more: more.to_owned(),
        config: config.to_owned(),
        source: world.tree.source.clone(),
    };
    let dir = tempfile::tempdir()?;
    let dir = Utf8Path::from_path(dir.path()).ok_or_else(|| fail("no text"))?;
    let conf = files.conf(&world.tree, dir)?;
    match small::differ(&files.engine(), &conf) {
        None => Ok(conf),
        Some(told) => Err(fail(format!("{told}\n{}", files.shown()))),
    }
}

fn tree(name: &str, source: &Utf8Path) -> Result<KconfigTree, Stop> {
    let dir = Utf8PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/engine")).join(name);
    KconfigTree::new(source, &dir)
}

impl World {
    /// The world of a tree.
    pub fn new(tree: KconfigTree) -> Result<Self, Stop> {
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
