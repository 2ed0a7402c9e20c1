//! What lies in `.kiln/` and beside the locks may be anything: nothing outside is touched for it,
//! and no verdict depends on it.

use std::os::unix::fs::symlink;

use kiln::failure::Exit;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::links_in_the_state_are_refused", links),
        Case::new("main_job::only_its_own_trash_is_removed", trash),
        Case::new(
            "main_job::a_cache_that_cannot_be_kept_changes_no_verdict",
            cache,
        ),
        Case::new("main_job::check_hashes_the_kept_base", base),
        Case::new(
            "main_job::a_wrong_fragment_is_told_before_anything_is_fetched",
            early,
        ),
    ]
}

/// A repository can carry a link, and kiln removes what it finds in these places.
fn links() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    for part in [
        "trash",
        "work",
        "runs",
        "cache",
        "locks",
        "store",
        "quickstart",
    ] {
        made.env.write(&format!("victim/made/{part}"), b"kept")?;
        let place = made.env.path(&format!(".kiln/{part}"));
        let aside = made.env.path(&format!("aside-{part}"));
        let was_there = place.exists();
        if was_there {
            std::process::Command::new("mv")
                .args([&place, &aside])
                .status()?;
        }
        symlink("../victim", &place)?;
        let ran = made.kiln("config check made").run()?.exits(Exit::Usage)?;
        ran.warns(&format!("`.kiln/{part}` is a symbolic link"))?;
        assert_eq!(made.env.read(&format!("victim/made/{part}"))?, "kept");
        std::fs::remove_file(&place)?;
        if was_there {
            std::process::Command::new("mv")
                .args([&aside, &place])
                .status()?;
        }
    }
    made.kiln("config check made").run()?.exits(0)?;
    Ok(())
}

fn trash() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.env.write(".kiln/trash/docs/file", b"somebody's")?;
    made.env
        .write(".kiln/trash/12-0/file", b"what a run left")?;
    made.kiln("config check made").run()?.exits(0)?;
    made.kiln("config check made").run()?.exits(0)?;
    assert_eq!(made.env.read(".kiln/trash/docs/file")?, "somebody's");
    assert!(!made.env.path(".kiln/trash/12-0/file").exists());
    Ok(())
}

fn cache() -> Outcome {
    let made = MadeUp::new()?;
    made.with_the_real_configuration()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let summary = |out: &str| {
        let line = out.lines().find(|line| line.starts_with("guard "));
        line.unwrap_or_default().to_owned()
    };
    let before = made.kiln("config check made").run()?.exits(0)?;
    let cache = made.env.path(".kiln/cache/probes.json");
    std::fs::remove_file(&cache)?;
    std::fs::create_dir(&cache)?;
    let after = made.kiln("config check made").run()?.exits(0)?;
    assert_eq!(summary(&before.stdout), summary(&after.stdout));
    after
        .warns("the answers of probes are not kept for the next time")?
        .never_says("kiln cannot read this tree")?;
    Ok(())
}

fn base() -> Outcome {
    let made = MadeUp::new()?;
    let text = "CONFIG_MODULES=y\n";
    let sha256 = kiln::digest::Sha256::of(text.as_bytes());
    made.env.write("base.config", text)?;
    made.env.edit(
        "pipelines/made.yaml",
        "base: {target: tinyconfig}",
        &format!("base: {{file: {{path: base.config, series: \"6.18\", sha256: {sha256}}}}}"),
    )?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.kiln("check").run()?.exits(0)?;
    let kept = "pipelines/made.base.config";
    made.env.write(kept, "CONFIG_MODULES=n\n")?;
    let ran = made.kiln("check").run()?.exits(Exit::Usage)?;
    ran.says(kept)?.says(&sha256.to_string())?;
    std::fs::remove_file(made.env.path(kept))?;
    made.kiln("check").run()?.exits(Exit::Usage)?.says(kept)?;
    made.kiln("config check made")
        .run()?
        .exits(Exit::NotVerified)?
        .warns("found no file")?
        .warns("take the kept file back")?;
    Ok(())
}

fn early() -> Outcome {
    let made = MadeUp::new()?;
    made.ask("CONFIG_LOCALVERSION=\"open")?;
    made.kiln("resolve made").run()?.exits(Exit::Usage)?;
    assert_eq!(made.mirror.log().len(), 0, "{:?}", made.mirror.log().len());
    Ok(())
}
