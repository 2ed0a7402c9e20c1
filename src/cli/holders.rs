//! `kiln keys new`, `rotate` and `revoke`: the keys that sign statements, and who holds them.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use clap::Args;
use jiff::civil::Date;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::pipeline::holders::{self, Changed, Origin, shown_id};
use crate::pipeline::sign::{self, SignError};
use crate::pipeline::workspace::Workspace;
use crate::proof::key::PublicKey;
use crate::proof::roles::{Holder, Revocation, Role, Roles};
use crate::spec::Signer;
use crate::spec::roles::day;
use crate::ui::{Answer, Style, Tone};

pub(super) static NEW: Verb = Verb {
    path: &["keys", "new"],
    summary: "Make a key that signs statements",
    detail: "Writes the private key with mode 0600 below ~/.config/kiln/keys/, or into a file that \
             git will not commit, and adds the public key to keys/roles.yaml with its role, its \
             holder and the days on which it counts. With --public only the latter, for a key made \
             elsewhere: in a hardware module, or by somebody else.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln keys new --role builder --name ci",
            says: "makes the key that signs what `kiln build` makes",
        },
        Example {
            line: "kiln keys new --role rebuilder --name lab --public PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=",
            says: "lets somebody else's key count",
        },
    ],
    args: NewArguments::augment_args,
    run: |context, matches| new(context, &arguments(matches)?),
};

pub(super) static ROTATE: Verb = Verb {
    path: &["keys", "rotate"],
    summary: "Give a holder a newer key, beside which the old one still counts for a while",
    detail: "Makes a key as `keys new` does, for a holder that has one. From the first day on both \
             sign, so that whoever has only the old roles file still believes what is signed; on \
             the last day of the overlap the old one ends. Send the new roles file out meanwhile.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln keys rotate ci",
            says: "a newer key from today on; the old one counts for 90 more days",
        },
        Example {
            line: "kiln keys rotate ci --from 2027-03-01 --until 2027-06-01",
            says: "the same with days of one's own",
        },
    ],
    args: RotateArguments::augment_args,
    run: |context, matches| rotate(context, &arguments(matches)?),
};

pub(super) static REVOKE: Verb = Verb {
    path: &["keys", "revoke"],
    summary: "Take a key back, also for what it signed before",
    detail: "Marks the key in keys/roles.yaml with a day and a reason. No signature by it counts \
             from then on, whenever it was made: whoever has the key can date what it signs. What \
             it signed must be built, or signed, anew.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[Example {
        line: "kiln keys revoke ci --reason its machine was broken into",
        says: "nothing that it signed counts any more",
    }],
    args: RevokeArguments::augment_args,
    run: |context, matches| revoke(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct NewArguments {
    /// What it may sign: builder, rebuilder, canary, fleet, approver or node
    #[arg(long)]
    role: Role,

    /// Who holds it; statements are told by this name
    #[arg(long)]
    name: String,

    #[command(flatten)]
    origin: OriginArguments,

    /// The first day on which it counts (UTC); today where it is not given
    #[arg(long, value_name = "DAY", value_parser = a_day)]
    from: Option<Date>,

    /// The first day on which it no longer counts; none where it is not given
    #[arg(long, value_name = "DAY", value_parser = a_day)]
    until: Option<Date>,
}

#[derive(Debug, Args)]
struct RotateArguments {
    /// Whose key: a name in keys/roles.yaml
    name: String,

    #[command(flatten)]
    origin: OriginArguments,

    /// The first day on which the new key counts (UTC); today where it is not given
    #[arg(long, value_name = "DAY", value_parser = a_day)]
    from: Option<Date>,

    /// The first day on which the old key no longer counts; 90 days later where it is not given
    #[arg(long, value_name = "DAY", value_parser = a_day)]
    until: Option<Date>,
}

#[derive(Debug, Args)]
struct OriginArguments {
    /// Where the private key goes: outside of the repository, or where git ignores it
    #[arg(value_parser = super::run::path, long, value_name = "FILE")]
    out: Option<Utf8PathBuf>,

    /// A public key made elsewhere: no private key is made
    #[arg(long, value_name = "KEY", conflicts_with = "out")]
    public: Option<PublicKey>,
}

#[derive(Debug, Args)]
struct RevokeArguments {
    /// Whose key: a name in keys/roles.yaml
    name: String,

    /// Why: a sentence
    #[arg(long, required = true, num_args = 1.., value_name = "WORDS")]
    reason: Vec<String>,

    /// Since which day; today where it is not given
    #[arg(long, value_name = "DAY", value_parser = a_day)]
    on: Option<Date>,

    /// The beginning of the key's id, where the holder has several keys
    #[arg(long, value_name = "ID")]
    key: Option<String>,
}

fn a_day(text: &str) -> Result<Date, String> {
    day(text).ok_or_else(|| format!("`{text}` is no day such as 2027-03-01"))
}

impl OriginArguments {
    fn origin(&self, context: &Context) -> Origin {
        match (&self.public, &self.out) {
            (Some(key), _) => Origin::Public(*key),
            (None, out) => Origin::New(out.as_ref().map(|out| context.start().join(out))),
        }
    }
}

fn new(context: &Context, wanted: &NewArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let from = wanted.from.unwrap_or_else(clock::today);
    let whose = (wanted.role, wanted.name.as_str());
    let origin = wanted.origin.origin(context);
    let changed = holders::new(&workspace, whose, (from, wanted.until), origin)?;
    answer(context, &changed)
}

fn rotate(context: &Context, wanted: &RotateArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let from = wanted.from.unwrap_or_else(clock::today);
    let origin = wanted.origin.origin(context);
    let changed = holders::rotate(&workspace, &wanted.name, (from, wanted.until), origin)?;
    answer(context, &changed)
}

/// Says what was done. Whoever cannot read the answer must still learn where the private key is.
fn answer(context: &Context, changed: &Changed) -> Result<Exit, Failure> {
    let answered = context.answer(&Report(changed));
    answered.map_err(|failure| match &changed.private {
        Some(path) => failure.hint(format!(
            "the key was made and is in {}; its private half is `{path}`",
            changed.file
        )),
        None => failure.hint(format!("the key is in {}", changed.file)),
    })?;
    Ok(Exit::Ok)
}

fn revoke(context: &Context, wanted: &RevokeArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let revocation = Revocation {
        on: wanted.on.unwrap_or_else(clock::today),
        reason: wanted.reason.join(" "),
    };
    let key = wanted.key.as_deref();
    let changed = holders::revoke(&workspace, &wanted.name, key, revocation)?;
    context.answer(&Report(&changed))?;
    Ok(Exit::Ok)
}

/// What was changed, and what is to be done next.
struct Report<'a>(&'a Changed);

impl Report<'_> {
    fn next(&self) -> Vec<String> {
        let Changed {
            private,
            ending,
            file,
            holder,
        } = self.0;
        let mut next = vec![format!(
            "git add {file} && git commit --message 'Keys: {}'",
            holder.name
        )];
        if let Some(private) = private {
            next.push(format!(
                "under `signers:` in kiln.yaml: `- file: {private}`"
            ));
        }
        for old in ending {
            let until = old
                .until
                .map_or_else(String::new, |until| until.to_string());
            next.push(format!(
                "keep the signer of key {} until {until}, then take it out and delete its file",
                shown_id(&old.key.id())
            ));
        }
        if !ending.is_empty() || holder.revoked.is_some() {
            next.push(format!("send {file} to everybody who verifies"));
        }
        next
    }
}

impl Answer for Report<'_> {
    fn text(&self, style: Style) -> String {
        let Changed {
            holder,
            private,
            ending,
            file,
        } = self.0;
        let id = shown_id(&holder.key.id());
        let (tone, did) = match &holder.revoked {
            None => (Tone::Good, "added"),
            Some(_) => (Tone::Warn, "revoked"),
        };
        let counts = holder.revoked.as_ref().map_or("counts ", |_| "");
        let mut text = format!(
            "{} key {id} of {} ({}) in {file}\n  {counts}{}\n",
            style.paint(tone, did),
            holder.name,
            holder.role,
            days(holder)
        );
        if let Some(private) = private {
            let _infallible = writeln!(
                text,
                "  private key: {private}: keep it, and show it nobody"
            );
        }
        for old in ending {
            let id = shown_id(&old.key.id());
            let _infallible = writeln!(text, "  its key {id} counts {}", days(old));
        }
        text.push_str("\nnext:\n");
        for line in self.next() {
            let _infallible = writeln!(text, "  {line}");
        }
        text
    }

    fn json(&self) -> Value {
        let Changed {
            holder,
            private,
            ending,
            file,
        } = self.0;
        json!({
            "schema": "kiln.keys-changed/1",
            "file": file,
            "key": holder_json(holder),
            "private": private,
            "ending": ending.iter().map(holder_json).collect::<Vec<Value>>(),
            "next": self.next(),
        })
    }
}

/// The days on which a key counts, or when and why it was taken back, for people.
fn days(holder: &Holder) -> String {
    match (&holder.revoked, holder.until) {
        (Some(revoked), _) => format!("on {}: {}", revoked.on, revoked.reason),
        (None, None) => format!("from {} on", holder.from),
        (None, Some(until)) => format!("from {} until {until}", holder.from),
    }
}

pub(super) fn holder_json(holder: &Holder) -> Value {
    json!({
        "role": holder.role,
        "name": holder.name,
        "key": holder.key.to_string(),
        "id": holder.key.id(),
        "from": holder.from.to_string(),
        "until": holder.until.map(|until| until.to_string()),
        "revoked": holder.revoked.as_ref().map(|revoked| json!({
            "on": revoked.on.to_string(),
            "reason": revoked.reason,
        })),
    })
}

/// How a key stands on a day.
fn standing(holder: &Holder, today: Date) -> (Tone, &'static str) {
    if holder.revoked.is_some() {
        return (Tone::Bad, "revoked");
    }
    match holder.until {
        _ if today < holder.from => (Tone::Faint, "not yet"),
        Some(until) if until <= today => (Tone::Bad, "expired"),
        Some(_) => (Tone::Warn, "ends"),
        None => (Tone::Good, "counts"),
    }
}

/// The keys of the roles file and the signers of `kiln.yaml`: a part of `keys lint`.
pub(super) struct Holders {
    roles: Roles,
    signers: Vec<(String, Result<Option<PublicKey>, SignError>)>,
    today: Date,
}

impl Holders {
    pub(super) fn look(workspace: &Workspace) -> Result<Self, Failure> {
        let signers = workspace.settings().signers.iter();
        let look = |signer: &Signer| {
            let ready = sign::ready(workspace, signer);
            (
                sign::shown(signer),
                ready.map(|ready| ready.map(|ready| ready.key)),
            )
        };
        Ok(Self {
            roles: workspace.roles()?,
            signers: signers.map(|signer| look(&signer.value)).collect(),
            today: clock::today(),
        })
    }

    /// Whether a signer can be reached by others, or is none at all. One whose key is not at hand
    /// is no fault: it may be at hand elsewhere.
    pub(super) fn has_errors(&self) -> bool {
        let mut signers = self.signers.iter();
        signers.any(|(_, ready)| {
            matches!(
                ready,
                Err(SignError::Exposed { .. } | SignError::Key { .. })
            )
        })
    }

    pub(super) fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for holder in &self.roles.holders {
            let (tone, word) = standing(holder, self.today);
            let _infallible = writeln!(
                text,
                "{} {} ({}) {}: {}",
                shown_id(&holder.key.id()),
                style.paint(Tone::Strong, &holder.name),
                holder.role,
                style.paint(tone, word),
                days(holder)
            );
        }
        for (name, ready) in &self.signers {
            let said = match ready {
                Err(error) => {
                    let why = crate::failure::in_one_line(error);
                    format!("{} {why}", style.paint(Tone::Bad, "cannot sign:"))
                }
                Ok(None) => {
                    "signs with OpenPGP only, for apt's InRelease: no statements".to_owned()
                }
                Ok(Some(key)) => self.signs(key, style),
            };
            let _infallible = writeln!(text, "signer {name}\n    {said}");
        }
        text
    }

    /// What a signer's signatures are worth.
    fn signs(&self, key: &PublicKey, style: Style) -> String {
        match self.roles.find(&key.id()) {
            None => format!(
                "{} key {} is not in keys/roles.yaml",
                style.paint(Tone::Bad, "counts for nobody:"),
                shown_id(&key.id())
            ),
            Some(holder) => {
                let (tone, word) = standing(holder, self.today);
                let word = style.paint(tone, word);
                format!("signs as {} ({}): {word}", holder.name, holder.role)
            }
        }
    }

    pub(super) fn keys_json(&self) -> Value {
        let holders = self.roles.holders.iter();
        let rows = holders.map(|holder| {
            let mut row = holder_json(holder);
            row["state"] = standing(holder, self.today).1.into();
            row
        });
        rows.collect()
    }

    pub(super) fn signers_json(&self) -> Value {
        let rows = self.signers.iter().map(|(name, ready)| match ready {
            Ok(key) => json!({ "signer": name, "key": key.map(|key| key.id()) }),
            Err(error) => {
                json!({ "signer": name, "error": crate::failure::in_one_line(error) })
            }
        });
        rows.collect()
    }
}
