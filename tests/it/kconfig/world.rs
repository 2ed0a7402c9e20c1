//! The real tree, its real configuration, and questions to both.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use kiln::dotconfig::DotConfig;
use kiln::files::{self, Lock, Wait};
use kiln::kbuild::make::{Kbuild, Setup};
use kiln::kbuild::probe::Prober;
use kiln::kbuild::warnings::{KconfigWarning, warnings};
use kiln::kconfig::explain::Fix;
use kiln::kconfig::language::{Host, HostError, Model, Tree};
use kiln::kconfig::{
    Evidence, Facts, Fragment, GuardReport, Merged, Remark, Request, guard, merge,
};
use kiln::kernel::Version;
use kiln::pipeline::configure::assertions;
use kiln::pipeline::workspace::Workspace;
use kiln::sandbox::Isolation;
use kiln::spec::Collateral;

use crate::engine;
use crate::support::case::{Made, made_once};
use crate::support::oracle::Oracle;
use crate::support::{Stop, fail, linux, skip, tree};

/// The distribution's configuration that every question is asked over.
const FLAVOUR: &str = "amd64_none_amd64";

/// The fragments of the default workspace's pipelines, in their order.
const SHIPPED: [&str; 3] = ["upstream-build", "latency", "boot-gate"];

/// A tree with its base configuration.
pub struct World {
    version: Version,
    /// The tree by kiln's own reading.
    model: Mutex<Model>,
    /// The distribution's configuration.
    pub base: DotConfig,
    /// The same after the tree's own `olddefconfig`.
    pub alone: Answer,
    kbuild: Mutex<Kbuild>,
    /// The tree's own reader in memory, where it makes of the base what make does.
    oracle: Option<&'static Oracle>,
    once: Mutex<HashMap<&'static str, Arc<Inputs>>>,
    _lock: Lock,
}

/// What `olddefconfig` made of a configuration.
#[derive(Clone)]
pub struct Answer {
    /// The configuration.
    pub config: DotConfig,
    remarks: Vec<Remark>,
}

/// What a report is made of.
struct Inputs {
    merged: Merged,
    base: DotConfig,
    alone: Answer,
    resolved: Answer,
}

/// A question and the guard's report on what came out.
pub struct Asked<'w> {
    world: &'w World,
    inputs: Arc<Inputs>,
    /// The report.
    pub report: GuardReport,
}

/// The world of the series that the distribution serves; made once for all cases.
pub fn world() -> Result<&'static World, Stop> {
    static WORLD: Made<World> = OnceLock::new();
    made_once(&WORLD, || {
        let oracle = engine::world().map(|world| &world.oracle);
        World::new(linux::real_source()?, &linux::real_config(FLAVOUR)?, oracle)
    })
}

/// The world of a newer series, where one can be had; made once for all cases.
pub fn newer() -> Result<&'static World, Stop> {
    static WORLD: Made<World> = OnceLock::new();
    made_once(&WORLD, || {
        let newer = linux::newer()?;
        let oracle = engine::newer().map(|(world, _)| &world.oracle);
        World::new(&newer.source, &newer.config, oracle)
    })
}

impl World {
    /// What comes of a pipeline of the default workspace over another configuration than this
    /// world's, such as the older distribution's.
    pub fn pipeline_over(&self, name: &str, base: &str) -> Result<Asked<'_>, Stop> {
        let alone = self.resolve(base)?;
        self.of_pipeline(name, &DotConfig::parse(base), &alone)
    }

    fn new(
        source: &Utf8Path,
        base: &str,
        oracle: Result<&'static Oracle, Stop>,
    ) -> Result<Self, Stop> {
        if kiln::command::Tool::find("pahole").is_err() {
            return Err(skip(
                "pahole is not installed, so the base itself loses its types",
            ));
        }
        let version = version(source)?;
        let dir = Utf8PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/kconfig"))
            .join(version.series.to_string());
        let lock = dir.join("lock");
        let lock = Lock::acquire(&lock, "configuring", Wait::UpTo(PATIENCE), |_| ())?;
        let kbuild = Kbuild::new(&Setup {
            source,
            dir: &dir.join("build"),
            isolation: &Isolation::probe()?,
            root: None,
            epoch: Timestamp::from_second(1_780_300_000)?,
            jobs: NonZeroU32::MIN,
            other_time: None,
        })?;
        let alone = made(&kbuild, base)?;
        let oracle = match oracle {
            Ok(oracle) => (oracle.ask(base)?.text == alone.config.text()).then_some(oracle),
            Err(Stop::Skip(_)) => None,
            Err(failed) => return Err(failed),
        };
        Ok(Self {
            oracle,
            version,
            model: Mutex::new(read(&kbuild, None)?),
            base: DotConfig::parse(base),
            alone,
            kbuild: Mutex::new(kbuild),
            once: Mutex::default(),
            _lock: lock,
        })
    }

    /// The tree by kiln's own reading, in whatever configuration.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the tree's own program answers at once.
    pub fn is_quick(&self) -> bool {
        self.oracle.is_some()
    }

    /// What the tree's own program makes of a configuration.
    pub fn resolve(&self, text: &str) -> Result<Answer, Stop> {
        let Some(oracle) = self.oracle else {
            return self.make(text);
        };
        let answer = oracle.ask(text)?;
        if answer.status != Some(0) {
            return Err(fail(answer.log));
        }
        Ok(Answer {
            config: DotConfig::parse(answer.text),
            remarks: warnings(&answer.log).iter().map(remark).collect(),
        })
    }

    /// What the real `make olddefconfig` makes of it.
    fn make(&self, text: &str) -> Result<Answer, Stop> {
        let kbuild = self.kbuild.lock().unwrap_or_else(PoisonError::into_inner);
        made(&kbuild, text)
    }

    /// What comes of these lines over the base.
    pub fn ask(&self, lines: &str) -> Result<Asked<'_>, Stop> {
        let inputs = self.inputs(&[fragment(lines)?], &[], &self.base, &self.alone)?;
        self.asked(Arc::new(inputs), "")
    }

    /// What comes of several fragments, one after the other, over another base than this world's.
    pub fn ask_in_turn(&self, base: &DotConfig, texts: &[&str]) -> Result<Asked<'_>, Stop> {
        let alone = self.resolve(base.text())?;
        let named = texts.iter().enumerate().map(|(at, text)| {
            let fragment = Fragment::parse(&format!("{}.config", at + 1), text);
            Ok(fragment?)
        });
        let fragments = named.collect::<Result<Vec<_>, Stop>>()?;
        let inputs = self.inputs(&fragments, &[], base, &alone)?;
        self.asked(Arc::new(inputs), "")
    }

    /// The same, resolved only once however often it is asked under this name.
    pub fn ask_once(&self, name: &'static str, lines: &str) -> Result<Asked<'_>, Stop> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let inputs = if let Some(inputs) = once.get(name) {
            Arc::clone(inputs)
        } else {
            let inputs = self.inputs(&[fragment(lines)?], &[], &self.base, &self.alone)?;
            // These many lines are the proof that the quick way is as good.
            let made = self.make(inputs.merged.text())?;
            assert_eq!(made.config.text(), inputs.resolved.config.text());
            assert_eq!(made.remarks, inputs.resolved.remarks);
            let inputs = Arc::new(inputs);
            once.insert(name, Arc::clone(&inputs));
            inputs
        };
        drop(once);
        self.asked(inputs, "")
    }

    /// What comes of the fragments that kiln ships, and of these lines after them.
    pub fn shipped(&self, lines: &str) -> Result<Asked<'_>, Stop> {
        let mut fragments = Vec::new();
        for name in SHIPPED {
            let file = format!("config-fragments/{name}.config");
            fragments.push(Fragment::load(&tree::repository().join(&file), &file)?);
        }
        fragments.push(fragment(lines)?);
        let inputs = self.inputs(&fragments, &[], &self.base, &self.alone)?;
        let list = files::read_text(&tree::repository().join("collateral/lts.yaml"), 1 << 20)?;
        self.judged(Arc::new(inputs), &list)
    }

    /// What comes of the pipeline of the guest kernel: its fragments over the smallest
    /// configuration, its assertions, its allow-list.
    pub fn guest(&self) -> Result<Asked<'_>, Stop> {
        let tiny = {
            let kbuild = self.kbuild.lock().unwrap_or_else(PoisonError::into_inner);
            kbuild.target("tinyconfig")?.text
        };
        let base = DotConfig::parse(tiny);
        let alone = Answer {
            config: base.clone(),
            remarks: Vec::new(),
        };
        self.of_pipeline("guest", &base, &alone)
    }

    fn of_pipeline(&self, name: &str, base: &DotConfig, alone: &Answer) -> Result<Asked<'_>, Stop> {
        let workspace = Workspace::find(tree::repository())?;
        let pipeline = workspace.pipeline(name)?;
        let fragments = workspace.fragments_of(&pipeline)?;
        let inputs = self.inputs(&fragments, &assertions(&pipeline), base, alone)?;
        let list = tree::repository().join(format!("collateral/{name}.yaml"));
        self.judged(Arc::new(inputs), &files::read_text(&list, 1 << 20)?)
    }

    /// What comes of these lines where a tool is missing, also of the base.
    pub fn ask_without(&self, tool: &str, lines: &str) -> Result<Asked<'_>, Stop> {
        self.ask_with(tool, "/nonexistent", lines)
    }

    /// What comes of these lines where a tool is another, also of the base.
    pub fn ask_with(&self, tool: &str, other: &str, lines: &str) -> Result<Asked<'_>, Stop> {
        let kbuild = self.kbuild.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |text: &str| -> Result<Answer, Stop> {
            let dot_config = kbuild.tree().join(".config");
            files::write(&dot_config, text.as_bytes())?;
            kbuild
                .make(["-s", "olddefconfig"])?
                .arg(format!("{tool}={other}"))
                .log(kbuild.dir().join("without.log"))
                .run()?;
            Ok(Answer {
                config: DotConfig::parse(files::read_text(&dot_config, 1 << 24)?),
                remarks: Vec::new(),
            })
        };
        let merged = merge(&self.base, &[fragment(lines)?], &[], self.version.series)?;
        let inputs = Inputs {
            base: self.base.clone(),
            alone: run(self.base.text())?,
            resolved: run(merged.text())?,
            merged,
        };
        let mut model = read(&kbuild, Some((tool, other)))?;
        drop(kbuild);
        let report = self.report(&inputs, &mut model, "kiln: 1\nallow: []\n")?;
        Ok(Asked {
            world: self,
            inputs: Arc::new(inputs),
            report,
        })
    }

    fn inputs(
        &self,
        fragments: &[Fragment],
        assertions: &[Request],
        base: &DotConfig,
        alone: &Answer,
    ) -> Result<Inputs, Stop> {
        let merged = merge(base, fragments, assertions, self.version.series)?;
        Ok(Inputs {
            resolved: self.resolve(merged.text())?,
            base: base.clone(),
            alone: alone.clone(),
            merged,
        })
    }

    fn asked(&self, inputs: Arc<Inputs>, allowed: &str) -> Result<Asked<'_>, Stop> {
        self.judged(inputs, &format!("kiln: 1\nallow: [{allowed}]\n"))
    }

    fn judged(&self, inputs: Arc<Inputs>, list: &str) -> Result<Asked<'_>, Stop> {
        let report = self.report(&inputs, &mut self.model(), list)?;
        Ok(Asked {
            world: self,
            inputs,
            report,
        })
    }

    fn report(&self, inputs: &Inputs, model: &mut Model, list: &str) -> Result<GuardReport, Stop> {
        let evidence = Evidence {
            merged: &inputs.merged,
            base: &inputs.base,
            base_alone: &inputs.alone.config,
            resolved: &inputs.resolved.config,
            remarks: &inputs.resolved.remarks,
            base_remarks: &inputs.alone.remarks,
            facts: &Facts::embedded()?,
            allowed: &Collateral::parse("allowed.yaml", list)?.allow,
            version: self.version,
            today: None,
        };
        Ok(guard(&evidence, model))
    }
}

impl Asked<'_> {
    /// The same judged with an allow-list of these rows.
    pub fn judged_with(&self, allowed: &str) -> Result<Self, Stop> {
        self.world.asked(Arc::clone(&self.inputs), allowed)
    }

    /// Each finding as `severity code symbol`.
    pub fn found(&self) -> Vec<String> {
        let findings = self.report.findings.iter();
        findings
            .map(|f| format!("{} {} {}", f.severity, f.code(), f.symbol))
            .collect()
    }

    /// The symbols that block, but for those with which two builds would differ: Debian's
    /// configuration alone has some, whatever is asked.
    pub fn blocked(&self) -> Vec<&str> {
        let findings = self.report.blocking();
        let told = findings.filter(|finding| finding.code() != "unreproducible");
        told.map(|finding| finding.symbol.as_str()).collect()
    }

    /// Whether none of them does.
    pub fn passes(&self) -> bool {
        self.blocked().is_empty()
    }

    /// The lines that are suggested for a symbol.
    pub fn fix(&self, symbol: &str) -> Vec<&str> {
        let mut findings = self.report.findings.iter();
        let fix = findings.find_map(|f| f.fix.as_ref().filter(|_| f.symbol == symbol));
        let lines = fix.map(Fix::lines).unwrap_or_default();
        lines.iter().map(String::as_str).collect()
    }

    /// The lines that would help a symbol, and the requests that speak against them.
    pub fn conflict(&self, symbol: &str) -> (Vec<&str>, Vec<&str>) {
        let mut findings = self.report.findings.iter();
        match findings.find_map(|f| f.fix.as_ref().filter(|_| f.symbol == symbol)) {
            Some(Fix::Conflict { lines, with }) => (
                lines.iter().map(String::as_str).collect(),
                with.iter().map(|rival| rival.symbol.as_str()).collect(),
            ),
            _ => (Vec::new(), Vec::new()),
        }
    }

    /// All that is told about a symbol.
    pub fn told(&self, symbol: &str) -> String {
        let findings = self.report.findings.iter().filter(|f| f.symbol == symbol);
        let told: Vec<String> = findings
            .map(|f| format!("{f}\n{}\n", f.details().join("\n")))
            .collect();
        told.concat()
    }
}

/// The tree as its Kconfig files see it, one tool perhaps another.
struct TreeHost<'k> {
    prober: Prober<'k>,
    other: Option<(&'k str, &'k str)>,
}

impl Host for TreeHost<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        self.prober.read(path).map_err(|e| HostError(Box::new(e)))
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        self.prober
            .shell(command)
            .map_err(|e| HostError(Box::new(e)))
    }

    fn env(&self, name: &str) -> Option<String> {
        match self.other {
            Some((tool, other)) if tool == name => Some(other.to_owned()),
            _ => self.prober.env(name),
        }
    }
}

fn read(kbuild: &Kbuild, other: Option<(&str, &str)>) -> Result<Model, Stop> {
    let cache = kbuild.dir().join("probes.json");
    let prober = Prober::new(kbuild, Some(&cache))?;
    let host = TreeHost { prober, other };
    let tree = Tree::parse(&host, "Kconfig")?;
    host.prober.finish()?;
    Ok(Model::new(tree))
}

/// How long another run of these cases may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(20);

pub fn fragment(lines: &str) -> Result<Fragment, Stop> {
    Ok(Fragment::parse("asked.config", lines)?)
}

fn made(kbuild: &Kbuild, text: &str) -> Result<Answer, Stop> {
    let resolved = kbuild.olddefconfig(text)?;
    Ok(Answer {
        config: DotConfig::parse(resolved.text),
        remarks: resolved.warnings.iter().map(remark).collect(),
    })
}

fn remark(warning: &KconfigWarning) -> Remark {
    let (line, symbol) = match warning {
        KconfigWarning::UnknownSymbol { line, symbol }
        | KconfigWarning::InvalidValue { line, symbol, .. }
        | KconfigWarning::Reassigned { line, symbol } => (Some(*line), Some(symbol.clone())),
        KconfigWarning::UnexpectedData { line, .. } => (Some(*line), None),
        KconfigWarning::UnmetDependency { symbol, .. } => (None, Some(symbol.clone())),
        KconfigWarning::Other(_) => (None, None),
    };
    Remark {
        line,
        symbol,
        text: format!("{warning:?}"),
    }
}

/// The version that the tree's makefile names.
fn version(source: &Utf8Path) -> Result<Version, Stop> {
    let text = files::read_text(&source.join("Makefile"), 1 << 20)?;
    let value = |name: &str| {
        let found = text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        });
        found.ok_or_else(|| fail(format!("no {name} in {source}/Makefile")))
    };
    let numbers = [value("VERSION")?, value("PATCHLEVEL")?, value("SUBLEVEL")?];
    Ok(numbers.join(".").parse()?)
}
