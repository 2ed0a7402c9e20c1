//! kiln's integration tests: one program, one module for each capability.
//!
//! ```text
//! cargo test --test it                     everything of the usual tier
//! cargo test --test it signature::         the cases whose name contains this
//! KILN_TESTS=full cargo test --test it     also the long fault and scenario cases
//! ```
//!
//! A case that cannot run here is reported as ignored with its reason, never as passed. Cases
//! marked heavy run last and one at a time. At the end stand the wall time of every group and the
//! list of what did not run.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::allow_attributes,
    reason = "tests stop by panicking, print their report, and break files on purpose"
)]

#[allow(
    dead_code,
    reason = "a toolkit: not every tool is in use at every time"
)]
#[path = "../support/mod.rs"]
mod support;

// One line a module, sorted; the same in `all` below.
mod acquire;
mod architecture;
mod boot;
mod catalogue;
mod classify;
mod cli;
mod command;
mod config_check;
mod debian;
mod dependencies;
mod doctor;
mod engine;
mod fetch;
mod files;
mod gate;
mod harness;
mod kbuild;
mod kconfig;
mod main_job;
mod mission;
mod node;
mod probe;
mod quickstart;
mod real_release;
mod refresh;
mod releases;
mod robust;
mod roots;
mod sandbox;
mod signature;
mod statements;
mod store;
mod tour;
mod unpack;
mod words;
mod workspace;

use std::collections::BTreeSet;
use std::process::ExitCode;

use support::case::{self, Case};
use support::child::Part;

/// Every case but those that need to know all the others.
fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(acquire::cases());
    cases.extend(architecture::cases());
    cases.extend(cli::cases());
    cases.extend(boot::cases());
    cases.extend(command::cases());
    cases.extend(classify::cases());
    cases.extend(config_check::cases());
    cases.extend(debian::cases());
    cases.extend(dependencies::cases());
    cases.extend(doctor::cases());
    cases.extend(engine::cases());
    cases.extend(fetch::cases());
    cases.extend(files::cases());
    cases.extend(gate::cases());
    cases.extend(harness::cases());
    cases.extend(kbuild::cases());
    cases.extend(probe::cases());
    cases.extend(quickstart::cases());
    cases.extend(real_release::cases());
    cases.extend(refresh::cases());
    cases.extend(releases::cases());
    cases.extend(kconfig::cases());
    cases.extend(main_job::cases());
    cases.extend(node::cases());
    cases.extend(robust::cases());
    cases.extend(roots::cases());
    cases.extend(sandbox::cases());
    cases.extend(signature::cases());
    cases.extend(statements::cases());
    cases.extend(store::cases());
    cases.extend(tour::cases());
    cases.extend(words::cases());
    cases.extend(unpack::cases());
    cases.extend(workspace::cases());
    cases
}

/// What this program can be as a child of a test.
fn parts() -> Vec<Part> {
    let mut parts = Vec::new();
    parts.extend_from_slice(command::PARTS);
    parts.extend_from_slice(fetch::PARTS);
    parts.extend_from_slice(files::PARTS);
    parts.extend_from_slice(kbuild::PARTS);
    parts
}

fn main() -> ExitCode {
    if let Some(code) = support::child::play_part(&parts()) {
        return code;
    }
    let mut cases = all();
    let usual = cases.iter().filter(|case| !case.is_full());
    let names: BTreeSet<String> = usual.map(|case| case.name().to_owned()).collect();
    cases.extend(catalogue::cases(names.clone()));
    cases.extend(mission::cases(names));
    case::run(cases)
}
