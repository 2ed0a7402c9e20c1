//! The ways in which a kernel on trial may hang, and what ends each of them on this node.

use serde::Serialize;

use super::place::Place;
use super::units;
use crate::files;

/// One way to hang.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hang {
    /// What stands still.
    pub what: &'static str,
    /// What restarts the node then; `None` where a person must.
    pub ended_by: Option<&'static str>,
    /// What would end it, where nothing does.
    pub lacks: Option<&'static str>,
}

/// What the node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Has {
    /// A hardware watchdog that runs: something feeds it.
    watchdog: bool,
    /// A deadman in the initramfs.
    early: bool,
}

/// Looks at the node. Staging lets no kernel in that would hang where it could panic.
pub fn of(place: &Place) -> Vec<Hang> {
    let watchdogs = place.at("sys/class/watchdog");
    let names = files::list(&watchdogs).unwrap_or_default();
    let runs = |name: &String| {
        let state = files::read_text(&watchdogs.join(name).join("state"), 4096);
        state.is_ok_and(|state| state.trim() == "active")
    };
    judge(Has {
        watchdog: names.iter().any(runs),
        early: place.at(units::INIT_TOP_PATH).exists(),
    })
}

fn judge(has: Has) -> Vec<Hang> {
    let ended = |what, by| Hang {
        what,
        ended_by: Some(by),
        lacks: None,
    };
    let by_watchdog = |what| Hang {
        what,
        ended_by: has.watchdog.then_some("the hardware watchdog"),
        lacks: (!has.watchdog).then_some("a hardware watchdog that runs (`RuntimeWatchdogSec=`)"),
    };
    vec![
        ended(
            "a panic, an oops, one processor that is stuck, a task that hangs",
            "the kernel itself, by a panic",
        ),
        ended("a system that comes up and gets no verdict", "the deadman"),
        by_watchdog("all processors stuck at once"),
        by_watchdog("a restart that does not come about"),
        Hang {
            what: "an initramfs that waits for ever",
            ended_by: has.early.then_some("the deadman in the initramfs"),
            lacks: (!has.early).then_some("a deadman in the initramfs (`kiln boot init`)"),
        },
        Hang {
            what: "firmware, GRUB or the kernel while it unpacks itself",
            ended_by: None,
            lacks: Some("a watchdog of the board's own, armed before the restart"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_ends_what_the_kernel_cannot() {
        let open = |watchdog, early| {
            let all = judge(Has { watchdog, early });
            for hang in &all {
                assert_ne!(hang.ended_by.is_some(), hang.lacks.is_some(), "{hang:?}");
            }
            all.iter().filter(|hang| hang.lacks.is_some()).count()
        };
        assert_eq!((open(false, false), open(true, false)), (4, 2));
        assert_eq!((open(false, true), open(true, true)), (3, 1));
    }

    #[test]
    fn only_a_watchdog_that_runs_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8PathBuf::from(dir.path().to_str().unwrap());
        let place = Place::new(&root);
        assert_eq!(of(&place), judge(Has::default()));
        let state = root.join("sys/class/watchdog/watchdog0/state");
        files::write(&state, b"inactive\n").unwrap();
        assert_eq!(of(&place), judge(Has::default()));
        files::write(&state, b"active\n").unwrap();
        assert_eq!(
            of(&place),
            judge(Has {
                watchdog: true,
                early: false
            })
        );
    }
}
