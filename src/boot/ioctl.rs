//! Two calls of the kernel that no library wraps: where a file's bytes lie on its disk, and writing
//! a journal back, so that all a file system holds is where GRUB looks for it.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};

const CHECKPOINT: Opcode = opcode::write::<u32>(b'f', 43);
const EXTENTS: Opcode = opcode::read_write::<ExtentsHead>(b'f', 11);

/// `struct fiemap` of `linux/fiemap.h` without its array.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ExtentsHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Extents {
    head: ExtentsHead,
    first: [RawExtent; 2],
}

/// Unknown, delayed, encoded, unaligned, inline, tail-packed or unwritten: not one run of blocks that
/// GRUB could write to.
const ODD: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800;

/// Where the bytes of a small file lie on its disk, when they are one run of ordinary blocks.
pub(super) fn physical(file: &File) -> io::Result<Option<u64>> {
    let mut extents = Extents::default();
    extents.head.length = u64::MAX;
    // FIEMAP_FLAG_SYNC: first write what is only in memory.
    extents.head.flags = 1;
    extents.head.count = 2;
    #[expect(unsafe_code, reason = "FIEMAP is wrapped by no library")]
    // SAFETY: the kernel writes at most `count` extents behind the head, and there is room for them.
    unsafe {
        ioctl(file, Updater::<EXTENTS, Extents>::new(&mut extents))?;
    }
    let first = extents.first[0];
    let is_plain = extents.head.mapped == 1 && first.logical == 0 && first.flags & ODD == 0;
    Ok(is_plain.then_some(first.physical))
}

/// Writes everything of the file system that holds `directory` to its place, and its journal back
/// (`EXT4_IOC_CHECKPOINT`, since Linux 5.14). A file system without a journal has nothing to write
/// back.
///
/// Freezing and thawing would do the same, but a process that is killed in between leaves the file
/// system frozen, for good.
pub(super) fn checkpoint(directory: &File) -> io::Result<()> {
    rustix::fs::syncfs(directory)?;
    #[expect(unsafe_code, reason = "EXT4_IOC_CHECKPOINT is wrapped by no library")]
    // SAFETY: the kernel reads 32 bits of flags, and nothing else.
    let written = unsafe { ioctl(directory, Setter::<CHECKPOINT, u32>::new(0)) };
    match written {
        // Not ext4, or no journal.
        Ok(()) | Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
