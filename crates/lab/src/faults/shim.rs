//! Gives single processes a wrong wall clock, slow syncs, or a disk that fails, by a library that
//! is preloaded into them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use adit_lab_process::process::is_installed;

const SOURCE: &str = include_str!("shim.c");
/// Command of the C compiler.
pub(crate) const COMPILER: &str = "cc";

/// The library, and the file with the settings of one process.
#[derive(Debug, Clone)]
pub(crate) struct Shim {
    library: PathBuf,
    settings: PathBuf,
}

impl Shim {
    /// Compiles the library into `dir`; `None` if there is no compiler.
    ///
    /// # Errors
    /// Compiling fails.
    pub(crate) fn compile(dir: &Path) -> Result<Option<PathBuf>> {
        if !is_installed(COMPILER) {
            return Ok(None);
        }
        let (source, library) = (dir.join("shim.c"), dir.join("shim.so"));
        fs::write(&source, SOURCE).context("write the source of the shim")?;
        let mut command = Command::new(COMPILER);
        command.args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]);
        let output = command.output().context("run the C compiler")?;
        anyhow::ensure!(
            output.status.success(),
            "the shim does not compile: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Some(library))
    }

    /// Creates the settings of one process, which have no effect at first.
    ///
    /// # Errors
    /// The settings file cannot be written.
    pub(crate) fn new(library: &Path, name: &str) -> Result<Self> {
        let settings = library.with_file_name(format!("{name}.shim"));
        fs::write(&settings, [0; 24]).context("write the settings of the shim")?;
        Ok(Self { library: library.to_owned(), settings })
    }

    /// Makes a program load the library.
    pub(crate) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("ADIT_FAULTS", &self.settings);
    }

    /// Sets the wall clock to `offset_s` seconds after the machine's.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn step_clock(&self, offset_s: i64) -> Result<()> {
        self.set(0, offset_s)
    }

    /// Makes each sync take this much longer. Unit: ms.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn slow_syncs(&self, span_ms: i64) -> Result<()> {
        self.set(8, span_ms)
    }

    /// Makes positioned writes and syncs fail with EIO, or work again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn fail_disk(&self, fails: bool) -> Result<()> {
        self.set(16, i64::from(fails))
    }

    fn set(&self, offset: u64, value: i64) -> Result<()> {
        let file = File::options().write(true).open(&self.settings);
        file.and_then(|file| file.write_all_at(&value.to_ne_bytes(), offset))
            .with_context(|| format!("write {}", self.settings.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_sees_a_stepped_clock_at_once() {
        let dir = std::env::temp_dir().join(format!("adit-shim-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let library = Shim::compile(&dir).unwrap().unwrap();
        let shim = Shim::new(&library, "date").unwrap();
        let seconds = || {
            let mut command = Command::new("date");
            shim.preload(command.arg("+%s"));
            let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
            text.trim().parse::<i64>().unwrap()
        };
        let before = seconds();
        shim.step_clock(3600).unwrap();
        assert!((3600..3660).contains(&(seconds() - before)));
        shim.step_clock(0).unwrap();
        assert!((0..60).contains(&(seconds() - before)));
        fs::remove_dir_all(dir).unwrap();
    }
}
