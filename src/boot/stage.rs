//! The order in which a kernel is put on trial, and why nothing is lost wherever it stops.
//!
//! Disarm, fill the slot, read it back, let the file system write everything to its place, and only
//! then arm, with one write. GRUB reads the disk without the journal: what is not in its place yet,
//! it does not see, or sees as it was. So a stop before the arming write leaves a node at rest on
//! its good kernel, and after it a trial that is whole.

use super::block::{Block, Generation, Slot};
use super::state::{Refused, Told, arm, disarm, may_stage};

/// What staging does to the world. Each call returns when its effect is durable, but for `fill`,
/// which GRUB may see only in part until `checkpoint` returns.
pub trait Medium {
    /// Why a call fails.
    type Error: From<Refused>;
    /// What a slot is filled with.
    type Load;

    /// The state block, as it is on the disk.
    fn block(&mut self) -> Result<Block, Self::Error>;

    /// Writes the state block in its place, then the mirror where it says something else.
    fn write(&mut self, block: &Block) -> Result<(), Self::Error>;

    /// Replaces what is in a slot.
    fn fill(&mut self, slot: Slot, load: &Self::Load) -> Result<(), Self::Error>;

    /// Reads a slot back from the disk; an error where it is not the load.
    fn verify(&mut self, slot: Slot, load: &Self::Load) -> Result<(), Self::Error>;

    /// Empties a slot.
    fn clear(&mut self, slot: Slot) -> Result<(), Self::Error>;

    /// Writes everything to where GRUB looks for it.
    fn checkpoint(&mut self) -> Result<(), Self::Error>;
}

/// Puts a kernel into the other slot and arms its trial; returns the armed block.
///
/// # Errors
/// Where the state forbids it, and where the medium fails: the node is then disarmed, and a slot
/// that could not be filled is empty.
pub fn stage<M: Medium>(
    medium: &mut M,
    told: Option<&Told>,
    load: &M::Load,
    generation: Generation,
) -> Result<Block, M::Error> {
    let block = medium.block()?;
    may_stage(&block, told)?;
    let disarmed = disarm(&block, told)?;
    medium.write(&disarmed)?;
    let slot = disarmed.other();
    let filled = medium
        .fill(slot, load)
        .and_then(|()| medium.checkpoint())
        .and_then(|()| medium.verify(slot, load));
    if let Err(error) = filled {
        // The first error is the one to tell; an emptied slot only saves space.
        let _cleared = medium.clear(slot);
        return Err(error);
    }
    let armed = arm(&disarmed, told, generation)?;
    medium.write(&armed)?;
    Ok(armed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block::{self, SIZE, Trial};
    use super::super::state::{Role, foretell};
    use super::*;

    /// What is in a slot, as GRUB would see it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Content {
        Old,
        New,
        Torn,
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Stop {
        Refused(Refused),
        Power,
        Full,
    }

    impl From<Refused> for Stop {
        fn from(refused: Refused) -> Self {
            Self::Refused(refused)
        }
    }

    /// How a writer may be wrong.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fault {
        Nothing,
        /// Leaves what it wrote in the journal.
        NoCheckpoint,
        /// Replaces the state file instead of writing in its place: GRUB sees the old file, or none,
        /// until the journal is written back.
        Renames,
        /// Empties the state file before it writes to it.
        Truncates,
    }

    /// A disk with power that goes off after so many calls.
    struct Simulated {
        fault: Fault,
        calls: u32,
        full: bool,
        /// What GRUB may see of each: any one of these, until the checkpoint.
        state: Vec<Option<[u8; SIZE]>>,
        mirror: [u8; SIZE],
        slots: [Vec<Content>; 2],
    }

    impl Simulated {
        /// A trial is armed already, and has not been started.
        fn new(fault: Fault, calls: u32) -> Self {
            let armed = Block {
                trial: Some(Trial { left: 2 }),
                ..Block::stable(Generation(1), Slot::A)
            };
            Self {
                fault,
                calls,
                full: false,
                state: vec![Some(armed.bytes())],
                mirror: block::mirror(Slot::A),
                slots: [vec![Content::Old], vec![Content::Old]],
            }
        }

        fn call(&mut self) -> Result<(), Stop> {
            self.calls = self.calls.checked_sub(1).ok_or(Stop::Power)?;
            Ok(())
        }

        fn slot(&mut self, slot: Slot) -> &mut Vec<Content> {
            &mut self.slots[usize::from(slot == Slot::B)]
        }

        /// Everything that GRUB could do now must start a whole kernel.
        fn check(&mut self) -> Result<(), String> {
            for state in self.state.clone() {
                let choice = foretell(
                    state.as_ref().map(<[u8; SIZE]>::as_slice),
                    Some(&self.mirror),
                );
                let seen = self.slot(choice.slot).clone();
                let whole = seen == [Content::Old] || seen == [Content::New];
                let fits = whole && (choice.role == Role::Trial || choice.slot == Slot::A);
                // A block that cannot be read costs no kernel, but is an alarm that nothing caused.
                if !fits || choice.why == super::super::state::Why::BadEnv {
                    return Err(format!("{choice:?} of {seen:?}"));
                }
            }
            Ok(())
        }
    }

    impl Medium for Simulated {
        type Error = Stop;
        type Load = ();

        fn block(&mut self) -> Result<Block, Stop> {
            let last = self.state.last().copied().flatten();
            Ok(Block::parse(&last.expect("it was written")).expect("it is whole"))
        }

        fn write(&mut self, block: &Block) -> Result<(), Stop> {
            self.call()?;
            match self.fault {
                Fault::Renames => self.state.push(Some(block.bytes())),
                Fault::Truncates => {
                    self.state = vec![None];
                    self.call()?;
                    self.state = vec![Some(block.bytes())];
                }
                _ => self.state = vec![Some(block.bytes())],
            }
            self.call()?;
            self.mirror = block::mirror(block.good);
            Ok(())
        }

        fn fill(&mut self, slot: Slot, (): &()) -> Result<(), Stop> {
            *self.slot(slot) = vec![Content::Old, Content::Torn];
            self.call()?;
            if self.full {
                return Err(Stop::Full);
            }
            *self.slot(slot) = vec![Content::Old, Content::Torn, Content::New];
            self.call()
        }

        fn verify(&mut self, _slot: Slot, (): &()) -> Result<(), Stop> {
            self.call()
        }

        fn clear(&mut self, slot: Slot) -> Result<(), Stop> {
            self.call()?;
            *self.slot(slot) = vec![Content::Torn];
            Ok(())
        }

        fn checkpoint(&mut self) -> Result<(), Stop> {
            self.call()?;
            if self.fault != Fault::NoCheckpoint {
                for slot in &mut self.slots {
                    let last = slot.last().copied();
                    *slot = last.into_iter().collect();
                }
                let last = self.state.last().copied();
                self.state = last.into_iter().collect();
            }
            Ok(())
        }
    }

    /// Stages with the power going off after `calls` calls; what GRUB could then do.
    fn cut(fault: Fault, calls: u32) -> (Result<Block, Stop>, Result<(), String>) {
        let mut medium = Simulated::new(fault, calls);
        let staged = stage(&mut medium, None, &(), Generation(2));
        (staged, medium.check())
    }

    /// Faults 11 and 21, over every call.
    #[test]
    fn a_power_cut_at_any_call_leaves_good_or_a_whole_trial() {
        let mut armed = false;
        for calls in 0..20 {
            let (staged, seen) = cut(Fault::Nothing, calls);
            assert_eq!(seen, Ok(()), "after {calls} calls");
            armed |= staged.is_ok();
        }
        assert!(armed);
    }

    /// The twins: the check above finds each wrong writer.
    #[test]
    fn wrong_writers_are_found() {
        for fault in [Fault::NoCheckpoint, Fault::Renames, Fault::Truncates] {
            let found = (0..20).filter(|calls| cut(fault, *calls).1.is_err());
            assert!(found.count() > 0, "{fault:?} was not found");
        }
    }

    /// Fault 32.
    #[test]
    fn a_full_disk_arms_nothing() {
        let mut medium = Simulated::new(Fault::Nothing, 99);
        medium.full = true;
        assert_eq!(
            stage(&mut medium, None, &(), Generation(2)),
            Err(Stop::Full)
        );
        assert_eq!(medium.block().unwrap().trial, None);
        assert_eq!(medium.slots[1], [Content::Torn]);
        medium.check().unwrap();
    }

    proptest! {
        /// Fault 30: staged again and again, cut at any call of any of them.
        #[test]
        fn staged_again_after_any_cut(cuts in proptest::collection::vec(0_u32..12, 1..6)) {
            let mut medium = Simulated::new(Fault::Nothing, 0);
            for (at, calls) in (2..).zip(cuts) {
                medium.calls = calls;
                let _cut = stage(&mut medium, None, &(), Generation(at));
                prop_assert_eq!(medium.check(), Ok(()));
                // The next boot finds the journal written back.
                medium.calls = 1;
                medium.checkpoint().unwrap();
            }
        }
    }
}
