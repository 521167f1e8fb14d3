//! CPU time and waiting time of a target's threads.

use std::collections::BTreeMap;
use std::fs;

use crate::machine::StealTime;

/// Accumulated time that threads on some cores waited to run.
#[derive(Debug, Clone)]
pub(crate) struct RunQueueWait {
    cores: Vec<u16>,
    /// Time in which other threads ran on the core. Unit: ns.
    threads_ns: u64,
    /// Time in which the hypervisor ran something else on the core.
    steal: StealTime,
}

impl RunQueueWait {
    /// Reads the waiting time of a process's threads on `cores` until now; `None` if the kernel
    /// does not report it.
    #[must_use]
    pub(crate) fn of(pid: u32, cores: &[u16]) -> Option<Self> {
        let threads_ns = waiting_ns(pid, cores)?;
        Some(Self { cores: cores.to_vec(), threads_ns, steal: StealTime::now() })
    }

    /// Returns the waiting time from `self` to `now`. Unit: ns.
    #[must_use]
    pub(crate) fn until(&self, now: &Self) -> u64 {
        let stolen_ms = self.steal.since_ms(&now.steal);
        let stolen_ms = self.cores.iter().filter_map(|core| stolen_ms.get(&core.to_string()));
        let waited = now.threads_ns.saturating_sub(self.threads_ns);
        waited + stolen_ms.sum::<u64>() * 1_000_000
    }
}

/// Returns how long a process's threads on these cores were ready but did not run. Unit: ns.
fn waiting_ns(pid: u32, cores: &[u16]) -> Option<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).ok();
        // Fields of schedstat: time on a core, time in a run queue, number of time slices.
        let (Some(stat), Some(times)) = (read("stat"), read("schedstat")) else { continue };
        if core_and_ticks(&stat).is_some_and(|(core, _)| cores.contains(&core)) {
            sum += times.split_whitespace().nth(1)?.parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

/// Returns the CPU time of a process's threads by the core on which each ran last. Unit: 10 ms.
pub(super) fn cpu_by_core(pid: u32) -> BTreeMap<u16, u64> {
    let mut cores = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let text = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        if let Some((core, ticks)) = core_and_ticks(&text) {
            *cores.entry(core).or_insert(0) += ticks;
        }
    }
    cores
}

/// Prefixes of the names of threads of adit's packet path.
const PATH_THREADS: [&str; 5] =
    ["adit-worker", "adit-receiver", "adit-signaling", "adit-rx-tx", "adit-scheduler"];

/// CPU time of a process's threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ThreadTimes {
    /// CPU time of the threads of adit's packet path. Unit: ns.
    pub path_ns: u64,
    /// CPU time of all threads. Unit: ns.
    pub all_ns: u64,
}

impl ThreadTimes {
    /// Returns the time from `self` to `now`.
    pub(super) fn until(self, now: &Self) -> Self {
        Self {
            path_ns: now.path_ns.saturating_sub(self.path_ns),
            all_ns: now.all_ns.saturating_sub(self.all_ns),
        }
    }
}

/// Returns the CPU time of a process's threads since they started.
pub(super) fn thread_times(pid: u32) -> ThreadTimes {
    let mut times = ThreadTimes::default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, text) = (read("comm"), read("schedstat"));
        let spent = text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        times.all_ns += spent;
        if PATH_THREADS.iter().any(|start| name.starts_with(start)) {
            times.path_ns += spent;
        }
    }
    times
}

/// Returns the last core of a thread, and its CPU time in units of 10 ms, from its `stat`.
fn core_and_ticks(stat: &str) -> Option<(u16, u64)> {
    // The name is in parentheses and may contain blanks; the state follows it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let core = fields.get(36)?.parse().ok()?;
    Some((core, ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn time_of_a_worker_and_this_thread(busy: fn()) -> ThreadTimes {
        let before = thread_times(std::process::id());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let named = std::thread::Builder::new().name("adit-worker-3".to_owned());
        let worker = named
            .spawn(move || {
                busy();
                ready.send(()).unwrap();
                wait.recv().unwrap_err();
            })
            .unwrap();
        is_ready.recv().unwrap();
        busy();
        let spent = before.until(&thread_times(std::process::id()));
        drop(done);
        worker.join().unwrap();
        spent
    }

    #[test]
    fn time_of_a_thread_counts_to_the_packet_path_by_its_name() {
        let busy = || {
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        };
        // Repeated, since threads of other tests that end in between lower the total.
        let is_seen = (0..50).any(|_| {
            let spent = time_of_a_worker_and_this_thread(busy);
            spent.path_ns > 0 && spent.all_ns > spent.path_ns
        });
        assert!(is_seen);
        assert_eq!(thread_times(u32::MAX), ThreadTimes::default());
    }

    #[test]
    fn own_cpu_time_is_seen_on_some_core() {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        assert!(!cpu_by_core(std::process::id()).is_empty());
        assert!(cpu_by_core(u32::MAX).is_empty());
    }
}
