//! Reads Rust source as words, not as a compiler does: enough to see every path that a file names,
//! and which of its lines are test code.

/// A word, a mark or a literal of the source. Comments and white space are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Line, from 1.
    pub line: usize,
    /// The text; for a literal only its kind, `""`, `''` or `0`, because its content is data.
    pub text: String,
    /// Whether it is an identifier or a keyword.
    pub word: bool,
}

/// A path that the source names: `crate::files::write`, with `super` and `self` resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// Line, from 1.
    pub line: usize,
    /// `crate` first for the crate's own paths; else as written. `*` closes a glob import.
    pub segments: Vec<String>,
    /// Whether it stands in test code.
    pub test: bool,
}

impl NamedPath {
    /// The path as text.
    pub fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// One file.
pub struct Source {
    /// Path relative to the repository.
    pub file: String,
    /// How many lines it has.
    pub lines: usize,
    /// Everything but comments and space.
    pub tokens: Vec<Token>,
    /// For each token, whether it stands in test code.
    pub test: Vec<bool>,
    /// For each token, the module it stands in, without `crate`.
    module: Vec<usize>,
    modules: Vec<Vec<String>>,
}

impl Source {
    /// Reads the text of the file at this path.
    pub fn new(file: &str, text: &str) -> Self {
        let tokens = tokens(text);
        let own = module_of(file);
        let whole_file_is_test = own.iter().any(|part| part == "tests");
        let mut test = vec![whole_file_is_test; tokens.len()];
        for at in 0..tokens.len() {
            if texts(&tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
                let end = item_end(&tokens, at + 7);
                test[at..end].fill(true);
            }
        }
        let (module, modules) = modules(&tokens, own);
        Self {
            file: file.to_owned(),
            lines: text.lines().count(),
            tokens,
            test,
            module,
            modules,
        }
    }

    /// Every path of two or more parts, and every import even of one.
    pub fn paths(&self) -> Vec<NamedPath> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            let import = token.text == "use" && !texts(&self.tokens, at + 1, &["<"]);
            if import {
                let mut reader = UseReader {
                    source: self,
                    at: at + 1,
                    found: &mut found,
                };
                reader.tree(&[]);
                at = reader.at.max(at + 1);
            } else if token.word && !follows(&self.tokens, at, &["::", "."]) {
                let mut segments = vec![token.text.clone()];
                let mut next = at + 1;
                while texts(&self.tokens, next, &["::"])
                    && self.tokens.get(next + 1).is_some_and(|token| token.word)
                {
                    segments.push(self.tokens[next + 1].text.clone());
                    next += 2;
                }
                if segments.len() > 1 {
                    found.push(self.named(at, segments));
                }
                at = next;
            } else {
                at += 1;
            }
        }
        found
    }

    fn named(&self, at: usize, segments: Vec<String>) -> NamedPath {
        let mut module = self.modules[self.module[at]].clone();
        let mut rest = segments.as_slice();
        let mut own = false;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => break,
            }
            own = true;
            rest = &rest[1..];
        }
        let segments = if own {
            let root = std::iter::once("crate".to_owned());
            root.chain(module).chain(rest.iter().cloned()).collect()
        } else {
            segments
        };
        NamedPath {
            line: self.tokens[at].line,
            segments,
            test: self.test[at],
        }
    }
}

/// Reads the tree after `use`.
struct UseReader<'a> {
    source: &'a Source,
    at: usize,
    found: &'a mut Vec<NamedPath>,
}

impl UseReader<'_> {
    fn tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        let mut last = self.at;
        while let Some(token) = self.source.tokens.get(self.at) {
            match token.text.as_str() {
                "{" => {
                    self.at += 1;
                    while let Some(token) = self.source.tokens.get(self.at) {
                        match token.text.as_str() {
                            "}" => {
                                self.at += 1;
                                return;
                            }
                            "," => self.at += 1,
                            _ => self.tree(&path),
                        }
                    }
                    return;
                }
                "::" => self.at += 1,
                "as" => self.at += 2,
                "*" => {
                    path.push("*".to_owned());
                    last = self.at;
                    self.at += 1;
                }
                "," | "}" | ";" => break,
                _ if token.word => {
                    path.push(token.text.clone());
                    last = self.at;
                    self.at += 1;
                }
                // Not an import after all.
                _ => return,
            }
        }
        // `use a::{self}` imports `a`.
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        if !path.is_empty() {
            let named = self.source.named(last, path);
            self.found.push(named);
        }
    }
}

/// The module that a file is: `src/kconfig/language/lex.rs` is `kconfig::language::lex`.
pub fn module_of(file: &str) -> Vec<String> {
    let inside = file.strip_prefix("src/").unwrap_or(file);
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod")) || parts == ["lib"] {
        parts.pop();
    }
    parts
}

fn texts(tokens: &[Token], at: usize, expected: &[&str]) -> bool {
    tokens
        .get(at..at + expected.len())
        .is_some_and(|found| found.iter().zip(expected).all(|(a, b)| a.text == *b))
}

fn follows(tokens: &[Token], at: usize, marks: &[&str]) -> bool {
    at > 0 && marks.contains(&tokens[at - 1].text.as_str())
}

/// The end of the item that starts here: after its `;`, or after the brace that closes it.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// For each token the module it stands in: the file's own, or one written inline.
fn modules(tokens: &[Token], own: Vec<String>) -> (Vec<usize>, Vec<Vec<String>>) {
    let mut modules = vec![own];
    let mut of_token = Vec::with_capacity(tokens.len());
    let mut open = vec![(0usize, 0usize)];
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        let current = open.last().map_or(0, |(module, _)| *module);
        of_token.push(current);
        match token.text.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && tokens[at - 2].text == "mod" && tokens[at - 1].word {
                    let mut path = modules[current].clone();
                    path.push(tokens[at - 1].text.clone());
                    modules.push(path);
                    open.push((modules.len() - 1, depth));
                }
            }
            "}" => {
                if open
                    .last()
                    .is_some_and(|(_, opened)| *opened == depth && depth > 0)
                {
                    open.pop();
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    (of_token, modules)
}

/// Splits the text.
pub fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let (end, kind) = one(text, at);
        let token = match kind {
            Kind::Space => None,
            Kind::Word => Some((text[at..end].trim_start_matches("r#").to_owned(), true)),
            Kind::Mark => Some((text[at..end].to_owned(), false)),
            Kind::Text => Some(("\"\"".to_owned(), false)),
            Kind::Char => Some(("''".to_owned(), false)),
            Kind::Number => Some(("0".to_owned(), false)),
        };
        found.extend(token.map(|(text, word)| Token { line, text, word }));
        line += text[at..end].matches('\n').count();
        at = end;
    }
    found
}

enum Kind {
    Space,
    Word,
    Mark,
    Text,
    Char,
    Number,
}

/// The end and kind of what starts at `at`.
fn one(text: &str, at: usize) -> (usize, Kind) {
    let rest = &text[at..];
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_whitespace() {
        return (at + first.len_utf8(), Kind::Space);
    }
    if rest.starts_with("//") {
        return (at + rest.find('\n').unwrap_or(rest.len()), Kind::Space);
    }
    if rest.starts_with("/*") {
        return (at + block_comment(rest), Kind::Space);
    }
    if let Some(length) = raw_text(rest) {
        return (at + length, Kind::Text);
    }
    let prefix = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let skipped = rest.len() - prefix.len();
    if prefix.starts_with('"') {
        return (at + skipped + quoted(prefix, '"'), Kind::Text);
    }
    if let Some(inside) = prefix.strip_prefix('\'') {
        let mut after = inside.chars();
        let (second, third) = (after.next(), after.next());
        if second == Some('\\') || third == Some('\'') {
            return (at + skipped + quoted(prefix, '\''), Kind::Char);
        }
        if skipped == 0 {
            // A lifetime or a label: the quote and its name.
            let name = word_length(&rest[1..]);
            return (at + 1 + name, Kind::Char);
        }
    }
    if rest.starts_with("r#") && word_length(&rest[2..]) > 0 {
        return (at + 2 + word_length(&rest[2..]), Kind::Word);
    }
    if first.is_ascii_digit() {
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        return (at + length, Kind::Number);
    }
    match word_length(rest) {
        0 if rest.starts_with("::") => (at + 2, Kind::Mark),
        0 => (at + first.len_utf8(), Kind::Mark),
        length => (at + length, Kind::Word),
    }
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => {
                depth += 1;
                at += 2;
            }
            Some(b"*/") => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a quoted literal with escapes, its quotes included.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of `r"..."`, `r#"..."#`, `br"..."` and their like.
fn raw_text(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr"));
    let after = after.or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let length = body
        .find(&closing)
        .map_or(body.len(), |end| end + closing.len());
    Some(rest.len() - body.len() + length)
}

/// What the reader must see, and must not.
pub mod own_cases {
    use super::{Source, tokens};
    use crate::support::case::{Case, Outcome};

    /// More cases of the group `harness`.
    pub fn cases() -> Vec<Case> {
        vec![
            Case::new("harness::source_reader_splits_words", splits_words),
            Case::new("harness::source_reader_resolves_paths", resolves_paths),
            Case::new("harness::source_reader_knows_test_code", knows_test_code),
        ]
    }

    fn splits_words() -> Outcome {
        let text = "a /* x /* y */ z */ b // c\n'q' '\\'' 'life \"s\\\"t\" r#\"raw \" \"# r#fn \
                    b\"x\" 1_000u8 x.y::z";
        let found: Vec<String> = tokens(text).into_iter().map(|token| token.text).collect();
        let expected = [
            "a", "b", "''", "''", "''", "\"\"", "\"\"", "fn", "\"\"", "0", "x", ".", "y", "::", "z",
        ];
        assert_eq!(found, expected);
        assert_eq!(
            tokens("a\n\n\"x\ny\"\nb").last().map(|token| token.line),
            Some(5)
        );
        Ok(())
    }

    fn paths(file: &str, text: &str) -> Vec<String> {
        let source = Source::new(file, text);
        source
            .paths()
            .iter()
            .map(|path| format!("{}:{}", path.line, path.text()))
            .collect()
    }

    fn resolves_paths() -> Outcome {
        let text = "use crate::{a::{b, c as d}, e::*, f::{self}};\n\
                    use super::g; use std::fs;\n\
                    fn x() -> super::super::h::I { self::j::k(); crate::l::m::<n::o>() }\n\
                    mod inner { use super::p; fn y() { super::super::q::r() } }\n\
                    // crate::comment::x\n\
                    const S: &str = \"crate::text::x\"; fn z() -> impl Q + use<'_> { format!(\"\", \
                    crate::t::U) }";
        let expected = [
            "1:crate::a::b",
            "1:crate::a::c",
            "1:crate::e::*",
            "1:crate::f",
            "2:crate::room::g",
            "2:std::fs",
            "3:crate::h::I",
            "3:crate::room::file::j::k",
            "3:crate::l::m",
            "3:n::o",
            "4:crate::room::file::p",
            "4:crate::room::q::r",
            "6:crate::t::U",
        ];
        assert_eq!(paths("src/room/file.rs", text), expected);
        assert_eq!(
            paths("src/room/mod.rs", "use super::a::B;"),
            ["1:crate::a::B"]
        );
        assert_eq!(
            paths("src/lib.rs", "pub use self::a::B;"),
            ["1:crate::a::B"]
        );
        Ok(())
    }

    fn knows_test_code() -> Outcome {
        let text = "use a::one;\n#[cfg(test)]\nuse a::two;\n#[cfg(test)]\n#[x(y)]\nmod tests {\n\
                    use a::three;\nfn f() { if x { a::four() } }\n}\nuse a::five;\n#[cfg(not(test))]\n\
                    use a::six;";
        let source = Source::new("src/x.rs", text);
        let test: Vec<String> = source
            .paths()
            .iter()
            .filter(|path| path.test)
            .map(|path| path.segments[1].clone())
            .collect();
        assert_eq!(test, ["two", "three", "four"]);
        let whole = Source::new("src/x/tests.rs", "use a::b;");
        assert!(whole.paths()[0].test);
        Ok(())
    }
}
