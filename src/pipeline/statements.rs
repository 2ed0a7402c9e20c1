//! The statements of a build: its manifest and its provenance, signed where a signer is configured.

use std::collections::BTreeSet;

use super::build::MANIFEST;
use super::run::{Record, Run};
use super::session::Session;
use super::sign::Signing;
use super::workspace::Workspace;
use crate::clock;
use crate::failure::Failure;
use crate::files;
use crate::proof::envelope::{Envelope, EnvelopeError};
use crate::proof::evidence::LAUNCHER;
use crate::proof::manifest::Manifest;
use crate::proof::provenance::{self, Circumstances};
use crate::proof::roles::Role;

/// Name of the bill of materials in a run's directory, beside the manifest.
pub const SBOM: &str = "sbom.json";

/// Name of the provenance in a run's directory, beside the manifest.
pub const PROVENANCE: &str = "provenance.json";

/// Who vouches for a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// These builders, by name.
    By(Vec<String>),
    /// Nobody, for this reason.
    Nobody(String),
}

/// What signs the manifest of a build. Where no sandbox can be had, nothing: what is compiled there
/// could read a private key, and nobody can say what it did to the packages.
pub(super) fn signing(session: &Session<'_>, unsigned: bool) -> Result<Signing, Failure> {
    if unsigned {
        return Ok(Signing::none("`--unsigned` was given"));
    }
    let signing = Signing::open(session.workspace, Role::Builder, clock::today())?;
    match session.isolation_doubt() {
        Some(doubt) if !signing.is_empty() => Ok(Signing::none(doubt)),
        _ => Ok(signing),
    }
}

/// Writes the statements of a build: its provenance, and last its manifest, since what has a
/// manifest is whole. Each gets every signature that can be had.
pub(super) fn write(
    session: &Session<'_>,
    run: &Run<'_>,
    manifest: &Manifest,
    signing: &Signing,
) -> Result<Signed, Failure> {
    let names: BTreeSet<String> = signing
        .holders()
        .map(|holder| holder.name.clone())
        .collect();
    let circumstances = circumstances(session, &run.record(), names.first());
    let statement = provenance::statement(manifest, &circumstances)?;
    let write = |name: &str, kind: &str, payload: &[u8]| -> Result<(), Failure> {
        let mut envelope = Envelope::unsigned(kind, payload);
        signing.sign(&mut envelope)?;
        files::write(&run.directory().join(name), &envelope.to_bytes()?)?;
        Ok(())
    };
    write(PROVENANCE, provenance::KIND, &statement)?;
    write(MANIFEST, "manifest", &manifest.to_payload()?)?;
    if names.is_empty() {
        return Ok(Signed::Nobody(signing.idle.join("; ")));
    }
    Ok(Signed::By(names.into_iter().collect()))
}

/// What the run was like so far.
fn circumstances(session: &Session<'_>, run: &Record, builder: Option<&String>) -> Circumstances {
    let host = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let sandbox = match session.isolation.missing_reason() {
        None => "bubblewrap: fixed paths, no network".to_owned(),
        Some(reason) => format!("none: {reason}"),
    };
    Circumstances {
        run: run.id.clone(),
        times: (run.started.clone(), clock::now().to_string()),
        builder: builder.map_or_else(|| "unsigned".to_owned(), Clone::clone),
        kiln: env!("CARGO_PKG_VERSION").to_owned(),
        host: (
            text(host.nodename()),
            text(host.release()),
            text(host.machine()),
        ),
        sandbox,
        launcher: LAUNCHER.to_owned(),
        jobs: session.jobs.get(),
        commands: run.commands.clone(),
    }
}

/// Who signed the manifest of an earlier run and counts today.
pub(super) fn signed(
    workspace: &Workspace,
    envelope: &Envelope,
    signing: &Signing,
) -> Result<Signed, Failure> {
    let roles = workspace.roles()?;
    let opened = envelope.open(
        "manifest",
        "manifest",
        Role::Builder,
        &roles,
        clock::today(),
    );
    Ok(match opened {
        Ok(signed) => Signed::By(signed.names().into_iter().collect()),
        Err(EnvelopeError::Unsigned { .. }) if signing.is_empty() => {
            Signed::Nobody(signing.idle.join("; "))
        }
        Err(error) => Signed::Nobody(error.to_string()),
    })
}
