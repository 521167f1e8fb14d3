//! Usage of real packets, exact to the octet: quotas, exemptions, credit pools, and the last
//! reports.

use adit_n4::Transmit;
use adit_pfcp::grouped::{AggregatedUrrs, CreateUrr, UpdateUrr};
use adit_pfcp::ie::{
    self, AggregatedUrrId, CpFunctionFeatures, MeasurementInformation, MeasurementMethod,
    Multiplier, PfcpAuReqFlags, RecoveryTimeStamp, ReportingTriggers, SdfFilter, VolumeQuota,
};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateRequest, SessionEstablishmentRequest,
    SessionReportResponse,
};
use adit_pfcp::{Cause, Message};
use adit_rules::DropReason;
use adit_testkit::packet::PacketBuilder;
use adit_types::{Nanos, PortId, Seid, Teid, UrrId};

use super::{MACS, PEER, UpfInMemory, accepted, downlink, smf, uplink};

/// A packet of the UE to `port`.
fn uplink_to(script: &smf::SessionScript, teid: Teid, port: u16) -> Vec<u8> {
    PacketBuilder::ethernet(MACS[0], PEER)
        .ipv4(smf::GNB, smf::N3)
        .gtpu(teid.0)
        .psc_ul(9)
        .ipv4(script.ue, "8.8.8.8")
        .udp(4000, port)
        .build()
}

/// Octets and packets of all usage reports among these messages. Acknowledges the reports.
fn reported(upf: &mut UpfInMemory, sent: &[Transmit], usage: &mut (u64, u64)) -> Vec<Transmit> {
    let mut more = Vec::new();
    for transmit in sent {
        let Message::SessionReportRequest(body) = smf::decode(&transmit.bytes) else { continue };
        for report in body.usage_reports {
            let volume = report.volume_measurement.unwrap();
            usage.0 += volume.total.unwrap();
            usage.1 += volume.total_packets.unwrap();
        }
        let sequence = smf::raw(&transmit.bytes).header.sequence;
        let accepts = SessionReportResponse::new(Cause::RequestAccepted);
        let response = smf::encode(Some(Seid(1)), sequence, &accepts);
        upf.control.node.handle_datagram(upf.now, smf::smf(10), &response);
        more.extend(upf.settle().0);
    }
    more
}

/// A URR with a quota of one packet of 28 octets that exempts DNS.
fn quota_that_spares_dns(body: &mut SessionEstablishmentRequest<'static>) {
    let mut urr = CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLQU);
    urr.volume_quota = Some(VolumeQuota { total: Some(28), ..VolumeQuota::default() });
    urr.measurement_information = Some(MeasurementInformation::MNOP);
    let text = b"permit out udp from any 53 to assigned";
    let dns = SdfFilter { flow_description: Some(text), ..SdfFilter::default() };
    urr.exempted_sdf_filters = smf::list([dns]).into();
    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
    for pdr in &mut pdrs {
        pdr.urr_ids = smf::list([UrrId(1)]).into();
    }
    body.create_pdrs = (&*Box::leak(pdrs.into_boxed_slice())).into();
    body.create_urrs = smf::list([urr]).into();
}

/// Spec: TS 29.244 §5.2.2.2, §5.18, §7.5.2.4 (exempted SDF filters of a quota action).
#[test]
fn used_up_quota_spares_what_it_exempts_and_a_release_reports_the_rest_to_the_octet() {
    let mut upf = UpfInMemory::new();
    upf.control.node.set_usage_source(upf.control.publisher.usage());
    let node = ie::NodeId::Ipv4([192, 0, 2, 10].into());
    let mut setup = AssociationSetupRequest::new(node, RecoveryTimeStamp(smf::SMF_STARTED));
    setup.cp_function_features = Some(CpFunctionFeatures::EPFAR);
    upf.ask(&smf::encode(None, 1, &setup));
    let script = smf::SessionScript::new(0x11, 1);
    let request = smf::establish_with(2, &script, quota_that_spares_dns);
    let (_, teid) = accepted(&upf.ask(&request));

    let mut usage = (0, 0);
    upf.io.inject(PortId(0), &uplink_to(&script, teid, 9000));
    let (sent, user) = upf.settle();
    assert_eq!(user.len(), 1);
    reported(&mut upf, &sent, &mut usage);
    assert_eq!(usage, (28, 1), "the quota is used up");

    for port in [9000, 53, 53, 9000] {
        upf.io.inject(PortId(0), &uplink_to(&script, teid, port));
    }
    upf.io.inject(PortId(1), &downlink(&script));
    let (sent, user) = upf.settle();
    assert_eq!(user.len(), 2, "those to port 53");
    assert_eq!(upf.dropped(DropReason::QuotaExhausted), 3);
    reported(&mut upf, &sent, &mut usage);

    let mut prepare = AssociationUpdateRequest::new(node);
    prepare.pfcp_au_req_flags = Some(PfcpAuReqFlags::PARPS);
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &smf::encode(None, 3, &prepare));
    let (sent, _) = upf.settle();
    reported(&mut upf, &sent, &mut usage);
    assert_eq!(usage, (3 * 28, 3), "what passed, to the octet");
    assert_eq!(upf.control.node.store().len(), 0);
    upf.ask(&smf::release(4, [192, 0, 2, 10].into()));
    assert_eq!(upf.control.node.store().reserved(), adit_session::ReservedCounts::default());
    assert!(upf.control.publisher.snapshot().identity_holds());
}

/// Spec: TS 29.244 §5.2.2.2, §8.2.132.
#[test]
fn quota_that_is_no_longer_valid_stops_packets_until_a_new_one_comes() {
    let mut upf = UpfInMemory::new();
    upf.control.node.set_usage_source(upf.control.publisher.usage());
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let quota = || Some(VolumeQuota { total: Some(1_000_000), ..VolumeQuota::default() });
    let request = smf::establish_with(2, &script, |body| {
        quota_that_spares_dns(body);
        let mut urr = body.create_urrs.first().unwrap();
        urr.reporting_triggers = ReportingTriggers::QUVTI;
        urr.volume_quota = quota();
        urr.quota_validity_time = Some(ie::QuotaValidityTime(2));
        body.create_urrs = smf::list([urr]).into();
    });
    let (seid, teid) = accepted(&upf.ask(&request));
    let passes = |upf: &mut UpfInMemory| {
        upf.io.inject(PortId(0), &uplink_to(&script, teid, 9000));
        upf.io.inject(PortId(1), &downlink(&script));
        let (sent, user) = upf.settle();
        let mut usage = (0, 0);
        reported(upf, &sent, &mut usage);
        (user.len(), usage)
    };
    assert_eq!(passes(&mut upf), (2, (0, 0)));
    upf.now += Nanos::from_secs(2);
    let (sent, _) = upf.settle();
    let mut usage = (0, 0);
    reported(&mut upf, &sent, &mut usage);
    assert_eq!(usage, (2 * 28, 2));
    assert_eq!(passes(&mut upf), (0, (0, 0)));
    assert_eq!(upf.dropped(DropReason::QuotaExhausted), 2);
    let mut granted = UpdateUrr::new(UrrId(1));
    granted.volume_quota = quota();
    upf.ask(&smf::modify_with(3, seid, |body| body.update_urrs = smf::list([granted]).into()));
    assert_eq!(passes(&mut upf), (2, (0, 0)));
}

/// A credit pool of 200 octets: uplink counts half and downlink twice.
fn pool_of_both_directions(body: &mut SessionEstablishmentRequest<'static>) {
    let urr = |id, triggers| {
        let mut urr = CreateUrr::new(UrrId(id), MeasurementMethod::VOLUM, triggers);
        urr.measurement_information = Some(MeasurementInformation::MNOP);
        urr
    };
    let member = |id, digits, exponent| {
        AggregatedUrrs::new(AggregatedUrrId(id), Multiplier { digits, exponent })
    };
    let mut pool = urr(9, ReportingTriggers::VOLQU);
    pool.volume_quota = Some(VolumeQuota { total: Some(200), ..VolumeQuota::default() });
    pool.aggregated_urrs = smf::list([member(1, 5, -1), member(2, 2, 0)]).into();
    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
    pdrs[0].urr_ids = smf::list([UrrId(1)]).into();
    pdrs[1].urr_ids = smf::list([UrrId(2)]).into();
    body.create_pdrs = (&*Box::leak(pdrs.into_boxed_slice())).into();
    let none = ReportingTriggers::empty();
    body.create_urrs = smf::list([urr(1, none), urr(2, none), pool]).into();
}

/// Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
#[test]
fn used_up_credit_pool_stops_the_packets_of_all_its_urrs() {
    let mut upf = UpfInMemory::new();
    upf.control.node.set_usage_source(upf.control.publisher.usage());
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let request = smf::establish_with(2, &script, pool_of_both_directions);
    let (seid, teid) = accepted(&upf.ask(&request));
    // 28 octets each: 14 of the pool uplink, 56 downlink.
    let (mut passed, mut used) = ((0, 0), 0);
    while used < 200 {
        let is_uplink = used % 3 != 0;
        match is_uplink {
            true => upf.io.inject(PortId(0), &uplink(&script, teid)),
            false => upf.io.inject(PortId(1), &downlink(&script)),
        };
        let (_, user) = upf.turn();
        assert_eq!(user.len(), 1, "{used} of 200 were used");
        passed = if is_uplink { (passed.0 + 1, passed.1) } else { (passed.0, passed.1 + 1) };
        used = passed.0 * 14 + passed.1 * 56;
    }
    upf.io.inject(PortId(0), &uplink(&script, teid));
    upf.io.inject(PortId(1), &downlink(&script));
    let (sent, user) = upf.settle();
    assert_eq!((user.len(), upf.dropped(DropReason::QuotaExhausted)), (0, 2));
    let mut usage = (0, 0);
    reported(&mut upf, &sent, &mut usage);
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &smf::delete(5, seid));
    let (sent, _) = upf.settle();
    let answer = sent.iter().find(|t| t.bytes[1] == 55).unwrap();
    let Message::SessionDeletionResponse(body) = smf::decode(&answer.bytes) else { panic!() };
    let last = body.usage_reports.iter().map(|report| {
        let volume = report.volume_measurement.unwrap();
        (report.urr_id.0, volume.uplink.unwrap(), volume.downlink.unwrap())
    });
    let last: Vec<_> = last.collect();
    assert_eq!(last, [(1, passed.0 * 28, 0), (2, 0, passed.1 * 28), (9, 0, 0)]);
}
