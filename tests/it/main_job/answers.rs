//! What the guard's answer is good for: lists of what may be lost, comparisons.

use kiln::failure::Exit;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![Case::new(
        "main_job::collateral_is_accepted_with_a_reason",
        collateral,
    )]
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
        .says("CONFIG_TINY")?;
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
