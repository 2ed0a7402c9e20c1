//! The packages of a build root: all that some names need in a system that has nothing yet.
//!
//! The host's apt is asked with its own sources and keyrings, an empty package database and pins
//! that let no other archive in than the release's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use camino::Utf8PathBuf;

use super::apt::{self, Indexed, STRICT, Scratch};
use super::{Debian, DebianError, INDEX, LOCK, same};
use crate::command::{Cmd, CommandError, Tool};
use crate::files;
use crate::progress::Event;
use crate::proof::build_root::RootPackage;

/// The Debian architecture of a root's programs.
const ARCHITECTURE: &str = "amd64";

/// How many packages one `apt-get download` fetches: few enough that progress shows.
const BATCH: usize = 25;

/// apt looking at a system without packages.
struct Empty {
    scratch: Scratch,
    options: Vec<String>,
}

impl Empty {
    fn new(debian: &Debian<'_>, codename: &str) -> Result<Self, DebianError> {
        let scratch = Scratch::new(&debian.store.partial())?;
        let at = |name: &str| scratch.path.join(name);
        files::write(&at("status"), b"")?;
        files::write(&at("preferences"), preferences(codename).as_bytes())?;
        files::create_dir_all(&at("cache").join("archives/partial"))?;
        let mut options = vec![
            format!("Dir::State::status={}", at("status")),
            format!("Dir::State::extended_states={}", at("extended_states")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::preferences={}", at("preferences")),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            "Debug::NoLocking=true".to_owned(),
            "APT::Default-Release=".to_owned(),
            "APT::Install-Recommends=false".to_owned(),
            "APT::Install-Suggests=false".to_owned(),
            format!("APT::Architecture={ARCHITECTURE}"),
            format!("APT::Architectures::={ARCHITECTURE}"),
            // apt calls itself essential; a root needs none.
            "pkgCacheGen::ForceEssential=,".to_owned(),
            format!("APT::Sandbox::User={}", scratch.user()),
        ];
        options.extend(STRICT.map(str::to_owned));
        Ok(Self { scratch, options })
    }

    fn cmd(&self, tool: &str) -> Result<Cmd, CommandError> {
        let options = self
            .options
            .iter()
            .map(|option| format!("--option={option}"));
        Ok(Cmd::new(&Tool::find(tool)?)
            .args(options)
            .envs(apt::surroundings())
            .cwd(&self.scratch.path)
            .deadline(apt::ASK))
    }

    /// What would be installed for `names` and all that is essential: names and versions.
    fn simulate(
        &self,
        codename: &'static str,
        names: &[&str],
    ) -> Result<Vec<(String, String)>, DebianError> {
        for name in names {
            apt::check_word("package", name)?;
        }
        let output = self
            .cmd("apt-get")?
            .args(["install", "--simulate", "--quiet", "?essential"])
            .args(names.iter().copied())
            .capture();
        let output = match output {
            Ok(output) => output,
            Err(CommandError::Failed { tail, .. })
                if tail.iter().any(|line| {
                    [
                        "no installation candidate",
                        "Unable to locate",
                        "Couldn't find any",
                    ]
                    .iter()
                    .any(|words| line.contains(words))
                }) =>
            {
                return Err(DebianError::NoSuite { codename });
            }
            Err(error) => return Err(error.into()),
        };
        let found = installed(&String::from_utf8_lossy(&output));
        if found.is_empty() {
            return Err(DebianError::NoSuite { codename });
        }
        Ok(found)
    }

    /// What the indexes say of each of these versions; nothing of one that they do not know.
    fn show<'p>(
        &self,
        wanted: impl Iterator<Item = (&'p str, &'p str)> + Clone,
    ) -> Result<Vec<Option<Indexed>>, DebianError> {
        for (name, version) in wanted.clone() {
            apt::check_word("package", name)?;
            apt::check_word("version", version)?;
        }
        let words = wanted
            .clone()
            .map(|(name, version)| format!("{name}={version}"));
        let shown = self
            .cmd("apt-cache")?
            .args(["show", "--no-all-versions"])
            .args(words)
            .capture();
        let text = match shown {
            Ok(text) => text,
            Err(CommandError::Failed { tail, .. })
                if tail.iter().any(|line| line.contains("No packages found")) =>
            {
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        paragraphs(&String::from_utf8_lossy(&text), wanted)
    }

    /// The version that the archive has now, where it has one.
    fn offered(&self, name: &str) -> Option<String> {
        let cmd = self.cmd("apt-cache").ok()?;
        let shown = cmd
            .args(["show", "--no-all-versions", name])
            .capture()
            .ok()?;
        let indexed = apt::parse(&String::from_utf8_lossy(&shown), name).ok()?;
        Some(indexed.version)
    }

    /// Whether apt's indexes still have these very packages.
    fn served(&self, batch: &[Indexed]) -> Result<(), DebianError> {
        let wanted = batch
            .iter()
            .map(|p| (p.package.as_str(), p.version.as_str()));
        for (package, known) in batch.iter().zip(self.show(wanted)?) {
            let (name, version) = (&package.package, &package.version);
            let Some(known) = known else {
                return Err(DebianError::NotServed {
                    package: name.clone(),
                    version: version.clone(),
                    offered: self.offered(name),
                });
            };
            same(name, version, known.sha256, package.sha256, LOCK)?;
        }
        Ok(())
    }

    /// Downloads these into the scratch directory.
    fn download(&self, batch: &[Indexed]) -> Result<Vec<Utf8PathBuf>, DebianError> {
        let Some(first) = batch.first() else {
            return Ok(Vec::new());
        };
        let words = batch.iter().map(|p| format!("{}={}", p.package, p.version));
        self.cmd("apt-get")?
            .args(["download", "--quiet"])
            .args(words)
            .deadline(apt::DOWNLOAD)
            .run()
            .map_err(|error| apt::explain(error, first))?;
        let names = files::list(&self.scratch.path)?;
        let paths = names.iter().map(|name| self.scratch.path.join(name));
        Ok(paths
            .filter(|path| path.extension() == Some("deb"))
            .collect())
    }
}

impl Debian<'_> {
    /// All packages that `names` need, beside the essential ones, in the release `codename`, as
    /// apt's signed indexes describe them now; sorted by name.
    pub fn closure(
        &self,
        codename: &'static str,
        names: &[&str],
    ) -> Result<Vec<RootPackage>, DebianError> {
        let empty = Empty::new(self, codename)?;
        let wanted = empty.simulate(codename, names)?;
        let pairs = wanted.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let mut packages = Vec::new();
        for (shown, (name, version)) in empty.show(pairs)?.into_iter().zip(&wanted) {
            let indexed = shown.ok_or_else(|| DebianError::Index {
                package: name.clone(),
                problem: format!("it does not describe version {version}"),
            })?;
            packages.push(RootPackage {
                name: indexed.package,
                version: indexed.version,
                architecture: indexed.architecture,
                sha256: indexed.sha256,
                bytes: indexed.bytes,
            });
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(packages)
    }

    /// The files of locked packages in the store, in the order of the list. What the store lacks is
    /// looked for in the directories `kept`, then asked of apt; the lock's digest decides each time.
    pub fn root_files(
        &self,
        codename: &'static str,
        packages: &[RootPackage],
        kept: &[Utf8PathBuf],
        offline: bool,
    ) -> Result<Vec<Utf8PathBuf>, DebianError> {
        let mut missing = Vec::new();
        for package in packages {
            if self.store.get(&package.sha256)?.is_none() {
                let indexed = indexed(package);
                let kept = kept.iter().map(|directory| directory.join(package.file()));
                match kept.into_iter().find(|path| path.is_file()) {
                    Some(path) => drop(self.keep(&path, &indexed, LOCK)?),
                    None => missing.push(indexed),
                }
            }
        }
        if let (true, Some(first)) = (offline, missing.first()) {
            return Err(DebianError::Offline {
                package: first.package.clone(),
                version: first.version.clone(),
                missing: missing.len(),
            });
        }
        self.download_all(codename, &missing)?;
        let paths = packages
            .iter()
            .map(|package| self.store.path(&package.sha256));
        Ok(paths.collect())
    }

    fn download_all(&self, codename: &'static str, missing: &[Indexed]) -> Result<(), DebianError> {
        if missing.is_empty() {
            return Ok(());
        }
        let total: u64 = missing.iter().map(|package| package.bytes).sum();
        let mut done = 0;
        for batch in missing.chunks(BATCH) {
            self.progress.event(&Event::Bytes {
                what: "packages of the build root".to_owned(),
                done,
                total: Some(total),
            });
            let empty = Empty::new(self, codename)?;
            empty.served(batch)?;
            let files = empty.download(batch)?;
            let mut found = BTreeMap::new();
            for file in files {
                found.insert(files::hash(&file)?.0, file);
            }
            for package in batch {
                let file = found
                    .get(&package.sha256)
                    .ok_or_else(|| DebianError::Index {
                        package: package.package.clone(),
                        problem: "`apt-get download` left no file of its digest".to_owned(),
                    })?;
                self.keep(file, package, INDEX)?;
                done += package.bytes;
            }
        }
        Ok(())
    }
}

fn indexed(package: &RootPackage) -> Indexed {
    Indexed {
        package: package.name.clone(),
        version: package.version.clone(),
        architecture: package.architecture.clone(),
        sha256: package.sha256,
        bytes: package.bytes,
    }
}

/// Pins that leave only the release's own archives. The first record that matches a file counts
/// (`apt_preferences(5)`).
fn preferences(codename: &str) -> String {
    let mut text = String::new();
    for suite in ["", "-updates", "-security"] {
        let _never_fails = write!(
            text,
            "Package: *\nPin: release o=Debian,n={codename}{suite}\nPin-Priority: 500\n\n"
        );
    }
    text.push_str("Package: *\nPin: release *\nPin-Priority: -1\n");
    text
}

/// The lines `Inst NAME (VERSION ORIGIN [ARCH])` of a simulation.
fn installed(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        let version = rest.split(' ').next()?;
        Some((name.to_owned(), version.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// What `apt-cache show` says of each wanted version.
fn paragraphs<'p>(
    text: &str,
    wanted: impl Iterator<Item = (&'p str, &'p str)>,
) -> Result<Vec<Option<Indexed>>, DebianError> {
    let paragraphs: Vec<&str> = text.split("\n\n").map(str::trim_start).collect();
    wanted
        .map(|(name, version)| {
            let head = format!("Package: {name}\n");
            let said = format!("Version: {version}");
            let mut paragraphs = paragraphs.iter();
            let found = paragraphs.find(|paragraph| {
                paragraph.starts_with(&head) && paragraph.lines().any(|line| line == said)
            });
            found
                .map(|paragraph| apt::parse(paragraph, name))
                .transpose()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Package: bc
Version: 1.07.1-3+b1
Architecture: amd64
Description: calculator
 with a text
Size: 109200
SHA256: 8f6928a223385013d9ed67a30f5608cca45c8fa462ff4a7d2d527133513e9d4e

Package: make
Version: 4.3-4.1
Architecture: amd64
Size: 396000
SHA256: e849faf31ca3555757f3a8877cb01af92122f744f75d1f3102734651c4e14703
";

    #[test]
    fn what_would_be_installed_is_read() {
        let text = "Reading package lists...\n\
             Inst gcc-12-base (12.2.0-14+deb12u1 Debian:12.15/oldstable [amd64])\n\
             Inst libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64]) []\n\
             Conf libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64])\n";
        let pairs = installed(text);
        let [first, second] = &pairs[..] else {
            panic!("{pairs:?}");
        };
        assert_eq!(
            *first,
            ("gcc-12-base".to_owned(), "12.2.0-14+deb12u1".to_owned())
        );
        assert_eq!(*second, ("libc6".to_owned(), "2.36-9+deb12u14".to_owned()));
    }

    #[test]
    fn each_wanted_version_is_looked_for_exactly() {
        let both = [("make", "4.3-4.1"), ("bc", "1.07.1-3+b1")];
        let found = paragraphs(SHOWN, both.into_iter()).unwrap();
        let [Some(make), Some(bc)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((make.package.as_str(), make.bytes), ("make", 396_000));
        assert_eq!(bc.architecture, "amd64");
        for absent in [("make", "4.3"), ("ma", "4.3-4.1"), ("with", "1")] {
            let found = paragraphs(SHOWN, [absent].into_iter()).unwrap();
            assert_eq!(found, [None], "{absent:?}");
        }
    }

    #[test]
    fn no_other_archive_comes_in() {
        let text = preferences("bookworm");
        assert!(text.ends_with("Pin: release *\nPin-Priority: -1\n"));
        assert_eq!(text.matches("Pin-Priority: 500").count(), 3);
        assert!(
            !text.contains("n=bookworm*"),
            "no pattern that a sloppy name could match"
        );
    }
}
