//! Fetching from mirrors: each fault of a server beside its good twin.

mod surroundings;

use std::sync::Mutex;
use std::time::Duration;

use camino::Utf8PathBuf;
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::progress::{Event, Progress, Silent};
use kiln::source::mirror::{FetchError, Fetched, Limits, Location, Mirrors, Promise, Slow};
use kiln::store::Store;

use crate::support::mirror::{Content, Fault, Mirror};
use crate::support::{Case, Outcome, Stop, fail};

use crate::support::child::Part;

/// What this module's children do.
pub const PARTS: &[Part] = &[("fetch::fetch_one", surroundings::fetch_one)];

/// The file that is fetched.
const PATH: &str = "v6.x/linux-6.18.40.tar.xz";

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = surroundings::cases();
    cases.extend([
        Case::new("fetch::a_good_mirror", a_good_mirror),
        Case::new("fetch::several_mirrors_in_order", several_mirrors_in_order),
        Case::new("fetch::no_mirror_at_all", no_mirror_at_all),
        Case::new("fetch::cut_and_continued", cut_and_continued),
        Case::new("fetch::a_later_run_continues", a_later_run_continues),
        Case::new("fetch::cut_too_often", cut_too_often),
        Case::new(
            "fetch::without_a_validator_it_starts_anew",
            without_a_validator,
        ),
        Case::new("fetch::a_range_that_is_ignored", range_ignored),
        Case::new("fetch::a_wrong_content_range", wrong_content_range),
        Case::new("fetch::a_range_beyond_the_end", range_beyond_the_end),
        Case::new("fetch::changed_after_the_cut", changed_after_the_cut),
        Case::new("fetch::a_mixed_file_is_fetched_whole", mixed_file),
        Case::new("fetch::wrong_bytes", wrong_bytes),
        Case::new("fetch::the_end_is_missing", the_end_is_missing),
        Case::new("fetch::too_large", too_large),
        Case::new("fetch::the_total_deadline", the_total_deadline),
        Case::new("fetch::redirects", redirects),
        Case::new(
            "fetch::progress_ends_at_the_size",
            progress_ends_at_the_size,
        ),
        Case::new("fetch::a_large_file_is_served_from_disk", large_file),
        Case::new("fetch::two_runs_at_once", two_runs_at_once),
    ]);
    // What one mirror may do wrong so that the next is asked, and what is said of it where there
    // is no next.
    let next: [(&str, Fault, Exit, &str); 9] = [
        ("silence", Fault::Silent, Exit::Network, "no answer within"),
        ("a_stall", Fault::Stall(1000), Exit::Network, "stalled"),
        (
            "a_trickle",
            Fault::Trickle(1, Duration::from_millis(5)),
            Exit::Network,
            "stalled",
        ),
        (
            "an_error_of_the_server",
            Fault::Status(503),
            Exit::Network,
            "answered 503",
        ),
        (
            "a_refusal",
            Fault::Status(403),
            Exit::Network,
            "answered 403",
        ),
        (
            "absence",
            Fault::Status(404),
            Exit::NotPublished,
            "not there (404)",
        ),
        ("a_web_page", Fault::Page, Exit::Network, "web page"),
        (
            "an_encoding",
            Fault::Encoded("gzip".to_owned()),
            Exit::Network,
            "encoded as `gzip`",
        ),
        (
            "endless_bytes",
            Fault::Endless,
            Exit::NotVerified,
            "larger than the",
        ),
    ];
    for (name, fault, exit, says) in next {
        cases.push(Case::new(
            format!("fetch::after_{name}_the_next_mirror"),
            move || the_next_mirror(&fault, exit, says),
        ));
    }
    cases
}

/// Bytes that cannot be had by chance: not periodic in any piece size.
fn body(size: usize) -> Vec<u8> {
    let mut state: u32 = 12345;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).unwrap()
    };
    (0..size).map(|_| next()).collect()
}

/// Limits that no good answer runs into, however busy the machine is.
fn patient() -> Limits {
    Limits {
        connect: Duration::from_mins(1),
        answer: Duration::from_mins(1),
        slow: Slow {
            floor: 1,
            window: Duration::from_mins(1),
        },
        retries: 2,
        backoff: Duration::from_millis(5),
        ..Limits::default()
    }
}

/// Limits under which a stall shows within seconds.
fn strict() -> Limits {
    Limits {
        answer: Duration::from_secs(3),
        slow: Slow {
            floor: 10_000,
            window: Duration::from_secs(3),
        },
        ..patient()
    }
}

/// A store, and the mirrors to fetch from.
struct Bench {
    _directory: tempfile::TempDir,
    store: Store,
    cap: u64,
    promise: Option<Promise>,
}

impl Bench {
    fn new() -> Result<Self, Stop> {
        let directory = tempfile::tempdir()?;
        let path = Utf8PathBuf::from(directory.path().to_str().unwrap());
        Ok(Self {
            store: Store::open(&path)?,
            _directory: directory,
            cap: 8 << 20,
            promise: None,
        })
    }

    fn promised(mut self, bytes: &[u8]) -> Self {
        self.promise = Some(Promise {
            sha256: Sha256::of(bytes),
            by: "the lock",
        });
        self
    }

    fn fetch(&self, mirrors: &Mirrors) -> Result<Fetched, FetchError> {
        mirrors.archive(PATH, self.cap, self.promise.as_ref(), &self.store, &Silent)
    }

    /// Fetches and compares with `expected`.
    fn gets(&self, mirrors: &Mirrors, expected: &[u8]) -> Result<Fetched, Stop> {
        let fetched = self.fetch(mirrors)?;
        let found = files::read(fetched.path(), self.cap)?;
        if found != expected {
            return Err(fail(format!("{} other bytes came", found.len())));
        }
        if fetched.sha256 != Sha256::of(expected) || fetched.bytes != expected.len() as u64 {
            return Err(fail("the digest or size is not that of the bytes"));
        }
        Ok(fetched)
    }
}

fn mirrors(of: &[&Mirror]) -> Mirrors {
    let at = |mirror: &&Mirror| Location::parse(&mirror.url(), "/".into()).unwrap();
    let kernel: Vec<Location> = of.iter().map(at).collect();
    let releases = kernel[0].clone();
    Mirrors::new(kernel, Vec::new(), releases).limits(patient())
}

fn holding(bytes: &[u8]) -> Result<Mirror, Stop> {
    let mirror = Mirror::start()?;
    mirror.put(PATH, Content::bytes(bytes));
    Ok(mirror)
}

fn expect(condition: bool, text: &str) -> Outcome {
    if condition { Ok(()) } else { Err(fail(text)) }
}

fn refused(result: Result<Fetched, FetchError>, exit: Exit, says: &str) -> Outcome {
    match result {
        Ok(fetched) => Err(fail(format!("{} bytes were accepted", fetched.bytes))),
        Err(error) if error.exit() == exit && error.to_string().contains(says) => Ok(()),
        Err(error) => Err(fail(format!(
            "expected {exit:?} and `{says}`, found {error}"
        ))),
    }
}

fn a_good_mirror() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(
        !fetched.joined && fetched.served.tried.is_empty(),
        "it came in one piece",
    )?;
    let asked = mirror.asked(PATH);
    let agent = asked[0].agent.clone().unwrap_or_default();
    expect(
        asked.len() == 1 && asked[0].range.is_none(),
        "one plain request",
    )?;
    expect(
        agent == concat!("kiln/", env!("CARGO_PKG_VERSION")),
        "it says who asks",
    )
}

fn several_mirrors_in_order() -> Outcome {
    let bytes = body(1000);
    let (first, second) = (holding(&bytes)?, holding(&bytes)?);
    let both = mirrors(&[&first, &second]);
    let bench = Bench::new()?;
    bench.gets(&both, &bytes)?.discard()?;
    expect(
        second.log().is_empty(),
        "the second mirror is not asked while the first is good",
    )?;
    first.remove(PATH);
    let fetched = bench.gets(&both, &bytes)?;
    expect(
        fetched.served.address == format!("{}{PATH}", second.url()),
        "who served is recorded",
    )?;
    let tried = &fetched.served.tried;
    expect(
        tried.len() == 1 && tried[0].trouble.is_missing(),
        "who did not is, too",
    )
}

fn no_mirror_at_all() -> Outcome {
    let bench = Bench::new()?;
    let (absent, gone) = (Mirror::start()?, Mirror::start()?);
    let both = mirrors(&[&absent, &gone]);
    refused(bench.fetch(&both), Exit::NotPublished, "is not published")?;
    // One that cannot be reached makes it the network: nobody knows what that one has.
    drop(gone);
    refused(bench.fetch(&both), Exit::Network, "connect")
}

fn the_next_mirror(fault: &Fault, exit: Exit, says: &str) -> Outcome {
    let bytes = body(200_000);
    let (bad, good) = (holding(&bytes)?, holding(&bytes)?);
    bad.fault(PATH, fault.clone());
    let mut bench = Bench::new()?;
    bench.cap = 1 << 20;
    let fetched = bench.gets(&mirrors(&[&bad, &good]).limits(strict()), &bytes)?;
    expect(
        fetched.served.address.starts_with(&good.url()),
        "the second served",
    )?;
    fetched.discard()?;
    let alone = mirrors(&[&bad]).limits(strict());
    refused(bench.fetch(&alone), exit, says)?;
    bad.mend(PATH);
    bench.gets(&mirrors(&[&bad]), &bytes)?;
    Ok(())
}

fn cut_and_continued() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault_once(PATH, Fault::Status(503));
    mirror.fault_once(PATH, Fault::Cut(100_000));
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(fetched.joined, "it was put together")?;
    let asked = mirror.asked(PATH);
    expect(asked.len() == 3, "503, the cut answer, the rest")?;
    expect(
        asked[2].range.as_deref() == Some("bytes=100000-"),
        "the rest was asked for",
    )?;
    expect(asked[2].if_range.is_some(), "of the same version only")
}

fn a_later_run_continues() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault(PATH, Fault::Cut(200_000));
    let once = Limits {
        retries: 0,
        ..patient()
    };
    let bench = Bench::new()?;
    refused(
        bench.fetch(&mirrors(&[&mirror]).limits(once)),
        Exit::Network,
        "the connection ended after 200000 of 300000 bytes",
    )?;
    mirror.mend(PATH);
    // Another `Mirrors` stands for another process: only the disk remembers.
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    let asked = mirror.asked(PATH);
    expect(
        asked[1].range.as_deref() == Some("bytes=200000-"),
        "the rest was asked for",
    )?;
    // For another promise it is another file.
    let bench = bench.promised(&bytes);
    mirror.fault_once(PATH, Fault::Cut(10));
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(
        mirror.asked(PATH)[2].range.is_none(),
        "a new file starts at its start",
    )
}

fn cut_too_often() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault(PATH, Fault::Cut(1000));
    let bench = Bench::new()?;
    let says = "the connection ended after 1000 of 300000 bytes";
    refused(bench.fetch(&mirrors(&[&mirror])), Exit::Network, says)?;
    expect(
        mirror.asked(PATH).len() == 3,
        "one try and two further ones",
    )?;
    // Tries that bring much are not counted against the mirror.
    let bytes = body(5 << 20);
    mirror.put(PATH, Content::bytes(bytes.clone()));
    mirror.mend(PATH);
    for cut in 1..=4 {
        mirror.fault_once(PATH, Fault::Cut(cut * 1_100_000));
    }
    Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    Ok(())
}

fn without_a_validator() -> Outcome {
    let bytes = body(300_000);
    let mirror = Mirror::start()?;
    // A weak tag promises no equal bytes, so the date is used.
    mirror.put(PATH, Content::bytes(bytes.clone()).tag(Some("W/\"weak\"")));
    mirror.fault_once(PATH, Fault::Cut(100_000));
    Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    let asked = mirror.asked(PATH);
    let date = asked[1].if_range.clone().unwrap_or_default();
    expect(
        date.ends_with("GMT"),
        "the date validates where the tag is weak",
    )
}

fn range_ignored() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault_once(PATH, Fault::Cut(100_000));
    mirror.fault_once(PATH, Fault::IgnoreRange);
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(!fetched.joined, "a whole answer replaces what was there")
}

fn wrong_content_range() -> Outcome {
    let bytes = body(300_000);
    for wrong in [
        "bytes 0-299999/300000",
        "bytes 100001-299999/300000",
        "bytes 100000-299998/300000",
        "bytes 100000-299999/300001",
        "bytes 100000-299999/*",
        "nonsense",
    ] {
        let mirror = holding(&bytes)?;
        mirror.fault_once(PATH, Fault::Cut(100_000));
        mirror.fault_once(PATH, Fault::ContentRange(wrong.to_owned()));
        let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
        expect(!fetched.joined, wrong)?;
        expect(
            mirror.asked(PATH)[2].range.is_none(),
            "then the whole file was asked for",
        )?;
    }
    Ok(())
}

fn range_beyond_the_end() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault_once(PATH, Fault::Cut(200_000));
    mirror.fault_once(PATH, Fault::Status(416));
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(!fetched.joined, "it was fetched whole")
}

fn changed_after_the_cut() -> Outcome {
    let (old, new) = (body(300_000), body(310_000).split_off(5));
    let mirror = holding(&old)?;
    mirror.fault_once(
        PATH,
        Fault::CutThenChange(100_000, Content::bytes(new.clone())),
    );
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &new)?;
    expect(!fetched.joined, "nothing of the old version is left")?;
    // A server that continues with the new version is caught by its tag.
    let mirror = holding(&old)?;
    let same_size = body(300_001).split_off(1);
    mirror.fault_once(
        PATH,
        Fault::CutThenChange(100_000, Content::bytes(same_size.clone())),
    );
    mirror.fault_once(PATH, Fault::IgnoreIfRange);
    let fetched = Bench::new()?.gets(&mirrors(&[&mirror]), &same_size)?;
    expect(!fetched.joined, "nothing of the old version is left")
}

fn mixed_file() -> Outcome {
    // The tag stays the same although the bytes changed: only the digest can tell.
    let (old, new) = (body(300_000), body(300_001).split_off(1));
    let tag = Some("\"same\"");
    let mirror = Mirror::start()?;
    mirror.put(PATH, Content::bytes(old).tag(tag));
    let changed = Content::bytes(new.clone()).tag(tag);
    mirror.fault_once(PATH, Fault::CutThenChange(100_000, changed));
    let fetched = Bench::new()?
        .promised(&new)
        .gets(&mirrors(&[&mirror]), &new)?;
    expect(
        !fetched.joined && mirror.asked(PATH).len() == 3,
        "fetched once more, whole",
    )
}

fn wrong_bytes() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    let mut wrong = bytes.clone();
    wrong[1234] ^= 1;
    mirror.fault_once(PATH, Fault::Instead(Content::bytes(wrong)));
    let bench = Bench::new()?.promised(&bytes);
    refused(
        bench.fetch(&mirrors(&[&mirror])),
        Exit::NotVerified,
        "but the lock says",
    )?;
    expect(
        mirror.asked(PATH).len() == 1,
        "wrong bytes in one piece are not asked for again",
    )?;
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    expect(
        mirror.asked(PATH)[1].range.is_none(),
        "nothing of them was kept",
    )
}

fn the_end_is_missing() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault(PATH, Fault::ShortBy(12));
    let bench = Bench::new()?.promised(&bytes);
    refused(
        bench.fetch(&mirrors(&[&mirror])),
        Exit::NotVerified,
        "but the lock says",
    )?;
    mirror.mend(PATH);
    mirror.fault_once(PATH, Fault::NoLength);
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    Ok(())
}

fn too_large() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    let mut bench = Bench::new()?;
    mirror.fault_once(PATH, Fault::Announce(1 << 40));
    refused(
        bench.fetch(&mirrors(&[&mirror])),
        Exit::NotVerified,
        "the server says 1099511627776",
    )?;
    bench.cap = 299_999;
    refused(
        bench.fetch(&mirrors(&[&mirror])),
        Exit::NotVerified,
        "larger than the 299999 bytes",
    )?;
    bench.cap = 300_000;
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    Ok(())
}

fn the_total_deadline() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    // Fast enough for the stall clock, but too slow in all.
    mirror.fault(PATH, Fault::Trickle(500, Duration::from_millis(5)));
    let limits = Limits {
        total: Duration::from_millis(600),
        ..patient()
    };
    let slow = mirrors(&[&mirror]).limits(limits);
    refused(
        Bench::new()?.fetch(&slow),
        Exit::Network,
        "took longer than 600ms",
    )
}

fn redirects() -> Outcome {
    let bytes = body(1000);
    let (from, to) = (Mirror::start()?, holding(&bytes)?);
    from.fault(PATH, Fault::Redirect(format!("{}{PATH}", to.url())));
    Bench::new()?.gets(&mirrors(&[&from]), &bytes)?;
    from.mend(PATH);
    from.fault(PATH, Fault::Redirect(format!("/{PATH}")));
    refused(
        Bench::new()?.fetch(&mirrors(&[&from])),
        Exit::Network,
        "redirected more than 5 times",
    )?;
    expect(
        from.asked(PATH).len() == 1 + 6,
        "it was followed five times",
    )?;
    from.mend(PATH);
    from.fault(PATH, Fault::Redirect("file:///etc/hostname".to_owned()));
    refused(
        Bench::new()?.fetch(&mirrors(&[&from])),
        Exit::Network,
        "no address of a file",
    )
}

/// Keeps the byte counts.
#[derive(Default)]
struct Counts(Mutex<Vec<(u64, Option<u64>)>>);

impl Progress for Counts {
    fn event(&self, event: &Event) {
        if let Event::Bytes { what, done, total } = event {
            assert_eq!(what, "linux-6.18.40.tar.xz");
            self.0.lock().unwrap().push((*done, *total));
        }
    }
}

fn progress_ends_at_the_size() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    let counts = Counts::default();
    let bench = Bench::new()?;
    mirrors(&[&mirror]).archive(PATH, bench.cap, None, &bench.store, &counts)?;
    let counts = counts.0.into_inner().unwrap();
    expect(
        counts.first() == Some(&(0, Some(300_000))),
        "it starts at nothing",
    )?;
    expect(
        counts.last() == Some(&(300_000, Some(300_000))),
        "it ends at the size",
    )?;
    expect(counts.is_sorted(), "it only grows")
}

fn large_file() -> Outcome {
    let bench = Bench::new()?;
    let path = bench.store.directory().join("large");
    let bytes = body(6 << 20);
    files::write(&path, &bytes)?;
    let mirror = Mirror::start()?;
    mirror.put(PATH, Content::file(path)?);
    bench.gets(&mirrors(&[&mirror]), &bytes)?;
    Ok(())
}

fn two_runs_at_once() -> Outcome {
    let bytes = body(300_000);
    let mirror = holding(&bytes)?;
    mirror.fault(PATH, Fault::Trickle(30_000, Duration::from_millis(10)));
    let bench = Bench::new()?;
    let both = std::thread::scope(|scope| {
        let run = || {
            scope.spawn(|| {
                let fetched = bench.gets(&mirrors(&[&mirror]), &bytes)?;
                fetched.discard().map_err(Stop::from)
            })
        };
        [run(), run()].map(|thread| thread.join().unwrap())
    });
    both.into_iter().collect::<Result<(), Stop>>()?;
    expect(
        mirror.asked(PATH).len() == 2,
        "one after the other, each whole",
    )
}
