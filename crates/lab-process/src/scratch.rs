//! Folders for the files of one run, in the system's temporary folder.
//!
//! The owner of a folder locks a file in it. The kernel releases the lock when the owner ends for
//! any reason. So the next run can remove the folders of killed runs, even if other processes have
//! their process ids now.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const PREFIX: &str = "adit-lab-";
const LOCK_FILE: &str = "lock";

/// A folder that drop removes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Creates a folder that is named after this process and `what`, and removes the folders of
    /// killed processes.
    ///
    /// # Errors
    /// The temporary folder cannot be written.
    pub fn create(what: &str) -> Result<Self> {
        Self::create_in(&std::env::temp_dir(), what)
    }

    fn create_in(parent: &Path, what: &str) -> Result<Self> {
        remove_abandoned(parent);
        let path = parent.join(format!("{PREFIX}{}-{what}", std::process::id()));
        let lock = fs::create_dir_all(&path).and_then(|()| lock(&path));
        let lock = lock.with_context(|| format!("create {}", path.display()))?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: the next run removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Creates a locked file in `folder`. The file gets its final name only after it is locked, so that
/// no other process finds it unlocked and removes the folder.
fn lock(folder: &Path) -> std::io::Result<File> {
    let early = folder.join("locking");
    let file = File::create(&early)?;
    file.lock()?;
    fs::rename(early, folder.join(LOCK_FILE))?;
    Ok(file)
}

/// Removes folders whose owner has ended.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours || !is_folder {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK_FILE));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Best effort: the folder may belong to another user.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_owners_go_and_those_of_others_stay() {
        let parent = std::env::temp_dir().join(format!("lab-scratch-test-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        let alive = Scratch::create_in(&parent, "alive").unwrap();
        let killed = Scratch::create_in(&parent, "killed").unwrap();
        // When a process is killed, the kernel closes its files, and no destructor runs.
        let (left, lock) = (killed.path.clone(), killed._lock.try_clone().unwrap());
        fs::write(left.join("target.log"), "last words").unwrap();
        std::mem::forget(killed);
        lock.unlock().unwrap();
        let foreign = parent.join(format!("{PREFIX}notes"));
        fs::create_dir(&foreign).unwrap();
        let other = parent.join("other");
        fs::create_dir(&other).unwrap();
        File::create(other.join(LOCK_FILE)).unwrap();
        let now = Scratch::create_in(&parent, "now").unwrap();
        assert!(!left.exists());
        for path in [alive.path(), now.path(), &foreign, &other] {
            assert!(path.exists(), "{}", path.display());
        }
        let path = now.path().to_owned();
        drop(now);
        assert!(!path.exists());
        drop(alive);
        fs::remove_dir_all(parent).unwrap();
    }
}
