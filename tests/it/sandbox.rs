//! What a program in the sandbox can see and do, asked from inside with ordinary tools.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::Utf8Path;
use kiln::command::{Cmd, CommandError, Tool};
use kiln::sandbox::{BUILD_USER, Isolation, Sandbox};

use crate::support::{Case, Env, Outcome, Stop, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("sandbox::no_network", no_network),
        Case::new("sandbox::no_view_of_the_host", no_view_of_the_host),
        Case::new("sandbox::never_root", never_root),
        Case::new(
            "sandbox::shown_read_only_is_read_only",
            read_only_is_read_only,
        ),
        Case::new(
            "sandbox::writable_place_takes_files",
            writable_place_takes_files,
        ),
        Case::new(
            "sandbox::works_below_a_closed_directory",
            below_a_closed_directory,
        ),
        Case::new("sandbox::other_processes_are_out_of_reach", other_processes),
        Case::new("sandbox::environment_is_clean", environment_is_clean),
        Case::new("sandbox::time_limit_holds_inside", time_limit_holds_inside),
        Case::new("sandbox::exit_code_comes_through", exit_code_comes_through),
        Case::new(
            "sandbox::without_one_paths_are_the_hosts",
            without_a_sandbox,
        ),
        Case::new(
            "sandbox::without_one_root_is_dropped",
            without_a_sandbox_root_is_dropped,
        ),
    ]
}

/// A working sandbox, or the reason why the case cannot run.
fn isolation() -> Result<Isolation, Stop> {
    let isolation = Isolation::probe()?;
    match isolation.missing_reason() {
        None => Ok(isolation),
        Some(reason) => Err(skip(format!("no sandbox can be had here: {reason}"))),
    }
}

fn tool(name: &str) -> Result<Tool, Stop> {
    Ok(Tool::find(name)?)
}

/// What the script prints in the sandbox.
fn inside(sandbox: &Sandbox, script: &str) -> Result<String, Stop> {
    let output = Cmd::new(&tool("sh")?)
        .args(["-c", script])
        .sandbox(sandbox)
        .deadline(Duration::from_mins(1))
        .capture()?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

fn no_network() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let interfaces = inside(
        &sandbox,
        "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
    )?;
    assert_eq!(interfaces.trim(), "lo");
    // A server of ours on this host's loopback must be out of reach.
    let server = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = server.local_addr()?.port();
    let try_it = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)");
    let Ok(python) = Tool::find("python3") else {
        return Err(skip("python3 is not installed to try a connection"));
    };
    let connect = |cmd: Cmd| {
        cmd.args(["-c", &try_it])
            .deadline(Duration::from_secs(20))
            .status()
    };
    assert_eq!(
        connect(Cmd::new(&python))?,
        0,
        "the server can be reached from outside"
    );
    assert_ne!(
        connect(Cmd::new(&python).sandbox(&sandbox))?,
        0,
        "reached from inside"
    );
    Ok(())
}

fn no_view_of_the_host() -> Outcome {
    let env = Env::new()?;
    std::fs::write(env.path("secret"), "secret")?;
    std::fs::create_dir(env.path("shown"))?;
    let sandbox = Sandbox::new(&isolation()?).read_only(env.path("shown"), "/build/src");
    let top = inside(&sandbox, "ls -A /")?;
    for name in [
        "home", "root", "srv", "var", "opt", "mnt", "media", "boot", "run",
    ] {
        assert!(
            !top.lines().any(|line| line == name),
            "/{name} is visible:\n{top}"
        );
    }
    assert_eq!(
        inside(&sandbox, "ls -A /tmp /build/src /build")?,
        "/build:\nsrc\n\n/build/src:\n\n/tmp:\n"
    );
    let secret = inside(
        &sandbox,
        &format!("cat {} 2>&1 || true", env.path("secret")),
    )?;
    assert!(secret.contains("No such file"), "{secret}");
    let kept = inside(
        &sandbox,
        "cat /etc/shadow /etc/passwd /etc/hostname 2>&1 || true",
    )?;
    assert_eq!(kept.matches("No such file").count(), 3, "{kept}");
    Ok(())
}

fn never_root() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let ids = inside(
        &sandbox,
        "id -u; id -g; grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status",
    )?;
    let mut lines = ids.lines();
    let expected = if rustix::process::geteuid().is_root() {
        BUILD_USER
    } else {
        rustix::process::geteuid().as_raw()
    };
    assert_eq!(lines.next(), Some(expected.to_string().as_str()), "{ids}");
    assert_ne!(lines.next(), Some("0"), "{ids}");
    for line in lines {
        let value = line.split_whitespace().nth(1).unwrap_or_default();
        let wanted = if line.starts_with("NoNewPrivs") {
            "1"
        } else {
            "0000000000000000"
        };
        if line.starts_with("CapBnd") && !rustix::process::geteuid().is_root() {
            continue;
        }
        assert_eq!(value, wanted, "{ids}");
    }
    Ok(())
}

fn read_only_is_read_only() -> Outcome {
    let env = Env::new()?;
    let dir = env.path("shown");
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("file"), "content")?;
    // Open to everyone on the host, so that only the mount can refuse.
    for path in [dir.clone(), dir.join("file")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    }
    let sandbox = Sandbox::new(&isolation()?).read_only(&dir, "/build/src");
    let said = inside(
        &sandbox,
        "cd /build/src; cat file; (echo x > file; touch new; rm file; mkdir d; chmod 700 .; \
         mv file other; ln file hard) 2>&1 | grep -c 'Read-only file system'; \
         (echo x > /usr/x; touch /etc/x; echo x > /x) 2>&1 | grep -c .",
    )?;
    assert_eq!(said, "content7\n3\n");
    assert_eq!(std::fs::read_to_string(dir.join("file"))?, "content");
    assert_eq!(env.listing()?, ["shown/", "shown/file"]);
    Ok(())
}

fn writable_place_takes_files() -> Outcome {
    let env = Env::new()?;
    let dir = env.path("out");
    std::fs::create_dir(&dir)?;
    let isolation = isolation()?;
    isolation.own(&dir)?;
    let sandbox = Sandbox::new(&isolation).writable(&dir, "/build/out");
    let shell = tool("sh")?;
    Cmd::new(&shell)
        .args(["-c", "echo made > made"])
        .cwd("/build/out")
        .sandbox(&sandbox)
        .run()?;
    assert_eq!(std::fs::read_to_string(dir.join("made"))?, "made\n");
    Ok(())
}

/// A workspace below a home directory that only its owner may enter.
fn below_a_closed_directory() -> Outcome {
    let env = Env::new()?;
    let closed = env.path("closed");
    let dir = closed.join("deep/src");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("file"), "content")?;
    let out = closed.join("deep/out");
    std::fs::create_dir(&out)?;
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700))?;
    let isolation = isolation()?;
    isolation.own(&out)?;
    let sandbox = Sandbox::new(&isolation)
        .read_only(&dir, "/build/src")
        .writable(&out, "/build/out");
    assert_eq!(
        inside(&sandbox, "cat /build/src/file; echo made > /build/out/made")?,
        "content"
    );
    assert_eq!(std::fs::read_to_string(out.join("made"))?, "made\n");
    Ok(())
}

fn other_processes() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let own = std::process::id();
    let said = inside(
        &sandbox,
        &format!(
            "ls /proc | grep -c '^[0-9]*$'; kill -0 {own} 2>/dev/null && echo reached || true"
        ),
    )?;
    let count: usize = said.lines().next().unwrap_or_default().parse()?;
    assert!(count <= 6, "{count} processes are visible");
    assert!(!said.contains("reached") || own < 10, "{said}");
    Ok(())
}

fn environment_is_clean() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let output = Cmd::new(&tool("env")?)
        .sandbox(&sandbox)
        .env("EPOCH", "1")
        .capture()?;
    let text = String::from_utf8_lossy(&output);
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    names.retain(|name| *name != "PWD");
    assert_eq!(names, ["EPOCH", "HOME", "LC_ALL", "PATH", "TZ"]);
    assert_eq!(inside(&sandbox, "uname -n; umask")?, "forge\n0022\n");
    Ok(())
}

fn time_limit_holds_inside() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let mark = format!("4{:05}.1", std::process::id() % 100_000);
    let error = Cmd::new(&tool("sh")?)
        .args([
            "-c",
            &format!("trap '' TERM; setsid sleep {mark} & sleep {mark}; sleep {mark}"),
        ])
        .sandbox(&sandbox)
        .deadline(Duration::from_millis(500))
        .run()
        .expect_err("too slow");
    assert!(matches!(error, CommandError::Deadline { .. }), "{error}");
    crate::support::child::expect_none_marked(&mark)
}

fn exit_code_comes_through() -> Outcome {
    let sandbox = Sandbox::new(&isolation()?);
    let run = |script: &str| -> Result<Cmd, Stop> {
        Ok(Cmd::new(&tool("sh")?)
            .args(["-c", script])
            .sandbox(&sandbox))
    };
    assert_eq!(run("exit 0")?.status()?, 0);
    assert_eq!(run("exit 37")?.status()?, 37);
    let error = run("echo why >&2; exit 2")?.run().expect_err("exit 2");
    assert!(error.to_string().contains("why"), "{error}");
    let missing = Cmd::new(&Tool::inside("/no/such/program"))
        .sandbox(&sandbox)
        .run();
    assert!(missing.is_err());
    Ok(())
}

fn no_isolation() -> Result<Isolation, Stop> {
    let setpriv = if rustix::process::geteuid().is_root() {
        Some(tool("setpriv")?)
    } else {
        None
    };
    Ok(Isolation::None {
        reason: "planted".to_owned(),
        setpriv,
        user: None,
    })
}

fn without_a_sandbox() -> Outcome {
    let env = Env::new()?;
    let dir = env.path("shown");
    std::fs::create_dir(&dir)?;
    let sandbox = Sandbox::new(&no_isolation()?).read_only(&dir, "/build/src");
    assert!(!sandbox.is_isolated());
    assert_eq!(
        sandbox.path(Utf8Path::new("/build/src/a/b")),
        dir.join("a/b")
    );
    assert_eq!(sandbox.path(Utf8Path::new("/build/src")), dir);
    assert_eq!(sandbox.path(Utf8Path::new("/build/srcs")), "/build/srcs");
    Ok(())
}

fn without_a_sandbox_root_is_dropped() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(skip("not root, so there is nothing to drop"));
    }
    let sandbox = Sandbox::new(&no_isolation()?);
    assert_eq!(inside(&sandbox, "id -u")?.trim(), BUILD_USER.to_string());
    Ok(())
}
