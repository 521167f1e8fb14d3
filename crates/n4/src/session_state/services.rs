//! Counts the sessions of each data network and slice.
//!
//! CP functions determine the names, so their number is bounded. A name that was counted once is
//! never removed, so that a session is always subtracted from the count to which it was added.

use std::collections::BTreeMap;

use adit_types::limits::SERVICES_COUNTED_MAX;

/// A data network and a slice; `None` for a part that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ServiceName {
    /// Data network name.
    pub dnn: Option<Box<str>>,
    /// Slice/Service Type.
    pub sst: Option<u8>,
    /// Slice Differentiator; 0xffffff for none.
    pub sd: Option<u32>,
}

/// How many sessions there are for each data network and slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceCounts {
    by_name: BTreeMap<ServiceName, u64>,
    /// How many sessions have names for which there was no room.
    others: u64,
}

impl ServiceCounts {
    /// Returns the names with the most sessions and their counts, in descending order; at most
    /// `max`.
    #[must_use]
    pub fn largest(&self, max: usize) -> Vec<(&ServiceName, u64)> {
        let counts = self.by_name.iter().filter(|(_, count)| **count > 0);
        let mut counts: Vec<_> = counts.map(|(name, count)| (name, *count)).collect();
        counts.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        counts.truncate(max);
        counts
    }

    /// Returns how many sessions have a data network or a slice.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_name.values().sum::<u64>() + self.others
    }

    /// Counts a session with this name.
    pub(super) fn add(&mut self, name: ServiceName) {
        if name == ServiceName::default() {
            return;
        }
        let has_room = self.by_name.len() < SERVICES_COUNTED_MAX;
        match self.by_name.get_mut(&name) {
            Some(count) => *count += 1,
            None if has_room => {
                self.by_name.insert(name, 1);
            }
            None => self.others += 1,
        }
    }

    /// Subtracts a session with this name.
    pub(super) fn subtract(&mut self, name: &ServiceName) {
        if *name == ServiceName::default() {
            return;
        }
        let count = self.by_name.get_mut(name).unwrap_or(&mut self.others);
        *count = count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(dnn: &str) -> ServiceName {
        ServiceName { dnn: Some(dnn.into()), ..ServiceName::default() }
    }

    #[test]
    fn sessions_are_counted_by_name_and_the_rest_together() {
        let mut counts = ServiceCounts::default();
        for n in 0..SERVICES_COUNTED_MAX {
            counts.add(named(&n.to_string()));
        }
        counts.add(named("7"));
        counts.add(named("late"));
        counts.add(ServiceName::default());
        let [(first, count)] = counts.largest(1)[..] else { panic!("a name") };
        assert_eq!((first.dnn.as_deref(), count), (Some("7"), 2));
        assert_eq!(counts.total(), SERVICES_COUNTED_MAX as u64 + 2);
        for name in ["late", "7", "7", "0"] {
            counts.subtract(&named(name));
        }
        counts.subtract(&ServiceName::default());
        assert_eq!((counts.total(), counts.others), (SERVICES_COUNTED_MAX as u64 - 2, 0));
        assert_eq!(counts.largest(usize::MAX).len(), SERVICES_COUNTED_MAX - 2);
        counts.add(named("7"));
        assert_eq!(
            counts.largest(usize::MAX).len(),
            SERVICES_COUNTED_MAX - 1,
            "its place was kept"
        );
    }
}
