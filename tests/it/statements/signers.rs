//! Signers: files and programs, and what they must not be.

use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8PathBuf;
use kiln::failure::{Diagnose as _, Exit};
use kiln::pipeline::sign::{SignError, Signing};
use kiln::pipeline::workspace::Workspace;
use kiln::proof::envelope::Envelope;
use kiln::proof::roles::Role;

use super::{in_days, key, roles};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("statements::a_key_file_must_be_ones_own", files),
        Case::new("statements::a_program_signs_with_openssl", program),
        Case::new("statements::a_program_that_does_not_sign", bad_programs),
        Case::new("statements::signers_that_count_for_nothing", worthless),
    ]
}

/// A key's file with this mode, by its absolute path.
fn pem(env: &Env, seed: u8, mode: u32) -> Result<Utf8PathBuf, Stop> {
    let path = env.root().join(format!("home/{seed}-{mode:o}.pem"));
    std::fs::write(&path, key(seed).to_pem())?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    Ok(path)
}

/// What signs for `role` with these signers.
fn signing(env: &Env, signers: &str, role: Role) -> Result<Result<Signing, SignError>, Stop> {
    env.write("kiln.yaml", format!("kiln: 1\nsigners:\n{signers}"))?;
    let workspace = Workspace::find(&env.workspace())?;
    Ok(Signing::open(&workspace, role, kiln::clock::today()))
}

/// The error, or a failure of the case.
fn refused(result: Result<Signing, SignError>) -> Result<SignError, Stop> {
    match result {
        Err(error) => Ok(error),
        Ok(signing) => Err(fail(format!("{signing:?} was taken"))),
    }
}

fn sign(signing: &Signing) -> Result<Envelope, SignError> {
    let mut envelope = Envelope::unsigned("manifest", b"{}");
    signing.sign(&mut envelope)?;
    Ok(envelope)
}

fn files() -> Outcome {
    let env = Env::with_workspace()?;
    roles(&env, &[("builder", "ci", 1, "")])?;
    let good = signing(
        &env,
        &format!("  - file: {}\n", pem(&env, 1, 0o600)?),
        Role::Builder,
    )??;
    assert!(sign(&good)?.is_signed());
    assert!(!format!("{good:?}").contains("PRIVATE KEY-----"));
    for mode in [0o644, 0o640, 0o604, 0o660, 0o400, 0o700, 0o4600] {
        let file = format!("  - file: {}\n", pem(&env, 1, mode)?);
        let error = refused(signing(&env, &file, Role::Builder)?)?;
        assert_eq!(
            (error.code(), error.exit()),
            ("signer-exposed", Exit::Usage),
            "{mode:o}"
        );
        assert!(
            error.to_string().contains(&format!("mode {mode:04o}")),
            "{error}"
        );
    }
    if rustix::process::geteuid().is_root() {
        let path = pem(&env, 1, 0o600)?;
        std::os::unix::fs::chown(&path, Some(65_534), None)?;
        let file = format!("  - file: {path}\n");
        let error = refused(signing(&env, &file, Role::Builder)?)?;
        assert!(error.to_string().contains("owner 65534"), "{error}");
    }
    // No key, no file, a directory, a pipe that nobody writes.
    let path = env.root().join("home/odd.pem");
    let file = format!("  - file: {path}\n");
    assert_eq!(
        refused(signing(&env, &file, Role::Builder)?)?.code(),
        "file-missing"
    );
    std::fs::write(&path, "-----BEGIN PUBLIC KEY-----\n")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    assert_eq!(
        refused(signing(&env, &file, Role::Builder)?)?.code(),
        "signer-key"
    );
    std::fs::remove_file(&path)?;
    std::fs::create_dir(&path)?;
    assert_eq!(
        refused(signing(&env, &file, Role::Builder)?)?.code(),
        "not-a-file"
    );
    std::fs::remove_dir(&path)?;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )?;
    assert_eq!(
        refused(signing(&env, &file, Role::Builder)?)?.code(),
        "not-a-file"
    );
    Ok(())
}

/// A program of the test, which is called as `kiln.yaml` says.
fn script(env: &Env, name: &str, text: &str) -> Result<Utf8PathBuf, Stop> {
    let path = env.root().join("home").join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    Ok(path)
}

fn command(path: &str, seed: u8) -> String {
    format!(
        "  - command: {{run: [{path}, one], key: {}}}\n",
        key(seed).public()
    )
}

fn program() -> Outcome {
    if kiln::command::Tool::find("openssl").is_err() {
        return Err(skip("openssl is not installed"));
    }
    let env = Env::with_workspace()?;
    roles(&env, &[("builder", "ci", 1, "")])?;
    let pem = pem(&env, 1, 0o600)?;
    let seen = env.root().join("home/seen");
    for (name, after) in [("raw", ""), ("text", " | base64 -w0; echo")] {
        let text = format!(
            "env > {seen}; echo \"$@\" >> {seen}\nf=$(mktemp); cat > $f\n\
             openssl pkeyutl -sign -rawin -inkey {pem} -in $f{after}"
        );
        let path = script(&env, name, &text)?;
        let signing = signing(&env, &command(path.as_str(), 1), Role::Builder)??;
        let envelope = sign(&signing)?;
        let roles = Workspace::find(&env.workspace())?.roles()?;
        let opened = envelope.open("m", "manifest", Role::Builder, &roles, kiln::clock::today())?;
        assert_eq!(opened.signers()[0].name, "ci", "{name}");
        // What it was given: its arguments and a clean environment.
        let seen = std::fs::read_to_string(&seen)?;
        let mut names: Vec<&str> = seen
            .lines()
            .filter_map(|l| l.split_once('='))
            .map(|l| l.0)
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "LC_ALL", "PATH", "PWD", "TZ"], "{seen}");
        assert!(
            seen.contains("HOME=/nonexistent") && seen.ends_with("\none\n"),
            "{seen}"
        );
    }
    Ok(())
}

fn bad_programs() -> Outcome {
    let env = Env::with_workspace()?;
    roles(&env, &[("builder", "ci", 1, "")])?;
    for (name, text, code, said) in [
        (
            "silent",
            "cat > /dev/null",
            "signer-answer",
            "something else",
        ),
        ("deaf", "exit 0", "signer-answer", "something else"),
        ("echo", "cat", "signer-answer", "something else"),
        (
            "zeros",
            "cat >/dev/null; head -c 64 /dev/zero",
            "signer-answer",
            "does not match",
        ),
        (
            "words",
            "cat >/dev/null; head -c 64 /dev/zero | base64 -w0",
            "signer-answer",
            "does not match",
        ),
        (
            "refusing",
            "echo no token >&2; exit 3",
            "signer-failed",
            "did not sign",
        ),
    ] {
        let path = script(&env, name, text)?;
        let signing = signing(&env, &command(path.as_str(), 1), Role::Builder)??;
        let Err(error) = sign(&signing) else {
            return Err(fail(format!("{name} was believed")));
        };
        assert_eq!(
            (error.code(), error.exit()),
            (code, Exit::StatementRejected),
            "{name}"
        );
        assert!(error.to_string().contains(said), "{name}: {error}");
    }
    for (path, code) in [
        ("/nonexistent/sign", "tool-missing"),
        ("no-such-program-here", "tool-missing"),
        ("./sign", "tool-missing"),
    ] {
        let error = refused(signing(&env, &command(path, 1), Role::Builder)?)?;
        assert_eq!(
            (error.code(), error.exit()),
            (code, Exit::MissingTools),
            "{path}"
        );
    }
    Ok(())
}

fn worthless() -> Outcome {
    let env = Env::with_workspace()?;
    let day = |days| in_days(days).to_string();
    roles(
        &env,
        &[
            ("builder", "ci", 1, ""),
            ("builder", "old", 2, &format!(", until: {}", day(0))),
            ("builder", "new", 3, &format!(", from: {}", day(1))),
            ("rebuilder", "lab", 4, ""),
            (
                "builder",
                "bad",
                5,
                ", revoked: {on: 2026-02-02, reason: it was lost somewhere}",
            ),
        ],
    )?;
    let file =
        |seed| -> Result<String, Stop> { Ok(format!("  - file: {}\n", pem(&env, seed, 0o600)?)) };
    let open = |signers: &str| signing(&env, signers, Role::Builder);
    for (seed, code) in [
        (2, "signer-expired"),
        (3, "signer-early"),
        (5, "signer-revoked"),
        (6, "signer-unknown"),
    ] {
        let error = refused(open(&file(seed)?)?)?;
        assert_eq!((error.code(), error.exit()), (code, Exit::Usage));
    }
    // Beside one that counts, those before and after their time only rest.
    let all = [file(1)?, file(2)?, file(3)?, file(4)?].concat();
    let signing = open(&all)??;
    let names: Vec<&str> = signing
        .holders()
        .map(|holder| holder.name.as_str())
        .collect();
    assert_eq!((names, signing.idle.len()), (vec!["ci"], 3));
    // A revoked or unknown one is a mistake whoever stands beside it.
    assert!(open(&[file(1)?, file(5)?].concat())?.is_err());
    // What is for another role, or for OpenPGP, leaves unsigned and says why.
    let gpg = "  - gpg-agent: 647F28654894E3BD457199BE38DBBDC86092693E\n";
    let signing = open(&format!("{}{gpg}", file(4)?))??;
    assert!(signing.is_empty() && !sign(&signing)?.is_signed());
    let why = signing.idle.join("\n");
    assert!(
        why.contains("`lab` has the role rebuilder") && why.contains("signs with OpenPGP"),
        "{why}"
    );
    Ok(())
}
