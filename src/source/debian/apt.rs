//! Asking apt: which version it offers, under which digest, and for the file itself.
//!
//! apt checks its indexes against the archive's signature when it updates them, and a download
//! against the index. kiln uses the host's own apt with its own configuration, and only ever makes
//! it stricter.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::{DebianError, WrongPackage};
use crate::command::{Cmd, CommandError, Tool, proxies};
use crate::digest::Sha256;
use crate::files::{self, FileError};

/// apt's own user, whom it downloads as when it is started by root.
const APT_USER: &str = "_apt";

/// The longest that a question to apt may take.
pub(super) const ASK: Duration = Duration::from_mins(2);

/// The longest that a download may take in all; apt has no such limit of its own.
pub(super) const DOWNLOAD: Duration = Duration::from_hours(2);

/// Switches that make apt refuse what it cannot authenticate, whatever the host's configuration.
pub(super) const STRICT: [&str; 4] = [
    "APT::Get::AllowUnauthenticated=false",
    "Acquire::AllowInsecureRepositories=false",
    "Acquire::AllowWeakRepositories=false",
    "Acquire::AllowDowngradeToInsecureRepositories=false",
];

/// One version of a package, as apt's index describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) package: String,
    pub(super) version: String,
    pub(super) architecture: String,
    pub(super) sha256: Sha256,
    pub(super) bytes: u64,
}

/// What apt's index says of a version of a package, or of the one it would install. `None` where
/// it knows no such version.
pub(super) fn show(package: &str, version: Option<&str>) -> Result<Option<Indexed>, DebianError> {
    check_word("package", package)?;
    let mut cmd = Cmd::new(&Tool::find("apt-cache")?)
        // What is installed here is no offer, and its description has no digest.
        .args([
            "-o",
            "Dir::State::status=/dev/null",
            "-o",
            "Dir::Cache::pkgcache=",
        ])
        .args(["show", "--no-all-versions"])
        .envs(surroundings())
        .deadline(ASK);
    cmd = match version {
        Some(version) => {
            check_word("version", version)?;
            cmd.arg(format!("{package}={version}"))
        }
        None => cmd.arg(package),
    };
    let text = match cmd.capture() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        // apt-cache's code for "no such package".
        Err(CommandError::Failed {
            exit_code: Some(100),
            tail,
            ..
        }) if tail.iter().any(|line| line.contains("No packages found")) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let indexed = parse(&text, package)?;
    if version.is_some_and(|version| version != indexed.version) {
        return Err(DebianError::Index {
            package: package.to_owned(),
            problem: format!(
                "asked for another version, it describes {}",
                indexed.version
            ),
        });
    }
    Ok(Some(indexed))
}

/// Reads the first paragraph that `apt-cache show` prints.
pub(super) fn parse(text: &str, package: &str) -> Result<Indexed, DebianError> {
    let problem = |problem: String| DebianError::Index {
        package: package.to_owned(),
        problem,
    };
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| -> Result<&str, DebianError> {
        let mut values = paragraph.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then_some(value.trim())
        });
        match (values.next(), values.next()) {
            (Some(value), None) if !value.is_empty() => Ok(value),
            (Some(_), Some(_)) => Err(problem(format!("it has two fields `{name}`"))),
            _ => Err(problem(format!("it has no field `{name}`"))),
        }
    };
    let found = field("Package")?;
    if found != package {
        return Err(problem(format!("it describes `{found}`")));
    }
    let sha256 = field("SHA256")?;
    let bytes = field("Size")?;
    Ok(Indexed {
        package: package.to_owned(),
        version: field("Version")?.to_owned(),
        architecture: field("Architecture")?.to_owned(),
        sha256: sha256
            .parse()
            .map_err(|error| problem(format!("{error}")))?,
        bytes: bytes
            .parse()
            .map_err(|_| problem(format!("its size is `{bytes}`")))?,
    })
}

/// Package names and versions become parts of arguments; Debian's policy (5.6.1, 5.6.12) allows
/// only these characters, none of which apt gives a meaning of its own.
pub(super) fn check_word(what: &'static str, text: &str) -> Result<(), DebianError> {
    let first = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+-.~:".contains(&b));
    // `+` and `-` at the end of a name mean "install" and "remove" to apt-get.
    if first && rest && !text.ends_with(['+', '-']) {
        Ok(())
    } else {
        Err(DebianError::Word {
            what,
            found: text.to_owned(),
        })
    }
}

/// A directory that apt can download into, removed when dropped.
pub(super) struct Scratch {
    _guard: tempfile::TempDir,
    pub(super) path: Utf8PathBuf,
    /// Whether apt's own user may write there.
    apt_user: bool,
}

impl Scratch {
    /// As root, a directory of apt's own user outside of any private home, so that apt need not
    /// download as root.
    pub(super) fn new(beside: &Utf8Path) -> Result<Self, DebianError> {
        let user = if rustix::process::geteuid().is_root() {
            apt_user()?
        } else {
            None
        };
        let parent = if user.is_some() {
            Utf8Path::new("/var/tmp")
        } else {
            beside
        };
        let io = |action, path: &Utf8Path| {
            let path = path.to_owned();
            move |source| FileError::Io {
                action,
                path,
                source,
            }
        };
        let guard = tempfile::Builder::new()
            .prefix("kiln-apt-")
            .tempdir_in(parent)
            .map_err(io("create a directory in", parent))?;
        let path = Utf8PathBuf::from(guard.path().to_string_lossy().into_owned());
        if let Some(user) = user {
            std::os::unix::fs::chown(&path, Some(user), None)
                .map_err(io("change the owner of", &path))?;
        }
        Ok(Self {
            _guard: guard,
            path,
            apt_user: user.is_some(),
        })
    }

    /// The user that apt downloads as.
    pub(super) fn user(&self) -> &'static str {
        if self.apt_user { APT_USER } else { "root" }
    }

    /// The one `.deb` in it.
    fn package(&self, of: &Indexed) -> Result<Utf8PathBuf, DebianError> {
        let names = files::list(&self.path)?;
        let mut packages = names
            .iter()
            .filter(|name| Utf8Path::new(name).extension() == Some("deb"));
        match (packages.next(), packages.next()) {
            (Some(name), None) => Ok(self.path.join(name)),
            _ => Err(DebianError::Index {
                package: of.package.clone(),
                problem: format!("`apt-get download` left {names:?}"),
            }),
        }
    }
}

/// The user id of apt's user, where there is one.
fn apt_user() -> Result<Option<u32>, FileError> {
    let users = files::read_text(Utf8Path::new("/etc/passwd"), 16 << 20)?;
    Ok(users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != APT_USER {
            return None;
        }
        fields.nth(1)?.parse().ok()
    }))
}

/// Variables that say through which proxy to go, and apt's own for another configuration than the
/// host's.
pub(super) fn surroundings() -> impl Iterator<Item = (String, String)> {
    let own = std::env::var("APT_CONFIG").ok();
    proxies().chain(own.map(|path| ("APT_CONFIG".to_owned(), path)))
}

/// Downloads a package, and compares it with the index.
pub(super) fn download(indexed: &Indexed, scratch: &Scratch) -> Result<Utf8PathBuf, DebianError> {
    let user = scratch.user();
    let mut cmd = Cmd::new(&Tool::find("apt-get")?)
        .args(["download", "--quiet"])
        .arg(format!("--option=APT::Sandbox::User={user}"));
    for option in STRICT {
        cmd = cmd.arg(format!("--option={option}"));
    }
    cmd.arg(format!("{}={}", indexed.package, indexed.version))
        .envs(surroundings())
        .cwd(&scratch.path)
        .deadline(DOWNLOAD)
        .run()
        .map_err(|error| explain(error, indexed))?;
    let path = scratch.package(indexed)?;
    let (found, bytes) = files::hash(&path)?;
    if (found, bytes) == (indexed.sha256, indexed.bytes) {
        return Ok(path);
    }
    Err(DebianError::WrongDigest(Box::new(WrongPackage {
        package: indexed.package.clone(),
        version: indexed.version.clone(),
        found,
        expected: indexed.sha256,
        promised_by: "apt's index",
    })))
}

/// What apt-get's own words mean.
pub(super) fn explain(error: CommandError, indexed: &Indexed) -> DebianError {
    let CommandError::Failed { tail, .. } = &error else {
        return error.into();
    };
    let says = |text: &str| tail.iter().any(|line| line.contains(text));
    let (package, version) = (indexed.package.clone(), indexed.version.clone());
    if says("404  Not Found") || says("was not found") {
        DebianError::NotServed {
            package,
            version,
            offered: None,
        }
    } else if says("could not be authenticated") || says("cannot be authenticated") {
        DebianError::Unauthenticated { package, version }
    } else if says("Failed to fetch") || says("Could not") || says("Unable to connect") {
        DebianError::Network {
            package,
            version,
            source: Box::new(error),
        }
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Package: linux-source-6.12
Source: linux-6.12
Version: 6.12.117-1~deb12u1
Architecture: all
Installed-Size: 149880
Description: Linux kernel source for version 6.12 with Debian patches
Description-md5: fc53c36e9fc69af8ceb72b6fe1b96ea0
Size: 153476148
SHA256: e849faf31ca3555757f3a8877cb01af92122f744f75d1f3102734651c4e14703

Package: linux-source-6.12
Version: 6.12.115-2~deb12u1
Size: 1
SHA256: 8f6928a223385013d9ed67a30f5608cca45c8fa462ff4a7d2d527133513e9d4e
";

    #[test]
    fn the_first_paragraph_counts() {
        let indexed = parse(GOOD, "linux-source-6.12").unwrap();
        assert_eq!(indexed.version, "6.12.117-1~deb12u1");
        assert_eq!(indexed.bytes, 153_476_148);
        assert_eq!(indexed.sha256.short8(), "e849faf3");
    }

    #[test]
    fn an_incomplete_index_is_refused() {
        for (from, to, says) in [
            ("SHA256: e849", "MD5sum: e849", "no field `SHA256`"),
            ("SHA256: e849", "SHA256: E849", "is not a SHA-256 digest"),
            ("Size: 153476148", "Size: many", "its size is `many`"),
            (
                "Package: linux-source-6.12\nSource",
                "Package: other\nSource",
                "describes `other`",
            ),
            ("Source: linux-6.12", "Version: 1", "two fields `Version`"),
            ("Version: 6.12.117-1~deb12u1\n", "", "no field `Version`"),
        ] {
            let error = parse(&GOOD.replacen(from, to, 1), "linux-source-6.12").unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn words_that_apt_would_understand_otherwise_are_refused() {
        for good in ["linux-source-6.12", "6.12.117-1~deb12u1", "1:2.0+dfsg-1"] {
            assert!(check_word("package", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-o",
            "linux-source-6.12+",
            "linux-",
            "a b",
            "a=1",
            "a*",
            "./a.deb",
        ] {
            assert!(check_word("package", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_words_of_apt_are_told_apart() {
        use crate::failure::Diagnose as _;
        let indexed = parse(GOOD, "linux-source-6.12").unwrap();
        let failed = |line: &str| CommandError::Failed {
            line: "apt-get download".to_owned(),
            how: "exited with 100".to_owned(),
            exit_code: Some(100),
            elapsed: Duration::ZERO,
            tail: vec![line.to_owned()],
            log: None,
        };
        let exit = |line: &str| explain(failed(line), &indexed).exit().code();
        assert_eq!(
            exit("E: Failed to fetch http://x  404  Not Found [IP: 1]"),
            22
        );
        assert_eq!(
            exit("E: Version '1' for 'linux-source-6.12' was not found"),
            22
        );
        assert_eq!(
            exit("E: Failed to fetch http://x  Could not connect to 127.0.0.1:1"),
            21
        );
        assert_eq!(
            exit("E: There were unauthenticated packages; x could not be authenticated"),
            10
        );
        assert_eq!(exit("E: Unable to lock"), 1);
    }
}
