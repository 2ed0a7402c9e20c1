//! `kiln stage`: puts a kernel on trial.

use clap::{Args, Command};

use super::boot::{Done, NODE, Root};
use super::context::Context;
use super::gate::{SETTINGS, node, spec};
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::boot::setup;
use crate::failure::{Exit, Failure};
use crate::spec::node::Rehearsal;

pub(super) static VERB: Verb = Verb {
    path: &["stage"],
    summary: "Put a kernel that is installed in /boot on trial at the next boot",
    detail: "Copies the kernel and its initrd to the slot that is not in use, reads them back from \
             the disk, and arms the trial with one write at the very end: cut off before that, the \
             node starts its good kernel. Refuses a node whose GRUB would not count, and a kernel \
             that would hang where it should panic. It does not reboot.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln stage 6.18.40-12-lts-3f2a9c1d",
        says: "the kernel of /boot/vmlinuz-6.18.40-12-lts-3f2a9c1d (as root)",
    }],
    args: |command: Command| Arguments::augment_args(command),
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The kernel: what `uname -r` prints under it
    #[arg(value_name = "RELEASE")]
    release: String,

    /// Its command line; that of the running kernel where it is not given
    #[arg(long, value_name = "WORDS")]
    words: Option<String>,

    #[command(flatten)]
    root: Root,
}

fn run(context: &Context, wanted: &Arguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    // A trial that no gate can judge would only cost two restarts.
    spec(&place.at(SETTINGS)).map_err(|failure| {
        failure.hint("write the checks of this node into `/etc/kiln/gate.yaml`: `kiln schema gate`")
    })?;
    let by_image = node(&place)?.rehearsal == Some(Rehearsal::ByImage);
    let staged = setup::stage(&place, &wanted.release, wanted.words.as_deref(), by_image)?;
    context.answer(&Done {
        staged,
        says: "is armed for a trial of two attempts",
        next: "reboot; without a verdict the node comes back on its good kernel",
    })?;
    Ok(Exit::Ok)
}
