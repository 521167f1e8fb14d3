//! Upkeep: compacts the oldest segment, prepares the next one, removes files that are not needed.

use crate::error::StoreError;
use crate::files::Files;
use crate::format::{COMMIT_HEADER_BYTES, Groups, SECTOR_BYTES, encode_change, sector_offset};
use crate::journal::Journal;
use crate::journal::commit::place_of;
use crate::record::Upkeep;
use crate::scan::{FoundCommit, ScanStep};

/// Minimum and maximum of the octets that one call of the upkeep reads or writes. Within these, a
/// call does more after more octets of commits, so that upkeep keeps pace.
const PART_OCTETS_MIN: usize = 128 << 10;
const PART_OCTETS_MAX: usize = 1 << 20;

/// Octets of upkeep for each octet that commits have written.
const UPKEEP_OCTETS_PER_COMMIT_OCTET: usize = 4;

/// How many parts of compaction a commit does itself, at most, while the journal exceeds its bound.
const COMPACTION_PARTS_PER_COMMIT_MAX: usize = 2;

impl<F: Files> Journal<F> {
    /// Returns the octets of all segments up to the last commit.
    fn used_octets(&self) -> u64 {
        let all: u64 = self.chain.iter().map(|segment| sector_offset(segment.sectors)).sum();
        let last = self.chain.back();
        all - last.map_or(0, |last| sector_offset(last.sectors - last.at))
    }

    /// Returns the maximum octets of written segments plus the next one; beyond it a commit does
    /// parts of compaction itself.
    fn bound_octets(&self) -> u64 {
        2 * self.live_sector_octets() + 2 * sector_offset(self.sectors)
    }

    /// True if the oldest segment should be compacted now.
    fn is_compaction_due(&self) -> bool {
        let Some(oldest) = self.chain.front() else { return false };
        if oldest.number <= self.salvage_until {
            return true;
        }
        if self.damaged == Some(oldest.number) {
            // The segment stays while it has records that cannot be read, until the owner has
            // written them again.
            return self.chain.len() > 1 && self.index.live_octets_in(oldest.short_number()) == 0;
        }
        if self.is_rewriting() {
            return true;
        }
        let (live, segment) = (self.live_sector_octets(), sector_offset(self.sectors));
        let slack = if self.is_out_of_space { segment / 8 } else { live / 2 + segment / 2 };
        let has_room = self.compaction_octets() <= self.ready_octets();
        let gets_denser = self.chain.len() > 1 && oldest.number <= self.last_changed;
        gets_denser && has_room && self.used_octets() > live + slack
    }

    /// Does one bounded part of the upkeep.
    pub(super) fn upkeep(&mut self) -> Result<Upkeep, StoreError> {
        let part = match self.is_out_of_space {
            // The largest part: requests are refused until space is free again.
            true => PART_OCTETS_MAX,
            false => (UPKEEP_OCTETS_PER_COMMIT_OCTET * self.written_since)
                .clamp(PART_OCTETS_MIN, PART_OCTETS_MAX),
        };
        self.written_since = 0;
        self.count_damage_as_loss();
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

    /// Prepares files for further segments. A full file system is no error here:
    /// [`Journal::is_full`] reports it, and a later call tries again.
    fn upkeep_files(&mut self, part: usize) -> Result<Upkeep, StoreError> {
        let is_due = self.is_compaction_due();
        if !self.is_preparing() && !self.wants_file(is_due) {
            self.is_out_of_space = false;
            return Ok(Upkeep::Idle);
        }
        if self.is_out_of_space && !self.is_preparing() && !self.may_have_space() {
            return Ok(Upkeep::Idle);
        }
        let sectors = part / SECTOR_BYTES;
        match self.prepare_next_segment(u32::try_from(sectors).unwrap_or(u32::MAX), false) {
            Err(error) if error.is_no_space() => Ok(Upkeep::Idle),
            prepared => prepared,
        }
    }

    /// Counts unreadable records as a loss, upon which their owner writes all records again, once
    /// the file system has room for that.
    fn count_damage_as_loss(&mut self) {
        let wanted = self.live_sector_octets() + 2 * sector_offset(self.sectors);
        if let Some(damaged) = self.damaged
            && damaged > self.lost_until
            && self.files.available().is_ok_and(|available| available >= wanted)
        {
            self.lost_until = damaged;
            self.losses += 1;
        }
    }

    /// Compacts while the journal exceeds its bound, in a limited number of parts. Ignores errors:
    /// a later call meets and reports them.
    pub(super) fn compact_to_bound(&mut self) {
        for _ in 0..COMPACTION_PARTS_PER_COMMIT_MAX {
            let is_over = self.used_octets() > self.bound_octets() - sector_offset(self.sectors);
            if !is_over || !self.is_compaction_due() || self.compact(PART_OCTETS_MAX).is_err() {
                break;
            }
        }
    }

    /// Compacts all segments of a damaged journal, which gives up the records that cannot be read.
    pub(super) fn rewrite_all(&mut self) -> Result<(), StoreError> {
        self.salvage_until = self.chain.back().map_or(0, |last| last.number);
        self.begin_rewriting()?;
        while self.is_rewriting() {
            self.compact(PART_OCTETS_MAX)?;
        }
        self.must_announce = true;
        self.commit_all()
    }

    /// Compacts all segments after the folder was removed; this process still has their files open.
    pub(super) fn copy_from_removed_files(&mut self) -> Result<(), StoreError> {
        self.copies.clear();
        self.cursor = None;
        self.begin_rewriting()?;
        while self.is_rewriting() && self.compact(PART_OCTETS_MAX).is_ok() {}
        // A later upkeep meets the damage again, and reports it.
        self.damaged = None;
        self.must_announce = true;
        self.commit_all()
    }

    /// Begins to compact all present segments into new ones.
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

    /// Reads a part of the oldest segment and commits copies of its live records. After the last
    /// part the segment leaves the chain.
    fn compact(&mut self, part: usize) -> Result<(), StoreError> {
        let Some(oldest) = self.chain.front() else { return Ok(()) };
        let (number, segment) = (oldest.number, oldest.short_number());
        let is_empty = self.index.live_octets_in(segment) == 0;
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
        // The header of a commit names the oldest segment as one with commits, so segments without
        // any leave too.
        while self.chain.len() > 1 {
            self.leaving.extend(self.chain.pop_front());
            if self.chain.front().is_some_and(|oldest| oldest.has_commits) {
                break;
            }
        }
        self.must_announce = true;
        self.commit_all()
    }

    /// Collects copies of live records from about `part` octets of the oldest segment. True once
    /// the whole segment is read.
    fn collect_copies(&mut self, part: usize) -> Result<bool, StoreError> {
        let Some(oldest) = self.chain.front() else { return Ok(true) };
        let cursor = self.cursor.get_or_insert_with(|| oldest.scan());
        let mut read = 0;
        while read < part {
            if cursor.at >= oldest.at {
                return Ok(true);
            }
            let (first, next) = match oldest.next_scan_step(&mut self.files, cursor) {
                Ok(ScanStep::Commit(FoundCommit { at, end, .. })) => {
                    read += usize::try_from(sector_offset(end - at)).unwrap_or(part);
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
