//! The folder of the journal on a file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use adit_store::Files;

/// The file that a process has a lock on while it uses the folder.
const LOCK_NAME: &str = "lock";

/// A folder with the files of a journal. It is locked until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct JournalFolder {
    path: PathBuf,
    /// Syncs the folder.
    folder: File,
    lock: Option<File>,
    /// Syncs beside the caller.
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl JournalFolder {
    /// The folder at `path`, which is made unless it exists. Its parent must exist.
    ///
    /// # Errors
    /// There is no such folder, and it cannot be made.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&path) {
            Ok(()) => {
                if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
                {
                    File::open(parent)?.sync_all()?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let folder = File::open(&path)?;
        Ok(Self { path, folder, lock: None, syncing: None })
    }
}

impl Files for JournalFolder {
    type File = File;

    fn lock(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).open(self.path.join(LOCK_NAME))?;
        match file.try_lock() {
            Ok(()) => {
                self.lock = Some(file);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn available(&mut self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&self.folder)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).open(self.path.join(name))
    }

    fn open(&mut self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path.join(name))
    }

    fn len(&mut self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read_at(&mut self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(into, offset)
    }

    fn write_at(&mut self, file: &File, offset: u64, from: &[u8]) -> io::Result<()> {
        file.write_all_at(from, offset)
    }

    /// `fdatasync`: segments never grow, so it writes no metadata.
    fn sync_data(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }

    /// On a thread of its own: names and new files become durable with the file system's own log, which may take long
    /// when other processes write.
    fn begin_sync(&mut self, file: Option<&File>) -> io::Result<()> {
        let file = file.unwrap_or(&self.folder).try_clone()?;
        let thread = thread::Builder::new().name("journal-sync".into());
        self.syncing = Some(thread.spawn(move || file.sync_all())?);
        Ok(())
    }

    fn poll_sync(&mut self, waits: bool) -> io::Result<bool> {
        if self.syncing.as_ref().is_some_and(|thread| !waits && !thread.is_finished()) {
            return Ok(false);
        }
        let Some(thread) = self.syncing.take() else { return Ok(true) };
        let synced = thread.join().unwrap_or_else(|_| Err(io::Error::other("the sync panicked")));
        synced.map(|()| true)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}
