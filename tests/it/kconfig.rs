//! Fragments, merge and guard on a real kernel source and its distribution's real configuration,
//! resolved by the tree's own `olddefconfig`. Each entry of the catalogue of silent losses is a
//! case: `make` ends with 0 in all of them.

mod known;
mod pitfalls;
mod truth;
mod world;

use kiln::dotconfig::{DotConfig, Value};
use kiln::failure::{Diagnose as _, Exit};
use kiln::kconfig::{Fragment, costs};

use crate::support::{Case, Outcome, Stop, linux, tree};
use world::{Asked, World, world};

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
        Case::new("kconfig::realtime_costs_are_told", realtime_costs),
        Case::new("kconfig::expert_off_takes_much_along", expert_off),
        Case::new("kconfig::debug_info_none_loses_types", debug_info_none),
        Case::new("kconfig::trimmed_symbols_lose_livepatch", trimmed_symbols),
        Case::new("kconfig::mitigations_off_is_pointed_out", mitigations_off),
        Case::new("kconfig::idle_tick_loses_callbacks", idle_tick),
        Case::new("kconfig::newer_series", newer_series),
        Case::new("kconfig::canary_holds_over_the_older_base", canary_holds),
        Case::new("kconfig::suggested_lines_hold", truth::suggested_lines_hold),
        Case::new(
            "kconfig::no_request_is_broken_by_a_suggestion",
            truth::no_request_is_broken,
        ),
    ];
    cases.extend(pitfalls::cases());
    cases.extend(LOST.iter().map(|lost| {
        let name = format!("kconfig::lost_{}", lost.name);
        Case::new(name, move || lost.check())
    }));
    cases
}

/// One request of the catalogue that comes out otherwise, and the request that holds instead.
struct Lost {
    name: &'static str,
    line: &'static str,
    /// `severity code symbol` of the finding.
    found: &'static str,
    /// A part of what is told.
    told: &'static str,
    /// The lines that are suggested.
    fix: &'static [&'static str],
    /// What a person should have written, which holds: the twin.
    right: &'static str,
}

/// All of them are resolved in one run: they do not touch each other. The twins in another.
const LOST: &[Lost] = &[
    Lost {
        name: "number_where_the_series_has_a_bool",
        line: "CONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=1",
        found: "block wrong-type BOOTPARAM_SOFTLOCKUP_PANIC",
        told: "is bool in this tree and cannot be 1",
        fix: &["CONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=y"],
        right: "CONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=y",
    },
    Lost {
        name: "derived_number",
        line: "CONFIG_HZ=1000",
        found: "block no-prompt HZ",
        told: "has no prompt, so no line sets it: asked 1000, derived 250",
        fix: &["CONFIG_HZ_1000=y"],
        right: "CONFIG_HZ_1000=y",
    },
    Lost {
        name: "need_not_asked",
        line: "CONFIG_RCU_BOOST=y",
        found: "block lost RCU_BOOST",
        told: "RCU_EXPERT is n: set by the base",
        fix: &["CONFIG_RCU_EXPERT=y"],
        right: "CONFIG_RCU_EXPERT=y\nCONFIG_RCU_BOOST=y",
    },
    Lost {
        name: "number_behind_a_need",
        line: "CONFIG_RCU_BOOST_DELAY=400",
        found: "block lost RCU_BOOST_DELAY",
        told: "it needs RCU_BOOST [=n]",
        fix: &["CONFIG_RCU_EXPERT=y"],
        right: "CONFIG_RCU_BOOST_DELAY=400",
    },
    Lost {
        name: "number_whose_prompt_is_hidden",
        line: "CONFIG_NR_CPUS=256",
        found: "block hidden NR_CPUS",
        told: "is 8192: its prompt is hidden, so its line is not heard: it needs !MAXSMP [=y]",
        fix: &["# CONFIG_MAXSMP is not set"],
        right: "# CONFIG_MAXSMP is not set\nCONFIG_NR_CPUS=256",
    },
    Lost {
        name: "off_but_selected",
        line: "# CONFIG_RCU_NOCB_CPU is not set",
        found: "block forced-on RCU_NOCB_CPU",
        told: "selected by CONFIG_NO_HZ_FULL",
        fix: &["CONFIG_NO_HZ_IDLE=y"],
        right: "CONFIG_RCU_NOCB_CPU=y",
    },
    Lost {
        name: "off_but_selected_by_a_choice",
        line: "# CONFIG_CPU_ISOLATION is not set",
        found: "block forced-on CPU_ISOLATION",
        told: "selected by CONFIG_NO_HZ_FULL",
        fix: &["CONFIG_NO_HZ_IDLE=y"],
        right: "CONFIG_CPU_ISOLATION=y",
    },
    Lost {
        name: "off_but_selected_by_a_driver",
        line: "# CONFIG_SERIO_I8042 is not set",
        found: "block forced-on SERIO_I8042",
        told: "selected by CONFIG_KEYBOARD_ATKBD",
        fix: &[
            "# CONFIG_KEYBOARD_ATKBD is not set",
            "# CONFIG_MOUSE_PS2 is not set",
        ],
        right: "CONFIG_SERIO_I8042=y",
    },
    Lost {
        name: "off_but_the_only_member_left",
        line: "# CONFIG_VIRT_CPU_ACCOUNTING_GEN is not set",
        found: "block differs VIRT_CPU_ACCOUNTING_GEN",
        told: "asked to be not set but is y",
        fix: &["CONFIG_NO_HZ_IDLE=y"],
        right: "CONFIG_VIRT_CPU_ACCOUNTING_GEN=y",
    },
    Lost {
        name: "module_where_only_yes_or_no_is",
        line: "CONFIG_CPU_IDLE_GOV_TEO=m",
        found: "block wrong-type CPU_IDLE_GOV_TEO",
        told: "is bool in this tree and cannot be m",
        fix: &["CONFIG_CPU_IDLE_GOV_TEO=y"],
        right: "CONFIG_CPU_IDLE_GOV_TEO=y",
    },
    Lost {
        name: "module_for_a_driver_that_is_built_in",
        line: "CONFIG_X86_AMD_PSTATE=m",
        found: "block wrong-type X86_AMD_PSTATE",
        told: "is bool in this tree and cannot be m",
        fix: &["CONFIG_X86_AMD_PSTATE=y"],
        right: "CONFIG_X86_AMD_PSTATE=y",
    },
    Lost {
        name: "number_out_of_range",
        line: "CONFIG_LOG_BUF_SHIFT=99",
        found: "block clamped LOG_BUF_SHIFT",
        told: "asked to be 99 but is 25: its range is 12 25",
        fix: &["CONFIG_LOG_BUF_SHIFT=25"],
        right: "CONFIG_LOG_BUF_SHIFT=25",
    },
    Lost {
        name: "built_in_on_top_of_a_module",
        line: "CONFIG_NETFILTER_XT_MATCH_OWNER=y",
        found: "block lowered NETFILTER_XT_MATCH_OWNER",
        told: "NETFILTER_XTABLES is m",
        fix: &["CONFIG_NETFILTER_XTABLES=y"],
        right: "CONFIG_NETFILTER_XT_MATCH_OWNER=m",
    },
    Lost {
        name: "symbol_that_went_away",
        line: "CONFIG_NO_HZ_FULL_ALL=y",
        found: "block unknown-symbol NO_HZ_FULL_ALL",
        told: "nohz_full= names the CPUs",
        fix: &["CONFIG_NO_HZ_FULL=y"],
        right: "CONFIG_NO_HZ_FULL=y",
    },
    Lost {
        name: "symbol_that_never_was",
        line: "CONFIG_FORCE_IRQ_THREADING=y",
        found: "block unknown-symbol FORCE_IRQ_THREADING",
        told: "IRQ_FORCED_THREADING",
        fix: &[],
        right: "",
    },
    Lost {
        name: "symbol_that_was_renamed",
        line: "CONFIG_SPECULATION_MITIGATIONS=y",
        found: "block unknown-symbol SPECULATION_MITIGATIONS",
        told: "renamed to CPU_MITIGATIONS",
        fix: &["CONFIG_CPU_MITIGATIONS=y"],
        right: "CONFIG_CPU_MITIGATIONS=y",
    },
    Lost {
        name: "half_a_name",
        line: "CONFIG_TIMERLAT=y",
        found: "block unknown-symbol TIMERLAT",
        told: "CONFIG_TIMERLAT_TRACER is",
        fix: &["CONFIG_TIMERLAT_TRACER=y"],
        right: "CONFIG_TIMERLAT_TRACER=y",
    },
    Lost {
        name: "slip_of_the_pen",
        line: "CONFIG_CPUSTES=y",
        found: "block unknown-symbol CPUSTES",
        told: "CONFIG_CPUSETS is",
        fix: &["CONFIG_CPUSETS=y"],
        right: "CONFIG_CPUSETS=y",
    },
    Lost {
        name: "slip_of_the_pen_in_an_off_line",
        line: "# CONFIG_IKHEADER is not set",
        found: "block unknown-symbol IKHEADER",
        told: "CONFIG_IKHEADERS is",
        fix: &["# CONFIG_IKHEADERS is not set"],
        right: "# CONFIG_IKHEADERS is not set",
    },
];

impl Lost {
    fn check(&self) -> Outcome {
        let world = world()?;
        let report = world.catalogue()?;
        let found = report.found();
        assert!(found.contains(&self.found.to_owned()), "{found:#?}");
        let told = report.told(self.symbol());
        assert!(told.contains(self.told), "{told}");
        let fix = report.fix(self.symbol());
        assert_eq!(fix, self.fix, "{told}");
        // Each line is met by the one that should have been written.
        let right = world.twins()?;
        for line in self.right.lines() {
            let config = DotConfig::parse(line);
            for (symbol, value) in config.symbols() {
                let held = right.report.config().value(symbol).unwrap_or(&Value::No);
                assert_eq!(held, value, "{symbol}");
            }
        }
        Ok(())
    }

    fn symbol(&self) -> &'static str {
        self.found.rsplit(' ').next().expect("a finding's symbol")
    }
}

/// All wrong lines, or all right ones, each symbol once.
fn lines(part: fn(&Lost) -> &'static str) -> String {
    let mut lines: Vec<&str> = LOST.iter().flat_map(|lost| part(lost).lines()).collect();
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| seen.insert(*line));
    lines.join("\n")
}

impl World {
    fn catalogue(&self) -> Result<Asked<'_>, Stop> {
        self.ask_once("catalogue", &lines(|lost| lost.line))
    }

    fn twins(&self) -> Result<Asked<'_>, Stop> {
        self.ask_once("twins", &lines(|lost| lost.right))
    }
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

/// The default workspace's canary: a newer tree, the older distribution's configuration.
fn canary_holds() -> Outcome {
    let world = World::canary(&linux::newer()?)?;
    let asked = world.pipeline("canary")?;
    let blocking: Vec<String> = asked.report.blocking().map(ToString::to_string).collect();
    assert!(blocking.is_empty(), "{blocking:#?}");
    assert_eq!(asked.report.met, asked.report.asked);
    Ok(())
}

/// What an older fragment does on a newer series. Here and there an archive serves one.
fn newer_series() -> Outcome {
    let world = World::of(&linux::newer()?)?;
    let asked = world.ask("CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=y\n")?;
    let found = asked.found();
    assert!(
        found.contains(&"block displaced PREEMPT_VOLUNTARY".to_owned()),
        "{found:#?}"
    );
    let retyped = "block wrong-type BOOTPARAM_SOFTLOCKUP_PANIC".to_owned();
    assert!(found.contains(&retyped), "{found:#?}");
    let shipped = world.shipped("")?;
    assert!(shipped.report.passes(), "{:#?}", shipped.found());
    Ok(())
}
