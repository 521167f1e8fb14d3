//! Sectors: every 512 octets of a segment prove that they are whole, and to which life of the file
//! they belong.
//!
//! A write that a crash cuts off leaves sectors of the file's previous use, or one whose first
//! octets are new: its stamp, which comes last, is old. A damaged sector has the right stamp and a
//! wrong CRC.

use super::{PAYLOAD, SECTOR, put_at, u32_at};

const START_AT: usize = PAYLOAD;
const CRC_AT: usize = 504;
const STAMP_AT: usize = 508;

/// The state of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectorState {
    /// Octets of the commit that begins in this sector.
    Whole(u32),
    /// Nothing of this segment: zeros, a previous use of the file, or the rest of a write that a
    /// crash cut off.
    Unwritten,
    /// Octets of this segment that changed since.
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
        // Odd, so never that of a sector of zeros, and different for any two segments of a journal.
        let stamp = (((segment as u32).wrapping_mul(0x9e37_79b1) ^ journal) << 1) | 1;
        Self { seed, stamp }
    }

    /// Completes a sector whose payload is there.
    pub(crate) fn seal(&self, sector: &mut [u8; SECTOR], index: u32, start: u32) {
        put_at(sector, START_AT, &start.to_le_bytes());
        let crc = self.crc(sector, index);
        put_at(sector, CRC_AT, &crc.to_le_bytes());
        put_at(sector, STAMP_AT, &self.stamp.to_le_bytes());
    }

    /// Checks a sector.
    pub(crate) fn check(&self, sector: &[u8; SECTOR], index: u32) -> SectorState {
        let field = |at| u32_at(sector, at).unwrap_or(0);
        let has_stamp = field(STAMP_AT) == self.stamp;
        // Without the stamp most sectors are zeros; those with a damaged or cut stamp still have
        // their CRC.
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

    fn crc(&self, sector: &[u8; SECTOR], index: u32) -> u32 {
        let (covered, _) = sector.split_at(CRC_AT);
        crc32c::crc32c_append(self.seed ^ index, covered)
    }
}
