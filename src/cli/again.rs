//! `kiln boot once|retry|pin|unpin|go`: what is done between staging a kernel and its trial.

use std::time::Duration;

use clap::{Args, Command};

use super::boot::{NODE, Root, Said};
use super::context::Context;
use super::gate::node;
use super::run::arguments;
use super::stage::once_more;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::boot::again::{self, Again};
use crate::boot::block::Slot;
use crate::boot::error::BootError;
use crate::boot::go::{self, Way, Window};
use crate::boot::setup;
use crate::failure::{Exit, Failure};
use crate::spec::node::{NodeSpec, WindowSpec};

pub(super) static ONCE: Verb = Verb {
    path: &["boot", "once"],
    summary: "Start a slot for one boot, counted like a trial, and not keep it",
    detail: "One attempt. Its checks run, and without a verdict it is restarted; healthy or not, the \
             boot after it is of the good kernel.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot once b",
        says: "the kernel of slot b, at the next boot only",
    }],
    args: |command: Command| OnceArguments::augment_args(command),
    run: |context, matches| once(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct OnceArguments {
    /// The slot: a or b
    #[arg(value_name = "SLOT", value_parser = ["a", "b"])]
    slot: String,

    #[command(flatten)]
    root: Root,
}

pub(super) static RETRY: Verb = Verb {
    path: &["boot", "retry"],
    summary: "Give a trial whose attempts were used up another two",
    detail: "Only where the last trial ended without a verdict (a power cut may do that too), and its \
             slot still holds the very same bytes. What the gate rejected is not tried again.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot retry",
        says: "the same bytes, hashed again, as a new trial",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| {
        let root: Root = arguments(matches)?;
        once_more(context, &root.place(context), Again::Retry)
    },
};

pub(super) static PIN: Verb = Verb {
    path: &["boot", "pin"],
    summary: "Hold back every trial on this node",
    detail: "Staging is refused with the reason that is given here. What is armed stays armed: see \
             `kiln boot disarm`.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot pin tournament",
        says: "no new kernel meanwhile",
    }],
    args: |command: Command| PinArguments::augment_args(command),
    run: |context, matches| pin(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct PinArguments {
    /// Why, for whoever is refused
    #[arg(value_name = "REASON")]
    reason: String,

    #[command(flatten)]
    root: Root,
}

pub(super) static UNPIN: Verb = Verb {
    path: &["boot", "unpin"],
    summary: "Let this node take trials again",
    detail: "",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot unpin",
        says: "does nothing where it is not pinned",
    }],
    args: |command: Command| Root::augment_args(command),
    run: |context, matches| unpin(context, &arguments(matches)?),
};

pub(super) static GO: Verb = Verb {
    path: &["boot", "go"],
    summary: "Drain the node, wait for its window, and restart it for what is due",
    detail: "Runs `drain` of /etc/kiln/node.yaml, waits until `reboot-window`, and restarts. Refused \
             where no trial is armed and no rehearsal asked for, and where draining fails.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: NODE,
    examples: &[Example {
        line: "kiln boot go --no-wait",
        says: "for a timer: refused outside of the window, with 16",
    }],
    args: |command: Command| GoArguments::augment_args(command),
    run: |context, matches| go(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct GoArguments {
    /// Refuse outside of the window instead of waiting for it
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    root: Root,
}

fn once(context: &Context, wanted: &OnceArguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    let status = setup::status(&place)?;
    if let Some(slot) = Slot::from_letter(&wanted.slot)
        && status.good.as_deref() == Some(slot.as_str())
    {
        return Err(BootError::IsGood { slot }.into());
    }
    once_more(context, &place, Again::Once)
}

fn pin(context: &Context, wanted: &PinArguments) -> Result<Exit, Failure> {
    again::pin(&wanted.root.place(context), &wanted.reason)?;
    context.answer(&Said {
        did: true,
        yes: "this node takes no trial until `kiln boot unpin`",
        no: "",
    })?;
    Ok(Exit::Ok)
}

fn unpin(context: &Context, root: &Root) -> Result<Exit, Failure> {
    context.answer(&Said {
        did: again::unpin(&root.place(context))?,
        yes: "this node takes trials again",
        no: "it was not pinned",
    })?;
    Ok(Exit::Ok)
}

fn go(context: &Context, wanted: &GoArguments) -> Result<Exit, Failure> {
    let place = wanted.root.place(context);
    go::go(&place, &way(node(&place)?, wanted.no_wait))?;
    context.answer(&Said {
        did: true,
        yes: "the node restarts",
        no: "",
    })?;
    Ok(Exit::Ok)
}

fn way(spec: NodeSpec, no_wait: bool) -> Way {
    let window = |spec: WindowSpec| {
        Some(Window {
            from: Window::minutes(&spec.from)?,
            to: Window::minutes(&spec.to)?,
        })
    };
    Way {
        drain: spec.drain,
        drain_limit: Duration::from_secs(spec.drain_limit.unwrap_or(3600)),
        window: spec.reboot_window.and_then(window),
        no_wait,
    }
}
