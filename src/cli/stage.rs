//! `kiln stage`: puts a kernel on trial.

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Command};
use serde_json::{Value, json};

use super::boot::Root;
use super::context::Context;
use super::gate::{SETTINGS, node, spec};
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::boot::again::{self, Again};
use crate::boot::checks::DECIDE;
use crate::boot::hangs::{self, Hang};
use crate::boot::install::Build;
use crate::boot::place::Place;
use crate::boot::setup;
use crate::boot::trial::{self, Kernel, Staged};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::pipeline::verify::{self, Question};
use crate::spec::node::Rehearsal;
use crate::spec::roles;
use crate::ui::{Answer, Style, Tone};

/// Largest roles file that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// Where a node has it.
const ROLES: &str = "etc/kiln/roles.yaml";

pub(super) static VERB: Verb = Verb {
    path: &["stage"],
    summary: "Put a kernel on trial at the next boot",
    detail: "A manifest is opened by the node's /etc/kiln/roles.yaml, every package that it names is \
             hashed, and its image package is installed: dpkg's hooks make the initrd. The name of a \
             release is a kernel that is in /boot already. Then kernel and initrd are copied to the \
             slot that is not in use and read back from the disk, and the trial is armed with one \
             write at the very end: cut off before that, the node starts its good kernel. Refuses a \
             node whose GRUB would not count, and a kernel that would hang where it should panic. It \
             does not reboot.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[
        Exit::NotVerified,
        Exit::NodeRefused,
        Exit::MissingTools,
        Exit::Locked,
        Exit::StatementRejected,
        Exit::NoSpace,
    ],
    examples: &[
        Example {
            line: "kiln stage build/manifest.json",
            says: "a verified build, with its packages in `packages` beside it (as root)",
        },
        Example {
            line: "kiln stage --previous",
            says: "back to the kernel before, as a trial too",
        },
        Example {
            line: "kiln stage 6.18.40-12-lts-3f2a9c1d",
            says: "the kernel of /boot/vmlinuz-6.18.40-12-lts-3f2a9c1d",
        },
    ],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// A manifest's file, or what `uname -r` prints under a kernel in /boot
    #[arg(value_name = "MANIFEST|RELEASE", required_unless_present = "previous")]
    kernel: Option<String>,

    /// What the slot that is not in use holds already: the kernel before
    #[arg(long, conflicts_with_all = ["kernel", "words", "dir", "roles"])]
    previous: bool,

    /// Its command line; that of the running kernel where it is not given
    #[arg(long, value_name = "WORDS")]
    words: Option<String>,

    /// Where the manifest's packages are; `packages` beside it, or beside it, where it is not given
    #[arg(long, value_name = "DIR")]
    dir: Option<Utf8PathBuf>,

    /// Who may sign what; the node's /etc/kiln/roles.yaml where it is not given
    #[arg(long, value_name = "FILE")]
    roles: Option<Utf8PathBuf>,

    #[command(flatten)]
    root: Root,
}

fn run(context: &Context, wanted: &Arguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    let Some(kernel) = &wanted.kernel else {
        return once_more(context, &place, Again::Previous);
    };
    let (decide, by_image) = settings(&place)?;
    let build = if is_file(kernel) {
        Some(verified(context, &place, wanted, kernel)?)
    } else {
        None
    };
    let kernel = match &build {
        Some(build) => Kernel::Built(build),
        None => Kernel::Installed(kernel),
    };
    let staged = trial::stage(&place, kernel, wanted.words.as_deref(), by_image)?;
    answer(context, &place, staged, decide)
}

/// When the gate decides, and whether the node's image vouches for GRUB's counting.
fn settings(place: &Place) -> Result<(Option<u64>, bool), Failure> {
    // A trial that no gate can judge would only cost two restarts.
    let settings = spec(&place.at(SETTINGS)).map_err(|failure| {
        failure.hint("write the checks of this node into `/etc/kiln/gate.yaml`: `kiln schema gate`")
    })?;
    let by_image = node(place)?.rehearsal == Some(Rehearsal::ByImage);
    Ok((settings.decide, by_image))
}

/// Puts what the other slot holds on trial.
pub(super) fn once_more(context: &Context, place: &Place, how: Again) -> Result<Exit, Failure> {
    let (decide, by_image) = settings(place)?;
    let staged = again::again(place, how, by_image)?;
    answer(context, place, staged, decide)
}

/// A release has neither a slash nor this ending.
fn is_file(kernel: &str) -> bool {
    kernel.contains('/') || Utf8Path::new(kernel).extension() == Some("json")
}

/// Verifies a manifest and its packages, by the roles that the node goes by.
fn verified(
    context: &Context,
    place: &Place,
    wanted: &Arguments,
    manifest: &str,
) -> Result<Build, Failure> {
    let start = context.start();
    let roles = match &wanted.roles {
        Some(file) => start.join(file),
        None => place.at(ROLES),
    };
    let text = files::read_text(&roles, LIMIT).map_err(|error| {
        Failure::from(error).hint("put the keys that this node goes by into `/etc/kiln/roles.yaml`")
    })?;
    let roles = roles::parse(roles.as_str(), &text)?;
    let path = start.join(manifest);
    let packages = wanted.dir.as_ref().map(|dir| start.join(dir));
    let verified = verify::verify(&Question {
        manifest: &path,
        packages: packages.as_deref(),
        evidence: &[],
        roles: &roles,
        today: clock::today(),
    })?;
    let release = verified.manifest.release.to_string();
    let image = format!("linux-image-{release}");
    let mut packages = verified.manifest.packages.iter();
    let Some(package) = packages.find(|package| package.name == image) else {
        return Err(Failure::usage(format!(
            "`{path}` names no package `{image}`: there is no kernel to install"
        )));
    };
    Ok(Build {
        release,
        package: verified.packages.join(&package.file),
        sha256: package.sha256,
        config: verified.manifest.config,
        manifest: verified.id,
    })
}

/// Says what was armed, what the next boots do, and how they may hang.
fn answer(
    context: &Context,
    place: &Place,
    staged: Staged,
    decide: Option<u64>,
) -> Result<Exit, Failure> {
    let status = setup::status(place)?;
    let good = status.good.unwrap_or_default();
    let slots = status.slots.into_iter();
    let (_, release) = slots
        .into_iter()
        .find(|(slot, _)| *slot == good)
        .unwrap_or_default();
    let (slot, decide) = (&staged.slot, decide.unwrap_or(DECIDE.as_secs()));
    let attempts = status.trial.map_or(0, |(_, left)| left);
    let mut boots = vec![format!(
        "slot {slot}: kept if its checks pass within {decide} s, else restarted"
    )];
    if attempts > 1 {
        boots.push(format!("slot {slot} again, if it died without a verdict"));
    }
    boots.push(format!("slot {good} ({release}), which is good"));
    context.answer(&Armed {
        staged,
        attempts,
        boots,
        hangs: hangs::of(place),
    })?;
    Ok(Exit::Ok)
}

struct Armed {
    staged: Staged,
    attempts: u8,
    boots: Vec<String>,
    hangs: Vec<Hang>,
}

impl Answer for Armed {
    fn text(&self, style: Style) -> String {
        let Staged {
            slot,
            release,
            words,
            manifest,
            ..
        } = &self.staged;
        let good = style.paint(Tone::Good, "ok:");
        let many = if self.attempts == 1 {
            "one attempt"
        } else {
            "two attempts"
        };
        let mut lines = vec![format!(
            "{good} slot {slot} is armed for a trial of {many}: {release}"
        )];
        if let Some(id) = manifest {
            lines.push(format!("    manifest: {id}"));
        }
        lines.push(format!("    command line: {words}"));
        lines.push("    the next boots:".to_owned());
        for (at, boot) in self.boots.iter().enumerate() {
            lines.push(format!("      {}. {boot}", at + 1));
        }
        for hang in &self.hangs {
            if let Some(lacks) = hang.lacks {
                let mark = style.paint(Tone::Warn, "not ended by itself");
                lines.push(format!("    {mark}: {}; it lacks {lacks}", hang.what));
            }
        }
        lines.push("    next: reboot; `kiln boot disarm` takes it back".to_owned());
        lines
            .iter()
            .flat_map(|line| [line.as_str(), "\n"])
            .collect()
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.staged/1",
            "staged": self.staged,
            "attempts": self.attempts,
            "boots": self.boots,
            "hangs": self.hangs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_told_from_a_release() {
        for file in ["manifest.json", "./6.18", "/x/m", "runs/1/manifest.json"] {
            assert!(is_file(file), "{file}");
        }
        assert!(!is_file("6.18.40-12-lts-3f2a9c1d"));
    }
}
