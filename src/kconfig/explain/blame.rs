//! Which request changed what: by taking requests out, not by reading what hangs on what.

use std::collections::HashMap;

use crate::dotconfig::{self, Change, DotConfig, Value};
use crate::kconfig::finding::Rival;
use crate::kconfig::language::{self, Ask, Model};
use crate::kconfig::merge::Merged;
use crate::kconfig::request::{Request, Source};

/// The requests that changed each symbol, by name.
pub type Causes = HashMap<String, Vec<Rival>>;

/// Finds for each of `changes`, from the base alone to the resolved configuration, the requests
/// without which it would not be: those that, taken out, bring the old value back. Where none alone
/// does, several do the same, and each that alone over the base brings about the new value is one.
///
/// The model reads both configurations; it ends with the merged one.
pub fn causes(model: &mut Model, merged: &Merged, base: &DotConfig, changes: &[Change]) -> Causes {
    let mut blame = Blame {
        changes: changes
            .iter()
            .map(|change| (change.symbol.as_str(), change))
            .collect(),
        causes: Causes::new(),
    };
    let written = |request: &&Request| request.source == Source::Fragment;
    let requests: Vec<&Request> = merged.requests.iter().filter(written).collect();
    model.read(merged.text());
    for request in &requests {
        let before = base.value(&request.symbol);
        // A value that the reader refuses takes the line out.
        let value = before.map(ToString::to_string).unwrap_or_default();
        blame.trial(model, request, value, |change| change.from.as_ref());
    }
    let open = |change: &&Change| !blame.causes.contains_key(&change.symbol);
    let open: Vec<&Change> = changes.iter().filter(open).collect();
    if !open.is_empty() {
        blame.changes = open.iter().map(|c| (c.symbol.as_str(), *c)).collect();
        model.read(base.text());
        for request in &requests {
            let value = request.wanted.value.to_string();
            blame.trial(model, request, value, |change| change.to.as_ref());
        }
        model.read(merged.text());
    }
    blame.causes
}

struct Blame<'c> {
    changes: HashMap<&'c str, &'c Change>,
    causes: Causes,
}

impl Blame<'_> {
    /// Blames a request for each change whose `side` comes about when its symbol has `value`.
    fn trial(
        &mut self,
        model: &mut Model,
        request: &Request,
        value: String,
        side: fn(&Change) -> Option<&Value>,
    ) {
        let Some(symbol) = model.tree().find(&request.symbol) else {
            return;
        };
        for found in model.trial(&[Ask { symbol, value }]) {
            let name = &model.tree().symbol(found.symbol).name;
            let Some(change) = self.changes.get(name.as_str()) else {
                continue;
            };
            if *name != request.symbol && says(&found, side(change)) {
                let rivals = self.causes.entry(name.clone()).or_default();
                if !rivals.iter().any(|rival| rival.symbol == request.symbol) {
                    rivals.push(Rival {
                        symbol: request.symbol.clone(),
                        origin: request.origin.clone(),
                    });
                }
            }
        }
    }
}

/// Whether a symbol's new line is this value.
fn says(found: &language::Change, value: Option<&Value>) -> bool {
    let off = |line: &str| line.ends_with(" is not set");
    match (found.after.as_deref(), value) {
        (None, None) => true,
        (None, Some(value)) => value.is_off(),
        (Some(line), None) => off(line),
        (Some(line), Some(value)) => {
            let name = line.trim_start_matches("# ").trim_start_matches("CONFIG_");
            let name = name.split(['=', ' ']).next().unwrap_or_default();
            line == dotconfig::line(name, value)
        }
    }
}
