//! A source tree that answers like a kernel's, in a second, and goes wrong on request.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use kiln::dotconfig::DotConfig;
use kiln::kbuild::make::{Kbuild, Setup};
use kiln::kconfig::language::{Memory, Model, Tree};
use kiln::kconfig::{Evidence, Facts, GuardedConfig, guard, merge};
use kiln::sandbox::Isolation;

use super::{Env, Stop};

/// `SOURCE_DATE_EPOCH` of its builds: 2026-06-01 07:46:40 UTC.
pub const EPOCH: i64 = 1_780_300_000;

/// A tree and a place to build it in.
pub struct FakeKernel {
    source: Utf8PathBuf,
    dir: Utf8PathBuf,
    isolation: Isolation,
}

impl FakeKernel {
    /// Writes the tree below the workspace of `env`.
    pub fn new(env: &Env, isolation: Isolation) -> Result<Self, Stop> {
        env.write("linux/Makefile", include_str!("fake-kernel/Makefile"))?;
        env.write("linux/package.sh", include_str!("fake-kernel/package.sh"))?;
        Ok(Self {
            source: env.path("linux"),
            dir: env.path("build"),
            isolation,
        })
    }

    /// The same for a child of a test, which finds the tree already written.
    pub fn at(workspace: &Utf8Path, isolation: Isolation) -> Self {
        Self {
            source: workspace.join("linux"),
            dir: workspace.join("build"),
            isolation,
        }
    }

    /// Makes ready to build it.
    pub fn kbuild(&self) -> Result<Kbuild, Stop> {
        Ok(Kbuild::new(&Setup {
            source: &self.source,
            dir: &self.dir,
            isolation: &self.isolation,
            root: None,
            epoch: Timestamp::from_second(EPOCH)?,
            jobs: std::num::NonZeroU32::MIN,
            other_time: None,
        })?)
    }

    /// How it is kept apart.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// Where it is built.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }
}

/// A configuration of its kind that the guard passed: nothing was asked, so nothing can be missing.
pub fn guarded(text: &str) -> Result<GuardedConfig, Stop> {
    let config = DotConfig::parse(text);
    let merged = merge(&config, &[], &[], "6.18".parse()?)?;
    let mut model = Model::new(Tree::parse(&Memory::of(""), "Kconfig")?);
    let evidence = Evidence {
        merged: &merged,
        base: &config,
        base_alone: &config,
        resolved: &config,
        remarks: &[],
        base_remarks: &[],
        facts: &Facts::embedded()?,
        allowed: &[],
        version: "6.18.40".parse()?,
        today: None,
    };
    let report = guard(&evidence, &mut model);
    Ok(report.into_guarded()?)
}
