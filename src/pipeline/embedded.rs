//! The default workspace, which is this repository's own, embedded in the binary.

/// A file of the repository under its own path.
macro_rules! own {
    ($path:literal) => {
        ($path, include_str!(concat!("../../", $path)))
    };
}

/// Its files: path from the workspace's directory, and text.
pub const FILES: &[(&str, &str)] = &[
    (".gitignore", "/.kiln/\n"),
    own!("kiln.yaml"),
    own!("collateral/canary.yaml"),
    own!("collateral/guest.yaml"),
    own!("collateral/lts.yaml"),
    own!("config-fragments/boot-gate.config"),
    own!("config-fragments/cloud.config"),
    own!("config-fragments/guest.config"),
    own!("config-fragments/latency.config"),
    own!("config-fragments/upstream-build.config"),
    own!("images/README.md"),
    own!("keys/647F28654894E3BD457199BE38DBBDC86092693E.asc"),
    own!("keys/ABAF11C65A2970B130ABE3C479BE3E4300411886.asc"),
    own!("keys/AC2B29BD34A6AFDDB3F68F35E7BFC8EC95861109.asc"),
    own!("keys/E27E5D8A3403A2EF66873BBCDEA66FF797772CDC.asc"),
    own!("keys/README.md"),
    own!("pipelines/canary.yaml"),
    own!("pipelines/channels.yaml"),
    own!("pipelines/cloud.yaml"),
    own!("pipelines/debian.yaml"),
    own!("pipelines/guest.yaml"),
    own!("pipelines/lts.yaml"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use camino::Utf8Path;

    /// Every file of the repository that belongs to a new workspace is embedded, and no other.
    #[test]
    fn the_table_is_the_repository() {
        let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut expected = BTreeSet::from([".gitignore".to_owned(), "kiln.yaml".to_owned()]);
        let directories = [
            "pipelines",
            "config-fragments",
            "collateral",
            "keys",
            "images",
        ];
        for directory in directories {
            let Ok(names) = crate::files::list(&root.join(directory)) else {
                continue;
            };
            // Locks are facts of a workspace's own life, made by `kiln resolve`.
            let names = names.into_iter().filter(|name| !name.contains(".lock"));
            expected.extend(names.map(|name| format!("{directory}/{name}")));
        }
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, expected);
    }
}
