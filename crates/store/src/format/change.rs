//! Change groups, and the changes in them, within a commit.
//!
//! The first octet of a change has the record's kind in bits 0 to 3; bit 6 is set if the identifier
//! is octets, bit 7 if the change removes the record. The identifier follows: 8 octets, or one
//! octet of length and the octets. A change that puts a record ends with the length of the value (4
//! octets) and the value.

use adit_types::limits::STORE_VALUE_BYTES_MAX;

use super::commit::{GROUP_HEADER_BYTES, GroupTag};
use super::{u32_at, u64_at};
use crate::record::{RecordId, RecordKey, RecordKind, StoreChange};

const ID_IS_OCTETS_BIT: u8 = 1 << 6;
const REMOVE_BIT: u8 = 1 << 7;

/// Returns how many octets [`encode_change`] writes for a change.
pub(crate) fn change_len(change: &StoreChange<'_>) -> usize {
    let id = match change.key.id {
        RecordId::Number(_) => 8,
        RecordId::Octets(octets) => 1 + octets.len(),
    };
    1 + id + change.value.map_or(0, |value| 4 + value.len())
}

/// Appends a change, encoded as in a commit of the journal. The caller has checked that the
/// identifier has at most 255 octets and the value fits its 4-octet length.
pub fn encode_change(out: &mut Vec<u8>, change: &StoreChange<'_>) {
    let removed = if change.value.is_none() { REMOVE_BIT } else { 0 };
    let kind = change.key.kind as u8 | removed;
    match change.key.id {
        RecordId::Number(number) => {
            out.push(kind);
            out.extend_from_slice(&number.to_le_bytes());
        }
        RecordId::Octets(octets) => {
            out.push(kind | ID_IS_OCTETS_BIT);
            out.push(u8::try_from(octets.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(octets);
        }
    }
    if let Some(value) = change.value {
        out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(value);
    }
}

fn parse_change(octets: &[u8]) -> Option<StoreChange<'_>> {
    let (&head, rest) = octets.split_first()?;
    let kind = RecordKind::from_octet(head & 0xf)?;
    let (id, rest) = if head & ID_IS_OCTETS_BIT == 0 {
        (RecordId::Number(u64_at(rest, 0)?), rest.get(8..)?)
    } else {
        let (&len, rest) = rest.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(len))?;
        (RecordId::Octets(id), rest)
    };
    let key = RecordKey { kind, id };
    if head & REMOVE_BIT != 0 {
        return Some(StoreChange::remove(key));
    }
    let len = usize::try_from(u32_at(rest, 0)?).ok()?;
    Some(StoreChange::put(key, rest.get(4..)?.get(..len)?))
}

/// Error: octets that do not decode as a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadChange;

impl core::fmt::Display for BadChange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the octets are not the changes of a group")
    }
}

impl core::error::Error for BadChange {}

/// Decodes the changes that [`encode_change`] has written into `octets`, one after the other.
///
/// # Errors
/// If octets do not decode as a change, or as a change that is too large for a store, the last item
/// of the iterator is the error.
pub fn decode_changes(octets: &[u8]) -> impl Iterator<Item = Result<StoreChange<'_>, BadChange>> {
    let mut rest = octets;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let change = parse_change(rest).filter(is_storable);
        rest = change.map_or(&[], |change| rest.get(change_len(&change)..).unwrap_or_default());
        Some(change.ok_or(BadChange))
    })
}

/// True if the identifier and the value have lengths that a store accepts.
pub(crate) fn is_storable(change: &StoreChange<'_>) -> bool {
    let id_fits = match change.key.id {
        RecordId::Number(_) => true,
        RecordId::Octets(octets) => (1..=255).contains(&octets.len()),
    };
    id_fits && change.value.is_none_or(|value| value.len() <= STORE_VALUE_BYTES_MAX)
}

/// A group of changes within a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    /// Offset of the group's first change in the commit. Unit: octets.
    pub at: usize,
    octets: &'a [u8],
}

/// A change, and where it stands in the commit (`at`, `len`). Unit: octets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedChange<'a> {
    pub at: usize,
    pub len: usize,
    pub change: StoreChange<'a>,
}

impl<'a> Group<'a> {
    /// Returns the changes of the group, up to the first octets that cannot be decoded.
    pub(crate) fn changes(self) -> impl Iterator<Item = PlacedChange<'a>> {
        let mut rest = self.octets;
        let mut at = self.at;
        core::iter::from_fn(move || {
            let change = parse_change(rest)?;
            let len = change_len(&change);
            let placed = PlacedChange { at, len, change };
            rest = rest.get(len..)?;
            at += len;
            Some(placed)
        })
    }
}

/// Iterates over the groups of a commit, up to the first octets that cannot be decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Groups<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Groups<'a> {
    /// `octets`: the commit; `at`: the offset of its first group.
    pub(crate) const fn new(octets: &'a [u8], at: usize) -> Self {
        Self { octets, at }
    }
}

impl<'a> Iterator for Groups<'a> {
    type Item = Group<'a>;

    fn next(&mut self) -> Option<Group<'a>> {
        let rest = self.octets.get(self.at..)?;
        let len = usize::try_from(u32_at(rest, 0)?).ok()?;
        let is_known = [GroupTag::Changes as u8, GroupTag::Copies as u8].contains(rest.get(4)?);
        if !is_known {
            return None;
        }
        let octets = rest.get(GROUP_HEADER_BYTES..)?.get(..len)?;
        let at = self.at + GROUP_HEADER_BYTES;
        self.at = at + len;
        Some(Group { at, octets })
    }
}
