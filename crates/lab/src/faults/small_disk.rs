//! A small disk for the journal, which can be filled up.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Size of the disk: room for a few segments of the journal.
const SIZE: &str = "size=160m";
/// Start of the mount's source name; the process id follows.
const SOURCE_PREFIX: &str = "adit-faults-";
const BALLAST: &str = "ballast";

/// A file system in memory for a folder. Drop unmounts it.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts the file system on a folder.
    ///
    /// # Errors
    /// The system does not permit this process to mount.
    pub(crate) fn mount(folder: &Path) -> Result<Self> {
        unmount_stale();
        let source = format!("{SOURCE_PREFIX}{}", std::process::id());
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", SIZE, &source]).arg(folder);
        let output = command.output().context("run mount")?;
        if !output.status.success() {
            bail!("mount: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Removes all files.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn remove_files(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder).context("read the folder of the journal")? {
            let path = entry.context("read the folder of the journal")?.path();
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Fills the disk with a file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.folder.join(BALLAST)).context("fill the disk")?;
        for part in [vec![0; 1 << 20], vec![0; 4096]] {
            while file.write_all(&part).is_ok() {}
        }
        Ok(())
    }

    /// Removes the file that fills the disk.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn free(&self) -> Result<()> {
        fs::remove_file(self.folder.join(BALLAST)).context("free the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.folder);
    }
}

fn unmount(folder: &Path) {
    // Best effort: the next run removes a mount that remains.
    let _ = Command::new("umount").arg("-l").arg(folder).output();
}

/// Unmounts the file systems of processes that no longer exist.
fn unmount_stale() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(source), Some(folder)) = (words.next(), words.next()) else { continue };
        let Some(pid) = source.strip_prefix(SOURCE_PREFIX) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            unmount(Path::new(folder));
        }
    }
}
