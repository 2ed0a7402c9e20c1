//! `kiln keys refresh` as its user meets it: newer copies of pinned certificates, and nothing else.

use kiln::failure::Exit;

use crate::support::env::Env;
use crate::support::keys::{Hash, Revoked, SIGNED, TestKey};
use crate::support::{Case, Outcome, Stop};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("refresh::takes_newer_self_signatures", takes_newer),
        Case::new("refresh::never_another_key", never_another_key),
        Case::new("refresh::subkeys_only_when_asked_for", subkeys),
        Case::new("refresh::one_bad_file_stops_all", one_bad_file),
        Case::new("refresh::a_dry_run_and_offline", dry_and_offline),
    ]
}

/// A workspace whose `lts` pipeline pins a key of ours.
struct Pinned {
    env: Env,
    key: TestKey,
    /// Its file.
    file: String,
}

impl Pinned {
    fn new() -> Result<Self, Stop> {
        let env = Env::with_workspace()?;
        let key = TestKey::build()
            .self_signature(
                sequoia_openpgp::types::SignatureType::PositiveCertification,
                Hash::SHA1,
            )
            .make();
        let pin = key.fingerprint();
        env.edit(
            "pipelines/lts.yaml",
            "647F28654894E3BD457199BE38DBBDC86092693E   # Greg Kroah-Hartman",
            &pin,
        )?;
        let file = format!("keys/{pin}.asc");
        env.write(&file, key.armored_cert())?;
        Ok(Self { env, key, file })
    }
}

fn takes_newer() -> Outcome {
    let Pinned { env, key, file } = Pinned::new()?;
    let pin = key.fingerprint();
    let lint = || env.kiln(["keys", "lint"]).run()?.exits(0);
    let state = |text: &str| {
        let after = text.split(&pin).nth(1).unwrap_or_default().to_owned();
        after.lines().nth(2).unwrap_or_default().to_owned()
    };
    let before = state(&lint()?.stdout);
    assert!(before.contains("stock: rejected"), "{before}");
    env.write(
        "newer.asc",
        key.certify_again(Hash::SHA512, SIGNED).armored_cert(),
    )?;
    let done = env
        .kiln(["keys", "refresh", "newer.asc", "--format", "json"])
        .run()?
        .exits(0)?
        .json()?;
    assert!(done.to_string().contains("self-signature"), "{done}");
    let after = state(&lint()?.stdout);
    assert!(after.contains("stock: signs"), "{after}");
    // A second time there is nothing new, and the file stays as it is.
    let kept = env.read(&file)?;
    env.kiln(["keys", "refresh", "newer.asc"]).run()?.exits(0)?;
    assert_eq!(env.read(&file)?, kept);
    // A revocation is taken too, and counts.
    env.write(
        "revoked.asc",
        key.revoke(Revoked::Hard, SIGNED).armored_cert(),
    )?;
    env.kiln(["keys", "refresh", "revoked.asc"])
        .run()?
        .exits(0)?;
    let revoked = env.kiln(["keys", "lint"]).run()?;
    assert!(
        state(&revoked.stdout).contains("revoked"),
        "{}",
        revoked.stdout
    );
    Ok(())
}

fn never_another_key() -> Outcome {
    let Pinned { env, file, .. } = Pinned::new()?;
    let (kept, listing) = (env.read(&file)?, env.listing()?);
    let stranger = TestKey::new();
    let brought = env.root().join("stranger.asc");
    std::fs::write(&brought, stranger.armored_cert())?;
    env.kiln(["keys", "refresh", brought.as_str()])
        .run()?
        .exits(Exit::NotVerified)?
        .warns("no pinned certificate")?
        .warns(&stranger.fingerprint())?
        .warns("a refresh never adds a key")?;
    // Somebody's secrets have no business in `keys/`.
    std::fs::write(&brought, stranger.armored_secret())?;
    env.kiln(["keys", "refresh", brought.as_str()])
        .run()?
        .exits(Exit::Usage)?;
    for nonsense in [
        "",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n",
        "\u{0}\u{1}junk",
    ] {
        std::fs::write(&brought, nonsense)?;
        env.kiln(["keys", "refresh", brought.as_str()])
            .run()?
            .exits(Exit::Usage)?;
    }
    assert_eq!((env.read(&file)?, env.listing()?), (kept, listing));
    Ok(())
}

fn subkeys() -> Outcome {
    let Pinned { env, key, file } = Pinned::new()?;
    let kept = env.read(&file)?;
    let more = key.add_signing_subkey(Hash::SHA512, Hash::SHA512);
    env.write("more.asc", more.armored_cert())?;
    env.kiln(["keys", "refresh", "more.asc"])
        .run()?
        .exits(0)?
        .says("--allow-subkey")?;
    assert_eq!(env.read(&file)?, kept);
    env.kiln(["keys", "refresh", "more.asc", "--allow-subkey"])
        .run()?
        .exits(0)?;
    assert_ne!(env.read(&file)?, kept);
    env.kiln(["keys", "lint"]).run()?.says("    subkey ")?;
    Ok(())
}

fn one_bad_file() -> Outcome {
    let Pinned { env, key, file } = Pinned::new()?;
    let kept = env.read(&file)?;
    env.write(
        "newer.asc",
        key.certify_again(Hash::SHA512, SIGNED).armored_cert(),
    )?;
    env.write("stranger.asc", TestKey::new().armored_cert())?;
    env.kiln(["keys", "refresh", "newer.asc", "stranger.asc"])
        .run()?
        .exits(Exit::NotVerified)?
        .warns("stranger.asc")?;
    assert_eq!(env.read(&file)?, kept, "the first was written all the same");
    Ok(())
}

fn dry_and_offline() -> Outcome {
    let Pinned { env, key, file } = Pinned::new()?;
    let kept = env.read(&file)?;
    env.write(
        "newer.asc",
        key.certify_again(Hash::SHA512, SIGNED).armored_cert(),
    )?;
    env.kiln(["keys", "refresh", "newer.asc", "--dry-run"])
        .run()?
        .exits(0)?
        .says(&key.fingerprint())?;
    assert_eq!(env.read(&file)?, kept);
    env.kiln([
        "keys",
        "refresh",
        "--wkd",
        "someone@example.org",
        "--offline",
    ])
    .run()?
    .exits(Exit::Usage)?
    .warns("--offline forbids")?;
    for word in ["nobody", "@", "a@b@c", "a@../x"] {
        env.kiln(["keys", "refresh", "--wkd", word])
            .run()?
            .exits(Exit::Usage)?
            .warns("is not a mail address")?;
    }
    Ok(())
}
