//! `/etc/kiln/gate.yaml`: what a kernel on trial must show, and by when.

use camino::Utf8PathBuf;
use serde::Deserialize;

use super::error::SpecErrors;
use super::kinds;
use super::shape::{Field, Kind, Shape, check, optional, required};
use super::yaml;

/// The gate's settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// The number of the file format.
    pub kiln: u32,
    /// Seconds after the start of the kernel at which the gate decides; 105 where it is not set.
    pub decide: Option<u64>,
    /// Seconds after the start of the kernel at which a node without a verdict is restarted; 120
    /// where it is not set.
    pub deadman: Option<u64>,
    /// Words of the kernel's command line that the kernel does not know, and programs of this node
    /// read: their names, without values.
    pub parameters: Option<Vec<String>>,
    /// The health checks.
    pub checks: Vec<CheckSpec>,
}

/// One health check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSpec {
    /// Its name, for the record.
    pub name: String,
    /// What it looks at.
    pub check: WhatSpec,
    /// The longest that one run may take, in seconds; 10 where it is not set.
    pub timeout: Option<u64>,
    /// How often in a row it must pass; 3 where it is not set.
    pub passes: Option<u64>,
}

/// What a check looks at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WhatSpec {
    /// A program that must end with 0, with its arguments.
    Command(Vec<String>),
    /// A systemd unit that must be active.
    Unit(String),
    /// A file that must exist.
    File(Utf8PathBuf),
    /// A path at which something must be mounted.
    Mounted(Utf8PathBuf),
    /// A port and path of this host that must answer a GET with a status from 200 to 299.
    Http {
        /// The port.
        port: u16,
        /// The path.
        path: String,
    },
    /// What `uname -r` must print.
    Release(String),
}

static TEXT: Kind = Kind {
    expected: "a text of one line",
    pattern: "^[^\\n]+$",
    accepts: |text| !text.is_empty() && !text.chars().any(char::is_control),
};

static URL_PATH: Kind = Kind {
    expected: "the path of an address, such as /health",
    pattern: "^/[!-~]*$",
    accepts: |text| text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic()),
};

static WHAT: [Field; 6] = [
    required(
        "command",
        "a program that must end with 0, with its arguments",
        Shape::List {
            item: &Shape::Text(&TEXT),
            least: 1,
            distinct: false,
        },
    ),
    required(
        "unit",
        "a systemd unit that must be active",
        Shape::Text(&TEXT),
    ),
    required("file", "a file that must exist", Shape::Text(&kinds::PATH)),
    required(
        "mounted",
        "a path at which something must be mounted",
        Shape::Text(&kinds::PATH),
    ),
    required(
        "http",
        "a port of this host that must answer a GET with a status from 200 to 299",
        Shape::Table(&[
            required("port", "the port", Shape::Number(1, 65535)),
            required("path", "the path", Shape::Text(&URL_PATH)),
        ]),
    ),
    required("release", "what uname -r must print", Shape::Text(&TEXT)),
];

static CHECK: [Field; 4] = [
    required("name", "its name, for the record", Shape::Text(&TEXT)),
    required(
        "check",
        "what it looks at",
        Shape::OneOf {
            words: &[],
            forms: &WHAT,
        },
    ),
    optional(
        "timeout",
        "the longest that one run may take, in seconds; 10 where it is not set",
        Shape::Number(1, 600),
    ),
    optional(
        "passes",
        "how often in a row it must pass; 3 where it is not set",
        Shape::Number(1, 100),
    ),
];

/// The keys of `gate.yaml`.
pub static SHAPE: Shape = Shape::Table(&[
    required("kiln", "the number of the file format", Shape::Schema(1)),
    optional(
        "decide",
        "seconds after the start of the kernel at which the gate decides; 105 where it is not set",
        Shape::Number(5, 3600),
    ),
    optional(
        "deadman",
        "seconds after the start of the kernel at which a node without a verdict is restarted; 120 \
         where it is not set",
        Shape::Number(10, 3600),
    ),
    optional(
        "parameters",
        "words of the kernel's command line that are for programs of this node, by name; any other \
         that the kernel does not know fails the trial",
        Shape::List {
            item: &Shape::Text(&TEXT),
            least: 1,
            distinct: true,
        },
    ),
    required(
        "checks",
        "the health checks; all must pass",
        Shape::List {
            item: &Shape::Table(&CHECK),
            least: 1,
            distinct: true,
        },
    ),
]);

impl GateSpec {
    /// Reads `gate.yaml`; `file` is its name for messages.
    ///
    /// # Errors
    /// Every wrong key and value of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecErrors> {
        check(file, &yaml::parse(file, text)?, &SHAPE)?;
        yaml::from_str(file, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "kiln: 1
decide: 90
checks:
  - name: runtime
    check: {unit: docker.service}
  - name: daemon
    check:
      http: {port: 8080, path: /health}
    timeout: 2
    passes: 5
  - name: fence
    check: {command: [/usr/bin/kiln-node, conform]}
";

    #[test]
    fn a_file_is_read() {
        let spec = GateSpec::parse("gate.yaml", GOOD).unwrap();
        assert_eq!((spec.decide, spec.deadman), (Some(90), None));
        assert_eq!(
            spec.checks[1],
            CheckSpec {
                name: "daemon".to_owned(),
                check: WhatSpec::Http {
                    port: 8080,
                    path: "/health".to_owned()
                },
                timeout: Some(2),
                passes: Some(5),
            }
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (from, to, said) in [
            ("unit:", "units:", "units"),
            ("passes: 5", "passes: 0", "passes"),
            ("decide: 90", "decide: -1", "decide"),
            ("/health", "health", "/health"),
            ("port: 8080", "port: 80800", "65535"),
            ("kiln: 1", "kiln: 2", "newer"),
        ] {
            let bad = GOOD.replacen(from, to, 1);
            assert_ne!(bad, GOOD);
            let error = GateSpec::parse("gate.yaml", &bad).unwrap_err().to_string();
            assert!(
                error.contains("gate.yaml:") && error.contains(said),
                "{error}"
            );
        }
    }
}
