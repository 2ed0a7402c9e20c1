//! Findings in words: one sentence that says what happened, and lines that say why.

use std::fmt;

use super::explain::{Answered, Fix, Selector};
use super::finding::{Finding, Kind, Known, Requested, Rival, Severity, Why};
use super::guard::Basis;
use super::request::{Origin, Source};

impl fmt::Display for Finding {
    /// What happened, in one sentence without its end, the place first where there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = self.origin() {
            write!(f, "{origin}: ")?;
        }
        f.write_str(&self.sentence())
    }
}

impl Finding {
    /// What happened, without the place.
    pub fn sentence(&self) -> String {
        let name = format!("CONFIG_{}", self.symbol);
        let actual = self.actual.as_deref().unwrap_or("absent");
        let before = self.before.as_deref().unwrap_or("absent");
        let asked = self.requested.as_ref().map_or("?", |r| r.value.as_str());
        let but = format!("{name} was asked to be {asked} but is {actual}");
        match &self.kind {
            Kind::UnknownSymbol { nearest, history } => {
                unknown(&name, nearest.as_deref(), history.as_ref())
            }
            Kind::OptionalAbsent { reason } => {
                format!("{name} is not in this tree, as allowed: {reason}")
            }
            Kind::WrongType { expected, .. } => format!(
                "{name} is {expected} in this tree and cannot be {asked}: it takes {}",
                expected.form()
            ),
            Kind::NoPrompt => {
                format!("{name} has no prompt, so no line sets it: asked {asked}, derived {actual}")
            }
            Kind::Derived => {
                format!("{name} has no prompt: it is {actual} because of others, not of this line")
            }
            Kind::Displaced { by, origin, .. } => {
                let cause = self
                    .lacking()
                    .map_or(String::new(), |cause| format!("; {cause}"));
                displaced(&name, actual, by.as_deref(), origin.as_ref()) + &cause
            }
            Kind::SeveralMembers { members } => {
                let members = rivals(members);
                format!("one choice cannot have several members on: {members}")
            }
            Kind::ForcedOn { selectors } => format!("{but}: selected by {}", listed(selectors)),
            Kind::Lowered => {
                let cause = self
                    .lacking()
                    .unwrap_or("something it needs is a module".into());
                format!("{but}: {cause}")
            }
            Kind::Lost => {
                let cause = self
                    .lacking()
                    .unwrap_or("something it needs is missing".into());
                format!("{but}: {cause}")
            }
            Kind::Toolchain { probes } => {
                format!("{but}: the build's tools lack it: {}", answered(probes))
            }
            Kind::Hidden => {
                let cause = self
                    .lacking()
                    .map_or(String::new(), |cause| format!(": {cause}"));
                format!("{but}: its prompt is hidden, so its line is not heard{cause}")
            }
            Kind::Clamped { range: Some(range) } => format!("{but}: its range is {range}"),
            Kind::Clamped { range: None } => format!("{but}: its range does not allow it"),
            Kind::Differs => but,
            Kind::WaiverExpired => format!("the waiver for {name} has run out"),
            Kind::WaiverUnneeded => {
                format!("the waiver for {name} is no longer needed: it is {actual}")
            }
            Kind::Overridden { by, reason } => {
                format!("{name} is no longer asked to be {asked}: {by} overrides it: {reason}")
            }
            Kind::IdleOverride => {
                format!("nothing disagrees with {name}: its override is not needed")
            }
            Kind::SecurityAsked { reason } => {
                let reason = &reason.text;
                format!("{name} goes from {before} to {actual} on request: {reason}")
            }
            Kind::NoEffect { known } => {
                format!("{name} is {actual} but has no effect: {}", known.text)
            }
            Kind::Unreproducible { known, base_line } => {
                let from = match (base_line, &self.requested) {
                    (Some(line), _) => format!(" by line {line} of the base"),
                    (None, None) => " by the tree's default".to_owned(),
                    (None, Some(_)) => String::new(),
                };
                let verdict = match self.severity {
                    Severity::Block => "two builds would differ",
                    Severity::Warn | Severity::Note => "two builds could differ, and do not",
                };
                format!("{name} is {actual}{from}, so {verdict}: {}", known.text)
            }
            Kind::NotGuarded if self.symbol.is_empty() => {
                format!("`{actual}` stands where `{before}` was guarded")
            }
            Kind::NotGuarded => format!("{name} was guarded as {before} but is {actual}"),
            _ => self.beside(&name, before, actual),
        }
    }

    /// What happened beside the requests.
    fn beside(&self, name: &str, before: &str, actual: &str) -> String {
        match &self.kind {
            Kind::Collateral {
                security,
                causes,
                through,
                allowed,
            } => {
                let mut parts = vec![format!("{name} went from {before} to {actual} unasked")];
                if !causes.is_empty() {
                    parts.push(format!(", because of {}", rivals(causes)));
                }
                if let Some(through) = through {
                    parts.push(format!(", through CONFIG_{through}"));
                }
                if let Some(known) = security {
                    parts.push(format!(" (security: {})", known.text));
                }
                if let Some(reason) = allowed {
                    parts.push(format!("; allowed: {reason}"));
                }
                parts.concat()
            }
            Kind::SiblingOff { by } => {
                let Rival { symbol, origin } = by;
                format!("{name} gave way in its choice to CONFIG_{symbol}, asked at {origin}")
            }
            Kind::AllowanceUnused { symbols, cause } => {
                let symbols = symbols.join(", ");
                format!("the allowance for {symbols} because of {cause} is not needed")
            }
            Kind::Drift {
                security,
                defined,
                trimmed,
                history,
                probes,
            } => {
                let instead = if *trimmed {
                    format!(
                        "{name} goes with what `trim` takes out of the base: {actual}, not {before}"
                    )
                } else {
                    format!("the base alone gives {name} {actual} here, not {before}")
                };
                let mut parts = vec![instead];
                if !defined {
                    parts.push(": it is not in this tree".to_owned());
                }
                if !probes.is_empty() {
                    parts.push(format!(": {}", answered(probes)));
                }
                let known = security.iter().chain(history);
                parts.extend(known.map(|known| format!(" ({})", known.text)));
                parts.concat()
            }
            Kind::NewDefault { prompt, help } => {
                let help = help
                    .as_ref()
                    .map_or(String::new(), |help| format!(": {help}"));
                format!(
                    "{name} (\"{prompt}\") is new to the base and took its default {actual}{help}"
                )
            }
            Kind::Unexplained {
                basis: Basis::Values,
                reason,
            } => format!(
                "the tree's Kconfig files cannot be read, so nothing is explained and no option's \
                 type is known; what follows from others, or gave way in a choice, counts as lost: \
                 {reason}"
            ),
            Kind::Unexplained { reason, .. } => format!("nothing is explained: {reason}"),
            Kind::BaseProblem { text } | Kind::ToolSaid { text } => text.clone(),
            _ => format!("{name} is {actual}"),
        }
    }

    /// Why, a line each: what it is for, where it is defined, what it needs, where a fact is from.
    pub fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(requested) = &self.requested {
            asked(requested, &mut lines);
        }
        if let Some(why) = &self.why {
            explain(why, &mut lines);
        }
        lines.extend(self.fix.iter().flat_map(Fix::told));
        if let Kind::Lowered = self.kind {
            lines.push("or accept the module: put `# kiln: any m y` before the line".to_owned());
        }
        if let Some(known) = self.known() {
            if !self.sentence().contains(&known.text) {
                lines.push(format!("known: {}", known.text));
            }
            lines.push(format!("source: {}", known.source));
        }
        lines
    }

    /// The first of what it lacks, in words.
    fn lacking(&self) -> Option<String> {
        let needs = &self.why.as_ref()?.needs;
        let (first, others) = needs.split_first()?;
        Some(match others.len() {
            0 => format!("it needs {first}"),
            more => format!("it needs {first}, and {more} more"),
        })
    }

    /// The fact from the tables that the finding rests on.
    pub fn known(&self) -> Option<&Known> {
        match &self.kind {
            Kind::UnknownSymbol { history, .. }
            | Kind::WrongType { history, .. }
            | Kind::Displaced { history, .. } => history.as_ref(),
            Kind::SecurityAsked { reason } => Some(reason),
            Kind::Collateral { security, .. } => security.as_ref(),
            Kind::Drift {
                security, history, ..
            } => security.as_ref().or(history.as_ref()),
            Kind::NoEffect { known } | Kind::Unreproducible { known, .. } => Some(known),
            _ => None,
        }
    }
}

fn unknown(name: &str, nearest: Option<&str>, history: Option<&Known>) -> String {
    match (history, nearest) {
        (Some(known), _) => format!("{name} is not in this tree: {}", known.text),
        (None, Some(nearest)) => format!("{name} is not in this tree; CONFIG_{nearest} is"),
        (None, None) => format!("{name} is not in this tree"),
    }
}

fn displaced(name: &str, actual: &str, by: Option<&str>, origin: Option<&Origin>) -> String {
    match (by, origin) {
        (Some(by), Some(origin)) => {
            format!("{name} gave way in its choice to CONFIG_{by}, asked at {origin}")
        }
        (Some(by), None) => format!("{name} gave way in its choice to CONFIG_{by}"),
        (None, _) => format!("{name} is {actual}: no member of its choice is on"),
    }
}

fn asked(requested: &Requested, lines: &mut Vec<String>) {
    if let Some(why) = &requested.why {
        lines.push(format!("wanted because: {why}"));
    }
    if requested.source == Source::Assertion {
        lines.push("asserted by the pipeline".to_owned());
    }
    if let Some(waiver) = &requested.waiver {
        lines.push(format!(
            "waived until {} by {}: {}",
            waiver.until, waiver.owner, waiver.reason
        ));
    }
}

fn explain(why: &Why, lines: &mut Vec<String>) {
    let kind = why
        .kind
        .map_or_else(|| "symbol".to_owned(), |kind| kind.to_string());
    for place in &why.defined {
        let prompt = match &place.prompt {
            Some(prompt) => format!("prompt \"{prompt}\""),
            None => "no prompt".to_owned(),
        };
        lines.push(format!("defined at {} ({kind}, {prompt})", place.site));
    }
    if let Some(choice) = &why.choice {
        let prompt = choice.prompt.as_deref().unwrap_or("without a prompt");
        lines.push(format!(
            "member of the choice \"{prompt}\" at {}",
            choice.site
        ));
    }
    if let Some(set) = &why.set {
        lines.push(format!("its value: {set}"));
    }
    if !why.needs.is_empty() {
        lines.push("it needs, and does not have:".to_owned());
        for need in &why.needs {
            need.lines(4, lines);
        }
    }
}

fn rivals(rivals: &[Rival]) -> String {
    let texts: Vec<String> = rivals
        .iter()
        .map(|rival| format!("CONFIG_{} at {}", rival.symbol, rival.origin))
        .collect();
    texts.join(", ")
}

/// How many probes or selectors a sentence names.
const NAMED: usize = 3;

fn answered(probes: &[Answered]) -> String {
    let texts = probes.iter().map(ToString::to_string);
    shortened(texts.collect())
}

fn listed(selectors: &[Selector]) -> String {
    let texts = selectors.iter();
    shortened(
        texts
            .map(|selector| format!("CONFIG_{} at {}", selector.symbol, selector.site))
            .collect(),
    )
}

fn shortened(mut texts: Vec<String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}
