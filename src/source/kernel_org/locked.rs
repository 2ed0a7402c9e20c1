//! What a lock says of a release, and how what is served may differ.

use crate::proof::lock;

/// What a lock says of a release of kernel.org.
#[derive(Debug, Clone, Copy)]
pub struct LockedRelease<'a> {
    /// The compressed archive.
    pub xz: &'a lock::Blob,
    /// The tar.
    pub tar: &'a lock::Blob,
    /// Who signed it, and when.
    pub signature: &'a lock::Signature,
    /// Whether a signed list of checksums agreed.
    pub checksums: bool,
}

impl<'a> LockedRelease<'a> {
    /// The release in a lock's source, if it is one of kernel.org's.
    pub fn of(source: &'a lock::Source) -> Option<Self> {
        match source {
            lock::Source::KernelOrg {
                xz,
                tar,
                signature,
                checksums,
                path: _,
            } => Some(Self {
                xz,
                tar,
                signature,
                checksums: *checksums,
            }),
            lock::Source::Debian { .. } => None,
        }
    }
}

/// A release that was signed anew since it was locked. After the loss of a key kernel.org's
/// developers re-sign all they had signed with it, so this is no attack by itself; the tar is the
/// same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resigned {
    /// The locked signature.
    pub locked: lock::Signature,
    /// The one that is served now.
    pub served: lock::Signature,
}

impl std::fmt::Display for Resigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let when = |signature: &lock::Signature| {
            jiff::Timestamp::from_second(signature.made)
                .map_or_else(|_| signature.made.to_string(), |time| time.to_string())
        };
        write!(
            f,
            "the release was signed anew: the lock has the signature by {} of {}, served is one by \
             {} of {}; the tar is the same",
            self.locked.signer,
            when(&self.locked),
            self.served.signer,
            when(&self.served)
        )
    }
}
