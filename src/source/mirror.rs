//! Getting files from kernel.org's mirrors, or from a directory in its layout.
//!
//! A mirror is asked for a file; where it has trouble, the next one is. What comes is only bytes:
//! whether they are the maintainers' is for [`crate::source`]'s verification to say. Here three
//! things are told apart, since they need different answers from a person: the network or a
//! server is in trouble, the file is not published (yet), or the bytes are not those that were
//! promised.

mod error;
mod location;
mod pace;
mod sink;
mod transfer;
mod trouble;

use std::io::Read as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use reqwest::blocking::Client;

pub(in crate::source) use self::error::told;
pub use self::error::{FetchError, Tried, WrongDigest};
pub use self::location::{Location, LocationError};
pub use self::pace::Slow;
pub use self::trouble::Trouble;

use self::sink::{Memory, Partial, Sink};
use self::transfer::{Halt, Transfer};
use crate::clock;
use crate::digest::Sha256;
use crate::files::{self, FileError, Lock, Wait};
use crate::interrupt;
use crate::progress::{Event, Progress};
use crate::store::Store;

/// kernel.org's archive of releases.
pub const KERNEL_ORG: &str = "https://cdn.kernel.org/pub/linux/kernel/";

/// Where kernel.org's checksums are asked for first: not at the address of the archive, so that
/// one poisoned cache cannot vouch for itself.
pub const CHECKSUMS: &str = "https://www.kernel.org/pub/linux/kernel/";

/// kernel.org's list of current releases.
pub const RELEASES: &str = "https://www.kernel.org/releases.json";

/// How long and how slow a download may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To connect.
    pub connect: Duration,
    /// From the request to the head of the answer.
    pub answer: Duration,
    /// For one file in all, with every mirror and try.
    pub total: Duration,
    /// The least rate.
    pub slow: Slow,
    /// Further tries at one mirror where they may help.
    pub retries: u32,
    /// Pause before the first of them; it doubles.
    pub backoff: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            answer: Duration::from_mins(1),
            total: Duration::from_hours(2),
            slow: Slow {
                floor: 1024,
                window: Duration::from_secs(30),
            },
            retries: 3,
            backoff: Duration::from_secs(1),
        }
    }
}

/// A digest that someone promised for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The digest.
    pub sha256: Sha256,
    /// Who, for messages: `the lock`, `sha256sums.asc`.
    pub by: &'static str,
}

/// Where a file came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its address.
    pub address: String,
    /// The mirrors that were asked before.
    pub tried: Vec<Tried>,
}

/// A fetched file in the area for partial downloads. Nothing vouches for it yet.
#[derive(Debug)]
pub struct Fetched {
    path: Utf8PathBuf,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
    /// Where it came from.
    pub served: Served,
    /// Whether it was put together from more than one answer of the server.
    pub joined: bool,
    _lock: Lock,
}

impl Fetched {
    /// The file.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Keeps it in the store. Only for files that were found good since.
    pub fn keep(self, store: &Store) -> Result<Utf8PathBuf, FileError> {
        let path = store.path(&self.sha256);
        files::create_dir_all(path.parent().unwrap_or(store.directory()))?;
        files::rename(&self.path, &path)?;
        Partial::forget(&self.path)?;
        Ok(path)
    }

    /// Removes it.
    pub fn discard(self) -> Result<(), FileError> {
        Partial::remove(&self.path)
    }
}

/// The mirrors of kernel.org that a workspace uses.
#[derive(Debug)]
pub struct Mirrors {
    /// Of the archive (`v6.x/linux-6.18.40.tar.xz` and so on), in the order they are asked.
    pub kernel: Vec<Location>,
    /// Asked for `sha256sums.asc` before those; may be empty.
    pub checksums: Vec<Location>,
    /// The list of releases: its address, or that of a directory that holds `releases.json`.
    pub releases: Location,
    /// How long and how slow.
    pub limits: Limits,
    /// Ask directories only: no address on a network is touched.
    pub offline: bool,
    client: OnceLock<Result<Client, String>>,
}

impl Mirrors {
    /// Mirrors with the usual limits.
    pub fn new(kernel: Vec<Location>, checksums: Vec<Location>, releases: Location) -> Self {
        Self {
            kernel,
            checksums,
            releases,
            limits: Limits::default(),
            offline: false,
            client: OnceLock::new(),
        }
    }

    /// kernel.org itself.
    pub fn kernel_org() -> Self {
        let known = |text| {
            Location::parse(text, Utf8Path::new("/")).expect("a constant, parsed in the tests")
        };
        Self::new(
            vec![known(KERNEL_ORG)],
            vec![known(CHECKSUMS)],
            known(RELEASES),
        )
    }

    /// One directory that holds everything, as [`crate::source`]'s export makes it.
    pub fn directory(path: &Utf8Path) -> Self {
        let location = Location::Directory(path.to_owned());
        Self::new(vec![location.clone()], Vec::new(), location)
    }

    /// The same mirrors with other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads the text of `releases.json`, and where it came from.
    pub fn releases(&self, progress: &dyn Progress) -> Result<(Vec<u8>, Served), FetchError> {
        const CAP: u64 = 4 << 20;
        let at = [self.releases.document("releases.json")];
        match self.small("releases.json", &at, CAP, progress) {
            // It is never unpublished: where it is not, the address is wrong.
            Err(FetchError::NotPublished { what, tried }) => {
                Err(FetchError::Unreachable { what, tried })
            }
            answer => answer,
        }
    }

    /// Fetches a small file of the archive, at most `cap` bytes, into memory.
    pub fn document(
        &self,
        path: &str,
        cap: u64,
        progress: &dyn Progress,
    ) -> Result<(Vec<u8>, Served), FetchError> {
        let at: Vec<Location> = self.kernel.iter().map(|m| m.join(path)).collect();
        self.small(name(path), &at, cap, progress)
    }

    /// Fetches a list of checksums, from the mirrors for these first.
    pub fn checksums(
        &self,
        path: &str,
        cap: u64,
        progress: &dyn Progress,
    ) -> Result<(Vec<u8>, Served), FetchError> {
        let mut at: Vec<Location> = Vec::new();
        for mirror in self.checksums.iter().chain(&self.kernel) {
            let address = mirror.join(path);
            if !at.contains(&address) {
                at.push(address);
            }
        }
        self.small(name(path), &at, cap, progress)
    }

    /// Fetches a large file of the archive, at most `cap` bytes, into the store's area for partial
    /// downloads. Where `promise` gives a digest, the file has it.
    ///
    /// A file that was put together from two answers and is wrong is fetched once more from its
    /// first byte, before anybody is told that it was tampered with.
    pub fn archive(
        &self,
        path: &str,
        cap: u64,
        promise: Option<&Promise>,
        store: &Store,
        progress: &dyn Progress,
    ) -> Result<Fetched, FetchError> {
        let what = name(path);
        let directory = store.partial();
        let lock = Lock::acquire(
            &directory.join(format!("{what}.lock")),
            &format!("fetching {what}"),
            Wait::UpTo(self.limits.total),
            |holder| {
                progress.event(&Event::Note(format!(
                    "waiting for process {} ({})",
                    holder.pid, holder.purpose
                )));
            },
        )?;
        let at: Vec<Location> = self.kernel.iter().map(|m| m.join(path)).collect();
        let names: Vec<Utf8PathBuf> = at
            .iter()
            .map(|address| directory.join(partial_name(what, address, promise)))
            .collect();
        let deadline = clock::monotonic() + self.limits.total;
        let mut again = false;
        loop {
            let ((partial, mirror), served) = each(what, &at, progress, |index, address| {
                let path = &names[index];
                let mut partial = Partial::open(path, &address.to_string())?;
                let got = self.get(address, what, cap, deadline, &mut partial, progress);
                match got {
                    Ok(()) => Ok((partial, index)),
                    Err(halt) => {
                        if partial.offset() == 0 || halt.spoils() {
                            Partial::remove(path)?;
                        }
                        Err(halt)
                    }
                }
            })?;
            let joined = partial.joined();
            let (sha256, bytes) = partial.finish()?;
            let wrong = promise.filter(|promise| promise.sha256 != sha256);
            let Some(promise) = wrong else {
                for other in names.iter().filter(|other| **other != names[mirror]) {
                    Partial::remove(other)?;
                }
                return Ok(Fetched {
                    path: names[mirror].clone(),
                    sha256,
                    bytes,
                    served,
                    joined,
                    _lock: lock,
                });
            };
            Partial::remove(&names[mirror])?;
            if again || !joined {
                return Err(FetchError::WrongDigest(Box::new(WrongDigest {
                    what: what.to_owned(),
                    address: served.address,
                    found: sha256,
                    expected: promise.sha256,
                    promised_by: promise.by.to_owned(),
                })));
            }
            progress.event(&Event::Note(format!(
                "{what}: the continued download does not have its sha256; fetching it whole"
            )));
            again = true;
        }
    }

    fn small(
        &self,
        what: &str,
        at: &[Location],
        cap: u64,
        progress: &dyn Progress,
    ) -> Result<(Vec<u8>, Served), FetchError> {
        let deadline = clock::monotonic() + self.limits.total;
        each(what, at, progress, |_index, address| {
            let mut memory = Memory::default();
            self.get(address, what, cap, deadline, &mut memory, progress)?;
            Ok(memory.bytes)
        })
    }

    fn get(
        &self,
        address: &Location,
        what: &str,
        cap: u64,
        deadline: Instant,
        sink: &mut dyn Sink,
        progress: &dyn Progress,
    ) -> Result<(), Halt> {
        match address {
            Location::Directory(path) => copy(path, what, cap, sink, progress),
            Location::Url(_) if self.offline => Err(Halt::Mirror(Trouble::Offline)),
            Location::Url(url) => Transfer {
                client: self.client()?,
                limits: &self.limits,
                what,
                cap,
                deadline,
                progress,
            }
            .run(url, sink),
        }
    }

    /// The client, made when first needed: an air-gapped machine needs none.
    fn client(&self) -> Result<&Client, FetchError> {
        let made = self.client.get_or_init(|| {
            // Proxies come from the environment; redirects are followed by `Transfer`, which
            // refuses to leave https; the time limit only ends helper threads that were given up.
            Client::builder()
                .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(self.limits.connect)
                .timeout(self.limits.answer.max(self.limits.slow.window) * 2)
                .build()
                .map_err(|error| transfer::flat(&error))
        });
        made.as_ref().map_err(|why| FetchError::Client(why.clone()))
    }
}

/// Asks one address after the other.
fn each<T>(
    what: &str,
    at: &[Location],
    progress: &dyn Progress,
    mut ask: impl FnMut(usize, &Location) -> Result<T, Halt>,
) -> Result<(T, Served), FetchError> {
    let mut tried: Vec<Tried> = Vec::new();
    for (index, location) in at.iter().enumerate() {
        let address = location.to_string();
        match ask(index, location) {
            Ok(answer) => return Ok((answer, Served { address, tried })),
            Err(Halt::Here(error)) => return Err(*error),
            Err(Halt::Mirror(trouble)) => {
                if index + 1 < at.len() && trouble != Trouble::Offline {
                    progress.event(&Event::Warning(format!(
                        "{address}: {trouble}; asking the next mirror"
                    )));
                }
                tried.push(Tried { address, trouble });
            }
        }
    }
    let what = what.to_owned();
    Err(if tried.iter().all(|tried| tried.trouble.is_missing()) {
        FetchError::NotPublished { what, tried }
    } else if tried.iter().any(|tried| tried.trouble == Trouble::Offline) {
        FetchError::Offline { what, tried }
    } else if tried
        .iter()
        .any(|tried| matches!(tried.trouble, Trouble::TooLarge { .. }))
    {
        FetchError::TooLarge { what, tried }
    } else {
        FetchError::Unreachable { what, tried }
    })
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Name of a partial file: recognisable by people, and another for another address or promise.
fn partial_name(what: &str, address: &Location, promise: Option<&Promise>) -> String {
    let promise = promise.map_or_else(String::new, |promise| promise.sha256.to_string());
    let key = Sha256::of(format!("{address}\n{promise}").as_bytes());
    format!("{what}.{}", key.short8())
}

/// Takes a file from a directory.
fn copy(
    path: &Utf8Path,
    what: &str,
    cap: u64,
    sink: &mut dyn Sink,
    progress: &dyn Progress,
) -> Result<(), Halt> {
    let unreadable = |error: std::io::Error| {
        Halt::Mirror(if error.kind() == std::io::ErrorKind::NotFound {
            Trouble::Missing("no such file".to_owned())
        } else {
            Trouble::Unreadable(error.to_string())
        })
    };
    // A pipe would be waited for without end.
    let mut file = match files::open(path) {
        Ok(file) => file,
        Err(FileError::Io { source, .. }) => return Err(unreadable(source)),
        Err(error) => return Err(Halt::Mirror(Trouble::Unreadable(error.to_string()))),
    };
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(Halt::Mirror(Trouble::Unreadable("not a file".to_owned())));
    }
    let total = about.len();
    let too_large = |announced| Halt::Mirror(Trouble::TooLarge { cap, announced });
    if total > cap {
        return Err(too_large(Some(total)));
    }
    sink.restart(None, Some(total))?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        interrupt::check()?;
        let count = file.read(&mut buffer).map_err(unreadable)?;
        if count == 0 {
            break;
        }
        let bytes = &buffer[..count];
        if sink.offset() == 0 && transfer::looks_like_a_page(bytes) {
            return Err(Halt::Mirror(Trouble::WebPage));
        }
        if sink.offset() + count as u64 > cap {
            return Err(too_large(None));
        }
        sink.append(bytes)?;
    }
    progress.event(&Event::Bytes {
        what: what.to_owned(),
        done: sink.offset(),
        total: Some(total),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Diagnose as _, Exit};
    use crate::progress::Silent;

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf, Store) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from(dir.path().to_str().unwrap());
        let store = Store::open(&path.join("store")).unwrap();
        (dir, path.join("mirror"), store)
    }

    #[test]
    fn the_built_in_addresses_are_addresses() {
        let mirrors = Mirrors::kernel_org();
        assert_eq!(
            mirrors.kernel[0].join("v6.x/a").to_string(),
            "https://cdn.kernel.org/pub/linux/kernel/v6.x/a"
        );
        assert_eq!(mirrors.releases.document("x").to_string(), RELEASES);
    }

    #[test]
    fn a_directory_serves_and_a_file_it_lacks_is_not_published() {
        let (_guard, mirror, store) = scratch();
        files::write(&mirror.join("v6.x/linux-6.18.tar.xz"), b"archive").unwrap();
        let mirrors = Mirrors::directory(&mirror);
        let path = "v6.x/linux-6.18.tar.xz";
        let fetched = mirrors.archive(path, 100, None, &store, &Silent).unwrap();
        assert_eq!(fetched.sha256, Sha256::of(b"archive"));
        let digest = fetched.sha256;
        fetched.keep(&store).unwrap();
        assert!(store.get(&digest).unwrap().is_some());
        let left = files::list(&store.partial()).unwrap();
        assert_eq!(left, ["linux-6.18.tar.xz.lock"]);
        let absent = mirrors.archive("v6.x/x", 100, None, &store, &Silent);
        assert_eq!(absent.unwrap_err().exit(), Exit::NotPublished);
    }

    #[test]
    fn a_promise_and_a_cap_are_held() {
        let (_guard, mirror, store) = scratch();
        files::write(&mirror.join("x"), b"archive").unwrap();
        let mirrors = Mirrors::directory(&mirror);
        let promise = Promise {
            sha256: Sha256::of(b"other"),
            by: "the lock",
        };
        let wrong = mirrors.archive("x", 100, Some(&promise), &store, &Silent);
        let wrong = wrong.unwrap_err();
        assert_eq!(
            (wrong.exit(), wrong.code()),
            (Exit::NotVerified, "wrong-digest")
        );
        let large = mirrors.archive("x", 6, None, &store, &Silent).unwrap_err();
        assert_eq!(
            (large.exit(), large.code()),
            (Exit::NotVerified, "download-too-large")
        );
        assert!(mirrors.archive("x", 7, None, &store, &Silent).is_ok());
    }

    #[test]
    fn the_next_directory_is_asked_and_recorded() {
        let (_guard, mirror, _store) = scratch();
        files::write(&mirror.join("two/x"), b"document").unwrap();
        let mut mirrors = Mirrors::directory(&mirror.join("one"));
        mirrors.kernel.push(Location::Directory(mirror.join("two")));
        let (bytes, served) = mirrors.document("x", 100, &Silent).unwrap();
        assert_eq!(bytes, b"document");
        assert!(served.address.ends_with("two/x"));
        assert!(served.tried[0].trouble.is_missing());
    }

    #[test]
    fn offline_only_directories_are_asked() {
        let (_guard, mirror, _store) = scratch();
        files::write(&mirror.join("x"), b"document").unwrap();
        // Nothing listens there: an attempt would be trouble of another kind.
        let remote = Location::parse("http://127.0.0.1:1/", Utf8Path::new("/")).unwrap();
        let mut mirrors = Mirrors::directory(&mirror);
        mirrors.kernel.insert(0, remote.clone());
        mirrors.checksums = vec![remote.clone()];
        mirrors.releases = remote;
        mirrors.offline = true;
        assert_eq!(mirrors.document("x", 100, &Silent).unwrap().0, b"document");
        assert_eq!(mirrors.checksums("x", 100, &Silent).unwrap().0, b"document");
        let errors = [
            mirrors.document("y", 100, &Silent).unwrap_err(),
            mirrors.checksums("y", 100, &Silent).unwrap_err(),
            mirrors.releases(&Silent).unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.exit(), error.code()), (Exit::Network, "offline"));
        }
    }

    #[test]
    fn a_page_in_a_directory_is_no_signature() {
        let (_guard, mirror, _store) = scratch();
        files::write(&mirror.join("x"), b"<html>sign in</html>").unwrap();
        let error = Mirrors::directory(&mirror).document("x", 100, &Silent);
        assert_eq!(error.unwrap_err().exit(), Exit::Network);
    }
}
