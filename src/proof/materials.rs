//! What a build is made of, as one list: the bill of materials and the provenance both tell it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::lock::{Base, Blob, Inputs, Source, Trim};
use crate::digest::Sha256;

/// What a material is to the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is in what was built: the source, its patches.
    Source,
    /// It decides the configuration.
    Configuration,
    /// It builds, and is not in what was built.
    Tool,
}

/// One material.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// What it is to the build.
    pub part: Part,
    /// A name that no other material of the build has: `source`, `patch patches/x.patch`.
    pub id: String,
    /// Its own name: of a package, a file, a program.
    pub name: String,
    /// Its version, where it has one.
    pub version: Option<String>,
    /// Digest of the bytes, where it is bytes: a program of the host is not looked at.
    pub sha256: Option<Sha256>,
    /// Its package URL (<https://github.com/package-url/purl-spec>), where it is a package.
    pub purl: Option<String>,
    /// Where it is published, with the digest of what lies there.
    pub published: Option<(String, Sha256)>,
}

/// Everything that a build is made of, in a fixed order. `toolchain` are the programs of a host and
/// what they call themselves.
pub fn materials(inputs: &Inputs, toolchain: &BTreeMap<String, String>) -> Vec<Material> {
    let mut all = vec![source(inputs)];
    for patch in &inputs.patches {
        let id = format!("patch {}", patch.file);
        all.push(file(Part::Source, &id, &patch.file, patch.sha256));
    }
    all.push(base(&inputs.base));
    if let Some(Trim::Lsmod { sha256 }) = &inputs.trim {
        all.push(file(Part::Configuration, "lsmod", "lsmod", *sha256));
    }
    for fragment in &inputs.fragments {
        let id = format!("fragment {}", fragment.name);
        all.push(file(
            Part::Configuration,
            &id,
            &fragment.name,
            fragment.sha256,
        ));
    }
    for (name, version) in toolchain {
        all.push(Material {
            part: Part::Tool,
            id: format!("tool {name}"),
            name: name.clone(),
            version: Some(version.clone()),
            sha256: None,
            purl: None,
            published: None,
        });
    }
    all
}

fn file(part: Part, id: &str, name: &str, sha256: Sha256) -> Material {
    Material {
        part,
        id: id.to_owned(),
        name: name.to_owned(),
        version: None,
        sha256: Some(sha256),
        purl: None,
        published: None,
    }
}

/// A Debian package, by the digest of its file.
fn package(part: Part, id: &str, (name, version): (&str, &str), deb: &Blob) -> Material {
    Material {
        part,
        id: id.to_owned(),
        name: name.to_owned(),
        version: Some(version.to_owned()),
        sha256: Some(deb.sha256),
        purl: Some(format!(
            "pkg:deb/debian/{}@{}",
            escaped(name),
            escaped(version)
        )),
        published: None,
    }
}

fn source(inputs: &Inputs) -> Material {
    match &inputs.source {
        Source::KernelOrg { path, xz, tar, .. } => {
            let version = inputs.version.to_string();
            Material {
                part: Part::Source,
                id: "source".to_owned(),
                name: "linux".to_owned(),
                purl: Some(format!("pkg:generic/linux@{}", escaped(&version))),
                version: Some(version),
                sha256: Some(tar.sha256),
                published: Some((
                    format!("https://www.kernel.org/pub/linux/kernel/{path}"),
                    xz.sha256,
                )),
            }
        }
        Source::Debian {
            package: name,
            version,
            deb,
            ..
        } => package(Part::Source, "source", (name, version), deb),
    }
}

fn base(base: &Base) -> Material {
    let id = "base configuration";
    match base {
        Base::Debian {
            package: name,
            version,
            deb,
            ..
        } => package(Part::Configuration, id, (name, version), deb),
        Base::File { path, config } => file(Part::Configuration, id, path, config.sha256),
        // Its bytes follow from the source.
        Base::Target { target } => Material {
            part: Part::Configuration,
            id: id.to_owned(),
            name: target.clone(),
            version: None,
            sha256: None,
            purl: None,
            published: None,
        },
    }
}

/// A part of a package URL: what is neither a letter, a digit nor one of `.-_~` is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            let _infallible = write!(out, "{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::lock::tests::inputs;

    #[test]
    fn every_input_is_a_material_and_each_has_its_own_id() {
        let mut inputs = inputs();
        let blob = Blob {
            sha256: Sha256::of(b"deb"),
            bytes: 3,
        };
        inputs.base = Base::Debian {
            package: "linux-config-6.12".to_owned(),
            flavour: "none_amd64".to_owned(),
            version: "1:6.12+b~1".to_owned(),
            deb: blob,
            config: blob,
        };
        inputs.trim = Some(Trim::Lsmod {
            sha256: Sha256::of(b"l"),
        });
        inputs.patches.push(crate::proof::lock::Patch {
            file: "patches/a.patch".to_owned(),
            sha256: Sha256::of(b"p"),
        });
        let toolchain = BTreeMap::from([("gcc".to_owned(), "gcc 12.2.0".to_owned())]);
        let all = materials(&inputs, &toolchain);
        let ids: Vec<&str> = all.iter().map(|material| material.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "source",
                "patch patches/a.patch",
                "base configuration",
                "lsmod",
                "fragment guest",
                "tool gcc"
            ]
        );
        assert_eq!(
            all[2].purl.as_deref(),
            Some("pkg:deb/debian/linux-config-6.12@1%3A6.12%2Bb~1")
        );
        assert_eq!(all[0].purl.as_deref(), Some("pkg:generic/linux@6.18.40"));
        // Only a program of the host, and a target, are no bytes of their own.
        for material in &all {
            assert_eq!(
                material.sha256.is_none(),
                material.part == Part::Tool,
                "{material:?}"
            );
        }
    }
}
