//! Texts as numbers, read the way C reads them.

/// The base a text is read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Ten,
    Sixteen,
    /// As the text says: `0x`, a leading `0`, or ten.
    Any,
}

/// A number as C holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) bits: u64,
    /// Whether it stands for a number without sign.
    pub(super) unsigned: bool,
}

impl Number {
    /// The number a text is, where all of it is one.
    pub(super) fn whole(text: &str, base: Base) -> Option<Self> {
        let (number, rest) = Self::scan(text, base)?;
        rest.is_empty().then_some(number)
    }

    /// The number a text starts with; zero where it starts with none.
    pub(super) fn leading(text: &str, base: Base) -> Self {
        let zero = Self {
            bits: 0,
            unsigned: base == Base::Sixteen,
        };
        Self::scan(text, base).map_or(zero, |(number, _)| number)
    }

    /// Reads a number as C's `strtoll` (hex: `strtoull`) does, and what stands behind it.
    fn scan(text: &str, base: Base) -> Option<(Self, &str)> {
        let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let prefixed = digits
            .strip_prefix("0x")
            .or_else(|| digits.strip_prefix("0X"))
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
        let (radix, digits) = match (base, prefixed) {
            (Base::Sixteen | Base::Any, Some(rest)) => (16, rest),
            (Base::Sixteen, None) => (16, digits),
            (Base::Any, None) if digits.starts_with('0') => (8, digits),
            (Base::Ten | Base::Any, _) => (10, digits),
        };
        let length = digits
            .bytes()
            .take_while(|b| char::from(*b).is_digit(radix))
            .count();
        if length == 0 {
            return None;
        }
        let unsigned = base == Base::Sixteen;
        let most = if unsigned {
            u64::MAX
        } else {
            i64::MAX.cast_unsigned() + u64::from(negative)
        };
        let magnitude = digits[..length].chars().fold(0_u64, |value, digit| {
            let digit = u64::from(digit.to_digit(radix).unwrap_or(0));
            let next = value
                .checked_mul(u64::from(radix))
                .and_then(|v| v.checked_add(digit));
            next.unwrap_or(u64::MAX)
        });
        let magnitude = magnitude.min(most);
        let bits = if negative {
            magnitude.wrapping_neg()
        } else {
            magnitude
        };
        Some((Self { bits, unsigned }, &digits[length..]))
    }
}
