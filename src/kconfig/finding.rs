//! What the guard can find, as data. Text, JSON and annotations are functions of it.

use std::fmt;

use serde::Serialize;

use super::explain::{Answered, Fix, Need, Selector, SetBy};
use super::guard::Basis;
use super::request::{Origin, Request, Source, Waiver};
use super::symbols::{Site, Type};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing may be compiled.
    Block,
    /// A person should look.
    Warn,
    /// For the record.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Warn => "warn",
            Self::Note => "note",
        })
    }
}

/// A request that asks for another member of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rival {
    /// The name without `CONFIG_`.
    pub symbol: String,
    /// Where it stands.
    pub origin: Origin,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// No Kconfig file of the tree defines the symbol.
    UnknownSymbol {
        /// The known symbol that was most likely meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        nearest: Option<String>,
        /// What became of it, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        history: Option<Known>,
    },
    /// The symbol is not in this series, as the fragment allows.
    OptionalAbsent {
        /// The reason given.
        reason: String,
    },
    /// The value is not one that the symbol's type in this series can have.
    WrongType {
        /// The type.
        #[serde(rename = "type")]
        expected: Type,
        /// What became of it, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        history: Option<Known>,
    },
    /// The symbol has no prompt, so no line can set it; it follows from others.
    NoPrompt,
    /// The same, but what follows from the others is what was asked.
    Derived,
    /// Another member of the choice is on.
    Displaced {
        /// That member; nothing where none is on.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The line that asks for that member, where one does.
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
        /// What became of it, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        history: Option<Known>,
    },
    /// Several members of one choice are asked for; one can be on.
    SeveralMembers {
        /// The requests.
        members: Vec<Rival>,
    },
    /// Off or lower was asked; others select it.
    ForcedOn {
        /// The symbols that are on and select it.
        selectors: Vec<Selector>,
    },
    /// `y` was asked, `m` is what its needs allow.
    Lowered,
    /// On was asked, off came out.
    Lost,
    /// The same, and a program of the build root is the cause: a probe of it failed.
    Toolchain {
        /// The probes, and what they answered.
        probes: Vec<Answered>,
    },
    /// Its prompt is hidden, so its line is not heard and its default counts.
    Hidden,
    /// A number was moved into its range.
    Clamped {
        /// The range that counts: `12 25`.
        #[serde(skip_serializing_if = "Option::is_none")]
        range: Option<String>,
    },
    /// Any other difference.
    Differs,
    /// The waiver of a request has run out.
    WaiverExpired,
    /// The waived request is met.
    WaiverUnneeded,
    /// A later fragment took the request back.
    Overridden {
        /// The line that did.
        by: Origin,
        /// Why.
        reason: String,
    },
    /// An `override` with nothing to override.
    IdleOverride,
    /// A request changes something on the security list.
    SecurityAsked {
        /// Why it is on the list.
        reason: Known,
    },
    /// Changed beside the requests, against the base alone.
    Collateral {
        /// Why it is on the security list, where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Known>,
        /// The requests without which it would not have changed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Rival>,
        /// The changed symbol that takes it along; nothing where a request does so itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        through: Option<String>,
        /// The reason why the pipeline allows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        allowed: Option<String>,
    },
    /// A member of a choice that gave way to a requested one.
    SiblingOff {
        /// The requested member.
        by: Rival,
    },
    /// A row of the pipeline's allow-list that allowed nothing.
    AllowanceUnused {
        /// Its patterns.
        symbols: Vec<String>,
        /// The request that it names.
        cause: String,
    },
    /// The base alone lost or changed this in this tree with this toolchain.
    Drift {
        /// Why it is on the security list, where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Known>,
        /// Whether the tree still defines it.
        defined: bool,
        /// Whether the pipeline's `trim` is behind it: the base as it was before keeps it here.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        trimmed: bool,
        /// The probes of the build root's programs behind it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        probes: Vec<Answered>,
        /// What became of it, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        history: Option<Known>,
    },
    /// A symbol that neither the base nor a request mentions took its default.
    NewDefault {
        /// Its prompt.
        prompt: String,
        /// The first sentence of its help.
        #[serde(skip_serializing_if = "Option::is_none")]
        help: Option<String>,
    },
    /// The value holds, but does nothing.
    NoEffect {
        /// Why.
        known: Known,
    },
    /// With this value two builds could differ: it blocks, or kiln does something about it.
    Unreproducible {
        /// Why.
        known: Known,
        /// The line of the base that says so, where no request does.
        #[serde(skip_serializing_if = "Option::is_none")]
        base_line: Option<u32>,
    },
    /// A line of the base that the tree's reader skips or misreads.
    BaseProblem {
        /// What it is.
        text: String,
    },
    /// Something that the tree's own tool said.
    ToolSaid {
        /// Its words.
        text: String,
    },
    /// The Kconfig files of the tree cannot be read here, or kiln makes of them what the tree does
    /// not, so nothing is explained.
    Unexplained {
        /// What the report rests on instead.
        basis: Basis,
        /// Why.
        reason: String,
    },
    /// A line of a built or running configuration that is not the guarded one.
    NotGuarded,
}

/// A fact from the tables in `known/`, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The fact.
    pub text: String,
    /// Where it can be checked.
    pub source: String,
}

/// A place that defines a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinedAt {
    /// Where.
    pub site: Site,
    /// The question a person can answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// What is known about a symbol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Why {
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Type>,
    /// Its definitions.
    pub defined: Vec<DefinedAt>,
    /// The choice that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<InChoice>,
    /// Who gave it its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<SetBy>,
    /// What it needs and does not have, the first failing term first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
}

/// A choice, as seen from a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InChoice {
    /// Where.
    pub site: Site,
    /// Its prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it weighs.
    pub severity: Severity,
    /// The symbol without `CONFIG_`; empty where it is about none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub symbol: String,
    /// What was found.
    #[serde(flatten)]
    pub kind: Kind,
    /// What was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<Requested>,
    /// The value before: in the base, or in the base run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The value found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What is known about the symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// What to write so that the request holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// A request, as a finding shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requested {
    /// The accepted values.
    pub value: String,
    /// Where it stands.
    pub origin: Origin,
    /// A fragment's line, or a pipeline's assertion.
    pub source: Source,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Permission to stay unmet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiver: Option<Waiver>,
}

impl Requested {
    /// What a request shows of itself.
    pub(super) fn of(request: &Request) -> Self {
        Self {
            value: request.wanted.to_string(),
            origin: request.origin.clone(),
            source: request.source,
            why: request.why.clone(),
            waiver: request.waiver.clone(),
        }
    }
}

impl Finding {
    /// A finding about a symbol, with nothing else known.
    pub fn new(severity: Severity, symbol: impl Into<String>, kind: Kind) -> Self {
        Self {
            severity,
            symbol: symbol.into(),
            kind,
            requested: None,
            before: None,
            actual: None,
            why: None,
            fix: None,
        }
    }

    /// Where the person who can change it should look.
    pub fn origin(&self) -> Option<&Origin> {
        self.requested.as_ref().map(|requested| &requested.origin)
    }

    /// A stable, kebab-case word for the kind.
    pub fn code(&self) -> &'static str {
        match &self.kind {
            Kind::UnknownSymbol { .. } => "unknown-symbol",
            Kind::OptionalAbsent { .. } => "optional-absent",
            Kind::WrongType { .. } => "wrong-type",
            Kind::NoPrompt => "no-prompt",
            Kind::Derived => "derived",
            Kind::Displaced { .. } => "displaced",
            Kind::SeveralMembers { .. } => "several-members",
            Kind::ForcedOn { .. } => "forced-on",
            Kind::Lowered => "lowered",
            Kind::Lost => "lost",
            Kind::Toolchain { .. } => "toolchain",
            Kind::Hidden => "hidden",
            Kind::Clamped { .. } => "clamped",
            Kind::Differs => "differs",
            Kind::WaiverExpired => "waiver-expired",
            Kind::WaiverUnneeded => "waiver-unneeded",
            Kind::Overridden { .. } => "overridden",
            Kind::IdleOverride => "idle-override",
            Kind::SecurityAsked { .. } => "security-asked",
            Kind::Collateral { .. } => "collateral",
            Kind::SiblingOff { .. } => "sibling-off",
            Kind::AllowanceUnused { .. } => "allowance-unused",
            Kind::Drift { trimmed: true, .. } => "trimmed",
            Kind::Drift { .. } => "drift",
            Kind::NewDefault { .. } => "new-default",
            Kind::NoEffect { .. } => "no-effect",
            Kind::Unreproducible { .. } => "unreproducible",
            Kind::BaseProblem { .. } => "base-problem",
            Kind::ToolSaid { .. } => "tool-said",
            Kind::Unexplained { .. } => "unexplained",
            Kind::NotGuarded => "not-guarded",
        }
    }
}
