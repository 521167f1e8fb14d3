//! A set of logical interfaces: one bit each.

use crate::InterfaceId;
use crate::limits::INTERFACES_MAX;

/// Logical interfaces, bit *n* standing for `InterfaceId(n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct InterfaceSet(pub u32);

const _: () = assert!(INTERFACES_MAX == 32, "one bit per interface");

impl InterfaceSet {
    /// No interface.
    pub const NONE: Self = Self(0);

    /// All interfaces that can exist.
    pub const ALL: Self = Self(u32::MAX);

    /// The set of one interface; empty for an identifier beyond `limits::INTERFACES_MAX`.
    #[inline]
    #[must_use]
    pub const fn only(id: InterfaceId) -> Self {
        match 1_u32.checked_shl(id.0 as u32) {
            Some(bit) => Self(bit),
            None => Self::NONE,
        }
    }

    /// This set and one more interface.
    #[must_use]
    pub const fn with(self, id: InterfaceId) -> Self {
        Self(self.0 | Self::only(id).0)
    }

    /// The interfaces that are in both sets.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The interfaces that are in either set.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The interface with the lowest identifier; `None` if the set is empty.
    #[inline]
    #[must_use]
    pub fn first(self) -> Option<InterfaceId> {
        (0..32).map(InterfaceId).find(|id| self.contains(*id))
    }

    /// True when the set has no interface.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when the set contains `id`.
    #[inline]
    #[must_use]
    pub const fn contains(self, id: InterfaceId) -> bool {
        self.intersects(Self::only(id))
    }

    /// True when the two sets have an interface in common.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl FromIterator<InterfaceId> for InterfaceSet {
    fn from_iter<T: IntoIterator<Item = InterfaceId>>(ids: T) -> Self {
        ids.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_what_was_added_and_nothing_beyond_the_limit() {
        let set = InterfaceSet::only(InterfaceId(0)).with(InterfaceId(31)).with(InterfaceId(32));
        assert_eq!(set, InterfaceSet(0x8000_0001));
        assert!(set.contains(InterfaceId(31)) && !set.contains(InterfaceId(30)));
        assert!(!InterfaceSet::ALL.contains(InterfaceId(200)));
    }
}
