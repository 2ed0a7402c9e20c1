use super::*;
use crate::dotconfig::Value;
use crate::kconfig::language::Memory;
use crate::kconfig::{Fragment, Origin, Source, merge};
use crate::spec::Collateral;
use std::sync::Arc;

#[path = "basis_tests.rs"]
mod basis;

const TREE: &str = concat!(
    "config FOO\n\tbool \"foo\"\n\tdepends on DEP\n",
    "config DEP\n\tbool \"dep\"\n",
    "config DRIVER\n\ttristate \"driver\"\n",
    "config HIDDEN\n\tdef_bool y if DEP\n",
    "config BUF\n\tint \"buf\"\n\trange 12 25\n",
    "config PLAIN\n\tint \"plain\"\n",
    "config NAME\n\tstring \"name\"\n",
    "config SERIO\n\ttristate \"serio\"\n",
    "config KEYBOARD\n\tbool \"keyboard\"\n\tselect SERIO\n",
    "choice\n\tprompt \"Preemption\"\n",
    "config NONE\n\tbool \"none\"\nconfig FULL\n\tbool \"full\"\n",
    "endchoice\n",
    "config MITIGATION_SRSO\n\tbool \"srso\"\n\tdepends on CPU_MITIGATIONS\n",
    "config CPU_MITIGATIONS\n\tbool \"mitigations\"\n",
    "config USER\n\tbool \"user\"\n\tdepends on !FOO\n",
);

/// A case: everything defaults to "asked nothing, nothing changed".
#[derive(Default)]
struct Case {
    base: &'static str,
    fragment: &'static str,
    later: &'static str,
    asserts: Vec<(&'static str, &'static str)>,
    base_alone: Option<&'static str>,
    resolved: &'static str,
    allowed: &'static str,
    remarks: Vec<Remark>,
    base_remarks: Vec<Remark>,
    today: Option<&'static str>,
    /// Whether the Kconfig files cannot be read.
    basis: Option<Basis>,
}

impl Case {
    fn report(&self) -> GuardReport {
        let mut model = Model::new(Tree::parse(&Memory::of(TREE), "Kconfig").unwrap());
        let base = DotConfig::parse(self.base);
        let base_alone = DotConfig::parse(self.base_alone.unwrap_or(self.base));
        let resolved = DotConfig::parse(self.resolved);
        let fragments = [("f.config", self.fragment), ("g.config", self.later)]
            .map(|(file, text)| Fragment::parse(file, text).unwrap());
        let asserts: Vec<Request> = (10..)
            .zip(&self.asserts)
            .map(|(line, (symbol, value))| {
                let file = Arc::from("p.yaml");
                let origin = Origin { file, line };
                Request::new(*symbol, Value::parse(value), origin, Source::Assertion)
            })
            .collect();
        let merged = merge(&base, &fragments, &asserts, "6.12".parse().unwrap()).unwrap();
        let list = format!("kiln: 1\nallow: [{}]\n", self.allowed);
        let allowed = Collateral::parse("c.yaml", &list).unwrap().allow;
        let evidence = Evidence {
            merged: &merged,
            base: &base,
            base_alone: &base_alone,
            resolved: &resolved,
            remarks: &self.remarks,
            base_remarks: &self.base_remarks,
            facts: &Facts::embedded().unwrap(),
            allowed: &allowed,
            version: "6.12.117".parse().unwrap(),
            today: self.today.map(|today| today.parse().unwrap()),
        };
        let reason = || "no engine".to_owned();
        match self.basis.unwrap_or(Basis::Explained) {
            Basis::Explained => guard(&evidence, &mut model),
            Basis::Files => guard(&evidence, Reading::Files(model.tree(), reason())),
            Basis::Values => guard(&evidence, Reading::Nothing(reason())),
        }
    }

    /// Each finding as `severity code symbol`.
    fn found(&self) -> Vec<String> {
        let report = self.report();
        let found = report.findings.iter();
        found
            .map(|f| {
                format!("{} {} {}", f.severity, f.code(), f.symbol)
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }
}

/// A fragment and what came of it over an empty base.
fn asked(fragment: &'static str, resolved: &'static str) -> Vec<String> {
    Case {
        fragment,
        resolved,
        base_alone: Some(resolved),
        ..Case::default()
    }
    .found()
    .into_iter()
    .filter(|found| !found.contains("new-default"))
    .collect()
}

#[test]
fn a_met_request_is_quiet_in_every_spelling() {
    assert!(asked("CONFIG_FOO=y\n", "CONFIG_FOO=y\n").is_empty());
    for resolved in ["", "# CONFIG_FOO is not set\n", "CONFIG_FOO=n\n"] {
        assert!(asked("# CONFIG_FOO is not set\n", resolved).is_empty());
        assert!(asked("CONFIG_FOO=n\n", resolved).is_empty());
    }
    assert!(asked("CONFIG_NAME=\"\"\n", "CONFIG_NAME=\"\"\n").is_empty());
}

#[test]
fn each_way_to_lose_a_request_has_its_name() {
    for (fragment, resolved, found) in [
        ("CONFIG_FOO=y\n", "", "block lost FOO"),
        (
            "CONFIG_DRIVER=y\n",
            "CONFIG_DRIVER=m\n",
            "block lowered DRIVER",
        ),
        (
            "CONFIG_DRIVER=m\n",
            "CONFIG_DRIVER=y\n",
            "block differs DRIVER",
        ),
        ("CONFIG_DRIVER=m\n", "", "block lost DRIVER"),
        ("CONFIG_BUF=99\n", "CONFIG_BUF=25\n", "block clamped BUF"),
        (
            "CONFIG_PLAIN=99\n",
            "CONFIG_PLAIN=25\n",
            "block differs PLAIN",
        ),
        ("CONFIG_PLAIN=99\n", "", "block lost PLAIN"),
        (
            "CONFIG_NAME=\"a\"\n",
            "CONFIG_NAME=\"b\"\n",
            "block differs NAME",
        ),
        ("CONFIG_NAME=\"\"\n", "", "block lost NAME"),
        ("CONFIG_FOO=m\n", "", "block wrong-type FOO"),
        ("CONFIG_FOO=1\n", "", "block wrong-type FOO"),
        ("CONFIG_BUF=y\n", "CONFIG_BUF=12\n", "block wrong-type BUF"),
        (
            "CONFIG_BUF=0x10\n",
            "CONFIG_BUF=16\n",
            "block wrong-type BUF",
        ),
        (
            "CONFIG_NAME=5\n",
            "CONFIG_NAME=\"\"\n",
            "block wrong-type NAME",
        ),
        ("CONFIG_HIDDEN=y\n", "", "block no-prompt HIDDEN"),
        (
            "# CONFIG_HIDDEN is not set\n",
            "CONFIG_HIDDEN=y\n",
            "block no-prompt HIDDEN",
        ),
        ("CONFIG_FO=y\n", "", "block unknown-symbol FO"),
        ("# CONFIG_FO is not set\n", "", "block unknown-symbol FO"),
        (
            "# CONFIG_FOO is not set\n",
            "CONFIG_FOO=y\n",
            "block differs FOO",
        ),
        (
            "# CONFIG_SERIO is not set\nCONFIG_KEYBOARD=y\n",
            "CONFIG_SERIO=y\nCONFIG_KEYBOARD=y\n",
            "block forced-on SERIO",
        ),
        (
            "CONFIG_SERIO=m\nCONFIG_KEYBOARD=y\n",
            "CONFIG_SERIO=y\nCONFIG_KEYBOARD=y\n",
            "block forced-on SERIO",
        ),
        ("CONFIG_NONE=y\n", "CONFIG_FULL=y\n", "block displaced NONE"),
        ("CONFIG_NONE=y\n", "", "block displaced NONE"),
        (
            "# CONFIG_FULL is not set\n",
            "CONFIG_FULL=y\n",
            "block differs FULL",
        ),
    ] {
        assert_eq!(asked(fragment, resolved), [found], "{fragment}{resolved}");
    }
}

#[test]
fn the_words_name_the_place_the_values_and_the_need() {
    let case = Case {
        fragment: "\n# kiln: why \"needed\"\nCONFIG_FOO=y\n",
        ..Case::default()
    };
    let report = case.report();
    let finding = &report.findings[0];
    assert_eq!(
        finding.to_string(),
        "f.config:3: CONFIG_FOO was asked to be y but is absent: it needs DEP [=n]"
    );
    assert_eq!(
        finding.details(),
        [
            "wanted because: needed",
            "defined at Kconfig:1 (bool, prompt \"foo\")",
            "its value: asked at f.config:3, but its prompt is hidden",
            "it needs, and does not have:",
            "    DEP [=n]",
            "      DEP is n: nothing turns it on",
            "add (tried, it suffices):",
            "    CONFIG_DEP=y",
            "that changes 2 other symbols too",
        ]
    );
    let failed = report.into_guarded().unwrap_err();
    assert_eq!(failed.exit(), Exit::Guard);
    assert!(failed.to_string().contains("0 of 1 requests are met"));
}

#[test]
fn requests_are_judged_where_the_kconfig_files_cannot_be_read() {
    let case = Case {
        base: "CONFIG_USER=y\n",
        fragment: "CONFIG_FOO=y\nCONFIG_BUF=99\n# CONFIG_FO is not set\nCONFIG_DEP=y\n",
        resolved: "CONFIG_BUF=25\nCONFIG_DEP=y\n",
        remarks: vec![Remark {
            line: Some(4),
            symbol: Some("FO".to_owned()),
            text: "unknown symbol: FO".to_owned(),
        }],
        basis: Some(Basis::Values),
        ..Case::default()
    };
    let found = case.found();
    for expected in [
        "block lost FOO",
        "block differs BUF",
        "block unknown-symbol FO",
        "block collateral USER",
        "note unexplained",
    ] {
        assert!(
            found.contains(&expected.to_owned()),
            "{expected}: {found:?}"
        );
    }
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn a_request_that_was_taken_back_is_told_with_both_places() {
    let case = Case {
        fragment: "CONFIG_FOO=y\n",
        later: "# kiln: override \"too slow\"\n# CONFIG_FOO is not set\n",
        ..Case::default()
    };
    let report = case.report();
    assert_eq!(report.findings[0].code(), "overridden");
    assert_eq!(
        report.findings[0].to_string(),
        "f.config:1: CONFIG_FOO is no longer asked to be y: g.config:2 overrides it: too slow"
    );
}

#[test]
fn a_misspelt_symbol_gets_the_right_one_or_its_history() {
    let text = |fragment| {
        let case = Case {
            fragment,
            ..Case::default()
        };
        case.report().findings[0].sentence()
    };
    assert_eq!(
        text("CONFIG_DRIVRE=y\n"),
        "CONFIG_DRIVRE is not in this tree; CONFIG_DRIVER is"
    );
    assert!(text("CONFIG_NO_HZ_FULL_ALL=y\n").contains("nohz_full="));
}

#[test]
fn optional_allows_absence_from_the_tree_and_nothing_else() {
    let absent = "# kiln: optional \"newer only\"\nCONFIG_NEWER=y\n";
    assert_eq!(asked(absent, ""), ["note optional-absent NEWER"]);
    let lost = "# kiln: optional \"newer only\"\nCONFIG_FOO=y\n";
    assert_eq!(asked(lost, ""), ["block lost FOO"]);
}

#[test]
fn any_accepts_each_of_its_values_only() {
    let any = "# kiln: any m y\nCONFIG_DRIVER=m\n";
    assert!(asked(any, "CONFIG_DRIVER=y\n").is_empty());
    assert_eq!(asked(any, ""), ["block lost DRIVER"]);
}

#[test]
fn a_waiver_holds_until_its_day_and_no_longer_than_needed() {
    let waived = "# kiln: waive until 2027-03-01 owner me \"later\"\nCONFIG_FOO=y\n";
    let found = |today, resolved| {
        Case {
            fragment: waived,
            resolved,
            base_alone: Some(resolved),
            base: resolved,
            today,
            ..Case::default()
        }
        .found()
    };
    assert_eq!(found(Some("2027-03-01"), ""), ["note lost FOO"]);
    assert_eq!(
        found(Some("2027-03-02"), ""),
        ["block waiver-expired FOO", "block lost FOO"]
    );
    assert_eq!(found(None, ""), ["note lost FOO"], "reproducing");
    assert_eq!(
        found(Some("2027-01-01"), "CONFIG_FOO=y\n"),
        ["block waiver-unneeded FOO"]
    );
}

#[test]
fn several_members_of_a_choice_are_reported_with_their_lines() {
    let found = asked("CONFIG_NONE=y\nCONFIG_FULL=y\n", "CONFIG_FULL=y\n");
    assert_eq!(
        found,
        ["block several-members FULL", "block displaced NONE"]
    );
    let off = "# CONFIG_NONE is not set\nCONFIG_FULL=y\n";
    assert!(asked(off, "CONFIG_FULL=y\n").is_empty());
}

#[test]
fn an_assertion_may_name_what_no_line_can_set() {
    let case = |value| Case {
        asserts: vec![("HIDDEN", value)],
        base: "CONFIG_HIDDEN=y\n",
        resolved: "CONFIG_HIDDEN=y\n",
        ..Case::default()
    };
    assert!(case("y").found().is_empty());
    assert_eq!(case("n").found(), ["block no-prompt HIDDEN"]);
    // A fragment's line does nothing for it, even where the value is right.
    assert_eq!(
        asked("CONFIG_HIDDEN=y\n", "CONFIG_HIDDEN=y\n"),
        ["warn derived HIDDEN"]
    );
}

#[test]
fn what_is_lost_beside_the_request_blocks_unless_allowed_for_its_cause() {
    let case = |allowed| Case {
        base: "CONFIG_USER=y\n",
        fragment: "CONFIG_FOO=y\n",
        resolved: "CONFIG_FOO=y\n",
        allowed,
        ..Case::default()
    };
    assert_eq!(case("").found(), ["block collateral USER"]);
    let report = case("").report();
    assert_eq!(
        report.findings[0].sentence(),
        "CONFIG_USER went from y to absent unasked, because of CONFIG_FOO at f.config:1"
    );
    let allowed = "{symbols: [US*], cause: FOO, why: not used here}";
    assert_eq!(case(allowed).found(), ["note collateral USER"]);
    let other = "{symbols: [US*], cause: DEP, why: not used here}";
    assert_eq!(
        case(other).found(),
        ["block collateral USER", "warn allowance-unused"]
    );
}

#[test]
fn collateral_weighs_by_what_it_is() {
    let found = |base, resolved| {
        Case {
            base,
            resolved,
            fragment: "CONFIG_FULL=y\n",
            ..Case::default()
        }
        .found()
    };
    // A sibling that gave way is the request itself, seen from the other side.
    assert_eq!(
        found(
            "CONFIG_NONE=y\n",
            "CONFIG_FULL=y\n# CONFIG_NONE is not set\n"
        ),
        ["note sibling-off NONE"]
    );
    assert_eq!(
        found("CONFIG_BUF=12\n", "CONFIG_FULL=y\nCONFIG_BUF=13\n"),
        ["warn collateral BUF"]
    );
    assert_eq!(
        found("CONFIG_DRIVER=m\n", "CONFIG_FULL=y\n"),
        ["block collateral DRIVER"]
    );
    assert_eq!(
        found("CONFIG_DRIVER=m\n", "CONFIG_FULL=y\nCONFIG_DRIVER=y\n"),
        ["warn collateral DRIVER"]
    );
    // On the security list any change blocks, also one upwards.
    assert_eq!(
        found(
            "# CONFIG_MITIGATION_SRSO is not set\n",
            "CONFIG_FULL=y\nCONFIG_MITIGATION_SRSO=y\n"
        ),
        ["block collateral MITIGATION_SRSO"]
    );
    // One that was not there before has not changed, and one without a prompt is no option.
    assert_eq!(
        found("", "CONFIG_FULL=y\nCONFIG_MITIGATION_SRSO=y\n"),
        [
            "warn collateral MITIGATION_SRSO",
            "note new-default MITIGATION_SRSO"
        ]
    );
    assert_eq!(
        found("CONFIG_HIDDEN=y\n", "CONFIG_FULL=y\n"),
        ["note collateral HIDDEN"]
    );
    assert!(found("CONFIG_DRIVER=m\n", "CONFIG_FULL=y\nCONFIG_DRIVER=m\n").is_empty());
}

#[test]
fn a_request_that_weakens_security_is_pointed_out() {
    let case = Case {
        base: "CONFIG_CPU_MITIGATIONS=y\n",
        fragment: "# CONFIG_CPU_MITIGATIONS is not set\n",
        resolved: "# CONFIG_CPU_MITIGATIONS is not set\n",
        ..Case::default()
    };
    assert_eq!(case.found(), ["warn security-asked CPU_MITIGATIONS"]);
}

#[test]
fn what_the_base_itself_loses_is_drift_not_collateral() {
    let case = Case {
        base: "CONFIG_DRIVER=m\nCONFIG_GONE=y\nCONFIG_HIDDEN=y\nCONFIG_FOO=y\n",
        base_alone: Some("CONFIG_DEP=y\nCONFIG_USER=y\n"),
        resolved: "CONFIG_DEP=y\nCONFIG_USER=y\nCONFIG_FOO=y\nCONFIG_PLAIN=5\n",
        fragment: "CONFIG_FOO=y\n",
        ..Case::default()
    };
    assert_eq!(
        case.found(),
        [
            "warn drift DRIVER",
            "warn drift GONE",
            "warn new-default DEP",
            "warn new-default USER",
            "note collateral PLAIN",
            "note drift HIDDEN",
            "note new-default PLAIN",
        ]
    );
}

#[test]
fn the_tools_words_are_kept_where_no_finding_tells_more() {
    let remark = |line, symbol: Option<&str>, text: &str| Remark {
        line,
        symbol: symbol.map(str::to_owned),
        text: text.to_owned(),
    };
    let case = Case {
        base: "CONFIG_DEP=y\n",
        fragment: "CONFIG_FOO=m\n",
        resolved: "CONFIG_DEP=y\n",
        remarks: vec![
            remark(Some(2), Some("FOO"), "symbol value 'm' invalid for FOO"),
            remark(Some(1), Some("OLD"), "unknown symbol: OLD"),
            remark(None, Some("X"), "unmet direct dependencies detected for X"),
            remark(None, None, "something else"),
        ],
        base_remarks: vec![remark(None, None, "something else")],
        ..Case::default()
    };
    assert_eq!(
        case.found(),
        [
            "block wrong-type FOO",
            "warn tool-said X",
            "note tool-said OLD",
            "note tool-said",
        ]
    );
}

#[test]
fn lines_of_the_base_that_the_reader_misreads_are_told() {
    let case = Case {
        base: " CONFIG_DEP=y\nCONFIG_NAME=a\nCONFIG_FOO=y\n# CONFIG_FOO is not set\n",
        base_alone: Some("# CONFIG_FOO is not set\nCONFIG_NAME=\"\"\n"),
        resolved: "# CONFIG_FOO is not set\nCONFIG_NAME=\"\"\n",
        ..Case::default()
    };
    assert_eq!(
        case.found(),
        [
            "warn drift NAME",
            "warn base-problem",
            "warn base-problem NAME",
            "note base-problem FOO",
        ]
    );
}

#[test]
fn an_override_of_nothing_is_told() {
    let found = asked("# kiln: override \"x\"\nCONFIG_FOO=y\n", "CONFIG_FOO=y\n");
    assert_eq!(found, ["note idle-override FOO"]);
}

#[test]
fn a_report_is_canonical_and_its_digest_names_it() {
    let case = |resolved| Case {
        fragment: "CONFIG_FOO=y\n",
        resolved,
        base_alone: Some(resolved),
        ..Case::default()
    };
    let digest = |resolved| case(resolved).report().digest().unwrap();
    assert_eq!(digest("CONFIG_FOO=y\n"), digest("CONFIG_FOO=y\n"));
    assert_ne!(digest("CONFIG_FOO=y\n"), digest(""));
}

#[test]
fn only_a_report_that_passes_gives_a_guarded_configuration() {
    let guarded = guarded();
    assert_eq!(
        guarded.text(),
        "CONFIG_DEP=y\nCONFIG_FOO=y\nCONFIG_NAME=\"a\"\n# CONFIG_USER is not set\n"
    );
    assert_eq!(guarded.digest(), Sha256::of(guarded.text().as_bytes()));
    assert_eq!(guarded.requests().len(), 1);
}

fn guarded() -> GuardedConfig {
    let text = "CONFIG_DEP=y\nCONFIG_FOO=y\nCONFIG_NAME=\"a\"\n# CONFIG_USER is not set\n";
    let case = Case {
        base: text,
        fragment: "CONFIG_FOO=y\n",
        resolved: text,
        ..Case::default()
    };
    case.report().into_guarded().unwrap()
}

#[test]
fn a_copy_must_have_the_same_lines_in_the_same_order() {
    let guarded = guarded();
    let same = format!("#\n# another release\n#\n\n{}", guarded.text());
    guarded.check_copy("the package", &same).unwrap();
    let text = guarded.text();
    for (copy, symbol) in [
        (text.replace("CONFIG_FOO=y", "CONFIG_FOO=m"), "FOO"),
        (
            text.replace("CONFIG_FOO=y", "# CONFIG_FOO is not set"),
            "FOO",
        ),
        (text.replace("CONFIG_FOO=y\n", ""), "FOO"),
        (text.replace("# CONFIG_USER is not set\n", ""), "USER"),
        (text.replace("\"a\"", "\"b\""), "NAME"),
        (format!("{text}CONFIG_NEW=y\n"), "NEW"),
        (
            format!("CONFIG_FOO=y\n{}", text.replace("CONFIG_FOO=y\n", "")),
            "",
        ),
        (format!("{text}CONFIG_FOO=y\n"), ""),
        (format!("{text}CONFIG_USER=n\n"), ""),
        (format!("{text} CONFIG_X=y\n"), ""),
        (String::new(), "DEP"),
    ] {
        let error = guarded.check_copy("the package", &copy).unwrap_err();
        assert_eq!(error.findings[0].symbol, symbol, "{copy}");
        assert_eq!(error.exit(), Exit::Guard);
    }
}
