//! `JUnit` XML in the form that Jenkins, GitLab and GitHub's reporters agree on: a case for every
//! finding, one for the guard's verdict.

use std::fmt::Write as _;

use super::{Judged, message, title};
use crate::kconfig::Severity;

pub(super) fn render(judged: &Judged<'_>) -> String {
    let mut cases = String::new();
    let (mut tests, mut failures) = (0, 0);
    for finding in judged.findings() {
        let (file, line) = judged.place(finding);
        let (name, text) = (title(finding), message(finding));
        let inner = if finding.severity == Severity::Block {
            failures += 1;
            let code = escaped(finding.code());
            let first = escaped(text.lines().next().unwrap_or_default());
            format!(
                "<failure type=\"{code}\" message=\"{first}\">{}</failure>",
                escaped(&format!("{file}:{line}: {text}"))
            )
        } else {
            let text = escaped(&format!("{file}:{line}: {text}"));
            format!("<system-out>{text}</system-out>")
        };
        case(&mut cases, &file, Some(line), &name, &inner);
        tests += 1;
    }
    let summary = escaped(&judged.summary());
    let verdict = if judged.report.passes() {
        format!("<system-out>{summary}</system-out>")
    } else {
        failures += 1;
        format!("<failure type=\"guard-failed\" message=\"{summary}\"/>")
    };
    case(
        &mut cases,
        &format!("{}{}", judged.prefix, judged.file),
        None,
        "guard",
        &verdict,
    );
    tests += 1;
    let name = escaped(&format!("kiln config check {}", judged.pipeline));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n\
         <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\">\n\
         {cases}</testsuite>\n</testsuites>\n"
    )
}

fn case(out: &mut String, file: &str, line: Option<u32>, name: &str, inner: &str) {
    let file = escaped(file);
    let line = line.map_or_else(String::new, |line| format!(" line=\"{line}\""));
    let name = escaped(name);
    let _infallible = writeln!(
        out,
        "<testcase classname=\"{file}\" name=\"{name}\" file=\"{file}\"{line}>{inner}</testcase>"
    );
}

/// Text for an element or an attribute. What XML 1.0 cannot carry at all (section 2.2, `Char`)
/// becomes the replacement character; line breaks become references, since a reader turns those of
/// an attribute into blanks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\r' | '\t' => {
                let _infallible = write!(out, "&#{};", u32::from(c));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}
