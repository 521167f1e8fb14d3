//! The contract of the folder of files that a journal is kept in.

use std::io;

/// A folder, and the files in it. A file name is plain ASCII without a path.
///
/// Nothing is durable before the sync that covers it: [`Files::sync_data`] for octets of a file,
/// [`Files::sync_folder`] for creations, renames and removals. Octets that a failed sync covered
/// may be lost even if a later sync succeeds.
///
/// Errors are those of the file system; a method documents any error that has a further meaning. A
/// failed call changes nothing, except that [`Files::write_at`] may have written some of the
/// octets.
pub trait Files {
    /// An open file, readable and writable.
    type File: core::fmt::Debug;

    /// Locks the folder for this process until the value is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another process has locked the folder.
    fn lock(&mut self) -> io::Result<()>;

    /// Returns how many octets the file system has free; [`u64::MAX`] if that is not known.
    fn available(&mut self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// True if the folder still stands under its name, and `file` in it under its own; false once
    /// somebody removed or replaced one of them.
    fn is_in_place(&mut self, _file: &Self::File) -> io::Result<bool> {
        Ok(true)
    }

    /// Creates the folder again if it was removed, and locks it as [`Files::lock`] does. A folder
    /// of this name that has files is not touched; it is an error unless this process has it open.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]: another folder of this name has files.
    /// [`io::ErrorKind::WouldBlock`]: another process has locked the folder.
    fn renew(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the names of all files.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or empties an existing file of this name.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Returns the length of a file. Unit: octets.
    fn len(&mut self, file: &Self::File) -> io::Result<u64>;

    /// Fills `into` from `offset` on. It is an error if the file ends before `into` is full.
    fn read_at(&mut self, file: &Self::File, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all octets of `from` at `offset`. A file that is shorter than `offset + from.len()`
    /// grows.
    fn write_at(&mut self, file: &Self::File, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Makes the octets and the length of a file durable.
    fn sync_data(&mut self, file: &Self::File) -> io::Result<()>;

    /// Makes creations, renames and removals of files durable.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// Starts to sync `file`, or the folder if it is `None`, while other calls go on. At most one
    /// sync runs at a time; after an error none runs.
    fn begin_sync(&mut self, file: Option<&Self::File>) -> io::Result<()>;

    /// True once the sync that [`Files::begin_sync`] started is done, false while it runs. With
    /// `waits` the call blocks until the sync ends. An error ends the sync.
    fn poll_sync(&mut self, waits: bool) -> io::Result<bool>;

    /// Renames a file. Replaces an existing file of the new name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}
