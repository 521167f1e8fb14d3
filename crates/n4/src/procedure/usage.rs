//! Usage reports: in answers to modifications and deletions, and as session reports.
//!
//! A report is made once, and its measurement ends with it, so this node must not lose one. In an
//! answer it is part of the octets that are kept for retransmissions; a session report is
//! retransmitted; reports that wait when the session is deleted are sent in the answer to the
//! deletion. Spec: TS 29.244 §5.2.2.3, §7.5.5.2, §7.5.7.2, §7.5.8.3.

use std::sync::Arc;

use adit_pfcp::grouped::{ApplicationDetectionInformation, UsageReport};
use adit_pfcp::ie::{
    AdditionalUsageReportsInformation, ApplicationId, DurationMeasurement, EndTime, EventTimeStamp,
    QueryUrrReference, StartTime, TimeOfFirstPacket, TimeOfLastPacket, UrSeqn, UsageInformation,
    UsageReportTrigger, VolumeMeasurement,
};
use adit_pfcp::{IeType, MessageType};
use adit_rules::{DeltaId, UsageSource};
use adit_session::{UsageOutcome, UsagePart, UsageTriggers};
use adit_types::limits::{TIMERS_PER_TURN_MAX, USAGE_REPORTS_PER_RESPONSE_MAX};
use adit_types::{Nanos, Seid};

use crate::answers::Condition;
use crate::node::Node;
use crate::ntp::NtpClock;
use crate::session_state::ReportItem;

/// Our usage triggers, each with the trigger of the codec.
const TRIGGERS: [(UsageTriggers, UsageReportTrigger); 20] = [
    (UsageTriggers::PERIODIC, UsageReportTrigger::PERIO),
    (UsageTriggers::VOLUME_THRESHOLD, UsageReportTrigger::VOLTH),
    (UsageTriggers::TIME_THRESHOLD, UsageReportTrigger::TIMTH),
    (UsageTriggers::QUOTA_HOLDING_TIME, UsageReportTrigger::QUHTI),
    (UsageTriggers::START_OF_TRAFFIC, UsageReportTrigger::START),
    (UsageTriggers::STOP_OF_TRAFFIC, UsageReportTrigger::STOPT),
    (UsageTriggers::DROPPED_DL, UsageReportTrigger::DROTH),
    (UsageTriggers::LINKED, UsageReportTrigger::LIUSA),
    (UsageTriggers::VOLUME_QUOTA, UsageReportTrigger::VOLQU),
    (UsageTriggers::TIME_QUOTA, UsageReportTrigger::TIMQU),
    (UsageTriggers::QUOTA_VALIDITY_TIME, UsageReportTrigger::QUVTI),
    (UsageTriggers::INACTIVITY, UsageReportTrigger::UPINT),
    (UsageTriggers::IMMEDIATE, UsageReportTrigger::IMMER),
    (UsageTriggers::TERMINATION, UsageReportTrigger::TERMR),
    (UsageTriggers::MONITORING_TIME, UsageReportTrigger::MONIT),
    (UsageTriggers::TERMINATION_BY_UP, UsageReportTrigger::TEBUR),
    (UsageTriggers::ENVELOPE_CLOSURE, UsageReportTrigger::ENVCL),
    (UsageTriggers::EVENT_THRESHOLD, UsageReportTrigger::EVETH),
    (UsageTriggers::EVENT_QUOTA, UsageReportTrigger::EVEQU),
    (UsageTriggers::END_MARKER, UsageReportTrigger::EMRRE),
];

/// Returns when the events in a report happened.
pub(crate) fn event_time_stamps(
    report: &adit_session::UsageReport,
    ntp_clock: NtpClock,
) -> Vec<EventTimeStamp> {
    report.events.iter().map(|&at| EventTimeStamp(ntp_clock.seconds(at))).collect()
}

/// Converts a report to the type of the codec; `events`: the result of [`event_time_stamps`].
pub(crate) fn usage_report<'a>(
    report: &'a adit_session::UsageReport,
    ntp_clock: NtpClock,
    events: &'a [EventTimeStamp],
) -> UsageReport<'a> {
    let mut trigger = UsageReportTrigger::empty();
    for (ours, theirs) in TRIGGERS {
        trigger.set(theirs, report.triggers.contains(ours));
    }
    let mut group = UsageReport::new(report.urr, UrSeqn(report.sequence), trigger);
    if !(report.triggers & !UsageTriggers::NOTICES).is_empty() {
        group.start_time = Some(StartTime(ntp_clock.seconds(report.start)));
        group.end_time = Some(EndTime(ntp_clock.seconds(report.end)));
    }
    group.volume_measurement = report.volume.map(|volume| VolumeMeasurement {
        total: Some(volume.ul_bytes.wrapping_add(volume.dl_bytes)),
        uplink: Some(volume.ul_bytes),
        downlink: Some(volume.dl_bytes),
        total_packets: report.packets.then(|| volume.ul_pkts.wrapping_add(volume.dl_pkts)),
        uplink_packets: report.packets.then_some(volume.ul_pkts),
        downlink_packets: report.packets.then_some(volume.dl_pkts),
    });
    group.duration_measurement =
        report.duration_s.map(|s| DurationMeasurement(u32::try_from(s).unwrap_or(u32::MAX)));
    group.time_of_first_packet = report.first.map(|at| TimeOfFirstPacket(ntp_clock.seconds(at)));
    group.time_of_last_packet = report.last.map(|at| TimeOfLastPacket(ntp_clock.seconds(at)));
    group.usage_information = usage_information(report);
    group.query_urr_reference = report.query_reference.map(QueryUrrReference);
    // Flows of an application are not distinguished, so there is no application instance to report.
    group.application_detection_information = report
        .application
        .as_deref()
        .map(|id| ApplicationDetectionInformation::new(ApplicationId(id.as_bytes())));
    group.event_time_stamps = events.into();
    group
}

/// Returns whether a report covers the usage before or after a monitoring time; `None` if no
/// monitoring time divided it. Whether usage was measured before QoS enforcement is left out then:
/// the SMF itself requested which. INTEROP: some SMFs cannot decode a report with this IE. Spec: TS
/// 29.244 §7.5.8.3.
fn usage_information(report: &adit_session::UsageReport) -> Option<UsageInformation> {
    let mut information = match report.part? {
        UsagePart::Before => UsageInformation::BEF,
        UsagePart::Between => UsageInformation::BEF | UsageInformation::AFT,
        UsagePart::After => UsageInformation::AFT,
    };
    information.set(UsageInformation::UBE, report.before_qos);
    Some(information)
}

/// Returns the IE with the number of reports that follow in session reports. Spec: TS 29.244
/// §8.2.91.
pub(crate) fn additional(
    later: &[adit_session::UsageReport],
) -> Option<AdditionalUsageReportsInformation> {
    let count = u16::try_from(later.len()).unwrap_or(u16::MAX).min(0x7fff);
    (count > 0).then_some(AdditionalUsageReportsInformation { more: true, count })
}

impl Node {
    /// Sets the source from which the usage that workers count is read. Before, nothing is
    /// measured.
    pub fn set_usage_source(&mut self, source: Arc<dyn UsageSource>) {
        self.sessions.set_usage_source(source);
    }

    /// Sets the time of day at which the clock of `now` was zero, in nanoseconds since 1900-01-01.
    /// Call it regularly, because the clocks drift apart. Until the first call, that time is the
    /// recovery time stamp.
    pub const fn set_time_of_day(&mut self, at_zero: u64) {
        self.ntp_clock = NtpClock::from_nanos(at_zero);
    }

    /// Sends the reports that result from usage or from timers.
    pub(crate) fn apply_usage_outcome(&mut self, now: Nanos, outcome: UsageOutcome) {
        let UsageOutcome { up_seid, reports, inactive, .. } = outcome;
        let mut items: Vec<ReportItem> = reports.into_iter().map(ReportItem::Usage).collect();
        if inactive {
            items.push(ReportItem::Inactivity);
        }
        self.report_all(now, up_seid, items);
    }

    /// Sends usage reports that are due by `now`.
    pub(crate) fn report_due_usage(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(outcome) = self.sessions.poll_usage(now) else { return };
            self.apply_usage_outcome(now, outcome);
        }
    }

    /// Sends usage of a session in session reports.
    pub(crate) fn report_usage(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        reports: Vec<adit_session::UsageReport>,
    ) {
        self.report_all(now, up_seid, reports.into_iter().map(ReportItem::Usage).collect());
    }

    /// Appends usage reports to the answer that waits for the change `id`. Returns those that do
    /// not fit, if `takes_rest`: the CP function accepts them in session reports.
    pub(crate) fn append_usage(
        &mut self,
        id: DeltaId,
        mut reports: Vec<adit_session::UsageReport>,
        takes_rest: bool,
    ) -> Vec<adit_session::UsageReport> {
        let Some(answer) = self.answers.first_awaiting_mut(Condition::Observed(id)) else {
            return Vec::new();
        };
        let ie_type = match answer.message_type {
            MessageType::SESSION_MODIFICATION_RESPONSE => {
                IeType::USAGE_REPORT_SESSION_MODIFICATION_RESPONSE
            }
            MessageType::SESSION_DELETION_RESPONSE => {
                IeType::USAGE_REPORT_SESSION_DELETION_RESPONSE
            }
            _ => return Vec::new(),
        };
        let room = if takes_rest { USAGE_REPORTS_PER_RESPONSE_MAX } else { reports.len() };
        let rest = reports.split_off(reports.len().min(room));
        for report in &reports {
            let events = event_time_stamps(report, self.ntp_clock);
            let group = usage_report(report, self.ntp_clock, &events);
            let written = answer.append(&mut self.scratch, |writer| writer.put_as(ie_type, &group));
            self.counters.scalars.responses_too_long += u64::from(!written);
        }
        if let Some(additional) = additional(&rest) {
            answer.append(&mut self.scratch, |writer| writer.put(&additional));
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use adit_pfcp::MessageBody;
    use adit_pfcp::ie::ReportType;
    use adit_pfcp::message::{SessionModificationResponse, SessionReportRequest};
    use adit_rules::UeAddresses;
    use adit_session::{
        CreatedPdr, CreatedTrafficEndpoint, CreatedUe, LocalFTeid, TrafficEndpointId, UeSide,
    };
    use adit_types::limits::{
        EVENTS_PER_REPORT_MAX, PFD_APPLICATION_ID_BYTES_MAX, REPORT_ITEMS_PER_REQUEST_MAX,
        RULES_PER_SESSION_MAX, TRAFFIC_ENDPOINTS_PER_SESSION_MAX,
    };
    use adit_types::{Ipv6Prefix, PdrId, Teid, UrrId};

    use super::*;
    use crate::node::OWN_MESSAGE_BYTES_MAX;
    use crate::procedure::endpoint_decode::ChosenIdentifiers;

    /// Returns a usage report of maximum length.
    fn full() -> adit_session::UsageReport {
        let at = Nanos(1);
        adit_session::UsageReport {
            urr: UrrId(1),
            sequence: 1,
            triggers: UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::START_OF_TRAFFIC,
            start: at,
            end: at,
            volume: Some(adit_session::UsageVolume::default()),
            packets: true,
            duration_s: Some(1),
            first: Some(at),
            last: Some(at),
            part: Some(UsagePart::Between),
            before_qos: true,
            query_reference: Some(1),
            application: Some("a".repeat(PFD_APPLICATION_ID_BYTES_MAX).into()),
            events: vec![at; EVENTS_PER_REPORT_MAX],
        }
    }

    fn len<'m, M: MessageBody<'m>>(body: &M) -> usize {
        adit_pfcp::encode(&mut vec![0; OWN_MESSAGE_BYTES_MAX], None, 1, body).unwrap()
    }

    #[test]
    fn as_many_full_reports_as_a_message_may_carry_fit_it() {
        let ntp_clock = NtpClock::from_seconds(1);
        let report = full();
        let events = event_time_stamps(&report, ntp_clock);
        let group = usage_report(&report, ntp_clock, &events);
        let groups = vec![group; REPORT_ITEMS_PER_REQUEST_MAX];
        let mut request = SessionReportRequest::new(ReportType::USAR);
        request.usage_reports = groups.as_slice().into();
        assert!(len(&request) < OWN_MESSAGE_BYTES_MAX);
        // Answers contain no notices, the only reports that name applications.
        let report = adit_session::UsageReport { application: None, ..full() };
        let groups =
            vec![usage_report(&report, ntp_clock, &events); USAGE_REPORTS_PER_RESPONSE_MAX];
        let mut response = SessionModificationResponse::new(adit_pfcp::Cause::RequestAccepted);
        response.usage_reports = groups.as_slice().into();
        let chosen = most_chosen();
        let (pdrs, endpoints) = (chosen.created_pdrs(), chosen.created_endpoints());
        let most = (RULES_PER_SESSION_MAX, TRAFFIC_ENDPOINTS_PER_SESSION_MAX);
        assert_eq!((pdrs.len(), endpoints.len()), most);
        response.created_pdrs = pdrs.as_slice().into();
        response.created_traffic_endpoints = endpoints.as_slice().into();
        assert!(len(&response) < OWN_MESSAGE_BYTES_MAX);
    }

    /// Returns F-TEIDs and UE addresses of both families for the maximum of PDRs and traffic
    /// endpoints of a session.
    fn most_chosen() -> ChosenIdentifiers {
        let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let f_teid = LocalFTeid { teid: Teid(1), v4: Some(v4), v6: Some(v6) };
        let addresses = UeAddresses { v4: Some(v4), v6: Ipv6Prefix::containing(v6, 64) };
        let all = || (0..=u16::MAX).take(RULES_PER_SESSION_MAX);
        let endpoints = || (0..=u8::MAX).take(TRAFFIC_ENDPOINTS_PER_SESSION_MAX);
        let pdr = |id| CreatedPdr { pdr: PdrId(id), f_teid };
        let ue = |id| CreatedUe { pdr: PdrId(id), addresses, side: UeSide::Source };
        let endpoint = |id| CreatedTrafficEndpoint {
            id: TrafficEndpointId(id),
            f_teid: Some(f_teid),
            ue: Some(addresses),
        };
        let (pdrs, ues) = (all().map(pdr).collect::<Vec<_>>(), all().map(ue).collect::<Vec<_>>());
        ChosenIdentifiers::new(&pdrs, &ues, &endpoints().map(endpoint).collect::<Vec<_>>())
    }
}
