//! What holds of every plan, on machines made up at random.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::cpus::CpuSet;
use crate::digest::Sha256;
use crate::failure::{Diagnose as _, Exit};
use crate::machine::{
    Domain as Cache, Fingerprint, Frequency, Idle, IdleState, Interrupt, Movable, Numbered,
    Platform, Topology,
};
use crate::proof::canonical;

fn metal(topology: Topology) -> Fingerprint {
    let cpus = topology.online.clone();
    let state = |index, latency_us| IdleState {
        index,
        name: format!("C{index}"),
        latency_us,
        cpus: cpus.clone(),
        disabled: CpuSet::new(),
    };
    Fingerprint {
        hash: Sha256::of(b"made up"),
        platform: Platform::Metal,
        product: String::new(),
        model: String::new(),
        microcode: BTreeSet::new(),
        kernel: String::new(),
        isolated: CpuSet::new(),
        nohz_full: CpuSet::new(),
        idle: Idle {
            states: vec![
                state(0, 0),
                state(1, 1),
                state(2, 100),
                state(3, 101),
                state(4, 350),
            ],
            ..Idle::default()
        },
        frequency: Frequency::default(),
        interrupts: Vec::new(),
        devices: Vec::new(),
        vulnerabilities: BTreeMap::new(),
        faults: Vec::new(),
        topology,
    }
}

/// A machine that holds together: domains of so many cores and MiB, in packages by turns.
pub(super) fn machine(
    domains: &[(usize, u64)],
    threads: u16,
    beside: bool,
    packages: u16,
) -> Fingerprint {
    let total: usize = domains.iter().map(|(cores, _)| cores).sum();
    let total = u16::try_from(total).unwrap();
    let mut topology = Topology {
        smt: if threads > 1 { "on" } else { "notsupported" }.to_owned(),
        ..Topology::default()
    };
    let mut core = 0;
    for (at, (cores, mib)) in (0..).zip(domains) {
        let mut cpus = CpuSet::new();
        for _ in 0..*cores {
            let threads = (0..threads).map(|thread| {
                if beside {
                    core * threads + thread
                } else {
                    core + thread * total
                }
            });
            let threads: CpuSet = threads.collect();
            cpus = cpus.union(&threads);
            topology.cores.push(threads);
            core += 1;
        }
        topology.online = topology.online.union(&cpus);
        let package = at % packages;
        match topology
            .packages
            .iter_mut()
            .find(|found| found.id == package)
        {
            Some(found) => found.cpus = found.cpus.union(&cpus),
            None => topology.packages.push(Numbered {
                id: package,
                cpus: cpus.clone(),
            }),
        }
        topology.domains.push(Cache {
            cpus,
            size_kib: Some(mib * 1024),
        });
    }
    topology.nodes.clone_from(&topology.packages);
    topology.present.clone_from(&topology.online);
    topology.possible.clone_from(&topology.online);
    metal(topology)
}

fn interrupt(number: u16, movable: Movable) -> Interrupt {
    Interrupt {
        number,
        name: format!("dev{number}"),
        movable,
        allowed: CpuSet::new(),
        effective: CpuSet::new(),
    }
}

pub(super) const SHARED: Order = Order {
    role: Role::Shared,
    single_tenant: false,
    vcpus_pinned: false,
};

pub(super) const DEDICATED: Order = Order {
    role: Role::Dedicated,
    ..SHARED
};

pub(super) fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(SHARED),
        Just(DEDICATED),
        Just(Order {
            single_tenant: true,
            ..DEDICATED
        }),
    ]
}

pub(super) fn machines() -> impl Strategy<Value = Fingerprint> {
    let size = prop_oneof![Just(8_u64), Just(16), Just(32), Just(64), Just(96)];
    let domains = proptest::collection::vec((1..11_usize, size), 1..6);
    let kinds = prop_oneof![
        Just(Movable::Yes),
        Just(Movable::Managed),
        Just(Movable::No)
    ];
    let interrupts = proptest::collection::vec(kinds, 0..250);
    (domains, 1..3_u16, any::<bool>(), 1..3_u16, interrupts).prop_map(
        |(domains, threads, beside, packages, interrupts)| {
            let mut found = machine(&domains, threads, beside, packages);
            let numbered = (20..).zip(interrupts);
            found.interrupts = numbered
                .map(|(number, kind)| interrupt(number, kind))
                .collect();
            found
        },
    )
}

/// Everything that holds of every plan.
fn holds(found: &Fingerprint, order: Order, plan: &Plan) {
    let topology = &found.topology;
    classes_hold(topology, order, plan);
    slots_hold(topology, plan);
    parameters_hold(order, plan);
    // Interrupts: all that move, to housekeeping, none twice as often as another.
    let movable = found
        .interrupts
        .iter()
        .filter(|i| i.movable == Movable::Yes);
    assert_eq!(plan.interrupts.given.len(), movable.count());
    let mut load: BTreeMap<u16, usize> = plan.housekeeping.iter().map(|cpu| (cpu, 0)).collect();
    for given in &plan.interrupts.given {
        *load.get_mut(&given.cpu).expect("a housekeeping CPU") += 1;
    }
    let (most, least) = (load.values().max(), load.values().min());
    assert!(most.unwrap() - least.unwrap() <= 1, "{load:?}");
    // Idle states: those above 100 us, all of them, and of the pool alone.
    for state in &found.idle.states {
        let of = |cap: &&Cap| cap.index == state.index;
        let capped = plan.caps.iter().find(of).map(|cap| cap.cpus.clone());
        let wanted = state.cpus.intersection(&plan.pool);
        let wanted = (state.latency_us > 100 && !wanted.is_empty()).then_some(wanted);
        assert_eq!(capped, wanted);
    }
    // Decisions: eight, each with a way back, two with a price.
    let numbers = plan.decisions.iter().map(|decision| decision.number);
    assert!(numbers.eq(1..=8));
    let priced = plan
        .decisions
        .iter()
        .filter(|decision| decision.cost.is_some());
    let priced: Vec<&str> = priced.map(|decision| &*decision.name).collect();
    assert_eq!(priced, ["tick core alone", "mitigations"]);
    for decision in &plan.decisions {
        for text in [&decision.what, &decision.why, &decision.undo] {
            assert!(text.len() > 5, "{decision:?}");
        }
    }
    // The same again, and through JSON.
    assert_eq!(super::plan(found, order).as_ref(), Ok(plan));
    let bytes = canonical::to_vec("plan", plan).unwrap();
    assert_eq!(
        &canonical::from_slice::<Plan>("plan", &bytes).unwrap(),
        plan
    );
}

fn classes_hold(topology: &Topology, order: Order, plan: &Plan) {
    assert!(plan.housekeeping.is_disjoint(&plan.pool));
    assert_eq!(plan.housekeeping.union(&plan.pool), topology.online);
    assert!(!plan.housekeeping.is_empty() && !plan.pool.is_empty());
    let drawn = plan.domains.iter().flat_map(|domain| &domain.cores);
    let drawn: Vec<&CpuSet> = drawn.map(|core| &core.cpus).collect();
    assert_eq!(drawn.len(), topology.cores.len());
    for core in &topology.cores {
        // Siblings are in one class, and drawn once.
        assert!(core.is_subset(&plan.housekeeping) || core.is_subset(&plan.pool));
        assert_eq!(drawn.iter().filter(|other| **other == core).count(), 1);
    }
    for domain in &plan.domains {
        let house = |core: &&PlannedCore| core.class == Class::Housekeeping;
        let keeping = domain.cores.iter().filter(house).count();
        let wanted = match domain.cores.len() {
            _ if domain.spared => 0,
            0..=6 => 1,
            _ => 2,
        };
        assert_eq!(keeping, wanted, "{domain:?}");
        for core in &domain.cores {
            let set = match core.class {
                Class::Housekeeping => &plan.housekeeping,
                Class::Pool => &plan.pool,
            };
            assert!(core.cpus.is_subset(set));
        }
        if domain.spared {
            assert_eq!((order.role, plan.domains.len()), (Role::Dedicated, 2));
            let larger =
                |other: &PlannedDomain| other == domain || other.size_kib < domain.size_kib;
            assert!(domain.size_kib >= 65536 && plan.domains.iter().all(larger));
        }
    }
    // Larger caches are given away first.
    let size = |core: &CpuSet| {
        let of = |cache: &&Cache| core.is_subset(&cache.cpus);
        topology.domains.iter().find(of).unwrap().size_kib
    };
    let sizes: Vec<_> = plan.pool_order.iter().map(size).collect();
    assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
    let ordered: CpuSet = plan.pool_order.iter().collect();
    assert_eq!(ordered, plan.pool);
}

fn slots_hold(topology: &Topology, plan: &Plan) {
    let slots = &plan.slots;
    assert_eq!(slots.density, plan.pool_order);
    let mut taken = BTreeSet::new();
    let mut take = |cpus: &CpuSet| {
        for cpu in cpus.iter() {
            assert!(taken.insert(cpu), "CPU {cpu} is in two slots");
        }
    };
    for slot in &slots.determinism {
        assert_eq!(slot.tick.len(), 1);
        assert!(
            !slot.tick.contains(topology.online.first().unwrap()),
            "the boot CPU ticks"
        );
        let tick_core = slot.tick.union(&slot.unused);
        assert!(topology.cores.contains(&tick_core) && topology.cores.contains(&slot.helper));
        let both = tick_core.union(&slot.helper);
        assert!(
            topology
                .domains
                .iter()
                .any(|cache| both.is_subset(&cache.cpus))
        );
        take(&both);
    }
    slots.odd.iter().for_each(take);
    assert_eq!(taken.into_iter().collect::<CpuSet>(), plan.pool);
}

fn parameters_hold(order: Order, plan: &Plan) {
    let line = command_line(&plan.parameters);
    let words: BTreeMap<&str, &str> = line
        .split(' ')
        .map(|w| w.split_once('=').unwrap())
        .collect();
    assert_eq!(words.len(), plan.parameters.len(), "{line}");
    let set = |name: &str| words[name].parse::<CpuSet>().unwrap();
    assert_eq!(set("irqaffinity"), plan.housekeeping);
    assert_eq!(set("workqueue.unbound_cpus"), plan.housekeeping);
    let managed = words["isolcpus"].strip_prefix("managed_irq,").unwrap();
    assert_eq!(managed.parse::<CpuSet>().unwrap(), plan.pool);
    let off = order.role == Role::Dedicated && order.single_tenant;
    assert_eq!(words["mitigations"], if off { "off" } else { "auto" });
    // What is left out is not in.
    for left_out in &plan.left_out {
        for name in left_out.name.split(", ").filter(|name| !name.contains('=')) {
            assert!(!words.contains_key(name), "{name}");
        }
    }
    let reasons = plan
        .parameters
        .iter()
        .all(|parameter| parameter.why.len() > 10);
    assert!(reasons);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_plan_holds(found in machines(), order in orders()) {
        let domains = &found.topology.domains;
        match super::plan(&found, order) {
            Ok(plan) => holds(&found, order, &plan),
            Err(Refusal::TooFewCores { .. }) => {
                let cores = |cache: &Cache| found.topology.cores_in(&cache.cpus).count();
                prop_assert!(domains.iter().all(|cache| cores(cache) == 1));
            }
            Err(Refusal::ManyUnequal { .. }) => {
                prop_assert!(order.role == Role::Dedicated && domains.len() > 2);
            }
            Err(Refusal::Vectors { wanted, budget, .. }) => prop_assert!(wanted > budget),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    /// Descriptions that contradict themselves give no plan, or one that holds all the same.
    #[test]
    fn no_description_breaks_the_planner(
        cores in proptest::collection::vec(cpus(), 0..6),
        caches in proptest::collection::vec((cpus(), proptest::option::of(1..200_u64)), 0..4),
        nodes in proptest::collection::vec(cpus(), 0..3),
        online in cpus(),
        smt in prop_oneof![Just("on"), Just("off"), Just("")],
        order in orders()
    ) {
        let numbered = |sets: Vec<CpuSet>| {
            let sets = (0..).zip(sets);
            sets.map(|(id, cpus)| Numbered { id, cpus }).collect()
        };
        let found = metal(Topology {
            present: online.clone(),
            possible: online.clone(),
            online,
            packages: Vec::new(),
            nodes: numbered(nodes),
            domains: caches
                .into_iter()
                .map(|(cpus, mib)| Cache { cpus, size_kib: mib.map(|mib| mib << 10) })
                .collect(),
            cores,
            kinds: Vec::new(),
            smt: smt.to_owned(),
        });
        match super::plan(&found, order) {
            Ok(plan) => holds(&found, order, &plan),
            Err(refusal) => {
                prop_assert_eq!(refusal.exit(), Exit::NodeRefused);
                prop_assert!(refusal.to_string().starts_with("no plan: "));
                prop_assert!(!refusal.hints().is_empty());
            }
        }
    }
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    proptest::collection::vec(0..8_u16, 0..5).prop_map(|cpus| cpus.into_iter().collect())
}

#[test]
fn the_boot_cpu_is_given_away_last_in_its_domain() {
    let found = machine(&[(8, 96), (8, 32)], 2, false, 1);
    let plan = super::plan(&found, DEDICATED).unwrap();
    let order: Vec<u16> = plan.pool_order.iter().filter_map(CpuSet::first).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 0, 10, 11, 12, 13, 14, 15]);
}

#[test]
fn vectors_are_a_budget() {
    let mut found = machine(&[(2, 8)], 1, false, 1);
    found.interrupts = (0..200)
        .map(|number| interrupt(number, Movable::Yes))
        .collect();
    assert!(super::plan(&found, SHARED).is_ok());
    found.interrupts.push(interrupt(200, Movable::Yes));
    let refusal = super::plan(&found, SHARED).unwrap_err();
    assert!(
        matches!(
            refusal,
            Refusal::Vectors {
                wanted: 201,
                budget: 200,
                ..
            }
        ),
        "{refusal}"
    );
    // Those that nobody moves take none of it.
    found.interrupts[7].movable = Movable::Managed;
    assert!(super::plan(&found, SHARED).is_ok());
}
