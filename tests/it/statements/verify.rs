//! `kiln verify`: what is believed, and each reason not to.

use kiln::digest::Sha256;
use kiln::failure::Exit;
use kiln::proof::evidence::{LAUNCHER, REPRODUCED, Reproduced};

use super::{DEB, in_days, manifest, publish, roles, signed};
use crate::support::{Case, Env, Outcome, Stop, fail};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("statements::a_signed_build_is_verified", good),
        Case::new("statements::each_reason_not_to_believe_is_told", reasons),
        Case::new("statements::every_changed_byte_is_noticed", bytes),
        Case::new("statements::packages_are_looked_at", packages),
        Case::new("statements::a_manifest_must_agree_with_itself", itself),
        Case::new("statements::provenance_must_be_of_the_build", provenance),
        Case::new("statements::evidence_counts_holders", evidence),
        Case::new("statements::evidence_that_does_not_count", bad_evidence),
    ]
}

const VERIFY: [&str; 2] = ["verify", "out/manifest.json"];

fn world() -> Result<Env, Stop> {
    let env = Env::with_workspace()?;
    roles(
        &env,
        &[
            ("builder", "ci", 1, ""),
            ("rebuilder", "lab", 2, ""),
            ("rebuilder", "other", 3, ""),
            ("rebuilder", "lab", 4, ""),
            ("builder", "old", 5, ", until: 2026-01-02"),
            ("builder", "late", 6, &format!(", from: {}", in_days(2))),
            (
                "builder",
                "bad",
                7,
                ", revoked: {on: 2026-02-02, reason: it was lost somewhere}",
            ),
        ],
    )?;
    Ok(env)
}

fn good() -> Outcome {
    let env = world()?;
    let manifest = publish(&env, &[1])?;
    let id = manifest.id()?.to_string();
    let ran = env.kiln(VERIFY).run()?.exits(0)?;
    let ran = ran.says(&format!(
        "verified {}\n  manifest {id}\n  signed by ci (builder, key ",
        manifest.release
    ))?;
    let ran = ran.says("1 packages in out/packages are the ones it names")?;
    let ran = ran.says("not proven: nobody else got the same bytes")?;
    assert_eq!(ran.stderr, "");
    let json = env
        .kiln(VERIFY)
        .arg("--format")
        .arg("json")
        .run()?
        .exits(0)?
        .json()?;
    assert_eq!(
        (&json["manifest"], &json["signers"][0]["name"]),
        (&id.into(), &"ci".into())
    );
    // From elsewhere, with everything named; a workspace is not needed.
    let at = env.workspace();
    env.kiln(["verify", "m.json", "--dir", "p", "--roles", "r.yaml"])
        .in_dir({
            let there = env.root().join("home");
            std::fs::copy(at.join("out/manifest.json"), there.join("m.json"))?;
            std::fs::copy(at.join("keys/roles.yaml"), there.join("r.yaml"))?;
            std::fs::create_dir(there.join("p"))?;
            std::fs::write(there.join("p/linux-image-x.deb"), DEB)?;
            there
        })
        .run()?
        .exits(0)?;
    env.kiln(["verify", "m.json", "--dir", "p"])
        .in_dir(env.root().join("home"))
        .run()?
        .exits(Exit::Usage)?
        .warns("--roles FILE")?;
    Ok(())
}

fn reasons() -> Outcome {
    let env = world()?;
    for (seeds, code, said) in [
        (&[][..], "unsigned", "is not signed: nobody vouches for it"),
        (
            &[2],
            "signer-role",
            "key `lab` has the role rebuilder, not builder",
        ),
        (&[5], "signer-expired", "key `old` counted until 2026-01-02"),
        (&[6], "signer-early", "key `late` counts from "),
        (
            &[7],
            "signer-revoked",
            "key `bad` was revoked on 2026-02-02: it was lost somewhere",
        ),
        (&[9], "signer-unknown", "is not in the roles file"),
        (&[5, 9], "signer-unfit", "counted until 2026-01-02; key "),
    ] {
        publish(&env, seeds)?;
        let ran = env.kiln(VERIFY).arg("--format").arg("json").run()?;
        let error = ran.exits(Exit::StatementRejected)?.json()?["error"].clone();
        let message = error["message"].as_str().unwrap_or_default();
        assert_eq!(error["code"], code, "{message}");
        assert!(message.contains(said), "{message}");
        assert_ne!(error["hints"].as_array().map(Vec::len), Some(0), "{code}");
    }
    // Another kind of document, a newer one, and one that is none.
    let payload = String::from_utf8(manifest()?.to_payload()?).map_err(|e| fail(e.to_string()))?;
    let newer = payload.replacen("kiln.manifest/1", "kiln.manifest/2", 1);
    let field = payload.replacen("{\"body\":{", "{\"body\":{\"added\":1,", 1);
    let blank = payload.replacen("{\"body", "{ \"body", 1);
    for (kind, payload, code) in [
        ("approved", &payload, "envelope-type"),
        ("manifest", &newer, "document-schema"),
        ("manifest", &field, "document-shape"),
        ("manifest", &blank, "document-form"),
    ] {
        env.write("out/manifest.json", signed(kind, payload.as_bytes(), &[1])?)?;
        let ran = env.kiln(VERIFY).arg("--format").arg("json").run()?;
        let error = ran.exits(Exit::StatementRejected)?.json()?["error"].clone();
        assert_eq!(error["code"], code, "{error}");
    }
    for text in ["", "{}", "[", "null", "\u{0}"] {
        env.write("out/manifest.json", text)?;
        env.kiln(VERIFY).run()?.exits(Exit::StatementRejected)?;
    }
    env.kiln(["verify", "out/absent.json"])
        .run()?
        .exits(Exit::Usage)?;
    Ok(())
}

/// The library, since a program for each byte takes minutes; the program for some.
fn bytes() -> Outcome {
    let env = world()?;
    publish(&env, &[1])?;
    let good = std::fs::read(env.path("out/manifest.json"))?;
    let roles = kiln::spec::roles::parse("r", &env.read("keys/roles.yaml")?)?;
    let path = env.path("out/manifest.json");
    let judged = || {
        kiln::pipeline::verify::verify(&kiln::pipeline::verify::Question {
            manifest: &path,
            packages: None,
            evidence: &[],
            roles: &roles,
            today: kiln::clock::today(),
        })
    };
    judged().map_err(|failure| fail(failure.message))?;
    let mut refused = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bad)?;
        match judged() {
            Ok(_) if good[at].is_ascii_whitespace() => {}
            Ok(_) => return Err(fail(format!("byte {at} does not matter"))),
            Err(failure) => {
                refused += 1;
                let known = [Exit::StatementRejected, Exit::Usage].contains(&failure.exit);
                assert!(known, "byte {at}: {failure:?}");
            }
        }
    }
    assert!(refused > good.len() / 2, "{refused} of {}", good.len());
    // Cut off anywhere.
    for at in (0..good.len() - 2).step_by(97) {
        std::fs::write(&path, &good[..at])?;
        assert!(judged().is_err(), "cut at {at}");
    }
    Ok(())
}

fn packages() -> Outcome {
    let env = world()?;
    publish(&env, &[1])?;
    env.write("out/packages/other.deb", b"x")?;
    env.kiln(VERIFY)
        .run()?
        .exits(0)?
        .says("`other.deb` lies beside the packages and is none of them")?;
    for at in 0..DEB.len() {
        let mut bad = DEB.to_vec();
        bad[at] ^= 1;
        env.write("out/packages/linux-image-x.deb", &bad)?;
        env.kiln(VERIFY)
            .run()?
            .exits(Exit::NotVerified)?
            .warns("is not the package that was built")?
            .warns("do not install it")?;
    }
    env.write("out/packages/linux-image-x.deb", &DEB[1..])?;
    env.kiln(VERIFY)
        .run()?
        .exits(Exit::NotVerified)?
        .warns("it has 8 bytes")?;
    std::fs::remove_file(env.path("out/packages/linux-image-x.deb"))?;
    env.kiln(VERIFY)
        .run()?
        .exits(Exit::NotVerified)?
        .warns("name their directory with `--dir`")?;
    // So is the bill of materials, where it is.
    env.write("out/packages/linux-image-x.deb", DEB)?;
    env.write("out/sbom.json", b"[]")?;
    let ran = env.kiln(VERIFY).run()?.exits(Exit::NotVerified)?;
    drop(ran.warns("is not the bill of materials of this build")?);
    std::fs::remove_file(env.path("out/sbom.json"))?;
    env.kiln(VERIFY)
        .run()?
        .exits(0)?
        .says("not proven: no bill of materials lies beside")?;
    // Beside the manifest they are found too.
    std::fs::remove_dir_all(env.path("out/packages"))?;
    env.write("out/linux-image-x.deb", DEB)?;
    env.kiln(VERIFY)
        .run()?
        .exits(0)?
        .says("1 packages in out are")?;
    Ok(())
}

fn itself() -> Outcome {
    let env = world()?;
    let mut other = manifest()?;
    other.lock.build += 1;
    let mut edited = manifest()?;
    "elsewhere".clone_into(&mut edited.lock.inputs.arch);
    let mut outside = manifest()?;
    "../../keys/roles.yaml".clone_into(&mut outside.packages[0].file);
    let mut hidden = manifest()?;
    ".x.deb".clone_into(&mut hidden.packages[0].file);
    for (bad, code) in [
        (other, "manifest-release"),
        (edited, "lock-edited"),
        (outside, "manifest-name"),
        (hidden, "manifest-name"),
    ] {
        env.write(
            "out/manifest.json",
            signed("manifest", &bad.to_payload()?, &[1])?,
        )?;
        let ran = env.kiln(VERIFY).arg("--format").arg("json").run()?;
        let error = ran.exits(Exit::StatementRejected)?.json()?["error"].clone();
        assert_eq!(error["code"], code, "{error}");
    }
    Ok(())
}

/// What lies beside the manifest as its provenance is signed by a builder, and of this build.
fn provenance() -> Outcome {
    let env = world()?;
    let id = publish(&env, &[1])?.id()?;
    let statement = |id: &Sha256, predicate: &str| {
        format!(
            "{{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicate\":{{\"runDetails\":\
             {{\"byproducts\":[{{\"digest\":{{\"sha256\":\"{id}\"}},\"name\":\"manifest\"}}]}}}},\
             \"predicateType\":\"{predicate}\"}}"
        )
    };
    let slsa = "https://slsa.dev/provenance/v1";
    let other = Sha256::of(b"other");
    for (kind, payload, seed, code) in [
        ("provenance", statement(&id, slsa), 1, ""),
        ("provenance", statement(&other, slsa), 1, "provenance-other"),
        ("provenance", statement(&id, "urn:x"), 1, "provenance-other"),
        ("provenance", "{}".to_owned(), 1, "provenance-other"),
        ("provenance", statement(&id, slsa), 2, "signer-role"),
        ("manifest", statement(&id, slsa), 1, "envelope-type"),
    ] {
        env.write(
            "out/provenance.json",
            signed(kind, payload.as_bytes(), &[seed])?,
        )?;
        let ran = env.kiln(VERIFY).arg("--format").arg("json").run()?;
        if code.is_empty() {
            assert_eq!(ran.exits(0)?.json()?["provenance"], "out/provenance.json");
        } else {
            let error = ran.exits(Exit::StatementRejected)?.json()?["error"].clone();
            assert_eq!(error["code"], code, "{error}");
        }
    }
    Ok(())
}

/// A statement that `rebuilder` got a manifest's bytes, signed by keys.
fn reproduced(
    manifest: &Sha256,
    rebuilder: &str,
    launcher: &str,
    seeds: &[u8],
) -> Result<Vec<u8>, Stop> {
    let statement = Reproduced {
        rebuilder: rebuilder.to_owned(),
        launcher: launcher.to_owned(),
        conditions: [("umask".to_owned(), "0077".to_owned())].into(),
    };
    let payload = statement.to_payload(manifest, kiln::clock::now())?;
    signed(REPRODUCED, &payload, seeds)
}

fn evidence() -> Outcome {
    let env = world()?;
    let id = publish(&env, &[1])?.id()?;
    env.write("e/lab.json", reproduced(&id, "lab", LAUNCHER, &[2])?)?;
    env.write("e/again.json", reproduced(&id, "lab", LAUNCHER, &[4])?)?;
    env.write("e/both.json", reproduced(&id, "lab", LAUNCHER, &[2, 4])?)?;
    env.write("e/other.json", reproduced(&id, "other", LAUNCHER, &[3, 9])?)?;
    let count = |files: &[&str]| -> Result<usize, Stop> {
        let words = VERIFY
            .iter()
            .chain(&["--format", "json", "--evidence"])
            .chain(files);
        let ran = env.kiln(words.copied()).run()?.exits(0)?;
        Ok(ran.json()?["reproduced_by"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(count(&["e/lab.json"])?, 1);
    assert_eq!(count(&["e/lab.json", "e/other.json"])?, 2);
    // Neither a second statement nor a second key makes a holder two.
    assert_eq!(
        count(&["e/lab.json", "e/lab.json", "e/again.json", "e/both.json"])?,
        1
    );
    let words = VERIFY
        .iter()
        .chain(&["--evidence", "e/lab.json", "e/other.json"]);
    let ran = env.kiln(words.copied()).run()?.exits(0)?;
    ran.says("reproduced by 2: lab, other")?
        .never_says("nobody else")?;
    Ok(())
}

fn bad_evidence() -> Outcome {
    let env = world()?;
    let id = publish(&env, &[1])?.id()?;
    let other = Sha256::of(b"other");
    let unsigned = reproduced(&id, "lab", LAUNCHER, &[])?;
    let manifest = std::fs::read(env.path("out/manifest.json"))?;
    for (bytes, code) in [
        (reproduced(&id, "ci", LAUNCHER, &[1])?, "signer-role"),
        (reproduced(&id, "ci", LAUNCHER, &[2])?, "evidence-signer"),
        (reproduced(&id, "other", LAUNCHER, &[2])?, "evidence-signer"),
        (reproduced(&id, "lab", "ccache", &[2])?, "evidence-launcher"),
        (
            reproduced(&other, "lab", LAUNCHER, &[2])?,
            "evidence-subject",
        ),
        (unsigned, "unsigned"),
        (manifest, "envelope-type"),
        (b"{}".to_vec(), "document-shape"),
    ] {
        env.write("e.json", bytes)?;
        let words = ["--evidence", "e.json", "--format", "json"];
        let ran = env.kiln(VERIFY.into_iter().chain(words)).run()?;
        let error = ran.exits(Exit::StatementRejected)?.json()?["error"].clone();
        assert_eq!(error["code"], code, "{error}");
    }
    Ok(())
}
