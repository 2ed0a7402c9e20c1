//! `kiln quickstart`: the main job on a machine that has only Rust and apt.

use clap::{Args, Command, ValueEnum};
use serde_json::{Value, json};

use super::build::Report;
use super::context::Context;
use super::doctor;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::pipeline::needs::Purpose;
use crate::pipeline::quickstart::Quickstart;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["quickstart"],
    summary: "Do the main job once, on a real kernel, from nothing",
    detail: "Installs the host tools it lacks (as root, through apt; asks on a terminal unless --yes \
             is given), takes Debian's own kernel source and configuration through apt, lets the \
             guard answer for the whole configuration plus the latency fragment, compiles a small \
             kernel into packages, checks the configuration inside them, and boots it in QEMU. \
             Stopped half way, it goes on where it was.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[
        Exit::NotVerified,
        Exit::Guard,
        Exit::Build,
        Exit::BootTest,
        Exit::MissingTools,
        Exit::Network,
        Exit::NotPublished,
        Exit::Locked,
        Exit::NoSpace,
    ],
    examples: &[
        Example {
            line: "kiln quickstart --yes",
            says: "about ten minutes on two cores",
        },
        Example {
            line: "kiln quickstart --config cloud",
            says: "compiles Debian's cloud configuration, which takes over an hour",
        },
    ],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Config {
    /// The small kernel that kiln's tests boot
    Guest,
    /// Debian's cloud configuration without its modules
    Cloud,
    /// Debian's whole configuration
    Debian,
}

impl Config {
    fn pipeline(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Cloud => "cloud",
            Self::Debian => "debian",
        }
    }
}

#[derive(Debug, Args)]
struct Arguments {
    /// What to compile
    #[arg(long, value_enum, default_value_t = Config::Guest)]
    config: Config,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    doctor::ensure(context, &[Purpose::Build, Purpose::Test])?;
    let work = Work::open(context)?;
    let mut session = work.session(context, context.progress())?;
    // What the archive serves today is no fact of the workspace.
    session.locks = work.workspace.dot_kiln().join("quickstart");
    let done = session.quickstart(arguments.config.pipeline())?;
    context.answer(&Done(&done))?;
    Ok(Exit::Ok)
}

struct Done<'a>(&'a Quickstart);

impl Answer for Done<'_> {
    fn text(&self, style: Style) -> String {
        let Quickstart {
            config,
            built,
            booted,
            full,
        } = self.0;
        let report = &config.report;
        let hours = full.wall.as_secs() / 3600;
        let minutes = full.wall.as_secs() % 3600 / 60;
        let took = booted
            .timeline
            .last()
            .map_or_else(String::new, |(_, at)| format!(" in {at:.1?}"));
        let made = Report(built).text(style);
        let what = style.paint(Tone::Strong, "What was proved");
        let next = style.paint(Tone::Strong, "Next");
        format!(
            "{made}\n{what}\n  \
             source: {source}\n  \
             guard: {met} of {asked} requests hold on Debian's whole configuration ({pipeline})\n  \
             packages: the configuration inside the image package is the guarded one\n  \
             boot: {release} came up{took}; its /proc/config.gz is the guarded configuration\n\n\
             {next}\n  \
             kiln build debian         compiles Debian's whole configuration: about {hours} h {minutes} min, \
             {disk} GiB of disk here\n  \
             kiln config check debian  the guard's whole answer\n  \
             kiln runs show            what ran, and how long each stage took\n",
            source = source(built),
            met = report.met,
            asked = report.asked,
            pipeline = config.pipeline,
            release = built.manifest.release,
            disk = full.disk_bytes.div_ceil(1 << 30),
        )
    }

    fn json(&self) -> Value {
        let Quickstart {
            config,
            built,
            booted,
            full,
        } = self.0;
        json!({
            "schema": "kiln.quickstart/1",
            "guard": { "pipeline": config.pipeline, "asked": config.report.asked, "met": config.report.met },
            "built": Report(built).json(),
            "booted": {
                "release": booted.report.release,
                "console": booted.console,
                "timeline_ms": booted.timeline.iter()
                    .map(|(step, at)| json!({ "step": step, "at_ms": u64::try_from(at.as_millis()).unwrap_or(u64::MAX) }))
                    .collect::<Vec<_>>(),
            },
            "full_build": {
                "wall_s": full.wall.as_secs(),
                "disk_bytes": full.disk_bytes,
                "memory_bytes": full.memory_bytes,
            },
        })
    }
}

fn source(built: &crate::pipeline::build::Built) -> String {
    use crate::proof::lock::Source;
    let inputs = &built.manifest.lock.inputs;
    match &inputs.source {
        Source::KernelOrg { signature, .. } => {
            format!("{}, signed by {}", inputs.version, signature.signer)
        }
        Source::Debian {
            package, version, ..
        } => {
            format!("{package} {version}, the bytes that apt's signed index names")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::embedded;

    #[test]
    fn every_word_names_a_pipeline_that_comes_with_kiln() {
        for config in Config::value_variants() {
            let path = format!("pipelines/{}.yaml", config.pipeline());
            assert!(
                embedded::FILES.iter().any(|(known, _)| *known == path),
                "{path}"
            );
        }
    }
}
