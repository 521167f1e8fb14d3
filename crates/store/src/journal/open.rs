//! Opening: finds the segments, reads all commits that count, and proves that none is missing.

use std::collections::BTreeMap;
use std::io;

use crate::error::{Damage, DamageKind, StoreError};
use crate::files::Files;
use crate::format::{
    FORMAT_VERSION, HEADER_SECTORS, SECTOR, SealNote, SectorCodec, SectorState, SegmentHeader,
    SegmentHeaderError, offset_of,
};
use crate::journal::commit::apply;
use crate::journal::segments::{
    BEGUN_NAME, FreeFile, JournalSegment, NEW_NAME, is_segment_size, segment_name,
};
use crate::journal::{Journal, JournalOptions, OpenReport};
use crate::scan::{FoundCommit, ScanStep};

/// The file that the process holds a lock on.
const LOCK_NAME: &str = "lock";

/// The files of a folder, by their names.
#[derive(Debug, Default)]
struct FolderNames {
    segments: BTreeMap<u64, String>,
    spares: BTreeMap<u64, String>,
    /// A file was being filled with zeros.
    has_new: bool,
    /// The journal had a commit.
    has_begun: bool,
    foreign: Vec<String>,
}

impl FolderNames {
    fn sort(names: Vec<String>) -> Self {
        let mut sorted = Self::default();
        for name in names {
            if name == LOCK_NAME || name == NEW_NAME {
                sorted.has_new |= name == NEW_NAME;
                continue;
            }
            if name == BEGUN_NAME {
                sorted.has_begun = true;
                continue;
            }
            let stem = name.strip_suffix(".segment").unwrap_or("");
            let number = |digits: &str| {
                let is_hex = digits.bytes().all(|octet| matches!(octet, b'0'..=b'9' | b'a'..=b'f'));
                (digits.len() == 16 && is_hex)
                    .then(|| u64::from_str_radix(digits, 16).ok())
                    .flatten()
            };
            if let Some(number) = number(stem) {
                sorted.segments.insert(number, name);
            } else if let Some(number) = stem.strip_prefix("spare-").and_then(number) {
                sorted.spares.insert(number, name);
            } else {
                sorted.foreign.push(name);
            }
        }
        sorted.foreign.sort();
        sorted
    }
}

/// The first commit of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstCommit {
    /// There is no commit.
    None,
    /// It follows this one; none between the two counts.
    After(u64),
    Damaged,
}

/// What reading the segments has come to.
#[derive(Debug, Default)]
struct Replay {
    last: Option<FoundCommit>,
    last_segment: u64,
    damage: Vec<Damage>,
    /// The last of the damage has no end yet.
    is_open: bool,
    is_torn: bool,
}

impl Replay {
    fn last_commit(&self) -> u64 {
        self.last.map_or(0, |last| last.header.commit)
    }

    fn last_group(&self) -> u64 {
        self.last.map_or(0, |last| last.header.last())
    }

    fn add(&mut self, file: String, kind: DamageKind) {
        self.damage.push(Damage { file, kind, after: self.last_group(), before: None });
        self.is_open = true;
    }

    fn pass(&mut self, commit: FoundCommit) {
        if let Some(damage) = self.damage.last_mut().filter(|_| self.is_open) {
            damage.before = Some(commit.header.first);
        }
        self.is_open = false;
        self.last = Some(commit);
    }
}

impl<F: Files> Journal<F> {
    /// Opens the journal of a folder, or makes one where there is none.
    ///
    /// # Errors
    /// [`StoreError`]: the folder belongs to another process, cannot be used, or its journal is damaged. Nothing
    /// was lost by opening.
    pub fn open(mut files: F, options: &JournalOptions) -> Result<(Self, OpenReport), StoreError> {
        files.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::InUse,
            _ => StoreError::io("lock", "")(error),
        })?;
        let names = files.list().map_err(StoreError::io("read", ""))?;
        let names = FolderNames::sort(names);
        let mut journal = Self::empty(files, options)?;
        let mut report = OpenReport { foreign: names.foreign.clone(), ..OpenReport::default() };
        report.is_new = names.segments.is_empty() && !names.has_begun;
        journal.last_segment =
            names.segments.keys().chain(names.spares.keys()).copied().max().unwrap_or(0);
        let mut replay = journal.replay_all(&names, &mut report)?;
        if names.has_begun && replay.last.is_none() && replay.damage.is_empty() {
            let first = names.segments.keys().next().copied().unwrap_or(2);
            replay.add(segment_name(first.saturating_sub(1)), DamageKind::Missing);
        }
        let is_damaged = !replay.damage.is_empty();
        if is_damaged && !options.accept_loss {
            return Err(StoreError::Damaged(replay.damage));
        }
        journal.durable_commit = replay.last_commit();
        journal.tried_commit = replay.last_commit();
        journal.durable = replay.last_group();
        journal.appended = journal.durable;
        report.is_torn = replay.is_torn;
        if replay.last.is_some() && !names.has_begun {
            // A crash came before it, or the program that wrote the journal knows no such file.
            journal.files.create(BEGUN_NAME).map_err(StoreError::io("create", BEGUN_NAME))?;
        }
        journal.has_begun = replay.last.is_some() || names.has_begun;
        journal.sync_last(&replay)?;
        journal.collect_free(&names)?;
        report.losses = replay.damage;
        if is_damaged {
            journal.rewrite_all()?;
        } else if journal.chain.is_empty() {
            journal.roll()?;
        }
        Ok((journal, report))
    }

    /// Fills the chain and the index.
    fn replay_all(
        &mut self,
        names: &FolderNames,
        report: &mut OpenReport,
    ) -> Result<Replay, StoreError> {
        let mut replay = Replay::default();
        let mut found = self.find_chain(names, &mut replay, report)?;
        let firsts = self.first_commits(&found)?;
        for (position, segment) in found.iter_mut().enumerate() {
            let mut later = firsts.iter().skip(position + 1);
            let until = match later.find(|first| **first != FirstCommit::None) {
                Some(FirstCommit::After(previous)) => Some(*previous),
                _ => None,
            };
            self.replay(segment, until, &mut replay)?;
        }
        self.check_successors(&found, &mut replay)?;
        self.last_changed = self.last_segment;
        // The first ones may never have had a commit.
        let empty = found.iter().take_while(|segment| !segment.has_commits).count();
        for segment in found.drain(..empty.min(found.len().saturating_sub(1))) {
            self.leaving.push(segment);
        }
        self.chain.extend(found);
        Ok(replay)
    }

    /// Opens the segments that are needed: those from the one on that the last commit names as the oldest.
    fn find_chain(
        &mut self,
        names: &FolderNames,
        replay: &mut Replay,
        report: &mut OpenReport,
    ) -> Result<Vec<JournalSegment<F::File>>, StoreError> {
        let mut found = Vec::new();
        let mut oldest = None;
        let mut is_first = true;
        for (number, name) in names.segments.iter().rev() {
            if oldest.is_some_and(|oldest| *number < oldest) {
                break;
            }
            let segment = self.open_segment(*number, name, is_first, report)?;
            let segment = match segment {
                Ok(segment) => segment,
                Err(kind) => {
                    replay.add(name.clone(), kind);
                    continue;
                }
            };
            is_first = false;
            if segment.readable < segment.sectors {
                let octets = offset_of(segment.readable);
                replay.add(name.clone(), DamageKind::Truncated { octets });
            }
            if oldest.is_none() {
                oldest = self.oldest_of(&segment)?;
            }
            found.push(segment);
        }
        found.reverse();
        if let Some(oldest) = oldest.filter(|oldest| !names.segments.contains_key(oldest)) {
            replay.add(segment_name(oldest), DamageKind::Missing);
        }
        Ok(found)
    }

    /// Opens a segment and reads its header, or says why it has none.
    fn open_segment(
        &mut self,
        number: u64,
        name: &str,
        is_first: bool,
        report: &mut OpenReport,
    ) -> Result<Result<JournalSegment<F::File>, DamageKind>, StoreError> {
        let file = self.files.open(name).map_err(StoreError::io("open", name))?;
        let octets = self.files.len(&file).map_err(StoreError::io("open", name))?;
        let readable = u32::try_from(octets / SECTOR as u64).unwrap_or(u32::MAX);
        if readable < HEADER_SECTORS {
            return Ok(Err(DamageKind::Header));
        }
        let mut copies = [[0; SECTOR]; 2];
        let read = self.files.read_at(&file, 0, copies.as_flattened_mut());
        read.map_err(StoreError::io("read", name))?;
        let header = match SegmentHeader::decode(&copies) {
            Ok(header) if !is_segment_size(header.sectors) => return Ok(Err(DamageKind::Header)),
            Ok(header) => header,
            Err(SegmentHeaderError::Damaged) => return Ok(Err(DamageKind::Header)),
            Err(SegmentHeaderError::Newer(version)) => {
                let newest = FORMAT_VERSION;
                return Err(StoreError::Newer { file: name.into(), version, newest });
            }
        };
        if copies[0] != copies[1] {
            report.damaged_headers.push(name.into());
        }
        if is_first {
            self.identity = header.identity;
        }
        if header.number < number || header.identity != self.identity {
            return Err(StoreError::Foreign { file: name.into() });
        }
        if header.number > number {
            // A file that was free got the header of a later segment.
            return Ok(Err(DamageKind::Missing));
        }
        let segment = JournalSegment {
            number,
            file,
            sectors: header.sectors,
            readable,
            codec: SectorCodec::new(self.identity, number),
            at: HEADER_SECTORS,
            has_commits: false,
            is_suspect: false,
        };
        Ok(Ok(segment))
    }

    /// The oldest segment that is needed, if this segment has a commit, which says so.
    fn oldest_of(&mut self, segment: &JournalSegment<F::File>) -> Result<Option<u64>, StoreError> {
        let mut scan = segment.scan();
        let mut oldest = None;
        loop {
            let next = scan.next(&mut self.files, &segment.file);
            match next.map_err(StoreError::io("read", &segment.name()))? {
                ScanStep::Commit(commit) => oldest = Some(commit.header.oldest),
                ScanStep::Gap(gap) => match gap.next {
                    Some(next) => scan.skip_to(next),
                    None => return Ok(oldest),
                },
            }
        }
    }

    /// The first commit of each segment.
    fn first_commits(
        &mut self,
        found: &[JournalSegment<F::File>],
    ) -> Result<Vec<FirstCommit>, StoreError> {
        let mut firsts = Vec::new();
        for segment in found {
            let mut scan = segment.scan();
            let first = scan.next(&mut self.files, &segment.file);
            firsts.push(match first.map_err(StoreError::io("read", &segment.name()))? {
                ScanStep::Commit(commit) => FirstCommit::After(commit.header.previous),
                ScanStep::Gap(gap) if gap.next.is_some() || gap.is_damaged => FirstCommit::Damaged,
                ScanStep::Gap(_) => FirstCommit::None,
            });
        }
        Ok(firsts)
    }

    /// Reads a segment, of which commits beyond `until` do not count: they were written again
    /// elsewhere.
    fn replay(
        &mut self,
        segment: &mut JournalSegment<F::File>,
        until: Option<u64>,
        replay: &mut Replay,
    ) -> Result<(), StoreError> {
        let name = segment.name();
        let damage_before = replay.damage.len();
        let mut scan = segment.scan();
        replay.is_torn = false;
        loop {
            let next = scan.next(&mut self.files, &segment.file);
            match next.map_err(StoreError::io("read", &name))? {
                ScanStep::Commit(commit)
                    if until.is_some_and(|until| commit.header.commit > until) =>
                {
                    replay.is_torn = true;
                    break;
                }
                ScanStep::Commit(commit) => {
                    apply(&mut self.index, scan.content(), segment.short_number(), commit.at);
                    replay.pass(commit);
                    replay.last_segment = segment.number;
                    segment.at = commit.end;
                    segment.has_commits = true;
                }
                ScanStep::Gap(_) if until.is_some_and(|until| replay.last_commit() >= until) => {
                    break;
                }
                ScanStep::Gap(gap) => {
                    replay.is_torn |= gap.is_torn;
                    if gap.next.is_none() && !gap.is_damaged {
                        break;
                    }
                    let end = gap.next.unwrap_or(segment.sectors - 1);
                    replay.add(name.clone(), DamageKind::Sectors { first: gap.at, end });
                    let Some(next) = gap.next else { break };
                    scan.skip_to(next);
                }
            }
        }
        segment.is_suspect = replay.is_torn;
        let last = replay.last_commit();
        let is_named = replay.damage.len() > damage_before;
        if let Some(expected) = until.filter(|until| last < *until && !is_named) {
            replay.add(name, DamageKind::Commits { last, expected });
        }
        Ok(())
    }

    /// The segment that another one names as its successor must be there.
    fn check_successors(
        &mut self,
        found: &[JournalSegment<F::File>],
        replay: &mut Replay,
    ) -> Result<(), StoreError> {
        for (position, segment) in found.iter().enumerate() {
            let index = segment.sectors - 1;
            if segment.readable <= index {
                continue;
            }
            let mut sector = [0; SECTOR];
            let read = self.files.read_at(&segment.file, offset_of(index), &mut sector);
            read.map_err(StoreError::io("read", &segment.name()))?;
            match segment.codec.check(&sector, index) {
                SectorState::Whole(start) if start == index => {
                    let next = SealNote::decode(&sector).next;
                    let name = segment_name(next);
                    let is_there = found.iter().any(|other| other.number == next);
                    if !is_there && replay.damage.iter().all(|damage| damage.file != name) {
                        replay.add(name, DamageKind::Missing);
                    }
                }
                SectorState::Damaged if position + 1 == found.len() => {
                    let kind = DamageKind::Sectors { first: index, end: segment.sectors };
                    replay.add(segment.name(), kind);
                }
                SectorState::Whole(_) | SectorState::Damaged | SectorState::Unwritten => {}
            }
        }
        Ok(())
    }

    /// Writes the last commit again, and syncs it and all names. A process that ended before its sync leaves both
    /// in the kernel's memory only, where they look durable.
    fn sync_last(&mut self, replay: &Replay) -> Result<(), StoreError> {
        let last = self.chain.iter().find(|segment| segment.number == replay.last_segment);
        if let Some((segment, commit)) = last.zip(replay.last) {
            let name = segment.name();
            let sectors = usize::try_from(commit.end - commit.at).unwrap_or(0);
            self.raw.clear();
            self.raw.resize(sectors, [0; SECTOR]);
            let octets = self.raw.as_flattened_mut();
            let at = offset_of(commit.at);
            self.files.read_at(&segment.file, at, octets).map_err(StoreError::io("read", &name))?;
            self.files
                .write_at(&segment.file, at, octets)
                .map_err(StoreError::io("write", &name))?;
            self.files.sync_data(&segment.file).map_err(StoreError::io("sync", &name))?;
        }
        self.files.sync_folder().map_err(StoreError::io("sync", ""))
    }

    /// Keeps files of former segments for new ones. Removes what cannot be used.
    fn collect_free(&mut self, names: &FolderNames) -> Result<(), StoreError> {
        if names.has_new {
            self.files.remove(NEW_NAME).map_err(StoreError::io("remove", NEW_NAME))?;
        }
        let oldest = self.chain.front().map_or(u64::MAX, |oldest| oldest.number);
        let is_leaving =
            |number: &u64| self.leaving.iter().any(|segment| segment.number == *number);
        let former = names.segments.iter().filter(|(number, _)| **number < oldest);
        let former = former.filter(|(number, _)| !is_leaving(number)).map(|(_, name)| name);
        for name in former.chain(names.spares.values()) {
            let file = self.files.open(name).map_err(StoreError::io("open", name))?;
            let octets = self.files.len(&file).map_err(StoreError::io("open", name))?;
            if octets == offset_of(self.sectors) {
                self.free.push(FreeFile { name: name.clone(), file, sectors: self.sectors });
            } else {
                self.files.remove(name).map_err(StoreError::io("remove", name))?;
            }
        }
        Ok(())
    }
}
