//! The place of a group in the order of all groups of a name.

use core::fmt;

/// A group: the epoch of its holder, and its number within it. The default is the place before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupPosition {
    /// The fencing token of whoever wrote the group.
    pub epoch: u64,
    /// Its number among the groups of this epoch, from 1 on; there may be gaps.
    pub number: u64,
}

impl GroupPosition {
    /// Reads `epoch-number`, which is how servers order the entries of a stream.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (epoch, number) = core::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { epoch: epoch.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for GroupPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}
