//! Load and overload control information in responses.
//!
//! The load is the greatest of: the used share of the session store (sessions, TEIDs, usage
//! counters, the fullest pool of UE addresses), the used share of waiting requests and reports, and
//! the saturation of the busiest worker. It is 100 % while a worker is not running or the operator
//! drains the node. It is sent when it has changed by [`LOAD_STEP_PERCENT`], with a sequence
//! number.
//! Overload begins at 95 % of the capacity. Spec: TS 29.244 §6.2.3, §6.2.4, §7.5.3.3, §7.5.3.4.

use adit_pfcp::grouped::{LoadControlInformation, OverloadControlInformation};

/// Percentage points of load that trigger a report.
const LOAD_STEP_PERCENT: u8 = 5;

/// Load at which overload begins: CP functions shall send fewer requests. Unit: per cent.
const OVERLOAD_FROM_PERCENT: u8 = 95;

/// How long CP functions act on a reported overload. Unit: seconds.
pub(crate) const OVERLOAD_VALIDITY_S: u32 = 30;

/// The value of a metric, and its sequence number, which each change increments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReportedMetric {
    pub metric: u8,
    pub sequence: u32,
}

/// The latest metrics, the same for all CP functions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// The saturation of the busiest worker. Unit: per cent.
    pub worker_saturation: u8,
    /// How many workers are not running.
    pub standing_workers: usize,
    /// True if the operator drains the node: it takes no new sessions.
    pub is_draining: bool,
    pub load: ReportedMetric,
    pub overload: ReportedMetric,
}

/// The sequence numbers of the metrics that a CP function has been sent last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LastReportedLoad {
    pub load: u32,
    pub overload: u32,
}

/// The load and overload information that a response contains, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoadAndOverload {
    pub load: Option<LoadControlInformation<'static>>,
    pub overload: Option<OverloadControlInformation<'static>>,
}

impl Load {
    /// Updates the metrics with the present load. Unit: per cent, 0 to 100.
    pub(crate) fn update(&mut self, percent: u8) {
        let stepped = percent - percent % LOAD_STEP_PERCENT;
        if stepped != self.load.metric {
            self.load =
                ReportedMetric { metric: stepped, sequence: self.load.sequence.wrapping_add(1) };
        }
        // The reduction grows from 0 % at 95 % load to 100 % at full load.
        let reduction = percent.saturating_sub(OVERLOAD_FROM_PERCENT).saturating_mul(20).min(100);
        if reduction != self.overload.metric {
            let sequence = self.overload.sequence.wrapping_add(1);
            self.overload = ReportedMetric { metric: reduction, sequence };
        }
    }
}

pub(crate) fn percent(part: usize, whole: usize) -> u8 {
    u8::try_from((part * 100 / whole).min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_number_counts_changes_of_the_metric_only() {
        let mut load = Load::default();
        for (percent, expected) in [(0, (0, 0)), (4, (0, 0)), (5, (5, 1)), (9, (5, 1)), (0, (0, 2))]
        {
            load.update(percent);
            assert_eq!((load.load.metric, load.load.sequence), expected);
        }
        assert_eq!(load.overload, ReportedMetric::default());
    }

    #[test]
    fn overload_grows_over_the_last_twentieth_and_ends() {
        let mut load = Load::default();
        let metric = |percent| {
            load.update(percent);
            load.overload.metric
        };
        assert_eq!([95, 96, 99, 100, 50].map(metric), [0, 20, 80, 100, 0]);
        assert_eq!(load.overload.sequence, 4);
    }
}
