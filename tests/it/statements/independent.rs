//! What kiln writes, judged by programs that know nothing of it: Python with OpenSSL's ed25519, and
//! the own schema of `CycloneDX`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use camino::{Utf8Path, Utf8PathBuf};
use kiln::failure::Exit;
use serde_json::Value;

use super::built::sign_with;
use super::roles;
use crate::support::made_up::{FRAGMENT, MadeUp};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

pub fn cases() -> Vec<Case> {
    vec![Case::new(
        "statements::others_verify_what_a_build_leaves",
        others_verify,
    )]
}

/// Verifies an envelope by DSSE's and RFC 8785's texts: `envelope roles`. Prints how many keys
/// signed, and the digest of the payload.
const VERIFIER: &str = r#"
import base64, hashlib, json, sys
try:
    import yaml
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError as error:
    print(error.name)
    sys.exit(77)
envelope = json.load(open(sys.argv[1]))
keys = {}
for row in yaml.safe_load(open(sys.argv[2]))["keys"]:
    raw = base64.b64decode(row["key"], validate=True)
    keys[hashlib.sha256(raw).hexdigest()] = Ed25519PublicKey.from_public_bytes(raw)
payload = base64.b64decode(envelope["payload"], validate=True)
kind = envelope["payloadType"].encode()
signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
for signature in envelope["signatures"]:
    key = keys[signature["keyid"]]
    key.verify(base64.b64decode(signature["sig"], validate=True), signed)
form = json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
assert form.encode() == payload, "not in canonical form"
print(len(envelope["signatures"]), hashlib.sha256(payload).hexdigest())
"#;

/// Judges a document by a schema: `schema document`.
const SCHEMA: &str = r#"
import json, sys
try:
    import jsonschema
except ImportError as error:
    print(error.name)
    sys.exit(77)
schema = json.load(open(sys.argv[1]))
errors = list(jsonschema.Draft7Validator(schema).iter_errors(json.load(open(sys.argv[2]))))
for error in errors:
    print("/".join(map(str, error.absolute_path)), error.message)
sys.exit(1 if errors else 0)
"#;

/// Runs a script; its exit code and what it said.
fn python(env: &Env, script: &str, arguments: &[&Utf8Path]) -> Result<(Option<i32>, String), Stop> {
    let words = ["-c", script]
        .into_iter()
        .chain(arguments.iter().map(|a| a.as_str()));
    let ran = env
        .program("/usr/bin/python3", words)
        .run()
        .map_err(|_| skip("python3 is not installed"))?;
    if ran.code() == Some(77) {
        let module = ran.stdout.trim();
        return Err(skip(format!("python3 lacks the module {module}")));
    }
    Ok((ran.code(), format!("{}{}", ran.stdout, ran.stderr)))
}

fn payload(file: &Utf8Path) -> Result<Value, Stop> {
    let envelope: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let text = envelope["payload"].as_str().unwrap_or_default();
    Ok(serde_json::from_slice(&STANDARD.decode(text)?)?)
}

/// A signed build; where its files are, and what `kiln build` answered.
fn build(made: &MadeUp) -> Result<(Utf8PathBuf, Value), Stop> {
    let rows = [("builder", "ci", 1, ""), ("builder", "ci", 2, "")];
    roles(&made.env, &rows)?;
    sign_with(made, &[1, 2])?;
    let answer = made.built()?;
    let directory = answer["directory"].as_str().unwrap_or_default();
    Ok((Utf8PathBuf::from(directory), answer))
}

fn others_verify() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let env = &made.env;
    let (directory, answer) = build(&made)?;
    let verified = env.kiln([
        "verify",
        directory.join("manifest.json").as_str(),
        "--format",
        "json",
    ]);
    let verified = verified.run()?.exits(0)?.json()?;
    signatures(env, &directory, &verified)?;
    provenance(&directory, &verified, &answer)?;
    sbom(&made, &directory, &answer)?;
    Ok(())
}

/// Both statements are believed by the other verifier, and a changed byte by neither.
fn signatures(env: &Env, directory: &Utf8Path, verified: &Value) -> Outcome {
    let roles = env.path("keys/roles.yaml");
    for name in ["manifest.json", "provenance.json"] {
        let file = directory.join(name);
        let (code, said) = python(env, VERIFIER, &[&file, &roles])?;
        assert_eq!(code, Some(0), "{name}: {said}");
        assert!(said.starts_with("2 "), "{said}");
        if name == "manifest.json" {
            let id = verified["manifest"].as_str().unwrap_or_default();
            assert_eq!(said.trim(), format!("2 {id}"));
        }
        let text = std::fs::read_to_string(&file)?;
        let at = text.find("\"payload\": \"").unwrap_or_default() + 40;
        let other = if text.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        let planted = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        let twin = env.write("twin.json", &planted)?;
        let (code, said) = python(env, VERIFIER, &[&twin, &roles])?;
        assert_eq!(code, Some(1), "{name}: {said}");
        let manifest = directory.join("manifest.json");
        let verify = || env.kiln(["verify", manifest.as_str()]).run();
        std::fs::write(&file, planted)?;
        verify()?.exits(Exit::StatementRejected)?;
        std::fs::write(&file, text)?;
        verify()?.exits(0)?.says("how it was made: ")?;
    }
    Ok(())
}

/// The provenance is an in-toto statement about these packages, with SLSA's predicate.
fn provenance(directory: &Utf8Path, verified: &Value, answer: &Value) -> Outcome {
    let file = directory.join("provenance.json");
    let envelope: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let statement = payload(&file)?;
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let packages = answer["packages"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        statement["subject"].as_array().map(Vec::len),
        Some(packages.len())
    );
    for (subject, package) in statement["subject"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(&packages)
    {
        assert_eq!(subject["name"], package["file"]);
        assert_eq!(subject["digest"]["sha256"], package["sha256"]);
    }
    let definition = &statement["predicate"]["buildDefinition"];
    let details = &statement["predicate"]["runDetails"];
    assert!(definition["buildType"].is_string() && definition["externalParameters"].is_object());
    assert_eq!(details["builder"]["id"], "urn:kiln:builder:ci");
    assert_eq!(
        details["byproducts"][0]["digest"]["sha256"],
        verified["manifest"]
    );
    let time = |key: &str| -> Result<jiff::Timestamp, Stop> {
        let text = details["metadata"][key].as_str().unwrap_or_default();
        Ok(text.parse()?)
    };
    assert!(time("startedOn")? <= time("finishedOn")?);
    let inside = &definition["internalParameters"];
    assert_eq!(
        (&inside["launcher"], &inside["root"]),
        (&"none".into(), &"host".into())
    );
    let commands = inside["commands"].as_array().cloned().unwrap_or_default();
    let built = commands.last().and_then(Value::as_str).unwrap_or_default();
    assert!(
        built.starts_with("/usr/bin/make -C ") && built.ends_with(" bindeb-pkg"),
        "{built}"
    );
    Ok(())
}

/// The bill of materials is a good one of its kind, names every input, and is the same again.
fn sbom(made: &MadeUp, directory: &Utf8Path, answer: &Value) -> Outcome {
    let file = directory.join("sbom.json");
    let schema =
        Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cyclonedx-1.4.schema.json");
    let (code, said) = python(&made.env, SCHEMA, &[&schema, &file])?;
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(&file)?;
    for (from, to) in [
        ("\"SHA-256\"", "\"SHA256\""),
        ("\"excluded\"", "\"tool\""),
        ("\"bomFormat\"", "\"format\""),
    ] {
        assert!(text.contains(from), "{from}");
        let twin = made.env.write("twin.json", text.replacen(from, to, 1))?;
        let (code, said) = python(&made.env, SCHEMA, &[&schema, &twin])?;
        assert_eq!(code, Some(1), "{from}: {said}");
    }
    let document: Value = serde_json::from_str(&text)?;
    let find = |id: &str| -> Result<Value, Stop> {
        let mut all = document["components"].as_array().into_iter().flatten();
        all.find(|component| component["bom-ref"] == id)
            .cloned()
            .ok_or_else(|| fail(format!("{id} is not in {document:#}")))
    };
    let lock: Value = serde_json::from_str(&made.env.read("pipelines/made.lock.json")?)?;
    let source = find("source")?;
    assert_eq!(
        source["hashes"][0]["content"],
        lock["inputs"]["source"]["tar"]["sha256"]
    );
    assert_eq!(
        source["externalReferences"][0]["hashes"][0]["content"],
        lock["inputs"]["source"]["xz"]["sha256"]
    );
    let (sha256, _bytes) = kiln::files::hash(&made.env.path(FRAGMENT))?;
    assert_eq!(
        find("fragment made")?["hashes"][0]["content"],
        sha256.to_string()
    );
    assert!(
        find("tool gcc")?["version"]
            .as_str()
            .is_some_and(|v| v.contains("gcc"))
    );
    let built = &document["metadata"]["component"]["components"];
    assert_eq!(
        built.as_array().map(Vec::len),
        answer["packages"].as_array().map(Vec::len)
    );
    // Again: the same bill and manifest, another provenance.
    let again = made
        .kiln("build made --again --format json")
        .run()?
        .exits(0)?
        .json()?;
    let again = Utf8PathBuf::from(again["directory"].as_str().unwrap_or_default());
    assert_ne!(again, directory);
    for (name, same) in [
        ("sbom.json", true),
        ("manifest.json", true),
        ("provenance.json", false),
    ] {
        let bytes = |directory: &Utf8Path| std::fs::read(directory.join(name));
        assert_eq!(bytes(&again)? == bytes(directory)?, same, "{name}");
    }
    Ok(())
}
