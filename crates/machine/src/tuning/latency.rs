//! `/dev/cpu_dma_latency`: limits wake-up latency as long as a process keeps the file open.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A latency limit of all CPUs that lasts as long as this value. The kernel drops the limit when
/// the file is closed, so it ends with the process at the latest, and needs no journal.
#[derive(Debug)]
pub struct CpuLatencyHold {
    _file: File,
}

impl CpuLatencyHold {
    /// Limits the wake-up latency of idle CPUs to `limit_us`; with 0 they poll. `root`: `/`, or a
    /// copy of a machine's files.
    ///
    /// # Errors
    /// The device does not exist, or this process may not write it.
    pub fn acquire(root: &Path, limit_us: u32) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(root.join("dev/cpu_dma_latency"))?;
        // The kernel expects exactly four octets, a number in native byte order.
        file.write_all(&limit_us.to_ne_bytes())?;
        Ok(Self { _file: file })
    }
}
