//! No sequence of slots given and taken back sells a core twice.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan_tests::{DEDICATED, SHARED, machine, machines, orders};
use super::*;
use crate::cpus::CpuSet;
use crate::failure::Diagnose as _;

fn wanted(name: &str, kind: Kind, cores: usize) -> Wanted<'_> {
    Wanted {
        name,
        tenant: "acme",
        kind,
        cores,
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, Kind, usize),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(Kind::Density), Just(Kind::Determinism)];
    let add = (0..24_u8, kind, 0..4_usize).prop_map(|(n, kind, cores)| Step::Add(n, kind, cores));
    let step = prop_oneof![3 => add, 1 => (0..24_u8).prop_map(Step::Remove)];
    proptest::collection::vec(step, 0..40)
}

/// Slots are whole, apart, in one domain, and with what is free they make up the pool.
fn holds(plan: &Plan, ledger: &Ledger) {
    assert_eq!(ledger.check(plan), Ok(()));
    let free: CpuSet = ledger.free(plan).concat().into_iter().collect();
    let sold: usize = ledger.slots().iter().map(|slot| slot.cores().len()).sum();
    let given: CpuSet = ledger
        .slots()
        .iter()
        .flat_map(|slot| slot.cores().iter().collect::<Vec<_>>())
        .collect();
    assert_eq!(sold, given.len(), "a CPU is in two slots");
    assert!(given.is_disjoint(&free));
    assert_eq!(given.union(&free), plan.pool);
    for slot in ledger.slots() {
        let of = |domain: &&PlannedDomain| {
            let cpus: CpuSet = domain.cores.iter().map(|core| &core.cpus).collect();
            slot.cores().is_subset(&cpus)
        };
        assert_eq!(plan.domains.iter().filter(of).count(), 1, "{slot:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_is_given_twice(found in machines(), order in orders(), steps in steps()) {
        let Ok(plan) = super::plan(&found, order) else { return Ok(()) };
        let mut ledger = Ledger::of(&plan);
        for step in steps {
            let before = ledger.clone();
            let free: Vec<usize> = ledger.free(&plan).iter().map(Vec::len).collect();
            let result = match &step {
                Step::Add(n, kind, cores) => {
                    ledger.add(&plan, wanted(&format!("s{n}"), *kind, *cores))
                }
                Step::Remove(n) => ledger.remove(&format!("s{n}")),
            };
            match result {
                Ok(_) => prop_assert_ne!(&ledger, &before),
                Err(LedgerError::Full { wanted, .. }) => {
                    prop_assert!(free.iter().all(|cores| *cores < wanted), "{:?}", step);
                }
                Err(LedgerError::NoCores) => prop_assert!(matches!(step, Step::Add(_, Kind::Density, 0))),
                Err(LedgerError::Taken(_)) => prop_assert!(matches!(step, Step::Add(..))),
                Err(LedgerError::Absent(_)) => prop_assert!(matches!(step, Step::Remove(_))),
                Err(other) => prop_assert!(false, "{}", other),
            }
            holds(&plan, &ledger);
        }
        let text = serde_json::to_string(&ledger).unwrap();
        prop_assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
    }
}

/// A ledger with a density slot `a` and a determinism slot `b`, edited.
fn edited(edit: impl FnOnce(&mut Value)) -> Result<(), LedgerError> {
    let plan = super::plan(&machine(&[(6, 32), (6, 32)], 2, false, 1), SHARED).unwrap();
    let mut ledger = Ledger::of(&plan);
    ledger.add(&plan, wanted("a", Kind::Density, 1)).unwrap();
    ledger
        .add(&plan, wanted("b", Kind::Determinism, 1))
        .unwrap();
    let mut value = serde_json::to_value(&ledger).unwrap();
    edit(&mut value);
    serde_json::from_value::<Ledger>(value)
        .unwrap()
        .check(&plan)
}

#[test]
fn an_edited_ledger_is_not_believed() {
    assert_eq!(edited(|_| {}), Ok(()));
    // The same slot on other cores that are free: nobody can tell, and nothing is sold twice.
    assert_eq!(
        edited(|ledger| ledger["slots"][0]["cpus"] = json!("5,17")),
        Ok(())
    );
    for (slot, field, text, says) in [
        (0, "cpus", "2,14", "shares a core with slot `a`"),
        (0, "cpus", "0,12", "not in the pool"),
        (0, "cpus", "1,40", "not in the pool"),
        (0, "cpus", "1", "a part of a core only"),
        (0, "cpus", "1,13,7,19", "across several L3 domains"),
        (0, "cpus", "", "has no core"),
        (0, "tick", "1", "is not what a slot of its kind"),
        (0, "unused", "5,17", "is not what a slot of its kind"),
        (0, "name", "b", "is there twice"),
        (0, "name", "a b", "is no name"),
        (0, "tenant", "", "is no name"),
        (1, "unused", "", "a part of a core only"),
        (1, "cpus", "2-3,14-15", "is not what a slot of its kind"),
        (1, "tick", "3", "is not what a slot of its kind"),
        (1, "cpus", "2", "is not what a slot of its kind"),
    ] {
        let error = edited(|ledger| ledger["slots"][slot][field] = json!(text)).unwrap_err();
        assert!(
            error.to_string().contains(says),
            "{field} = {text:?}: {error}"
        );
    }
    let other = "0".repeat(64);
    let error = edited(|ledger| ledger["fingerprint"] = json!(other)).unwrap_err();
    assert_eq!(error.code(), "ledger-stale");
}

#[test]
fn without_mitigations_there_is_one_tenant() {
    let found = machine(&[(8, 32)], 2, false, 1);
    for single_tenant in [true, false] {
        let order = Order {
            single_tenant,
            ..DEDICATED
        };
        let plan = super::plan(&found, order).unwrap();
        let mut ledger = Ledger::of(&plan);
        ledger.add(&plan, wanted("a", Kind::Density, 1)).unwrap();
        ledger.add(&plan, wanted("b", Kind::Density, 1)).unwrap();
        let other = Wanted {
            tenant: "other",
            ..wanted("c", Kind::Density, 1)
        };
        let result = ledger.add(&plan, other);
        assert_eq!(result.is_err(), single_tenant, "{result:?}");
        // One that leaves makes room for another.
        ledger.remove("a").unwrap();
        ledger.remove("b").unwrap();
        assert!(single_tenant == ledger.add(&plan, other).is_ok());
    }
}
