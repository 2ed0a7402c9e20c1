//! The configuration of the real tree: changed by hand in its own menuconfig, on a terminal; trimmed
//! to the modules that a machine has loaded.

use std::time::Duration;

use camino::Utf8Path;
use kiln::digest::Sha256;
use kiln::failure::Exit;
use rustix::process::Signal;

use crate::support::env::KILN;
use crate::support::made_up::MadeUp;
use crate::support::terminal::Terminal;
use crate::support::{Case, Outcome, Stop, child, fail, linux, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("main_job::menuconfig_on_a_terminal", menuconfig).heavy(),
        Case::new("main_job::shell_on_a_terminal", shell),
        Case::new("main_job::lsmod_keeps_what_is_loaded", lsmod).heavy(),
    ]
}

/// The kernel's configuration programs are compiled first, on a machine that others use.
const PATIENCE: Duration = Duration::from_mins(10);

/// `kiln LINE` on a terminal.
fn on_terminal(made: &MadeUp, line: &str) -> Result<Terminal, Stop> {
    Terminal::start(&made.env, &format!("{KILN} {line}"), PATIENCE)
}

fn menuconfig() -> Outcome {
    if !Utf8Path::new("/usr/include/ncurses.h").exists() {
        return Err(skip("libncurses-dev is not installed: menuconfig needs it"));
    }
    let made = MadeUp::sandboxed()?;
    made.with_the_real_configuration()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let fragment = "config-fragments/made-edit.config";

    let mut terminal = on_terminal(&made, "config edit made")?;
    // The first letter of an entry is drawn apart.
    terminal.shows("eneral setup")?;
    let steps = [
        ("/", "Search Configuration"),
        ("MODVERSIONS\n", "Search Results"),
        ("1", "odule versioning"),
        ("y", "[*]"),
        ("\u{1b}\u{1b}", "Search Results"),
        ("\u{1b}\u{1b}", "eneral setup"),
        ("\u{1b}\u{1b}", "save your new"),
        ("\n", "wrote 1 lines into config-fragments/made-edit.config"),
    ];
    for (keys, then) in steps {
        terminal.types(keys)?;
        terminal.shows(then)?;
    }
    terminal.running.wait()?.exits(0)?;
    assert!(
        made.env
            .read(fragment)?
            .ends_with("\nCONFIG_MODVERSIONS=y\n"),
        "{}",
        made.env.read(fragment)?
    );
    // It can be built with, and holds.
    made.env
        .edit("pipelines/made.yaml", "[made]", "[made, made-edit]")?;
    made.kiln("config check made")
        .deadline(PATIENCE)
        .run()?
        .exits(0)?
        .says("2 of 2 requests are met")?;

    // Ctrl-C is the editor's, and ends with it; left without a change, it writes nothing.
    let mut terminal = on_terminal(&made, "config edit made --into more")?;
    terminal.shows("eneral setup")?;
    terminal.types("\u{3}")?;
    terminal.shows("error: interrupted")?;
    terminal.running.wait()?.exits(130)?;
    let mut terminal = on_terminal(&made, "config edit made --into more")?;
    terminal.shows("eneral setup")?;
    terminal.types("\u{1b}\u{1b}")?;
    terminal.shows("nothing was changed")?;
    terminal.running.wait()?.exits(0)?;
    // Ended from outside, it goes.
    let mut terminal = on_terminal(&made, "config edit made --into more")?;
    terminal.shows("eneral setup")?;
    for pid in child::processes_marked(&format!("{KILN}\0config\0edit\0made")) {
        let pid = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.ok_or_else(|| fail("no process id"))?, Signal::TERM)?;
    }
    terminal.shows("terminated")?;
    terminal.running.wait()?.exits(143)?;
    assert!(!made.env.path("config-fragments/more.config").exists());
    Ok(())
}

/// Ctrl-C ends what runs in the shell, and neither the shell nor kiln.
fn shell() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.kiln("resolve made").run()?.exits(0)?;
    let mut terminal = on_terminal(&made, "shell made")?;
    terminal.shows("$ ")?;
    terminal.types("sleep 617\n")?;
    let mark = "sleep\u{0}617";
    terminal.running.until("it sleeps", |_| {
        Ok(!child::processes_marked(mark).is_empty())
    })?;
    for _ in 0..2 {
        terminal.types("\u{3}")?;
        child::expect_none_marked(mark)?;
    }
    terminal.types("echo alive$((40+2))\n")?;
    terminal.shows("alive42")?;
    // Whoever comes meanwhile does not take the tree away.
    made.kiln("shell made")
        .run()?
        .exits(Exit::Locked)?
        .warns("shell made")?;
    terminal.types("exit 3\n")?;
    terminal.shows("the shell ended with 3")?;
    terminal.running.wait()?.exits(0)?;
    Ok(())
}

/// As `lsmod` prints it.
const LOADED: &str = "\
Module                  Size  Used by
e1000e                356352  0
ext4                 1146880  1
mbcache                16384  1 ext4
jbd2                  204800  1 ext4
snd_hda_intel          65536  0
nvme                   61440  2
nvme_core             225280  3 nvme
";

fn lsmod() -> Outcome {
    let made = MadeUp::sandboxed()?;
    made.with_the_real_configuration()?;
    let base = linux::real_config("amd64_none_amd64")?;
    let sha256 = Sha256::of(base.as_bytes());
    made.env.write("base.config", &base)?;
    made.env.write("loaded", LOADED)?;
    made.env.edit(
        "pipelines/made.yaml",
        "base: {target: tinyconfig}\n  trim: none",
        &format!("base: {{file: {{path: base.config, series: \"6.12\", sha256: {sha256}}}}}\n  trim: {{lsmod: loaded}}"),
    )?;
    // Debian's own key is not there; the guard is not what this is about.
    made.kiln("config check made --output out")
        .deadline(PATIENCE)
        .run()?
        .warns("requests over")?;
    let resolved = made.env.read("out/resolved.config")?;
    for kept in [
        "E1000E=m",
        "EXT4_FS=m",
        "JBD2=m",
        "SND_HDA_INTEL=m",
        "BLK_DEV_NVME=m",
    ] {
        assert!(resolved.contains(&format!("\nCONFIG_{kept}\n")), "{kept}");
    }
    for gone in ["BTRFS_FS", "E1000", "IGB", "DRM_I915", "USB_STORAGE"] {
        assert!(!resolved.contains(&format!("\nCONFIG_{gone}=")), "{gone}");
    }
    let modules = |text: &str| text.lines().filter(|line| line.ends_with("=m")).count();
    let (before, after) = (modules(&base), modules(&resolved));
    assert!(
        (5..before / 10).contains(&after),
        "{after} of {before} modules are left"
    );
    println!("{after} of {before} modules are left");
    Ok(())
}
