//! The one kernel that the tests compile: `kiln build guest`, once for a run of the tests.
//!
//! Its workspace stays in cargo's directory for test files, so a later run finds the build that is
//! already there: kiln's own "nothing changed", which compares inputs and toolchain. A test run that
//! did not compile says so. Under `KILN_TESTS=full` it is compiled in any case.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::dotconfig::DotConfig;
use kiln::failure::Exit;
use kiln::kernel::Release;
use serde_json::Value;

use super::case::Tier;
use super::{Env, Stop, fail, skip};

/// Longest that the build may take on a busy machine; 7 minutes on two idle cores.
const DEADLINE: Duration = Duration::from_mins(75);

/// A finished build of the guest kernel.
pub struct GuestBuild {
    /// The workspace that it was built in.
    pub workspace: Utf8PathBuf,
    /// The directory of its run.
    pub directory: Utf8PathBuf,
    /// The kernel's name.
    pub release: Release,
    /// Its packages, the image first.
    pub packages: Vec<Utf8PathBuf>,
    /// Its configuration.
    pub config: DotConfig,
    /// Whether an earlier run of the tests compiled it.
    pub reused: bool,
    /// How long the command took.
    pub took: Duration,
}

/// The build; the first caller makes it.
pub fn guest_build() -> Result<&'static GuestBuild, Stop> {
    static BUILT: OnceLock<Result<GuestBuild, Stop>> = OnceLock::new();
    match BUILT.get_or_init(build) {
        Ok(built) => Ok(built),
        Err(Stop::Skip(reason)) => Err(skip(reason.clone())),
        Err(Stop::Fail(text)) => Err(fail(format!("the guest kernel was not built: {text}"))),
    }
}

/// A workspace that stays, with the files of this kiln in it and whatever it built before.
pub fn workspace() -> Result<Utf8PathBuf, Stop> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let workspace = Utf8PathBuf::from_path_buf(kept)
        .map_err(|path| fail(format!("{} is not UTF-8", path.display())))?;
    // Fresh from this kiln: an older fragment must not be what is built. Locks stay, since they name
    // what the store holds; kiln itself carries one over to files that have changed.
    for name in ["config-fragments", "keys", "images", "collateral"] {
        kiln::files::remove_dir_all(&workspace.join(name))?;
    }
    let pipelines = workspace.join("pipelines");
    kiln::files::create_dir_all(&pipelines)?;
    for name in kiln::files::list(&pipelines)? {
        if Utf8Path::new(&name).extension() == Some("yaml") {
            kiln::files::remove_file(&pipelines.join(name))?;
        }
    }
    Ok(workspace)
}

fn build() -> Result<GuestBuild, Stop> {
    let env = Env::new()?;
    let workspace = workspace()?;
    let made = env.path("made");
    env.kiln(["init", made.as_str()]).run()?.exits(0)?;
    copy_tree(&made, &workspace)?;

    let mut words = vec!["build", "guest", "--format", "json"];
    if Tier::from_setting(std::env::var("KILN_TESTS").ok().as_deref()) == Ok(Tier::Full) {
        words.push("--again");
    }
    let started = Instant::now();
    let ran = env
        .kiln(words)
        .in_dir(&workspace)
        .deadline(DEADLINE)
        .run()?;
    if ran.code() == Some(i32::from(Exit::MissingTools.code())) {
        let reason = format!("`kiln doctor --for build` would tell more: {}", ran.stderr);
        return Err(skip(reason));
    }
    let answer = ran.exits(0)?.json()?;
    let built = read(&answer, &workspace, started.elapsed())?;
    let how = if built.reused {
        "compiled by an earlier run"
    } else {
        "compiled"
    };
    println!("guest kernel {}: {how}, {:.0?}", built.release, built.took);
    Ok(built)
}

fn read(answer: &Value, workspace: &Utf8Path, took: Duration) -> Result<GuestBuild, Stop> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| fail(format!("an unexpected answer: {answer}")))
    };
    let directory = workspace.join(text(&answer["directory"])?);
    let mut packages = Vec::new();
    for package in answer["packages"].as_array().into_iter().flatten() {
        packages.push(directory.join("packages").join(text(&package["file"])?));
    }
    let is_image = |path: &Utf8PathBuf| {
        path.file_name()
            .is_some_and(|n| n.starts_with("linux-image-"))
    };
    packages.sort_by_key(|path| !is_image(path));
    let resolved = std::fs::read_to_string(directory.join("resolved.config"))?;
    Ok(GuestBuild {
        workspace: workspace.to_owned(),
        release: text(&answer["release"])?.parse()?,
        config: DotConfig::parse(resolved),
        reused: answer["reused"] == Value::Bool(true),
        directory,
        packages,
        took,
    })
}

/// Copies the files of a directory into another, over what is there.
fn copy_tree(from: &Utf8Path, to: &Utf8Path) -> Result<(), Stop> {
    std::fs::create_dir_all(to)?;
    for entry in from.read_dir_utf8()? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
