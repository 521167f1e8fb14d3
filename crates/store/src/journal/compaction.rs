//! Upkeep: compaction of the oldest segment, the next segment, files that are not needed.

use crate::error::StoreError;
use crate::files::Files;
use crate::format::{COMMIT_HEADER_BYTES, Groups, SECTOR, encode_change, offset_of};
use crate::journal::Journal;
use crate::journal::commit::place_of;
use crate::record::Upkeep;
use crate::scan::{FoundCommit, ScanStep};

/// Octets that a part of the upkeep reads or writes, at least and at most. Parts grow with the
/// octets that commits write, so that upkeep keeps pace.
const PART_OCTETS_MIN: usize = 128 << 10;
const PART_OCTETS_MAX: usize = 1 << 20;

/// Octets of upkeep for each octet that commits write.
const PACE: usize = 4;

/// Parts of compaction that a commit does itself while the journal exceeds its bound.
const PARTS_PER_COMMIT: usize = 2;

impl<F: Files> Journal<F> {
    /// Octets of segments that are written.
    fn used_octets(&self) -> u64 {
        let all: u64 = self.chain.iter().map(|segment| offset_of(segment.sectors)).sum();
        let last = self.chain.back();
        all - last.map_or(0, |last| offset_of(last.sectors - last.at))
    }

    /// The most octets that the written segments, and one more, may have before commits wait for
    /// compaction.
    fn bound_octets(&self) -> u64 {
        2 * self.live_sector_octets() + 2 * offset_of(self.sectors)
    }

    /// Whether the oldest segment is to be compacted.
    fn is_compaction_due(&self) -> bool {
        let Some(oldest) = self.chain.front() else { return false };
        if oldest.number <= self.salvage_until {
            return true;
        }
        if self.damaged == Some(oldest.number) {
            // Records that cannot be read stay until they are written anew.
            return self.chain.len() > 1 && self.index.live_in(oldest.short_number()) == 0;
        }
        if self.is_rewriting() {
            return true;
        }
        let (live, segment) = (self.live_sector_octets(), offset_of(self.sectors));
        let slack = if self.is_out_of_space { segment / 8 } else { live / 2 + segment / 2 };
        let has_room = self.compaction_octets() <= self.ready_octets();
        let gets_denser = self.chain.len() > 1 && oldest.number <= self.last_changed;
        gets_denser && has_room && self.used_octets() > live + slack
    }

    /// One part of the upkeep.
    pub(super) fn upkeep(&mut self) -> Result<Upkeep, StoreError> {
        let part = match self.is_out_of_space {
            // Requests are refused until it is done.
            true => PART_OCTETS_MAX,
            false => (PACE * self.written_since).clamp(PART_OCTETS_MIN, PART_OCTETS_MAX),
        };
        self.written_since = 0;
        self.count_damage();
        let mut done = self.upkeep_files(part)?;
        if done != Upkeep::Worked && self.is_compaction_due() {
            self.compact(part)?;
            done = Upkeep::Worked;
        }
        if done != Upkeep::Idle {
            return Ok(done);
        }
        let keep = usize::from(self.file_octets() <= self.bound_octets());
        Ok(if self.remove_surplus(keep)? { Upkeep::Worked } else { Upkeep::Idle })
    }

    /// Gets files ready. A full file system is no failure: [`Journal::is_full`] returns true, and
    /// this is tried again.
    fn upkeep_files(&mut self, part: usize) -> Result<Upkeep, StoreError> {
        let is_due = self.is_compaction_due();
        if !self.is_preparing() && !self.wants_file(is_due) {
            self.is_out_of_space = false;
            return Ok(Upkeep::Idle);
        }
        if self.is_out_of_space && !self.is_preparing() && !self.may_have_space() {
            return Ok(Upkeep::Idle);
        }
        let sectors = part / SECTOR;
        match self.prepare_next(u32::try_from(sectors).unwrap_or(u32::MAX), false) {
            Err(error) if error.is_no_space() => Ok(Upkeep::Idle),
            prepared => prepared,
        }
    }

    /// Damage is a loss once there is room for all records again.
    fn count_damage(&mut self) {
        let wanted = self.live_sector_octets() + 2 * offset_of(self.sectors);
        if let Some(damaged) = self.damaged
            && damaged > self.lost_until
            && self.files.available().is_ok_and(|available| available >= wanted)
        {
            self.lost_until = damaged;
            self.losses += 1;
        }
    }

    /// Compacts while the journal exceeds its bound, but not for long. A failure is that of a later
    /// call.
    pub(super) fn keep_bound(&mut self) {
        for _ in 0..PARTS_PER_COMMIT {
            let is_over = self.used_octets() > self.bound_octets() - offset_of(self.sectors);
            if !is_over || !self.is_compaction_due() || self.compact(PART_OCTETS_MAX).is_err() {
                break;
            }
        }
    }

    /// Compacts everything that a damaged journal has left.
    pub(super) fn rewrite_all(&mut self) -> Result<(), StoreError> {
        self.salvage_until = self.chain.back().map_or(0, |last| last.number);
        self.begin_rewriting()?;
        while self.is_rewriting() {
            self.compact(PART_OCTETS_MAX)?;
        }
        self.must_announce = true;
        self.commit_all()
    }

    /// Compacts everything that was removed.
    pub(super) fn copy_removed(&mut self) -> Result<(), StoreError> {
        self.copies.clear();
        self.cursor = None;
        self.begin_rewriting()?;
        while self.is_rewriting() && self.compact(PART_OCTETS_MAX).is_ok() {}
        // Upkeep finds it again, and reports it.
        self.damaged = None;
        self.must_announce = true;
        self.commit_all()
    }

    /// Everything so far is to be compacted into further segments.
    fn begin_rewriting(&mut self) -> Result<(), StoreError> {
        self.rewrite_until = self.chain.back().map_or(0, |last| last.number);
        if let Some(last) = self.chain.back_mut() {
            last.is_suspect = true;
        }
        self.roll()
    }

    fn is_rewriting(&self) -> bool {
        self.chain.front().is_some_and(|oldest| oldest.number <= self.rewrite_until)
    }

    /// Reads a part of the oldest segment and commits copies of its live records. Behind its last
    /// record the segment leaves the chain.
    fn compact(&mut self, part: usize) -> Result<(), StoreError> {
        let Some(oldest) = self.chain.front() else { return Ok(()) };
        let (number, segment) = (oldest.number, oldest.short_number());
        let is_empty = self.index.live_in(segment) == 0;
        let is_done = is_empty || self.collect_copies(part)?;
        self.commit_all()?;
        if !is_done {
            return Ok(());
        }
        self.cursor = None;
        self.damaged = None;
        if number <= self.salvage_until {
            self.index.forget_segment(segment);
        }
        // A commit names the oldest segment, so the oldest one has commits.
        while self.chain.len() > 1 {
            self.leaving.extend(self.chain.pop_front());
            if self.chain.front().is_some_and(|oldest| oldest.has_commits) {
                break;
            }
        }
        self.must_announce = true;
        self.commit_all()
    }

    /// Reads about `part` octets of the oldest segment. True if that was the rest.
    fn collect_copies(&mut self, part: usize) -> Result<bool, StoreError> {
        let Some(oldest) = self.chain.front() else { return Ok(true) };
        let cursor = self.cursor.get_or_insert_with(|| oldest.scan());
        let mut read = 0;
        while read < part {
            if cursor.at >= oldest.at {
                return Ok(true);
            }
            let (first, next) = match oldest.read_on(&mut self.files, cursor) {
                Ok(ScanStep::Commit(FoundCommit { at, end, .. })) => {
                    read += usize::try_from(offset_of(end - at)).unwrap_or(part);
                    let groups = Groups::new(&cursor.content, COMMIT_HEADER_BYTES);
                    for placed in groups.flat_map(|group| group.changes()) {
                        let place = place_of(oldest.short_number(), at, placed.at, placed.len);
                        if self.index.get(placed.change.key) == Some(place) {
                            encode_change(&mut self.copies.octets, &placed.change);
                            self.copies.lens.push_back(placed.len);
                        }
                    }
                    continue;
                }
                Ok(ScanStep::Gap(gap)) => (gap.at, gap.next),
                Err(_) if oldest.number <= self.salvage_until.max(self.removed_until) => {
                    (cursor.at, None)
                }
                Err(error) => return Err(error),
            };
            if oldest.number > self.salvage_until {
                self.damaged = Some(oldest.number);
                self.copies.clear();
                self.cursor = None;
                return Err(oldest.damaged_from(first, self.groups.durable().0));
            }
            if next.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
