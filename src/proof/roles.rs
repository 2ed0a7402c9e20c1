//! Who may sign what: public keys with a role, a name and the days on which they count.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::key::PublicKey;
use crate::digest::Sha256;

/// What a key may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What a build produced: manifests and provenance.
    Builder,
    /// That a build was reproduced.
    Rebuilder,
    /// What the channel `canary` offers.
    Canary,
    /// What the channel `fleet` offers.
    Fleet,
    /// That a person agrees.
    Approver,
    /// What a node saw.
    Node,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Builder,
        Self::Rebuilder,
        Self::Canary,
        Self::Fleet,
        Self::Approver,
        Self::Node,
    ];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builder => "builder",
            Self::Rebuilder => "rebuilder",
            Self::Canary => "canary",
            Self::Fleet => "fleet",
            Self::Approver => "approver",
            Self::Node => "node",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|role| role.as_str() == word);
        known.ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|role| role.as_str()).collect();
            format!("`{word}` is no role; there are {}", words.join(", "))
        })
    }
}

/// A key is no longer good, also for what it signed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// Since when.
    pub on: Date,
    /// Why.
    pub reason: String,
}

/// A key with its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// What it may say.
    pub role: Role,
    /// Who holds it.
    pub name: String,
    /// The key.
    pub key: PublicKey,
    /// The first day on which it counts (UTC).
    pub from: Date,
    /// The first day on which it no longer does.
    pub until: Option<Date>,
    /// Whether it was taken back.
    pub revoked: Option<Revocation>,
}

/// Why a signature by a key does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No one holds it.
    #[error("key {key} is not in the roles file")]
    Unknown {
        /// The key's id.
        key: Sha256,
    },
    /// It may say other things.
    #[error("key `{name}` has the role {is}, not {expected}")]
    Role {
        /// Its holder.
        name: String,
        /// Its role.
        is: Role,
        /// The role needed.
        expected: Role,
    },
    /// It counts later.
    #[error("key `{name}` counts from {from} on")]
    Early {
        /// Its holder.
        name: String,
        /// The first day.
        from: Date,
    },
    /// It no longer counts.
    #[error("key `{name}` counted until {until}")]
    Expired {
        /// Its holder.
        name: String,
        /// The first day on which it no longer did.
        until: Date,
    },
    /// It was taken back.
    #[error("key `{name}` was revoked on {on}: {reason}")]
    Revoked {
        /// Its holder.
        name: String,
        /// Since when.
        on: Date,
        /// Why.
        reason: String,
    },
}

impl Unfit {
    /// A stable, kebab-case word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "signer-unknown",
            Self::Role { .. } => "signer-role",
            Self::Early { .. } => "signer-early",
            Self::Expired { .. } => "signer-expired",
            Self::Revoked { .. } => "signer-revoked",
        }
    }
}

/// All keys of a workspace or a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// The keys, in the order of the file. No key is there twice, so nobody can vouch for oneself
    /// in another role.
    pub holders: Vec<Holder>,
}

impl Roles {
    /// The holder of a key.
    pub fn find(&self, key: &Sha256) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.key.id() == *key)
    }

    /// The holder of a key that counts for `role` on `today`.
    ///
    /// The day is the reader's, also for what was signed earlier: a statement like a manifest has no
    /// time in it, and one that has was dated by whoever held the key.
    pub fn judge(&self, key: &Sha256, role: Role, today: Date) -> Result<&Holder, Unfit> {
        let holder = self.find(key).ok_or(Unfit::Unknown { key: *key })?;
        let name = holder.name.clone();
        if let Some(Revocation { on, reason }) = &holder.revoked {
            let (on, reason) = (*on, reason.clone());
            return Err(Unfit::Revoked { name, on, reason });
        }
        if holder.role != role {
            let (is, expected) = (holder.role, role);
            return Err(Unfit::Role { name, is, expected });
        }
        if today < holder.from {
            let from = holder.from;
            return Err(Unfit::Early { name, from });
        }
        match holder.until {
            Some(until) if until <= today => Err(Unfit::Expired { name, until }),
            _ => Ok(holder),
        }
    }
}

#[cfg(test)]
pub(in crate::proof) mod tests {
    use super::*;
    use crate::proof::key::PrivateKey;

    pub(in crate::proof) fn holder(seed: u8, role: Role) -> Holder {
        Holder {
            role,
            name: format!("key-{seed}"),
            key: PrivateKey::from_seed(&[seed; 32]).public(),
            from: Date::constant(2026, 1, 1),
            until: None,
            revoked: None,
        }
    }

    #[test]
    fn a_key_counts_for_its_role_in_its_days() {
        let day = |day| Date::constant(2026, 6, day);
        let mut holder = holder(1, Role::Builder);
        (holder.from, holder.until) = (day(2), Some(day(4)));
        let id = holder.key.id();
        let mut roles = Roles {
            holders: vec![holder],
        };
        let said = |roles: &Roles, role, day| {
            let judged = roles.judge(&id, role, day);
            judged
                .map(|holder| holder.name.clone())
                .map_err(|e| e.to_string())
        };
        assert_eq!(said(&roles, Role::Builder, day(2)).unwrap(), "key-1");
        assert_eq!(said(&roles, Role::Builder, day(3)).unwrap(), "key-1");
        for (role, on, expected) in [
            (
                Role::Builder,
                day(1),
                "key `key-1` counts from 2026-06-02 on",
            ),
            (
                Role::Builder,
                day(4),
                "key `key-1` counted until 2026-06-04",
            ),
            (
                Role::Fleet,
                day(3),
                "key `key-1` has the role builder, not fleet",
            ),
        ] {
            assert_eq!(said(&roles, role, on).unwrap_err(), expected);
        }
        roles.holders[0].revoked = Some(Revocation {
            on: day(30),
            reason: "the disk was sold".to_owned(),
        });
        // Also before that day: whoever has the key can date what it signs.
        assert_eq!(
            said(&roles, Role::Builder, day(3)).unwrap_err(),
            "key `key-1` was revoked on 2026-06-30: the disk was sold"
        );
        let empty = Roles::default();
        let unknown = empty.judge(&id, Role::Builder, day(3));
        assert!(matches!(unknown, Err(Unfit::Unknown { .. })));
    }

    #[test]
    fn words_of_roles_read_back() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }
}
