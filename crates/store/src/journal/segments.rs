//! Segments and their files: new ones are prepared ahead of time, files of old ones are used again.

use std::io;

use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::format::{
    HEADER_SECTORS, SECTOR_BYTES, SECTOR_PAYLOAD_BYTES, SectorCodec, SegmentHeader, overwrite_at,
    sector_offset,
};
use crate::journal::Journal;
use crate::record::Upkeep;
use crate::scan::{ScanStep, SegmentScan};

/// Name of the file that is being filled with zeros.
pub(super) const NEW_NAME: &str = "new.segment";

/// Name of an empty file that exists once the journal has a commit: a folder with it and without
/// commits has lost some.
pub(super) const BEGUN_NAME: &str = "begun";

/// Minimum and maximum size of a segment. Unit: sectors.
const SECTORS_MIN: u32 = 8;
const SECTORS_MAX: u32 = 1 << 22;

/// How many sectors of zeros are written between two syncs while a commit waits for the segment.
const ZERO_SECTORS_PER_SYNC: u32 = 8192;

/// The target of a sync that runs while commits go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncTarget {
    /// The folder: names of files.
    Folder,
    /// The header of the next segment.
    Headed,
    /// Zeros of a new file.
    New,
}

/// A segment of the journal.
#[derive(Debug)]
pub(super) struct JournalSegment<File> {
    pub number: u64,
    pub file: File,
    pub sectors: u32,
    /// Sectors that the file has; fewer than `sectors` only if the file is damaged.
    pub readable: u32,
    pub codec: SectorCodec,
    /// The sector after the segment's last durable commit.
    pub at: u32,
    /// True if the segment has a durable commit.
    pub has_commits: bool,
    /// True if the segment takes no further commit, since a failed write left the octets from `at`
    /// on uncertain.
    pub is_suspect: bool,
}

/// A file that is not needed any more and may become another segment.
#[derive(Debug)]
pub(super) struct FreeFile<File> {
    pub name: String,
    pub file: File,
    /// Size of the file. It is used again only if this is the size of a new segment.
    pub sectors: u32,
}

/// A file that is being filled with zeros.
#[derive(Debug)]
pub(super) struct NewFile<File> {
    file: File,
    zeroed: u32,
}

impl<File> JournalSegment<File> {
    /// Creates a segment whose commits have not been read yet.
    pub(super) fn new(identity: u64, number: u64, file: File, sectors: u32, readable: u32) -> Self {
        let (codec, at) = (SectorCodec::new(identity, number), HEADER_SECTORS);
        Self { number, file, sectors, readable, codec, at, has_commits: false, is_suspect: false }
    }

    pub(super) fn name(&self) -> String {
        segment_name(self.number)
    }

    /// Begins to read the segment's commits, from the first one on.
    pub(super) fn scan(&self) -> SegmentScan {
        SegmentScan::new(self.codec, self.sectors, self.readable)
    }

    /// Reads the next commit or gap of a scan that [`JournalSegment::scan`] began.
    pub(super) fn next_scan_step<F: Files<File = File>>(
        &self,
        files: &mut F,
        scan: &mut SegmentScan,
    ) -> Result<ScanStep, StoreError> {
        let step = scan.next(&mut |offset, into| files.read_at(&self.file, offset, into));
        step.map_err(|error| StoreError::io("read", &self.name())(error))
    }

    /// Returns the error for durable records that cannot be read: `first` is the first unreadable
    /// sector, `durable` the number of the last durable group.
    pub(super) fn damaged_from(&self, first: u32, durable: u64) -> StoreError {
        let (file, what) = (self.name(), Damage::describe_sectors(first, self.at));
        StoreError::Damaged(vec![Damage { file, what, after: 0, before: Some(durable + 1) }])
    }

    /// Returns how many octets of commits still fit into the segment.
    pub(super) fn room_octets(&self) -> usize {
        let sectors = (self.sectors - 1).saturating_sub(self.at);
        usize::try_from(sectors).unwrap_or(0) * SECTOR_PAYLOAD_BYTES
    }

    /// Returns the low bits of the segment's number, which differ between all segments that exist
    /// at a time.
    #[allow(clippy::cast_possible_truncation, reason = "the low bits")]
    pub(super) const fn short_number(&self) -> u32 {
        self.number as u32
    }
}

/// Returns how many octets of commits a segment of this size holds.
pub(super) fn capacity(sectors: u32) -> usize {
    usize::try_from(sectors - HEADER_SECTORS - 1).unwrap_or(0) * SECTOR_PAYLOAD_BYTES
}

/// Converts the size of a segment from octets to sectors; `None` if a segment cannot have this
/// size.
pub(super) fn segment_sector_count(bytes: u32) -> Option<u32> {
    let sector = u32::try_from(SECTOR_BYTES).ok()?;
    let sectors = bytes / sector;
    (bytes.is_multiple_of(sector) && is_segment_size(sectors)).then_some(sectors)
}

pub(super) const fn is_segment_size(sectors: u32) -> bool {
    SECTORS_MIN <= sectors && sectors <= SECTORS_MAX
}

pub(super) fn segment_name(number: u64) -> String {
    format!("{number:016x}.segment")
}

pub(super) fn spare_name(number: u64) -> String {
    format!("spare-{number:016x}.segment")
}

impl<F: Files> Journal<F> {
    /// Returns the octets of all files of the journal.
    pub(super) fn file_octets(&self) -> u64 {
        let chain = self.chain.iter().chain(&self.next).chain(&self.leaving);
        let used: u64 = chain.map(|segment| sector_offset(segment.sectors)).sum();
        let free = self.free.iter().chain(&self.headed);
        let free: u64 = free.map(|file| sector_offset(file.sectors)).sum();
        used + free + self.making.as_ref().map_or(0, |making| sector_offset(making.zeroed))
    }

    /// Returns how many octets of commits fit into the last segment and the files that are ready to
    /// follow it.
    pub(super) fn ready_octets(&self) -> usize {
        let last = self.chain.back().filter(|last| !last.is_suspect);
        let free = self.free.iter().chain(&self.headed);
        let free = free.filter(|file| file.sectors == self.sectors).count();
        let files = free + usize::from(self.next.is_some());
        last.map_or(0, JournalSegment::room_octets) + files * capacity(self.sectors)
    }

    /// Returns the octets, at most, of commits that hold copies of `live` octets of live records.
    fn copies_octets(&self, live: u64) -> usize {
        usize::try_from(live).unwrap_or(usize::MAX) / 8 * 9 + capacity(self.sectors) / 16
    }

    /// Returns the octets, at most, that compacting the rest of the oldest segment still takes.
    pub(super) fn compaction_octets(&self) -> usize {
        let oldest = self.chain.front();
        self.copies_octets(
            oldest.map_or(0, |oldest| self.index.live_octets_in(oldest.short_number())),
        )
    }

    /// Returns the octets that must stay free in ready files, so that compaction can copy a segment
    /// full of live records, now or after it has finished the oldest one.
    pub(super) fn compaction_reserve(&self) -> usize {
        let capacity = capacity(self.sectors);
        let most = u64::try_from(capacity).unwrap_or(u64::MAX);
        let full = self.copies_octets(self.index.live_octets().min(most));
        match self.cursor {
            Some(_) => full.min(self.compaction_octets() + full.saturating_sub(capacity)),
            None => full,
        }
    }

    /// Returns the octets that stay ready for changes that must not be refused when the file system
    /// is full.
    pub(super) fn reserve(&self) -> usize {
        self.compaction_reserve() + capacity(self.sectors) / 2
    }

    /// Prepares files, and waits for them, until the reserve is left over after `octets` more
    /// octets. If that fails, commits go on as long as they can.
    pub(super) fn keep_reserve(&mut self, octets: usize) {
        while !self.is_out_of_space
            && self.ready_octets() < octets + self.reserve()
            && self.prepare_next_segment(ZERO_SECTORS_PER_SYNC, true).is_ok()
        {}
    }

    /// True if a further file should be prepared now. `is_due`: compaction is due, and will free a
    /// file.
    pub(super) fn wants_file(&self, is_due: bool) -> bool {
        let ahead = if is_due { 0 } else { capacity(self.sectors) / 2 };
        let is_unnamed = self.next.is_none() && !self.free.is_empty();
        is_unnamed || self.ready_octets() < self.reserve() + ahead
    }

    /// True unless the file system is known to have no room for another file.
    pub(super) fn may_have_space(&mut self) -> bool {
        let creates = self.making.is_none() && self.next_free().is_none();
        let sought = sector_offset(self.sectors);
        !creates || self.files.available().is_ok_and(|octets| octets >= sought)
    }

    /// True while the preparation of the next segment is under way.
    pub(super) fn is_preparing(&self) -> bool {
        self.has_new_names || self.syncing.is_some() || self.headed.is_some()
    }

    /// Prepares the next segment, and waits until it is ready.
    pub(super) fn make_next_segment(&mut self) -> Result<(), StoreError> {
        loop {
            // The running sync may belong to a later file while the next segment is ready already.
            self.end_sync(true)?;
            if self.next.is_some() && !self.has_new_names && self.syncing.is_none() {
                return Ok(());
            }
            self.prepare_next_segment(ZERO_SECTORS_PER_SYNC, true)?;
        }
    }

    /// Does one step of preparing the next segment, or a file for the one after it: writes up to
    /// `sectors` sectors of zeros, or writes a header and begins to sync it, or renames a file.
    /// `waits`: blocks until the running sync ends.
    pub(super) fn prepare_next_segment(
        &mut self,
        sectors: u32,
        waits: bool,
    ) -> Result<Upkeep, StoreError> {
        if !self.end_sync(waits)? {
            return Ok(Upkeep::Waiting);
        }
        // Sync renames first: a file whose header is overwritten must not have the name of a needed
        // segment.
        if self.has_new_names {
            self.begin_sync(SyncTarget::Folder)?;
        } else if let Some(headed) = self.headed.take() {
            self.rename_to_next_segment(headed)?;
        } else if let Some(position) = self.next_free() {
            let free = self.free.swap_remove(position);
            self.write_header(free)?;
        } else {
            let filled = self.zero_new_file(sectors);
            if let Err(error) = &filled {
                self.is_out_of_space |= error.is_no_space();
                self.drop_new_file();
            }
            filled?;
        }
        Ok(Upkeep::Worked)
    }

    /// Returns the index of the file that becomes the next segment; `None` if that segment is
    /// there, or no file fits. The new file comes first, even after a failure, since the next file
    /// that is made takes its name.
    fn next_free(&self) -> Option<usize> {
        let new = self.free.iter().position(|free| free.name == NEW_NAME);
        let position =
            new.or_else(|| self.free.iter().position(|free| free.sectors == self.sectors));
        position.filter(|_| self.next.is_none())
    }

    /// True if no sync runs any more. `waits`: blocks until the running sync ends.
    fn end_sync(&mut self, waits: bool) -> Result<bool, StoreError> {
        let Some(target) = self.syncing else { return Ok(true) };
        let polled = self.files.poll_sync(waits);
        let is_done = polled.map_err(|error| self.sync_failed(target, error))?;
        if is_done {
            self.syncing = None;
        }
        Ok(is_done)
    }

    /// Starts a sync that runs while commits go on.
    fn begin_sync(&mut self, target: SyncTarget) -> Result<(), StoreError> {
        let file = match target {
            SyncTarget::Folder => None,
            SyncTarget::Headed => self.headed.as_ref().map(|headed| &headed.file),
            SyncTarget::New => self.making.as_ref().map(|making| &making.file),
        };
        let begun = self.files.begin_sync(file);
        begun.map_err(|error| self.sync_failed(target, error))?;
        self.has_new_names &= target != SyncTarget::Folder;
        self.syncing = Some(target);
        Ok(())
    }

    /// Drops what the failed sync covered, which is not trusted, so that it is written again.
    fn sync_failed(&mut self, target: SyncTarget, error: io::Error) -> StoreError {
        self.syncing = None;
        let failed = match target {
            SyncTarget::Folder => {
                self.has_new_names = true;
                StoreError::io("sync", "")(error)
            }
            SyncTarget::Headed => match self.headed.take() {
                Some(headed) => self.return_free_file(headed, "sync", error),
                None => StoreError::io("sync", "")(error),
            },
            SyncTarget::New => {
                self.drop_new_file();
                StoreError::io("sync", NEW_NAME)(error)
            }
        };
        self.is_out_of_space |= failed.is_no_space();
        failed
    }

    /// Puts a file back among the free ones after `action` failed for it, and returns the error.
    fn return_free_file(
        &mut self,
        free: FreeFile<F::File>,
        action: &'static str,
        error: io::Error,
    ) -> StoreError {
        let failed = StoreError::io(action, &free.name)(error);
        self.free.push(free);
        failed
    }

    fn drop_new_file(&mut self) {
        self.making = None;
        let _ = self.files.remove(NEW_NAME);
    }

    /// Writes zeros to the new file, which becomes free once it is complete and synced.
    fn zero_new_file(&mut self, sectors: u32) -> Result<(), StoreError> {
        if self.making.is_none() {
            let file = self.files.create(NEW_NAME).map_err(StoreError::io("create", NEW_NAME))?;
            self.making = Some(NewFile { file, zeroed: 0 });
        }
        if let Some(made) = self.making.take_if(|making| making.zeroed == self.sectors) {
            let mut name = NEW_NAME.to_owned();
            if self.next.is_some() {
                // The next segment is ready, so this file waits under another name, and another new
                // file may be made.
                name = spare_name(self.last_segment + 1);
                self.files.rename(NEW_NAME, &name).map_err(StoreError::io("rename", NEW_NAME))?;
                self.last_segment += 1;
            }
            self.is_out_of_space = false;
            self.free.push(FreeFile { name, file: made.file, sectors: self.sectors });
        }
        let Some(making) = &mut self.making else { return Ok(()) };
        let end = self.sectors.min(making.zeroed.saturating_add(sectors));
        let (at, len) = (sector_offset(making.zeroed), sector_offset(end - making.zeroed));
        let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
        let written = self.files.write_at(&making.file, at, &zeros);
        written.map_err(StoreError::io("write", NEW_NAME))?;
        making.zeroed = end;
        self.begin_sync(SyncTarget::New)
    }

    /// Writes the header of the next segment into a free file, and begins to sync it.
    fn write_header(&mut self, free: FreeFile<F::File>) -> Result<(), StoreError> {
        let (identity, number) = (self.identity, self.last_segment + 1);
        let header = SegmentHeader { identity, number, sectors: free.sectors }.encode();
        if let Err(error) = self.files.write_at(&free.file, 0, header.as_flattened()) {
            return Err(self.return_free_file(free, "write", error));
        }
        self.headed = Some(free);
        self.begin_sync(SyncTarget::Headed)
    }

    /// Renames a file with a durable header to the name of its segment.
    fn rename_to_next_segment(&mut self, headed: FreeFile<F::File>) -> Result<(), StoreError> {
        let number = self.last_segment + 1;
        if let Err(error) = self.files.rename(&headed.name, &segment_name(number)) {
            return Err(self.return_free_file(headed, "rename", error));
        }
        self.last_segment = number;
        let FreeFile { file, sectors, .. } = headed;
        self.next = Some(JournalSegment::new(self.identity, number, file, sectors, sectors));
        self.has_new_names = true;
        self.begin_sync(SyncTarget::Folder)
    }

    /// Appends the next segment to the chain; commits go to it from now on.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.make_next_segment()?;
        let sealed = self.seal();
        if let Some(former) = self.chain.back_mut()
            && former.has_commits
        {
            // A segment that a write failed for is suspect already, and its commits are durable:
            // only a new failure is an error.
            if let Err(error) = sealed
                && !former.is_suspect
            {
                former.is_suspect = true;
                return Err(StoreError::io("write", &former.name())(error));
            }
        } else if sealed.is_ok() {
            self.retire_last_segment();
        }
        self.chain.extend(self.next.take());
        Ok(())
    }

    /// Notes in the last sector of the last segment with commits that the next segment follows it.
    fn seal(&mut self) -> io::Result<()> {
        let last = self.chain.iter().rev().find(|segment| segment.has_commits);
        let Some((next, last)) = self.next.as_ref().zip(last) else { return Ok(()) };
        let index = last.sectors - 1;
        let mut sector = [0; SECTOR_BYTES];
        overwrite_at(&mut sector, 0, &next.number.to_le_bytes());
        last.codec.seal(&mut sector, index, index);
        self.files.write_at(&last.file, sector_offset(index), &sector)?;
        self.files.sync_data(&last.file)
    }

    /// Takes the last segment, which has no commits, out of the chain. If the rename fails, the
    /// segment stays in the chain.
    fn retire_last_segment(&mut self) {
        let Some(last) = self.chain.back() else { return };
        let name = spare_name(last.number);
        if self.files.rename(&last.name(), &name).is_ok()
            && let Some(last) = self.chain.pop_back()
        {
            self.has_new_names = true;
            self.free.push(FreeFile { name, file: last.file, sectors: last.readable });
        }
    }

    /// Frees the files of the segments that no durable commit needs, for new segments.
    pub(super) fn free_emptied_segments(&mut self) {
        for segment in self.leaving.drain(..) {
            let name = segment.name();
            if segment.number <= self.removed_until {
                // The folder may have been removed in part only, so the file may still be there.
                let _ = self.files.remove(&name);
                continue;
            }
            self.free.push(FreeFile { name, file: segment.file, sectors: segment.readable });
        }
    }

    /// Drops the files that are ready for further segments, and removes those of them that the
    /// folder still has.
    pub(super) fn forget_files(&mut self) {
        let next = self.next.take().map(|next| next.name());
        let free = self.free.drain(..).chain(self.headed.take()).map(|file| file.name);
        let making = self.making.take().map(|_| NEW_NAME.to_owned());
        for name in free.chain(next).chain(making) {
            let _ = self.files.remove(&name);
        }
        (self.syncing, self.has_new_names) = (None, false);
    }

    /// Removes one file that is not needed; false if there is none. `keep`: how many files may stay
    /// in reserve.
    pub(super) fn remove_surplus(&mut self, keep: usize) -> Result<bool, StoreError> {
        let of_other_size = self.free.iter().position(|file| file.sectors != self.sectors);
        let capacity = capacity(self.sectors);
        let most = self.reserve() + capacity / 2 + (keep + 1) * capacity;
        let surplus = self.free.len().checked_sub(1).filter(|_| self.ready_octets() >= most);
        let Some(position) = of_other_size.or(surplus) else { return Ok(false) };
        let file = self.free.swap_remove(position);
        match self.files.remove(&file.name) {
            Ok(()) => Ok(true),
            Err(error) => Err(self.return_free_file(file, "remove", error)),
        }
    }
}
