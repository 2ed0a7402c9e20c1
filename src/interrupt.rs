//! Ctrl-C and `kill`: a flag that every long loop looks at, so that work stops in order, with no
//! child left behind and no half-written file.
//!
//! A second signal, once the first had its time, ends the process at once; children then die by
//! their parent-death signal.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::failure::{Diagnose, Exit};

/// The signal that arrived first; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Signals that follow the first one within this time are part of it: a terminal and a service
/// manager may both send one, and `kill` of a whole group reaches kiln twice.
const ONE_WISH: Duration = Duration::from_secs(1);

/// A signal asked the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// Ctrl-C.
    #[error("interrupted")]
    Terminal,
    /// `kill`, or the service manager.
    #[error("terminated")]
    Terminate,
}

impl Diagnose for Interrupted {
    fn exit(&self) -> Exit {
        match self {
            Self::Terminal => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Terminal => "interrupted",
            Self::Terminate => "terminated",
        }
    }

    fn hints(&self) -> Vec<String> {
        vec!["run the same command again: it goes on from the last finished stage".to_owned()]
    }
}

/// Whether another program has the terminal.
static ON_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C came meanwhile.
static PASSED_ON: AtomicBool = AtomicBool::new(false);

/// While it lives, Ctrl-C belongs to the program that has the terminal.
#[derive(Debug)]
pub(crate) struct Lent(&'static AtomicBool);

impl Lent {
    /// Whether Ctrl-C came since this was asked last.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Leaves the terminal to another program.
pub(crate) fn lend_terminal() -> Lent {
    ON_TERMINAL.store(true, Ordering::Relaxed);
    Lent(&PASSED_ON)
}

impl Drop for Lent {
    fn drop(&mut self) {
        ON_TERMINAL.store(false, Ordering::Relaxed);
    }
}

/// Starts to listen, on a thread of its own. Called once, by the edge.
///
/// # Errors
/// Fails where the system refuses a handler or a thread.
pub fn install() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        let mut first = None;
        for signal in signals.forever() {
            if signal == SIGINT && ON_TERMINAL.load(Ordering::Relaxed) {
                PASSED_ON.store(true, Ordering::Relaxed);
                continue;
            }
            let since = *first.get_or_insert_with(clock::monotonic);
            if RECEIVED.load(Ordering::Relaxed) == 0 {
                RECEIVED.store(signal, Ordering::Relaxed);
            } else if since.elapsed() > ONE_WISH {
                signal_hook::low_level::exit(i32::from(meaning(signal).exit().code()));
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .map(drop)
}

fn meaning(signal: i32) -> Interrupted {
    if signal == SIGINT {
        Interrupted::Terminal
    } else {
        Interrupted::Terminate
    }
}

/// Whether to go on.
///
/// # Errors
/// [`Interrupted`] once a signal has arrived.
pub fn check() -> Result<(), Interrupted> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(meaning(signal)),
    }
}
