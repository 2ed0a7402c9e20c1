//! The bill of materials of a build: `CycloneDX` 1.4 in JSON (<https://cyclonedx.org/docs/1.4/json/>).
//!
//! The same build gives the same bytes: no time and no random number is in it, which the format
//! allows, so its digest can stand in the manifest.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::canonical::{self, CanonicalError};
use super::lock::Lock;
use super::manifest::Package;
use super::materials::{Material, Part, materials};
use crate::digest::Sha256;

/// How the build itself is called among its materials.
const BUILD: &str = "build";

/// The document: what was built, from what, with which tools.
pub fn document(
    lock: &Lock,
    packages: &[Package],
    config: &Sha256,
    toolchain: &BTreeMap<String, String>,
) -> Result<Vec<u8>, CanonicalError> {
    let materials = materials(&lock.inputs, toolchain);
    let refs = materials.iter().map(|material| material.id.as_str());
    let built = packages.iter().map(|package| {
        json!({
            "type": "file",
            "bom-ref": format!("package {}", package.file),
            "name": package.file,
            "version": package.version,
            "hashes": hashes(&package.sha256),
        })
    });
    let built: Vec<Value> = built.collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.4",
        "version": 1,
        "metadata": {
            "component": {
                "type": "operating-system",
                "bom-ref": BUILD,
                "name": "linux",
                "version": lock.release(),
                "components": built,
            },
            "properties": [
                property("kiln:input-digest", &lock.input_digest.to_string()),
                property("kiln:configuration-sha256", &config.to_string()),
            ],
        },
        "components": materials.iter().map(component).collect::<Vec<Value>>(),
        "dependencies": [{ "ref": BUILD, "dependsOn": refs.collect::<Vec<&str>>() }],
    });
    canonical::to_pretty("bill of materials", &document)
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

fn hashes(sha256: &Sha256) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

fn component(material: &Material) -> Value {
    let (kind, scope) = match material.part {
        Part::Source if material.purl.is_some() => ("operating-system", "required"),
        Part::Source | Part::Configuration => ("file", "required"),
        // Not in what was built.
        Part::Tool => ("application", "excluded"),
    };
    let mut component = json!({
        "type": kind,
        "bom-ref": material.id,
        "name": material.name,
        "scope": scope,
    });
    if let Some(version) = &material.version {
        component["version"] = json!(version);
    }
    if let Some(sha256) = &material.sha256 {
        component["hashes"] = hashes(sha256);
    }
    if let Some(purl) = &material.purl {
        component["purl"] = json!(purl);
    }
    if let Some((url, sha256)) = &material.published {
        let place = json!({ "type": "distribution", "url": url, "hashes": hashes(sha256) });
        component["externalReferences"] = json!([place]);
    }
    if material.part == Part::Source {
        component["licenses"] = json!([{ "expression": "GPL-2.0-only WITH Linux-syscall-note" }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::lock::tests::inputs;

    #[test]
    fn the_same_build_gives_the_same_bytes_and_another_does_not() {
        let lock = Lock::new(inputs(), None).unwrap();
        let config = Sha256::of(b"config");
        let gcc = |version: &str| BTreeMap::from([("gcc".to_owned(), version.to_owned())]);
        let made = |lock, version| document(lock, &[], &config, &gcc(version)).unwrap();
        assert_eq!(made(&lock, "12.2.0"), made(&lock, "12.2.0"));
        assert_ne!(made(&lock, "12.2.0"), made(&lock, "12.2.1"));
        let text = String::from_utf8(made(&lock, "12.2.0")).unwrap();
        for word in ["timestamp", "serialNumber"] {
            assert!(!text.contains(word), "{word}");
        }
        let read: Value = serde_json::from_str(&text).unwrap();
        let depends = read["dependencies"][0]["dependsOn"].as_array().unwrap();
        assert_eq!(depends.len(), read["components"].as_array().unwrap().len());
    }
}
