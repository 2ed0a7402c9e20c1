//! Alarms that other checks of a configuration miss or give falsely, on the real source. Losses are
//! in the catalogue; these are about what is written, and about what is no loss.

use kiln::dotconfig::{DotConfig, Value};
use kiln::kconfig::{Fragment, Intent, Symbols, merge};

use super::world::{fragment, world};
use crate::support::{Case, Outcome, fail, linux};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("kconfig::pitfall_lines_that_only_look_right", look_right),
        Case::new("kconfig::pitfall_one_line_a_symbol", one_line),
        Case::new("kconfig::pitfall_displaced_siblings_are_no_loss", siblings),
        Case::new("kconfig::pitfall_derived_values_are_no_loss", derived),
        Case::new("kconfig::pitfall_another_compiler_is_drift", compiler),
        Case::new("kconfig::pitfall_a_later_fragment_overrides", overridden),
        Case::new(
            "kconfig::pitfall_values_of_the_base_that_cannot_be_read",
            base_values,
        ),
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
    assert!(asked.passes(), "{found:#?}");
    // Debian's configuration alone would generate a key and sign with it.
    let key = "block unreproducible MODULE_SIG_KEY".to_owned();
    assert!(found.contains(&key), "{found:#?}");
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

/// What a later fragment takes back with a reason is told with both lines, and is no loss; without a
/// reason the two cannot be merged.
fn overridden() -> Outcome {
    let world = world()?;
    let first = "CONFIG_HZ_1000=y\nCONFIG_LOG_BUF_SHIFT=18\n";
    let second = "# kiln: override \"larger rings for the traces\"\nCONFIG_LOG_BUF_SHIFT=20\n";
    let asked = world.ask_in_turn(&world.base, &[first, second])?;
    let found = asked.found();
    assert!(
        found.contains(&"note overridden LOG_BUF_SHIFT".to_owned()),
        "{found:#?}"
    );
    let told = asked.told("LOG_BUF_SHIFT");
    for part in ["1.config:2", "2.config:2", "larger rings for the traces"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!((asked.report.met, asked.blocked()), (2, Vec::new()));
    let value = asked.report.config().value("LOG_BUF_SHIFT");
    assert_eq!(value, Some(&Value::Int("20".to_owned())));
    // Without a reason it is a contradiction, whichever comes last.
    let silent = world.ask_in_turn(&world.base, &[first, "CONFIG_LOG_BUF_SHIFT=20\n"]);
    let refused = silent.err().ok_or_else(|| fail("merged"))?;
    assert!(
        refused.text().contains("LOG_BUF_SHIFT"),
        "{}",
        refused.text()
    );
    Ok(())
}

/// The reader takes `mauve` for m and drops a string without quotes, in silence; the base's line is
/// named, and the value that came of it is no request's doing.
fn base_values() -> Outcome {
    let world = world()?;
    let text = world.base.text();
    let lines: Vec<&str> = text.lines().collect();
    let is = |symbol: &str| lines.iter().position(|line| line.starts_with(symbol));
    let at = is("CONFIG_DEFAULT_HOSTNAME=").ok_or_else(|| fail("no host name"))?;
    let module = is("CONFIG_BTRFS_FS=").ok_or_else(|| fail("no file system"))?;
    let mut damaged = lines.clone();
    damaged[at] = "CONFIG_DEFAULT_HOSTNAME=node";
    damaged[module] = "CONFIG_BTRFS_FS=mauve";
    let base = DotConfig::parse(format!("{}\n", damaged.join("\n")));
    let asked = world.ask_in_turn(&base, &["CONFIG_HZ_1000=y\n"])?;
    let found = asked.found();
    for (symbol, at, value) in [
        ("DEFAULT_HOSTNAME", at, "node"),
        ("BTRFS_FS", module, "mauve"),
    ] {
        let problem = format!("warn base-problem {symbol}");
        assert!(found.contains(&problem), "{problem}: {found:#?}");
        let told = asked.told(symbol);
        let line = format!("line {} gives CONFIG_{symbol} the value `{value}`", at + 1);
        assert!(told.contains(&line), "{told}");
    }
    let config = asked.report.config();
    assert_eq!(config.value("BTRFS_FS"), Some(&Value::Module));
    assert_ne!(
        config.value("DEFAULT_HOSTNAME"),
        Some(&Value::Text("node".to_owned()))
    );
    assert!(asked.passes(), "{found:#?}");
    let whole = world.ask("CONFIG_HZ_1000=y\n")?.found();
    assert!(
        !whole.iter().any(|f| f.contains("base-problem")),
        "{whole:#?}"
    );
    Ok(())
}

/// A base of another compiler: what follows from that is drift with the probes behind it, also where
/// several symbols stand between, and `config diff` counts it as the toolchain's.
fn compiler() -> Outcome {
    let alone = &world()?.alone.config;
    let flipped = |symbol: &'static str| {
        let off = alone.is_off(symbol);
        (symbol, if off { "y" } else { "n" })
    };
    let version = alone.value("GCC_VERSION").map(ToString::to_string);
    let version = if version.as_deref() == Some("110400") {
        "140200"
    } else {
        "110400"
    };
    let other = [
        ("GCC_VERSION", version),
        flipped("GCC_ASM_GOTO_OUTPUT_BROKEN"),
        flipped("CC_HAS_ASM_GOTO_OUTPUT"),
    ];
    let lines = other.map(|(symbol, value)| format!("CONFIG_{symbol}={value}\n"));
    let is_other = |line: &&str| {
        let is = |symbol: &str| line.contains(&format!("CONFIG_{symbol}"));
        !other.iter().any(|(symbol, _)| is(symbol))
    };
    let base = world()?.base.text();
    let kept: Vec<&str> = base.lines().filter(is_other).collect();
    let asked =
        world()?.pipeline_over("lts", &format!("{}\n{}", kept.join("\n"), lines.concat()))?;
    let found = asked.found();
    for (symbol, _) in other {
        let drift = format!("note drift {symbol}");
        assert!(found.contains(&drift), "{drift}: {found:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("$(cc-version) at init/Kconfig"), "{told}");
    }
    let model = world()?.model();
    let symbols = Symbols::new(Some(model.tree()));
    let intent = Intent::of(&asked.report, &[], symbols);
    for (symbol, _) in other.iter().chain(&[("CC_VERSION_TEXT", "")]) {
        assert!(intent.toolchain.contains(*symbol), "{symbol}");
    }
    for symbol in ["HZ", "64BIT", "X86_64", "PREEMPT", "RCU_NOCB_CPU"] {
        assert!(!intent.toolchain.contains(symbol), "{symbol}");
    }
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
    assert!(asked.passes(), "{:#?}", asked.found());
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
