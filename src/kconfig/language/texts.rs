//! All texts that are values, each held once.

use std::collections::HashMap;

/// A text, by its index in [`Texts`]; equal texts have equal indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TextId(u32);

impl TextId {
    pub(super) const EMPTY: Self = Self(0);
    pub(super) const ZERO: Self = Self(1);
    pub(super) const HEX_ZERO: Self = Self(2);
    pub(super) const N: Self = Self(3);
    pub(super) const M: Self = Self(4);
    pub(super) const Y: Self = Self(5);
}

/// All texts that are values.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    list: Vec<String>,
    known: HashMap<String, TextId>,
}

impl Texts {
    pub(super) fn new() -> Self {
        let mut texts = Self {
            list: Vec::new(),
            known: HashMap::new(),
        };
        for text in ["", "0", "0x0", "n", "m", "y"] {
            texts.add(text);
        }
        texts
    }

    pub(super) fn add(&mut self, text: &str) -> TextId {
        if let Some(id) = self.known.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(self.list.len()).expect("fewer texts than bytes"));
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), id);
        id
    }

    pub(super) fn get(&self, id: TextId) -> &str {
        &self.list[id.0 as usize]
    }
}
