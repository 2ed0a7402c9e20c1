//! A build that is killed at any moment, again and again, and then comes to the right end.

use std::time::Duration;

use kiln::files;
use rustix::process::Signal;

use super::stopped::goes_on;
use crate::support::dice::Dice;
use crate::support::made_up::MadeUp;
use crate::support::{Case, Outcome, Stop, child, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let name = "main_job::killed_fifty_times_it_comes_to_the_right_end";
    vec![Case::new(name, fifty_times)]
}

/// How often it is killed.
const TIMES: usize = 50;

/// Within this time of its start it is killed: by then it compiles, on a quiet machine.
const BEFORE_MS: usize = 1500;

/// Within this time of the start of its compilers.
const AFTER_MS: usize = 300;

/// The number in the processes of its compilers.
const NUMBER: &str = "709";

fn fifty_times() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.ask(&format!("CONFIG_FAKE_HOURS={NUMBER}"))?;
    made.kiln("resolve made").run()?.exits(0)?;
    let marks = ["61", "62"].map(|start| format!("sleep\u{0}{start}{NUMBER}"));
    let mut dice = Dice::new(50);
    let mut compiling = 0;
    for time in 0..TIMES {
        let mut running = made.kiln("build made").start()?;
        let compiles = || {
            let runs = |mark: &String| !child::processes_marked(mark).is_empty();
            marks.iter().any(runs)
        };
        // Every other time not before it compiles.
        let longest = if time % 2 == 0 {
            BEFORE_MS
        } else {
            running.until("compilers run", |_| Ok(compiles()))?;
            AFTER_MS
        };
        let moment = dice.below(longest) as u64;
        std::thread::sleep(Duration::from_millis(moment));
        compiling += usize::from(compiles());
        match dice.pick(&[Signal::KILL, Signal::KILL, Signal::TERM, Signal::INT]) {
            &Signal::INT => running.signal_group(Signal::INT)?,
            signal => running.signal(*signal)?,
        }
        let ran = running.wait()?;
        for mark in &marks {
            child::expect_none_marked(mark)?;
        }
        let products = made.products()?;
        if !products.is_empty() {
            let text = format!("killed the {time}th time after {moment} ms, there is {products:?}");
            return Err(ran.complaint(&text));
        }
    }
    assert!(compiling >= TIMES / 2, "{compiling}");
    println!("{compiling} of {TIMES} were killed while compilers ran");
    let last = packages(&goes_on(&made, NUMBER)?)?;
    // The same without anything that a killed build could have left.
    for left in ["work", "runs", "trash"] {
        files::remove_dir_all(&made.env.path(".kiln").join(left))?;
    }
    let clean = goes_on(&made, NUMBER)?;
    assert!(
        !clean["doubts"].to_string().contains("continued"),
        "{clean}"
    );
    assert_eq!(packages(&clean)?, last);
    Ok(())
}

/// Names and digests of an answer's packages.
fn packages(answer: &serde_json::Value) -> Result<Vec<String>, Stop> {
    let packages = answer["packages"].as_array();
    let packages = packages.ok_or_else(|| fail(format!("no packages in {answer}")))?;
    let each = packages.iter();
    let each = each.map(|package| format!("{} {}", package["file"], package["sha256"]));
    Ok(each.collect())
}
