//! Fragments, merge and guard on a real kernel source and its distribution's real configuration,
//! resolved by the tree's own `olddefconfig`. Each entry of the catalogue of silent losses is a
//! case: `make` ends with 0 in all of them.

mod known;
mod lost;
mod newer;
mod pitfalls;
mod truth;
mod world;

use kiln::failure::{Diagnose as _, Exit};
use kiln::kconfig::{Fragment, costs};

use crate::support::{Case, Outcome, linux, tree};
use world::{newer, world};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("kconfig::fragments_hold_on_the_real_source", fragments_hold),
        Case::new("kconfig::planted_loss_blocks", planted_loss),
        Case::new("kconfig::guest_holds_over_tinyconfig", guest_holds),
        Case::new("kconfig::guest_panics_as_the_fleet_does", guest_panics),
        Case::new(
            "kconfig::symbols_of_the_real_tree_are_known",
            known::symbols_are_known,
        ),
        Case::new(
            "kconfig::security_rows_name_real_symbols",
            known::security_rows,
        ),
        Case::new("kconfig::swapped_copy_is_found", swapped_copy),
        Case::new("kconfig::pulled_pahole_is_drift_and_loss", pulled_pahole),
        Case::new("kconfig::old_pahole_is_named", old_pahole),
        Case::new("kconfig::realtime_costs_are_told", realtime_costs),
        Case::new("kconfig::expert_off_takes_much_along", expert_off),
        Case::new("kconfig::debug_info_none_loses_types", debug_info_none),
        Case::new("kconfig::trimmed_symbols_lose_livepatch", trimmed_symbols),
        Case::new("kconfig::mitigations_off_is_pointed_out", mitigations_off),
        Case::new("kconfig::idle_tick_loses_callbacks", idle_tick),
        Case::new("kconfig::holds_without_effect", without_effect),
        Case::new("kconfig::canary_holds_over_the_older_base", canary_holds),
        Case::new("kconfig::suggested_lines_hold", truth::suggested_lines_hold),
        Case::new(
            "kconfig::no_request_is_broken_by_a_suggestion",
            truth::no_request_is_broken,
        ),
    ];
    cases.extend(pitfalls::cases());
    cases.extend(newer::cases());
    cases.extend(lost::cases());
    cases
}

/// The fragments of the default workspace, over the real configuration: nothing blocks, every line
/// is met, and the only cost is the allowed one.
fn fragments_hold() -> Outcome {
    let asked = world()?.shipped("")?;
    let report = &asked.report;
    let blocking: Vec<String> = report.blocking().map(ToString::to_string).collect();
    assert!(blocking.is_empty(), "{blocking:#?}");
    assert_eq!(report.met, report.asked);
    assert!(report.asked > 70, "{}", report.asked);
    let found = asked.found();
    for expected in [
        "note collateral HARDLOCKUP_DETECTOR_PERF",
        "note sibling-off PREEMPT_VOLUNTARY",
        "note sibling-off HZ_250",
        "note no-effect CPU_IDLE_GOV_TEO",
        "note drift CC_VERSION_TEXT",
    ] {
        assert!(
            found.contains(&expected.to_owned()),
            "{expected}: {found:#?}"
        );
    }
    let warned = found.iter().filter(|found| found.starts_with("warn"));
    let warned: Vec<&String> = warned.collect();
    assert!(warned.is_empty(), "{warned:#?}");
    Ok(())
}

/// A line that cannot hold, put into the last fragment, blocks the same configuration.
fn planted_loss() -> Outcome {
    let asked = world()?.shipped("CONFIG_PREEMPT_RT=y\n")?;
    let failed = asked.report.into_guarded().expect_err("blocked");
    assert_eq!(failed.exit(), Exit::Guard);
    assert!(failed.to_string().contains("PREEMPT"), "{failed}");
    Ok(())
}

fn guest_holds() -> Outcome {
    let world = world()?;
    let asked = world.guest()?;
    let report = &asked.report;
    let blocking: Vec<String> = report.blocking().map(ToString::to_string).collect();
    assert!(blocking.is_empty(), "{blocking:#?}");
    assert_eq!(report.met, report.asked);
    let found = asked.found();
    let warned: Vec<&String> = found
        .iter()
        .filter(|found| found.starts_with("warn"))
        .collect();
    assert!(warned.is_empty(), "{warned:#?}");
    let config = report.config();
    for off in ["DRM", "SOUND", "USB_SUPPORT", "WLAN", "DEBUG_INFO", "VT"] {
        assert!(config.is_off(off), "{off}");
    }
    Ok(())
}

/// The guest's fragment stands alone, so it repeats what the boot gate needs; word for word.
fn guest_panics() -> Outcome {
    let load = |name: &str| {
        let path = tree::repository().join(format!("config-fragments/{name}.config"));
        Fragment::load(&path, name)
    };
    let (guest, gate) = (load("guest")?, load("boot-gate")?);
    for wanted in &gate.assignments {
        let same = guest.assignments.iter().any(|have| {
            have.request.symbol == wanted.request.symbol
                && have.request.wanted == wanted.request.wanted
                && have.series == wanted.series
        });
        assert!(
            same,
            "{} at {}",
            wanted.request.line(),
            wanted.request.origin
        );
    }
    for fragment in ["guest", "boot-gate", "latency", "upstream-build"] {
        for assignment in load(fragment)?.assignments {
            let request = assignment.request;
            assert!(request.why.is_some(), "{} has no reason", request.origin);
        }
    }
    Ok(())
}

/// The configuration inside a package, or of the running kernel, must be the guarded one.
fn swapped_copy() -> Outcome {
    let guarded = world()?.shipped("")?.report.into_guarded()?;
    guarded.check_copy("the package", guarded.text())?;
    let lines = [
        ("CONFIG_PREEMPT=y", "# CONFIG_PREEMPT is not set"),
        ("CONFIG_HZ=1000", "CONFIG_HZ=250"),
        (
            "CONFIG_MODULE_SIG_KEY=\"\"",
            "CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"",
        ),
        ("# CONFIG_DEBUG_PREEMPT is not set\n", ""),
    ];
    for (from, to) in lines {
        let copy = guarded.text().replace(from, to);
        assert_ne!(copy, guarded.text(), "{from}");
        let error = guarded
            .check_copy("the package", &copy)
            .expect_err("another");
        assert_eq!(
            (error.exit(), error.findings.len()),
            (Exit::Guard, 1),
            "{error}"
        );
    }
    Ok(())
}

/// Without pahole the types are lost from the request, and from the base itself: that is drift.
fn pulled_pahole() -> Outcome {
    let world = world()?;
    let asked = world.ask_without("PAHOLE", "CONFIG_DEBUG_INFO_BTF=y\n")?;
    let found = asked.found();
    assert!(
        found.contains(&"block toolchain DEBUG_INFO_BTF".to_owned()),
        "{found:#?}"
    );
    assert!(
        found.contains(&"warn drift SCHED_CLASS_EXT".to_owned())
            || found.contains(&"warn drift DEBUG_INFO_BTF_MODULES".to_owned()),
        "{found:#?}"
    );
    let told = asked.told("DEBUG_INFO_BTF");
    for part in ["pahole-version.sh", "answered 0", "no lines were found"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let drift = asked.told("DEBUG_INFO_BTF_MODULES");
    assert!(drift.contains("pahole-version.sh"), "{drift}");
    let collateral = found.iter().any(|f| f.contains("block collateral"));
    assert!(
        !collateral,
        "the tools took it, not the request: {found:#?}"
    );
    Ok(())
}

/// The same where pahole is there and too old; the twin above has the one of this host.
fn old_pahole() -> Outcome {
    // A program that answers `v1.15` to any question.
    let asked = world()?.ask_with("PAHOLE", "/bin/echo v1.15", "CONFIG_DEBUG_INFO_BTF=y\n")?;
    let found = asked.found();
    let lost = "block toolchain DEBUG_INFO_BTF".to_owned();
    assert!(found.contains(&lost), "{found:#?}");
    let told = asked.told("DEBUG_INFO_BTF");
    for part in ["PAHOLE_VERSION", "answered 115"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    Ok(())
}

/// Real-time preemption is one line that costs graphics, huge pages and more.
fn realtime_costs() -> Outcome {
    let asked = world()?.ask("CONFIG_PREEMPT_RT=y\n")?;
    let found = asked.found();
    let lost: Vec<&str> = asked.blocked();
    for symbol in ["DRM_I915", "TRANSPARENT_HUGEPAGE", "NUMA_BALANCING"] {
        assert!(lost.contains(&symbol), "{symbol}: {found:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("because of CONFIG_PREEMPT_RT at"), "{told}");
    }
    assert!(lost.len() > 15, "{lost:?}");
    // As a person tells it: by the line, by what that takes itself, by what goes with that.
    let findings = asked.report.blocking();
    let costs = costs(findings);
    assert_eq!(costs.len(), 1, "{costs:#?}");
    let told = costs[0].lines(usize::MAX).join("\n");
    for part in [
        "DRM_I915 \"Intel 8xx/9xx/G3x/G4x/HD Graphics\" goes: it needs !PREEMPT_RT [=y] at drivers/gpu/drm/i915/Kconfig:2; with it ",
        "TRANSPARENT_HUGEPAGE \"Transparent Hugepage Support\" goes: it needs !PREEMPT_RT [=y]",
        "DRM_I915_PXP",
        "DEV_DAX_PMEM",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Allowed for this cause by name and pattern, they no longer block; for another they do.
    let allowed = |cause: &str| {
        format!("{{symbols: [DRM_*, TRANSPARENT_*], cause: {cause}, why: nodes have no screen}}")
    };
    let accepted = asked.judged_with(&allowed("PREEMPT_RT"))?;
    assert!(!accepted.blocked().contains(&"DRM_I915"));
    assert!(accepted.blocked().contains(&"NUMA_BALANCING"));
    let other = asked.judged_with(&allowed("HZ_1000"))?;
    assert!(other.blocked().contains(&"DRM_I915"));
    Ok(())
}

fn expert_off() -> Outcome {
    let asked = world()?.ask("# CONFIG_EXPERT is not set\nCONFIG_PREEMPT_RT=y\n")?;
    let found = asked.found();
    let along = found.iter().filter(|f| f.contains(" collateral "));
    assert!(along.count() > 15, "{found:#?}");
    let lost = "block displaced PREEMPT_RT".to_owned();
    assert!(
        found.contains(&lost) || found.contains(&"block lost PREEMPT_RT".to_owned()),
        "{found:#?}"
    );
    assert!(
        asked.told("PREEMPT_RT").contains("it needs EXPERT [=n]"),
        "{}",
        asked.told("PREEMPT_RT")
    );
    Ok(())
}

fn debug_info_none() -> Outcome {
    let asked = world()?.ask("CONFIG_DEBUG_INFO_NONE=y\nCONFIG_DEBUG_INFO_BTF=y\n")?;
    let found = asked.found();
    assert!(
        found.contains(&"block lost DEBUG_INFO_BTF".to_owned()),
        "{found:#?}"
    );
    assert!(
        asked.blocked().contains(&"DEBUG_INFO_BTF_MODULES"),
        "{found:#?}"
    );
    let told = asked.told("DEBUG_INFO_BTF");
    assert!(told.contains("it needs DEBUG_INFO [=n]"), "{told}");
    let (lines, with) = asked.conflict("DEBUG_INFO_BTF");
    assert_eq!(lines, ["CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y"]);
    assert_eq!(with, ["DEBUG_INFO_NONE"]);
    Ok(())
}

fn trimmed_symbols() -> Outcome {
    for (line, symbol, fix) in [
        (
            "CONFIG_TRIM_UNUSED_KSYMS=y",
            "TRIM_UNUSED_KSYMS",
            "# CONFIG_TRIM_UNUSED_KSYMS is not set",
        ),
        (
            "# CONFIG_KALLSYMS_ALL is not set",
            "KALLSYMS_ALL",
            "CONFIG_KALLSYMS_ALL=y",
        ),
    ] {
        let asked = world()?.ask(&format!("{line}\nCONFIG_LIVEPATCH=y\n"))?;
        let found = asked.found();
        assert!(
            found.contains(&"block lost LIVEPATCH".to_owned()),
            "{found:#?}"
        );
        assert_eq!(asked.conflict("LIVEPATCH"), (vec![fix], vec![symbol]));
    }
    Ok(())
}

fn mitigations_off() -> Outcome {
    let asked = world()?.ask("# CONFIG_CPU_MITIGATIONS is not set\nCONFIG_MITIGATION_SRSO=y\n")?;
    let found = asked.found();
    assert!(
        found.contains(&"warn security-asked CPU_MITIGATIONS".to_owned()),
        "{found:#?}"
    );
    assert!(
        found.contains(&"block lost MITIGATION_SRSO".to_owned()),
        "{found:#?}"
    );
    let conflict = asked.conflict("MITIGATION_SRSO");
    assert_eq!(
        conflict,
        (vec!["CONFIG_CPU_MITIGATIONS=y"], vec!["CPU_MITIGATIONS"])
    );
    let others = asked.blocked();
    let others = others
        .iter()
        .filter(|symbol| symbol.starts_with("MITIGATION_"));
    assert!(others.count() > 10, "{found:#?}");
    assert!(
        asked.told("MITIGATION_RETBLEED").contains("security"),
        "{found:#?}"
    );
    Ok(())
}

fn idle_tick() -> Outcome {
    let asked = world()?.ask("CONFIG_NO_HZ_IDLE=y\n")?;
    let found = asked.found();
    assert!(
        found.contains(&"note sibling-off NO_HZ_FULL".to_owned()),
        "{found:#?}"
    );
    for symbol in ["RCU_NOCB_CPU", "RCU_LAZY"] {
        assert!(asked.blocked().contains(&symbol), "{symbol}: {found:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("because of CONFIG_NO_HZ_IDLE at"), "{told}");
    }
    Ok(())
}

/// What holds in the configuration and is undone by a governor that outranks it or by a boot
/// parameter is pointed out, and never blocks.
fn without_effect() -> Outcome {
    let lines = [
        ("CPU_IDLE_GOV_TEO", "cpuidle.governor=teo"),
        ("PREEMPT", "preempt="),
        ("TRANSPARENT_HUGEPAGE_MADVISE", "transparent_hugepage="),
    ];
    let text = lines.map(|(symbol, _)| format!("CONFIG_{symbol}=y\n"));
    let asked = world()?.ask(&text.concat())?;
    let found = asked.found();
    for (symbol, parameter) in lines {
        let noted = format!("note no-effect {symbol}");
        assert!(found.contains(&noted), "{found:#?}");
        assert!(asked.told(symbol).contains(parameter), "{parameter}");
    }
    assert!(asked.blocked().is_empty(), "{found:#?}");
    // Alone of its kind the governor is used.
    let asked =
        world()?.ask("CONFIG_CPU_IDLE_GOV_TEO=y\n# CONFIG_CPU_IDLE_GOV_MENU is not set\n")?;
    assert!(
        !asked
            .found()
            .iter()
            .any(|found| found.contains("no-effect"))
    );
    Ok(())
}

/// The default workspace's canary: a newer tree, the older distribution's configuration.
fn canary_holds() -> Outcome {
    let older = linux::real_config("amd64_none_amd64")?;
    let asked = newer()?.pipeline_over("canary", &older)?;
    let blocking: Vec<String> = asked.report.blocking().map(ToString::to_string).collect();
    assert!(blocking.is_empty(), "{blocking:#?}");
    assert_eq!(asked.report.met, asked.report.asked);
    Ok(())
}
