//! The one environment in which a configuration is resolved, judged, compiled and packaged.
//!
//! `bindeb-pkg` runs `olddefconfig` again (`scripts/package/debian/rules`, `build-arch`), so a
//! guard that looked through another compiler, PATH or variable than the package build would judge
//! a configuration that is not the one built. Everything starts from nothing: no `MAKEFLAGS`,
//! `CFLAGS`, `XZ_OPT` or `TAR_OPTIONS` of the caller gets in.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use crate::kernel::Release;
use crate::spec::pipeline::Packages as PackageOptions;

/// Name of the source package that the `.deb`s say they come from. The build profiles contain it
/// (`pkg.SOURCE.nokerneldbg`), so both are derived from this one constant.
pub const SOURCE_NAME: &str = "linux-kiln";

/// The distribution that `debian/changelog` names. A constant: without it `mkdebian` asks
/// `lsb_release`, and the channel is never inside a `.deb`.
const CHANGELOG_DIST: &str = "unstable";

/// Where a build sees its source, its output and the stand-ins for `date` and `pahole`.
///
/// Compilers write paths into DWARF, objtool and `scripts/mod/devicetable-offsets.s`; prefix maps
/// reach only the first of these, so the paths themselves are fixed by the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The source tree, read-only.
    pub src: Utf8PathBuf,
    /// The output: the object tree is `tree` below it, and the `.deb`s land beside that, since
    /// `dpkg-buildpackage` writes to the parent of the directory it runs in.
    pub out: Utf8PathBuf,
    /// The directory of the stand-ins, first on PATH.
    pub bin: Utf8PathBuf,
}

impl Places {
    /// The fixed places inside a sandbox.
    pub fn sandboxed() -> Self {
        Self {
            src: "/build/src".into(),
            out: "/build/out".into(),
            bin: "/build/bin".into(),
        }
    }

    /// The object tree, `O=` of every make.
    pub fn tree(&self) -> Utf8PathBuf {
        self.out.join(TREE)
    }
}

/// Name of the object tree below the output directory.
pub(crate) const TREE: &str = "tree";

/// The Debian version of the packages: `6.18.40-12`, `7.3~rc1-2`.
///
/// The `~` puts a candidate before its release; `mkdebian` of 6.12 would write `-rc1`, which sorts
/// after it. The revision after the last `-` must not be missing: `debian/rules` passes it to make
/// as `KBUILD_BUILD_VERSION`, and without one the counter in `.version` comes back.
pub fn package_version(release: &Release) -> String {
    format!("{}-{}", release.version.debian(), release.build)
}

/// Variables for one make or one package build; nothing else is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    vars: BTreeMap<&'static str, String>,
}

impl Environment {
    /// The environment of everything that reads or writes a configuration.
    ///
    /// `epoch` is `SOURCE_DATE_EPOCH`: the creation time of the verified signature, or of the
    /// changelog for a Debian source.
    pub fn new(places: &Places, epoch: Timestamp) -> Self {
        let maps = |flag: &str| {
            // The longest last: without a sandbox the output may lie below the source, and both
            // gcc (`file-prefix-map.cc`) and gas look at the maps from the last to the first.
            let tree = places.tree();
            let mut paths = [places.src.as_path(), tree.as_path()];
            paths.sort_by_key(|path| path.as_str().len());
            paths.map(|path| format!("{flag}={path}=.")).join(" ")
        };
        let vars = BTreeMap::from([
            ("PATH", path(&places.bin)),
            ("HOME", "/nonexistent".to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("SOURCE_DATE_EPOCH", epoch.as_second().to_string()),
            // kbuild ignores SOURCE_DATE_EPOCH. A date text, not `@N`, which `uname -v` would show.
            ("KBUILD_BUILD_TIMESTAMP", date_text(epoch)),
            ("KBUILD_BUILD_USER", "builder".to_owned()),
            ("KBUILD_BUILD_HOST", "forge".to_owned()),
            // Set, even to nothing, it keeps `scripts/setlocalversion` from asking git.
            ("LOCALVERSION", String::new()),
            // The second line of defence behind the fixed paths. Assembly needs its own flag:
            // KCFLAGS does not reach it, and gas knows only the debug map.
            ("KCFLAGS", maps("-ffile-prefix-map")),
            ("KAFLAGS", maps("-fdebug-prefix-map")),
        ]);
        Self { vars }
    }

    /// The same environment, for compiling and packaging `release`.
    ///
    /// The local version goes through make's `LOCALVERSION`, not `CONFIG_LOCALVERSION`: the release
    /// contains the build number and the input digest, and in the configuration it would give every
    /// build of the same options another configuration digest. `include/config/kernel.release`,
    /// which the packages take their names from, is compared with the release before compiling.
    #[must_use]
    pub fn for_packages(&self, release: &Release, options: PackageOptions) -> Self {
        let profile = |name: &str| format!("pkg.{SOURCE_NAME}.{name}");
        let mut profiles = Vec::new();
        if !options.headers {
            profiles.push(profile("nokernelheaders"));
        }
        if !options.debug {
            profiles.push(profile("nokerneldbg"));
        }
        let mut vars = self.vars.clone();
        vars.extend([
            ("LOCALVERSION", release.local_version()),
            // What `debian/rules` passes for the package build anyway: the Debian revision. So
            // `uname -v` starts with `#BUILD`, and a plain make in the same tree agrees.
            ("KBUILD_BUILD_VERSION", release.build.to_string()),
            ("KDEB_PKGVERSION", package_version(release)),
            ("KDEB_SOURCENAME", SOURCE_NAME.to_owned()),
            ("KDEB_CHANGELOG_DIST", CHANGELOG_DIST.to_owned()),
            ("KDEB_COMPRESS", options.compress.as_str().to_owned()),
            ("DEB_BUILD_PROFILES", profiles.join(" ")),
            ("DEBFULLNAME", "kiln".to_owned()),
            // `.invalid` is reserved (RFC 2606), so no one is written to by mistake.
            ("DEBEMAIL", "kiln@kiln.invalid".to_owned()),
        ]);
        Self { vars }
    }

    /// The variables, in order of their names.
    pub fn vars(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.vars
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }
}

/// PATH with the stand-ins first.
fn path(bin: &Utf8Path) -> String {
    format!("{bin}:/usr/sbin:/usr/bin:/sbin:/bin")
}

/// The time as `date -u` writes it in the C locale, which is what kbuild's own default is.
fn date_text(epoch: Timestamp) -> String {
    epoch.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::pipeline::Compress;

    fn environment() -> Environment {
        Environment::new(
            &Places::sandboxed(),
            Timestamp::from_second(1_780_000_001).unwrap(),
        )
    }

    fn get<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        environment
            .vars()
            .find_map(|(found, value)| (found == name).then_some(value))
    }

    #[test]
    fn the_date_is_the_one_that_date_prints() {
        // `LC_ALL=C date -u -d @1780000001`; a day below ten is padded with a blank.
        assert_eq!(
            get(&environment(), "KBUILD_BUILD_TIMESTAMP"),
            Some("Thu May 28 20:26:41 UTC 2026")
        );
        let first = Timestamp::from_second(1_780_300_000).unwrap();
        assert_eq!(date_text(first), "Mon Jun  1 07:46:40 UTC 2026");
    }

    #[test]
    fn a_configuration_is_resolved_and_built_in_the_same_environment() {
        let release = "6.18.40-12-lts-3f2a9c1d".parse().unwrap();
        let config = environment();
        let package = config.for_packages(&release, PackageOptions::default());
        let differs: Vec<_> = config
            .vars()
            .filter(|(name, value)| get(&package, name) != Some(value))
            .map(|(name, _)| name)
            .collect();
        // No Kconfig file reads LOCALVERSION, so it may differ.
        assert_eq!(differs, ["LOCALVERSION"]);
        assert_eq!(get(&package, "LOCALVERSION"), Some("-12-lts-3f2a9c1d"));
        assert_eq!(get(&package, "KDEB_PKGVERSION"), Some("6.18.40-12"));
        assert_eq!(get(&package, "KBUILD_BUILD_VERSION"), Some("12"));
    }

    #[test]
    fn profiles_carry_the_name_of_the_source_package() {
        let release = "6.18.40-12-lts-3f2a9c1d".parse().unwrap();
        let profiles = |headers, debug| {
            let options = PackageOptions {
                headers,
                debug,
                compress: Compress::Gzip,
            };
            let environment = environment().for_packages(&release, options);
            get(&environment, "DEB_BUILD_PROFILES").unwrap().to_owned()
        };
        assert_eq!(profiles(true, true), "");
        assert_eq!(profiles(true, false), "pkg.linux-kiln.nokerneldbg");
        assert_eq!(
            profiles(false, false),
            "pkg.linux-kiln.nokernelheaders pkg.linux-kiln.nokerneldbg"
        );
    }

    #[test]
    fn a_candidate_sorts_before_its_release() {
        let release = "7.3.0-rc1-2-canary-3f2a9c1d".parse().unwrap();
        assert_eq!(package_version(&release), "7.3~rc1-2");
    }

    #[test]
    fn the_longest_prefix_is_looked_at_first() {
        let inside = Places {
            src: "/w/src".into(),
            out: "/w/src/out".into(),
            bin: "/w/bin".into(),
        };
        let environment = Environment::new(&inside, Timestamp::UNIX_EPOCH);
        assert_eq!(
            get(&environment, "KCFLAGS"),
            Some("-ffile-prefix-map=/w/src=. -ffile-prefix-map=/w/src/out/tree=.")
        );
    }
}
