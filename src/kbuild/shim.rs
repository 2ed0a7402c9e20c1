//! kiln standing in for `date` and `pahole` inside a build.
//!
//! The program is bound into the sandbox under their names, first on PATH, and looks at the name it
//! was called by. Two tools make a package build differ from run to run and take no variable that
//! would stop them:
//! - `scripts/package/mkdebian` writes `$(date -R)` into `debian/changelog`, whatever
//!   `SOURCE_DATE_EPOCH` says;
//! - `pahole -j` (1.22 to 1.26) orders BTF types by the luck of its threads, and kernel.org's
//!   `scripts/Makefile.btf` passes `-j`.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use jiff::Timestamp;

/// A tool that kiln stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// `date`.
    Date,
    /// `pahole`.
    Pahole,
}

impl StandIn {
    /// Every tool that kiln stands in for.
    pub const ALL: [Self; 2] = [Self::Date, Self::Pahole];

    /// The name it is called by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Pahole => "pahole",
        }
    }

    /// The tool itself.
    pub const fn real(self) -> &'static str {
        match self {
            Self::Date => "/usr/bin/date",
            Self::Pahole => "/usr/bin/pahole",
        }
    }

    /// The stand-in that a program called as `argv0` must be, if any.
    pub fn named(argv0: &OsStr) -> Option<Self> {
        let name = Path::new(argv0).file_name()?;
        Self::ALL.into_iter().find(|tool| name == tool.name())
    }
}

/// What a stand-in does with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// Prints a line.
    Print(String),
    /// Becomes the real tool with these arguments.
    Become(Vec<OsString>),
}

/// Why a stand-in cannot answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("SOURCE_DATE_EPOCH is `{0}`: expected seconds since 1970")]
struct EpochError(String);

/// Decides what `tool` does; `epoch` is the value of `SOURCE_DATE_EPOCH`.
fn action(tool: StandIn, args: Vec<OsString>, epoch: Option<&OsStr>) -> Result<Action, EpochError> {
    match tool {
        StandIn::Date => {
            let asks_now = args.iter().any(|arg| is_rfc_email(arg))
                && args.iter().all(|arg| is_rfc_email(arg) || is_utc(arg));
            match (asks_now, epoch) {
                (true, Some(epoch)) => Ok(Action::Print(rfc_5322(epoch)?)),
                _ => Ok(Action::Become(args)),
            }
        }
        StandIn::Pahole => {
            let alone = |arg: &OsString| {
                let bytes = arg.as_bytes();
                !bytes.starts_with(b"-j") && bytes != b"--jobs" && !bytes.starts_with(b"--jobs=")
            };
            Ok(Action::Become(args.into_iter().filter(alone).collect()))
        }
    }
}

fn is_rfc_email(arg: &OsStr) -> bool {
    ["-R", "--rfc-email", "--rfc-2822", "-uR", "-Ru"]
        .iter()
        .any(|spelling| arg == *spelling)
}

fn is_utc(arg: &OsStr) -> bool {
    ["-u", "--utc", "--universal"]
        .iter()
        .any(|spelling| arg == *spelling)
}

/// The text that `date -u -R -d @EPOCH` prints.
fn rfc_5322(epoch: &OsStr) -> Result<String, EpochError> {
    let text = epoch.to_string_lossy();
    let time = text
        .parse()
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .ok_or_else(|| EpochError(text.into_owned()))?;
    Ok(time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
}

/// Stands in for `tool` with `args`; returns the exit code if it did not become the tool itself.
pub fn main(tool: StandIn, args: impl IntoIterator<Item = OsString>) -> u8 {
    let epoch = std::env::var_os("SOURCE_DATE_EPOCH");
    let failed = match action(tool, args.into_iter().collect(), epoch.as_deref()) {
        Ok(Action::Print(line)) => match writeln!(std::io::stdout(), "{line}") {
            Ok(()) => return 0,
            Err(error) => error.to_string(),
        },
        Ok(Action::Become(args)) => become_real(tool, &args).to_string(),
        Err(error) => error.to_string(),
    };
    // Nothing is left to tell if even this cannot be written; the code still says it.
    drop(writeln!(std::io::stderr(), "{}: {failed}", tool.name()));
    1
}

/// Replaces this process; returns only on failure.
#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the tool: there is no child that a runner could time or kill"
)]
fn become_real(tool: StandIn, args: &[OsString]) -> std::io::Error {
    std::process::Command::new(tool.real()).args(args).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn date(line: &str, epoch: Option<&str>) -> Result<Action, EpochError> {
        action(StandIn::Date, words(line), epoch.map(OsStr::new))
    }

    #[test]
    fn the_changelog_date_is_source_date_epoch() {
        // `date -u -R -d @1780300000`.
        let expected = Action::Print("Mon, 01 Jun 2026 07:46:40 +0000".to_owned());
        for spelling in ["-R", "-u -R", "--rfc-email", "-Ru"] {
            assert_eq!(date(spelling, Some("1780300000")), Ok(expected.clone()));
        }
    }

    #[test]
    fn any_other_question_goes_to_the_real_date() {
        for line in ["", "+%s", "-u", "-R -d @0", "-u -d @0 -R", "-R -r FILE"] {
            assert_eq!(
                date(line, Some("1")),
                Ok(Action::Become(words(line))),
                "{line}"
            );
        }
        assert_eq!(date("-R", None), Ok(Action::Become(words("-R"))));
    }

    #[test]
    fn a_malformed_epoch_is_an_error_not_the_wall_clock() {
        for epoch in ["", "now", "1.5", "99999999999999999999"] {
            assert_eq!(date("-R", Some(epoch)), Err(EpochError(epoch.to_owned())));
        }
    }

    #[test]
    fn pahole_loses_its_threads_and_nothing_else() {
        let after = |line| action(StandIn::Pahole, words(line), None);
        for (line, kept) in [
            (
                "-J -j --btf_features=var vmlinux",
                "-J --btf_features=var vmlinux",
            ),
            ("-j8 -J x", "-J x"),
            ("--jobs=4 --version", "--version"),
            ("--jobs -J x", "-J x"),
            ("-J --btf_gen_floats x", "-J --btf_gen_floats x"),
        ] {
            assert_eq!(after(line), Ok(Action::Become(words(kept))), "{line}");
        }
    }

    #[test]
    fn the_name_decides() {
        assert_eq!(
            StandIn::named(OsStr::new("/build/bin/date")),
            Some(StandIn::Date)
        );
        assert_eq!(StandIn::named(OsStr::new("pahole")), Some(StandIn::Pahole));
        for other in ["kiln", "/usr/bin/kiln", "date.x", "", "/"] {
            assert_eq!(StandIn::named(OsStr::new(other)), None);
        }
    }
}
