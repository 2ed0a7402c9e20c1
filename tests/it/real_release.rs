//! The main job's first half on the real thing: the distribution's real source, repacked as a
//! release of kernel.org, signed with a test key and served by a loopback mirror, taken by the
//! shipped `lts` pipeline with only series, mirror, keys and root changed: a pinned root has tests of
//! its own.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, Write as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};

use crate::support::keys::TestKey;
use crate::support::mirror::{Content, Mirror};
use crate::support::release::releases_json;
use crate::support::{Case, Env, Outcome, Stop, fail, linux};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![Case::new("real_release::lts_from_a_mirror", lts_from_a_mirror).heavy()]
}

const PATIENCE: Duration = Duration::from_mins(20);

fn lts_from_a_mirror() -> Outcome {
    let env = Env::with_workspace()?;
    let version = version(linux::real_source()?)?;
    let key = TestKey::new();
    let mirror = Mirror::start()?;
    publish(&env, &mirror, &version, &key)?;
    use_mirror(&env, &mirror, &key)?;

    // Before anything is resolved there is no lock to obey.
    env.kiln(["fetch", "lts"])
        .run()?
        .exits(2)?
        .warns("kiln resolve lts")?;

    let resolved = env
        .kiln(["resolve", "lts", "--format", "json"])
        .deadline(PATIENCE)
        .run()?
        .exits(0)?;
    let lock = resolved.json()?["lock"].clone();
    assert_eq!(lock["inputs"]["version"], version.as_str());
    assert_eq!(
        lock["inputs"]["source"]["signature"]["signer"],
        key.fingerprint()
    );

    // From now on the store is enough, and what is in it is verified again.
    env.kiln(["fetch", "lts", "--offline"])
        .deadline(PATIENCE)
        .run()?
        .exits(0)?
        .says(&version)?;
    let checked = env
        .kiln(["config", "check", "lts", "--offline"])
        .deadline(PATIENCE)
        .run()?
        .exits(0)?;
    drop(checked);

    // NR_CPUS has no prompt while MAXSMP is on, so the tree drops the line with exit code 0.
    let fragment = env.read("config-fragments/latency.config")?;
    env.write(
        "config-fragments/latency.config",
        format!("{fragment}CONFIG_NR_CPUS=256\n"),
    )?;
    env.kiln(["build", "lts", "--offline"])
        .deadline(PATIENCE)
        .run()?
        .exits(11)?
        .warns("NR_CPUS")?
        .warns("config-fragments/latency.config:")?;
    let product = |path: &Utf8Path| {
        matches!(path.extension(), Some("deb" | "o")) || path.file_name() == Some("manifest.json")
    };
    let listing = env.listing()?;
    let left = listing.iter().filter(|path| product(Utf8Path::new(path)));
    // `conf` itself is compiled; nothing of the kernel is.
    let kernel: Vec<&String> = left.filter(|path| !path.contains("/scripts/")).collect();
    assert!(kernel.is_empty(), "a blocked build left {kernel:?}");
    Ok(())
}

/// Points the shipped pipeline at the mirror and the key, and at the series that is served.
fn use_mirror(env: &Env, mirror: &Mirror, key: &TestKey) -> Result<(), Stop> {
    env.write(
        &format!("keys/{}.asc", key.fingerprint()),
        key.armored_cert(),
    )?;
    env.edit("pipelines/lts.yaml", "series: \"6.18\"", "series: \"6.12\"")?;
    env.edit("pipelines/lts.yaml", "root: debian-12", "root: host")?;
    env.edit(
        "pipelines/lts.yaml",
        "647F28654894E3BD457199BE38DBBDC86092693E",
        &key.fingerprint(),
    )?;
    let url = mirror.url();
    let kiln_yaml =
        format!("kiln: 1\nmirrors:\n  kernel: [\"{url}\"]\n  releases: \"{url}/releases.json\"\n");
    env.write("kiln.yaml", kiln_yaml)?;
    Ok(())
}

/// `6.12.117`, out of the tree's own makefile.
fn version(tree: &Utf8Path) -> Result<String, Stop> {
    let makefile = std::fs::read_to_string(tree.join("Makefile"))?;
    let number = |name: &str| {
        let start = format!("{name} = ");
        let line = makefile.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::to_owned)
            .ok_or_else(|| fail(format!("the makefile has no {name}")))
    };
    Ok(format!(
        "{}.{}.{}",
        number("VERSION")?,
        number("PATCHLEVEL")?,
        number("SUBLEVEL")?
    ))
}

/// Puts the real source on the mirror as kernel.org would publish it.
fn publish(env: &Env, mirror: &Mirror, version: &str, key: &TestKey) -> Result<(), Stop> {
    let tar = env.root().join(format!("linux-{version}.tar"));
    repack(linux::real_tarball()?, &tar, &format!("linux-{version}"))?;
    let signature = key.sign_detached(BufReader::new(File::open(&tar)?));
    let xz = Utf8PathBuf::from(format!("{tar}.xz"));
    Cmd::new(&Tool::find("xz")?)
        .args(["-0", "-T2", "--stdout"])
        .stdin_file(File::open(&tar)?)
        .stdout_file(File::create(&xz)?)
        .run()?;
    mirror.put(&format!("v6.x/linux-{version}.tar.xz"), Content::file(&xz)?);
    mirror.put(
        &format!("v6.x/linux-{version}.tar.sign"),
        Content::bytes(signature),
    );
    mirror.put("releases.json", Content::bytes(releases_json(&[version])));
    Ok(())
}

/// Copies a tar under another top directory.
fn repack(xz: &Utf8Path, to: &Utf8Path, prefix: &str) -> Result<(), Stop> {
    let mut plain = tempfile::tempfile()?;
    Cmd::new(&Tool::find("xz")?)
        .args(["--decompress", "--stdout", "-T2"])
        .stdin_file(File::open(xz)?)
        .stdout_file(plain.try_clone()?)
        .run()?;
    plain.rewind()?;
    let mut archive = tar::Archive::new(BufReader::new(plain));
    let mut builder = tar::Builder::new(BufWriter::new(File::create(to)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let below: std::path::PathBuf = path.components().skip(1).collect();
        let renamed = std::path::Path::new(prefix).join(below);
        let mut header = entry.header().clone();
        match entry.link_name()?.map(std::borrow::Cow::into_owned) {
            Some(target) => builder.append_link(&mut header, &renamed, &target)?,
            None => builder.append_data(&mut header, &renamed, &mut entry)?,
        }
    }
    builder.into_inner()?.flush()?;
    Ok(())
}
