//! The loop that finds gaps.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::noise::NoiseError;
use crate::noise::counters::{CoreCounters, CountedCauses, involuntary_switches};
use crate::noise::gaps::{GapCause, GapHistogram};

/// The gaps that the loop found.
#[derive(Debug, Clone, Default)]
pub(crate) struct SampledGaps {
    /// Gaps in which another thread ran.
    pub other_threads: GapHistogram,
    /// Gaps caused by interrupts, firmware or the hypervisor.
    pub interrupts_or_hypervisor: GapHistogram,
    /// Duration of sampling; longer than requested by at most the last gap. Unit: ns.
    pub elapsed_ns: u64,
    /// Number of turns of the loop.
    pub turns: u64,
    /// The shortest turn. Unit: ns.
    pub turn_min_ns: u64,
}

/// The gaps of a core, and what the kernel counted meanwhile.
#[derive(Debug)]
pub(crate) struct CoreSample {
    /// The gaps.
    pub sampled: SampledGaps,
    /// How often the kernel preempted the sampler's thread.
    pub switches: i64,
    /// Interrupts, softirqs and steal time.
    pub causes: CountedCauses,
}

impl SampledGaps {
    /// Counts a gap.
    pub(crate) fn add(&mut self, cause: GapCause, gap_ns: u64) {
        match cause {
            GapCause::OtherThreads => self.other_threads.add(gap_ns),
            GapCause::InterruptsOrHypervisor => self.interrupts_or_hypervisor.add(gap_ns),
        }
    }
}

/// Samples on the calling thread, which it pins to `core`.
pub(crate) fn run(
    core: u16,
    duration: Duration,
    threshold: Duration,
) -> Result<CoreSample, NoiseError> {
    pin(core)?;
    let before = CoreCounters::read(core);
    let switches = involuntary_switches();
    let sampled = sample(duration, threshold);
    let switches = involuntary_switches() - switches;
    let causes = before.counted_until(&CoreCounters::read(core));
    Ok(CoreSample { sampled, switches, causes })
}

fn sample(duration: Duration, threshold: Duration) -> SampledGaps {
    let mut sampled = SampledGaps { turn_min_ns: u64::MAX, ..SampledGaps::default() };
    let mut switches = involuntary_switches();
    let start = Instant::now();
    let mut last = start;
    loop {
        let now = Instant::now();
        let gap = now - last;
        sampled.turns += 1;
        if gap >= threshold {
            let switches_now = involuntary_switches();
            let cause = if switches_now == switches {
                GapCause::InterruptsOrHypervisor
            } else {
                GapCause::OtherThreads
            };
            switches = switches_now;
            sampled.add(cause, nanos(gap));
            // Reads the clock again, so that the time of counting is no gap.
            last = Instant::now();
        } else {
            sampled.turn_min_ns = sampled.turn_min_ns.min(nanos(gap));
            last = now;
        }
        if now - start >= duration {
            sampled.elapsed_ns = nanos(now - start);
            return sampled;
        }
    }
}

fn pin(core: u16) -> Result<(), NoiseError> {
    let refused = |errno| NoiseError::Core { core, errno, allowed: allowed_cores() };
    if usize::from(core) >= CpuSet::MAX_CPU {
        return Err(refused(rustix::io::Errno::INVAL));
    }
    let mut set = CpuSet::new();
    set.set(core.into());
    sched_setaffinity(None, &set).map_err(refused)
}

/// Formats the cores that the calling thread may use, such as `0-3,8`.
fn allowed_cores() -> String {
    let Ok(set) = sched_getaffinity(None) else { return String::new() };
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Converts to nanoseconds. Saturates at 584 years.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
