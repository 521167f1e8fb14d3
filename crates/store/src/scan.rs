//! Reads the commits of a segment one after the other.

use std::io;

use crate::format::{
    COMMIT_HEADER_BYTES, CommitHeader, HEADER_SECTORS, PAYLOAD, SECTOR, SectorCodec, SectorState,
    offset_of,
};

/// Sectors that are read at once.
const WINDOW: u32 = 256;

/// Fills octets from an offset of the file on.
pub(crate) type ReadAt<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// The kind of the next octets of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanStep {
    /// A whole commit; its octets are [`SegmentScan::content`].
    Commit(FoundCommit),
    /// No whole commit.
    Gap(Gap),
}

/// A whole commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundCommit {
    pub header: CommitHeader,
    /// Its first sector.
    pub at: u32,
    /// The sector behind it.
    pub end: u32,
}

/// The place where no whole commit begins: the end, the rest of a commit that was never
/// acknowledged, or damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The sector where a commit would begin.
    pub at: u32,
    /// The first sector of a later commit. The commits before it were acknowledged, and are
    /// damaged.
    pub next: Option<u32>,
    /// Sectors of a commit that is not whole are there.
    pub is_torn: bool,
    /// A sector of this segment changed since it was written.
    pub is_damaged: bool,
}

/// Where reading a segment has come to.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    codec: SectorCodec,
    /// The sector behind the last one that may hold commits.
    end: u32,
    /// The sector where the next commit would begin.
    pub at: u32,
    window: Vec<[u8; SECTOR]>,
    window_at: u32,
    /// The octets of the commit that was found last.
    pub content: Vec<u8>,
}

impl SegmentScan {
    /// Begins with the first commit of a segment with `sectors` sectors, of which `readable` are in
    /// the file. The last sector of a segment has no commit.
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

    /// The next commit, or the gap before it. It returns a gap without a commit behind it again and
    /// again.
    pub(crate) fn next(&mut self, read: ReadAt<'_>) -> io::Result<ScanStep> {
        let (at, mut index, mut found) = (self.at, self.at, None);
        self.content.clear();
        loop {
            let (state, place) = self.sector(read, index)?;
            if state != SectorState::Whole(at) {
                return self.gap(read);
            }
            let payload = self.window.get(place).and_then(|sector| sector.get(..PAYLOAD));
            self.content.extend_from_slice(payload.unwrap_or(&[]));
            let Some(commit) = found.or_else(|| self.begun_commit()) else {
                // Its sector is whole, so this program did not write it.
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

    /// The commit that begins with the content, unless there can be none of its length.
    fn begun_commit(&self) -> Option<FoundCommit> {
        let header = CommitHeader::decode(&self.content)?;
        let octets = usize::try_from(header.octets).ok()?;
        let end = self.at.saturating_add(u32::try_from(octets.div_ceil(PAYLOAD)).ok()?);
        let is_possible = octets >= COMMIT_HEADER_BYTES && end <= self.end;
        is_possible.then_some(FoundCommit { header, at: self.at, end })
    }

    /// Passes the gap.
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

    /// The state of a sector, and its place in the window. One behind the end is unwritten, and has
    /// no place.
    fn sector(&mut self, read: ReadAt<'_>, index: u32) -> io::Result<(SectorState, usize)> {
        if index >= self.end {
            return Ok((SectorState::Unwritten, usize::MAX));
        }
        let position = |from| usize::try_from(index.wrapping_sub(from)).unwrap_or(usize::MAX);
        if position(self.window_at) >= self.window.len() {
            let count = WINDOW.min(self.end - index);
            self.window.resize(usize::try_from(count).unwrap_or(0), [0; SECTOR]);
            let filled = read(offset_of(index), self.window.as_flattened_mut());
            filled.inspect_err(|_| self.window.clear())?;
            self.window_at = index;
        }
        let place = position(self.window_at);
        let state = self.window.get(place).map(|sector| self.codec.check(sector, index));
        Ok((state.unwrap_or(SectorState::Unwritten), place))
    }
}
