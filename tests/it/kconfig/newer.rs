//! What an older fragment does on a newer series, and what a newer series costs. Here and there an
//! archive serves one; elsewhere these cases do not run.

use kiln::dotconfig::Value;

use super::world::newer;
use crate::support::{Case, Outcome, skip};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("kconfig::newer_preemption_models_are_gone", preemption),
        Case::new("kconfig::newer_numbers_where_bools_were", numbers),
        Case::new("kconfig::newer_symbols_went_away", went_away),
        Case::new("kconfig::newer_realtime_costs_iptables", realtime),
        Case::new("kconfig::newer_toolchain_is_drift", toolchain),
        Case::new("kconfig::newer_off_but_selected", forced),
        Case::new("kconfig::newer_series_takes_the_same_fragments", shipped),
    ]
}

/// The one default that is left is chosen, without a word.
fn preemption() -> Outcome {
    for model in ["PREEMPT_VOLUNTARY", "PREEMPT_NONE"] {
        let asked = newer()?.ask(&format!("CONFIG_{model}=y\n"))?;
        let found = asked.found();
        let displaced = format!("block displaced {model}");
        assert!(found.contains(&displaced), "{found:#?}");
        let told = asked.told(model);
        for part in ["PREEMPT_LAZY", "in 7.2 on x86 it cannot be chosen"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let config = asked.report.config();
        assert_eq!(config.value("PREEMPT_LAZY"), Some(&Value::Yes));
    }
    let asked = newer()?.ask("CONFIG_PREEMPT=y\n")?;
    assert!(
        !asked.blocked().contains(&"PREEMPT"),
        "{:#?}",
        asked.found()
    );
    Ok(())
}

fn numbers() -> Outcome {
    let wrong = "CONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=y\nCONFIG_BOOTPARAM_HUNG_TASK_PANIC=y\n";
    let asked = newer()?.ask(wrong)?;
    let found = asked.found();
    for symbol in ["BOOTPARAM_SOFTLOCKUP_PANIC", "BOOTPARAM_HUNG_TASK_PANIC"] {
        let retyped = format!("block wrong-type {symbol}");
        assert!(found.contains(&retyped), "{found:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("a number in 7.2"), "{told}");
    }
    let right = "CONFIG_BOOTPARAM_SOFTLOCKUP_PANIC=1\nCONFIG_BOOTPARAM_HUNG_TASK_PANIC=0\n";
    let asked = newer()?.ask(right)?;
    assert_eq!((asked.report.met, asked.blocked()), (2, Vec::new()));
    Ok(())
}

fn went_away() -> Outcome {
    let gone = ["SCHED_DEBUG", "MODULE_SIG_SHA1", "PANIC_ON_OOPS_VALUE"];
    let lines: String = gone.map(|name| format!("CONFIG_{name}=y\n")).concat();
    let asked = newer()?.ask(&lines)?;
    let found = asked.found();
    for symbol in gone {
        let unknown = format!("block unknown-symbol {symbol}");
        assert!(found.contains(&unknown), "{found:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("in 6.12, gone in 7.2"), "{told}");
    }
    Ok(())
}

/// `NETFILTER_XTABLES_LEGACY` needs a kernel that is not real-time.
fn realtime() -> Outcome {
    let asked = newer()?.ask("CONFIG_PREEMPT_RT=y\n")?;
    let lost = asked.blocked();
    for symbol in ["NETFILTER_XTABLES_LEGACY", "IP_NF_NAT", "IP_NF_FILTER"] {
        assert!(lost.contains(&symbol), "{symbol}: {lost:#?}");
        let told = asked.told(symbol);
        assert!(told.contains("because of CONFIG_PREEMPT_RT at"), "{told}");
    }
    Ok(())
}

/// What the base itself loses here is told apart from what a request costs, with the probe that
/// answered otherwise.
fn toolchain() -> Outcome {
    let asked = newer()?.ask("CONFIG_HZ_1000=y\n")?;
    assert!(asked.passes(), "{:#?}", asked.found());
    let found = asked.found();
    if !found.contains(&"note drift GCC_VERSION".to_owned()) {
        return Err(skip("this host's compiler is that of the base"));
    }
    let drifted = |symbol: &str| {
        found
            .iter()
            .any(|f| f.ends_with(&format!(" drift {symbol}")))
    };
    for symbol in ["RUST", "CC_HAS_COUNTED_BY"] {
        let told = asked.told(symbol);
        assert!(!drifted(symbol) || told.contains(" answered "), "{told}");
    }
    let told = asked.told("MODULE_SIG_KEY");
    assert!(
        told.contains("took its default \"certs/signing_key.pem\""),
        "{told}"
    );
    Ok(())
}

/// A line that says off is a promise too.
fn forced() -> Outcome {
    let lines = "# CONFIG_JUMP_LABEL is not set\n# CONFIG_FUNCTION_TRACER is not set\n\
                 # CONFIG_RCU_NOCB_CPU is not set\n# CONFIG_CPU_ISOLATION is not set\n";
    let asked = newer()?.ask(lines)?;
    let found = asked.found();
    for symbol in [
        "JUMP_LABEL",
        "FUNCTION_TRACER",
        "RCU_NOCB_CPU",
        "CPU_ISOLATION",
    ] {
        let forced = format!("block forced-on {symbol}");
        assert!(found.contains(&forced), "{found:#?}");
        assert!(asked.told(symbol).contains("selected by CONFIG_"));
    }
    Ok(())
}

fn shipped() -> Outcome {
    let shipped = newer()?.shipped("")?;
    assert!(shipped.report.passes(), "{:#?}", shipped.found());
    assert_eq!(shipped.report.met, shipped.report.asked);
    Ok(())
}
