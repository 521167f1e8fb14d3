//! The journal: a log of commits in segments, and an index of the live records.

mod commit;
mod compaction;
mod open;
mod segments;
mod visit;

use std::collections::VecDeque;
use std::io;

use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::error::{AppendError, Damage, StoreError};
use crate::files::Files;
use crate::format::{COMMIT_HEADER_BYTES, GROUP_HEADER_BYTES, SECTOR_BYTES, SECTOR_PAYLOAD_BYTES};
use crate::groups::GroupQueue;
use crate::index::LiveIndex;
use crate::record::{GroupNumber, RecordKey, RecordKind, StoreChange, Upkeep};
use crate::record_store::RecordStore;
use crate::scan::SegmentScan;
use segments::{FreeFile, JournalSegment, NewFile, SyncTarget};

/// Options for opening a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// Identifies the files of this journal: a random number, used only to create a journal in an
    /// empty folder.
    pub identity: u64,
    /// Size of a new segment, a multiple of 512; existing segments keep their sizes. Unit: octets.
    pub segment_bytes: u32,
    /// Opens a damaged journal without the lost records, and copies the others into new segments.
    pub accept_loss: bool,
}

impl JournalOptions {
    /// Returns options with segments of 16 MiB; a damaged journal is refused.
    #[must_use]
    pub const fn new(identity: u64) -> Self {
        Self { identity, segment_bytes: 16 << 20, accept_loss: false }
    }
}

/// The findings of opening a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenReport {
    /// True if the folder had no journal.
    pub is_new: bool,
    /// True if the last segment ends with an incomplete commit, which is dropped: it was never
    /// acknowledged.
    pub is_torn: bool,
    /// The lost records; empty unless [`JournalOptions::accept_loss`] is set.
    pub losses: Vec<Damage>,
    /// Names of segments that have one damaged copy of the header; the other copy is used.
    pub damaged_headers: Vec<String>,
    /// Names of files that do not belong to the journal, which leaves them alone.
    pub foreign: Vec<String>,
}

/// Figures of a journal, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalFigures {
    /// How many records are live.
    pub records: usize,
    /// Octets of the live records with their keys, as encoded in the journal.
    pub live_octets: u64,
    /// Octets of all files of the journal.
    pub file_octets: u64,
    /// Octets that are appended and not durable yet.
    pub pending_octets: usize,
    /// Number of the last durable group.
    pub durable: GroupNumber,
    /// Commits since the journal was opened.
    pub commits: u64,
    /// Octets of records that compaction has copied since the journal was opened.
    pub copied_octets: u64,
    /// True if the file system had no room for another segment.
    pub is_out_of_space: bool,
}

/// Copies of records, as encoded changes, that compaction adds to the next commits.
#[derive(Debug, Default)]
struct WaitingCopies {
    octets: Vec<u8>,
    lens: VecDeque<usize>,
}

impl WaitingCopies {
    fn clear(&mut self) {
        self.octets.clear();
        self.lens.clear();
    }

    /// Returns how many copies, from the front, fit into `room` octets, and how many octets they
    /// take.
    fn count_fitting(&self, room: usize) -> (usize, usize) {
        let mut taken = (0, 0);
        for len in &self.lens {
            if taken.1 + len > room {
                break;
            }
            taken = (taken.0 + 1, taken.1 + len);
        }
        taken
    }

    fn drop_first(&mut self, count: usize, octets: usize) {
        self.lens.drain(..count);
        self.octets.drain(..octets);
    }
}

/// A store that keeps its records in a folder of files.
#[derive(Debug)]
pub struct Journal<F: Files> {
    files: F,
    identity: u64,
    /// Sectors of a new segment.
    sectors: u32,
    index: LiveIndex,
    /// All needed segments, the oldest first. Commits are written to the last one.
    chain: VecDeque<JournalSegment<F::File>>,
    /// The prepared segment that becomes the last of the chain when that is full.
    next: Option<JournalSegment<F::File>>,
    /// Files that can become further segments.
    free: Vec<FreeFile<F::File>>,
    /// Segments that compaction has emptied; kept until a durable commit says that they are not
    /// needed.
    leaving: Vec<JournalSegment<F::File>>,
    /// The file that is being filled with zeros.
    making: Option<NewFile<F::File>>,
    /// The file that has the header of the next segment, while that header is being synced.
    headed: Option<FreeFile<F::File>>,
    /// True if files were created, renamed or removed after the last sync of the folder began.
    has_new_names: bool,
    /// The target of the sync that runs while commits go on; `None` if none runs.
    syncing: Option<SyncTarget>,
    /// The greatest number that a segment has had.
    last_segment: u64,
    /// Number of the last durable commit.
    durable_commit: u64,
    /// Number of the last commit that was written, durable or failed.
    tried_commit: u64,
    /// Queue of the groups that are not durable.
    groups: GroupQueue,
    /// The last group that is admitted to a commit; and the octets in a commit of all admitted
    /// groups.
    admitted: GroupNumber,
    admitted_octets: usize,
    /// Copies of live records of the oldest segment, which wait for a commit.
    copies: WaitingCopies,
    /// True if a commit is due even without changes, to say in its header which segment is the
    /// oldest.
    must_announce: bool,
    /// The position of compaction in the oldest segment.
    cursor: Option<SegmentScan>,
    /// Number of the last segment with changes. Later segments have only copies, which compaction
    /// would not make denser.
    last_changed: u64,
    /// Segments up to this number are compacted, even if that frees no space.
    rewrite_until: u64,
    /// Records in segments up to this number are given up if they cannot be read.
    salvage_until: u64,
    /// Segments up to this number were removed from the folder; this process still has their files
    /// open.
    removed_until: u64,
    is_out_of_space: bool,
    /// True once the folder has, durably, the file that says that the journal has a commit.
    has_begun: bool,
    /// Number of the oldest segment, if it has records that cannot be read.
    damaged: Option<u64>,
    /// Damage of segments up to this number is counted in `losses` already.
    lost_until: u64,
    losses: u64,
    /// Octets of sectors that commits have written since the last upkeep, without copies.
    written_since: usize,
    commits: u64,
    copied_octets: u64,
    content: Vec<u8>,
    raw: Vec<[u8; SECTOR_BYTES]>,
}

impl<F: Files> Journal<F> {
    fn empty(files: F, options: &JournalOptions) -> Result<Self, StoreError> {
        let sectors =
            segments::segment_sector_count(options.segment_bytes).ok_or(StoreError::SegmentSize)?;
        Ok(Self {
            files,
            identity: options.identity,
            sectors,
            index: LiveIndex::new(),
            chain: VecDeque::new(),
            next: None,
            free: Vec::new(),
            leaving: Vec::new(),
            making: None,
            headed: None,
            has_new_names: false,
            syncing: None,
            last_segment: 0,
            durable_commit: 0,
            tried_commit: 0,
            groups: GroupQueue::default(),
            admitted: GroupNumber(0),
            admitted_octets: 0,
            copies: WaitingCopies::default(),
            must_announce: false,
            cursor: None,
            last_changed: 0,
            rewrite_until: 0,
            salvage_until: 0,
            removed_until: 0,
            is_out_of_space: false,
            has_begun: false,
            damaged: None,
            lost_until: 0,
            losses: 0,
            written_since: 0,
            commits: 0,
            copied_octets: 0,
            content: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// Returns the figures of the journal, for operators.
    #[must_use]
    pub fn figures(&self) -> JournalFigures {
        JournalFigures {
            records: self.index.len(),
            live_octets: self.index.live_octets(),
            file_octets: self.file_octets(),
            pending_octets: self.groups.waiting_octets(),
            durable: self.groups.durable(),
            commits: self.commits,
            copied_octets: self.copied_octets,
            is_out_of_space: self.is_out_of_space,
        }
    }

    /// Returns the folder.
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// Checks that the folder and the segment that commits go to are still under their names.
    ///
    /// # Errors
    /// [`StoreError::Removed`] if they were removed or replaced.
    pub fn check_place(&mut self) -> Result<(), StoreError> {
        let Some(active) = self.chain.back() else { return Ok(()) };
        let is_in_place = self.files.is_in_place(&active.file);
        match is_in_place.map_err(StoreError::io("read", ""))? {
            true => Ok(()),
            false => Err(StoreError::Removed),
        }
    }

    /// Makes the folder and the segment that commits go to again after they were removed, and
    /// copies all live records into it from the removed files, which this process still has open.
    /// Records that cannot be copied now are left to upkeep; until upkeep has copied them, another
    /// process that opened the journal would find it damaged.
    ///
    /// # Errors
    /// [`StoreError::Removed`]: other files stand in the folder's place. Other errors: the folder
    /// or the segment cannot be made now; call again later.
    pub fn begin_again(&mut self) -> Result<(), StoreError> {
        self.files.renew().map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::WouldBlock => StoreError::Removed,
            _ => StoreError::io("make", "")(error),
        })?;
        self.forget_files();
        self.has_begun = false;
        self.removed_until = self.last_segment;
        self.copy_from_removed_files()
    }

    /// Returns the octets of sectors that the live records would take if packed densely.
    fn live_sector_octets(&self) -> u64 {
        let live = self.index.live_octets();
        live + live * (SECTOR_BYTES - SECTOR_PAYLOAD_BYTES) as u64 / SECTOR_PAYLOAD_BYTES as u64
    }

    /// True if the files have room for a group of this length beyond the reserve of compaction.
    /// Prepares another file before they run out.
    fn has_room_for_group(&mut self, octets: usize) -> bool {
        let wanted = self.admitted_octets + octets + COMMIT_HEADER_BYTES;
        self.keep_reserve(wanted);
        !self.is_out_of_space || wanted + self.compaction_reserve() <= self.ready_octets()
    }
}

impl<F: Files> RecordStore for Journal<F> {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        let capacity = segments::capacity(self.sectors).min(STORE_GROUP_BYTES_MAX);
        self.groups.append(changes, capacity - COMMIT_HEADER_BYTES - GROUP_HEADER_BYTES)
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        let admitted = self.admit_groups();
        self.commit_all()?;
        self.compact_to_bound();
        admitted.map(|()| self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    fn is_full(&self) -> bool {
        self.is_out_of_space && self.ready_octets() < self.admitted_octets + self.reserve()
    }

    fn is_damaged(&self) -> bool {
        self.damaged.is_some()
    }

    fn losses(&self) -> u64 {
        self.losses
    }

    fn set_complete(&mut self) {
        self.salvage_until = self.lost_until;
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        self.upkeep()
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.visit_kinds(kinds, visitor)
    }
}
