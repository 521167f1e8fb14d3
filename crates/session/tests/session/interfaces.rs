//! Several GTP-U interfaces: which one the tunnels of a rule have.

use core::net::Ipv4Addr;

use adit_rules::{DestinationInterface, GtpuTunnel, OuterHeaderCreation, SourceInterface};
use adit_session::{
    FTeidSpec, InterfaceType, LocalAddresses, LocalInterface, PdrSpec, Provisioning, Refusal,
    SessionStore,
};
use adit_types::{FarId, InterfaceRole, InterfaceSet, PdrId, Teid};

use crate::builders::*;

const N3_SLICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 33);
const N9: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
const N4U: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 44);

/// N3 for every name, N3 of "slice", N9, N4-u, N6.
fn five_interfaces() -> SessionStore {
    let interface = |role, name: Option<&str>, v4: Ipv4Addr| LocalInterface {
        network_instance: name.map(Box::from),
        ..LocalInterface::of_role(role, LocalAddresses { v4: Some(v4), v6: None })
    };
    let interfaces = vec![
        interface(InterfaceRole::N3, None, N3),
        interface(InterfaceRole::N3, Some("slice"), N3_SLICE),
        interface(InterfaceRole::N9, None, N9),
        interface(InterfaceRole::N4u, None, N4U),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ];
    store_with(16, Provisioning { interfaces, ..Provisioning::default() })
}

/// A PDR without anything but a tunnel.
fn tunneled(
    source: SourceInterface,
    name: Option<&str>,
    reference: Option<InterfaceType>,
    f_teid: FTeidSpec,
) -> PdrSpec {
    let mut pdr = uplink(1);
    pdr.id = PdrId(9);
    pdr.qers.clear();
    pdr.pdi = adit_session::PdiSpec {
        f_teid: Some(f_teid),
        network_instance: name.map(Box::from),
        interface_type: reference,
        ..pdi(source)
    };
    pdr
}

#[test]
fn chosen_f_teid_has_the_address_of_the_side_and_the_network_instance() {
    use SourceInterface::{Access, Core};
    let cases = [
        (Access, None, None, N3, 0b0_0001),
        (Access, Some("internet"), None, N3, 0b0_0001),
        (Access, Some("SLICE"), None, N3_SLICE, 0b0_0010),
        (Access, None, Some(15), N9, 0b0_0100),
        (Core, None, None, N9, 0b0_0100),
        (Core, Some("slice"), None, N3_SLICE, 0b0_0010),
    ];
    for (source, name, reference, wanted, interfaces) in cases {
        let mut store = five_interfaces();
        let mut change = session(1);
        change.create_pdrs.push(tunneled(source, name, reference.map(InterfaceType), CHOOSE));
        let established = store.establish(OWNER, CP, change).unwrap();
        let made = established.created.iter().find(|made| made.pdr == PdrId(9)).unwrap();
        assert_eq!(made.f_teid.v4, Some(wanted), "{source:?} {name:?} {reference:?}");
        let rules = established.delta.rules.unwrap();
        let mut entries = rules.uplink.iter().chain(&rules.downlink);
        let entry = entries.find(|entry| entry.id == PdrId(9)).unwrap();
        assert_eq!(entry.interfaces, InterfaceSet(interfaces), "{source:?} {name:?}");
    }
}

#[test]
fn given_f_teid_is_ours_on_an_interface_of_the_network_instance() {
    let given = |v4| FTeidSpec::Given { teid: Teid(0x77), v4: Some(v4), v6: None };
    let establish = |name, v4| {
        let mut change = session(1);
        change.create_pdrs.push(tunneled(SourceInterface::Access, name, None, given(v4)));
        five_interfaces().establish(OWNER, CP, change).map(|_| ())
    };
    assert_eq!(establish(None, N9), Ok(()));
    assert_eq!(establish(Some("slice"), N3_SLICE), Ok(()));
    let foreign =
        |addr: Ipv4Addr| Err(Refusal::ForeignAddress { pdr: PdrId(9), addr: addr.into() });
    assert_eq!(establish(Some("internet"), N3_SLICE), foreign(N3_SLICE));
    let unknown = Ipv4Addr::new(192, 0, 2, 200);
    assert_eq!(establish(None, unknown), foreign(unknown));
}

#[test]
fn tunnel_leaves_through_the_interfaces_of_its_side() {
    use DestinationInterface::{Access, Core};
    let cases = [
        (Access, None, 0b0_0011),
        (Access, Some("slice"), 0b0_0010),
        (Access, Some("internet"), 0b0_0001),
        (Core, None, 0b0_0100),
        (Core, Some("slice"), 0b0_0010),
    ];
    for (destination, name, wanted) in cases {
        let mut store = five_interfaces();
        let mut change = session(1);
        let far = change.create_fars.iter_mut().find(|far| far.id == FarId(2)).unwrap();
        let parts = far.forwarding.as_mut().unwrap();
        parts.destination = destination;
        parts.network_instance = name.map(Box::from);
        let established = store.establish(OWNER, CP, change).unwrap();
        let rules = established.delta.rules.unwrap();
        let far = rules.fars.iter().find(|far| far.id == FarId(2)).unwrap();
        assert_eq!(far.interfaces, InterfaceSet(wanted), "{destination:?} {name:?}");
    }
}

#[test]
fn family_of_a_tunnel_is_one_of_its_side() {
    let mut store = five_interfaces();
    let mut change = session(1);
    let tunnel = GtpuTunnel { teid: Teid(7), addr: "2001:db8::7".parse().unwrap() };
    let far = change.create_fars.iter_mut().find(|far| far.id == FarId(2)).unwrap();
    far.forwarding.as_mut().unwrap().outer_header_creation =
        Some(OuterHeaderCreation::Gtpu(tunnel));
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::TunnelFamilyUnavailable { far: FarId(2) });
}
