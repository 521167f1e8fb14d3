//! The files of the machine, below a root.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags, ResolveFlags, access, open, openat2};

/// Files with settings. Paths are relative to the root of the machine, such as
/// `proc/sys/kernel/numa_balancing`.
pub trait HostFiles {
    /// Reads a file.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes a file that exists, at once.
    ///
    /// # Errors
    /// Those of the system: the kernel refuses values by them.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Whether the process may write a file or make entries in a folder.
    fn is_writable(&self, path: &str) -> bool;

    /// Whether there is such a file or folder.
    fn exists(&self, path: &str) -> bool;

    /// Names in a folder in ascending order; none if there is no such folder.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Makes a folder.
    ///
    /// # Errors
    /// Those of the system.
    fn make_folder(&mut self, path: &str) -> io::Result<()>;

    /// Removes a folder of the kernel (a cgroup) with the files that the kernel has in it.
    ///
    /// # Errors
    /// Those of the system.
    fn remove_folder(&mut self, path: &str) -> io::Result<()>;

    /// Writes a file of ours as a whole or not at all, so that it outlives a crash of the process.
    ///
    /// # Errors
    /// Those of the system.
    fn keep(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Removes a file of ours.
    ///
    /// # Errors
    /// Those of the system.
    fn forget(&mut self, path: &str) -> io::Result<()>;
}

/// The files of the system.
#[derive(Debug)]
pub struct RootedFiles {
    root: PathBuf,
}

impl RootedFiles {
    /// Files below `root`: `/`, or a copy of a machine.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens a regular file. Links lead nowhere out of the root, and nobody is waited for at a
    /// FIFO.
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
        // The kernel takes a value from one call.
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
