//! Patches over the verified source: in the lock, in what is built, without fuzz, or refused.

use kiln::digest::Sha256;
use kiln::failure::Exit;

use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Stop};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::patches_are_part_of_the_build", applied),
        Case::new("main_job::a_patch_that_does_not_fit_is_refused", unfit),
        Case::new(
            "main_job::a_patch_reaches_the_check_of_a_configuration",
            checked,
        ),
        Case::new(
            "main_job::other_bytes_than_the_patch_named_are_refused",
            other_bytes,
        ),
    ]
}

const FILE: &str = "patches/0001-first.patch";

/// Changes a file and makes one.
const FIRST: &str = "\
Subject: [PATCH] words before the change

diff --git a/COPYING b/COPYING
index 1111111..2222222 100644
--- a/COPYING
+++ b/COPYING
@@ -1 +1,2 @@
 GPL-2.0
+Patched.
diff --git a/tool.sh b/tool.sh
new file mode 100755
index 0000000..3333333
--- /dev/null
+++ b/tool.sh
@@ -0,0 +1 @@
+#!/bin/sh
";

/// Fits only after the first.
const SECOND: &str = "\
--- a/COPYING
+++ b/COPYING
@@ -1,2 +1,2 @@
 GPL-2.0
-Patched.
+Patched twice.
";

/// The patches of the pipeline, written down with their digests.
fn patched(made: &MadeUp, patches: &[(&str, &str)]) -> Result<(), Stop> {
    let mut list = vec!["patches:\n".to_owned()];
    for (file, text) in patches {
        made.env.write(file, text)?;
        let sha256 = Sha256::of(text.as_bytes());
        list.push(format!(
            "  - {{file: {file}, sha256: {sha256}, reason: the test asks for it}}\n"
        ));
    }
    let pipeline = made.env.read("pipelines/made.yaml")?;
    let kept: String = pipeline
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("patches:") && !line.starts_with("  - {file: patches/"))
        .collect();
    made.env
        .write("pipelines/made.yaml", kept + &list.concat())?;
    Ok(())
}

fn applied() -> Outcome {
    let made = MadeUp::sandboxed()?;
    let plain = made.built()?;
    let second = "patches/0002-second.patch";
    patched(&made, &[(FILE, FIRST), (second, SECOND)])?;
    let built = made
        .kiln("build made --keep --format json")
        .run()?
        .exits(0)?;
    let built = built.warns("patches/0001-first.patch")?.json()?;
    assert_ne!(plain["release"], built["release"], "another build");
    let source = ".kiln/work/made/source";
    assert_eq!(
        made.env.read(&format!("{source}/COPYING"))?,
        "GPL-2.0\nPatched twice.\n"
    );
    let tool = made.env.path(&format!("{source}/tool.sh"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(tool)?.permissions());
    assert_eq!(mode & 0o777, 0o755);
    let lock = made.env.read("pipelines/made.lock.json")?;
    for text in [FIRST, SECOND] {
        assert!(
            lock.contains(&Sha256::of(text.as_bytes()).to_string()),
            "{lock}"
        );
    }
    // The order counts, and dropping one is a change too.
    patched(&made, &[(second, SECOND), (FILE, FIRST)])?;
    made.kiln("build made --locked")
        .run()?
        .exits(Exit::Usage)?
        .warns("order of patches")?;
    patched(&made, &[(FILE, FIRST)])?;
    made.kiln("build made --locked")
        .run()?
        .exits(Exit::Usage)?
        .warns("patch patches/0002-second.patch (dropped)")?;
    Ok(())
}

fn unfit() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let fuzzy = FIRST.replace(
        "@@ -1 +1,2 @@\n GPL-2.0\n",
        "@@ -1,2 +1,3 @@\n GPL-2.0\n MIT\n",
    );
    let taken = FIRST
        .replace("+Patched.", "-Patched.")
        .replace("-1 +1,2", "-1,2 +1")
        + "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n";
    for (text, said) in [
        (fuzzy.as_str(), "Hunk #1 FAILED"),
        (SECOND, "Hunk #1 FAILED"),
        (taken.as_str(), "seems to hold the change already"),
    ] {
        patched(&made, &[(FILE, text)])?;
        let ran = made.kiln("build made").run()?.exits(Exit::Usage)?;
        let ran = ran.warns("does not fit linux 6.18.40")?.warns(said)?;
        ran.warns("pipelines/made.yaml:")?;
        assert!(
            !made.env.path(".kiln/work/made/source").exists(),
            "a half patched tree is left"
        );
        assert_eq!(made.products()?, Vec::<String>::new());
    }
    patched(&made, &[(FILE, FIRST), ("patches/0002-again.patch", FIRST)])?;
    let ran = made.kiln("build made").run()?.exits(Exit::Usage)?;
    ran.warns("hold the change already")?;
    Ok(())
}

/// Kconfig files are patched where only they are unpacked, and the other parts left out.
fn checked() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    made.ask("# kiln: why \"the patch brings it\"\nCONFIG_PATCHED=y")?;
    let kconfig = "\
--- a/Kconfig
+++ b/Kconfig
@@ -3,2 +3,5 @@
+config PATCHED
+\tbool \"Brought by a patch\"
+
 config TINY
 \tbool \"Small\"
--- a/package.sh
+++ b/package.sh
@@ -1 +1 @@
-no such line
+not unpacked for a check
";
    patched(&made, &[(FILE, kconfig)])?;
    made.kiln("config check made").run()?.exits(0)?;
    made.kiln("build made")
        .run()?
        .exits(Exit::Usage)?
        .warns("package.sh")?;
    Ok(())
}

fn other_bytes() -> Outcome {
    let made = MadeUp::new()?;
    made.kiln("resolve made").run()?.exits(0)?;
    patched(&made, &[(FILE, FIRST)])?;
    made.kiln("check").run()?.exits(0)?;
    made.env.write(FILE, FIRST.replace("Patched", "Hacked"))?;
    let found = Sha256::of(FIRST.replace("Patched", "Hacked").as_bytes()).to_string();
    for verb in ["check", "config check made", "build made", "resolve made"] {
        let ran = made.kiln(verb).run()?.exits(Exit::Usage)?;
        assert!(
            format!("{}{}", ran.stdout, ran.stderr).contains(&found),
            "{}",
            ran.stderr
        );
    }
    // A text that can do more than change files of the source is refused before `patch` sees it.
    let outside = FIRST.replace("b/tool.sh", "b/../../tool.sh");
    patched(&made, &[(FILE, &outside)])?;
    let ran = made.kiln("check").run()?.exits(Exit::Usage)?;
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains("it holds `..`"),
        "{}",
        ran.stderr
    );
    Ok(())
}
