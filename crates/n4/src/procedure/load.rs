//! Adds load and overload information to responses; see [`crate::load`].

use core::net::IpAddr;

use adit_pfcp::grouped::{LoadControlInformation, OverloadControlInformation};
use adit_pfcp::ie::{CpFunctionFeatures, Metric, OciFlags, PfcpTimer, SequenceNumber, Timer};
use adit_types::limits::{PENDING_MAX, REPORT_ITEMS_MAX};

use crate::load::{LoadAndOverload, OVERLOAD_VALIDITY_S, ReportedMetric, percent};
use crate::node::Node;

impl Node {
    /// Returns the load that is reported to CP functions. Unit: per cent of the capacity.
    #[must_use]
    pub fn load_percent(&self) -> u8 {
        let waiting = percent(self.answers.len(), PENDING_MAX);
        let reports = percent(self.sessions.states.waiting_reports_len(), REPORT_ITEMS_MAX);
        if self.load.standing_workers > 0 || self.load.is_draining {
            return 100;
        }
        self.sessions
            .store()
            .fill_percent()
            .max(waiting)
            .max(reports)
            .max(self.load.worker_saturation)
    }

    /// Sets the saturation of the busiest worker: the share of its steps that found a full burst.
    /// Unit: per cent, limited to 100.
    pub fn set_worker_saturation(&mut self, percent: u8) {
        self.load.worker_saturation = percent.min(100);
    }

    /// Sets how many workers are not running. A single one keeps every change from being observed:
    /// the load is then reported as 100 %, and new sessions are refused.
    pub const fn set_standing_workers(&mut self, count: usize) {
        self.load.standing_workers = count;
    }

    /// Returns the information for a response to `peer`: metrics that have changed since they were
    /// last sent to it, if it announced the feature.
    pub(crate) fn load_and_overload_for(&mut self, peer: IpAddr) -> LoadAndOverload {
        let mut load = self.load;
        load.update(self.load_percent());
        self.load = load;
        let mut information = LoadAndOverload::default();
        let Some(peer) = self.peers.get_mut(peer) else { return information };
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
