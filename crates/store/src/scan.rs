//! Reads the commits of a segment one after the other.

use std::io;

use crate::format::{
    COMMIT_HEADER_BYTES, CommitHeader, HEADER_SECTORS, SECTOR_BYTES, SECTOR_PAYLOAD_BYTES,
    SectorCodec, SectorState, sector_offset,
};

/// How many sectors are read from the file at a time.
const WINDOW_SECTORS: u32 = 256;

/// Reads the octets of the file from an offset on into a buffer, and fills it.
pub(crate) type ReadAt<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// The result of one step of a [`SegmentScan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanStep {
    /// A valid commit; [`SegmentScan::content`] has its octets.
    Commit(FoundCommit),
    /// A place where no valid commit begins.
    Gap(Gap),
}

/// A valid commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundCommit {
    pub header: CommitHeader,
    /// The first sector of the commit.
    pub at: u32,
    /// The sector after the commit.
    pub end: u32,
}

/// A place where no valid commit begins: the end of the journal, an incomplete commit that was
/// never acknowledged, or damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The sector where a commit would begin.
    pub at: u32,
    /// The first sector of the next valid commit. If there is one, the octets before it were
    /// acknowledged and are damaged.
    pub next: Option<u32>,
    /// True if the gap has sectors of an incomplete commit.
    pub is_torn: bool,
    /// True if the gap has a sector of this segment that changed after it was written.
    pub is_damaged: bool,
}

/// A scan of a segment: reads the segment's commits in order.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    codec: SectorCodec,
    /// The first sector that cannot belong to a commit any more.
    end: u32,
    /// The sector where the next commit would begin.
    pub at: u32,
    window: Vec<[u8; SECTOR_BYTES]>,
    window_at: u32,
    /// The octets of the commit that the last step returned.
    pub content: Vec<u8>,
}

impl SegmentScan {
    /// `sectors`: the size of the segment; `readable`: how many sectors the file has. The scan
    /// leaves out the segment's last sector, which belongs to no commit.
    pub(crate) fn new(codec: SectorCodec, sectors: u32, readable: u32) -> Self {
        Self {
            codec,
            end: sectors.saturating_sub(1).min(readable),
            at: HEADER_SECTORS,
            window: Vec::new(),
            window_at: 0,
            content: Vec::new(),
        }
    }

    /// Returns the next commit, or the gap before it. A gap that no commit follows is returned by
    /// every further call.
    pub(crate) fn next(&mut self, read: ReadAt<'_>) -> io::Result<ScanStep> {
        let (at, mut index, mut found) = (self.at, self.at, None);
        self.content.clear();
        loop {
            let (state, place) = self.sector(read, index)?;
            if state != SectorState::Whole(at) {
                return self.gap(read);
            }
            let payload =
                self.window.get(place).and_then(|sector| sector.get(..SECTOR_PAYLOAD_BYTES));
            self.content.extend_from_slice(payload.unwrap_or(&[]));
            let Some(commit) = found.or_else(|| self.decode_begun_commit()) else {
                // The sector is whole, and yet no valid header begins it: this program did not
                // write it.
                return Ok(ScanStep::Gap(Gap { at, next: None, is_torn: true, is_damaged: true }));
            };
            (index, found) = (index + 1, Some(commit));
            if index == commit.end {
                self.content.truncate(usize::try_from(commit.header.octets).unwrap_or(0));
                self.at = commit.end;
                return Ok(ScanStep::Commit(commit));
            }
        }
    }

    /// Decodes the commit header at the start of `content`; `None` if a commit of its length cannot
    /// stand here.
    fn decode_begun_commit(&self) -> Option<FoundCommit> {
        let header = CommitHeader::decode(&self.content)?;
        let octets = usize::try_from(header.octets).ok()?;
        let end =
            self.at.saturating_add(u32::try_from(octets.div_ceil(SECTOR_PAYLOAD_BYTES)).ok()?);
        let is_possible = octets >= COMMIT_HEADER_BYTES && end <= self.end;
        is_possible.then_some(FoundCommit { header, at: self.at, end })
    }

    /// Advances over a gap to the next commit, and returns the gap.
    fn gap(&mut self, read: ReadAt<'_>) -> io::Result<ScanStep> {
        let at = self.at;
        let mut gap = Gap { at, next: None, is_torn: false, is_damaged: false };
        for index in at..self.end {
            match self.sector(read, index)?.0 {
                SectorState::Whole(start) if start > at => {
                    gap.next = Some(start);
                    self.at = start;
                    break;
                }
                SectorState::Whole(start) => {
                    gap.is_torn = true;
                    gap.is_damaged |= start < at;
                }
                SectorState::Damaged => gap.is_damaged = true,
                SectorState::Unwritten => {}
            }
        }
        Ok(ScanStep::Gap(gap))
    }

    /// Returns the state of a sector, and its index in the window. A sector at `end` or behind it
    /// is unwritten, and not in the window.
    fn sector(&mut self, read: ReadAt<'_>, index: u32) -> io::Result<(SectorState, usize)> {
        if index >= self.end {
            return Ok((SectorState::Unwritten, usize::MAX));
        }
        let position = |from| usize::try_from(index.wrapping_sub(from)).unwrap_or(usize::MAX);
        if position(self.window_at) >= self.window.len() {
            let count = WINDOW_SECTORS.min(self.end - index);
            self.window.resize(usize::try_from(count).unwrap_or(0), [0; SECTOR_BYTES]);
            let filled = read(sector_offset(index), self.window.as_flattened_mut());
            filled.inspect_err(|_| self.window.clear())?;
            self.window_at = index;
        }
        let place = position(self.window_at);
        let state = self.window.get(place).map(|sector| self.codec.check(sector, index));
        Ok((state.unwrap_or(SectorState::Unwritten), place))
    }
}
