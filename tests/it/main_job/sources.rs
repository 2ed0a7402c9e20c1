//! What releases do between two builds: newer ones, older ones, the same one signed anew, none.

use kiln::failure::Exit;

use crate::support::keys::{Hash, SIGNED, TestKey, Use};
use crate::support::made_up::MadeUp;
use crate::support::mirror::Content;
use crate::support::release::checksums;
use crate::support::{Case, Outcome, Ran, Stop, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::a_newer_release_is_a_change", newer),
        Case::new("main_job::never_backwards_by_itself", never_backwards),
        Case::new("main_job::an_ended_series_is_told", ended_series),
        Case::new("main_job::signed_anew_shows_as_a_change", signed_anew),
        Case::new("main_job::no_longer_served", no_longer_served),
        Case::new("main_job::an_old_lock_still_builds", old_lock),
        Case::new("main_job::without_a_network", without_a_network),
        Case::new("main_job::offline_asks_nobody", offline),
    ]
}

fn newer() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.publish("6.18.41");
    made.offer(&["7.2.1", "6.18.41", "6.12.99"]);
    let lock = made.env.read("pipelines/made.lock.json")?;
    made.kiln("resolve made --dry-run")
        .run()?
        .exits(0)?
        .says("would write")?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    made.kiln("resolve made")
        .run()?
        .exits(0)?
        .says("changed: release 6.18.40 -> 6.18.41")?;
    // Announced is not published: nothing is taken, nothing is written.
    let lock = made.env.read("pipelines/made.lock.json")?;
    made.offer(&["6.18.42"]);
    made.kiln("resolve made").run()?.exits(Exit::NotPublished)?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    Ok(())
}

fn never_backwards() -> Outcome {
    let made = MadeUp::new()?;
    made.publish("6.18.39");
    made.kiln("resolve made").run()?.exits(0)?;
    let lock = made.env.read("pipelines/made.lock.json")?;
    made.offer(&["6.18.39"]);
    made.kiln("resolve made")
        .run()?
        .exits(Exit::NotVerified)?
        .warns("--allow-downgrade")?;
    made.kiln("resolve made --version 6.18.39")
        .run()?
        .exits(Exit::NotVerified)?;
    assert_eq!(made.env.read("pipelines/made.lock.json")?, lock);
    made.kiln("resolve made --allow-downgrade")
        .run()?
        .exits(0)?
        .says("changed: release 6.18.40 -> 6.18.39")?;
    Ok(())
}

fn ended_series() -> Outcome {
    let made = MadeUp::new()?;
    let list = crate::support::release::releases_json(&["6.18.40"]);
    let ended = list.replace("\"iseol\": false", "\"iseol\": true");
    made.mirror.put("releases.json", Content::bytes(ended));
    let ran = made.kiln("resolve made --format json").run()?.exits(0)?;
    let ran = ran.warns("6.18 has reached its end of life")?;
    assert_eq!(ran.json()?["end_of_life"], true);
    made.offer(&["6.18.40"]);
    let ran = made.kiln("resolve made --format json").run()?.exits(0)?;
    let ran = ran.never_says("end of life")?;
    assert_eq!(ran.json()?["end_of_life"], false);
    // A version that was asked for by its number is of the same series.
    let named = "resolve made --version 6.18.40 --format json";
    let ran = made
        .kiln(named)
        .run()?
        .exits(0)?
        .never_says("end of life")?;
    assert_eq!(ran.json()?["end_of_life"], false);
    made.mirror.put(
        "releases.json",
        Content::bytes(list.replace("\"iseol\": false", "\"iseol\": true")),
    );
    let ran = made.kiln(named).run()?.exits(0)?;
    let ran = ran.warns("6.18 has reached its end of life")?;
    assert_eq!(ran.json()?["end_of_life"], true);
    // A list that cannot be had does not keep a release from being taken.
    made.mirror.remove("releases.json");
    let ran = made.kiln(named).run()?.exits(0)?;
    ran.warns("whether 6.18 has reached its end of life is not known")?;
    Ok(())
}

fn signed_anew() -> Outcome {
    let made = MadeUp::new()?;
    let mut release = made.publish("6.18.40");
    made.kiln("resolve made").run()?.exits(0)?;
    let how = Use {
        hash: Hash::SHA256,
        at: SIGNED + 1000,
    };
    release.sign = made.key.sign_detached_as(&release.tar[..], how);
    release.publish(&made.mirror);
    // The store has the locked signature: that is the one that counts.
    made.kiln("fetch made")
        .run()?
        .exits(0)?
        .never_says("signed anew")?;
    std::fs::remove_dir_all(made.env.path(".kiln/store"))?;
    made.kiln("fetch made")
        .run()?
        .exits(0)?
        .warns("the release was signed anew")?;
    made.kiln("resolve made")
        .run()?
        .exits(0)?
        .says("changed: signature of the release")?;
    Ok(())
}

/// It was there when it was locked. That it is gone is another matter than not being there yet.
fn no_longer_served() -> Outcome {
    let made = MadeUp::new()?;
    let release = made.publish("6.18.40");
    made.kiln("resolve made").run()?.exits(0)?;
    std::fs::remove_dir_all(made.env.path(".kiln/store"))?;
    made.mirror.remove(&release.xz_path());
    made.mirror.remove(&release.sign_path());
    let ran = made.kiln("fetch made --format json").run()?;
    let ran = ran.exits(Exit::NotPublished)?;
    let error = ran.json()?["error"].clone();
    assert_eq!(error["code"], "version-not-served", "{error}");
    let text = error.to_string();
    assert!(
        text.contains("linux-6.18.40") && text.contains("run `kiln resolve made` to lock"),
        "{text}"
    );
    // Only the archive is gone.
    made.mirror
        .put(&release.sign_path(), Content::bytes(release.sign.clone()));
    let ran = made.kiln("build made --format json").run()?;
    let ran = ran.exits(Exit::NotPublished)?;
    assert_eq!(ran.json()?["error"]["code"], "version-not-served");
    // What was never there is not "no longer" served.
    made.offer(&["6.18.41"]);
    let ran = made.kiln("resolve made --format json").run()?;
    let ran = ran.exits(Exit::NotPublished)?;
    assert_eq!(ran.json()?["error"]["code"], "not-published");
    Ok(())
}

/// `--offline` holds for every file, whatever of a release is missing from the store.
fn offline() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let release = made.publish("6.18.40");
    let lister = TestKey::new();
    let pin = lister.fingerprint();
    made.env
        .write(&format!("keys/{pin}.asc"), lister.armored_cert())?;
    made.env.edit(
        "pipelines/made.yaml",
        "checksums: []",
        &format!("checksums: [{pin}]"),
    )?;
    let list = "v6.x/sha256sums.asc";
    made.mirror
        .put(list, Content::bytes(checksums(&[&release], &lister)));
    made.kiln("resolve made").run()?.exits(0)?;
    let lock: serde_json::Value =
        serde_json::from_str(&made.env.read("pipelines/made.lock.json")?)?;
    let object = |part: &str| -> Result<String, Stop> {
        let digest = &lock["inputs"]["source"][part]["sha256"];
        let digest = digest
            .as_str()
            .ok_or_else(|| fail(format!("no {part} in {lock}")))?;
        Ok(format!(".kiln/store/sha256/{}/{digest}", &digest[..2]))
    };
    let asked = made.mirror.log().len();
    let nobody = |made: &MadeUp, what: &str| {
        let log = made.mirror.log();
        assert_eq!(log.len(), asked, "{what}: {:?}", log.last());
    };
    let to = made.env.root().join("usb");
    let export = |made: &MadeUp| {
        made.kiln("fetch made --offline --format json --to")
            .arg(to.as_str())
    };
    // What is in the store is enough, and the list of checksums is done without.
    made.kiln("fetch made --offline").run()?.exits(0)?;
    export(&made)
        .run()?
        .exits(0)?
        .warns("gets no list of checksums")?;
    nobody(&made, "with all of it");
    let refused = |ran: Ran, file: &str| -> Outcome {
        let ran = ran.exits(Exit::Network)?;
        let error = ran.json()?["error"].clone();
        assert_eq!(error["code"], "offline", "{error}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(file), "{error}");
        Ok(())
    };
    // The archive goes, which only an export needs as long as its tar is there; then the signature
    // alone, then the tar alone.
    std::fs::remove_file(made.env.path(&object("xz")?))?;
    refused(export(&made).run()?, "linux-6.18.40.tar.xz")?;
    for (part, file) in [
        ("signature", "linux-6.18.40.tar.sign"),
        ("tar", "linux-6.18.40.tar.xz"),
    ] {
        let path = made.env.path(&object(part)?);
        let bytes = std::fs::read(&path)?;
        std::fs::remove_file(&path)?;
        refused(export(&made).run()?, file)?;
        for verb in ["fetch made", "build made"] {
            let ran = made
                .kiln(&format!("{verb} --offline --format json"))
                .run()?;
            refused(ran, file)?;
        }
        std::fs::write(&path, bytes)?;
    }
    nobody(&made, "with parts missing");
    // A directory is no network.
    made.kiln("fetch made --to")
        .arg(to.as_str())
        .run()?
        .exits(0)?;
    std::fs::remove_dir_all(made.env.path(".kiln"))?;
    made.env.edit(
        "pipelines/made.yaml",
        "source: {kernel-org: {}}",
        &format!("source: {{dir: {to}}}"),
    )?;
    made.kiln("fetch made --offline").run()?.exits(0)?;
    Ok(())
}

fn old_lock() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.publish("6.18.41");
    made.offer(&["6.18.41"]);
    let ran = made.kiln("build made --format json").run()?.exits(0)?;
    let release = ran.json()?["release"].clone();
    let release = release.as_str().unwrap_or_default();
    assert!(release.starts_with("6.18.40-"), "{release}");
    Ok(())
}

fn without_a_network() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let to = made.env.root().join("usb");
    made.kiln("fetch made --to")
        .arg(to.as_str())
        .run()?
        .exits(0)?
        .says("linux-6.18.40.tar.xz")?;
    let MadeUp { env, mirror, .. } = made;
    drop(mirror);
    // Elsewhere: no store, no mirror, the same lock.
    std::fs::remove_dir_all(env.path(".kiln"))?;
    std::fs::remove_file(env.path("kiln.yaml"))?;
    env.edit(
        "pipelines/made.yaml",
        "source: {kernel-org: {}}",
        &format!("source: {{dir: {to}}}"),
    )?;
    let ran = env.kiln(["build", "made", "--locked"]).run()?.exits(0)?;
    ran.says("built 6.18.40-1-made-")?;
    // A resolve reads the directory's own list.
    env.kiln(["resolve", "made"])
        .run()?
        .exits(0)?
        .says("is up to date")?;
    // And it is trusted no more than the network is.
    std::fs::remove_dir_all(env.path(".kiln"))?;
    let archive = to.join("v6.x/linux-6.18.40.tar.xz");
    let mut bytes = std::fs::read(&archive)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&archive, bytes)?;
    env.kiln(["build", "made"])
        .run()?
        .exits(Exit::NotVerified)?;
    Ok(())
}
