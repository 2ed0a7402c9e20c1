//! Rows put at the end of a collateral list, each without its `why`: the list is refused until a
//! person has written it. What stands there already stays byte by byte.

use std::fmt::Write as _;

use super::collateral::{Allowed, Collateral, SHAPE};
use super::edit;
use super::error::SpecErrors;
use super::shape::check;
use super::yaml;

/// Widest line that is written.
const WIDTH: usize = 100;

/// A row for review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// Symbols without `CONFIG_`, sorted.
    pub symbols: Vec<String>,
    /// The requested symbol whose setting costs them; nothing where it is for the person to say.
    pub cause: Option<String>,
    /// What helps to judge, a line each.
    pub remarks: Vec<String>,
}

/// Why rows cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The list is not good as it is.
    #[error(transparent)]
    Invalid(#[from] SpecErrors),
    /// The list is written in a way that has no end to add to.
    #[error(
        "{file}:{line}: rows can only be added where `allow` is the last key of the file and each of \
         its rows begins with `- ` on a line of its own"
    )]
    Form {
        /// The file.
        file: String,
        /// Where `allow` begins.
        line: u64,
    },
}

/// The head of a new list.
const HEAD: &str = "\
# What the configuration may lose beside what was asked for: the symbols, the request that costs
# them, and why that is acceptable.
kiln: 1
allow:
";

/// `text` with the rows at its end; `None` for a list that does not exist yet. `file` is its name
/// for messages.
///
/// # Errors
/// Where the list is not good as it is, or has no end to add to.
pub fn append(file: &str, text: Option<&str>, rows: &[Proposed]) -> Result<String, AppendError> {
    let Some(text) = text else {
        return Ok(format!("{HEAD}{}", written(rows, 2, "\"\"")));
    };
    let root = yaml::parse(file, text)?;
    check(file, &root, &SHAPE)?;
    let form = || AppendError::Form {
        file: file.to_owned(),
        line: edit::entry(&root, "allow").map_or(1, |entry| entry.value.at.line),
    };
    let (head, indent) = edit::open_end(text, &root, "allow").ok_or_else(form)?;
    let whole = |why| format!("{head}{}", written(rows, indent, why));
    // Read back with a reason in place: only the missing reasons may be what is wrong with it.
    let before = Collateral::parse(file, text)?.allow;
    let after = Collateral::parse(file, &whole("to be written yet")).map(|list| list.allow);
    let kept = after.is_ok_and(|after| {
        after.len() == before.len() + rows.len()
            && before.iter().zip(&after).all(|(a, b)| same(a, b))
    });
    let complete = rows.iter().all(|row| row.cause.is_some());
    if kept || !complete {
        return Ok(whole("\"\""));
    }
    Err(form())
}

fn same(a: &Allowed, b: &Allowed) -> bool {
    let symbols =
        |row: &Allowed| -> Vec<String> { row.symbols.iter().map(|s| s.value.clone()).collect() };
    symbols(a) == symbols(b) && a.cause.value == b.cause.value && a.why == b.why
}

/// The rows as text; `why` as YAML.
fn written(rows: &[Proposed], indent: usize, why: &str) -> String {
    let mut out = String::new();
    let blank = " ".repeat(indent);
    for row in rows {
        for remark in &row.remarks {
            let remark: String = remark.chars().filter(|c| !c.is_control()).collect();
            let _infallible = writeln!(out, "{blank}# {remark}");
        }
        let line = format!("{blank}- symbols: [{}]", row.symbols.join(", "));
        if line.len() <= WIDTH {
            let _infallible = writeln!(out, "{line}");
        } else {
            let _infallible = writeln!(out, "{blank}- symbols:");
            for symbol in &row.symbols {
                let _infallible = writeln!(out, "{blank}    - {symbol}");
            }
        }
        let cause = row.cause.as_deref().unwrap_or("\"\"");
        let _infallible = writeln!(out, "{blank}  cause: {cause}\n{blank}  why: {why}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(symbols: &[&str], cause: Option<&str>) -> Proposed {
        Proposed {
            symbols: symbols.iter().map(|s| (*s).to_owned()).collect(),
            cause: cause.map(str::to_owned),
            remarks: vec!["asked by f.config".to_owned()],
        }
    }

    const OLD: &str = "# head\nkiln: 1\nallow: # of old\n# before\n- symbols: [A]  # aside\n  cause: B\n  why: it was so before\n# after";

    #[test]
    fn what_stands_there_stays_and_the_new_waits_for_a_reason() {
        let text = append("c.yaml", Some(OLD), &[row(&["C", "D"], Some("E"))]).unwrap();
        assert_eq!(
            text,
            format!("{OLD}\n# asked by f.config\n- symbols: [C, D]\n  cause: E\n  why: \"\"\n")
        );
        let error = Collateral::parse("c.yaml", &text).unwrap_err().to_string();
        assert!(
            error.starts_with("c.yaml:12:8: allow.1.why: ") && error.contains("three words"),
            "{error}"
        );
        let written = text.replace("why: \"\"", "why: nobody needs it here");
        let list = Collateral::parse("c.yaml", &written).unwrap();
        assert_eq!(list.allow.len(), 2);
        // With the reason, more can be added.
        assert!(append("c.yaml", Some(&written), &[row(&["F"], Some("E"))]).is_ok());
        // Without, nothing: who never reads what was proposed gets no more of it.
        assert!(matches!(
            append("c.yaml", Some(&text), &[row(&["F"], Some("E"))]),
            Err(AppendError::Invalid(_))
        ));
    }

    #[test]
    fn a_new_list_and_an_empty_one() {
        let rows = [row(&["C"], None)];
        let new = append("c.yaml", None, &rows).unwrap();
        assert!(
            new.ends_with("  - symbols: [C]\n    cause: \"\"\n    why: \"\"\n"),
            "{new}"
        );
        let error = Collateral::parse("c.yaml", &new).unwrap_err().to_string();
        assert!(
            error.contains("allow.0.cause") && error.contains("allow.0.why"),
            "{error}"
        );
        let empty = "kiln: 1\nallow: [] # none\n# end\n";
        let text = append("c.yaml", Some(empty), &[row(&["C"], Some("E"))]).unwrap();
        assert!(
            text.starts_with("kiln: 1\nallow: # none\n# end\n  # asked"),
            "{text}"
        );
    }

    #[test]
    fn many_symbols_have_lines_of_their_own() {
        let names: Vec<String> = (0..40).map(|n| format!("SYMBOL_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let new = append("c.yaml", None, &[row(&names, Some("E"))]).unwrap();
        assert!(new.lines().all(|line| line.len() <= WIDTH), "{new}");
        let whole = new.replace("why: \"\"", "why: as a test says");
        assert_eq!(
            Collateral::parse("c.yaml", &whole).unwrap().allow[0]
                .symbols
                .len(),
            40
        );
    }

    #[test]
    fn a_list_without_an_end_is_left_alone() {
        for text in [
            "allow:\n  - {symbols: [A], cause: B, why: as it is said}\nkiln: 1\n",
            "kiln: 1\nallow: [{symbols: [A], cause: B, why: as it is said}]\n",
            "kiln: 1\nallow:\n  [ ]\n",
            "{kiln: 1, allow: []}\n",
        ] {
            let result = append("c.yaml", Some(text), &[row(&["C"], Some("E"))]);
            assert!(
                matches!(result, Err(AppendError::Form { .. })),
                "{text}: {result:?}"
            );
        }
    }
}
