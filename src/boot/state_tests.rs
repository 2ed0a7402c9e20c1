//! The steps one by one, and a node that is cut off at any moment of any history of them.

use proptest::prelude::*;

use super::block::tests::any_block;
use super::block::{self, ATTEMPTS, Block, Generation, Outcome, SIZE, Slot, Trial};
use super::state::{
    NotTold, Refused, Role, Told, Why, acknowledge, arm, commit, disarm, foretell, may_stage,
    reject, repair, settle,
};

const OLD: Generation = Generation(1);
const NEW: Generation = Generation(2);

fn armed(left: u8) -> Block {
    Block {
        generation: NEW,
        trial: Some(Trial { left }),
        ..Block::stable(OLD, Slot::A)
    }
}

fn told(role: Role, why: Why, left: u8) -> Told {
    Told {
        slot: if role == Role::Good { Slot::A } else { Slot::B },
        role,
        why,
        generation: Some(NEW),
        left,
    }
}

fn on_trial(left: u8) -> Told {
    told(Role::Trial, Why::Counted, left)
}

const LINE: &str = "BOOT_IMAGE=/vmlinuz root=/dev/vda1 gate.slot=b gate.role=trial \
                    gate.why=counted gate.gen=0000000000000002 gate.left=1";

#[test]
fn a_command_line_is_read_as_grub_writes_it() {
    assert_eq!(Told::read(LINE), Ok(on_trial(1)));
    assert_eq!(Told::read("root=/dev/vda1 quiet"), Err(NotTold::Absent));
    let quoted = LINE.replace("root=/dev/vda1", "x=\"a gate.slot=a b\"");
    assert_eq!(Told::read(&quoted), Ok(on_trial(1)));
    let bad = LINE.replace("gate.gen=0000000000000002", "gate.gen=bad");
    assert_eq!(Told::read(&bad).unwrap().generation, None);
}

#[test]
fn a_command_line_that_grub_never_writes_says_nothing() {
    let twice = format!("{LINE} gate.role=good");
    assert_eq!(
        Told::read(&twice),
        Err(NotTold::Twice { word: "gate.role" })
    );
    for (from, to, word) in [
        ("gate.left=1", "gate.left=3", "gate.left"),
        ("gate.slot=b", "gate.slot=c", "gate.slot"),
        ("gate.why=counted", "gate.why=", "gate.why"),
        ("gate.gen=0000000000000002", "gate.gen=2", "gate.gen"),
        (" gate.role=trial", "", "gate.role"),
    ] {
        match Told::read(&LINE.replace(from, to)).unwrap_err() {
            NotTold::Value { word: found, .. } | NotTold::Missing { word: found } => {
                assert_eq!(found, word);
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn only_a_node_at_rest_is_armed() {
    let stable = Block::stable(OLD, Slot::A);
    assert_eq!(arm(&stable, None, NEW), Ok(armed(ATTEMPTS)));
    assert_eq!(
        arm(&stable, None, OLD),
        Err(Refused::OldGeneration { generation: OLD })
    );
    assert_eq!(
        arm(&armed(2), None, Generation(3)),
        Err(Refused::Armed {
            slot: Slot::B,
            left: 2
        })
    );
}

/// Faults 30 and 31: a second staging, and one while something is due.
#[test]
fn staging_waits_for_verdict_and_record() {
    assert_eq!(may_stage(&armed(2), None), Ok(()));
    assert_eq!(disarm(&armed(2), None).unwrap().trial, None);
    assert_eq!(
        may_stage(&armed(1), Some(&on_trial(1))),
        Err(Refused::Undecided)
    );
    assert_eq!(
        disarm(&armed(1), Some(&on_trial(1))),
        Err(Refused::Undecided)
    );
    for last in Outcome::ALL {
        let block = Block {
            last,
            ..Block::stable(OLD, Slot::A)
        };
        assert_eq!(may_stage(&block, None).is_ok(), last == Outcome::None);
        assert_eq!(may_stage(&acknowledge(&block), None), Ok(()));
    }
    let last_resort = told(Role::LastResort, Why::GoodLoadFailed, 0);
    assert_eq!(
        may_stage(&Block::stable(OLD, Slot::A), Some(&last_resort)),
        Err(Refused::SlotInUse { slot: Slot::B })
    );
}

/// Faults 12, 19, 27, 30 and 38: who may not be committed.
#[test]
fn only_the_counted_trial_is_committed_and_in_time() {
    let committed = commit(&armed(1), &on_trial(1), true).unwrap();
    assert_eq!(
        committed,
        Block {
            last: Outcome::Committed,
            ..Block::stable(NEW, Slot::B)
        }
    );
    assert_eq!(
        commit(&armed(1), &on_trial(1), false),
        Err(Refused::TooLate)
    );
    assert_eq!(
        commit(&armed(2), &on_trial(1), true),
        Err(Refused::Uncounted { told: 1, found: 2 })
    );
    let older = Told {
        generation: Some(OLD),
        ..on_trial(1)
    };
    assert!(matches!(
        commit(&armed(1), &older, true),
        Err(Refused::OtherTrial { .. })
    ));
    let disarmed = disarm(&armed(1), None).unwrap();
    assert!(matches!(
        commit(&disarmed, &on_trial(1), true),
        Err(Refused::OtherTrial { .. })
    ));
    for role in [Role::Good, Role::LastResort] {
        assert!(matches!(
            commit(&armed(1), &told(role, Why::Counted, 1), true),
            Err(Refused::NotOnTrial { .. })
        ));
    }
}

/// Faults 5, 18, 23, 42 and 43: what the good kernel makes of what it finds.
#[test]
fn the_good_kernel_writes_the_outcome_down() {
    let last = |block: &Block, why| {
        let told = told(Role::Good, why, 0);
        settle(block, &told).map(|block| (block.trial, block.last))
    };
    let rejected = reject(&armed(1), &on_trial(1)).unwrap();
    assert_eq!(
        last(&rejected, Why::Exhausted),
        Some((None, Outcome::Rejected))
    );
    assert_eq!(
        last(&armed(0), Why::Exhausted),
        Some((None, Outcome::Exhausted))
    );
    assert_eq!(
        last(&armed(2), Why::NoWrite),
        Some((None, Outcome::NoWrite))
    );
    assert_eq!(
        last(&armed(1), Why::LoadFailed),
        Some((None, Outcome::LoadFailed))
    );
    // A person chose it: the trial stays armed, uncounted.
    assert_eq!(last(&armed(2), Why::Stable), None);
    assert_eq!(last(&Block::stable(OLD, Slot::A), Why::Stable), None);
    assert_eq!(settle(&armed(1), &on_trial(1)), None);
}

#[test]
fn a_lost_block_is_repaired_from_the_mirror() {
    let running = told(Role::LastResort, Why::GoodLoadFailed, 0);
    let good = |mirror, told| repair(mirror, told, NEW).good;
    assert_eq!(good(Some(Slot::A), Some(&running)), Slot::A);
    assert_eq!(good(None, Some(&running)), Slot::B);
    assert_eq!(good(None, None), Slot::A);
    assert_eq!(repair(None, None, NEW).trial, None);
}

proptest! {
    /// Faults 13 to 17: whatever is in the files, a trial is started only for a block that says so.
    #[test]
    fn no_bytes_start_a_trial_by_accident(
        state in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..1100)),
        mirror in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100)),
    ) {
        let choice = foretell(state.as_deref(), mirror.as_deref());
        prop_assert_eq!((choice.slot, choice.role, choice.why), (Slot::A, Role::Good, Why::BadEnv));
    }

    /// For what kiln writes, GRUB's loose reading and the strict one agree.
    #[test]
    fn both_readers_agree_on_what_kiln_writes(block in any_block(), lost in any::<bool>()) {
        let mirror = block::mirror(block.good);
        let mirror = (!lost).then_some(mirror.as_slice());
        let choice = foretell(Some(&block.bytes()), mirror);
        match block.trial {
            Some(Trial { left: left @ 1.. }) => {
                prop_assert_eq!(choice.slot, block.other());
                prop_assert_eq!((choice.role, choice.left), (Role::Trial, left - 1));
            }
            Some(_) => prop_assert_eq!((choice.slot, choice.why), (block.good, Why::Exhausted)),
            None => {
                let why = if block.rehearsal { Why::Rehearsed } else { Why::Stable };
                prop_assert_eq!((choice.slot, choice.role, choice.why), (block.good, Role::Good, why));
            }
        }
    }

    /// A block in which one byte changed: at worst the counted trial that was armed anyway.
    #[test]
    fn a_flipped_byte_never_starts_another_slot(
        block in any_block(), at in 0..SIZE, to in any::<u8>(),
    ) {
        let mut bytes = block.bytes();
        bytes[at] = to;
        let mirror = block::mirror(block.good);
        let choice = foretell(Some(&bytes), Some(&mirror));
        if choice.role == Role::Trial {
            prop_assert!(block.trial.is_some());
        }
    }
}

/// How a kernel that is staged behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Healthy,
    /// It comes up, and its checks fail.
    Unhealthy,
    /// It never says anything: a panic, a hang.
    Dies,
    /// Half of its files are written.
    Partial,
}

/// One thing that happens to a node; the number says before which of its writes the power goes off
/// (it may be past the last one).
#[derive(Debug, Clone)]
enum Event {
    Stage(Kernel, u8),
    Disarm(u8),
    /// A boot: whether GRUB can write, and when the power goes off.
    Boot(bool, u8),
}

fn any_event() -> impl Strategy<Value = Event> {
    let kernel = proptest::sample::select(vec![Kernel::Healthy, Kernel::Unhealthy, Kernel::Dies]);
    prop_oneof![
        2 => (kernel, 0_u8..7).prop_map(|(kernel, cut)| Event::Stage(kernel, cut)),
        1 => (0_u8..3).prop_map(Event::Disarm),
        6 => (prop::bool::weighted(0.9), 0_u8..7).prop_map(|(writes, cut)| Event::Boot(writes, cut)),
    ]
}

/// A node's disk, and what is known about its history.
struct Node {
    state: [u8; SIZE],
    mirror: [u8; SIZE],
    slots: [Kernel; 2],
    /// What the running kernel was told; `None` when the power is off.
    told: Option<Told>,
    /// Writes until the power goes off.
    cut: u8,
    generation: u64,
    /// Starts of the trial of each generation.
    starts: Vec<u8>,
}

/// The power is off.
struct Off;

impl Node {
    fn new() -> Self {
        Self {
            state: Block::stable(Generation(0), Slot::A).bytes(),
            mirror: block::mirror(Slot::A),
            slots: [Kernel::Healthy, Kernel::Partial],
            told: None,
            cut: 0,
            generation: 0,
            starts: vec![0],
        }
    }

    fn slot(&mut self, slot: Slot) -> &mut Kernel {
        &mut self.slots[usize::from(slot == Slot::B)]
    }

    /// A moment at which the power may go off.
    fn moment(&mut self) -> Result<(), Off> {
        if self.cut == 0 {
            self.told = None;
            return Err(Off);
        }
        self.cut -= 1;
        Ok(())
    }

    fn block(&self) -> Block {
        Block::parse(&self.state).expect("only whole blocks are written")
    }

    fn write(&mut self, block: Block) -> Result<(), Off> {
        self.moment()?;
        self.state = block.bytes();
        self.moment()?;
        self.mirror = block::mirror(block.good);
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<(), Off> {
        match *event {
            Event::Stage(kernel, cut) => {
                self.cut = cut;
                self.stage(kernel)
            }
            Event::Disarm(cut) => {
                self.cut = cut;
                match disarm(&self.block(), self.told.as_ref()) {
                    Ok(block) => self.write(block),
                    Err(_) => Ok(()),
                }
            }
            Event::Boot(writes, cut) => {
                self.cut = cut;
                self.told = None;
                self.boot(writes)
            }
        }
    }

    fn stage(&mut self, kernel: Kernel) -> Result<(), Off> {
        let (block, told) = (self.block(), self.told);
        // A node that is off, or whose kernel came from elsewhere, stages nothing here.
        if told.is_none() || may_stage(&block, told.as_ref()).is_err() {
            return Ok(());
        }
        let disarmed = disarm(&block, told.as_ref()).expect("it may stage");
        self.write(disarmed)?;
        *self.slot(block.other()) = Kernel::Partial;
        self.moment()?;
        *self.slot(block.other()) = kernel;
        self.generation += 1;
        self.starts.push(0);
        let armed = arm(&disarmed, told.as_ref(), Generation(self.generation));
        self.write(armed.expect("it may stage"))
    }

    fn boot(&mut self, writes: bool) -> Result<(), Off> {
        self.moment()?;
        let choice = foretell(Some(&self.state), Some(&self.mirror));
        let block = self.block();
        let mut told = Told {
            slot: choice.slot,
            role: choice.role,
            why: choice.why,
            generation: Some(block.generation),
            left: choice.left,
        };
        if choice.role == Role::Trial && !writes {
            (told.role, told.slot, told.why) = (Role::Good, block.good, Why::NoWrite);
        } else if choice.role == Role::Trial {
            let left = choice.left;
            self.state = Block {
                trial: Some(Trial { left }),
                ..block
            }
            .bytes();
            self.moment()?;
            self.starts[usize::try_from(block.generation.0).unwrap()] += 1;
        }
        let kernel = *self.slot(told.slot);
        assert_ne!(kernel, Kernel::Partial, "half a kernel was started");
        assert!(
            told.role == Role::Trial || kernel == Kernel::Healthy,
            "{kernel:?} was started as {}",
            told.role
        );
        self.told = Some(told);
        self.run(kernel, &told)
    }

    fn run(&mut self, kernel: Kernel, told: &Told) -> Result<(), Off> {
        let block = self.block();
        let next = match (told.role, kernel) {
            (_, Kernel::Dies) => return Err(Off),
            (Role::Trial, Kernel::Healthy) => Some(commit(&block, told, true).unwrap()),
            (Role::Trial, _) => Some(reject(&block, told).unwrap()),
            _ => settle(&block, told),
        };
        if let Some(next) = next {
            self.write(next)?;
            if next.trial.is_some() {
                return Err(Off);
            }
        }
        // The record is written, and then acknowledged. A mirror that a power cut left behind is
        // written again, as it is by every boot.
        self.moment()?;
        self.write(acknowledge(&self.block()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Table of crash points: no history with power cuts at any write starts half a kernel, starts a
    /// trial more often than it has attempts, or keeps an unhealthy kernel; and the node comes to
    /// rest once the cuts end.
    #[test]
    fn no_history_with_power_cuts_loses_the_node(events in proptest::collection::vec(any_event(), 1..40)) {
        let mut node = Node::new();
        for event in &events {
            if node.happen(event).is_err() {
                node.told = None;
            }
            prop_assert!(node.starts.iter().all(|starts| *starts <= ATTEMPTS));
            let good = node.block().good;
            prop_assert_eq!(*node.slot(good), Kernel::Healthy);
        }
        for _ in 0..=ATTEMPTS {
            let _off = node.happen(&Event::Boot(true, u8::MAX));
        }
        let _off = node.happen(&Event::Boot(true, u8::MAX));
        prop_assert!(node.told.is_some(), "it is still off");
        prop_assert_eq!(node.block().trial, None);
        prop_assert_eq!(node.block().last, Outcome::None);
        prop_assert_eq!(block::read_mirror(&node.mirror), Some(node.block().good));
    }
}
