//! A session with URRs whose worker is the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use adit_n4::Transmit;
use adit_pfcp::grouped::{CreateUrr, UsageReport};
use adit_pfcp::ie::{
    MeasurementInformation, MeasurementMethod, ReportType, ReportingTriggers, VolumeThreshold,
};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionReportResponse};
use adit_pfcp::{Cause, Message};
use adit_rules::{SessionRules, UsageCounts, UsageSource, WorkerEvent};
use adit_types::{Nanos, Seid, UrrId, UsageSlot};

use crate::smf::*;

#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<UsageSlot, UsageCounts>>);

impl UsageSource for Counters {
    fn usage(&self, slot: UsageSlot, _: u32) -> UsageCounts {
        self.0.lock().unwrap().get(&slot).copied().unwrap_or_default()
    }
}

impl Counters {
    /// Counts an uplink packet.
    pub(crate) fn add(&self, slot: UsageSlot, ul_bytes: u64, now: Nanos) {
        let mut counters = self.0.lock().unwrap();
        let counts = counters.entry(slot).or_default();
        counts.ul_bytes += ul_bytes;
        counts.ul_pkts += 1;
        counts.last = Some(now);
    }
}

/// A node whose worker is the test.
pub(crate) struct Scene {
    pub bench: Bench,
    pub counters: Arc<Counters>,
    pub up_seid: Seid,
    pub rules: Option<SessionRules>,
}

pub(crate) fn urr(id: u32, triggers: ReportingTriggers) -> CreateUrr<'static> {
    let mut urr = CreateUrr::new(UrrId(id), MeasurementMethod::VOLUM, triggers);
    urr.measurement_information = Some(MeasurementInformation::MNOP);
    urr
}

pub(crate) fn threshold(total: u64) -> Option<VolumeThreshold> {
    Some(VolumeThreshold { total: Some(total), ..VolumeThreshold::default() })
}

pub(crate) fn with_urrs(
    body: &mut SessionEstablishmentRequest<'static>,
    urrs: &'static [CreateUrr<'static>],
) {
    let ids: Vec<UrrId> = urrs.iter().map(|urr| urr.urr_id).collect();
    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
    for pdr in &mut pdrs {
        pdr.urr_ids = (&*Box::leak(ids.clone().into_boxed_slice())).into();
    }
    body.create_pdrs = (&*Box::leak(pdrs.into_boxed_slice())).into();
    body.create_urrs = urrs.into();
}

impl Scene {
    pub(crate) fn new<const N: usize>(urrs: [CreateUrr<'static>; N]) -> Self {
        Self::with(|body| with_urrs(body, list(urrs)))
    }

    pub(crate) fn with(edit: impl FnOnce(&mut SessionEstablishmentRequest<'static>)) -> Self {
        Self::on(Bench::associated(), edit)
    }

    /// A session on a node that is associated with `smf(10)`.
    pub(crate) fn on(
        mut bench: Bench,
        edit: impl FnOnce(&mut SessionEstablishmentRequest<'static>),
    ) -> Self {
        let counters = Arc::new(Counters::default());
        bench.node.set_usage_source(Arc::clone(&counters) as Arc<dyn UsageSource>);
        let mut scene = Self { bench, counters, up_seid: Seid(0), rules: None };
        let request = establish_with(2, &SessionScript::new(0xc1, 1), edit);
        let sent = scene.ask(&request);
        let Message::SessionEstablishmentResponse(body) = decode(&sent[0].bytes) else { panic!() };
        scene.up_seid = body.up_f_seid.unwrap_or_else(|| panic!("{body:?}")).seid;
        scene
    }

    /// Sends a request of the SMF; the workers run every change at once.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Vec<Transmit> {
        self.bench.node.handle_datagram(self.bench.now, smf(10), request);
        self.publish();
        self.bench.sent()
    }

    pub(crate) fn publish(&mut self) {
        while let Some((id, delta)) = self.bench.node.poll_delta() {
            self.rules = delta.rules.map(|rules| *rules);
            self.bench.node.handle_published(self.bench.now, id);
        }
        self.bench.store_all();
    }

    pub(crate) fn count(&self, at: usize, ul_bytes: u64, dl_bytes: u64) {
        let slot = self.rules.as_ref().unwrap().urrs[at].slot;
        self.count_in(slot, ul_bytes, dl_bytes);
    }

    pub(crate) fn count_in(&self, slot: UsageSlot, ul_bytes: u64, dl_bytes: u64) {
        let mut counters = self.counters.0.lock().unwrap();
        let counts = counters.entry(slot).or_default();
        counts.ul_bytes += ul_bytes;
        counts.dl_bytes += dl_bytes;
        counts.ul_pkts += u64::from(ul_bytes > 0);
        counts.dl_pkts += u64::from(dl_bytes > 0);
        counts.last = Some(self.bench.now);
    }

    /// A worker reports that the URR has reached a limit.
    pub(crate) fn limit(&mut self, at: usize) -> Vec<Transmit> {
        let urr = &self.rules.as_ref().unwrap().urrs[at];
        let (slot, generation) = (urr.slot, urr.generation);
        let event = WorkerEvent::UsageLimit { session: self.up_seid, slot, generation };
        self.bench.node.handle_event(self.bench.now, event);
        self.publish();
        self.bench.sent()
    }

    /// Moves time on; returns the sent messages.
    pub(crate) fn run_until(&mut self, until: Nanos) -> Vec<Transmit> {
        let mut all = Vec::new();
        while let Some(at) = self.bench.node.poll_timeout().filter(|&at| at <= until) {
            self.bench.now = self.bench.now.max(at);
            self.bench.node.handle_timeout(self.bench.now);
            self.publish();
            all.extend(self.bench.sent());
        }
        self.bench.now = until;
        all
    }

    pub(crate) fn acknowledge(&mut self, request: &Transmit) -> Vec<Transmit> {
        let sequence = raw(&request.bytes).header.sequence;
        let body = SessionReportResponse::new(Cause::RequestAccepted);
        self.ask(&encode(Some(self.up_seid), sequence, &body))
    }
}

pub(crate) fn report_request(transmit: &Transmit) -> (ReportType, Vec<UsageReport<'_>>) {
    let Message::SessionReportRequest(body) = decode(&transmit.bytes) else { panic!() };
    (body.report_type, body.usage_reports.iter().collect())
}

pub(crate) fn volume(report: &UsageReport<'_>) -> (u64, u64, u64, u64) {
    let volume = report.volume_measurement.unwrap();
    let (ul, dl) = (volume.uplink.unwrap(), volume.downlink.unwrap());
    assert_eq!(volume.total, Some(ul + dl));
    (ul, dl, volume.uplink_packets.unwrap(), volume.downlink_packets.unwrap())
}
