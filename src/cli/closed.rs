//! Whether standard output was closed when the program began. By the time `main` runs, the standard
//! library has put `/dev/null` in its place, where every write succeeds and nobody reads.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether nobody can read what is written to standard output.
pub(super) fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    #[expect(
        unsafe_code,
        reason = "the descriptor may not be open, which is the question"
    )]
    // SAFETY: the number is only handed to one system call, which answers for any number.
    let out = unsafe { BorrowedFd::borrow_raw(1) };
    CLOSED.store(rustix::io::fcntl_getfd(out).is_err(), Ordering::Relaxed);
}

#[used]
#[expect(
    unsafe_code,
    reason = "there is no safe way to run before the standard library"
)]
// SAFETY: the section holds functions of this form (System V ABI); this one allocates nothing and
// uses nothing of the standard library that is set up later.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
