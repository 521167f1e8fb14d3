//! The flag that SIGINT, SIGTERM and SIGHUP raise, and the errors that determine the exit status.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Interval at which waiting loops check the flag.
pub const POLL: Duration = Duration::from_millis(20);

/// The error that a signal ended the lab; exit status 130.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The machine or the command line lacks something; the message has the remedy.
#[derive(Debug)]
pub struct EnvironmentError(String);

impl EnvironmentError {
    /// The exit status of a program that ends with this error.
    pub const EXIT_STATUS: u8 = 2;
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EnvironmentError {}

/// Makes an [`EnvironmentError`].
#[must_use]
pub fn environment(text: impl Into<String>) -> anyhow::Error {
    EnvironmentError(text.into()).into()
}

/// A shared flag that requests all threads to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Creates a flag that SIGINT, SIGTERM and SIGHUP raise.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0)).context("signal handler")?;
        }
        Ok(stop)
    }

    /// Raises the flag.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the flag was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Checks the flag.
    ///
    /// # Errors
    /// [`Interrupted`] once the flag was raised.
    pub fn check(&self) -> Result<()> {
        if self.is_raised() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Waits for `span`, or until the flag is raised.
    ///
    /// # Errors
    /// [`Interrupted`] when the flag was raised.
    pub fn sleep(&self, span: Duration) -> Result<()> {
        let end = Instant::now() + span;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_ends_early_when_the_flag_is_raised() {
        let stop = Stop::default();
        stop.raise();
        let error = stop.sleep(Duration::from_secs(60)).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}
