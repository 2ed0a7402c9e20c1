//! The runner on small texts: what it must accept, and what it must not.

use super::{When, blocks, compare, line_matches, run};
use crate::support::{Case, Outcome, Stop};

/// The cases of the runner itself.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("tour::runner_accepts_what_holds", accepts),
        Case::new("tour::runner_refuses_what_does_not", refuses),
        Case::new("tour::runner_reads_marks", reads_marks),
        Case::new(
            "tour::runner_refuses_unclear_blocks",
            refuses_unclear_blocks,
        ),
        Case::new("tour::wildcards_match_no_more_than_they_say", wildcards),
    ]
}

fn text(body: &str) -> String {
    format!("# Title\n\nWords.\n\n```console\n{body}\n```\n")
}

fn outcome(text: &str) -> Outcome {
    run(&blocks(text).map_err(Stop::Fail)?)
}

fn accepts() -> Outcome {
    for body in [
        "$ echo one; echo two >&2\none\ntwo",
        "$ mkdir here\n$ cd here\n$ pwd\n[..]/here",
        "$ seq 1 9\n1\n...\n9",
        "$ printf 'a %s b\\n' 17\na [..] b",
        "$ true",
        "$ echo a \\\n> b\na b",
        "$ echo text > file\n$ cat file\ntext",
        "$ true # a comment",
    ] {
        outcome(&text(body))?;
    }
    outcome("<!-- tour: exit=3 -->\n```console\n$ exit 3\n```\n")?;
    // Two blocks share one directory; other blocks are not run.
    outcome("```sh\nexit 1\n```\n```console\n$ touch x\n```\n```console\n$ ls\nx\n```\n")
}

fn refuses() -> Outcome {
    for (body, expected) in [
        ("$ echo one\ntwo", "no match for the README's: two"),
        ("$ echo one; echo two\none", "shows less"),
        ("$ echo one\none\ntwo", "no match for the README's: two"),
        ("$ exit 1", "expected exit code 0, found exit code 1"),
        ("$ no-such-program-here", "exit code 127"),
        ("$ seq 1 9\n1\n...\n8", "shows less"),
    ] {
        match outcome(&text(body)) {
            Err(Stop::Fail(found)) => {
                assert!(found.contains(expected), "{body:?}: {found}");
                assert!(found.starts_with("README line "), "{found}");
            }
            other => panic!("{body:?} was accepted: {other:?}"),
        }
    }
    let wrong_exit = outcome("<!-- tour: exit=3 -->\n```console\n$ exit 0\n```\n");
    assert!(wrong_exit.is_err());
    Ok(())
}

fn reads_marks() -> Outcome {
    let all = blocks(
        "<!-- tour: skip=needs the network -->\n\n```console\n$ a\n```\n\
         <!-- tour: heavy exit=2 -->\n```console\n$ b\n$ c\n```\n\
         <!-- tour: full -->\nWords between.\n```console\n$ d\n```\n\
         <!-- tour: full -->\n```console\n$ e\n```\n",
    )
    .map_err(Stop::Fail)?;
    let when: Vec<&When> = all.iter().map(|block| &block.when).collect();
    let never = When::Never("needs the network".to_owned());
    assert_eq!(when, [&never, &When::Heavy, &When::Usual, &When::Full]);
    let exits: Vec<i32> = all[1].steps.iter().map(|step| step.exit).collect();
    assert_eq!(exits, [0, 2], "the code is the last command's");
    assert_eq!((all[0].line, all[0].steps[0].line), (3, 4));
    Ok(())
}

fn refuses_unclear_blocks() -> Outcome {
    for (text, expected) in [
        ("```console\n$ a\n", "line 1: the block is not closed"),
        ("```console\n```\n", "no command"),
        ("```console\noutput\n$ a\n```\n", "line 2: output before"),
        ("```console\n$ a \\\nb\n```\n", "line 3: expected `> `"),
        ("<!-- tour: skip= -->\n", "wants a reason"),
        ("<!-- tour: hevy -->\n", "\"hevy\""),
        ("<!-- tour: exit=x -->\n", "\"exit=x\""),
    ] {
        let found = blocks(text).expect_err("it is unclear");
        assert!(found.contains(expected), "{text:?}: {found}");
    }
    Ok(())
}

fn wildcards() -> Outcome {
    for (pattern, line, expected) in [
        ("a[..]c", "abc", true),
        ("a[..]c", "ac", true),
        ("a[..]c", "abd", false),
        ("[..]", "", true),
        ("[..]b[..]", "aébc", true),
        ("[..]x[..]", "abc", false),
        ("a.c", "abc", false),
        ("a", "a b", false),
    ] {
        assert_eq!(line_matches(pattern, line), expected, "{pattern} {line}");
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (expected, shown, result) in [
        ("...", "", Ok(())),
        ("...\nb\n...", "a\nb\nc", Ok(())),
        ("a\n\n", "a", Ok(())),
        ("a", "a\n\n", Ok(())),
        ("", "a", Err(0)),
        ("...\nb", "a\nc", Err(1)),
        ("a\nb", "a", Err(1)),
    ] {
        let shown: Vec<&str> = shown.lines().collect();
        assert_eq!(
            compare(&lines(expected), &shown),
            result,
            "{expected:?} {shown:?}"
        );
    }
    Ok(())
}
