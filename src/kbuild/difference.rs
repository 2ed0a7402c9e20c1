//! Why two builds of one file differ: by the bytes alone, without looking at the world.
//!
//! A cause is only named where it explains all of a difference; what is left over is unclassified,
//! never guessed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// What makes two builds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A moment was written down.
    Timestamp,
    /// A path of the building host was written down.
    Path,
    /// A key was generated, or signed what it should not have.
    Key,
    /// pahole wrote types in the order of its threads.
    BtfOrder,
    /// The build id alone; it follows from whatever else differs before the file was stripped.
    BuildId,
    /// The same content, compressed otherwise.
    CompressionThreads,
    /// The same entries in another order.
    FileOrder,
    /// None of these, or not only these.
    Unclassified,
}

impl Cause {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Path => "path",
            Self::Key => "key",
            Self::BtfOrder => "BTF order",
            Self::BuildId => "build-id",
            Self::CompressionThreads => "compression threads",
            Self::FileOrder => "file order",
            Self::Unclassified => "unclassified",
        }
    }

    /// Where such a difference usually comes from.
    pub fn likely(self) -> &'static str {
        match self {
            Self::Timestamp => "something ignores SOURCE_DATE_EPOCH",
            Self::Path => "built in another place, and no prefix map reaches it",
            Self::Key => "a key was generated: set MODULE_SIG_KEY=\"\" in a fragment",
            Self::BtfOrder => "pahole ran with -j",
            Self::BuildId => "debugging information differed before it was stripped",
            Self::CompressionThreads => "another number of threads, or another compressor",
            Self::FileOrder => "a list was not sorted: the order of a directory, or of jobs",
            Self::Unclassified => "unknown; look at both files",
        }
    }
}

const MODULE_SIGNATURE: &[u8] = b"~Module signature appended~\n";

/// Why two contents of the file `path` differ; empty where they do not.
pub fn causes(path: &str, first: &[u8], second: &[u8]) -> BTreeSet<Cause> {
    if first == second {
        return BTreeSet::new();
    }
    if is_key(path, first, second) {
        return BTreeSet::from([Cause::Key]);
    }
    if let (Some(a), Some(b)) = (
        first.strip_suffix(MODULE_SIGNATURE),
        second.strip_suffix(MODULE_SIGNATURE),
    ) && let (Some(a), Some(b)) = (unsigned(a), unsigned(b))
    {
        let mut found = causes(path, a, b);
        found.insert(Cause::Key);
        return found;
    }
    if let (Some(a), Some(b)) = (gzip_without_time(first), gzip_without_time(second))
        && a == b
    {
        return BTreeSet::from([Cause::Timestamp]);
    }
    match (sections(first), sections(second)) {
        (Some(a), Some(b)) => in_sections(&a, &b),
        _ => in_text(first, second),
    }
}

/// Whether both are keys or certificates.
fn is_key(path: &str, first: &[u8], second: &[u8]) -> bool {
    let pem = |bytes: &[u8]| bytes.starts_with(b"-----BEGIN ");
    path.contains("signing_key") || (pem(first) && pem(second))
}

/// A module before its signature: `struct module_signature` stands before the magic, its last four
/// bytes are the length of what stands before it (`include/linux/module_signature.h`).
fn unsigned(bytes: &[u8]) -> Option<&[u8]> {
    let (rest, header) = bytes.split_at_checked(bytes.len().checked_sub(12)?)?;
    let length = u32::from_be_bytes(header.get(8..12)?.try_into().ok()?);
    rest.get(..rest.len().checked_sub(length as usize)?)
}

/// A gzip file without the time in its header (RFC 1952, section 2.3).
fn gzip_without_time(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let head = bytes
        .get(..4)
        .filter(|head| head.starts_with(&[0x1f, 0x8b]))?;
    Some((head, bytes.get(8..)?))
}

/// Sections of a 64-bit little-endian ELF file by name, and the rest of its bytes not at all: file
/// offsets move with every section.
fn sections(bytes: &[u8]) -> Option<BTreeMap<String, &[u8]>> {
    const NOBITS: u32 = 8;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| {
        let value = u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?);
        usize::try_from(value).ok()
    };
    let table = u64_at(40)?;
    let (size, count, names) = (u16_at(58)?, u16_at(60)?, u16_at(62)?);
    let header = |index: u16| table.checked_add(usize::from(index) * usize::from(size));
    let content = |at: usize| -> Option<&[u8]> {
        let (start, length) = (u64_at(at.checked_add(24)?)?, u64_at(at.checked_add(32)?)?);
        bytes.get(start..start.checked_add(length)?)
    };
    let names = content(header(names)?)?;
    let mut found: BTreeMap<String, &[u8]> = BTreeMap::new();
    for index in 0..count {
        let at = header(index)?;
        let name = names.get(u32_at(at)? as usize..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        if u32_at(at.checked_add(4)?)? == NOBITS {
            continue;
        }
        // Sections of one name are told apart by their place among them.
        let mut key = name.clone();
        while found.contains_key(&key) {
            key.push('\'');
        }
        found.insert(key, content(at)?);
    }
    Some(found)
}

fn in_sections(
    first: &BTreeMap<String, &[u8]>,
    second: &BTreeMap<String, &[u8]>,
) -> BTreeSet<Cause> {
    if first.keys().ne(second.keys()) {
        return BTreeSet::from([Cause::Unclassified]);
    }
    let mut found = BTreeSet::new();
    for (name, a) in first {
        let b = second[name];
        if *a == b {
            continue;
        }
        match name.as_str() {
            ".note.gnu.build-id" | ".gnu_debuglink" => {
                found.insert(Cause::BuildId);
            }
            // Other types would be of another size.
            ".BTF" | ".BTF.ext" | ".BTF_ids" if a.len() == b.len() => {
                found.insert(Cause::BtfOrder);
            }
            _ => found.extend(in_text(a, b)),
        }
    }
    if found.is_empty() {
        // Nothing that is loaded differs, only where it stands.
        found.insert(Cause::Unclassified);
    }
    found
}

/// Causes that show in texts: all that is not text must be the same.
fn in_text(first: &[u8], second: &[u8]) -> BTreeSet<Cause> {
    let (mut a, mut b) = (Texts::of(first), Texts::of(second));
    let unclassified = BTreeSet::from([Cause::Unclassified]);
    if a.rest != b.rest {
        return unclassified;
    }
    if a.runs != b.runs && sorted(&a.runs) == sorted(&b.runs) {
        return BTreeSet::from([Cause::FileOrder]);
    }
    let mut found = BTreeSet::new();
    for (cause, plain) in [
        (Cause::Timestamp, without_time as fn(&str) -> String),
        (Cause::Path, without_paths),
    ] {
        let (before, after) = (differing(&a.runs, &b.runs), {
            a.runs = a.runs.iter().map(|run| plain(run)).collect();
            b.runs = b.runs.iter().map(|run| plain(run)).collect();
            differing(&a.runs, &b.runs)
        });
        if after != before {
            found.insert(cause);
        }
    }
    if a.runs == b.runs {
        found
    } else {
        unclassified
    }
}

/// How many runs differ, and in how many words.
fn differing(first: &[String], second: &[String]) -> usize {
    let words = |a: &str, b: &str| {
        let (a, b): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
        let unequal = a.iter().zip(&b).filter(|(a, b)| a != b).count();
        unequal + a.len().abs_diff(b.len())
    };
    let unequal: usize = first.iter().zip(second).map(|(a, b)| words(a, b)).sum();
    unequal + first.len().abs_diff(second.len())
}

fn sorted(runs: &[String]) -> Vec<&String> {
    let mut runs: Vec<&String> = runs.iter().collect();
    runs.sort_unstable();
    runs
}

/// Runs of printable characters, line by line, and the bytes between them.
struct Texts {
    runs: Vec<String>,
    rest: Vec<u8>,
}

impl Texts {
    fn of(bytes: &[u8]) -> Self {
        let mut texts = Self {
            runs: Vec::new(),
            rest: Vec::new(),
        };
        let mut run = String::new();
        for byte in bytes {
            if (b' '..0x7f).contains(byte) || *byte == b'\t' {
                run.push(char::from(*byte));
            } else {
                if !run.is_empty() {
                    texts.runs.push(std::mem::take(&mut run));
                }
                texts.rest.push(*byte);
            }
        }
        if !run.is_empty() {
            texts.runs.push(run);
        }
        texts
    }
}

/// A text in which every word of a date is the same, where it holds a moment: a time of day, a date
/// or seconds since 1970.
fn without_time(text: &str) -> String {
    const NAMES: &str =
        "Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let shape = |word: &str| -> String {
        let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
        word.chars().map(shape).collect()
    };
    let words: Vec<&str> = text.split(' ').collect();
    let core = |word: &str| {
        word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
            .to_owned()
    };
    let moment = |word: &str| {
        let core = core(word);
        let shape = shape(&core);
        let seconds = core.len() == 10 && shape == "0000000000" && core.starts_with(['1', '2']);
        seconds || shape.contains("00:00:00") || shape.starts_with("0000-00-00")
    };
    if !words.iter().any(|word| moment(word)) {
        return text.to_owned();
    }
    let of_a_date = |word: &&str| {
        let core = core(word);
        let number =
            core.len() <= 4 && !core.is_empty() && core.bytes().all(|b| b.is_ascii_digit());
        moment(word) || number || (core.len() == 3 && NAMES.split(' ').any(|name| name == core))
    };
    let plain: Vec<&str> = words
        .iter()
        // A day below ten may be padded with a blank.
        .filter(|word| !word.is_empty())
        .map(|word| if of_a_date(word) { "TIME" } else { word })
        .collect();
    plain.join(" ")
}

/// A text in which every absolute path is the same.
fn without_paths(text: &str) -> String {
    let in_path = |c: char| c.is_ascii_alphanumeric() || "/._+-@~".contains(c);
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        plain.push_str(before);
        let end = path.find(|c| !in_path(c)).unwrap_or(path.len());
        // A slash within a word is part of a relative name or of arithmetic.
        let starts_word = !before.ends_with(in_path);
        plain.push_str(if starts_word && end > 1 {
            "/PATH"
        } else {
            &path[..end]
        });
        rest = &path[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: impl AsRef<[u8]>, second: impl AsRef<[u8]>) -> Vec<Cause> {
        causes("file", first.as_ref(), second.as_ref())
            .into_iter()
            .collect()
    }

    /// An ELF file with these sections.
    fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut names = vec![0];
        let mut body = vec![0; 64];
        let mut headers = vec![0; 64];
        let mut header = |names: &mut Vec<u8>, body: &mut Vec<u8>, name: &str, bytes: &[u8]| {
            let at = names.len();
            names.extend(name.as_bytes());
            names.push(0);
            let content = if bytes.is_empty() {
                names.clone()
            } else {
                bytes.to_vec()
            };
            let mut entry = vec![0; 64];
            entry[..4].copy_from_slice(&u32::try_from(at).unwrap().to_le_bytes());
            entry[4] = 1;
            entry[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
            entry[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            body.extend(content);
            headers.extend(entry);
        };
        for (name, bytes) in sections {
            header(&mut names, &mut body, name, bytes);
        }
        header(&mut names, &mut body, ".shstrtab", b"");
        let table = body.len() as u64;
        let count = u16::try_from(headers.len() / 64).unwrap();
        body.extend(headers);
        body[..6].copy_from_slice(b"\x7fELF\x02\x01");
        body[40..48].copy_from_slice(&table.to_le_bytes());
        body[58..60].copy_from_slice(&64u16.to_le_bytes());
        body[60..62].copy_from_slice(&count.to_le_bytes());
        body[62..64].copy_from_slice(&(count - 1).to_le_bytes());
        body
    }

    fn signed(module: &[u8], signature: &[u8]) -> Vec<u8> {
        let mut bytes = [module, signature].concat();
        bytes.extend([0; 8]);
        bytes.extend(u32::try_from(signature.len()).unwrap().to_be_bytes());
        bytes.extend(MODULE_SIGNATURE);
        bytes
    }

    #[test]
    fn each_kind_is_told() {
        let changelog = |date: &str| format!("linux (1) unstable\n\n -- kiln <k@x>  {date}\n");
        let cases: [(Vec<u8>, Vec<u8>, Cause); 9] = [
            (
                changelog("Mon, 01 Jun 2026 07:46:40 +0000").into(),
                changelog("Tue, 02 Jun 2027 07:46:41 +0000").into(),
                Cause::Timestamp,
            ),
            (
                b"\0built 1780300000\0".into(),
                b"\0built 1790347225\0".into(),
                Cause::Timestamp,
            ),
            (
                b"\x1f\x8b\x08\0\x01\x02\x03\x04rest".into(),
                b"\x1f\x8b\x08\0\x05\x06\x07\x08rest".into(),
                Cause::Timestamp,
            ),
            (
                b"\0/build/src/a.c\0".into(),
                b"\0/home/me/linux/a.c\0".into(),
                Cause::Path,
            ),
            (
                b"b.ko\na.ko\n".into(),
                b"a.ko\nb.ko\n".into(),
                Cause::FileOrder,
            ),
            (
                signed(b"module", b"one"),
                signed(b"module", b"other"),
                Cause::Key,
            ),
            (
                elf(&[(".text", b"code"), (".note.gnu.build-id", b"1234")]),
                elf(&[(".text", b"code"), (".note.gnu.build-id", b"5678")]),
                Cause::BuildId,
            ),
            (
                elf(&[(".text", b"code"), (".BTF", b"\x01\x02\x03")]),
                elf(&[(".text", b"code"), (".BTF", b"\x02\x01\x03")]),
                Cause::BtfOrder,
            ),
            (b"\x01\x02".into(), b"\x01\x03".into(), Cause::Unclassified),
        ];
        for (first, second, cause) in cases {
            assert_eq!(
                of(&first, &second),
                [cause],
                "{}",
                String::from_utf8_lossy(&first)
            );
            assert_eq!(of(&second, &first), [cause]);
            assert_eq!(of(&first, &first), []);
        }
        let pem = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n");
        assert_eq!(of(pem("aaaa"), pem("bbbb")), [Cause::Key]);
    }

    #[test]
    fn two_at_once_are_both_told() {
        let line = |date: &str, path: &str| format!("made {date} in {path}/obj\n");
        assert_eq!(
            of(
                line("2026-06-01T07:46:40Z", "/build"),
                line("2027-06-01T07:46:40Z", "/home/me")
            ),
            [Cause::Timestamp, Cause::Path]
        );
        let module = |path: &[u8], id: &[u8]| elf(&[(".rodata", path), (".note.gnu.build-id", id)]);
        assert_eq!(
            of(
                module(b"\0/build/a.c\0", b"1"),
                module(b"\0/other/a.c\0", b"2")
            ),
            [Cause::Path, Cause::BuildId]
        );
        let first = signed(&module(b"x", b"1"), b"one");
        let second = signed(&module(b"x", b"2"), b"two");
        assert_eq!(of(first, second), [Cause::Key, Cause::BuildId]);
    }

    #[test]
    fn what_is_left_over_is_not_guessed() {
        for (first, second) in [
            ("at 07:46:40 value 7a", "at 07:46:41 value 8b"),
            ("see /build/a and b", "see /home/a and c"),
            ("a/b=1", "a/c=1"),
            ("version 6", "version 7"),
            ("HZ 1000", "HZ 250"),
            ("more", "more and more"),
        ] {
            assert_eq!(of(first, second), [Cause::Unclassified], "{first}");
        }
        let good = elf(&[(".text", b"code")]);
        let other = elf(&[(".text", b"cod\0")]);
        assert_eq!(of(&good, &other), [Cause::Unclassified]);
        // Neither a cut nor a wild file is a reason to stop.
        for length in 0..good.len() {
            let found = of(&good[..length], &good);
            assert!(!found.is_empty(), "{length}");
        }
        let mut wild = good.clone();
        wild[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(of(&wild, &good), [Cause::Unclassified]);
    }
}
