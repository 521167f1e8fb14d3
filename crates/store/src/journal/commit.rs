//! Commits: writes everything that waits with one write and one sync.

use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::error::{AppendError, StoreError};
use crate::files::Files;
use crate::format::{
    COMMIT_HEADER_BYTES, CommitHeader, GROUP_HEADER_BYTES, GroupTag, Groups, SECTOR_BYTES,
    SECTOR_PAYLOAD_BYTES, push_group, sector_offset,
};
use crate::index::{LiveIndex, RecordPlace};
use crate::journal::Journal;
use crate::journal::segments::BEGUN_NAME;
use crate::record::GroupNumber;

/// How many waiting copies and groups, and octets of them, fit into one commit.
#[derive(Debug, Clone, Copy, Default)]
struct CommitShare {
    copies: usize,
    copies_octets: usize,
    groups: usize,
    groups_octets: usize,
}

impl<F: Files> Journal<F> {
    /// Admits groups to the next commits, as many as there is room for in the files.
    pub(super) fn admit_groups(&mut self) -> Result<(), StoreError> {
        loop {
            let next = self.groups.after(self.admitted).next();
            let Some((number, len)) = next.map(|group| (group.number, group.changes.len())) else {
                return Ok(());
            };
            let octets = GROUP_HEADER_BYTES + len;
            if !self.has_room_for_group(octets) {
                return Err(StoreError::Full(AppendError::NoSpace));
            }
            self.admitted = number;
            self.admitted_octets += octets;
        }
    }

    /// Commits until no admitted group is left.
    pub(super) fn commit_all(&mut self) -> Result<(), StoreError> {
        while self.admitted_octets > 0 || !self.copies.lens.is_empty() || self.must_announce {
            let committed = self.commit_some();
            if committed.is_err() {
                // The copies were not committed: compaction reads the oldest segment from its start
                // again.
                self.copies.clear();
                self.cursor = None;
            }
            committed?;
        }
        Ok(())
    }

    /// Writes one commit into the last segment, as large as fits; without room goes on to the next
    /// segment.
    fn commit_some(&mut self) -> Result<(), StoreError> {
        let Some(active) = self.chain.back().filter(|active| !active.is_suspect) else {
            return self.roll();
        };
        let room = active.room_octets().min(STORE_GROUP_BYTES_MAX);
        let is_fresh = !active.has_commits;
        let share = self.share(room);
        let takes_nothing = share.copies + share.groups == 0;
        let fits = room >= COMMIT_HEADER_BYTES;
        if !fits || (takes_nothing && !self.must_announce) {
            return if is_fresh { Err(StoreError::SegmentSize) } else { self.roll() };
        }
        let header = self.build_commit(share);
        self.write()?;
        self.note_committed(&header, share);
        Ok(())
    }

    /// Returns how much fits into `room` octets. Compaction's copies come first, so that a newer
    /// change of the same record, which stands behind the copy, overrides it.
    fn share(&self, room: usize) -> CommitShare {
        let room = room.saturating_sub(COMMIT_HEADER_BYTES);
        let mut share = CommitShare::default();
        (share.copies, share.copies_octets) =
            self.copies.count_fitting(room.saturating_sub(GROUP_HEADER_BYTES));
        if share.copies == self.copies.lens.len() {
            let copies =
                if share.copies == 0 { 0 } else { share.copies_octets + GROUP_HEADER_BYTES };
            let room = room.saturating_sub(copies);
            let durable = self.groups.durable();
            for group in self.groups.after(durable).take_while(|one| one.number <= self.admitted) {
                let octets = share.groups_octets + GROUP_HEADER_BYTES + group.changes.len();
                if octets > room {
                    break;
                }
                (share.groups, share.groups_octets) = (share.groups + 1, octets);
            }
        }
        share
    }

    /// Builds the octets of a commit in `content`, and returns the header.
    fn build_commit(&mut self, share: CommitShare) -> CommitHeader {
        self.tried_commit += 1;
        let content = &mut self.content;
        content.clear();
        content.extend_from_slice(&[0; COMMIT_HEADER_BYTES]);
        if share.copies > 0 {
            let copies = self.copies.octets.get(..share.copies_octets).unwrap_or(&[]);
            push_group(content, GroupTag::Copies, |out| out.extend_from_slice(copies));
        }
        let durable = self.groups.durable();
        for group in self.groups.after(durable).take(share.groups) {
            push_group(content, GroupTag::Changes, |out| out.extend_from_slice(&group.changes));
        }
        let header = CommitHeader {
            commit: self.tried_commit,
            previous: self.durable_commit,
            first: durable.0 + 1,
            oldest: self.chain.front().map_or(0, |oldest| oldest.number),
            octets: u32::try_from(content.len()).unwrap_or(u32::MAX),
            groups: u32::try_from(share.groups).unwrap_or(u32::MAX),
        };
        if let Some(field) = content.get_mut(..COMMIT_HEADER_BYTES) {
            field.copy_from_slice(&header.encode());
        }
        header
    }

    /// Writes and syncs `content`. After a failure the segment gets no more commits, as what was
    /// written is uncertain.
    fn write(&mut self) -> Result<(), StoreError> {
        let Some(active) = self.chain.back_mut() else { return Err(StoreError::SegmentSize) };
        self.raw.clear();
        for (index, part) in (active.at..).zip(self.content.chunks(SECTOR_PAYLOAD_BYTES)) {
            let mut sector = [0; SECTOR_BYTES];
            if let Some(payload) = sector.get_mut(..part.len()) {
                payload.copy_from_slice(part);
            }
            active.codec.seal(&mut sector, index, active.at);
            self.raw.push(sector);
        }
        let octets = self.raw.as_flattened();
        let written = self.files.write_at(&active.file, sector_offset(active.at), octets);
        let synced = written.and_then(|()| self.files.sync_data(&active.file));
        let begun = synced.and_then(|()| {
            if !self.has_begun {
                self.files.create(BEGUN_NAME)?;
                self.files.sync_folder()?;
                self.has_begun = true;
            }
            Ok(())
        });
        begun.map_err(|error| {
            active.is_suspect = true;
            StoreError::io("write", &active.name())(error)
        })
    }

    /// Updates the index, the queue and the figures after a commit has become durable.
    fn note_committed(&mut self, header: &CommitHeader, share: CommitShare) {
        let Some(active) = self.chain.back_mut() else { return };
        let at = active.at;
        active.at += u32::try_from(self.raw.len()).unwrap_or(0);
        active.has_commits = true;
        if share.groups > 0 {
            self.last_changed = active.number;
        }
        let segment = active.short_number();
        apply(&mut self.index, &self.content, segment, at);
        self.durable_commit = header.commit;
        self.groups.drop_through(GroupNumber(header.last()));
        self.admitted_octets -= share.groups_octets;
        self.commits += 1;
        // Copies do not count: upkeep, whose pace follows this figure, would speed itself up.
        self.written_since += self.raw.as_flattened().len().saturating_sub(share.copies_octets);
        self.copied_octets += share.copies_octets as u64;
        self.copies.drop_first(share.copies, share.copies_octets);
        self.must_announce = false;
        self.free_emptied_segments();
    }
}

/// Enters the changes of a commit, which begins at sector `at` of `segment`, into the index.
pub(super) fn apply(index: &mut LiveIndex, content: &[u8], segment: u32, at: u32) {
    for placed in Groups::new(content, COMMIT_HEADER_BYTES).flat_map(|group| group.changes()) {
        let key = placed.change.key;
        match placed.change.value {
            Some(_) => index.put(key, place_of(segment, at, placed.at, placed.len)),
            None => index.remove(key),
        }
    }
}

/// Returns the place of a change of `len` octets that stands `offset` octets after the start of the
/// commit at sector `at`.
pub(super) fn place_of(segment: u32, at: u32, offset: usize, len: usize) -> RecordPlace {
    let payload = u32::try_from(SECTOR_PAYLOAD_BYTES).unwrap_or(0);
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    RecordPlace {
        segment,
        offset: at.saturating_mul(payload).saturating_add(offset),
        len: u32::try_from(len).unwrap_or(u32::MAX),
    }
}
