//! Explanations checked by truth: for options that the distribution's configuration loses, chosen
//! by a fixed seed, the suggested lines make the option survive, and none of them can be left out.

use kiln::dotconfig::{self, Value};
use kiln::kconfig::explain::{Answer, Explainer, Fix, Ground};
use kiln::kconfig::language::{Ask, Model, SymbolId, Tri};
use kiln::kconfig::{Merged, merge};

use super::world::{World, fragment, world};
use crate::support::{Outcome, Stop, linux};

/// Lost options that are asked about.
const CASES: usize = 120;

/// Of those, how many are tried on the tree's own program too, where each answer takes a run of
/// make.
const BY_MAKE: usize = 8;

/// What must be fixed of a hundred.
const SHARE: usize = 95;

const SEED: u64 = 0x6b69_6c6e_0612_0117;

pub fn suggested_lines_hold() -> Outcome {
    let world = world()?;
    let mut lost = lost_options(world);
    assert!(lost.len() > 3000, "{}", lost.len());
    shuffle(&mut lost, SEED);
    let (mut explained, mut fixed, mut by_the_tree, mut lines) = (0, 0, 0, 0);
    let mut open = Vec::new();
    for name in lost.iter().take(CASES) {
        let answer = answer(world, name)?;
        explained += usize::from(!answer.needs.is_empty());
        let Fix::Add { lines: fix, .. } = &answer.fix else {
            open.push(name);
            continue;
        };
        fixed += 1;
        lines += fix.len();
        // Where not all can be, the longest are the ones to doubt.
        let tree = world.is_quick() || fix.len() > 1 && by_the_tree < BY_MAKE;
        by_the_tree += usize::from(tree);
        let holds = |fix: &[&str]| survives(world, name, fix, tree);
        let all: Vec<&str> = fix.iter().map(String::as_str).collect();
        assert!(holds(&all)?, "{name} is lost with {all:?}");
        for left_out in 0..all.len() {
            let mut fewer = all.clone();
            fewer.remove(left_out);
            assert!(
                !holds(&fewer)?,
                "{name} needs no line {left_out} of {all:?}"
            );
        }
    }
    println!(
        "of {CASES} lost options {explained} explained, {fixed} fixed with {lines} lines \
         ({by_the_tree} of them tried by the tree's own program); no lines for {open:?}"
    );
    let expected = if world.is_quick() { fixed } else { BY_MAKE };
    assert_eq!(by_the_tree, expected);
    assert_eq!(explained, CASES);
    assert!(fixed * 100 >= CASES * SHARE, "{fixed} of {CASES}");
    Ok(())
}

/// The lines of two requests that exclude each other are not suggested, and what they would break
/// is named.
pub fn no_request_is_broken() -> Outcome {
    let world = world()?;
    let asked = world.ask("# CONFIG_EXPERT is not set\nCONFIG_PREEMPT_RT=y\n")?;
    let finding = asked.report.blocking().find(|f| f.symbol == "PREEMPT_RT");
    let fix = finding.and_then(|finding| finding.fix.clone());
    let Some(Fix::Conflict { lines, with }) = fix else {
        panic!("{fix:?}");
    };
    assert_eq!(lines, ["CONFIG_EXPERT=y"]);
    assert_eq!(with[0].symbol, "EXPERT");
    Ok(())
}

/// Options with a prompt that `allyesconfig` reaches, and that the distribution's configuration
/// neither has on nor lets anyone turn on.
fn lost_options(world: &World) -> Vec<String> {
    let mut model = world.model();
    let prompted = |model: &Model| -> Vec<SymbolId> {
        let tree = model.tree();
        let option = tree.symbols().filter(|(_, symbol)| {
            let prompt = |node: &_| tree.node(*node).prompt.is_some();
            symbol.kind.is_logic() && !symbol.constant && symbol.nodes.iter().any(prompt)
        });
        option.map(|(id, _)| id).collect()
    };
    let mut options = prompted(&model);
    let all: String = options
        .iter()
        .map(|id| dotconfig::line(&model.tree().symbol(*id).name, &Value::Yes) + "\n")
        .collect();
    model.read(&all);
    options.retain(|id| model.visibility(*id) != Tri::No);
    model.read(world.base.text());
    options.retain(|id| model.tri(*id) == Tri::No && model.visibility(*id) == Tri::No);
    // One line alone must not be enough: then nothing was lost.
    options.retain(|id| {
        let line = Ask {
            symbol: *id,
            value: "y".to_owned(),
        };
        model.suppose(&[line], |model, _| model.tri(*id) == Tri::No)
    });
    let names = options
        .iter()
        .map(|id| model.tree().symbol(*id).name.clone());
    names.collect()
}

fn merged(world: &World, name: &str, fix: &[&str]) -> Result<Merged, Stop> {
    let line = dotconfig::line(name, &Value::Yes);
    let text = format!("{line}\n{}\n", fix.join("\n"));
    let series = linux::SERIES.parse()?;
    Ok(merge(&world.base, &[fragment(&text)?], &[], series)?)
}

fn answer(world: &World, name: &str) -> Result<Answer, Stop> {
    let merged = merged(world, name, &[])?;
    let mut model = world.model();
    model.read(merged.text());
    let ground = Ground {
        requests: &merged.requests,
        base: &world.base,
    };
    let answer = Explainer::new(&mut model, ground).request(&merged.requests[0]);
    Ok(answer.expect("a symbol of the tree"))
}

/// Whether the option is on with these lines, by the engine, and by the tree's own program.
fn survives(world: &World, name: &str, fix: &[&str], by_the_tree: bool) -> Result<bool, Stop> {
    let merged = merged(world, name, fix)?;
    let ours = {
        let mut model = world.model();
        model.read(merged.text());
        let symbol = model.tree().find(name);
        symbol.is_some_and(|symbol| model.tri(symbol) == Tri::Yes)
    };
    if by_the_tree {
        let theirs = world.resolve(merged.text())?.config;
        let theirs = theirs.value(name) == Some(&Value::Yes);
        assert_eq!(ours, theirs, "{name} with {fix:?}");
    }
    Ok(ours)
}

fn shuffle(list: &mut [String], mut state: u64) {
    for at in (1..list.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        list.swap(at, usize::try_from(state % (at as u64 + 1)).unwrap_or(0));
    }
}
