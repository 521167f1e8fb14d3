//! The journal: a log of commits in segments, and an index of the records that are live.

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
use crate::format::{COMMIT_HEADER_BYTES, GROUP_HEADER_BYTES, PAYLOAD, SECTOR};
use crate::groups::GroupQueue;
use crate::index::LiveIndex;
use crate::record::{RecordKey, RecordKind, RecordNumber, StoreChange, Upkeep};
use crate::record_store::RecordStore;
use crate::scan::SegmentScan;
use segments::{FreeFile, JournalSegment, NewFile, SyncTarget};

/// How a journal is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// Marks the files of this journal. A random number, used only if the folder has no journal
    /// yet.
    pub identity: u64,
    /// Octets of a new segment: a multiple of 512. Existing segments keep theirs.
    pub segment_bytes: u32,
    /// Opens a damaged journal without the lost records, and writes the rest into new segments.
    pub accept_loss: bool,
}

impl JournalOptions {
    /// Segments of 16 MiB; a damaged journal is refused.
    #[must_use]
    pub const fn new(identity: u64) -> Self {
        Self { identity, segment_bytes: 16 << 20, accept_loss: false }
    }
}

/// The findings of opening a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenReport {
    /// The folder had no journal.
    pub is_new: bool,
    /// The last segment ends with a commit that is not whole. It was never acknowledged, and is
    /// dropped.
    pub is_torn: bool,
    /// The losses, with [`JournalOptions::accept_loss`].
    pub losses: Vec<Damage>,
    /// Segments with one of their two header copies damaged.
    pub damaged_headers: Vec<String>,
    /// Files that do not belong to the journal. They stay.
    pub foreign: Vec<String>,
}

/// Figures of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalFigures {
    /// Live records.
    pub records: usize,
    /// Octets of the live records with their keys, as they stand in the journal.
    pub live_octets: u64,
    /// Octets of all files of the journal.
    pub file_octets: u64,
    /// Octets that wait to become durable.
    pub pending_octets: usize,
    /// The last durable group.
    pub durable: RecordNumber,
    /// Commits since the journal was opened.
    pub commits: u64,
    /// Octets of records that compaction has copied since the journal was opened.
    pub copied_octets: u64,
    /// The file system had no room for another segment.
    pub is_out_of_space: bool,
}

/// Copies of records that wait for a commit, as octets of changes.
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

    /// How many of the first ones take at most `room` octets, and how many octets those take.
    fn fitting(&self, room: usize) -> (usize, usize) {
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

/// A store in a folder of files.
#[derive(Debug)]
pub struct Journal<F: Files> {
    files: F,
    identity: u64,
    /// Sectors of a new segment.
    sectors: u32,
    index: LiveIndex,
    /// All segments that are needed, the oldest first. Commits go to the last one.
    chain: VecDeque<JournalSegment<F::File>>,
    /// Ready to become the last of the chain.
    next: Option<JournalSegment<F::File>>,
    /// Files for further segments.
    free: Vec<FreeFile<F::File>>,
    /// Segments outside the chain that are needed until a durable commit releases them.
    leaving: Vec<JournalSegment<F::File>>,
    /// A file that is being filled with zeros.
    making: Option<NewFile<F::File>>,
    /// A file with the header of the next segment, which is being synced.
    headed: Option<FreeFile<F::File>>,
    /// Names have changed since a sync of the folder began.
    has_new_names: bool,
    /// The target of a sync that runs in parallel to commits.
    syncing: Option<SyncTarget>,
    /// The greatest number of a segment so far.
    last_segment: u64,
    /// The last durable commit.
    durable_commit: u64,
    /// The last commit that was tried.
    tried_commit: u64,
    /// Groups that are not durable.
    groups: GroupQueue,
    /// The last of them for which there is room, and the octets up to there in a commit.
    admitted: RecordNumber,
    admitted_octets: usize,
    /// Records on their way out of the oldest segment.
    copies: WaitingCopies,
    /// A commit is due although nothing waits: it says which segment is the oldest.
    must_announce: bool,
    /// Where compaction reads the oldest segment.
    cursor: Option<SegmentScan>,
    /// The segment with the last change. Those behind it have copies only, which compaction cannot
    /// make denser.
    last_changed: u64,
    /// Segments up to this one are compacted whatever they hold.
    rewrite_until: u64,
    /// Unreadable records of segments up to this one are given up.
    salvage_until: u64,
    /// Segments up to this one were removed: this process has them open, and the folder does not
    /// have them.
    removed_until: u64,
    is_out_of_space: bool,
    /// The file that says that there is a commit is durable.
    has_begun: bool,
    /// A segment, the oldest one, with records that cannot be read.
    damaged: Option<u64>,
    /// Damage of segments up to this one is among the losses.
    lost_until: u64,
    losses: u64,
    /// Octets of sectors that commits wrote since the last upkeep, without copies.
    written_since: usize,
    commits: u64,
    copied_octets: u64,
    content: Vec<u8>,
    raw: Vec<[u8; SECTOR]>,
}

impl<F: Files> Journal<F> {
    fn empty(files: F, options: &JournalOptions) -> Result<Self, StoreError> {
        let sectors = segments::sectors_of(options.segment_bytes).ok_or(StoreError::SegmentSize)?;
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
            admitted: RecordNumber(0),
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

    /// Figures for operators.
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

    /// The folder.
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// Looks whether the files are where they were.
    ///
    /// # Errors
    /// [`StoreError::Removed`].
    pub fn check_place(&mut self) -> Result<(), StoreError> {
        let Some(active) = self.chain.back() else { return Ok(()) };
        let is_in_place = self.files.is_in_place(&active.file);
        match is_in_place.map_err(StoreError::io("read", ""))? {
            true => Ok(()),
            false => Err(StoreError::Removed),
        }
    }

    /// Goes on in the place of a folder, or of the segment that takes commits, that was removed:
    /// this process has the removed files open, and copies all live records from them. Records that
    /// it cannot copy now are left to upkeep; until that is done, the journal is damaged for a
    /// process that opens it.
    ///
    /// # Errors
    /// [`StoreError::Removed`]: other files have the place. Or there can be no folder, or no
    /// segment; call it again.
    pub fn begin_again(&mut self) -> Result<(), StoreError> {
        self.files.renew().map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::WouldBlock => StoreError::Removed,
            _ => StoreError::io("make", "")(error),
        })?;
        self.forget_files();
        self.has_begun = false;
        self.removed_until = self.last_segment;
        self.copy_removed()
    }

    /// Octets of sectors that the live records would take, densely packed.
    fn live_sector_octets(&self) -> u64 {
        let live = self.index.live_octets();
        live + live * (SECTOR - PAYLOAD) as u64 / PAYLOAD as u64
    }

    /// True if a group of so many octets leaves the reserve of compaction. Gets another file ready
    /// before that is in doubt.
    fn has_room(&mut self, octets: usize) -> bool {
        let wanted = self.admitted_octets + octets + COMMIT_HEADER_BYTES;
        self.keep_reserve(wanted);
        !self.is_out_of_space || wanted + self.compaction_reserve() <= self.ready_octets()
    }
}

impl<F: Files> RecordStore for Journal<F> {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        let capacity = segments::capacity(self.sectors).min(STORE_GROUP_BYTES_MAX);
        self.groups.append(changes, capacity - COMMIT_HEADER_BYTES - GROUP_HEADER_BYTES)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        let admitted = self.admit();
        self.commit_all()?;
        self.keep_bound();
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
