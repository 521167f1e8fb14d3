//! Opens a journal: finds its segments, reads all valid commits, and proves that none is missing.

use std::collections::BTreeSet;
use std::io;

use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::format::{
    FORMAT_VERSION, HEADER_SECTORS, SECTOR_BYTES, SectorState, SegmentHeader, SegmentHeaderError,
    sector_offset, u64_at,
};
use crate::groups::GroupQueue;
use crate::journal::commit::apply;
use crate::journal::segments::{
    BEGUN_NAME, FreeFile, JournalSegment, NEW_NAME, is_segment_size, segment_name, spare_name,
};
use crate::journal::{Journal, JournalOptions, OpenReport};
use crate::record::GroupNumber;
use crate::scan::{FoundCommit, ScanStep};

/// The file that the process locks.
const LOCK_NAME: &str = "lock";

/// The fault of a segment with no valid copy of the header.
const DAMAGED_HEADER: &str = "has a damaged header";

/// The reason why a segment is not opened.
enum SegmentError {
    /// The segment's fault, for the report; opening goes on with the other segments.
    Unusable(&'static str),
    Store(StoreError),
}

impl From<StoreError> for SegmentError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The names of the files in a folder by use; those of segments and spare files as numbers.
#[derive(Debug, Default)]
struct FolderNames {
    segments: BTreeSet<u64>,
    spares: BTreeSet<u64>,
    /// True if there is an unfinished file, which was being filled with zeros.
    has_new: bool,
    /// True if there is the file that says that the journal has had a commit.
    has_begun: bool,
    foreign: Vec<String>,
}

impl FolderNames {
    fn sort(names: Vec<String>) -> Self {
        let mut sorted = Self::default();
        for name in names {
            let stem = name.strip_suffix(".segment").unwrap_or("");
            let number = u64::from_str_radix(stem.strip_prefix("spare-").unwrap_or(stem), 16);
            match (name.as_str(), number.ok()) {
                (LOCK_NAME, _) => {}
                (NEW_NAME, _) => sorted.has_new = true,
                (BEGUN_NAME, _) => sorted.has_begun = true,
                (_, Some(number)) if name == segment_name(number) => {
                    sorted.segments.insert(number);
                }
                (_, Some(number)) if name == spare_name(number) => {
                    sorted.spares.insert(number);
                }
                _ => sorted.foreign.push(name),
            }
        }
        sorted.foreign.sort();
        sorted
    }
}

/// The results of reading the segments.
#[derive(Debug, Default)]
struct ReplayState {
    last: Option<FoundCommit>,
    last_segment: u64,
    report: OpenReport,
}

impl ReplayState {
    fn last_commit(&self) -> u64 {
        self.last.map_or(0, |last| last.header.commit)
    }

    fn last_group(&self) -> u64 {
        self.last.map_or(0, |last| last.header.last())
    }

    fn add(&mut self, file: String, what: impl Into<String>) {
        let (what, after) = (what.into(), self.last_group());
        self.report.losses.push(Damage { file, what, after, before: None });
    }

    fn pass(&mut self, commit: FoundCommit) {
        if let Some(damage) = self.report.losses.last_mut() {
            damage.before.get_or_insert(commit.header.first);
        }
        self.last = Some(commit);
    }
}

impl<F: Files> Journal<F> {
    /// Opens the journal of a folder, or creates one if there is none.
    ///
    /// # Errors
    /// [`StoreError`]: another process has the folder, the folder cannot be used, or the journal is
    /// damaged. The failed call has lost no record.
    pub fn open(mut files: F, options: &JournalOptions) -> Result<(Self, OpenReport), StoreError> {
        files.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::InUse,
            _ => StoreError::io("lock", "")(error),
        })?;
        let names = FolderNames::sort(files.list().map_err(StoreError::io("read", ""))?);
        let mut journal = Self::empty(files, options)?;
        let mut replay = ReplayState::default();
        replay.report.foreign = names.foreign.clone();
        replay.report.is_new = names.segments.is_empty() && !names.has_begun;
        let last_segment = names.segments.last().max(names.spares.last());
        journal.last_segment = last_segment.copied().unwrap_or(0);
        journal.replay_all(&names, &mut replay)?;
        if names.has_begun && replay.last.is_none() && replay.report.losses.is_empty() {
            let first = names.segments.first().copied().unwrap_or(2);
            replay.add(segment_name(first.saturating_sub(1)), "is missing");
        }
        let is_damaged = !replay.report.losses.is_empty();
        if is_damaged && !options.accept_loss {
            return Err(StoreError::Damaged(replay.report.losses));
        }
        journal.durable_commit = replay.last_commit();
        journal.tried_commit = replay.last_commit();
        journal.groups = GroupQueue::new(GroupNumber(replay.last_group()));
        journal.admitted = journal.groups.durable();
        if replay.last.is_some() && !names.has_begun {
            // The file is missing: the process crashed before it made the file, or an older program
            // wrote the journal.
            // wrote the journal.
            journal.files.create(BEGUN_NAME).map_err(StoreError::io("create", BEGUN_NAME))?;
        }
        journal.has_begun = replay.last.is_some() || names.has_begun;
        journal.sync_last_commit(&replay)?;
        journal.keep_reusable_files(&names)?;
        if is_damaged {
            journal.rewrite_all()?;
        } else if journal.chain.is_empty() {
            journal.roll()?;
        }
        Ok((journal, replay.report))
    }

    /// Reads all segments into the chain and the index.
    fn replay_all(
        &mut self,
        names: &FolderNames,
        replay: &mut ReplayState,
    ) -> Result<(), StoreError> {
        let mut found = self.find_chain(names, replay)?;
        let last_commits = self.last_commits(&found)?;
        for (segment, until) in found.iter_mut().zip(last_commits) {
            self.replay(segment, until, replay)?;
        }
        self.check_successors(&found, replay)?;
        self.last_changed = self.last_segment;
        // The first segments of the chain may never have had a commit.
        let empty = found.iter().take_while(|segment| !segment.has_commits).count();
        self.leaving.extend(found.drain(..empty.min(found.len().saturating_sub(1))));
        self.chain.extend(found);
        Ok(())
    }

    /// Opens the segments that are needed: from the one that the last commit names as the oldest.
    fn find_chain(
        &mut self,
        names: &FolderNames,
        replay: &mut ReplayState,
    ) -> Result<Vec<JournalSegment<F::File>>, StoreError> {
        let mut found = Vec::new();
        let mut oldest = None;
        for &number in names.segments.iter().rev() {
            if oldest.is_some_and(|oldest| number < oldest) {
                break;
            }
            let segment = match self.open_segment(number, found.is_empty(), &mut replay.report) {
                Ok(segment) => segment,
                Err(SegmentError::Unusable(what)) => {
                    replay.add(segment_name(number), what);
                    continue;
                }
                Err(SegmentError::Store(error)) => return Err(error),
            };
            if segment.readable < segment.sectors {
                let octets = sector_offset(segment.readable);
                replay.add(segment.name(), format!("is cut off after {octets} octets"));
            }
            if oldest.is_none() {
                oldest = self.oldest_needed_segment(&segment)?;
            }
            found.push(segment);
        }
        found.reverse();
        if let Some(oldest) = oldest.filter(|oldest| !names.segments.contains(oldest)) {
            replay.add(segment_name(oldest), "is missing");
        }
        Ok(found)
    }

    /// Opens the segment of this number, and checks its header.
    fn open_segment(
        &mut self,
        number: u64,
        is_first: bool,
        report: &mut OpenReport,
    ) -> Result<JournalSegment<F::File>, SegmentError> {
        let name = segment_name(number);
        let (file, octets) = self.open_file(&name)?;
        let readable = u32::try_from(octets / SECTOR_BYTES as u64).unwrap_or(u32::MAX);
        if readable < HEADER_SECTORS {
            return Err(SegmentError::Unusable(DAMAGED_HEADER));
        }
        let mut copies = [[0; SECTOR_BYTES]; 2];
        let read = self.files.read_at(&file, 0, copies.as_flattened_mut());
        read.map_err(StoreError::io("read", &name))?;
        let header = match SegmentHeader::decode(&copies) {
            Ok(header) if is_segment_size(header.sectors) => header,
            Ok(_) | Err(SegmentHeaderError::Damaged) => {
                return Err(SegmentError::Unusable(DAMAGED_HEADER));
            }
            Err(SegmentHeaderError::Newer(version)) => {
                let newest = FORMAT_VERSION;
                return Err(StoreError::Newer { file: name, version, newest }.into());
            }
        };
        if copies[0] != copies[1] {
            report.damaged_headers.push(name.clone());
        }
        if is_first {
            self.identity = header.identity;
        }
        if header.number < number || header.identity != self.identity {
            return Err(StoreError::Foreign { file: name }.into());
        }
        if header.number > number {
            // The file was free, and already has the header of a later segment: the segment of this
            // name is gone.
            return Err(SegmentError::Unusable("is missing"));
        }
        Ok(JournalSegment::new(self.identity, number, file, header.sectors, readable))
    }

    /// Opens a file, and returns its length in octets with it.
    fn open_file(&mut self, name: &str) -> Result<(F::File, u64), StoreError> {
        let opened = self.files.open(name).and_then(|file| Ok((self.files.len(&file)?, file)));
        let (octets, file) = opened.map_err(StoreError::io("open", name))?;
        Ok((file, octets))
    }

    /// Returns the number of the oldest needed segment according to the last commit of `segment`;
    /// `None` if it has no commit.
    fn oldest_needed_segment(
        &mut self,
        segment: &JournalSegment<F::File>,
    ) -> Result<Option<u64>, StoreError> {
        let mut scan = segment.scan();
        let mut oldest = None;
        loop {
            match segment.next_scan_step(&mut self.files, &mut scan)? {
                ScanStep::Commit(commit) => oldest = Some(commit.header.oldest),
                ScanStep::Gap(gap) if gap.next.is_none() => return Ok(oldest),
                ScanStep::Gap(_) => {}
            }
        }
    }

    /// Returns the last valid commit of each segment, according to the first commit of the segments
    /// behind it; `None` if they do not say.
    fn last_commits(
        &mut self,
        found: &[JournalSegment<F::File>],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let (mut last, mut all) = (None, Vec::new());
        for segment in found.iter().rev() {
            all.push(last);
            last = match segment.next_scan_step(&mut self.files, &mut segment.scan())? {
                ScanStep::Commit(commit) => Some(commit.header.previous),
                ScanStep::Gap(gap) if gap.next.is_some() || gap.is_damaged => None,
                ScanStep::Gap(_) => last,
            };
        }
        all.reverse();
        Ok(all)
    }

    /// Reads a segment. Ignores its commits after `until`: they failed, and were written again
    /// elsewhere.
    fn replay(
        &mut self,
        segment: &mut JournalSegment<F::File>,
        until: Option<u64>,
        replay: &mut ReplayState,
    ) -> Result<(), StoreError> {
        let name = segment.name();
        let losses_before = replay.report.losses.len();
        let mut scan = segment.scan();
        replay.report.is_torn = false;
        loop {
            match segment.next_scan_step(&mut self.files, &mut scan)? {
                ScanStep::Commit(commit)
                    if until.is_some_and(|until| commit.header.commit > until) =>
                {
                    replay.report.is_torn = true;
                    break;
                }
                ScanStep::Commit(commit) => {
                    apply(&mut self.index, &scan.content, segment.short_number(), commit.at);
                    replay.pass(commit);
                    replay.last_segment = segment.number;
                    segment.at = commit.end;
                    segment.has_commits = true;
                }
                ScanStep::Gap(_) if until.is_some_and(|until| replay.last_commit() >= until) => {
                    break;
                }
                ScanStep::Gap(gap) => {
                    replay.report.is_torn |= gap.is_torn;
                    if gap.next.is_none() && !gap.is_damaged {
                        break;
                    }
                    let end = gap.next.unwrap_or(segment.sectors - 1);
                    replay.add(name.clone(), Damage::describe_sectors(gap.at, end));
                    if gap.next.is_none() {
                        break;
                    }
                }
            }
        }
        segment.is_suspect = replay.report.is_torn;
        let last = replay.last_commit();
        let is_named = replay.report.losses.len() > losses_before;
        if let Some(expected) = until.filter(|until| last < *until && !is_named) {
            replay.add(name, format!("ends with commit {last} instead of {expected}"));
        }
        Ok(())
    }

    /// Checks that each segment that another one names as its successor is there.
    fn check_successors(
        &mut self,
        found: &[JournalSegment<F::File>],
        replay: &mut ReplayState,
    ) -> Result<(), StoreError> {
        for (position, segment) in found.iter().enumerate() {
            let index = segment.sectors - 1;
            if segment.readable <= index {
                continue;
            }
            let mut sector = [0; SECTOR_BYTES];
            let read = self.files.read_at(&segment.file, sector_offset(index), &mut sector);
            read.map_err(StoreError::io("read", &segment.name()))?;
            match segment.codec.check(&sector, index) {
                SectorState::Whole(start) if start == index => {
                    let next = u64_at(&sector, 0).unwrap_or(0);
                    let name = segment_name(next);
                    let is_there = found.iter().any(|other| other.number == next);
                    if !is_there && replay.report.losses.iter().all(|damage| damage.file != name) {
                        replay.add(name, "is missing");
                    }
                }
                SectorState::Damaged if position + 1 == found.len() => {
                    let what = Damage::describe_sectors(index, segment.sectors);
                    replay.add(segment.name(), what);
                }
                SectorState::Whole(_) | SectorState::Damaged | SectorState::Unwritten => {}
            }
        }
        Ok(())
    }

    /// Writes the last commit again, and syncs it and all names. A process that ended before its
    /// sync leaves both in the kernel's memory only, where they look durable.
    fn sync_last_commit(&mut self, replay: &ReplayState) -> Result<(), StoreError> {
        let last = self.chain.iter().find(|segment| segment.number == replay.last_segment);
        if let Some((segment, commit)) = last.zip(replay.last) {
            let name = segment.name();
            let sectors = usize::try_from(commit.end - commit.at).unwrap_or(0);
            self.raw.clear();
            self.raw.resize(sectors, [0; SECTOR_BYTES]);
            let octets = self.raw.as_flattened_mut();
            let at = sector_offset(commit.at);
            let failed = |action| StoreError::io(action, &name);
            self.files.read_at(&segment.file, at, octets).map_err(failed("read"))?;
            self.files.write_at(&segment.file, at, octets).map_err(failed("write"))?;
            self.files.sync_data(&segment.file).map_err(failed("sync"))?;
        }
        self.files.sync_folder().map_err(StoreError::io("sync", ""))
    }

    /// Keeps files of former segments for new ones, and removes files that cannot be used again.
    fn keep_reusable_files(&mut self, names: &FolderNames) -> Result<(), StoreError> {
        if names.has_new {
            self.files.remove(NEW_NAME).map_err(StoreError::io("remove", NEW_NAME))?;
        }
        let oldest = self.chain.front().map_or(u64::MAX, |oldest| oldest.number);
        let is_leaving = |number| self.leaving.iter().any(|segment| segment.number == number);
        let former = names.segments.range(..oldest).filter(|number| !is_leaving(**number));
        let former: Vec<_> = former.map(|number| segment_name(*number)).collect();
        for name in former.into_iter().chain(names.spares.iter().map(|spare| spare_name(*spare))) {
            let (file, octets) = self.open_file(&name)?;
            if octets == sector_offset(self.sectors) {
                self.free.push(FreeFile { name, file, sectors: self.sectors });
            } else {
                self.files.remove(&name).map_err(StoreError::io("remove", &name))?;
            }
        }
        Ok(())
    }
}
