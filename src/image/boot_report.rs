//! What a booted guest said of itself, and whether that is what was promised.
//!
//! The report comes from `assets/boot-test-init` on the guest's second serial port, the console
//! from its first. Both are texts that a broken kernel may cut or garble anywhere.

use crate::digest::Sha256;
use crate::dotconfig::{Change, DotConfig};
use crate::kernel::Release;
use crate::qemu::{End, Finished};

/// The report of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// `/proc/cmdline`.
    pub cmdline: Option<String>,
    /// `/proc/config.gz`, decompressed.
    pub config: Answer,
    /// The modules that were loaded, in order, with the answer where one was refused.
    pub modules: Vec<ModuleAnswer>,
    /// `/proc/sys/kernel/tainted`.
    pub tainted: Option<u64>,
    /// Whether the report came to its end.
    pub complete: bool,
}

/// How the question for the running configuration was answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer {
    /// Not at all.
    #[default]
    None,
    /// The kernel has no `/proc/config.gz`.
    Absent,
    /// With a text that is not the one whose digest the guest told.
    Damaged,
    /// With this text.
    Text(String),
}

/// What became of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleAnswer {
    /// Its file name.
    pub name: String,
    /// Why the kernel refused it; nothing where it was loaded.
    pub refused: Option<String>,
}

impl Report {
    /// Reads a report. Lines that are none are passed over: the port may carry noise.
    pub fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let mut config: Option<String> = None;
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end_matches(['\n', '\r']);
            match (bare.strip_prefix("kiln "), config.as_mut()) {
                (Some(said), _) => report.take(said, &mut config),
                (None, Some(config)) => config.push_str(line),
                (None, None) => {}
            }
        }
        report
    }

    fn take(&mut self, said: &str, config: &mut Option<String>) {
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let text = || Some(rest.to_owned());
        match word {
            "release" => self.release = text(),
            "version" => self.version = text(),
            "cmdline" => self.cmdline = text(),
            "tainted" => self.tainted = rest.parse().ok(),
            "end" => self.complete = true,
            "module" => self.modules.extend(module(rest)),
            "config" if rest == "begin" => *config = Some(String::new()),
            "config" if rest == "absent" => self.config = Answer::Absent,
            "config" => {
                let told = rest.strip_prefix("end ").and_then(|d| d.parse().ok());
                self.config = match (config.take(), told) {
                    (Some(text), Some(told)) if Sha256::of(text.as_bytes()) == told => {
                        Answer::Text(text)
                    }
                    _ => Answer::Damaged,
                };
            }
            _ => {}
        }
    }
}

fn module(rest: &str) -> Option<ModuleAnswer> {
    let (name, answer) = rest.split_once(' ')?;
    let refused = match answer {
        "loaded" => None,
        other => Some(other.strip_prefix("refused ").unwrap_or(other).to_owned()),
    };
    Some(ModuleAnswer {
        name: name.to_owned(),
        refused,
    })
}

/// What a guest must say.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Its `uname -r`; the build number in it starts `uname -v`.
    pub release: &'a Release,
    /// Its `/proc/config.gz`.
    pub config: &'a DotConfig,
}

/// What is wrong with a booted kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootFailure {
    /// The kernel gave up.
    #[error("the kernel panicked: {0}")]
    Panic(String),
    /// The kernel went on after an error of its own.
    #[error("the kernel reported an error of its own: {0}")]
    Oops(String),
    /// It still ran when its time was up.
    #[error("the guest did not end within {limit_s} s; the last line of its console: {last}")]
    Hang {
        /// The deadline, in seconds.
        limit_s: u64,
        /// The last line.
        last: String,
    },
    /// It ended before its report did.
    #[error("the guest ended before its report was complete; the last line of its console: {0}")]
    Died(String),
    /// Another kernel.
    #[error("the booted kernel calls itself `{found}`: expected `{expected}`")]
    Release {
        /// What it says.
        found: String,
        /// What was promised.
        expected: String,
    },
    /// Another build of the same kernel.
    #[error("the booted kernel's version is `{found}`: expected `{expected}` at its start")]
    Version {
        /// What it says.
        found: String,
        /// What was promised.
        expected: String,
    },
    /// It cannot tell its configuration.
    #[error("the booted kernel has no /proc/config.gz")]
    NoConfig,
    /// The configuration came through damaged.
    #[error("the configuration that the booted kernel told does not have the digest that it told")]
    DamagedConfig,
    /// It runs another configuration.
    #[error("the booted kernel runs another configuration: {} symbols differ, the first is {}",
        .0.len(), .0.first().map_or("unknown", |change| change.symbol.as_str()))]
    Config(Vec<Change>),
    /// A module of the package does not load.
    #[error("the booted kernel refused the module `{name}` of its own package: {answer}")]
    Module {
        /// The module.
        name: String,
        /// What `insmod` said.
        answer: String,
    },
    /// Modules were tried, and none of them has a device here.
    #[error("none of the modules tried could be loaded: {0}")]
    NoModule(String),
}

impl BootFailure {
    /// Whether the host's virtualisation could have caused it: no word of the kernel tells of it.
    pub const fn may_be_the_hosts(&self) -> bool {
        matches!(self, Self::Hang { .. } | Self::Died(_))
    }

    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Panic(_) => "boot-panic",
            Self::Oops(_) => "boot-oops",
            Self::Hang { .. } => "boot-hang",
            Self::Died(_) => "boot-died",
            Self::Release { .. } => "boot-release",
            Self::Version { .. } => "boot-version",
            Self::NoConfig => "boot-no-config",
            Self::DamagedConfig => "boot-damaged-config",
            Self::Config(_) => "boot-config",
            Self::Module { .. } => "boot-module",
            Self::NoModule(_) => "boot-no-module",
        }
    }
}

/// Judges a guest that has ended. The first failure counts: what follows a panic explains nothing.
///
/// # Errors
/// What is wrong.
pub fn judge(
    finished: &Finished,
    report: &Report,
    expected: Expected<'_>,
) -> Result<(), BootFailure> {
    judge_console(finished, report)?;
    judge_names(report, expected.release)?;
    match &report.config {
        Answer::None | Answer::Absent => return Err(BootFailure::NoConfig),
        Answer::Damaged => return Err(BootFailure::DamagedConfig),
        Answer::Text(text) => {
            let changes = expected.config.diff(&DotConfig::parse(text.as_str()));
            if !changes.is_empty() {
                return Err(BootFailure::Config(changes));
            }
        }
    }
    judge_modules(&report.modules)
}

fn judge_console(finished: &Finished, report: &Report) -> Result<(), BootFailure> {
    let line = |marks: &[&str]| {
        let hit = |text: &str| marks.iter().any(|mark| text.contains(mark));
        let found = finished.console.iter().find(|line| hit(&line.text));
        found.map(|line| line.text.clone())
    };
    // First: with `oops=panic` an error of the kernel's own is followed by a panic that hides it.
    if let Some(text) = line(&["BUG: ", "Oops: ", "Internal error: "]) {
        return Err(BootFailure::Oops(text));
    }
    if let Some(text) = line(&["Kernel panic - not syncing: "]) {
        return Err(BootFailure::Panic(text));
    }
    let last = || {
        let lines = finished.console.iter().rev();
        let last = lines.map(|line| line.text.trim()).find(|l| !l.is_empty());
        last.unwrap_or("it printed nothing").to_owned()
    };
    match finished.end {
        End::Deadline(limit) => Err(BootFailure::Hang {
            limit_s: limit.as_secs(),
            last: last(),
        }),
        End::Off if !report.complete => Err(BootFailure::Died(last())),
        End::Off => Ok(()),
    }
}

fn judge_names(report: &Report, release: &Release) -> Result<(), BootFailure> {
    let told = |text: &Option<String>| text.clone().unwrap_or_default();
    let (found, expected) = (told(&report.release), release.to_string());
    if found != expected {
        return Err(BootFailure::Release { found, expected });
    }
    let (found, expected) = (told(&report.version), format!("#{} ", release.build));
    if !found.starts_with(&expected) {
        return Err(BootFailure::Version { found, expected });
    }
    Ok(())
}

fn judge_modules(modules: &[ModuleAnswer]) -> Result<(), BootFailure> {
    // `insmod` for ENODEV: the module is sound, the guest lacks what it drives.
    let no_device = |answer: &str| answer.ends_with("No such device");
    for module in modules {
        if let Some(answer) = module.refused.as_ref().filter(|answer| !no_device(answer)) {
            return Err(BootFailure::Module {
                name: module.name.clone(),
                answer: answer.clone(),
            });
        }
    }
    if !modules.is_empty() && modules.iter().all(|module| module.refused.is_some()) {
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        return Err(BootFailure::NoModule(names.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::qemu::ConsoleLine;
    use proptest::prelude::*;

    const CONFIG: &str = "CONFIG_A=y\n# CONFIG_B is not set\n";

    fn release() -> Release {
        "6.18.40-12-lts-3f2a9c1d".parse().unwrap()
    }

    fn text(config: &str) -> String {
        format!(
            "kiln begin 1\nkiln release 6.18.40-12-lts-3f2a9c1d\n\
             kiln version #12 SMP PREEMPT_DYNAMIC Mon Jun  1 07:46:40 UTC 2026\n\
             kiln cmdline console=ttyS0 panic=-1\nkiln config begin\n{config}kiln config end {}\n\
             kiln module fat.ko loaded\nkiln module x.ko refused insmod: can't insert: No such device\n\
             kiln tainted 0\nkiln end\n",
            Sha256::of(config.as_bytes())
        )
    }

    fn finished(end: End, console: &[&str]) -> Finished {
        let line = |text: &&str| ConsoleLine {
            at: Duration::ZERO,
            text: (*text).to_owned(),
        };
        Finished {
            end,
            elapsed: Duration::ZERO,
            console: console.iter().map(line).collect(),
        }
    }

    fn judged(report: &str, end: End, console: &[&str]) -> Result<(), BootFailure> {
        let config = DotConfig::parse(CONFIG);
        let expected = Expected {
            release: &release(),
            config: &config,
        };
        judge(&finished(end, console), &Report::parse(report), expected)
    }

    #[test]
    fn a_good_boot_is_good() {
        assert_eq!(judged(&text(CONFIG), End::Off, &["Linux version"]), Ok(()));
        let crlf = text(CONFIG).replace('\n', "\r\n");
        // A port that doubles line ends changes the text, and the digest says so.
        assert_eq!(
            judged(&crlf, End::Off, &[]),
            Err(BootFailure::DamagedConfig)
        );
    }

    #[test]
    fn each_failure_has_its_name() {
        let code =
            |report: &str, end, console: &[&str]| judged(report, end, console).unwrap_err().code();
        let good = text(CONFIG);
        let panic = "[    1.0] Kernel panic - not syncing: VFS: Unable to mount root fs";
        assert_eq!(code("", End::Off, &[panic]), "boot-panic");
        let oops = "[    1.0] BUG: kernel NULL pointer dereference, address: 0";
        assert_eq!(code(&good, End::Off, &[oops, panic]), "boot-oops");
        let limit = End::Deadline(Duration::from_secs(9));
        assert_eq!(code(&good, limit, &["last"]), "boot-hang");
        assert_eq!(code("kiln begin 1\n", End::Off, &[]), "boot-died");
        assert_eq!(
            code(&good.replace("-12-lts", "-11-lts"), End::Off, &[]),
            "boot-release"
        );
        assert_eq!(
            code(&good.replace("#12", "#1"), End::Off, &[]),
            "boot-version"
        );
        assert_eq!(
            code(
                &good.replace("config begin", "config absent"),
                End::Off,
                &[]
            ),
            "boot-damaged-config"
        );
        assert_eq!(
            code(&good.replace("CONFIG_A=y", "CONFIG_A=m"), End::Off, &[]),
            "boot-damaged-config"
        );
        assert_eq!(
            code(&text("CONFIG_A=y\nCONFIG_B=y\n"), End::Off, &[]),
            "boot-config"
        );
        assert_eq!(
            code(
                &good.replace("No such device", "invalid module format"),
                End::Off,
                &[]
            ),
            "boot-module"
        );
        assert_eq!(
            code(
                &good.replace("fat.ko loaded", "fat.ko refused No such device"),
                End::Off,
                &[]
            ),
            "boot-no-module"
        );
    }

    #[test]
    fn a_kernel_without_a_configuration_says_so() {
        let none = "kiln release 6.18.40-12-lts-3f2a9c1d\nkiln version #12 SMP\nkiln config absent\nkiln end\n";
        assert_eq!(judged(none, End::Off, &[]), Err(BootFailure::NoConfig));
    }

    #[test]
    fn off_has_three_spellings() {
        for spelling in ["CONFIG_A=y\n", "CONFIG_A=y\nCONFIG_B=n\n"] {
            assert_eq!(judged(&text(spelling), End::Off, &[]), Ok(()));
        }
    }

    #[test]
    fn a_hang_shows_the_last_line() {
        let limit = End::Deadline(Duration::from_secs(9));
        let error = judged("", limit, &["one", "[    2.0] clocksource: tsc", " "]).unwrap_err();
        assert!(error.to_string().contains("within 9 s"), "{error}");
        assert!(error.to_string().ends_with("clocksource: tsc"), "{error}");
    }

    proptest! {
        #[test]
        fn no_report_panics(report in "(kiln (config|module|tainted|end|release)? ?[a-z ]{0,9}\n|.{0,9}\n){0,9}") {
            let report = Report::parse(&report);
            let _rest = judge_modules(&report.modules);
        }

        #[test]
        fn a_cut_report_is_never_good(cut in 0usize..600) {
            let good = text(CONFIG);
            let cut = cut.min(good.len() - 1);
            // All but the line end of the last line.
            prop_assume!(cut < good.trim_end().len());
            prop_assert!(judged(&good[..cut], End::Off, &[]).is_err());
        }
    }
}
