//! Whether GRUB was seen to count on this node: in the very file that Linux writes, where it lies now.
//!
//! A preflight judges by what is known of file systems and devices. This is the fact: at one ordinary
//! boot GRUB counted down, or could not, and the kernel that it started found the same on the disk.

use serde::{Deserialize, Serialize};

use super::block::{ATTEMPTS, Block, Outcome};
use super::preflight::Finding;
use super::state::{Role, Told, Why};

/// What is known about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// Nothing.
    #[default]
    Unknown,
    /// The next boot will show it.
    Asked {
        /// The boot in which it was asked, which shows nothing.
        boot: String,
    },
    /// GRUB counted, and the disk says so.
    Seen,
    /// GRUB could not count, or counted elsewhere.
    Failed,
}

impl Counting {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Asked { .. } => "asked",
            Self::Seen => "seen",
            Self::Failed => "failed",
        }
    }

    /// What is known after looking at the block, as it was found, from the boot of this id.
    #[must_use]
    pub fn after(&self, block: &Block, told: &Told, boot: &str) -> Self {
        let same = told.generation == Some(block.generation);
        let counted_before = block.trial.is_some_and(|trial| trial.left < ATTEMPTS);
        match (told.role, told.why) {
            (Role::Trial, _) if told.is_trial_of(block) => {
                let left = block.trial.map(|trial| trial.left);
                Self::of(left == Some(told.left))
            }
            (_, Why::Rehearsed) if same => Self::of(!block.rehearsal),
            (_, Why::NoWrite) => Self::Failed,
            // A trial that was turned down has its last digit from Linux.
            (_, Why::Exhausted | Why::LoadFailed)
                if same && counted_before && block.last == Outcome::None =>
            {
                Self::Seen
            }
            _ => match self {
                // It was asked, this is a later boot, and GRUB does not speak of it.
                Self::Asked { boot: asked } if asked != boot => Self::Failed,
                known => known.clone(),
            },
        }
    }

    const fn of(seen: bool) -> Self {
        if seen { Self::Seen } else { Self::Failed }
    }

    /// What speaks against a trial. `by_image`: whoever made this node's image has seen it count.
    pub fn finding(&self, by_image: bool) -> Option<Finding> {
        let (what, next) = match self {
            Self::Seen => return None,
            Self::Unknown if by_image => return None,
            Self::Unknown => (
                "GRUB was never seen to count on this node",
                "run `kiln boot rehearse`, restart once, then stage again",
            ),
            Self::Asked { .. } => (
                "whether GRUB can count on this node will be seen at its next boot",
                "restart once, then stage again",
            ),
            Self::Failed => (
                "GRUB could not count on this node, or counted in another file than kiln writes",
                "see whether the disk can be written by the firmware, and that GRUB reads this \
                 `/boot`; then run `kiln boot rehearse` and restart",
            ),
        };
        Some(Finding {
            code: "not-rehearsed",
            what: what.to_owned(),
            next: next.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{Generation, Slot, Trial};
    use super::*;

    const BOOT: &str = "two";

    fn asked() -> Counting {
        let boot = "one".to_owned();
        Counting::Asked { boot }
    }

    fn told(role: Role, why: Why, left: u8) -> Told {
        Told {
            slot: if role == Role::Trial {
                Slot::B
            } else {
                Slot::A
            },
            role,
            why,
            generation: Some(Generation(2)),
            left,
        }
    }

    fn trial(left: u8) -> Block {
        Block {
            trial: Some(Trial { left }),
            ..Block::stable(Generation(2), Slot::A)
        }
    }

    #[test]
    fn a_rehearsal_shows_what_the_disk_says() {
        let rested = Block::stable(Generation(2), Slot::A);
        let due = Block {
            rehearsal: true,
            ..rested
        };
        let good = |why| told(Role::Good, why, 0);
        let after = |block: &Block, why| asked().after(block, &good(why), BOOT);
        assert_eq!(after(&rested, Why::Rehearsed), Counting::Seen);
        // GRUB says that it counted, and the disk does not.
        assert_eq!(after(&due, Why::Rehearsed), Counting::Failed);
        assert_eq!(after(&due, Why::NoWrite), Counting::Failed);
        // GRUB never saw that it was asked, at a later boot; in the same boot nothing is shown yet.
        assert_eq!(after(&due, Why::Stable), Counting::Failed);
        assert_eq!(asked().after(&due, &good(Why::Stable), "one"), asked());
        let older = Told {
            generation: Some(Generation(1)),
            ..good(Why::Rehearsed)
        };
        assert_eq!(asked().after(&rested, &older, BOOT), Counting::Failed);
    }

    #[test]
    fn trials_show_it_too() {
        let unknown = Counting::Unknown;
        let running = told(Role::Trial, Why::Counted, 1);
        assert_eq!(unknown.after(&trial(1), &running, BOOT), Counting::Seen);
        assert_eq!(unknown.after(&trial(2), &running, BOOT), Counting::Failed);
        let good = |why| told(Role::Good, why, 0);
        assert_eq!(
            unknown.after(&trial(0), &good(Why::Exhausted), BOOT),
            Counting::Seen
        );
        assert_eq!(
            unknown.after(&trial(1), &good(Why::LoadFailed), BOOT),
            Counting::Seen
        );
        let rejected = Block {
            last: Outcome::Rejected,
            ..trial(0)
        };
        assert_eq!(
            unknown.after(&rejected, &good(Why::Exhausted), BOOT),
            unknown
        );
        // And a boot at which nothing was due changes nothing.
        for known in [Counting::Unknown, Counting::Seen, Counting::Failed] {
            let rested = Block::stable(Generation(2), Slot::A);
            assert_eq!(known.after(&rested, &good(Why::Stable), BOOT), known);
        }
    }

    #[test]
    fn staging_waits_for_a_rehearsal() {
        let refused = |known: &Counting, by_image| known.finding(by_image).is_some();
        assert!(!refused(&Counting::Seen, false));
        assert!(refused(&Counting::Unknown, false) && !refused(&Counting::Unknown, true));
        assert!(refused(&asked(), true) && refused(&Counting::Failed, true));
    }
}
