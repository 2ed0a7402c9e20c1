//! `keys/roles.yaml`: who may sign which statements, with which key, on which days.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Deserialize;

use super::edit;
use super::error::{At, Problem, SpecError, SpecErrors};
use super::kinds;
use super::shape::{Field, Shape, check, optional, required};
use super::yaml::{self, Spanned, Value, at};
use crate::digest::Sha256;
use crate::proof::key::PublicKey;
use crate::proof::roles::{Holder, Revocation, Role, Roles};

/// Name of the file in `keys/`.
pub const FILE: &str = "roles.yaml";

/// The day that a text names: `2027-03-01`, and no other form.
pub fn day(text: &str) -> Option<Date> {
    let form = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    form.then(|| text.parse().ok()).flatten()
}

static KEY: [Field; 6] = [
    required(
        "role",
        "what it may sign: builder manifests, rebuilder that a build was reproduced, canary and \
         fleet what a channel offers, approver that a person agrees, node what a node saw",
        Shape::Words {
            words: &[
                "builder",
                "rebuilder",
                "canary",
                "fleet",
                "approver",
                "node",
            ],
            refused: &[],
        },
    ),
    required(
        "name",
        "who holds it; a name has one role, and more than one key while they change over",
        Shape::Text(&kinds::HOLDER),
    ),
    required("key", "the public key", Shape::Text(&kinds::PUBLIC_KEY)),
    required(
        "from",
        "the first day on which it counts (UTC)",
        Shape::Text(&kinds::DAY),
    ),
    optional(
        "until",
        "the first day on which it no longer counts (UTC)",
        Shape::Text(&kinds::DAY),
    ),
    optional(
        "revoked",
        "that it no longer counts, also for what it signed before",
        Shape::Table(&[
            required("on", "since which day", Shape::Text(&kinds::DAY)),
            required("reason", "why", Shape::Text(&kinds::SENTENCE)),
        ]),
    ),
];

/// The keys of `keys/roles.yaml`.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    required(
        "keys",
        "the public keys that count",
        Shape::List {
            item: &Shape::Table(&KEY),
            least: 0,
            distinct: true,
        },
    ),
]);

#[derive(Debug, Deserialize)]
struct Written {
    keys: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    role: Spanned<Role>,
    name: String,
    key: Spanned<PublicKey>,
    from: String,
    until: Option<Spanned<String>>,
    revoked: Option<Taken>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Taken {
    on: String,
    reason: String,
}

/// Reads a roles file; `file` is its name for messages.
///
/// # Errors
/// Every wrong key and value of the file; a key that stands twice; a name with two roles.
pub fn parse(file: &str, text: &str) -> Result<Roles, SpecErrors> {
    check(file, &yaml::parse(file, text)?, &SHAPE)?;
    let written: Written = yaml::from_str(file, text)?;
    let mut errors = Vec::new();
    let mut holders = Vec::new();
    let mut seen = Seen::default();
    for (index, row) in written.keys.iter().enumerate() {
        let mut wrong = |at, key: &str, text: String| {
            errors.push(SpecError {
                file: file.to_owned(),
                at,
                path: format!("keys.{index}.{key}"),
                problem: Problem::Contradiction(text),
            });
        };
        if let Some((at, key, text)) = seen.conflict(row) {
            wrong(at, key, text);
        }
        // Days were judged by the table; one that is no day would be a mistake in it.
        let (Some(from), until) = (day(&row.from), &row.until) else {
            continue;
        };
        let ends = until.as_ref().and_then(|until| day(&until.value));
        if let (Some(until), Some(ends)) = (until, ends)
            && ends <= from
        {
            let text = format!("it would never count: it counts from {from} on, and not on {ends}");
            wrong(at(until), "until", text);
        }
        let revoked = row.revoked.as_ref().and_then(|taken| {
            let (on, reason) = (day(&taken.on)?, taken.reason.clone());
            Some(Revocation { on, reason })
        });
        holders.push(Holder {
            role: row.role.value,
            name: row.name.clone(),
            key: row.key.value,
            from,
            until: ends,
            revoked,
        });
    }
    SpecErrors::check(errors)?;
    Ok(Roles { holders })
}

/// Which keys and names the rows so far have.
#[derive(Default)]
struct Seen {
    keys: BTreeMap<Sha256, u64>,
    names: BTreeMap<String, (Role, u64)>,
}

impl Seen {
    /// What of a row does not go with those before it: where, at which key, and why.
    fn conflict(&mut self, row: &Row) -> Option<(At, &'static str, String)> {
        let (key, role) = (at(&row.key), at(&row.role));
        if let Some(first) = self.keys.insert(row.key.value.id(), key.line) {
            let text = format!(
                "this key stands twice, first on line {first}: a key has one holder and one role"
            );
            return Some((key, "key", text));
        }
        let known = self.names.entry(row.name.clone());
        let (known, first) = *known.or_insert((row.role.value, role.line));
        (known != row.role.value).then(|| {
            let text = format!(
                "`{}` is a {known} on line {first}: a name has one role, so that nobody vouches \
                 for oneself in another",
                row.name
            );
            (role, "role", text)
        })
    }
}

/// Why a roles file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is not good as it is, or would not be afterwards.
    #[error(transparent)]
    Invalid(#[from] SpecErrors),
    /// No row has the key.
    #[error("{file} has no key {key}")]
    NoKey {
        /// The file.
        file: String,
        /// The key's id.
        key: Sha256,
    },
    /// It is written in a way that cannot be changed line by line.
    #[error(
        "{file}:{line}: cannot be changed here: `keys` must be the last key of the file, and each of \
         its rows begin with `- ` on a line of its own"
    )]
    Form {
        /// The file.
        file: String,
        /// The row, or where `keys` begins.
        line: u64,
    },
}

/// A day as it is written: in quotes, since older readers of YAML take a bare one for no text.
fn quoted(day: Date) -> String {
    format!("\"{day}\"")
}

/// The head of a new file.
const HEAD: &str = "\
# Who may sign statements, with which key, on which days. A name has one role; a key is never taken
# out, since what it signed would be by nobody: it ends (`until`) or is revoked.
# `kiln keys new`, `kiln keys rotate` and `kiln keys revoke` change this file line by line.
kiln: 1
keys:
";

/// `text` with one more key at its end; `None` for a file that does not exist yet. `file` is its name
/// for messages.
pub fn append(file: &str, text: Option<&str>, holder: &Holder) -> Result<String, EditError> {
    let (before, head, indent) = match text {
        None => (Roles::default(), HEAD.to_owned(), 2),
        Some(text) => {
            let before = parse(file, text)?;
            let root = yaml::parse(file, text)?;
            let (head, indent) = edit::open_end(text, &root, "keys").ok_or_else(|| {
                let line = edit::entry(&root, "keys").map_or(1, |entry| entry.at.line);
                form(file, line)
            })?;
            (before, head, indent)
        }
    };
    let blank = " ".repeat(indent);
    let until = holder.until.map_or_else(String::new, |until| {
        format!("{blank}  until: {}\n", quoted(until))
    });
    let Holder {
        role, name, key, ..
    } = holder;
    let from = quoted(holder.from);
    let after = format!(
        "{head}{blank}- role: {role}\n{blank}  name: {name}\n{blank}  key: {key}\n\
         {blank}  from: {from}\n{until}"
    );
    let mut expected = before;
    expected.holders.push(holder.clone());
    let line = head.lines().count() as u64 + 1;
    read_back(file, after, &expected, line)
}

/// `text` with another last day for a key, or with one.
pub fn end(file: &str, text: &str, key: &Sha256, until: Date) -> Result<String, EditError> {
    change(file, text, key, "until", &quoted(until), |holder| {
        holder.until = Some(until);
    })
}

/// `text` with a key taken back.
pub fn revoke(
    file: &str,
    text: &str,
    key: &Sha256,
    revocation: &Revocation,
) -> Result<String, EditError> {
    let Revocation { on, reason } = revocation;
    // JSON's form of a text is one of YAML's.
    let reason = serde_json::Value::from(reason.as_str());
    let to = format!("{{on: {}, reason: {reason}}}", quoted(*on));
    change(file, text, key, "revoked", &to, |holder| {
        holder.revoked = Some(revocation.clone());
    })
}

/// Sets one field of the row that has a key.
fn change(
    file: &str,
    text: &str,
    key: &Sha256,
    field: &str,
    to: &str,
    apply: impl FnOnce(&mut Holder),
) -> Result<String, EditError> {
    let mut expected = parse(file, text)?;
    let root = yaml::parse(file, text)?;
    let no_key = || EditError::NoKey {
        file: file.to_owned(),
        key: *key,
    };
    let mut holders = expected.holders.iter_mut().enumerate();
    let (index, holder) = holders
        .find(|(_, holder)| holder.key.id() == *key)
        .ok_or_else(no_key)?;
    apply(holder);
    let rows = edit::entry(&root, "keys").map(|entry| &entry.value.value);
    let Some(Value::List(rows)) = rows else {
        return Err(no_key());
    };
    let row = rows.get(index).ok_or_else(no_key)?;
    let after = edit::set(text, row, field, to, "from").ok_or_else(|| form(file, row.at.line))?;
    read_back(file, after, &expected, row.at.line)
}

/// The changed text, where it says what it should.
fn read_back(file: &str, text: String, expected: &Roles, line: u64) -> Result<String, EditError> {
    match parse(file, &text) {
        Ok(roles) if roles == *expected => Ok(text),
        // A fault of the new facts is told as that; any other is one of the layout.
        Err(errors)
            if errors
                .errors
                .iter()
                .all(|error| matches!(error.problem, Problem::Contradiction(_))) =>
        {
            Err(errors.into())
        }
        _ => Err(form(file, line)),
    }
}

fn form(file: &str, line: u64) -> EditError {
    EditError::Form {
        file: file.to_owned(),
        line,
    }
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod tests;
