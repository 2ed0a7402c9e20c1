//! Detached signatures and signed texts: every good one beside each of its bad twins.

use std::io::Write as _;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::kernel::Version;
use kiln::progress::Silent;
use kiln::source::keyring::Keyring;
use kiln::source::signature::{self, Origin, SignatureError, VerifiedTarball};

use crate::support::keys::{CREATED, FUTURE, Hash, Revoked, SIGNED, TestKey, Use, armor};
use crate::support::tar::Tar;
use crate::support::{Case, Env, Outcome, Stop, fail, tree};

const VERSION: &str = "6.18.40";
const DAY: u64 = 24 * 60 * 60;

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("signature::good_is_accepted_and_carries_facts", good),
        Case::new("signature::every_byte_of_the_tar_counts", bit_flips),
        Case::new("signature::tar_of_another_length_is_refused", other_lengths),
        Case::new(
            "signature::files_that_are_no_signature_are_named",
            no_signature,
        ),
        Case::new(
            "signature::unpinned_signer_is_named_with_the_pins",
            unpinned,
        ),
        Case::new(
            "signature::key_validity_is_judged_at_signing_time",
            validity,
        ),
        Case::new(
            "signature::revocation_reaches_as_far_as_its_reason",
            revocation,
        ),
        Case::new(
            "signature::sha1_is_accepted_for_the_pinned_primary_only",
            sha1,
        ),
        Case::new("signature::several_signatures", several),
        Case::new(
            "signature::right_signature_on_the_wrong_release",
            wrong_release,
        ),
        Case::new(
            "signature::real_signature_on_other_data_fails_by_digest",
            real,
        ),
        Case::new("signature::signed_text_and_its_twins", signed_text),
        Case::new("signature::no_change_of_a_signature_panics_or_passes", fuzz),
    ]
}

fn keyring(pinned: &[&TestKey]) -> Result<Keyring, Stop> {
    let env = Env::new()?;
    let mut pins = Vec::new();
    for key in pinned {
        env.write(
            &format!("keys/{}.asc", key.fingerprint()),
            key.armored_cert(),
        )?;
        pins.push(key.fingerprint().parse()?);
    }
    Ok(Keyring::load(&env.path("keys"), &pins)?)
}

fn verify_as(
    tar: &[u8],
    signature: &[u8],
    keyring: &Keyring,
    version: &str,
) -> Result<VerifiedTarball, SignatureError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(tar).unwrap();
    let version: Version = version.parse().unwrap();
    let path = Utf8PathBuf::from(format!("/store/linux-{version}.tar"));
    signature::verify(file, &path, signature, keyring, &version, &Silent)
}

fn verify(
    tar: &[u8],
    signature: &[u8],
    keyring: &Keyring,
) -> Result<VerifiedTarball, SignatureError> {
    verify_as(tar, signature, keyring, VERSION)
}

/// Checks the code and that the exit code says "not verified".
fn refused(
    result: Result<VerifiedTarball, SignatureError>,
    code: &str,
) -> Result<SignatureError, Stop> {
    match result {
        Ok(_) => Err(fail(format!("accepted; expected `{code}`"))),
        Err(error) if error.code() == code && error.exit() == Exit::NotVerified => {
            assert!(!error.hints().is_empty(), "{error}");
            Ok(error)
        }
        Err(error) => Err(fail(format!(
            "expected `{code}`, found `{}`: {error}",
            error.code()
        ))),
    }
}

fn good() -> Outcome {
    let key = TestKey::new();
    let tar = Tar::kernel(VERSION).bytes();
    let verified = verify(&tar, &key.sign_detached(&tar[..]), &keyring(&[&key])?)?;
    assert_eq!(verified.sha256(), Sha256::of(&tar));
    assert_eq!(verified.bytes(), tar.len() as u64);
    assert_eq!(verified.version().to_string(), VERSION);
    assert_eq!(verified.prefix(), "linux-6.18.40");
    assert_eq!(verified.source_date_epoch(), SIGNED.cast_signed());
    let Origin::Signature { signer, notes } = verified.origin() else {
        return Err(fail("not by signature"));
    };
    assert_eq!(signer.certificate.as_str(), key.fingerprint());
    assert_eq!(signer.key, signer.certificate);
    assert_eq!(signer.made, Timestamp::from_second(SIGNED.cast_signed())?);
    assert!(notes.is_empty());
    // A signing subkey is named beside its certificate.
    let with_subkey = TestKey::build()
        .signing_subkey(Hash::SHA512, Hash::SHA512)
        .make();
    let signature = with_subkey.sign_detached(&tar[..]);
    let verified = verify(&tar, &signature, &keyring(&[&with_subkey])?)?;
    let Origin::Signature { signer, .. } = verified.origin() else {
        return Err(fail("not by signature"));
    };
    assert_eq!(signer.certificate.as_str(), with_subkey.fingerprint());
    assert_ne!(signer.key, signer.certificate);
    Ok(())
}

fn bit_flips() -> Outcome {
    let key = TestKey::new();
    let tar = Tar::kernel(VERSION).bytes();
    let signature = key.sign_detached(&tar[..]);
    let keyring = keyring(&[&key])?;
    verify(&tar, &signature, &keyring)?;
    let last = tar.len() - 1;
    for at in [0, 100, 511, 512, 1024, last / 2, last - 512, last] {
        let mut flipped = tar.clone();
        flipped[at] ^= 1;
        let error = refused(verify(&flipped, &signature, &keyring), "signature-bad")?;
        assert!(error.to_string().contains(&key.fingerprint()), "{error}");
    }
    Ok(())
}

fn other_lengths() -> Outcome {
    let key = TestKey::new();
    // Sizes at which a reader's last piece is short, whole or absent.
    for size in [
        0,
        1,
        511,
        4096,
        32 << 10,
        (1 << 20) - 1,
        1 << 20,
        (1 << 20) + 1,
    ] {
        let tar = vec![b'x'; size];
        let signature = key.sign_detached(&tar[..]);
        let keyring = keyring(&[&key])?;
        // Signed well, but no kernel: the signature passes and the identity does not.
        let error = verify(&tar, &signature, &keyring).unwrap_err();
        assert!(error.code().starts_with("tar-"), "{size}: {error}");
        let longer = [&tar[..], b"\0"].concat();
        refused(verify(&longer, &signature, &keyring), "signature-bad")?;
        if let Some(shorter) = tar.len().checked_sub(1) {
            refused(
                verify(&tar[..shorter], &signature, &keyring),
                "signature-bad",
            )?;
        }
    }
    Ok(())
}

fn no_signature() -> Outcome {
    let key = TestKey::new();
    let tar = Tar::kernel(VERSION).bytes();
    let keyring = keyring(&[&key])?;
    let good = key.sign_detached(&tar[..]);
    let text = String::from_utf8(good.clone())?;
    let page = "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n";
    let lines: Vec<&str> = text.lines().collect();
    let hollow = [lines[0], "", lines[lines.len() - 1], ""].join("\n");
    let cases: [(&str, Vec<u8>, &str); 11] = [
        ("empty", Vec::new(), "signature-empty"),
        ("blank", b"\n\n".to_vec(), "signature-empty"),
        ("page", page.into(), "signature-is-web-page"),
        ("text", b"Not Found\n".to_vec(), "signature-unreadable"),
        (
            "cut armor",
            good[..good.len() / 2].to_vec(),
            "signature-truncated",
        ),
        ("no packet", hollow.into(), "signature-missing"),
        (
            "junk after",
            [&good[..], b"junk\n"].concat(),
            "signature-unreadable",
        ),
        (
            "junk before",
            [b"junk\n", &good[..]].concat(),
            "signature-unreadable",
        ),
        (
            "certificate",
            key.armored_cert().into(),
            "signature-unreadable",
        ),
        (
            "signed text",
            key.cleartext_sign("x\n"),
            "signature-unreadable",
        ),
        ("binary noise", vec![0xff; 300], "signature-malformed"),
    ];
    for (what, bytes, code) in cases {
        refused(verify(&tar, &bytes, &keyring), code).map_err(|stop| within(what, stop))?;
    }
    // The same packets without armor are as good, and cut they are not.
    let binary = dearmored(&good)?;
    verify(&tar, &binary, &keyring)?;
    for cut in [1, 2, 10, binary.len() / 2, binary.len() - 1] {
        let result = verify(&tar, &binary[..cut], &keyring);
        let error = result.expect_err("a cut signature was accepted");
        assert_eq!(error.exit(), Exit::NotVerified, "{cut}: {error}");
    }
    Ok(())
}

fn within(what: &str, stop: Stop) -> Stop {
    match stop {
        Stop::Fail(text) => fail(format!("{what}: {text}")),
        skip @ Stop::Skip(_) => skip,
    }
}

fn dearmored(armored: &[u8]) -> Result<Vec<u8>, Stop> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let mode = sequoia_openpgp::armor::ReaderMode::Tolerant(None);
    sequoia_openpgp::armor::Reader::from_reader(armored, mode).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unpinned() -> Outcome {
    let (pinned, other) = (TestKey::new(), TestKey::new());
    let tar = Tar::kernel(VERSION).bytes();
    let keyring = keyring(&[&pinned])?;
    let error = refused(
        verify(&tar, &other.sign_detached(&tar[..]), &keyring),
        "signer-not-pinned",
    )?;
    assert_eq!(
        error.to_string(),
        format!(
            "the signature on `linux-6.18.40.tar` was made by {}, which is not pinned; pinned: {}",
            other.fingerprint(),
            pinned.fingerprint()
        )
    );
    // A signature by the right person over other bytes, claimed for these.
    let signature = pinned.sign_detached(&b"other"[..]);
    refused(verify(&tar, &signature, &keyring), "signature-bad")?;
    Ok(())
}

fn validity() -> Outcome {
    let tar = Tar::kernel(VERSION).bytes();
    let judge = |key: &TestKey, at: u64| -> Result<_, Stop> {
        let how = Use {
            at,
            ..Use::default()
        };
        let signature = key.sign_detached_as(&tar[..], how);
        Ok(verify(&tar, &signature, &keyring(&[key])?))
    };
    // Expired today, but not when it signed.
    let expired = TestKey::build().expires(SIGNED + DAY).make();
    judge(&expired, SIGNED)??;
    let error = refused(judge(&expired, SIGNED + 2 * DAY)?, "key-expired")?;
    assert!(
        error.to_string().contains("2024-01-02T00:00:00Z"),
        "{error}"
    );
    // Made before the key.
    let young = TestKey::build().created(SIGNED).make();
    judge(&young, SIGNED)??;
    refused(judge(&young, SIGNED - DAY)?, "key-not-yet-valid")?;
    let unborn = TestKey::build().created(FUTURE).make();
    refused(judge(&unborn, SIGNED)?, "key-not-yet-valid")?;
    // A time that has not come.
    refused(judge(&TestKey::new(), FUTURE)?, "signature-from-future")?;
    Ok(())
}

fn revocation() -> Outcome {
    let tar = Tar::kernel(VERSION).bytes();
    let judge = |how, revoked_at: u64| -> Result<_, Stop> {
        let key = TestKey::build().revoked(how, revoked_at).make();
        let signature = key.sign_detached(&tar[..]);
        Ok(verify(&tar, &signature, &keyring(&[&key])?))
    };
    // Retired later: what it signed before still counts. Compromised: nothing does.
    judge(Revoked::Soft, SIGNED + DAY)??;
    refused(judge(Revoked::Soft, SIGNED - DAY)?, "key-revoked-soft")?;
    let error = refused(judge(Revoked::Hard, SIGNED + DAY)?, "key-revoked-hard")?;
    assert!(error.to_string().contains("made for a test"), "{error}");
    refused(judge(Revoked::Hard, SIGNED - DAY)?, "key-revoked-hard")?;
    Ok(())
}

fn sha1() -> Outcome {
    use sequoia_openpgp::types::SignatureType;
    let tar = Tar::kernel(VERSION).bytes();
    let judge = |key: &TestKey, hash| -> Result<_, Stop> {
        let how = Use {
            hash,
            ..Use::default()
        };
        let signature = key.sign_detached_as(&tar[..], how);
        Ok(verify(&tar, &signature, &keyring(&[key])?))
    };
    let primary = TestKey::build()
        .self_signature(SignatureType::PositiveCertification, Hash::SHA1)
        .make();
    judge(&primary, Hash::SHA512)??;
    let error = refused(judge(&primary, Hash::SHA1)?, "signature-weak-hash")?;
    assert!(error.to_string().contains("SHA1"), "{error}");
    refused(judge(&TestKey::new(), Hash::SHA1)?, "signature-weak-hash")?;
    for (binding, answer) in [(Hash::SHA1, Hash::SHA512), (Hash::SHA512, Hash::SHA1)] {
        let subkey = TestKey::build().signing_subkey(binding, answer).make();
        refused(judge(&subkey, Hash::SHA512)?, "key-weak-binding")?;
    }
    Ok(())
}

fn several() -> Outcome {
    let (one, two, foreign) = (TestKey::new(), TestKey::new(), TestKey::new());
    let tar = Tar::kernel(VERSION).bytes();
    let keyring = keyring(&[&one, &two])?;
    let sign = |key: &TestKey, data: &[u8]| key.signature(data, Use::default());
    let ours = sign(&one, &tar);
    // Two good ones, in one block and in two.
    let pair = armor(&[ours.clone(), sign(&two, &tar)]);
    verify(&tar, &pair, &keyring)?;
    let blocks = [one.sign_detached(&tar[..]), two.sign_detached(&tar[..])].concat();
    verify(&tar, &blocks, &keyring)?;
    // One by someone else is set aside, good or not, and noted.
    for other in [sign(&foreign, &tar), sign(&foreign, b"x")] {
        let verified = verify(&tar, &armor(&[other, ours.clone()]), &keyring)?;
        let Origin::Signature { signer, notes } = verified.origin() else {
            return Err(fail("not by signature"));
        };
        assert_eq!(signer.certificate.as_str(), one.fingerprint());
        assert!(notes[0].contains(&foreign.fingerprint()), "{notes:?}");
    }
    // One that names a pinned certificate and fails refuses the file.
    let bad = armor(&[ours.clone(), sign(&two, b"x")]);
    let error = refused(verify(&tar, &bad, &keyring), "signature-bad")?;
    assert!(error.to_string().contains(&two.fingerprint()), "{error}");
    let weak = Use {
        hash: Hash::SHA1,
        ..Use::default()
    };
    let mixed = armor(&[ours.clone(), one.signature(&tar[..], weak)]);
    refused(verify(&tar, &mixed, &keyring), "signature-weak-hash")?;
    // More than any honest file has.
    let many = armor(&vec![ours; 9]);
    refused(verify(&tar, &many, &keyring), "signature-malformed")?;
    Ok(())
}

fn wrong_release() -> Outcome {
    let key = TestKey::new();
    let keyring = keyring(&[&key])?;
    let old = Tar::kernel("6.18.39").bytes();
    let signature = key.sign_detached(&old[..]);
    verify_as(&old, &signature, &keyring, "6.18.39")?;
    refused(
        verify_as(&old, &signature, &keyring, VERSION),
        "wrong-release",
    )?;
    // What armor says of itself is not signed: it neither makes a release another nor a good one bad.
    let text = String::from_utf8(signature)?;
    let comment = format!("SIGNATURE-----\nComment: This signature is for linux-{VERSION}.tar\n");
    let claimed = text.replacen("SIGNATURE-----\n", &comment, 1);
    assert_ne!(claimed, text);
    refused(
        verify_as(&old, claimed.as_bytes(), &keyring, VERSION),
        "wrong-release",
    )?;
    verify_as(&old, claimed.as_bytes(), &keyring, "6.18.39")?;
    Ok(())
}

/// kernel.org's own certificate and signature; the data is not at hand, so the reason must be the
/// digest and nothing that stands before it.
fn real() -> Outcome {
    let repository = tree::repository();
    let signature = std::fs::read(repository.join("tests/data/linux-7.2.8.tar.sign"))?;
    let greg = "647F28654894E3BD457199BE38DBBDC86092693E";
    let keyring = Keyring::load(&repository.join("keys"), &[greg.parse()?])?;
    let tar = Tar::kernel("7.2.8").bytes();
    let error = refused(
        verify_as(&tar, &signature, &keyring, "7.2.8"),
        "signature-bad",
    )?;
    assert_eq!(
        error.to_string(),
        format!(
            "the signature on `linux-7.2.8.tar` by {greg}, made 2026-09-25T14:40:25Z, does not \
             match the data: these are not the bytes that were signed; pinned: {greg}"
        )
    );
    // With another maintainer pinned, the same file is told apart as unpinned.
    let linus = "ABAF11C65A2970B130ABE3C479BE3E4300411886";
    let keyring = Keyring::load(&repository.join("keys"), &[linus.parse()?])?;
    let error = refused(
        verify_as(&tar, &signature, &keyring, "7.2.8"),
        "signer-not-pinned",
    )?;
    assert!(error.to_string().contains(greg), "{error}");
    Ok(())
}

fn signed_text() -> Outcome {
    let key = TestKey::new();
    let keyring = keyring(&[&key])?;
    let text = "0123  linux-6.18.40.tar.xz\n- dashes\n";
    let good = key.cleartext_sign(text);
    let read = |bytes: &[u8]| signature::verify_text(bytes, "sha256sums.asc", &keyring);
    let verified = read(&good)?;
    assert_eq!(verified.text().trim_end(), text.trim_end());
    assert_eq!(verified.signer().certificate.as_str(), key.fingerprint());
    let code = |bytes: &[u8]| match read(bytes) {
        Ok(_) => "accepted",
        Err(error) => error.code(),
    };
    let changed = String::from_utf8(good.clone())?.replace("0123", "0124");
    assert_eq!(code(changed.as_bytes()), "signature-bad");
    let other = TestKey::new().cleartext_sign(text);
    assert_eq!(code(&other), "signer-not-pinned");
    assert_eq!(code(text.as_bytes()), "signature-unreadable");
    assert_eq!(code(b""), "signature-empty");
    assert_eq!(code(b"<html></html>"), "signature-is-web-page");
    for cut in [50, good.len() / 2, good.len() - 10] {
        assert_eq!(code(&good[..cut]), "signature-truncated", "{cut}");
    }
    // Lines outside of what was signed would look signed to a careless reader.
    let before = [b"0124  linux-6.18.41.tar.xz\n", &good[..]].concat();
    assert_eq!(code(&before), "signature-unreadable");
    let after = [&good[..], b"0124  linux-6.18.41.tar.xz\n"].concat();
    assert_eq!(code(&after), "signature-unreadable");
    let twice = [&good[..], &good[..]].concat();
    assert_eq!(code(&twice), "signature-unreadable");
    // Only `Hash:` may stand between the first line and the text.
    let hidden = String::from_utf8(good)?.replacen("MESSAGE-----\n", "MESSAGE-----\n0124  x\n", 1);
    assert_eq!(code(hidden.as_bytes()), "signature-unreadable");
    Ok(())
}

/// A fixed sequence of changes: a byte replaced, a piece cut out, a piece doubled. What is left
/// either says the same as before or is refused; nothing panics.
fn fuzz() -> Outcome {
    let key = TestKey::new();
    let keyring = keyring(&[&key])?;
    let tar = Tar::kernel(VERSION).bytes();
    let armored = key.sign_detached(&tar[..]);
    let binary = dearmored(&armored)?;
    let mut random = Random(CREATED);
    let mut refused = 0;
    for (good, rounds) in [(&armored, 1500), (&binary, 1500)] {
        for _ in 0..rounds {
            let mut bytes = good.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(bytes.len());
                let length = random.below(bytes.len() - at).min(9);
                match random.below(3) {
                    0 => bytes[at] = random.byte(),
                    1 => drop(bytes.drain(at..at + length)),
                    _ => {
                        let piece = bytes[at..at + length].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            match verify(&tar, &bytes, &keyring) {
                Ok(verified) => assert_eq!(verified.source_date_epoch(), SIGNED.cast_signed()),
                Err(error) => {
                    assert_eq!(error.exit(), Exit::NotVerified, "{error}");
                    refused += 1;
                }
            }
        }
    }
    // Changes of armor headers and of unsigned parts change nothing; most others do.
    assert!(refused > 1500, "only {refused} of 3000 were refused");
    Ok(())
}

/// xorshift64*: a fixed sequence is enough to find a panic again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 => 0,
            _ => usize::try_from(self.next() >> 33).unwrap() % limit,
        }
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}
