//! `pipelines/channels.yaml`: where builds are offered, and on what evidence.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::{Problem, SpecError, SpecErrors};
use super::kinds;
use super::shape::{Field, Shape, check, optional, required};
use super::yaml::{self, Spanned, at};
use crate::failure::nearest;
use crate::kernel::Line;

/// The channels file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// The number of the file format.
    pub kiln: u32,
    /// The channels by name.
    pub channels: BTreeMap<Line, Spanned<Channel>>,
}

/// One channel and its policy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The lines that it accepts.
    pub lines: Vec<Spanned<Line>>,
    /// The channel that builds must have come through.
    pub from: Option<Spanned<Line>>,
    /// The evidence that it asks for.
    #[serde(default)]
    pub require: Require,
    /// How its nodes take a build, one wave after the other; none means all at once.
    #[serde(default)]
    pub waves: Vec<Wave>,
}

/// The evidence that a channel asks for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Require {
    /// How many rebuilders must have got the same bytes.
    pub reproduced: u64,
    /// Whether the image must have booted in a guest.
    pub boot_tested: bool,
    /// What nodes must have lived through.
    pub nodes: Option<Nodes>,
    /// What the measurement is compared with.
    pub latency: Option<Latency>,
    /// How many people must have approved.
    pub approvals: u64,
}

/// What nodes must have lived through.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many must have committed the build.
    pub committed: u64,
    /// How long they must have run it since; text such as `24h`.
    pub soak: String,
}

impl Nodes {
    /// The soak time in seconds.
    pub fn soak_seconds(&self) -> u64 {
        seconds(&self.soak).unwrap_or(u64::MAX)
    }
}

/// What the measurement is compared with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The baseline; only `stock`, Debian's own kernel.
    pub against: String,
}

/// One wave.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// The share of nodes that may take the build by now, such as `5%`.
    pub nodes: Spanned<String>,
    /// How long the wave lasts before the next begins, such as `24h`.
    #[serde(rename = "for")]
    pub lasts: Option<Spanned<String>>,
}

/// Seconds of a length of time such as `90m`.
pub fn seconds(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let plain = matches!(digits.len(), 1..=5)
        && digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.starts_with('0');
    let count: u64 = plain.then(|| digits.parse().ok()).flatten()?;
    Some(count * unit)
}

/// The number of a share such as `5%`.
pub fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    let share: u64 = plain.then(|| digits.parse().ok()).flatten()?;
    (1..=100).contains(&share).then_some(share)
}

static REQUIRE: [Field; 5] = [
    optional(
        "reproduced",
        "how many rebuilders must have got the same bytes",
        Shape::Number(0, 100),
    ),
    optional(
        "boot-tested",
        "whether the image must have booted in a guest",
        Shape::Flag,
    ),
    optional(
        "nodes",
        "what nodes must have lived through",
        Shape::Table(&[
            required(
                "committed",
                "how many must have committed the build",
                Shape::Number(1, 1_000_000),
            ),
            required(
                "soak",
                "how long they must have run it since",
                Shape::Text(&kinds::DURATION),
            ),
        ]),
    ),
    optional(
        "latency",
        "what the measurement is compared with",
        Shape::Table(&[required(
            "against",
            "the baseline",
            Shape::Words {
                words: &["stock"],
                refused: &[],
            },
        )]),
    ),
    optional(
        "approvals",
        "how many people must have approved",
        Shape::Number(0, 100),
    ),
];

static CHANNEL: Shape = Shape::Table(&[
    required(
        "lines",
        "the lines that it accepts",
        Shape::List {
            item: &Shape::Text(&kinds::LINE),
            least: 1,
            distinct: true,
        },
    ),
    optional(
        "from",
        "the channel that builds must have come through",
        Shape::Text(&kinds::LINE),
    ),
    optional(
        "require",
        "the evidence that it asks for",
        Shape::Table(&REQUIRE),
    ),
    optional(
        "waves",
        "how its nodes take a build, one wave after the other",
        Shape::List {
            item: &Shape::Table(&[
                required(
                    "nodes",
                    "the share of nodes that may take the build by now",
                    Shape::Text(&kinds::PERCENT),
                ),
                optional(
                    "for",
                    "how long the wave lasts before the next begins",
                    Shape::Text(&kinds::DURATION),
                ),
            ]),
            least: 1,
            distinct: false,
        },
    ),
]);

/// The keys of the channels file.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    required(
        "channels",
        "the channels by name",
        Shape::Keyed {
            key: &kinds::LINE,
            value: &CHANNEL,
        },
    ),
]);

impl Channels {
    /// Reads a channels file; `file` is its name for messages.
    ///
    /// # Errors
    /// Every wrong key and value of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecErrors> {
        check(file, &yaml::parse(file, text)?, &SHAPE)?;
        let channels: Self = yaml::from_str(file, text)?;
        SpecErrors::check(channels.contradictions(file))?;
        Ok(channels)
    }

    fn contradictions(&self, file: &str) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let mut report = |at, path: String, problem| {
            errors.push(SpecError {
                file: file.to_owned(),
                at,
                path,
                problem,
            });
        };
        for (name, channel) in &self.channels {
            if let Some(from) = &channel.value.from {
                let path = format!("channels.{name}.from");
                if let Some(problem) = self.wrong_origin(name, &from.value) {
                    report(at(from), path, problem);
                }
            }
            let mut before = 0;
            let waves = &channel.value.waves;
            for (index, wave) in waves.iter().enumerate() {
                let path = format!("channels.{name}.waves.{index}");
                let share = percent(&wave.nodes.value).unwrap_or(0);
                let last = index + 1 == waves.len();
                let text = if share <= before {
                    "each wave must reach more nodes than the one before"
                } else if last && share != 100 {
                    "the last wave must reach 100% of the nodes"
                } else if !last && wave.lasts.is_none() {
                    "a wave before the last needs `for`, or the next one never begins"
                } else {
                    before = share;
                    continue;
                };
                before = share;
                report(
                    at(&wave.nodes),
                    path,
                    Problem::Contradiction(text.to_owned()),
                );
            }
        }
        errors
    }

    /// Why `from` cannot be where the builds of `name` come from.
    fn wrong_origin(&self, name: &Line, from: &Line) -> Option<Problem> {
        let names = || self.channels.keys().map(Line::as_str);
        if !self.channels.contains_key(from) {
            return Some(Problem::Value {
                expected: format!(
                    "one of the channels {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
                found: format!("`{from}`"),
                nearest: nearest(from.as_str(), names()),
            });
        }
        let mut next = Some(from);
        for _ in 0..=self.channels.len() {
            if next == Some(name) {
                return Some(Problem::Contradiction(format!(
                    "builds of `{name}` would have to come through `{name}` itself"
                )));
            }
            next = next
                .and_then(|name| self.channels.get(name))
                .and_then(|channel| channel.value.from.as_ref())
                .map(|from| &from.value);
        }
        None
    }
}
