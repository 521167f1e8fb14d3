//! F-TEIDs, identifiers, and the order of requests.

use adit_pfcp::ie::{FTeid, FTeidAddress};
use adit_pfcp::{Cause, IeType as T};
use adit_rules::{ApplyAction, WorkerCommand};
use adit_session::{LocalAddresses, LocalInterface, Provisioning, StoreConfig, Tolerances};
use adit_types::{InterfaceRole, PdrId, Seid, Teid};

use super::octets::*;
use super::planes::*;
use crate::smf::*;

fn remove(ie_type: T, id_type: T, id: &str) -> Vec<u8> {
    group(ie_type, [ie(id_type, id)])
}

fn forwarding_pdr(id: &str, qfi: Vec<u8>) -> Vec<u8> {
    let pdi = [
        ie(T::SOURCE_INTERFACE, "00"),
        ie(T::F_TEID, "0f0a"),
        labels("internet"),
        qfi,
        ie(T::TGPP_INTERFACE_TYPE, "1c"),
    ];
    let pdr = [
        ie(T::PDR_ID, id),
        ie(T::PRECEDENCE, "00001000"),
        group(T::PDI, pdi),
        ie(T::OUTER_HEADER_REMOVAL, "06"),
        ie(T::FAR_ID, "00000006"),
    ];
    group(T::CREATE_PDR, pdr)
}

fn forwarding_far() -> Vec<u8> {
    let parts = [
        ie(T::DESTINATION_INTERFACE, "00"),
        ie(T::OUTER_HEADER_CREATION, "0100 00000aaa c6336403"),
        ie(T::TGPP_INTERFACE_TYPE, "0a"),
    ];
    let parts = group(T::FORWARDING_PARAMETERS, parts);
    group(T::CREATE_FAR, [ie(T::FAR_ID, "00000006"), ie(T::APPLY_ACTION, "0200"), parts])
}

/// Open5GS, in sessions of every type.
#[test]
fn cp_function_is_a_source_and_a_destination_of_sessions_of_all_types() {
    let ues = [
        "06 0a2d0002",
        "05 20010db8004500000000000000000002",
        "07 0a2d0002 20010db8004500000000000000000002",
    ];
    for ue in ues {
        let mut bench = Bench::associated();
        let ies = [open5gs_pdrs_of(ue), open5gs_cp_function(), open5gs_rest()].concat();
        let session = accepted(&mut bench, &establishment(2, &ies));
        let created: Vec<u16> = session.created.iter().map(|(pdr, _)| pdr.0).collect();
        assert_eq!(created, [2, 3, 4]);
        let [ran, cp, solicitation] = session.teids()[..] else { panic!() };
        assert!(solicitation == ran && cp != ran);
        let rules = session.rules();
        let order: Vec<u16> = rules.uplink.iter().map(|pdr| pdr.id.0).collect();
        assert_eq!(order, [4, 2], "a solicitation is told apart before all else");
        let to_cp = rules.fars[usize::from(rules.uplink[0].far)].outer_header_creation.unwrap();
        assert_eq!(to_cp.tunnel().unwrap().teid, Teid(1));
        let advertisement = rules.downlink.iter().find(|pdr| pdr.id == PdrId(3)).unwrap();
        assert_eq!(advertisement.teid, Some(cp));
        let far = &rules.fars[usize::from(advertisement.far)];
        assert_eq!(far.id.0, 1, "it leaves as other downlink does");
    }
}

/// Open5GS needs this.
#[test]
fn choose_id_of_a_later_message_is_the_f_teid_of_the_session() {
    let mut bench = Bench::associated();
    let session = open5gs(&mut bench);
    let first = session.teids()[0];
    let flow = open5gs_flow(&[sdf("permit out icmp from any to assigned")]);
    let added = accepted(&mut bench, &modification(3, session.up_seid, &flow));
    assert_eq!((added.created[0].0, added.teids()), (PdrId(6), vec![first]));
    // CHOOSE ID 10 at one handover and, after its PDR is gone, at the next.
    let indirect = |sequence, bench: &mut Bench| {
        let ies = [forwarding_pdr("0007", ie(T::QFI, "01")), forwarding_far()];
        accepted(bench, &modification(sequence, session.up_seid, &ies)).teids()[0]
    };
    let one = indirect(4, &mut bench);
    let gone =
        [remove(T::REMOVE_PDR, T::PDR_ID, "0007"), remove(T::REMOVE_FAR, T::FAR_ID, "00000006")];
    accepted(&mut bench, &modification(5, session.up_seid, &gone));
    let next = indirect(6, &mut bench);
    assert!(one != first && next != first && next != one);
}

/// Open5GS creates its sessions anew with the F-TEIDs known before, without their CHOOSE IDs, and
/// goes on with the IDs. A flow that is added later must use the tunnel that the gNB has.
#[test]
fn choose_id_after_a_restoration_is_the_f_teid_of_the_pdu_session() {
    let restored = |bench: &mut Bench| {
        let (ran, cp) = ("01 00000010 c6336401", "01 00000021 c6336401");
        let pdrs = open5gs_pdrs_with("06 0a2d0002", ran);
        let flags = vec![ie(T::PFCPSEREQ_FLAGS, "01")];
        let ies = [pdrs, open5gs_cp_function_with(cp, ran), open5gs_rest(), flags].concat();
        accepted(bench, &establishment(2, &ies))
    };
    let mut bench = Bench::associated();
    let session = restored(&mut bench);
    assert!(session.created.is_empty());
    let flow = open5gs_flow(&[sdf("permit out icmp from any to assigned")]);
    let added = accepted(&mut bench, &modification(3, session.up_seid, &flow));
    assert_eq!((added.created[0].0, added.teids()), (PdrId(6), vec![Teid(0x10)]));
    // Data forwarded for a handover have a tunnel of their own, with CHOOSE ID 10.
    let ies = [forwarding_pdr("0007", ie(T::QFI, "01")), forwarding_far()];
    let mut bench = Bench::associated();
    let session = restored(&mut bench);
    let forwarded = accepted(&mut bench, &modification(3, session.up_seid, &ies)).teids()[0];
    assert!(![Teid(0x10), Teid(0x21)].contains(&forwarded));
    let added = accepted(&mut bench, &modification(4, session.up_seid, &flow));
    assert_eq!(added.teids(), [Teid(0x10)], "the forwarding took nothing away");
}

/// OAI has no IPv6 address of a UE and sends the IE without one: it is undefined whose packets the
/// rule would match.
#[test]
fn ue_ip_address_without_an_address_is_refused_by_its_name() {
    for flags in ["00", "04"] {
        let request = establishment(2, &oai_uplink_of("00000000", flags));
        let (_, offending) = refused(&mut Bench::associated(), &request);
        assert_eq!(offending, Some(T::UE_IP_ADDRESS));
    }
}

/// free5GC needs this.
#[test]
fn f_teids_of_the_control_plane_are_taken_although_ftup_is_announced() {
    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &free5gc_establishment());
    assert!(session.created.is_empty());
    let uplink = &session.rules().uplink;
    assert_eq!(uplink.len(), 2);
    assert!(uplink.iter().all(|pdr| pdr.teid == Some(Teid(1))), "one tunnel for both");
    let mut foreign = free5gc_establishment();
    let at = foreign.windows(4).position(|octets| octets == [198, 51, 100, 1]).unwrap();
    foreign[at + 3] = 9;
    let outcome = refused(&mut Bench::associated(), &foreign);
    assert_eq!(outcome, (Cause::RuleCreationModificationFailure, Some(T::F_TEID)));
}

/// SD-Core needs this.
#[test]
fn choose_without_a_family_gets_ipv4_and_by_option_one_f_teid_for_the_session() {
    for one_f_teid_per_session in [false, true] {
        let tolerances = Tolerances { one_f_teid_per_session };
        let provisioning = Provisioning { tolerances, ..config().store.provisioning };
        let store = StoreConfig { provisioning, ..config().store };
        let mut bench = Bench::with(adit_n4::NodeConfig { store, ..config() });
        bench.associate(10);
        let session = accepted(&mut bench, &sd_core_establishment());
        assert_eq!(session.created.len(), 2);
        for (_, f_teid) in &session.created {
            assert!(matches!(f_teid, FTeid::Given { addr: FTeidAddress::V4(N3), .. }));
        }
        let [first, second] = session.teids()[..] else { panic!() };
        assert_eq!(first == second, one_f_teid_per_session);
        // A flow that is added: no UE IP address, and again no CHOOSE ID.
        let pdi = [
            ie(T::SOURCE_INTERFACE, "00"),
            ie(T::F_TEID, "04"),
            text("internet"),
            sdf("permit out 6 from any to any"),
        ];
        let pdr = [
            ie(T::PDR_ID, "0005"),
            ie(T::PRECEDENCE, "00000009"),
            group(T::PDI, pdi),
            ie(T::OUTER_HEADER_REMOVAL, "0000"),
            ie(T::FAR_ID, "00000001"),
        ];
        let ies = [ie(T::F_SEID, CP_F_SEID), group(T::CREATE_PDR, pdr)];
        let added = accepted(&mut bench, &modification(3, session.up_seid, &ies));
        assert_eq!(added.teids()[0] == first, one_f_teid_per_session);
    }
}

/// Open5GS requests both families, offers a tunnel of both, and removes any GTP-U header.
#[test]
fn both_families_are_asked_for_and_offered_where_one_is_usable() {
    let v6 = "2001:db8:3::1".parse().ok();
    for n3_addresses in [
        LocalAddresses { v4: Some(N3), v6: None },
        LocalAddresses { v4: None, v6 },
        LocalAddresses { v4: Some(N3), v6 },
    ] {
        let n3 = LocalInterface::of_role(InterfaceRole::N3, n3_addresses);
        let interfaces = vec![n3, interfaces().remove(1)];
        let provisioning = Provisioning { interfaces, ..Provisioning::default() };
        let store = StoreConfig { provisioning, ..config().store };
        let mut bench = Bench::with(adit_n4::NodeConfig { store, ..config() });
        bench.associate(10);
        let session = open5gs(&mut bench);
        let FTeid::Given { addr, .. } = session.created[0].1 else { panic!() };
        assert_eq!((addr.v4(), addr.v6()), (n3_addresses.v4, n3_addresses.v6));
        let tunnel = open5gs_tunnel("00000001", None);
        let rules = accepted(&mut bench, &modification(3, session.up_seid, &[tunnel]));
        let far = &rules.rules().fars[0];
        assert_eq!(far.action, ApplyAction::FORW);
        let tunnel = far.outer_header_creation.unwrap().tunnel().unwrap();
        assert_eq!((tunnel.teid, tunnel.addr.is_ipv4()), (Teid(0x101), n3_addresses.v4.is_some()));
    }
    let removal = |request: &[u8]| {
        accepted(&mut Bench::associated(), request).rules().uplink[0].outer_header_removal
    };
    let any = removal(&establishment(2, &[open5gs_pdrs(), open5gs_rest()].concat()));
    assert!(any.is_some() && removal(&free5gc_establishment()).is_some(), "06 and 00");
}

/// SGW-C sends no precedence; Open5GS's PDRs share a tunnel.
#[test]
fn precedence_may_be_absent_equal_lowest_or_highest() {
    let mut bench = Bench::associated();
    let pdr = |id, interface, reference, far| {
        let pdi = [
            ie(T::SOURCE_INTERFACE, interface),
            ie(T::F_TEID, "07"),
            labels("internet"),
            ie(T::TGPP_INTERFACE_TYPE, reference),
        ];
        group(T::CREATE_PDR, [ie(T::PDR_ID, id), group(T::PDI, pdi), ie(T::FAR_ID, far)])
    };
    let far = |id| {
        group(T::CREATE_FAR, [ie(T::FAR_ID, id), ie(T::APPLY_ACTION, "0c00"), ie(T::BAR_ID, "01")])
    };
    let ies = [
        pdr("0001", "01", "01", "00000001"),
        pdr("0002", "00", "00", "00000002"),
        far("00000001"),
        far("00000002"),
        group(T::CREATE_BAR, [ie(T::BAR_ID, "01")]),
    ];
    let session = accepted(&mut bench, &establishment(2, &ies));
    assert_eq!(session.created.len(), 2);
    let parts = [
        ie(T::DESTINATION_INTERFACE, "01"),
        labels("internet"),
        ie(T::OUTER_HEADER_CREATION, "0100 00000301 c6336409"),
        ie(T::TGPP_INTERFACE_TYPE, "01"),
    ];
    let to_pgw = [
        ie(T::FAR_ID, "00000002"),
        ie(T::APPLY_ACTION, "0200"),
        group(T::UPDATE_FORWARDING_PARAMETERS, parts),
    ];
    let later = [
        group(T::UPDATE_PDR, [ie(T::PDR_ID, "0002"), ie(T::OUTER_HEADER_REMOVAL, "06")]),
        group(T::UPDATE_FAR, to_pgw),
    ];
    let rules = accepted(&mut bench, &modification(3, session.up_seid, &later));
    assert_eq!(rules.rules().uplink[0].precedence.0, u32::MAX, "after all others");

    let mut bench = Bench::associated();
    let session = open5gs(&mut bench);
    let flow = open5gs_flow(&[sdf("permit out 17 from any to assigned")]);
    let rules = accepted(&mut bench, &modification(3, session.up_seid, &flow));
    let uplink = &rules.rules().uplink;
    let order: Vec<_> = uplink.iter().map(|pdr| (pdr.id.0, pdr.precedence.0)).collect();
    assert_eq!(order, [(6, 1), (2, 65_535)]);
    assert_eq!(uplink[0].teid, uplink[1].teid, "one tunnel, told apart by filter and precedence");
    assert!(!uplink[0].sdf.is_empty() && uplink[1].sdf.is_empty());
    let zero = accepted(&mut Bench::associated(), &oai_establishment());
    assert_eq!(zero.rules().uplink[0].precedence.0, 0);
    let equal = accepted(&mut Bench::associated(), &free5gc_establishment());
    let order: Vec<_> = equal.rules().downlink.iter().map(|pdr| pdr.id.0).collect();
    assert_eq!(order, [4, 8], "equal ones by identifier");
}

/// free5GC counts rules by UPF and leaves QERs; OAI empties a session that goes idle.
#[test]
fn numbers_have_gaps_rules_stay_without_users_and_an_empty_session_stands() {
    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &free5gc_establishment());
    let gone = [
        ie(T::F_SEID, CP_F_SEID),
        remove(T::REMOVE_PDR, T::PDR_ID, "0007"),
        remove(T::REMOVE_PDR, T::PDR_ID, "0008"),
        remove(T::REMOVE_PDR, T::PDR_ID, "0003"),
        remove(T::REMOVE_PDR, T::PDR_ID, "0004"),
        remove(T::REMOVE_FAR, T::FAR_ID, "00000003"),
    ];
    let left = accepted(&mut bench, &modification(3, session.up_seid, &gone));
    assert_eq!((left.rules().fars.len(), left.rules().qers.len()), (1, 2), "nobody names them");

    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &oai_establishment());
    let before = session.teids()[0];
    accepted(&mut bench, &modification(3, session.up_seid, &oai_downlink()));
    let idle = [
        remove(T::REMOVE_PDR, T::PDR_ID, "0001"),
        remove(T::REMOVE_PDR, T::PDR_ID, "0002"),
        remove(T::REMOVE_FAR, T::FAR_ID, "00000001"),
        remove(T::REMOVE_FAR, T::FAR_ID, "00000002"),
    ];
    let empty = accepted(&mut bench, &modification(4, session.up_seid, &idle));
    assert!(empty.rules().uplink.is_empty() && empty.rules().downlink.is_empty());
    assert!(bench.node.store().session(session.up_seid).is_some());
    let back = accepted(&mut bench, &modification(5, session.up_seid, &oai_uplink("00000001")));
    assert_ne!(back.teids()[0], before, "CHOOSE ID 42 after all its PDRs are gone");
    accepted(&mut bench, &modification(6, session.up_seid, &oai_downlink()));
}

/// Open5GS has several requests in flight, in either order.
#[test]
fn requests_before_the_answer_to_the_one_before_are_carried_out_in_their_order() {
    for flow_first in [true, false] {
        let mut bench = Bench::associated();
        let up_seid = open5gs(&mut bench).up_seid;
        let flow = modification(3, up_seid, &open5gs_flow(&[]));
        let tunnel = modification(4, up_seid, &[open5gs_tunnel("00000001", None)]);
        let [first, second] = if flow_first { [flow, tunnel] } else { [tunnel, flow] };
        bench.node.handle_datagram(bench.now, smf(10), &first);
        bench.node.handle_datagram(bench.now, smf(10), &second);
        assert!(bench.sent().is_empty(), "both wait for the workers");
        let mut last = None;
        while let Some((id, delta)) = bench.node.poll_delta() {
            bench.node.handle_published(bench.now, id);
            last = delta.rules;
        }
        let sent = bench.sent();
        let sequences: Vec<u32> = sent.iter().map(|s| raw(&s.bytes).header.sequence).collect();
        assert_eq!(sequences, if flow_first { [3, 4] } else { [4, 3] });
        assert!(sent.iter().all(|s| modified(&s.bytes).cause.is_accepted()));
        let rules = last.unwrap();
        assert_eq!((rules.downlink.len(), rules.fars.len()), (2, 4));
        assert_eq!(rules.fars[0].action, ApplyAction::FORW);
        // In one message any order of the IEs means the same.
        let mut ies = open5gs_flow(&[]);
        ies.insert(usize::from(flow_first) * 5, open5gs_tunnel("00000001", None));
        let mut bench = Bench::associated();
        let up_seid = open5gs(&mut bench).up_seid;
        let together = accepted(&mut bench, &modification(3, up_seid, &ies));
        let plain = |rules: &adit_rules::SessionRules| {
            (rules.fars.clone(), rules.uplink.clone(), rules.downlink.clone())
        };
        assert_eq!(plain(together.rules()), plain(&rules));
    }
}

/// End Markers that go before the changes that `request` makes.
fn end_markers(bench: &mut Bench, request: &[u8]) -> Vec<Teid> {
    bench.node.handle_datagram(bench.now, smf(10), request);
    let mut markers = Vec::new();
    while let Some((id, _)) = bench.node.poll_delta() {
        while let Some(command) = bench.node.poll_command_before(id) {
            let WorkerCommand::SendEndMarker { tunnel, .. } = command else { panic!() };
            markers.push(tunnel.teid);
        }
        bench.node.handle_published(bench.now, id);
    }
    assert!(modified(&bench.sent().pop().unwrap().bytes).cause.is_accepted());
    markers
}

/// free5GC's flag stays set; Open5GS's FARs leave one tunnel together.
#[test]
fn end_marker_goes_only_into_a_tunnel_that_is_left() {
    let mut bench = Bench::associated();
    let up_seid = accepted(&mut bench, &free5gc_establishment()).up_seid;
    let mut sequence = 2;
    let mut update = |bench: &mut Bench, action, teid, flags| {
        sequence += 1;
        let ies = [ie(T::F_SEID, CP_F_SEID), free5gc_tunnel(action, teid, flags)];
        end_markers(bench, &modification(sequence, up_seid, &ies))
    };
    assert_eq!(update(&mut bench, "02", "00000011", "00"), [], "the first tunnel, flags of 0");
    assert_eq!(update(&mut bench, "02", "00000012", "02"), [Teid(0x11)]);
    assert_eq!(update(&mut bench, "02", "00000012", "02"), [], "the same tunnel");
    assert_eq!(update(&mut bench, "0c", "00000012", "02"), [], "idle, the flag still set");
    assert_eq!(update(&mut bench, "02", "00000013", "02"), [], "nothing was sent into the old one");

    let mut bench = Bench::associated();
    let up_seid = open5gs(&mut bench).up_seid;
    accepted(&mut bench, &modification(3, up_seid, &open5gs_flow(&[])));
    let to_gnb = |flags| ["00000001", "00000004"].map(|far| open5gs_tunnel(far, flags));
    accepted(&mut bench, &modification(4, up_seid, &to_gnb(None)));
    let moved = |far: [Vec<u8>; 2]| {
        far.map(|mut ies| {
            let at = ies.windows(4).position(|octets| octets == [0, 0, 1, 1]).unwrap();
            ies[at + 3] = 2;
            ies
        })
    };
    let handover = modification(5, up_seid, &moved(to_gnb(Some("02"))));
    let markers = end_markers(&mut bench, &handover);
    assert!(!markers.is_empty() && markers.iter().all(|teid| *teid == Teid(0x101)));
}

/// Open5GS by QFI, free5GC without one.
#[test]
fn indirect_forwarding_leads_from_access_to_access() {
    for qfi in [ie(T::QFI, "01"), Vec::new()] {
        let mut bench = Bench::associated();
        let session = open5gs(&mut bench);
        let ies = [forwarding_pdr("0007", qfi.clone()), forwarding_far()];
        let added = accepted(&mut bench, &modification(3, session.up_seid, &ies));
        let rules = added.rules();
        let pdr = rules.downlink.iter().find(|pdr| pdr.id == PdrId(7)).unwrap();
        assert_eq!(
            (pdr.teid, pdr.qfis.len()),
            (Some(added.teids()[0]), usize::from(!qfi.is_empty()))
        );
        assert!(pdr.qers.is_empty(), "the packet says the QFI");
        let far = &rules.fars[usize::from(pdr.far)];
        assert_eq!(far.outer_header_creation.unwrap().tunnel().unwrap().teid, Teid(0xaaa));
        assert_eq!(far.action, ApplyAction::FORW);
    }
}

#[test]
fn headers_and_ies_that_say_nothing_new_are_accepted() {
    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &free5gc_establishment());
    assert_eq!(raw(&session.answer).header.seid, Some(Seid(CP_SEID)));
    // An unchanged F-SEID; MP with priority 12, spare bits.
    let ies = [ie(T::F_SEID, CP_F_SEID), free5gc_tunnel("02", "00000011", "00")];
    let request = with_header((0x3b, 0xc3), 52, (session.up_seid, 3), &ies);
    accepted(&mut bench, &request);
    let known = bench.node.store().session(session.up_seid).unwrap().cp_f_seid();
    assert_eq!(known.seid, Seid(CP_SEID));
    // SD-Core's deletion: an F-SEID that the message does not have, 12 in the spare half.
    let f_seid = [ie(T::F_SEID, CP_F_SEID)];
    let deletion = with_header((0x23, 0x0c), 54, (session.up_seid, 4), &f_seid);
    let answer = bench.answer(smf(10), &deletion);
    let adit_pfcp::Message::SessionDeletionResponse(body) = decode(&answer) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    // OAI's establishment has its own SEID in the header.
    let oai = oai_establishment();
    assert_eq!(raw(&oai).header.seid, Some(Seid(CP_SEID)));
    assert_ne!(accepted(&mut bench, &oai).up_seid, Seid(CP_SEID));
}
