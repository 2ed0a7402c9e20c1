//! The smallest part of a list that still shows a difference.

use super::small::Small;
use crate::support::Stop;

/// How often a difference may be asked for again.
const MOST: usize = 400;

/// Takes out of `lines` all that `differs` does not need: no single line of what is left can go,
/// unless the questions ran out.
pub fn minimise<'a>(
    lines: &[&'a str],
    mut differs: impl FnMut(&[&'a str]) -> Result<bool, Stop>,
) -> Result<Vec<&'a str>, Stop> {
    let mut kept = lines.to_vec();
    let mut size = kept.len();
    let mut asked = 0;
    while size > 0 {
        let mut from = 0;
        while from < kept.len() && asked < MOST {
            let without: Vec<&str> = kept[..from]
                .iter()
                .chain(&kept[(from + size).min(kept.len())..])
                .copied()
                .collect();
            asked += 1;
            if differs(&without)? {
                kept = without;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    Ok(kept)
}

/// Makes the files smaller as long as the two differ.
pub fn smallest(
    mut small: Small,
    mut differs: impl FnMut(&Small) -> Result<bool, Stop>,
) -> Result<Small, Stop> {
    let mut asked = 0;
    'again: while asked < 3000 {
        for smaller in small.smaller() {
            asked += 1;
            if differs(&smaller)? {
                small = smaller;
                continue 'again;
            }
        }
        break;
    }
    Ok(small)
}
