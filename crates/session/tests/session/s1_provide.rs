//! Stage 1: creations, updates and removals of single rules.

use adit_rules::{
    ApplyAction, DestinationInterface, Gate, PacketFilter, PacketLimit, PacketQuota,
    SourceInterface,
};
use adit_session::{
    Change, CpFSeid, FarUpdate, ForwardingUpdate, PacketAllowance, PacketLimits, PacketStatus,
    PdiSpec, PdrUpdate, QerGates, QerUpdate, Rates, Refusal, RuleId, SdfSpec, SdfTextError,
    SessionChange, UeSide,
};
use adit_types::{BitRate, FarId, Nanos, PdrId, Precedence, QerId, Qfi, Seid, Teid};

use crate::builders::*;

#[test]
fn pdr_update_changes_only_the_parts_present() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let before = store.session(up_seid).unwrap().pdrs()[0].clone();
    let update =
        PdrUpdate { id: PdrId(1), precedence: Change::Set(Precedence(7)), ..PdrUpdate::default() };
    store
        .modify(up_seid, SessionChange { update_pdrs: vec![update], ..SessionChange::default() })
        .unwrap();
    let mut expected = before;
    expected.precedence = Precedence(7);
    assert_eq!(store.session(up_seid).unwrap().pdrs()[0], expected);
}

#[test]
fn far_update_switches_from_drop_to_forward_towards_the_gnb() {
    let mut store = store(4);
    let mut change = session(1);
    change.create_fars[1].action = ApplyAction::DROP;
    change.create_fars[1].forwarding = None;
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let update = FarUpdate {
        id: FarId(2),
        action: Change::Set(ApplyAction::FORW),
        forwarding: Some(ForwardingUpdate {
            destination: Change::Set(DestinationInterface::Access),
            outer_header_creation: Change::Set(tunnel(77)),
            ..ForwardingUpdate::default()
        }),
        ..FarUpdate::default()
    };
    let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
    let delta = store.modify(up_seid, change).unwrap().delta.unwrap();
    assert!(delta.keys.is_empty());
    let far = &delta.rules.unwrap().fars[1];
    assert_eq!(far.action, ApplyAction::FORW);
    assert_eq!(far.outer_header_creation, Some(tunnel(77)));
}

#[test]
fn far_update_of_the_tunnel_keeps_action_and_destination() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let parts = ForwardingUpdate {
        outer_header_creation: Change::Set(tunnel(8)),
        ..ForwardingUpdate::default()
    };
    let update = FarUpdate { id: FarId(2), forwarding: Some(parts), ..FarUpdate::default() };
    store
        .modify(up_seid, SessionChange { update_fars: vec![update], ..SessionChange::default() })
        .unwrap();
    let mut expected = far(2, DestinationInterface::Access);
    expected.forwarding.as_mut().unwrap().outer_header_creation = Some(tunnel(8));
    assert_eq!(store.session(up_seid).unwrap().fars()[1], expected);
}

#[test]
fn qer_update_changes_gates_and_keeps_rates() {
    let mut store = store(4);
    let mut change = session(1);
    let rates = Rates { uplink: BitRate::from_kbps(1), downlink: BitRate::from_kbps(2) };
    change.create_qers[0].mbr = Some(rates);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let gates = QerGates { uplink: Gate::Closed, downlink: Gate::Open };
    let update = QerUpdate {
        id: QerId(1),
        gates: Change::Set(gates),
        qfi: Qfi::new(3).into(),
        rqi: Change::Set(true),
        ..QerUpdate::default()
    };
    store
        .modify(up_seid, SessionChange { update_qers: vec![update], ..SessionChange::default() })
        .unwrap();
    let qer = &store.session(up_seid).unwrap().qers()[0];
    assert_eq!((qer.mbr, qer.gates, qer.qfi, qer.rqi), (Some(rates), gates, Qfi::new(3), true));
}

/// The status refers to the rate with which the QER is created. Spec: TS 29.244 §8.2.174.
#[test]
fn packet_rate_that_a_qer_gets_later_begins_afresh() {
    let remaining = PacketAllowance { packets: 3, additional: None };
    let status = PacketStatus {
        uplink: Some(remaining),
        until: Nanos::from_secs(60),
        ..PacketStatus::default()
    };
    let limit = PacketLimit {
        plain: PacketQuota { pkts_max: 10, unit: Nanos::from_secs(60) },
        additional: None,
    };
    let packet_rate = Some(PacketLimits { uplink: Some(limit), downlink: None });
    let mut store = store(4);
    let mut left = |at_once: bool| {
        let mut change = session(1);
        change.create_qers[0].packet_status = Some(status);
        change.create_qers[0].packet_rate = packet_rate.filter(|_| at_once);
        let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
        if !at_once {
            let update =
                QerUpdate { id: QerId(1), packet_rate: packet_rate.into(), ..QerUpdate::default() };
            store
                .modify(
                    up_seid,
                    SessionChange { update_qers: vec![update], ..SessionChange::default() },
                )
                .unwrap();
        }
        let left = store.packet_rates(up_seid)[0].left(Nanos(0))[0].unwrap().packets;
        store.delete(up_seid).unwrap();
        left
    };
    assert_eq!((left(true), left(false)), (3, 10));
}

#[test]
fn rule_removed_and_created_in_one_change_is_replaced() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let change = SessionChange {
        remove_qers: vec![QerId(1)],
        create_qers: vec![adit_session::Qer { qfi: Qfi::new(5), ..qer(1) }],
        ..SessionChange::default()
    };
    store.modify(up_seid, change).unwrap();
    assert_eq!(store.session(up_seid).unwrap().qers()[0].qfi, Qfi::new(5));
}

#[test]
fn rule_unknown_or_repeated_is_refused_by_kind_and_identifier() {
    let pdr = PdrUpdate { id: PdrId(9), ..PdrUpdate::default() };
    let known = PdrUpdate { id: PdrId(1), ..PdrUpdate::default() };
    let far_9 = FarUpdate { id: FarId(9), ..FarUpdate::default() };
    let qer_9 = QerUpdate { id: QerId(9), ..QerUpdate::default() };
    let none = SessionChange::default;
    let cases = [
        (SessionChange { update_pdrs: vec![pdr], ..none() }, false, RuleId::Pdr(PdrId(9))),
        (SessionChange { update_fars: vec![far_9], ..none() }, false, RuleId::Far(FarId(9))),
        (SessionChange { update_qers: vec![qer_9], ..none() }, false, RuleId::Qer(QerId(9))),
        (SessionChange { remove_pdrs: vec![PdrId(9)], ..none() }, false, RuleId::Pdr(PdrId(9))),
        (SessionChange { remove_fars: vec![FarId(9)], ..none() }, false, RuleId::Far(FarId(9))),
        (SessionChange { remove_qers: vec![QerId(9)], ..none() }, false, RuleId::Qer(QerId(9))),
        (SessionChange { create_pdrs: vec![uplink(1)], ..none() }, true, RuleId::Pdr(PdrId(1))),
        (SessionChange { create_qers: vec![qer(1)], ..none() }, true, RuleId::Qer(QerId(1))),
        (
            SessionChange { create_qers: vec![qer(2), qer(2)], ..none() },
            true,
            RuleId::Qer(QerId(2)),
        ),
        (
            SessionChange { update_pdrs: vec![known.clone(), known], ..none() },
            true,
            RuleId::Pdr(PdrId(1)),
        ),
        (SessionChange { remove_fars: vec![FarId(1); 2], ..none() }, true, RuleId::Far(FarId(1))),
    ];
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let before = store.clone();
    for (change, is_duplicate, rule) in cases {
        let expected = if is_duplicate {
            Refusal::DuplicateRule { rule }
        } else {
            Refusal::UnknownRule { rule }
        };
        assert_eq!(store.modify(up_seid, change), Err(expected));
        assert_eq!(expected.rule(), Some(rule));
        assert_eq!(store, before);
    }
}

#[test]
fn sdf_filter_that_cannot_be_used_is_refused() {
    let pdr = PdrId(2);
    let cases = [
        (
            flow("permit in ip from any to any"),
            Refusal::SdfInvalid { pdr, error: SdfTextError::Direction },
        ),
        (
            SdfSpec { flow_label: Some(1 << 20), ..SdfSpec::default() },
            Refusal::SdfFlowLabelInvalid { pdr, flow_label: 1 << 20 },
        ),
        (SdfSpec { bidirectional: true, ..SdfSpec::default() }, Refusal::SdfWithoutId { pdr }),
    ];
    for (sdf, refusal) in cases {
        let mut store = store(4);
        let mut change = session(1);
        change.create_pdrs[1].pdi.sdf.push(sdf);
        assert_eq!(store.establish(OWNER, CP, change), Err(refusal));
    }
}

#[test]
fn sdf_filter_keeps_its_other_conditions() {
    let mut store = store(4);
    let mut change = session(1);
    let spec = SdfSpec {
        tos: Some((0xb8, 0xfc)),
        spi: Some(4),
        flow_label: Some(0xf_ffff),
        ..flow("permit out 50 from any to any")
    };
    change.create_pdrs[1].pdi.sdf.push(spec);
    let delta = store.establish(OWNER, CP, change).unwrap().delta;
    let expected = PacketFilter {
        protocol: Some(50),
        tos: Some((0xb8, 0xfc)),
        spi: Some(4),
        flow_label: Some(0xf_ffff),
        ..PacketFilter::ANY
    };
    assert_eq!(delta.rules.unwrap().downlink[0].sdf, [expected]);
}

#[test]
fn cp_f_seid_changes_without_a_delta() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let cp = CpFSeid { seid: Seid(77), ..CP };
    let modified = store
        .modify(up_seid, SessionChange { cp_f_seid: Some(cp), ..SessionChange::default() })
        .unwrap();
    assert_eq!(modified.delta, None);
    assert_eq!(store.session(up_seid).unwrap().cp_f_seid(), cp);
}

#[test]
fn pdi_update_replaces_the_whole_detection_information() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let mut change = |pdi: PdiSpec| {
        let update = PdrUpdate { id: PdrId(1), pdi: Some(pdi), ..PdrUpdate::default() };
        store
            .modify(
                up_seid,
                SessionChange { update_pdrs: vec![update], ..SessionChange::default() },
            )
            .unwrap();
        store.session(up_seid).unwrap().pdrs()[0].pdi.clone()
    };
    let with_tunnel = PdiSpec { f_teid: Some(given(7)), ..pdi(SourceInterface::Access) };
    let replaced = change(with_tunnel);
    assert_eq!(replaced.f_teid.unwrap().teid, Teid(7));
    assert!(replaced.ue.is_none() && replaced.qfis.is_empty());
    let other_side = change(pdi(SourceInterface::Core));
    assert!(other_side.f_teid.is_none());
}

/// A PDI that names no traffic of its own states only what changes.
#[test]
fn pdi_update_without_tunnel_and_ue_keeps_them_and_the_flow_and_replaces_filters() {
    let mut store = store(4);
    let mut created = session(1);
    created.create_pdrs[0].pdi.network_instance = Some("internet".into());
    created.create_pdrs[1].pdi.sdf = vec![flow("permit out 17 from any to assigned")];
    let up_seid = store.establish(OWNER, CP, created).unwrap().up_seid;
    let before = store.session(up_seid).unwrap().pdrs();
    let patch = |id, source, text: &str| PdrUpdate {
        id: PdrId(id),
        pdi: Some(PdiSpec { sdf: vec![flow(text)], ..pdi(source) }),
        ..PdrUpdate::default()
    };
    let text = "permit out 6 from any to assigned";
    let update_pdrs =
        vec![patch(1, SourceInterface::Access, text), patch(2, SourceInterface::Core, text)];
    store.modify(up_seid, SessionChange { update_pdrs, ..SessionChange::default() }).unwrap();
    for (mut expected, after) in before.into_iter().zip(store.session(up_seid).unwrap().pdrs()) {
        assert_eq!(after.pdi.sdf[0].filter.protocol, Some(6));
        expected.pdi.sdf.clone_from(&after.pdi.sdf);
        assert_eq!(after, expected);
    }
}

#[test]
fn pdi_patch_of_a_pdr_whose_tunnel_is_to_be_chosen_in_the_same_change_keeps_the_wish() {
    let mut store = store(4);
    let patch = PdiSpec { qfis: Vec::new(), ..pdi(SourceInterface::Access) };
    let update = PdrUpdate { id: PdrId(1), pdi: Some(patch), ..PdrUpdate::default() };
    let done = store
        .establish(OWNER, CP, SessionChange { update_pdrs: vec![update], ..session(1) })
        .unwrap();
    let chosen = store.session(done.up_seid).unwrap().pdrs()[0].pdi.f_teid;
    assert_eq!(chosen, Some(done.created[0].f_teid));
}

#[test]
fn pdi_update_with_a_ue_keeps_a_tunnel_that_its_own_pdr_alone_is_to_have() {
    let mut store = store(4);
    let mut created = session(1);
    let with_ue = PdiSpec {
        ue: Some(ue_match(1, UeSide::Source)),
        qfis: Vec::new(),
        ..pdi(SourceInterface::Access)
    };
    // PDR 3 is of the same side, has a QoS flow as PDR 1 has, and no tunnel.
    let mut without_tunnel = uplink(1);
    without_tunnel.id = PdrId(3);
    without_tunnel.pdi.f_teid = None;
    created.create_pdrs.push(without_tunnel);
    let update = |id| PdrUpdate { id: PdrId(id), pdi: Some(with_ue.clone()), ..Default::default() };
    created.update_pdrs = vec![update(1), update(3)];
    let done = store.establish(OWNER, CP, created).unwrap();
    let pdrs = store.session(done.up_seid).unwrap().pdrs();
    let parts = |at: usize| (pdrs[at].pdi.f_teid.is_some(), pdrs[at].pdi.qfis.len());
    assert_eq!(parts(0), (true, 1), "the update leaves the tunnel and the flow as they are");
    assert_eq!(parts(2), (false, 0), "it replaces what has no tunnel");
}
