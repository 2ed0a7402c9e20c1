//! `releases.json` from wherever it may be.

use camino::Utf8PathBuf;
use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::progress::Silent;
use kiln::source::kernel_org::{self, AcquireError};
use kiln::source::mirror::{Location, Mirrors};
use kiln::source::releases::{Candidates, Releases};

use crate::support::mirror::{Content, Fault, Mirror};
use crate::support::release::releases_json;
use crate::support::{Case, Outcome, Stop, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("releases::from_a_server", from_a_server),
        Case::new(
            "releases::from_a_file_or_directory",
            from_a_file_or_directory,
        ),
        Case::new("releases::from_a_server_in_trouble", in_trouble),
    ]
}

fn list(from: &str) -> Result<Releases, AcquireError> {
    let releases = Location::parse(from, "/".into()).unwrap();
    let mut mirrors = Mirrors::new(Vec::new(), Vec::new(), releases);
    mirrors.limits.retries = 0;
    kernel_org::list(&mirrors, &Silent)
}

fn newest(releases: &Releases) -> Result<String, Stop> {
    let chosen = releases.choose("6.18".parse().unwrap(), Candidates::No)?;
    Ok(chosen.version.to_string())
}

fn from_a_server() -> Outcome {
    let mirror = Mirror::start()?;
    mirror.put(
        "releases.json",
        Content::bytes(releases_json(&["6.18.39", "6.18.40", "7.2"])),
    );
    for address in [mirror.url(), format!("{}releases.json", mirror.url())] {
        let releases = list(&address)?;
        assert_eq!(newest(&releases)?, "6.18.40");
        assert_eq!(releases.origin(), format!("{}releases.json", mirror.url()));
    }
    Ok(())
}

fn from_a_file_or_directory() -> Outcome {
    let directory = tempfile::tempdir()?;
    let directory = Utf8PathBuf::from(directory.path().to_str().unwrap());
    let file = directory.join("releases.json");
    files::write(&file, releases_json(&["6.18.40"]).as_bytes())?;
    for place in [
        directory.as_str(),
        file.as_str(),
        &format!("file://{directory}"),
    ] {
        assert_eq!(newest(&list(place)?)?, "6.18.40");
    }
    files::remove_dir_all(&directory)?;
    match list(directory.as_str()) {
        Err(error) if error.exit() == Exit::Network => Ok(()),
        other => Err(fail(format!(
            "expected a list that is not reached, found {other:?}"
        ))),
    }
}

fn in_trouble() -> Outcome {
    let mirror = Mirror::start()?;
    let path = "releases.json";
    mirror.put(path, Content::bytes(releases_json(&["6.18.40"])));
    let cut = releases_json(&["6.18.40"]).len() as u64 / 2;
    let short = Content::bytes(&releases_json(&["6.18.40"]).as_bytes()[..40]);
    for (fault, exit, says) in [
        (Fault::Status(404), Exit::Network, "404"),
        (Fault::Status(500), Exit::Network, "answered 500"),
        (Fault::Page, Exit::Network, "web page"),
        (Fault::Cut(cut), Exit::Network, "the connection ended"),
        (Fault::Endless, Exit::NotVerified, "larger than"),
        (Fault::Instead(short), Exit::Usage, "EOF while parsing"),
    ] {
        mirror.fault_once(path, fault);
        match list(&mirror.url()) {
            Err(error) if error.exit() == exit && error.to_string().contains(says) => {}
            other => return Err(fail(format!("expected {exit:?} `{says}`, found {other:?}"))),
        }
        assert_eq!(newest(&list(&mirror.url())?)?, "6.18.40");
    }
    Ok(())
}
