//! The contract with a folder of files.

use std::io;

/// A folder, and the files in it. Names are plain: no path, ASCII.
///
/// Nothing is durable before the sync that covers it: [`Files::sync_data`] for octets of a file,
/// [`Files::sync_folder`] for creations, renames and removals. Octets that a failed sync covered
/// may be lost even if a later sync succeeds.
///
/// An error is that of the file system, unless a call names others. A failed call changes nothing,
/// but for [`Files::write_at`], which may have written some of the octets.
pub trait Files {
    /// An open file, readable and writable.
    type File: core::fmt::Debug;

    /// Takes the folder for this process until the value is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another process has it.
    fn lock(&mut self) -> io::Result<()>;

    /// Octets that the file system has left for files; [`u64::MAX`] if that is not known.
    fn available(&mut self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// True if the folder has its name, and the file one in it; false once somebody removed or
    /// replaced them.
    fn is_in_place(&mut self, _file: &Self::File) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes the folder again, and takes it for this process as [`Files::lock`] does: one that is
    /// there with files stays as it is, unless it is the one that this process has.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]: another folder with files has its name.
    /// [`io::ErrorKind::WouldBlock`]: another process has taken it.
    fn renew(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The names of all files.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or empties the one of this name.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Octets of a file.
    fn len(&mut self, file: &Self::File) -> io::Result<u64>;

    /// Fills `into` from `offset` on. A file that ends before is an error.
    fn read_at(&mut self, file: &Self::File, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all octets of `from` at `offset`. A file that ends before `offset + from.len()`
    /// grows.
    fn write_at(&mut self, file: &Self::File, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Makes the octets and the length of a file durable.
    fn sync_data(&mut self, file: &Self::File) -> io::Result<()>;

    /// Makes names durable.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// Begins to sync a file, or the folder if none is named, in parallel to other calls. There is
    /// one such sync at a time; after an error none is under way.
    fn begin_sync(&mut self, file: Option<&Self::File>) -> io::Result<()>;

    /// True once the sync that was begun last is done, false while it is under way; `waits` waits
    /// for it. An error ends it.
    fn poll_sync(&mut self, waits: bool) -> io::Result<bool>;

    /// Renames a file. Replaces a file of the new name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}
