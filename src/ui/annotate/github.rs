//! Workflow commands of GitHub Actions: `::error file=F,line=N,title=T::MESSAGE`. Their escapes are
//! those of `@actions/core` (actions/toolkit, packages/core/src/command.ts).

use std::fmt::Write as _;

use super::{Judged, message, title};
use crate::kconfig::Severity;

pub(super) fn render(judged: &Judged<'_>) -> String {
    let mut out = String::new();
    for finding in judged.findings() {
        let command = match finding.severity {
            Severity::Block => "error",
            Severity::Warn => "warning",
            Severity::Note => "notice",
        };
        let (file, line) = judged.place(finding);
        let _infallible = writeln!(
            out,
            "::{command} file={},line={line},title={}::{}",
            property(&file),
            property(&title(finding)),
            data(&message(finding))
        );
    }
    let _infallible = writeln!(out, "::notice::{}", data(&judged.summary()));
    out
}

/// A message: nothing in it may end the line, or be taken for an escape.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property's value: nothing in it may end it either.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
