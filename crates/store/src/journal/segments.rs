//! Segments and their files: new ones get ready ahead of time, old ones are used again.

use crate::error::StoreError;
use crate::files::Files;
use crate::format::{
    HEADER_SECTORS, PAYLOAD, SECTOR, SealNote, SectorCodec, SegmentHeader, offset_of,
};
use crate::journal::Journal;
use crate::scan::SegmentScan;

/// The file that is being filled with zeros.
pub(super) const NEW_NAME: &str = "new.segment";

/// Sectors of a segment at least and at most.
const SECTORS_MIN: u32 = 8;
const SECTORS_MAX: u32 = 1 << 22;

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
    /// Takes no further commit: what is behind `at` is not known.
    pub is_suspect: bool,
}

/// A file that nothing needs any more.
#[derive(Debug)]
pub(super) struct FreeFile<File> {
    pub name: String,
    pub file: File,
    /// Those of a new segment, or the file is of no use.
    pub sectors: u32,
}

/// A file that is being filled with zeros.
#[derive(Debug)]
pub(super) struct NewFile<File> {
    file: File,
    zeroed: u32,
}

impl<File> JournalSegment<File> {
    pub(super) fn name(&self) -> String {
        segment_name(self.number)
    }

    /// Reads its commits from the first one on.
    pub(super) fn scan(&self) -> SegmentScan {
        SegmentScan::new(self.codec, self.sectors, self.readable)
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
    (bytes.is_multiple_of(sector) && (SECTORS_MIN..=SECTORS_MAX).contains(&sectors))
        .then_some(sectors)
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
        let free: u64 = self.free.iter().map(|file| offset_of(file.sectors)).sum();
        used + free + self.making.as_ref().map_or(0, |making| offset_of(making.zeroed))
    }

    /// Gets the next segment ready, and waits for it.
    pub(super) fn make_next(&mut self) -> Result<(), StoreError> {
        while self.next.is_none() || self.has_new_names {
            self.prepare_next(u32::MAX)?;
        }
        Ok(())
    }

    /// Does a part of getting the next segment ready: writes at most `sectors` sectors of zeros, or a header.
    pub(super) fn prepare_next(&mut self, sectors: u32) -> Result<(), StoreError> {
        // A file whose header is overwritten must not have the name of a segment that is needed.
        if self.has_new_names {
            self.files.sync_folder().map_err(StoreError::io("sync", ""))?;
            self.has_new_names = false;
        }
        if self.next.is_some() {
            return Ok(());
        }
        let fits = |free: &FreeFile<F::File>| free.sectors == self.sectors;
        if !self.free.iter().any(fits) {
            let made = self.fill_new(sectors);
            self.is_out_of_space = made.as_ref().is_err_and(StoreError::is_no_space);
            if made.is_err() {
                self.making = None;
                let _ = self.files.remove(NEW_NAME);
            }
            let Some(file) = made? else { return Ok(()) };
            self.free.push(file);
        }
        let position = self.free.iter().position(|free| free.sectors == self.sectors);
        let Some(position) = position else { return Ok(()) };
        let free = self.free.swap_remove(position);
        match self.name_next(&free) {
            Ok(number) => {
                let codec = SectorCodec::new(self.identity, number);
                self.next = Some(JournalSegment {
                    number,
                    file: free.file,
                    sectors: free.sectors,
                    readable: free.sectors,
                    codec,
                    at: HEADER_SECTORS,
                    has_commits: false,
                    is_suspect: false,
                });
                self.has_new_names = true;
                self.is_out_of_space = false;
                self.prepare_next(0)
            }
            Err(error) => {
                self.free.push(free);
                Err(error)
            }
        }
    }

    /// Fills the new file with zeros. Returns it once it is complete.
    fn fill_new(&mut self, sectors: u32) -> Result<Option<FreeFile<F::File>>, StoreError> {
        let mut making = match self.making.take() {
            Some(making) => making,
            None => {
                let file = self.files.create(NEW_NAME);
                NewFile { file: file.map_err(StoreError::io("create", NEW_NAME))?, zeroed: 0 }
            }
        };
        let zeros = vec![[0_u8; SECTOR]; 512];
        let end = self.sectors.min(making.zeroed.saturating_add(sectors));
        while making.zeroed < end {
            let count = usize::try_from(end - making.zeroed).unwrap_or(0).min(zeros.len());
            let part = zeros.get(..count).unwrap_or(&[]).as_flattened();
            let written = self.files.write_at(&making.file, offset_of(making.zeroed), part);
            written.map_err(StoreError::io("write", NEW_NAME))?;
            making.zeroed += u32::try_from(count).unwrap_or(0);
        }
        self.files.sync_data(&making.file).map_err(StoreError::io("sync", NEW_NAME))?;
        if making.zeroed < self.sectors {
            self.making = Some(making);
            return Ok(None);
        }
        Ok(Some(FreeFile { name: NEW_NAME.into(), file: making.file, sectors: self.sectors }))
    }

    /// Makes a file a segment: writes its header, then gives it its name.
    fn name_next(&mut self, free: &FreeFile<F::File>) -> Result<u64, StoreError> {
        let number = self.last_segment + 1;
        let identity = self.identity;
        let header = SegmentHeader { identity, number, sectors: free.sectors }.encode();
        let written = self.files.write_at(&free.file, 0, header.as_flattened());
        written.map_err(StoreError::io("write", &free.name))?;
        self.files.sync_data(&free.file).map_err(StoreError::io("sync", &free.name))?;
        let renamed = self.files.rename(&free.name, &segment_name(number));
        renamed.map_err(StoreError::io("rename", &free.name))?;
        self.last_segment = number;
        Ok(number)
    }

    /// The next segment becomes the last of the chain.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.make_next()?;
        self.seal_last()?;
        let Some(next) = self.next.take() else { return Ok(()) };
        let former = self.chain.pop_back();
        match former {
            Some(former) if !former.has_commits => self.retire(former),
            former => self.chain.extend(former),
        }
        self.chain.push_back(next);
        Ok(())
    }

    /// Notes at the end of the last segment that it has a successor.
    fn seal_last(&mut self) -> Result<(), StoreError> {
        let Some(next) = self.next.as_ref().map(|next| next.number) else { return Ok(()) };
        let Some(last) = self.chain.back_mut() else { return Ok(()) };
        let index = last.sectors - 1;
        let mut sector = SealNote { next }.encode();
        last.codec.seal(&mut sector, index, index);
        let written = self.files.write_at(&last.file, offset_of(index), &sector);
        let sealed = written.and_then(|()| self.files.sync_data(&last.file));
        match sealed {
            // Its file failed before; the commits that are in it are durable all the same.
            Err(_) if last.is_suspect => Ok(()),
            Err(error) => {
                last.is_suspect = true;
                Err(StoreError::io("write", &last.name())(error))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Takes a segment without commits out of the chain.
    fn retire(&mut self, segment: JournalSegment<F::File>) {
        let name = spare_name(segment.number);
        if self.files.rename(&segment.name(), &name).is_ok() {
            self.has_new_names = true;
            self.free.push(FreeFile { name, file: segment.file, sectors: segment.readable });
        } else {
            // It stays, without commits.
            self.chain.push_back(segment);
        }
    }

    /// Segments that no durable commit needs become files for new ones.
    pub(super) fn free_leaving(&mut self) {
        for segment in self.leaving.drain(..) {
            let name = segment.name();
            self.free.push(FreeFile { name, file: segment.file, sectors: segment.readable });
        }
    }

    /// Removes a file that is not needed. False if there is none.
    pub(super) fn remove_surplus(&mut self, keep: usize) -> Result<bool, StoreError> {
        let of_other_size = self.free.iter().position(|file| file.sectors != self.sectors);
        let surplus = (self.free.len() > keep).then(|| self.free.len() - 1);
        let Some(position) = of_other_size.or(surplus) else { return Ok(false) };
        let file = self.free.swap_remove(position);
        match self.files.remove(&file.name) {
            Ok(()) => Ok(true),
            Err(error) => {
                let failed = StoreError::io("remove", &file.name)(error);
                self.free.push(file);
                Err(failed)
            }
        }
    }
}
