//! The kernel's counters of a core and of the calling thread.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::resource::{UsageWho, getrusage};

/// The counters at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreCounters {
    interrupts: BTreeMap<String, u64>,
    softirqs: BTreeMap<String, u64>,
    steal_ms: u64,
}

/// The growth of the counters between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CountedCauses {
    /// Interrupts by name.
    pub interrupts: BTreeMap<String, u64>,
    /// Softirqs by name.
    pub softirqs: BTreeMap<String, u64>,
    /// Time that the hypervisor stole. Unit: ms.
    pub steal_ms: u64,
}

impl CoreCounters {
    /// Reads the counters of `core`. If the kernel does not provide a file, its counters are empty.
    pub(crate) fn read(core: u16) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            interrupts: column(&text("/proc/interrupts"), core),
            softirqs: column(&text("/proc/softirqs"), core),
            steal_ms: steal_ms(&text("/proc/stat"), core),
        }
    }

    /// Returns what was counted from `self` to `later`.
    pub(crate) fn counted_until(&self, later: &Self) -> CountedCauses {
        CountedCauses {
            interrupts: difference(&self.interrupts, &later.interrupts),
            softirqs: difference(&self.softirqs, &later.softirqs),
            steal_ms: later.steal_ms.saturating_sub(self.steal_ms),
        }
    }
}

fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let one = |(name, count): (&String, &u64)| {
        let count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        (count > 0).then(|| (name.clone(), count))
    };
    after.iter().filter_map(one).collect()
}

/// Returns the counters of `core` by name, from a table such as `/proc/interrupts`, whose first
/// line names the online cores.
fn column(text: &str, core: u16) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let Some(index) = names.iter().position(|name| *name == format!("CPU{core}")) else {
        return BTreeMap::new();
    };
    let row = |line: &str| {
        let (label, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        // Rows such as ERR count for the machine, not by core.
        let counts = words.get(..names.len())?;
        let count: u64 = counts.get(index)?.parse().ok()?;
        Some((name(label.trim(), words.get(names.len()..).unwrap_or_default()), count))
    };
    let mut counters = BTreeMap::new();
    for (name, count) in lines.filter_map(row) {
        *counters.entry(name).or_insert(0) += count;
    }
    counters
}

/// Names an interrupt: by number and device if the number is a device interrupt's, else by its
/// description, or by its label if it has none.
fn name(label: &str, description: &[&str]) -> String {
    if label.bytes().all(|byte| byte.is_ascii_digit()) {
        return match description.last() {
            Some(device) => format!("{label} {device}"),
            None => label.to_owned(),
        };
    }
    if description.is_empty() { label.to_owned() } else { description.join(" ") }
}

/// Returns the steal time of `core` since boot, from `/proc/stat`. Unit: ms, in steps of ten.
fn steal_ms(text: &str, core: u16) -> u64 {
    let wanted = format!("cpu{core}");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&*wanted));
    // Columns: user nice system idle iowait irq softirq steal
    let ticks = line.and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.unwrap_or(0) * 10
}

/// Returns how often the kernel preempted the calling thread to run another thread.
pub(crate) fn involuntary_switches() -> i64 {
    // The call fails only for an unknown `UsageWho`.
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2       \n\
        \x2024:          1          7  IO-APIC   5-edge      ACPI:Ged\n\
        \x2036:          0     272690 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        LOC:     752461     550845   Local timer interrupts\n\
        ERR:          9\n";

    #[test]
    fn interrupts_of_a_core_are_in_the_column_that_names_it() {
        let counters = column(INTERRUPTS, 2);
        let wanted = [
            ("24 ACPI:Ged", 7),
            ("36 virtio1-req.0", 272_690),
            ("Local timer interrupts", 550_845),
        ];
        let wanted = wanted.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counters, BTreeMap::from(wanted));
        assert!(column(INTERRUPTS, 1).is_empty());
        assert!(column("", 0).is_empty());
    }

    #[test]
    fn softirqs_have_their_label_as_name() {
        let text = "                    CPU0       CPU1\n          HI:          0          3\n";
        assert_eq!(column(text, 1), BTreeMap::from([("HI".to_owned(), 3)]));
    }

    #[test]
    fn steal_is_that_of_the_core() {
        let text = "cpu  1 2 3 4 5 6 7 99\ncpu1 1 2 3 4 5 6 7 8 0 0\ncpu11 0 0 0 0 0 0 0 5\n";
        assert_eq!((steal_ms(text, 1), steal_ms(text, 11), steal_ms(text, 2)), (80, 50, 0));
    }

    #[test]
    fn counted_causes_are_those_that_rose() {
        let at = |timer: u64, disk: u64, steal_ms: u64| CoreCounters {
            interrupts: BTreeMap::from([("timer".to_owned(), timer), ("disk".to_owned(), disk)]),
            steal_ms,
            ..CoreCounters::default()
        };
        let causes = at(5, 3, 10).counted_until(&at(9, 3, 30));
        assert_eq!(causes.interrupts, BTreeMap::from([("timer".to_owned(), 4)]));
        assert_eq!(causes.steal_ms, 20);
    }
}
