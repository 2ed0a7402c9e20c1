//! The rules that every entry of a kernel tarball has to keep, as pure functions of names.
//!
//! Nothing here touches a file: what is refused is refused before anything is made. Links are
//! judged when all names are known, because a link that looks harmless can lead out through another
//! link.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::identity::escape;

/// Longest path, in bytes. The kernel's longest has about 120.
const MAX_PATH: usize = 1024;

/// Most links that are followed to resolve one: the system's own limit (`path_resolution(7)`).
const MAX_HOPS: usize = 40;

/// What of a source is unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// Everything.
    All,
    /// What the kernel's own configuration targets read (`olddefconfig`, `defconfig`,
    /// `menuconfig`): some 2,800 files of 87,000.
    Configuration,
    /// The same and every makefile: those tell `localmodconfig` which option makes which module.
    Modules,
}

impl Select {
    /// Whether a file at `path`, relative to the source, is wanted.
    pub(in crate::source) fn takes(self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Configuration => is_configuration(path),
            Self::Modules => is_configuration(path) || is_makefile(path),
        }
    }
}

/// The number of the rule below and of what a listing holds. It is raised whenever
/// [`Select::Configuration`] takes other files than before: locks name the rule beside its digest.
pub const CONFIGURATION_RULE: u32 = 1;

/// Found by tracing which files of 6.12 the configuration targets open, and comparing their results
/// with the full source's. Scripts are taken whole: Kconfig files run them to probe the toolchain.
fn is_configuration(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    name.starts_with("Kconfig")
        || match parts[..] {
            ["Makefile" | "Kbuild"] => true,
            [only] => only.starts_with("localversion"),
            ["scripts", ..] | ["kernel", "configs", ..] | ["arch", _, "configs", ..] => true,
            ["arch", _, file] => file.starts_with("Makefile"),
            ["arch", _, "tools", file] => file.strip_suffix(".sh").is_some(),
            _ => false,
        }
}

/// As `scripts/kconfig/streamline_config.pl` looks for them.
fn is_makefile(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("Makefile" | "Kbuild"))
}

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameProblem {
    /// Begins with a slash.
    #[error("it is absolute")]
    Absolute,
    /// Climbs.
    #[error("it holds `..`")]
    Climbs,
    /// Has an empty or `.` component: one name must have one spelling.
    #[error("it holds an empty or `.` component")]
    Spelling,
    /// Not UTF-8, or with control characters.
    #[error("it is not plain text")]
    Text,
    /// Too long.
    #[error("it is longer than any in a kernel")]
    Long,
}

/// The components of an entry's name.
pub(in crate::source) fn components(name: &[u8]) -> Result<Vec<&str>, NameProblem> {
    let text = std::str::from_utf8(name).map_err(|_| NameProblem::Text)?;
    if text.chars().any(char::is_control) {
        return Err(NameProblem::Text);
    }
    if text.starts_with('/') {
        return Err(NameProblem::Absolute);
    }
    if text.len() > MAX_PATH {
        return Err(NameProblem::Long);
    }
    let parts: Vec<&str> = text.strip_suffix('/').unwrap_or(text).split('/').collect();
    for part in &parts {
        match *part {
            ".." => return Err(NameProblem::Climbs),
            "" | "." => return Err(NameProblem::Spelling),
            long if long.len() > 255 => return Err(NameProblem::Long),
            _ => {}
        }
    }
    Ok(parts)
}

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::source) enum Node {
    /// A directory.
    Directory {
        /// Its modification time, where an entry of its own gave one.
        mtime: Option<u64>,
        /// Whether it was made on disk.
        is_made: bool,
    },
    /// An ordinary file.
    File {
        /// Whether it was selected.
        is_made: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: String,
    },
}

/// Every name of an archive so far, relative to the source.
#[derive(Debug, Default)]
pub(in crate::source) struct Names(HashMap<String, Node>);

impl Names {
    /// What stands under a name.
    pub(in crate::source) fn get(&self, path: &str) -> Option<&Node> {
        self.0.get(path)
    }

    /// Enters a name, replacing what stood there.
    pub(in crate::source) fn put(&mut self, path: &str, node: Node) {
        self.0.insert(path.to_owned(), node);
    }

    /// The nearest name above `path` that is no directory.
    pub(in crate::source) fn blocked_by<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.match_indices('/')
            .map(|(slash, _)| &path[..slash])
            .find(|above| matches!(self.get(above), Some(Node::File { .. } | Node::Link { .. })))
    }

    /// Every name with what stands there.
    pub(in crate::source) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Whether the link at `path` leads to a place inside the tree, through whatever other links
    /// stand on the way. That place need not exist.
    pub(in crate::source) fn stays_inside(&self, path: &str, target: &str) -> bool {
        if target.is_empty() || target.starts_with('/') {
            return false;
        }
        let mut here: Vec<String> = match path.rsplit_once('/') {
            Some((parent, _)) => parent.split('/').map(str::to_owned).collect(),
            None => Vec::new(),
        };
        // The next component is the last of this list.
        let mut todo: Vec<String> = target.rsplit('/').map(str::to_owned).collect();
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    if here.pop().is_none() {
                        return false;
                    }
                    continue;
                }
                _ => here.push(part),
            }
            if let Some(Node::Link { target }) = self.get(&here.join("/")) {
                hops += 1;
                if target.starts_with('/') || hops > MAX_HOPS {
                    return false;
                }
                here.pop();
                todo.extend(target.rsplit('/').map(str::to_owned));
            }
        }
        true
    }
}

/// A name from an archive for a message: at most 100 characters, safe to print.
pub(in crate::source) fn printable(name: &[u8]) -> String {
    escape(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_one_spelling_inside() {
        assert_eq!(
            components(b"linux-6.18/a/b").unwrap(),
            ["linux-6.18", "a", "b"]
        );
        assert_eq!(components(b"linux-6.18/").unwrap(), ["linux-6.18"]);
        for (name, problem) in [
            (&b"/etc/passwd"[..], NameProblem::Absolute),
            (b"linux/../../etc", NameProblem::Climbs),
            (b"..", NameProblem::Climbs),
            (b"linux//a", NameProblem::Spelling),
            (b"./linux/a", NameProblem::Spelling),
            (b"linux/./a", NameProblem::Spelling),
            (b"linux/a//", NameProblem::Spelling),
            (b"", NameProblem::Spelling),
            (b"/", NameProblem::Absolute),
            (b"linux/\xff", NameProblem::Text),
            (b"linux/a\nb", NameProblem::Text),
            (b"linux/a\0b", NameProblem::Text),
            (b"linux/\x1b[2J", NameProblem::Text),
        ] {
            assert_eq!(components(name), Err(problem), "{}", printable(name));
        }
        assert_eq!(components(&[b'a'; 256]), Err(NameProblem::Long));
        assert_eq!(
            components("a/".repeat(600).as_bytes()),
            Err(NameProblem::Long)
        );
    }

    #[test]
    fn what_a_configuration_needs() {
        for path in [
            "Makefile",
            "Kbuild",
            "Kconfig",
            "drivers/net/Kconfig",
            "lib/Kconfig.debug",
            "scripts/kconfig/conf.c",
            "scripts/dtc/include-prefixes/arm",
            "arch/x86/Makefile_32.cpu",
            "arch/x86/configs/x86_64_defconfig",
            "arch/powerpc/tools/gcc-check-mprofile-kernel.sh",
            "kernel/configs/debug.config",
            "localversion-rt",
        ] {
            assert!(Select::Configuration.takes(path), "{path}");
        }
        for path in [
            "MAINTAINERS",
            "kernel/fork.c",
            "drivers/net/Makefile",
            "arch/x86/kernel/Makefile",
            "arch/x86/tools/relocs.c",
            "Documentation/kbuild/kconfig.rst",
        ] {
            assert!(!Select::Configuration.takes(path), "{path}");
            let makefile = path.rsplit('/').next() == Some("Makefile");
            assert_eq!(Select::Modules.takes(path), makefile, "{path}");
            assert!(Select::All.takes(path));
        }
    }

    fn names(links: &[(&str, &str)]) -> Names {
        let mut names = Names::default();
        for (path, target) in links {
            names.put(
                path,
                Node::Link {
                    target: (*target).to_owned(),
                },
            );
        }
        names
    }

    #[test]
    fn links_of_the_real_source_stay_inside() {
        let none = Names::default();
        for (path, target) in [
            ("Documentation/Changes", "process/changes.rst"),
            (
                "scripts/dtc/include-prefixes/arm",
                "../../../arch/arm/boot/dts",
            ),
            ("arch/x/asm.h", ".././../arch/y/asm.h"),
            ("a/b", ".."),
        ] {
            assert!(none.stays_inside(path, target), "{path} -> {target}");
        }
    }

    #[test]
    fn links_that_leave() {
        let none = Names::default();
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a/b", "../.."),
            ("a/b", "../../etc"),
            ("a/b", "c/../../../x"),
            ("a", ""),
        ] {
            assert!(!none.stays_inside(path, target), "{path} -> {target}");
        }
        // Each step looks harmless: `up` leads to the top, so `up/..` leads out of it.
        let up = names(&[("d/e/up", "../..")]);
        assert!(up.stays_inside("d/e/up", "../.."));
        assert!(!up.stays_inside("l", "d/e/up/../x"));
        assert!(up.stays_inside("l", "d/e/up/x"));
        let chain = names(&[("a", "b"), ("b", "c"), ("c", "/etc")]);
        assert!(!chain.stays_inside("a", "b"));
        let cycle = names(&[("a", "b"), ("b", "a")]);
        assert!(!cycle.stays_inside("a", "b"));
    }

    #[test]
    fn nothing_lies_below_a_file_or_link() {
        let mut names = names(&[("link", "dir")]);
        names.put("file", Node::File { is_made: true });
        assert_eq!(names.blocked_by("link/a/b"), Some("link"));
        assert_eq!(names.blocked_by("file/a"), Some("file"));
        assert_eq!(names.blocked_by("link"), None);
        assert_eq!(names.blocked_by("dir/a"), None);
    }

    proptest! {
        #[test]
        fn no_name_panics(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _parts = components(&name);
            let _text = printable(&name);
        }

        /// Against the plain meaning of a path where there are no other links.
        #[test]
        fn without_other_links_depth_decides(parts in proptest::collection::vec("(\\.\\.|\\.|[ab])", 1..8)) {
            let mut depth = 2_i32;
            let mut inside = true;
            for part in &parts {
                depth += match part.as_str() { ".." => -1, "." => 0, _ => 1 };
                inside &= depth >= 0;
            }
            prop_assert_eq!(Names::default().stays_inside("x/y/link", &parts.join("/")), inside);
        }
    }
}
