//! A workspace with a made-up kernel: its release is on a loopback mirror, signed by a key of the
//! test, and it is configured, compiled and packaged in a second. What a user meets is met whole.

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::sandbox::Isolation;
use serde_json::Value;

use super::env::{Run, Running};
use super::keys::TestKey;
use super::mirror::{Content, Mirror};
use super::release::{Release, releases_json};
use super::tar::Tar;
use super::{Env, Stop, fail, linux, skip};

/// The pipeline's name.
pub const LINE: &str = "made";

/// The fragment's file in the workspace.
pub const FRAGMENT: &str = "config-fragments/made.config";

/// What the fragment asks for at first.
const ASKED: &str = "# kiln: why \"the test asks for it\"\nCONFIG_MODULES=y\n";

/// The workspace, the mirror and the key.
pub struct MadeUp {
    /// Where `kiln` runs.
    pub env: Env,
    /// What is served.
    pub mirror: Mirror,
    /// Who signs.
    pub key: TestKey,
}

impl MadeUp {
    /// A workspace of `kiln init` with one more pipeline, and 6.18.40 on the mirror.
    pub fn new() -> Result<Self, Stop> {
        let made = Self {
            env: Env::with_workspace()?,
            mirror: Mirror::start()?,
            key: TestKey::new(),
        };
        let (env, url) = (&made.env, made.mirror.url());
        let pin = made.key.fingerprint();
        env.write(&format!("keys/{pin}.asc"), made.key.armored_cert())?;
        env.write(
            "kiln.yaml",
            format!(
                "kiln: 1\nmirrors:\n  kernel: [\"{url}\"]\n  releases: \"{url}releases.json\"\n"
            ),
        )?;
        env.write(
            &format!("pipelines/{LINE}.yaml"),
            format!(
                "kiln: 1\nname: {LINE}\nseries: \"6.18\"\nsource: {{kernel-org: {{}}}}\n\
                 keys: {{release: [{pin}], checksums: []}}\n\
                 config:\n  base: {{target: tinyconfig}}\n  trim: none\n  fragments: [made]\n\
                 build: {{arch: x86_64, root: host, launcher: none}}\n\
                 packages: {{headers: true, debug: false, compress: xz}}\n"
            ),
        )?;
        env.write(FRAGMENT, ASKED)?;
        made.publish("6.18.40");
        made.offer(&["6.18.40"]);
        Ok(made)
    }

    /// The same where kernels are compiled in a sandbox.
    pub fn sandboxed() -> Result<Self, Stop> {
        match Isolation::probe()?.missing_reason() {
            None => Self::new(),
            Some(reason) => Err(skip(format!("no sandbox can be had here: {reason}"))),
        }
    }

    /// Signs a release and puts it on the mirror.
    pub fn publish(&self, version: &str) -> Release {
        let release = Release::of(version, tar(version, &source(version)), &self.key);
        release.publish(&self.mirror);
        release
    }

    /// Puts a release of a megabyte that does not compress in the place of one.
    pub fn enlarge(&self, version: &str) -> Result<(), Stop> {
        let mut noise = Vec::new();
        let random = std::fs::File::open("/dev/urandom")?;
        std::io::Read::read_to_end(&mut std::io::Read::take(random, 1 << 20), &mut noise)?;
        let mut files = source(version);
        files.push(("noise".to_owned(), noise));
        Release::of(version, tar(version, &files), &self.key).publish(&self.mirror);
        Ok(())
    }

    /// Puts a release in its place that can be configured and not compiled: what the real tree has
    /// for that. Returns its version.
    pub fn with_the_real_configuration(&self) -> Result<String, Stop> {
        let tree = linux::real_source()?;
        let makefile = std::fs::read_to_string(tree.join("Makefile"))?;
        let number = |name: &str| {
            let start = format!("{name} = ");
            let line = makefile.lines().find_map(|line| line.strip_prefix(&start));
            line.ok_or_else(|| fail(format!("the makefile has no {name}")))
        };
        let (version, patchlevel) = (number("VERSION")?, number("PATCHLEVEL")?);
        let series = format!("{version}.{patchlevel}");
        let version = format!("{series}.{}", number("SUBLEVEL")?);
        let tar = configuration_of(tree, &version)?;
        Release::of(&version, tar, &self.key).publish(&self.mirror);
        self.offer(&[&version]);
        let pipeline = format!("pipelines/{LINE}.yaml");
        self.env.edit(
            &pipeline,
            "series: \"6.18\"",
            &format!("series: \"{series}\""),
        )?;
        Ok(version)
    }

    /// Lists these releases as kernel.org would.
    pub fn offer(&self, versions: &[&str]) {
        self.mirror
            .put("releases.json", Content::bytes(releases_json(versions)));
    }

    /// Asks for one more line.
    pub fn ask(&self, line: &str) -> Result<(), Stop> {
        let text = self.env.read(FRAGMENT)?;
        self.env
            .write(FRAGMENT, format!("{text}{line}\n"))
            .map(drop)
    }

    /// `kiln VERB made WORDS...`, not started yet.
    pub fn kiln(&self, line: &str) -> Run {
        self.env.kiln(line.split_whitespace())
    }

    /// Resolves and builds, and returns the answer of the build.
    pub fn built(&self) -> Result<Value, Stop> {
        self.kiln("resolve made").run()?.exits(0)?;
        let ran = self.kiln("build made --format json").run()?.exits(0)?;
        ran.json()
    }

    /// Starts a build and waits until it compiles.
    pub fn compiling(&self) -> Result<Running, Stop> {
        let mut running = self.kiln("build made").start()?;
        let object = self.tree().join("main.o");
        running.until("it compiles", |_| Ok(object.exists()))?;
        Ok(running)
    }

    /// Where the objects are while a kernel is compiled.
    pub fn tree(&self) -> Utf8PathBuf {
        self.env.path(".kiln/work/made/build/out/tree")
    }

    /// What of the workspace looks as if a kernel had been built: packages and manifests. What is
    /// on its way out, and taken up by the next command, is left out.
    pub fn products(&self) -> Result<Vec<String>, Stop> {
        let product = |path: &String| {
            let path = Utf8Path::new(path);
            path.extension() == Some("deb") || path.file_name() == Some("manifest.json")
        };
        let mut listing = self.env.listing()?;
        listing.retain(|path| product(path) && !path.starts_with(".kiln/trash/"));
        Ok(listing)
    }

    /// What `kiln runs list` knows.
    pub fn runs(&self) -> Result<Vec<Value>, Stop> {
        let document = self
            .kiln("runs list --format json")
            .run()?
            .exits(0)?
            .json()?;
        let runs = document["runs"].as_array().cloned();
        runs.ok_or_else(|| fail(format!("no list of runs in {document}")))
    }
}

/// Kconfig files, scripts and makefiles of a tree, as a release.
fn configuration_of(tree: &Utf8Path, version: &str) -> Result<Vec<u8>, Stop> {
    let names = "-name 'Kconfig*' -o -name Makefile -o -name Kbuild -o -path './scripts/*' \
                 -o -path './kernel/configs/*' -o -path './arch/x86/*.sh' -o -path './arch/x86/Makefile*' \
                 -o -path './include/linux/compiler*.h'";
    let script = format!(
        "find . -type f \\( {names} \\) | LC_ALL=C sort | \
         tar --create --format=ustar --owner=root --group=root --mode=u+w,go-w \
         --transform 's,^\\./,linux-{version}/,' --no-recursion --files-from=-"
    );
    let shell = Tool::find("sh")?;
    Ok(Cmd::new(&shell).args(["-c", &script]).cwd(tree).capture()?)
}

/// The files of a release.
fn source(version: &str) -> Vec<(String, Vec<u8>)> {
    let sublevel = version.rsplit('.').next().unwrap_or_default();
    let makefile = include_str!("fake-kernel/Makefile")
        .replace("SUBLEVEL = 40", &format!("SUBLEVEL = {sublevel}"))
        .replace("6.18.40", version);
    let files = [
        ("COPYING", "GPL-2.0\n"),
        ("Kconfig", include_str!("fake-kernel/Kconfig")),
        ("Makefile", makefile.as_str()),
        ("package.sh", include_str!("fake-kernel/package.sh")),
    ];
    let owned = |(name, text): (&str, &str)| (name.to_owned(), text.as_bytes().to_vec());
    files.into_iter().map(owned).collect()
}

/// They as kernel.org packs them.
fn tar(version: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let prefix = format!("linux-{version}");
    let tar = Tar::new()
        .global_header("comment=0123456789012345678901234567890123456789")
        .directory(&format!("{prefix}/"));
    let tar = files.iter().fold(tar, |tar, (name, content)| {
        tar.file_at(&format!("{prefix}/{name}"), content)
    });
    tar.bytes()
}
