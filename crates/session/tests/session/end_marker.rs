//! End Markers: one for each FAR that requests it and leaves its tunnel, with the QoS flow that
//! leaves.

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation};
use adit_session::{
    Change, EndMarker, FarUpdate, ForwardingUpdate, PdrSpec, Qer, QerUpdate, SessionChange,
    SessionStore,
};
use adit_types::{FarId, InterfaceSet, PdrId, QerId, Qfi, Seid};

use crate::builders::*;

/// The interface of the builders' store that faces the RAN.
const N3: InterfaceSet = InterfaceSet(1);

/// Another tunnel of the gNB.
fn gnb(teid: u32) -> HeaderCreation {
    crate::builders::tunnel(teid)
}

/// FAR 2 and 3 into one tunnel; PDR 2 with QFI 9 by FAR 2, PDR 3 with QFI 5 by FAR 3.
fn two_flows() -> SessionChange {
    let mut change = session(1);
    change.create_fars.push(far(3, DestinationInterface::Access));
    change.create_qers.push(Qer { qfi: Qfi::new(5), ..qer(2) });
    let (id, far, qers) = (PdrId(3), Some(FarId(3)), vec![QerId(2)]);
    change.create_pdrs.push(PdrSpec { id, far, qers, ..downlink(1) });
    change
}

fn established(change: SessionChange) -> (SessionStore, Seid, GtpuTunnel) {
    let mut store = store(4);
    let tunnel = change.create_fars[1].tunnel().unwrap();
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    (store, up_seid, tunnel)
}

/// FAR `id` moves to another tunnel, or stays, and requests an End Marker.
fn to(id: u32, outer: Option<HeaderCreation>) -> FarUpdate {
    FarUpdate {
        id: FarId(id),
        forwarding: Some(ForwardingUpdate {
            outer_header_creation: outer.into(),
            ..ForwardingUpdate::default()
        }),
        send_end_marker: true,
        ..FarUpdate::default()
    }
}

fn markers(store: &mut SessionStore, up_seid: Seid, fars: &[FarUpdate]) -> Vec<EndMarker> {
    let change = SessionChange { update_fars: fars.to_vec(), ..SessionChange::default() };
    store.modify(up_seid, change).unwrap().end_markers
}

#[test]
fn each_far_that_leaves_gets_a_marker_with_its_flow_though_they_share_a_tunnel() {
    let (mut store, up_seid, tunnel) = established(two_flows());
    let moved = [to(2, Some(gnb(9))), to(3, Some(gnb(9)))];
    let expected = [Qfi::new(9), Qfi::new(5)].map(|qfi| EndMarker { tunnel, interfaces: N3, qfi });
    assert_eq!(markers(&mut store, up_seid, &moved), expected);
}

/// PDR 3 also has the QER of the session AMBR, whose QFI is that of the default flow.
#[test]
fn marker_has_the_flow_that_packets_had() {
    let mut change = two_flows();
    change.create_pdrs[2].qers = vec![QerId(1), QerId(2)];
    let (mut store, up_seid, tunnel) = established(change);
    let expected = [Qfi::new(9), Qfi::new(5)].map(|qfi| EndMarker { tunnel, interfaces: N3, qfi });
    let moved = [to(2, Some(gnb(9))), to(3, Some(gnb(9)))];
    assert_eq!(markers(&mut store, up_seid, &moved), expected);
}

#[test]
fn far_that_does_not_ask_gets_no_marker() {
    let (mut store, up_seid, tunnel) = established(two_flows());
    let mut silent = to(2, Some(gnb(9)));
    silent.send_end_marker = false;
    let asking = to(3, Some(gnb(9)));
    let expected = [EndMarker { tunnel, interfaces: N3, qfi: Qfi::new(5) }];
    assert_eq!(markers(&mut store, up_seid, &[silent, asking]), expected);
}

#[test]
fn unchanged_tunnel_gets_no_marker_and_no_error() {
    let (mut store, up_seid, tunnel) = established(two_flows());
    let same = HeaderCreation::Gtpu(tunnel);
    assert_eq!(markers(&mut store, up_seid, &[to(2, Some(same)), to(3, None)]), []);
}

#[test]
fn far_that_buffers_before_or_after_gets_no_marker() {
    let (mut store, up_seid, tunnel) = established(two_flows());
    let act = |update: FarUpdate, action| FarUpdate { action: Change::Set(action), ..update };
    let away = to(2, Some(gnb(9)));
    let buffers = act(away, ApplyAction::BUFF);
    assert_eq!(markers(&mut store, up_seid, &[buffers]), []);
    let back = act(to(2, Some(gnb(11))), ApplyAction::FORW);
    assert_eq!(markers(&mut store, up_seid, &[back]), [], "nothing went through it");
    let onwards = act(to(3, Some(gnb(11))), ApplyAction::FORW);
    let expected = [EndMarker { tunnel, interfaces: N3, qfi: Qfi::new(5) }];
    assert_eq!(markers(&mut store, up_seid, &[onwards]), expected);
}

#[test]
fn far_of_several_flows_or_of_none_names_no_flow() {
    let mut shared = two_flows();
    shared.create_pdrs[2].far = Some(FarId(2));
    let (mut store, up_seid, tunnel) = established(shared);
    let moved = [to(2, Some(gnb(9)))];
    assert_eq!(
        markers(&mut store, up_seid, &moved),
        [EndMarker { tunnel, interfaces: N3, qfi: None }]
    );

    let mut unmarked = session(1);
    unmarked.create_qers[0].qfi = None;
    let (mut store, up_seid, tunnel) = established(unmarked);
    assert_eq!(
        markers(&mut store, up_seid, &moved),
        [EndMarker { tunnel, interfaces: N3, qfi: None }]
    );
}

#[test]
fn pdr_without_a_flow_does_not_hide_that_of_the_others() {
    let mut change = session(1);
    let (id, far, qers) = (PdrId(3), Some(FarId(2)), Vec::new());
    change.create_pdrs.push(PdrSpec { id, far, qers, ..downlink(1) });
    let (mut store, up_seid, tunnel) = established(change);
    let moved = [to(2, Some(gnb(9)))];
    assert_eq!(
        markers(&mut store, up_seid, &moved),
        [EndMarker { tunnel, interfaces: N3, qfi: Qfi::new(9) }]
    );
}

#[test]
fn flow_is_that_of_the_path_that_is_left() {
    let (mut store, up_seid, tunnel) = established(session(1));
    let (id, qfi) = (QerId(1), Qfi::new(7));
    let change = SessionChange {
        update_fars: vec![to(2, Some(gnb(9)))],
        update_qers: vec![QerUpdate { id, qfi: qfi.into(), ..QerUpdate::default() }],
        ..SessionChange::default()
    };
    let found = store.modify(up_seid, change).unwrap().end_markers;
    assert_eq!(found, [EndMarker { tunnel, interfaces: N3, qfi: Qfi::new(9) }]);
}

#[test]
fn marker_towards_another_user_plane_function_names_no_flow() {
    let mut change = session(1);
    let outer = gnb(6);
    change.create_fars[0].forwarding.as_mut().unwrap().outer_header_creation = Some(outer);

    let HeaderCreation::Gtpu(tunnel) = outer else { unreachable!("it is one") };
    let (mut store, up_seid, _) = established(change);
    let moved = [to(1, Some(gnb(9)))];
    assert_eq!(
        markers(&mut store, up_seid, &moved),
        [EndMarker { tunnel, interfaces: N3, qfi: None }]
    );
}
