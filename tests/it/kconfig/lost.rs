//! Single lines that are lost in silence, each with its verdict, the lines that are suggested, and
//! the line that should have been written.

use kiln::dotconfig::{DotConfig, Value};

use super::world::{Asked, World, world};
use crate::support::{Case, Outcome, Stop};

pub fn cases() -> impl Iterator<Item = Case> {
    LOST.iter().map(|lost| {
        let name = format!("kconfig::lost_{}", lost.name);
        Case::new(name, move || lost.check())
    })
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
        name: "off_but_selected_by_a_tracer",
        line: "# CONFIG_FUNCTION_TRACER is not set",
        found: "block forced-on FUNCTION_TRACER",
        told: "selected by CONFIG_STACK_TRACER",
        fix: &["# CONFIG_STACK_TRACER is not set"],
        right: "CONFIG_FUNCTION_TRACER=y",
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
        name: "symbol_that_became_another",
        line: "CONFIG_RCU_NOCB_CPU_ALL=y",
        found: "block unknown-symbol RCU_NOCB_CPU_ALL",
        told: "rcu_nocbs=",
        fix: &["CONFIG_RCU_NOCB_CPU_DEFAULT_ALL=y"],
        right: "CONFIG_RCU_NOCB_CPU_DEFAULT_ALL=y",
    },
    Lost {
        name: "symbol_of_a_newer_series",
        line: "CONFIG_PREEMPT_LAZY=y",
        found: "block unknown-symbol PREEMPT_LAZY",
        told: "PREEMPT_LAZY",
        fix: &[],
        right: "",
    },
    Lost {
        name: "number_that_follows_from_another",
        line: "CONFIG_PANIC_ON_OOPS_VALUE=1",
        found: "block no-prompt PANIC_ON_OOPS_VALUE",
        told: "has no prompt",
        fix: &["CONFIG_PANIC_ON_OOPS=y"],
        right: "CONFIG_PANIC_ON_OOPS=y",
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
