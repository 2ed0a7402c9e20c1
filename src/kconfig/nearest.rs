//! The known word that a mistyped one was most likely meant to be.

/// The candidate with the least edit distance, where that is small enough to be a slip; the first
/// of equals.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters, at least one, at most three: past that a suggestion is a guess.
    let limit = (word.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // The distance is never less than the difference in length, and that is cheap to know.
        if candidate.len().abs_diff(word.len()) > limit {
            continue;
        }
        let distance = strsim::osa_distance(word, candidate);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let words = ["PREEMPT", "PREEMPT_RT", "HZ_1000", "NO_HZ_FULL"];
        let find = |word| nearest(word, words.iter().copied());
        assert_eq!(find("PREEMTP"), Some("PREEMPT"));
        assert_eq!(find("NO_HZ_FUL"), Some("NO_HZ_FULL"));
        assert_eq!(find("HZ_100O"), Some("HZ_1000"));
        assert_eq!(find("DRM_I915"), None);
        assert_eq!(find(""), None);
    }
}
