//! What can go wrong with one mirror, and what is done about it.

use std::time::Duration;

/// Why one mirror did not give the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The mirror does not have it.
    #[error("not there ({0})")]
    Missing(String),
    /// The server refuses, or is in trouble itself.
    #[error("the server answered {0}")]
    Status(u16),
    /// No connection, no name, no answer, or a connection that broke.
    #[error("{0}")]
    Network(String),
    /// The connection ended early.
    #[error("the connection ended after {got} of {total} bytes")]
    Cut {
        /// Bytes that arrived in all.
        got: u64,
        /// Bytes that the server had promised.
        total: u64,
    },
    /// The server took the request and said nothing.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// Too slow for too long.
    #[error("stalled: {got} bytes in the last {window:?}, fewer than {floor} bytes per second")]
    Stalled {
        /// Bytes within the window.
        got: u64,
        /// The window.
        window: Duration,
        /// The least rate, in bytes per second.
        floor: u64,
    },
    /// A page for people, such as a sign-in or error page, under a success status.
    #[error("a web page came instead of the file")]
    WebPage,
    /// Larger than the file can be.
    #[error("larger than the {cap} bytes it may have{}", server_says(*.announced))]
    TooLarge {
        /// Most bytes that are taken.
        cap: u64,
        /// What the server said beforehand.
        announced: Option<u64>,
    },
    /// From a protected connection to an open one.
    #[error("redirected from https to `{to}`, which is not protected")]
    InsecureRedirect {
        /// The address it pointed to.
        to: String,
    },
    /// A redirect that leads nowhere.
    #[error("redirected to `{to}`, which is no address of a file on a web server")]
    BadRedirect {
        /// The address it pointed to.
        to: String,
    },
    /// A chain of redirects.
    #[error("redirected more than {0} times")]
    Redirects(usize),
    /// The part that came is not the part that was asked for.
    #[error("asked for the bytes from {asked}, answered `{answered}`")]
    Range {
        /// First byte asked for.
        asked: u64,
        /// The `Content-Range` that came.
        answered: String,
    },
    /// Packed on the way, although that was not asked for.
    #[error("the answer is encoded as `{0}`, which was not asked for")]
    Encoding(String),
    /// It is on a network, and none may be used.
    #[error("not asked, since --offline forbids it")]
    Offline,
    /// The directory cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

fn server_says(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(": the server says {bytes}"))
}

/// What to do after a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The same mirror again after a pause, from where it stopped.
    Again,
    /// The same mirror again, from the first byte.
    AgainFromStart,
    /// The next mirror.
    Next,
}

impl Trouble {
    /// What to do about it.
    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Status(status) if *status >= 500 || *status == 429 => Remedy::Again,
            Self::Network(_) | Self::Cut { .. } => Remedy::Again,
            Self::Range { .. } => Remedy::AgainFromStart,
            _ => Remedy::Next,
        }
    }

    /// Whether the mirror said that it does not have the file, which is no fault.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_heal_is_tried_again() {
        for (trouble, remedy) in [
            (Trouble::Status(503), Remedy::Again),
            (Trouble::Status(429), Remedy::Again),
            (Trouble::Status(403), Remedy::Next),
            (Trouble::Network("reset".to_owned()), Remedy::Again),
            (Trouble::Missing("404".to_owned()), Remedy::Next),
            (Trouble::WebPage, Remedy::Next),
            (
                Trouble::Range {
                    asked: 5,
                    answered: "none".to_owned(),
                },
                Remedy::AgainFromStart,
            ),
        ] {
            assert_eq!(trouble.remedy(), remedy, "{trouble}");
        }
    }
}
