//! `signers:` in `kiln.yaml`: what signs statements. Private keys are named here, never held.

use camino::Utf8PathBuf;
use serde::Deserialize;

use super::kinds;
use super::shape::{Field, Shape, optional, required};
use crate::digest::Fingerprint;
use crate::proof::key::PublicKey;

/// One signer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Signer {
    /// A private key in a file of PKCS #8 in PEM; `~/` is the home of who runs kiln.
    File(Utf8PathBuf),
    /// A program that signs, for keys that cannot be read.
    Command {
        /// The program and its arguments.
        run: Vec<String>,
        /// The public key of what it signs with.
        key: PublicKey,
    },
    /// An OpenPGP key that a running gpg-agent holds. It cannot sign statements.
    GpgAgent(Fingerprint),
}

static FORMS: [Field; 3] = [
    optional(
        "file",
        "a private key (PKCS #8 in PEM, mode 0600), outside of the repository; ~/ is your home",
        Shape::Text(&kinds::PATH),
    ),
    optional(
        "command",
        "a program that reads the bytes to sign on its standard input and writes the signature",
        Shape::Table(&[
            required(
                "run",
                "the program, by absolute path or by name, and its arguments",
                Shape::List {
                    item: &Shape::Text(&kinds::ARGUMENT),
                    least: 1,
                    distinct: false,
                },
            ),
            required(
                "key",
                "the public key of what it signs with",
                Shape::Text(&kinds::PUBLIC_KEY),
            ),
        ]),
    ),
    optional(
        "gpg-agent",
        "an OpenPGP key, for apt's InRelease only: it cannot sign statements",
        Shape::Text(&kinds::FINGERPRINT),
    ),
];

/// The list of signers.
pub(super) const SHAPE: Shape = Shape::List {
    item: &Shape::OneOf {
        words: &[],
        forms: &FORMS,
    },
    least: 0,
    distinct: true,
};
