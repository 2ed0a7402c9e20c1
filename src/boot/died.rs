//! The last words of a kernel that died: what it left in the firmware's or the memory's store
//! (pstore), and what the journal has of the boot before.

use camino::{Utf8Path, Utf8PathBuf};

use super::place::Place;
use crate::command::{Cmd, Tool};
use crate::digest::Sha256;
use crate::files;

/// Most lines of it that are kept.
const LINES: usize = 60;

/// Longest line that is kept, in bytes.
const LENGTH: usize = 400;

/// Largest dump that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// Where dumps are: as the kernel shows them, and where `systemd-pstore` puts them.
const PLACES: [&str; 2] = ["sys/fs/pstore", "var/lib/systemd/pstore"];

/// A panic that was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dump {
    /// Of its bytes: moved to another place it is the same.
    pub(super) digest: Sha256,
    text: String,
}

/// The panics that are written down on this node, in the order of their names.
pub(super) fn panics(place: &Place) -> Vec<Dump> {
    let mut found: Vec<Dump> = Vec::new();
    for directory in PLACES {
        for path in below(&place.at(directory), 3) {
            let is_dump = path
                .file_name()
                .is_some_and(|name| name.starts_with("dmesg"));
            let Ok(bytes) = files::read(&path, LIMIT) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let digest = Sha256::of(&bytes);
            let is_panic = is_panic(&text);
            if is_dump && is_panic && found.iter().all(|known| known.digest != digest) {
                found.push(Dump { digest, text });
            }
        }
    }
    found
}

/// `Panic#1 Part1` is what pstore writes above a dump; a long one has more parts, and is one panic.
fn is_panic(text: &str) -> bool {
    let head = text.lines().next().unwrap_or_default();
    match head.split_once(" Part") {
        Some((what, part)) => what.starts_with("Panic#") && part.trim() == "1",
        None => text.contains("Kernel panic - not syncing"),
    }
}

fn below(directory: &Utf8Path, depth: u8) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    for name in files::list(directory).unwrap_or_default() {
        let path = directory.join(name);
        if path.is_dir() && depth > 0 {
            found.extend(below(&path, depth - 1));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

/// The last lines of what a kernel that died said; none where nothing was kept.
pub(super) fn last_words(place: &Place) -> Vec<String> {
    let dumps = panics(place);
    let mut lines: Vec<String> = match dumps.last() {
        Some(dump) => dump.text.lines().map(shortened).collect(),
        None if place.is_live() => journal().lines().map(shortened).collect(),
        None => Vec::new(),
    };
    lines.split_off(lines.len().saturating_sub(LINES))
}

fn journal() -> String {
    let words = [
        "--boot=-1",
        "--dmesg",
        "--no-pager",
        "--lines=60",
        "--output=short-monotonic",
    ];
    let said = Tool::find("journalctl").and_then(|tool| {
        Cmd::new(&tool)
            .args(words)
            .deadline(std::time::Duration::from_secs(20))
            .capture()
    });
    String::from_utf8_lossy(&said.unwrap_or_default()).into_owned()
}

/// A line of text, whatever the kernel wrote.
fn shortened(line: &str) -> String {
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut text: String = plain.collect();
    while text.len() > LENGTH {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_found_once_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path().to_str().unwrap());
        assert!(panics(&place).is_empty() && last_words(&place).is_empty());
        let write =
            |path: &str, text: &str| files::write(&place.at(path), text.as_bytes()).unwrap();
        write(
            "sys/fs/pstore/console-ramoops-0",
            "Kernel panic - not syncing: not a dump",
        );
        write(
            "sys/fs/pstore/dmesg-ramoops-1",
            "Oops#1 Part1\n<4> BUG: only an oops",
        );
        assert!(panics(&place).is_empty());
        let long = "x".repeat(900);
        let text = format!(
            "Panic#1 Part1\n<6>first\n{long}\n<0>\u{1b}[31mKernel panic - not syncing: x\n"
        );
        write("sys/fs/pstore/dmesg-ramoops-0", &text);
        write("var/lib/systemd/pstore/1790/000/dmesg-ramoops-0", &text);
        assert_eq!(panics(&place).len(), 1);
        let words = last_words(&place);
        assert_eq!(
            words.last().unwrap(),
            "<0> [31mKernel panic - not syncing: x"
        );
        assert!(words.iter().all(|line| line.len() <= LENGTH));
        write(
            "sys/fs/pstore/dmesg-ramoops-2",
            &"Panic#2 Part1\n<1> y\n".repeat(200),
        );
        assert_eq!((panics(&place).len(), last_words(&place).len()), (2, LINES));
    }
}
