//! Members of length zero in updates: they take away what an earlier message set.
//! Spec: TS 29.244 §5.6.3.

use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreateQer, CreateUrr, ForwardingParameters, UpdateBar, UpdateFar,
    UpdateForwardingParameters, UpdatePdr, UpdateQer, UpdateUrr,
};
use adit_pfcp::ie::{
    ActivationTime, ApplyAction, AveragingWindow, DeactivationTime, DestinationInterface,
    DlFlowLevelMarking, DownlinkDataNotificationDelay, DroppedDlTrafficThreshold, EventQuota,
    EventThreshold, GateStatus, Gbr, InactivityDetectionTime, InterfaceType, LinkedUrrId, Mbr,
    MeasurementInformation, MeasurementMethod, MeasurementPeriod, MonitoringTime, Nullable,
    NumberOfReports, OuterHeaderCreation, PacketRate, PacketRateLimit, PagingPolicyIndicator,
    QerControlIndications, QerCorrelationId, QuotaHoldingTime, QuotaValidityTime,
    ReportingTriggers, Rqi, SdfFilter, SuggestedBufferingPacketsCount, TimeQuota,
    TimeQuotaMechanism, TimeThreshold, TransportLevelMarking, UserPlaneInactivityTimer,
    VolumeQuota, VolumeThreshold,
};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use adit_pfcp::{Cause, IeType, Message};
use adit_session::{Pdr, Qer, Session, Urr, UrrSettings};
use adit_types::{BarId, BitRate, FarId, PdrId, QerId, Qfi, Seid, Teid, UrrId};

use crate::smf::*;

/// A member, and whether a record is without it.
type Absent<R> = (IeType, fn(&R) -> bool);

fn bench(edit: impl FnOnce(&mut SessionEstablishmentRequest<'static>)) -> (Bench, Seid) {
    let mut bench = Bench::associated();
    let request = establish_with(2, &SessionScript::new(0xc1, 1), edit);
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let up_seid = body.up_f_seid.unwrap().seid;
    (bench, up_seid)
}

fn outcome(
    bench: &mut Bench,
    up_seid: Seid,
    sequence: u32,
    edit: impl FnOnce(&mut SessionModificationRequest<'static>),
) -> (Cause, Option<IeType>) {
    let bytes = bench.answer(smf(10), &modify_with(sequence, up_seid, edit));
    let Message::SessionModificationResponse(body) = decode(&bytes) else { panic!() };
    (body.cause, body.offending_ie.map(|ie| IeType(ie.0)))
}

const ACCEPTED: (Cause, Option<IeType>) = (Cause::RequestAccepted, None);

/// The session after a modification that is accepted.
fn after(
    bench: &mut Bench,
    up_seid: Seid,
    sequence: u32,
    edit: impl FnOnce(&mut SessionModificationRequest<'static>),
) -> Session {
    assert_eq!(outcome(bench, up_seid, sequence, edit), ACCEPTED);
    bench.node.store().session(up_seid).unwrap().clone()
}

#[test]
fn pdr_loses_what_its_update_names_with_length_zero() {
    let (mut bench, up_seid) = bench(|body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[0].urr_ids = list([UrrId(1)]).into();
        pdrs[0].activation_time = Some(ActivationTime(UPF_STARTED - 10));
        pdrs[0].deactivation_time = Some(DeactivationTime(UPF_STARTED + 1000));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let method = MeasurementMethod::VOLUM;
        body.create_urrs =
            list([CreateUrr::new(UrrId(1), method, ReportingTriggers::empty())]).into();
    });
    let is_absent: [Absent<Pdr>; 5] = [
        (IeType::URR_ID, |pdr| pdr.urrs.is_empty()),
        (IeType::QER_ID, |pdr| pdr.qers.is_empty()),
        (IeType::ACTIVATION_TIME, |pdr| pdr.times.activation.is_none()),
        (IeType::DEACTIVATION_TIME, |pdr| pdr.times.deactivation.is_none()),
        (IeType::OUTER_HEADER_REMOVAL, |pdr| pdr.outer_header_removal.is_none()),
    ];
    for (sequence, (ie, is_absent)) in (3..).zip(is_absent) {
        let before = bench.node.store().session(up_seid).unwrap().pdrs();
        assert!(!is_absent(&before[0]), "{ie}");
        let mut update = UpdatePdr::new(PdrId(1));
        assert!(update.withdrawn.insert(ie));
        let session =
            after(&mut bench, up_seid, sequence, |body| body.update_pdrs = list([update]).into());
        assert!(is_absent(&session.pdrs()[0]), "{ie}");
        assert_eq!(session.pdrs()[1], before[1]);
    }
    let mut update = UpdatePdr::new(PdrId(1));
    assert!(update.withdrawn.insert(IeType::FAR_ID));
    let refused = outcome(&mut bench, up_seid, 9, |body| body.update_pdrs = list([update]).into());
    assert_eq!(refused, (Cause::ConditionalIeMissing, Some(IeType::FAR_ID)), "it needs one");
    assert!(!update.withdrawn.insert(IeType::PRECEDENCE), "it cannot be without");
}

fn whole_qer() -> CreateQer<'static> {
    let mut qer = CreateQer::new(QerId(1), GateStatus::OPEN);
    let rate = BitRate::from_kbps(1000);
    let limit = PacketRateLimit { time_unit: 0, packets_max: 10 };
    qer.qer_correlation_id = Some(QerCorrelationId(7));
    qer.mbr = Some(Mbr::new(rate, rate));
    qer.gbr = Some(Gbr::new(rate, rate));
    qer.packet_rate = Some(PacketRate { uplink: Some(limit), ..PacketRate::default() });
    qer.qfi = Qfi::new(9);
    qer.rqi = Some(Rqi::RQI);
    qer.paging_policy_indicator = Some(PagingPolicyIndicator(3));
    qer.dl_flow_level_marking = Some(DlFlowLevelMarking {
        tos_traffic_class: Some([0xb8, 0xfc]),
        service_class_indicator: Some([5, 0]),
    });
    qer.averaging_window = Some(AveragingWindow(2000));
    qer.qer_control_indications = Some(QerControlIndications::RCSR);
    qer
}

#[test]
fn qer_loses_what_its_update_names_with_length_zero() {
    let (mut bench, up_seid) = bench(|body| body.create_qers = list([whole_qer()]).into());
    let is_absent: [Absent<Qer>; 10] = [
        (IeType::QER_CORRELATION_ID, |qer| qer.correlation.is_none()),
        (IeType::MBR, |qer| qer.mbr.is_none()),
        (IeType::GBR, |qer| qer.gbr.is_none()),
        (IeType::PACKET_RATE, |qer| qer.packet_rate.is_none()),
        (IeType::QFI, |qer| qer.qfi.is_none()),
        (IeType::RQI, |qer| !qer.rqi),
        (IeType::PAGING_POLICY_INDICATOR, |qer| qer.ppi.is_none()),
        (IeType::DL_FLOW_LEVEL_MARKING, |qer| {
            qer.flow_tos.is_none() && qer.service_class.is_none()
        }),
        (IeType::AVERAGING_WINDOW, |qer| qer.averaging_window_ms.is_none()),
        (IeType::QER_CONTROL_INDICATIONS, |qer| !qer.reports_packets),
    ];
    for (sequence, (ie, is_absent)) in (3..).zip(is_absent) {
        assert!(!is_absent(&bench.node.store().session(up_seid).unwrap().qers()[0]), "{ie}");
        let mut update = UpdateQer::new(QerId(1));
        assert!(update.withdrawn.insert(ie));
        let session =
            after(&mut bench, up_seid, sequence, |body| body.update_qers = list([update]).into());
        assert!(is_absent(&session.qers()[0]), "{ie}");
    }
    let left = bench.node.store().session(up_seid).unwrap().qers();
    assert_eq!(left[0], Qer { id: QerId(1), ..Qer::default() });
}

/// Spec: TS 29.244 §7.5.4.5.
#[test]
fn flow_level_marking_is_replaced_as_a_whole() {
    let (mut bench, up_seid) = bench(|body| body.create_qers = list([whole_qer()]).into());
    let marking = |session: &Session| (session.qers()[0].flow_tos, session.qers()[0].service_class);
    let session = bench.node.store().session(up_seid).unwrap().clone();
    assert_eq!(marking(&session), (Some((0xb8, 0xfc)), Some((5, 0))));
    let mut update = UpdateQer::new(QerId(1));
    update.dl_flow_level_marking = Some(DlFlowLevelMarking {
        tos_traffic_class: Some([0x28, 0xfc]),
        service_class_indicator: None,
    });
    let session = after(&mut bench, up_seid, 3, |body| body.update_qers = list([update]).into());
    assert_eq!(marking(&session), (Some((0x28, 0xfc)), None));
    let update = UpdateQer::new(QerId(1));
    let session = after(&mut bench, up_seid, 4, |body| body.update_qers = list([update]).into());
    assert_eq!(marking(&session), (Some((0x28, 0xfc)), None), "an update without it keeps it");
}

fn whole_urr() -> CreateUrr<'static> {
    let method = MeasurementMethod::VOLUM | MeasurementMethod::DURAT | MeasurementMethod::EVENT;
    let mut urr = CreateUrr::new(UrrId(1), method, ReportingTriggers::empty());
    urr.measurement_period = Some(MeasurementPeriod(3600));
    urr.volume_threshold = Some(VolumeThreshold { total: Some(1000), ..<_>::default() });
    urr.volume_quota = Some(VolumeQuota { total: Some(0), ..<_>::default() });
    urr.time_threshold = Some(TimeThreshold(10));
    urr.time_quota = Some(TimeQuota(20));
    urr.event_threshold = Some(EventThreshold(1));
    urr.event_quota = Some(EventQuota(2));
    urr.quota_holding_time = Some(QuotaHoldingTime(30));
    urr.quota_validity_time = Some(QuotaValidityTime(40));
    urr.dropped_dl_traffic_threshold =
        Some(DroppedDlTrafficThreshold { packets: Some(1), ..<_>::default() });
    urr.monitoring_time = Some(MonitoringTime(UPF_STARTED + 100));
    urr.inactivity_detection_time = Some(InactivityDetectionTime(5));
    urr.linked_urr_ids = list([LinkedUrrId(1)]).into();
    urr.measurement_information = Some(MeasurementInformation::MNOP);
    urr.time_quota_mechanism = Some(TimeQuotaMechanism { interval_type: 0, interval_secs: 60 });
    urr.number_of_reports = Some(NumberOfReports(3));
    urr.exempted_sdf_filters =
        list([SdfFilter::from_flow_description("permit out 17 from any to assigned")]).into();
    urr.far_id_for_quota_action = Some(FarId(1));
    urr
}

#[test]
fn urr_loses_what_its_update_names_with_length_zero() {
    let (mut bench, up_seid) = bench(|body| {
        body.create_urrs = list([whole_urr()]).into();
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[0].urr_ids = list([UrrId(1)]).into();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let is_absent: [Absent<UrrSettings>; 18] = [
        (IeType::MEASUREMENT_PERIOD, |urr| urr.period.is_none()),
        (IeType::VOLUME_THRESHOLD, |urr| urr.volume_threshold.is_none()),
        (IeType::VOLUME_QUOTA, |urr| urr.volume_quota.is_none()),
        (IeType::TIME_THRESHOLD, |urr| urr.time_threshold.is_none()),
        (IeType::TIME_QUOTA, |urr| urr.time_quota.is_none()),
        (IeType::EVENT_THRESHOLD, |urr| urr.event_threshold.is_none()),
        (IeType::EVENT_QUOTA, |urr| urr.event_quota.is_none()),
        (IeType::QUOTA_HOLDING_TIME, |urr| urr.quota_holding_time.is_none()),
        (IeType::QUOTA_VALIDITY_TIME, |urr| urr.quota_validity_time.is_none()),
        (IeType::DROPPED_DL_TRAFFIC_THRESHOLD, |urr| urr.dropped_threshold.is_none()),
        (IeType::MONITORING_TIME, |urr| urr.monitoring.is_empty()),
        (IeType::INACTIVITY_DETECTION_TIME, |urr| urr.inactivity_detection_time.is_none()),
        (IeType::LINKED_URR_ID, |urr| urr.linked.is_none()),
        (IeType::MEASUREMENT_INFORMATION, |urr| urr.information.is_none()),
        (IeType::TIME_QUOTA_MECHANISM, |urr| urr.time_mechanism.is_none()),
        (IeType::NUMBER_OF_REPORTS, |urr| urr.reports_max.is_none()),
        (IeType::SDF_FILTER, |urr| urr.exempted.is_none()),
        (IeType::FAR_ID, |urr| urr.quota_far.is_none()),
    ];
    for (sequence, (ie, is_absent)) in (3..).zip(is_absent) {
        let before = bench.node.store().session(up_seid).unwrap().urrs();
        assert!(!is_absent(&before[0].settings), "{ie}");
        let mut update = UpdateUrr::new(UrrId(1));
        assert!(update.withdrawn.insert(ie));
        let session =
            after(&mut bench, up_seid, sequence, |body| body.update_urrs = list([update]).into());
        assert!(is_absent(&session.urrs()[0].settings), "{ie}");
    }
    let left: Vec<Urr> = bench.node.store().session(up_seid).unwrap().urrs();
    assert_eq!(left[0].settings, UrrSettings::default());
}

/// A quota that is taken away stops nobody any more.
#[test]
fn traffic_passes_again_when_its_quota_is_taken_away() {
    let (mut bench, up_seid) = bench(|body| {
        let mut urr = CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLQU);
        urr.volume_quota = Some(VolumeQuota { total: Some(0), ..<_>::default() });
        body.create_urrs = list([urr]).into();
    });
    let mut update = UpdateUrr::new(UrrId(1));
    assert!(update.withdrawn.insert(IeType::VOLUME_QUOTA));
    let request = modify_with(3, up_seid, |body| body.update_urrs = list([update]).into());
    bench.node.handle_datagram(bench.now, smf(10), &request);
    let (_, delta) = bench.node.poll_delta().unwrap();
    let urr = delta.rules.unwrap().urrs[0].clone();
    assert!(!urr.stopped);
    assert_eq!(urr.quota, adit_rules::UsageLimits::NONE);
}

#[test]
fn far_and_bar_lose_what_their_updates_name_with_length_zero() {
    let (mut bench, up_seid) = bench(|body| {
        let mut far = CreateFar::new(FarId(2), ApplyAction::BUFF | ApplyAction::NOCP);
        let mut parts = ForwardingParameters::new(DestinationInterface::Access);
        parts.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
        parts.transport_level_marking = Some(TransportLevelMarking(0xb8fc));
        parts.destination_interface_type = Some(InterfaceType::N3Access);
        far.forwarding_parameters = Some(parts);
        far.bar_id = Some(BarId(1));
        let first = body.create_fars.first().unwrap();
        body.create_fars = list([first, far]).into();
        let mut bar = CreateBar::new(BarId(1));
        bar.downlink_data_notification_delay = Some(DownlinkDataNotificationDelay(4));
        bar.suggested_buffering_packets_count = Some(SuggestedBufferingPacketsCount(9));
        body.create_bars = list([bar]).into();
    });
    let far = |session: &Session| session.fars()[1].clone();
    let session = bench.node.store().session(up_seid).unwrap().clone();
    let parts = far(&session).forwarding.unwrap();
    assert!(parts.transport_level_marking.is_some() && parts.interface_type.is_some());
    let mut within = UpdateForwardingParameters::new();
    within.transport_level_marking = Some(Nullable::Null);
    assert!(within.withdrawn.insert(IeType::TGPP_INTERFACE_TYPE));
    let mut update = UpdateFar::new(FarId(2));
    update.update_forwarding_parameters = Some(within);
    let session = after(&mut bench, up_seid, 3, |body| body.update_fars = list([update]).into());
    let parts = far(&session).forwarding.unwrap();
    assert!(parts.transport_level_marking.is_none() && parts.interface_type.is_none());
    assert!(parts.outer_header_creation.is_some(), "the rest stays");

    let mut update = UpdateFar::new(FarId(2));
    assert!(update.withdrawn.insert(IeType::BAR_ID));
    update.update_forwarding_parameters = Some(UpdateForwardingParameters::new());
    let session = after(&mut bench, up_seid, 4, |body| body.update_fars = list([update]).into());
    assert!(far(&session).bar.is_none());
    assert_eq!(far(&session).forwarding, Some(parts), "a group without members changes nothing");

    let mut bar = UpdateBar::new(BarId(1));
    assert!(bar.withdrawn.insert(IeType::DOWNLINK_DATA_NOTIFICATION_DELAY));
    assert!(bar.withdrawn.insert(IeType::SUGGESTED_BUFFERING_PACKETS_COUNT));
    let session = after(&mut bench, up_seid, 5, |body| body.update_bars = list([bar]).into());
    let bar = session.bars()[0];
    assert_eq!((bar.notification_delay, bar.suggested_pkts), (0, None));
}

#[test]
fn inactivity_timer_of_length_zero_ends_the_timer() {
    let (mut bench, up_seid) = bench(|body| {
        body.user_plane_inactivity_timer = Some(UserPlaneInactivityTimer(60));
    });
    let timer = |bench: &Bench| bench.node.store().session(up_seid).unwrap().records();
    assert!(timer(&bench).inactivity_timer.is_some());
    let edit = |body: &mut SessionModificationRequest<'static>| {
        assert!(body.withdrawn.insert(IeType::USER_PLANE_INACTIVITY_TIMER));
    };
    let session = after(&mut bench, up_seid, 3, edit);
    assert_eq!(session.records().inactivity_timer, None);
}

/// Length zero and a value contradict each other.
#[test]
fn member_with_length_zero_and_with_a_value_is_refused() {
    let (mut bench, up_seid) = bench(|_| {});
    let qer = |members: &[u8]| {
        let id = [0, 109, 0, 4, 0, 0, 0, 1];
        let len = u16::try_from(id.len() + members.len()).unwrap().to_be_bytes();
        [&[0, 14][..], &len, &id, members].concat()
    };
    let (null, value) = ([0, 124, 0, 0], [0, 124, 0, 1, 5]);
    for (sequence, members) in
        [(3, [&null[..], &value].concat()), (4, [&value[..], &null].concat())]
    {
        let group = qer(&members);
        let mut message = modify_with(sequence, up_seid, |_| {});
        let len = u16::try_from(message.len() - 4 + group.len()).unwrap().to_be_bytes();
        message[2..4].copy_from_slice(&len);
        message.extend(group);
        let bytes = bench.answer(smf(10), &message);
        let Message::SessionModificationResponse(body) = decode(&bytes) else { panic!() };
        assert_eq!(body.cause, Cause::InvalidLength);
        assert_eq!(body.offending_ie.map(|ie| IeType(ie.0)), Some(IeType::QFI));
    }
}
