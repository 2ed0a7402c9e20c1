//! The state block: the 1024 bytes that GRUB reads at every boot, and counts attempts in.
//!
//! It is an environment block of GRUB's (`grub-editenv(1)`) with eight variables in a fixed order,
//! all within its first 512 bytes: one sector, which a disk writes whole or not at all. GRUB changes
//! one byte of it, the digit of `g_left`, and only downwards; everything else is written by kiln. So
//! the checksum covers all but that digit, and GRUB, which cannot compute it, compares `g_gen` at
//! the front with `g_end` at the back instead.
//!
//! Reading is strict: a block is what [`Block::bytes`] would write, to the byte, or it is
//! [`Unsure`].

use std::fmt;
use std::str::FromStr;

/// Bytes of the block: what `grub-editenv create` makes, and what fits one page of any disk.
pub const SIZE: usize = 1024;

/// How often a trial may be started.
pub const ATTEMPTS: u8 = 2;

/// What every environment block of GRUB's starts with.
const HEAD: &str = "# GRUB Environment Block\n";

/// The format that is written and read.
const FORMAT: &str = "1";

/// One of the two places that hold a kernel with its initrd and its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Its letter, which is also the name of its directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Reads its letter.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|slot| slot.as_str() == letter)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one trial is told from another by. Each arming takes a new one, so that what an older trial
/// still tries to say is not taken for the newer one's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Generation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let known = u64::from_str_radix(text, 16).map(Self).map_err(drop)?;
        // One spelling only: GRUB compares it as text.
        if known.to_string() == text {
            Ok(known)
        } else {
            Err(())
        }
    }
}

/// How the last trial ended. Anything but `None` is waiting for its record to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// There was none, or its record is written.
    None,
    /// The trial became the good kernel.
    Committed,
    /// The gate found it unhealthy, or a person turned it down.
    Rejected,
    /// All attempts were used up without a verdict: it died, hung or was cut off.
    Exhausted,
    /// GRUB could not load it.
    LoadFailed,
    /// GRUB could not count, and so did not try.
    NoWrite,
    /// It ran once, as was asked, and was healthy.
    Tried,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Committed,
        Self::Rejected,
        Self::Exhausted,
        Self::LoadFailed,
        Self::NoWrite,
        Self::Tried,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Committed => "committed",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::LoadFailed => "load-failed",
            Self::NoWrite => "nowrite",
            Self::Tried => "tried",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A kernel on trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trial {
    /// Attempts that are left, at most [`ATTEMPTS`].
    pub left: u8,
}

/// What the block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Of the last arming.
    pub generation: Generation,
    /// The slot that is known to come up.
    pub good: Slot,
    /// Whether the other slot is on trial.
    pub trial: Option<Trial>,
    /// How the last trial ended.
    pub last: Outcome,
    /// Whether GRUB is to count down once for nothing at the next boot, to show that it can. Only
    /// where there is no trial.
    pub rehearsal: bool,
}

/// Why bytes are not a state block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsure {
    /// Another number of bytes.
    #[error("it has {found} bytes, expected {SIZE}")]
    Size {
        /// How many.
        found: usize,
    },
    /// Not an environment block of GRUB's.
    #[error("it does not start with `# GRUB Environment Block`")]
    Head,
    /// Written by another kiln.
    #[error("it has format `{found}`; this kiln reads format {FORMAT}")]
    Format {
        /// The value of `g_v`.
        found: String,
    },
    /// A variable is missing, out of order, or has a value that it never has.
    #[error("`{name}` is missing, out of place or has no value that it may have")]
    Variable {
        /// Its name.
        name: &'static str,
    },
    /// Front and back are of different writes.
    #[error("it is torn: it begins with generation {front} and ends with {back}")]
    Torn {
        /// At the front.
        front: String,
        /// At the back.
        back: String,
    },
    /// Changed by something that does not know the checksum.
    #[error("its checksum is {found}, expected {expected}: something else wrote to it")]
    Checksum {
        /// What is written.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Something other than `#` behind the variables.
    #[error("there is something behind its last variable")]
    Tail,
}

impl Block {
    /// A node without a trial.
    pub const fn stable(generation: Generation, good: Slot) -> Self {
        Self {
            generation,
            good,
            trial: None,
            last: Outcome::None,
            rehearsal: false,
        }
    }

    /// The slot that is not the good one: where a trial is, or would be.
    pub const fn other(&self) -> Slot {
        self.good.other()
    }

    /// The bytes on disk.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut bytes = [b'#'; SIZE];
        let text = self.text();
        // At most 152 bytes: every value has a greatest length.
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    fn text(&self) -> String {
        let Self {
            generation,
            good,
            trial,
            last,
            rehearsal,
        } = self;
        let (on_trial, checksum) = (self.on_trial(), self.checksum());
        let left = trial.map_or(u8::from(*rehearsal), |trial| trial.left);
        format!(
            "{HEAD}g_v={FORMAT}\ng_gen={generation}\ng_good={good}\ng_trial={on_trial}\n\
             g_left={left}\ng_last={last}\ng_crc={checksum}\ng_end={generation}\n"
        )
    }

    fn on_trial(&self) -> &'static str {
        self.trial.map_or("none", |_| self.good.other().as_str())
    }

    /// Over all but the digit that GRUB changes.
    fn checksum(&self) -> String {
        let Self {
            generation,
            good,
            last,
            ..
        } = self;
        let covered = format!("{FORMAT} {generation} {good} {} {last}", self.on_trial());
        format!("{:08x}", crc32(covered.as_bytes()))
    }

    /// Reads the bytes of the state file.
    ///
    /// # Errors
    /// Where they are not, to the byte, what kiln wrote and GRUB may have counted in.
    pub fn parse(bytes: &[u8]) -> Result<Self, Unsure> {
        if bytes.len() != SIZE {
            return Err(Unsure::Size { found: bytes.len() });
        }
        let Some(rest) = bytes.strip_prefix(HEAD.as_bytes()) else {
            return Err(Unsure::Head);
        };
        let mut rest = rest;
        let format = take(&mut rest, "g_v")?;
        if format != FORMAT {
            let found = format.to_owned();
            return Err(Unsure::Format { found });
        }
        let front = take(&mut rest, "g_gen")?;
        let good = take(&mut rest, "g_good")?;
        let on_trial = take(&mut rest, "g_trial")?;
        let left = take(&mut rest, "g_left")?;
        let last = take(&mut rest, "g_last")?;
        let checksum = take(&mut rest, "g_crc")?;
        let back = take(&mut rest, "g_end")?;
        if front != back {
            let (front, back) = (front.to_owned(), back.to_owned());
            return Err(Unsure::Torn { front, back });
        }
        let wrong = |name| Unsure::Variable { name };
        let generation = front.parse().map_err(|()| wrong("g_gen"))?;
        let good = Slot::from_letter(good).ok_or(wrong("g_good"))?;
        let (trial, rehearsal) = match (on_trial, left) {
            ("none", "0") => (None, false),
            ("none", "1") => (None, true),
            ("none", _) => return Err(wrong("g_left")),
            (slot, left) if slot == good.other().as_str() => {
                let left = attempts(left).ok_or(wrong("g_left"))?;
                (Some(Trial { left }), false)
            }
            _ => return Err(wrong("g_trial")),
        };
        let last = Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == last)
            .ok_or(wrong("g_last"))?;
        let block = Self {
            generation,
            good,
            trial,
            last,
            rehearsal,
        };
        let expected = block.checksum();
        if checksum != expected {
            let found = checksum.to_owned();
            return Err(Unsure::Checksum { found, expected });
        }
        if rest.iter().all(|byte| *byte == b'#') {
            Ok(block)
        } else {
            Err(Unsure::Tail)
        }
    }
}

/// The value of the next variable, which must have this name.
fn take<'a>(rest: &mut &'a [u8], name: &'static str) -> Result<&'a str, Unsure> {
    let wrong = || Unsure::Variable { name };
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = rest.split_at(end.ok_or_else(wrong)?);
    let line = std::str::from_utf8(line).map_err(|_| wrong())?;
    let value = line.strip_prefix(name).and_then(|l| l.strip_prefix('='));
    *rest = after.get(1..).unwrap_or_default();
    value.ok_or_else(wrong)
}

/// A number of attempts that may be left.
pub(super) fn attempts(digit: &str) -> Option<u8> {
    match digit {
        "0" => Some(0),
        "1" => Some(1),
        "2" => Some(2),
        _ => None,
    }
}

/// The bytes of the mirror: which slot is good, for when the state block is lost. GRUB never writes
/// it.
pub fn mirror(good: Slot) -> [u8; SIZE] {
    let mut bytes = [b'#'; SIZE];
    let text = format!("{HEAD}g_good={good}\n");
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// Reads the mirror; `None` where it is not what [`mirror`] writes.
pub fn read_mirror(bytes: &[u8]) -> Option<Slot> {
    Slot::BOTH
        .into_iter()
        .find(|slot| bytes == mirror(*slot).as_slice())
}

/// CRC-32 as in gzip (RFC 1952, section 8).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1))
        })
    })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any block.
    pub(crate) fn any_block() -> impl Strategy<Value = Block> {
        (
            any::<u64>(),
            prop_oneof![Just(Slot::A), Just(Slot::B)],
            proptest::option::of((0..=ATTEMPTS).prop_map(|left| Trial { left })),
            proptest::sample::select(Outcome::ALL.to_vec()),
            any::<bool>(),
        )
            .prop_map(|(generation, good, trial, last, rehearsal)| Block {
                generation: Generation(generation),
                good,
                trial,
                last,
                rehearsal: rehearsal && trial.is_none(),
            })
    }

    fn armed() -> Block {
        Block {
            generation: Generation(0x1234),
            good: Slot::A,
            trial: Some(Trial { left: 2 }),
            last: Outcome::None,
            rehearsal: false,
        }
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn it_reads_as_grub_reads_it() {
        let bytes = armed().bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let text = text.trim_end_matches('#');
        assert!(text.len() < 512);
        assert_eq!(
            text,
            "# GRUB Environment Block\ng_v=1\ng_gen=0000000000001234\ng_good=a\ng_trial=b\n\
             g_left=2\ng_last=none\ng_crc=e42206c0\ng_end=0000000000001234\n"
        );
    }

    #[test]
    fn a_counted_attempt_is_one_byte() {
        let counted = Block {
            trial: Some(Trial { left: 1 }),
            ..armed()
        };
        let (before, after) = (armed().bytes(), counted.bytes());
        let changed = before.iter().zip(&after).filter(|(a, b)| a != b);
        assert_eq!(changed.count(), 1);
    }

    #[test]
    fn each_kind_of_damage_is_told_apart() {
        let good = armed().bytes().to_vec();
        let edited = |from: &str, to: &str| {
            let text = String::from_utf8(good.clone()).unwrap();
            assert!(text.contains(from));
            let mut bytes = text.replacen(from, to, 1).into_bytes();
            bytes.resize(SIZE, b'#');
            Block::parse(&bytes).unwrap_err()
        };
        assert_eq!(
            Block::parse(&good[..1000]).unwrap_err(),
            Unsure::Size { found: 1000 }
        );
        let longer = [&good[..], b"#"].concat();
        assert_eq!(
            Block::parse(&longer).unwrap_err(),
            Unsure::Size { found: 1025 }
        );
        assert_eq!(edited("# GRUB", "# grub"), Unsure::Head);
        assert!(matches!(edited("g_v=1", "g_v=2"), Unsure::Format { .. }));
        assert!(matches!(
            edited("g_gen=0000000000001234", "g_gen=0000000000001235"),
            Unsure::Torn { .. }
        ));
        let variable = |name| Unsure::Variable { name };
        assert_eq!(edited("g_left=2", "g_left=9"), variable("g_left"));
        assert_eq!(edited("g_left=2", "g_left="), variable("g_left"));
        assert_eq!(edited("g_left=2\n", ""), variable("g_left"));
        assert_eq!(edited("g_trial=b", "g_trial=a"), variable("g_trial"));
        assert_eq!(edited("g_trial=b", "g_trial=none"), variable("g_left"));
        assert_eq!(edited("g_good=a", "g_good=c"), variable("g_good"));
        assert_eq!(edited("g_last=none", "g_last=fine"), variable("g_last"));
        assert!(matches!(
            edited("g_last=none", "g_last=rejected"),
            Unsure::Checksum { .. }
        ));
        assert_eq!(edited("##", "#x"), Unsure::Tail);
    }

    proptest! {
        #[test]
        fn every_block_reads_back(block in any_block()) {
            prop_assert_eq!(Block::parse(&block.bytes()), Ok(block));
        }

        /// GRUB only ever writes the digit; any other changed byte is noticed.
        #[test]
        fn every_changed_byte_is_noticed(block in any_block(), at in 0..SIZE, to in any::<u8>()) {
            let mut bytes = block.bytes();
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            match Block::parse(&bytes) {
                Err(_) => {}
                Ok(other) => {
                    let counted = |block: Block| Block { trial: None, ..block };
                    prop_assert_eq!(counted(other), counted(block));
                    prop_assert_ne!(other.trial, block.trial);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_block_or_a_reason(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(Block::parse(&bytes).is_err());
            prop_assert!(read_mirror(&bytes).is_none());
        }
    }

    #[test]
    fn the_mirror_reads_back() {
        for slot in Slot::BOTH {
            assert_eq!(read_mirror(&mirror(slot)), Some(slot));
        }
        assert_eq!(read_mirror(&mirror(Slot::A)[..1000]), None);
    }
}
