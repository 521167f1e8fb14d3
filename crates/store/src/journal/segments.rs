//! Segments and their files: new ones get ready ahead of time, old ones are used again.

use std::io;

use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::format::{
    HEADER_SECTORS, PAYLOAD, SECTOR, SectorCodec, SegmentHeader, offset_of, put_at,
};
use crate::journal::Journal;
use crate::record::Upkeep;
use crate::scan::{ScanStep, SegmentScan};

/// The file that is being filled with zeros.
pub(super) const NEW_NAME: &str = "new.segment";

/// An empty file that exists once the journal has a commit: from then on some segment has one.
pub(super) const BEGUN_NAME: &str = "begun";

/// Sectors of a segment at least and at most.
const SECTORS_MIN: u32 = 8;
const SECTORS_MAX: u32 = 1 << 22;

/// Sectors of zeros between two syncs while a commit waits for the segment.
const PART_WAITING: u32 = 8192;

/// The target of a sync in parallel to commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncTarget {
    /// Names.
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
    /// Sectors that the file has; fewer only if it is damaged.
    pub readable: u32,
    pub codec: SectorCodec,
    /// The sector behind its last durable commit.
    pub at: u32,
    /// Whether it has a durable commit.
    pub has_commits: bool,
    /// Takes no further commit: the octets behind `at` are uncertain.
    pub is_suspect: bool,
}

/// A file that nothing needs any more.
#[derive(Debug)]
pub(super) struct FreeFile<File> {
    pub name: String,
    pub file: File,
    /// Its size. Only a file with the sectors of a new segment is used again.
    pub sectors: u32,
}

/// A file that is being filled with zeros.
#[derive(Debug)]
pub(super) struct NewFile<File> {
    file: File,
    zeroed: u32,
}

impl<File> JournalSegment<File> {
    /// A segment whose commits are not known yet.
    pub(super) fn new(identity: u64, number: u64, file: File, sectors: u32, readable: u32) -> Self {
        let (codec, at) = (SectorCodec::new(identity, number), HEADER_SECTORS);
        Self { number, file, sectors, readable, codec, at, has_commits: false, is_suspect: false }
    }

    pub(super) fn name(&self) -> String {
        segment_name(self.number)
    }

    /// Reads its commits from the first one on.
    pub(super) fn scan(&self) -> SegmentScan {
        SegmentScan::new(self.codec, self.sectors, self.readable)
    }

    /// The next step of such a scan.
    pub(super) fn read_on<F: Files<File = File>>(
        &self,
        files: &mut F,
        scan: &mut SegmentScan,
    ) -> Result<ScanStep, StoreError> {
        let step = scan.next(&mut |offset, into| files.read_at(&self.file, offset, into));
        step.map_err(|error| StoreError::io("read", &self.name())(error))
    }

    /// The error for durable records of groups up to `durable` that cannot be read, from sector
    /// `first` on.
    pub(super) fn damaged_from(&self, first: u32, durable: u64) -> StoreError {
        let (file, what) = (self.name(), Damage::of_sectors(first, self.at));
        StoreError::Damaged(vec![Damage { file, what, after: 0, before: Some(durable + 1) }])
    }

    /// Octets of commits that still fit.
    pub(super) fn room_octets(&self) -> usize {
        let sectors = (self.sectors - 1).saturating_sub(self.at);
        usize::try_from(sectors).unwrap_or(0) * PAYLOAD
    }

    /// The low bits of its number, which differ from those of all others at the time.
    #[allow(clippy::cast_possible_truncation, reason = "the low bits")]
    pub(super) const fn short_number(&self) -> u32 {
        self.number as u32
    }
}

/// Octets of commits that a segment holds.
pub(super) fn capacity(sectors: u32) -> usize {
    usize::try_from(sectors - HEADER_SECTORS - 1).unwrap_or(0) * PAYLOAD
}

/// Sectors of a segment, or none if a segment cannot have so many octets.
pub(super) fn sectors_of(bytes: u32) -> Option<u32> {
    let sector = u32::try_from(SECTOR).ok()?;
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
    /// Octets of all files.
    pub(super) fn file_octets(&self) -> u64 {
        let chain = self.chain.iter().chain(&self.next).chain(&self.leaving);
        let used: u64 = chain.map(|segment| offset_of(segment.sectors)).sum();
        let free = self.free.iter().chain(&self.headed);
        let free: u64 = free.map(|file| offset_of(file.sectors)).sum();
        used + free + self.making.as_ref().map_or(0, |making| offset_of(making.zeroed))
    }

    /// Octets of commits that fit into the present files: the last segment, and the files that are
    /// ready to follow it.
    pub(super) fn ready_octets(&self) -> usize {
        let last = self.chain.back().filter(|last| !last.is_suspect);
        let free = self.free.iter().chain(&self.headed);
        let free = free.filter(|file| file.sectors == self.sectors).count();
        let files = free + usize::from(self.next.is_some());
        last.map_or(0, JournalSegment::room_octets) + files * capacity(self.sectors)
    }

    /// Octets that copies of so many live ones may take, in commits of their own.
    fn copies_octets(&self, live: u64) -> usize {
        usize::try_from(live).unwrap_or(usize::MAX) / 8 * 9 + capacity(self.sectors) / 16
    }

    /// Octets that compacting the oldest segment, or the rest of it, may take.
    pub(super) fn compaction_octets(&self) -> usize {
        let oldest = self.chain.front();
        self.copies_octets(oldest.map_or(0, |oldest| self.index.live_in(oldest.short_number())))
    }

    /// Octets of the ready files that compaction needs to copy a segment full of live records now,
    /// or when it is done with the oldest one.
    pub(super) fn compaction_reserve(&self) -> usize {
        let capacity = capacity(self.sectors);
        let most = u64::try_from(capacity).unwrap_or(u64::MAX);
        let full = self.copies_octets(self.index.live_octets().min(most));
        match self.cursor {
            Some(_) => full.min(self.compaction_octets() + full.saturating_sub(capacity)),
            None => full,
        }
    }

    /// Octets that are kept ready for changes that must not be refused when the file system is
    /// full.
    pub(super) fn reserve(&self) -> usize {
        self.compaction_reserve() + capacity(self.sectors) / 2
    }

    /// Makes files ready, and waits for them, if the reserve does not outlast `octets`. Where it
    /// cannot, the commits go on as long as they can.
    pub(super) fn keep_reserve(&mut self, octets: usize) {
        while !self.is_out_of_space
            && self.ready_octets() < octets + self.reserve()
            && self.prepare_next(PART_WAITING, true).is_ok()
        {}
    }

    /// True if a further file is to be made ready now. With `is_due`, compaction is about to free
    /// one.
    pub(super) fn wants_file(&self, is_due: bool) -> bool {
        let ahead = if is_due { 0 } else { capacity(self.sectors) / 2 };
        let is_unnamed = self.next.is_none() && !self.free.is_empty();
        is_unnamed || self.ready_octets() < self.reserve() + ahead
    }

    /// True if nothing says that the file system has no room for another file.
    pub(super) fn may_have_space(&mut self) -> bool {
        let creates = self.making.is_none() && self.next_free().is_none();
        let sought = offset_of(self.sectors);
        !creates || self.files.available().is_ok_and(|octets| octets >= sought)
    }

    /// Whether getting the next segment ready has begun.
    pub(super) fn is_preparing(&self) -> bool {
        self.has_new_names || self.syncing.is_some() || self.headed.is_some()
    }

    /// Gets the next segment ready, and waits for it.
    pub(super) fn make_next(&mut self) -> Result<(), StoreError> {
        loop {
            // A sync may be that of a later file, and the next one be ready behind it.
            self.end_sync(true)?;
            if self.next.is_some() && !self.has_new_names && self.syncing.is_none() {
                return Ok(());
            }
            self.prepare_next(PART_WAITING, true)?;
        }
    }

    /// Does a part of getting the next segment ready, or a file for the one behind it: writes at
    /// most `sectors` sectors of zeros or a header and begins to sync it, or names a file.
    pub(super) fn prepare_next(&mut self, sectors: u32, waits: bool) -> Result<Upkeep, StoreError> {
        if !self.end_sync(waits)? {
            return Ok(Upkeep::Waiting);
        }
        // A file whose header is overwritten must not have the name of a segment that is needed.
        if self.has_new_names {
            self.begin_sync(SyncTarget::Folder)?;
        } else if let Some(headed) = self.headed.take() {
            self.name_next(headed)?;
        } else if let Some(position) = self.next_free() {
            let free = self.free.swap_remove(position);
            self.write_header(free)?;
        } else {
            let filled = self.fill_new(sectors);
            if let Err(error) = &filled {
                self.is_out_of_space |= error.is_no_space();
                self.drop_new();
            }
            filled?;
        }
        Ok(Upkeep::Worked)
    }

    /// The file that becomes the next segment, unless there is one. A new one comes first, also
    /// after a failure: the file that is made next takes its name.
    fn next_free(&self) -> Option<usize> {
        let new = self.free.iter().position(|free| free.name == NEW_NAME);
        let position =
            new.or_else(|| self.free.iter().position(|free| free.sectors == self.sectors));
        position.filter(|_| self.next.is_none())
    }

    /// True if no sync is under way any more.
    fn end_sync(&mut self, waits: bool) -> Result<bool, StoreError> {
        let Some(target) = self.syncing else { return Ok(true) };
        let polled = self.files.poll_sync(waits);
        let is_done = polled.map_err(|error| self.sync_failed(target, error))?;
        if is_done {
            self.syncing = None;
        }
        Ok(is_done)
    }

    /// Begins a sync in parallel to commits.
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

    /// The octets are not trusted, and are written again.
    fn sync_failed(&mut self, target: SyncTarget, error: io::Error) -> StoreError {
        self.syncing = None;
        let failed = match target {
            SyncTarget::Folder => {
                self.has_new_names = true;
                StoreError::io("sync", "")(error)
            }
            SyncTarget::Headed => match self.headed.take() {
                Some(headed) => self.give_back(headed, "sync", error),
                None => StoreError::io("sync", "")(error),
            },
            SyncTarget::New => {
                self.drop_new();
                StoreError::io("sync", NEW_NAME)(error)
            }
        };
        self.is_out_of_space |= failed.is_no_space();
        failed
    }

    /// A file that `action` has failed for is as free as before.
    fn give_back(
        &mut self,
        free: FreeFile<F::File>,
        action: &'static str,
        error: io::Error,
    ) -> StoreError {
        let failed = StoreError::io(action, &free.name)(error);
        self.free.push(free);
        failed
    }

    fn drop_new(&mut self) {
        self.making = None;
        let _ = self.files.remove(NEW_NAME);
    }

    /// Writes zeros to the new file, which becomes free once it is complete and synced.
    fn fill_new(&mut self, sectors: u32) -> Result<(), StoreError> {
        if self.making.is_none() {
            let file = self.files.create(NEW_NAME).map_err(StoreError::io("create", NEW_NAME))?;
            self.making = Some(NewFile { file, zeroed: 0 });
        }
        if let Some(made) = self.making.take_if(|making| making.zeroed == self.sectors) {
            let mut name = NEW_NAME.to_owned();
            if self.next.is_some() {
                // The finished file waits, and others may be made meanwhile.
                name = spare_name(self.last_segment + 1);
                self.files.rename(NEW_NAME, &name).map_err(StoreError::io("rename", NEW_NAME))?;
                self.last_segment += 1;
            }
            self.is_out_of_space = false;
            self.free.push(FreeFile { name, file: made.file, sectors: self.sectors });
        }
        let Some(making) = &mut self.making else { return Ok(()) };
        let end = self.sectors.min(making.zeroed.saturating_add(sectors));
        let (at, len) = (offset_of(making.zeroed), offset_of(end - making.zeroed));
        let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
        let written = self.files.write_at(&making.file, at, &zeros);
        written.map_err(StoreError::io("write", NEW_NAME))?;
        making.zeroed = end;
        self.begin_sync(SyncTarget::New)
    }

    /// Writes the header of the next segment.
    fn write_header(&mut self, free: FreeFile<F::File>) -> Result<(), StoreError> {
        let (identity, number) = (self.identity, self.last_segment + 1);
        let header = SegmentHeader { identity, number, sectors: free.sectors }.encode();
        if let Err(error) = self.files.write_at(&free.file, 0, header.as_flattened()) {
            return Err(self.give_back(free, "write", error));
        }
        self.headed = Some(free);
        self.begin_sync(SyncTarget::Headed)
    }

    /// Gives a file with a durable header its name.
    fn name_next(&mut self, headed: FreeFile<F::File>) -> Result<(), StoreError> {
        let number = self.last_segment + 1;
        if let Err(error) = self.files.rename(&headed.name, &segment_name(number)) {
            return Err(self.give_back(headed, "rename", error));
        }
        self.last_segment = number;
        let FreeFile { file, sectors, .. } = headed;
        self.next = Some(JournalSegment::new(self.identity, number, file, sectors, sectors));
        self.has_new_names = true;
        self.begin_sync(SyncTarget::Folder)
    }

    /// The next segment becomes the last of the chain.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.make_next()?;
        let sealed = self.seal();
        if let Some(former) = self.chain.back_mut()
            && former.has_commits
        {
            // If its file failed before, the commits that are in it are durable all the same.
            if let Err(error) = sealed
                && !former.is_suspect
            {
                former.is_suspect = true;
                return Err(StoreError::io("write", &former.name())(error));
            }
        } else if sealed.is_ok() {
            self.retire_last();
        }
        self.chain.extend(self.next.take());
        Ok(())
    }

    /// Notes at the end of the last segment with commits that the next segment follows.
    fn seal(&mut self) -> io::Result<()> {
        let last = self.chain.iter().rev().find(|segment| segment.has_commits);
        let Some((next, last)) = self.next.as_ref().zip(last) else { return Ok(()) };
        let index = last.sectors - 1;
        let mut sector = [0; SECTOR];
        put_at(&mut sector, 0, &next.number.to_le_bytes());
        last.codec.seal(&mut sector, index, index);
        self.files.write_at(&last.file, offset_of(index), &sector)?;
        self.files.sync_data(&last.file)
    }

    /// Takes the last segment, which has no commits, out of the chain. If that fails it stays,
    /// without commits.
    fn retire_last(&mut self) {
        let Some(last) = self.chain.back() else { return };
        let name = spare_name(last.number);
        if self.files.rename(&last.name(), &name).is_ok()
            && let Some(last) = self.chain.pop_back()
        {
            self.has_new_names = true;
            self.free.push(FreeFile { name, file: last.file, sectors: last.readable });
        }
    }

    /// Segments that no durable commit needs become files for new ones.
    pub(super) fn free_leaving(&mut self) {
        for segment in self.leaving.drain(..) {
            let name = segment.name();
            if segment.number <= self.removed_until {
                // Only a part of the folder may have been removed.
                let _ = self.files.remove(&name);
                continue;
            }
            self.free.push(FreeFile { name, file: segment.file, sectors: segment.readable });
        }
    }

    /// Forgets the files that are ready for further segments, and removes those that the folder
    /// still has.
    pub(super) fn forget_files(&mut self) {
        let next = self.next.take().map(|next| next.name());
        let free = self.free.drain(..).chain(self.headed.take()).map(|file| file.name);
        let making = self.making.take().map(|_| NEW_NAME.to_owned());
        for name in free.chain(next).chain(making) {
            let _ = self.files.remove(&name);
        }
        (self.syncing, self.has_new_names) = (None, false);
    }

    /// Removes a file that is not needed. False if there is none. `keep`: how many files may stay
    /// that are not needed yet.
    pub(super) fn remove_surplus(&mut self, keep: usize) -> Result<bool, StoreError> {
        let of_other_size = self.free.iter().position(|file| file.sectors != self.sectors);
        let capacity = capacity(self.sectors);
        let most = self.reserve() + capacity / 2 + (keep + 1) * capacity;
        let surplus = self.free.len().checked_sub(1).filter(|_| self.ready_octets() >= most);
        let Some(position) = of_other_size.or(surplus) else { return Ok(false) };
        let file = self.free.swap_remove(position);
        match self.files.remove(&file.name) {
            Ok(()) => Ok(true),
            Err(error) => Err(self.give_back(file, "remove", error)),
        }
    }
}
