//! The answers of earlier probes, in a file.
//!
//! The file only saves time: an answer is found by the digest of all that it depends on, every
//! build asks the tree's own `olddefconfig` too, and a file that is broken, or that another user
//! could have written, is not believed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::files::{self, FileError};

/// What the file says it is.
const SCHEMA: &str = "kiln.probe-cache/1";

/// Largest file that is read, in bytes: 120 probes of a tree are 40 KiB.
const LIMIT: u64 = 16 << 20;

/// Most answers that are kept.
const MOST: usize = 4000;

#[derive(Debug, Default)]
pub(super) struct Cache {
    path: Option<Utf8PathBuf>,
    entries: BTreeMap<Sha256, Entry>,
    /// Keys that this process used.
    used: Vec<Sha256>,
    is_changed: bool,
    ignored: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Sha256,
    /// For people.
    command: String,
    output: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: String,
    /// Of the entries as they are written.
    sha256: Sha256,
    entries: Vec<Entry>,
}

impl Cache {
    /// The answers in a file; none where there is none, or where it is not believed.
    pub(super) fn load(path: &Utf8Path) -> Self {
        let mut cache = Self {
            path: Some(path.to_owned()),
            ..Self::default()
        };
        match load(path) {
            Ok(entries) => {
                let entries = entries.into_iter();
                cache.entries = entries.map(|entry| (entry.key, entry)).collect();
            }
            Err(why) => cache.ignored = Some(format!("`{path}` {why}")),
        }
        cache
    }

    /// Why the file was not believed.
    pub(super) fn ignored(&self) -> Option<&str> {
        self.ignored.as_deref()
    }

    pub(super) fn get(&mut self, key: &Sha256) -> Option<&str> {
        let entry = self.entries.get(key)?;
        self.used.push(*key);
        Some(&entry.output)
    }

    /// Keeps an answer; one that is no text is asked again each time.
    pub(super) fn put(&mut self, key: Sha256, command: &str, output: &[u8]) {
        let Ok(output) = std::str::from_utf8(output) else {
            return;
        };
        self.used.push(key);
        self.is_changed = true;
        let entry = Entry {
            key,
            command: command.to_owned(),
            output: output.to_owned(),
        };
        self.entries.insert(key, entry);
    }

    /// Writes the file if there is something new.
    pub(super) fn keep(mut self) -> Result<(), FileError> {
        let Some(path) = self.path.filter(|_| self.is_changed) else {
            return Ok(());
        };
        if self.entries.len() > MOST {
            self.used.sort_unstable();
            self.entries
                .retain(|key, _| self.used.binary_search(key).is_ok());
        }
        let entries: Vec<Entry> = self.entries.into_values().collect();
        let stored = Stored {
            schema: SCHEMA.to_owned(),
            sha256: digest(&entries),
            entries,
        };
        let text = serde_json::to_vec_pretty(&stored).expect("texts and digests become JSON");
        files::write(&path, &text)
    }
}

fn digest(entries: &[Entry]) -> Sha256 {
    Sha256::of(&serde_json::to_vec(entries).expect("texts and digests become JSON"))
}

fn load(path: &Utf8Path) -> Result<Vec<Entry>, String> {
    let Ok(metadata) = path.symlink_metadata() else {
        return Ok(Vec::new());
    };
    if !metadata.is_file() {
        return Err("is no plain file".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err("belongs to another user, or others may write to it".to_owned());
    }
    let text = files::read_text(path, LIMIT).map_err(|error| format!("cannot be read: {error}"))?;
    let stored: Stored =
        serde_json::from_str(&text).map_err(|error| format!("is no cache of probes: {error}"))?;
    if stored.schema != SCHEMA {
        return Err(format!("is `{}`: expected `{SCHEMA}`", stored.schema));
    }
    if stored.sha256 != digest(&stored.entries) {
        return Err("is damaged: its digest does not match".to_owned());
    }
    Ok(stored.entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(scratch.path().to_str().unwrap()).join("probes.json");
        (scratch, path)
    }

    fn kept(path: &Utf8Path) -> Sha256 {
        let key = Sha256::of(b"key");
        let mut cache = Cache::load(path);
        cache.put(key, "gcc -v", b"y\n");
        cache.keep().unwrap();
        key
    }

    #[test]
    fn answers_come_back() {
        let (_scratch, path) = scratch();
        let key = kept(&path);
        let mut cache = Cache::load(&path);
        assert_eq!(cache.ignored(), None);
        assert_eq!(cache.get(&key), Some("y\n"));
        assert_eq!(cache.get(&Sha256::of(b"other")), None);
    }

    #[test]
    fn a_file_that_is_not_ours_or_not_whole_is_not_believed() {
        let (_scratch, path) = scratch();
        let key = kept(&path);
        let whole = files::read_text(&path, LIMIT).unwrap();
        let edited = whole.replace(r"y\n", r"n\n");
        assert_ne!(edited, whole);
        for (text, why) in [
            (edited.as_str(), "digest does not match"),
            (&whole[..whole.len() / 2], "no cache of probes"),
            (&whole.replace("cache/1", "cache/9"), "expected"),
            ("[]", "no cache of probes"),
        ] {
            files::write(&path, text.as_bytes()).unwrap();
            let mut cache = Cache::load(&path);
            assert!(
                cache.ignored().unwrap().contains(why),
                "{:?}",
                cache.ignored()
            );
            assert_eq!(cache.get(&key), None);
        }
        files::write(&path, whole.as_bytes()).unwrap();
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, open).unwrap();
        let cache = Cache::load(&path);
        assert!(cache.ignored().unwrap().contains("others may write"));
        // What is learnt then replaces it.
        let key = kept(&path);
        assert_eq!(Cache::load(&path).get(&key), Some("y\n"));
    }
}
