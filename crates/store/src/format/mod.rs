//! Version 1 of the format of journal files: sectors, segment headers, commits, groups and changes.
//! Integers are little endian.

mod change;
mod commit;
mod header;
mod sector;

pub use change::{BadChange, decode_changes, encode_change};
pub(crate) use change::{Groups, change_len, is_storable};
pub(crate) use commit::{
    COMMIT_HEADER_BYTES, CommitHeader, GROUP_HEADER_BYTES, GroupTag, push_group,
};
pub(crate) use header::{SegmentHeader, SegmentHeaderError};
pub(crate) use sector::{SectorCodec, SectorState};

/// The version that this program writes. The program reads this version and all earlier ones.
pub const FORMAT_VERSION: u32 = 1;

/// Octets of a sector, the unit that a device writes as a whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Octets of a sector that belong to a commit; the rest is the sector's own check.
pub(crate) const SECTOR_PAYLOAD_BYTES: usize = 500;

/// Sectors of a segment's header: two copies of one sector.
pub(crate) const HEADER_SECTORS: u32 = 2;

/// Returns the offset of a sector in its file. Unit: octets.
pub(crate) const fn sector_offset(sector: u32) -> u64 {
    sector as u64 * SECTOR_BYTES as u64
}

/// Reads the integer at offset `at`; `None` if the octets end before it does.
pub(crate) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// Reads the integer at offset `at`; `None` if the octets end before it does.
pub(crate) fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    octets.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// Overwrites the octets of `into` from offset `at` on; nothing if they do not fit.
pub(crate) fn overwrite_at(into: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(field) = into.get_mut(at..at + octets.len()) {
        field.copy_from_slice(octets);
    }
}
