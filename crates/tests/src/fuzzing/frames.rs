//! Frames from the wire.

use core::cell::RefCell;

use adit_session::FTeidSpec;
use adit_testkit::packet::PacketBuilder;
use adit_types::MacAddr;
use adit_wire::Malformed;
use adit_wire::gtpu_ext::{ExtensionType, GtpuExtensions};
use adit_wire::gtpu_ie::GtpuIes;
use adit_wire::parse::{five_tuple, parse_frame, parse_gtpu, parse_ip};

use crate::scenario;
use crate::world::{InjectedFrame, World};

use super::input::FuzzInput;

/// Longest frame: the MTU of the interfaces with a VLAN tag.
const FRAME_BYTES_MAX: usize = 1518;

/// The parse walk over octets taken as a frame, as an IP packet and as a GTP-U message.
pub(super) fn gtpu(data: &[u8]) {
    if let Ok(frame) = parse_frame(data) {
        walk_ip(&data[usize::from(frame.l3_offset)..]);
    }
    walk_ip(data);
    walk_gtpu(data);
    assert!(GtpuIes::new(data).take(data.len() + 1).count() <= data.len());
}

fn walk_ip(packet: &[u8]) {
    for verify_checksum in [true, false] {
        let Ok(ip) = parse_ip(packet, verify_checksum) else { continue };
        let payload = ip.payload(packet);
        assert!(payload.len() <= packet.len());
        let _ = five_tuple(packet, &ip);
        walk_gtpu(payload);
    }
}

fn walk_gtpu(message: &[u8]) {
    let parsed = parse_gtpu(message);
    if let Ok(gtpu) = &parsed {
        assert!(gtpu.payload(message).len() <= message.len());
    }
    let (Some(first), Some(rest)) = (message.first(), message.get(1..)) else { return };
    let chain: Result<Vec<_>, Malformed> =
        GtpuExtensions::new(ExtensionType(*first), rest).collect();
    if let Ok(chain) = chain {
        assert!(chain.len() <= rest.len());
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn fresh_world() -> World {
    let mut world = scenario::world(&scenario::plain_layout(0));
    for host in 2..5 {
        world.establish(&scenario::plain_session(host, "10.0.3.7")).expect("a session");
    }
    world
}

/// Frames for a pipeline with three sessions, and for the oracle.
pub(super) fn datapath(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(fresh_world);
        let mut arrivals = Vec::new();
        while !input.is_empty() && arrivals.len() < 8 {
            arrivals.push(arrival(&mut input, world));
        }
        let outcome = world.exchange(&arrivals).and_then(|()| world.expire_neighbor_waits());
        if let Err(difference) = outcome {
            panic!("{difference}");
        }
    });
}

fn arrival(input: &mut FuzzInput<'_>, world: &World) -> InjectedFrame {
    let choice = input.u8();
    let port = usize::from(choice & 1);
    let mut octets = input.bytes().to_vec();
    let own = &world.oracle.interfaces[port];
    let link = PacketBuilder::ethernet(MacAddr(own.mac), MacAddr([2, 4, 10, 0, 3, 7]));
    let frame = match choice >> 1 & 3 {
        // As it is.
        0 => octets,
        // Behind a MAC header that is for us.
        1 => {
            let mut frame = vec![2, 0, 0, 0, 0x10, own.mac[5], 2, 4, 10, 0, 3, 7];
            frame.append(&mut octets);
            frame
        }
        // As the payload of a GTP-U message to one of the sessions.
        2 => {
            let teids = teids(world);
            let teid = teids[input.below(teids.len())];
            let tunnel = link.ipv4("10.0.3.7", "10.0.3.2").udp(2152, 2152).gtpu(teid);
            let tunnel = if choice & 8 == 0 { tunnel } else { tunnel.psc_ul(choice >> 4) };
            tunnel.payload(&octets).build()
        }
        // As UDP to the GTP-U port.
        _ => link.ipv4("10.0.3.7", "10.0.3.2").udp(2152, 2152).payload(&octets).build(),
    };
    let mut frame = frame;
    frame.truncate(FRAME_BYTES_MAX);
    InjectedFrame { worker: 0, port: own.port, frame }
}

fn teids(world: &World) -> Vec<u32> {
    let pdrs = world.oracle.sessions.iter().flat_map(|(_, session)| &session.pdrs);
    let given = pdrs.filter_map(|pdr| match pdr.pdi.f_teid? {
        FTeidSpec::Given { teid, .. } => Some(teid.0),
        FTeidSpec::Choose { .. } => None,
    });
    given.collect()
}
