//! Provenance: how one run came to a build, as an in-toto statement with SLSA's predicate
//! (<https://in-toto.io/Statement/v1>, <https://slsa.dev/spec/v1.0/provenance>).
//!
//! Times and the host are in it, so two runs of one build differ here and nowhere else: it is never
//! compared, and nothing is decided by it.

use serde_json::{Value, json};

use super::canonical::{self, CanonicalError};
use super::manifest::Manifest;
use super::materials::{Material, materials};
use crate::digest::Sha256;

/// The kind of envelope that provenance comes in.
pub const KIND: &str = "provenance";

/// What one run was like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// Id of the run.
    pub run: String,
    /// When it began and when it had built, RFC 3339.
    pub times: (String, String),
    /// Who builds: the holder of the key that signs, or `unsigned`.
    pub builder: String,
    /// Version of kiln.
    pub kiln: String,
    /// The host: its name, its kernel, its machine.
    pub host: (String, String, String),
    /// What kept the build apart from the host, or why nothing did.
    pub sandbox: String,
    /// What compilers were started through.
    pub launcher: String,
    /// Jobs that make ran at once.
    pub jobs: u32,
    /// The command lines that configured and built, as they are inside the sandbox.
    pub commands: Vec<String>,
}

const STATEMENT: &str = "https://in-toto.io/Statement/v1";

const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// The manifest that a statement is about; nothing where it is another kind of statement.
pub fn manifest_of(statement: &[u8]) -> Option<Sha256> {
    let statement: Value = serde_json::from_slice(statement).ok()?;
    if statement["_type"] != STATEMENT || statement["predicateType"] != PREDICATE {
        return None;
    }
    let made = statement["predicate"]["runDetails"]["byproducts"].as_array()?;
    let manifest = made.iter().find(|one| one["name"] == "manifest")?;
    manifest["digest"]["sha256"].as_str()?.parse().ok()
}

/// How many jobs make ran at once; nothing where it is another kind of statement.
pub fn jobs_of(statement: &[u8]) -> Option<u32> {
    let statement: Value = serde_json::from_slice(statement).ok()?;
    let jobs = &statement["predicate"]["buildDefinition"]["internalParameters"]["jobs"];
    u32::try_from(jobs.as_u64()?).ok()
}

/// The statement's bytes: of every package, made from what, how.
pub fn statement(manifest: &Manifest, run: &Circumstances) -> Result<Vec<u8>, CanonicalError> {
    let digest = |sha256: &Sha256| json!({ "sha256": sha256 });
    let subject = manifest
        .packages
        .iter()
        .map(|package| json!({ "name": package.file, "digest": digest(&package.sha256) }));
    let inputs = &manifest.lock.inputs;
    let materials = materials(inputs, &manifest.toolchain);
    let (host, kernel, machine) = &run.host;
    let statement = json!({
        "_type": STATEMENT,
        "subject": subject.collect::<Vec<Value>>(),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:kiln:build:v1",
                "externalParameters": {
                    "line": inputs.line,
                    "release": manifest.release,
                    "input_digest": manifest.lock.input_digest,
                },
                "internalParameters": {
                    "root": inputs.root,
                    "sandbox": run.sandbox,
                    "launcher": run.launcher,
                    "jobs": run.jobs,
                    "host": { "name": host, "kernel": kernel, "machine": machine },
                    "source_date_epoch_s": inputs.source_date_epoch,
                    "commands": run.commands,
                },
                "resolvedDependencies": materials.iter().map(descriptor).collect::<Vec<Value>>(),
            },
            "runDetails": {
                "builder": {
                    "id": format!("urn:kiln:builder:{}", run.builder),
                    "version": { "kiln": run.kiln },
                },
                "metadata": {
                    "invocationId": run.run,
                    "startedOn": run.times.0,
                    "finishedOn": run.times.1,
                },
                "byproducts": [
                    { "name": "manifest", "digest": digest(&manifest.id()?) },
                    { "name": "bill of materials", "digest": digest(&manifest.sbom) },
                    { "name": "configuration", "digest": digest(&manifest.config) },
                    { "name": "guard report", "digest": digest(&manifest.guard_report) },
                ],
            },
        },
    });
    canonical::to_vec(KIND, &statement)
}

/// A material as in-toto describes one. What is no bytes has its version as its content.
fn descriptor(material: &Material) -> Value {
    let mut descriptor = json!({ "name": material.id });
    if let Some(sha256) = &material.sha256 {
        descriptor["digest"] = json!({ "sha256": sha256 });
    }
    if let Some(purl) = &material.purl {
        descriptor["uri"] = json!(purl);
    }
    if let Some((url, _)) = &material.published {
        descriptor["downloadLocation"] = json!(url);
    }
    let mut annotations = json!({ "name": material.name });
    if let Some(version) = &material.version {
        annotations["version"] = json!(version);
    }
    if material.sha256.is_none() {
        // A descriptor must have a digest, a place or content.
        descriptor["uri"] = json!(format!("urn:kiln:{}", material.id.replace(' ', ":")));
    }
    descriptor["annotations"] = annotations;
    descriptor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::manifest::tests::manifest;

    fn run() -> Circumstances {
        Circumstances {
            run: "id".to_owned(),
            times: (
                "2026-01-01T00:00:00Z".to_owned(),
                "2026-01-01T01:00:00Z".to_owned(),
            ),
            builder: "ci".to_owned(),
            kiln: "0.1.0".to_owned(),
            host: ("h".to_owned(), "6.1.0".to_owned(), "x86_64".to_owned()),
            sandbox: "bubblewrap".to_owned(),
            launcher: "none".to_owned(),
            jobs: 2,
            commands: vec!["make bindeb-pkg".to_owned()],
        }
    }

    #[test]
    fn a_statement_names_the_manifest_and_every_material() {
        let manifest = manifest();
        let bytes = statement(&manifest, &run()).unwrap();
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        let id = manifest.id().unwrap().to_string();
        assert_eq!(
            read["predicate"]["runDetails"]["byproducts"][0]["digest"]["sha256"],
            id
        );
        assert_eq!(manifest_of(&bytes), Some(manifest.id().unwrap()));
        assert_eq!(jobs_of(&bytes), Some(run().jobs));
        assert_eq!(jobs_of(b"{}"), None);
        let text = String::from_utf8(bytes.clone()).unwrap();
        for other in [
            text.replace("provenance/v1", "provenance/v9"),
            "[]".to_owned(),
        ] {
            assert_eq!(manifest_of(other.as_bytes()), None);
        }
        let all = &read["predicate"]["buildDefinition"]["resolvedDependencies"];
        for one in all.as_array().unwrap() {
            assert!(one["digest"].is_object() || one["uri"].is_string(), "{one}");
        }
        // Another moment is another statement about the same manifest.
        let mut later = run();
        later.times.1 = "2026-01-01T02:00:00Z".to_owned();
        assert_ne!(statement(&manifest, &later).unwrap(), bytes);
    }
}
