//! From a mirror to a verified tarball in the store: the good way, and for each artifact its bad
//! twins, of which nothing may be left.

mod exported;
mod locked;

use std::sync::Mutex;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::progress::{Event, Progress};
use kiln::proof::lock::Source;
use kiln::sandbox::{Isolation, Worker};
use kiln::source::kernel_org::{AcquireError, Acquired, KernelOrg, LockedRelease};
use kiln::source::keyring::Keyring;
use kiln::source::mirror::{Limits, Location, Mirrors, Slow};
use kiln::store::Store;

use crate::support::keys::TestKey;
use crate::support::mirror::{Content, Fault, Mirror};
use crate::support::release::{Release, checksums, keyring};
use crate::support::tar::{Tar, makefile};
use crate::support::{Case, Outcome, Stop, fail, xz};

const VERSION: &str = "6.18.40";

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("acquire::a_good_release", good_release),
        Case::new("acquire::several_blocks", several_blocks),
        Case::new("acquire::three_kinds_of_not_there", three_kinds),
        Case::new(
            "acquire::an_unpinned_signer_before_the_archive",
            unpinned_early,
        ),
        Case::new("acquire::a_candidate", candidate),
        Case::new("acquire::a_page_instead_of_a_signature", page_for_signature),
        Case::new(
            "acquire::a_mixed_download_is_repeated_whole",
            mixed_download,
        ),
        Case::new(
            "acquire::checksums_before_the_decompressor",
            checksums_first,
        ),
        Case::new("acquire::checksums_that_lag", checksums_lag),
        Case::new("acquire::the_checksum_key_blesses_nothing", checksum_key),
    ];
    for (name, code, change) in TWINS {
        cases.push(Case::new(format!("acquire::twin_{name}"), move || {
            twin(code, change)
        }));
    }
    cases.extend(locked::cases());
    cases.extend(exported::cases());
    cases
}

/// A change of a good release that must be refused, with the code it is refused with.
type Change = fn(&mut Release, &TestKey);

const TWINS: [(&str, &str, Change); 13] = [
    (
        "flipped_bit_in_the_archive",
        "xz-damaged",
        |release, _key| {
            let middle = release.xz.len() / 2;
            release.xz[middle] ^= 4;
        },
    ),
    ("truncated_archive", "xz-truncated", |release, _key| {
        release.xz.truncate(release.xz.len() - 12);
    }),
    ("empty_archive", "xz-foreign", |release, _key| {
        release.xz.clear();
    }),
    ("junk_after_the_archive", "xz-junk", |release, _key| {
        release.xz.extend(b"junk");
    }),
    ("second_stream", "xz-second-stream", |release, _key| {
        release.xz.extend(xz::one_block(b"more"));
    }),
    ("padding", "xz-padding", |release, _key| {
        release.xz.extend([0; 4]);
    }),
    ("no_xz_at_all", "xz-foreign", |release, _key| {
        release.xz.clone_from(&release.tar);
    }),
    (
        "flipped_bit_in_the_tar",
        "signature-bad",
        |release, _key| {
            let last = release.tar.len() - 1;
            release.tar[last] ^= 1;
            release.xz = xz::one_block(&release.tar);
        },
    ),
    ("signed_by_another", "signer-not-pinned", |release, _key| {
        release.sign = TestKey::new().sign_detached(&release.tar[..]);
    }),
    ("empty_signature", "signature-empty", |release, _key| {
        release.sign.clear();
    }),
    (
        "truncated_signature",
        "signature-truncated",
        |release, _key| {
            release.sign.truncate(release.sign.len() / 2);
        },
    ),
    (
        "old_release_under_a_new_name",
        "wrong-release",
        |release, key| {
            *release = Release {
                version: release.version,
                ..Release::new("6.18.39", key)
            };
        },
    ),
    (
        "other_version_in_the_makefile",
        "wrong-release",
        |release, key| {
            let text = makefile("6", "18", "41", "");
            let tar = Tar::new().file_at("linux-6.18.40/Makefile", text.as_bytes());
            *release = Release::of("6.18.40", tar.bytes(), key);
        },
    ),
];

/// Keeps notes and warnings.
#[derive(Default)]
pub struct Said(Mutex<Vec<String>>);

impl Progress for Said {
    fn event(&self, event: &Event) {
        if let Event::Note(text) | Event::Warning(text) = event {
            self.0.lock().unwrap().push(text.clone());
        }
    }
}

impl Said {
    fn has(&self, part: &str) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|text| text.contains(part))
    }
}

/// Everything that acquiring takes.
pub struct Bench {
    _directory: tempfile::TempDir,
    root: Utf8PathBuf,
    store: Store,
    key: TestKey,
    keys: Keyring,
    checksum_keys: Option<Keyring>,
    worker: Worker,
    isolation: Isolation,
    said: Said,
}

impl Bench {
    fn new() -> Result<Self, Stop> {
        let directory = tempfile::tempdir()?;
        let root = Utf8PathBuf::from(directory.path().to_str().unwrap());
        let key = TestKey::new();
        Ok(Self {
            store: Store::open(&root.join("store"))?,
            keys: keyring(&[&key])?,
            key,
            checksum_keys: None,
            worker: Worker {
                program: Utf8PathBuf::from(env!("CARGO_BIN_EXE_kiln")),
            },
            isolation: Isolation::probe()?,
            said: Said::default(),
            root,
            _directory: directory,
        })
    }

    fn with_checksums(mut self, key: &TestKey) -> Result<Self, Stop> {
        self.checksum_keys = Some(keyring(&[key])?);
        Ok(self)
    }

    fn acquire_from(
        &self,
        mirrors: &Mirrors,
        locked: Option<&Source>,
    ) -> Result<Acquired, AcquireError> {
        let version = VERSION.parse().unwrap();
        self.kernel_org(mirrors)
            .acquire(&version, locked.and_then(LockedRelease::of))
    }

    fn kernel_org<'a>(&'a self, mirrors: &'a Mirrors) -> KernelOrg<'a> {
        KernelOrg {
            mirrors,
            release_keys: &self.keys,
            checksum_keys: self.checksum_keys.as_ref(),
            store: &self.store,
            worker: &self.worker,
            isolation: &self.isolation,
            progress: &self.said,
        }
    }

    fn acquire(&self, mirror: &Mirror) -> Result<Acquired, AcquireError> {
        self.acquire_from(&at(mirror), None)
    }

    /// Fails unless it is refused with this exit and code, and nothing is left.
    fn refuses(&self, mirror: &Mirror, exit: Exit, code: &str) -> Outcome {
        refused(self.acquire(mirror), exit, code)?;
        self.is_empty()
    }

    /// Nothing under a final name, nothing staged, nothing to resume.
    fn is_empty(&self) -> Outcome {
        let mut left = Vec::new();
        for part in ["sha256", "staging", "partial"] {
            let names = files::list(&self.store.directory().join(part))?;
            let is_lock = |name: &String| Utf8Path::new(name).extension() == Some("lock");
            left.extend(names.into_iter().filter(|name| !is_lock(name)));
        }
        expect(left.is_empty(), &format!("left behind: {left:?}"))
    }

    fn object(&self, digest: &Sha256) -> Result<Vec<u8>, Stop> {
        let path = self
            .store
            .get(digest)?
            .ok_or_else(|| fail(format!("{digest} is missing")))?;
        Ok(files::read(&path, 1 << 30)?)
    }
}

fn at(mirror: &Mirror) -> Mirrors {
    let here = Location::parse(&mirror.url(), Utf8Path::new("/")).unwrap();
    let limits = Limits {
        answer: Duration::from_mins(1),
        slow: Slow {
            floor: 1,
            window: Duration::from_mins(1),
        },
        retries: 1,
        backoff: Duration::from_millis(5),
        ..Limits::default()
    };
    Mirrors::new(vec![here.clone()], Vec::new(), here).limits(limits)
}

fn expect(condition: bool, text: &str) -> Outcome {
    if condition { Ok(()) } else { Err(fail(text)) }
}

fn refused(result: Result<Acquired, AcquireError>, exit: Exit, code: &str) -> Outcome {
    match result {
        Ok(_) => Err(fail(format!("accepted; expected `{code}`"))),
        Err(error) if error.exit() == exit && error.code() == code => {
            expect(!error.hints().is_empty(), "it says what to do")
        }
        Err(error) => Err(fail(format!(
            "expected {exit:?} `{code}`, found {:?} `{}`: {error}",
            error.exit(),
            error.code()
        ))),
    }
}

fn serving(release: &Release) -> Result<Mirror, Stop> {
    let mirror = Mirror::start()?;
    release.publish(&mirror);
    Ok(mirror)
}

fn good_release() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    let acquired = bench.acquire(&mirror)?;
    let Source::KernelOrg {
        path,
        xz,
        tar,
        signature,
        checksums,
    } = &acquired.facts
    else {
        return Err(fail("a source of kernel.org"));
    };
    assert_eq!(path, "v6.x/linux-6.18.40.tar.xz");
    assert_eq!(
        (xz.sha256, xz.bytes),
        (Sha256::of(&release.xz), release.xz.len() as u64)
    );
    assert_eq!(
        (tar.sha256, tar.bytes),
        (Sha256::of(&release.tar), release.tar.len() as u64)
    );
    assert_eq!(signature.signer.as_str(), bench.key.fingerprint());
    assert_eq!(signature.made, acquired.tarball.source_date_epoch());
    assert!(!checksums && acquired.resigned.is_none());
    assert_eq!(bench.object(&xz.sha256)?, release.xz);
    assert_eq!(bench.object(&tar.sha256)?, release.tar);
    assert_eq!(bench.object(&signature.sha256)?, release.sign);
    assert_eq!(acquired.tarball.path(), bench.store.path(&tar.sha256));
    let address = format!("{}{}", mirror.url(), release.xz_path());
    assert_eq!(acquired.route.archive.unwrap().address, address);
    let order: Vec<String> = mirror.log().into_iter().map(|asked| asked.path).collect();
    assert_eq!(order, [release.sign_path(), release.xz_path()]);
    Ok(())
}

fn several_blocks() -> Outcome {
    let bench = Bench::new()?;
    let mut release = Release::new(VERSION, &bench.key);
    release.xz = xz::blocks(&release.tar, 4096);
    let acquired = bench.acquire(&serving(&release)?)?;
    expect(
        acquired.tarball.sha256() == Sha256::of(&release.tar),
        "the same tar",
    )
}

fn twin(code: &str, change: Change) -> Outcome {
    let bench = Bench::new()?;
    let mut release = Release::new(VERSION, &bench.key);
    change(&mut release, &bench.key);
    let mirror = serving(&release)?;
    bench.refuses(&mirror, Exit::NotVerified, code)?;
    // Mended, the same store and mirror give the release.
    Release::new(VERSION, &bench.key).publish(&mirror);
    bench.acquire(&mirror)?;
    Ok(())
}

fn three_kinds() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    mirror.fault_once(&release.sign_path(), Fault::Status(404));
    bench.refuses(&mirror, Exit::NotPublished, "not-published")?;
    mirror.fault_once(&release.xz_path(), Fault::Status(404));
    bench.refuses(&mirror, Exit::NotPublished, "not-published")?;
    for status in [503, 403] {
        mirror.fault(&release.xz_path(), Fault::Status(status));
        bench.refuses(&mirror, Exit::Network, "mirrors-unreachable")?;
        mirror.mend(&release.xz_path());
    }
    let mut other = Release::new(VERSION, &TestKey::new());
    other.sign.clone_from(&release.sign);
    other.tar[0] ^= 1;
    mirror.put(
        &release.xz_path(),
        Content::bytes(xz::one_block(&other.tar)),
    );
    bench.refuses(&mirror, Exit::NotVerified, "signature-bad")?;
    release.publish(&mirror);
    bench.acquire(&mirror)?;
    Ok(())
}

fn unpinned_early() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &TestKey::new());
    let mirror = serving(&release)?;
    bench.refuses(&mirror, Exit::NotVerified, "signer-not-pinned")?;
    expect(
        mirror.asked(&release.xz_path()).is_empty(),
        "the archive was not even asked for",
    )
}

fn candidate() -> Outcome {
    let bench = Bench::new()?;
    let mirror = Mirror::start()?;
    let version = "7.3-rc1".parse().unwrap();
    let result = bench.kernel_org(&at(&mirror)).acquire(&version, None);
    refused(result, Exit::NotPublished, "candidate-not-archived")?;
    expect(mirror.log().is_empty(), "nothing was asked for")
}

fn page_for_signature() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    mirror.fault_once(&release.sign_path(), Fault::Page);
    bench.refuses(&mirror, Exit::Network, "mirrors-unreachable")?;
    bench.acquire(&mirror)?;
    Ok(())
}

fn mixed_download() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    // The first part is of other bytes under the same tag, so that only verifying can tell.
    let mut other = release.xz.clone();
    other[20] ^= 1;
    let tag = Some("\"same\"");
    let good = Content::bytes(release.xz.clone()).tag(tag);
    mirror.put(&release.xz_path(), Content::bytes(other).tag(tag));
    mirror.fault_once(&release.xz_path(), Fault::CutThenChange(60, good));
    bench.acquire(&mirror)?;
    expect(
        mirror.asked(&release.xz_path()).len() == 3,
        "cut, continued, whole",
    )?;
    expect(bench.said.has("fetching it whole"), "it says so")
}

fn checksums_first() -> Outcome {
    let signer = TestKey::new();
    let bench = Bench::new()?.with_checksums(&signer)?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    let older = Release::new("6.18.4", &bench.key);
    let list = checksums(&[&older, &release], &signer);
    mirror.put("v6.x/sha256sums.asc", Content::bytes(list));
    // What would break the decompressor never reaches it.
    mirror.put(&release.xz_path(), Content::bytes("\u{fd}7zXZ is a lie"));
    bench.refuses(&mirror, Exit::NotVerified, "wrong-digest")?;
    release.publish(&mirror);
    let acquired = bench.acquire(&mirror)?;
    let Source::KernelOrg { checksums, .. } = acquired.facts else {
        return Err(fail("a source of kernel.org"));
    };
    expect(
        checksums && acquired.route.checksums.is_some(),
        "the lock says that they were used",
    )
}

fn checksums_lag() -> Outcome {
    let signer = TestKey::new();
    let bench = Bench::new()?.with_checksums(&signer)?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    bench.refuses(&mirror, Exit::NotPublished, "not-published")?;
    let older = Release::new("6.18.4", &bench.key);
    mirror.put(
        "v6.x/sha256sums.asc",
        Content::bytes(checksums(&[&older], &signer)),
    );
    bench.refuses(&mirror, Exit::NotPublished, "checksums-not-listed")?;
    expect(
        mirror.asked(&release.xz_path()).is_empty(),
        "the archive was not asked for",
    )
}

fn checksum_key() -> Outcome {
    let signer = TestKey::new();
    let bench = Bench::new()?.with_checksums(&signer)?;
    // It signs a tar.
    let release = Release::new(VERSION, &signer);
    let mirror = serving(&release)?;
    mirror.put(
        "v6.x/sha256sums.asc",
        Content::bytes(checksums(&[&release], &signer)),
    );
    bench.refuses(&mirror, Exit::NotVerified, "signer-not-pinned")?;
    // The maintainer signs checksums.
    let release = Release::new(VERSION, &bench.key);
    release.publish(&mirror);
    mirror.put(
        "v6.x/sha256sums.asc",
        Content::bytes(checksums(&[&release], &bench.key)),
    );
    bench.refuses(&mirror, Exit::NotVerified, "signer-not-pinned")?;
    // One certificate in both roles.
    let mut bench = Bench::new()?;
    bench.checksum_keys = Some(keyring(&[&signer, &bench.key])?);
    refused(bench.acquire(&mirror), Exit::Usage, "key-with-two-roles")
}
