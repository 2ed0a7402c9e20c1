//! Workspaces: making one, checking one, and everything that can be wrong in one.

use kiln::digest::Sha256;
use kiln::proof::build_root::{BuildRoot, PackageLock, RootPackage};
use kiln::proof::lock::{self, Blob, Inputs, Lock, Signature};
use kiln::proof::manifest::{Manifest, Package};

use crate::support::case::{Case, Outcome, Stop, skip};
use crate::support::env::Env;

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("workspace::a_new_one_is_whole_and_checks_clean", fresh),
        Case::new("workspace::init_never_touches_what_is_there", twice),
        Case::new("workspace::init_fills_an_empty_current_directory", here),
        Case::new("workspace::check_finds_everything_at_once", broken),
        Case::new("workspace::check_of_one_file", one_file),
        Case::new("workspace::check_of_hostile_files", hostile),
        Case::new("workspace::check_writes_nothing", writes_nothing),
        Case::new("workspace::schemas_accept_what_is_shipped", schemas),
        Case::new("workspace::schemas_refuse_what_check_refuses", schema_twins),
        Case::new(
            "workspace::schemas_of_lock_and_manifest_fit_the_types",
            machine_schemas,
        ),
    ]
}

fn fresh() -> Outcome {
    let env = Env::with_workspace()?;
    let listing = env.listing()?;
    for path in [
        "kiln.yaml",
        ".gitignore",
        "pipelines/lts.yaml",
        "pipelines/channels.yaml",
    ] {
        assert!(listing.iter().any(|file| file == path), "{path} is missing");
    }
    assert!(
        !listing.iter().any(|path| path.contains("kiln-init")),
        "what was staged is still there"
    );
    env.kiln(["check"]).run()?.exits(0)?.says("ok: ")?;
    // From below, and from elsewhere.
    env.kiln(["check"])
        .in_dir(env.path("pipelines"))
        .run()?
        .exits(0)?;
    env.kiln(["-C", env.workspace().as_str(), "check"])
        .in_dir("/")
        .run()?
        .exits(0)?;
    Ok(())
}

fn twice() -> Outcome {
    let env = Env::with_workspace()?;
    env.write("pipelines/lts.yaml", "mine\n")?;
    let before = env.listing()?;
    env.kiln(["init", "."])
        .run()?
        .exits(2)?
        .warns("is not empty")?
        .warns("hint: name a directory")?;
    assert_eq!(env.listing()?, before);
    assert_eq!(env.read("pipelines/lts.yaml")?, "mine\n");
    env.write("file", "mine\n")?;
    env.kiln(["init", "file"])
        .run()?
        .exits(2)?
        .warns("is a file")?;
    assert_eq!(env.read("file")?, "mine\n");
    // Below a file nothing can be made, and nothing is left.
    env.kiln(["init", "file/below"]).run()?.exits(2)?;
    assert_eq!(env.read("file")?, "mine\n");
    Ok(())
}

fn here() -> Outcome {
    let env = Env::new()?;
    env.kiln(["init", "."]).run()?.exits(0)?;
    env.kiln(["init", "deep/er/still"]).run()?.exits(0)?;
    env.kiln(["-C", "deep/er/still", "check"]).run()?.exits(0)?;
    Ok(())
}

/// A file, what is replaced in it, by what, and what `kiln check` must say.
const BREAKAGES: &[(&str, &str, &str, &str)] = &[
    (
        "pipelines/lts.yaml",
        "series: \"6.18\"",
        "series: newest",
        "pipelines/lts.yaml:5:9: series: expected a kernel series such as \"6.18\", found `newest`",
    ),
    (
        "pipelines/canary.yaml",
        "name: canary",
        "name: canry",
        "pipelines/canary.yaml:4: the pipeline is named `canry`, its file `canary`",
    ),
    (
        "pipelines/channels.yaml",
        "lines: [lts, canary]",
        "lines: [lst, canary]",
        "pipelines/channels.yaml:4: no pipeline makes the line `lst`; did you mean `lts`?",
    ),
    (
        "kiln.yaml",
        "kiln: 1",
        "kiln: 1\nmirors: {}",
        "kiln.yaml:3:1: unknown key `mirors`; did you mean `mirrors`?",
    ),
    (
        "collateral/lts.yaml",
        "cause: HARDLOCKUP_DETECTOR_PREFER_BUDDY",
        "caus: HARDLOCKUP_DETECTOR_PREFER_BUDDY",
        "collateral/lts.yaml:6:5: allow.0: unknown key `caus`; did you mean `cause`?",
    ),
    (
        "config-fragments/boot-gate.config",
        "CONFIG_PANIC_TIMEOUT",
        " CONFIG_PANIC_TIMEOUT",
        "config-fragments/boot-gate.config:",
    ),
    (
        "keys/ABAF11C65A2970B130ABE3C479BE3E4300411886.asc",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "<html>",
        "keys/ABAF11C65A2970B130ABE3C479BE3E4300411886.asc: ",
    ),
];

fn broken() -> Outcome {
    let env = Env::with_workspace()?;
    for (file, from, to, _) in BREAKAGES {
        let text = env.read(file)?;
        env.write(file, text.replacen(from, to, 1))?;
    }
    env.write("pipelines/lts.lock.json", "{\"schema\": \"kiln.lock/1\"}")?;
    env.write("keys/greg.asc", "x")?;
    let text = env
        .kiln(["check"])
        .run()?
        .exits(2)?
        .warns("error: found ")?;
    let json = env
        .kiln(["check", "--format", "json"])
        .run()?
        .exits(2)?
        .json()?;
    for (file, _, _, said) in BREAKAGES {
        if !text.stdout.contains(said) {
            return Err(text.complaint(&format!("{said:?} was not said")));
        }
        let found = json["findings"]
            .as_array()
            .is_some_and(|findings| findings.iter().any(|finding| finding["file"] == *file));
        assert!(found, "JSON lacks a finding for {file}");
    }
    text.says("pipelines/lts.lock.json:1:25: missing field `build`")?
        .says("keys/greg.asc: a certificate's file is named by its full fingerprint")?;
    Ok(())
}

fn one_file() -> Outcome {
    let env = Env::with_workspace()?;
    env.edit("pipelines/canary.yaml", "series: \"7.2\"", "series: x")?;
    env.kiln(["check", "pipelines/lts.yaml"]).run()?.exits(0)?;
    env.kiln(["check", "pipelines/canary.yaml"])
        .run()?
        .exits(2)?;
    env.kiln(["check", "pipelines/lts.yaml", "pipelines/canary.yaml"])
        .run()?
        .exits(2)?
        .says("pipelines/canary.yaml:5:9: series: ")?;
    env.kiln(["check", "canary.yaml"])
        .in_dir(env.path("pipelines"))
        .run()?
        .exits(2)?;
    // What a file names is looked at too.
    env.edit("pipelines/lts.yaml", "boot-gate]", "boot-gat]")?;
    env.kiln(["check", "pipelines/lts.yaml"])
        .run()?
        .exits(2)?
        .says("there is no fragment `boot-gat`")?
        .says("did you mean `boot-gate`?")?;
    env.kiln(["check", "pipelines/no.yaml"]).run()?.exits(2)?;
    Ok(())
}

/// Files that are not what they seem end in findings, never in a panic or a hang.
fn hostile() -> Outcome {
    let env = Env::with_workspace()?;
    env.write("pipelines/a.yaml", [0xff, 0xfe, 0x00])?;
    env.write("pipelines/b.yaml", "[".repeat(100_000))?;
    env.write("pipelines/c.yaml", "a: &a [*a, *a]\n")?;
    env.write("pipelines/d.yaml", "")?;
    env.write("pipelines/e.yaml", "x".repeat(8 << 20))?;
    env.write("config-fragments/a.config", [0x43, 0xff])?;
    env.write("pipelines/a.lock.json", "{".repeat(50_000))?;
    std::fs::create_dir(env.path("pipelines/f.yaml"))?;
    std::os::unix::fs::symlink("g.yaml", env.path("pipelines/g.yaml"))?;
    let ran = env.kiln(["check"]).run()?.exits(2)?;
    for name in [
        "pipelines/a.yaml",
        "pipelines/b.yaml",
        "pipelines/c.yaml",
        "pipelines/d.yaml",
        "pipelines/e.yaml",
        "config-fragments/a.config",
        "pipelines/a.lock.json",
    ] {
        if !ran.stdout.contains(&format!("{name}:")) {
            return Err(ran.complaint(&format!("nothing was said about {name}")));
        }
    }
    Ok(())
}

fn writes_nothing() -> Outcome {
    let env = Env::with_workspace()?;
    let before = env.listing()?;
    env.kiln(["check"]).run()?.exits(0)?;
    env.kiln(["doctor", "--for", "build"]).run()?;
    assert_eq!(env.listing()?, before);
    Ok(())
}

/// Judges files by their schema, one verdict a line: python3 with the modules yaml and jsonschema.
const JUDGE: &str = "
import json, sys
try:
    import yaml, jsonschema
except ImportError as e:
    print(e.name); sys.exit(77)
for schema, name in zip(sys.argv[1::2], sys.argv[2::2]):
    schema = json.load(open(schema))
    jsonschema.Draft202012Validator.check_schema(schema)
    text = yaml.load(open(name), Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader))
    print('good' if jsonschema.Draft202012Validator(schema).is_valid(text) else 'bad')
";

const SCHEMAS: [(&str, &[&str]); 5] = [
    ("pipeline", &["pipelines/lts.yaml", "pipelines/canary.yaml"]),
    ("channels", &["pipelines/channels.yaml"]),
    ("workspace", &["kiln.yaml"]),
    ("collateral", &["collateral/lts.yaml"]),
    ("roles", &["keys/roles.yaml"]),
];

/// A new workspace with a key that signs.
fn with_roles() -> Result<Env, Stop> {
    let env = Env::with_workspace()?;
    let words = ["keys", "new", "--role", "builder", "--name", "ci"];
    env.kiln(words).run()?.exits(0)?;
    Ok(env)
}

/// Whether each file fits its schema.
fn judged(env: &Env, pairs: &[(&str, &str)]) -> Result<Vec<bool>, Stop> {
    let mut arguments = vec!["-c".to_owned(), JUDGE.to_owned()];
    for (schema, file) in pairs {
        let name = format!("{schema}.schema.json");
        if !env.path(&name).exists() {
            let text = env.kiln(["schema", schema]).run()?.exits(0)?.stdout;
            env.write(&name, text)?;
        }
        arguments.extend([name, (*file).to_owned()]);
    }
    let ran = env
        .program("python3", arguments)
        .run()
        .map_err(|_| skip("python3 is not installed"))?;
    if ran.code() == Some(77) {
        return Err(skip(format!(
            "python3 lacks the module {}, which would judge the schemas",
            ran.stdout.trim()
        )));
    }
    let ran = ran.exits(0)?;
    let verdicts: Vec<bool> = ran.stdout.lines().map(|line| line == "good").collect();
    assert_eq!(verdicts.len(), pairs.len());
    Ok(verdicts)
}

fn schemas() -> Outcome {
    let env = with_roles()?;
    let pairs: Vec<(&str, &str)> = SCHEMAS
        .iter()
        .flat_map(|(schema, files)| files.iter().map(|file| (*schema, *file)))
        .collect();
    for (pair, good) in pairs.iter().zip(judged(&env, &pairs)?) {
        assert!(good, "{pair:?}");
    }
    Ok(())
}

/// A file, what is replaced in it, and by what, so that its schema must refuse it.
const TWINS: &[(&str, &str, &str)] = &[
    ("pipelines/lts.yaml", "series: \"6.18\"", "series: newest"),
    (
        "pipelines/lts.yaml",
        "{kernel-org: {}}",
        "{kernel-org: {}, dir: x}",
    ),
    ("pipelines/lts.yaml", "headers: true", "headers: yess"),
    ("pipelines/lts.yaml", "trim: none", "trimm: none"),
    ("pipelines/lts.yaml", "root: debian-12", "root: debian-11"),
    ("pipelines/lts.yaml", "name: lts\n", ""),
    ("pipelines/channels.yaml", "from: canary", "form: canary"),
    ("pipelines/channels.yaml", "nodes: 5%", "nodes: 500%"),
    ("kiln.yaml", "kiln: 1", "kiln: 2"),
    ("collateral/lts.yaml", "kiln: 1", "kiln: 1\nallowed: []"),
    ("keys/roles.yaml", "role: builder", "role: chief"),
    ("keys/roles.yaml", "name: ci", "name: Ci"),
    ("keys/roles.yaml", "from: \"20", "from: \"x"),
];

fn schema_twins() -> Outcome {
    let env = with_roles()?;
    let mut pairs = Vec::new();
    for (index, (file, from, to)) in TWINS.iter().enumerate() {
        let good = env.read(file)?;
        assert_eq!(good.matches(from).count(), 1, "{from:?} in {file}");
        let bad = good.replace(from, to);
        env.write(file, &bad)?;
        env.kiln(["check", file]).run()?.exits(2)?;
        env.write(file, good)?;
        let (schema, _) = SCHEMAS
            .iter()
            .find(|(_, files)| files.contains(file))
            .unwrap();
        let copy = format!("twin-{index}.yaml");
        env.write(&copy, bad)?;
        pairs.push((*schema, copy));
    }
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(s, f)| (*s, f.as_str())).collect();
    for (twin, good) in TWINS.iter().zip(judged(&env, &pairs)?) {
        assert!(!good, "the schema accepts {twin:?}");
    }
    Ok(())
}

/// Every form of a lock that kiln can write.
fn locks() -> Vec<Lock> {
    let blob = Blob {
        sha256: Sha256::of(b"x"),
        bytes: 1,
    };
    let kernel_org = lock::Source::KernelOrg {
        path: "v6.x/linux-6.18.40.tar.xz".to_owned(),
        xz: blob,
        tar: blob,
        signature: Signature {
            sha256: blob.sha256,
            signer: "647F28654894E3BD457199BE38DBBDC86092693E".parse().unwrap(),
            made: 1_790_347_225,
        },
        checksums: false,
    };
    let (package, version) = ("linux-x".to_owned(), "6.12.117-1".to_owned());
    let debian = lock::Source::Debian {
        package: package.clone(),
        version: version.clone(),
        deb: blob,
        tar: blob,
    };
    let bases = [
        lock::Base::Debian {
            package,
            flavour: "none_amd64".to_owned(),
            version,
            deb: blob,
            config: blob,
        },
        lock::Base::File {
            path: "base.config".to_owned(),
            config: blob,
        },
        lock::Base::Target {
            target: "tinyconfig".to_owned(),
        },
    ];
    let lsmod = lock::Trim::Lsmod {
        sha256: blob.sha256,
    };
    let trims = [None, Some(lock::Trim::ModulesOff), Some(lsmod)];
    let sources = [kernel_org.clone(), debian, kernel_org];
    let pinned = BuildRoot::Pinned(PackageLock {
        name: "debian-12".to_owned(),
        packages: vec![RootPackage {
            name: "make".to_owned(),
            version: "4.3-4.1".to_owned(),
            architecture: "amd64".to_owned(),
            sha256: blob.sha256,
            bytes: 1,
        }],
    });
    let roots = [BuildRoot::HOST, pinned.clone(), pinned];
    let forms = sources.into_iter().zip(bases).zip(trims).zip(roots);
    forms
        .map(|(((source, base), trim), root)| {
            let inputs = Inputs {
                recipe: lock::RECIPE,
                line: "lts".parse().unwrap(),
                version: "6.18.40".parse().unwrap(),
                source,
                source_date_epoch: 1_790_347_225,
                patches: Vec::new(),
                base,
                trim,
                fragments: vec![lock::Fragment {
                    name: "latency".to_owned(),
                    sha256: blob.sha256,
                }],
                assertions: [("PREEMPT_RT".to_owned(), "n".to_owned())].into(),
                arch: "x86_64".to_owned(),
                root,
                packages: lock::Packages {
                    headers: true,
                    debug: false,
                    compress: "xz".to_owned(),
                },
            };
            Lock::new(inputs, None).unwrap()
        })
        .map(|mut lock| {
            // Those without are as locks were before there was such a part.
            lock.configuration = lock.inputs.trim.is_some().then_some(lock::Configuration {
                rule: 1,
                sha256: blob.sha256,
            });
            lock
        })
        .collect()
}

fn machine_schemas() -> Outcome {
    let env = Env::new()?;
    let mut files = Vec::new();
    for (index, lock) in locks().into_iter().enumerate() {
        let text = String::from_utf8(lock.to_text()?).unwrap();
        let manifest = Manifest {
            workspace: std::collections::BTreeMap::new(),
            release: lock.release(),
            config: lock.input_digest,
            guard_report: lock.input_digest,
            sbom: lock.input_digest,
            packages: vec![Package {
                name: "linux-image-x".to_owned(),
                version: "6.18.40-1".to_owned(),
                architecture: "amd64".to_owned(),
                file: "linux-image-x.deb".to_owned(),
                bytes: 1,
                sha256: lock.input_digest,
            }],
            toolchain: [("gcc".to_owned(), "12.2.0".to_owned())].into(),
            unsigned_modules: true,
            unsigned_image: true,
            lock,
        };
        let payload = String::from_utf8(manifest.to_payload()?).unwrap();
        for (schema, text, key) in [
            ("lock", text, "\"recipe\""),
            ("manifest", payload, "\"unsigned_image\""),
        ] {
            let twin = text.replacen(key, "\"other\"", 1);
            assert_ne!(twin, text);
            for (good, text) in [(true, text), (false, twin)] {
                let file = format!("{schema}-{index}-{good}.json");
                env.write(&file, text)?;
                files.push((schema, file, good));
            }
        }
    }
    let pairs: Vec<(&str, &str)> = files.iter().map(|(s, f, _)| (*s, f.as_str())).collect();
    for ((_, file, expected), found) in files.iter().zip(judged(&env, &pairs)?) {
        assert_eq!(found, *expected, "{file}");
    }
    Ok(())
}
