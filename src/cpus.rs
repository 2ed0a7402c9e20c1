//! Sets of CPUs in the kernel's own spelling.
//!
//! Lists (`0-3,8`, `0-31:2/4`) are what `cpulist` files, `cpuset.cpus` and boot parameters hold; see
//! "cpu lists" in the kernel's `admin-guide/kernel-parameters.rst`. Masks (`00000000,00070007`) are what
//! older kernels have in places where newer ones have lists too.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::kernel::serde_as_text;

/// CPU numbers are below this: the most that x86 can be configured for (`NR_CPUS` under `MAXSMP`).
pub const LIMIT: u16 = 8192;

/// Why a text is not a set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a list of CPUs: {why}")]
pub struct CpuError {
    found: String,
    why: String,
}

/// A set of logical CPUs, by the kernel's numbers. Written as the kernel writes it: ranges in
/// ascending order, nothing for the empty set.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(BTreeSet<u16>);

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Reads a mask: groups of up to eight hexadecimal digits, the highest CPUs first.
    ///
    /// # Errors
    /// Fails on anything else, and on a CPU from [`LIMIT`] on.
    pub fn from_mask(text: &str) -> Result<Self, CpuError> {
        let wrong = |why: &str| CpuError {
            found: text.to_owned(),
            why: why.to_owned(),
        };
        let groups: Vec<&str> = text.trim().split(',').collect();
        let mut cpus = BTreeSet::new();
        for (at, group) in groups.iter().rev().enumerate() {
            let digits = !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u32::from_str_radix(group, 16);
            let (true, Ok(bits)) = (digits, bits) else {
                return Err(wrong(
                    "expected groups of up to 8 hexadecimal digits, set apart by commas",
                ));
            };
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = u16::try_from(at * 32 + bit).ok();
                let cpu = cpu.filter(|cpu| *cpu < LIMIT);
                cpus.insert(cpu.ok_or_else(|| wrong("a CPU from 8192 on"))?);
            }
        }
        Ok(Self(cpus))
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `cpu` is in it.
    pub fn contains(&self, cpu: u16) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<u16> {
        self.0.first().copied()
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: u16) {
        self.0.insert(cpu);
    }

    /// The CPUs of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// The CPUs of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs of this one that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether they share no CPU.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// Whether every CPU of this one is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u16> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl<'a> FromIterator<&'a Self> for CpuSet {
    /// The CPUs of all of them.
    fn from_iter<I: IntoIterator<Item = &'a Self>>(sets: I) -> Self {
        Self(sets.into_iter().flat_map(Self::iter).collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = CpuError;

    /// Reads a list. The words `N` and `all` are refused: what they stand for depends on a machine.
    fn from_str(text: &str) -> Result<Self, CpuError> {
        let mut cpus = BTreeSet::new();
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        for region in text.split(',') {
            let read = add_region(region, &mut cpus);
            read.map_err(|why| CpuError {
                found: text.to_owned(),
                why,
            })?;
        }
        Ok(Self(cpus))
    }
}

serde_as_text!(CpuSet);

/// Adds what one region stands for: `5`, `2-7`, or `0-31:2/4`, the first two of every four.
fn add_region(region: &str, cpus: &mut BTreeSet<u16>) -> Result<(), String> {
    let (range, stride) = match region.split_once(':') {
        None => (region, None),
        Some((range, stride)) => (range, Some(stride)),
    };
    let (first, last) = match range.split_once('-') {
        None if stride.is_some() => {
            return Err(format!("`{region}` has a stride and no range"));
        }
        None => (cpu(range)?, cpu(range)?),
        Some((first, last)) => (cpu(first)?, cpu(last)?),
    };
    if first > last {
        return Err(format!("the range `{range}` runs backwards"));
    }
    let (used, group) = match stride {
        None => (1, 1),
        Some(stride) => stride
            .split_once('/')
            .and_then(|(used, group)| Some((number(used)?, number(group)?)))
            .filter(|(used, group)| (1..=*group).contains(used))
            .ok_or_else(|| format!("expected `USED/GROUP` with USED <= GROUP, found `{stride}`"))?,
    };
    cpus.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
    Ok(())
}

/// One CPU number.
fn cpu(text: &str) -> Result<u16, String> {
    number(text)
        .filter(|cpu| *cpu < LIMIT)
        .ok_or_else(|| format!("expected a CPU number below {LIMIT}, found `{text}`"))
}

/// Decimal digits and nothing else.
fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, cpus, written) in [
            ("", vec![], ""),
            ("\n", vec![], ""),
            ("0", vec![0], "0"),
            ("0-3,8\n", vec![0, 1, 2, 3, 8], "0-3,8"),
            ("8,0-1,1", vec![0, 1, 8], "0-1,8"),
            (
                "0-31:2/8",
                vec![0, 1, 8, 9, 16, 17, 24, 25],
                "0-1,8-9,16-17,24-25",
            ),
            ("1-7:1/3", vec![1, 4, 7], "1,4,7"),
            ("4-6:3/3", vec![4, 5, 6], "4-6"),
            ("8191", vec![8191], "8191"),
        ] {
            assert_eq!(list(text), cpus.into_iter().collect(), "{text:?}");
            assert_eq!(list(text).to_string(), written);
        }
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_reason() {
        for (text, why) in [
            ("3-1", "backwards"),
            ("8192", "below 8192"),
            ("99999999999999999999", "below 8192"),
            ("-1", "found ``"),
            ("1-", "found ``"),
            ("1,,2", "found ``"),
            ("a", "found `a`"),
            ("+1", "found `+1`"),
            ("0x1", "found `0x1`"),
            ("N", "found `N`"),
            ("all", "found `all`"),
            ("1:1/2", "no range"),
            ("0-3:0/2", "USED <= GROUP"),
            ("0-3:3/2", "USED <= GROUP"),
            ("0-3:1/0", "USED <= GROUP"),
            ("0-3:1", "USED/GROUP"),
            ("1 2", "found `1 2`"),
            ("\u{0661}", "found `\u{0661}`"),
        ] {
            let error = text.parse::<CpuSet>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn masks_are_read_from_the_right() {
        let mask = |text: &str| CpuSet::from_mask(text).map(|cpus| cpus.to_string());
        assert_eq!(mask("00000000,00070000,00000007").unwrap(), "0-2,48-50");
        assert_eq!(mask("ff\n").unwrap(), "0-7");
        assert_eq!(mask("0").unwrap(), "");
        assert_eq!(mask("1,00000000").unwrap(), "32");
        for bad in ["", ",", "g", "123456789", "+1", "-1", "0x1"] {
            assert!(mask(bad).is_err(), "{bad:?}");
        }
        let far = format!("1{}", ",0".repeat(256));
        assert!(mask(&far).unwrap_err().to_string().contains("8192"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(cpus in proptest::collection::btree_set(0..LIMIT, 0..200)) {
            let set = CpuSet(cpus);
            prop_assert_eq!(&list(&set.to_string()), &set);
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<CpuSet>(&json).unwrap(), set);
        }

        #[test]
        fn written_lists_are_shortest(cpus in proptest::collection::btree_set(0..60u16, 0..60)) {
            // Ranges neither touch nor overlap, and none is one CPU written twice.
            let text = CpuSet(cpus).to_string();
            let ends: Vec<u16> = text
                .split(',')
                .filter(|region| !region.is_empty())
                .flat_map(|region| {
                    let (first, last) = region.split_once('-').unwrap_or((region, region));
                    [first.parse::<u16>().unwrap(), last.parse::<u16>().unwrap()]
                })
                .collect();
            for pair in ends[..].windows(2).skip(1).step_by(2) {
                prop_assert!(pair[0] + 1 < pair[1], "{}", text);
            }
        }

        #[test]
        fn strides_keep_the_first_of_every_group(
            first in 0..200u16, length in 0..200u16, group in 1..40u16, used in 1..40u16
        ) {
            let used = used.min(group);
            let set = list(&format!("{first}-{}:{used}/{group}", first + length));
            let wanted = (first..=first + length).filter(|cpu| (cpu - first) % group < used);
            prop_assert_eq!(set, wanted.collect());
        }

        #[test]
        fn no_text_breaks_the_reader(text in "[0-9a-fN,:/ -]{0,24}|.{0,12}") {
            drop(text.parse::<CpuSet>());
            drop(CpuSet::from_mask(&text));
        }

        #[test]
        fn parts_make_up_the_whole(
            a in proptest::collection::btree_set(0..64u16, 0..64),
            b in proptest::collection::btree_set(0..64u16, 0..64)
        ) {
            let (a, b) = (CpuSet(a), CpuSet(b));
            let (both, only) = (a.intersection(&b), a.difference(&b));
            prop_assert!(both.is_disjoint(&only));
            prop_assert!(both.is_subset(&b));
            prop_assert_eq!(both.union(&only), a);
        }
    }
}
