//! One message in order of every kind, with every kind of rule in it.

use std::net::Ipv4Addr;

use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, Pdi, RemoveFar, RemovePdr, RemoveQer, UpdateFar, UpdatePdr,
    UpdateQer,
};
use adit_pfcp::ie::{ApplyAction, GateStatus, NodeId, SourceInterface, UeIpAddress};
use adit_pfcp::message::{AssociationUpdateRequest, SessionModificationRequest};
use adit_types::{FarId, PdrId, Precedence, QerId, Seid, Teid};

use crate::smf::*;

pub const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

pub fn update(sequence: u32) -> Vec<u8> {
    encode(None, sequence, &AssociationUpdateRequest::new(NodeId::Ipv4(NODE)))
}

/// The rules that [`full_modification`] touches exist after this one.
pub fn preparation(sequence: u32, up_seid: Seid) -> Vec<u8> {
    modify_with(sequence, up_seid, |body| {
        let far = |id| CreateFar::new(FarId(id), ApplyAction::DROP);
        body.create_fars = list([far(30)]).into();
        body.create_qers = list([CreateQer::new(QerId(30), GateStatus::OPEN)]).into();
        body.create_pdrs = list([pdr(30, 30, 130)]).into();
    })
}

pub fn pdr(id: u16, far: u32, ue: u8) -> CreatePdr<'static> {
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
pub fn full_modification(sequence: u32, up_seid: Seid) -> Vec<u8> {
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
    })
}

/// Every request in order, for a session of `smf(10)` that [`preparation`] prepared.
pub fn all(up_seid: Seid) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("heartbeat", heartbeat(20, SMF_STARTED)),
        ("association setup", setup(21, NODE, SMF_STARTED)),
        ("association update", update(22)),
        ("association release", release(23, NODE)),
        ("session establishment", establish(24, &SessionScript::new(0xc24, 24))),
        ("session modification", full_modification(25, up_seid)),
        ("path switch", move_to(26, up_seid, Teid(0x99))),
        ("session deletion", delete(27, up_seid)),
    ]
}
