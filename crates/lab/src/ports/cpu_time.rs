//! Reads the CPU time of adit, and of the kernel threads that poll its devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Prefix of the names of the kernel threads; the device's name follows.
const NAPI: &str = "napi/";

/// Minimum time between two polls of a receiving device.
const MODERATION_NS: u32 = 20_000;

/// The kernel threads that poll network devices.
#[derive(Debug, Default)]
pub(super) struct NapiThreads(Vec<i32>);

impl NapiThreads {
    /// Makes separate threads on `core` poll devices of a namespace.
    ///
    /// # Errors
    /// The kernel cannot poll veth devices by threads.
    pub(super) fn start(namespace: &str, devices: &[&str], core: usize) -> Result<Self> {
        let before = napi_threads();
        for device in devices {
            set(namespace, device, "threaded", "1")
                .context("the kernel polls no device by a thread, as Linux 5.12 does")?;
        }
        let threads: Vec<i32> = napi_threads().difference(&before).copied().collect();
        let mut cores = CpuSet::new();
        cores.set(core);
        for thread in threads.iter().filter_map(|thread| Pid::from_raw(*thread)) {
            sched_setaffinity(Some(thread), &cores).context("move a thread that polls a device")?;
        }
        Ok(Self(threads))
    }

    /// Like [`Self::start`], but with real-time priority (SCHED_FIFO) and with interrupt
    /// moderation: a device is polled at most once every [`MODERATION_NS`].
    ///
    /// # Errors
    /// The kernel refuses real-time priority, or cannot poll veth devices by threads.
    pub(super) fn start_with_priority(
        namespace: &str,
        devices: &[&str],
        core: usize,
    ) -> Result<Self> {
        for device in devices {
            set(namespace, device, "napi_defer_hard_irqs", "1")?;
            set(namespace, device, "gro_flush_timeout", &MODERATION_NS.to_string())?;
        }
        let threads = Self::start(namespace, devices, core)?;
        for thread in &threads.0 {
            let mut command = Command::new("chrt");
            run(command.args(["--fifo", "--pid", "50", &thread.to_string()]))?;
        }
        Ok(threads)
    }

    /// Returns the CPU time of the threads so far. Unit: ns.
    ///
    /// # Errors
    /// The kernel does not account for the CPU time of threads.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        self.0.iter().map(|thread| run_time_ns(Path::new(&format!("/proc/{thread}")))).sum()
    }
}

/// Writes an attribute of a device. Only `ip netns exec` makes the attributes of another namespace
/// visible.
fn set(namespace: &str, device: &str, attribute: &str, value: &str) -> Result<()> {
    let line = format!("echo {value} > /sys/class/net/{device}/{attribute}");
    run(Command::new("ip").args(["netns", "exec", namespace, "sh", "-c", &line]))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn napi_threads() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_napi = |process: &Path| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with(NAPI))
    };
    let found = entries.filter(|entry| is_napi(&entry.path()));
    found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the CPU time of a process so far. Unit: ns.
///
/// # Errors
/// The process has ended, or the kernel does not account for the CPU time of threads.
pub(super) fn process_cpu_ns(process: u32) -> Result<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).context("adit is gone")?;
    tasks.flatten().map(|task| run_time_ns(&task.path())).sum()
}

/// Returns the CPU time of a thread of this process so far. Unit: ns.
///
/// # Errors
/// The thread has ended.
pub(super) fn own_thread_cpu_ns(thread: Pid) -> Result<u64> {
    run_time_ns(Path::new(&format!("/proc/self/task/{}", thread.as_raw_nonzero())))
}

/// Reads the run time, which is the first field of schedstat. Unit: ns.
fn run_time_ns(task: &Path) -> Result<u64> {
    let path = task.join("schedstat");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let first = text.split_whitespace().next().and_then(|field| field.parse().ok());
    first.with_context(|| format!("{}: {text}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_grows_with_work() {
        let before = process_cpu_ns(std::process::id()).unwrap();
        let mut sum = 0_u64;
        for number in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let after = process_cpu_ns(std::process::id()).unwrap();
        assert!(after > before + 1_000_000, "{before} {after} {sum}");
    }
}
