//! Commands that Ctrl-C ends.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

/// Returns an error after Ctrl-C.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(super) fn watch() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("signal handler")?;
        }
        Ok(Self(flag))
    }

    /// One that Ctrl-C does not raise.
    #[cfg(test)]
    pub(super) fn raised(is_raised: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is_raised)))
    }

    /// True after Ctrl-C.
    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a command in a process group of its own. Ctrl-C ends the group.
    pub(super) fn run(&self, command: &mut Command) -> anyhow::Result<()> {
        let text = format!("{command:?}");
        let mut child =
            command.process_group(0).spawn().with_context(|| format!("cannot run {text}"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    bail!("{text} failed ({status})");
                }
                return Ok(());
            }
            if self.is_raised() {
                // cargo ends its compilers when it is ended.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
                child.wait()?;
                bail!("interrupted");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_run_ends_its_program() {
        let start = Interrupt::raised(true).run(Command::new("sleep").arg("1000"));
        assert_eq!(start.unwrap_err().to_string(), "interrupted");
    }
}
