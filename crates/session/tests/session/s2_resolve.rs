//! Stage 2: references, ownership of keys, capabilities, limits, chosen TEIDs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{
    ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, HeaderRemoval, RuleDelta,
    UeAddresses,
};
use adit_session::{
    Bar, BarUpdate, Change, FTeidSpec, FarUpdate, ForwardingUpdate, PdrSpec, PdrUpdate, Refusal,
    RuleKind, SdfSpec, SessionChange, SessionStore, UeMatch, UeSide,
};
use adit_types::limits::{
    BUFFER_PKTS_PER_SESSION_MAX, QERS_PER_PDR_MAX, RULES_PER_SESSION_MAX, SDF_FILTERS_PER_PDR_MAX,
};
use adit_types::{BarId, FarId, PdrId, QerId, Teid};

use crate::builders::*;

const UL: PdrId = PdrId(1);
const DL: PdrId = PdrId(2);

/// Establishes the usual session after `spoil`; it must be refused and leave the store untouched.
fn refused(spoil: impl FnOnce(&mut SessionChange)) -> Refusal {
    let mut store = store(4);
    store.establish(OWNER, CP, session(200)).unwrap();
    let before = store.clone();
    let mut change = session(1);
    spoil(&mut change);
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(store, before, "{refusal}");
    refusal
}

fn chosen(store: &SessionStore, up_seid: adit_types::Seid, pdr: u16) -> Teid {
    let pdrs = store.session(up_seid).unwrap().pdrs();
    pdrs.iter().find(|record| record.id == PdrId(pdr)).unwrap().pdi.f_teid.unwrap().teid
}

#[test]
fn reference_to_an_unknown_rule_is_refused() {
    assert_eq!(refused(|c| c.create_pdrs[0].far = None), Refusal::FarMissing { pdr: UL });
    assert_eq!(
        refused(|c| c.create_pdrs[0].far = Some(FarId(9))),
        Refusal::UnknownFar { pdr: UL, far: FarId(9) }
    );
    assert_eq!(
        refused(|c| c.create_pdrs[1].qers.push(QerId(9))),
        Refusal::UnknownQer { pdr: DL, qer: QerId(9) }
    );
}

#[test]
fn far_removed_while_a_pdr_names_it_is_refused() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let before = store.clone();
    let change = SessionChange { remove_fars: vec![FarId(2)], ..SessionChange::default() };
    let refusal = store.modify(up_seid, change).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownFar { pdr: DL, far: FarId(2) });
    assert_eq!(store, before);
}

#[test]
fn outer_header_removal_other_than_gtpu_is_refused() {
    use HeaderRemoval as R;
    for removal in [R::UdpIpv4, R::UdpIpv6, R::Ipv4, R::Ipv6] {
        assert_eq!(
            refused(|c| c.create_pdrs[0].outer_header_removal = Some(removal)),
            Refusal::UnsupportedOuterHeaderRemoval { pdr: UL, removal }
        );
    }
    // The downlink PDR may remove them, unless it has or requests a tunnel.
    for (f_teid, is_usable) in [(None, true), (Some(given(5)), false), (Some(CHOOSE), false)] {
        let mut change = session(1);
        change.create_pdrs[1].outer_header_removal = Some(R::UdpIpv4);
        change.create_pdrs[1].pdi.f_teid = f_teid;
        let refusal = Refusal::UnsupportedOuterHeaderRemoval { pdr: DL, removal: R::UdpIpv4 };
        let established = store(4).establish(OWNER, CP, change).map(|_| ());
        assert_eq!(established, if is_usable { Ok(()) } else { Err(refusal) }, "{f_teid:?}");
    }
    for removal in [R::GtpuUdpIpv4, R::GtpuUdpIpv6, R::GtpuUdpIp] {
        let mut change = session(1);
        change.create_pdrs[0].outer_header_removal = Some(removal);
        assert!(store(4).establish(OWNER, CP, change).is_ok());
    }
}

#[test]
fn f_teid_given_must_be_nonzero_ours_and_free() {
    let with = |f_teid| refused(|c| c.create_pdrs[0].pdi.f_teid = Some(f_teid));
    assert_eq!(with(given(0)), Refusal::FTeidZero { pdr: UL });
    assert_eq!(
        with(FTeidSpec::Given { teid: Teid(5), v4: None, v6: None }),
        Refusal::FTeidWithoutAddress { pdr: UL }
    );
    assert_eq!(
        with(FTeidSpec::Given { teid: Teid(5), v4: Some(GNB), v6: None }),
        Refusal::ForeignAddress { pdr: UL, addr: IpAddr::V4(GNB) }
    );
    let v6 = Ipv6Addr::LOCALHOST;
    assert_eq!(
        with(FTeidSpec::Given { teid: Teid(5), v4: Some(N3), v6: Some(v6) }),
        Refusal::ForeignAddress { pdr: UL, addr: IpAddr::V6(v6) }
    );
    assert_eq!(
        with(FTeidSpec::Choose { v4: false, v6: true, choose_id: None }),
        Refusal::FTeidFamilyUnavailable { pdr: UL }
    );
}

#[test]
fn f_teid_of_another_session_is_refused_until_it_is_free() {
    let mut store = store(4);
    let chosen_by_us = {
        let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
        (up_seid, chosen(&store, up_seid, 1))
    };
    let mut change = session(2);
    change.create_pdrs[0].pdi.f_teid = Some(given(chosen_by_us.1.0));
    let taken = Err(Refusal::FTeidTaken { pdr: UL, teid: chosen_by_us.1 });
    assert_eq!(store.establish(OWNER, CP, change.clone()), taken);
    let delta = store.delete(chosen_by_us.0).unwrap();
    assert_eq!(store.establish(OWNER, CP, change.clone()), taken, "workers may still know it");
    store.reclaim(delta.session);
    assert_eq!(store.establish(OWNER, CP, change.clone()), taken, "the establishment's reclaim");
    store.reclaim(delta.session);
    assert!(store.establish(OWNER, CP, change).is_ok());
}

#[test]
fn f_teid_given_is_free_again_with_its_session() {
    let mut store = store(4);
    let mut change = session(1);
    change.create_pdrs[0].pdi.f_teid = Some(given(5));
    let established = store.establish(OWNER, CP, change.clone()).unwrap();
    assert!(established.created.is_empty());
    store.delete(established.up_seid).unwrap();
    assert!(store.establish(OWNER, CP, change).is_ok());
}

#[test]
fn f_teid_may_be_shared_and_repeated_within_a_session() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let teid = chosen(&store, up_seid, 1);
    let mut second = uplink(1);
    second.id = PdrId(3);
    second.pdi.f_teid = Some(given(teid.0));
    let mut repeated = uplink(1).pdi;
    repeated.f_teid = Some(given(teid.0));
    let update = PdrUpdate { id: UL, pdi: Some(repeated), ..PdrUpdate::default() };
    let change = SessionChange {
        create_pdrs: vec![second],
        update_pdrs: vec![update],
        ..SessionChange::default()
    };
    let modified = store.modify(up_seid, change).unwrap();
    assert!(modified.created.is_empty());
    assert!(modified.delta.unwrap().keys.is_empty());
    assert_eq!(store.reserved().teids, 1);
}

#[test]
fn choose_id_shares_one_teid_and_its_absence_does_not() {
    let with_id = |id: u16, choose_id| {
        let mut pdr = uplink(1);
        pdr.id = PdrId(id);
        pdr.pdi.f_teid = Some(FTeidSpec::Choose { v4: true, v6: true, choose_id });
        pdr
    };
    let mut change = session(1);
    change.create_pdrs = vec![
        with_id(1, Some(7)),
        with_id(2, None),
        with_id(3, Some(8)),
        with_id(4, Some(7)),
        with_id(5, None),
    ];
    let created = store(4).establish(OWNER, CP, change).unwrap().created;
    let teids: Vec<Teid> = created.iter().map(|created| created.f_teid.teid).collect();
    assert_eq!(created.iter().map(|c| c.pdr.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(teids[0], teids[3]);
    let distinct: std::collections::BTreeSet<Teid> = teids.iter().copied().collect();
    assert_eq!(distinct.len(), 4);
    assert!(created.iter().all(|c| c.f_teid.v4 == Some(N3) && c.f_teid.v6.is_none()));
}

#[test]
fn teids_exhausted_is_refused_without_a_trace() {
    let mut store = store(1);
    let mut change = session(1);
    change.create_pdrs = (1..=3).map(|id| PdrSpec { id: PdrId(id), ..uplink(1) }).collect();
    let before = store.clone();
    assert_eq!(store.establish(OWNER, CP, change), Err(Refusal::TeidsExhausted));
    assert_eq!(store, before);
}

#[test]
fn ue_address_must_be_present_valid_and_free() {
    let with = |addresses| {
        let side = UeSide::Source;
        refused(|c| c.create_pdrs[0].pdi.ue = Some(UeMatch { addresses, side }))
    };
    let v4 = |addr| UeAddresses { v4: Some(addr), v6: None };
    assert_eq!(with(UeAddresses::default()), Refusal::UeAddressMissing { pdr: UL });
    for addr in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1), N3] {
        assert_eq!(with(v4(addr)), Refusal::UeAddressInvalid { pdr: UL, ue: v4(addr) });
    }
    let taken = Refusal::UeAddressTaken { pdr: UL, addr: IpAddr::V4(ue(200)) };
    assert_eq!(with(v4(ue(200))), taken);
    let prefix = "2001:db8::/56".parse().unwrap();
    let short = UeAddresses { v4: None, v6: Some(prefix) };
    assert_eq!(with(short), Refusal::UePrefixTooShort { pdr: UL, prefix });
    for text in ["::/64", "ff02::/64", "fe80::/64"] {
        let ue = UeAddresses { v4: None, v6: Some(text.parse().unwrap()) };
        assert_eq!(with(ue), Refusal::UeAddressInvalid { pdr: UL, ue });
    }
}

#[test]
fn ue_addresses_within_one_64_belong_to_one_session() {
    let mut store = store(4);
    let with = |last, text: &str| {
        let mut change = session(last);
        let ue = change.create_pdrs[1].pdi.ue.as_mut().unwrap();
        ue.addresses.v6 = Some(text.parse().unwrap());
        change
    };
    store.establish(OWNER, CP, with(1, "2001:db8:1::/64")).unwrap();
    let addr = "2001:db8:1::".parse().unwrap();
    assert_eq!(
        store.establish(OWNER, CP, with(2, "2001:db8:1::5/128")),
        Err(Refusal::UeAddressTaken { pdr: DL, addr })
    );
    assert!(store.establish(OWNER, CP, with(2, "2001:db8:2::/64")).is_ok());
}

#[test]
fn ue_address_as_destination_in_uplink_is_refused() {
    assert_eq!(
        refused(|c| c.create_pdrs[0].pdi.ue = Some(ue_match(1, UeSide::Destination))),
        Refusal::UeSideUnsupported { pdr: UL }
    );
    let mut change = session(1);
    change.create_pdrs[1].pdi.ue = Some(ue_match(1, UeSide::Source));
    assert!(store(4).establish(OWNER, CP, change).is_ok());
}

#[test]
fn far_action_has_one_fate_and_the_notices_that_go_with_it() {
    use ApplyAction as A;
    let far = FarId(1);
    for action in [A::FORW | A::from_bits_retain(1 << 5), A::from_bits_retain(1 << 11 | 2)] {
        assert_eq!(
            refused(|c| c.create_fars[0].action = action),
            Refusal::UnsupportedAction { far, action }
        );
    }
    let contradictory = [
        A::empty(),
        A::DROP | A::FORW,
        A::FORW | A::BUFF,
        A::NOCP,
        A::FORW | A::NOCP,
        A::DROP | A::BDPN,
    ];
    for action in contradictory {
        assert_eq!(
            refused(|c| c.create_fars[0].action = action),
            Refusal::ContradictoryAction { far, action }
        );
    }
    for action in [A::DROP | A::DDPN, A::BUFF, A::BUFF | A::NOTICES] {
        let mut change = session(1);
        change.create_fars[0].action = action;
        change.create_fars[0].forwarding = None;
        assert!(store(4).establish(OWNER, CP, change).is_ok(), "{action:?}");
    }
}

#[test]
fn far_names_a_bar_of_its_session() {
    let (far, bar) = (FarId(1), BarId(7));
    let refusal = refused(|c| c.create_fars[0].bar = Some(bar));
    assert_eq!(refusal, Refusal::UnknownBar { far, bar });
    let mut change = session(1);
    change.create_fars[0].action = ApplyAction::BUFF;
    change.create_fars[0].bar = Some(bar);
    change.create_bars = vec![Bar { id: bar, notification_delay: 2, suggested_pkts: Some(9) }];
    let mut store = store(4);
    let established = store.establish(OWNER, CP, change).unwrap();
    let held = |delta: &RuleDelta| delta.rules.as_ref().unwrap().fars[0].buffer_pkts_max;
    assert_eq!(held(&established.delta), 9);
    let update = BarUpdate {
        id: bar,
        notification_delay: Change::Keep,
        suggested_pkts: Change::Set(u16::MAX),
    };
    let change = SessionChange { update_bars: vec![update], ..SessionChange::default() };
    let modified = store.modify(established.up_seid, change).unwrap();
    assert_eq!(held(&modified.delta.unwrap()), BUFFER_PKTS_PER_SESSION_MAX);
    let removal = SessionChange { remove_bars: vec![bar], ..SessionChange::default() };
    let refusal = store.modify(established.up_seid, removal).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownBar { far, bar });
}

#[test]
fn buffered_packets_are_dropped_by_a_delta_though_no_rule_changes() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, session(1)).unwrap();
    let change = SessionChange { drop_buffered: true, ..SessionChange::default() };
    let delta = store.modify(established.up_seid, change).unwrap().delta.unwrap();
    let before = established.delta.rules.unwrap().buffer_epoch;
    assert_ne!(delta.rules.unwrap().buffer_epoch, before);
    let unchanged = store.modify(established.up_seid, SessionChange::default()).unwrap();
    assert_eq!(unchanged.delta, None);
}

#[test]
fn withdrawn_outer_header_is_legal_where_none_is_needed() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let withdraw = |destination| SessionChange {
        update_fars: vec![FarUpdate {
            id: FarId(2),
            forwarding: Some(ForwardingUpdate {
                destination,
                outer_header_creation: Change::Withdraw,
                ..ForwardingUpdate::default()
            }),
            ..FarUpdate::default()
        }],
        ..SessionChange::default()
    };
    let rules =
        store.modify(up_seid, withdraw(Change::Keep)).unwrap().delta.unwrap().rules.unwrap();
    let far = &rules.fars[1];
    assert_eq!(
        (far.action, far.outer_header_creation),
        (ApplyAction::FORW | ApplyAction::DROP, None)
    );
    store.modify(up_seid, withdraw(Change::Set(DestinationInterface::Core))).unwrap();
    assert_eq!(store.session(up_seid).unwrap().fars()[1].tunnel(), None);
}

#[test]
fn far_that_forwards_needs_parameters_and_a_tunnel_that_is_valid() {
    assert_eq!(
        refused(|c| c.create_fars[0].forwarding = None),
        Refusal::FarWithoutForwardingParameters { far: FarId(1) }
    );
    let spoil = |outer| {
        refused(move |c: &mut SessionChange| {
            c.create_fars[1].forwarding.as_mut().unwrap().outer_header_creation = outer;
        })
    };
    let far = FarId(2);
    assert_eq!(spoil(Some(tunnel(0))), Refusal::TunnelInvalid { far });
    let to = |addr| Some(HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(1), addr }));
    assert_eq!(spoil(to(Ipv4Addr::BROADCAST.into())), Refusal::TunnelInvalid { far });
    let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    assert_eq!(spoil(to(v6.into())), Refusal::TunnelFamilyUnavailable { far });
}

#[test]
fn far_that_drops_may_name_any_tunnel_until_it_forwards() {
    let mut store = store(4);
    let mut change = session(1);
    change.create_fars[1].action = ApplyAction::DROP;
    let zero = GtpuTunnel { teid: Teid(0), addr: Ipv4Addr::UNSPECIFIED.into() };
    change.create_fars[1].forwarding.as_mut().unwrap().outer_header_creation =
        Some(HeaderCreation::Gtpu(zero));
    let established = store.establish(OWNER, CP, change).unwrap();
    let entry = &established.delta.rules.as_ref().unwrap().fars[1];
    assert_eq!(entry.outer_header_creation, None, "no worker sees it");
    let action = Some(ApplyAction::FORW);
    let forward = FarUpdate { id: FarId(2), action: action.into(), ..FarUpdate::default() };
    let change = SessionChange { update_fars: vec![forward], ..SessionChange::default() };
    let refusal = store.modify(established.up_seid, change).unwrap_err();
    assert_eq!(refusal, Refusal::TunnelInvalid { far: FarId(2) });
}

#[test]
fn limits_of_rules_filters_and_qers_are_enforced() {
    let extra = u32::try_from(RULES_PER_SESSION_MAX).unwrap();
    assert_eq!(
        refused(|c| c.create_qers.extend((2..=extra + 1).map(qer))),
        Refusal::TooManyRules { kind: RuleKind::Qer }
    );
    let sdf = flow("permit out ip from any to any");
    assert_eq!(
        refused(|c| c.create_pdrs[1].pdi.sdf = vec![sdf.clone(); SDF_FILTERS_PER_PDR_MAX + 1]),
        Refusal::TooManySdfFilters { pdr: DL }
    );
    let qers: Vec<QerId> = (0..=u32::try_from(QERS_PER_PDR_MAX).unwrap()).map(QerId).collect();
    assert_eq!(refused(|c| c.create_pdrs[1].qers = qers), Refusal::TooManyQers { pdr: DL });
    assert_eq!(refused(many_keys), Refusal::GivenTeidsFull);
    let mut change = session(1);
    many_keys(&mut change);
    assert_eq!(
        store(RULES_PER_SESSION_MAX).establish(OWNER, CP, change),
        Err(Refusal::TooManyKeys)
    );
}

/// As many PDRs as there may be with a TEID, an IPv4 address and an IPv6 prefix each.
fn many_keys(change: &mut SessionChange) {
    change.create_pdrs = (1..=u16::try_from(RULES_PER_SESSION_MAX).unwrap())
        .map(|id| {
            let [third, last] = id.to_be_bytes();
            let mut pdr = uplink(1);
            pdr.id = PdrId(id);
            pdr.pdi.f_teid = Some(given(u32::from(id)));
            let prefix = format!("2001:db8:{id:x}::/64").parse().unwrap();
            let v4 = Some(Ipv4Addr::new(10, 46, third, last));
            pdr.pdi.ue.as_mut().unwrap().addresses = UeAddresses { v4, v6: Some(prefix) };
            pdr
        })
        .collect();
}

#[test]
fn sdf_filter_by_identifier_stands_for_the_bidirectional_one() {
    let define = |text: &str| SdfSpec { filter_id: Some(3), bidirectional: true, ..flow(text) };
    let reference = SdfSpec { filter_id: Some(3), bidirectional: true, ..SdfSpec::default() };
    let text = "permit out 6 from 1.1.1.1 to assigned";
    let with = |uplink_sdf: SdfSpec, downlink_sdf: SdfSpec| {
        let mut change = session(1);
        change.create_pdrs[0].pdi.sdf = vec![uplink_sdf];
        change.create_pdrs[1].pdi.sdf = vec![downlink_sdf];
        store(4).establish(OWNER, CP, change)
    };
    let rules = with(reference.clone(), define(text)).unwrap().delta.rules.unwrap();
    assert_eq!(rules.uplink[0].sdf, rules.downlink[0].sdf);
    assert!(with(define(text), define(text)).is_ok());
    assert_eq!(
        with(define(text), define("permit out 17 from any to any")),
        Err(Refusal::DuplicateSdfFilter { pdr: DL, filter_id: 3 })
    );
    assert_eq!(
        with(reference.clone(), reference),
        Err(Refusal::UnknownSdfFilter { pdr: UL, filter_id: 3 })
    );
}

#[test]
fn session_of_unknown_seid_is_refused() {
    let mut store = store(4);
    let up_seid = adit_types::Seid(1);
    let unknown = Refusal::UnknownSession { up_seid };
    assert_eq!(store.modify(up_seid, SessionChange::default()), Err(unknown));
    assert_eq!(store.delete(up_seid), Err(unknown));
}

#[test]
fn keys_beyond_what_the_tables_hold_are_refused() {
    let mut store = store(1);
    let mut change = session(1);
    change.create_pdrs.push(PdrSpec { id: PdrId(3), ..downlink(2) });
    let before = store.clone();
    assert_eq!(store.establish(OWNER, CP, change), Err(Refusal::UeTableFull));
    assert!(store == before);
    assert!(store.establish(OWNER, CP, session(1)).is_ok());
}

#[test]
fn teid_of_two_source_interfaces_is_refused() {
    let refusal = refused(|change| {
        for pdr in &mut change.create_pdrs {
            pdr.pdi.f_teid = Some(given(5));
        }
    });
    assert_eq!(refusal, Refusal::FTeidSidesDiffer { pdr: UL, teid: Teid(5) });
}

#[test]
fn udp_and_ip_headers_belong_to_data_networks() {
    use HeaderRemoval as R;
    let addr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));
    for removal in [R::UdpIpv4, R::UdpIpv6, R::Ipv4, R::Ipv6] {
        let mut change = session(1);
        change.create_pdrs[1].outer_header_removal = Some(removal);
        assert!(store(4).establish(OWNER, CP, change).is_ok());
    }
    for header in [HeaderCreation::Udp { addr, port: 5000 }, HeaderCreation::Ip { addr }] {
        let set = |change: &mut SessionChange, far: usize, header| {
            change.create_fars[far].forwarding.as_mut().unwrap().outer_header_creation =
                Some(header);
        };
        let mut change = session(1);
        set(&mut change, 0, header);
        assert!(store(4).establish(OWNER, CP, change).is_ok());
        let far = FarId(2);
        assert_eq!(refused(|change| set(change, 1, header)), Refusal::TunnelInvalid { far });
        let no_port = HeaderCreation::Udp { addr, port: 0 };
        let far = FarId(1);
        assert_eq!(refused(|change| set(change, 0, no_port)), Refusal::TunnelInvalid { far });
    }
}
