//! The result of sampling, and its table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::noise::gaps::{BUCKET_BOUNDS_NS, GapTotals};
use crate::noise::sampler::{CoreSample, SampledGaps, nanos};

/// Gaps of similar length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseBucket {
    /// Minimum length of a gap in this bucket. Unit: ns.
    pub from_ns: u64,
    /// Minimum length of a gap in the next bucket; `None` for the last bucket. Unit: ns.
    pub to_ns: Option<u64>,
    /// Number of gaps in which another thread ran.
    pub other_threads: u64,
    /// Number of gaps caused by interrupts, firmware or the hypervisor.
    pub interrupts_or_hypervisor: u64,
}

/// The gaps of a core and their causes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// The core.
    pub core: u16,
    /// Duration of sampling, up to the end of the last gap. Unit: ns.
    pub duration_ns: u64,
    /// Minimum length of a gap. Unit: ns.
    pub threshold_ns: u64,
    /// Number of turns of the sampler's loop.
    pub turns: u64,
    /// The shortest turn of the loop, which is the resolution. Unit: ns.
    pub turn_min_ns: u64,
    /// Gaps in which another thread ran.
    pub other_threads: GapTotals,
    /// Gaps caused by interrupts, firmware or the hypervisor.
    pub interrupts_or_hypervisor: GapTotals,
    /// Gaps by length. Begins and ends with a bucket that has gaps.
    pub histogram: Vec<NoiseBucket>,
    /// How often the kernel preempted the sampler's thread.
    pub involuntary_switches: u64,
    /// Interrupts on the core by name, if the kernel counts them.
    pub interrupts: BTreeMap<String, u64>,
    /// Softirqs on the core by name.
    pub softirqs: BTreeMap<String, u64>,
    /// Time that the hypervisor stole from the core, in steps of 10 ms. Unit: ms.
    pub steal_ms: u64,
}

impl NoiseReport {
    pub(crate) fn new(core: u16, threshold: Duration, sample: CoreSample) -> Self {
        let CoreSample { sampled, switches, causes } = sample;
        Self {
            core,
            duration_ns: sampled.elapsed_ns,
            threshold_ns: nanos(threshold),
            turns: sampled.turns,
            turn_min_ns: sampled.turn_min_ns,
            other_threads: sampled.other_threads.totals,
            interrupts_or_hypervisor: sampled.interrupts_or_hypervisor.totals,
            histogram: histogram(&sampled),
            involuntary_switches: u64::try_from(switches).unwrap_or(0),
            interrupts: causes.interrupts,
            softirqs: causes.softirqs,
            steal_ms: causes.steal_ms,
        }
    }

    /// Returns the number of gaps.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.other_threads.count + self.interrupts_or_hypervisor.count
    }

    /// Returns the share of the time that gaps took. Unit: parts per million.
    #[must_use]
    pub fn taken_ppm(&self) -> u64 {
        let taken = self.other_threads.total_ns + self.interrupts_or_hypervisor.total_ns;
        let ppm = u128::from(taken) * 1_000_000 / u128::from(self.duration_ns.max(1));
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }

    /// Returns the length of the longest gap. Unit: ns.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.other_threads.max_ns.max(self.interrupts_or_hypervisor.max_ns)
    }
}

fn histogram(sampled: &SampledGaps) -> Vec<NoiseBucket> {
    let counts = sampled.other_threads.counts.iter().zip(sampled.interrupts_or_hypervisor.counts);
    let bucket =
        |(index, (other_threads, interrupts_or_hypervisor)): (usize, (&u64, u64))| NoiseBucket {
            from_ns: BUCKET_BOUNDS_NS.get(index).copied().unwrap_or_default(),
            to_ns: BUCKET_BOUNDS_NS.get(index + 1).copied(),
            other_threads: *other_threads,
            interrupts_or_hypervisor,
        };
    let buckets: Vec<NoiseBucket> = counts.enumerate().map(bucket).collect();
    let is_used = |bucket: &NoiseBucket| bucket.other_threads + bucket.interrupts_or_hypervisor > 0;
    let first = buckets.iter().position(is_used).unwrap_or(buckets.len());
    let last = buckets.iter().rposition(is_used).map_or(first, |last| last + 1);
    buckets.get(first..last).unwrap_or_default().to_vec()
}

impl fmt::Display for NoiseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "core {}: {} gaps of {} or more in {} took {:.2} % of the time, the longest {}",
            self.core,
            self.gaps(),
            TimeWithUnit(self.threshold_ns),
            TimeWithUnit(self.duration_ns),
            // The conversion to `f64` is exact below 2^53.
            self.taken_ppm() as f64 / 1e4,
            TimeWithUnit(self.max_ns())
        )?;
        if !self.histogram.is_empty() {
            writeln!(f, "{:>18}  {:>13}  interrupts or hypervisor", "gap", "other threads")?;
        }
        for bucket in &self.histogram {
            let to = bucket.to_ns.map_or_else(String::new, |to| TimeWithUnit(to).to_string());
            let gap = format!("{} – {to:>6}", TimeWithUnit(bucket.from_ns));
            let (threads, rest) = (bucket.other_threads, bucket.interrupts_or_hypervisor);
            writeln!(f, "{gap:>18}  {threads:>13}  {rest:>24}")?;
        }
        for (row, totals) in [
            ("in other threads", &self.other_threads),
            ("in interrupts or hypervisor", &self.interrupts_or_hypervisor),
        ] {
            let [total, max] = [totals.total_ns, totals.max_ns].map(TimeWithUnit);
            writeln!(f, "{row}: {total} in {} gaps, the longest {max}", totals.count)?;
        }
        writeln!(f, "switches to other threads: {}", self.involuntary_switches)?;
        writeln!(f, "stolen by the hypervisor: {} ms", self.steal_ms)?;
        writeln!(f, "interrupts: {}", counts(&self.interrupts))?;
        write!(f, "softirqs: {}", counts(&self.softirqs))
    }
}

/// Formats counters with their names, the highest first.
fn counts(counters: &BTreeMap<String, u64>) -> String {
    let mut sorted: Vec<(&String, &u64)> = counters.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    if sorted.is_empty() {
        return "none counted".to_owned();
    }
    sorted.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// Displays a time in ns with a fitting unit.
struct TimeWithUnit(u64);

impl fmt::Display for TimeWithUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let tenths = u128::from(self.0) * 10 / divisor;
        match tenths % 10 {
            0 => write!(f, "{} {unit}", tenths / 10),
            tenth => write!(f, "{}.{tenth} {unit}", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::counters::CountedCauses;
    use crate::noise::gaps::GapCause;

    fn report() -> NoiseReport {
        let mut sampled = SampledGaps {
            elapsed_ns: 10_000_000,
            turns: 1000,
            turn_min_ns: 25,
            ..SampledGaps::default()
        };
        sampled.add(GapCause::InterruptsOrHypervisor, 3_400);
        sampled.add(GapCause::InterruptsOrHypervisor, 2_600);
        sampled.add(GapCause::OtherThreads, 14_000);
        let causes = CountedCauses {
            interrupts: BTreeMap::from([("disk".to_owned(), 2), ("timer".to_owned(), 9)]),
            steal_ms: 10,
            ..CountedCauses::default()
        };
        NoiseReport::new(1, Duration::from_micros(1), CoreSample { sampled, switches: 1, causes })
    }

    #[test]
    fn histogram_begins_and_ends_with_gaps_and_keeps_causes_apart() {
        let report = report();
        let rows: Vec<_> = report
            .histogram
            .iter()
            .map(|one| (one.from_ns, one.other_threads, one.interrupts_or_hypervisor))
            .collect();
        assert_eq!(rows, [(2_000, 0, 2), (5_000, 0, 0), (10_000, 1, 0)]);
        assert_eq!((report.gaps(), report.taken_ppm(), report.max_ns()), (3, 2_000, 14_000));
    }

    #[test]
    fn table_says_who_took_the_core_and_for_how_long() {
        let text = report().to_string();
        for wanted in [
            "core 1: 3 gaps of 1 µs or more in 10 ms took 0.20 % of the time, the longest 14 µs",
            "in other threads: 14 µs in 1 gaps",
            "stolen by the hypervisor: 10 ms",
            "interrupts: 9 timer, 2 disk",
            "softirqs: none counted",
        ] {
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn report_reads_back_from_its_json() {
        let json = serde_json::to_string(&report()).unwrap();
        assert_eq!(serde_json::from_str::<NoiseReport>(&json).unwrap(), report());
    }
}
