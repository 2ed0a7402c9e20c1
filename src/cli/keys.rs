//! `kiln keys`: the pinned certificates, their state, and newer copies of them.

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Command};
use serde_json::{Value, json};

use super::context::Context;
use super::holders::Holders;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::clock;
use crate::digest::Fingerprint;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::pipeline::workspace::Workspace;
use crate::source::keys::{self, CertificateReport, Lint, Severity, State};
use crate::source::mirror::{Location, Mirrors};
use crate::source::refresh::{self, Change, DIRECTORY, Refreshed, Refused, Subkeys};
use crate::ui::{Answer, Style, Tone};

/// Largest certificate that is taken, in bytes: with all of its certifications, a maintainer's has
/// some hundred kilobytes.
const LIMIT: u64 = 4 << 20;

pub(super) static LINT: Verb = Verb {
    path: &["keys", "lint"],
    summary: "Show the state of every certificate and key in keys/, and of the signers",
    detail: "For each certificate's key: whether its signatures count today under a stock OpenPGP policy, and \
             under kiln's, which accepts SHA-1 in self-signatures of a pinned primary key and \
             nowhere else. For each key of roles.yaml: whose it is and whether it counts today. For \
             each signer of kiln.yaml: whether it can sign here, and as whom. Fails where a pin has \
             no readable file, and where others can read a private key.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[
        Example {
            line: "kiln keys lint",
            says: "the state of each certificate, and what to do about it",
        },
        Example {
            line: "kiln keys lint --format json",
            says: "the same for machines, with every self-signature",
        },
    ],
    args: |command: Command| command,
    run: |context, _matches| lint(context),
};

pub(super) static REFRESH: Verb = Verb {
    path: &["keys", "refresh"],
    summary: "Merge newer copies of pinned certificates",
    detail: "Takes newer self-signatures and revocations from files, or from the Web Key Directory \
             of the maintainers' mail domain. Never adds a key; adds a subkey only with \
             --allow-subkey; never takes a self-signature with SHA-1. What it takes must verify \
             with the pinned primary key, so the way it came does not matter.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NotVerified, Exit::Network, Exit::NotPublished],
    examples: &[
        Example {
            line: "kiln keys refresh --wkd",
            says: "asks the directory of each known maintainer whose certificate is pinned",
        },
        Example {
            line: "kiln keys refresh --wkd gregkh@kernel.org --dry-run",
            says: "says what one would bring, and writes nothing",
        },
        Example {
            line: "kiln keys refresh greg.asc",
            says: "takes a file",
        },
    ],
    args: |command: Command| RefreshArguments::augment_args(command),
    run: |context, matches| refresh(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct RefreshArguments {
    /// Files that hold certificates, armored or binary
    #[arg(value_parser = super::run::path, value_name = "FILES", required_unless_present = "wkd")]
    files: Vec<Utf8PathBuf>,

    /// Ask Web Key Directories: for this address, or for every known maintainer that is pinned
    #[arg(long, value_name = "ADDRESS", num_args = 0..)]
    wkd: Option<Vec<String>>,

    /// Take new subkeys too
    #[arg(long)]
    allow_subkey: bool,

    /// Say what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Every fingerprint that a pipeline of the workspace names.
fn pins(workspace: &Workspace) -> Result<Vec<Fingerprint>, Failure> {
    let mut pins = Vec::new();
    for name in workspace.pipeline_names()? {
        let keys = workspace.pipeline(&name)?.spec.keys;
        for key in keys.release.into_iter().chain(keys.checksums) {
            if !pins.contains(&key.value) {
                pins.push(key.value);
            }
        }
    }
    Ok(pins)
}

fn lint(context: &Context) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let lint = keys::lint(&workspace.keys(), &pins(&workspace)?, clock::now())?;
    let holders = Holders::look(&workspace)?;
    let has_errors = lint.has_errors() || holders.has_errors();
    let report = LintReport {
        shown: lint
            .findings
            .iter()
            .map(|finding| workspace.shown(&finding.path))
            .collect(),
        lint,
        holders,
    };
    context.answer(&report)?;
    if has_errors {
        return Err(Failure {
            exit: Exit::Usage,
            code: "keys-invalid",
            message: "some certificates or signers cannot be used".to_owned(),
            causes: Vec::new(),
            hints: Vec::new(),
        });
    }
    Ok(Exit::Ok)
}

struct LintReport {
    lint: Lint,
    /// Path of each finding's file as it is shown.
    shown: Vec<String>,
    holders: Holders,
}

impl Answer for LintReport {
    fn text(&self, style: Style) -> String {
        let mut out = String::new();
        for certificate in &self.lint.certificates {
            out.push_str(&certificate_text(certificate, style));
        }
        out.push_str(&self.holders.text(style));
        for (finding, path) in self.lint.findings.iter().zip(&self.shown) {
            let (tone, word) = match finding.severity {
                Severity::Error => (Tone::Bad, "error:"),
                Severity::Warning => (Tone::Warn, "warning:"),
            };
            out.push_str(&format_lines(&[format!(
                "{} {path}: {}",
                style.paint(tone, word),
                finding.message
            )]));
            for hint in &finding.hints {
                out.push_str(&format_lines(&[format!("    hint: {hint}")]));
            }
        }
        if self.lint.findings.is_empty() {
            let good = style.paint(Tone::Good, "ok:");
            out.push_str(&format_lines(&[format!(
                "{good} {} certificates are as they should be",
                self.lint.certificates.len()
            )]));
        }
        out
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.keys-lint/1",
            "certificates": self.lint.certificates,
            "findings": self.lint.findings,
            "keys": self.holders.keys_json(),
            "signers": self.holders.signers_json(),
        })
    }
}

fn format_lines(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

/// The user id a reader knows the owner by: the first with a mail address, else the first.
fn speaking_user(users: &[String]) -> &str {
    users
        .iter()
        .find(|user| user.contains('@'))
        .or(users.first())
        .map_or("no user id", String::as_str)
}

fn certificate_text(certificate: &CertificateReport, style: Style) -> String {
    let user = speaking_user(&certificate.users);
    let mut lines = vec![
        style.paint(Tone::Strong, certificate.fingerprint.as_str()),
        format!("    {user}"),
    ];
    for key in &certificate.keys {
        let name = if key.primary { "primary" } else { "subkey" };
        lines.push(format!(
            "    {name:8} {:10} stock: {}; pinned: {}",
            key.algorithm,
            state_text(&key.stock, style),
            state_text(&key.pinned, style),
        ));
    }
    let weak = certificate
        .self_signatures
        .iter()
        .filter(|signature| signature.weak)
        .count();
    let all = certificate.self_signatures.len();
    let newest = certificate
        .self_signatures
        .iter()
        .map(|signature| signature.made.as_str())
        .max()
        .unwrap_or("never");
    lines.push(format!(
        "    {all} self-signatures, {weak} of them weak, the newest of {newest}"
    ));
    format_lines(&lines)
}

fn state_text(state: &State, style: Style) -> String {
    match state {
        State::Signs => style.paint(Tone::Good, "signs"),
        State::NotForSigning => style.paint(Tone::Faint, "not for signing"),
        State::Expired(_) => style.paint(Tone::Bad, "expired"),
        State::Revoked(when) => style.paint(Tone::Bad, &format!("revoked {when}")),
        State::Rejected(why) => {
            // The innermost cause says it; the others say where it was noticed.
            let why = why.rsplit(": ").next().unwrap_or(why);
            style.paint(Tone::Warn, &format!("rejected ({why})"))
        }
    }
}

fn refresh(context: &Context, wanted: &RefreshArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace()?;
    let pins = pins(&workspace)?;
    let mut brought = Vec::new();
    for file in &wanted.files {
        let path = context.start().join(file);
        brought.push((file.to_string(), files::read(&path, LIMIT)?));
    }
    for address in addresses(wanted, &pins)? {
        brought.push((address.clone(), ask(context, &address)?));
    }
    let subkeys = if wanted.allow_subkey {
        Subkeys::Allow
    } else {
        Subkeys::Refuse
    };
    let merge = |is_dry| -> Result<Vec<Refreshed>, Failure> {
        let (keys, at) = (workspace.keys(), clock::now());
        let mut done = Vec::new();
        for (name, bytes) in &brought {
            done.extend(refresh::refresh(
                &keys,
                &pins,
                (name, bytes),
                subkeys,
                at,
                is_dry,
            )?);
        }
        Ok(done)
    };
    // Of several, one that is refused leaves the files of the others as they are, too.
    let mut done = merge(true)?;
    if !wanted.dry_run {
        done = merge(false)?;
    }
    context.answer(&RefreshReport {
        done,
        is_dry: wanted.dry_run,
    })?;
    Ok(Exit::Ok)
}

/// The addresses to ask for: those given, or those of the known maintainers who are pinned.
fn addresses(wanted: &RefreshArguments, pins: &[Fingerprint]) -> Result<Vec<String>, Failure> {
    let known = || {
        let known = DIRECTORY.iter();
        let pinned = known.filter(|(key, _)| pins.iter().any(|pin| pin.as_str() == *key));
        pinned
            .map(|(_, address)| (*address).to_owned())
            .collect::<Vec<_>>()
    };
    match &wanted.wkd {
        None => Ok(Vec::new()),
        Some(given) if !given.is_empty() => Ok(given.clone()),
        Some(_) => match known() {
            none if none.is_empty() => Err(Failure::usage(
                "no certificate that is pinned has an address that kiln knows",
            )
            .hint("give the address: `kiln keys refresh --wkd ADDRESS`")),
            some => Ok(some),
        },
    }
}

fn ask(context: &Context, address: &str) -> Result<Vec<u8>, Failure> {
    if context.offline() {
        return Err(Failure::usage(format!(
            "asking for `{address}` needs the network, and --offline forbids it"
        ))
        .hint("take a file instead: `kiln keys refresh FILE`"));
    }
    let [advanced, direct] = refresh::web_key_directory(address)?;
    let location = |text: &str| {
        Location::parse(text, Utf8Path::new("/")).map_err(|error| Failure::usage(error.to_string()))
    };
    let places = vec![location(&advanced.0)?, location(&direct.0)?];
    let first = places[0].clone();
    let directory = Mirrors::new(places, Vec::new(), first);
    let (bytes, _served) = directory.document(&advanced.1, LIMIT, context.progress())?;
    Ok(bytes)
}

struct RefreshReport {
    done: Vec<Refreshed>,
    is_dry: bool,
}

impl Answer for RefreshReport {
    fn text(&self, style: Style) -> String {
        let mut lines = Vec::new();
        for one in &self.done {
            lines.push(style.paint(Tone::Strong, one.fingerprint.as_str()));
            for change in &one.changes {
                lines.push(format!(
                    "    {} {}",
                    style.paint(Tone::Good, "+"),
                    change_text(change)
                ));
            }
            for refused in &one.refused {
                let mark = style.paint(Tone::Warn, "refused:");
                lines.push(format!("    {mark} {}", refused_text(refused)));
            }
            if one.changes.is_empty() {
                lines.push("    nothing new".to_owned());
            }
        }
        if self.is_dry {
            lines.push("nothing was written".to_owned());
        }
        format_lines(&lines)
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.keys-refresh/1",
            "written": !self.is_dry,
            "certificates": self.done,
        })
    }
}

fn change_text(change: &Change) -> String {
    match change {
        Change::SelfSignature { binds, hash, made } => {
            format!("self-signature on {binds}: {hash}, made {made}")
        }
        Change::User { user } => format!("user id {user}"),
        Change::Subkey { fingerprint } => format!("subkey {fingerprint}"),
        Change::Revocation { of, made } => format!("revocation of {of}, made {made}"),
    }
}

fn refused_text(refused: &Refused) -> String {
    match refused {
        Refused::WeakHash { binds, hash } => {
            format!("self-signature on {binds}: {hash} is not taken in a refresh")
        }
        Refused::NewSubkey { fingerprint } => {
            format!("new subkey {fingerprint}: take it with --allow-subkey")
        }
        Refused::OtherCertificate { fingerprint } => {
            format!("certificate {fingerprint}, which is not pinned")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::speaking_user;

    #[test]
    fn a_certificate_is_named_by_the_user_id_with_a_mail_address() {
        let users = ["Ben (born 1977)", "Ben <ben@example.org>"].map(str::to_owned);
        assert_eq!(speaking_user(&users), "Ben <ben@example.org>");
        assert_eq!(speaking_user(&users[..1]), "Ben (born 1977)");
        assert_eq!(speaking_user(&[]), "no user id");
    }
}
