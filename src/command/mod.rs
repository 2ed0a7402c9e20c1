//! The one runner of other programs.
//!
//! Every program is an absolute path and a list of arguments, never a shell line. It gets a clean
//! environment, a process group of its own, a deadline, and its output goes to a file, so that no
//! pipe can fill and no child can hang us. When we stop early the group gets TERM, then KILL; when
//! we are killed, the kernel kills the child (and a sandbox takes all its processes with it).

mod again;
mod cmd;
mod error;
mod process;
mod proxy;
mod tool;

pub use again::again;
pub use cmd::{Cmd, quoted};
pub use error::CommandError;
pub use proxy::proxies;
pub use tool::{SEARCH_PATH, Tool};
