//! The header of a segment.

use super::{FORMAT_VERSION, SECTOR_BYTES, overwrite_at, u32_at, u64_at};

/// The first octets of a segment. All versions of the format have these octets, and the version and
/// the CRC at these offsets.
const MAGIC: &[u8; 8] = b"ADITJRNL";
const VERSION_AT: usize = 8;
const CRC_AT: usize = 508;

/// The header of a segment: one sector, written twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Random number that identifies the journal; drawn when the journal was created.
    pub identity: u64,
    /// Number of the segment. Ascends along the journal.
    pub number: u64,
    /// Size of the file. Unit: sectors.
    pub sectors: u32,
}

/// The reason why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    /// Neither copy has a valid CRC.
    Damaged,
    /// The header has a version that this program does not read.
    Newer(u32),
}

impl SegmentHeader {
    /// Returns the two copies of the header as they are written.
    pub(crate) fn encode(&self) -> [[u8; SECTOR_BYTES]; 2] {
        let mut sector = [0; SECTOR_BYTES];
        overwrite_at(&mut sector, 0, MAGIC);
        overwrite_at(&mut sector, VERSION_AT, &FORMAT_VERSION.to_le_bytes());
        overwrite_at(&mut sector, 12, &self.sectors.to_le_bytes());
        overwrite_at(&mut sector, 16, &self.identity.to_le_bytes());
        overwrite_at(&mut sector, 24, &self.number.to_le_bytes());
        let crc = crc(&sector);
        overwrite_at(&mut sector, CRC_AT, &crc.to_le_bytes());
        [sector; 2]
    }

    /// Reads the header from the first copy that has a valid CRC.
    pub(crate) fn decode(copies: &[[u8; SECTOR_BYTES]; 2]) -> Result<Self, SegmentHeaderError> {
        let is_whole = |copy: &&[u8; SECTOR_BYTES]| {
            copy.starts_with(MAGIC) && u32_at(&copy[..], CRC_AT) == Some(crc(copy))
        };
        let copy = copies.iter().find(is_whole).ok_or(SegmentHeaderError::Damaged)?;
        match u32_at(copy, VERSION_AT).ok_or(SegmentHeaderError::Damaged)? {
            1 => Self::decode_version_1(copy).ok_or(SegmentHeaderError::Damaged),
            version => Err(SegmentHeaderError::Newer(version)),
        }
    }

    fn decode_version_1(copy: &[u8; SECTOR_BYTES]) -> Option<Self> {
        Some(Self {
            sectors: u32_at(copy, 12)?,
            identity: u64_at(copy, 16)?,
            number: u64_at(copy, 24)?,
        })
    }
}

fn crc(sector: &[u8; SECTOR_BYTES]) -> u32 {
    let (covered, _) = sector.split_at(CRC_AT);
    crc32c::crc32c(covered)
}
