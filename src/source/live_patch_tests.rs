//! Patches of known kind: what each may be called from its text.

use super::Reason::*;
use super::{Reason, Verdict, classify};
use crate::source::patch_text::PatchText;

/// A patch of one file with one hunk.
fn patch(file: &str, context: &str, lines: &[&str]) -> PatchText {
    let count = |marks: &[char]| lines.iter().filter(|line| line.starts_with(marks)).count();
    let text = format!(
        "--- a/{file}\n+++ b/{file}\n@@ -10,{} +10,{} @@ {context}\n{}\n",
        count(&[' ', '-']),
        count(&[' ', '+']),
        lines.join("\n")
    );
    PatchText::parse(text.into_bytes()).unwrap()
}

/// File, what the hunk stands in, its lines, and what that rules out.
const RULED_OUT: [(&str, &str, &[&str], Reason); 22] = [
    (
        "kernel/Kconfig.preempt",
        "",
        &[" config X", "+\tdefault y"],
        BuildRules,
    ),
    (
        "kernel/sched/Makefile",
        "",
        &["+obj-y += new.o"],
        BuildRules,
    ),
    (
        "arch/x86/kernel/vmlinux.lds.S",
        "",
        &["+. = ALIGN(8);"],
        BuildRules,
    ),
    (
        "arch/x86/entry/syscalls/syscall_64.tbl",
        "",
        &["+500 common x sys_x"],
        BuildRules,
    ),
    (
        "tools/objtool/check.c",
        "int f(void)",
        &["+\tx = 1;"],
        BuildRules,
    ),
    ("rust/kernel/lib.rs", "", &["+mod x;"], BuildRules),
    (
        "arch/x86/boot/main.c",
        "void main(void)",
        &["+\tx();"],
        BootCode,
    ),
    (
        "arch/x86/entry/entry_64.S",
        "SYM_CODE_START(x)",
        &["+\tnop"],
        Assembly,
    ),
    (
        "kernel/a.c",
        "static int limit = 3;",
        &["-static int limit = 3;", "+static int limit = 4;"],
        Data,
    ),
    (
        "kernel/a.c",
        "",
        &["-static DEFINE_MUTEX(lock);", "-DEFINE_SPINLOCK(l);"],
        Data,
    ),
    (
        "kernel/a.c",
        "static const struct file_operations ops = {",
        &[" \t.open = o,", "+\t.read = r,", " };"],
        Data,
    ),
    (
        "kernel/a.c",
        "int f(void)",
        &[
            " }",
            " ",
            " static const int t[] = {",
            "-\t1,",
            "+\t2,",
            " };",
        ],
        Data,
    ),
    ("kernel/a.c", "", &["+module_param(x, int, 0644);"], Data),
    (
        "kernel/a.c",
        "struct state {",
        &[" \tint a;", "+\tint b;", " };"],
        Layout,
    ),
    (
        "include/linux/a.h",
        "struct state {",
        &["-\tint a;", "+\tlong a;"],
        Layout,
    ),
    ("include/linux/a.h", "union u {", &["+\tlong a;"], Layout),
    (
        "include/linux/a.h",
        "static inline int f(void)",
        &[" {", "-\treturn 0;", "+\treturn 1;"],
        Inline,
    ),
    (
        "include/linux/a.h",
        "",
        &["-#define LIMIT 3", "+#define LIMIT 4"],
        Inline,
    ),
    (
        "kernel/a.c",
        "static __always_inline int f(void)",
        &["+\tx();"],
        Inline,
    ),
    (
        "kernel/a.c",
        "static int __init start(void)",
        &[" {", "+\tx();", " }"],
        Init,
    ),
    (
        "kernel/a.c",
        "int f(void)",
        &[" }", "+late_initcall(start);"],
        Init,
    ),
    (
        "kernel/a.c",
        "int f(void)",
        &[" }", "+EXPORT_SYMBOL_GPL(f);"],
        Exported,
    ),
];

#[test]
fn the_text_rules_a_live_patch_out() {
    for (file, context, lines, reason) in RULED_OUT {
        let classified = classify(&patch(file, context, lines));
        assert_eq!(classified.verdict, Verdict::NeedsReboot, "{file} {lines:?}");
        assert_eq!(classified.findings[0].reason, reason, "{file} {lines:?}");
        assert_eq!(classified.findings[0].file, file);
    }
}

#[test]
fn the_text_does_not_know() {
    let cases: [(&str, &str, &[&str]); 8] = [
        (
            "kernel/a.c",
            "static int f(void)",
            &[" {", "-\tif (x)", "+\tif (x && y)", " \t\treturn;"],
        ),
        (
            "kernel/a.c",
            "static const int t[] = {",
            &[" };", " ", " int f(void)", " {", "+\tx();"],
        ),
        (
            "kernel/a.c",
            "static int __init start(void)",
            &[" }", " ", " int f(void)", " {", "+\tx();"],
        ),
        (
            "kernel/a.c",
            "struct state {",
            &["+\t/* a word */", " \tint a;"],
        ),
        (
            "kernel/a.c",
            "",
            &[
                "+static int fresh;",
                "+static int helper(void)",
                "+{",
                "+\treturn fresh;",
                "+}",
            ],
        ),
        ("kernel/a.c", "", &["+struct fresh {", "+\tint a;", "+};"]),
        (
            "kernel/a.c",
            "int f(void)",
            &[" out:", "-\tgoto fail;", "+\tgoto out;"],
        ),
        ("kernel/a.c", "", &["+#include <linux/b.h>"]),
    ];
    for (file, context, lines) in cases {
        let classified = classify(&patch(file, context, lines));
        assert_eq!(
            classified.verdict,
            Verdict::Unsure,
            "{lines:?}: {:?}",
            classified.findings
        );
        assert_eq!(classified.findings[0].reason, Reason::Bodies, "{lines:?}");
    }
    let words = classify(&patch("Documentation/x.rst", "", &["+word"]));
    assert_eq!(words.verdict, Verdict::Unsure);
    assert_eq!(words.findings[0].reason, Reason::Outside);
}

#[test]
fn one_part_that_needs_a_reboot_is_enough() {
    let body =
        "--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,2 +1,2 @@ int f(void)\n {\n-\ta();\n+\tb();\n";
    let gone = "diff --git a/kernel/b.c b/kernel/b.c\ndeleted file mode 100644\n--- a/kernel/b.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-int x;\n";
    let text = format!("{body}{gone}");
    let both = classify(&PatchText::parse(text.into_bytes()).unwrap());
    assert_eq!(both.verdict, Verdict::NeedsReboot);
    let reasons: Vec<_> = both.findings.iter().map(|f| (f.line, f.reason)).collect();
    assert_eq!(reasons, [(1, Reason::Bodies), (7, Reason::Removed)]);
}
