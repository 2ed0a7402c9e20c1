//! Keys: made, changed over, taken back.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use kiln::failure::Exit;
use kiln::proof::key::PrivateKey;
use kiln::spec::roles as file;

use super::{in_days, key, publish, roles, signed};
use crate::support::{Case, Env, Outcome, Stop, fail};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("statements::keys_new_keeps_the_secret", new),
        Case::new("statements::keys_new_refuses_the_repository", repository),
        Case::new("statements::keys_new_is_all_or_nothing", all_or_nothing),
        Case::new("statements::keys_made_elsewhere", elsewhere),
        Case::new("statements::a_missed_rotation_is_no_outage", rotation),
        Case::new("statements::rotations_that_cannot_be", bad_rotations),
        Case::new("statements::a_revoked_key_counts_no_more", revocation),
        Case::new("statements::lint_shows_keys_and_signers", lint),
        Case::new("statements::check_reads_the_roles", check),
    ]
}

/// All of a roles file.
fn read(env: &Env) -> Result<kiln::proof::roles::Roles, Stop> {
    Ok(file::parse("roles.yaml", &env.read("keys/roles.yaml")?)?)
}

fn new() -> Outcome {
    let env = Env::with_workspace()?;
    let ran = env
        .kiln(["keys", "new", "--role", "builder", "--name", "ci"])
        .run()?
        .exits(0)?;
    let ran = ran.says("added key ")?.says("git add keys/roles.yaml")?;
    let ran = ran.says("- file: ~/.config/kiln/keys/ci-")?;
    let roles = read(&env)?;
    let [holder] = roles.holders.as_slice() else {
        return Err(fail(format!("{roles:?}")));
    };
    assert_eq!(holder.name, "ci");
    let keys = env.root().join("home/.config/kiln/keys");
    let path = keys.join(format!("ci-{}.pem", holder.key.id().short8()));
    assert_eq!(std::fs::metadata(&path)?.mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(&keys)?.mode() & 0o7777, 0o700);
    let pem = std::fs::read_to_string(&path)?;
    assert_eq!(PrivateKey::from_pem(&pem)?.public(), holder.key);
    assert_eq!(std::fs::read_dir(&keys)?.count(), 1, "nothing else is left");
    // Neither on the terminal nor in the workspace.
    let secret = pem.lines().nth(1).unwrap_or_default();
    assert!(secret.len() > 40, "{pem}");
    drop(ran.never_says(secret)?);
    for path in env.listing()? {
        let text = std::fs::read(env.path(&path)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains(secret), "{path}");
    }
    env.kiln(["check"]).run()?.exits(0)?;
    // Two keys made the same way differ; the same holder is not made twice.
    env.kiln([
        "keys",
        "new",
        "--role",
        "node",
        "--name",
        "n1",
        "--until",
        "2099-01-01",
    ])
    .run()?
    .exits(0)?;
    let roles = read(&env)?;
    assert_ne!(roles.holders[0].key, roles.holders[1].key);
    let before = env.read("keys/roles.yaml")?;
    env.kiln(["keys", "new", "--role", "builder", "--name", "ci"])
        .run()?
        .exits(Exit::Usage)?
        .warns("has a holder `ci` already")?
        .warns("kiln keys rotate ci")?;
    env.kiln(["keys", "new", "--role", "chief", "--name", "x"])
        .run()?
        .exits(Exit::Usage)?
        .warns("`chief` is no role")?;
    env.kiln(["keys", "new", "--role", "builder", "--name", "No Name"])
        .run()?
        .exits(Exit::Usage)?
        .warns("is not a holder's name")?;
    assert_eq!(env.read("keys/roles.yaml")?, before);
    Ok(())
}

fn repository() -> Outcome {
    let env = Env::with_workspace()?;
    let make = |out: &str, name: &str| {
        let words = [
            "keys", "new", "--role", "builder", "--name", name, "--out", out,
        ];
        env.kiln(words).run()
    };
    // Without a repository the workspace is what will be committed.
    make("ci.pem", "ci")?
        .exits(Exit::Usage)?
        .warns("a private key must never be committed")?;
    assert!(!env.path("ci.pem").exists() && !env.path("keys/roles.yaml").exists());
    let git = env.program("/usr/bin/git", ["init", "--quiet", "."]).run();
    if git.and_then(|ran| ran.exits(0)).is_err() {
        return Err(crate::support::skip("git is not installed"));
    }
    make("keys/ci.pem", "ci")?
        .exits(Exit::Usage)?
        .warns("git does not ignore it")?;
    // Also through a link that leads into it.
    let link = env.root().join("home/link");
    std::os::unix::fs::symlink(env.path("keys"), &link)?;
    make(link.join("ci.pem").as_str(), "ci")?.exits(Exit::Usage)?;
    assert!(!env.path("keys/ci.pem").exists() && !env.path("keys/roles.yaml").exists());
    env.write(".gitignore", "/.kiln/\n*.pem\n")?;
    make("keys/ci.pem", "ci")?.exits(0)?;
    assert_eq!(
        std::fs::metadata(env.path("keys/ci.pem"))?.mode() & 0o777,
        0o600
    );
    // One that is there is never replaced.
    let before = env.read("keys/ci.pem")?;
    make("keys/ci.pem", "other")?.exits(Exit::Usage)?;
    assert_eq!(env.read("keys/ci.pem")?, before);
    assert_eq!(read(&env)?.holders.len(), 1);
    Ok(())
}

fn all_or_nothing() -> Outcome {
    let env = Env::with_workspace()?;
    roles(&env, &[("builder", "ci", 1, "")])?;
    let before = env.read("keys/roles.yaml")?;
    // The file can be read and not be changed: `keys` is not its last key.
    let other = format!("{}kiln: 1\n", before.replacen("kiln: 1\n", "", 1));
    env.write("keys/roles.yaml", &other)?;
    env.kiln(["keys", "rotate", "ci"])
        .run()?
        .exits(Exit::Usage)?
        .warns("keys/roles.yaml:1: cannot be changed here")?;
    assert_eq!(env.read("keys/roles.yaml")?, other);
    assert!(
        !env.root().join("home/.config").exists(),
        "no key without its row"
    );
    // The place for the private key is a file.
    env.write("keys/roles.yaml", &before)?;
    std::fs::write(env.root().join("home/.config"), "")?;
    env.kiln(["keys", "rotate", "ci"])
        .run()?
        .exits(Exit::Usage)?
        .warns(".config/kiln/keys")?;
    assert_eq!(
        env.read("keys/roles.yaml")?,
        before,
        "no row without its key"
    );
    std::fs::remove_file(env.root().join("home/.config"))?;
    // The roles file cannot be written: its directory takes nothing. Only root may do all.
    if rustix::process::geteuid().is_root() {
        let full = full_disk(&env)?;
        assert!(full.contains("No space left on device"), "{full}");
    } else {
        let keys = env.path("keys");
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o555))?;
        let ran = env.kiln(["keys", "rotate", "ci"]).run();
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o755))?;
        ran?.exits(Exit::Unexpected)?;
    }
    assert_eq!(env.read("keys/roles.yaml")?, before);
    let left = std::fs::read_dir(env.root().join("home/.config/kiln/keys"))?.count();
    assert_eq!(left, 0, "a private key of which nothing is told is left");
    Ok(())
}

/// Rotates a key while `keys/` lies on a full file system of its own; what kiln said.
fn full_disk(env: &Env) -> Result<String, Stop> {
    let keys = env.path("keys");
    let script = format!(
        "cp {keys}/roles.yaml {root}/kept && mount -t tmpfs -o size=32k none {keys} && \
         cp {root}/kept {keys}/roles.yaml && {{ cat /dev/zero > {keys}/filler 2>/dev/null; exec \"$@\"; }}",
        root = env.root()
    );
    let words = [
        "--mount",
        "/bin/sh",
        "-c",
        &script,
        "sh",
        crate::support::env::KILN,
        "keys",
        "rotate",
        "ci",
    ];
    let ran = env.program("/usr/bin/unshare", words).run()?;
    if ran.stderr.contains("mount:") || ran.stderr.contains("unshare") {
        return Err(crate::support::skip("no mount namespace can be had here"));
    }
    Ok(ran.exits(Exit::NoSpace)?.stderr)
}

fn elsewhere() -> Outcome {
    let env = Env::with_workspace()?;
    let public = key(5).public().to_string();
    let words = [
        "keys",
        "new",
        "--role",
        "rebuilder",
        "--name",
        "lab",
        "--public",
        &public,
    ];
    let ran = env
        .kiln(words)
        .arg("--format")
        .arg("json")
        .run()?
        .exits(0)?;
    let answer = ran.json()?;
    assert_eq!(answer["private"], serde_json::Value::Null);
    assert_eq!(answer["key"]["key"], public);
    assert!(!env.root().join("home/.config").exists());
    let words = [
        "keys",
        "new",
        "--role",
        "rebuilder",
        "--name",
        "other",
        "--public",
        &public,
    ];
    env.kiln(words)
        .run()?
        .exits(Exit::Usage)?
        .warns("this key stands twice")?;
    let words = [
        "keys",
        "new",
        "--role",
        "rebuilder",
        "--name",
        "x",
        "--public",
        "AAAA",
    ];
    env.kiln(words)
        .run()?
        .exits(Exit::Usage)?
        .warns("base64 of 32 bytes")?;
    Ok(())
}

/// A node that has only the roles file of before the change believes what is signed while both keys
/// count, and not what the new key alone signs; one with the new file believes both.
fn rotation() -> Outcome {
    let env = Env::with_workspace()?;
    env.kiln([
        "keys",
        "new",
        "--role",
        "builder",
        "--name",
        "ci",
        "--from",
        "2026-01-01",
    ])
    .run()?
    .exits(0)?;
    let old = env.read("keys/roles.yaml")?;
    env.write("node/roles.yaml", &old)?;
    let until = in_days(30).to_string();
    let ran = env
        .kiln(["keys", "rotate", "ci", "--until", &until])
        .run()?
        .exits(0)?;
    drop(
        ran.says(&format!("until {until}"))?
            .says("send keys/roles.yaml to everybody")?,
    );
    let new = read(&env)?;
    assert_eq!(new.holders.len(), 2);
    assert_eq!(new.holders[0].until, Some(in_days(30)));
    assert!(
        env.read("keys/roles.yaml")?.starts_with(old.trim_end()),
        "the old row stays"
    );

    let files: Vec<String> = new
        .holders
        .iter()
        .map(|holder| {
            format!(
                "  - file: ~/.config/kiln/keys/ci-{}.pem\n",
                holder.key.id().short8()
            )
        })
        .collect();
    // What is signed by the keys in these files, as `kiln build` does it.
    let sign = |files: &[String]| -> Outcome {
        env.write(
            "kiln.yaml",
            format!("kiln: 1\nsigners:\n{}", files.concat()),
        )?;
        let workspace = kiln::pipeline::workspace::Workspace::find(&env.workspace())?;
        let keys = env.root().join("home/.config/kiln/keys");
        let mut envelope = kiln::proof::envelope::Envelope::unsigned(
            "manifest",
            &super::manifest()?.to_payload()?,
        );
        let message = envelope.to_sign()?;
        for signer in &workspace.settings().signers {
            let kiln::spec::Signer::File(path) = &signer.value else {
                return Err(fail("not a file"));
            };
            let pem = std::fs::read_to_string(keys.join(path.file_name().unwrap_or_default()))?;
            let key = PrivateKey::from_pem(&pem)?;
            envelope.add(&key.public(), &key.sign(&message));
        }
        env.write("out/manifest.json", envelope.to_bytes()?)?;
        env.write("out/packages/linux-image-x.deb", super::DEB)
            .map(drop)
    };
    let verify = |roles: &str| {
        env.kiln(["verify", "out/manifest.json", "--roles", roles])
            .run()
    };
    sign(&files)?;
    let node = verify("node/roles.yaml")?.exits(0)?;
    drop(
        node.says("signed by ci (builder, key ")?
            .says("does not count: key")?,
    );
    verify("keys/roles.yaml")?.exits(0)?;
    sign(&files[..1])?;
    verify("node/roles.yaml")?.exits(0)?;
    verify("keys/roles.yaml")?
        .exits(0)?
        .says(&format!("until {until}"))?;
    sign(&files[1..])?;
    verify("node/roles.yaml")?
        .exits(Exit::StatementRejected)?
        .warns("is not in the roles file")?
        .warns("get the newer `keys/roles.yaml`")?;
    verify("keys/roles.yaml")?.exits(0)?;
    Ok(())
}

fn bad_rotations() -> Outcome {
    let env = Env::with_workspace()?;
    let day = |days| in_days(days).to_string();
    roles(
        &env,
        &[
            ("builder", "ci", 1, ""),
            ("node", "gone", 2, &format!(", until: {}", day(-1))),
            ("node", "later", 3, &format!(", from: {}", day(9))),
        ],
    )?;
    let before = env.read("keys/roles.yaml")?;
    for (words, said) in [
        (vec!["nobody"], "has no holder `nobody`"),
        (vec!["cii"], "did you mean `ci`?"),
        (vec!["gone"], "no key of `gone` counts on"),
        (vec!["later"], "and the new one shall from"),
        (vec!["ci", "--until", "2026-01-01"], "they must overlap"),
        (vec!["ci", "--from", "tomorrow"], "is no day such as"),
    ] {
        let ran = env
            .kiln(["keys", "rotate"].into_iter().chain(words))
            .run()?;
        ran.exits(Exit::Usage)?.warns(said)?;
    }
    assert_eq!(env.read("keys/roles.yaml")?, before);
    assert!(
        !env.root().join("home/.config").exists(),
        "a key was made for nothing"
    );
    Ok(())
}

fn revocation() -> Outcome {
    let env = Env::with_workspace()?;
    roles(
        &env,
        &[
            ("builder", "ci", 1, ""),
            ("builder", "ci", 2, ""),
            ("node", "n1", 3, ""),
        ],
    )?;
    let verify = || env.kiln(["verify", "out/manifest.json"]).run();
    publish(&env, &[1])?;
    verify()?.exits(0)?;
    env.kiln(["keys", "revoke", "ci", "--reason", "its disk was sold"])
        .run()?
        .exits(Exit::Usage)?
        .warns("name one by the beginning of its id")?;
    env.kiln(["keys", "revoke", "ci", "--reason", "no"])
        .run()?
        .exits(Exit::Usage)?;
    let id = key(1).public().id().to_string();
    let words = [
        "keys",
        "revoke",
        "ci",
        "--key",
        &id[..16],
        "--reason",
        "its disk",
        "was \"sold\"",
    ];
    env.kiln(words).run()?.exits(0)?.says("revoked key ")?;
    verify()?
        .exits(Exit::StatementRejected)?
        .warns("was revoked on ")?
        .warns("its disk was \"sold\"")?;
    // The other key of the same holder still counts, and the revoked one beside it harms nothing.
    publish(&env, &[1, 2])?;
    verify()?
        .exits(0)?
        .says("does not count: key `ci` was revoked")?;
    // Twice is once; then the name alone is enough for the other.
    env.kiln(words)
        .run()?
        .exits(Exit::Usage)?
        .warns("no key that begins with")?;
    env.kiln(["keys", "revoke", "ci", "--reason", "the other", "one too"])
        .run()?
        .exits(0)?;
    verify()?.exits(Exit::StatementRejected)?;
    Ok(())
}

fn lint() -> Outcome {
    let env = Env::with_workspace()?;
    let day = |days| in_days(days).to_string();
    roles(
        &env,
        &[
            ("builder", "ci", 1, ""),
            ("builder", "ci", 2, &format!(", from: {}", day(9))),
            ("node", "n1", 3, &format!(", until: {}", day(-1))),
            ("node", "n1", 4, &format!(", until: {}", day(9))),
            (
                "node",
                "n2",
                5,
                ", revoked: {on: 2026-02-02, reason: it was lost somewhere}",
            ),
        ],
    )?;
    let public = key(9).public();
    env.write(
        "kiln.yaml",
        format!(
            "kiln: 1\nsigners:\n  - file: ~/ci.pem\n  - file: ~/absent.pem\n  \
             - command: {{run: [/bin/true], key: {public}}}\n  \
             - gpg-agent: 647F28654894E3BD457199BE38DBBDC86092693E\n"
        ),
    )?;
    let pem = env.root().join("home/ci.pem");
    std::fs::write(&pem, key(1).to_pem())?;
    let lint = || env.kiln(["keys", "lint"]).run();
    lint()?.exits(Exit::Usage)?.says("has mode 0644")?;
    std::fs::set_permissions(&pem, std::fs::Permissions::from_mode(0o600))?;
    let ran = lint()?.exits(0)?;
    for text in [
        "ci (builder) counts: from 2026-01-01 on",
        "ci (builder) not yet: ",
        "n1 (node) expired: ",
        "n1 (node) ends: ",
        "n2 (node) revoked: on 2026-02-02: it was lost somewhere",
        "signer ~/ci.pem\n    signs as ci (builder): counts",
        "signer ~/absent.pem\n    cannot sign: ",
        "signer /bin/true\n    counts for nobody: ",
        "signer gpg-agent 647F28654894E3BD457199BE38DBBDC86092693E\n    signs with OpenPGP only",
    ] {
        assert!(
            ran.stdout.contains(text),
            "{text:?} is not in\n{}",
            ran.stdout
        );
    }
    let json = env
        .kiln(["keys", "lint", "--format", "json"])
        .run()?
        .exits(0)?
        .json()?;
    assert_eq!(json["keys"].as_array().map(Vec::len), Some(5));
    assert_eq!(json["keys"][4]["state"], "revoked");
    assert_eq!(json["signers"][0]["key"], key(1).public().id().to_string());
    assert!(json["signers"][1]["error"].is_string());
    assert_eq!(json["signers"][3]["key"], serde_json::Value::Null);
    Ok(())
}

fn check() -> Outcome {
    let env = Env::with_workspace()?;
    roles(&env, &[("builder", "ci", 1, ""), ("node", "n1", 2, "")])?;
    env.kiln(["check"]).run()?.exits(0)?;
    env.kiln(["check", "keys/roles.yaml"]).run()?.exits(0)?;
    env.edit("keys/roles.yaml", "name: n1", "name: ci")?;
    env.kiln(["check"]).run()?.exits(Exit::Usage)?.says(
        "keys/roles.yaml:4:12: keys.1.role: `ci` is a builder on line 3: a name has one role",
    )?;
    // A public key that is also signed with is not one that was made: nothing may read it.
    let bytes = signed("manifest", b"{}", &[1])?;
    env.write("keys/roles.yaml", bytes)?;
    env.kiln(["check"]).run()?.exits(Exit::Usage)?;
    Ok(())
}
