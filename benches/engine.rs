//! kiln's own reading of the real 6.12 source with Debian's configuration, against the tree's
//! `make olddefconfig`, side by side on this machine. Aims: reading the tree warm under 0.5 s,
//! resolving under 0.1 s, a trial of one more line under 1 ms, all of it five times as fast as make.
//!
//! Then `kiln config check` as a whole, on the distribution's source through apt: the program's
//! start, the hashing of the source's configuration part, two configurations resolved, the guard,
//! its report. Aim: five times as fast as one `make olddefconfig`, which does the second of these
//! once. With `--prove` the archive of 1.5 GiB is hashed, verified and unpacked too.
//!
//! ```text
//! cargo bench --profile dev --bench engine
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    clippy::print_stderr,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench stops by panicking and prints its numbers"
)]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::dotconfig::DotConfig;
use kiln::kbuild::make::{Kbuild, Setup};
use kiln::kconfig::language::{Ask, Type};
use kiln::pipeline::engine::Engine;
use kiln::sandbox::Isolation;

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/case.rs"]
mod case;
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/linux.rs"]
mod linux;

#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
#[path = "../tests/support/suites.rs"]
mod suites;

/// How often each part is timed; the median counts.
const ROUNDS: usize = 7;

/// How many lines are tried, one at a time.
const TRIALS: usize = 1000;

fn main() {
    let (tree, base) = match (linux::real_source(), linux::real_config("amd64_none_amd64")) {
        (Ok(tree), Ok(base)) => (tree, DotConfig::parse(base)),
        (Err(stop), _) | (_, Err(stop)) => {
            println!("{stop:?}");
            return;
        }
    };
    let scratch = tempfile::tempdir().unwrap();
    let dir = Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap();
    let kbuild = Kbuild::new(&Setup {
        source: tree,
        dir: &dir.join("build"),
        isolation: &Isolation::probe().unwrap(),
        // Stands in for pahole in the build; here it is only a name that must exist.
        root: None,
        epoch: jiff::Timestamp::from_second(1_780_300_000).unwrap(),
        jobs: NonZeroU32::MIN,
        other_time: None,
    })
    .unwrap();
    let cache = dir.join("probes.json");

    let start = Instant::now();
    let cold = Engine::read(&kbuild, Some(&cache)).unwrap();
    let cold_took = start.elapsed();
    let (mut engine, warm, warm_cpu) = medians(|| Engine::read(&kbuild, Some(&cache)).unwrap());
    let (ours, resolve, resolve_cpu) = medians(|| engine.olddefconfig(base.text()));
    // The first time the tree's own program is compiled.
    kbuild.olddefconfig(base.text()).unwrap();
    let (theirs, make) = median(|| kbuild.olddefconfig(base.text()).unwrap());
    let probes = (cold.probes().asked, engine.probes().run);
    let (trial, worst) = trials(engine);

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{} probes, {} of them run again warm; same bytes as the tree: {}",
        probes.0,
        probes.1,
        ours.text == theirs.text && ours.warnings == theirs.warnings
    );
    println!("reading the tree, cold     {:9.1} ms", ms(cold_took));
    let of_cpu =
        |wall: Duration, cpu: Duration| format!("{:9.1} ms, {:.1} of CPU", ms(wall), ms(cpu));
    println!("reading the tree, warm     {}", of_cpu(warm, warm_cpu));
    println!(
        "resolving                  {}",
        of_cpu(resolve, resolve_cpu)
    );
    println!("one more line, mean        {:9.3} ms", ms(trial));
    println!("one more line, worst       {:9.3} ms", ms(worst));
    println!("make olddefconfig, warm    {:9.1} ms", ms(make));
    println!(
        "ratio                      {:9.1} times as fast as make",
        make.as_secs_f64() / (warm + resolve).as_secs_f64()
    );

    let workspace = dir.join("workspace");
    match whole(&workspace, &[]).and_then(|_| whole(&workspace, &[])) {
        Err(why) => println!("kiln config check          not measured: {why}"),
        Ok(check) => {
            let proven = whole(&workspace, &["--prove"]).unwrap();
            println!("kiln config check, warm    {:9.1} ms", ms(check));
            println!("the same with --prove      {:9.1} ms", ms(proven));
            println!(
                "ratio                      {:9.1} times as fast as make, {:.1} as with --prove",
                make.as_secs_f64() / check.as_secs_f64(),
                proven.as_secs_f64() / check.as_secs_f64()
            );
        }
    }
}

/// How long `kiln config check` takes in a workspace, which is made and resolved where missing.
fn whole(workspace: &Utf8Path, words: &[&str]) -> Result<Duration, String> {
    let kiln = Tool::at(Utf8Path::new(env!("CARGO_BIN_EXE_kiln"))).unwrap();
    let run = |dir: &Utf8Path, words: &[&str]| {
        let ran = Cmd::new(&kiln).args(words.iter().copied()).cwd(dir).run();
        ran.map_err(|error| error.to_string())
    };
    if !workspace.exists() {
        run(Utf8Path::new("/"), &["init", workspace.as_str()])?;
        run(workspace, &["resolve", "debian"])?;
    }
    run(workspace, &[&["config", "check", "debian"], words].concat())
}

/// The mean and the longest time of trying one more line, spread over all symbols that have a
/// prompt.
fn trials(engine: Engine) -> (Duration, Duration) {
    let mut model = engine.into_model();
    let tree = model.tree();
    let asked: Vec<_> = tree
        .symbols()
        .filter(|(_, symbol)| matches!(symbol.kind, Type::Bool | Type::Tristate))
        .filter(|(_, symbol)| {
            symbol
                .nodes
                .iter()
                .any(|node| tree.node(*node).prompt.is_some())
        })
        .map(|(id, _)| id)
        .collect();
    let (mut sum, mut worst) = (Duration::ZERO, Duration::ZERO);
    let each = asked.len().div_ceil(TRIALS);
    let lines = asked.into_iter().step_by(each);
    let mut count = 0;
    for (number, symbol) in lines.enumerate() {
        let value = if number % 2 == 0 { "y" } else { "n" }.to_owned();
        let ask = [Ask { symbol, value }];
        let start = Instant::now();
        std::hint::black_box(model.trial(&ask));
        let took = start.elapsed();
        sum += took;
        worst = worst.max(took);
        count += 1;
    }
    (sum / count, worst)
}

/// The last result and the median time.
fn median<T>(work: impl FnMut() -> T) -> (T, Duration) {
    let (last, wall, _on_cpu) = medians(work);
    (last, wall)
}

/// The last result, the median time and the median of what this thread had of a CPU meanwhile, which
/// others on a busy machine change little.
fn medians<T>(mut work: impl FnMut() -> T) -> (T, Duration, Duration) {
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..ROUNDS {
        let (start, cpu) = (Instant::now(), on_cpu());
        last = Some(work());
        walls.push(start.elapsed());
        cpus.push(on_cpu().saturating_sub(cpu));
    }
    walls.sort_unstable();
    cpus.sort_unstable();
    (last.unwrap(), walls[ROUNDS / 2], cpus[ROUNDS / 2])
}

/// What this thread has had of a CPU, to a few milliseconds.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}
