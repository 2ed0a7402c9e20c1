//! What the kernel's own reader of Kconfig files would warn about.

use super::error::Place;

/// A warning of the reading of Kconfig files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseWarning {
    /// Anything that shows only once the next statement is read, where that stands.
    Behind(Place, String),
    /// A string that its line ends.
    MultiLine(Place),
    /// A character that no token has.
    Unsupported(Place, char),
    /// What the tree itself says by `$(warning-if,...)`.
    Tree(Place, String),
    /// Anything about an entry.
    Entry(Place, String),
}

impl ParseWarning {
    /// Where.
    pub fn place(&self) -> Place {
        match self {
            Self::Behind(place, _)
            | Self::MultiLine(place)
            | Self::Unsupported(place, _)
            | Self::Tree(place, _)
            | Self::Entry(place, _) => *place,
        }
    }

    /// The text after `FILE:LINE:`, as the kernel's reader puts it.
    pub fn text(&self) -> String {
        match self {
            Self::Behind(_, text) => format!(" warning: {text}"),
            Self::MultiLine(_) => "warning: multi-line strings not supported".to_owned(),
            Self::Unsupported(_, char) => {
                format!("warning: ignoring unsupported character '{char}'")
            }
            Self::Tree(_, text) => format!(" {text}"),
            Self::Entry(_, text) => format!("warning: {text}"),
        }
    }
}
