//! The node's own key, which signs what it saw. It is made with the gate, and stays when that goes.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;

use super::error::BootError;
use super::place::Place;
use crate::files;
use crate::proof::envelope::Envelope;
use crate::proof::key::{PrivateKey, PublicKey};

/// Makes the key where there is none; its public half, for the fleet's `roles.yaml`.
///
/// # Errors
/// Where it cannot be made or read.
pub fn ensure(place: &Place) -> Result<PublicKey, BootError> {
    let path = place.key();
    if !path.exists() {
        let mut seed = [0; 32];
        let random = Utf8Path::new("/dev/urandom");
        std::fs::File::open(random)
            .and_then(|mut file| file.read_exact(&mut seed))
            .map_err(BootError::io("read", random))?;
        let key = PrivateKey::from_seed(&seed);
        files::write_secret(&path, key.to_pem().as_bytes())?;
    }
    Ok(read(place)?.public())
}

fn read(place: &Place) -> Result<PrivateKey, BootError> {
    let path = place.key();
    let odd =
        |what: &str| BootError::io("use the key", &path)(std::io::Error::other(what.to_owned()));
    let data = std::fs::metadata(&path).map_err(BootError::io("read", &path))?;
    if data.mode() & 0o7777 != 0o600 {
        return Err(odd("others may read it: expected mode 0600"));
    }
    let text = files::read_text(&path, 4096)?;
    PrivateKey::from_pem(&text).map_err(|error| odd(&error.to_string()))
}

/// Signs a statement by the node's key; the key's id, or why it stays unsigned.
///
/// A record that is not signed is better than none: the outcome must not wait for a key.
pub(super) fn sign(place: &Place, envelope: &mut Envelope) -> Result<String, String> {
    let mut signed = || {
        let key = read(place).map_err(|error| crate::failure::in_one_line(&error))?;
        let message = envelope.to_sign().map_err(|error| error.to_string())?;
        let public = key.public();
        envelope.add(&public, &key.sign(&message));
        Ok(public.id().to_string())
    };
    signed()
}
