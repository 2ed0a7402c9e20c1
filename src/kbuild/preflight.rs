//! What would fail after an hour of compiling, said before the first minute.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};

use crate::dotconfig::{DotConfig, Value};
use crate::failure::{Diagnose, Exit};
use crate::files::{self, FileError};
use crate::kbuild::environment::package_version;
use crate::kbuild::estimate::Estimate;
use crate::kbuild::needs::{NEEDS, Need, Needed};
use crate::kbuild::root::Root;
use crate::kernel::{Release, UTS_RELEASE_MAX};

/// Options that name files which the build reads, and what the files are.
const FILE_OPTIONS: [(&str, &str); 7] = [
    ("MODULE_SIG_KEY", "the key that signs modules"),
    ("SYSTEM_TRUSTED_KEYS", "certificates to trust"),
    ("SYSTEM_REVOCATION_KEYS", "certificates to refuse"),
    ("SYSTEM_BLACKLIST_HASH_LIST", "hashes to refuse"),
    ("INITRAMFS_SOURCE", "a built-in initramfs"),
    ("BOOT_CONFIG_EMBED_FILE", "a built-in boot configuration"),
    ("UNUSED_KSYMS_WHITELIST", "symbols to keep"),
];

/// Something that would make the build fail, or its result useless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// An option names a file that the build would look for in vain.
    MissingFile {
        /// The option.
        symbol: &'static str,
        /// What the file is.
        what: &'static str,
        /// The file.
        path: String,
    },
    /// The host lacks something.
    MissingNeed(Need),
    /// dpkg would refuse the name of a package.
    PackageName {
        /// The name.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The kernel's name does not fit.
    ReleaseTooLong {
        /// Its length.
        length: usize,
    },
    /// The disk is too small.
    Disk {
        /// Needed, by estimate.
        need_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// Where.
        path: Utf8PathBuf,
    },
    /// The memory is too small.
    Memory {
        /// Needed, by estimate.
        need_bytes: u64,
        /// Available.
        free_bytes: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingFile { symbol, what, path } => {
                write!(
                    f,
                    "CONFIG_{symbol} names `{path}` ({what}): no such file in the source"
                )
            }
            Self::MissingNeed(need) => {
                write!(f, "`{}` is missing: it {}", need.thing.name(), need.why)
            }
            Self::PackageName { name, character } => write!(
                f,
                "`{name}` cannot be a package: dpkg does not allow `{}` there",
                character.escape_default()
            ),
            Self::ReleaseTooLong { length } => write!(
                f,
                "the kernel's name has {length} characters: at most {UTS_RELEASE_MAX} fit"
            ),
            Self::Disk {
                need_bytes,
                free_bytes,
                path,
            } => write!(
                f,
                "building in `{path}` needs about {} of disk: {} are free",
                gib(*need_bytes),
                gib(*free_bytes)
            ),
            Self::Memory {
                need_bytes,
                free_bytes,
            } => write!(
                f,
                "building needs about {} of memory: {} are available",
                gib(*need_bytes),
                gib(*free_bytes)
            ),
        }
    }
}

/// A size for people, rounded up to a tenth of a GiB.
fn gib(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// Why a build is not started.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// All that was found.
    #[error("the build would fail:{}", list(.0))]
    Findings(Vec<Finding>),
    /// The host could not be looked at.
    #[error("failed to look at what the build needs")]
    File(#[from] FileError),
}

fn list(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(|f| format!("\n  - {f}")).collect();
    lines.concat()
}

impl Diagnose for PreflightError {
    fn exit(&self) -> Exit {
        let Self::Findings(findings) = self else {
            return Exit::Unexpected;
        };
        let any = |wanted: fn(&Finding) -> bool| findings.iter().any(wanted);
        // What the configuration says cannot be helped by a better machine, so it comes first.
        if any(|f| matches!(f, Finding::MissingFile { .. })) {
            Exit::Guard
        } else if any(|f| {
            matches!(
                f,
                Finding::PackageName { .. } | Finding::ReleaseTooLong { .. }
            )
        }) {
            Exit::Usage
        } else if any(|f| matches!(f, Finding::MissingNeed(_))) {
            Exit::MissingTools
        } else {
            Exit::NoSpace
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::File(_) => "file-io",
            Self::Findings(_) => match self.exit() {
                Exit::Guard => "config-not-buildable",
                Exit::Usage => "package-name",
                Exit::MissingTools => "tool-missing",
                _ => "no-space",
            },
        }
    }

    fn hints(&self) -> Vec<String> {
        let Self::Findings(findings) = self else {
            return Vec::new();
        };
        let mut hints = Vec::new();
        let mut missing = Vec::new();
        for finding in findings {
            match finding {
                Finding::MissingFile { symbol, .. } => {
                    hints.push(format!("set CONFIG_{symbol}=\"\" in a fragment"));
                }
                Finding::MissingNeed(need) => missing.push(need.package),
                Finding::Disk { .. } => hints.push("free some disk space".to_owned()),
                Finding::Memory { .. } => hints.push(
                    "run with fewer jobs, or turn CONFIG_DEBUG_INFO_BTF off in a fragment"
                        .to_owned(),
                ),
                Finding::PackageName { .. } | Finding::ReleaseTooLong { .. } => {}
            }
        }
        if !missing.is_empty() {
            missing.dedup();
            hints.push(format!("run `apt-get install {}`", missing.join(" ")));
        }
        hints
    }
}

/// What is about to be built, and where.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The configuration.
    pub config: &'a DotConfig,
    /// The kernel's name.
    pub release: &'a Release,
    /// The source tree.
    pub source: &'a Utf8Path,
    /// The directory of the build; its file system must have the space.
    pub dir: &'a Utf8Path,
    /// How many jobs.
    pub jobs: u64,
    /// The pinned root, where it is built in one.
    pub root: Option<&'a Root>,
}

/// Looks for everything that would fail, and returns the estimate where nothing would.
///
/// # Errors
/// With all findings at once.
pub fn check(plan: &Plan<'_>) -> Result<Estimate, PreflightError> {
    let estimate = Estimate::for_jobs(plan.config, plan.jobs);
    let mut findings = config_findings(plan.config, |path| plan.source.join(path).exists());
    findings.extend(name_findings(plan.release));
    findings.extend(missing_needs(plan.config, plan.root));
    let host = Host {
        disk_bytes: free_disk(plan.dir)?,
        memory_bytes: available_memory()?,
    };
    findings.extend(space_findings(estimate, host, plan.dir));
    if findings.is_empty() {
        Ok(estimate)
    } else {
        Err(PreflightError::Findings(findings))
    }
}

/// What the configuration names; `exists` looks below the source tree.
fn config_findings(config: &DotConfig, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (symbol, what) in FILE_OPTIONS {
        let Some(Value::Text(value)) = config.value(symbol) else {
            continue;
        };
        // `certs/Makefile` makes this one; the guard has refused it.
        if symbol == "MODULE_SIG_KEY" && value == "certs/signing_key.pem" {
            continue;
        }
        // A key in a token is found by its URI. Several files may be named, separated by blanks.
        for path in value.split_whitespace() {
            if !path.starts_with("pkcs11:") && !exists(path) {
                findings.push(Finding::MissingFile {
                    symbol,
                    what,
                    path: path.to_owned(),
                });
            }
        }
    }
    findings
}

/// Whether dpkg and the kernel take the names.
fn name_findings(release: &Release) -> Vec<Finding> {
    let text = release.to_string();
    let mut findings = Vec::new();
    let name = format!("linux-image-{text}");
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
    if let Some(character) = name.chars().find(|c| !allowed(*c)) {
        findings.push(Finding::PackageName { name, character });
    }
    let version = package_version(release);
    let in_version = |c: char| allowed(c) || c == '~';
    if let Some(character) = version.chars().find(|c| !in_version(*c)) {
        let name = version;
        findings.push(Finding::PackageName { name, character });
    }
    if text.len() > UTS_RELEASE_MAX {
        findings.push(Finding::ReleaseTooLong { length: text.len() });
    }
    findings
}

/// What the root or the host lacks for this configuration.
fn missing_needs(config: &DotConfig, root: Option<&Root>) -> Vec<Finding> {
    let wanted = |need: &Need| match need.when {
        Needed::Always => true,
        Needed::With(symbol) | Needed::Rarely(symbol) => !config.is_off(symbol),
    };
    NEEDS
        .into_iter()
        .filter(|need| {
            wanted(need)
                && !root.map_or_else(|| need.thing.is_there(), |root| need.thing.is_in(root))
        })
        .map(Finding::MissingNeed)
        .collect()
}

/// What the host has.
#[derive(Debug, Clone, Copy)]
struct Host {
    disk_bytes: u64,
    memory_bytes: u64,
}

fn space_findings(estimate: Estimate, host: Host, dir: &Utf8Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if host.disk_bytes < estimate.disk_bytes {
        findings.push(Finding::Disk {
            need_bytes: estimate.disk_bytes,
            free_bytes: host.disk_bytes,
            path: dir.to_owned(),
        });
    }
    if host.memory_bytes < estimate.memory_bytes {
        findings.push(Finding::Memory {
            need_bytes: estimate.memory_bytes,
            free_bytes: host.memory_bytes,
        });
    }
    findings
}

/// Bytes free where `dir` is or will be.
fn free_disk(dir: &Utf8Path) -> Result<u64, FileError> {
    let present = dir.ancestors().find(|path| path.exists());
    files::free_bytes(present.unwrap_or_else(|| Utf8Path::new(".")))
}

/// Memory that can be had without swapping: `MemAvailable` of `/proc/meminfo`, plus free swap.
fn available_memory() -> Result<u64, FileError> {
    let text = files::read_text(Utf8Path::new("/proc/meminfo"), 1 << 20)?;
    let kib = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
    };
    // A kernel without the line is older than any that can run this; not a reason to refuse.
    Ok(kib("MemAvailable").map_or(u64::MAX, |available| {
        (available + kib("SwapFree").unwrap_or(0)) * 1024
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    fn lines(text: &str) -> Vec<String> {
        config_findings(&DotConfig::parse(text), |path| path == "certs/present.pem")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_path_of_a_distribution_is_named() {
        let found = lines(
            "CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/debian-uefi-certs.pem\"\n\
             CONFIG_MODULE_SIG_KEY=\"output/signing_key.pem\"\n\
             CONFIG_SYSTEM_REVOCATION_KEYS=\"debian/canonical-revoked-certs.pem certs/present.pem\"\n\
             CONFIG_SYSTEM_BLACKLIST_HASH_LIST=\"\"\n",
        );
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].contains("output/signing_key.pem"));
        assert!(found[1].contains("debian/certs/debian-uefi-certs.pem"));
        assert!(found[2].contains("debian/canonical-revoked-certs.pem"));
    }

    #[test]
    fn the_default_key_is_refused_and_no_key_is_fine() {
        let default = lines("CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\n");
        assert_eq!(default, [""; 0], "the guard has refused it");
        for fine in [
            "CONFIG_MODULE_SIG_KEY=\"\"\n",
            "CONFIG_MODULE_SIG_KEY=\"pkcs11:token=x;object=y\"\n",
            "CONFIG_SYSTEM_TRUSTED_KEYS=\"certs/present.pem\"\n",
            "# CONFIG_MODULE_SIG is not set\n",
        ] {
            assert_eq!(lines(fine), Vec::<String>::new(), "{fine}");
        }
    }

    #[test]
    fn names_are_those_that_dpkg_takes() {
        assert_eq!(name_findings(&release("7.3.0-rc1-2-canary-3f2a9c1d")), []);
        let mut long = release("6.18.40-12-lts-3f2a9c1d");
        long.digest8 = "0".repeat(60);
        assert!(matches!(
            name_findings(&long)[..],
            [Finding::ReleaseTooLong { length: 75 }]
        ));
        long.digest8 = "ABCD_EF0".to_owned();
        assert!(matches!(
            name_findings(&long)[..],
            [Finding::PackageName { character: 'A', .. }]
        ));
    }

    #[test]
    fn too_little_space_is_told_in_numbers() {
        let estimate = Estimate {
            objects: 1,
            disk_bytes: 3 << 30,
            memory_bytes: 2 << 30,
            cpu_seconds: 1,
        };
        let host = |disk_bytes, memory_bytes| Host {
            disk_bytes,
            memory_bytes,
        };
        let enough = host(3 << 30, 2 << 30);
        assert_eq!(space_findings(estimate, enough, "/x".into()), []);
        let error = PreflightError::Findings(space_findings(
            estimate,
            host((3 << 30) - 1, 1 << 30),
            "/x".into(),
        ));
        assert_eq!(error.exit(), Exit::NoSpace);
        let text = error.to_string();
        assert!(
            text.contains("needs about 3.0 GiB of disk: 3.0 GiB are free"),
            "{text}"
        );
        assert!(
            text.contains("needs about 2.0 GiB of memory: 1.0 GiB are available"),
            "{text}"
        );
        assert_eq!(error.hints().len(), 2);
    }

    #[test]
    fn what_the_configuration_says_comes_before_what_the_host_lacks() {
        let need = Finding::MissingNeed(NEEDS[0]);
        let tools = PreflightError::Findings(vec![need.clone()]);
        assert_eq!(tools.exit(), Exit::MissingTools);
        assert_eq!(tools.hints(), ["run `apt-get install make`"]);
        let named = Finding::MissingFile {
            symbol: "MODULE_SIG_KEY",
            what: "the key that signs modules",
            path: "key.pem".to_owned(),
        };
        let both = PreflightError::Findings(vec![need, named]);
        assert_eq!(both.exit(), Exit::Guard);
    }

    #[test]
    fn this_host_can_be_looked_at() {
        assert!(available_memory().unwrap() > 0);
        assert!(free_disk(Utf8Path::new("/nonexistent/deep")).unwrap() > 0);
    }
}
