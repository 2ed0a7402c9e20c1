//! Reading once for two: a caller, and a thread that hashes the same bytes.
//!
//! What was hashed is then what was used, whatever happens to the file meanwhile; and with a second
//! core the digest costs no time.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::digest::{Hasher, Sha256};
use crate::interrupt::{self, Interrupted};

/// How much is read, hashed and reported at a time.
const CHUNK: usize = 1 << 20;

/// Why the source could not be read to its end.
#[derive(Debug)]
pub(in crate::source) enum Failed {
    /// The system's answer.
    Io(io::Error),
    /// A signal arrived.
    Interrupted(Interrupted),
}

/// Lets `work` read `source`, and hashes all that was read on a thread beside it. `watch` is told
/// how many bytes were read so far. Returns what `work` returned, and the digest and number of the
/// bytes read, or why reading failed: reading errors are kept here, because a reader in between may
/// swallow them.
pub(in crate::source) fn hash_beside<R: Read, T>(
    source: R,
    watch: &(dyn Fn(u64) + Sync),
    work: impl FnOnce(&mut Tee<'_, R>) -> T,
) -> (T, Result<(Sha256, u64), Failed>) {
    let (sink, chunks) = sync_channel(4);
    let mut tee = Tee {
        source,
        read: 0,
        chunk: Arc::default(),
        taken: 0,
        sink,
        failed: None,
        watch,
    };
    std::thread::scope(|scope| {
        let hashing = scope.spawn(move || hash_all(&chunks));
        let result = work(&mut tee);
        let Tee {
            read, sink, failed, ..
        } = tee;
        drop(sink);
        let sha256 = hashing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let seen = match failed {
            None => Ok((sha256, read)),
            Some(failed) => Err(failed),
        };
        (result, seen)
    })
}

type Chunk = Arc<Vec<u8>>;

fn hash_all(chunks: &Receiver<Chunk>) -> Sha256 {
    let mut hasher = Hasher::new();
    for chunk in chunks {
        hasher.update(&chunk);
    }
    hasher.finish()
}

/// The reader that `work` gets.
pub(in crate::source) struct Tee<'a, R> {
    source: R,
    read: u64,
    chunk: Chunk,
    /// How much of the chunk the caller has had.
    taken: usize,
    sink: SyncSender<Chunk>,
    failed: Option<Failed>,
    watch: &'a (dyn Fn(u64) + Sync),
}

impl<R: Read> Tee<'_, R> {
    fn next_chunk(&mut self) -> Result<(), Failed> {
        interrupt::check().map_err(Failed::Interrupted)?;
        let mut chunk = vec![0; CHUNK];
        let mut filled = 0;
        while filled < CHUNK {
            match self.source.read(&mut chunk[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failed::Io(error)),
            }
        }
        chunk.truncate(filled);
        self.chunk = Arc::new(chunk);
        self.taken = 0;
        self.read += filled as u64;
        if filled > 0 && self.sink.send(Arc::clone(&self.chunk)).is_err() {
            return Err(Failed::Io(io::Error::other("the hashing thread ended")));
        }
        (self.watch)(self.read);
        Ok(())
    }
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(io::Error::other("reading failed before"));
        }
        if self.taken == self.chunk.len()
            && let Err(failed) = self.next_chunk()
        {
            self.failed = Some(failed);
            return Err(io::Error::other("reading failed"));
        }
        let rest = &self.chunk[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives some bytes, then an error.
    struct FailsAtEnd(usize);

    impl Read for FailsAtEnd {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("late"));
            }
            let count = self.0.min(buffer.len());
            buffer[..count].fill(1);
            self.0 -= count;
            Ok(count)
        }
    }

    #[test]
    fn both_see_the_same_bytes() {
        for size in [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 7] {
            let data = vec![3; size];
            let (out, seen) = hash_beside(&data[..], &|_| {}, |source| {
                let mut out = Vec::new();
                source.read_to_end(&mut out).unwrap();
                out
            });
            assert_eq!(out, data);
            assert_eq!(seen.unwrap(), (Sha256::of(&data), size as u64));
        }
    }

    #[test]
    fn a_late_error_is_kept_even_where_the_reader_swallows_it() {
        for size in [0, 1000, CHUNK, CHUNK + 1] {
            let (count, seen) = hash_beside(FailsAtEnd(size), &|_| {}, |source| {
                let mut buffer = [0; 4096];
                let mut count = 0;
                while let Ok(more @ 1..) = source.read(&mut buffer) {
                    count += more;
                }
                count
            });
            assert!(count <= size);
            assert!(matches!(seen, Err(Failed::Io(_))), "{size}");
        }
    }
}
