//! A mirror of kernel.org on the loopback interface, with faults.
//!
//! Real sockets, one thread a connection, HTTP/1.1 with one request a connection. A served file is
//! never held in memory. Dropped, it shuts down, and panics where it could not: a test that leaks
//! a server would disturb others.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Cursor, Read, Seek, SeekFrom, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln::digest::Sha256;

/// How long a shutdown may take.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// The date that everything was changed on.
const DATE: &str = "Sat, 14 Nov 2026 12:56:00 GMT";

/// What the server holds under one path.
#[derive(Clone)]
pub struct Content {
    body: Body,
    /// The entity tag, quotes and all; none is sent where this is `None`.
    tag: Option<String>,
    /// Whether the date of its last change is sent.
    dated: bool,
}

#[derive(Clone)]
enum Body {
    Bytes(Arc<Vec<u8>>),
    File(PathBuf, u64),
}

trait Stream: Read + Seek {}
impl<T: Read + Seek> Stream for T {}

impl Content {
    /// Bytes with a strong tag.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let tag = format!("\"{}\"", Sha256::of(&bytes).short8());
        Self {
            body: Body::Bytes(Arc::new(bytes)),
            tag: Some(tag),
            dated: true,
        }
    }

    /// A file on disk, of any size.
    pub fn file(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let length = path.metadata()?.len();
        Ok(Self {
            body: Body::File(path, length),
            tag: Some(format!("\"file-{length}\"")),
            dated: true,
        })
    }

    /// The same with another entity tag, or none.
    pub fn tag(mut self, tag: Option<&str>) -> Self {
        self.tag = tag.map(str::to_owned);
        self
    }

    /// The same without a date.
    pub fn undated(mut self) -> Self {
        self.dated = false;
        self
    }

    fn length(&self) -> u64 {
        match &self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(_, length) => *length,
        }
    }

    fn open(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match &self.body {
            Body::Bytes(bytes) => Box::new(Cursor::new(bytes.to_vec())),
            Body::File(path, _) => Box::new(File::open(path)?),
        })
    }
}

/// What goes wrong with an answer.
#[derive(Clone)]
pub enum Fault {
    /// The request is taken, no answer comes.
    Silent,
    /// After this many bytes of the body nothing more comes.
    Stall(u64),
    /// This many bytes at a time, with this pause.
    Trickle(usize, Duration),
    /// The connection is closed after this many bytes of the body.
    Cut(u64),
    /// Cut, and from then on the path holds other content.
    CutThenChange(u64, Content),
    /// The file lacks its end, and the server does not know.
    ShortBy(u64),
    /// A status without a body.
    Status(u16),
    /// The whole file, whatever range is asked for.
    IgnoreRange,
    /// A part under this `Content-Range`.
    ContentRange(String),
    /// A part of whatever the file is now, without looking at `If-Range`.
    IgnoreIfRange,
    /// Other bytes.
    Instead(Content),
    /// Bytes without end or length.
    Endless,
    /// A length that no honest file has, announced.
    Announce(u64),
    /// The whole file without a length.
    NoLength,
    /// Elsewhere.
    Redirect(String),
    /// A page for people, as a success.
    Page,
    /// As if packed.
    Encoded(String),
}

/// One request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Path, without the leading slash.
    pub path: String,
    /// `Range`.
    pub range: Option<String>,
    /// `If-Range`.
    pub if_range: Option<String>,
    /// `User-Agent`.
    pub agent: Option<String>,
    /// The whole first line, as a proxy sees it.
    pub line: String,
}

#[derive(Default)]
struct State {
    files: Mutex<BTreeMap<String, Content>>,
    faults: Mutex<BTreeMap<String, VecDeque<(Fault, bool)>>>,
    log: Mutex<Vec<Asked>>,
    stop: AtomicBool,
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server.
pub struct Mirror {
    state: Arc<State>,
    address: SocketAddr,
    accept: Option<JoinHandle<()>>,
}

impl Mirror {
    /// Starts an empty one.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let accept = std::thread::spawn(move || accept(&listener, &shared));
        Ok(Self {
            state,
            address,
            accept: Some(accept),
        })
    }

    /// Its base address, with a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Puts content under a path (`v6.x/linux-6.18.tar.xz`), replacing what was there.
    pub fn put(&self, path: &str, content: Content) {
        lock(&self.state.files).insert(path.to_owned(), content);
    }

    /// Removes a path.
    pub fn remove(&self, path: &str) {
        lock(&self.state.files).remove(path);
    }

    /// Every answer for `path` has this fault.
    pub fn fault(&self, path: &str, fault: Fault) {
        self.add_fault(path, fault, true);
    }

    /// The next answer for `path` has this fault; several are used up in order.
    pub fn fault_once(&self, path: &str, fault: Fault) {
        self.add_fault(path, fault, false);
    }

    fn add_fault(&self, path: &str, fault: Fault, stays: bool) {
        let mut faults = lock(&self.state.faults);
        let queue = faults.entry(path.to_owned()).or_default();
        queue.push_back((fault, stays));
    }

    /// From now on every answer for `path` is good.
    pub fn mend(&self, path: &str) {
        lock(&self.state.faults).remove(path);
    }

    /// The requests that came for `path`.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let log = lock(&self.state.log);
        log.iter()
            .filter(|asked| asked.path == path)
            .cloned()
            .collect()
    }

    /// Every request that came.
    pub fn log(&self) -> Vec<Asked> {
        lock(&self.state.log).clone()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _woken = TcpStream::connect(self.address);
        let deadline = Instant::now() + SHUTDOWN;
        let mut ended = self
            .accept
            .take()
            .is_none_or(|thread| join(thread, deadline));
        for (stream, thread) in std::mem::take(&mut *lock(&self.state.connections)) {
            let _closed = stream.shutdown(Shutdown::Both);
            ended &= join(thread, deadline);
        }
        assert!(
            ended || std::thread::panicking(),
            "the loopback mirror did not shut down within {SHUTDOWN:?}"
        );
    }
}

fn join(thread: JoinHandle<()>, deadline: Instant) -> bool {
    while !thread.is_finished() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    thread.join().is_ok()
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for stream in listener.incoming() {
        if state.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else {
            continue;
        };
        let shared = Arc::clone(state);
        let thread = std::thread::spawn(move || {
            // An error is the client hanging up, which is its right.
            let _hung_up = serve(&stream, &shared);
            let _closed = stream.shutdown(Shutdown::Both);
        });
        lock(&state.connections).push((handle, thread));
    }
}

/// Reads one request and answers it.
fn serve(stream: &TcpStream, state: &State) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let target = line.split(' ').nth(1).unwrap_or_default();
    // A proxy is asked with the whole address.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
        None => target.trim_start_matches('/'),
    };
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let asked = Asked {
        path: path.to_owned(),
        range: headers.get("range").cloned(),
        if_range: headers.get("if-range").cloned(),
        agent: headers.get("user-agent").cloned(),
        line: line.trim_end().to_owned(),
    };
    lock(&state.log).push(asked.clone());
    let fault = next_fault(state, path);
    Answer {
        stream,
        state,
        asked,
    }
    .give(fault)
}

fn next_fault(state: &State, path: &str) -> Option<Fault> {
    let mut faults = lock(&state.faults);
    let queue = faults.get_mut(path)?;
    match queue.front() {
        Some((fault, true)) => Some(fault.clone()),
        _ => queue.pop_front().map(|(fault, _)| fault),
    }
}

struct Answer<'a> {
    stream: &'a TcpStream,
    state: &'a State,
    asked: Asked,
}

/// Which part of the content is sent, under which head.
struct Part {
    status: &'static str,
    from: u64,
    headers: Vec<String>,
}

impl Answer<'_> {
    fn give(&self, fault: Option<Fault>) -> io::Result<()> {
        let held = lock(&self.state.files).get(&self.asked.path).cloned();
        match fault {
            Some(Fault::Silent) => return self.wait(),
            Some(Fault::Status(status)) => return self.bare(&status.to_string(), &[]),
            Some(Fault::Redirect(to)) => {
                return self.bare("302 Found", &[format!("Location: {to}")]);
            }
            Some(Fault::Page) => {
                let page = Content::bytes("<!DOCTYPE html>\n<title>Sign in</title>\n");
                return self.send(&page, &whole(&page), None);
            }
            Some(Fault::Endless) => return self.endless(),
            _ => {}
        }
        let Some(held) = held else {
            return self.bare("404 Not Found", &[]);
        };
        let part = self.part(&held, fault.as_ref());
        match fault {
            Some(Fault::Instead(other)) => self.send(&other, &whole(&other), None),
            Some(Fault::ShortBy(bytes)) => {
                let mut whole = Vec::new();
                held.open()?.read_to_end(&mut whole)?;
                whole.truncate(whole.len() - usize::try_from(bytes).unwrap());
                let short = Content::bytes(whole).tag(held.tag.as_deref());
                self.send(&short, &self.part(&short, None), None)
            }
            Some(Fault::CutThenChange(at, other)) => {
                self.send(&held, &part, Some(at))?;
                lock(&self.state.files).insert(self.asked.path.clone(), other);
                Ok(())
            }
            Some(Fault::Cut(at)) => self.send(&held, &part, Some(at)),
            Some(Fault::Stall(at)) => {
                self.send(&held, &part, Some(at))?;
                self.wait()
            }
            Some(Fault::Trickle(bytes, pause)) => self.trickle(&held, &part, bytes, pause),
            _ => self.send(&held, &part, None),
        }
    }

    /// What an honest server sends, changed by the faults that concern the head.
    fn part(&self, content: &Content, fault: Option<&Fault>) -> Part {
        let mut whole = whole(content);
        match fault {
            Some(Fault::Announce(length)) => {
                whole.headers[0] = format!("Content-Length: {length}");
                return whole;
            }
            Some(Fault::NoLength) => {
                whole.headers.remove(0);
                return whole;
            }
            Some(Fault::Encoded(as_what)) => {
                whole.headers.push(format!("Content-Encoding: {as_what}"));
                return whole;
            }
            Some(Fault::IgnoreRange) => return whole,
            _ => {}
        }
        let Some(from) = self.asked.range.as_deref().and_then(first_byte) else {
            return whole;
        };
        let same =
            self.asked.if_range.as_ref().is_none_or(|validator| {
                *validator == DATE || content.tag.as_ref() == Some(validator)
            });
        if !same && !matches!(fault, Some(Fault::IgnoreIfRange)) {
            return whole;
        }
        let total = content.length();
        if from >= total {
            return Part {
                status: "416 Range Not Satisfiable",
                from: total,
                headers: vec![
                    "Content-Length: 0".to_owned(),
                    format!("Content-Range: bytes */{total}"),
                ],
            };
        }
        let range = match fault {
            Some(Fault::ContentRange(range)) => range.clone(),
            _ => format!("bytes {from}-{}/{total}", total - 1),
        };
        whole.headers[0] = format!("Content-Length: {}", total - from);
        whole.headers.push(format!("Content-Range: {range}"));
        Part {
            status: "206 Partial Content",
            from,
            headers: whole.headers,
        }
    }

    fn head(&self, status: &str, headers: &[String]) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let mut stream = self.stream;
        stream.write_all(text.as_bytes())
    }

    fn bare(&self, status: &str, headers: &[String]) -> io::Result<()> {
        let mut all = vec!["Content-Length: 0".to_owned()];
        all.extend_from_slice(headers);
        self.head(status, &all)
    }

    /// Sends a part, at most up to the byte `until` of the content.
    fn send(&self, content: &Content, part: &Part, until: Option<u64>) -> io::Result<()> {
        self.head(part.status, &part.headers)?;
        let end = until.unwrap_or(u64::MAX).min(content.length());
        let mut source = content.open()?;
        source.seek(SeekFrom::Start(part.from))?;
        let mut stream = self.stream;
        io::copy(&mut source.take(end.saturating_sub(part.from)), &mut stream)?;
        Ok(())
    }

    fn trickle(
        &self,
        content: &Content,
        part: &Part,
        bytes: usize,
        pause: Duration,
    ) -> io::Result<()> {
        self.head(part.status, &part.headers)?;
        let mut source = content.open()?;
        source.seek(SeekFrom::Start(part.from))?;
        let mut piece = vec![0; bytes];
        let mut stream = self.stream;
        while !self.state.stop.load(Ordering::SeqCst) {
            let count = source.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            stream.write_all(&piece[..count])?;
            std::thread::sleep(pause);
        }
        Ok(())
    }

    fn endless(&self) -> io::Result<()> {
        self.head("200 OK", &[])?;
        let piece = vec![b'x'; 64 << 10];
        let mut stream = self.stream;
        while !self.state.stop.load(Ordering::SeqCst) {
            stream.write_all(&piece)?;
        }
        Ok(())
    }

    /// Says nothing until the server stops or the client hangs up.
    fn wait(&self) -> io::Result<()> {
        self.stream
            .set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut stream = self.stream;
        let mut byte = [0];
        while !self.state.stop.load(Ordering::SeqCst) {
            match stream.read(&mut byte) {
                Ok(0) => return Ok(()),
                Err(e)
                    if !matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Err(e);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The head of a whole answer.
fn whole(content: &Content) -> Part {
    let mut headers = vec![format!("Content-Length: {}", content.length())];
    if content.dated {
        headers.push(format!("Last-Modified: {DATE}"));
    }
    headers.extend(content.tag.iter().map(|tag| format!("ETag: {tag}")));
    Part {
        status: "200 OK",
        from: 0,
        headers,
    }
}

/// `N` of `bytes=N-`.
fn first_byte(range: &str) -> Option<u64> {
    range
        .strip_prefix("bytes=")?
        .strip_suffix('-')?
        .parse()
        .ok()
}
