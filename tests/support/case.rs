//! Cases, their outcomes, and the runner that says what did not run and why.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Why a case ended before its end.
pub enum Stop {
    /// The case needs something that is absent here. Reported as ignored, with this reason.
    Skip(String),
    /// What was expected and what was found.
    Fail(String),
}

/// How a case ends. A panic is a failure too.
pub type Outcome = Result<(), Stop>;

/// Ends a case as failed: `return Err(fail("..."))`.
pub fn fail(text: impl Into<String>) -> Stop {
    Stop::Fail(text.into())
}

/// Ends a case as not run: `return Err(skip("bubblewrap is not installed"))`.
pub fn skip(reason: impl Into<String>) -> Stop {
    Stop::Skip(reason.into())
}

/// Any error that reaches the end of a case is a failure, told with its causes.
impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let _ = write!(text, "\n  caused by: {inner}");
            cause = inner.source();
        }
        Self::Fail(text)
    }
}

impl Stop {
    /// What it says.
    pub fn text(&self) -> &str {
        match self {
            Self::Skip(text) | Self::Fail(text) => text,
        }
    }
}

/// Something that several cases share, or why it could not be made.
pub type Made<T> = OnceLock<Result<T, (bool, String)>>;

/// What several cases share, made by the first that asks; where that ended, all of them end so.
pub fn made_once<T>(
    cell: &'static Made<T>,
    make: impl FnOnce() -> Result<T, Stop>,
) -> Result<&'static T, Stop> {
    let made = cell.get_or_init(|| {
        make().map_err(|stop| match stop {
            Stop::Skip(reason) => (true, reason),
            Stop::Fail(text) => (false, text),
        })
    });
    match made {
        Ok(made) => Ok(made),
        Err((true, reason)) => Err(skip(reason.clone())),
        Err((false, text)) => Err(fail(text.clone())),
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip(reason) => write!(f, "not run: {reason}"),
            Self::Fail(text) => f.write_str(text),
        }
    }
}

/// One integration test. Its name is `group::what_holds`.
pub struct Case {
    name: String,
    heavy: bool,
    full: bool,
    body: Box<dyn FnOnce() -> Outcome + Send>,
}

impl Case {
    /// A case of the usual tier, run beside others.
    pub fn new(name: impl Into<String>, body: impl FnOnce() -> Outcome + Send + 'static) -> Self {
        Self {
            name: name.into(),
            heavy: false,
            full: false,
            body: Box::new(body),
        }
    }

    /// Runs after the light cases and never beside another heavy one (a kernel compile, a guest).
    pub fn heavy(mut self) -> Self {
        self.heavy = true;
        self
    }

    /// Belongs to the full tier: runs only under `KILN_TESTS=full`.
    pub fn full(mut self) -> Self {
        self.full = true;
        self
    }

    /// Whether it belongs to the full tier.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// The whole name, `group::what_holds`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Which tier this run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// What fits the README's test command.
    Usual,
    /// Everything.
    Full,
}

impl Tier {
    /// Reads the value of `KILN_TESTS`. A word that means nothing is an error, so that a typing
    /// mistake cannot pass for a full run.
    pub fn from_setting(value: Option<&str>) -> Result<Self, String> {
        match value {
            None | Some("") => Ok(Self::Usual),
            Some("full") => Ok(Self::Full),
            Some(other) => Err(format!(
                "KILN_TESTS is {other:?}; expected \"full\" or nothing"
            )),
        }
    }
}

/// How one case ended, and when it ran.
struct Entry {
    name: String,
    verdict: Verdict,
    from: Instant,
    to: Instant,
}

#[derive(Clone, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped(String),
}

type Log = Arc<Mutex<Vec<Entry>>>;

thread_local! {
    /// Where the last panic of this thread happened.
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the cases as the command line asks and prints the report.
pub fn run(cases: Vec<Case>) -> ExitCode {
    // A panic is told once, with the case that it fails; its place is all one needs of the rest.
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        PANIC_PLACE.with_borrow_mut(|kept| *kept = place);
    }));
    let arguments = Arguments::from_args();
    let tier = match Tier::from_setting(std::env::var("KILN_TESTS").ok().as_deref()) {
        Ok(tier) => tier,
        Err(text) => {
            eprintln!("error: {text}");
            return ExitCode::from(2);
        }
    };
    if let Some(twice) = first_duplicate(&cases) {
        eprintln!("error: two cases are named {twice}; a name must find one case");
        return ExitCode::from(2);
    }
    let listing = arguments.list;
    let (conclusion, report) = run_with(&arguments, cases, tier);
    if !listing {
        print!("{report}");
    }
    conclusion.exit_code()
}

/// The runner without its surroundings, so that it can be tested itself.
fn run_with(
    arguments: &Arguments,
    mut cases: Vec<Case>,
    tier: Tier,
) -> (libtest_mimic::Conclusion, String) {
    // Trials are taken in this order: all light ones, then the heavy ones one by one.
    cases.sort_by(|a, b| (a.heavy, &a.name).cmp(&(b.heavy, &b.name)));
    let log: Log = Arc::default();
    let one_at_a_time = Arc::new(Mutex::new(()));
    let trials = cases
        .into_iter()
        .map(|case| trial(case, tier, Arc::clone(&log), Arc::clone(&one_at_a_time)))
        .collect();
    let conclusion = libtest_mimic::run(arguments, trials);
    let report = report(&lock(&log));
    (conclusion, report)
}

fn trial(case: Case, tier: Tier, log: Log, one_at_a_time: Arc<Mutex<()>>) -> Trial {
    let Case {
        name,
        heavy,
        full,
        body,
    } = case;
    Trial::ignorable_test(name.clone(), move || {
        let _turn = heavy.then(|| lock(&one_at_a_time));
        let from = Instant::now();
        let outcome = if full && tier == Tier::Usual {
            Err(skip("belongs to the full tier (KILN_TESTS=full)"))
        } else {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
                .unwrap_or_else(|panic| Err(fail(panic_text(panic.as_ref()))))
        };
        let (verdict, answer) = match outcome {
            Ok(()) => (Verdict::Passed, Ok(Completion::Completed)),
            Err(Stop::Skip(reason)) => (
                Verdict::Skipped(reason.clone()),
                Ok(Completion::ignored_with(reason)),
            ),
            Err(Stop::Fail(text)) => (Verdict::Failed, Err(Failed::from(text))),
        };
        lock(&log).push(Entry {
            name,
            verdict,
            from,
            to: Instant::now(),
        });
        answer
    })
}

/// A poisoned lock guards nothing here that a panic could have left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned());
    let place = PANIC_PLACE.with_borrow(Clone::clone);
    format!("{place}: {text}")
}

fn first_duplicate(cases: &[Case]) -> Option<String> {
    let mut names: Vec<&str> = cases.iter().map(Case::name).collect();
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].to_owned())
}

/// The group of a case: the first part of its name.
fn group(name: &str) -> &str {
    name.split("::").next().unwrap_or(name)
}

/// The closing report: time by group, then what did not run.
fn report(entries: &[Entry]) -> String {
    let mut groups: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        groups.entry(group(&entry.name)).or_default().push(entry);
    }
    let mut text = String::from("group                 wall  passed  failed  skipped\n");
    for (name, of_group) in &groups {
        let count = |wanted: fn(&Verdict) -> bool| {
            of_group
                .iter()
                .filter(|entry| wanted(&entry.verdict))
                .count()
        };
        let _ = writeln!(
            text,
            "{name:<18}{:>6.1} s{:>8}{:>8}{:>9}",
            busy(of_group).as_secs_f64(),
            count(|verdict| *verdict == Verdict::Passed),
            count(|verdict| *verdict == Verdict::Failed),
            count(|verdict| matches!(verdict, Verdict::Skipped(_))),
        );
    }
    let mut skipped: Vec<(&str, &str)> = entries
        .iter()
        .filter_map(|entry| match &entry.verdict {
            Verdict::Skipped(reason) => Some((entry.name.as_str(), reason.as_str())),
            Verdict::Passed | Verdict::Failed => None,
        })
        .collect();
    skipped.sort_unstable();
    if skipped.is_empty() {
        text.push_str("\nevery selected case ran\n");
    } else {
        let _ = writeln!(text, "\ndid not run ({}):", skipped.len());
        for (name, reason) in skipped {
            let _ = writeln!(text, "  {name}: {reason}");
        }
    }
    text
}

/// How long at least one case of the group was running: cases beside each other count once.
fn busy(entries: &[&Entry]) -> Duration {
    let mut spans: Vec<(Instant, Instant)> =
        entries.iter().map(|entry| (entry.from, entry.to)).collect();
    spans.sort_unstable();
    let mut total = Duration::ZERO;
    let mut reached: Option<Instant> = None;
    for (from, to) in spans {
        let from = reached.map_or(from, |reached| reached.max(from));
        total += to.saturating_duration_since(from);
        reached = Some(reached.map_or(to, |reached| reached.max(to)));
    }
    total
}

/// The harness under test: what it says of good, failing, panicking and skipping cases.
pub mod own_cases {
    use super::{
        Arc, Arguments, Case, Duration, Entry, Instant, Mutex, Outcome, Tier, Verdict, busy, fail,
        first_duplicate, lock, run_with, skip,
    };

    /// The cases of the group `harness`.
    pub fn cases() -> Vec<Case> {
        vec![
            Case::new("harness::skipped_is_not_passed", skipped_is_not_passed),
            Case::new("harness::panic_and_error_fail", panic_and_error_fail),
            Case::new("harness::filter_selects_by_name", filter_selects_by_name),
            Case::new(
                "harness::full_tier_needs_the_setting",
                full_tier_needs_the_setting,
            ),
            Case::new(
                "harness::heavy_cases_run_alone_and_last",
                heavy_cases_run_alone_and_last,
            ),
            Case::new(
                "harness::group_time_counts_overlap_once",
                group_time_counts_overlap_once,
            ),
            Case::new(
                "harness::duplicate_names_are_found",
                duplicate_names_are_found,
            ),
        ]
    }

    /// The output of the inner run is thrown away: its closing line is not this program's.
    fn arguments(more: &[&str]) -> Arguments {
        let all = ["it", "--logfile", "/dev/null", "--test-threads", "2"];
        Arguments::from_iter(all.iter().chain(more).copied())
    }

    fn skipped_is_not_passed() -> Outcome {
        let cases = vec![
            Case::new("a::good", || Ok(())),
            Case::new("b::absent", || Err(skip("no such device"))),
        ];
        let (conclusion, report) = run_with(&arguments(&[]), cases, Tier::Usual);
        assert_eq!((conclusion.num_passed, conclusion.num_ignored), (1, 1));
        assert!(
            report.contains("did not run (1):\n  b::absent: no such device\n"),
            "{report}"
        );
        Ok(())
    }

    fn panic_and_error_fail() -> Outcome {
        let cases = vec![
            Case::new("a::says_so", || Err(fail("expected 1, found 2"))),
            Case::new("a::fine", || Ok(())),
            Case::new("a::io", || {
                std::fs::read("/nonexistent/file")?;
                Ok(())
            }),
        ];
        let (conclusion, report) = run_with(&arguments(&[]), cases, Tier::Usual);
        assert_eq!((conclusion.num_passed, conclusion.num_failed), (1, 2));
        assert!(report.contains("every selected case ran"), "{report}");
        assert!(super::panic_text(&"boom").contains("boom"));
        Ok(())
    }

    fn filter_selects_by_name() -> Outcome {
        let cases = || {
            vec![
                Case::new("signature::good", || Ok(())),
                Case::new("unpack::good", || Ok(())),
            ]
        };
        let (conclusion, report) = run_with(&arguments(&["signature::"]), cases(), Tier::Usual);
        assert_eq!((conclusion.num_passed, conclusion.num_filtered_out), (1, 1));
        assert!(!report.contains("unpack"), "{report}");
        let (conclusion, _) = run_with(&arguments(&["nothing_here"]), cases(), Tier::Usual);
        assert_eq!(conclusion.num_passed, 0);
        Ok(())
    }

    fn full_tier_needs_the_setting() -> Outcome {
        let cases = || vec![Case::new("a::long", || Ok(())).full()];
        let (usual, report) = run_with(&arguments(&[]), cases(), Tier::Usual);
        assert_eq!((usual.num_passed, usual.num_ignored), (0, 1));
        assert!(report.contains("KILN_TESTS=full"), "{report}");
        let (full, _) = run_with(&arguments(&[]), cases(), Tier::Full);
        assert_eq!((full.num_passed, full.num_ignored), (1, 0));
        assert_eq!(Tier::from_setting(Some("full")), Ok(Tier::Full));
        assert_eq!(Tier::from_setting(None), Ok(Tier::Usual));
        assert!(Tier::from_setting(Some("ful")).is_err());
        Ok(())
    }

    fn heavy_cases_run_alone_and_last() -> Outcome {
        let order: Arc<Mutex<Vec<&str>>> = Arc::default();
        let note = |what: &'static str, order: &Arc<Mutex<Vec<&'static str>>>| {
            let order = Arc::clone(order);
            move || {
                lock(&order).push(what);
                std::thread::sleep(Duration::from_millis(20));
                lock(&order).push(what);
                Ok(())
            }
        };
        let cases = vec![
            Case::new("a::heavy", note("heavy a", &order)).heavy(),
            Case::new("b::heavy", note("heavy b", &order)).heavy(),
            Case::new("c::light", note("light", &order)),
        ];
        let (conclusion, _) = run_with(&arguments(&[]), cases, Tier::Usual);
        assert_eq!(conclusion.num_passed, 3);
        let order = lock(&order);
        assert_eq!(order[0], "light", "light cases start first: {order:?}");
        let heavy: Vec<_> = order.iter().filter(|what| **what != "light").collect();
        assert_eq!(
            heavy[0], heavy[1],
            "heavy cases never run beside each other: {order:?}"
        );
        assert_eq!(
            heavy[2], heavy[3],
            "heavy cases never run beside each other: {order:?}"
        );
        Ok(())
    }

    fn group_time_counts_overlap_once() -> Outcome {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let entry = |from, to| Entry {
            name: "a::x".to_owned(),
            verdict: Verdict::Passed,
            from: at(from),
            to: at(to),
        };
        let entries = [entry(0, 4), entry(1, 2), entry(3, 6), entry(10, 11)];
        let all: Vec<&Entry> = entries.iter().collect();
        assert_eq!(busy(&all), Duration::from_secs(7));
        assert_eq!(busy(&[]), Duration::ZERO);
        Ok(())
    }

    fn duplicate_names_are_found() -> Outcome {
        let cases = |names: &[&str]| {
            names
                .iter()
                .map(|name| Case::new(*name, || Ok(())))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            first_duplicate(&cases(&["a::x", "b::y", "a::x"])).as_deref(),
            Some("a::x")
        );
        assert_eq!(first_duplicate(&cases(&["a::x", "b::y"])), None);
        Ok(())
    }
}
