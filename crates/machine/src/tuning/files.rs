//! The machine's files, below a root folder.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags, ResolveFlags, access, open, openat2};

/// Files that have settings. Paths are relative to the root folder, such as
/// `proc/sys/kernel/numa_balancing`.
pub trait HostFiles {
    /// Reads a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes an existing file with one call.
    ///
    /// # Errors
    /// The system's, by which the kernel also refuses a value.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// True if the process may write the file, or create entries in the folder.
    fn is_writable(&self, path: &str) -> bool;

    /// True if the file or folder exists.
    fn exists(&self, path: &str) -> bool;

    /// Returns the names in a folder, in ascending order; empty if the folder does not exist.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Creates a folder.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&mut self, path: &str) -> io::Result<()>;

    /// Removes a folder of the kernel (a cgroup), together with the kernel's files in it.
    ///
    /// # Errors
    /// The system's.
    fn remove_folder(&mut self, path: &str) -> io::Result<()>;

    /// Writes one of adit's own files completely or not at all, so that a crash leaves no partial
    /// file.
    ///
    /// # Errors
    /// The system's.
    fn keep(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Removes one of adit's own files.
    ///
    /// # Errors
    /// The system's.
    fn forget(&mut self, path: &str) -> io::Result<()>;
}

/// The files below a root folder of the system.
#[derive(Debug)]
pub struct RootedFiles {
    root: PathBuf,
}

impl RootedFiles {
    /// Takes the root folder: `/`, or a copy of a machine's files.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens a regular file. Symbolic links cannot lead out of the root, and opening a FIFO does
    /// not block.
    fn open(&self, path: &str, how: OFlags) -> io::Result<File> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&self.root, folder, Mode::empty())?;
        let how = how | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat2(root, path, how, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let file = File::from(file);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other(format!("{path} is no regular file"))),
        }
    }
}

impl HostFiles for RootedFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        self.open(path, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut file = self.open(path, OFlags::WRONLY | OFlags::TRUNC)?;
        // The kernel requires the whole value in one call.
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn is_writable(&self, path: &str) -> bool {
        access(self.root.join(path), Access::WRITE_OK).is_ok()
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.root.join(path))
    }

    fn keep(&mut self, path: &str, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        let aside = path.with_extension("new");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::File::create(&aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&aside, &path)?;
        match path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn forget(&mut self, path: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_the_root_is_read_or_written_and_no_fifo_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, root) = (dir.path().join("outside"), dir.path().join("root"));
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(&outside, "theirs").unwrap();
        fs::write(root.join("outside"), "ours").unwrap();
        symlink(&outside, root.join("proc/absolute")).unwrap();
        symlink("../../../outside", root.join("proc/upwards")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(root.join("proc/fifo")).status();
        assert!(fifo.unwrap().success());
        let mut files = RootedFiles::new(&root);
        assert!(files.write("proc/absolute", "1").is_err());
        files.write("proc/upwards", "1").unwrap();
        assert_eq!(files.read("outside").unwrap(), "1\n");
        assert!(files.write("proc/fifo", "1").is_err() && files.read("proc/fifo").is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "theirs");
    }
}
