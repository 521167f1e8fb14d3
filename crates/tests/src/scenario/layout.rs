//! Layouts of worlds, and usual sessions.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_datapath::{EventQueues, STAGES};
use adit_pktio::ScheduleType;
use adit_rules::{
    ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, HeaderRemoval, SourceInterface,
    UeAddresses,
};
use adit_session::{
    FTeidSpec, Far, Forwarding, PdiSpec, PdrSpec, PdrTimes, Qer, QosPolicy, SessionChange, UeMatch,
    UeSide,
};
use adit_types::{FarId, Ipv6Prefix, PdrId, Precedence, QerId, Qfi, Roles, TcpMss, Teid};
use rand::Rng;
use rand::rngs::StdRng;

use super::{addr, one_chance_in};
use crate::oracle::{OracleCopied, OracleInterface, OracleRole, OracleRoute};
use crate::world::{CardSettings, World, WorldLayout};

/// Stations that are resolved at the start.
const STATIONS: [&str; 11] = [
    "10.0.3.1",
    "10.0.3.254",
    "2001:db8:3::1",
    "2001:db8:3::fe",
    "10.0.6.1",
    "2001:db8:6::1",
    "10.0.6.77",
    "2001:db8:6::77",
    "10.0.7.1",
    "10.0.4.1",
    "10.0.9.254",
];

fn interface(
    role: OracleRole,
    port: u16,
    vlan: u16,
    net: u16,
    mtu_bytes: usize,
) -> OracleInterface {
    let v4 = Ipv4Addr::new(10, 0, u8::try_from(net).unwrap(), 2);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, 2);
    let mac = [2, 0, 0, 0, 0x10, u8::try_from(port).unwrap()];
    let network_instance = match net {
        6 => Some("internet"),
        4 | 7 => Some("ims"),
        _ => None,
    };
    OracleInterface {
        role,
        port,
        vlan,
        mac,
        mtu_bytes,
        v4: (v4, 24),
        v6: (v6, 64),
        network_instance,
        local_switching: true,
        tcp_mss: TcpMss::Off,
    }
}

/// One of the ways in which N3 and N6 share ports.
pub fn layout(rng: &mut StdRng, seed: u64) -> WorldLayout {
    use OracleRole::{N3, N6, N9};
    let mtu = if one_chance_in(rng, 3) { 1400 } else { 1500 };
    let mut interfaces = match rng.random_range(0..5) {
        0 => vec![interface(N3, 0, 0, 3, mtu), interface(N6, 1, 0, 6, 1500)],
        1 => vec![interface(N3, 0, 10, 3, mtu), interface(N6, 0, 20, 6, mtu)],
        2 => vec![
            interface(N6, 1, 0, 6, 1500),
            interface(N3, 0, 30, 3, mtu),
            interface(N6, 1, 7, 7, 1500),
        ],
        3 => vec![
            interface(N3, 0, 0, 3, mtu),
            interface(N9, 2, 0, 9, 1500),
            interface(N6, 1, 0, 6, 1500),
            interface(N3, 0, 40, 4, mtu),
            interface(N6, 3, 0, 7, 1500),
        ],
        _ => vec![interface(N3, 0, 0, 3, mtu), interface(N6, 0, 0, 6, mtu)],
    };
    let local_switching = !one_chance_in(rng, 5);
    interfaces.iter_mut().for_each(|known| known.local_switching = local_switching);
    // Not drawn: what else a seed means stays.
    for known in interfaces.iter_mut().filter(|known| known.role == N6) {
        known.tcp_mss = match (seed / 2 % 4, known.network_instance) {
            (1, _) | (2, Some("internet")) => TcpMss::Clamp,
            (3, _) => TcpMss::AtMost(1000),
            _ => TcpMss::Off,
        };
    }
    let at = |net: u8| interfaces.iter().position(|i| i.v4.0.octets()[2] == net);
    let mut routes = Vec::new();
    let mut route = |interface: Option<usize>, prefix: &str, len: u8, gateway: &str| {
        if let Some(interface) = interface {
            routes.push(OracleRoute {
                interface,
                prefix: (addr(prefix), len),
                gateway: addr(gateway),
            });
        }
    };
    route(at(3), "10.99.0.0", 16, "10.0.3.254");
    route(at(3), "2001:db8:99::", 48, "2001:db8:3::fe");
    route(at(4), "0.0.0.0", 0, "10.0.4.1");
    route(at(9), "10.99.0.0", 16, "10.0.9.254");
    if one_chance_in(rng, 5) {
        route(at(6), "8.0.0.0", 8, "10.0.6.1");
        route(at(6), "2001:db8:8::", 48, "2001:db8:6::1");
    } else {
        route(at(6), "0.0.0.0", 0, "10.0.6.1");
        route(at(6), "::", 0, "2001:db8:6::1");
    }
    route(at(7), "8.8.8.0", 24, "10.0.7.1");
    route(at(7), "0.0.0.0", 0, "10.0.7.1");
    let workers = rng.random_range(1..=3);
    let roles = match rng.random_range(0..4) {
        0 => Roles::pipeline(rng.random_range(1..=2), workers),
        // With several Rx/Tx threads the order of their packets is undefined.
        1 => Roles::event_driven(1, workers),
        _ => Roles::run_to_completion(workers),
    };
    let qos = QosPolicy::default();
    let queues = event_queues(rng, roles);
    // Not drawn: what else a seed means stays.
    let copied = OracleCopied { dscp: seed % 3 == 1, ecn: seed % 2 == 1 };
    WorldLayout { interfaces, routes, copied, roles, queues, sessions_max: 16, qos, seed }
}

/// Queues of an event scheduler that keep the order of packets.
fn event_queues(rng: &mut StdRng, roles: Roles) -> EventQueues {
    let mut kind = || match rng.random_range(0..3) {
        0 => ScheduleType::Ordered,
        _ => ScheduleType::Atomic,
    };
    let mut schedules = [kind(), kind(), kind(), kind()];
    let rx = kind();
    let stages = [1, 2, 4][rng.random_range(0..3)];
    // The stage that enforces.
    schedules[stages / 4] = ScheduleType::Atomic;
    let queues = EventQueues::new(&schedules[..stages], [0; STAGES]).unwrap();
    let queues = queues.with_tx(roles.rx_tx());
    let queues = if rng.random() { queues.with_rx(Some(rx)) } else { queues };
    if rng.random() { queues.with_timers(roles.workers()) } else { queues }
}

/// One N3 interface on port 0 and one N6 interface on port 1, of an MTU of 1500 bytes, with default
/// routes on N6. One worker.
#[must_use]
pub fn plain_layout(n3_vlan: u16) -> WorldLayout {
    let route = |prefix: &str, gateway: &str| OracleRoute {
        interface: 1,
        prefix: (addr(prefix), 0),
        gateway: addr(gateway),
    };
    WorldLayout {
        interfaces: vec![
            interface(OracleRole::N3, 0, n3_vlan, 3, 1500),
            interface(OracleRole::N6, 1, 0, 6, 1500),
        ],
        routes: vec![route("0.0.0.0", "10.0.6.1"), route("::", "2001:db8:6::1")],
        roles: Roles::run_to_completion(1),
        copied: OracleCopied::default(),
        queues: EventQueues::default(),
        sessions_max: 64,
        qos: QosPolicy::default(),
        seed: 1,
    }
}

/// A session like those of real control planes: UE 10.45.0.`host` and 2001:db8:45:`host`::/64, one
/// TEID chosen by us, QFI 9 downlink, tunnel 0x100 + `host` to the peer.
#[must_use]
pub fn plain_session(host: u8, peer: &str) -> SessionChange {
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0x45, host.into(), 0, 0, 0, 0);
    let addresses = UeAddresses {
        v4: Some(Ipv4Addr::new(10, 45, 0, host)),
        v6: Ipv6Prefix::containing(v6, 64),
    };
    let pdr = |id: u16, is_uplink: bool| PdrSpec {
        id: PdrId(id),
        precedence: Precedence(100),
        pdi: PdiSpec {
            source: if is_uplink { SourceInterface::Access } else { SourceInterface::Core },
            traffic_endpoints: Vec::new(),
            interface_type: None,
            further_ues: Vec::new(),
            framed_routes: Vec::new(),
            choose_ue: None,
            f_teid: is_uplink.then_some(FTeidSpec::Choose { v4: true, v6: true, choose_id: None }),
            network_instance: None,
            ue: Some(UeMatch {
                addresses,
                side: if is_uplink { UeSide::Source } else { UeSide::Destination },
            }),
            qfis: Vec::new(),
            sdf: Vec::new(),
            application: None,
        },
        outer_header_removal: is_uplink.then_some(HeaderRemoval::GtpuUdpIp),
        container_deletion: false,
        far: Some(FarId(id.into())),
        qers: vec![QerId(1)],
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    };
    let far = |id: u32, tunnel: Option<GtpuTunnel>| Far {
        bar: None,
        id: FarId(id),
        action: ApplyAction::FORW,
        forwarding: Some(Forwarding {
            outer_header_creation: tunnel.map(HeaderCreation::Gtpu),
            ..Forwarding::new(match tunnel {
                Some(_) => DestinationInterface::Access,
                None => DestinationInterface::Core,
            })
        }),
        duplicating: Vec::new(),
    };
    let gnb = GtpuTunnel { teid: Teid(0x100 + u32::from(host)), addr: addr(peer) };
    SessionChange {
        create_pdrs: vec![pdr(1, true), pdr(2, false)],
        create_fars: vec![far(1, None), far(2, Some(gnb))],
        create_qers: vec![Qer { id: QerId(1), qfi: Qfi::new(9), ..Qer::default() }],
        ..SessionChange::default()
    }
}

/// A world in which all stations but the silent ones are resolved.
pub fn world(layout: &WorldLayout) -> World {
    with_stations(layout, World::new(layout))
}

/// `world` after a restart, with the same stations.
#[must_use]
pub fn restarted(layout: &WorldLayout, world: World) -> World {
    with_stations(layout, world.restarted(layout))
}

/// [`world`] with the XDP program on all ports.
///
/// # Errors
/// Why there is no program.
pub fn world_with_xdp(layout: &WorldLayout) -> Result<World, adit_xdp::XdpError> {
    Ok(with_stations(layout, World::with_xdp(layout)?))
}

/// [`world`] with a card in memory on all ports.
pub fn world_with_card(layout: &WorldLayout, settings: CardSettings) -> World {
    with_stations(layout, World::with_card(layout, settings))
}

fn with_stations(layout: &WorldLayout, mut world: World) -> World {
    for station in STATIONS.map(addr) {
        for at in 0..layout.interfaces.len() {
            let OracleInterface { v4, v6, .. } = layout.interfaces[at];
            let (own, len) =
                if station.is_ipv4() { (v4.0.into(), v4.1) } else { (v6.0.into(), v6.1) };
            if crate::oracle::in_prefix(station, own, len) {
                world.learn(at, station);
            }
        }
    }
    world
}
