//! The node in front of a data plane that only records: which changes it gets, and when answers
//! leave.

use crate::smf::{Bench, SessionScript, decode, delete, establish, move_to, smf as peer};
use adit_pfcp::Message;
use adit_rules::{DataPlane, SessionKey, UsageCounts};
use adit_testkit::data_plane::DataPlaneRecorder;
use adit_types::{DomainId, SessionIndex, Teid, UsageSlot};

/// A node with an association, and its data plane.
fn node_and_plane() -> (Bench, DataPlaneRecorder) {
    let (mut bench, plane) = (Bench::associated(), DataPlaneRecorder::default());
    bench.node.set_usage_source(plane.usage_source());
    (bench, plane)
}

fn exchange(bench: &mut Bench, plane: &mut DataPlaneRecorder) -> usize {
    bench.node.apply_changes(plane, |_| {});
    bench.node.conclude_changes(bench.now, plane, usize::MAX)
}

#[test]
fn answer_leaves_once_the_data_plane_has_the_change_in_effect() {
    let (mut bench, mut plane) = node_and_plane();
    plane.hold();
    bench.node.handle_datagram(bench.now, peer(10), &establish(2, &SessionScript::new(1, 7)));
    assert_eq!(exchange(&mut bench, &mut plane), 0);
    assert_eq!((plane.sessions(), plane.unobserved()), (1, 1), "applied at once");
    assert!(bench.sent().is_empty(), "no packet is forwarded by the new rules yet");
    plane.release();
    assert_eq!(exchange(&mut bench, &mut plane), 1);
    let sent = bench.sent();
    let Message::SessionEstablishmentResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert!(body.cause.is_accepted());
}

#[test]
fn changes_are_concluded_in_portions_and_in_order() {
    let (mut bench, mut plane) = node_and_plane();
    for number in 1..=3_u16 {
        let script = SessionScript::new(number.into(), number);
        let request = establish(1 + u32::from(number), &script);
        bench.node.handle_datagram(bench.now, peer(10), &request);
    }
    bench.node.apply_changes(&mut plane, |_| {});
    let mut concluded = || bench.node.conclude_changes(bench.now, &mut plane, 2);
    assert_eq!([concluded(), concluded(), concluded()], [2, 1, 0]);
    let sent = bench.sent();
    let sequences = sent.iter().map(|sent| crate::smf::raw(&sent.bytes).header.sequence);
    assert!(sequences.eq(2..=4));
}

#[test]
fn data_plane_has_keys_and_rules_of_a_session_from_its_establishment_to_its_end() {
    let (mut bench, mut plane) = node_and_plane();
    let script = SessionScript::new(1, 7);
    bench.node.handle_datagram(bench.now, peer(10), &establish(2, &script));
    exchange(&mut bench, &mut plane);
    let index = SessionIndex(0);
    let ue = SessionKey::UeIpv4(DomainId(0), script.ue);
    assert_eq!((plane.session_of(ue), plane.keys()), (Some(index), 2), "the UE and a TEID");
    let tunnel = |plane: &DataPlaneRecorder| {
        let rules = plane.rules(index).unwrap();
        let created = rules.fars.iter().find_map(|far| far.outer_header_creation?.tunnel());
        created.unwrap().teid
    };
    assert_eq!(tunnel(&plane), script.gnb_teid);
    let sent = bench.sent();
    let Message::SessionEstablishmentResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let up_seid = body.up_f_seid.unwrap().seid;
    bench.node.handle_datagram(bench.now, peer(10), &move_to(3, up_seid, Teid(0x77)));
    exchange(&mut bench, &mut plane);
    assert_eq!((tunnel(&plane), plane.keys()), (Teid(0x77), 2));
    bench.node.handle_datagram(bench.now, peer(10), &delete(4, up_seid));
    exchange(&mut bench, &mut plane);
    assert_eq!((plane.sessions(), plane.keys(), plane.unobserved()), (0, 0, 0));
}

#[test]
fn usage_is_read_by_slot_from_the_data_plane() {
    let (_, plane) = node_and_plane();
    let counts = UsageCounts { ul_bytes: 5, ..UsageCounts::default() };
    plane.usage().set(UsageSlot(3), counts);
    let source = plane.usage_source();
    assert_eq!(source.usage(UsageSlot(3), 1), counts);
    assert_eq!(source.usage(UsageSlot(4), 1), UsageCounts::default());
}
