//! A lock is obeyed: from the store without a network, from mirrors only what it names.

use kiln::failure::{Diagnose as _, Exit};
use kiln::files;
use kiln::proof::lock::Source;
use kiln::source::kernel_org::LockedRelease;

use super::{Bench, VERSION, at, expect, refused, serving};
use crate::support::keys::{Hash, SIGNED, TestKey, Use};
use crate::support::mirror::{Content, Mirror};
use crate::support::release::{Release, checksums, keyring};
use crate::support::tar::Tar;
use crate::support::{Case, Outcome, Stop, fail, xz};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("acquire::from_the_store_without_a_network", from_the_store),
        Case::new("acquire::the_lock_is_obeyed", the_lock_is_obeyed),
        Case::new("acquire::signed_anew", signed_anew),
        Case::new("acquire::signed_anew_by_another", signed_anew_by_another),
        Case::new("acquire::a_damaged_store", damaged_store),
        Case::new("acquire::an_unpinned_key_counts_no_more", unpinned_since),
        Case::new("acquire::a_lock_keeps_its_checksums", keeps_checksums),
        Case::new("acquire::the_archive_in_the_store_is_used", stored_archive),
        Case::new("acquire::offered_and_known_already", offered),
    ]
}

/// A bench whose store has the release, and its lock.
fn acquired() -> Result<(Bench, Release, Source), Stop> {
    let bench = Bench::new()?;
    let release = Release::new(VERSION, &bench.key);
    let facts = bench.acquire(&serving(&release)?)?.facts;
    Ok((bench, release, facts))
}

fn digests(facts: &Source) -> Result<[kiln::digest::Sha256; 3], Stop> {
    match facts {
        Source::KernelOrg {
            xz, tar, signature, ..
        } => Ok([xz.sha256, tar.sha256, signature.sha256]),
        Source::Debian { .. } => Err(fail("a source of kernel.org")),
    }
}

fn from_the_store() -> Outcome {
    let (bench, _release, facts) = acquired()?;
    let empty = Mirror::start()?;
    let again = bench.acquire_from(&at(&empty), Some(&facts))?;
    expect(
        again.facts == facts && again.resigned.is_none(),
        "the same facts",
    )?;
    expect(
        empty.log().is_empty() && again.route.archive.is_none(),
        "nothing was asked for",
    )
}

fn the_lock_is_obeyed() -> Outcome {
    let (bench, release, facts) = acquired()?;
    for digest in digests(&facts)? {
        files::remove_file(&bench.store.path(&digest))?;
    }
    // Equally well signed, but not what was locked: another tar, and the same one packed anew.
    let tar = Tar::kernel(VERSION).file_at("linux-6.18.40/more", b"more");
    let other = Release::of(VERSION, tar.bytes(), &bench.key);
    let mut packed = release.clone();
    packed.xz = xz::blocks(&release.tar, 8192);
    let mirror = Mirror::start()?;
    for twin in [other, packed] {
        expect(twin.xz != release.xz, "the twin differs")?;
        twin.publish(&mirror);
        let result = bench.acquire_from(&at(&mirror), Some(&facts));
        expect(
            result.is_err_and(|error| error.exit() == Exit::NotVerified),
            "only what was locked may pass",
        )?;
    }
    release.publish(&mirror);
    let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
    expect(again.facts == facts, "the same release")
}

fn signed_anew() -> Outcome {
    let (bench, release, facts) = acquired()?;
    let [_xz, tar, signature] = digests(&facts)?;
    // The kept signature is gone, and the mirror has a newer one by the same key.
    files::remove_file(&bench.store.path(&signature))?;
    let how = Use {
        hash: Hash::SHA256,
        at: SIGNED + 1000,
    };
    let mut newer = release.clone();
    newer.sign = bench.key.sign_detached_as(&release.tar[..], how);
    let mirror = serving(&newer)?;
    let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
    let resigned = again
        .resigned
        .ok_or_else(|| fail("the change does not show"))?;
    expect(
        resigned.served.made - resigned.locked.made == 1000,
        "both times are told",
    )?;
    let text = resigned.to_string();
    expect(text.starts_with("the release was signed anew"), &text)?;
    expect(again.tarball.sha256() == tar, "the tar is the locked one")?;
    // With all of the store gone it is the same.
    files::remove_dir_all(bench.store.directory())?;
    kiln::store::Store::open(bench.store.directory())?;
    let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
    expect(again.resigned.is_some(), "the change shows")
}

fn signed_anew_by_another() -> Outcome {
    let (bench, release, facts) = acquired()?;
    let [_xz, _tar, signature] = digests(&facts)?;
    files::remove_file(&bench.store.path(&signature))?;
    let mut newer = release.clone();
    newer.sign = TestKey::new().sign_detached(&release.tar[..]);
    let result = bench.acquire_from(&at(&serving(&newer)?), Some(&facts));
    refused(result, Exit::NotVerified, "signer-not-pinned")
}

fn damaged_store() -> Outcome {
    for part in 0..3 {
        let (bench, release, facts) = acquired()?;
        let digests = digests(&facts)?;
        let mirror = serving(&release)?;
        if part == 0 {
            // The archive is only looked at where the tar is gone.
            files::remove_file(&bench.store.path(&digests[1]))?;
        }
        let path = bench.store.path(&digests[part]);
        let mut bytes = files::read(&path, 1 << 20)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        files::write(&path, &bytes)?;
        let result = bench.acquire_from(&at(&mirror), Some(&facts));
        let hints = result
            .as_ref()
            .map_or_else(kiln::failure::Diagnose::hints, |_| Vec::new());
        refused(result, Exit::NotVerified, "store-damaged")?;
        let advice = format!("remove `{path}`");
        expect(
            hints.iter().any(|hint| hint.contains(&advice)),
            "it says what to do",
        )?;
        // The advice helps.
        files::remove_file(&path)?;
        let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
        expect(again.facts == facts, "the same release")?;
    }
    Ok(())
}

fn unpinned_since() -> Outcome {
    let (mut bench, _release, facts) = acquired()?;
    bench.keys = keyring(&[&TestKey::new()])?;
    let result = bench.acquire_from(&at(&Mirror::start()?), Some(&facts));
    refused(result, Exit::NotVerified, "signer-not-pinned")
}

fn keeps_checksums() -> Outcome {
    let signer = TestKey::new();
    let bench = Bench::new()?.with_checksums(&signer)?;
    let release = Release::new(VERSION, &bench.key);
    let mirror = serving(&release)?;
    let list = Content::bytes(checksums(&[&release], &signer));
    mirror.put("v6.x/sha256sums.asc", list);
    let facts = bench.acquire(&mirror)?.facts;
    mirror.remove("v6.x/sha256sums.asc");
    for digest in digests(&facts)? {
        files::remove_file(&bench.store.path(&digest))?;
    }
    // The lock names the digest, so the list is not needed again.
    let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
    expect(again.facts == facts, "the same facts")
}

fn stored_archive() -> Outcome {
    let (bench, release, facts) = acquired()?;
    let [_xz, tar, _signature] = digests(&facts)?;
    files::remove_file(&bench.store.path(&tar))?;
    let mirror = serving(&release)?;
    let again = bench.acquire_from(&at(&mirror), Some(&facts))?;
    expect(
        again.facts == facts && mirror.log().is_empty(),
        "nothing was asked for",
    )
}

fn offered() -> Outcome {
    let (bench, release, facts) = acquired()?;
    let version = VERSION.parse().unwrap();
    let known = || LockedRelease::of(&facts).ok_or_else(|| fail("a source of kernel.org"));
    let mirror = serving(&release)?;
    let mirrors = at(&mirror);
    let offered = || {
        bench
            .kernel_org(&mirrors)
            .acquire_offered(&version, known()?)
            .map_err(Stop::from)
    };
    let archive = || mirror.asked(&release.xz_path()).len();
    // Nothing new: the signature is asked for, the archive is not.
    expect(offered()?.facts == facts, "the same release")?;
    expect(
        archive() == 0 && mirror.log().len() == 1,
        "only the signature was asked for",
    )?;
    // Signed anew: the tar in the store is what the new signature is for.
    let how = Use {
        hash: Hash::SHA256,
        at: SIGNED + 1000,
    };
    let sign = bench.key.sign_detached_as(&release.tar[..], how);
    mirror.put(&release.sign_path(), Content::bytes(sign));
    let again = offered()?;
    expect(
        again.resigned.is_some() && archive() == 0,
        "the change shows",
    )?;
    // A damaged tar, and one that the signature is not for, are fetched.
    release.publish(&mirror);
    let [_xz, tar, _signature] = digests(&facts)?;
    files::write(&bench.store.path(&tar), b"damaged")?;
    expect(offered()?.facts == facts && archive() == 1, "it is mended")?;
    let other = Tar::kernel(VERSION).file_at("linux-6.18.40/more", b"more");
    Release::of(VERSION, other.bytes(), &bench.key).publish(&mirror);
    let replaced = offered()?;
    expect(
        replaced.facts != facts && replaced.resigned.is_none(),
        "what is served counts",
    )?;
    // No signature, no release, whatever is in the store.
    mirror.remove(&release.sign_path());
    let result = bench
        .kernel_org(&mirrors)
        .acquire_offered(&version, known()?);
    refused(result, Exit::NotPublished, "not-published")
}
