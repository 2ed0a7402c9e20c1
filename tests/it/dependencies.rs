//! What the program is made of: the locked packages keep to the list of what is refused and why.

use std::collections::BTreeMap;

use crate::support::{Case, Outcome, fail, tree};

/// Packages that must not be in the tree, each with its reason.
const REFUSED: &[(&str, &str)] = &[
    (
        "lzma-sys",
        "bundles an old xz and cannot share a program with liblzma-sys",
    ),
    ("xz2", "brings lzma-sys; liblzma is its successor"),
    (
        "openssl-sys",
        "needs a system library; TLS is rustls, OpenPGP is pure Rust",
    ),
    ("native-tls", "brings openssl-sys"),
    ("nettle-sys", "needs libclang to build"),
    ("serde_yml", "archived, and called unsound"),
    ("unsafe-libyaml", "the abandoned YAML parser"),
    (
        "tokio-tar",
        "open advisories; archives are read by tar alone",
    ),
];

/// Fewer packages than this in all.
const MOST_PACKAGES: usize = 450;

/// Packages of which one version must serve all: two would mean two decoders for one file.
const ONE_VERSION: &[&str] = &["liblzma-sys", "liblzma", "tar", "sequoia-openpgp", "rustls"];

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "dependencies::locked_packages_are_allowed",
            locked_packages_are_allowed,
        ),
        Case::new("dependencies::checker_finds_planted", checker_finds_planted),
        Case::new(
            "dependencies::manifest_pins_the_careful_features",
            careful_features,
        ),
    ]
}

/// The packages of a `Cargo.lock`: every name with its versions.
fn packages(lock: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = None;
    for line in lock.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = Some(value.trim_matches('"').to_owned());
        } else if let Some(value) = line.strip_prefix("version = ")
            && let Some(name) = name.take()
        {
            found
                .entry(name)
                .or_default()
                .push(value.trim_matches('"').to_owned());
        }
    }
    found
}

fn check(lock: &str) -> Vec<String> {
    let packages = packages(lock);
    let mut broken = Vec::new();
    for (name, why) in REFUSED {
        if packages.contains_key(*name) {
            broken.push(format!("{name} is refused: {why}"));
        }
    }
    for name in ONE_VERSION {
        if let Some(versions) = packages.get(*name).filter(|versions| versions.len() > 1) {
            broken.push(format!(
                "{name} is locked in {} versions: {versions:?}",
                versions.len()
            ));
        }
    }
    let count: usize = packages.values().map(Vec::len).sum();
    if count >= MOST_PACKAGES {
        broken.push(format!(
            "{count} packages, fewer than {MOST_PACKAGES} allowed"
        ));
    }
    broken
}

fn locked_packages_are_allowed() -> Outcome {
    let lock = std::fs::read_to_string(tree::repository().join("Cargo.lock"))?;
    assert!(packages(&lock).len() > 50, "Cargo.lock was not understood");
    let broken = check(&lock);
    if broken.is_empty() {
        Ok(())
    } else {
        Err(fail(broken.join("\n")))
    }
}

fn checker_finds_planted() -> Outcome {
    let package = |name: &str, version: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
    };
    let good = format!(
        "version = 4\n\n{}{}",
        package("kiln", "0.1.0"),
        package("tar", "0.4.46")
    );
    assert_eq!(check(&good), Vec::<String>::new());
    for (name, _) in REFUSED {
        let broken = check(&format!("{good}{}", package(name, "1.0.0")));
        assert!(broken.len() == 1 && broken[0].contains(name), "{broken:?}");
    }
    let twice = check(&format!("{good}{}", package("tar", "0.3.0")));
    assert!(
        twice.len() == 1 && twice[0].contains("2 versions"),
        "{twice:?}"
    );
    let many: String = (0..MOST_PACKAGES)
        .map(|number| package(&format!("p{number}"), "1.0.0"))
        .collect();
    assert_eq!(check(&many).len(), 1);
    Ok(())
}

/// Features whose defaults would bring another decoder, another cipher library or the network.
fn careful_features() -> Outcome {
    let manifest = std::fs::read_to_string(tree::repository().join("Cargo.toml"))?;
    for name in ["reqwest", "sequoia-openpgp", "tar", "xz2", "serde_yaml"] {
        let line = manifest
            .lines()
            .find(|line| line.starts_with(&format!("{name} = ")))
            .unwrap_or_else(|| panic!("{name} is not a dependency"));
        assert!(line.contains("default-features = false"), "{line}");
    }
    Ok(())
}
