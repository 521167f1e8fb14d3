//! Sets of CPUs, in the list format of the Linux kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Upper bound of CPU indexes (exclusive), the maximum of Linux on x86-64.
pub const CPUS_MAX: u32 = 8192;

/// A set of CPUs by their index in the kernel. Text and JSON: the kernel's list format, such as
/// `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// The text that is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSetError {
    text: String,
}

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not a list of CPUs below {CPUS_MAX}, such as 0-3,8", self.text)
    }
}

impl std::error::Error for CpuSetError {}

impl CpuSet {
    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the set has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `cpu` belongs to the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the smallest CPU index.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns the CPUs of this set that `other` lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Formats the set as the kernel's mask: hexadecimal words of 32 CPUs, the highest first.
    /// `cpus`: the number of bits in the kernel's mask.
    #[must_use]
    pub fn to_mask(&self, cpus: usize) -> String {
        let mut words = vec![0u32; cpus.div_ceil(32).max(1)];
        for cpu in self.iter() {
            if let Some(word) = words.get_mut((cpu / 32) as usize) {
                *word |= 1 << (cpu % 32);
            }
        }
        let shown: Vec<_> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
        shown.join(",")
    }

    /// Parses the kernel's mask format.
    ///
    /// # Errors
    /// The text is no such mask.
    pub fn from_mask(text: &str) -> Result<Self, CpuSetError> {
        let refused = || CpuSetError { text: text.trim().to_owned() };
        let mut set = Self::default();
        for (index, word) in (0u32..).zip(text.trim().rsplit(',')) {
            let bits = u32::from_str_radix(word, 16).map_err(|_| refused())?;
            if index >= CPUS_MAX / 32 {
                return Err(refused());
            }
            let cpus = (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit);
            set.0.extend(cpus);
        }
        Ok(set)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let refused = || CpuSetError { text: text.trim().to_owned() };
        let number = |part: &str| -> Result<u32, CpuSetError> {
            let is_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let cpu: u32 = part.parse().map_err(|_| refused())?;
            if is_digits && cpu < CPUS_MAX { Ok(cpu) } else { Err(refused()) }
        };
        let mut set = Self::default();
        for part in text.trim().split(',').map(str::trim) {
            if part.is_empty() && text.trim().is_empty() {
                break;
            }
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(refused());
            }
            set.0.extend(first..=last);
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match first == last {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;

    fn try_from(text: String) -> Result<Self, CpuSetError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_of_the_kernel_is_read_and_written() {
        let set: CpuSet = "0-3,8,10-11\n".parse().unwrap();
        assert_eq!(set.len(), 7);
        assert_eq!(set.to_string(), "0-3,8,10-11");
        assert_eq!("".parse::<CpuSet>().unwrap(), CpuSet::default());
    }

    #[test]
    fn text_that_is_no_list_is_refused() {
        for text in ["x", "3-1", "1,,2", "-1", "+1", "0-99999", "8192", "0-4294967295", "1-2-3"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn mask_has_the_highest_word_first() {
        let set: CpuSet = "0,33".parse().unwrap();
        assert_eq!(set.to_mask(64), "00000002,00000001");
        assert_eq!(CpuSet::from_mask("00000002,00000001\n").unwrap(), set);
        assert_eq!(CpuSet::from_mask("f").unwrap(), "0-3".parse().unwrap());
        assert!(CpuSet::from_mask("zz").is_err());
    }

    proptest! {
        #[test]
        fn every_set_survives_text_and_mask(cpus in proptest::collection::btree_set(0..CPUS_MAX, 0..40)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(&set.to_string().parse::<CpuSet>().unwrap(), &set);
            prop_assert_eq!(&CpuSet::from_mask(&set.to_mask(CPUS_MAX as usize)).unwrap(), &set);
        }

        #[test]
        fn any_text_is_a_set_or_refused(text in ".{0,40}") {
            let _ = text.parse::<CpuSet>();
            let _ = CpuSet::from_mask(&text);
        }
    }
}
