//! Changing a file that people write: lines are put in, values replaced, and every other byte stays,
//! comments too. Nothing here knows what a file means: who edits reads the outcome back.

use super::error::At;
use super::yaml::{Entry, Node, Value};

/// The entry of a map.
pub(super) fn entry<'a>(map: &'a Node, key: &str) -> Option<&'a Entry> {
    let Value::Map(entries) = &map.value else {
        return None;
    };
    entries.iter().find(|entry| entry.key == key)
}

/// The text that rows of the list `key` can follow, and how far they are moved to the right. Nothing
/// where that list is not the last key of the file, or its rows are not lines that begin with `- `.
pub(super) fn open_end(text: &str, root: &Node, key: &str) -> Option<(String, usize)> {
    let Value::Map(entries) = &root.value else {
        return None;
    };
    let last = entries.last().filter(|entry| entry.key == key)?;
    let Value::List(rows) = &last.value.value else {
        return None;
    };
    let mut head = text.to_owned();
    if !head.ends_with('\n') {
        head.push('\n');
    }
    let Some(row) = rows.first() else {
        // `allow: []`, perhaps with a comment after it.
        let at = usize::try_from(last.at.line).ok()?.checked_sub(1)?;
        let lines: Vec<&str> = head.split_inclusive('\n').collect();
        let line = lines.get(at)?;
        let rest = line.strip_prefix(key)?.strip_prefix(':')?.trim_start();
        let comment = rest.strip_prefix("[]")?.trim();
        let blank = if comment.is_empty() { "" } else { " " };
        let line = format!("{key}:{blank}{comment}\n");
        let before = lines[..at].concat();
        let after = lines[at + 1..].concat();
        return Some((format!("{before}{line}{after}"), 2));
    };
    let line = line_at(text, row.at)?;
    let indent = line.len() - line.trim_start().len();
    line.trim_start()
        .starts_with("- ")
        .then_some((head, indent))
}

/// Gives the plain or quoted scalar `key` of a map the value `to`, which is YAML, or adds the key
/// with it. `after` is a key of the map whose value ends on its own line. Nothing where the text is
/// laid out in a way that this does not see through.
pub(super) fn set(text: &str, map: &Node, key: &str, to: &str, after: &str) -> Option<String> {
    if let Some(entry) = entry(map, key) {
        let Value::Scalar { text: from, .. } = &entry.value.value else {
            return None;
        };
        let at = offset(text, entry.value.at)?;
        let written = [from.clone(), format!("\"{from}\""), format!("'{from}'")];
        let written = written.iter().find(|w| text[at..].starts_with(*w))?;
        return Some(format!(
            "{}{to}{}",
            &text[..at],
            &text[at + written.len()..]
        ));
    }
    let begin = offset(text, map.at)?;
    if text[begin..].starts_with('{') {
        let (head, tail) = text.split_at(begin + 1);
        return Some(format!("{head}{key}: {to}, {tail}"));
    }
    let neighbour = entry(map, after)?;
    let line = usize::try_from(neighbour.value.at.line).ok()?;
    let indent = usize::try_from(neighbour.at.column).ok()?.checked_sub(1)?;
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let last = lines.get_mut(line.checked_sub(1)?)?;
    if !last.ends_with('\n') {
        last.push('\n');
    }
    lines.insert(line, format!("{}{key}: {to}\n", " ".repeat(indent)));
    Some(lines.concat())
}

fn line_at(text: &str, at: At) -> Option<&str> {
    text.lines()
        .nth(usize::try_from(at.line).ok()?.checked_sub(1)?)
}

/// The byte at a place.
fn offset(text: &str, at: At) -> Option<usize> {
    let above = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(above).map(str::len).sum();
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let line = text.get(start..)?.split_inclusive('\n').next()?;
    let inside = line.char_indices().nth(column).map(|(at, _)| at)?;
    Some(start + inside)
}
