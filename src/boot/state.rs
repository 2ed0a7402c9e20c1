//! What a node may do next: a function of the state block and of what GRUB told the kernel.
//!
//! ```text
//! stable ──arm──> armed ──GRUB counts──> attempt ──commit──> stable, on the other slot
//!   ^              │                      │  └──reject──┐
//!   │            disarm                 death           v
//!   └──────────────┴──────settle─────── exhausted <─────┘
//! ```
//!
//! Nothing here writes: each step takes a block and gives the block that is to be written in its
//! place, or says why not.

use std::fmt;

use super::block::{ATTEMPTS, Block, Generation, Outcome, Slot, Trial, attempts};

/// What a kernel was started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The kernel that is known to come up.
    Good,
    /// A counted attempt of the other one.
    Trial,
    /// The other one, since the good one could not be loaded. It can never be committed.
    LastResort,
}

impl Role {
    const ALL: [Self; 3] = [Self::Good, Self::Trial, Self::LastResort];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Trial => "trial",
            Self::LastResort => "last-resort",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why GRUB chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// There is no trial, or a person chose the good kernel.
    Stable,
    /// An attempt was counted.
    Counted,
    /// No attempt is left.
    Exhausted,
    /// The attempt could not be counted, so it was not made.
    NoWrite,
    /// The trial could not be loaded.
    LoadFailed,
    /// The state block could not be trusted.
    BadEnv,
    /// The good kernel could not be loaded.
    GoodLoadFailed,
    /// Nothing was due, and a count for nothing was made.
    Rehearsed,
}

impl Why {
    const ALL: [Self; 8] = [
        Self::Stable,
        Self::Counted,
        Self::Exhausted,
        Self::NoWrite,
        Self::LoadFailed,
        Self::BadEnv,
        Self::GoodLoadFailed,
        Self::Rehearsed,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Counted => "counted",
            Self::Exhausted => "exhausted",
            Self::NoWrite => "nowrite",
            Self::LoadFailed => "load-failed",
            Self::BadEnv => "badenv",
            Self::GoodLoadFailed => "good-load-failed",
            Self::Rehearsed => "rehearsed",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What GRUB told the kernel on its command line: `gate.slot=b gate.role=trial ...`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Told {
    /// Where the kernel is from.
    pub slot: Slot,
    /// What it was started as.
    pub role: Role,
    /// Why.
    pub why: Why,
    /// Of the block that GRUB read; `None` where it could not be trusted.
    pub generation: Option<Generation>,
    /// Attempts left after this one. Means something in a trial only.
    pub left: u8,
}

/// Why a command line does not say what the kernel was started as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTold {
    /// None of the words: this kernel was not started from a slot.
    #[error("this kernel was not started by the boot gate's menu entries")]
    Absent,
    /// One of several words is missing.
    #[error("the kernel command line has `gate.` words, but no `{word}`")]
    Missing {
        /// The word.
        word: &'static str,
    },
    /// A word that stands twice says nothing.
    #[error("the kernel command line has `{word}` twice")]
    Twice {
        /// The word.
        word: &'static str,
    },
    /// A value that GRUB's text never gives.
    #[error("the kernel command line has `{word}={value}`, which the boot gate never writes")]
    Value {
        /// The word.
        word: &'static str,
        /// Its value.
        value: String,
    },
}

const WORDS: [&str; 5] = [
    "gate.slot",
    "gate.role",
    "gate.why",
    "gate.gen",
    "gate.left",
];

impl Told {
    /// Reads `/proc/cmdline`.
    ///
    /// # Errors
    /// Unless each of the five words stands there once, with a value that GRUB's text may give.
    pub fn read(command_line: &str) -> Result<Self, NotTold> {
        let words = words(command_line);
        let mut values = [""; 5];
        let mut found = 0;
        for (word, value) in WORDS.into_iter().zip(&mut values) {
            let mut given = words.iter().filter_map(|w| {
                let rest = w.strip_prefix(word)?;
                rest.strip_prefix('=')
            });
            if let Some(first) = given.next() {
                (*value, found) = (first, found + 1);
            }
            if given.next().is_some() {
                return Err(NotTold::Twice { word });
            }
        }
        if found == 0 {
            return Err(NotTold::Absent);
        }
        let missing = WORDS.into_iter().zip(values).find(|(_, v)| v.is_empty());
        if let Some((word, _)) = missing {
            return Err(NotTold::Missing { word });
        }
        let [slot, role, why, generation, left] = values;
        let wrong = |word, value: &str| NotTold::Value {
            word,
            value: value.to_owned(),
        };
        let known_role = Role::ALL.into_iter().find(|known| known.as_str() == role);
        let known_why = Why::ALL.into_iter().find(|known| known.as_str() == why);
        let known_generation = match generation {
            "bad" => None,
            text => Some(text.parse().map_err(|()| wrong("gate.gen", text))?),
        };
        Ok(Self {
            slot: Slot::from_letter(slot).ok_or_else(|| wrong("gate.slot", slot))?,
            role: known_role.ok_or_else(|| wrong("gate.role", role))?,
            why: known_why.ok_or_else(|| wrong("gate.why", why))?,
            generation: known_generation,
            left: attempts(left).ok_or_else(|| wrong("gate.left", left))?,
        })
    }

    /// Whether this kernel is the trial that the block is about.
    pub fn is_trial_of(&self, block: &Block) -> bool {
        self.role == Role::Trial
            && block.trial.is_some()
            && self.slot == block.other()
            && self.generation == Some(block.generation)
    }
}

/// Words of a command line; blanks within double quotes part none, as in the kernel's own reader.
fn words(command_line: &str) -> Vec<&str> {
    let mut quoted = false;
    command_line
        .split(|c: char| {
            quoted ^= c == '"';
            !quoted && c.is_ascii_whitespace()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

/// Why a step is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The running kernel is on trial.
    #[error("the running kernel is itself on trial, and there is no verdict yet")]
    Undecided,
    /// A trial is armed.
    #[error("slot {slot} is armed for a trial with {left} attempts left")]
    Armed {
        /// Where it is.
        slot: Slot,
        /// Attempts left.
        left: u8,
    },
    /// What the last trial came to has not been recorded yet.
    #[error("the last trial ended as `{last}`, and no record of that is written yet")]
    Unrecorded {
        /// How it ended.
        last: Outcome,
    },
    /// The other slot is what runs.
    #[error("the running kernel is from slot {slot}, which would be overwritten")]
    SlotInUse {
        /// The slot.
        slot: Slot,
    },
    /// A generation that was used before.
    #[error("generation {generation} was used before")]
    OldGeneration {
        /// The generation.
        generation: Generation,
    },
    /// Only a kernel on trial can be judged.
    #[error("the running kernel is not on trial: it was started as {role} ({why})")]
    NotOnTrial {
        /// What as.
        role: Role,
        /// Why.
        why: Why,
    },
    /// The block is about another trial.
    #[error(
        "the running kernel is not the trial that the state block is about: it was started as \
         generation {told}, the block has {found}"
    )]
    OtherTrial {
        /// What GRUB said.
        told: String,
        /// What the block says.
        found: Generation,
    },
    /// GRUB counted in another place than the block.
    #[error(
        "GRUB counted down to {told}, but the state block has {found}: they do not use the same \
         file, or the kernel was not started by GRUB"
    )]
    Uncounted {
        /// What GRUB said.
        told: u8,
        /// What the block says.
        found: u8,
    },
    /// The deadline has passed.
    #[error("the deadline for a verdict has passed")]
    TooLate,
}

/// Takes back an armed trial. Where none is armed, nothing changes.
///
/// # Errors
/// Refused in the trial itself, whose way out is the verdict.
pub fn disarm(block: &Block, told: Option<&Told>) -> Result<Block, Refused> {
    if told.is_some_and(|told| told.is_trial_of(block)) {
        return Err(Refused::Undecided);
    }
    Ok(Block {
        trial: None,
        rehearsal: false,
        ..*block
    })
}

/// Has GRUB count down once for nothing at the next boot.
///
/// # Errors
/// Refused while a trial is armed or runs, and while a record is due.
pub fn rehearse(
    block: &Block,
    told: Option<&Told>,
    generation: Generation,
) -> Result<Block, Refused> {
    disarm(block, told)?;
    if let Some(Trial { left }) = block.trial {
        let slot = block.other();
        return Err(Refused::Armed { slot, left });
    }
    if block.last != Outcome::None {
        return Err(Refused::Unrecorded { last: block.last });
    }
    Ok(Block {
        generation,
        rehearsal: true,
        ..*block
    })
}

/// Whether the other slot may be overwritten now, armed or not.
///
/// # Errors
/// Refused while a verdict or a record is due, and where that slot is what runs.
pub fn may_stage(block: &Block, told: Option<&Told>) -> Result<(), Refused> {
    disarm(block, told)?;
    if block.last != Outcome::None {
        return Err(Refused::Unrecorded { last: block.last });
    }
    match told {
        Some(told) if told.slot == block.other() => Err(Refused::SlotInUse { slot: told.slot }),
        _ => Ok(()),
    }
}

/// Puts the other slot on trial, with all attempts. Its files must be complete.
///
/// # Errors
/// Refused as by [`may_stage`], while a trial is armed, and for a generation that is not new.
pub fn arm(block: &Block, told: Option<&Told>, generation: Generation) -> Result<Block, Refused> {
    may_stage(block, told)?;
    if let Some(Trial { left }) = block.trial {
        let slot = block.other();
        return Err(Refused::Armed { slot, left });
    }
    if generation == block.generation {
        return Err(Refused::OldGeneration { generation });
    }
    Ok(Block {
        generation,
        trial: Some(Trial { left: ATTEMPTS }),
        rehearsal: false,
        ..*block
    })
}

/// Makes the running trial the good kernel. `in_time`: whether the deadline has not passed.
///
/// What GRUB said of the attempts must be what the block says now: only then did both use one file,
/// and the count is known to be on the disk.
///
/// # Errors
/// Refused for anything but the trial that the block is about, counted in it, in time.
pub fn commit(block: &Block, told: &Told, in_time: bool) -> Result<Block, Refused> {
    let found = own_trial(block, told)?.left;
    if told.left != found {
        let told = told.left;
        return Err(Refused::Uncounted { told, found });
    }
    if !in_time {
        return Err(Refused::TooLate);
    }
    Ok(Block {
        good: told.slot,
        trial: None,
        last: Outcome::Committed,
        ..*block
    })
}

/// A trial that is armed, for one attempt only.
#[must_use]
pub fn once(armed: &Block) -> Block {
    Block {
        trial: armed.trial.map(|_| Trial { left: 1 }),
        ..*armed
    }
}

/// Ends a running trial that was for one boot only: it was healthy, and is not kept.
///
/// # Errors
/// As [`commit`].
pub fn tried(block: &Block, told: &Told, in_time: bool) -> Result<Block, Refused> {
    commit(block, told, in_time)?;
    Ok(Block {
        trial: None,
        last: Outcome::Tried,
        ..*block
    })
}

/// Ends the running trial: no attempt is left, so the next boot is of the good kernel.
///
/// # Errors
/// Refused for anything but the trial that the block is about.
pub fn reject(block: &Block, told: &Told) -> Result<Block, Refused> {
    own_trial(block, told)?;
    Ok(Block {
        trial: Some(Trial { left: 0 }),
        last: Outcome::Rejected,
        ..*block
    })
}

/// The trial of the block, which must be what runs.
fn own_trial(block: &Block, told: &Told) -> Result<Trial, Refused> {
    let Told { role, why, .. } = *told;
    if role != Role::Trial || why != Why::Counted {
        return Err(Refused::NotOnTrial { role, why });
    }
    match block.trial {
        Some(trial) if told.is_trial_of(block) => Ok(trial),
        _ => Err(Refused::OtherTrial {
            told: told.generation.map_or("bad".to_owned(), |g| g.to_string()),
            found: block.generation,
        }),
    }
}

/// What a kernel that is not on trial writes down about the trial before it; `None` where there is
/// nothing to write.
pub fn settle(block: &Block, told: &Told) -> Option<Block> {
    let trial = block.trial?;
    if told.role == Role::Trial {
        return None;
    }
    let last = match (trial.left, told.why) {
        (0, _) if block.last == Outcome::Rejected => Outcome::Rejected,
        (0, _) => Outcome::Exhausted,
        (_, Why::NoWrite) => Outcome::NoWrite,
        (_, Why::LoadFailed) => Outcome::LoadFailed,
        // A person chose the good kernel: the trial stays armed.
        _ => return None,
    };
    Some(Block {
        trial: None,
        last,
        ..*block
    })
}

/// The record of the last outcome is written.
#[must_use]
pub fn acknowledge(block: &Block) -> Block {
    Block {
        last: Outcome::None,
        ..*block
    }
}

/// What is written in place of a block that cannot be trusted: no trial; the good slot is the
/// mirror's, else the one that runs, else the one that GRUB takes.
pub fn repair(mirror: Option<Slot>, told: Option<&Told>, generation: Generation) -> Block {
    let running = told.map(|told| told.slot);
    Block::stable(generation, mirror.or(running).unwrap_or(Slot::A))
}

/// What GRUB's text does at the next boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The slot that is tried first.
    pub slot: Slot,
    /// What as.
    pub role: Role,
    /// Why.
    pub why: Why,
    /// What the digit is after that.
    pub left: u8,
}

/// Foretells GRUB (`assets/gate.cfg`) on a disk that it can read and write. It reads less strictly
/// than [`Block::parse`], since it has no checksum; `None` is a file that is not there.
pub fn foretell(state: Option<&[u8]>, mirror: Option<&[u8]>) -> Choice {
    let mut good = None;
    let (mut why, mut trial, mut left) = (Why::BadEnv, None, None);
    let block = state.map(environment).unwrap_or_default();
    let value = |name: &str| lookup(&block, name);
    let (front, back) = (value("g_gen"), value("g_end"));
    if value("g_v") == Some(b"1") && front.is_some_and(|front| !front.is_empty()) && front == back {
        why = Why::Stable;
        good = value("g_good").map(<[u8]>::to_vec);
        trial = value("g_trial");
        left = value("g_left");
    } else if let Some(bytes) = mirror {
        good = lookup(&environment(bytes), "g_good").map(<[u8]>::to_vec);
    }
    let slot = if good.as_deref() == Some(b"b") {
        Slot::B
    } else {
        Slot::A
    };
    let other = slot.other();
    let on_trial = why == Why::Stable && trial == Some(other.as_str().as_bytes());
    if why == Why::Stable && trial == Some(b"none") && left == Some(b"1") {
        why = Why::Rehearsed;
    }
    match left {
        Some(b"2" | b"1") if on_trial => Choice {
            slot: other,
            role: Role::Trial,
            why: Why::Counted,
            left: u8::from(left == Some(b"2")),
        },
        _ => Choice {
            slot,
            role: Role::Good,
            why: if on_trial { Why::Exhausted } else { why },
            left: 0,
        },
    }
}

/// The variables of an environment block, as GRUB's `grub_envblk_iterate` finds them.
fn environment(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let Some(mut rest) = bytes.strip_prefix(b"# GRUB Environment Block\n") else {
        return found;
    };
    while let Some(first) = rest.first() {
        if *first != b'#' {
            let Some(end) = rest.iter().position(|byte| *byte == b'=') else {
                return found;
            };
            let name = rest[..end].to_vec();
            let mut value = Vec::new();
            let mut at = end + 1;
            loop {
                match rest.get(at) {
                    None => return found,
                    Some(b'\n') => break,
                    Some(b'\\') => {
                        value.extend(rest.get(at + 1));
                        at += 2;
                    }
                    Some(byte) => {
                        value.push(*byte);
                        at += 1;
                    }
                }
            }
            found.push((name, value));
            rest = &rest[at..];
        }
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => rest = &rest[end + 1..],
            None => return found,
        }
    }
    found
}

/// The last value counts; a text of GRUB's ends at its first zero.
fn lookup<'a>(block: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    let text = |bytes: &'a [u8]| bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let found = block
        .iter()
        .rfind(|(known, _)| text(known) == name.as_bytes())?;
    Some(text(&found.1))
}
