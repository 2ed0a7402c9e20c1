//! What the guard's answer is good for: lists of what may be lost, comparisons.

use kiln::failure::Exit;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::collateral_is_accepted_with_a_reason", collateral),
        Case::new("main_job::two_lines_compared_in_intent", two_lines),
        Case::new("main_job::builds_and_locks_compared", builds_and_locks),
    ]
}

const LIST: &str = "collateral/made.yaml";

fn collateral() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("config accept made")
        .run()?
        .exits(0)?
        .says("nothing blocks as collateral")?;
    assert!(!made.env.path(LIST).exists());
    made.ask("CONFIG_FAKE_COST=y")?;
    made.kiln("config check made")
        .run()?
        .exits(Exit::Guard)?
        .says("TINY goes from y to absent")?;
    let ran = made.kiln("config accept made").run()?.exits(0)?;
    ran.says("proposed 1 symbols in 1 rows into collateral/made.yaml")?
        .says("`collateral: {allow: collateral/made.yaml}`")?;
    made.env.edit(
        "pipelines/made.yaml",
        "  fragments: [made]\n",
        "  fragments: [made]\n  collateral: {allow: collateral/made.yaml}\n",
    )?;
    // Nothing passes on what nobody has judged.
    for verb in ["config check", "config accept", "build"] {
        let ran = made.kiln(&format!("{verb} made")).run()?;
        ran.exits(Exit::Usage)?.warns("allow.0.why")?;
    }
    made.env
        .edit(LIST, "why: \"\"", "why: the test is not about size # so")?;
    made.kiln("config check made")
        .run()?
        .exits(0)?
        .says("guard passed")?;
    let text = made.env.read(LIST)?;
    assert!(
        text.contains("  - symbols: [TINY]\n    cause: FAKE_COST\n"),
        "{text}"
    );
    made.kiln("config accept made").run()?.exits(0)?;
    assert_eq!(made.env.read(LIST)?, text, "nothing more to accept");

    // What is asked and lost is no collateral.
    made.ask("CONFIG_DROPPED=y")?;
    let ran = made
        .kiln("config accept made --format json")
        .run()?
        .exits(0)?;
    let answer = ran.json()?;
    let others = answer["others"].as_u64().ok_or_else(|| fail("no count"))?;
    assert_eq!(
        (others, answer["rows"].as_array().map(Vec::len)),
        (1, Some(0))
    );
    assert_eq!(made.env.read(LIST)?, text);
    Ok(())
}

/// A second pipeline, `other`, that asks for this.
fn other(made: &MadeUp, asked: &str) -> Outcome {
    let pipeline = made.env.read("pipelines/made.yaml")?;
    let pipeline = pipeline.replace("name: made", "name: other");
    made.env.write(
        "pipelines/other.yaml",
        pipeline.replace("[made]", "[other]"),
    )?;
    made.env.write("config-fragments/other.config", asked)?;
    Ok(())
}

fn two_lines() -> Outcome {
    let made = MadeUp::sandboxed()?;
    other(&made, "CONFIG_MODULES=y\n\nCONFIG_FAKE_COST=y\n")?;
    let ran = made.kiln("config diff made other").run()?.exits(0)?;
    ran.says("from made on linux 6.18.40\nto   other on linux 6.18.40\n")?
        .says("asked for: 1\n  CONFIG_FAKE_COST  absent -> y  config-fragments/other.config:3\n")?
        .says("derived from requests, base and tree: 1\n  CONFIG_TINY  y -> absent\n")?;
    let ran = made.kiln("config diff other other").run()?.exits(0)?;
    ran.says("no symbol differs")?;
    made.kiln("config diff made othre")
        .run()?
        .exits(Exit::Usage)?
        .warns("did you mean `other`?")?;
    Ok(())
}

fn builds_and_locks() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let built = made.built()?;
    let manifest = built["manifest"].as_str().unwrap_or_default().to_owned();
    let lock = "pipelines/made.lock.json";
    made.kiln(&format!("config diff {manifest} {lock}"))
        .run()?
        .exits(0)?
        .says("no symbol differs")?;
    made.ask("CONFIG_FAKE_ERROR=y")?;
    let ran = made
        .kiln(&format!("config diff {manifest} made --format json"))
        .run()?
        .exits(0)?;
    let answer = ran.json()?;
    let differences = answer["differences"].as_array();
    assert_eq!(differences.map(Vec::len), Some(1), "{answer}");
    let first = &answer["differences"][0];
    assert_eq!(
        (&first["symbol"], &first["ground"], &first["to"]),
        (&"FAKE_ERROR".into(), &"asked".into(), &"y".into())
    );
    // The lock's own fragment is not there any more.
    made.kiln(&format!("config diff {lock} made"))
        .run()?
        .exits(Exit::Usage)?
        .warns("fragment made")?;
    // A configuration that was changed after the build is not that of the manifest.
    let kept = manifest.replace("manifest.json", "resolved.config");
    std::fs::write(kept, "CONFIG_TINY=y\n")?;
    made.kiln(&format!("config diff {manifest} made"))
        .run()?
        .exits(Exit::NotVerified)?
        .warns("is not the configuration of the manifest")?;
    Ok(())
}
