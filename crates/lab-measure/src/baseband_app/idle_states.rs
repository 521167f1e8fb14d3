//! Idle states: a request to the kernel that limits how long cores take to wake up.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::Result;

use adit_lab_process::stop::environment;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A limit of the wake-up latency of all cores, in force until it is dropped.
#[derive(Debug)]
pub struct LatencyRequest {
    /// The kernel drops the request when the file is closed.
    _device: File,
}

impl LatencyRequest {
    /// Requests that no core enters an idle state with a longer wake-up latency, or, with 0, any
    /// idle state.
    ///
    /// # Errors
    /// The kernel has no such device, or this process may not write to it.
    pub fn hold(latency_us: u32) -> Result<Self> {
        Self::write(Path::new(DEVICE), latency_us)
    }

    fn write(path: &Path, latency_us: u32) -> Result<Self> {
        let refused = |error: std::io::Error| {
            let path = path.display();
            environment(format!("--cpu-dma-latency: {path}: {error}; it needs root"))
        };
        let mut device = OpenOptions::new().write(true).open(path).map_err(refused)?;
        let value = i32::try_from(latency_us).unwrap_or(i32::MAX);
        device.write_all(&value.to_ne_bytes()).map_err(refused)?;
        Ok(Self { _device: device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_a_number_of_four_octets() {
        let scratch = adit_lab_process::scratch::Scratch::create("idle-states").unwrap();
        let path = scratch.path().join("cpu_dma_latency");
        std::fs::write(&path, b"").unwrap();
        drop(LatencyRequest::write(&path, 7).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), 7i32.to_ne_bytes());
        let error = LatencyRequest::write(&scratch.path().join("absent"), 0).unwrap_err();
        assert!(error.to_string().starts_with("--cpu-dma-latency: "), "{error}");
    }
}
