//! Sectors: 512 octets, each with a CRC and a stamp that prove that the sector is whole and which
//! segment it was written for. A file is used for several segments, one after the other.
//!
//! After a write that a crash interrupted, some sectors still have the content of the file's
//! previous use; one may be new in its first octets only, and then its stamp, which stands last, is
//! old. A damaged sector has the right stamp and a wrong CRC.

use super::{SECTOR_BYTES, SECTOR_PAYLOAD_BYTES, overwrite_at, u32_at};

const START_AT: usize = SECTOR_PAYLOAD_BYTES;
const CRC_AT: usize = 504;
const STAMP_AT: usize = 508;

/// The result of checking a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectorState {
    /// Valid: belongs to the commit that begins in the sector of this index.
    Whole(u32),
    /// Not written for this segment: zeros, content of a previous use of the file, or an
    /// interrupted write.
    Unwritten,
    /// Was written for this segment, and has changed since.
    Damaged,
}

/// Writes and checks the sectors of one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectorCodec {
    seed: u32,
    stamp: u32,
}

impl SectorCodec {
    #[allow(clippy::cast_possible_truncation, reason = "31 bits of the segment number are enough")]
    pub(crate) fn new(identity: u64, segment: u64) -> Self {
        let journal = crc32c::crc32c(&identity.to_le_bytes());
        let seed = crc32c::crc32c_append(journal, &segment.to_le_bytes());
        // Odd, so never the zero of an unwritten sector, and different for any two segments of a
        // journal.
        let stamp = (((segment as u32).wrapping_mul(0x9e37_79b1) ^ journal) << 1) | 1;
        Self { seed, stamp }
    }

    /// Adds the CRC and the stamp to a sector that has its payload. `index`: of the sector;
    /// `start`: the first sector of its commit.
    pub(crate) fn seal(&self, sector: &mut [u8; SECTOR_BYTES], index: u32, start: u32) {
        overwrite_at(sector, START_AT, &start.to_le_bytes());
        let crc = self.crc(sector, index);
        overwrite_at(sector, CRC_AT, &crc.to_le_bytes());
        overwrite_at(sector, STAMP_AT, &self.stamp.to_le_bytes());
    }

    /// Checks a sector.
    pub(crate) fn check(&self, sector: &[u8; SECTOR_BYTES], index: u32) -> SectorState {
        let field = |at| u32_at(sector, at).unwrap_or(0);
        let has_stamp = field(STAMP_AT) == self.stamp;
        // A sector without the stamp is usually zeros. It may also be one whose stamp is damaged or
        // was not written; such a sector still has a valid CRC.
        if !has_stamp && field(CRC_AT) == 0 && field(STAMP_AT) == 0 {
            return SectorState::Unwritten;
        }
        if self.crc(sector, index) == field(CRC_AT) {
            SectorState::Whole(field(START_AT))
        } else if has_stamp {
            SectorState::Damaged
        } else {
            SectorState::Unwritten
        }
    }

    fn crc(&self, sector: &[u8; SECTOR_BYTES], index: u32) -> u32 {
        let (covered, _) = sector.split_at(CRC_AT);
        crc32c::crc32c_append(self.seed ^ index, covered)
    }
}
