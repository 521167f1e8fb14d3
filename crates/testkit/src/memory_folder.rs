//! A folder of files in memory. A crash loses unsynced changes of names and sectors, as the test
//! chooses; any call can be made to fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use adit_store::Files;

/// Number of octets that a device writes completely or not at all.
const SECTOR: usize = 512;

/// How a call fails, and what it has done by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFault {
    /// EIO, and nothing is written; a sync loses the octets that it should have made durable.
    Io,
    /// ENOSPC, after half of the octets are written.
    NoSpace,
    /// EROFS, and nothing is written.
    ReadOnly,
    /// EIO, after half of the octets are written.
    Short,
    /// The process ends before the call. Its earlier writes stay unsynced.
    Killed,
}

/// A change of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEvent {
    /// A file was created.
    Create {
        /// Name of the file.
        name: String,
        /// Index of the file among all files that ever existed.
        file: usize,
    },
    /// Octets were written.
    Write {
        /// Index of the file.
        file: usize,
        /// Offset of the octets in the file.
        offset: usize,
        /// The octets.
        octets: Vec<u8>,
    },
    /// A file was renamed.
    Rename {
        /// Former name of the file.
        from: String,
        /// New name of the file.
        to: String,
    },
    /// A file was removed.
    Remove {
        /// Name of the file.
        name: String,
    },
}

/// The files of a folder at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FolderImage {
    names: BTreeMap<String, usize>,
    contents: BTreeMap<usize, Vec<u8>>,
}

impl FolderImage {
    /// Makes an image of the given files.
    #[must_use]
    pub fn of(files: &[(String, Vec<u8>)]) -> Self {
        let names = files.iter().enumerate().map(|(file, (name, _))| (name.clone(), file));
        let contents = files.iter().enumerate().map(|(file, (_, octets))| (file, octets.clone()));
        Self { names: names.collect(), contents: contents.collect() }
    }

    /// Applies an event; of a write only the first `octets_max` octets.
    pub fn apply(&mut self, event: &FolderEvent, octets_max: usize) {
        match event {
            FolderEvent::Create { name, file } => {
                self.names.insert(name.clone(), *file);
                self.contents.insert(*file, Vec::new());
            }
            FolderEvent::Write { file, offset, octets } => {
                let part = &octets[..octets.len().min(octets_max)];
                write(self.contents.entry(*file).or_default(), *offset, part);
            }
            FolderEvent::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            FolderEvent::Remove { name } => {
                self.names.remove(name);
            }
        }
    }

    /// Returns names and octets of all files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let octets = |file: &usize| self.contents.get(file).map_or(&[][..], Vec::as_slice);
        self.names.iter().map(move |(name, file)| (name.as_str(), octets(file)))
    }

    /// Returns the octets of a file.
    pub fn octets_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.contents.get_mut(self.names.get(name)?)
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }
}

fn write(content: &mut Vec<u8>, offset: usize, octets: &[u8]) {
    if octets.is_empty() {
        return;
    }
    content.resize(content.len().max(offset + octets.len()), 0);
    content[offset..offset + octets.len()].copy_from_slice(octets);
}

/// A write that was not synced.
#[derive(Debug, Clone)]
struct UnsyncedWrite {
    file: usize,
    offset: usize,
    octets: Vec<u8>,
}

#[derive(Debug, Default)]
struct FolderState {
    now: FolderImage,
    durable: FolderImage,
    unsynced: Vec<UnsyncedWrite>,
    /// Changes of names that were not synced.
    unsynced_names: Vec<FolderEvent>,
    history: Vec<FolderEvent>,
    keeps_history: bool,
    files: usize,
    calls: u64,
    fails: Vec<(u64, u64, FileFault)>,
    /// Maximum size of all files together. Unit: octets.
    space: Option<usize>,
    /// How many polls a parallel sync takes.
    sync_polls: u32,
    is_locked: bool,
}

/// A folder in memory, which a test owns and processes access by [`MemoryFolder::files`].
#[derive(Debug, Clone, Default)]
pub struct MemoryFolder(Rc<RefCell<FolderState>>);

impl MemoryFolder {
    /// Creates an empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a folder with durable files.
    #[must_use]
    pub fn from_image(image: FolderImage) -> Self {
        let files = image.contents.keys().max().map_or(0, |last| last + 1);
        let state =
            FolderState { now: image.clone(), durable: image, files, ..FolderState::default() };
        Self(Rc::new(RefCell::new(state)))
    }

    /// Returns the access of a new process to the folder.
    #[must_use]
    pub fn files(&self) -> MemoryFiles {
        MemoryFiles { folder: self.clone(), has_lock: false, syncing: None }
    }

    /// Returns the files that a process sees that starts now.
    #[must_use]
    pub fn image(&self) -> FolderImage {
        self.0.borrow().now.clone()
    }

    /// Returns the files after a crash. Each unsynced sector survives if `keeps` returns true for
    /// it. Unsynced changes of names survive up to the first for which `keeps` returns false.
    #[must_use]
    pub fn crash(&self, mut keeps: impl FnMut() -> bool) -> FolderImage {
        let state = self.0.borrow();
        let mut image = state.durable.clone();
        for UnsyncedWrite { file, offset, octets } in &state.unsynced {
            let mut at = *offset;
            let end = offset + octets.len();
            while at < end {
                let sector_end = ((at / SECTOR + 1) * SECTOR).min(end);
                if keeps() {
                    let part = &octets[at - offset..sector_end - offset];
                    write(image.contents.entry(*file).or_default(), at, part);
                }
                at = sector_end;
            }
        }
        for event in &state.unsynced_names {
            if !keeps() {
                break;
            }
            // Keeps the octets that are durable already, even if the file's name is not.
            if let FolderEvent::Create { name, file } = event {
                image.names.insert(name.clone(), *file);
                image.contents.entry(*file).or_default();
            } else {
                image.apply(event, 0);
            }
        }
        image
    }

    /// Records all events from now on for [`Self::history`].
    pub fn keep_history(&self) {
        self.0.borrow_mut().keeps_history = true;
    }

    /// Returns the recorded events.
    #[must_use]
    pub fn history(&self) -> Vec<FolderEvent> {
        self.0.borrow().history.clone()
    }

    /// Returns the number of recorded events.
    #[must_use]
    pub fn history_len(&self) -> usize {
        self.0.borrow().history.len()
    }

    /// Returns the number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.borrow().calls
    }

    /// Makes `count` calls fail, from the one with index `first` on; the first call of all has
    /// index 0.
    pub fn fail(&self, first: u64, count: u64, fault: FileFault) {
        self.0.borrow_mut().fails.push((first, first.saturating_add(count), fault));
    }

    /// Ends the process before the call with index `first`: this call and all later ones fail.
    pub fn kill(&self, first: u64) {
        self.fail(first, u64::MAX, FileFault::Killed);
    }

    /// Makes all calls succeed again.
    pub fn heal(&self) {
        self.0.borrow_mut().fails.clear();
    }

    /// Limits the size of all files together. Unit: octets.
    pub fn limit_space(&self, octets: Option<usize>) {
        self.0.borrow_mut().space = octets;
    }

    /// Makes a parallel sync take this many polls.
    pub fn delay_syncs(&self, polls: u32) {
        self.0.borrow_mut().sync_polls = polls;
    }

    /// Flips a bit of a file, as a failing device does.
    pub fn damage(&self, name: &str, at: usize) {
        let state = &mut *self.0.borrow_mut();
        for image in [&mut state.now, &mut state.durable] {
            if let Some(octet) = image.octets_mut(name).and_then(|octets| octets.get_mut(at)) {
                *octet ^= 1;
            }
        }
    }

    /// Removes all files; a process that has one open can still read and write it.
    pub fn remove_all(&self) {
        let state = &mut *self.0.borrow_mut();
        state.now.names.clear();
        state.durable.names.clear();
        state.unsynced_names.clear();
    }

    /// Returns the size of all files that have a name. Unit: octets.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.0.borrow().now.files().map(|(_, octets)| octets.len()).sum()
    }
}

impl FolderState {
    /// Counts a call, and returns its fault if it has one.
    fn call(&mut self) -> Option<FileFault> {
        let call = self.calls;
        self.calls += 1;
        self.fails.iter().find(|(first, end, _)| (*first..*end).contains(&call)).map(|fail| fail.2)
    }

    fn changed(&mut self, event: FolderEvent) {
        self.now.apply(&event, usize::MAX);
        if self.keeps_history {
            self.history.push(event.clone());
        }
        match event {
            FolderEvent::Write { file, offset, octets } => {
                self.unsynced.push(UnsyncedWrite { file, offset, octets });
            }
            event => self.unsynced_names.push(event),
        }
    }
}

fn error(fault: FileFault) -> io::Error {
    io::Error::from_raw_os_error(match fault {
        FileFault::Io | FileFault::Short | FileFault::Killed => 5,
        FileFault::NoSpace => 28,
        FileFault::ReadOnly => 30,
    })
}

/// The access of one process to a [`MemoryFolder`].
#[derive(Debug)]
pub struct MemoryFiles {
    folder: MemoryFolder,
    has_lock: bool,
    syncing: Option<BegunSync>,
}

/// A sync that runs in parallel to other calls.
#[derive(Debug, Clone, Copy)]
struct BegunSync {
    file: Option<usize>,
    polls: u32,
}

impl Drop for MemoryFiles {
    fn drop(&mut self) {
        if self.has_lock {
            self.folder.0.borrow_mut().is_locked = false;
        }
    }
}

impl MemoryFiles {
    fn call(&self) -> io::Result<()> {
        self.folder.0.borrow_mut().call().map_or(Ok(()), |fault| Err(error(fault)))
    }
}

impl Files for MemoryFiles {
    type File = usize;

    fn lock(&mut self) -> io::Result<()> {
        self.call()?;
        let mut state = self.folder.0.borrow_mut();
        if state.is_locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.is_locked = true;
        self.has_lock = true;
        Ok(())
    }

    fn available(&mut self) -> io::Result<u64> {
        let state = self.folder.0.borrow();
        let used: usize = state.now.files().map(|(_, octets)| octets.len()).sum();
        Ok(state.space.map_or(u64::MAX, |space| space.saturating_sub(used) as u64))
    }

    fn is_in_place(&mut self, file: &usize) -> io::Result<bool> {
        Ok(self.folder.0.borrow().now.names.values().any(|named| named == file))
    }

    fn renew(&mut self) -> io::Result<()> {
        self.call()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.call()?;
        Ok(self.folder.0.borrow().now.names.keys().cloned().collect())
    }

    fn create(&mut self, name: &str) -> io::Result<usize> {
        self.call()?;
        let mut state = self.folder.0.borrow_mut();
        let file = state.files;
        state.files += 1;
        state.changed(FolderEvent::Create { name: name.to_owned(), file });
        Ok(file)
    }

    fn open(&mut self, name: &str) -> io::Result<usize> {
        self.call()?;
        let state = self.folder.0.borrow();
        state.now.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn len(&mut self, file: &usize) -> io::Result<u64> {
        self.call()?;
        Ok(self.folder.0.borrow().now.contents.get(file).map_or(0, |octets| octets.len() as u64))
    }

    fn read_at(&mut self, file: &usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.call()?;
        let state = self.folder.0.borrow();
        let octets = state.now.contents.get(file).map_or(&[][..], Vec::as_slice);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = octets.get(offset..).and_then(|octets| octets.get(..into.len()));
        into.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&mut self, file: &usize, offset: u64, from: &[u8]) -> io::Result<()> {
        let mut state = self.folder.0.borrow_mut();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let len = state.now.contents.get(file).map_or(0, Vec::len);
        let grows = (offset + from.len()).saturating_sub(len);
        let used: usize = state.now.files().map(|(_, octets)| octets.len()).sum();
        let is_full = grows > 0 && state.space.is_some_and(|space| used + grows > space);
        let fault = state.call().or_else(|| is_full.then_some(FileFault::NoSpace));
        let written = match fault {
            None => from,
            Some(FileFault::Short | FileFault::NoSpace) => &from[..from.len() / 2],
            Some(FileFault::Io | FileFault::ReadOnly | FileFault::Killed) => &[],
        };
        if !written.is_empty() {
            state.changed(FolderEvent::Write { file: *file, offset, octets: written.to_owned() });
        }
        fault.map_or(Ok(()), |fault| Err(error(fault)))
    }

    fn sync_data(&mut self, file: &usize) -> io::Result<()> {
        let mut state = self.folder.0.borrow_mut();
        let fault = state.call();
        if fault == Some(FileFault::Killed) {
            return Err(error(FileFault::Killed));
        }
        let of_file = state.unsynced.extract_if(.., |write| write.file == *file);
        let writes: Vec<UnsyncedWrite> = of_file.collect();
        if let Some(fault) = fault {
            // As on a disk, readers still see the octets that are lost.
            return Err(error(fault));
        }
        for UnsyncedWrite { file, offset, octets } in writes {
            write(state.durable.contents.entry(file).or_default(), offset, &octets);
        }
        Ok(())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.call()?;
        let mut state = self.folder.0.borrow_mut();
        for event in core::mem::take(&mut state.unsynced_names) {
            if let FolderEvent::Create { name, file } = &event {
                state.durable.names.insert(name.clone(), *file);
                state.durable.contents.entry(*file).or_default();
            } else {
                state.durable.apply(&event, 0);
            }
        }
        Ok(())
    }

    fn begin_sync(&mut self, file: Option<&usize>) -> io::Result<()> {
        self.call()?;
        let polls = self.folder.0.borrow().sync_polls;
        self.syncing = Some(BegunSync { file: file.copied(), polls });
        Ok(())
    }

    fn poll_sync(&mut self, waits: bool) -> io::Result<bool> {
        let Some(begun) = &mut self.syncing else { return Ok(true) };
        if begun.polls > 0 && !waits {
            begun.polls -= 1;
            return Ok(false);
        }
        let file = begun.file;
        self.syncing = None;
        match file {
            Some(file) => self.sync_data(&file)?,
            None => self.sync_folder()?,
        }
        Ok(true)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.call()?;
        let mut state = self.folder.0.borrow_mut();
        if !state.now.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.changed(FolderEvent::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.call()?;
        let mut state = self.folder.0.borrow_mut();
        if !state.now.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.changed(FolderEvent::Remove { name: name.to_owned() });
        Ok(())
    }
}
