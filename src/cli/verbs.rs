//! The table of verbs. What is not here is not a verb; what is here works.

use clap::{ArgMatches, Command};

use super::context::{Context, Format};
use crate::failure::{Exit, Failure};

/// One verb, and all that is told about it.
#[derive(Debug)]
pub struct Verb {
    /// Noun and verb, or the verb alone.
    pub path: &'static [&'static str],
    /// What it does: an imperative sentence without its period.
    pub summary: &'static str,
    /// What else is worth knowing; may be empty.
    pub detail: &'static str,
    /// Whether it writes anything beside its own cache and records.
    pub writes: bool,
    /// The formats that it answers in.
    pub formats: &'static [Format],
    /// The exit codes that it has beside those of every verb (0, 1, 2, 130, 143).
    pub exits: &'static [Exit],
    /// Commands to try; each is parsed by a test.
    pub examples: &'static [Example],
    /// Adds its arguments.
    pub args: fn(Command) -> Command,
    /// Does it.
    pub run: fn(&Context, &ArgMatches) -> Result<Exit, Failure>,
}

impl Verb {
    /// Its words: `config check`.
    pub fn name(&self) -> String {
        self.path.join(" ")
    }
}

/// A command to try.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The whole command line.
    pub line: &'static str,
    /// What it does, in a few words.
    pub says: &'static str,
}

/// What may go wrong while a source is fetched and verified.
pub(super) const FETCHING: &[Exit] = &[
    Exit::NotVerified,
    Exit::MissingTools,
    Exit::Network,
    Exit::NotPublished,
    Exit::Locked,
    Exit::NoSpace,
];

/// What may go wrong while a source is configured and judged, and compiled from then on.
pub(super) const BUILDING: &[Exit] = &[
    Exit::NotVerified,
    Exit::Guard,
    Exit::Build,
    Exit::MissingTools,
    Exit::Network,
    Exit::NotPublished,
    Exit::Locked,
    Exit::NoSpace,
];

/// The same where what was built is signed.
pub(super) const SIGNED_BUILDING: &[Exit] = &[
    Exit::NotVerified,
    Exit::Guard,
    Exit::Build,
    Exit::MissingTools,
    Exit::Network,
    Exit::NotPublished,
    Exit::Locked,
    Exit::StatementRejected,
    Exit::NoSpace,
];

/// Both formats.
pub(super) const TEXT_AND_JSON: &[Format] = &[Format::Text, Format::Json];

/// All formats: for verbs that let the guard judge.
pub(super) const WITH_ANNOTATIONS: &[Format] = &[
    Format::Text,
    Format::Json,
    Format::Github,
    Format::Gitlab,
    Format::Junit,
];

/// Nouns that group verbs, with what they are.
pub const NOUNS: &[(&str, &str)] = &[
    (
        "boot",
        "The boot gate of a node: slots, attempts, what the next boot starts",
    ),
    ("config", "What a kernel is configured to be"),
    ("fragment", "Fragments out of what exists"),
    ("gate", "The verdict on a kernel that runs for a trial"),
    (
        "keys",
        "The pinned certificates, and the keys that sign statements",
    ),
    (
        "node",
        "What a machine is made of, and which core does what on it",
    ),
    ("runs", "What ran, how it ended, and its log"),
    ("store", "Verified objects: what is kept, and what may go"),
];

/// Every verb, in the order of help.
pub static VERBS: &[&Verb] = &[
    &super::quickstart::VERB,
    &super::init::VERB,
    &super::check::VERB,
    &super::config::CHECK,
    &super::accept::VERB,
    &super::diff::VERB,
    &super::config::EDIT,
    &super::config::EXPORT,
    &super::explain::VERB,
    &super::fragment::FROM,
    &super::resolve::VERB,
    &super::fetch::VERB,
    &super::build::VERB,
    &super::classify::VERB,
    &super::verify::VERB,
    &super::reproduce::VERB,
    &super::boot::INIT,
    &super::boot::REHEARSE,
    &super::boot::STATUS,
    &super::stage::VERB,
    &super::again::ONCE,
    &super::again::RETRY,
    &super::again::PIN,
    &super::again::UNPIN,
    &super::again::GO,
    &super::boot::DISARM,
    &super::boot::REPAIR,
    &super::boot::REMOVE,
    &super::gate::RUN,
    &super::gate::REJECT,
    &super::gate::DEADMAN,
    &super::node::FINGERPRINT,
    &super::node_plan::PLAN,
    &super::node_slots::SLOTS,
    &super::keys::LINT,
    &super::keys::REFRESH,
    &super::holders::NEW,
    &super::holders::ROTATE,
    &super::holders::REVOKE,
    &super::runs::LIST,
    &super::runs::SHOW,
    &super::runs::LOG,
    &super::store::LIST,
    &super::store::VERIFY,
    &super::store::GC,
    &super::shell::VERB,
    &super::doctor::VERB,
    &super::schema::VERB,
    &super::completions::VERB,
    &super::man::VERB,
];

/// The verb that was parsed, and its own matches.
pub(super) fn find(matches: &ArgMatches) -> Option<(&'static Verb, &ArgMatches)> {
    let mut path = Vec::new();
    let mut inner = matches;
    while let Some((name, next)) = inner.subcommand() {
        path.push(name);
        inner = next;
    }
    let verb = VERBS.iter().find(|verb| verb.path == path)?;
    Some((verb, inner))
}
