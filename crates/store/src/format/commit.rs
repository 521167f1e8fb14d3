//! Commits: the changes that one write and one sync make durable.

use super::{overwrite_at, u32_at, u64_at};

/// Octets of an encoded [`CommitHeader`].
pub(crate) const COMMIT_HEADER_BYTES: usize = 40;

/// Octets of a group's header: its length and its [`GroupTag`].
pub(crate) const GROUP_HEADER_BYTES: usize = 5;

/// The header at the start of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitHeader {
    /// Number of this commit. Ascends along the journal, with gaps where a write failed.
    pub commit: u64,
    /// Number of the last durable commit before this one. Commits with numbers between the two are
    /// invalid.
    pub previous: u64,
    /// Number of the first numbered group in the commit; its other groups have the numbers that
    /// follow.
    pub first: u64,
    /// Number of the oldest segment that is still needed.
    pub oldest: u64,
    /// Length of the commit, this header included. Unit: octets.
    pub octets: u32,
    /// How many numbered groups the commit has ([`GroupTag::Changes`]).
    pub groups: u32,
}

impl CommitHeader {
    pub(crate) fn encode(&self) -> [u8; COMMIT_HEADER_BYTES] {
        let mut octets = [0; COMMIT_HEADER_BYTES];
        let words = [self.commit, self.previous, self.first, self.oldest];
        let tail = u64::from(self.octets) | (u64::from(self.groups) << 32);
        for (field, word) in octets.chunks_exact_mut(8).zip(words.into_iter().chain([tail])) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        octets
    }

    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        Some(Self {
            commit: u64_at(octets, 0)?,
            previous: u64_at(octets, 8)?,
            first: u64_at(octets, 16)?,
            oldest: u64_at(octets, 24)?,
            octets: u32_at(octets, 32)?,
            groups: u32_at(octets, 36)?,
        })
    }

    /// Returns the number of the last group in this commit, or before it if it has none.
    pub(crate) const fn last(&self) -> u64 {
        (self.first + self.groups as u64).saturating_sub(1)
    }
}

/// The kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupTag {
    /// Changes that were appended together; the group has a number.
    Changes = 1,
    /// Records that compaction copied; the group has no number.
    Copies = 2,
}

/// Appends a group's header, then the changes that `push` appends.
pub(crate) fn push_group(out: &mut Vec<u8>, tag: GroupTag, push: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; GROUP_HEADER_BYTES - 1]);
    out.push(tag as u8);
    push(out);
    let len = u32::try_from(out.len() - at - GROUP_HEADER_BYTES).unwrap_or(u32::MAX);
    overwrite_at(out, at, &len.to_le_bytes());
}
