//! Signals that end `adit init`: at a question, or before the first file is replaced.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A signal ended the command. No file has changed.
#[derive(Debug)]
pub(crate) struct InterruptedInit {
    signal: u8,
}

impl InterruptedInit {
    /// The exit status that shells give to a process that the signal ended.
    pub(crate) const fn status(&self) -> u8 {
        128 + self.signal
    }
}

impl fmt::Display for InterruptedInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; nothing was written")
    }
}

impl std::error::Error for InterruptedInit {}

/// Holds the last signal since its creation; 0 for none.
#[derive(Debug)]
pub(super) struct Interruption {
    signal: Arc<AtomicUsize>,
    /// Readable after a signal.
    wake: UnixStream,
}

impl Interruption {
    /// # Errors
    /// The handlers of the signals cannot be set.
    pub(super) fn new() -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        let signal = Arc::new(AtomicUsize::new(0));
        for (number, value) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)?;
            signal_hook::low_level::pipe::register(number, wakes.try_clone()?)?;
        }
        Ok(Self { signal, wake })
    }

    /// # Errors
    /// A signal has arrived.
    pub(super) fn check(&self) -> Result<(), InterruptedInit> {
        match u8::try_from(self.signal.load(Ordering::SeqCst)) {
            Ok(signal @ 1..) => Err(InterruptedInit { signal }),
            _ => Ok(()),
        }
    }

    /// Waits until `input` has a line or its end.
    ///
    /// # Errors
    /// A signal arrives first.
    pub(super) fn wait_for(&self, input: impl AsFd) -> anyhow::Result<()> {
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        loop {
            match poll(&mut [of(input.as_fd()), of(self.wake.as_fd())], None) {
                Ok(_) => return Ok(self.check()?),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
