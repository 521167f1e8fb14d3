//! `/dev/cpu_dma_latency`: a limit on wake-up latency, for as long as a process holds it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A limit that all CPUs keep while this value exists. The kernel drops it when the file is closed,
/// so it ends with the process in any case, and no journal is needed.
#[derive(Debug)]
pub struct CpuLatencyHold {
    _file: File,
}

impl CpuLatencyHold {
    /// Limits wake-up latency of idle CPUs to `limit_us`; 0 lets them poll. `root`: `/`, or a copy
    /// of a machine.
    ///
    /// # Errors
    /// When the device does not exist or this process may not write it.
    pub fn acquire(root: &Path, limit_us: u32) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(root.join("dev/cpu_dma_latency"))?;
        // The kernel takes exactly four octets in its own byte order as a number.
        file.write_all(&limit_us.to_ne_bytes())?;
        Ok(Self { _file: file })
    }
}
