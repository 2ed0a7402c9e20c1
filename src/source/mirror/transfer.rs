//! One file from one HTTP server: request, redirects, ranges, limits.
//!
//! A helper thread talks to the server and hands pieces over a short queue. So this side looks at
//! the clocks and at Ctrl-C whatever the connection does, even while a name is being resolved; a
//! thread whose transfer was given up ends by its own time limit.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::blocking::{Client, Request, Response};
use reqwest::header::{self, HeaderMap};

use super::pace::StallClock;
use super::sink::Sink;
use super::trouble::{Remedy, Trouble};
use super::{FetchError, Limits};
use crate::clock;
use crate::interrupt;
use crate::progress::{Event, Progress};

/// Most redirects that are followed.
const REDIRECTS: usize = 5;

/// Size of one piece.
const CHUNK: usize = 256 << 10;

/// Pieces that may wait: bounds the memory of a transfer to about 2 MiB.
const QUEUE: usize = 8;

/// How often the clocks and the interrupt flag are looked at.
const TICK: Duration = Duration::from_millis(100);

/// A try that brought this many new bytes counts as the first of its mirror: a shaky line may cut
/// a large file many times.
const NEW_HOPE: u64 = 1 << 20;

/// Why the transfer from one mirror ended without the file.
#[derive(Debug)]
pub(super) enum Halt {
    /// This mirror's fault.
    Mirror(Trouble),
    /// Nothing that another mirror could mend.
    Here(Box<FetchError>),
}

impl Halt {
    /// Whether what arrived so far is worthless.
    pub(super) fn spoils(&self) -> bool {
        matches!(
            self,
            Self::Mirror(Trouble::TooLarge { .. } | Trouble::WebPage)
        )
    }
}

impl<E: Into<FetchError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Here(Box::new(error.into()))
    }
}

/// What the helper thread says.
enum Message {
    Head(Box<Head>),
    Piece(Vec<u8>),
    End,
    Failed(String),
}

struct Head {
    status: u16,
    headers: HeaderMap,
}

impl Head {
    fn text(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What `If-Range` may name: a strong entity tag, else the date. A weak tag promises no equal
    /// bytes (RFC 9110, section 13.1.5).
    fn validator(&self) -> Option<String> {
        let tag = self.text(header::ETAG).filter(|tag| tag.starts_with('"'));
        tag.or_else(|| self.text(header::LAST_MODIFIED))
            .map(str::to_owned)
    }

    fn length(&self) -> Option<u64> {
        self.text(header::CONTENT_LENGTH)?.parse().ok()
    }
}

/// A transfer: which file, how large at most, until when.
pub(super) struct Transfer<'a> {
    pub(super) client: &'a Client,
    pub(super) limits: &'a Limits,
    pub(super) what: &'a str,
    pub(super) cap: u64,
    pub(super) deadline: Instant,
    pub(super) progress: &'a dyn Progress,
}

impl Transfer<'_> {
    /// Gets `url` into `sink`, with pauses and further tries where they may help.
    pub(super) fn run(&self, url: &Url, sink: &mut dyn Sink) -> Result<(), Halt> {
        let mut tries = 0;
        let mut best = 0;
        loop {
            let trouble = match self.once(url, sink) {
                Ok(()) => return Ok(()),
                Err(Halt::Mirror(trouble)) => trouble,
                Err(halt) => return Err(halt),
            };
            let remedy = trouble.remedy();
            if remedy == Remedy::AgainFromStart {
                sink.restart(None, None)?;
            } else if sink.offset() >= best + NEW_HOPE {
                best = sink.offset();
                tries = 0;
            }
            if remedy == Remedy::Next || tries >= self.limits.retries {
                return Err(Halt::Mirror(trouble));
            }
            tries += 1;
            let pause = self.limits.backoff * 2_u32.saturating_pow(tries - 1);
            self.progress.event(&Event::Note(format!(
                "{}: {trouble}; trying again in {:.1} s ({tries} of {})",
                self.what,
                pause.as_secs_f64(),
                self.limits.retries
            )));
            self.sleep(pause)?;
        }
    }

    fn sleep(&self, pause: Duration) -> Result<(), Halt> {
        let until = clock::monotonic() + pause;
        loop {
            self.check()?;
            let now = clock::monotonic();
            if now >= until {
                return Ok(());
            }
            std::thread::sleep((until - now).min(TICK));
        }
    }

    /// The interrupt flag and the total deadline.
    fn check(&self) -> Result<(), Halt> {
        interrupt::check()?;
        if clock::monotonic() >= self.deadline {
            return Err(FetchError::Deadline {
                what: self.what.to_owned(),
                limit: self.limits.total,
            }
            .into());
        }
        Ok(())
    }

    /// One request, following redirects.
    fn once(&self, url: &Url, sink: &mut dyn Sink) -> Result<(), Halt> {
        let offset = sink.offset();
        if offset > 0 && sink.total() == Some(offset) {
            return Ok(());
        }
        if offset > 0 && sink.validator().is_none() {
            // Nothing says that the rest would be of the same version.
            sink.restart(None, None)?;
        }
        let mut url = url.clone();
        for _hop in 0..=REDIRECTS {
            let messages = self.ask(&url, sink)?;
            let head = self.head(&messages)?;
            if matches!(head.status, 301 | 302 | 303 | 307 | 308) {
                url = next_hop(&url, head.text(header::LOCATION).unwrap_or_default())
                    .map_err(Halt::Mirror)?;
                continue;
            }
            self.accept(&head, sink)?;
            return self.receive(&messages, sink);
        }
        Err(Halt::Mirror(Trouble::Redirects(REDIRECTS)))
    }

    /// Sends the request from a helper thread.
    fn ask(&self, url: &Url, sink: &dyn Sink) -> Result<Receiver<Message>, Halt> {
        let mut request = self
            .client
            .get(url.clone())
            .header(header::ACCEPT_ENCODING, "identity");
        if let (true, Some(validator)) = (sink.offset() > 0, sink.validator()) {
            request = request
                .header(header::RANGE, format!("bytes={}-", sink.offset()))
                .header(header::IF_RANGE, validator);
        }
        let request = request
            .build()
            .map_err(|error| Halt::Mirror(Trouble::Network(flat(&error))))?;
        let client = self.client.clone();
        let (sender, receiver) = sync_channel(QUEUE);
        let _detached = std::thread::spawn(move || converse(&client, request, &sender));
        Ok(receiver)
    }

    /// Waits for the head of the answer.
    fn head(&self, messages: &Receiver<Message>) -> Result<Head, Halt> {
        let limit = self.limits.answer;
        let until = clock::monotonic() + limit;
        loop {
            self.check()?;
            match messages.recv_timeout(TICK) {
                Ok(Message::Head(head)) => return Ok(*head),
                Ok(Message::Failed(why)) => return Err(Halt::Mirror(Trouble::Network(why))),
                Ok(Message::Piece(_) | Message::End) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Halt::Mirror(Trouble::Network("no answer".to_owned())));
                }
                Err(RecvTimeoutError::Timeout) if clock::monotonic() >= until => {
                    return Err(Halt::Mirror(Trouble::Silent(limit)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Judges the head of the answer, and makes `sink` ready for its body.
    fn accept(&self, head: &Head, sink: &mut dyn Sink) -> Result<(), Halt> {
        if let Some(encoding) = head.text(header::CONTENT_ENCODING)
            && !encoding.eq_ignore_ascii_case("identity")
        {
            return Err(Halt::Mirror(Trouble::Encoding(encoding.to_owned())));
        }
        let offset = sink.offset();
        match head.status {
            200 => {
                let total = head.length();
                self.cap(total)?;
                sink.restart(head.validator(), total)?;
            }
            206 => {
                let answered = head.text(header::CONTENT_RANGE).unwrap_or("no range");
                let fits = ContentRange::parse(answered).is_some_and(|range| {
                    range.first == offset
                        && Some(range.last) == range.total.checked_sub(1)
                        && sink.total().is_none_or(|total| total == range.total)
                        && head
                            .length()
                            .is_none_or(|l| Some(l) == range.total.checked_sub(offset))
                });
                let same = head
                    .validator()
                    .is_none_or(|v| Some(&*v) == sink.validator());
                if offset == 0 || !fits || !same {
                    return Err(Halt::Mirror(Trouble::Range {
                        asked: offset,
                        answered: if fits {
                            format!("{answered} of another version")
                        } else {
                            answered.to_owned()
                        },
                    }));
                }
                sink.join();
            }
            416 if offset > 0 => {
                return Err(Halt::Mirror(Trouble::Range {
                    asked: offset,
                    answered: "416 (no such range)".to_owned(),
                }));
            }
            404 | 410 => return Err(Halt::Mirror(Trouble::Missing(head.status.to_string()))),
            status => return Err(Halt::Mirror(Trouble::Status(status))),
        }
        Ok(())
    }

    fn cap(&self, announced: Option<u64>) -> Result<(), Halt> {
        if announced.is_some_and(|bytes| bytes > self.cap) {
            return Err(Halt::Mirror(Trouble::TooLarge {
                cap: self.cap,
                announced,
            }));
        }
        Ok(())
    }

    /// Takes the body.
    fn receive(&self, messages: &Receiver<Message>, sink: &mut dyn Sink) -> Result<(), Halt> {
        let mut clock = StallClock::start(self.limits.slow, clock::monotonic());
        let mut meter = Meter::new(self);
        meter.show(sink, true);
        loop {
            self.check()?;
            let now = clock::monotonic();
            match messages.recv_timeout(TICK.min(self.limits.slow.window)) {
                Ok(Message::Piece(bytes)) => {
                    clock.count(bytes.len(), now);
                    self.take(&bytes, sink)?;
                    meter.show(sink, false);
                }
                Ok(Message::End) => {
                    meter.show(sink, true);
                    return ended(sink, None);
                }
                Ok(Message::Failed(why)) => return ended(sink, Some(why)),
                Ok(Message::Head(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return ended(sink, Some("the connection broke".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(got) = clock.stalled(clock::monotonic()) {
                return Err(Halt::Mirror(Trouble::Stalled {
                    got,
                    window: self.limits.slow.window,
                    floor: self.limits.slow.floor,
                }));
            }
        }
    }

    fn take(&self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Halt> {
        if sink.offset() == 0 && looks_like_a_page(bytes) {
            return Err(Halt::Mirror(Trouble::WebPage));
        }
        if sink.offset() + bytes.len() as u64 > self.cap {
            return Err(Halt::Mirror(Trouble::TooLarge {
                cap: self.cap,
                announced: None,
            }));
        }
        Ok(sink.append(bytes)?)
    }
}

/// Judges the end of a body: `failed` says why it ended before its end, if it did.
fn ended(sink: &dyn Sink, failed: Option<String>) -> Result<(), Halt> {
    let got = sink.offset();
    match (sink.total(), failed) {
        (Some(total), None) if got == total => Ok(()),
        (None, None) => Ok(()),
        (Some(total), _) if got < total => Err(Halt::Mirror(Trouble::Cut { got, total })),
        (_, failed) => Err(Halt::Mirror(Trouble::Network(
            failed.unwrap_or_else(|| format!("{got} bytes came, more than were announced")),
        ))),
    }
}

/// Reports bytes, ten times a second at most.
struct Meter<'a> {
    transfer: &'a Transfer<'a>,
    last: Option<Instant>,
}

impl<'a> Meter<'a> {
    fn new(transfer: &'a Transfer<'a>) -> Self {
        Self {
            transfer,
            last: None,
        }
    }

    fn show(&mut self, sink: &dyn Sink, always: bool) {
        let now = clock::monotonic();
        let due = self.last.is_none_or(|last| now - last >= TICK);
        if always || due {
            self.last = Some(now);
            self.transfer.progress.event(&Event::Bytes {
                what: self.transfer.what.to_owned(),
                done: sink.offset(),
                total: sink.total(),
            });
        }
    }
}

/// The helper thread: one request, one answer. An error to send means that nobody listens any more.
fn converse(client: &Client, request: Request, to: &SyncSender<Message>) {
    let mut response = match client.execute(request) {
        Ok(response) => response,
        Err(error) => {
            let _unheard = to.send(Message::Failed(flat(&error)));
            return;
        }
    };
    let head = Head {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
    };
    let mut message = Message::Head(Box::new(head));
    while to.send(message).is_ok() {
        message = match piece(&mut response) {
            Ok(bytes) if bytes.is_empty() => Message::End,
            Ok(bytes) => Message::Piece(bytes),
            Err(error) => Message::Failed(flat(&error)),
        };
        if !matches!(message, Message::Piece(_)) {
            let _unheard = to.send(message);
            return;
        }
    }
}

fn piece(response: &mut Response) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; CHUNK];
    let count = response.read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// An error and its causes on one line, without the address, which whoever reads it knows.
pub(super) fn flat(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.split(" for url (").next().unwrap_or(&text).to_owned();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}

/// Where a redirect leads; never from https to anything else.
fn next_hop(from: &Url, location: &str) -> Result<Url, Trouble> {
    let bad = || Trouble::BadRedirect {
        to: location.to_owned(),
    };
    if location.is_empty() {
        return Err(bad());
    }
    let to = from.join(location).map_err(|_| bad())?;
    match (from.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => Ok(to),
        ("https", "http") => Err(Trouble::InsecureRedirect { to: to.to_string() }),
        _ => Err(bad()),
    }
}

/// Whether the start of a file is that of a web page. No file of kernel.org's begins with `<`.
pub(super) fn looks_like_a_page(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let start = text.trim_ascii_start();
    let start = &start[..start.len().min(14)];
    start.eq_ignore_ascii_case(b"<!doctype html")
        || [&b"<html"[..], b"<head", b"<?xml", b"<!--"]
            .iter()
            .any(|mark| {
                start
                    .get(..mark.len())
                    .is_some_and(|s| s.eq_ignore_ascii_case(mark))
            })
}

/// `Content-Range: bytes FIRST-LAST/TOTAL`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    last: u64,
    total: u64,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        Some(Self {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            total: total.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_never_leave_https() {
        let https: Url = "https://m/pub/x".parse().unwrap();
        let http: Url = "http://m/pub/x".parse().unwrap();
        assert_eq!(next_hop(&https, "/y").unwrap().as_str(), "https://m/y");
        assert_eq!(
            next_hop(&http, "https://n/y").unwrap().as_str(),
            "https://n/y"
        );
        assert_eq!(next_hop(&http, "//n/y").unwrap().as_str(), "http://n/y");
        assert!(matches!(
            next_hop(&https, "http://m/pub/x"),
            Err(Trouble::InsecureRedirect { .. })
        ));
        for bad in ["", "file:///etc/passwd", "ftp://m/x", "http://"] {
            assert!(
                matches!(next_hop(&https, bad), Err(Trouble::BadRedirect { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn content_ranges_are_read_strictly() {
        assert_eq!(
            ContentRange::parse("bytes 5-9/10"),
            Some(ContentRange {
                first: 5,
                last: 9,
                total: 10
            })
        );
        for bad in [
            "bytes 5-9/*",
            "bytes */10",
            "5-9/10",
            "bytes=5-9/10",
            "bytes 5-/10",
            "",
        ] {
            assert_eq!(ContentRange::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn pages_are_told_from_files() {
        for page in [
            "<!DOCTYPE html>",
            "\n <HTML lang=en>",
            "<!-- x -->",
            "\u{feff}<html>",
        ] {
            assert!(looks_like_a_page(page.as_bytes()), "{page}");
        }
        for file in [
            "-----BEGIN PGP SIGNATURE-----",
            "{\"a\": 1}",
            "\u{fd}7zXZ",
            "",
            "<",
        ] {
            assert!(!looks_like_a_page(file.as_bytes()), "{file}");
        }
    }

    #[test]
    fn only_strong_tags_and_dates_validate() {
        let head = |name, value: &str| Head {
            status: 200,
            headers: HeaderMap::from_iter([(name, value.parse().unwrap())]),
        };
        assert_eq!(head(header::ETAG, "\"a\"").validator().unwrap(), "\"a\"");
        assert_eq!(head(header::ETAG, "W/\"a\"").validator(), None);
        let date = "Sat, 14 Nov 2026 12:56:00 GMT";
        assert_eq!(head(header::LAST_MODIFIED, date).validator().unwrap(), date);
    }
}
