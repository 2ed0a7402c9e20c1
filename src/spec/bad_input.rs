//! Every wrong key and value of every file: its place, what was expected, the nearest word.

use proptest::prelude::*;

use super::{Channels, Collateral, Pipeline, Settings, SpecErrors};

const PIPELINE: &str = r#"kiln: 1
name: lts
series: "6.18"
source: {kernel-org: {}}
keys:
  release: [647F28654894E3BD457199BE38DBBDC86092693E]
  checksums: []
config:
  base: {debian: {package: linux-config-6.12, flavour: none_amd64}}
  trim: none
  fragments: [latency, boot-gate]
  assert: {PREEMPT_RT: n}
  collateral: {allow: collateral/lts.yaml}
build: {arch: x86_64, root: host, launcher: none}
packages: {headers: true, debug: false, compress: xz}
"#;

const CHANNELS: &str = "kiln: 1
channels:
  canary: {lines: [lts, canary], require: {reproduced: 1, boot-tested: true}}
  fleet:
    lines: [lts]
    from: canary
    require: {nodes: {committed: 1, soak: 24h}, latency: {against: stock}, approvals: 1}
    waves: [{nodes: 5%, for: 24h}, {nodes: 100%}]
";

const SETTINGS: &str = "kiln: 1
mirrors:
  kernel: [https://mirror.example/pub]
  releases: file:///srv/releases.json
store: /srv/store
jobs: 8
signers:
  - file: ~/.config/kiln/keys/ci.pem
  - command: {run: [/usr/bin/sign, --slot, 9c], key: PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=}
  - gpg-agent: 647F28654894E3BD457199BE38DBBDC86092693E
";

const COLLATERAL: &str = "kiln: 1
allow:
  - symbols: [DRM_I915, DRM_I915_*]
    cause: PREEMPT_RT
    why: the fleet has no screens
";

/// What is replaced, by what, and the errors that must come out, one a line.
type Case = (&'static str, &'static str, &'static str);

fn holds<T: std::fmt::Debug>(
    good: &str,
    parse: fn(&str, &str) -> Result<T, SpecErrors>,
    cases: &[Case],
) {
    parse("f.yaml", good).unwrap();
    for (from, to, expected) in cases {
        assert_eq!(good.matches(from).count(), 1, "{from:?} is not there once");
        let text = good.replace(from, to);
        match parse("f.yaml", &text) {
            Ok(value) => panic!("{to:?} was read as {value:?}"),
            Err(errors) => assert_eq!(&errors.to_string(), expected, "for {to:?}"),
        }
    }
}

#[test]
fn pipeline_keys() {
    holds(
        PIPELINE,
        Pipeline::parse,
        &[
            (
                "name: lts",
                "nmae: lts",
                "f.yaml:1:1: missing key `name` (the pipeline's name, which is the line of its builds)\n\
                 f.yaml:2:1: unknown key `nmae`; did you mean `name`?",
            ),
            (
                "  fragments:",
                "  fragmnts:",
                "f.yaml:11:3: config: unknown key `fragmnts`; did you mean `fragments`?",
            ),
            (
                "  trim: none",
                "  colour: none",
                "f.yaml:10:3: config: unknown key `colour`; known here: base, trim, fragments, assert, collateral",
            ),
            (
                "{kernel-org: {}}",
                "{kernel.org: {}}",
                "f.yaml:4:10: source: unknown key `kernel.org`; did you mean `kernel-org`?",
            ),
            (
                "{kernel-org: {}}",
                "{kernel-org: {}, dir: /srv}",
                "f.yaml:4:26: source: exactly one key may stand here: one of `kernel-org: ...`, `debian: ...`, `dir: ...`",
            ),
            (
                "{kernel-org: {}}",
                "{kernel-org: {mirror: x}}",
                "f.yaml:4:23: source.kernel-org: unknown key `mirror`; no key is known here",
            ),
            (
                ", flavour: none_amd64}",
                "}",
                "f.yaml:9:18: config.base.debian: missing key `flavour` (which of its configs, such as none_amd64)",
            ),
            (
                "trim: none",
                "base: {target: tinyconfig}",
                "f.yaml:10:3: key `base` stands twice, first on line 9",
            ),
            (
                "compress: xz}",
                "compress: xz, signed: true}",
                "f.yaml:15:55: packages: unknown key `signed`; known here: headers, debug, compress",
            ),
        ],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn pipeline_values() {
    holds(
        PIPELINE,
        Pipeline::parse,
        &[
            (
                "kiln: 1",
                "kiln: 2",
                "f.yaml:1:7: kiln: expected 1, the newest format that this kiln reads; a newer kiln is needed, found the number `2`",
            ),
            (
                "kiln: 1",
                "kiln: one",
                "f.yaml:1:7: kiln: expected 1, the number of the format, found `one`",
            ),
            (
                "name: lts",
                "name: LTS",
                "f.yaml:2:7: name: expected a name: a lower-case letter, then up to 11 lower-case letters or digits, found `LTS`",
            ),
            (
                "name: lts",
                "name: true",
                "f.yaml:2:7: name: expected a name: a lower-case letter, then up to 11 lower-case letters or digits, found the boolean `true`",
            ),
            (
                "series: \"6.18\"",
                "series: 6.18.40",
                "f.yaml:3:9: series: expected a kernel series such as \"6.18\", found `6.18.40`",
            ),
            (
                "series: \"6.18\"",
                "series:",
                "f.yaml:3:7: series: expected a kernel series such as \"6.18\", found nothing",
            ),
            (
                "series: \"6.18\"",
                "series: [6.18]",
                "f.yaml:3:9: series: expected a kernel series such as \"6.18\", found a list",
            ),
            (
                "source: {kernel-org: {}}",
                "source: kernel-org",
                "f.yaml:4:9: source: expected one of `kernel-org: ...`, `debian: ...`, `dir: ...`, found `kernel-org`; did you mean `{kernel-org: ...}`?",
            ),
            (
                "{kernel-org: {}}",
                "{dir: ../elsewhere}",
                "f.yaml:4:15: source.dir: expected a path, from the workspace's directory, without `..`, found `../elsewhere`",
            ),
            (
                "647F28654894E3BD457199BE38DBBDC86092693E",
                "38DBBDC86092693E",
                "f.yaml:6:13: keys.release.0: expected a full fingerprint of 40 or 64 hexadecimal digits without blanks (a key id can be forged), found `38DBBDC86092693E`",
            ),
            (
                "[647F28654894E3BD457199BE38DBBDC86092693E]",
                "647F28654894E3BD457199BE38DBBDC86092693E",
                "f.yaml:6:12: keys.release: expected a list, such as [a, b], found `647F28654894E3BD457199BE38DBBDC86092693E`",
            ),
            (
                "[647F28654894E3BD457199BE38DBBDC86092693E]",
                "[647F28654894E3BD457199BE38DBBDC86092693E, 647F28654894E3BD457199BE38DBBDC86092693E]",
                "f.yaml:6:55: keys.release: `647F28654894E3BD457199BE38DBBDC86092693E` stands twice in this list, first on line 6",
            ),
            (
                "{debian: {package: linux-config-6.12, flavour: none_amd64}}",
                "{target: tinyconfg}",
                "f.yaml:9:18: config.base.target: expected one of `tinyconfig`, `allnoconfig`, `defconfig`, found `tinyconfg`; did you mean `tinyconfig`?",
            ),
            (
                "{debian: {package: linux-config-6.12, flavour: none_amd64}}",
                "{file: {path: base.config, series: \"6.12\", sha256: abc}}",
                "f.yaml:9:60: config.base.file.sha256: expected a sha256 of 64 lower-case hexadecimal digits, found `abc`",
            ),
            (
                "flavour: none_amd64",
                "flavour: amd64",
                "f.yaml:9:56: config.base.debian.flavour: expected a flavour of Debian's configs such as none_amd64, none_cloud-amd64 or rt_amd64, found `amd64`",
            ),
            (
                "trim: none",
                "trim: module-off",
                "f.yaml:10:9: config.trim: expected one of `none`, `modules-off`, `lsmod: ...`, found `module-off`; did you mean `modules-off`?",
            ),
            (
                "[latency, boot-gate]",
                "[latency.config, boot-gate]",
                "f.yaml:11:15: config.fragments.0: expected a fragment's name in config-fragments/ (without .config), or a path with a `/`, found `latency.config`",
            ),
            (
                "{PREEMPT_RT: n}",
                "{CONFIG_PREEMPT_RT: n}",
                "f.yaml:12:12: config.assert: expected a configuration symbol without CONFIG_, such as PREEMPT_RT as key, found `CONFIG_PREEMPT_RT`",
            ),
            (
                "{PREEMPT_RT: n}",
                "{PREEMPT_RT: false}",
                "f.yaml:12:24: config.assert.PREEMPT_RT: expected y, m, n, a number, or a text in quotes, found the boolean `false`",
            ),
            (
                "root: host",
                "root: debian-13",
                "f.yaml:14:29: build.root: expected one of `debian-12`, `host`, found `debian-13`; did you mean `debian-12`?",
            ),
            (
                "arch: x86_64",
                "arch: amd64",
                "f.yaml:14:15: build.arch: expected `x86_64` (the kernel's own name for it is used), found `amd64`",
            ),
            (
                "headers: true",
                "headers: yes",
                "f.yaml:15:21: packages.headers: expected true or false, found `yes`; did you mean `true`?",
            ),
            (
                "debug: false",
                "debug: \"false\"",
                "f.yaml:15:34: packages.debug: expected true or false, found the text \"false\"; did you mean `false`?",
            ),
            (
                "compress: xz",
                "compress: zstd",
                "f.yaml:15:51: packages.compress: expected one of `xz`, `gzip`, `none` (its bytes depend on the number of threads), found `zstd`",
            ),
        ],
    );
}

#[test]
fn pipeline_contradictions() {
    holds(
        PIPELINE,
        Pipeline::parse,
        &[
            (
                "[647F28654894E3BD457199BE38DBBDC86092693E]",
                "[]",
                "f.yaml:4:9: source: a release from here is verified, so `keys: {release: [...]}` must name at least one fingerprint",
            ),
            (
                "{kernel-org: {}}",
                "{debian: {package: linux-source-6.12}}",
                "f.yaml:6:13: keys: the debian source is verified by apt, so a key named here would never be used",
            ),
            (
                "checksums: []",
                "checksums: [647f28654894e3bd457199be38dbbdc86092693e]",
                "f.yaml:7:15: keys.checksums: this key is also a release key; the checksum role must never be able to bless a release",
            ),
        ],
    );
}

#[test]
fn all_errors_come_at_once() {
    let text = PIPELINE
        .replace("name: lts", "name: L")
        .replace("trim: none", "trm: none")
        .replace("xz}", "bzip2}");
    let errors = Pipeline::parse("f.yaml", &text).unwrap_err().errors;
    let lines: Vec<u64> = errors.iter().map(|error| error.at.line).collect();
    assert_eq!(lines, [2, 10, 15]);
}

#[test]
fn channels() {
    holds(
        CHANNELS,
        Channels::parse,
        &[
            (
                "lines: [lts, canary]",
                "line: [lts, canary]",
                "f.yaml:3:11: channels.canary: missing key `lines` (the lines that it accepts)\n\
                 f.yaml:3:12: channels.canary: unknown key `line`; did you mean `lines`?",
            ),
            (
                "    lines: [lts]\n",
                "    lines: []\n",
                "f.yaml:5:12: channels.fleet.lines: expected a list of at least 1, found a list",
            ),
            (
                "from: canary",
                "from: cannary",
                "f.yaml:6:11: channels.fleet.from: expected one of the channels canary, fleet, found `cannary`; did you mean `canary`?",
            ),
            (
                "from: canary",
                "from: fleet",
                "f.yaml:6:11: channels.fleet.from: builds of `fleet` would have to come through `fleet` itself",
            ),
            (
                "{lines: [lts, canary],",
                "{lines: [lts, canary], from: fleet,",
                "f.yaml:3:40: channels.canary.from: builds of `canary` would have to come through `canary` itself\n\
                 f.yaml:6:11: channels.fleet.from: builds of `fleet` would have to come through `fleet` itself",
            ),
            (
                "boot-tested: true",
                "boot-tested: on",
                "f.yaml:3:72: channels.canary.require.boot-tested: expected true or false, found `on`; did you mean `true`?",
            ),
            (
                "reproduced: 1",
                "reproduced: -1",
                "f.yaml:3:56: channels.canary.require.reproduced: expected a whole number from 0 to 100, found the number `-1`",
            ),
            (
                "soak: 24h",
                "soak: 24",
                "f.yaml:7:43: channels.fleet.require.nodes.soak: expected a length of time such as 90m, 24h or 7d, found the number `24`",
            ),
            (
                "against: stock",
                "against: stok",
                "f.yaml:7:68: channels.fleet.require.latency.against: expected `stock`, found `stok`; did you mean `stock`?",
            ),
            (
                "{nodes: 100%}",
                "{nodes: 50%}",
                "f.yaml:8:44: channels.fleet.waves.1: the last wave must reach 100% of the nodes",
            ),
            (
                "{nodes: 5%, for: 24h}",
                "{nodes: 100%, for: 24h}",
                "f.yaml:8:46: channels.fleet.waves.1: each wave must reach more nodes than the one before",
            ),
            (
                "{nodes: 5%, for: 24h}",
                "{nodes: 5%}",
                "f.yaml:8:21: channels.fleet.waves.0: a wave before the last needs `for`, or the next one never begins",
            ),
            (
                "nodes: 5%",
                "nodes: 5",
                "f.yaml:8:21: channels.fleet.waves.0.nodes: expected a share from 1% to 100%, found the number `5`",
            ),
        ],
    );
}

#[test]
fn settings() {
    holds(
        SETTINGS,
        Settings::parse,
        &[
            (
                "mirrors:",
                "mirror:",
                "f.yaml:2:1: unknown key `mirror`; did you mean `mirrors`?",
            ),
            (
                "[https://mirror.example/pub]",
                "[mirror.example/pub]",
                "f.yaml:3:12: mirrors.kernel.0: expected an address that begins with https://, http:// or file:///, without a user or password before an `@`, found `mirror.example/pub`",
            ),
            (
                "[https://mirror.example/pub]",
                "[]",
                "f.yaml:3:11: mirrors.kernel: expected a list of at least 1, found a list",
            ),
            (
                "jobs: 8",
                "jobs: 0",
                "f.yaml:6:7: jobs: expected a whole number from 1 to 4096, found the number `0`",
            ),
            (
                "jobs: 8",
                "jobs: \"8\"",
                "f.yaml:6:7: jobs: expected a whole number from 1 to 4096, found the text \"8\"",
            ),
            (
                "jobs: 8",
                "hooks: {}",
                "f.yaml:6:1: unknown key `hooks`; known here: kiln, mirrors, store, jobs, signers",
            ),
            (
                "- file:",
                "- files:",
                "f.yaml:8:5: signers.0: unknown key `files`; did you mean `file`?",
            ),
            (
                "run: [/usr/bin/sign, --slot, 9c]",
                "run: /usr/bin/sign",
                "f.yaml:9:20: signers.1.command.run: expected a list, such as [a, b], found `/usr/bin/sign`",
            ),
            (
                ", key: PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=",
                "",
                "f.yaml:9:14: signers.1.command: missing key `key` (the public key of what it signs with)",
            ),
            (
                "gpg-agent: 647F28654894E3BD457199BE38DBBDC86092693E",
                "gpg-agent: 6092693E",
                "f.yaml:10:16: signers.2.gpg-agent: expected a full fingerprint of 40 or 64 hexadecimal digits without blanks (a key id can be forged), found `6092693E`",
            ),
            (
                "kiln: 1\n",
                "- 1\n",
                "f.yaml:2:1: not YAML: while parsing a block collection, did not find expected '-' indicator",
            ),
        ],
    );
}

#[test]
fn collateral() {
    holds(
        COLLATERAL,
        Collateral::parse,
        &[
            (
                "DRM_I915_*",
                "'*'",
                "f.yaml:3:25: allow.0.symbols.1: expected a configuration symbol without CONFIG_, in which `*` stands for any letters, such as DRM_I915_*, found the text \"*\"",
            ),
            (
                "cause: PREEMPT_RT",
                "cause: CONFIG_PREEMPT_RT",
                "f.yaml:4:12: allow.0.cause: expected a configuration symbol without CONFIG_, such as PREEMPT_RT, found `CONFIG_PREEMPT_RT`",
            ),
            (
                "why: the fleet has no screens",
                "why: because",
                "f.yaml:5:10: allow.0.why: expected a sentence of at least three words, found `because`",
            ),
        ],
    );
}

#[test]
fn unquoted_series_keep_their_text() {
    for series in ["6.10", "\"6.10\"", "'6.10'"] {
        let text = PIPELINE.replace("\"6.18\"", series);
        let pipeline = Pipeline::parse("f.yaml", &text).unwrap();
        assert_eq!(pipeline.series.value.to_string(), "6.10");
    }
}

proptest! {
    /// Whatever is done to a good file, there is an answer and no panic, and every error has a
    /// place in the file.
    #[test]
    fn no_edit_panics(
        which in 0usize..4,
        at in 0usize..700,
        cut in 0usize..40,
        put in "[a-z0-9:{}\\[\\],\"'#&*! \\n\\t-]{0,12}",
    ) {
        let good = [PIPELINE, CHANNELS, SETTINGS, COLLATERAL][which];
        let start = at.min(good.len());
        let end = (start + cut).min(good.len());
        let text = format!("{}{put}{}", &good[..start], &good[end..]);
        let lines = text.split('\n').count() as u64 + 1;
        let errors = [
            Pipeline::parse("f", &text).err(),
            Channels::parse("f", &text).err(),
            Settings::parse("f", &text).err(),
            Collateral::parse("f", &text).err(),
        ];
        for error in errors.into_iter().flatten().flat_map(|errors| errors.errors) {
            prop_assert!((1..=lines).contains(&error.at.line), "{error}");
        }
    }
}
