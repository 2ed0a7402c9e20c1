//! How a failure is shown.

use serde_json::{Value, json};

use super::style::{Style, Tone};
use crate::failure::Failure;

/// For people: the message, its causes, an empty line, the hints.
pub fn failure_text(failure: &Failure, style: Style) -> String {
    let mut out = format!(
        "{} {}\n",
        style.paint(Tone::Bad, "error:"),
        indented(&failure.message, 7)
    );
    for cause in &failure.causes {
        out.push_str("  caused by: ");
        out.push_str(&indented(cause, 13));
        out.push('\n');
    }
    if !failure.hints.is_empty() {
        out.push('\n');
    }
    for hint in &failure.hints {
        out.push_str(&style.paint(Tone::Good, "hint:"));
        out.push(' ');
        out.push_str(&indented(hint, 6));
        out.push('\n');
    }
    out
}

/// `text` with every line after the first moved right.
fn indented(text: &str, by: usize) -> String {
    text.trim_end()
        .replace('\n', &format!("\n{}", " ".repeat(by)))
}

/// For machines.
pub fn failure_json(failure: &Failure) -> Value {
    json!({
        "code": failure.code,
        "exit": failure.exit.code(),
        "message": failure.message,
        "causes": failure.causes,
        "hints": failure.hints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn the_text_form() {
        let failure = Failure {
            exit: Exit::NotVerified,
            code: "signature-rejected",
            message: "first\nsecond".to_owned(),
            causes: vec!["inner".to_owned(), "innermost".to_owned()],
            hints: vec!["do this".to_owned()],
        };
        assert_eq!(
            failure_text(&failure, Style::PLAIN),
            "error: first\n       second\n  caused by: inner\n  caused by: innermost\n\nhint: do this\n"
        );
        assert_eq!(failure_json(&failure)["exit"], 10);
        let bare = Failure::usage("x");
        assert_eq!(failure_text(&bare, Style::PLAIN), "error: x\n");
    }
}
