//! The README's first command, whole: the guard's answer for the distribution's whole
//! configuration, real packages, and a boot. It finds the kernel that the other tests share, as a
//! second `kiln quickstart` would.

use std::time::Duration;

use kiln::failure::Exit;
use rustix::process::Signal;

use crate::support::guest::guest_build;
use crate::support::{Case, Env, Outcome, fail};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![Case::new("quickstart::proves_what_it_says", proves_what_it_says).heavy()]
}

fn proves_what_it_says() -> Outcome {
    let guest = guest_build()?;
    let env = Env::new()?;
    // Stopped half way, it goes on where it was.
    let mut stopped = env
        .kiln(["quickstart", "--yes"])
        .in_dir(&guest.workspace)
        .deadline(Duration::from_mins(30))
        .start()?;
    stopped.until("the source is proven", |run| {
        Ok(run.stderr_so_far()?.contains("tar sha256"))
    })?;
    stopped.signal_group(Signal::INT)?;
    stopped
        .wait()?
        .exits(Exit::Interrupted)?
        .warns("run the same command again")?;
    let done = env
        .kiln(["quickstart", "--yes", "--format", "json"])
        .in_dir(&guest.workspace)
        .deadline(Duration::from_mins(30))
        .run()?
        .exits(0)?
        .json()?;
    let release = guest.release.to_string();
    assert_eq!(done["built"]["release"], release.as_str());
    assert_eq!(
        done["built"]["reused"], true,
        "the same inputs were compiled twice"
    );
    assert_eq!(done["booted"]["release"], release.as_str());
    // Secure Boot has to be off for these, so it must be said.
    assert_eq!(done["built"]["unsigned_modules"], true);
    assert_eq!(done["built"]["unsigned_image"], true);
    let guard = &done["guard"];
    assert_eq!(guard["asked"], guard["met"]);
    let asked = guard["asked"]
        .as_u64()
        .ok_or_else(|| fail("the guard counts nothing"))?;
    assert!(
        asked > 50,
        "only {asked} requests on the whole configuration"
    );
    // A build on the host's own tools must say that it cannot be published.
    let doubts = done["built"]["doubts"].to_string();
    assert!(doubts.contains("host"), "{doubts}");
    assert!(done["full_build"]["wall_s"].as_u64() > Some(600), "{done}");
    Ok(())
}
