//! The matches of PDRs and the actions of FARs and URRs.

use adit_pfcp::{Cause, IeType as T};
use adit_rules::sdf::AddrMatch;
use adit_rules::{ApplyAction, UeAddresses};
use adit_session::{LocalAddresses, LocalInterface, Provisioning, StoreConfig, TunnelRoutes};
use adit_types::{InterfaceId, InterfaceRole, InterfaceSet, Nanos, PdrId, Precedence, Qfi, Teid};

use super::octets::*;
use super::planes::*;
use crate::smf::*;

/// SD-Core never sets S/D; Open5GS's downlink PDR of a flow names no UE.
#[test]
fn ue_address_without_s_d_is_the_destination_and_a_downlink_pdr_may_name_none() {
    let session = accepted(&mut Bench::associated(), &sd_core_establishment());
    let ue = UeAddresses { v4: Some([10, 250, 0, 1].into()), v6: None };
    assert!(session.rules().downlink.iter().all(|pdr| pdr.ue == ue));
    let mut bench = Bench::associated();
    let up_seid = open5gs(&mut bench).up_seid;
    let flow = open5gs_flow(&[sdf("permit out icmp from any to assigned")]);
    let added = accepted(&mut bench, &modification(3, up_seid, &flow));
    let down = &added.rules().downlink[0];
    assert_eq!((down.id, down.ue.is_empty(), down.sdf.len()), (PdrId(5), true, 1));
    let of_ue = bench.node.store().session_of_ue([10, 45, 0, 2].into()).unwrap();
    assert_eq!(of_ue.up_seid(), up_seid, "the session is found by its other PDR");
}

/// Open5GS sends labels, the others text, SD-Core also nothing.
#[test]
fn network_instance_is_the_same_as_labels_and_as_text_and_of_length_zero_is_none() {
    let interfaces = interfaces_of_two_networks();
    let provisioning = Provisioning { interfaces, ..Provisioning::default() };
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(adit_n4::NodeConfig { store, ..config() });
    bench.associate(10);
    let internet = InterfaceSet::NONE.with(InterfaceId(0)).with(InterfaceId(1));
    let by_labels = open5gs(&mut bench);
    let by_text = accepted(&mut bench, &free5gc_establishment());
    for rules in [by_labels.rules(), by_text.rules()] {
        assert_eq!(rules.downlink[0].interfaces, internet);
        let uplink = rules.uplink[0].far;
        assert_eq!(rules.fars[usize::from(uplink)].interfaces, internet);
    }
    let empty = accepted(&mut bench, &sd_core_establishment());
    let all = internet.with(InterfaceId(2));
    assert_eq!(empty.rules().fars[0].interfaces, all, "length 0");
    assert_eq!(empty.rules().downlink[0].interfaces, internet);
}

/// free5GC names neither network instance nor interface type towards a UPF on N9.
#[test]
fn tunnel_leaves_where_a_route_leads_and_is_refused_without_one_except_to_the_cp_function() {
    let n9 = LocalAddresses { v4: Some([10, 0, 9, 3].into()), v6: None };
    let n9 = LocalInterface::of_role(InterfaceRole::N9, n9);
    let links = [("198.51.100.0/24", 0), ("10.0.9.0/24", 2)];
    let links = links.map(|(link, id)| (link.parse().unwrap(), InterfaceId(id)));
    let provisioning = Provisioning {
        interfaces: [interfaces(), vec![n9]].concat(),
        tunnel_routes: TunnelRoutes::new(links.to_vec()),
        ..Provisioning::default()
    };
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(adit_n4::NodeConfig { store, ..config() });
    bench.associate(10);
    let up_seid = accepted(&mut bench, &free5gc_establishment()).up_seid;
    let tunnel = |peer: &str| {
        let header = ie(T::OUTER_HEADER_CREATION, &format!("0100 00000001 {peer}"));
        let parts = [ie(T::DESTINATION_INTERFACE, "00"), header];
        let parts = group(T::UPDATE_FORWARDING_PARAMETERS, parts);
        group(T::UPDATE_FAR, [ie(T::FAR_ID, "00000004"), ie(T::APPLY_ACTION, "02"), parts])
    };
    let to_upf = accepted(&mut bench, &modification(3, up_seid, &[tunnel("0a000902")]));
    let rules = to_upf.rules();
    let far = &rules.fars[usize::from(rules.downlink[0].far)];
    assert_eq!(far.interfaces, InterfaceSet::NONE.with(InterfaceId(2)));
    let refusal = refused(&mut bench, &modification(4, up_seid, &[tunnel("0a006301")]));
    let wanted = (Cause::RuleCreationModificationFailure, Some(T::OUTER_HEADER_CREATION));
    assert_eq!(refusal, wanted);
    // Its FAR sends to the SMF's GTP-U address, to which no route leads.
    open5gs(&mut bench);
}

/// free5GC needs this.
#[test]
fn forwarding_to_access_drops_until_the_tunnel_is_known() {
    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &free5gc_establishment());
    let far = |rules: &adit_rules::SessionRules| {
        let far = &rules.fars[usize::from(rules.downlink[0].far)];
        (far.action, far.outer_header_creation.and_then(|outer| outer.tunnel()))
    };
    // DROP together with FORW: workers drop the packets as `tunnel_unknown`.
    assert_eq!(far(session.rules()), (ApplyAction::FORW | ApplyAction::DROP, None));
    let pdi =
        [ie(T::SOURCE_INTERFACE, "01"), text("internet"), ie(T::UE_IP_ADDRESS, "06 0a3c0001")];
    let pdr = [
        ie(T::PDR_ID, "0004"),
        ie(T::PRECEDENCE, "000000ff"),
        group(T::PDI, pdi),
        ie(T::FAR_ID, "00000004"),
        ie(T::QER_ID, "00000009"),
        ie(T::QER_ID, "00000005"),
    ];
    let ies = [
        ie(T::F_SEID, CP_F_SEID),
        group(T::UPDATE_PDR, pdr),
        free5gc_tunnel("02", "00000011", "00"),
    ];
    let known = accepted(&mut bench, &modification(3, session.up_seid, &ies));
    let (action, tunnel) = far(known.rules());
    assert_eq!((action, tunnel.unwrap().teid), (ApplyAction::FORW, Teid(0x11)));
}

/// Open5GS goes idle by Apply Action alone, SD-Core with parameters that have no tunnel.
#[test]
fn fars_need_no_parameters_while_they_do_not_forward_and_idle_keeps_the_tunnel() {
    let mut bench = Bench::associated();
    let session = open5gs(&mut bench);
    assert_eq!(session.rules().fars[0].action, ApplyAction::BUFF | ApplyAction::NOCP);
    let tunnel = [open5gs_tunnel("00000001", None)];
    accepted(&mut bench, &modification(3, session.up_seid, &tunnel));
    let idle_of = |rest: Vec<u8>| {
        group(T::UPDATE_FAR, [ie(T::FAR_ID, "00000001"), ie(T::APPLY_ACTION, "0c00"), rest])
    };
    let without_tunnel = [ie(T::DESTINATION_INTERFACE, "00"), text("internet")];
    let rests = [ie(T::BAR_ID, "01"), group(T::UPDATE_FORWARDING_PARAMETERS, without_tunnel)];
    for (sequence, rest) in (4..).step_by(2).zip(rests) {
        let idle = accepted(&mut bench, &modification(sequence, session.up_seid, &[idle_of(rest)]));
        assert_eq!(idle.rules().fars[0].action, ApplyAction::BUFF | ApplyAction::NOCP);
        let kept = bench.node.store().session(session.up_seid).unwrap().fars();
        assert_eq!(kept[0].tunnel().unwrap().teid, Teid(0x101), "kept for what comes back");
        let forward = [ie(T::FAR_ID, "00000001"), ie(T::APPLY_ACTION, "02")];
        let active = [group(T::UPDATE_FAR, forward)];
        let active = accepted(&mut bench, &modification(sequence + 1, session.up_seid, &active));
        let outer = active.rules().fars[0].outer_header_creation.unwrap();
        assert_eq!(outer.tunnel().unwrap().teid, Teid(0x101));
    }
    // SD-Core's FAR that drops has no parameters, and gets them with the tunnel.
    let session = accepted(&mut bench, &sd_core_establishment());
    assert_eq!(session.rules().fars[1].action, ApplyAction::DROP);
    let parts = [
        ie(T::DESTINATION_INTERFACE, "00"),
        text("internet"),
        ie(T::OUTER_HEADER_CREATION, "0100 00000022 c6336402"),
    ];
    let parts = group(T::UPDATE_FORWARDING_PARAMETERS, parts);
    let far = group(T::UPDATE_FAR, [ie(T::FAR_ID, "00000002"), ie(T::APPLY_ACTION, "02"), parts]);
    let ies = [ie(T::F_SEID, CP_F_SEID), far];
    let active = accepted(&mut bench, &modification(20, session.up_seid, &ies));
    assert_eq!(active.rules().fars[1].action, ApplyAction::FORW);
}

/// Open5GS sends the parts that change, free5GC and SD-Core the whole PDI.
#[test]
fn pdi_in_an_update_may_be_a_patch_or_whole() {
    let mut bench = Bench::associated();
    let session = open5gs(&mut bench);
    let first = session.teids()[0];
    let up_seid = session.up_seid;
    let flow = open5gs_flow(&[sdf("permit out 17 from any to assigned")]);
    accepted(&mut bench, &modification(3, up_seid, &flow));
    let patch = |id, interface, filter: Vec<u8>, reference| {
        let pdi =
            [ie(T::SOURCE_INTERFACE, interface), filter, ie(T::TGPP_INTERFACE_TYPE, reference)];
        group(T::UPDATE_PDR, [ie(T::PDR_ID, id), group(T::PDI, pdi)])
    };
    let tcp = || sdf("permit out 6 from any to assigned");
    let ies = [patch("0005", "01", tcp(), "11"), patch("0006", "00", tcp(), "0b")];
    let patched = accepted(&mut bench, &modification(4, up_seid, &ies));
    assert!(patched.created.is_empty());
    let up = &patched.rules().uplink[0];
    assert_eq!((up.id, up.teid, &*up.qfis), (PdrId(6), Some(first), &[Qfi::new(2).unwrap()][..]));
    assert_eq!(up.sdf[0].protocol, Some(6));
    assert_eq!(patched.rules().downlink[0].sdf[0].protocol, Some(6));
    let pdr = |bench: &Bench| bench.node.store().session(up_seid).unwrap().pdrs()[3].pdi.clone();
    assert_eq!(pdr(&bench).network_instance.as_deref(), Some("internet"));
    let ies = [patch("0006", "00", Vec::new(), "0b")];
    accepted(&mut bench, &modification(5, up_seid, &ies));
    assert!(pdr(&bench).sdf.is_empty() && pdr(&bench).f_teid.is_some(), "no filter is left");

    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &free5gc_establishment());
    let whole = [
        ie(T::SOURCE_INTERFACE, "00"),
        ie(T::F_TEID, "01 00000002 c6336401"),
        text("internet"),
        ie(T::UE_IP_ADDRESS, "02 0a3c0001"),
    ];
    let ies = [group(T::UPDATE_PDR, [ie(T::PDR_ID, "0007"), group(T::PDI, whole)])];
    accepted(&mut bench, &modification(3, session.up_seid, &ies));
    let replaced = bench.node.store().session(session.up_seid).unwrap().pdrs()[2].clone();
    assert_eq!(replaced.pdi.f_teid.unwrap().teid, Teid(2));
    assert!(replaced.pdi.sdf.is_empty());
}

/// Filters as policies write them.
#[test]
fn flow_descriptions_of_policies_are_understood() {
    let texts = [
        "permit out icmp from any to assigned",
        "permit out udp from 10.200.136.98/32 1-65535 to assigned 50021",
        "permit out 17 from 172.20.166.84 20361 to 10.45.0.2",
        "permit out ip from any to 2001:db8:cafe::/120",
        "permit out tcp from any 80,443,8000-8080 to assigned",
        "permit out sctp from 2001:db8::1 to assigned",
        "permit out icmpv6 from any to assigned",
        "permit out esp from any to assigned",
        "permit out ah from any to assigned",
        "permit out gre from any to assigned",
    ];
    let mut bench = Bench::associated();
    let up_seid = open5gs(&mut bench).up_seid;
    let filters: Vec<Vec<u8>> = texts.into_iter().map(sdf).collect();
    let added = accepted(&mut bench, &modification(3, up_seid, &open5gs_flow(&filters)));
    let (up, down) = (&added.rules().uplink[0], &added.rules().downlink[0]);
    assert_eq!(up.sdf, down.sdf, "uplink filters are written as seen downlink");
    let protocols: Vec<_> = up.sdf.iter().map(|filter| filter.protocol).collect();
    let expected = [1, 17, 17, 0, 6, 132, 58, 50, 51, 47];
    assert_eq!(protocols, expected.map(|number| Some(number).filter(|number| *number != 0)));
    let host = AddrMatch::V4("172.20.166.84/32".parse().unwrap());
    assert_eq!((up.sdf[2].remote, up.sdf[2].remote_ports[0].first), (host, 20_361));
    assert_eq!(up.sdf[1].local_ports[0].last, 50_021);
    assert_eq!(up.sdf[4].remote_ports.len(), 3);

    // Bidirectional: the text downlink, the identifier alone uplink.
    let text = b"permit out 6 from 10.9.9.9 to assigned";
    let len = u16::try_from(text.len()).unwrap().to_be_bytes();
    let defined = octets(T::SDF_FILTER, &[&[0x11, 0][..], &len, text, &[0, 0, 0, 1]].concat());
    let of = |id, filter: Vec<u8>, interface| {
        let pdi = [ie(T::SOURCE_INTERFACE, interface), filter];
        group(T::UPDATE_PDR, [ie(T::PDR_ID, id), group(T::PDI, pdi)])
    };
    let ies = [of("0005", defined, "01"), of("0006", ie(T::SDF_FILTER, "1000 00000001"), "00")];
    let both = accepted(&mut bench, &modification(4, up_seid, &ies));
    assert_eq!(both.rules().uplink[0].sdf, both.rules().downlink[0].sdf);
    assert_eq!(both.rules().uplink[0].sdf[0].protocol, Some(6));

    // SD-Core's rule without a text matches everything.
    let any = accepted(&mut Bench::associated(), &sd_core_establishment());
    let without_text = any.rules().uplink.iter().find(|pdr| pdr.id == PdrId(3)).unwrap();
    assert_eq!(&without_text.sdf[..], [adit_rules::PacketFilter::ANY]);
}

/// Octets of Release 15 and of later ones, IEs in any order, unknown IEs.
#[test]
fn short_and_long_forms_mean_the_same_and_unknown_ies_are_ignored() {
    let with = |action: &str, triggers: &str, removal: &str| {
        let mut ies = [open5gs_pdrs(), open5gs_rest()].concat();
        ies.reverse();
        let bytes = |ie_type, value: &str| ie(ie_type, value);
        let replace = |message: Vec<u8>, old: Vec<u8>, new: Vec<u8>| {
            let at = message.windows(old.len()).position(|octets| octets == old).unwrap();
            // The groups around it are rebuilt by hand: one level is enough here.
            let mut group = message[4..].to_vec();
            group.splice(at - 4..at - 4 + old.len(), new);
            octets(T(u16::from_be_bytes([message[0], message[1]])), &group)
        };
        for ies in &mut ies {
            for (ie_type, old, new) in [
                (T::APPLY_ACTION, "0200", action),
                (T::REPORTING_TRIGGERS, "020000", triggers),
                (T::OUTER_HEADER_REMOVAL, "06", removal),
            ] {
                let old = bytes(ie_type, old);
                if ies.windows(old.len()).any(|octets| octets == old) {
                    *ies = replace(core::mem::take(ies), old, bytes(ie_type, new));
                }
            }
        }
        ies.push(octets(T(0x7abc), &[1, 2, 3]));
        ies.push(octets(T(0x8abc), &[0, 9, 3]));
        let session = accepted(&mut Bench::associated(), &establishment(2, &ies));
        let mut rules = session.rules.unwrap();
        rules.fars.sort_by_key(|far| far.id);
        (rules.fars, rules.uplink[0].outer_header_removal, rules.urrs[0].report)
    };
    let long = with("0200", "020000", "0600");
    assert_eq!(with("02", "0200", "06"), long);
    assert_eq!(long.0[1].action, ApplyAction::FORW);
}

/// Open5GS's URR is never reached; free5GC's quota comes with a validity time of its own.
#[test]
fn urrs_that_ask_for_little_do_not_stop_traffic() {
    let mut bench = Bench::associated();
    let session = open5gs(&mut bench);
    assert!(!session.rules().urrs[0].stopped);
    let up_seid = session.up_seid;
    let urr = [
        ie(T::URR_ID, "00000007"),
        ie(T::MEASUREMENT_METHOD, "02"),
        ie(T::REPORTING_TRIGGERS, "0300"),
        ie(T::MEASUREMENT_PERIOD, "0000000a"),
        ie(T::VOLUME_THRESHOLD, "06 0000000000100000 0000000000100000"),
        ie(T::MEASUREMENT_INFORMATION, "11"),
    ];
    let pdr = |id, qers: &str| {
        let urr_ids = [ie(T::URR_ID, "00000007"), ie(T::QER_ID, qers)].concat();
        group(T::UPDATE_PDR, [ie(T::PDR_ID, id), urr_ids])
    };
    let ies = [group(T::CREATE_URR, urr), pdr("0001", "00000001"), pdr("0002", "00000001")];
    let measured = accepted(&mut bench, &modification(3, up_seid, &ies));
    let entry = |rules: &adit_rules::SessionRules| {
        rules.urrs.iter().find(|urr| urr.id.0 == 7).cloned().unwrap()
    };
    assert!(entry(measured.rules()).before_qos && !entry(measured.rules()).stopped);
    for validity in ["00000000", "00000001", "ffffffff"] {
        let mut bench = Bench::associated();
        let up_seid = open5gs(&mut bench).up_seid;
        let granted = [
            ie(T::URR_ID, "00000001"),
            ie(T::VOLUME_THRESHOLD, "07 0000000000200000 0000000000100000 0000000000100000"),
            ie(T::VOLUME_QUOTA, "07 0000000000400000 0000000000200000 0000000000200000"),
            ie(T::QUOTA_VALIDITY_TIME, validity),
        ];
        let ies = [group(T::UPDATE_URR, granted)];
        let after = accepted(&mut bench, &modification(3, up_seid, &ies));
        assert!(!after.rules().urrs[0].stopped);
        // Every change until long after the time is over leaves traffic going.
        let until = Nanos::from_secs(100);
        while let Some(at) = bench.node.poll_timeout().filter(|&at| at <= until) {
            bench.now = bench.now.max(at);
            bench.node.handle_timeout(bench.now);
            while let Some((id, delta)) = bench.node.poll_delta() {
                bench.node.handle_published(bench.now, id);
                let Some(rules) = delta.rules else { continue };
                assert!(rules.urrs.iter().all(|urr| !urr.stopped), "{validity}");
            }
            let sent = bench.sent();
            assert!(of_type(&sent, 56).is_empty(), "nobody asked for a report");
            for heartbeat in of_type(&sent, 1) {
                let sequence = raw(&heartbeat.bytes).header.sequence;
                bench.ask(smf(10), &heartbeat_response(sequence));
            }
        }
        assert_eq!(bench.node.associations().count(), 1);
    }
}

fn heartbeat_response(sequence: u32) -> Vec<u8> {
    let body =
        adit_pfcp::message::HeartbeatResponse::new(adit_pfcp::ie::RecoveryTimeStamp(SMF_STARTED));
    encode(None, sequence, &body)
}

/// OAI writes the type of S1-U on the side of the data network.
#[test]
fn interface_type_of_another_interface_is_no_reason_to_refuse() {
    let mut bench = Bench::associated();
    let session = accepted(&mut bench, &oai_establishment());
    let active = accepted(&mut bench, &modification(3, session.up_seid, &oai_downlink()));
    assert_eq!(active.rules().downlink[0].precedence, Precedence(0));
    assert_eq!(modified(&active.answer).cause, Cause::RequestAccepted);
}
