//! Whether a kernel would panic instead of hanging, by its configuration and its command line.

use super::preflight::{Finding, finding};
use crate::dotconfig::{DotConfig, Value};

/// What GRUB's text adds to the command line of a trial. A kernel that cannot do these would hang
/// where it should die, and a hang is no attempt that ends.
pub const TRIAL_WORDS: [(&str, &str); 5] = [
    ("panic=10", "PANIC_TIMEOUT"),
    ("oops=panic", "PANIC_ON_OOPS"),
    ("softlockup_panic=1", "SOFTLOCKUP_DETECTOR"),
    ("nmi_watchdog=panic", "HARDLOCKUP_DETECTOR"),
    ("hung_task_panic=1", "DETECT_HUNG_TASK"),
];

/// What speaks against a kernel: its configuration, and the words of its slot.
pub fn lint(config: &DotConfig, words: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    // The words of the slot come before those of GRUB's text, and the last one counts; but a word
    // that says the opposite tells of a person who wants something else.
    for word in words.split_ascii_whitespace() {
        if let Some(("panic", time)) = word.split_once('=')
            && matches!(time, "0" | "-0")
        {
            found.push(finding(
                "words-hang",
                format!("`{word}` makes a kernel that panics stand still for ever"),
                "leave it out",
            ));
        }
        if let Some(why) = hangs(word) {
            found.push(finding(
                "words-hang",
                format!("`{word}` {why}"),
                "leave it out",
            ));
        }
        if word.starts_with("gate.") {
            found.push(finding(
                "words-gate",
                format!("`{word}` is a word that GRUB adds itself"),
                "leave it out",
            ));
        }
    }
    // The two that are no option of a command line alone: without the detector the word does nothing.
    for (word, symbol) in &TRIAL_WORDS[2..] {
        if config.value(symbol) != Some(&Value::Yes) {
            found.push(finding(
                "kernel-hangs",
                format!(
                    "the kernel has no CONFIG_{symbol}=y, so `{word}` does nothing: it would hang \
                     where it should panic"
                ),
                format!("build it with `CONFIG_{symbol}=y`"),
            ));
        }
    }
    found
}

/// Why a word takes away what ends a hang, if it does. GRUB's own words do not bring it back.
fn hangs(word: &str) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word);
    match (name, word) {
        (_, "nowatchdog" | "nosoftlockup" | "nmi_watchdog=0") => {
            Some("switches off what finds a processor that is stuck")
        }
        ("break", _) => Some("has the initramfs wait for a person"),
        ("init" | "rdinit", _) => Some("starts another first program, which starts no deadman"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: &str = "CONFIG_SOFTLOCKUP_DETECTOR=y\nCONFIG_HARDLOCKUP_DETECTOR=y\n\
                       CONFIG_DETECT_HUNG_TASK=y\n";

    #[test]
    fn a_kernel_that_would_hang_is_found() {
        let codes = |config: &str, words: &str| -> Vec<&'static str> {
            let config = DotConfig::parse(config.to_owned());
            lint(&config, words).iter().map(|one| one.code).collect()
        };
        assert_eq!(codes(FIT, "root=/dev/vda1 panic=5"), [""; 0]);
        assert_eq!(codes(FIT, "panic=0"), ["words-hang"]);
        for word in [
            "nowatchdog",
            "nosoftlockup",
            "nmi_watchdog=0",
            "break",
            "break=mount",
            "init=/bin/sh",
            "rdinit=/x",
        ] {
            assert_eq!(codes(FIT, word), ["words-hang"], "{word}");
        }
        assert_eq!(
            codes(FIT, "nmi_watchdog=1 breakpoint=1 initcall_debug"),
            [""; 0]
        );
        assert_eq!(codes(FIT, "gate.role=good"), ["words-gate"]);
        for line in FIT.lines() {
            let without = FIT.replace(line, "");
            assert_eq!(codes(&without, ""), ["kernel-hangs"], "{line}");
        }
    }
}
