//! What an `.xz` file says of itself at its end: how many blocks, and how many bytes come out.
//!
//! Only a hint: nothing of it is verified, and the decoder checks it against what really comes out.
//! It is parsed without the decompressor, from the .xz file format's description, sections 2.1.2
//! (stream footer) and 4 (index).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes of the stream footer.
const FOOTER: usize = 12;

/// Largest index that is read, in bytes: that of a file with 24 MiB blocks has some hundred.
const MAX_INDEX: u64 = 1 << 20;

/// What the end of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) struct Layout {
    /// How many blocks there are: files of one block cannot be decoded in parallel.
    pub(in crate::source) blocks: u64,
    /// Bytes that come out.
    pub(in crate::source) bytes: u64,
}

/// Reads the end of `file`. `None` where it does not look like the end of an `.xz` file.
pub(in crate::source) fn read(file: &File) -> io::Result<Option<Layout>> {
    let size = file.metadata()?.len();
    let Some(footer_at) = size.checked_sub(FOOTER as u64) else {
        return Ok(None);
    };
    let mut footer = [0; FOOTER];
    file.read_exact_at(&mut footer, footer_at)?;
    if footer[10..] != *b"YZ" {
        return Ok(None);
    }
    let stored = u32::from_le_bytes([footer[4], footer[5], footer[6], footer[7]]);
    let index_size = (u64::from(stored) + 1) * 4;
    let Some(index_at) = footer_at.checked_sub(index_size) else {
        return Ok(None);
    };
    if index_size > MAX_INDEX {
        return Ok(None);
    }
    let mut index = vec![0; usize::try_from(index_size).unwrap_or(0)];
    file.read_exact_at(&mut index, index_at)?;
    Ok(parse(&index))
}

/// Parses an index: a zero, the number of records, and for each its two sizes.
fn parse(index: &[u8]) -> Option<Layout> {
    let mut rest = index.strip_prefix(&[0])?;
    let blocks = number(&mut rest)?;
    let mut bytes: u64 = 0;
    for _ in 0..blocks {
        let _compressed = number(&mut rest)?;
        bytes = bytes.checked_add(number(&mut rest)?)?;
    }
    Some(Layout { blocks, bytes })
}

/// A number of one to nine bytes, seven bits each, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (shift * 7);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::source::test_xz;

    fn layout(bytes: &[u8]) -> Option<Layout> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read(&file).unwrap()
    }

    #[test]
    fn one_block_and_many() {
        let data = vec![7; 300_000];
        let one = layout(&test_xz::one_block(&data)).unwrap();
        assert_eq!((one.blocks, one.bytes), (1, 300_000));
        let many = layout(&test_xz::blocks(&data, 100_000)).unwrap();
        assert_eq!((many.blocks, many.bytes), (3, 300_000));
    }

    #[test]
    fn ends_that_are_no_end() {
        let whole = test_xz::one_block(b"x");
        assert_eq!(layout(b""), None);
        assert_eq!(layout(&whole[..whole.len() - 12]), None);
        assert_eq!(layout(&whole[whole.len() - 12..]), None);
        // A count that claims more records than there are bytes ends where the bytes end.
        assert_eq!(parse(&[0, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _layout = parse(&bytes);
            let mut file = bytes;
            file.extend([0; 4]);
            file.extend([2, 0, 0, 0, 0, 4, b'Y', b'Z']);
            let _layout = layout(&file);
        }
    }
}
