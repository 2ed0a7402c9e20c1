//! The store under bad luck: whatever happened to an object, it is never handed out as sound.

mod verbs;

use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::store::{Store, StoreError};

use crate::support::{Case, Env, Outcome, Stop};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("store::sound_object_comes_back", sound_object_comes_back),
        Case::new(
            "store::every_flipped_bit_is_found",
            every_flipped_bit_is_found,
        ),
        Case::new(
            "store::cut_grown_and_swapped_objects_are_found",
            cut_grown_and_swapped,
        ),
        Case::new(
            "store::dropped_stage_leaves_nothing",
            dropped_stage_leaves_nothing,
        ),
        Case::new("store::storing_again_heals", storing_again_heals),
        Case::new(
            "store::writers_of_one_object_agree",
            writers_of_one_object_agree,
        ),
    ];
    cases.extend(verbs::cases());
    cases
}

const OBJECT: &[u8] = b"an object of the store, long enough to cut";

fn store(env: &Env) -> Result<Store, Stop> {
    Ok(Store::open(&env.path("store"))?)
}

fn sound_object_comes_back() -> Outcome {
    let env = Env::new()?;
    let store = store(&env)?;
    for bytes in [OBJECT, b""] {
        let digest = store.put(bytes)?;
        let path = store.get(&digest)?.expect("it was put there");
        assert_eq!(std::fs::read(path)?, bytes);
    }
    assert_eq!(store.get(&Sha256::of(b"never stored"))?, None);
    Ok(())
}

fn must_be_damaged(store: &Store, digest: &Sha256, what: &str) {
    match store.get(digest) {
        Err(error @ StoreError::Damaged { .. }) => {
            assert_eq!(error.exit(), Exit::NotVerified);
            let text = error.to_string();
            assert!(
                text.contains(&digest.to_string()) && text.contains("found"),
                "{text}"
            );
            assert!(error.hints()[0].contains(store.path(digest).as_str()));
        }
        other => panic!("{what}: expected a damaged object, found {other:?}"),
    }
}

fn every_flipped_bit_is_found() -> Outcome {
    let env = Env::new()?;
    let store = store(&env)?;
    let digest = store.put(OBJECT)?;
    let path = store.path(&digest);
    for bit in 0..OBJECT.len() * 8 {
        let mut bytes = OBJECT.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bytes)?;
        must_be_damaged(&store, &digest, &format!("bit {bit}"));
    }
    std::fs::write(&path, OBJECT)?;
    assert!(store.get(&digest)?.is_some());
    Ok(())
}

fn cut_grown_and_swapped() -> Outcome {
    let env = Env::new()?;
    let store = store(&env)?;
    let digest = store.put(OBJECT)?;
    let other = store.put(b"another object")?;
    let path = store.path(&digest);
    for length in 0..OBJECT.len() {
        std::fs::write(&path, &OBJECT[..length])?;
        must_be_damaged(&store, &digest, &format!("cut to {length}"));
    }
    std::fs::write(&path, [OBJECT, b"\0"].concat())?;
    must_be_damaged(&store, &digest, "grown");
    std::fs::remove_file(&path)?;
    std::os::unix::fs::symlink(store.path(&other), &path)?;
    must_be_damaged(&store, &digest, "a link to another object");
    std::fs::remove_file(&path)?;
    std::fs::create_dir(&path)?;
    assert!(
        !matches!(store.get(&digest), Ok(Some(_))),
        "a directory is no object"
    );
    Ok(())
}

fn dropped_stage_leaves_nothing() -> Outcome {
    use std::io::Write as _;
    let env = Env::new()?;
    let store = store(&env)?;
    let before = env.listing()?;
    let mut staged = store.stage()?;
    staged.file().write_all(OBJECT)?;
    drop(staged);
    assert_eq!(env.listing()?, before);
    let mut staged = store.stage()?;
    staged.file().write_all(OBJECT)?;
    let path = store.keep(staged, &Sha256::of(OBJECT))?;
    assert_eq!(store.get(&Sha256::of(OBJECT))?, Some(path));
    Ok(())
}

fn storing_again_heals() -> Outcome {
    let env = Env::new()?;
    let store = store(&env)?;
    let digest = store.put(OBJECT)?;
    std::fs::write(store.path(&digest), "damaged")?;
    must_be_damaged(&store, &digest, "damaged");
    assert_eq!(store.put(OBJECT)?, digest);
    assert!(store.get(&digest)?.is_some());
    Ok(())
}

fn writers_of_one_object_agree() -> Outcome {
    let env = Env::new()?;
    let store = store(&env)?;
    let digest = Sha256::of(OBJECT);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    store
                        .put(OBJECT)
                        .expect("it can be put any number of times");
                    assert!(store.get(&digest).expect("never half").is_some());
                }
            });
        }
    });
    Ok(())
}
