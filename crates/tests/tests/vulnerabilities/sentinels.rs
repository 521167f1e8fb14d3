//! Class 5: numbers that other nodes treat as special.

use std::collections::BTreeSet;

use adit_pfcp::Cause;
use adit_pfcp::grouped::{CreateFar, CreateQer, UpdateFar};
use adit_pfcp::ie::{
    ApplyAction, FTeid, FTeidAddress, GateStatus, IeType, MeasurementPeriod, OuterHeaderCreation,
    VolumeQuota, VolumeThreshold,
};
use adit_pfcp::message::SessionModificationRequest;
use adit_types::{BarId, FarId, Precedence, QerId, Seid, Teid, UrrId};

use crate::messages;
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim};

const EDGES: [u64; 6] = [0, 1, 0xffff, 0xffff_ffff, 0x8000_0000_0000_0000, 0xffff_ffff_ffff_ffff];

#[test]
fn seid_at_an_edge_is_no_session() {
    let mut victim = Victim::new();
    let unknown = NodeAnswer::Refused(Cause::SessionContextNotFound, None, None);
    for (number, seid) in (1..).zip(EDGES.map(Seid)) {
        assert_eq!(victim.refuses(&delete(number, seid)), unknown);
        assert_eq!(victim.refuses(&move_to(number + 100, seid, Teid(1))), unknown);
    }
    victim.assert_sessions_usable();
}

#[test]
fn cp_seid_zero_is_refused_and_any_other_is_a_seid() {
    let mut victim = Victim::new();
    let zero = victim.refuses(&establish(1, &SessionScript::new(0, 600)));
    assert_eq!(zero, NodeAnswer::Refused(Cause::MandatoryIeIncorrect, Some(IeType::F_SEID), None));
    for (number, seid) in (1u16..).zip(&EDGES[1..]) {
        let seid = *seid;
        let script = SessionScript::new(seid, 600 + number);
        let bytes = victim.bench.answer(smf(10), &establish(number.into(), &script));
        assert_eq!(raw(&bytes).header.seid, Some(Seid(seid)));
        assert_eq!(NodeAnswer::of(&bytes), NodeAnswer::Accepted);
    }
    assert_eq!(victim.bench.node.store().len(), 1 + EDGES.len());
    victim.bench.publish_all();
}

#[test]
fn teid_zero_is_refused_and_the_largest_is_a_teid() {
    let mut victim = Victim::new();
    let given = |sequence, teid| {
        let script = SessionScript::new(0xc1, 61);
        establish_with(sequence, &script, |body| {
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            let addr = FTeidAddress::V4(N3);
            pdrs[0].pdi.local_f_teid = Some(FTeid::Given { teid: Teid(teid), addr });
            body.create_pdrs = Vec::leak(pdrs)[..].into();
        })
    };
    let zero = victim.refuses(&given(1, 0));
    assert!(matches!(zero, NodeAnswer::Refused(_, Some(IeType::F_TEID), Some(_))), "{zero:?}");
    assert_eq!(victim.send(smf(10), &given(2, u32::MAX)), NodeAnswer::Accepted);
    let tunnel = |sequence, teid| {
        let mut script = SessionScript::new(0xc2, 62);
        script.gnb_teid = Teid(teid);
        establish(sequence, &script)
    };
    let zero = victim.refuses(&tunnel(3, 0));
    let ie = IeType::OUTER_HEADER_CREATION;
    assert!(
        matches!(zero, NodeAnswer::Refused(_, Some(named), Some(_)) if named == ie),
        "{zero:?}"
    );
    assert_eq!(victim.send(smf(10), &tunnel(4, u32::MAX)), NodeAnswer::Accepted);
    victim.assert_alive_with(4);
}

#[test]
fn rule_identifiers_and_precedence_at_their_edges_are_as_good_as_any() {
    for (number, edge) in (1..).zip([0, 1, 0xffff, 0x7fff_ffff, 0xffff_ffffu32]) {
        let mut victim = Victim::new();
        let id = adit_types::PdrId(u16::try_from(edge & 0xffff).unwrap());
        let request = modify_with(number, victim.session, |body| {
            // The usual rules have the identifiers 1 and 2.
            let shift = u16::from(id.0 == 1) * 7;
            let far = if edge == 1 { 8 } else { edge };
            let mut pdr = messages::pdr(id.0 + shift, far, 60);
            pdr.precedence = Precedence(edge);
            pdr.qer_ids = list([QerId(far)]).into();
            body.create_pdrs = list([pdr]).into();
            body.create_fars = list([CreateFar::new(FarId(far), ApplyAction::DROP)]).into();
            body.create_qers = list([CreateQer::new(QerId(far), GateStatus::OPEN)]).into();
        });
        assert_eq!(victim.send(smf(10), &request), NodeAnswer::Accepted, "{edge:#x}");
        victim.assert_sessions_usable();
    }
}

#[test]
fn identifiers_and_amounts_of_newer_rules_at_their_edges_are_as_good_as_any() {
    let mut number = 0;
    let mut accepts = |edit: &dyn Fn(&mut SessionModificationRequest<'static>)| {
        number += 1;
        let mut victim = Victim::new();
        let request = modify_with(number, victim.session, |body| edit(body));
        assert_eq!(victim.send(smf(10), &request), NodeAnswer::Accepted, "request {number}");
        victim.assert_sessions_usable();
    };
    for id in [0, 1, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        accepts(&|body| {
            body.create_urrs = list([messages::urr(id)]).into();
            let mut pdr = messages::pdr(50, 1, 50);
            pdr.urr_ids = list([UrrId(id)]).into();
            body.create_pdrs = list([pdr]).into();
        });
    }
    for id in [0, 1, 255] {
        accepts(&|body| {
            body.create_bars = list([messages::bar(id)]).into();
            let mut far = UpdateFar::new(FarId(2));
            far.apply_action = Some(ApplyAction::BUFF);
            far.bar_id = Some(BarId(id));
            body.update_fars = list([far]).into();
            body.create_traffic_endpoints = list([messages::endpoint(id)]).into();
        });
    }
    for octets in [1, u64::MAX - 1, u64::MAX] {
        accepts(&|body| {
            let mut urr = messages::urr(50);
            let (uplink, downlink) = (Some(octets), Some(octets));
            urr.volume_threshold = Some(VolumeThreshold { total: uplink, uplink, downlink });
            urr.volume_quota = Some(VolumeQuota { total: uplink, uplink, downlink });
            urr.measurement_period = Some(MeasurementPeriod(u32::MAX));
            body.create_urrs = list([urr]).into();
            let mut pdr = messages::pdr(50, 1, 50);
            pdr.urr_ids = list([UrrId(50)]).into();
            body.create_pdrs = list([pdr]).into();
        });
    }
}

#[test]
fn choose_id_and_sequence_number_at_their_edges_are_as_good_as_any() {
    let mut victim = Victim::new();
    for (number, choose_id) in (1u16..).zip([0, 1, 255]) {
        let script = SessionScript::new(0xd0, 700 + number);
        let sequence = [0, 0x00ff_ffff, 0x0080_0000][usize::from(number - 1)];
        let request = establish_with(sequence, &script, |body| {
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            let choose_id = Some(choose_id);
            pdrs[0].pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id });
            body.create_pdrs = Vec::leak(pdrs)[..].into();
        });
        assert_eq!(victim.send(smf(10), &request), NodeAnswer::Accepted);
    }
    victim.assert_alive_with(5);
}

#[test]
fn recovery_time_stamp_at_its_edges_is_a_time_stamp() {
    for stamp in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let mut bench = Bench::new();
        let bytes = bench.answer(smf(10), &setup(1, messages::NODE, stamp));
        assert_eq!(NodeAnswer::of(&bytes), NodeAnswer::Accepted);
        bench.session(smf(10), 2, &SessionScript::new(1, 1));
        bench.answer(smf(10), &heartbeat(3, stamp));
        assert_eq!(bench.node.store().len(), 1, "the same time stamp is no restart");
    }
}

#[test]
fn outer_header_towards_an_address_that_nobody_has_is_refused() {
    let mut victim = Victim::new();
    for (number, addr) in (1..).zip(["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"]) {
        let request = establish_with(number, &SessionScript::new(0xc3, 63), |body| {
            let mut fars: Vec<_> = body.create_fars.iter().collect();
            let tunnel = OuterHeaderCreation::gtpu_ipv4(Teid(5), addr.parse().unwrap());
            fars[1].forwarding_parameters.as_mut().unwrap().outer_header_creation = Some(tunnel);
            body.create_fars = Vec::leak(fars)[..].into();
        });
        let said = victim.refuses(&request);
        let ie = IeType::OUTER_HEADER_CREATION;
        assert!(
            matches!(said, NodeAnswer::Refused(_, Some(named), _) if named == ie),
            "{addr}: {said:?}"
        );
    }
    victim.assert_sessions_usable();
}

#[test]
fn own_seids_and_teids_are_neither_sequential_nor_repeated() {
    let mut bench = Bench::associated();
    let (mut seids, mut teids) = (Vec::new(), BTreeSet::new());
    for number in 1..200u16 {
        let up_seid =
            bench.session(smf(10), number.into(), &SessionScript::new(number.into(), number));
        let pdrs = bench.node.store().session(up_seid).unwrap().pdrs();
        teids.insert(pdrs[0].pdi.f_teid.unwrap().teid);
        seids.push(up_seid.0);
    }
    assert!(seids.iter().all(|seid| *seid != 0 && *seid != u64::MAX));
    assert!(!teids.contains(&Teid(0)) && teids.len() == 199);
    let near = |pair: &[u64]| pair[0].abs_diff(pair[1]) < 1 << 20;
    let neighbors = seids.windows(2).filter(|pair| near(pair)).count();
    assert_eq!(neighbors, 0, "the next SEID must not follow from the last one");
    seids.sort_unstable();
    seids.dedup();
    assert_eq!(seids.len(), 199);
    let teids: Vec<u64> = teids.iter().map(|teid| teid.0.into()).collect();
    let close = teids.windows(2).filter(|pair| pair[1] - pair[0] < 4).count();
    assert!(close < 5, "{close} of {} TEIDs follow each other", teids.len());
}
