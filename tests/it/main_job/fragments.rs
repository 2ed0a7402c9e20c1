//! Fragments out of what exists, and for other tools: `fragment from`, `config export`, and the
//! changes that `config check` keeps.

use kiln::failure::Exit;

use crate::support::made_up::{FRAGMENT, MadeUp};
use crate::support::{Case, Outcome};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::a_fragment_from_a_config", from_a_config),
        Case::new("main_job::export_for_a_series", export),
        Case::new("main_job::changes_are_kept_as_a_diff", changes),
    ]
}

fn from_a_config() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.env.write(
        "running.config",
        "CONFIG_TINY=y\nCONFIG_MODULES=y\nCONFIG_FAKE_BULK=y\nCONFIG_DROPPED=y\n",
    )?;
    let line = "fragment from running.config --base made";
    let ran = made.kiln(line).run()?.exits(0)?;
    let ran = ran.says("CONFIG_FAKE_BULK=y\n")?;
    let ran = ran.warns("not reached: CONFIG_DROPPED=y")?;
    assert!(!ran.stdout.contains("CONFIG_TINY"), "{}", ran.stdout);
    let json = made.kiln(&format!("{line} --format json")).run()?;
    let json = json.exits(0)?.json()?;
    assert_eq!(json["fragment"], ran.stdout.as_str());
    assert_eq!(json["not_reached"][0]["symbol"], "DROPPED", "{json}");
    // It is a fragment: with it the configuration is reached.
    made.env.write(FRAGMENT, &ran.stdout)?;
    if ran.stdout.contains("CONFIG_DROPPED=y\n") {
        made.env.edit(FRAGMENT, "CONFIG_DROPPED=y\n", "")?;
    }
    made.kiln("config check made").run()?.exits(0)?;
    let config = made.env.read(".kiln/work/made.config/resolved.config")?;
    assert!(config.contains("CONFIG_FAKE_BULK=y\n"), "{config}");
    made.kiln("fragment from none.config --base made")
        .run()?
        .exits(Exit::Usage)?
        .warns("none.config")?;
    Ok(())
}

fn export() -> Outcome {
    let made = MadeUp::new()?;
    made.ask(
        "# kiln: begin series >= 7.0\n# kiln: why \"newer\"\nCONFIG_NEWER=y\n# kiln: end\n\
         # kiln: begin series < 7.0\n# kiln: why \"older\"\nCONFIG_OLDER=y\n# kiln: end",
    )?;
    let own = made.kiln("config export made").run()?.exits(0)?;
    let own = own.says("CONFIG_MODULES=y\n")?.says("CONFIG_OLDER=y\n")?;
    // Where a line is from and why it is there go along.
    own.says("config-fragments/made.config:2")?
        .says("the test asks for it")?
        .never_says("CONFIG_NEWER")?;
    let other = made.kiln("config export made --series 7.2").run()?;
    let other = other.exits(0)?.says("CONFIG_MODULES=y\n")?;
    other.says("CONFIG_NEWER=y\n")?.never_says("CONFIG_OLDER")?;
    made.kiln("config export made --series newest")
        .run()?
        .exits(Exit::Usage)?;
    Ok(())
}

fn changes() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let file = ".kiln/work/made.config/changes.diff";
    made.kiln("config check made").run()?.exits(0)?;
    assert_eq!(made.env.read(file)?, "--- the base alone\n+++ resolved\n");
    made.ask("CONFIG_FAKE_BULK=y\n# CONFIG_TINY is not set")?;
    made.kiln("config check made").run()?;
    let diff = made.env.read(file)?;
    let asked = diff
        .split("@@ ")
        .find(|part| part.starts_with("asked for @@"));
    let asked = asked.unwrap_or_default();
    for line in ["+CONFIG_FAKE_BULK=y\n", "-CONFIG_TINY=y\n"] {
        assert!(asked.contains(line), "{line:?}: {diff}");
    }
    Ok(())
}
