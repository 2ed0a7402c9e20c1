//! The kernel tree's own Kconfig reader, asked through a driver that reads the Kconfig files once
//! (`tests/oracle/oracle.c`), so that an answer costs a twentieth of a second.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::files;

use super::case::{Stop, fail};
use super::kconfig_tree::{Answer, KconfigTree};
use super::tree;

/// A running driver; it ends with this.
pub struct Oracle {
    child: Child,
    dir: tempfile::TempDir,
    asked: AtomicUsize,
    /// What the reading of the Kconfig files printed on standard error.
    pub parse_log: String,
}

impl Oracle {
    /// Builds the driver and has it read the tree's Kconfig files.
    pub fn start(tree: &KconfigTree) -> Result<Self, Stop> {
        // A socket's name must be short.
        let dir = tempfile::tempdir()?;
        let program = dir.path().join("oracle");
        let program = Utf8PathBuf::from_path_buf(program)
            .map_err(|path| fail(format!("{} is no text", path.display())))?;
        build(tree, &program)?;
        let log = dir.path().join("parse.log");
        let mut child = tree
            .program(&program)
            .arg("Kconfig")
            .arg(dir.path().join("socket"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        let mut said = String::new();
        if let Some(out) = child.stdout.take() {
            let mut lines = BufReader::new(out).lines();
            // The tree's own `$(info,...)` may come first.
            while let Some(line) = lines.next().transpose()? {
                said = line;
                if said == "ready" {
                    break;
                }
            }
        }
        let parse_log = std::fs::read_to_string(&log)?;
        let oracle = Self {
            child,
            dir,
            asked: AtomicUsize::new(0),
            parse_log,
        };
        if said == "ready" {
            Ok(oracle)
        } else {
            Err(fail(format!(
                "the oracle read nothing: {}",
                oracle.parse_log
            )))
        }
    }

    /// What `conf --olddefconfig` makes of a configuration. May be asked from many threads.
    pub fn ask(&self, config: &str) -> Result<Answer, Stop> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.path().join(format!("{number}.config"));
        let path = Utf8PathBuf::from_path_buf(path)
            .map_err(|path| fail(format!("{} is no text", path.display())))?;
        let (old, log) = (format!("{path}.old"), format!("{path}.log"));
        std::fs::File::create(&path)?.write_all(config.as_bytes())?;
        let mut driver = UnixStream::connect(self.dir.path().join("socket"))?;
        driver.write_all(path.as_str().as_bytes())?;
        driver.shutdown(Shutdown::Write)?;
        let mut status = String::new();
        driver.read_to_string(&mut status)?;
        let answer = Answer {
            status: status.trim().parse().ok(),
            text: std::fs::read_to_string(&path)?,
            log: std::fs::read_to_string(&log)?.replace(path.as_str(), ".config"),
        };
        for left in [path.as_str(), &old, &log] {
            files::remove_file(Utf8Path::new(left))?;
        }
        Ok(answer)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ended = self.child.wait();
    }
}

/// Links the driver with the objects of the tree's own programs.
fn build(tree: &KconfigTree, program: &Utf8Path) -> Result<(), Stop> {
    let own = tree.objects.join("scripts/kconfig");
    let objects = files::list(&own)?;
    let objects = objects
        .iter()
        .filter(|name| Utf8Path::new(name).extension() == Some("o") && *name != "conf.o")
        .map(|name| own.join(name).into_string());
    let source = tree::repository().join("tests/oracle/oracle.c");
    let include = |below: &str| format!("-I{}", tree.source.join(below));
    Cmd::new(&Tool::find("gcc")?)
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args([include("scripts/kconfig"), include("scripts/include")])
        .args(["-o", program.as_str(), source.as_str()])
        .args(objects)
        .run()?;
    Ok(())
}
