//! Decompressing what nobody has verified yet.
//!
//! kernel.org signs the *uncompressed* tar, so the decompressor is the one program that has to work
//! on bytes that anyone could have made. It runs in a sandbox ([`decompress_in_sandbox`]), as a
//! user who may nothing, with caps on memory, on output and on the ratio of the two. Exactly one
//! stream is accepted, and the input must end with it: padding, a second stream and junk are
//! errors, since another decoder would read them differently.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::{Deserialize, Serialize};
use xz2::stream::{Action, Error as LzmaError, MtStreamBuilder, Status, Stream};

pub use super::decompress::{DecompressError, decompress_in_sandbox};
use crate::digest::{Hasher, Sha256};
use crate::interrupt;

/// How much is read, decoded and written at a time.
const CHUNK: usize = 1 << 20;

/// The ratio is judged only above this output: small honest files can be all zeros.
const RATIO_FROM: u64 = 64 << 20;

/// The first bytes of every `.xz` file.
const MAGIC: &[u8] = b"\xfd7zXZ\0";

/// The last bytes of every `.xz` file.
const FOOTER_MAGIC: [u8; 2] = *b"YZ";

/// What a file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Most output, in bytes.
    pub bytes: u64,
    /// Most output for each byte of input.
    pub ratio: u64,
    /// Most memory that the decoder may take, in bytes.
    pub memory: u64,
    /// Threads for files of several blocks.
    pub threads: u32,
}

impl Limits {
    /// For a kernel's source: 6.12 has 1.5 GiB and compresses to a tenth. The decoder's memory
    /// keeps the whole process below 200 MB; the largest preset of `xz` needs 65 MiB of it.
    pub fn kernel() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            bytes: 8 << 30,
            ratio: 60,
            memory: 144 << 20,
            threads: u32::try_from(cores.min(8)).unwrap_or(1),
        }
    }
}

/// What a decompressed file amounts to, as its decompressor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decompressed {
    /// Bytes read.
    pub compressed: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Digest of what was written.
    pub sha256: Sha256,
}

/// Why a file is not exactly one good `.xz` stream within its limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum XzError {
    /// Something else.
    #[error("it is no .xz file: it begins with `{start}`")]
    NotXz {
        /// Its first bytes, escaped.
        start: String,
    },
    /// The end is missing.
    #[error("it is cut off after {read} bytes")]
    Truncated {
        /// How many bytes there are.
        read: u64,
    },
    /// Bits are wrong.
    #[error("it is damaged near byte {near}: {what}")]
    Damaged {
        /// How many bytes were read by then.
        near: u64,
        /// The decoder's words.
        what: String,
    },
    /// Zeros after the stream.
    #[error("the stream ends at byte {at}, and padding follows")]
    Padding {
        /// Where the stream ends.
        at: u64,
    },
    /// Another stream after the stream.
    #[error("the stream ends at byte {at}, and a second stream follows")]
    SecondStream {
        /// Where the stream ends.
        at: u64,
    },
    /// Anything else after the stream.
    #[error("the stream ends at byte {at}, and other bytes follow")]
    Junk {
        /// Where the stream ends.
        at: u64,
    },
    /// More output than it may have.
    #[error("it holds more than {limit} bytes")]
    TooLarge {
        /// The cap.
        limit: u64,
    },
    /// More output for each byte of input than an honest file has.
    #[error("it grows more than {limit}-fold: {bytes} bytes came out of {read}")]
    Ratio {
        /// The cap.
        limit: u64,
        /// Output so far.
        bytes: u64,
        /// Input so far.
        read: u64,
    },
    /// More memory than it may have.
    #[error("it needs more than {limit} bytes of memory to decode")]
    Memory {
        /// The cap.
        limit: u64,
    },
    /// The disk is full.
    #[error("no space is left after {written} bytes")]
    NoSpace {
        /// How much was written.
        written: u64,
    },
    /// The input could not be read, or the output not be written.
    #[error("failed to {action}: {reason}")]
    Io {
        /// What was tried.
        action: String,
        /// The system's answer.
        reason: String,
    },
    /// A signal arrived.
    #[error("decompressing was stopped")]
    Stopped,
}

/// Decompresses the one stream in `input` to `output`, from its present position on.
///
/// Decoding and hashing with writing go on two threads; a file of several blocks is decoded on
/// `limits.threads` more.
pub fn decompress(
    input: &mut impl Read,
    output: &mut File,
    limits: &Limits,
) -> Result<Decompressed, XzError> {
    let (sink, source) = sync_channel(4);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || write_all(&source, output));
        let decoded = Decoder::new(input, limits).and_then(|decoder| decoder.run(&sink));
        drop(sink);
        let written = writing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Where the writer failed, that is the cause; the decoder only noticed.
        let (bytes, sha256) = written?;
        let compressed = decoded?;
        Ok(Decompressed {
            compressed,
            bytes,
            sha256,
        })
    })
}

fn write_all(source: &Receiver<Vec<u8>>, output: &mut File) -> Result<(u64, Sha256), XzError> {
    let mut hasher = Hasher::new();
    let mut written = 0;
    for chunk in source {
        output.write_all(&chunk).map_err(|error| {
            if error.kind() == io::ErrorKind::StorageFull {
                XzError::NoSpace { written }
            } else {
                io_error("write the output", &error)
            }
        })?;
        hasher.update(&chunk);
        written += chunk.len() as u64;
    }
    Ok((written, hasher.finish()))
}

fn io_error(action: &str, error: &io::Error) -> XzError {
    XzError::Io {
        action: action.to_owned(),
        reason: error.to_string(),
    }
}

struct Decoder<'a, R> {
    input: &'a mut R,
    limits: &'a Limits,
    stream: Stream,
    buffer: Vec<u8>,
    /// What of the buffer is filled, and what of that the decoder has not taken yet.
    unread: std::ops::Range<usize>,
    /// Bytes read from the input.
    read: u64,
    /// The last two bytes that were read.
    last: [u8; 2],
    at_end: bool,
}

impl<'a, R: Read> Decoder<'a, R> {
    fn new(input: &'a mut R, limits: &'a Limits) -> Result<Self, XzError> {
        // One thread decodes a file of one block, however many are allowed. Without `memlimit_stop`
        // the library's default applies, which is too small for a kernel.
        let stream = MtStreamBuilder::new()
            .threads(limits.threads.max(1))
            .memlimit_threading(limits.memory)
            .memlimit_stop(limits.memory)
            .timeout_ms(0)
            .decoder()
            .map_err(|error| XzError::Io {
                action: "start the decoder".to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Self {
            input,
            limits,
            stream,
            buffer: vec![0; CHUNK],
            unread: 0..0,
            read: 0,
            last: [0; 2],
            at_end: false,
        })
    }

    /// Decodes to the end of the stream, then requires the end of the input. Returns how many bytes
    /// were read.
    fn run(mut self, sink: &SyncSender<Vec<u8>>) -> Result<u64, XzError> {
        self.fill()?;
        if !self.buffer[self.unread.clone()].starts_with(MAGIC) {
            return Err(self.foreign());
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            if self.unread.is_empty() && !self.at_end {
                self.fill()?;
            }
            let action = if self.at_end {
                Action::Finish
            } else {
                Action::Run
            };
            let (before_in, before_out) = (self.stream.total_in(), self.stream.total_out());
            let status =
                self.stream
                    .process_vec(&self.buffer[self.unread.clone()], &mut chunk, action);
            let taken = usize::try_from(self.stream.total_in() - before_in)
                .expect("the decoder takes no more than the buffer holds");
            self.unread.start += taken;
            let ended = match status {
                Ok(Status::StreamEnd) => true,
                // No progress without more input than there is.
                Ok(Status::MemNeeded) if self.at_end => return Err(self.cut_off()),
                Ok(_) => {
                    let is_stuck = taken == 0 && self.stream.total_out() == before_out;
                    if is_stuck && self.at_end && self.unread.is_empty() {
                        return Err(self.cut_off());
                    }
                    false
                }
                Err(error) => return Err(self.failed(error)),
            };
            self.check_growth()?;
            if ended || chunk.len() == chunk.capacity() {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK));
                if sink.send(full).is_err() {
                    // The writer stopped, and says why.
                    return Err(XzError::Stopped);
                }
            }
            if ended {
                self.require_end()?;
                return Ok(self.read);
            }
        }
    }

    /// Reads until the buffer is full or the input ends.
    fn fill(&mut self) -> Result<(), XzError> {
        interrupt::check().map_err(|_| XzError::Stopped)?;
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("read the input", &error)),
            }
        }
        for byte in &self.buffer[filled.saturating_sub(2)..filled] {
            self.last = [self.last[1], *byte];
        }
        self.read += filled as u64;
        self.unread = 0..filled;
        Ok(())
    }

    fn check_growth(&self) -> Result<(), XzError> {
        let bytes = self.stream.total_out();
        if bytes > self.limits.bytes {
            return Err(XzError::TooLarge {
                limit: self.limits.bytes,
            });
        }
        if bytes > RATIO_FROM && bytes / self.limits.ratio.max(1) > self.read {
            return Err(XzError::Ratio {
                limit: self.limits.ratio,
                bytes,
                read: self.read,
            });
        }
        Ok(())
    }

    fn foreign(&self) -> XzError {
        let head = &self.buffer[self.unread.clone()];
        if !head.is_empty() && MAGIC.starts_with(head) {
            return self.cut_off();
        }
        XzError::NotXz {
            start: head[..head.len().min(16)].escape_ascii().to_string(),
        }
    }

    fn cut_off(&self) -> XzError {
        XzError::Truncated { read: self.read }
    }

    fn failed(&self, error: LzmaError) -> XzError {
        let is_short = self.at_end && self.last != FOOTER_MAGIC;
        let what = match error {
            LzmaError::MemLimit | LzmaError::Mem => {
                return XzError::Memory {
                    limit: self.limits.memory,
                };
            }
            // With its end missing, what is there is sound; the decoder reports both alike.
            LzmaError::Data | LzmaError::Format if is_short => return self.cut_off(),
            LzmaError::Data | LzmaError::Format => "its checks fail",
            LzmaError::Options | LzmaError::UnsupportedCheck | LzmaError::NoCheck => {
                "it uses something that this decoder does not know"
            }
            LzmaError::Program => "the decoder refuses it",
        };
        XzError::Damaged {
            near: self.read,
            what: what.to_owned(),
        }
    }

    /// The stream has ended: so must the input.
    fn require_end(&mut self) -> Result<(), XzError> {
        let at = self.stream.total_in();
        let mut after = self.buffer[self.unread.clone()].to_vec();
        while after.len() < MAGIC.len() && !self.at_end {
            self.fill()?;
            after.extend_from_slice(&self.buffer[self.unread.clone()]);
        }
        if after.is_empty() {
            Ok(())
        } else if after.iter().take(4).all(|byte| *byte == 0) {
            Err(XzError::Padding { at })
        } else if after.starts_with(MAGIC) {
            Err(XzError::SecondStream { at })
        } else {
            Err(XzError::Junk { at })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use proptest::prelude::*;

    use super::*;
    use crate::source::test_xz;

    const LIMITS: Limits = Limits {
        bytes: 300 << 20,
        ratio: 60,
        memory: 64 << 20,
        threads: 2,
    };

    /// What comes out of `bytes`, and what is reported of it.
    fn decoded(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, XzError> {
        let mut output = tempfile::tempfile().unwrap();
        let report = decompress(&mut &bytes[..], &mut output, limits)?;
        output.rewind().unwrap();
        let mut out = Vec::new();
        output.read_to_end(&mut out).unwrap();
        assert_eq!(report.bytes, out.len() as u64);
        assert_eq!(report.compressed, bytes.len() as u64);
        assert_eq!(report.sha256, Sha256::of(&out));
        Ok(out)
    }

    fn error(bytes: &[u8]) -> XzError {
        decoded(bytes, &LIMITS).unwrap_err()
    }

    /// Bytes that do not compress well: a linear congruential sequence.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn one_block_and_many() {
        let data = noise(3_000_000);
        assert_eq!(decoded(&test_xz::one_block(&data), &LIMITS).unwrap(), data);
        let many = test_xz::blocks(&data, 300_000);
        assert_eq!(decoded(&many, &LIMITS).unwrap(), data);
        assert_eq!(decoded(&test_xz::one_block(b""), &LIMITS).unwrap(), b"");
    }

    #[test]
    fn the_input_must_end_with_its_one_stream() {
        for data in [noise(100), noise(2_500_000)] {
            for whole in [test_xz::one_block(&data), test_xz::blocks(&data, 400_000)] {
                let at = whole.len() as u64;
                let with = |tail: &[u8]| error(&[&whole[..], tail].concat());
                assert_eq!(with(&[0; 4]), XzError::Padding { at });
                assert_eq!(with(&[0]), XzError::Padding { at });
                assert_eq!(with(&whole), XzError::SecondStream { at });
                assert_eq!(with(b"x"), XzError::Junk { at });
                assert_eq!(with(&noise(3_000_000)), XzError::Junk { at });
            }
        }
    }

    #[test]
    fn what_is_missing_at_the_end_is_missed() {
        let data = noise(2_500_000);
        for whole in [test_xz::one_block(&data), test_xz::blocks(&data, 400_000)] {
            for cut in [
                1,
                2,
                12,
                30,
                1000,
                whole.len() / 2,
                whole.len() - 7,
                whole.len() - 3,
            ] {
                let read = (whole.len() - cut) as u64;
                assert_eq!(
                    error(&whole[..whole.len() - cut]),
                    XzError::Truncated { read },
                    "{cut} bytes less"
                );
            }
        }
        assert!(matches!(error(b""), XzError::NotXz { .. }));
    }

    #[test]
    fn wrong_bits_are_damage() {
        let data = noise(500_000);
        for whole in [test_xz::one_block(&data), test_xz::blocks(&data, 100_000)] {
            for at in [8, 20, whole.len() / 2, whole.len() - 30, whole.len() - 9] {
                let mut flipped = whole.clone();
                flipped[at] ^= 0x10;
                let found = error(&flipped);
                assert!(matches!(found, XzError::Damaged { .. }), "{at}: {found}");
            }
        }
        assert_eq!(
            error(b"<html>404</html>").to_string(),
            "it is no .xz file: it begins with `<html>404</html>`"
        );
    }

    #[test]
    fn output_is_capped_in_size_and_in_ratio() {
        let zeros = vec![0; 70 << 20];
        let bomb = test_xz::one_block(&zeros);
        assert!(matches!(error(&bomb), XzError::Ratio { limit: 60, .. }));
        let wide = Limits {
            ratio: 100_000,
            ..LIMITS
        };
        assert_eq!(decoded(&bomb, &wide).unwrap().len(), zeros.len());
        let small = Limits {
            bytes: 1000,
            ..LIMITS
        };
        let exact = test_xz::one_block(&noise(1000));
        assert_eq!(decoded(&exact, &small).unwrap().len(), 1000);
        let over = test_xz::one_block(&noise(1001));
        assert_eq!(
            decoded(&over, &small),
            Err(XzError::TooLarge { limit: 1000 })
        );
    }

    #[test]
    fn memory_is_capped() {
        let greedy = test_xz::with_dictionary(b"data", 256 << 20);
        assert_eq!(error(&greedy), XzError::Memory { limit: 64 << 20 });
        // A block too large to be decoded beside others within the limit is decoded alone.
        let data = noise(5 << 20);
        let tight = Limits {
            memory: 1 << 20,
            ..LIMITS
        };
        let large_blocks = test_xz::blocks(&data, 2 << 20);
        assert_eq!(decoded(&large_blocks, &tight).unwrap(), data);
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let Ok(mut full) = File::options().write(true).open("/dev/full") else {
            return;
        };
        let whole = test_xz::one_block(&noise(3_000_000));
        let found = decompress(&mut &whole[..], &mut full, &LIMITS).unwrap_err();
        assert_eq!(found, XzError::NoSpace { written: 0 });
    }

    #[test]
    fn a_reader_that_fails_late_is_an_error() {
        struct FailsAtEnd(Vec<u8>);
        impl Read for FailsAtEnd {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() {
                    return Err(io::Error::other("late"));
                }
                let count = self.0.len().min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0.drain(..count);
                Ok(count)
            }
        }
        for size in [0, 1000, 4096, 1 << 20] {
            let mut input = FailsAtEnd(test_xz::one_block(&noise(size)));
            let mut output = tempfile::tempfile().unwrap();
            let found = decompress(&mut input, &mut output, &LIMITS).unwrap_err();
            assert!(matches!(found, XzError::Io { .. }), "{size}: {found}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            is_magic in any::<bool>(),
        ) {
            if is_magic {
                bytes.splice(0..0, MAGIC.iter().copied());
            }
            let mut output = tempfile::tempfile().unwrap();
            let found = decompress(&mut &bytes[..], &mut output, &LIMITS);
            prop_assert!(found.is_err());
        }

        #[test]
        fn no_change_is_taken_for_another_text(at in 0..100_usize, bit in 0..8_u32) {
            let data = noise(200);
            let whole = test_xz::one_block(&data);
            let mut changed = whole.clone();
            let at = at * whole.len() / 100;
            changed[at] ^= 1 << bit;
            if let Ok(out) = decoded(&changed, &LIMITS) {
                prop_assert_eq!(out, data);
            }
        }
    }
}
