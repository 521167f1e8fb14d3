//! Load and overload control: what responses tell CP functions that want to know.
//!
//! The load is the greatest of: what sessions take of the store (sessions, TEIDs, usage counters, the
//! fullest pool of UE addresses), requests that wait for publication and reports that wait for their
//! turn of the most that may, and how saturated the busiest worker is; all while a worker stands still. It is told when it changed by a step, with a sequence number
//! of its own; overload begins where the last twentieth of the capacity does.
//! Spec: TS 29.244 §6.2.3, §6.2.4, §7.5.3.3, §7.5.3.4.

use core::net::IpAddr;

use adit_pfcp::grouped::{LoadControlInformation, OverloadControlInformation};
use adit_pfcp::ie::{CpFunctionFeatures, Metric, OciFlags, PfcpTimer, SequenceNumber, Timer};
use adit_types::limits::{PENDING_MAX, REPORT_ITEMS_MAX};

use crate::node::Node;

/// Percentage points of load that are worth telling.
const LOAD_STEP: u8 = 5;

/// Load from which on CP functions shall send less. Unit: per cent.
const OVERLOAD_FROM: u8 = 95;

/// How long CP functions act on a told overload. Unit: seconds.
const OVERLOAD_VALIDITY_S: u32 = 30;

/// A metric and the number of its last change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReportedMetric {
    metric: u8,
    sequence: u32,
}

/// What was last computed, for all CP functions alike.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    load: ReportedMetric,
    overload: ReportedMetric,
}

/// What a CP function was told last: sequence numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoadReported {
    load: u32,
    overload: u32,
}

/// What a response carries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoadAndOverload {
    pub load: Option<LoadControlInformation<'static>>,
    pub overload: Option<OverloadControlInformation<'static>>,
}

impl Load {
    /// Takes notice of the load. Unit: per cent, 0 to 100.
    fn update(&mut self, percent: u8) {
        let stepped = percent - percent % LOAD_STEP;
        if stepped != self.load.metric {
            self.load =
                ReportedMetric { metric: stepped, sequence: self.load.sequence.wrapping_add(1) };
        }
        // From none at the beginning of the last twentieth to all at its end.
        let reduction = percent.saturating_sub(OVERLOAD_FROM).saturating_mul(20).min(100);
        if reduction != self.overload.metric {
            let sequence = self.overload.sequence.wrapping_add(1);
            self.overload = ReportedMetric { metric: reduction, sequence };
        }
    }
}

impl Node {
    /// Per cent of the capacity in use.
    fn load_percent(&self) -> u8 {
        let waiting = percent(self.answers.len(), PENDING_MAX);
        let reports = percent(self.sessions.states.waiting_reports_len(), REPORT_ITEMS_MAX);
        if self.standing_workers > 0 {
            return 100;
        }
        self.sessions.store().fill_percent().max(waiting).max(reports).max(self.worker_saturation)
    }

    /// Takes notice of how saturated the busiest worker is: which share of its turns found as many
    /// packets as it can take. Unit: per cent, cut to 100.
    pub fn set_worker_saturation(&mut self, percent: u8) {
        self.worker_saturation = percent.min(100);
    }

    /// Takes notice of how many workers take no step. While one does not, nothing that workers have to
    /// observe is answered: CP functions are told to send less, and new sessions are refused.
    pub const fn set_standing_workers(&mut self, count: usize) {
        self.standing_workers = count;
    }

    /// What a response to `peer` carries: what changed since it was last told, if it wants to know.
    pub(crate) fn control_information(&mut self, peer: IpAddr) -> LoadAndOverload {
        let mut load = self.load;
        load.update(self.load_percent());
        self.load = load;
        let mut information = LoadAndOverload::default();
        let Some(peer) = self.peers.get_mut(&peer) else { return information };
        let features = peer.association.as_ref().map_or(0, |a| a.cp_function_features);
        let wants = |feature: CpFunctionFeatures| features & u64::from(feature.bits()) != 0;
        let known = &mut peer.load_reported;
        if wants(CpFunctionFeatures::LOAD) && known.load != load.load.sequence {
            known.load = load.load.sequence;
            let ReportedMetric { metric, sequence } = load.load;
            let body = LoadControlInformation::new(SequenceNumber(sequence), Metric(metric));
            information.load = Some(body);
        }
        if wants(CpFunctionFeatures::OVRL) && known.overload != load.overload.sequence {
            known.overload = load.overload.sequence;
            let ReportedMetric { metric, sequence } = load.overload;
            let validity = PfcpTimer(Timer::from_secs(OVERLOAD_VALIDITY_S));
            let sequence = SequenceNumber(sequence);
            let mut body = OverloadControlInformation::new(sequence, Metric(metric), validity);
            body.oci_flags = Some(OciFlags::AOCI);
            information.overload = Some(body);
        }
        information
    }
}

fn percent(part: usize, whole: usize) -> u8 {
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
