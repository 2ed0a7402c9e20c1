//! What `kiln build` signs.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8Path;
use kiln::failure::Exit;

use super::{in_days, key, roles};
use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Stop, skip};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("statements::a_build_is_signed_and_verified", signed),
        Case::new("statements::a_signer_that_fails_loses_no_build", failing),
        Case::new("statements::without_a_sandbox_nothing_is_signed", openly),
    ]
}

/// Puts a private key in the home and names it as a signer.
pub fn sign_with(made: &MadeUp, seeds: &[u8]) -> Outcome {
    let text = made.env.read("kiln.yaml")?;
    let (head, _signers) = text.split_once("signers:").unwrap_or((&text, ""));
    let mut text = format!("{head}signers:\n");
    for seed in seeds {
        let path = made.env.root().join(format!("home/{seed}.pem"));
        std::fs::write(&path, key(*seed).to_pem())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let _infallible = writeln!(text, "  - file: ~/{seed}.pem");
    }
    made.env.write("kiln.yaml", text).map(drop)
}

fn signed() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    // A signer that cannot sign is told before anything is compiled.
    roles(
        &made.env,
        &[("builder", "ci", 1, ""), ("builder", "ci", 2, "")],
    )?;
    sign_with(&made, &[3])?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Usage)?
        .warns("is not in the roles file")?;
    assert_eq!(made.runs()?.len(), 0);
    // Unsigned on purpose, and said so.
    let unsigned = made.kiln("build made --unsigned").run()?.exits(0)?;
    drop(unsigned.says("the manifest is unsigned: `--unsigned` was given")?);
    let verify = |manifest: &str| made.env.kiln(["verify", manifest]).run();
    let manifest = |stdout: &str| -> Result<String, Stop> {
        let json: serde_json::Value = serde_json::from_str(stdout)?;
        Ok(json["manifest"].as_str().unwrap_or_default().to_owned())
    };
    let ran = made
        .kiln("build made --unsigned --format json")
        .run()?
        .exits(0)?;
    assert_eq!(ran.json()?["reused"], true);
    let first = manifest(&ran.stdout)?;
    verify(&first)?
        .exits(Exit::StatementRejected)?
        .warns("is not signed")?;

    // With a signer the same inputs are built again: what was read back is not signed.
    sign_with(&made, &[1, 2])?;
    let ran = made.kiln("build made --format json").run()?.exits(0)?;
    let ran = ran.warns("built before, but not signed by a key that counts")?;
    assert_eq!(ran.json()?["reused"], false);
    assert_eq!(ran.json()?["signed_by"], serde_json::json!(["ci"]));
    let second = manifest(&ran.stdout)?;
    verify(&second)?
        .exits(0)?
        .says("signed by ci (builder, key ")?;
    let payload = |file: &str| -> Result<serde_json::Value, Stop> {
        let text = std::fs::read_to_string(file)?;
        Ok(serde_json::from_str::<serde_json::Value>(&text)?["payload"].clone())
    };
    assert_eq!(
        payload(&first)?,
        payload(&second)?,
        "two builds, one manifest"
    );

    // The third finds it; and not once the key was revoked, or the bytes are others.
    let again = || {
        made.kiln("build made --format json")
            .run()?
            .exits(0)?
            .json()
    };
    assert_eq!(again()?["reused"], true);
    let show = made.kiln("build made").run()?.exits(0)?;
    drop(show.says("\n  signed by ci")?);
    let day = in_days(0);
    roles(
        &made.env,
        &[
            ("builder", "ci", 1, ""),
            ("builder", "ci", 2, &format!(", until: {day}")),
        ],
    )?;
    assert_eq!(again()?["reused"], true);
    let text = std::fs::read_to_string(&second)?;
    let planted = text.replacen("\"sig\": \"", "\"sig\": \"A", 1);
    std::fs::write(Utf8Path::new(&second), planted)?;
    assert_eq!(again()?["reused"], false);
    Ok(())
}

/// A program that does not sign leaves no manifest; once it does, nothing is compiled again.
fn failing() -> Outcome {
    let made = MadeUp::sandboxed()?;
    if kiln::command::Tool::find("openssl").is_err() {
        return Err(skip("openssl is not installed"));
    }
    roles(&made.env, &[("builder", "ci", 1, "")])?;
    sign_with(&made, &[1])?;
    let home = made.env.root().join("home");
    let script = home.join("sign");
    let write = |text: &str| -> Outcome {
        std::fs::write(&script, format!("#!/bin/sh\n{text}\n"))?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700))?;
        Ok(())
    };
    let text = made.env.read("kiln.yaml")?;
    let public = key(1).public();
    let program = format!("command: {{run: [{script}], key: {public}}}");
    made.env
        .write("kiln.yaml", text.replace("file: ~/1.pem", &program))?;
    made.kiln("resolve made").run()?.exits(0)?;
    write("cat > /dev/null; echo the token is gone >&2; exit 1")?;
    let ran = made
        .kiln("build made")
        .run()?
        .exits(Exit::StatementRejected)?;
    drop(ran.warns("did not sign")?.warns("the token is gone")?);
    let left = made.products()?;
    assert!(
        left.iter().all(|path| !path.ends_with("manifest.json")),
        "{left:?}"
    );
    write(&format!(
        "f=$(mktemp); cat > $f; openssl pkeyutl -sign -rawin -inkey {home}/1.pem -in $f"
    ))?;
    let ran = made.kiln("build made --format json").run()?.exits(0)?;
    let ran = ran.warns("the packages of a stopped build of the same inputs are complete")?;
    let answer = ran.json()?;
    assert_eq!(answer["signed_by"], serde_json::json!(["ci"]));
    let manifest = answer["manifest"].as_str().unwrap_or_default();
    made.env.kiln(["verify", manifest]).run()?.exits(0)?;
    Ok(())
}

/// bubblewrap is hidden from kiln: what is compiled then could have read the key.
fn openly() -> Outcome {
    let made = MadeUp::sandboxed()?;
    // The user that programs run as reaches the workspace on the host's own paths.
    std::fs::set_permissions(made.env.root(), std::fs::Permissions::from_mode(0o755))?;
    roles(&made.env, &[("builder", "ci", 1, "")])?;
    sign_with(&made, &[1])?;
    made.kiln("resolve made").run()?.exits(0)?;
    let hidden = "--dev-bind / / --ro-bind /dev/null /usr/bin/bwrap --";
    let words = hidden
        .split(' ')
        .chain([crate::support::env::KILN, "build", "made"]);
    let ran = made.env.program("/usr/bin/bwrap", words).run()?.exits(0)?;
    drop(ran.says("the manifest is unsigned: no sandbox: ")?);
    // The twin is another build, since that one is signed by nobody.
    let ran = made.kiln("build made").run()?.exits(0)?;
    ran.says("\n  signed by ci")?;
    Ok(())
}
