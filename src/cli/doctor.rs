//! `kiln doctor`: what this host lacks, why it is needed, and how to get it.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::pipeline::needs::{self, Host, Need, Purpose};
use crate::pipeline::workspace::Workspace;
use crate::progress::Event;
use crate::qemu::{self, Accel};
use crate::sandbox::Isolation;
use crate::ui::progress::bytes;
use crate::ui::{Answer, Style, Table, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["doctor"],
    summary: "Tell what this host lacks, and install it",
    detail: "Looks for the programs and files that the work needs, tries whether a sandbox can be \
             made, and tells disk, memory and how guests would run. With --install and as root it \
             installs what is missing through the host's own apt; without root it prints the one \
             line to run.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::MissingTools],
    examples: &[
        Example {
            line: "kiln doctor",
            says: "looks at everything",
        },
        Example {
            line: "kiln doctor --for build --install",
            says: "installs what building needs (as root)",
        },
        Example {
            line: "kiln doctor --for build --format json",
            says: "the same facts for a script; exit code 20 if something is missing",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// Look only for what this work needs; may be given several times
    #[arg(long = "for", value_enum, value_name = "WORK")]
    purposes: Vec<Work>,

    /// Install what is missing (as root, through apt)
    #[arg(long)]
    install: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Resolving, configuring, compiling, packaging
    Build,
    /// Making the pinned root that a pipeline is built in
    Root,
    /// Changing a configuration in menuconfig
    Edit,
    /// Making what a kernel boots into
    Image,
    /// kiln's own tests, and booting what was built
    Test,
}

impl Work {
    fn purpose(self) -> Purpose {
        match self {
            Self::Build => Purpose::Build,
            Self::Root => Purpose::Root,
            Self::Edit => Purpose::Edit,
            Self::Image => Purpose::Image,
            Self::Test => Purpose::Test,
        }
    }
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let purposes: Vec<Purpose> = match arguments.purposes.as_slice() {
        [] => Purpose::ALL.to_vec(),
        some => some.iter().map(|work| work.purpose()).collect(),
    };
    if arguments.install {
        install(context, &purposes)?;
    }
    let report = Report::make(context, purposes)?;
    context.answer(&report)?;
    let missing = report.missing();
    if missing.is_empty() {
        return Ok(Exit::Ok);
    }
    let names: Vec<&str> = missing.iter().map(|need| need.thing.name()).collect();
    let line = needs::install_line(&needs::packages(&missing));
    let hint = if report.host.debian {
        format!("run `kiln doctor --install` as root, which runs `{line}`")
    } else {
        "install the same programs with this host's own package manager".to_owned()
    };
    Err(Failure {
        exit: Exit::MissingTools,
        code: "tools-missing",
        message: format!("this host lacks {}", names.join(", ")),
        causes: Vec::new(),
        hints: vec![hint],
    })
}

/// Sees to it that the host has what the work needs: asks, installs as root, and otherwise refuses
/// with the one line to run.
pub(super) fn ensure(context: &Context, purposes: &[Purpose]) -> Result<(), Failure> {
    let mut missing = needs::of(purposes);
    missing.retain(|need| !need.thing.is_there());
    if missing.is_empty() {
        return Ok(());
    }
    let packages = needs::packages(&missing);
    let root = rustix::process::geteuid().is_root();
    let question = format!(
        "This host lacks {}. Install them with apt?",
        packages.join(" ")
    );
    if root && context.agreed(&question) {
        return install(context, purposes);
    }
    let line = needs::install_line(&packages);
    let names: Vec<&str> = missing.iter().map(|need| need.thing.name()).collect();
    let hint = if root {
        format!("run the same command with `--yes`, or first `{line}`")
    } else {
        format!("run as root: {line}")
    };
    Err(Failure {
        exit: Exit::MissingTools,
        code: "tools-missing",
        message: format!("this host lacks {}", names.join(", ")),
        causes: Vec::new(),
        hints: vec![hint],
    })
}

/// Installs what is missing, then looks again.
fn install(context: &Context, purposes: &[Purpose]) -> Result<(), Failure> {
    let lacking = || {
        let mut needs = needs::of(purposes);
        needs.retain(|need| !need.thing.is_there());
        needs
    };
    let missing = lacking();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = needs::packages(&missing);
    context.progress().event(&Event::StageStarted {
        stage: "install",
        detail: packages.join(" "),
    });
    let log = log_path(context);
    if let Some(parent) = log.parent() {
        files::create_dir_all(parent)?;
    }
    needs::install(&packages, &log)?;
    let missing = lacking();
    if missing.is_empty() {
        context.progress().event(&Event::StageDone {
            stage: "install",
            note: format!("installed {} packages", packages.len()),
        });
        return Ok(());
    }
    let things = missing.iter().map(|need| need.thing.name().to_owned());
    Err(needs::InstallError::StillMissing {
        things: things.collect(),
    }
    .into())
}

/// Where apt's output goes: the workspace's own folder, or a temporary file outside of one.
fn log_path(context: &Context) -> camino::Utf8PathBuf {
    match Workspace::find(context.start()) {
        Ok(workspace) => workspace.dot_kiln().join("doctor.log"),
        Err(_) => camino::Utf8PathBuf::from(format!("/tmp/kiln-doctor-{}.log", std::process::id())),
    }
}

struct Report {
    purposes: Vec<Purpose>,
    needs: Vec<(&'static Need, bool)>,
    host: Host,
    /// Why no sandbox can be had; `None` where one can.
    no_sandbox: Option<String>,
    /// How guests would run, if that was looked at.
    guests: Option<(Accel, Option<String>)>,
}

impl Report {
    fn make(context: &Context, purposes: Vec<Purpose>) -> Result<Self, Failure> {
        let needs = needs::of(&purposes)
            .into_iter()
            .map(|need| (need, need.thing.is_there()))
            .collect();
        let isolation = Isolation::probe()?;
        let guests = if purposes.contains(&Purpose::Test) && Path::new("/dev/kvm").exists() {
            // Without QEMU nothing can be tried, and its absence is told in the table already.
            qemu::probe().ok().map(|probe| (probe.accel, probe.reason))
        } else if purposes.contains(&Purpose::Test) {
            Some((Accel::Tcg, Some("this host has no /dev/kvm".to_owned())))
        } else {
            None
        };
        Ok(Self {
            purposes,
            needs,
            host: Host::look(context.start())?,
            no_sandbox: isolation.missing_reason().map(str::to_owned),
            guests,
        })
    }

    fn missing(&self) -> Vec<&'static Need> {
        self.needs
            .iter()
            .filter(|(_, there)| !there)
            .map(|(need, _)| *need)
            .collect()
    }

    fn facts(&self, style: Style) -> String {
        let mut facts = Table::new();
        let mut fact = |tone, name: &str, text: String| {
            facts.row([style.paint(tone, name), text]);
        };
        if self.host.debian {
            fact(Tone::Good, "system", self.host.system.clone());
        } else {
            let name = match self.host.system.as_str() {
                "" => "unknown",
                name => name,
            };
            let text =
                format!("{name}: not Debian, so kiln can name packages but not install them");
            fact(Tone::Warn, "system", text);
        }
        match &self.no_sandbox {
            None => fact(Tone::Good, "sandbox", "bubblewrap works".to_owned()),
            Some(reason) => fact(
                Tone::Warn,
                "sandbox",
                format!(
                    "none, and builds are marked with it: {}",
                    first_line(reason)
                ),
            ),
        }
        let processors = format!("{} processors", self.host.processors);
        let memory = bytes(self.host.memory);
        fact(
            Tone::Good,
            "machine",
            format!("{processors}, {memory} of memory"),
        );
        fact(
            Tone::Good,
            "disk",
            format!("{} free here", bytes(self.host.free)),
        );
        match &self.guests {
            Some((Accel::Kvm, _)) => fact(
                Tone::Good,
                "guests",
                "KVM runs the probe; a kernel that hangs under it is run by QEMU's translator"
                    .to_owned(),
            ),
            Some((Accel::Tcg, reason)) => {
                let reason = reason.as_deref().unwrap_or("KVM was not tried");
                let text = format!("slow, by QEMU's translator: {}", first_line(reason));
                fact(Tone::Warn, "guests", text);
            }
            None => {}
        }
        facts.render(2)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Answer for Report {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new();
        for (need, there) in &self.needs {
            let mark = if *there {
                style.paint(Tone::Good, "ok")
            } else {
                style.paint(Tone::Bad, "missing")
            };
            table.row([
                mark,
                need.thing.name().to_owned(),
                need.package.to_owned(),
                need.why.to_owned(),
            ]);
        }
        let mut out = table.render(2);
        out.push('\n');
        out.push_str(&self.facts(style));
        let missing = self.missing();
        if !missing.is_empty() && self.host.debian {
            out.push_str("\ninstall what is missing, as root:\n  ");
            out.push_str(&needs::install_line(&needs::packages(&missing)));
            out.push('\n');
        }
        out
    }

    fn json(&self) -> Value {
        let needs: Vec<Value> = self
            .needs
            .iter()
            .map(|(need, there)| {
                json!({
                    "name": need.thing.name(),
                    "package": need.package,
                    "why": need.why,
                    "present": there,
                })
            })
            .collect();
        let missing = needs::packages(&self.missing());
        let purposes: Vec<&str> = self.purposes.iter().map(|p| p.as_str()).collect();
        let mut document = json!({
            "schema": "kiln.doctor/1",
            "for": purposes,
            "needs": needs,
            "missing_packages": missing,
            "host": {
                "system": self.host.system,
                "debian": self.host.debian,
                "processors": self.host.processors,
                "memory_bytes": self.host.memory,
                "free_bytes": self.host.free,
            },
            "sandbox": { "works": self.no_sandbox.is_none(), "reason": self.no_sandbox },
        });
        if let Some((accel, reason)) = &self.guests {
            document["guests"] = json!({ "accelerator": accel.as_str(), "reason": reason });
        }
        if !missing.is_empty() {
            document["install"] = json!(needs::install_line(&missing));
        }
        document
    }
}
