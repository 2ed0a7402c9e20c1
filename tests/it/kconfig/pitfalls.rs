//! Alarms that other checks of a configuration miss or give falsely, on the real source. Losses are
//! in the catalogue; these are about what is written, and about what is no loss.

use kiln::dotconfig::{DotConfig, Value};
use kiln::kconfig::{Fragment, merge};

use super::world::{fragment, world};
use crate::support::{Case, Outcome, linux};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("kconfig::pitfall_lines_that_only_look_right", look_right),
        Case::new("kconfig::pitfall_one_line_a_symbol", one_line),
        Case::new("kconfig::pitfall_displaced_siblings_are_no_loss", siblings),
        Case::new("kconfig::pitfall_derived_values_are_no_loss", derived),
        Case::new("kconfig::pitfall_three_spellings_of_off", spellings),
        Case::new("kconfig::pitfall_unquoted_and_prefixed_values", values),
        Case::new("kconfig::pitfall_keys_that_come_by_default", keys),
        Case::new("kconfig::pitfall_paths_of_a_distributions_keys", key_paths),
        Case::new("kconfig::pitfall_built_in_accepted_as_a_module", accepted),
    ]
}

/// What the kernel's reader skips, or takes for a comment, is an error here.
fn look_right() -> Outcome {
    for line in [
        " CONFIG_HZ_1000=y",
        "CONFIG_HZ_1000 = y",
        "#CONFIG_HZ_1000 is not set",
        "# CONFIG_HZ_1000 is not set ",
        "CONFIG_HZ_1000",
    ] {
        let error = Fragment::parse("f.config", &format!("CONFIG_A=y\n{line}\n"));
        let error = error.expect_err(line).to_string();
        assert!(error.contains("f.config:2:"), "{line}: {error}");
    }
    Fragment::parse("f.config", "CONFIG_A=y\n# CONFIG_HZ_1000 is not set\n")?;
    Ok(())
}

/// The base's line goes where a fragment has one, so the tree's program has nothing to remark.
fn one_line() -> Outcome {
    let world = world()?;
    let text = "# CONFIG_MAXSMP is not set\nCONFIG_NR_CPUS=256\n";
    let merged = merge(&world.base, &[fragment(text)?], &[], linux::SERIES.parse()?)?;
    assert!(DotConfig::parse(merged.text()).problems().is_empty());
    let lines = merged.text().lines();
    assert_eq!(
        lines
            .filter(|line| line.contains("CONFIG_NR_CPUS="))
            .count(),
        1
    );
    let twice = format!("{}CONFIG_MAXSMP=y\n", merged.text());
    assert!(!DotConfig::parse(twice).problems().is_empty());
    let asked = world.ask(text)?;
    let found = asked.found();
    assert!(!found.iter().any(|f| f.contains("tool-said")), "{found:#?}");
    assert_eq!(asked.report.met, 2);
    Ok(())
}

/// Of a choice the member that was on gives way to the one that is asked for: the request itself.
fn siblings() -> Outcome {
    let asked = world()?.ask("CONFIG_HZ_1000=y\nCONFIG_PREEMPT=y\n")?;
    let found = asked.found();
    for symbol in ["HZ_250", "PREEMPT_VOLUNTARY"] {
        let gave_way = format!("note sibling-off {symbol}");
        assert!(found.contains(&gave_way), "{symbol}: {found:#?}");
    }
    assert!(asked.report.passes(), "{found:#?}");
    // Asked for by name, the same loss is one.
    let both = world()?.ask("CONFIG_HZ_250=y\nCONFIG_HZ_1000=y\n")?;
    assert!(both.found().contains(&"block displaced HZ_250".to_owned()));
    Ok(())
}

/// What follows from the compiler, or from a choice, is no option that anyone lost.
fn derived() -> Outcome {
    let asked = world()?.ask("CONFIG_HZ_1000=y\n")?;
    let found = asked.found();
    for quiet in ["note drift CC_VERSION_TEXT", "note collateral HZ"] {
        assert!(found.contains(&quiet.to_owned()), "{quiet}: {found:#?}");
    }
    let told = asked.told("CC_VERSION_TEXT");
    assert!(told.contains("$(CC_VERSION_TEXT)"), "{told}");
    Ok(())
}

/// `=n`, "is not set" and no line at all are one.
fn spellings() -> Outcome {
    let text =
        "CONFIG_DEBUG_PREEMPT=n\n# CONFIG_RCU_EXPERT is not set\n# CONFIG_RCU_BOOST is not set\n";
    let asked = world()?.ask(text)?;
    assert_eq!(asked.report.config().value("RCU_BOOST"), None);
    assert_eq!((asked.report.met, asked.blocked()), (3, Vec::new()));
    Ok(())
}

/// A value that the reader would take by its first letter, or drop, is refused where it is written;
/// one of another type is told with the line that is right.
fn values() -> Outcome {
    for line in [
        "CONFIG_HZ_1000=yes",
        "CONFIG_LOCALVERSION=lts",
        "CONFIG_LOG_BUF_SHIFT=017",
    ] {
        assert!(
            Fragment::parse("f.config", &format!("{line}\n")).is_err(),
            "{line}"
        );
    }
    let asked = world()?.ask("CONFIG_DEFAULT_HOSTNAME=7\nCONFIG_LOG_BUF_SHIFT=0x12\n")?;
    let found = asked.found();
    for wrong in [
        "block wrong-type DEFAULT_HOSTNAME",
        "block wrong-type LOG_BUF_SHIFT",
    ] {
        assert!(found.contains(&wrong.to_owned()), "{wrong}: {found:#?}");
    }
    assert_eq!(
        asked.fix("DEFAULT_HOSTNAME"),
        ["CONFIG_DEFAULT_HOSTNAME=\"7\""]
    );
    Ok(())
}

/// The distribution strips its key's path; the default is a key made anew by each build.
fn keys() -> Outcome {
    let asked = world()?.ask("CONFIG_HZ_1000=y\n")?;
    let told = asked.told("MODULE_SIG_KEY");
    assert!(
        told.contains("took its default \"certs/signing_key.pem\""),
        "{told}"
    );
    assert!(
        told.contains("private key/certificate in PEM format"),
        "{told}"
    );
    let shipped = world()?.shipped("")?;
    let found = shipped.found();
    assert!(
        !found.iter().any(|f| f.contains("MODULE_SIG_KEY")),
        "{found:#?}"
    );
    Ok(())
}

/// Paths that only the distribution's own build has never pass through; what they become is what
/// the shipped fragment says.
fn key_paths() -> Outcome {
    let paths = [
        ("SYSTEM_TRUSTED_KEYS", "debian/canonical-certs.pem"),
        ("MODULE_SIG_KEY", "output/signing_key.pem"),
    ];
    let lines = paths.map(|(symbol, path)| format!("CONFIG_{symbol}=\"{path}\"\n"));
    let base = world()?.base.text().to_owned() + &lines.concat();
    let asked = world()?.pipeline_over("lts", &base)?;
    assert!(asked.report.passes(), "{:#?}", asked.found());
    let config = asked.report.config();
    for (symbol, path) in paths {
        assert_eq!(config.value(symbol), Some(&Value::Text(String::new())));
        let told = config.text().contains(path);
        assert!(!told, "{path}");
    }
    // Such a base alone keeps them: nothing but the fragment takes them out.
    let alone = world()?.resolve(&base)?.config;
    let path = Value::Text(paths[0].1.to_owned());
    assert_eq!(alone.value(paths[0].0), Some(&path));
    Ok(())
}

/// Where a module is as good as built in, the fragment says so.
fn accepted() -> Outcome {
    let line = "CONFIG_NETFILTER_XT_MATCH_OWNER=y\n";
    let asked = world()?.ask(line)?;
    let told = asked.told("NETFILTER_XT_MATCH_OWNER");
    assert!(
        told.contains("put `# kiln: any m y` before the line"),
        "{told}"
    );
    let asked = world()?.ask(&format!("# kiln: any m y\n{line}"))?;
    assert!(asked.blocked().is_empty(), "{:#?}", asked.found());
    Ok(())
}
