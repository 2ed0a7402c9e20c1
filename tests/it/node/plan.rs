//! `kiln node plan`: who owns which core, and every reason for not saying it.

use std::collections::BTreeMap;

use kiln::cpus::CpuSet;
use kiln::failure::{Diagnose as _, Exit};
use kiln::machine::{Fingerprint, Root};
use kiln::node::{Order, Plan, Refusal, Role, command_line, plan};

use super::unpacked;
use crate::support::machines::{Shape, write_files};
use crate::support::{Case, Env, Outcome, Stop, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("node::housekeeping_is_chosen_per_domain", housekeeping),
        Case::new("node::stacked_cache_keeps_no_house_when_dedicated", stacked),
        Case::new("node::boot_parameters_of_the_worked_example", parameters),
        Case::new("node::mitigations_follow_tenancy", mitigations),
        Case::new("node::every_refusal_has_a_twin_that_plans", refusals),
        Case::new(
            "node::a_refusal_says_what_would_make_a_plan",
            refusal_is_told,
        ),
        Case::new("node::slots_are_whole_cores_of_one_domain", slots),
        Case::new("node::interrupts_go_to_housekeeping_in_turn", interrupts),
        Case::new("node::only_the_pool_loses_deep_idle_states", idle),
        Case::new("node::decisions_have_reason_undo_and_cost", decisions),
        Case::new("node::plan_is_drawn", drawn),
        Case::new("node::captured_epyc_is_planned", captured_epyc),
    ]
}

const SHARED: Order = Order {
    role: Role::Shared,
    single_tenant: false,
    vcpus_pinned: false,
};

const DEDICATED: Order = Order {
    role: Role::Dedicated,
    ..SHARED
};

/// The files of a shape, in a tree of their own.
struct Tree {
    env: Env,
    files: BTreeMap<String, String>,
}

impl Tree {
    fn of(shape: &Shape) -> Result<Self, Stop> {
        Ok(Self {
            env: Env::new()?,
            files: shape.files(),
        })
    }

    fn plan(&self, order: Order) -> Result<Result<Plan, Refusal>, Stop> {
        let tree = self.env.path("tree");
        if tree.exists() {
            std::fs::remove_dir_all(&tree)?;
        }
        write_files(&tree, &self.files)?;
        let found = Fingerprint::read(&Root::open(&tree)?, &tree)?;
        Ok(plan(&found, order))
    }

    fn planned(&self, order: Order) -> Result<Plan, Stop> {
        Ok(self.plan(order)??)
    }

    /// Replaces the text of every file whose path `of` takes; drops it where there is no text.
    fn change(&mut self, of: impl Fn(&str) -> bool, text: Option<&str>) {
        let before = self.files.clone();
        match text {
            Some(text) => {
                for (path, old) in &mut self.files {
                    if of(path) {
                        text.clone_into(old);
                    }
                }
            }
            None => self.files.retain(|path, _| !of(path)),
        }
        assert_ne!(before, self.files, "nothing is changed");
    }
}

fn planned(shape: &Shape, order: Order) -> Result<Plan, Stop> {
    Tree::of(shape)?.planned(order)
}

fn housekeeping() -> Outcome {
    for (shape, house, pool) in [
        (Shape::single_ccd(), "0-1,8-9", "2-7,10-15"),
        (
            Shape::dual_ccd(),
            "0-1,8-9,16-17,24-25",
            "2-7,10-15,18-23,26-31",
        ),
        (Shape::two_by_six(), "0,6,12,18", "1-5,7-11,13-17,19-23"),
        (Shape::small(), "0", "1-3"),
        (Shape::smt_off(), "0-1", "2-7"),
        // Core 3 does not run; the second threads begin behind the hole.
        (
            Shape::offline_and_holes(),
            "0-1,12-13,20-21,28-29",
            "2,4-7,14-19,22,24-27,30-35",
        ),
        // Shared: no domain is spared.
        (Shape::x3d(), "0-1,8-9,16-17,24-25", "2-7,10-15,18-23,26-31"),
    ] {
        let plan = planned(&shape, SHARED)?;
        assert_eq!(plan.housekeeping.to_string(), house, "{}", shape.name);
        assert_eq!(plan.pool.to_string(), pool, "{}", shape.name);
    }
    let epyc = planned(&Shape::epyc(), SHARED)?;
    assert_eq!(epyc.housekeeping.len(), 2 * 16);
    assert_eq!(epyc.pool.len(), 2 * 32);
    let offline = planned(&Shape::offline_and_holes(), SHARED)?.offline;
    assert_eq!(offline.to_string(), "3,23");
    Ok(())
}

fn stacked() -> Outcome {
    let plan = planned(&Shape::x3d(), DEDICATED)?;
    assert_eq!(plan.housekeeping.to_string(), "8-9,24-25");
    let first: CpuSet = plan.pool_order[..8].iter().collect();
    assert_eq!(first.to_string(), "0-7,16-23");
    assert!(plan.decisions[1].what.contains("96 MiB keeps no house"));
    // The twins: just below the floor, and equal.
    for sizes in [(63, 32), (96, 96), (32, 32)] {
        let shape = Shape::of("twin", &[&[(8, sizes.0), (8, sizes.1)]], 2);
        let plan = planned(&shape, DEDICATED)?;
        assert_eq!(
            plan.housekeeping.to_string(),
            "0-1,8-9,16-17,24-25",
            "{sizes:?}"
        );
    }
    // Larger caches are given away first on a shared machine too.
    let later = Shape::of("later", &[&[(4, 16), (4, 32)]], 1);
    let order = planned(&later, SHARED)?.pool_order;
    let order: Vec<String> = order.iter().map(CpuSet::to_string).collect();
    assert_eq!(order, ["5", "6", "7", "1", "2", "3"]);
    Ok(())
}

fn parameters() -> Outcome {
    let plan = planned(&Shape::dual_ccd(), SHARED)?;
    let (house, pool) = ("0-1,8-9,16-17,24-25", "2-7,10-15,18-23,26-31");
    assert_eq!(
        command_line(&plan.parameters),
        format!(
            "preempt=full panic=10 oops=panic skew_tick=1 irqaffinity={house} \
             isolcpus=managed_irq,{pool} workqueue.unbound_cpus={house} \
             transparent_hugepage=madvise numa_balancing=disable \
             rcupdate.rcu_normal_after_boot=1 rcutree.enable_rcu_lazy=0 mitigations=auto"
        )
    );
    Ok(())
}

fn mitigations() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::x3d().write(&env)?;
    let run = |words: &str| {
        let words = format!("node plan {words} --format json --sysfs {tree}");
        env.kiln(words.split(' ')).run()
    };
    for (words, value) in [
        ("--role shared", "auto"),
        ("--role dedicated", "auto"),
        ("--role dedicated --tenants single", "off"),
    ] {
        let answer = run(words)?.exits(0)?.json()?;
        let line = answer["command_line"].as_str().unwrap_or_default();
        assert!(
            line.ends_with(&format!(" mitigations={value}")),
            "{words}: {line}"
        );
        let cost = answer["plan"]["decisions"][7]["cost"].as_str();
        let says = cost.is_some_and(|cost| cost.contains("can read all memory"));
        assert_eq!(says, value == "off", "{words}: {cost:?}");
    }
    // A word that contradicts itself, and one that nobody knows.
    let ran = run("--role shared --tenants single")?.exits(Exit::Usage)?;
    ran.says("vouches for one")?;
    run("--role dedicated --tenants many")?.exits(Exit::Usage)?;
    run("--tenants single")?.exits(Exit::Usage)?;
    Ok(())
}

const CPU: &str = "sys/devices/system/cpu";

/// A plan is refused, and its twin, which differs in that one thing, is made.
fn twin(code: &str, bad: &Tree, good: &Tree, order: Order) -> Outcome {
    twin_by_order(code, (bad, order), (good, order))
}

fn twin_by_order(code: &str, bad: (&Tree, Order), good: (&Tree, Order)) -> Outcome {
    match bad.0.plan(bad.1)? {
        Ok(_) => return Err(fail(format!("{code}: there is a plan"))),
        Err(refusal) => {
            assert_eq!(refusal.code(), code, "{refusal}");
            assert_eq!(refusal.exit(), Exit::NodeRefused);
            assert!(!refusal.hints().is_empty(), "{code}");
        }
    }
    match good.0.plan(good.1)? {
        Ok(_) => Ok(()),
        Err(refusal) => Err(fail(format!("the twin of {code}: {refusal}"))),
    }
}

fn refusals() -> Outcome {
    let good = Tree::of(&Shape::dual_ccd())?;
    // One file of a good machine is changed.
    let is = |name: &'static str| move |path: &str| path == format!("{CPU}/{name}");
    let ends = |end: &'static str| move |path: &str| path.ends_with(end);
    for (code, of, text) in [
        (
            "topology-unreadable",
            "cpu5/topology/core_cpus_list",
            Some("5,a\n"),
        ),
        (
            "topology-unreadable",
            "cpu5/cache/index3/shared_cpu_list",
            Some("\u{1b}\n"),
        ),
        (
            "topology-unreadable",
            "cpu5/cache/index3/size",
            Some("32\n"),
        ),
        ("topology-unreadable", "online", Some("all\n")),
        ("isolcpus-active", "isolated", Some("1-3\n")),
        (
            "topology-contradicts-itself",
            "cpu5/topology/core_cpus_list",
            Some("5\n"),
        ),
        (
            "topology-contradicts-itself",
            "cpu5/topology/core_cpus_list",
            Some("5,21,99\n"),
        ),
        (
            "topology-contradicts-itself",
            "cpu5/cache/index3/shared_cpu_list",
            Some("5,21\n"),
        ),
        (
            "topology-contradicts-itself",
            "cpu5/cache/index3/size",
            Some("16384K\n"),
        ),
        (
            "topology-contradicts-itself",
            "cpu5/topology/physical_package_id",
            Some("1\n"),
        ),
        ("topology-contradicts-itself", "online", Some("0-32\n")),
        ("half-a-core", "smt/control", None),
    ] {
        if text.is_some() {
            let mut bad = Tree::of(&Shape::dual_ccd())?;
            bad.change(is(of), text);
            twin(code, &bad, &good, SHARED)?;
        } else {
            // Threads that are off: whole where SMT is off, in doubt where nothing says so.
            let mut bad = Tree::of(&Shape::smt_off())?;
            bad.change(is(of), text);
            twin(code, &bad, &Tree::of(&Shape::smt_off())?, SHARED)?;
        }
    }
    let mut bad = Tree::of(&Shape::dual_ccd())?;
    bad.change(ends("proc/cpuinfo"), None);
    twin("platform-unknown", &bad, &good, SHARED)?;
    let mut bad = Tree::of(&Shape::dual_ccd())?;
    bad.change(ends("index3/size"), None);
    twin("cache-size-unknown", &bad, &good, SHARED)?;
    let mut bad = Tree::of(&Shape::dual_ccd())?;
    bad.change(ends("node0/cpulist"), Some("0-3,16-19\n"));
    let rest = "sys/devices/system/node/node1/cpulist".to_owned();
    bad.files.insert(rest, "4-15,20-31\n".to_owned());
    twin("topology-contradicts-itself", &bad, &good, SHARED)?;
    shapes_in_doubt()
}

fn shapes_in_doubt() -> Outcome {
    let tree = |shape: Shape| Tree::of(&shape);
    let good = tree(Shape::single_ccd())?;
    twin(
        "cores-of-several-kinds",
        &tree(Shape::hybrid())?,
        &good,
        SHARED,
    )?;
    twin(
        "cores-of-several-kinds",
        &tree(Shape::strix_point())?,
        &good,
        DEDICATED,
    )?;
    // A chip with unequal caches and cores of one kind has a plan, and no stacked cache.
    let alike = tree(Shape::of("16+8", &[&[(4, 16), (8, 8)]], 2))?;
    assert_eq!(
        alike.planned(DEDICATED)?.housekeeping.to_string(),
        "0,4-5,12,16-17"
    );
    // One thread of a core is off; the twin has all of the core off.
    let with_offline = |offline: &[u16]| {
        let mut shape = Shape::single_ccd();
        shape.offline = offline.iter().copied().collect();
        tree(shape)
    };
    twin(
        "half-a-core",
        &with_offline(&[13])?,
        &with_offline(&[5, 13])?,
        SHARED,
    )?;
    let pinned = Order {
        vcpus_pinned: true,
        ..SHARED
    };
    let flat = tree(Shape::vm_flat())?;
    twin_by_order("virtual-machine", (&flat, SHARED), (&flat, pinned))?;
    twin(
        "caches-unknown",
        &tree(Shape::vm_without_caches())?,
        &flat,
        pinned,
    )?;
    let many = tree(Shape::of("many", &[&[(8, 96), (8, 32), (8, 32)]], 2))?;
    twin_by_order("unequal-caches", (&many, DEDICATED), (&many, SHARED))?;
    let two = tree(Shape::of("two", &[&[(2, 8)]], 1))?;
    twin("too-few-cores", &tree(Shape::single_core())?, &two, SHARED)?;
    let with_queues = |queues| {
        let mut shape = Shape::of("two", &[&[(2, 8)]], 1);
        shape.queues = queues;
        tree(shape)
    };
    // Beside the queues: `ahci` and the drive's own.
    twin(
        "too-few-vectors",
        &with_queues(199)?,
        &with_queues(198)?,
        SHARED,
    )
}

fn refusal_is_told() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::vm_flat().write(&env)?;
    let run = |words: &str| {
        let words = format!("node plan --role shared --svg map.svg{words} --sysfs {tree}");
        env.kiln(words.split(' ')).run()
    };
    let ran = run("")?.exits(Exit::NodeRefused)?;
    ran.warns("no plan: this is a virtual machine")?
        .warns("--vcpus-pinned")?;
    assert!(!env.path("map.svg").exists(), "a map of no plan");
    let ran = run(" --format json")?.exits(Exit::NodeRefused)?;
    assert_eq!(
        ran.json()?["error"]["code"],
        "virtual-machine",
        "{}",
        ran.stdout
    );
    run(" --vcpus-pinned")?
        .exits(0)?
        .says("plan for a shared machine")?;
    assert!(env.path("map.svg").exists());
    Ok(())
}

fn slots() -> Outcome {
    let plan = planned(&Shape::two_by_six(), SHARED)?;
    let density: Vec<String> = plan.slots.density.iter().map(CpuSet::to_string).collect();
    assert_eq!(density[..3], ["1,13", "2,14", "3,15"]);
    let first = &plan.slots.determinism[0];
    assert_eq!(
        [&first.tick, &first.unused, &first.helper].map(CpuSet::to_string),
        ["1", "13", "2,14"]
    );
    // Five cores of a domain make two slots, and one is odd: no slot crosses to the other domain.
    assert_eq!(plan.slots.determinism.len(), 4);
    let odd: Vec<String> = plan.slots.odd.iter().map(CpuSet::to_string).collect();
    assert_eq!(odd, ["5,17", "11,23"]);
    assert_eq!(
        plan.decisions[4].cost.as_deref(),
        Some("1 thread a slot, which nobody can use")
    );
    // Without second threads nothing is lost.
    let plan = planned(&Shape::smt_off(), SHARED)?;
    assert_eq!(plan.slots.price(), 0);
    assert!(plan.slots.determinism[0].unused.is_empty());
    Ok(())
}

fn interrupts() -> Outcome {
    let plan = planned(&Shape::dual_ccd(), SHARED)?;
    let given: Vec<(&str, u16)> = plan
        .interrupts
        .given
        .iter()
        .map(|given| (&*given.name, given.cpu))
        .collect();
    assert_eq!(
        given,
        [
            ("ahci", 0),
            ("nvme0q0", 1),
            ("eth0-rx-0", 8),
            ("eth0-rx-1", 9),
            ("eth0-rx-2", 16),
            ("eth0-rx-3", 17),
        ]
    );
    assert_eq!(plan.interrupts.managed.len(), 32);
    assert_eq!(plan.interrupts.vectors, 1600);
    // The drive has a queue for every CPU, which `managed_irq` cannot help; the card has few enough.
    let queues = &plan.interrupts.queues;
    assert_eq!(queues.len(), 1);
    assert_eq!((&*queues[0].device, queues[0].at_most), ("nvme0", 8));
    assert!(queues[0].why.contains("does nothing"));
    let mut shape = Shape::dual_ccd();
    shape.queues = 9;
    let queues = planned(&shape, SHARED)?.interrupts.queues;
    assert_eq!((&*queues[0].device, queues[0].at_most), ("eth0", 8));
    Ok(())
}

fn idle() -> Outcome {
    let plan = planned(&Shape::dual_ccd(), SHARED)?;
    let caps: Vec<_> = plan
        .caps
        .iter()
        .map(|cap| (&*cap.name, cap.latency_us))
        .collect();
    assert_eq!(caps, [("C2", 350)]);
    assert_eq!(plan.caps[0].cpus, plan.pool);
    // The twin: a state that is left in time, on some of the cores.
    let mut tree = Tree::of(&Shape::dual_ccd())?;
    let fast = |path: &str| path.ends_with("/state2/latency") && !path.contains("/cpu5/");
    tree.change(fast, Some("100\n"));
    let caps = tree.planned(SHARED)?.caps;
    assert_eq!(caps[0].cpus.to_string(), "5");
    tree.change(|path| path.ends_with("/state2/latency"), Some("18\n"));
    assert_eq!(tree.planned(SHARED)?.caps, []);
    Ok(())
}

fn decisions() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::x3d().write(&env)?;
    let words = [
        "node",
        "plan",
        "--role",
        "dedicated",
        "--sysfs",
        tree.as_str(),
    ];
    let ran = env.kiln(words).run()?.exits(0)?;
    for number in 1..=8 {
        assert!(
            ran.stdout.contains(&format!("\n{number} ")),
            "{number}: {}",
            ran.stdout
        );
    }
    assert_eq!(ran.stdout.matches("  undo:  ").count(), 8);
    assert_eq!(ran.stdout.matches("  why:   ").count(), 8);
    assert_eq!(ran.stdout.matches("  cost:  ").count(), 2);
    let words = [
        "node",
        "plan",
        "--role",
        "dedicated",
        "--sysfs",
        tree.as_str(),
    ];
    let again = env.kiln(words).run()?.exits(0)?;
    assert_eq!(ran.stdout, again.stdout, "the same machine, another plan");
    ran.says("7 idle states, planned: C2 (350 us) off on CPUs 0-7,10-23,26-31\n")?
        .says("3 fence, planned: a partition of kind `root` holds CPUs 0-7,10-23,26-31;")?
        .says("  isolcpus=domain ")?;
    Ok(())
}

fn drawn() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::x3d().write(&env)?;
    let words = "node plan --role dedicated --svg map.svg --sysfs";
    let ran = env
        .kiln(words.split(' '))
        .arg(tree.as_str())
        .run()?
        .exits(0)?;
    ran.says(
        "package 0, node 0, L3 96 MiB, stacked: keeps no house\n  \
         [P8 0,16] [P1 1,17] [P2 2,18] [P3 3,19] [P4 4,20] [P5 5,21] [P6 6,22] [P7 7,23]\n\
         package 0, node 0, L3 32 MiB\n  \
         [H 8,24   ] [H 9,25   ] [P9 10,26 ] [P10 11,27] [P11 12,28] [P12 13,29] [P13 14,30] [P14 15,31]\n",
    )?;
    let svg = env.read("map.svg")?;
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
    assert!(svg.ends_with("</svg>\n"));
    // One for the ground, one a domain, one a core.
    assert_eq!(svg.matches("<rect ").count(), 1 + 2 + 16);
    assert_eq!(
        svg.matches("<text ").count(),
        svg.matches("</text>").count()
    );
    assert_eq!(svg.matches(">H</text>").count(), 2);
    assert!(svg.contains(">P14</text>") && !svg.contains(">P15</text>"));
    for foreign in ["<script", "href", "url("] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    Ok(())
}

fn captured_epyc() -> Outcome {
    let env = Env::new()?;
    let tree = unpacked(&env, "x86_64-epyc_7451.tar.gz", "x86_64-epyc_7451")?;
    let found = Fingerprint::read(&Root::open(&tree)?, &tree)?;
    let plan = plan(&found, SHARED)?;
    // Sixteen domains of three cores: one keeps house in each.
    assert_eq!((plan.housekeeping.len(), plan.pool.len()), (32, 64));
    assert_eq!(plan.slots.determinism.len(), 16);
    let tree = unpacked(
        &env,
        "16em64t-4s2c2t-offlines.tar.bz2",
        "16em64t-4s2c2t-offlines",
    )?;
    let found = Fingerprint::read(&Root::open(&tree)?, &tree)?;
    assert!(
        kiln::node::plan(&found, SHARED).is_err(),
        "a plan beside threads that are off"
    );
    Ok(())
}
