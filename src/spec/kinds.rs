//! Kinds of scalars that the files hold.

use super::shape::Kind;
use crate::digest::{Fingerprint, Sha256};
use crate::kernel::{Line, Series};
use crate::proof::key::PublicKey;

/// A pipeline's name.
pub static LINE: Kind = Kind {
    expected: "a name: a lower-case letter, then up to 11 lower-case letters or digits",
    pattern: "^[a-z][a-z0-9]{0,11}$",
    accepts: |text| text.parse::<Line>().is_ok(),
};

/// A kernel series.
pub static SERIES: Kind = Kind {
    expected: "a kernel series such as \"6.18\"",
    pattern: "^[0-9]+\\.[0-9]+$",
    accepts: |text| text.parse::<Series>().is_ok(),
};

/// A certificate's fingerprint.
pub static FINGERPRINT: Kind = Kind {
    expected: "a full fingerprint of 40 or 64 hexadecimal digits without blanks (a key id can be forged)",
    pattern: "^([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$",
    accepts: |text| text.parse::<Fingerprint>().is_ok(),
};

/// A SHA-256 digest.
pub static SHA256: Kind = Kind {
    expected: "a sha256 of 64 lower-case hexadecimal digits",
    pattern: "^[0-9a-f]{64}$",
    accepts: |text| text.parse::<Sha256>().is_ok(),
};

/// A Debian package's name (Debian policy 5.6.1).
pub static PACKAGE: Kind = Kind {
    expected: "a Debian package name such as linux-config-6.12",
    pattern: "^[a-z0-9][a-z0-9+.-]+$",
    accepts: |text| {
        text.len() >= 2
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.bytes().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'.' | b'-')
            })
    },
};

/// The end of a file name in `linux-config-*`, after the architecture: feature set and flavour.
pub static FLAVOUR: Kind = Kind {
    expected: "a flavour of Debian's configs such as none_amd64, none_cloud-amd64 or rt_amd64",
    pattern: "^[a-z0-9-]+_[a-z0-9-]+$",
    accepts: |text| {
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        text.split_once('_')
            .is_some_and(|(set, flavour)| part(set) && part(flavour))
    },
};

/// A path of a file of the workspace, or an absolute one.
pub static PATH: Kind = Kind {
    expected: "a path, from the workspace's directory, without `..`",
    pattern: "^[^\\u0000]+$",
    accepts: |text| {
        !text.is_empty()
            && !text.chars().any(char::is_control)
            && !text.split('/').any(|part| part == "..")
    },
};

/// A fragment: a name in `config-fragments/`, or a path.
pub static FRAGMENT: Kind = Kind {
    expected: "a fragment's name in config-fragments/ (without .config), or a path with a `/`",
    pattern: "^[A-Za-z0-9._/-]+$",
    accepts: |text| {
        let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/');
        !text.is_empty()
            && text.bytes().all(name)
            && !text.starts_with('.')
            && !text.split('/').any(|part| part == "..")
            && (text.contains('/') || !text.ends_with(".config"))
    },
};

/// A configuration symbol, without `CONFIG_`.
pub static SYMBOL: Kind = Kind {
    expected: "a configuration symbol without CONFIG_, such as PREEMPT_RT",
    pattern: "^(?!CONFIG_)[A-Za-z0-9_]+$",
    accepts: |text| !text.starts_with("CONFIG_") && is_symbol(text),
};

/// A configuration symbol, or a pattern of them.
pub static SYMBOL_PATTERN: Kind = Kind {
    expected: "a configuration symbol without CONFIG_, in which `*` stands for any letters, such as DRM_I915_*",
    pattern: "^(?!CONFIG_)[A-Za-z0-9_*]*[A-Za-z0-9_][A-Za-z0-9_*]*$",
    accepts: |text| {
        !text.starts_with("CONFIG_")
            && text != "*"
            && is_symbol(&text.replace('*', "X"))
            && text.bytes().any(|b| b != b'*')
    },
};

fn is_symbol(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What an option's value must be.
pub static ASSERTED: Kind = Kind {
    expected: "y, m, n, a number, or a text in quotes",
    pattern: "^[^\\u0000-\\u001f\"]*$",
    accepts: |text| !text.chars().any(|c| c.is_control() || c == '"'),
};

/// A sentence for people.
pub static SENTENCE: Kind = Kind {
    expected: "a sentence of at least three words",
    pattern: "^\\S+\\s+\\S+\\s+\\S",
    accepts: |text| text.split_whitespace().count() >= 3 && !text.contains('\0'),
};

/// Where releases are fetched from.
pub static MIRROR: Kind = Kind {
    expected: "an address that begins with https://, http:// or file:///, without a user or password before an `@`",
    pattern: "^(https?://[^/\\s]|file:///)\\S*$",
    accepts: |text| {
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let good = rest.map_or_else(
            || text.starts_with("file:///"),
            |host| !host.is_empty() && !host.starts_with('/'),
        );
        good && !text.contains('@') && !text.chars().any(|c| c.is_whitespace() || c.is_control())
    },
};

/// Who holds a key that signs statements.
pub static HOLDER: Kind = Kind {
    expected: "a holder's name: up to 40 lower-case letters, digits, `.` and `-`, a letter or digit first",
    pattern: "^[a-z0-9][a-z0-9.-]{0,39}$",
    accepts: |text| {
        text.len() <= 40
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-'))
    },
};

/// A public key that statements are verified with.
pub static PUBLIC_KEY: Kind = Kind {
    expected: "an ed25519 public key: the base64 of its 32 bytes, 44 letters",
    pattern: "^[A-Za-z0-9+/]{43}=$",
    accepts: |text| text.parse::<PublicKey>().is_ok(),
};

/// A day.
pub static DAY: Kind = Kind {
    expected: "a day such as 2027-03-01",
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    accepts: |text| super::roles::day(text).is_some(),
};

/// A word of a command line.
pub static ARGUMENT: Kind = Kind {
    expected: "a word of a command line",
    pattern: "^[^\\u0000-\\u001f]+$",
    accepts: |text| !text.is_empty() && !text.chars().any(char::is_control),
};

/// A length of time.
pub static DURATION: Kind = Kind {
    expected: "a length of time such as 90m, 24h or 7d",
    pattern: "^[1-9][0-9]{0,4}[smhd]$",
    accepts: |text| super::channels::seconds(text).is_some(),
};

/// A share of nodes.
pub static PERCENT: Kind = Kind {
    expected: "a share from 1% to 100%",
    pattern: "^([1-9][0-9]?|100)%$",
    accepts: |text| super::channels::percent(text).is_some(),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_takes_the_good_and_refuses_the_bad() {
        let cases: [(&Kind, &[&str], &[&str]); 16] = [
            (&LINE, &["lts", "a"], &["Lts", "", "abcdefghijklm", "a-b"]),
            (&SERIES, &["6.18", "6.10"], &["6", "6.18.1", "six"]),
            (
                &PACKAGE,
                &["linux-config-6.12"],
                &["x", "Linux", "a_b", "-a"],
            ),
            (
                &FLAVOUR,
                &["none_amd64", "none_cloud-amd64"],
                &["", "amd64", "a/b", "A_b", "../x_y"],
            ),
            (
                &PATH,
                &["collateral/lts.yaml", "/srv/x"],
                &["", "../x", "a/../b", "a\nb"],
            ),
            (
                &FRAGMENT,
                &["latency", "my/own.config"],
                &["", "latency.config", "../x", ".x", "a b"],
            ),
            (
                &SYMBOL,
                &["PREEMPT_RT", "HZ_1000"],
                &["CONFIG_HZ", "", "A-B", "A B"],
            ),
            (
                &SYMBOL_PATTERN,
                &["DRM_*", "HZ", "*_BTF"],
                &["*", "**", "CONFIG_*", ""],
            ),
            (&ASSERTED, &["y", "100", ""], &["a\"b", "a\nb"]),
            (
                &MIRROR,
                &["https://h/p", "http://127.0.0.1:8000/", "file:///srv"],
                &["h/p", "ftp://x", "https://", "https:///x", "https://u:p@h"],
            ),
            (&DURATION, &["90m", "24h", "7d"], &["24", "h", "0h", "1w"]),
            (&PERCENT, &["5%", "100%"], &["0%", "101%", "5"]),
            (&HOLDER, &["ci", "0.a-b"], &["", "-a", "A", "a b", "a/b"]),
            (
                &PUBLIC_KEY,
                &["PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="],
                &["", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw", "AAAA"],
            ),
            (
                &DAY,
                &["2028-02-29"],
                &["2027-02-29", "2027-1-1", "2027-01-01T00:00", "soon"],
            ),
            (&ARGUMENT, &["--key=a b"], &["", "a\nb"]),
        ];
        for (kind, good, bad) in cases {
            for text in good {
                assert!((kind.accepts)(text), "{}: {text:?}", kind.expected);
            }
            for text in bad {
                assert!(!(kind.accepts)(text), "{}: {text:?}", kind.expected);
            }
        }
    }
}
