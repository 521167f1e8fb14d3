//! CPU time of adit, and of the kernel threads that poll its devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// A kernel thread's name begins with this and the device.
const NAPI: &str = "napi/";

/// The kernel threads that poll network devices.
#[derive(Debug, Default)]
pub(super) struct NapiThreads(Vec<i32>);

impl NapiThreads {
    /// Has devices of a namespace polled by threads of their own on `core`.
    ///
    /// # Errors
    /// The kernel polls no veth device by threads.
    pub(super) fn start(namespace: &str, devices: &[&str], core: usize) -> Result<Self> {
        let before = all();
        for device in devices {
            set(namespace, device, "threaded", "1")
                .context("the kernel polls no device by a thread, as Linux 5.12 does")?;
        }
        let threads: Vec<i32> = all().difference(&before).copied().collect();
        let mut cores = CpuSet::new();
        cores.set(core);
        for thread in threads.iter().filter_map(|thread| Pid::from_raw(*thread)) {
            sched_setaffinity(Some(thread), &cores).context("move a thread that polls a device")?;
        }
        Ok(Self(threads))
    }

    /// Receives what devices of a namespace get on `core` as soon as it arrives, whatever else the core does and whoever
    /// sends: the sender of an unpolled device would do the work otherwise.
    ///
    /// # Errors
    /// The kernel gives threads no real-time priority, or lacks a feature.
    pub(super) fn receive_at_once(namespace: &str, devices: &[&str], core: usize) -> Result<()> {
        for device in devices {
            set(namespace, device, "queues/rx-0/rps_cpus", &format!("{:x}", 1_u64 << (core % 64)))?;
        }
        for thread in Self::start(namespace, devices, core)?.0 {
            let mut command = Command::new("chrt");
            run(command.args(["--fifo", "--pid", "50", &thread.to_string()]))?;
        }
        Ok(())
    }
}

/// Writes an attribute of a device. Only `ip netns exec` mounts those of another namespace.
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

fn all() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_napi = |process: &Path| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with(NAPI))
    };
    let found = entries.filter(|entry| is_napi(&entry.path()));
    found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of a process and of kernel threads until now. Unit: ns.
///
/// # Errors
/// The process is gone, or the kernel accounts for no CPU time of threads.
pub(super) fn cpu_ns(process: u32, threads: &NapiThreads) -> Result<u64> {
    let mut sum = 0;
    let tasks = fs::read_dir(format!("/proc/{process}/task")).context("adit is gone")?;
    for task in tasks.flatten() {
        sum += run_time_ns(&task.path())?;
    }
    for thread in &threads.0 {
        sum += run_time_ns(Path::new(&format!("/proc/{thread}")))?;
    }
    Ok(sum)
}

/// The first field of schedstat.
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
        let before = cpu_ns(std::process::id(), &NapiThreads::default()).unwrap();
        let mut sum = 0_u64;
        for number in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let after = cpu_ns(std::process::id(), &NapiThreads::default()).unwrap();
        assert!(after > before + 1_000_000, "{before} {after} {sum}");
    }
}
