//! Measures how long the threads of a process waited for a CPU that other processes occupied.

use std::collections::BTreeMap;
use std::fs;

/// The CPU time and the waits of a process so far.
#[derive(Debug, Default)]
pub(crate) struct CpuWaits {
    pid: u32,
    /// Time on a CPU, of all threads together. Unit: ns.
    ran: u64,
    /// Time of waiting for a CPU, by thread id. Unit: ns.
    waited: BTreeMap<u64, u64>,
}

impl CpuWaits {
    /// Reads the present values of a process. Returns how long, since the last call, one of its
    /// threads has waited while the process itself did not run. Unit: ms.
    pub(crate) fn sample_waits(&mut self, pid: u32) -> u64 {
        let before = std::mem::replace(self, read(pid));
        self.starved_since(&before)
    }

    fn starved_since(&self, before: &Self) -> u64 {
        if before.pid != self.pid {
            return 0;
        }
        let waits = self.waited.iter().map(|(thread, waited)| {
            waited.saturating_sub(before.waited.get(thread).copied().unwrap_or(*waited))
        });
        let ran = self.ran.saturating_sub(before.ran);
        waits.max().unwrap_or(0).saturating_sub(ran) / 1_000_000
    }
}

fn read(pid: u32) -> CpuWaits {
    let mut found = CpuWaits { pid, ..CpuWaits::default() };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        // Fields: time on a CPU, time of waiting for one, number of turns.
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (Some(ran), Some(waited)) = (numbers.next(), numbers.next()) else { continue };
        let name = thread.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        found.ran += ran;
        found.waited.insert(thread, waited);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(ran_ms: u64, waited_ms: [u64; 2]) -> CpuWaits {
        let waited = waited_ms.map(|ms| ms * 1_000_000);
        let waited = waited.into_iter().enumerate().map(|(at, ns)| (at as u64, ns));
        CpuWaits { pid: 7, ran: ran_ms * 1_000_000, waited: waited.collect() }
    }

    #[test]
    fn thread_starves_while_neither_it_nor_its_own_process_has_a_cpu() {
        let before = waits(1000, [50, 50]);
        assert_eq!(waits(1000, [350, 60]).starved_since(&before), 300);
        assert_eq!(waits(1200, [350, 60]).starved_since(&before), 100, "a thread of its own ran");
        assert_eq!(
            waits(1000, [350, 60]).starved_since(&CpuWaits::default()),
            0,
            "another process"
        );
        assert!(read(std::process::id()).ran > 0);
    }
}
