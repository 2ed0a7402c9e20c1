//! What a verdict is where less than all is known of the tree.

use super::*;

/// Whoever resolved it, the same requests are met, and the report says what it rests on.
#[test]
fn what_blocks_blocks_whatever_is_known() {
    for (base, fragment, resolved) in [
        (
            "CONFIG_USER=y\n",
            "CONFIG_FOO=y\nCONFIG_BUF=99\n",
            "CONFIG_BUF=25\n",
        ),
        ("CONFIG_USER=y\n", "CONFIG_DEP=y\n", "CONFIG_DEP=y\n"),
        (
            "",
            "CONFIG_FOO=y\nCONFIG_DEP=y\n",
            "CONFIG_DEP=y\nCONFIG_FOO=y\n",
        ),
        ("", "CONFIG_DRIVER=y\n", "CONFIG_DRIVER=m\n"),
    ] {
        let by = |basis| {
            let case = Case {
                base,
                fragment,
                resolved,
                basis: Some(basis),
                ..Case::default()
            };
            let report = case.report();
            let mut blocked: Vec<_> = report.blocking().map(|f| f.symbol.clone()).collect();
            blocked.sort();
            assert_eq!(report.basis, basis);
            let unexplained = report.findings.iter().any(|f| f.code() == "unexplained");
            assert_eq!(unexplained, basis != Basis::Explained);
            (report.met, blocked)
        };
        let explained = by(Basis::Explained);
        assert_eq!(by(Basis::Files), explained, "{fragment}");
        let values = by(Basis::Values);
        assert_eq!(values.0, explained.0, "{fragment}");
        for symbol in explained.1 {
            assert!(values.1.contains(&symbol), "{symbol}");
        }
    }
}

/// A displaced member of a choice is no loss where the files are known, whatever they resolve to.
#[test]
fn the_files_alone_tell_what_gave_way() {
    let by = |basis| {
        let case = Case {
            base: "CONFIG_NONE=y\n# CONFIG_FULL is not set\n",
            fragment: "CONFIG_FULL=y\n",
            resolved: "# CONFIG_NONE is not set\nCONFIG_FULL=y\n",
            basis: Some(basis),
            ..Case::default()
        };
        case.report()
    };
    assert!(by(Basis::Explained).passes() && by(Basis::Files).passes());
    let values = by(Basis::Values);
    assert!(!values.passes());
    let told: Vec<String> = values.findings.iter().map(ToString::to_string).collect();
    assert!(
        told.iter()
            .any(|t| t.contains("gave way in a choice, counts as lost")),
        "{told:?}"
    );
}
