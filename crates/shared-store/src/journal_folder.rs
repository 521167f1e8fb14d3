//! The folder of the journal in a file system.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use adit_store::Files;
use rustix::fs::{AtFlags, Mode, OFlags};

/// Name of the file that a process locks while it uses the folder.
const LOCK_NAME: &str = "lock";

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A folder with the files of a journal. The lock ends when the value is dropped or the process
/// ends in any way.
#[derive(Debug)]
pub struct JournalFolder {
    path: PathBuf,
    /// The open folder, even if its path leads to another one by now.
    folder: File,
    lock: Option<File>,
    /// The thread that syncs while the caller goes on.
    syncing: Option<JoinHandle<io::Result<()>>>,
    narrowed: Vec<PathBuf>,
}

impl JournalFolder {
    /// Opens the folder at `path`; makes it, and its parents, if it does not exist. Restricts the
    /// folder and its files to their owner, since they show which user has which address.
    ///
    /// # Errors
    /// The folder does not exist and cannot be made, or its permissions cannot be changed.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        make_folder(&path)?;
        let folder = File::open(&path)?;
        let mut narrowed = Vec::new();
        restrict_permissions(&path, &folder, FOLDER_MODE, &mut narrowed)?;
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                restrict_permissions(
                    &entry.path(),
                    &File::open(entry.path())?,
                    FILE_MODE,
                    &mut narrowed,
                )?;
            }
        }
        Ok(Self { path, folder, lock: None, syncing: None, narrowed })
    }

    /// Returns the files and folders whose permissions [`JournalFolder::new`] restricted to the
    /// owner.
    #[must_use]
    pub fn narrowed(&self) -> &[PathBuf] {
        &self.narrowed
    }
}

/// Makes a folder and its missing parents. Syncs each parent, so that the new names are durable.
fn make_folder(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Ok(()) => File::open(parent.unwrap_or(Path::new(".")))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(parent.ok_or(error)?)?;
            make_folder(path)
        }
        Err(error) => Err(error),
    }
}

/// Removes the permissions that `mode` lacks, and adds the path to `narrowed` if there were any.
fn restrict_permissions(
    path: &Path,
    file: &File,
    mode: u32,
    narrowed: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let former = file.metadata()?.permissions().mode() & 0o777;
    if former & !mode != 0 {
        file.set_permissions(Permissions::from_mode(former & mode))?;
        narrowed.push(path.to_owned());
    }
    Ok(())
}

/// Opens a file relative to the open folder, even if its path leads to another folder by now.
fn open(folder: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(FILE_MODE);
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

fn lock(folder: &File) -> io::Result<File> {
    let file = open(folder, LOCK_NAME, OFlags::CREATE)?;
    file.try_lock()?;
    Ok(file)
}

/// True if both describe the same file.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Files for JournalFolder {
    type File = File;

    fn lock(&mut self) -> io::Result<()> {
        self.lock = Some(lock(&self.folder)?);
        Ok(())
    }

    fn available(&mut self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&self.folder)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn is_in_place(&mut self, file: &File) -> io::Result<bool> {
        let named = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            named => named?,
        };
        Ok(is_same(&named, &self.folder.metadata()?) && file.metadata()?.nlink() > 0)
    }

    fn renew(&mut self) -> io::Result<()> {
        make_folder(&self.path)?;
        let folder = File::open(&self.path)?;
        let is_own = is_same(&folder.metadata()?, &self.folder.metadata()?);
        let lock_file = self.lock.as_ref().and_then(|lock| lock.metadata().ok());
        let has_lock = lock_file.is_some_and(|lock| lock.nlink() > 0);
        if is_own && has_lock {
            return Ok(());
        }
        let mut others = fs::read_dir(&self.path)?.flatten().map(|entry| entry.file_name());
        if !is_own && others.any(|name| name != LOCK_NAME) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        restrict_permissions(&self.path, &folder, FOLDER_MODE, &mut self.narrowed)?;
        (self.lock, self.folder, self.syncing) = (Some(lock(&folder)?), folder, None);
        Ok(())
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        open(&self.folder, name, OFlags::CREATE | OFlags::TRUNC)
    }

    fn open(&mut self, name: &str) -> io::Result<File> {
        open(&self.folder, name, OFlags::empty())
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

    /// Uses `fdatasync`, which writes no metadata here: segments never grow.
    fn sync_data(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }

    /// Syncs on a thread of its own: new names and new files become durable with the file system's
    /// own log, which may take long while other processes write.
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
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }
}
