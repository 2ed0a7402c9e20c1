//! The statements of a build: its manifest, signed where a signer is configured.

use camino::Utf8Path;

use super::sign::Signing;
use super::workspace::Workspace;
use crate::clock;
use crate::failure::Failure;
use crate::files;
use crate::proof::envelope::{Envelope, EnvelopeError};
use crate::proof::manifest::Manifest;
use crate::proof::roles::Role;

/// Who vouches for a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// These builders, by name.
    By(Vec<String>),
    /// Nobody, for this reason.
    Nobody(String),
}

/// What signs the manifest of a build.
pub(super) fn signing(workspace: &Workspace, unsigned: bool) -> Result<Signing, Failure> {
    if unsigned {
        return Ok(Signing::none("`--unsigned` was given"));
    }
    Ok(Signing::open(workspace, Role::Builder, clock::today())?)
}

/// Writes a manifest in its envelope, with every signature that can be had.
pub(super) fn write_manifest(
    path: &Utf8Path,
    manifest: &Manifest,
    signing: &Signing,
) -> Result<Signed, Failure> {
    let mut envelope = Envelope::unsigned("manifest", &manifest.to_payload()?);
    signing.sign(&mut envelope)?;
    files::write(path, &envelope.to_bytes()?)?;
    let mut names: Vec<String> = signing
        .holders()
        .map(|holder| holder.name.clone())
        .collect();
    names.dedup();
    if names.is_empty() {
        return Ok(Signed::Nobody(signing.idle.join("; ")));
    }
    Ok(Signed::By(names))
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
