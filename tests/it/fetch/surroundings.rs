//! What fetching takes from the environment of the process: proxies, and which certificates web
//! servers are judged by. Each case runs in a child, since a process' environment is never changed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::progress::Silent;
use kiln::source::mirror::{Location, Mirrors};
use kiln::store::Store;

use super::{PATH, body, expect, patient};
use crate::support::child;
use crate::support::mirror::{Content, Fault, Mirror};
use crate::support::{Case, Outcome, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("fetch::through_a_proxy", through_a_proxy),
        Case::new("fetch::past_a_proxy", past_a_proxy),
        Case::new("fetch::never_from_https_to_http", never_from_https_to_http),
        Case::new("fetch::an_unknown_certificate", unknown_certificate),
        Case::new("fetch::no_certificates_at_all", no_certificates),
        Case::new("fetch::stopped_and_continued", stopped_and_continued),
    ]
}

/// Part of a child: fetches [`PATH`] from the mirror given first into the store given second.
pub fn fetch_one(arguments: &[String]) -> ExitCode {
    let [mirror, store] = arguments else {
        return ExitCode::from(Exit::Usage.code());
    };
    kiln::interrupt::install().unwrap();
    let mirror = Location::parse(mirror, "/".into()).unwrap();
    let store = Store::open(Utf8Path::new(store)).unwrap();
    let mirrors = Mirrors::new(vec![mirror.clone()], Vec::new(), mirror).limits(patient());
    match mirrors.archive(PATH, 1 << 20, None, &store, &Silent) {
        Ok(fetched) => {
            println!("{}", fetched.sha256);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit().code())
        }
    }
}

/// Runs the part with these variables alone; exit code and standard error.
fn fetch_in_child(mirror: &str, variables: &[(&str, &str)]) -> Result<(i32, String), Stop> {
    let store = tempfile::tempdir()?;
    let arguments = [mirror, store.path().to_str().unwrap()];
    let mut command = child::command("fetch::fetch_one", &arguments);
    for name in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
    ] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let output = command.envs(variables.iter().copied()).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output
        .status
        .code()
        .ok_or_else(|| fail("the child was killed"))?;
    Ok((code, text))
}

fn through_a_proxy() -> Outcome {
    let proxy = Mirror::start()?;
    proxy.put(PATH, Content::bytes(body(1000)));
    // The name does not exist, so the file can only come through the proxy.
    let (code, text) = fetch_in_child("http://mirror.invalid/", &[("http_proxy", &proxy.url())])?;
    expect(code == 0, &text)?;
    let asked = proxy.asked(PATH);
    let line = format!("GET http://mirror.invalid/{PATH} HTTP/1.1");
    expect(
        asked.len() == 1 && asked[0].line == line,
        "a proxy is asked with the whole address",
    )
}

fn past_a_proxy() -> Outcome {
    let (proxy, mirror) = (Mirror::start()?, Mirror::start()?);
    mirror.put(PATH, Content::bytes(body(1000)));
    let variables = [("http_proxy", &*proxy.url()), ("no_proxy", "127.0.0.1")];
    let (code, text) = fetch_in_child(&mirror.url(), &variables)?;
    expect(code == 0, &text)?;
    expect(proxy.log().is_empty(), "`no_proxy` is honoured")
}

/// A web server with TLS that answers every file with what the file holds, head and all.
struct Tls {
    server: Child,
    port: String,
    /// Certificate of the authority that signed the server's.
    authority: Utf8PathBuf,
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _already_gone = self.server.kill();
        let _reaped = self.server.wait();
    }
}

fn openssl(directory: &Utf8Path, line: &str) -> Result<(), Stop> {
    let output = Command::new("openssl")
        .args(line.split(' '))
        .current_dir(directory)
        .output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(skip("openssl is not installed"))
        }
        Err(error) => Err(error.into()),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(fail(String::from_utf8_lossy(&output.stderr))),
    }
}

impl Tls {
    fn start(directory: &Utf8Path, answer: &str) -> Result<Self, Stop> {
        let file = directory.join(PATH);
        std::fs::create_dir_all(file.parent().unwrap())?;
        std::fs::write(&file, answer)?;
        std::fs::write(directory.join("leaf.ext"), "subjectAltName=DNS:localhost\n")?;
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for line in [
            &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 3650 -subj /CN=authority"),
            &format!("req {key} -keyout leaf.key -out leaf.csr -subj /CN=localhost"),
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out leaf.pem -days 365 -extfile leaf.ext",
        ] {
            openssl(directory, line)?;
        }
        let mut server = Command::new("openssl")
            .args("s_server -accept 127.0.0.1:0 -cert leaf.pem -key leaf.key -HTTP".split(' '))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines
                .next()
                .ok_or_else(|| fail("openssl s_server ended"))??;
            if let Some(address) = line.strip_prefix("ACCEPT ") {
                break address.rsplit(':').next().unwrap_or_default().to_owned();
            }
        };
        // Drains what it says, so that it never blocks.
        let _drain = std::thread::spawn(move || lines.for_each(drop));
        Ok(Self {
            server,
            port,
            authority: directory.join("ca.pem"),
        })
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.port)
    }
}

fn scratch() -> Result<(tempfile::TempDir, Utf8PathBuf), Stop> {
    let directory = tempfile::tempdir()?;
    let path = Utf8PathBuf::from(directory.path().to_str().unwrap());
    Ok((directory, path))
}

fn never_from_https_to_http() -> Outcome {
    let open = Mirror::start()?;
    open.put(PATH, Content::bytes(body(1000)));
    let (_guard, directory) = scratch()?;
    let answer = format!(
        "HTTP/1.0 302 Found\r\nLocation: {}{PATH}\r\n\r\n",
        open.url()
    );
    let tls = Tls::start(&directory, &answer)?;
    let trust = [("SSL_CERT_FILE", tls.authority.as_str())];
    let (code, text) = fetch_in_child(&tls.url(), &trust)?;
    expect(code == i32::from(Exit::Network.code()), &text)?;
    expect(
        text.contains("redirected from https to `http://127.0.0.1"),
        &text,
    )?;
    expect(open.log().is_empty(), "the open server was never asked")?;
    // The twin: the same server, without the redirect.
    drop(tls);
    let (_guard, directory) = scratch()?;
    let tls = Tls::start(
        &directory,
        "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfile",
    )?;
    let trust = [("SSL_CERT_FILE", tls.authority.as_str())];
    let (code, text) = fetch_in_child(&tls.url(), &trust)?;
    expect(code == 0, &text)
}

fn unknown_certificate() -> Outcome {
    let (_guard, directory) = scratch()?;
    let tls = Tls::start(
        &directory,
        "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfile",
    )?;
    let (code, text) = fetch_in_child(&tls.url(), &[])?;
    expect(code == i32::from(Exit::Network.code()), &text)?;
    expect(text.contains("certificate"), &text)
}

fn no_certificates() -> Outcome {
    let nowhere = [
        ("SSL_CERT_FILE", "/nonexistent"),
        ("SSL_CERT_DIR", "/nonexistent"),
    ];
    let (code, text) = fetch_in_child("https://localhost:1/", &nowhere)?;
    expect(code == i32::from(Exit::Network.code()), &text)?;
    expect(text.contains("ertificate"), &text)
}

fn stopped_and_continued() -> Outcome {
    let mirror = Mirror::start()?;
    let bytes = body(900_000);
    mirror.put(PATH, Content::bytes(bytes.clone()));
    mirror.fault(PATH, Fault::Trickle(10_000, Duration::from_millis(20)));
    let store = tempfile::tempdir()?;
    let arguments = [&*mirror.url(), store.path().to_str().unwrap()];
    let mut running = child::command("fetch::fetch_one", &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let arrived = || -> u64 {
        let names = std::fs::read_dir(store.path().join("partial"));
        let files = names.into_iter().flatten().filter_map(Result::ok);
        let archives = files.filter(|file| file.path().extension().is_none_or(|e| e.len() == 8));
        archives
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .max()
            .unwrap_or(0)
    };
    while arrived() < 100_000 {
        if running.try_wait()?.is_some() {
            return Err(fail("the child ended before it was stopped"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let code = running.wait()?.code();
    expect(
        code == Some(i32::from(Exit::Interrupted.code())),
        &format!("exit {code:?}"),
    )?;
    // What had arrived is what the next run starts with.
    mirror.mend(PATH);
    let output = child::command("fetch::fetch_one", &arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    expect(text.trim() == Sha256::of(&bytes).to_string(), &text)?;
    let range = mirror.asked(PATH)[1].range.clone().unwrap_or_default();
    let from = range
        .trim_start_matches("bytes=")
        .trim_end_matches('-')
        .parse::<u64>();
    expect(
        from.is_ok_and(|from| from >= 100_000),
        &format!("it asked for {range}"),
    )
}
