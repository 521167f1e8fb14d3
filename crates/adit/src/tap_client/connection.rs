//! The stream of an answer, line by line, until it ends or the user interrupts it.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::http_client::{self, HttpRequest};

/// How often an interruption is noticed.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line of the answer.
#[derive(Debug)]
pub(super) enum TapLine {
    Packet(Value),
    End(EndLine),
}

/// How a tap ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndLine {
    pub skipped: u64,
    /// `packets`, `duration`, `ended`, `shutdown`, or `interrupted`.
    pub why: String,
}

/// A tap that runs.
#[derive(Debug)]
pub(super) struct TapConnection {
    lines: BufReader<UnixStream>,
    /// The part of a line that has arrived.
    line: Vec<u8>,
    is_interrupted: Arc<AtomicBool>,
    /// Names of the ports, in the order of their numbers.
    pub ports: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl TapConnection {
    /// Starts a tap at the adit that listens at `socket`.
    ///
    /// # Errors
    /// Nothing listens there, or adit refuses.
    pub(super) fn open(socket: &Path, request: &HttpRequest) -> anyhow::Result<Self> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
                .context("cannot handle signals")?;
        }
        let (lines, line) = (http_client::send(socket, request)?.stream(INTERVAL)?, Vec::new());
        let (ports, notes) = (Vec::new(), Vec::new());
        let mut connection = Self { lines, line, is_interrupted, ports, notes };
        let Some(head) = connection.next_value()? else {
            bail!("interrupted before adit answered");
        };
        let strings = |key: &str| {
            let list = head["tap"][key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        (connection.ports, connection.notes) = (strings("ports"), strings("notes"));
        Ok(connection)
    }

    /// The next line. Waits for it.
    ///
    /// # Errors
    /// The answer is cut short.
    pub(super) fn next(&mut self) -> anyhow::Result<TapLine> {
        let end = |skipped, why: &str| TapLine::End(EndLine { skipped, why: why.to_owned() });
        let Some(value) = self.next_value()? else { return Ok(end(0, "interrupted")) };
        match value.get("end") {
            Some(ended) => {
                let skipped = ended["skipped"].as_u64().unwrap_or_default();
                Ok(end(skipped, ended["why"].as_str().unwrap_or_default()))
            }
            None => Ok(TapLine::Packet(value)),
        }
    }

    /// `None` if the user interrupts.
    fn next_value(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if self.is_interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.lines.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    let value = serde_json::from_slice(&self.line);
                    self.line.clear();
                    return value.map(Some).context("adit answers with what is no JSON");
                }
                Ok(_) => bail!("adit ended before its answer was complete"),
                Err(error) if is_only_late(error.kind()) => {}
                Err(error) => return Err(error).context("cannot read from adit"),
            }
        }
    }
}

/// True if there is nothing to read yet.
const fn is_only_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
