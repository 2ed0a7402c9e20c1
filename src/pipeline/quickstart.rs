//! `quickstart`: the main job on a machine that has only Rust and apt. The guard answers for
//! Debian's whole configuration; a small kernel is compiled, packaged, checked and booted.

use std::time::Duration;

use camino::Utf8Path;

use super::answers::Asked;
use super::build::{Built, Options};
use super::check_config::ConfigCheck;
use super::run::Run;
use super::session::Session;
use super::workspace::Loaded;
use crate::digest::Sha256;
use crate::dotconfig::DotConfig;
use crate::failure::Failure;
use crate::files;
use crate::image::boot_test::{self, Booted};
use crate::kbuild::checked;
use crate::kbuild::estimate::Estimate;
use crate::qemu;

/// Largest configuration that is read, in bytes.
const CONFIG_LIMIT: u64 = 8 << 20;

/// The pipeline whose configuration the guard answers for.
pub const GUARDED: &str = "debian";

/// What quickstart did and proved.
#[derive(Debug)]
pub struct Quickstart {
    /// The guard's answer for Debian's whole configuration.
    pub config: ConfigCheck,
    /// The compiled kernel.
    pub built: Built,
    /// Its boot.
    pub booted: Booted,
    /// What a build of Debian's whole configuration would take here.
    pub full: Expected,
}

/// What a build would take on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Wall time with this session's number of jobs.
    pub wall: Duration,
    /// Disk while it runs, in bytes.
    pub disk_bytes: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Session<'_> {
    /// Runs the whole of it, compiling the pipeline `compiled`. What an earlier, stopped run has
    /// finished is not done again.
    pub fn quickstart(&self, compiled: &str) -> Result<Quickstart, Failure> {
        let guarded = self.workspace.pipeline(GUARDED)?;
        let pipeline = self.workspace.pipeline(compiled)?;
        let config = self.check_config(&guarded, None, Asked::Engine)?;
        if !config.report.passes() {
            return Err(config.report.into_guarded().err().map_or_else(
                || Failure::unexpected("the guard blocks without a reason"),
                Failure::from,
            ));
        }
        let built = self.build(&pipeline, Options::default(), &|_| ())?;
        let booted = self.boot_test(&pipeline, &built)?;
        let full = self.expect(config.report.config(), &built)?;
        Ok(Quickstart {
            config,
            built,
            booted,
            full,
        })
    }

    /// Boots the kernel out of its finished package.
    pub fn boot_test(&self, pipeline: &Loaded, built: &Built) -> Result<Booted, Failure> {
        let run = Run::begin(
            &self.workspace.runs(),
            "boot-test",
            pipeline.name(),
            self.progress,
        )?;
        let result = self
            .listening(&run)
            .boot(built, &run.directory().join("boot"));
        run.end(&result)?;
        result
    }

    fn boot(&self, built: &Built, directory: &Utf8Path) -> Result<Booted, Failure> {
        let progress = self.progress;
        let manifest = &built.manifest;
        progress.started("boot test", format!("{} in QEMU", manifest.release));
        let probe = qemu::probe()?;
        if let Some(reason) = &probe.reason {
            progress.note(format!("guests run under {:?}: {reason}", probe.accel));
        }
        let image = manifest
            .packages
            .iter()
            .find(|package| package.name == format!("linux-image-{}", manifest.release))
            .ok_or_else(|| Failure::unexpected("the manifest names no image package"))?;
        let config = resolved(built)?;
        let mut archive = checked::archive(&built.package(image), &self.isolation)?;
        let options = boot_test::Options::new(probe.accel);
        let booted = boot_test::boot(
            &mut archive,
            &manifest.release,
            &config,
            &options,
            directory,
        )?;
        let took = booted.timeline.last().map_or(Duration::ZERO, |(_, at)| *at);
        progress.done(
            "boot test",
            format!("up in {took:.1?}; its /proc/config.gz is the guarded configuration"),
        );
        Ok(booted)
    }

    /// Scales the estimate of a full build by how long the compiled one really took here.
    fn expect(&self, full: &DotConfig, built: &Built) -> Result<Expected, Failure> {
        let jobs = u64::from(self.jobs.get());
        let small = resolved(built)?;
        let (full, small) = (
            Estimate::for_jobs(full, jobs),
            Estimate::for_jobs(&small, jobs),
        );
        let estimated = |estimate: Estimate| estimate.cpu_seconds.div_ceil(jobs).max(1);
        let wall = match built.compiled_in {
            Some(took) => took.as_secs() * estimated(full) / estimated(small),
            None => estimated(full),
        };
        Ok(Expected {
            wall: Duration::from_secs(wall),
            disk_bytes: full.disk_bytes,
            memory_bytes: full.memory_bytes,
        })
    }
}

/// The resolved configuration of a build, which must be the one that its manifest names.
fn resolved(built: &Built) -> Result<DotConfig, Failure> {
    let path = built.directory.join("resolved.config");
    let config = DotConfig::parse(files::read_text(&path, CONFIG_LIMIT)?);
    if Sha256::of(config.text().as_bytes()) == built.manifest.config {
        Ok(config)
    } else {
        Err(Failure::unexpected(format!(
            "`{path}` is not the configuration that the manifest names"
        )))
    }
}
