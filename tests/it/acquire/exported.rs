//! Machines without a network: a directory in kernel.org's layout, made by one kiln for another.

use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::progress::Silent;
use kiln::source::kernel_org;
use kiln::source::mirror::Mirrors;
use kiln::source::releases::{Candidates, Releases};

use super::{Bench, VERSION, at, expect, refused, serving};
use crate::support::keys::TestKey;
use crate::support::mirror::Content;
use crate::support::release::{Release, checksums, releases_json};
use crate::support::{Case, Outcome, tree};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("acquire::exported_and_taken_from_there", exported),
        Case::new("acquire::exported_with_checksums", exported_with_checksums),
        Case::new(
            "acquire::an_exported_directory_can_be_tampered_with",
            tampered,
        ),
        Case::new("acquire::several_releases_in_one_directory", several),
    ]
}

fn exported() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    mirror.put(
        "releases.json",
        Content::bytes(releases_json(&[VERSION, "6.12.1"])),
    );
    let mirrors = at(&mirror);
    let list = kernel_org::list(&mirrors, &Silent)?;
    let acquired = bench.acquire_from(&mirrors, None)?;
    let directory = bench.root.join("mirror");
    bench
        .kernel_org(&mirrors)
        .export(&acquired, Some(&list), &directory)?;
    drop(mirror);
    // Elsewhere, with nothing but the directory.
    files::remove_dir_all(bench.store.directory())?;
    kiln::store::Store::open(bench.store.directory())?;
    let mirrors = Mirrors::directory(&directory);
    let list = kernel_org::list(&mirrors, &Silent)?;
    expect(
        list.entries().len() == 1,
        "it lists what it holds and no more",
    )?;
    let newest = list.choose("6.18".parse().unwrap(), Candidates::No)?;
    expect(
        newest.version.to_string() == VERSION,
        "it lists what it holds",
    )?;
    expect(
        newest.released.is_some(),
        "it says of it what kernel.org says",
    )?;
    let again = bench.acquire_from(&mirrors, None)?;
    expect(again.facts == acquired.facts, "the same release")?;
    let absent = bench
        .kernel_org(&mirrors)
        .acquire(&"6.12.1".parse().unwrap(), None);
    refused(absent, Exit::NotPublished, "not-published")
}

fn exported_with_checksums() -> Outcome {
    let signer = TestKey::new();
    let bench = Bench::new()?.with_checksums(&signer)?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    let list = "v6.x/sha256sums.asc";
    mirror.put(list, Content::bytes(checksums(&[&release], &signer)));
    let mirrors = at(&mirror);
    let acquired = bench.acquire_from(&mirrors, None)?;
    let directory = bench.root.join("mirror");
    bench
        .kernel_org(&mirrors)
        .export(&acquired, None, &directory)?;
    let from_directory = Mirrors::directory(&directory);
    let again = bench.acquire_from(&from_directory, None)?;
    expect(
        again.facts == acquired.facts,
        "the list of checksums is there too",
    )?;
    // Where it cannot be had, that is said, and a lock still works.
    mirror.remove(list);
    let bare = bench.root.join("bare");
    bench.kernel_org(&mirrors).export(&acquired, None, &bare)?;
    expect(bench.said.has("gets no list of checksums"), "it is said")?;
    let bare = Mirrors::directory(&bare);
    refused(
        bench.acquire_from(&bare, None),
        Exit::NotPublished,
        "not-published",
    )?;
    bench.acquire_from(&bare, Some(&acquired.facts))?;
    Ok(())
}

fn tampered() -> Outcome {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let mirrors = at(&serving(&release)?);
    let acquired = {
        let mirror = serving(&release)?;
        bench.acquire(&mirror)?
    };
    let directory = bench.root.join("mirror");
    bench
        .kernel_org(&mirrors)
        .export(&acquired, None, &directory)?;
    let path = directory.join(release.xz_path());
    let mut bytes = files::read(&path, 1 << 20)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    files::write(&path, &bytes)?;
    files::remove_dir_all(bench.store.directory())?;
    kiln::store::Store::open(bench.store.directory())?;
    let from_directory = Mirrors::directory(&directory);
    let unlocked = bench.acquire_from(&from_directory, None);
    expect(
        unlocked.is_err_and(|error| error.exit() == Exit::NotVerified),
        "it is noticed",
    )?;
    let locked = bench.acquire_from(&from_directory, Some(&acquired.facts));
    refused(locked, Exit::NotVerified, "wrong-digest")?;
    bench.is_empty()
}

fn several() -> Outcome {
    let bench = Bench::new()?;
    let mirror = serving(&Release::new(VERSION, &bench.key))?;
    Release::new("6.12.117", &bench.key).publish(&mirror);
    let mirrors = at(&mirror);
    let directory = bench.root.join("mirror");
    let kernel_org = bench.kernel_org(&mirrors);
    for version in [VERSION, "6.12.117", VERSION] {
        let acquired = kernel_org.acquire(&version.parse().unwrap(), None)?;
        kernel_org.export(&acquired, None, &directory)?;
    }
    let text = files::read(&directory.join("releases.json"), 1 << 20)?;
    let list = Releases::parse("releases.json", &text)?;
    let versions: Vec<String> = list
        .entries()
        .iter()
        .map(|entry| entry.version.to_string())
        .collect();
    assert_eq!(versions, [VERSION, "6.12.117"]);
    let names = tree::listing(&directory)?;
    assert_eq!(
        names.len(),
        6,
        "two archives, two signatures, their directory, a list: {names:?}"
    );
    // A list that somebody broke is not overwritten.
    files::write(&directory.join("releases.json"), b"{}")?;
    let acquired = kernel_org.acquire(&VERSION.parse().unwrap(), None)?;
    let error = kernel_org.export(&acquired, None, &directory).unwrap_err();
    expect(error.code() == "releases-malformed", &error.to_string())
}
