//! Reads the answer of a tap line by line, until it ends or the user interrupts it.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::request::http_client::{self, HttpRequest};
use crate::tap::packet::{TraceEnd, TraceHead, TraceLine};

/// Interval at which a wait for the next line checks for an interruption.
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// A running trace or capture.
#[derive(Debug)]
pub(super) struct TapConnection {
    lines: BufReader<UnixStream>,
    /// The received part of the next line.
    line: Vec<u8>,
    is_interrupted: Arc<AtomicBool>,
    pub head: TraceHead,
}

impl TapConnection {
    /// Starts a tap at the adit that listens at `socket`.
    ///
    /// # Errors
    /// No adit listens at `socket`, or it refuses.
    pub(super) fn open(socket: &Path, request: &HttpRequest) -> anyhow::Result<Self> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
                .context("cannot handle signals")?;
        }
        let (lines, line) = (http_client::send(socket, request)?.stream(READ_TIMEOUT)?, Vec::new());
        let head = TraceHead::default();
        let mut connection = Self { lines, line, is_interrupted, head };
        match connection.next()? {
            TraceLine::Head { tap } => connection.head = tap,
            _ => bail!("interrupted before adit answered"),
        }
        Ok(connection)
    }

    /// Waits for the next line and returns it. After an interruption returns an end instead.
    ///
    /// # Errors
    /// The answer is cut short.
    pub(super) fn next(&mut self) -> anyhow::Result<TraceLine> {
        loop {
            if self.is_interrupted.load(Ordering::Relaxed) {
                let why = "interrupted".to_owned();
                return Ok(TraceLine::End { end: TraceEnd { packets: 0, skipped: 0, why } });
            }
            match self.lines.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    let line = serde_json::from_slice(&self.line);
                    self.line.clear();
                    return line.context("adit answers with what is no line of a trace");
                }
                Ok(_) => bail!("adit ended before its answer was complete"),
                Err(error) if is_retryable(error.kind()) => {}
                Err(error) => return Err(error).context("cannot read from adit"),
            }
        }
    }
}

/// True if there is nothing to read yet.
const fn is_retryable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Describes why a tap ended, for the user.
pub(super) fn describe_tap_end(why: &str) -> &str {
    match why {
        "packets" => "as many as were asked for",
        "duration" => "the time is over",
        "size" => "the files are as large as they may be",
        "ended" => "somebody has ended it",
        "shutdown" => "adit has ended",
        other => other,
    }
}
