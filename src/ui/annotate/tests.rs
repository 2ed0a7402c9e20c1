//! Golden outputs, and text that tries to break out of each form.

use super::*;
use crate::dotconfig::DotConfig;
use crate::kconfig::language::{Memory, Model, Tree};
use crate::kconfig::{Evidence, Facts, Fragment, Origin, Requested, Rival, Source, guard, merge};

/// A report about a configuration of which nothing was asked, with these findings.
fn report(findings: Vec<Finding>) -> GuardReport {
    let config = DotConfig::parse("CONFIG_A=y\n");
    let fragment = Fragment::parse("f.config", "CONFIG_A=y\n").unwrap();
    let merged = merge(&config, &[fragment], &[], "6.18".parse().unwrap()).unwrap();
    let tree = "config A\n\tbool \"a\"\n";
    let mut model = Model::new(Tree::parse(&Memory::of(tree), "Kconfig").unwrap());
    let evidence = Evidence {
        merged: &merged,
        base: &config,
        base_alone: &config,
        resolved: &config,
        remarks: &[],
        base_remarks: &[],
        facts: &Facts::embedded().unwrap(),
        allowed: &[],
        version: "6.18.40".parse().unwrap(),
        today: None,
    };
    let mut report = guard(&evidence, &mut model);
    assert!(report.passes(), "{:?}", report.findings);
    report.findings = findings;
    report
}

/// Something that was asked for at a place.
fn asked(severity: Severity, symbol: &str, kind: Kind, place: (&str, u32)) -> Finding {
    let mut finding = Finding::new(severity, symbol, kind);
    finding.requested = Some(Requested {
        value: "y".to_owned(),
        origin: Origin {
            file: place.0.into(),
            line: place.1,
        },
        source: Source::Assertion,
        why: None,
        waiver: None,
    });
    finding.actual = Some("n".to_owned());
    finding
}

fn told(form: Form, prefix: &str, findings: Vec<Finding>) -> String {
    Judged {
        pipeline: "lts",
        file: "pipelines/lts.yaml",
        prefix,
        report: &report(findings),
    }
    .annotations(form)
}

/// A blocking finding with a line, a warning without one, and a note.
fn usual() -> Vec<Finding> {
    let text = "it says so".to_owned();
    vec![
        asked(
            Severity::Block,
            "FOO",
            Kind::Differs,
            ("config-fragments/f.config", 7),
        ),
        Finding::new(Severity::Warn, "", Kind::ToolSaid { text }),
        asked(Severity::Note, "BAR", Kind::Differs, ("n.config", 1)),
    ]
}

/// Everything that means something in one of the forms.
const HOSTILE: &str = "a\r\n::error::b]]><x y=\"'&%0A,:\u{0}\u{1b}\u{ffff}é";

fn hostile() -> Vec<Finding> {
    let text = HOSTILE.to_owned();
    let kind = || Kind::ToolSaid { text: text.clone() };
    vec![
        asked(Severity::Block, "", kind(), (HOSTILE, 3)),
        Finding::new(Severity::Warn, HOSTILE, kind()),
    ]
}

#[test]
fn github() {
    insta::assert_snapshot!(told(Form::Github, "kernels/", usual()));
}

#[test]
fn gitlab() {
    insta::assert_snapshot!(told(Form::Gitlab, "", usual()));
}

#[test]
fn junit() {
    insta::assert_snapshot!(told(Form::Junit, "kernels/", usual()));
}

#[test]
fn github_commands_stay_lines_of_their_own() {
    let text = told(Form::Github, "", hostile());
    let lines: Vec<&str> = text.split(['\n', '\r']).collect();
    assert_eq!(lines.len(), 4, "{text}");
    for line in &lines[..2] {
        let (command, message) = line[2..].split_once("::").unwrap();
        assert!(message.contains("%0D%0A::error::b]]>"), "{line}");
        assert!(message.contains("%250A,:"), "{line}");
        // The properties are those that were meant: three, each with one name.
        let properties = command.split_once(' ').unwrap().1;
        let names: Vec<&str> = properties
            .split(',')
            .map(|property| property.split_once('=').unwrap().0)
            .collect();
        assert_eq!(names, ["file", "line", "title"], "{line}");
    }
}

#[test]
fn gitlab_reads_back_what_was_said() {
    let issues: serde_json::Value =
        serde_json::from_str(&told(Form::Gitlab, "", hostile())).unwrap();
    assert_eq!(issues[0]["location"]["path"], HOSTILE);
    assert!(issues[1]["description"].as_str().unwrap().contains(HOSTILE));
    // Twice the same is two issues.
    let twice = [usual(), usual()].concat();
    let issues: serde_json::Value = serde_json::from_str(&told(Form::Gitlab, "", twice)).unwrap();
    let marks: std::collections::BTreeSet<_> = issues
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["fingerprint"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(marks.len(), 4);
    // A line that moved is the same issue.
    let moved = asked(
        Severity::Block,
        "FOO",
        Kind::Differs,
        ("config-fragments/f.config", 9),
    );
    let moved: serde_json::Value =
        serde_json::from_str(&told(Form::Gitlab, "", vec![moved])).unwrap();
    assert_eq!(moved[0]["fingerprint"], issues[0]["fingerprint"]);
}

#[test]
fn junit_has_no_markup_but_its_own() {
    let text = told(Form::Junit, "", hostile());
    let tags: Vec<&str> = text
        .split('<')
        .skip(1)
        .map(|part| part.split([' ', '>', '/']).next().unwrap())
        .filter(|tag| !tag.is_empty())
        .collect();
    let expected =
        "?xml testsuites testsuite testcase failure testcase system-out testcase failure";
    assert_eq!(tags.join(" "), expected);
    assert!(!text.contains("]]>") && !text.contains('\u{1b}') && !text.contains('\u{0}'));
    assert!(text.contains(
        "&#13;&#10;::error::b]]&gt;&lt;x y=&quot;&apos;&amp;%0A,:\u{fffd}\u{fffd}\u{fffd}é"
    ));
}

#[test]
fn collateral_is_shown_where_its_cause_is_asked_for() {
    let cause = Rival {
        symbol: "PREEMPT_RT".to_owned(),
        origin: Origin {
            file: "config-fragments/rt.config".into(),
            line: 4,
        },
    };
    let kind = |causes| Kind::Collateral {
        security: None,
        causes,
        through: None,
        allowed: None,
    };
    let findings = vec![
        Finding::new(Severity::Block, "DRM_I915", kind(vec![cause])),
        Finding::new(Severity::Block, "OTHER", kind(Vec::new())),
    ];
    let text = told(Form::Github, "", findings);
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default();
    let first = next();
    assert!(
        first.starts_with("::error file=config-fragments/rt.config,line=4,"),
        "{first}"
    );
    let second = next();
    assert!(
        second.starts_with("::error file=pipelines/lts.yaml,line=1,"),
        "{second}"
    );
}

#[test]
fn a_good_report_is_a_good_report() {
    assert_eq!(
        told(Form::Github, "", Vec::new()),
        "::notice::lts: guard passed on linux 6.18.40: 1 of 1 requests are met\n"
    );
    assert_eq!(told(Form::Gitlab, "", Vec::new()), "[]\n");
    assert!(told(Form::Junit, "", Vec::new()).contains("tests=\"1\" failures=\"0\""));
}
