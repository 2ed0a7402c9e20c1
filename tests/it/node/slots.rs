//! `kiln node slots`: cores given away and taken back.

use kiln::cpus::CpuSet;
use kiln::failure::Exit;

use crate::support::machines::Shape;
use crate::support::{Case, Env, Outcome, Ran, Stop};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("node::slots_are_given_and_taken_back", given_and_taken),
        Case::new("node::slots_are_never_oversold", never_oversold),
        Case::new("node::slots_of_another_topology_are_refused", stale),
        Case::new("node::slots_given_at_once_are_apart", at_once),
    ]
}

/// `kiln node slots` on a machine of two domains of six cores.
struct Node {
    env: Env,
    tree: String,
}

impl Node {
    fn new() -> Result<Self, Stop> {
        let env = Env::new()?;
        let tree = Shape::two_by_six().write(&env)?.into_string();
        Ok(Self { env, tree })
    }

    fn words(&self, words: &str) -> Vec<String> {
        let line = format!(
            "node slots {words} --ledger slots.json --sysfs {}",
            self.tree
        );
        line.split(' ').map(str::to_owned).collect()
    }

    fn slots(&self, words: &str) -> Result<Ran, Stop> {
        self.env.kiln(self.words(words)).run()
    }
}

fn given_and_taken() -> Outcome {
    let node = Node::new()?;
    // The first needs to know what the machine is for.
    let ran = node.slots("add lobby --tenant acme")?.exits(Exit::Usage)?;
    ran.warns("no `--role` to begin one")?;
    assert!(!node.env.path("slots.json").exists());
    node.slots("add lobby --tenant acme --role shared")?
        .exits(0)?
        .says("gave `lobby` (density) CPUs 1,13\n")?
        .says("AllowedCPUs=1,13 ")?
        .says("--cpuset-cpus=1,13 ")?
        .says("free: 9 of 10 cores, CPUs 2-5,7-11,14-17,19-23\n")?;
    node.slots("add arena --tenant acme --kind determinism")?
        .exits(0)?
        .says("gave `arena` (determinism) CPUs 2-3,15, tick 2, unused 14\n")?
        .says("AllowedCPUs=2-3,15 ")?
        .says("taskset -pc 2 TID")?;
    // Three cores of one domain: the first has two left.
    node.slots("add big --tenant other --cores 3")?
        .exits(0)?
        .says("gave `big` (density) CPUs 7-9,19-21\n")?;
    let list = node.slots("list")?.exits(0)?;
    list.says("arena  acme   determinism  2-3,15, tick 2, unused 14\nbig    other  density      7-9,19-21\n")?
        .says("free: 4 of 10 cores, CPUs 4-5,10-11,16-17,22-23\n")?;
    node.slots("remove arena")?
        .exits(0)?
        .says("took `arena` back: CPUs 2-3,14-15\n")?;
    let answer = node.slots("list --format json")?.exits(0)?.json()?;
    assert_eq!(answer["ledger"]["slots"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["free"][0], "2,14");
    for (words, says) in [
        ("remove arena", "there is no slot `arena`"),
        ("add big --tenant acme", "there is a slot `big` already"),
        ("add x;y --tenant acme", "is no name"),
        (
            "add x --tenant acme --cores 0",
            "`--cores 0`: a slot has at least one core",
        ),
        ("add x --tenant acme --cores -1", "-1"),
        (
            "add x --tenant acme --kind determinism --cores 3",
            "`--cores 3` is for density",
        ),
        ("add x", "`--tenant NAME` is missing"),
        ("add --tenant acme", "its name is missing"),
        ("list --role dedicated", "of a plan for another role"),
    ] {
        node.slots(words)?.exits(Exit::Usage)?.warns(says)?;
    }
    Ok(())
}

fn never_oversold() -> Outcome {
    let node = Node::new()?;
    let mut sold = Vec::new();
    for number in 0..10 {
        let words = format!("add s{number} --tenant t{number} --role shared --format json");
        let answer = node.slots(&words)?.exits(0)?.json()?;
        let cpus = answer["changed"]["cpus"].as_str().unwrap_or_default();
        sold.extend(cpus.parse::<CpuSet>()?.iter().collect::<Vec<_>>());
    }
    sold.sort_unstable();
    // Every thread of the pool, each once; none of those that keep house.
    let pool: Vec<u16> = (0..24).filter(|cpu| cpu % 6 != 0).collect();
    assert_eq!(sold, pool);
    let before = node.env.read("slots.json")?;
    node.slots("add more --tenant acme")?
        .exits(Exit::NodeRefused)?
        .warns("no L3 domain has 1 free core; 0 of 10 cores of the pool are free")?;
    assert_eq!(node.env.read("slots.json")?, before);
    // The twin: after one left, there is room for one.
    node.slots("remove s4")?.exits(0)?;
    node.slots("add two --tenant acme --cores 2")?
        .exits(Exit::NodeRefused)?;
    node.slots("add more --tenant acme")?
        .exits(0)?
        .says("CPUs 5,17")?;
    // Who edits the ledger sells nothing twice.
    node.env.edit("slots.json", "\"5,17\"", "\"4,16\"")?;
    for words in ["list", "remove s0", "add again --tenant acme"] {
        node.slots(words)?
            .exits(Exit::NodeRefused)?
            .warns("shares a core with slot `more`")?;
    }
    node.env.write("slots.json", "{}")?;
    node.slots("list")?.exits(Exit::Usage)?;
    node.env
        .write("slots.json", "{\"schema\": \"kiln.slots/2\"}")?;
    node.slots("list")?
        .exits(Exit::Usage)?
        .warns("this kiln reads `kiln.slots/1`")?;
    Ok(())
}

fn stale() -> Outcome {
    let node = Node::new()?;
    node.slots("add lobby --tenant acme --role shared")?
        .exits(0)?;
    // One core is offline now: the numbers are the same, the machine is not.
    let mut shape = Shape::two_by_six();
    shape.name = "changed";
    shape.offline = [5, 17].into();
    let changed = shape.write(&node.env)?;
    let node = Node {
        tree: changed.into_string(),
        env: node.env,
    };
    for words in ["list", "remove lobby", "add arena --tenant acme"] {
        node.slots(words)?
            .exits(Exit::NodeRefused)?
            .warns("its lists of CPUs may mean other cores now")?;
    }
    Ok(())
}

fn at_once() -> Outcome {
    let node = Node::new()?;
    node.slots("add first --tenant acme --role shared")?
        .exits(0)?;
    let add = |number: usize| node.words(&format!("add s{number} --tenant acme"));
    let running: Vec<_> = (0..6)
        .map(|number| node.env.kiln(add(number)).start())
        .collect();
    let mut given = 1;
    for run in running {
        let ran = run?.wait()?;
        match ran.code() {
            Some(0) => given += 1,
            // Another has the ledger; it says who, and gives nothing.
            _ => drop(ran.exits(Exit::Locked)?),
        }
    }
    assert!(given > 1);
    let answer = node.slots("list --format json")?.exits(0)?.json()?;
    let slots = answer["ledger"]["slots"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(slots.len(), given);
    assert_eq!(answer["free"].as_array().map(Vec::len), Some(10 - given));
    Ok(())
}
