//! The contract with a folder of files.

use std::io;

/// A folder, and the files in it. Names are plain: no path, ASCII.
///
/// Nothing is durable before the sync that covers it: `sync_data` for octets of a file, `sync_folder` for
/// creations, renames and removals. What a failed sync covered may be lost even if a later sync succeeds.
pub trait Files {
    /// An open file, readable and writable.
    type File: core::fmt::Debug;

    /// Takes the folder for this process until the value is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another process has it. Others: the folder cannot be written.
    fn lock(&mut self) -> io::Result<()>;

    /// Octets that the file system has left for files; [`u64::MAX`] if that is not known.
    ///
    /// # Errors
    /// The file system does not say.
    fn available(&mut self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// True if the folder has its name, and the file one in it; false once somebody removed or replaced them.
    ///
    /// # Errors
    /// That cannot be found out.
    fn is_in_place(&mut self, _file: &Self::File) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes the folder again, and takes it for this process as [`Files::lock`] does: one that is there with files stays as it
    /// is, unless it is the one that this process has.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]: another folder with files has its name. [`io::ErrorKind::WouldBlock`]: another
    /// process has taken it. Others: it cannot be made.
    fn renew(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The names of all files.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or empties the one of this name.
    ///
    /// # Errors
    /// The file cannot be created.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened for reading and writing.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Octets of a file.
    ///
    /// # Errors
    /// The length cannot be read.
    fn len(&mut self, file: &Self::File) -> io::Result<u64>;

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// The file cannot be read, or ends before.
    fn read_at(&mut self, file: &Self::File, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all octets of `from` at `offset`. A file that ends before `offset + from.len()` grows.
    ///
    /// # Errors
    /// Not all octets were written; some may be.
    fn write_at(&mut self, file: &Self::File, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Makes the octets and the length of a file durable.
    ///
    /// # Errors
    /// Anything that was written since the last successful sync may be lost.
    fn sync_data(&mut self, file: &Self::File) -> io::Result<()>;

    /// Makes names durable.
    ///
    /// # Errors
    /// Names may be lost.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// Begins to sync a file, or the folder if none is named, beside other calls. There is one such sync at a time.
    ///
    /// # Errors
    /// As for `sync_data` and `sync_folder`; no sync is under way then.
    fn begin_sync(&mut self, file: Option<&Self::File>) -> io::Result<()>;

    /// True once the sync that was begun last is done, false while it is under way; `waits` waits for it.
    ///
    /// # Errors
    /// As for `sync_data` and `sync_folder`; the sync has ended.
    fn poll_sync(&mut self, waits: bool) -> io::Result<bool>;

    /// Renames a file. Replaces a file of the new name.
    ///
    /// # Errors
    /// The file keeps its name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The file stays.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}
