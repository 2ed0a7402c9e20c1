//! The store as a user meets it: what lies in it, what is damaged, and what goes.

use kiln::failure::Exit;
use serde_json::Value;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Stop, fail};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("store::every_object_of_a_build_has_a_name", named),
        Case::new("store::damage_is_found_and_mended", damaged),
        Case::new("store::only_what_nothing_needs_goes", collected),
        Case::new("store::old_runs_go_and_the_newest_good_one_stays", runs),
    ]
}

fn objects(made: &MadeUp) -> Result<Vec<Value>, Stop> {
    let list = made
        .kiln("store list --format json")
        .run()?
        .exits(0)?
        .json()?;
    let objects = list["objects"].as_array().cloned();
    objects.ok_or_else(|| fail(format!("no objects in {list}")))
}

fn path_of(made: &MadeUp, object: &Value) -> String {
    let name = object["sha256"].as_str().unwrap_or_default();
    let path = format!(".kiln/store/sha256/{}/{name}", &name[..2]);
    if made.env.path(&path).is_file() {
        return path;
    }
    let path = format!(".kiln/store/trees/{name}");
    assert!(made.env.path(&path).is_dir(), "{path}");
    path
}

/// Makes a file or tree as old as things get before they go.
fn age(made: &MadeUp, path: &str, days: u64) -> Result<(), Stop> {
    let file = std::fs::File::options()
        .read(true)
        .open(made.env.path(path))?;
    let seconds = std::time::Duration::from_secs(days * 24 * 3600);
    let now = std::time::SystemTime::try_from(kiln::clock::now())
        .map_err(|error| fail(error.to_string()))?;
    Ok(file.set_modified(now - seconds)?)
}

fn named() -> Outcome {
    let made = MadeUp::sandboxed()?;
    drop(made.built()?);
    let objects = objects(&made)?;
    assert!(objects.len() >= 3, "{objects:?}");
    for object in &objects {
        let name = object["name"].as_str().unwrap_or_default();
        assert!(name.ends_with("(made)"), "nothing names {object}");
    }
    let text = made.kiln("store list").run()?.exits(0)?;
    text.says("linux-6.18.40.tar.xz (made)")?.says("in ")?;
    Ok(())
}

fn damaged() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let whole = made.kiln("store verify").run()?.exits(0)?;
    whole.says("objects are whole, 0 damaged")?;
    let objects = objects(&made)?;
    let tar = objects
        .iter()
        .find(|o| o["name"] == "linux-6.18.40.tar (made)");
    let tar = path_of(&made, tar.ok_or_else(|| fail("no tar"))?);
    let mut bytes = std::fs::read(made.env.path(&tar))?;
    bytes[600] ^= 1;
    made.env.write(&tar, bytes)?;
    let ran = made.kiln("store verify").run()?.exits(Exit::NotVerified)?;
    ran.says("damaged: linux-6.18.40.tar (made)")?
        .says("hint: ")?;
    let ran = made
        .kiln("store verify --remove")
        .run()?
        .exits(Exit::NotVerified)?;
    ran.says("removed: linux-6.18.40.tar (made)")?;
    made.kiln("store verify").run()?.exits(0)?;
    // It comes back, proven again.
    made.kiln("fetch made").run()?.exits(0)?;
    assert!(made.env.path(&tar).is_file());
    Ok(())
}

fn collected() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    for object in objects(&made)? {
        age(&made, &path_of(&made, &object), 400)?;
    }
    let ran = made.kiln("store gc").run()?.exits(0)?;
    ran.says("removed 0 objects")?;
    // The next release leaves the old one without a name.
    made.publish("6.18.41");
    made.offer(&["6.18.41"]);
    made.kiln("resolve made").run()?.exits(0)?;
    let before = objects(&made)?;
    let unnamed: Vec<_> = before.iter().filter(|o| o["name"].is_null()).collect();
    assert_eq!(unnamed.len(), 4, "{before:?}");
    made.env
        .write(".kiln/store/partial/left", b"half a download")?;
    made.env.write(".kiln/store/partial/fresh", b"a download")?;
    age(&made, ".kiln/store/partial/left", 3)?;
    let ran = made.kiln("store gc --dry-run").run()?.exits(0)?;
    ran.says("would remove 4 objects")?.says("partial/left")?;
    assert_eq!(objects(&made)?, before, "a dry run removes nothing");
    made.kiln("store gc --keep 1000")
        .run()?
        .exits(0)?
        .says("removed 0 objects")?;
    assert!(!made.env.path(".kiln/store/partial/left").exists());
    assert!(made.env.path(".kiln/store/partial/fresh").exists());
    made.kiln("store gc")
        .run()?
        .exits(0)?
        .says("removed 4 objects")?;
    let left = objects(&made)?;
    assert_eq!(left.len(), before.len() - 4);
    made.kiln("store gc")
        .run()?
        .exits(0)?
        .says("removed 0 objects")?;
    // A lock that cannot be read may name anything.
    made.env.write("pipelines/other.lock.json", b"{")?;
    made.kiln("store gc").run()?.exits(Exit::Usage)?;
    assert_eq!(objects(&made).map(|o| o.len()).ok(), None);
    Ok(())
}

fn runs() -> Outcome {
    let made = MadeUp::sandboxed()?;
    drop(made.built()?);
    made.ask("CONFIG_FAKE_ERROR=y")?;
    for _ in 0..2 {
        made.kiln("build made").run()?.exits(Exit::Build)?;
    }
    assert_eq!(made.runs()?.len(), 3);
    let ran = made.kiln("store gc --runs 1").run()?.exits(0)?;
    ran.says("removed the run")?;
    let left = made.runs()?;
    let statuses: Vec<_> = left.iter().map(|run| run["status"].clone()).collect();
    assert_eq!(statuses, ["ok", "failed"], "{left:?}");
    made.kiln("store gc --runs 0").run()?.exits(Exit::Usage)?;
    Ok(())
}
