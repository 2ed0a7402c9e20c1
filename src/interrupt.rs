//! Ctrl-C and `kill`: a flag that every long loop looks at, so that work stops in order, with no
//! child left behind and no half-written file.
//!
//! A second signal ends the process at once; children then die by their parent-death signal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Diagnose, Exit};

static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

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

/// Starts to listen. Called once, by the edge.
///
/// # Errors
/// Fails where the system refuses a handler.
pub fn install() -> std::io::Result<()> {
    for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)] {
        let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(exit.code()),
            Arc::clone(&seen),
        )?;
        signal_hook::flag::register(signal, seen)?;
        signal_hook::flag::register_usize(
            signal,
            Arc::clone(&RECEIVED),
            signal.unsigned_abs() as usize,
        )?;
    }
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// [`Interrupted`] once a signal has arrived.
pub fn check() -> Result<(), Interrupted> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal if signal == SIGINT.unsigned_abs() as usize => Err(Interrupted::Terminal),
        _ => Err(Interrupted::Terminate),
    }
}
