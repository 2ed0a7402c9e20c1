//! `kiln classify` as a user meets it.

use kiln::failure::Exit;

use crate::support::{Case, Env, Outcome};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("classify::a_verdict_with_its_places", verdicts),
        Case::new("classify::what_is_no_patch_is_refused", refused),
    ]
}

const BODY: &str =
    "--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,2 +1,2 @@ int f(void)\n {\n-\ta();\n+\tb();\n";

fn verdicts() -> Outcome {
    let env = Env::new()?;
    env.write("body.patch", BODY)?;
    let ran = env.kiln(["classify", "body.patch"]).run()?.exits(0)?;
    ran.says("unsure\n")?.says("body.patch:1")?;
    env.write(
        "data.patch",
        BODY.replace("int f(void)", "static int x[] = {"),
    )?;
    let ran = env.kiln(["classify", "data.patch"]).run()?.exits(0)?;
    ran.says("needs-reboot\n")?
        .says("data.patch:5  kernel/a.c")?;
    let ran = env
        .kiln(["classify", "data.patch", "--format", "json"])
        .run()?;
    let answer = ran.exits(0)?.json()?;
    assert_eq!(answer["verdict"], "needs-reboot");
    assert_eq!(answer["findings"][0]["reason"], "data");
    assert_eq!(answer["findings"][0]["line"], 5);
    Ok(())
}

fn refused() -> Outcome {
    let env = Env::new()?;
    env.write("cut.patch", BODY.replace("+\tb();\n", ""))?;
    let ran = env
        .kiln(["classify", "cut.patch"])
        .run()?
        .exits(Exit::Usage)?;
    ran.warns("`cut.patch` is no patch: it ends inside the hunk of line 3")?;
    env.kiln(["classify", "none.patch"])
        .run()?
        .exits(Exit::Usage)?;
    Ok(())
}
