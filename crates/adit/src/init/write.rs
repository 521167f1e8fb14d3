//! Writes files as a whole: all of them, or none.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{Access, access};

use super::interruption::Interruption;

/// # Errors
/// The file exists, and `is_forced` is false.
pub(super) fn check_absent(path: &Path, is_forced: bool) -> anyhow::Result<()> {
    match path.symlink_metadata().is_ok() && !is_forced {
        true => {
            bail!("{} exists: --force replaces it, --output names another file", path.display())
        }
        false => Ok(()),
    }
}

/// # Errors
/// This user may not write into the folder of `path`.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let mut folder = folder(path);
    while !folder.exists() {
        folder = folder.parent().unwrap_or(Path::new("/"));
    }
    if access(folder, Access::WRITE_OK).is_err() || !folder.is_dir() {
        bail!(
            "this user may not write into {}: run as root, or name a file with --output",
            folder.display()
        );
    }
    Ok(())
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Files under temporary names. Drop removes those not yet renamed, and folders made for them.
#[derive(Default)]
struct UnfinishedFiles {
    /// The temporary name and the final name of each file.
    files: Vec<(PathBuf, PathBuf)>,
    /// Folders that were made, the innermost last.
    folders: Vec<PathBuf>,
}

impl UnfinishedFiles {
    /// Makes a folder and all missing folders around it.
    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        let is_missing = |of: &&Path| !of.as_os_str().is_empty() && !of.exists();
        let missing: Vec<_> = folder.ancestors().take_while(is_missing).collect();
        for of in missing.into_iter().rev() {
            fs::create_dir(of)?;
            self.folders.push(of.to_owned());
        }
        Ok(())
    }
}

impl Drop for UnfinishedFiles {
    fn drop(&mut self) {
        for (temporary, _) in &self.files {
            let _ = fs::remove_file(temporary);
        }
        // Removing a folder fails if it has files of this or another process: it stays.
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Writes all files, and replaces those that exist. A signal leaves none half-written.
///
/// # Errors
/// A file cannot be written, or a signal has arrived; none is then changed.
pub(super) fn write(
    files: &[(PathBuf, String)],
    interruption: &Interruption,
) -> anyhow::Result<()> {
    let mut written = UnfinishedFiles::default();
    for (path, text) in files {
        let cannot = || format!("cannot write {}", path.display());
        let folder = folder(path);
        written.make_folder(folder).with_context(cannot)?;
        let name = path.file_name().with_context(cannot)?.to_string_lossy();
        let temporary = folder.join(format!(".{name}.{}", std::process::id()));
        written.files.push((temporary.clone(), path.clone()));
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(temporary)
            .with_context(cannot)?;
        file.write_all(text.as_bytes()).with_context(cannot)?;
        file.sync_all().with_context(cannot)?;
    }
    interruption.check()?;
    // adit's own file is the last one: when it is there, so are the files for the SMF.
    for (temporary, path) in &written.files {
        fs::rename(temporary, path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_written_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let file = |name: &str| (path(name), format!("text of {name}"));
        let interruption = Interruption::new().unwrap();
        write(&[file("a"), file("new/b")], &interruption).unwrap();
        assert_eq!(fs::read_to_string(path("new/b")).unwrap(), "text of new/b");
        // A file is no folder.
        assert!(write(&[file("c"), file("other/deep/c"), file("a/d")], &interruption).is_err());
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["a", "new"]);
        assert!(check_absent(&path("a"), false).is_err());
        assert!(check_absent(&path("a"), true).is_ok() && check_absent(&path("z"), false).is_ok());
        assert!(check_writable(&path("new/deeper/still")).is_ok());
        assert!(check_writable(&path("a/d")).unwrap_err().to_string().contains("--output"));
    }
}
