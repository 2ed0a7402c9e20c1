//! Three calls of the kernel that no library wraps: where a file's bytes lie on its disk, and
//! stopping a file system for a moment, so that all it holds is where GRUB looks for it.

use std::fs::File;
use std::io;

use rustix::ioctl::{NoArg, Opcode, Updater, ioctl, opcode};

const FREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
const THAW: Opcode = opcode::read_write::<i32>(b'X', 120);
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

/// Writes everything of the file system that holds `directory` to its place, journal included, by
/// stopping it for a moment.
///
/// The thaw follows whatever happens in between, and nothing does. Where the file system cannot be
/// frozen it is synced, and `false` says so.
pub(super) fn checkpoint(directory: &File) -> io::Result<bool> {
    rustix::fs::syncfs(directory)?;
    #[expect(unsafe_code, reason = "FIFREEZE is wrapped by no library")]
    // SAFETY: neither call takes an argument.
    let frozen = unsafe { ioctl(directory, NoArg::<FREEZE>::new()) };
    match frozen {
        Ok(()) => {
            #[expect(unsafe_code, reason = "FITHAW is wrapped by no library")]
            // SAFETY: neither call takes an argument.
            unsafe {
                ioctl(directory, NoArg::<THAW>::new())?;
            }
            Ok(true)
        }
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
