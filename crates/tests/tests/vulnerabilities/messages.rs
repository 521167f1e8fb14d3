//! One valid message of every kind, with every kind of rule.

use std::net::Ipv4Addr;

use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr, Pdi, QueryUrr,
    RemoveBar, RemoveFar, RemovePdr, RemoveQer, RemoveTrafficEndpoint, RemoveUrr, UpdateBar,
    UpdateFar, UpdatePdr, UpdateQer, UpdateTrafficEndpoint, UpdateUrr,
};
use adit_pfcp::ie::{
    ApplyAction, DownlinkDataNotificationDelay, FTeid, GateStatus, LinkedUrrId, MeasurementMethod,
    MeasurementPeriod, NodeId, ReportingTriggers, SourceInterface, SuggestedBufferingPacketsCount,
    TrafficEndpointId, UeIpAddress, VolumeQuota, VolumeThreshold,
};
use adit_pfcp::message::{AssociationUpdateRequest, SessionModificationRequest};
use adit_types::{BarId, FarId, PdrId, Precedence, QerId, Seid, Teid, UrrId};

use crate::smf::*;

pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

pub(crate) fn update(sequence: u32) -> Vec<u8> {
    encode(None, sequence, &AssociationUpdateRequest::new(NodeId::Ipv4(NODE)))
}

/// Creates the rules that [`full_modification`] changes.
pub(crate) fn preparation(sequence: u32, up_seid: Seid) -> Vec<u8> {
    modify_with(sequence, up_seid, |body| {
        let far = |id| CreateFar::new(FarId(id), ApplyAction::DROP);
        body.create_fars = list([far(30)]).into();
        body.create_qers = list([CreateQer::new(QerId(30), GateStatus::OPEN)]).into();
        body.create_pdrs = list([pdr(30, 30, 130)]).into();
        body.create_urrs = list([urr(30), urr(32)]).into();
        body.create_bars = list([bar(30), bar(32)]).into();
        body.create_traffic_endpoints = list([endpoint(30), endpoint(32)]).into();
    })
}

/// A URR with a member of every kind.
pub(crate) fn urr(id: u32) -> CreateUrr<'static> {
    let triggers = ReportingTriggers::PERIO | ReportingTriggers::VOLTH | ReportingTriggers::VOLQU;
    let mut urr = CreateUrr::new(UrrId(id), MeasurementMethod::VOLUM, triggers);
    urr.measurement_period = Some(MeasurementPeriod(3600));
    urr.volume_threshold =
        Some(VolumeThreshold { total: Some(1 << 40), ..VolumeThreshold::default() });
    urr.volume_quota = Some(VolumeQuota { uplink: Some(1 << 40), ..VolumeQuota::default() });
    urr
}

/// A BAR with notification delay and buffer size.
pub(crate) fn bar(id: u8) -> CreateBar<'static> {
    let mut bar = CreateBar::new(BarId(id));
    bar.downlink_data_notification_delay = Some(DownlinkDataNotificationDelay(2));
    bar.suggested_buffering_packets_count = Some(SuggestedBufferingPacketsCount(5));
    bar
}

/// A traffic endpoint whose F-TEID we choose.
pub(crate) fn endpoint(id: u8) -> CreateTrafficEndpoint<'static> {
    let mut endpoint = CreateTrafficEndpoint::new(TrafficEndpointId(id));
    endpoint.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
    endpoint
}

/// An establishment whose PDRs name a traffic endpoint and have a URR and a BAR; we choose the
/// address of the UE.
pub(crate) fn rich_establishment(sequence: u32, script: &SessionScript) -> Vec<u8> {
    establish_with(sequence, script, |body| {
        let choose = |destination| {
            list([UeIpAddress { choose_v4: true, destination, ..UeIpAddress::default() }]).into()
        };
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[0].pdi = Pdi::new(SourceInterface::Access);
        pdrs[0].pdi.traffic_endpoint_ids = list([TrafficEndpointId(7)]).into();
        pdrs[1].pdi.ue_ip_addresses = choose(true);
        for pdr in &mut pdrs {
            pdr.urr_ids = list([UrrId(7), UrrId(8)]).into();
        }
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let mut endpoint = endpoint(7);
        endpoint.ue_ip_addresses = choose(false);
        body.create_traffic_endpoints = list([endpoint]).into();
        let mut linked = urr(8);
        linked.reporting_triggers |= ReportingTriggers::LIUSA;
        linked.linked_urr_ids = list([LinkedUrrId(7)]).into();
        body.create_urrs = list([urr(7), linked]).into();
        let mut fars: Vec<_> = body.create_fars.iter().collect();
        fars[1].apply_action = ApplyAction::BUFF | ApplyAction::NOCP;
        fars[1].bar_id = Some(BarId(7));
        body.create_fars = Vec::leak(fars)[..].into();
        body.create_bars = list([bar(7)]).into();
    })
}

pub(crate) fn pdr(id: u16, far: u32, ue: u8) -> CreatePdr<'static> {
    let ue = UeIpAddress {
        v4: Some(Ipv4Addr::new(10, 99, 0, ue)),
        destination: true,
        ..UeIpAddress::default()
    };
    let mut pdr = CreatePdr::new(PdrId(id), Precedence(9), Pdi::new(SourceInterface::Core));
    pdr.pdi.ue_ip_addresses = list([ue]).into();
    pdr.far_id = Some(FarId(far));
    pdr
}

/// Creates, updates and removes a rule of every kind.
pub(crate) fn full_modification(sequence: u32, up_seid: Seid) -> Vec<u8> {
    modify_with(sequence, up_seid, |body: &mut SessionModificationRequest<'static>| {
        body.create_pdrs = list([pdr(31, 31, 131)]).into();
        body.create_fars = list([CreateFar::new(FarId(31), ApplyAction::DROP)]).into();
        body.create_qers = list([CreateQer::new(QerId(31), GateStatus::OPEN)]).into();
        let mut update = UpdatePdr::new(PdrId(2));
        update.precedence = Some(Precedence(5));
        body.update_pdrs = list([update]).into();
        let mut far = UpdateFar::new(FarId(2));
        far.apply_action = Some(ApplyAction::DROP);
        body.update_fars = list([far]).into();
        let mut qer = UpdateQer::new(QerId(1));
        qer.gate_status = Some(GateStatus::OPEN);
        body.update_qers = list([qer]).into();
        body.remove_pdrs = list([RemovePdr::new(PdrId(30))]).into();
        body.remove_fars = list([RemoveFar::new(FarId(30))]).into();
        body.remove_qers = list([RemoveQer::new(QerId(30))]).into();
        body.create_urrs = list([urr(31)]).into();
        let mut quota = UpdateUrr::new(UrrId(32));
        quota.volume_quota = Some(VolumeQuota { total: Some(9), ..VolumeQuota::default() });
        body.update_urrs = list([quota]).into();
        body.query_urrs = list([QueryUrr::new(UrrId(32))]).into();
        body.remove_urrs = list([RemoveUrr::new(UrrId(30))]).into();
        body.create_bars = list([bar(31)]).into();
        let mut count = UpdateBar::new(BarId(32));
        count.suggested_buffering_packets_count = Some(SuggestedBufferingPacketsCount(9));
        body.update_bars = list([count]).into();
        body.remove_bars = list([RemoveBar::new(BarId(30))]).into();
        body.create_traffic_endpoints = list([endpoint(31)]).into();
        let mut moved = UpdateTrafficEndpoint::new(TrafficEndpointId(32));
        moved.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
        body.update_traffic_endpoints = list([moved]).into();
        let gone = RemoveTrafficEndpoint::new(TrafficEndpointId(30));
        body.remove_traffic_endpoints = list([gone]).into();
    })
}

/// Every valid request, for a session of `smf(10)` that [`preparation`] prepared.
pub(crate) fn all(up_seid: Seid) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("heartbeat", heartbeat(20, SMF_STARTED)),
        ("association setup", setup(21, NODE, SMF_STARTED)),
        ("association update", update(22)),
        ("association release", release(23, NODE)),
        ("session establishment", establish(24, &SessionScript::new(0xc24, 24))),
        ("session establishment, rich", rich_establishment(28, &SessionScript::new(0xc28, 28))),
        ("session modification", full_modification(25, up_seid)),
        ("path switch", move_to(26, up_seid, Teid(0x99))),
        ("session deletion", delete(27, up_seid)),
    ]
}
