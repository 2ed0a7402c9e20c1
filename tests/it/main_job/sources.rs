//! What releases do between two builds: newer ones, older ones, the same one signed anew, none.

use kiln::failure::Exit;

use crate::support::keys::{Hash, SIGNED, Use};
use crate::support::made_up::MadeUp;
use crate::support::mirror::Content;
use crate::support::{Case, Outcome};

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
        text.contains("linux-6.18.40") && text.contains("kiln resolve"),
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
