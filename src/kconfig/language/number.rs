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
    ///
    /// Hexadecimal ones are read with `strtoull`, others with `strtoll`. One that does not fit is
    /// none (`errno` in `expr_parse_string`, scripts/kconfig/expr.c).
    pub(super) fn whole(text: &str, base: Base) -> Option<Self> {
        let scanned = Scanned::of(text, base)?;
        if !scanned.rest.is_empty() {
            return None;
        }
        let unsigned = base == Base::Sixteen;
        let least_that_is_too_much = match (unsigned, scanned.negative) {
            (true, _) => None,
            (false, negative) => Some(i64::MAX.cast_unsigned() + u64::from(negative) + 1),
        };
        let magnitude = scanned.magnitude?;
        if least_that_is_too_much.is_some_and(|too_much| magnitude >= too_much) {
            return None;
        }
        let bits = if scanned.negative {
            magnitude.wrapping_neg()
        } else {
            magnitude
        };
        Some(Self { bits, unsigned })
    }

    /// The number a text starts with; zero where it starts with none. Ranges are compared so: with
    /// `strtoll` in any base, which stops at the ends of its type (`sym_validate_range`,
    /// scripts/kconfig/symbol.c).
    pub(super) fn leading(text: &str, base: Base) -> i64 {
        let Some(scanned) = Scanned::of(text, base) else {
            return 0;
        };
        let magnitude = scanned.magnitude.and_then(|m| i64::try_from(m).ok());
        match (magnitude, scanned.negative) {
            (Some(magnitude), true) => -magnitude,
            (Some(magnitude), false) => magnitude,
            (None, true) => i64::MIN,
            (None, false) => i64::MAX,
        }
    }
}

/// A number at the start of a text.
struct Scanned<'t> {
    negative: bool,
    /// Nothing where 64 bits do not hold it.
    magnitude: Option<u64>,
    rest: &'t str,
}

impl<'t> Scanned<'t> {
    /// Takes blanks, a sign, a prefix and digits as C does.
    fn of(text: &'t str, base: Base) -> Option<Self> {
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
        let magnitude = digits[..length].chars().try_fold(0_u64, |value, digit| {
            let digit = u64::from(digit.to_digit(radix).unwrap_or(0));
            value.checked_mul(u64::from(radix))?.checked_add(digit)
        });
        Some(Self {
            negative,
            magnitude,
            rest: &digits[length..],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_compared_as_signed_numbers_that_stop_at_their_ends() {
        for (text, base, number) in [
            ("0xFFFFFFFFFFFFFFFFFF", Base::Sixteen, i64::MAX),
            ("0xffffffffffffffff", Base::Sixteen, i64::MAX),
            ("0x7fffffffffffffff", Base::Sixteen, i64::MAX),
            ("-0x8000000000000000", Base::Sixteen, i64::MIN),
            ("-99999999999999999999", Base::Ten, i64::MIN),
            ("-12 rest", Base::Ten, -12),
            ("rest", Base::Ten, 0),
        ] {
            assert_eq!(Number::leading(text, base), number, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_no_number() {
        let fits = |text, base| Number::whole(text, base).map(|number| number.bits);
        assert_eq!(fits("0xffffffffffffffff", Base::Sixteen), Some(u64::MAX));
        assert_eq!(fits("0x10000000000000000", Base::Sixteen), None);
        assert_eq!(
            fits("9223372036854775807", Base::Ten),
            Some(i64::MAX.cast_unsigned())
        );
        assert_eq!(fits("9223372036854775808", Base::Ten), None);
        assert_eq!(fits("-9223372036854775808", Base::Ten), Some(1 << 63));
        assert_eq!(fits("-9223372036854775809", Base::Any), None);
        assert_eq!(fits("12x", Base::Ten), None);
    }
}
