use super::*;
use crate::dotconfig::DotConfig;
use proptest::prelude::*;

fn good(text: &str) -> Fragment {
    Fragment::parse("f.config", text).unwrap()
}

/// The errors of a text, as printed.
fn errors(text: &str) -> Vec<String> {
    let error = Fragment::parse("f.config", text).unwrap_err().to_string();
    error.lines().map(str::to_owned).collect()
}

/// The one error of a text.
fn error(text: &str) -> String {
    let errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].clone()
}

fn series(text: &str) -> Series {
    text.parse().unwrap()
}

#[test]
fn plain_lines_are_requests_with_their_place() {
    let fragment = good("# about\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x y\"\n");
    let lines: Vec<String> = fragment
        .assignments
        .iter()
        .map(|a| format!("{} {}", a.request.origin, a.request.line()))
        .collect();
    assert_eq!(
        lines,
        [
            "f.config:3 CONFIG_A=y",
            "f.config:4 # CONFIG_B is not set",
            "f.config:5 CONFIG_C=\"x y\"",
        ]
    );
}

#[test]
fn off_may_be_written_in_both_spellings() {
    let fragment = good("CONFIG_A=n\n# CONFIG_B is not set\n");
    assert!(
        fragment
            .assignments
            .iter()
            .all(|a| a.request.wanted.value == Value::No)
    );
}

#[test]
fn directives_stack_and_bind_to_the_next_assignment_only() {
    let fragment = good(concat!(
        "# kiln: series >= 6.13\n",
        "# kiln: series < 7.0\n",
        "\n# prose between is allowed\n",
        "# kiln: optional \"absent from \\\"small\\\" trees\"\n",
        "# kiln: any m y\n",
        "# kiln: why \"cache ranking\"\n",
        "# kiln: waive until 2027-03-01 owner someone \"driver broken\"\n",
        "# kiln: override \"the base fragment is too careful\"\n",
        "CONFIG_A=m\nCONFIG_B=y\n",
    ));
    let [a, b] = &fragment.assignments[..] else {
        panic!("{fragment:?}");
    };
    assert!(a.series.contains(series("6.18")));
    assert!(!a.series.contains(series("6.12")) && !a.series.contains(series("7.0")));
    assert_eq!(
        a.request.optional.as_deref(),
        Some("absent from \"small\" trees")
    );
    assert_eq!(a.request.wanted.any, [Value::Module, Value::Yes]);
    assert_eq!(a.request.why.as_deref(), Some("cache ranking"));
    assert_eq!(a.request.waiver.as_ref().unwrap().owner, "someone");
    assert!(a.overrides.is_some());
    assert_eq!(b.series, SeriesRange::ALL);
    assert!(b.request.why.is_none() && b.overrides.is_none());
}

#[test]
fn blocks_nest_and_end() {
    let fragment = good(concat!(
        "# kiln: begin series >= 6.0\nCONFIG_A=y\n",
        "# kiln: begin series < 7.0\nCONFIG_B=y\n# kiln: end\n",
        "CONFIG_C=y\n# kiln: end\nCONFIG_D=y\n",
    ));
    let active = |text| -> Vec<&str> {
        let active = fragment.active(series(text));
        active.map(|a| a.request.symbol.as_str()).collect()
    };
    assert_eq!(active("6.12"), ["A", "B", "C", "D"]);
    assert_eq!(active("7.2"), ["A", "C", "D"]);
    assert_eq!(active("5.15"), ["D"]);
}

#[test]
fn a_block_for_another_series_is_checked_all_the_same() {
    let text = "# kiln: begin series < 2.6\nCONFIG_A=yes\n# kiln: end\n";
    assert_eq!(
        error(text),
        "f.config:2:10: expected `y`, `m` or `n`, found `yes`; write `CONFIG_A=y`"
    );
}

#[test]
fn every_line_that_the_kernel_would_misread_is_an_error() {
    let cases = [
        (" CONFIG_X=y", "1:1", "CONFIG_X=y"),
        ("\tCONFIG_X=y", "1:1", "CONFIG_X=y"),
        ("CONFIG_X = y", "1:9", "CONFIG_X=y"),
        ("CONFIG_X= y", "1:10", "CONFIG_X=y"),
        ("CONFIG_X=y ", "1:11", "CONFIG_X=y"),
        ("CONFIG_X=y\r", "1:11", "CONFIG_X=y"),
        ("#CONFIG_X is not set", "1:2", "# CONFIG_X is not set"),
        ("# CONFIG_X is not set ", "1:22", "# CONFIG_X is not set"),
        ("#  CONFIG_X is not set", "1:3", "# CONFIG_X is not set"),
        ("# CONFIG_X  is not set", "1:12", "# CONFIG_X is not set"),
        ("# CONFIG_X is not set.", "1:22", "# CONFIG_X is not set"),
        ("# CONFIG_X is Not Set", "1:15", "# CONFIG_X is not set"),
        ("# config_x is not set", "1:3", "# CONFIG_X is not set"),
        ("config_preempt=y", "1:1", "CONFIG_PREEMPT=y"),
        ("CONFIG_preempt=y", "1:8", "CONFIG_PREEMPT=y"),
        ("PREEMPT=y", "1:1", "CONFIG_PREEMPT=y"),
        ("CONFIG_X=yes", "1:10", "CONFIG_X=y"),
        ("CONFIG_X=Y", "1:10", "CONFIG_X=y"),
        ("CONFIG_X=no", "1:10", "# CONFIG_X is not set"),
        ("CONFIG_X=mod", "1:10", "CONFIG_X=m"),
        ("CONFIG_X=017", "1:10", "CONFIG_X=17"),
        ("CONFIG_X=-00", "1:10", "CONFIG_X=-0"),
        ("CONFIG_X=", "1:10", "CONFIG_X=\"\""),
        ("CONFIG_X=hello", "1:10", "CONFIG_X=\"hello\""),
        ("CONFIG_X=\"open", "1:10", "CONFIG_X=\"open\""),
        ("CONFIG_X=\"a\" b", "1:13", "CONFIG_X=\"a\""),
        ("CONFIG_X=y # why", "1:11", "CONFIG_X=y"),
    ];
    for (line, place, right) in cases {
        let text = error(line);
        assert!(
            text.starts_with(&format!("f.config:{place}: ")),
            "{line:?}: {text}"
        );
        assert!(
            text.ends_with(&format!("; write `{right}`")),
            "{line:?}: {text}"
        );
        // What is suggested is accepted.
        let _fragment = good(right);
    }
    for line in [
        "CONFIG_X",
        "hello",
        "   ",
        "CONFIG_A-B=y",
        "CONFIG_=y",
        "CONFIG_X:=y",
        "=y",
    ] {
        let text = error(line);
        assert!(text.starts_with("f.config:1:"), "{line:?}: {text}");
    }
}

#[test]
fn comments_stay_comments() {
    for line in [
        "#",
        "# prose about CONFIG_X is not set",
        "# CONFIG_X=y",
        "# CONFIG_X is not set because it is slow",
        "# kiln reads the lines below",
        "## kilns",
        "# kiln's own",
    ] {
        assert!(good(line).assignments.is_empty(), "{line:?}");
    }
}

#[test]
fn directives_are_read_exactly() {
    for (directive, place) in [
        ("# kiln: serie >= 7.0", "9"),
        ("# kiln: series => 7.0", "16"),
        ("# kiln: series == 7.0", "16"),
        ("# kiln: series >= 7", "19"),
        ("# kiln: series >= seven", "19"),
        ("# kiln: series >=", "18"),
        ("# kiln: series >= 7.0 or so", "22"),
        ("# kiln: optional", "17"),
        ("# kiln: optional absent", "18"),
        ("# kiln: optional \"\"", "18"),
        ("# kiln: optional \" \"", "18"),
        ("# kiln: why \"open", "13"),
        ("# kiln: any m", "14"),
        ("# kiln: any m yes", "15"),
        ("# kiln: any m m", "15"),
        ("# kiln: waive 2027-03-01 owner a \"b\"", "15"),
        ("# kiln: waive until 2027-02-30 owner a \"b\"", "21"),
        ("# kiln: waive until 2027-03-01 a \"b\"", "32"),
        ("# kiln: waive until 2027-03-01 owner \"b\"", "38"),
        ("# kiln: waive until 2027-03-01 owner a", "39"),
        ("# kiln: override", "17"),
        ("# kiln: why \"x\" ", "16"),
        ("# kiln:", "1"),
        ("# kiln: ", "9"),
        ("#kiln: why \"x\"", "1"),
        ("# kiln why \"x\"", "1"),
        ("# Kiln: why \"x\"", "1"),
    ] {
        let text = error(&format!("{directive}\nCONFIG_A=m\n"));
        assert!(
            text.starts_with(&format!("f.config:1:{place}: ")),
            "{directive:?}: {text}"
        );
    }
    assert!(error("# kiln: serie >= 7.0\nCONFIG_A=y").contains("# kiln: series >= 7.0"));
}

#[test]
fn directives_that_bind_to_nothing_are_errors() {
    for text in [
        "# kiln: why \"x\"\n",
        "# kiln: begin series < 7.0\n# kiln: why \"x\"\n# kiln: end\n",
        "# kiln: why \"x\"\n# kiln: begin series < 7.0\nCONFIG_A=y\n# kiln: end\n",
        "# kiln: begin series < 7.0\nCONFIG_A=y\n",
        "# kiln: end\n",
        "# kiln: begin why \"x\"\nCONFIG_A=y\n",
        "# kiln: why \"x\"\n# kiln: why \"y\"\nCONFIG_A=y\n",
        "# kiln: any y n\nCONFIG_A=m\n",
        "# kiln: series < 6.0\n# kiln: series > 7.0\nCONFIG_A=y\n",
        "# kiln: begin series < 6.0\n# kiln: series > 7.0\nCONFIG_A=y\n# kiln: end\n",
    ] {
        assert!(!errors(text).is_empty(), "{text:?}");
    }
}

#[test]
fn a_symbol_twice_is_an_error_unless_no_series_gets_both() {
    let text = error("CONFIG_A=y\n# kiln: series >= 7.0\nCONFIG_A=m\n");
    assert!(
        text.starts_with("f.config:3:1:") && text.contains("line 1"),
        "{text}"
    );
    let _fragment = good("# kiln: series < 7.0\nCONFIG_A=y\n# kiln: series >= 7.0\nCONFIG_A=1\n");
}

#[test]
fn all_errors_come_at_once_in_line_order() {
    let errors = errors("# kiln: why \"x\"\n# kiln: end\n CONFIG_A=y\nCONFIG_B=yes\nB\n");
    let places: Vec<&str> = errors.iter().map(|e| &e[9..12]).collect();
    assert_eq!(places, ["1:1", "2:1", "3:1", "4:1", "5:1"]);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?s)(# kiln: |CONFIG_|is not set|series|begin|end|any|why|\"|[ =<>.\nymn0-9Xé]|.){0,60}") {
        if let Err(error) = Fragment::parse("f", &text) {
            prop_assert!(error.to_string().starts_with("f:"));
        }
    }

    // What is accepted means the same to the kernel's reader, which DotConfig follows.
    #[test]
    fn what_is_accepted_is_read_alike(lines in proptest::collection::vec("(# |#)?(CONFIG_|config_)[A-C]{1,2}( |=| is not set| = )?(y|m|n|17|\"a\"|yes)? ?", 0..6)) {
        let text = lines.join("\n");
        if let Ok(fragment) = Fragment::parse("f", &text) {
            let config = DotConfig::parse(text);
            prop_assert!(config.problems().is_empty());
            prop_assert_eq!(config.symbols().count(), fragment.assignments.len());
            for assignment in &fragment.assignments {
                let request = &assignment.request;
                prop_assert_eq!(config.value(&request.symbol), Some(&request.wanted.value));
            }
        }
    }
}
