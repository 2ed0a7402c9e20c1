//! The real medium: the one writer of the state files, and the slots.
//!
//! The state files are made once and from then on only overwritten in their place: GRUB writes to the
//! blocks where it finds them, and a file that was replaced has others. Where they lie is kept aside
//! when they are made, and compared before each write.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::block::{self, Block, SIZE, Slot, Unsure};
use super::error::BootError;
use super::grub;
use super::ioctl;
use super::place::Place;
use super::plan::{self, Plan};
use super::rehearsal::Counting;
use super::stage::Medium;
use crate::digest::Sha256;
use crate::files::{self, Lock, Wait};

/// Largest state file that is looked at, in bytes; a right one has 1024.
const STATE_LIMIT: u64 = 64 << 10;

/// What a slot is filled with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The kernel's file.
    pub kernel: Utf8PathBuf,
    /// The initrd's file.
    pub initrd: Utf8PathBuf,
    /// What they are, and what they are started with.
    pub plan: Plan,
}

impl Load {
    /// Takes a kernel and its initrd as they are now.
    ///
    /// # Errors
    /// Where a file cannot be read, is empty or is no boot image, and for words that GRUB would take
    /// for its own.
    pub fn of(
        kernel: &Utf8Path,
        initrd: &Utf8Path,
        words: &str,
        release: &str,
    ) -> Result<Self, BootError> {
        if let Some(found) = grub::not_for_grub(words) {
            return Err(BootError::Words { found });
        }
        let digests = (files::hash(kernel)?.0, files::hash(initrd)?.0);
        Ok(Self {
            kernel: kernel.to_owned(),
            initrd: initrd.to_owned(),
            plan: Plan::new(release, words, digests.0, digests.1),
        })
    }

    /// The files of the slot: name, source where there is one, digest.
    fn files(&self, slot: Slot) -> [(&'static str, Content<'_>, Sha256); 5] {
        let plan = &self.plan;
        let entry = grub::entry(slot, &plan.words);
        let about = format!("{}\n", plan.release);
        let text = |text: String| {
            let digest = Sha256::of(text.as_bytes());
            (Content::Text(text), digest)
        };
        let ((entry, entry_digest), (about, about_digest)) = (text(entry), text(about));
        let (all, all_digest) = text(plan.text());
        [
            ("vmlinuz", Content::File(&self.kernel), plan.kernel),
            ("initrd.img", Content::File(&self.initrd), plan.initrd),
            ("release", about, about_digest),
            (plan::FILE, all, all_digest),
            ("entry.cfg", entry, entry_digest),
        ]
    }
}

enum Content<'a> {
    File(&'a Utf8Path),
    Text(String),
}

/// Where a state file lay when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mooring {
    /// The inode; `None` on FAT, which has none that lasts.
    inode: Option<u64>,
    /// Its first byte on the disk; `None` where the file system does not tell.
    physical: Option<u64>,
}

/// Both of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moorings {
    schema: u32,
    state: Mooring,
    mirror: Mooring,
    /// Whether GRUB was seen to count in them.
    counting: Counting,
}

/// The gate of a node, held by one process.
#[derive(Debug)]
pub struct Gate<'a> {
    place: &'a Place,
    _lock: Lock,
}

impl<'a> Gate<'a> {
    /// Takes hold of the gate; a second process that tries is told who holds it.
    ///
    /// # Errors
    /// Where there is no gate, or another process holds it.
    pub fn hold(place: &'a Place, purpose: &str) -> Result<Self, BootError> {
        let path = place.state();
        if !path.exists() {
            return Err(BootError::NotSetUp { path });
        }
        Self::lock(place, purpose)
    }

    /// Takes hold of a gate that may not be there yet.
    pub(super) fn lock(place: &'a Place, purpose: &str) -> Result<Self, BootError> {
        let lock = Lock::acquire(&place.lock(), purpose, Wait::No, |_| {})?;
        Ok(Self { place, _lock: lock })
    }

    /// Writes both files anew, wherever they come to lie, and remembers where that is.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn make(&self, block: &Block) -> Result<(), BootError> {
        let (state, mirror) = (self.place.state(), self.place.mirror());
        files::write(&mirror, &block::mirror(block.good))?;
        files::write(&state, &block.bytes())?;
        self.checkpoint_directory()?;
        let moorings = Moorings {
            schema: 1,
            state: mooring(&state)?,
            mirror: mooring(&mirror)?,
            counting: Counting::Unknown,
        };
        self.moor(&moorings)
    }

    fn moor(&self, moorings: &Moorings) -> Result<(), BootError> {
        let path = self.place.moorings();
        let text = serde_json::to_vec_pretty(moorings)
            .map_err(|error| BootError::io("describe", &path)(error.into()))?;
        Ok(files::write(&path, &text)?)
    }

    /// Remembers what is known of GRUB's counting in the state file; whether that is news.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn remember(&self, counting: Counting) -> Result<bool, BootError> {
        let mut moorings = moorings(self.place)?;
        if moorings.counting == counting {
            return Ok(false);
        }
        moorings.counting = counting;
        self.moor(&moorings)?;
        Ok(true)
    }

    fn checkpoint_directory(&self) -> Result<(), BootError> {
        let path = self.place.gate();
        File::open(&path)
            .and_then(|directory| ioctl::checkpoint(&directory))
            .map_err(BootError::io("checkpoint the file system of", &path))
    }

    /// The state block as it is on the disk, or why it is none.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn read(&self) -> Result<Result<Block, Unsure>, BootError> {
        Ok(Block::parse(&files::read(
            &self.place.state(),
            STATE_LIMIT,
        )?))
    }

    /// Which slot the mirror calls good.
    pub fn mirror(&self) -> Option<Slot> {
        let bytes = files::read(&self.place.mirror(), STATE_LIMIT).ok()?;
        block::read_mirror(&bytes)
    }
}

/// What is known of GRUB's counting in the state file.
///
/// # Errors
/// Where that cannot be read.
pub fn counting(place: &Place) -> Result<Counting, BootError> {
    Ok(moorings(place)?.counting)
}

fn moorings(place: &Place) -> Result<Moorings, BootError> {
    let path = place.moorings();
    let text = files::read_text(&path, 4096)?;
    serde_json::from_str(&text).map_err(|error| BootError::Moved {
        path: place.state(),
        what: format!("`{path}` cannot be read: {error}"),
    })
}

/// Whether the state files are where they were made.
///
/// # Errors
/// Says what is different.
pub fn check_moorings(place: &Place) -> Result<(), BootError> {
    let state = place.state();
    let moved = |path: &Utf8Path, what: String| BootError::Moved {
        path: path.to_owned(),
        what,
    };
    let made = moorings(place)?;
    for (path, made) in [(state, made.state), (place.mirror(), made.mirror)] {
        let size = std::fs::metadata(&path).map(|data| data.len());
        if !matches!(size, Ok(size) if size == SIZE as u64) {
            return Err(moved(&path, format!("its size is not {SIZE} bytes")));
        }
        let now = mooring(&path)?;
        if now != made {
            return Err(moved(
                &path,
                format!("it lay at {}, and lies at {}", shown(&made), shown(&now)),
            ));
        }
    }
    Ok(())
}

fn shown(mooring: &Mooring) -> String {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    format!(
        "inode {} byte {}",
        number(mooring.inode),
        number(mooring.physical)
    )
}

fn mooring(path: &Utf8Path) -> Result<Mooring, BootError> {
    /// `MSDOS_SUPER_MAGIC` of `linux/magic.h`.
    const FAT: u64 = 0x4d44;
    let file = files::open(path)?;
    let look = BootError::io("look at", path);
    let data = file.metadata().map_err(look)?;
    let kind =
        rustix::fs::fstatfs(&file).map_err(|errno| BootError::io("look at", path)(errno.into()))?;
    let is_fat = u64::try_from(kind.f_type).is_ok_and(|kind| kind == FAT);
    let physical = match ioctl::physical(&file) {
        Ok(place) => place,
        // Not every file system tells.
        Err(error) if matches!(error.raw_os_error(), Some(95 | 25 | 22)) => None,
        Err(error) => return Err(BootError::io("locate", path)(error)),
    };
    Ok(Mooring {
        inode: (!is_fat).then(|| data.ino()),
        physical,
    })
}

/// Overwrites a file of `SIZE` bytes in its place, durably, and reads it back from the disk.
fn overwrite(path: &Utf8Path, bytes: &[u8; SIZE]) -> Result<(), BootError> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(BootError::io("open", path))?;
    file.write_all_at(bytes, 0)
        .map_err(BootError::io("write", path))?;
    file.sync_data().map_err(BootError::io("sync", path))?;
    let mut found = [0; SIZE];
    forget(&file);
    file.read_exact_at(&mut found, 0)
        .map_err(BootError::io("read back", path))?;
    if found == *bytes {
        Ok(())
    } else {
        let path = path.to_owned();
        Err(BootError::NotWritten { path })
    }
}

/// Asks the kernel to drop what it keeps of a file in memory, so that it is read from the disk. Only
/// a request: where it is not heeded, less is proven, and nothing is wrong.
fn forget(file: &File) {
    let _heeded = fadvise(file, 0, None, Advice::DontNeed);
}

impl Medium for Gate<'_> {
    type Error = BootError;
    type Load = Load;

    fn block(&mut self) -> Result<Block, BootError> {
        self.read()?.map_err(|source| BootError::Unsure {
            path: self.place.state(),
            source,
        })
    }

    fn write(&mut self, block: &Block) -> Result<(), BootError> {
        check_moorings(self.place)?;
        if self.read()? != Ok(*block) {
            overwrite(&self.place.state(), &block.bytes())?;
        }
        if self.mirror() != Some(block.good) {
            overwrite(&self.place.mirror(), &block::mirror(block.good))?;
        }
        Ok(())
    }

    fn fill(&mut self, slot: Slot, load: &Load) -> Result<(), BootError> {
        self.clear(slot)?;
        let directory = self.place.slot(slot);
        files::create_dir_all(&directory)?;
        for (name, content, digest) in load.files(slot) {
            let path = directory.join(name);
            match content {
                Content::File(from) => files::copy(from, &path, Some(&digest))?,
                Content::Text(text) => files::write(&path, text.as_bytes())?,
            }
        }
        Ok(files::sync_dir(&self.place.gate())?)
    }

    fn verify(&mut self, slot: Slot, load: &Load) -> Result<(), BootError> {
        let directory = self.place.slot(slot);
        for (name, _content, expected) in load.files(slot) {
            let path = directory.join(name);
            let mut file = files::open(&path)?;
            forget(&file);
            let (found, _bytes) = files::hash_open(&mut file, &path)?;
            if found != expected {
                return Err(BootError::Damaged {
                    path,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    fn clear(&mut self, slot: Slot) -> Result<(), BootError> {
        Ok(files::remove_dir_all(&self.place.slot(slot))?)
    }

    fn checkpoint(&mut self) -> Result<(), BootError> {
        self.checkpoint_directory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::block::Generation;

    struct Node {
        _dir: tempfile::TempDir,
        place: Place,
        load: Load,
    }

    fn node() -> Node {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from(dir.path().to_str().unwrap());
        let (kernel, initrd) = (root.join("kernel"), root.join("initrd"));
        files::write(&kernel, &[7; 5000]).unwrap();
        files::write(&initrd, &[8; 3000]).unwrap();
        let load = Load::of(&kernel, &initrd, "root=/dev/vda1", "6.18.40").unwrap();
        Node {
            _dir: dir,
            place: Place::new(root),
            load,
        }
    }

    /// Fault 25.
    #[test]
    fn a_byte_that_changed_on_the_disk_is_noticed() {
        let node = node();
        let mut gate = Gate::lock(&node.place, "test").unwrap();
        gate.fill(Slot::B, &node.load).unwrap();
        gate.verify(Slot::B, &node.load).unwrap();
        for name in ["vmlinuz", "initrd.img", "entry.cfg", "release", plan::FILE] {
            let path = node.place.slot(Slot::B).join(name);
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"X", 1).unwrap();
            let error = gate.verify(Slot::B, &node.load).unwrap_err();
            assert!(
                matches!(&error, BootError::Damaged { path: found, .. } if *found == path),
                "{error}"
            );
            gate.fill(Slot::B, &node.load).unwrap();
        }
    }

    /// What is copied is what was looked at, or nothing.
    #[test]
    fn a_kernel_that_changes_meanwhile_is_refused() {
        let node = node();
        let mut gate = Gate::lock(&node.place, "test").unwrap();
        files::write(&node.load.kernel, b"another").unwrap();
        let error = gate.fill(Slot::B, &node.load).unwrap_err();
        assert!(matches!(error, BootError::File(_)), "{error}");
        assert!(!node.place.slot(Slot::B).join("vmlinuz").exists());
    }

    /// Fault 20: each way in which a state file stops being the one that GRUB was shown.
    #[test]
    fn only_the_file_that_was_made_is_written_to() {
        let node = node();
        let mut gate = Gate::lock(&node.place, "test").unwrap();
        let block = Block::stable(Generation(1), Slot::A);
        gate.make(&block).unwrap();
        let next = Block::stable(Generation(2), Slot::B);
        gate.write(&next).unwrap();
        assert_eq!(gate.read().unwrap(), Ok(next));
        assert_eq!(gate.mirror(), Some(Slot::B));
        for path in [node.place.state(), node.place.mirror()] {
            let bytes = std::fs::read(&path).unwrap();
            files::write(&path, &bytes).unwrap();
            let error = gate.write(&block).unwrap_err();
            assert!(matches!(error, BootError::Moved { .. }), "{error}");
            assert_eq!(gate.read().unwrap(), Ok(next));
            gate.make(&next).unwrap();
        }
        let longer = [&next.bytes()[..], b"#"].concat();
        files::write(&node.place.state(), &longer).unwrap();
        assert!(matches!(
            check_moorings(&node.place),
            Err(BootError::Moved { .. })
        ));
        files::write(&node.place.moorings(), b"{}").unwrap();
        assert!(check_moorings(&node.place).is_err());
    }
}
