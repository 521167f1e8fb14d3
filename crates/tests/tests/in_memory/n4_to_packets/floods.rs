//! Hostile hosts: 50,000 packets a second of each kind together with 10,000 of users. No user
//! packet is lost, every heartbeat is answered, and no path fails.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{NodeConfig, PathConfig, PathState, PeerPolicy};
use adit_pfcp::message::HeartbeatResponse;
use adit_pfcp::{Message, ie::RecoveryTimeStamp};
use adit_pktio::PacketBuf;
use adit_testkit::packet::PacketBuilder;
use adit_types::{MacAddr, Nanos, PortId, Teid};
use adit_wire::arp::{ArpOperation, ArpPacket, ArpStation};
use adit_wire::gtpu::{ErrorIndication, GtpuMessageType, emit_error_indication};

use super::{
    GATEWAY, MACS, PEER, UpfInMemory, accepted, downlink, is_error_indication, smf, uplink,
};

const N3_PORT: PortId = PortId(0);
const N6_PORT: PortId = PortId(1);

/// Two steps of the worker in each millisecond, for three seconds.
const MILLISECONDS: u32 = 3000;
const FLOOD_PER_STEP: u32 = 25;
const USER_PER_STEP: usize = 5;

/// The packets of a hostile host.
enum Hostile {
    Frame(PortId, Vec<u8>),
    Datagram(SocketAddr, Vec<u8>),
}

fn config() -> NodeConfig {
    let (echo_interval, t3) = (Nanos::from_millis(500), Nanos::from_millis(200));
    let policy =
        PeerPolicy { requests_per_s_max: 1000, requests_burst: 1000, ..PeerPolicy::default() };
    NodeConfig {
        paths: PathConfig { echo_interval, t3, n3: 3 },
        heartbeat_interval: Nanos::from_millis(500),
        sessions_outlive_peer: Nanos(0),
        t1: Nanos::from_millis(200),
        policy,
        ..smf::config()
    }
}

fn from(peer: Ipv4Addr) -> PacketBuilder {
    PacketBuilder::ethernet(MACS[0], PEER).ipv4(peer, smf::N3)
}

fn stranger(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0bad_0000 | n)
}

fn recovery(started: u32) -> Vec<u8> {
    [&[231, 0, 4][..], &started.to_be_bytes()].concat()
}

/// A UPF with a session, its gNB and SMF, and the packets that they received.
struct FloodTest {
    upf: UpfInMemory,
    script: smf::SessionScript,
    teid: Teid,
    heartbeats: u32,
    echoes: u32,
    user: usize,
}

impl FloodTest {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: NodeConfig) -> Self {
        let mut upf = UpfInMemory::with(config);
        upf.associate();
        let script = smf::SessionScript::new(0x11, 1);
        let (_, teid) = accepted(&upf.ask(&smf::establish(2, &script)));
        upf.settle();
        Self { upf, script, teid, heartbeats: 0, echoes: 0, user: 0 }
    }

    /// A turn of the control thread; the SMF answers heartbeats.
    fn control(&mut self) {
        let now = self.upf.now;
        let mut sent = self.upf.control.turn(now);
        while let Some(command) = self.upf.control.node.poll_command() {
            self.upf.control.commands[0].push(command).unwrap();
        }
        while let Some(transmit) = sent.pop() {
            let sequence = smf::raw(&transmit.bytes).header.sequence;
            match smf::decode(&transmit.bytes) {
                Message::HeartbeatResponse(_) => {
                    self.heartbeats += u32::from(transmit.to == smf::smf(10));
                }
                Message::HeartbeatRequest(_) => {
                    let body = HeartbeatResponse::new(RecoveryTimeStamp(smf::SMF_STARTED));
                    let bytes = smf::encode(None, sequence, &body);
                    self.upf.control.node.handle_datagram(now, transmit.to, &bytes);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A step of the worker; stations answer ARP and the gNB answers Echo Requests.
    fn step(&mut self) {
        self.upf.worker.step(self.upf.now, &mut self.upf.io);
        for port in [N3_PORT, N6_PORT] {
            for sent in self.upf.io.take_sent(port) {
                let frame = sent.data();
                let ether_type = u16::from_be_bytes([frame[12], frame[13]]);
                let is_gtpu = ether_type == 0x0800 && port == N3_PORT && frame[36..38] == [8, 104];
                match (ether_type, frame.get(43)) {
                    (0x0806, _) => self.upf.answer_arp(port, frame),
                    (0x86dd, _) => {}
                    _ if is_error_indication(frame) => {}
                    (_, Some(1)) if is_gtpu => self.answer_echo(frame),
                    (_, Some(2)) if is_gtpu => {
                        self.echoes += u32::from(frame[30..34] == smf::GNB.octets())
                    }
                    _ => self.take_user_packet(port, frame),
                }
            }
        }
    }

    fn answer_echo(&mut self, request: &[u8]) {
        let sequence = u16::from_be_bytes([request[50], request[51]]);
        let answer =
            from(smf::GNB).gtpu_message(GtpuMessageType::ECHO_RESPONSE, 0).sequence(sequence);
        self.upf.io.inject(N3_PORT, &answer.payload(&recovery(100)).build());
    }

    /// Checks that user packets go to the original stations.
    fn take_user_packet(&mut self, port: PortId, frame: &[u8]) {
        let station: IpAddr = if port == N3_PORT { smf::GNB.into() } else { GATEWAY.into() };
        assert_eq!(frame[..6], super::station_mac(station), "diverted");
        self.user += 1;
    }
}

/// Three seconds of a flood.
fn survive(flood: impl Fn(u32) -> Hostile) {
    let mut scene = FloodTest::new();
    let (mut n, mut asked) = (0, 0);
    for at in 0..MILLISECONDS {
        if at % 100 == 0 {
            asked += 1;
            let own = smf::heartbeat(3 + at / 100, smf::SMF_STARTED);
            scene.upf.control.node.handle_datagram(scene.upf.now, smf::smf(10), &own);
            let request =
                from(smf::GNB).gtpu_message(GtpuMessageType::ECHO_REQUEST, 0).sequence(77);
            scene.upf.io.inject(N3_PORT, &request.build());
        }
        for _ in 0..2 {
            scene.upf.now += Nanos(500_000);
            for _ in 0..FLOOD_PER_STEP {
                n += 1;
                match flood(n) {
                    Hostile::Frame(port, frame) => scene.upf.io.inject(port, &frame),
                    Hostile::Datagram(from, bytes) => {
                        scene.upf.control.node.handle_datagram(scene.upf.now, from, &bytes);
                    }
                }
            }
            for user in 0..USER_PER_STEP {
                match user % 2 {
                    0 => scene.upf.io.inject(N3_PORT, &uplink(&scene.script, scene.teid)),
                    _ => scene.upf.io.inject(N6_PORT, &downlink(&scene.script)),
                }
            }
            scene.step();
        }
        scene.control();
    }
    scene.step();
    let offered = MILLISECONDS as usize * 2 * USER_PER_STEP;
    assert_eq!(scene.user, offered, "user packets");
    assert_eq!((scene.heartbeats, scene.echoes), (asked, asked), "answers to the SMF and the gNB");
    let scalars = scene.upf.control.node.counters().scalars;
    assert_eq!((scalars.path_failures, scalars.gtpu_peers_restarted), (0, 0));
    assert_eq!(scalars.associations_down, 0);
    let path = scene.upf.control.node.paths().next().unwrap();
    assert_eq!((path.peer, path.state), (IpAddr::V4(smf::GNB), PathState::Up));
    assert!((5..=8).contains(&path.responses), "{path:?}");
    assert!(scene.upf.control.publisher.snapshot().identity_holds());
}

fn error_indication(peer: Ipv4Addr, teid: u32) -> Hostile {
    let mut octets = [0; 64];
    let indication = ErrorIndication { teid: Teid(teid), peer: peer.into() };
    let len = emit_error_indication(&mut octets, &indication, None).unwrap();
    Hostile::Frame(N3_PORT, from(peer).udp(2152, 2152).payload(&octets[..len]).build())
}

#[test]
fn error_indications_of_strangers_and_in_the_gnbs_name_harm_nobody() {
    survive(|n| error_indication(stranger(n), n));
    survive(|n| error_indication(smf::GNB, n));
}

#[test]
fn forged_echo_messages_harm_nobody() {
    survive(|n| {
        let kind =
            if n % 2 == 0 { GtpuMessageType::ECHO_RESPONSE } else { GtpuMessageType::ECHO_REQUEST };
        let [.., high, low] = (n / 2).wrapping_mul(40_503).to_be_bytes();
        let echo = from(smf::GNB).gtpu_message(kind, 0).sequence(u16::from_be_bytes([high, low]));
        // From another station, to distinguish answers to it from those to the gNB.
        let echo = match kind {
            GtpuMessageType::ECHO_RESPONSE => echo,
            _ => from(stranger(n)).gtpu_message(kind, 0).sequence(1),
        };
        Hostile::Frame(N3_PORT, echo.payload(&recovery(200 + n)).build())
    });
}

#[test]
fn packets_of_unknown_tunnels_harm_nobody() {
    survive(|n| {
        let packet = from(stranger(n)).gtpu(0xdead_0000 | n).ipv4("10.9.9.9", "8.8.8.8");
        Hostile::Frame(N3_PORT, packet.udp(1, 2).build())
    });
}

#[test]
fn forged_arp_diverts_nothing() {
    survive(|n| {
        let [.., high, low] = n.to_be_bytes();
        let mac = MacAddr([2, 0xee, 0, 0, high, low]);
        let (port, claimed, own) = match n % 2 {
            0 => (N3_PORT, smf::GNB, smf::N3),
            _ => (N6_PORT, GATEWAY, Ipv4Addr::new(10, 0, 6, 2)),
        };
        let target = if n % 4 < 2 { own } else { claimed };
        let to = MACS[usize::from(port.0)];
        let mut payload = [0; 28];
        let sender = ArpStation { mac, addr: claimed };
        let target = ArpStation { mac: to, addr: target };
        ArpPacket::new(ArpOperation::REPLY, sender, target).emit(&mut payload).unwrap();
        let frame = PacketBuilder::ethernet(to, mac).ether_type(0x0806).payload(&payload);
        Hostile::Frame(port, frame.build())
    });
}

#[test]
fn heartbeats_in_the_smfs_name_and_of_strangers_harm_nobody() {
    survive(|n| {
        let from = match n % 2 {
            0 => SocketAddr::new(smf::smf(10).ip(), 20_000 + u16::try_from(n % 1000).unwrap()),
            _ => SocketAddr::new(stranger(n).into(), 8805),
        };
        Hostile::Datagram(from, smf::heartbeat(n % 1000, smf::SMF_STARTED))
    });
}

/// ARP as the gateway's successor sends it once, from its own station to all.
fn announcement(mac: MacAddr) -> Vec<u8> {
    let mut payload = [0; 28];
    let announced = ArpStation { mac, addr: GATEWAY };
    let target = ArpStation { mac: MacAddr::default(), addr: GATEWAY };
    ArpPacket::new(ArpOperation::REQUEST, announced, target).emit(&mut payload).unwrap();
    PacketBuilder::ethernet(MacAddr::BROADCAST, mac).ether_type(0x0806).payload(&payload).build()
}

/// A failover of VRRP without a virtual link-layer address.
#[test]
fn gateway_that_moved_is_followed_after_a_second_without_a_lost_packet() {
    let FloodTest { mut upf, script, teid, .. } = FloodTest::with(smf::config());
    let successor = MacAddr([2, 0xfa, 0, 0, 0, 2]);
    upf.alive.retain(|&station| station != GATEWAY);
    upf.io.inject(N6_PORT, &announcement(successor));
    let mut stations = Vec::new();
    for _ in 0..150 {
        upf.io.inject(N3_PORT, &uplink(&script, teid));
        let (_, user) = upf.turn();
        stations.extend(
            user.iter()
                .filter(|frame| frame[26..30] == script.ue.octets())
                .map(|frame| MacAddr([frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]])),
        );
    }
    let former = MacAddr(super::station_mac(GATEWAY.into()));
    let until = stations.iter().position(|&station| station != former).unwrap();
    // Ten milliseconds each.
    assert!((95..=110).contains(&until), "{until}");
    assert!(stations[until..].iter().all(|&station| station == successor));
    assert_eq!(stations.len(), 150);
}
