//! Packages that only newer suites of the host's archive serve, through an apt root of the tests'
//! own: the machine's own lists, cache and sources stay as they are.

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, CommandError, Tool};
use kiln::files;

/// Suites that may serve what the host's own does not; where several do, the highest version wins.
const SUITES: [&str; 2] = ["testing", "unstable"];

/// An apt with directories of its own.
pub struct Suites {
    root: Utf8PathBuf,
    apt: Tool,
}

impl Suites {
    /// Prepares `root` and reads the package lists. Nothing where the host's apt names no archive
    /// of the suite that the host was installed from.
    pub fn prepare(root: &Utf8Path) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        let apt = Tool::find("apt-get")?;
        let Some(archive) = archive(&apt)? else {
            return Ok(None);
        };
        for directory in ["lists/partial", "cache/archives/partial"] {
            files::create_dir_all(&root.join(directory))?;
        }
        let line = |suite: &&str| format!("deb {archive} {suite} main\n");
        let sources: String = SUITES.iter().map(line).collect();
        files::write(&root.join("sources.list"), sources.as_bytes())?;
        let suites = Self::open(root)?;
        suites.command().arg("update").run()?;
        Ok(Some(suites))
    }

    /// A root that was prepared before.
    pub fn open(root: &Utf8Path) -> Result<Self, CommandError> {
        Ok(Self {
            root: root.to_owned(),
            apt: Tool::find("apt-get")?,
        })
    }

    /// Downloads a package into a directory; whether the suites serve it.
    pub fn download(&self, package: &str, into: &Utf8Path) -> bool {
        let command = self.command().args(["download", package]).cwd(into);
        command.run().is_ok()
    }

    fn command(&self) -> Cmd {
        let root = &self.root;
        let options = [
            format!("Dir::Etc::SourceList={root}/sources.list"),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={root}/lists"),
            format!("Dir::Cache={root}/cache"),
            "Acquire::Languages=none".to_owned(),
        ];
        let options = options.map(|option| format!("--option={option}"));
        Cmd::new(&self.apt).arg("-q").args(options)
    }
}

/// The address of the archive that serves the suite of this host, as its own apt has it.
fn archive(apt: &Tool) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let release = files::read_text(Utf8Path::new("/etc/os-release"), 1 << 16)?;
    let mut names = release
        .lines()
        .filter_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let Some(codename) = names.next().map(|name| name.trim_matches('"')) else {
        return Ok(None);
    };
    let format = "--format=$(RELEASE) $(REPO_URI)";
    let targets = Cmd::new(apt).args(["indextargets", format]).capture()?;
    let targets = String::from_utf8(targets)?;
    let mut archives = targets
        .lines()
        .filter_map(|line| line.strip_prefix(codename)?.strip_prefix(' '));
    Ok(archives.next().map(str::to_owned))
}
