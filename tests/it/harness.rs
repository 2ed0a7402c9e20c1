//! The test harness itself: a harness that cannot fail proves nothing.

use crate::support::{Case, case, env, redact};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = case::own_cases::cases();
    cases.extend(env::own_cases::cases());
    cases.extend(redact::own_cases::cases());
    cases
}
